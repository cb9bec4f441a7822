//! `adopt`: writes our mark on one instance that carries none, or another installation's.
//!
//! Must not know any backend. Invariant: exactly what was shown is written, and nothing before somebody
//! said yes.

use std::time::Duration;

use clap::Args;
use ipnet::IpNet;
use serde_json::json;

use super::{Configured, Exit, Output, Streams, hcl, work};
use crate::contract::spec::PasswordFact;
use crate::contract::{
    AdoptRequest, Adoption, ErrorKind, Fact, Facts, Incarnation, Installation, InstanceId,
};
use crate::plugin::diagnostics::{Diagnostic, Diagnostics};
use crate::terraform::failure;
use crate::terraform::session::Open;
use crate::transport::call::{Limits, Unsuccessful, retry};

/// The longest that showing or writing may take.
const BUDGET: Duration = Duration::from_secs(120);

/// The arguments.
#[derive(Debug, Args)]
pub(super) struct Adopt {
    /// The instance: the backend's name, a slash, and the backend's own id
    #[arg(value_name = "ID", value_parser = parse::<InstanceId>)]
    id: InstanceId,
    #[command(flatten)]
    configured: Configured,
    /// Take it from this installation: after the installation was renamed
    #[arg(long, value_name = "OLD", value_parser = parse::<Installation>)]
    from_installation: Option<Installation>,
    /// Its port, where the instance does not show it
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// A network whose clients may use it, where the instance does not show them; repeatable
    #[arg(long = "allowed-cidr", value_name = "CIDR")]
    allowed_cidrs: Vec<IpNet>,
    /// A port that clients may CONNECT to, where the instance does not show them; repeatable
    #[arg(long = "allowed-port", value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    allowed_ports: Vec<u16>,
    /// A destination that clients may reach, where the instance does not show them; repeatable
    #[arg(long = "allowed-domain", value_name = "DOMAIN")]
    allowed_domains: Vec<String>,
    /// The user that it asks for, where the instance does not show it
    #[arg(long, value_name = "NAME")]
    username: Option<String>,
    /// The `password_wo_version` that its configuration will have
    #[arg(long, value_name = "VERSION")]
    password_version: Option<String>,
    /// Write without asking
    #[arg(long)]
    yes: bool,
    /// How to print what was written
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

fn parse<T: std::str::FromStr>(text: &str) -> Result<T, String>
where
    T::Err: std::fmt::Display,
{
    text.parse().map_err(|error: T::Err| error.to_string())
}

impl Adopt {
    fn stated(&self) -> Facts {
        fn some<T: Clone>(values: &[T]) -> Option<Vec<T>> {
            (!values.is_empty()).then(|| values.to_vec())
        }
        Facts {
            port: self.port,
            allowed_cidrs: some(&self.allowed_cidrs),
            allowed_ports: some(&self.allowed_ports),
            allowed_domains: some(&self.allowed_domains),
            username: self.username.clone(),
            password: self.password_version.clone().map(PasswordFact::Version),
            ..Facts::default()
        }
    }
}

pub(super) fn run(arguments: &Adopt, streams: &mut Streams<'_>) -> Exit {
    work::run(&arguments.configured, streams, async |work, streams| {
        let open = work.backend(&arguments.id.backend)?;
        let mut request = AdoptRequest {
            id: arguments.id.native.clone(),
            installation: work.installation.clone(),
            from: arguments.from_installation.clone(),
            stated: arguments.stated(),
            incarnation: Incarnation::fresh(),
            write: None,
        };
        let asked = ask(open, &request, arguments);
        let shown = work::patiently(streams, "Looking at the instance", asked).await?;
        if shown.unknown.contains(&Fact::Port) {
            return Err(
                Diagnostic::error(format!("The port of {} cannot be found out", arguments.id))
                    .detail("A proxy's port follows from nothing else. State it with --port.")
                    .into(),
            );
        }
        streams.remark(&preview(&arguments.id, &shown));
        work::confirm(streams, "Write it?", arguments.yes)?;
        request.write = Some(shown.instance.mark.clone());
        let asked = ask(open, &request, arguments);
        let written = work::patiently(streams, "Writing the mark", asked).await?;
        streams.print(&match arguments.output {
            Output::Text => text(&arguments.id, &written),
            Output::Json => json(&arguments.id, &written),
        });
        Ok::<_, Diagnostics>(Exit::Done)
    })
}

async fn ask(open: &Open, request: &AdoptRequest, arguments: &Adopt) -> Result<Adoption, Diagnostics> {
    let limits = Limits::after(BUDGET);
    let id = arguments.id.to_string();
    retry(&limits, || open.backend.adopt(request))
        .await
        .map_err(|unsuccessful| match unsuccessful {
            Unsuccessful::Failed(error) if error.kind() == ErrorKind::NotFound => {
                Diagnostic::error(format!("There is no {id}"))
                    .detail(failure::sentence(&failure::chain(&error)))
                    .into()
            }
            Unsuccessful::Failed(error) => failure::diagnostic(&error, "Cannot adopt", &id).into(),
            Unsuccessful::Interrupted { by, last, .. } => {
                let why = last.map_or_else(|| by.to_string(), |error| failure::chain(&error));
                Diagnostic::error(format!("Cannot adopt {id}"))
                    .detail(failure::sentence(&why))
                    .into()
            }
        })
}

/// What would be written, and what it leaves out.
fn preview(id: &InstanceId, shown: &Adoption) -> String {
    let mark = &shown.instance.mark;
    let facts = serde_json::to_value(&mark.facts).unwrap_or_default();
    let facts = facts.as_object().into_iter().flatten();
    let facts: String = facts
        .map(|(name, value)| format!("  {name} = {value}\n"))
        .collect();
    let unknown: Vec<_> = shown.unknown.iter().map(|fact| fact.as_str()).collect();
    let unknown = if unknown.is_empty() {
        String::new()
    } else {
        format!(
            "Not known, and left out of it: {}. A configuration that leaves them out plans nothing; one that gives them replaces the proxy, unless they are stated here.\n",
            unknown.join(", ")
        )
    };
    format!(
        "On {id}, this mark will be written:\n  installation = {}\n  namespace = {}\n  name = {}\n  uid = {}\n  incarnation = {}\n{facts}{unknown}",
        mark.key.installation, mark.key.namespace, mark.key.name, mark.uid, mark.incarnation,
    )
}

fn text(id: &InstanceId, written: &Adoption) -> String {
    let name = &written.instance.mark.key.name;
    format!(
        "{id} belongs to the installation {} now. Unless a state holds it already, import it next:\n\nimport {{\n  to = egress_proxy.{name}\n  id = {}\n}}\n",
        written.instance.mark.key.installation,
        hcl::quoted(&id.to_string())
    )
}

fn json(id: &InstanceId, written: &Adoption) -> String {
    let unknown: Vec<_> = written.unknown.iter().map(|fact| fact.as_str()).collect();
    format!(
        "{:#}",
        json!({
            "id": id.to_string(),
            "mark": written.instance.mark,
            "unknown": unknown,
        })
    )
}

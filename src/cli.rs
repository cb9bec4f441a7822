//! The command line of the binary: thin; it parses, calls and prints.
//!
//! Must not decide anything that Terraform's side decides too. Invariants: stdout carries results
//! alone, everything said beside them goes to stderr; the exit codes are those of [`Exit`].

mod adopt;
mod gc;
mod hcl;
mod health;
mod import_by_tag;
mod profiles;
mod schema_json;
mod states;
mod table;
mod work;

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;

use crate::config::{Config, Environment};
use crate::contract::observe::Meter;
use crate::plugin::diagnostics::Diagnostics;
use crate::plugin::log::{self, Hclog};
use crate::plugin::{ServeError, ServeOptions};
use crate::registry;
use crate::telemetry::{SpanIds, Telemetry};
use crate::terraform::EgressProvider;

/// Where a registry has the provider.
pub const SOURCE_ADDRESS: &str = "egress-proxies/egress";

/// The name in log variables such as `TF_LOG_PROVIDER_EGRESS`.
const PROVIDER_NAME: &str = "egress";

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exit {
    /// Done; healthy.
    Done,
    /// It could not be done, or not wholly.
    Error,
    /// Something was found: unhealthy.
    Found,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Done => Self::SUCCESS,
            Exit::Error => Self::from(1),
            Exit::Found => Self::from(2),
        }
    }
}

/// Egress proxies for Terraform and OpenTofu: the provider, and its tools for the command line.
#[derive(Debug, Parser)]
#[command(name = "terraform-provider-egress", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List what carries the installation's mark and is in no given state
    ImportByTag(import_by_tag::ImportByTag),
    /// Collect what carries the installation's mark and is in no given state
    Gc(gc::Gc),
    /// Write the installation's mark on one instance that carries none, or another one's
    Adopt(Box<adopt::Adopt>),
    /// Ask every backend whether it can be used (exit code 2: one cannot)
    Health {
        #[command(flatten)]
        configured: Configured,
        /// How to print the reports
        #[arg(long, value_enum, default_value_t)]
        output: Output,
    },
    /// Print the schema, as `terraform providers schema -json` does
    Schema,
    /// Print how the kinds of backend differ
    Profiles {
        /// How to print the table
        #[arg(long, value_enum, default_value_t)]
        output: TableOutput,
    },
    /// Print the version
    Version,
}

/// Which backends a command works on. It cannot see the provider blocks of a configuration.
#[derive(Debug, Args)]
struct Configured {
    /// The configuration file (default: the variable EGRESS_CONFIG; without either, one local
    /// backend); provider blocks cannot be seen from here
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Only this backend
    #[arg(long, value_name = "NAME")]
    backend: Option<String>,
    /// Who owns what is created (default: the variable EGRESS_INSTALLATION, then the file)
    #[arg(long, value_name = "NAME")]
    installation: Option<String>,
}

impl Configured {
    fn read(&self) -> Result<Config, Diagnostics> {
        Config::from_file(
            self.config.as_deref(),
            self.installation.as_deref(),
            registry::kinds(),
            &Environment::OfProcess,
        )
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people
    #[default]
    Text,
    /// For programs
    Json,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum TableOutput {
    /// For people
    #[default]
    Text,
    /// For programs
    Json,
    /// For documentation
    Markdown,
}

/// Where results and remarks go.
struct Streams<'a> {
    out: &'a mut (dyn Write + Send),
    err: &'a mut (dyn Write + Send),
}

impl Streams<'_> {
    /// A result. That nobody reads it any more is no error of ours.
    fn print(&mut self, text: &str) {
        let _ = writeln!(self.out, "{}", text.trim_end());
    }

    /// A remark.
    fn remark(&mut self, text: &str) {
        let _ = writeln!(self.err, "{}", text.trim_end());
    }

    fn problems(&mut self, problems: &Diagnostics) {
        for problem in problems {
            self.remark(&problem.to_string());
        }
    }
}

/// Runs what the arguments ask for: the plugin without any, else a command.
#[must_use]
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let (mut out, mut err) = (std::io::stdout(), std::io::stderr());
    let mut streams = Streams {
        out: &mut out,
        err: &mut err,
    };
    let exit = match arguments.get(1..).unwrap_or_default() {
        [] => serve(false, &mut streams),
        // As plugin hosts and their tools spell it.
        [flag] if flag == "-debug" || flag == "--debug" => serve(true, &mut streams),
        _ => match Arguments::try_parse_from(&arguments) {
            Ok(arguments) => execute(arguments.command, &mut streams),
            Err(mut error) => {
                hint(&mut error);
                // Help and version are answers, everything else a mistake.
                let _ = error.print();
                if error.use_stderr() {
                    Exit::Error
                } else {
                    Exit::Done
                }
            }
        },
    };
    exit.into()
}

/// Points at `--output` where somebody asked for a form as other tools spell it.
fn hint(error: &mut clap::Error) {
    let form = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(flag)) if error.kind() == ErrorKind::UnknownArgument => {
            ["json", "text", "markdown"]
                .into_iter()
                .find(|form| flag.trim_start_matches('-') == *form)
        }
        _ => None,
    };
    if let Some(form) = form {
        let way_out = format!("use `--output {form}`");
        error.insert(
            ContextKind::Suggested,
            ContextValue::StyledStrs(vec![way_out.into()]),
        );
    }
}

fn serve(debug: bool, streams: &mut Streams<'_>) -> Exit {
    let options = ServeOptions {
        debug,
        provider_address: SOURCE_ADDRESS.to_owned(),
    };
    let served = match crate::plugin::runtime() {
        Ok(runtime) => runtime.block_on(observed(async |meter| {
            let provider = EgressProvider::new(Environment::OfProcess, meter);
            crate::plugin::serve(provider, options).await
        })),
        Err(error) => {
            streams.remark(&format!("The provider cannot start threads: {error}"));
            return Exit::Error;
        }
    };
    match served {
        Ok(()) => Exit::Done,
        Err(ServeError::NotStartedByHost) => {
            streams.remark(&about());
            Exit::Error
        }
        Err(error) => {
            let mut text = error.to_string();
            let mut cause = std::error::Error::source(&error);
            while let Some(next) = cause {
                text = format!("{text}: {next}");
                cause = next.source();
            }
            streams.remark(&text);
            Exit::Error
        }
    }
}

/// Does `work` with logs to the host, and with telemetry where the environment asks for it.
async fn observed<T>(work: impl AsyncFnOnce(Arc<dyn Meter>) -> T) -> T {
    let log = Hclog::new(PROVIDER_NAME, std::io::stderr).with_ids(SpanIds::fields);
    // Nobody else in this process installs a subscriber; without one there is nothing to see, and
    // the work is done all the same.
    let log = log.with_filter(discreet(log::filter(PROVIDER_NAME)));
    let telemetry = Telemetry::install(log).unwrap_or_default();
    let output = work(telemetry.meter()).await;
    telemetry.flush().await;
    output
}

/// Without what a backend's client logs by itself: it quotes whole answers, and one may hold a secret.
fn discreet(filter: Targets) -> Targets {
    filter.with_targets(["kube_client", "kube_core"].map(|target| (target, LevelFilter::OFF)))
}

/// What a person is told who starts the binary by hand.
fn about() -> String {
    let help = Arguments::command().render_help();
    format!(
        "This is the provider {SOURCE_ADDRESS} {version}, a plugin that Terraform and OpenTofu start by themselves.\n\
         To use it, name it in a configuration and run `terraform init`:\n\n\
         terraform {{\n  required_providers {{\n    egress = {{\n      source = \"{SOURCE_ADDRESS}\"\n    }}\n  }}\n}}\n\n\
         To use this very file instead of one from a registry, put its folder into the CLI configuration (~/.terraformrc):\n\n\
         provider_installation {{\n  dev_overrides {{\n    \"{SOURCE_ADDRESS}\" = \"/path/to/the/folder\"\n  }}\n  direct {{}}\n}}\n\n\
         Started by hand it has commands of its own, and -debug to attach a debugger or a test:\n\n{help}",
        version = env!("CARGO_PKG_VERSION"),
    )
}

fn execute(command: Command, streams: &mut Streams<'_>) -> Exit {
    match command {
        Command::ImportByTag(arguments) => import_by_tag::run(&arguments, streams),
        Command::Gc(arguments) => gc::run(&arguments, streams),
        Command::Adopt(arguments) => adopt::run(&arguments, streams),
        Command::Health { configured, output } => health::run(&configured, output, streams),
        Command::Schema => {
            streams.print(&schema_json::document());
            Exit::Done
        }
        Command::Profiles { output } => {
            streams.print(&profiles::render(registry::kinds(), output));
            Exit::Done
        }
        Command::Version => {
            streams.print(&format!(
                "terraform-provider-egress {}",
                env!("CARGO_PKG_VERSION")
            ));
            Exit::Done
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_form_that_other_tools_spell_otherwise_is_pointed_at() {
        for (arguments, told) in [
            (["x", "profiles", "--json"], Some("--output json")),
            (["x", "health", "--json"], Some("--output json")),
            (["x", "profiles", "--markdown"], Some("--output markdown")),
            (["x", "profiles", "--yaml"], None),
        ] {
            let mut error = Arguments::try_parse_from(arguments).expect_err("no such flag");
            hint(&mut error);
            let text = error.to_string();
            assert_eq!(text.contains("--output"), told.is_some(), "{text}");
            assert!(told.is_none_or(|told| text.contains(told)), "{text}");
        }
    }

    #[test]
    fn a_client_that_quotes_whole_answers_is_not_heard() {
        let everything = discreet(Targets::new().with_default(LevelFilter::TRACE));
        let error = tracing::Level::ERROR;
        assert!(everything.would_enable("egress::backend::kubernetes", &error));
        for target in ["kube_client::client", "kube_core::response"] {
            assert!(!everything.would_enable(target, &error), "{target}");
        }
    }

    #[test]
    fn a_person_is_told_what_it_is_and_how_to_use_it() {
        let about = about();
        for word in [
            SOURCE_ADDRESS,
            "required_providers",
            "dev_overrides",
            "health",
            "-debug",
        ] {
            assert!(about.contains(word), "{word} is missing in:\n{about}");
        }
    }
}

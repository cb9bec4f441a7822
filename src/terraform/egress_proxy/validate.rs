//! Checks of a configuration that need nothing but itself.
//!
//! Must not know any backend. Invariant: an unknown value is no problem; a known one that cannot be
//! right is, with its path, however many there are.

use std::str::FromStr;

use super::given::{Given, Versions, check_combinations};
use super::schema::{
    ACCESS, BACKEND, CLOUD_INIT_WO, LABELS, NAME, NAMESPACE, PASSWORD_WO, TIMEOUTS, WAIT_FOR,
};
use super::wait::WaitFor;
use crate::contract::{BackendName, Namespace, ProxyName};
use crate::plugin::diagnostics::{Diagnostic, Diagnostics, Path, sentence};
use crate::plugin::provider::ClientCapabilities;
use crate::plugin::value::Value;
use crate::terraform::timeouts::{self, Timeout};

/// What our own labels and annotations begin with.
const RESERVED_LABEL: &str = "egress-proxy";

/// Checks what the user wrote.
pub(super) fn validate(config: &Value, client: ClientCapabilities) -> Diagnostics {
    let mut problems = Diagnostics::new();
    if !client.write_only_attributes_allowed {
        refuse_write_only(config, &mut problems);
    }
    check(config, Versions::WithValues, &mut problems);
    problems
}

/// The checks that a plan repeats, because what was unknown to the validation is known by then.
pub(super) fn check(config: &Value, versions: Versions<'_>, problems: &mut Diagnostics) -> Given {
    let root = Path::root();
    parses::<ProxyName>(config, NAME, problems);
    parses::<Namespace>(config, NAMESPACE, problems);
    parses::<BackendName>(config, BACKEND, problems);
    parses::<WaitFor>(config, WAIT_FOR, problems);
    let given = Given::read(config, problems);
    check_combinations(config, versions, problems);
    let labels = root.attribute(LABELS);
    for (key, value) in config.get(LABELS).as_map().into_iter().flatten() {
        if key.starts_with(RESERVED_LABEL) {
            problems.push(
                Diagnostic::error("A label is reserved")
                    .detail(format!("Labels that begin with {RESERVED_LABEL:?}, such as {key:?}, belong to the provider. Choose another key."))
                    .at(labels.key(key)),
            );
        } else if key.is_empty() {
            problems.push(
                Diagnostic::error("A label has no key")
                    .detail("The key of a label must not be empty.")
                    .at(labels.clone()),
            );
        }
        if value.is_null() {
            problems.push(
                Diagnostic::error("A label is null")
                    .detail(format!(
                        "The label {key:?} has no value. Give it one, or remove it."
                    ))
                    .at(labels.key(key)),
            );
        }
    }
    for timeout in Timeout::ALL {
        let name = timeout.as_str();
        if let Some(text) = config.get(TIMEOUTS).get(name).as_str()
            && let Err(why) = timeouts::parse(text)
        {
            problems.push(
                Diagnostic::error("A timeout cannot be used")
                    .detail(sentence(&why))
                    .at(root.attribute(TIMEOUTS).attribute(name)),
            );
        }
    }
    given
}

fn parses<T>(config: &Value, name: &str, problems: &mut Diagnostics)
where
    T: FromStr,
    T::Err: std::fmt::Display,
{
    if let Some(text) = config.get(name).as_str()
        && let Err(error) = text.parse::<T>()
    {
        problems.push(
            Diagnostic::error(format!("{name} cannot be used"))
                .detail(sentence(&error.to_string()))
                .at(Path::root().attribute(name)),
        );
    }
}

fn refuse_write_only(config: &Value, problems: &mut Diagnostics) {
    let arguments = [
        (
            config.get(ACCESS).get(PASSWORD_WO),
            Path::root().attribute(ACCESS).attribute(PASSWORD_WO),
            "access.password_hash, the hash that `openssl passwd -6` prints",
        ),
        (
            config.get(CLOUD_INIT_WO),
            Path::root().attribute(CLOUD_INIT_WO),
            "cloud_init, which is kept in the state",
        ),
    ];
    for (value, path, instead) in arguments {
        if !value.is_null() {
            let problem = Diagnostic::error("This version of the CLI has no write-only arguments").detail(format!(
                "{path} would end up in the state in clear text. Use Terraform or OpenTofu 1.11 or later, or {instead}."
            ));
            problems.push(problem.at(path));
        }
    }
}

//! What is wrong with an argument, and the checks that several arguments share.
//!
//! It must not know which arguments there are. Invariant: a problem names its argument, the value and the
//! way out.

/// An argument of the block `kubernetes` that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{argument}: {message}")]
pub struct ConfigProblem {
    /// The argument; one of a nested block after the block's name and a dot.
    pub argument: &'static str,
    /// What is wrong, with the value and the way out.
    pub message: String,
}

impl ConfigProblem {
    pub(in crate::backend::kubernetes) fn new(argument: &'static str, message: impl Into<String>) -> Self {
        Self {
            argument,
            message: message.into(),
        }
    }
}

/// Parses the text of an argument; notes why it cannot be used.
pub(super) fn parsed<T>(argument: &'static str, text: &str, problems: &mut Vec<ConfigProblem>) -> Option<T>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    text.parse()
        .map_err(|error: T::Err| problems.push(ConfigProblem::new(argument, error.to_string())))
        .ok()
}

/// Notes a name that no object can have.
pub(super) fn check_object_name(argument: &'static str, name: &str, problems: &mut Vec<ConfigProblem>) {
    if !is_subdomain(name) {
        problems.push(ConfigProblem::new(
            argument,
            format!(
                "{name:?} is no name that an object can have: lower-case letters, digits, dashes and dots, letters or digits first and last"
            ),
        ));
    }
}

/// A DNS subdomain as RFC 1123 has it, which most object names are.
fn is_subdomain(name: &str) -> bool {
    let label = |label: &str| {
        let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        edge(label.chars().next())
            && edge(label.chars().next_back())
            && label
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    };
    name.len() <= 253 && name.split('.').all(label)
}

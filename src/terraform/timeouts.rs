//! The `timeouts` block: how long each operation may take.
//!
//! Must not know what the operations do. Invariant: what is not given, or does not parse, is the
//! default; whether it parses is checked where the configuration is.

use std::time::Duration;

use jiff::SignedDuration;

use crate::plugin::schema::{Attribute, Block};
use crate::plugin::value::Value;

const MINUTE: Duration = Duration::from_secs(60);
/// Longer than anything that is waited for, and short enough for every clock.
const LONGEST: Duration = Duration::from_secs(30 * 24 * 3600);

/// One of the timeouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timeout {
    Create,
    Read,
    Update,
    Delete,
}

impl Timeout {
    pub(crate) const ALL: [Self; 4] = [Self::Create, Self::Read, Self::Update, Self::Delete];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Read => "read",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }

    /// What holds where the configuration says nothing.
    pub(crate) fn default(self) -> Duration {
        match self {
            Self::Create => 15 * MINUTE,
            Self::Read => 2 * MINUTE,
            Self::Update | Self::Delete => 10 * MINUTE,
        }
    }

    /// What holds for a resource of that value.
    pub(crate) fn of(self, resource: &Value) -> Duration {
        resource
            .get("timeouts")
            .get(self.as_str())
            .as_str()
            .and_then(|text| parse(text).ok())
            .unwrap_or_else(|| self.default())
    }
}

/// A duration as Terraform users write it: `90s`, `15m`, `1h30m`.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let refused = || format!("{text:?} is not a duration above zero such as \"90s\", \"15m\" or \"1h30m\"");
    // The library also reads forms that other tools of this trade would not: keep to theirs.
    let is_plain = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || matches!(byte, b'h' | b'm' | b's' | b'.'));
    if !is_plain || !text.starts_with(|first: char| first.is_ascii_digit()) {
        return Err(refused());
    }
    let parsed: SignedDuration = text.parse().map_err(|_: jiff::Error| refused())?;
    match Duration::try_from(parsed) {
        Ok(duration) if duration > LONGEST => Err(format!(
            "{text:?} is longer than 720h, the longest that can be waited for"
        )),
        Ok(duration) if !duration.is_zero() => Ok(duration),
        Ok(_) | Err(_) => Err(refused()),
    }
}

/// The schema of the block.
pub(crate) fn block() -> Block {
    let attribute = |timeout: Timeout| {
        let minutes = timeout.default().as_secs() / 60;
        Attribute::string(timeout.as_str()).describe(format!("Default `{minutes}m`."))
    };
    Block::new()
        .describe("How long each operation may take, such as `90s` or `1h30m`.")
        .attributes(Timeout::ALL.map(attribute))
}

/// How a duration reads in a message.
pub(crate) fn show(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let parts = [(hours, "h"), (minutes, "m"), (rest, "s")];
    let text: String = parts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, unit)| format!("{count}{unit}"))
        .collect();
    if text.is_empty() {
        format!("{}ms", duration.as_millis())
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A state may hold what an earlier release let through: then the default holds.
    #[test]
    fn no_timeout_is_longer_than_a_clock_can_tell() {
        for text in [
            "721h",
            "2562047788015215h",
            "9223372036854775807s",
            "106751991167300h",
        ] {
            assert!(parse(text).is_err(), "{text}");
            let timeouts = Value::Map([("read".to_owned(), Value::from(text))].into());
            let resource = Value::Map([("timeouts".to_owned(), timeouts)].into());
            assert_eq!(Timeout::Read.of(&resource), Timeout::Read.default(), "{text}");
        }
        assert_eq!(parse("720h"), Ok(LONGEST));
    }

    #[test]
    fn durations_are_written_as_users_write_them() {
        for (text, seconds) in [
            ("90s", 90.0),
            ("15m", 900.0),
            ("1h30m", 5400.0),
            ("1.5h", 5400.0),
            ("100ms", 0.1),
        ] {
            let parsed = parse(text).expect(text);
            assert!(
                (parsed.as_secs_f64() - seconds).abs() < 1e-9,
                "{text}: {parsed:?}"
            );
        }
        for bad in [
            "", "15", "m", "0s", "-5m", "15 m", "P1D", "1d", "fifteen", "15min", "1h 30m", "1e3s",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_not_given_is_the_default() {
        let resource = Value::object([(
            "timeouts",
            Value::object([("create", Value::from("3m")), ("read", Value::Null)]),
        )]);
        assert_eq!(Timeout::Create.of(&resource), 3 * MINUTE);
        assert_eq!(Timeout::Read.of(&resource), 2 * MINUTE);
        assert_eq!(Timeout::Delete.of(&Value::Null), 10 * MINUTE);
    }

    #[test]
    fn durations_read_back_as_they_are_written() {
        for text in ["15m", "1h30m", "90ms", "1h", "2m5s"] {
            assert_eq!(show(parse(text).expect(text)), text);
        }
    }
}

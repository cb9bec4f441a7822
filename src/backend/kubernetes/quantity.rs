//! Quantities as the Kubernetes API writes them: `50m`, `128Mi`, `1.5`.
//!
//! It must not know what is measured. Invariant: a value of [`Quantity`] is positive and one that the
//! API server accepts; two compare by what they amount to.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// An amount of CPU or memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Quantity {
    text: String,
    thousandths: u128,
}

/// A text that is no quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no quantity greater than zero, such as \"250m\" of a CPU or \"256Mi\" of memory")]
pub(super) struct InvalidQuantity(String);

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.thousandths.cmp(&other.thousandths))
    }
}

impl FromStr for Quantity {
    type Err = InvalidQuantity;

    fn from_str(text: &str) -> Result<Self, InvalidQuantity> {
        let invalid = || InvalidQuantity(text.to_owned());
        let digits = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let (number, suffix) = text.split_at(digits);
        // The numerator and denominator of the suffix, in thousandths.
        let (multiply, divide): (u128, u128) = match suffix {
            "m" => (1, 1),
            "" => (1000, 1),
            "k" => (1000 * 1000, 1),
            "M" => (1000 * 1000_u128.pow(2), 1),
            "G" => (1000 * 1000_u128.pow(3), 1),
            "T" => (1000 * 1000_u128.pow(4), 1),
            "Ki" => (1000 << 10, 1),
            "Mi" => (1000 << 20, 1),
            "Gi" => (1000 << 30, 1),
            "Ti" => (1000_u128 << 40, 1),
            _ => return Err(invalid()),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let bounded = whole.len() <= 12 && fraction.len() <= 6;
        if !bounded || whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
            return Err(invalid());
        }
        let scale = 10_u128.pow(u32::try_from(fraction.len()).map_err(|_| invalid())?);
        let value: u128 = format!("{whole}{fraction}").parse().map_err(|_| invalid())?;
        // Smaller parts than a thousandth are rounded up by the API server, too.
        let thousandths = (value * multiply).div_ceil(scale * divide);
        if thousandths == 0 {
            return Err(invalid());
        }
        Ok(Self {
            text: text.to_owned(),
            thousandths,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantity(text: &str) -> Quantity {
        text.parse().expect("a quantity")
    }

    #[test]
    fn amounts_compare_whatever_their_spelling() {
        assert_eq!(quantity("0.5").thousandths, quantity("500m").thousandths);
        assert_eq!(quantity("1Gi").thousandths, 1000 << 30);
        assert_eq!(quantity("1.5k").thousandths, 1_500_000);
        assert!(quantity("128Mi") < quantity("1G"));
        assert!(quantity("1Gi") > quantity("1G"));
        assert_eq!(quantity(".5").thousandths, 500);
        assert_eq!(quantity("2.").thousandths, 2000);
    }

    #[test]
    fn what_the_api_server_refuses_is_refused() {
        for text in [
            "",
            "m",
            ".",
            "0",
            "0m",
            "-1",
            "+1",
            "1 Mi",
            "1mi",
            "1KiB",
            "1MB",
            "1..5",
            "1.5.5",
            "1e3x",
            "ten",
            "99999999999999999",
        ] {
            assert!(text.parse::<Quantity>().is_err(), "{text:?}");
        }
    }
}

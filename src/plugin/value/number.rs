//! Exact decimal numbers of any size, as Terraform's `number` type holds them.
//!
//! Must not know how numbers travel. Invariant: the representation is canonical (an integer that
//! fits `i64` is `Int`, a decimal has neither leading nor trailing zero digits), so that equal
//! numbers are equal structurally, whatever their spelling was. No value passes through `f64`.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// Decimal exponents beyond this are refused: it is where Terraform's own numbers end (a binary
/// exponent of 32 bits).
const MAX_MAGNITUDE: i64 = 646_456_993;

/// Up to this many zeros are written out by `Display`; beyond it the exponent form is used, so
/// that `1e1000000` costs nine bytes and not a million.
const MAX_WRITTEN_ZEROS: i64 = 64;

/// An exact decimal number of any size and precision, or an infinity.
///
/// `1`, `1.0` and `10e-1` are the same number and compare equal. There is no NaN, so numbers are
/// totally ordered.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Number(Repr);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Repr {
    NegativeInfinity,
    Int(i64),
    Decimal(Box<Decimal>),
    PositiveInfinity,
}

/// `digits` × 10^`exponent`. Digits are ASCII `0`-`9`, at least one, the first and the last not zero.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Decimal {
    negative: bool,
    digits: Box<str>,
    exponent: i64,
}

impl Decimal {
    /// The power of ten of the first digit.
    fn magnitude(&self) -> i64 {
        self.exponent + self.digits.len() as i64 - 1
    }

    fn compare_absolute(&self, other: &Self) -> Ordering {
        self.magnitude()
            .cmp(&other.magnitude())
            .then_with(|| self.digits.cmp(&other.digits))
    }
}

/// Why a text is not a number.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseNumberError {
    /// Not a decimal number at all.
    #[error("not a decimal number")]
    Syntax,
    /// A number, but beyond what Terraform can hold.
    #[error("the exponent is beyond what Terraform's numbers can hold")]
    Range,
}

impl Number {
    /// Zero.
    pub const ZERO: Self = Self(Repr::Int(0));
    /// Positive infinity, which Terraform's expression language can produce.
    pub const INFINITY: Self = Self(Repr::PositiveInfinity);
    /// Negative infinity.
    pub const NEG_INFINITY: Self = Self(Repr::NegativeInfinity);

    /// The number as an `i64`, if it is a whole number in range.
    pub fn to_i64(&self) -> Option<i64> {
        match self.0 {
            Repr::Int(i) => Some(i),
            Repr::NegativeInfinity | Repr::PositiveInfinity | Repr::Decimal(_) => None,
        }
    }

    /// The number as a `u64`, if it is a whole number in range.
    pub fn to_u64(&self) -> Option<u64> {
        match &self.0 {
            Repr::Int(i) => u64::try_from(*i).ok(),
            // A u64 has at most 20 digits, which bounds what is written out here.
            Repr::Decimal(d) if !d.negative && (0..20).contains(&d.exponent) && d.magnitude() < 20 => {
                let zeros = "0".repeat(usize::try_from(d.exponent).ok()?);
                format!("{}{zeros}", d.digits).parse().ok()
            }
            Repr::NegativeInfinity | Repr::PositiveInfinity | Repr::Decimal(_) => None,
        }
    }

    /// The nearest `f64`: lossy, for computing only. Never send the result back as a number.
    pub fn to_f64(&self) -> f64 {
        match &self.0 {
            Repr::NegativeInfinity => f64::NEG_INFINITY,
            Repr::PositiveInfinity => f64::INFINITY,
            Repr::Int(i) => *i as f64,
            Repr::Decimal(_) => self.to_string().parse().unwrap_or(f64::NAN),
        }
    }

    /// The exact value of a float, or `None` for NaN.
    pub fn from_f64(float: f64) -> Option<Self> {
        if float.is_nan() {
            return None;
        }
        if float.is_infinite() {
            return Some(if float > 0.0 {
                Self::INFINITY
            } else {
                Self::NEG_INFINITY
            });
        }
        // Every finite double has an exact decimal form with at most 1074 places; formatting with
        // a precision is exact in Rust, unlike the default, which is the shortest that reads back.
        let places = binary_places(float);
        Self::from_str(&format!("{float:.places$}")).ok()
    }

    /// Whether the number is one of the two infinities.
    pub fn is_infinite(&self) -> bool {
        matches!(self.0, Repr::NegativeInfinity | Repr::PositiveInfinity)
    }

    /// Whether the number is whole. Infinities are not.
    pub fn is_integer(&self) -> bool {
        match &self.0 {
            Repr::Int(_) => true,
            Repr::Decimal(d) => d.exponent >= 0,
            Repr::NegativeInfinity | Repr::PositiveInfinity => false,
        }
    }

    /// Brings digits and exponent to the canonical form.
    fn canonical(negative: bool, digits: &str, exponent: i64) -> Result<Self, ParseNumberError> {
        let trimmed = digits.trim_start_matches('0');
        let significant = trimmed.trim_end_matches('0');
        if significant.is_empty() {
            return Ok(Self::ZERO);
        }
        let dropped = (trimmed.len() - significant.len()) as i64;
        let exponent = exponent.checked_add(dropped).ok_or(ParseNumberError::Range)?;
        let magnitude = exponent
            .checked_add(significant.len() as i64 - 1)
            .ok_or(ParseNumberError::Range)?;
        if magnitude.unsigned_abs() > MAX_MAGNITUDE.unsigned_abs() {
            return Err(ParseNumberError::Range);
        }
        if exponent >= 0 && magnitude <= 18 {
            let sign = if negative { "-" } else { "" };
            let zeros = "0".repeat(exponent as usize);
            if let Ok(int) = format!("{sign}{significant}{zeros}").parse() {
                return Ok(Self(Repr::Int(int)));
            }
        }
        Ok(Self(Repr::Decimal(Box::new(Decimal {
            negative,
            digits: significant.into(),
            exponent,
        }))))
    }

    /// The number as (negative, digits, exponent), for ordering; infinities have no such form.
    fn decimal(&self) -> Option<Decimal> {
        match &self.0 {
            Repr::NegativeInfinity | Repr::PositiveInfinity => None,
            Repr::Decimal(d) => Some((**d).clone()),
            Repr::Int(i) => {
                let text = i.unsigned_abs().to_string();
                let digits = text.trim_end_matches('0');
                let exponent = (text.len() - digits.len()) as i64;
                Some(Decimal {
                    negative: *i < 0,
                    digits: digits.into(),
                    exponent,
                })
            }
        }
    }
}

/// How many decimal places the exact form of a finite float needs: one for each binary place.
fn binary_places(float: f64) -> usize {
    let bits = float.to_bits();
    let fraction = bits & ((1 << 52) - 1);
    let exponent = ((bits >> 52) & 0x7ff) as i64;
    let (mantissa, power) = if exponent == 0 {
        (fraction, -1074)
    } else {
        (fraction | 1 << 52, exponent - 1075)
    };
    if mantissa == 0 {
        return 0;
    }
    let lowest = power + i64::from(mantissa.trailing_zeros());
    usize::try_from(-lowest).unwrap_or(0)
}

impl FromStr for Number {
    type Err = ParseNumberError;

    /// Reads `-12`, `0.1`, `+1.5e-7`, `1E9`, and `Infinity` or `inf` with an optional sign.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(int) = text.parse() {
            return Ok(Self(Repr::Int(int)));
        }
        let (negative, rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        if rest.eq_ignore_ascii_case("inf") || rest.eq_ignore_ascii_case("infinity") {
            return Ok(if negative {
                Self::NEG_INFINITY
            } else {
                Self::INFINITY
            });
        }
        let (mantissa, exponent) = match rest.find(['e', 'E']) {
            Some(at) => (&rest[..at], parse_exponent(&rest[at + 1..])?),
            None => (rest, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let is_digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        if whole.len() + fraction.len() == 0 || !is_digits(whole) || !is_digits(fraction) {
            return Err(ParseNumberError::Syntax);
        }
        let exponent = exponent
            .checked_sub(fraction.len() as i64)
            .ok_or(ParseNumberError::Range)?;
        if fraction.is_empty() {
            Self::canonical(negative, whole, exponent)
        } else {
            Self::canonical(negative, &format!("{whole}{fraction}"), exponent)
        }
    }
}

fn parse_exponent(text: &str) -> Result<i64, ParseNumberError> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(ParseNumberError::Syntax);
    }
    text.parse().map_err(|_| ParseNumberError::Range)
}

impl fmt::Display for Number {
    /// Plain decimal notation, or the exponent form where that would mean a long run of zeros.
    /// Reading the text back gives the same number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimal = match &self.0 {
            Repr::NegativeInfinity => return f.write_str("-Infinity"),
            Repr::PositiveInfinity => return f.write_str("Infinity"),
            Repr::Int(i) => return write!(f, "{i}"),
            Repr::Decimal(d) => d,
        };
        let Decimal {
            negative,
            digits,
            exponent,
        } = &**decimal;
        if *negative {
            f.write_str("-")?;
        }
        let magnitude = decimal.magnitude();
        let zeros = |count: i64| "0".repeat(usize::try_from(count).unwrap_or(0));
        if *exponent >= 0 {
            if *exponent <= MAX_WRITTEN_ZEROS {
                return write!(f, "{digits}{}", zeros(*exponent));
            }
        } else if magnitude >= 0 {
            let (whole, fraction) = digits.split_at(magnitude as usize + 1);
            return write!(f, "{whole}.{fraction}");
        } else if -magnitude <= MAX_WRITTEN_ZEROS {
            return write!(f, "0.{}{digits}", zeros(-magnitude - 1));
        }
        let (first, rest) = digits.split_at(1);
        if rest.is_empty() {
            write!(f, "{first}e{magnitude}")
        } else {
            write!(f, "{first}.{rest}e{magnitude}")
        }
    }
}

impl fmt::Debug for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Ord for Number {
    fn cmp(&self, other: &Self) -> Ordering {
        if let (Repr::Int(a), Repr::Int(b)) = (&self.0, &other.0) {
            return a.cmp(b);
        }
        let rank = |number: &Self| match number.0 {
            Repr::NegativeInfinity => 0,
            Repr::Int(_) | Repr::Decimal(_) => 1,
            Repr::PositiveInfinity => 2,
        };
        let (Some(a), Some(b)) = (self.decimal(), other.decimal()) else {
            return rank(self).cmp(&rank(other));
        };
        // Zero has no digits here and would break the comparison by magnitude.
        let sign = |decimal: &Decimal| match (decimal.digits.is_empty(), decimal.negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        };
        sign(&a).cmp(&sign(&b)).then_with(|| match sign(&a) {
            0 => Ordering::Equal,
            1 => a.compare_absolute(&b),
            _ => b.compare_absolute(&a),
        })
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

macro_rules! from_small_integer {
    ($($integer:ty),*) => {$(
        impl From<$integer> for Number {
            fn from(integer: $integer) -> Self {
                Self(Repr::Int(i64::from(integer)))
            }
        }
    )*};
}
from_small_integer!(i64, i32, i16, i8, u32, u16, u8);

impl From<u64> for Number {
    fn from(integer: u64) -> Self {
        match i64::try_from(integer) {
            Ok(small) => Self(Repr::Int(small)),
            // Twenty digits are far inside every limit.
            Err(_) => Self::canonical(false, &integer.to_string(), 0).unwrap_or(Self::INFINITY),
        }
    }
}

impl From<usize> for Number {
    fn from(integer: usize) -> Self {
        Self::from(integer as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Number {
        text.parse().unwrap()
    }

    #[test]
    fn spellings_of_one_number_are_equal() {
        for (spelling, canonical) in [
            ("1.0", "1"),
            ("10e-1", "1"),
            ("+001.500", "1.5"),
            (".5", "0.5"),
            ("5.", "5"),
            ("-0", "0"),
            ("0e999", "0"),
            ("0.1", "0.1"),
            ("9223372036854775807", "9223372036854775807"),
            ("9223372036854775808", "9223372036854775808"),
            ("-9223372036854775808", "-9223372036854775808"),
            ("-9223372036854775809", "-9223372036854775809"),
            ("0.00010", "0.0001"),
            ("1E3", "1000"),
            ("1.25e1000000", "1.25e1000000"),
            ("1e-1000", "1e-1000"),
            ("inf", "Infinity"),
            ("-Infinity", "-Infinity"),
        ] {
            assert_eq!(number(spelling).to_string(), canonical, "{spelling}");
            assert_eq!(number(spelling), number(canonical), "{spelling}");
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in [
            "", "-", ".", "e5", "1e", "1e+", "1_000", "0x10", "NaN", "1.2.3", " 1", "1e1.5", "--1",
        ] {
            assert_eq!(text.parse::<Number>(), Err(ParseNumberError::Syntax), "{text}");
        }
        for text in [
            "1e646456994",
            "1e-646456994",
            "1e99999999999999999999",
            "1e9223372036854775807",
            "0.1e-9223372036854775807",
        ] {
            assert_eq!(text.parse::<Number>(), Err(ParseNumberError::Range), "{text}");
        }
    }

    #[test]
    fn a_huge_exponent_takes_no_memory() {
        let text = number("1e600000000").to_string();
        assert_eq!(text, "1e600000000");
        let zeros = format!("1{}", "0".repeat(1_000_000));
        assert_eq!(number(&zeros), number("1e1000000"));
    }

    #[test]
    fn floats_are_taken_exactly() {
        assert_eq!(Number::from_f64(0.5), Some(number("0.5")));
        assert_eq!(
            Number::from_f64(0.1),
            Some(number(
                "0.1000000000000000055511151231257827021181583404541015625"
            ))
        );
        assert_eq!(
            Number::from_f64(9007199254740993.0),
            Some(number("9007199254740992"))
        );
        assert_eq!(Number::from_f64(1e300).unwrap().to_f64(), 1e300);
        assert_eq!(Number::from_f64(5e-324).unwrap().to_f64(), 5e-324);
        assert_eq!(Number::from_f64(-0.0), Some(Number::ZERO));
        assert_eq!(Number::from_f64(f64::NEG_INFINITY), Some(Number::NEG_INFINITY));
        assert_eq!(Number::from_f64(f64::NAN), None);
    }

    #[test]
    fn numbers_are_ordered_by_value() {
        let ascending = [
            "-inf",
            "-1e30",
            "-9223372036854775809",
            "-2",
            "-1.5",
            "-0.0001",
            "0",
            "1e-30",
            "0.0001",
            "0.00011",
            "1",
            "1.5",
            "2",
            "10",
            "9223372036854775808",
            "1e30",
            "1.1e30",
            "inf",
        ];
        for (i, a) in ascending.iter().enumerate() {
            for (j, b) in ascending.iter().enumerate() {
                assert_eq!(number(a).cmp(&number(b)), i.cmp(&j), "{a} against {b}");
            }
        }
    }

    #[test]
    fn integers_come_out_where_they_fit() {
        assert_eq!(number("3128.0").to_i64(), Some(3128));
        assert_eq!(number("0.5").to_i64(), None);
        assert_eq!(number("18446744073709551615").to_u64(), Some(u64::MAX));
        assert_eq!(number("18446744073709551616").to_u64(), None);
        assert_eq!(number("1e19").to_u64(), Some(10_000_000_000_000_000_000));
        assert_eq!(number("-1").to_u64(), None);
        assert_eq!(Number::from(u64::MAX).to_string(), "18446744073709551615");
        assert!(number("1e40").is_integer() && !number("1.5").is_integer() && !Number::INFINITY.is_integer());
    }
}

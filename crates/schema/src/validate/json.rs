//! Types and numbers of JSON values, from their text.

use serde_json::Value;
use wire::scan::Scanner;

/// A number that all programs read alike: an integer of at most 64 bits, or a number below 10^15 with at most 15
/// significant digits, which double-precision numbers keep apart. The unit is 10^-18.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct JsonNumber(i128);

impl JsonNumber {
    const ONE: i128 = 10_i128.pow(18);

    /// Parses a number. `None` for a number that some programs round.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let sign = if text.first() == Some(&b'-') { -1 } else { 1 };
        let (mut significand, mut power, mut is_decimal) = (0_u64, 18_i32, false);
        for (at, byte) in text.iter().enumerate() {
            match byte {
                b'0'..=b'9' => {
                    significand = significand.checked_mul(10)?.checked_add(u64::from(byte - b'0'))?;
                    power -= i32::from(is_decimal);
                }
                b'.' => is_decimal = true,
                b'e' | b'E' => {
                    is_decimal = true;
                    power = power.checked_add(std::str::from_utf8(&text[at + 1..]).ok()?.parse().ok()?)?;
                    break;
                }
                _ => {}
            }
        }
        if !is_decimal {
            let number = sign * i128::from(significand);
            return (number >= i128::from(i64::MIN)).then_some(Self(number * Self::ONE));
        }
        let unit = 10_i128.checked_pow(power.try_into().ok()?)?;
        let number = i128::from(significand).checked_mul(unit)?;
        let is_exact = significand < 10_u64.pow(15) && number < 10_i128.pow(15) * Self::ONE;
        is_exact.then_some(Self(sign * number))
    }

    pub(super) fn from_count(count: usize) -> Self {
        Self(count as i128 * Self::ONE)
    }
}

/// The names of the types in a [`TypeSet`], by their bits. The last bit is that of the numbers that are not integers.
const TYPE_NAMES: [&str; 7] = ["string", "boolean", "array", "object", "null", "integer", "number"];

/// A set of types. Integers and other numbers are two types.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct TypeSet(u8);

impl TypeSet {
    pub(super) const NONE: Self = Self(0);
    pub(super) const STRING: Self = Self(1);
    pub(super) const BOOLEAN: Self = Self(1 << 1);
    pub(super) const ARRAY: Self = Self(1 << 2);
    pub(super) const OBJECT: Self = Self(1 << 3);
    pub(super) const NULL: Self = Self(1 << 4);
    pub(super) const INTEGER: Self = Self(1 << 5);
    pub(super) const FRACTION: Self = Self(1 << 6);
    pub(super) const NUMBER: Self = Self(1 << 5 | 1 << 6);
    pub(super) const ALL: Self = Self(0x7f);

    /// Reads the value of the keyword `type`: one type, or a list. `None` if it has no type, or one that JSON Schema
    /// does not define.
    pub(super) fn from_keyword(value: &Value) -> Option<Self> {
        let names = match value {
            Value::Array(names) => names,
            name => std::slice::from_ref(name),
        };
        let set = names.iter().try_fold(Self::NONE, |set, name| {
            let index = TYPE_NAMES.iter().position(|known| name == known)?;
            Some(set.union(if TYPE_NAMES[index] == "number" { Self::NUMBER } else { Self(1 << index) }))
        });
        set.filter(|set| *set != Self::NONE)
    }

    /// Returns the type of a value; for a number, both types of numbers. `None` for text that is not JSON.
    pub(super) fn of_value(text: &[u8]) -> Option<Self> {
        Self::before(&Scanner::new(text))
    }

    /// Returns the type of the scanner's next value, which [`Self::of_value`] describes.
    pub(super) fn before(scanner: &Scanner<'_>) -> Option<Self> {
        match scanner.peek()? {
            b'"' => Some(Self::STRING),
            b'{' => Some(Self::OBJECT),
            b'[' => Some(Self::ARRAY),
            b'-' | b'0'..=b'9' => Some(Self::NUMBER),
            b't' | b'f' => Some(Self::BOOLEAN),
            b'n' => Some(Self::NULL),
            _ => None,
        }
    }

    /// Creates the types of a number. It has two where programs may disagree on whether it is an integer, as for `1.0`.
    pub(super) fn of_number(text: &[u8]) -> Self {
        if !text.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E')) {
            return Self::INTEGER;
        }
        match JsonNumber::parse(text) {
            Some(JsonNumber(number)) if number % JsonNumber::ONE != 0 => Self::FRACTION,
            _ => Self::NUMBER,
        }
    }

    pub(super) fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(super) fn is_subset(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    pub(super) const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns the types' names in JSON, separated by "or".
    pub(super) fn describe(self) -> String {
        // A number may be an integer.
        let bits = if Self::NUMBER.is_subset(self) { self.0 & !Self::INTEGER.0 } else { self.0 };
        let names = (0..TYPE_NAMES.len()).filter(|index| bits & 1 << index != 0);
        names.map(|index| format!("{:?}", TYPE_NAMES[index])).collect::<Vec<_>>().join(" or ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cmp::Ordering;

    fn number(text: &str) -> Option<JsonNumber> {
        JsonNumber::parse(text.as_bytes())
    }

    #[test]
    fn numbers_are_compared_by_value() {
        for (a, expected, b) in [
            ("1", Ordering::Equal, "1.0"),
            ("-0", Ordering::Equal, "0.000"),
            ("1e2", Ordering::Equal, "100"),
            ("0.05", Ordering::Equal, "5E-2"),
            ("123456789012.345", Ordering::Less, "123456789012.346"),
            ("18446744073709551614", Ordering::Less, "18446744073709551615"),
            ("-9223372036854775808", Ordering::Less, "-9223372036854775807"),
            ("9007199254740993", Ordering::Greater, "9.5e14"),
            ("-1.5", Ordering::Less, "-1"),
            ("0.1", Ordering::Greater, "1e-18"),
        ] {
            assert_eq!(number(a).unwrap().cmp(&number(b).unwrap()), expected, "{a} {b}");
        }
    }

    #[test]
    fn numbers_that_programs_round_are_not_compared() {
        for text in [
            "18446744073709551616",
            "-9223372036854775809",
            "0.1234567890123456",
            "1e15",
            "1e400",
            "1e-19",
            "1e99999999999",
        ] {
            assert_eq!(number(text), None, "{text}");
        }
    }

    #[test]
    fn a_number_with_a_point_is_certainly_no_integer_only_if_it_has_a_fraction() {
        for (text, expected) in [
            ("-10", TypeSet::INTEGER),
            ("123456789012345678901234567890", TypeSet::INTEGER),
            ("1.5", TypeSet::FRACTION),
            ("1.0", TypeSet::NUMBER),
            ("15e-1", TypeSet::FRACTION),
            ("1e400", TypeSet::NUMBER),
            ("0.12345678901234567890", TypeSet::NUMBER),
        ] {
            assert_eq!(TypeSet::of_number(text.as_bytes()), expected, "{text}");
        }
    }
}

//! Reads JSON text in place: types, strings and numbers.
//!
//! The reader finds where values begin and end, and builds no values. It relies on the text being JSON and does not look
//! for every error. On other text it may read values or return `None`, but it never panics and always advances.

use memchr::memchr2;
use serde_json::Value;
use std::borrow::Cow;
use wire::block::{BLOCK, Block};

/// A position in JSON text. Its methods return `None` if they find that the text is not JSON.
#[derive(Debug, Clone, Copy)]
pub(super) struct JsonReader<'a> {
    pub(super) text: &'a [u8],
    /// The offset of the next byte.
    pub(super) at: usize,
}

impl<'a> JsonReader<'a> {
    /// Moves to the next value and returns its type; for a number, both types of numbers.
    pub(super) fn types(&mut self) -> Option<TypeSet> {
        match self.peek()? {
            b'"' => Some(TypeSet::STRING),
            b'{' => Some(TypeSet::OBJECT),
            b'[' => Some(TypeSet::ARRAY),
            b'-' | b'0'..=b'9' => Some(TypeSet::NUMBER),
            b't' | b'f' => Some(TypeSet::BOOLEAN),
            b'n' => Some(TypeSet::NULL),
            _ => None,
        }
    }

    /// Moves past the next value.
    pub(super) fn skip(&mut self) -> Option<()> {
        match self.types()? {
            TypeSet::STRING => self.skip_string().map(drop),
            TypeSet::ARRAY | TypeSet::OBJECT => self.skip_container(),
            _ => {
                let rest = &self.text[self.at..];
                let is_end = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t');
                self.at += rest.iter().position(is_end).unwrap_or(rest.len());
                Some(())
            }
        }
    }

    /// Moves to the next element of an array, or to the next key of an object. `false` at the end, the bracket `close`,
    /// which it moves past.
    pub(super) fn next_item(&mut self, close: u8) -> Option<bool> {
        // Items are separated by commas, so a bracket here is the one before the first item.
        if matches!(self.peek()?, b'[' | b'{' | b',') {
            self.at += 1;
        }
        let is_end = self.peek()? == close;
        self.at += usize::from(is_end);
        Some(!is_end)
    }

    /// Reads the key of a member, and moves to the value.
    pub(super) fn key(&mut self) -> Option<Cow<'a, str>> {
        let start = self.at;
        let key = match self.skip_string()? {
            StringForm::Plain => Cow::Borrowed(std::str::from_utf8(&self.text[start + 1..self.at - 1]).ok()?),
            StringForm::Escaped => decode(self.since(start))?,
        };
        self.peek().filter(|byte| *byte == b':')?;
        self.at += 1;
        self.peek().map(|_| key)
    }

    /// The text from `start` to here.
    pub(super) fn since(&self, start: usize) -> &'a [u8] {
        &self.text[start..self.at]
    }

    fn skip_string(&mut self) -> Option<StringForm> {
        let mut form = StringForm::Plain;
        self.at += 1;
        loop {
            let rest = self.text.get(self.at..)?;
            // Most strings end in their first block.
            let end = match rest.first_chunk().map(Block::new) {
                Some(Block { plain, .. }) if plain < BLOCK => plain,
                _ => memchr2(b'"', b'\\', rest)?,
            };
            self.at += end + 1;
            match rest[end] {
                b'"' => return Some(form),
                b'\\' => {
                    form = StringForm::Escaped;
                    self.at += 1;
                }
                // Text that is not JSON.
                _ => {}
            }
        }
    }

    fn skip_container(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            match self.text.get(self.at)? {
                b'"' => {
                    self.skip_string()?;
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Some(());
            }
        }
    }

    /// The next byte that is not white space.
    fn peek(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.text.get(self.at) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }
}

/// How a string is written.
enum StringForm {
    /// As it is.
    Plain,
    /// With escapes.
    Escaped,
}

/// Decodes a string as it is written, with its quotes. `None` if it is not Unicode text, for example half of a surrogate
/// pair.
pub(super) fn decode(string: &[u8]) -> Option<Cow<'_, str>> {
    match string {
        [b'"', content @ .., b'"'] if !content.contains(&b'\\') => {
            std::str::from_utf8(content).ok().map(Cow::Borrowed)
        }
        _ => serde_json::from_slice(string).ok().map(Cow::Owned),
    }
}

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

    /// The types that the value of the keyword `type` names: one, or a list.
    pub(super) fn named(value: &Value) -> Option<Self> {
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

    /// The types of a number. It has two where programs may disagree on whether it is an integer, as for `1.0`.
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

    /// The types' names in JSON, separated by "or".
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

    #[test]
    fn strings_that_are_not_unicode_are_not_decoded() {
        assert_eq!(decode(br#""a\u0062""#).as_deref(), Some("ab"));
        for text in [&br#""\ud800""#[..], b"\"\xff\"", b"\"", b""] {
            assert_eq!(decode(text), None);
        }
    }
}

//! JSON numbers that are compared by their digits, without rounding.

use std::cmp::Ordering;

/// The significant digits that a double-precision number always preserves.
const PRESERVED_DIGITS: usize = 15;
/// The powers of ten at which a double-precision number has its full precision.
const MAX_POWER: i64 = 300;
/// Longer exponents are not parsed.
const MAX_EXPONENT_DIGITS: usize = 9;

/// A number as it is written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Decimal<'a> {
    negative: bool,
    /// Digits before the point.
    whole: &'a [u8],
    /// Digits after the point.
    fraction: &'a [u8],
    exponent: i64,
}

impl<'a> Decimal<'a> {
    /// Parses a JSON number. `None` for other text and for exponents of more than nine digits.
    pub(super) fn parse(text: &'a [u8]) -> Option<Self> {
        let (negative, rest) = match text {
            [b'-', rest @ ..] => (true, rest),
            rest => (false, rest),
        };
        let (mantissa, exponent) = match rest.iter().position(|byte| matches!(byte, b'e' | b'E')) {
            Some(at) => (&rest[..at], parse_exponent(&rest[at + 1..])?),
            None => (rest, 0),
        };
        let (whole, fraction) = match mantissa.iter().position(|byte| *byte == b'.') {
            Some(at) => (&mantissa[..at], &mantissa[at + 1..]),
            None => (mantissa, &[][..]),
        };
        let is_number = !whole.is_empty() && whole.iter().chain(fraction).all(u8::is_ascii_digit);
        is_number.then_some(Self { negative, whole, fraction, exponent })
    }

    /// Whether the number has no fractional part: `1`, `1.0` and `10e-1` have none.
    pub(super) fn is_integer(&self) -> bool {
        self.is_zero() || self.significant_digits() as i64 <= self.point()
    }

    /// Whether all programs read the same number: it fits in 64 bits, or a double-precision number preserves all its
    /// digits.
    pub(super) fn is_portable(&self) -> bool {
        if self.fraction.is_empty() && self.exponent == 0 && self.whole.len() <= 20 {
            let value = self.whole.iter().fold(0_u128, |value, digit| value * 10 + u128::from(digit - b'0'));
            let limit = if self.negative { 1 << 63 } else { u128::from(u64::MAX) };
            if value <= limit {
                return true;
            }
        }
        self.is_zero() || self.significant_digits() <= PRESERVED_DIGITS && self.point().abs() <= MAX_POWER
    }

    /// Whether the number is a multiple of `divisor`. `None` where that is not computed: for numbers of hundreds of
    /// digits.
    pub(super) fn is_multiple_of(&self, divisor: u64) -> Option<bool> {
        if !self.is_integer() {
            return Some(false);
        }
        let digits = usize::try_from(self.point()).unwrap_or(0);
        if digits as i64 > MAX_POWER || divisor == 0 {
            return None;
        }
        let divisor = u128::from(divisor);
        let padded = self.leading_digits().chain(std::iter::repeat(b'0')).take(digits);
        Some(padded.fold(0, |rest, digit| (rest * 10 + u128::from(digit - b'0')) % divisor) == 0)
    }

    pub(super) fn is_negative(&self) -> bool {
        self.negative && !self.is_zero()
    }

    fn is_zero(&self) -> bool {
        self.digits().all(|digit| digit == b'0')
    }

    fn digits(&self) -> impl DoubleEndedIterator<Item = u8> + use<'a> {
        self.whole.iter().chain(self.fraction).copied()
    }

    /// The digits from the first that is not zero on.
    fn leading_digits(&self) -> impl Iterator<Item = u8> + use<'a> {
        self.digits().skip_while(|digit| *digit == b'0')
    }

    /// The number of digits between the first and the last that are not zero.
    fn significant_digits(&self) -> usize {
        let trailing = self.digits().rev().take_while(|digit| *digit == b'0').count();
        self.leading_digits().count().saturating_sub(trailing)
    }

    /// The position of the decimal point, relative to the first digit that is not zero: 2 in `12.5`, -1 in `0.05`.
    fn point(&self) -> i64 {
        let leading_zeros = self.digits().take_while(|digit| *digit == b'0').count();
        self.whole.len() as i64 - leading_zeros as i64 + self.exponent
    }

    fn compare_magnitude(&self, other: &Self) -> Ordering {
        match (self.is_zero(), other.is_zero()) {
            (true, true) => return Ordering::Equal,
            (true, false) => return Ordering::Less,
            (false, true) => return Ordering::Greater,
            (false, false) => {}
        }
        self.point().cmp(&other.point()).then_with(|| {
            let (mut digits, mut others) = (self.leading_digits(), other.leading_digits());
            loop {
                match (digits.next(), others.next()) {
                    (None, None) => return Ordering::Equal,
                    (a, b) if a.unwrap_or(b'0') != b.unwrap_or(b'0') => {
                        return a.unwrap_or(b'0').cmp(&b.unwrap_or(b'0'));
                    }
                    _ => {}
                }
            }
        })
    }
}

impl PartialEq for Decimal<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Decimal<'_> {}

impl PartialOrd for Decimal<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.is_negative(), other.is_negative()) {
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
            (false, false) => self.compare_magnitude(other),
            (true, true) => other.compare_magnitude(self),
        }
    }
}

fn parse_exponent(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"+").or_else(|| text.strip_prefix(b"-")).unwrap_or(text);
    if digits.len() > MAX_EXPONENT_DIGITS {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decimal(text: &str) -> Decimal<'_> {
        Decimal::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn numbers_are_compared_by_value_and_not_by_spelling() {
        for (a, wanted, b) in [
            ("1", Ordering::Equal, "1.0"),
            ("-0", Ordering::Equal, "0.000"),
            ("0", Ordering::Equal, "0e5"),
            ("1e2", Ordering::Equal, "100"),
            ("0.05", Ordering::Equal, "5E-2"),
            ("12345678901234567890", Ordering::Less, "12345678901234567891"),
            ("-12345678901234567890", Ordering::Greater, "-12345678901234567891"),
            ("0.1", Ordering::Less, "0.10000000000000000001"),
            ("99", Ordering::Less, "100"),
            ("-1", Ordering::Less, "0"),
            ("0.009", Ordering::Less, "0.01"),
            ("1e400", Ordering::Greater, "9"),
        ] {
            assert_eq!(decimal(a).cmp(&decimal(b)), wanted, "{a} {b}");
            assert_eq!(decimal(b).cmp(&decimal(a)), wanted.reverse(), "{b} {a}");
        }
        for text in ["", "-", "1.2.3", "x", "1e", "1e9999999999", "+1", "e5"] {
            assert!(Decimal::parse(text.as_bytes()).is_none(), "{text}");
        }
    }

    #[test]
    fn integers_have_no_fraction_however_they_are_written() {
        for text in ["1", "1.0", "10e-1", "1.5e1", "0.0", "1e400", "123456789012345678901234567890"] {
            assert!(decimal(text).is_integer(), "{text}");
        }
        for text in ["1.5", "1e-1", "0.12345678901234567890"] {
            assert!(!decimal(text).is_integer(), "{text}");
        }
    }

    #[test]
    fn numbers_that_programs_round_are_not_portable() {
        for text in ["18446744073709551615", "-9223372036854775808", "0.123456789012345", "1e22", "0"] {
            assert!(decimal(text).is_portable(), "{text}");
        }
        for text in ["18446744073709551616", "-9223372036854775809", "0.1234567890123456", "1e400", "1e-400"]
        {
            assert!(!decimal(text).is_portable(), "{text}");
        }
    }

    #[test]
    fn multiples_are_told_of_integers_of_any_length() {
        assert_eq!(decimal("-12").is_multiple_of(5), Some(false));
        assert_eq!(decimal("100000000000000000000000000000").is_multiple_of(5), Some(true));
        assert_eq!(decimal("1.20e2").is_multiple_of(60), Some(true));
        assert_eq!(decimal("1.5").is_multiple_of(1), Some(false));
        assert_eq!(decimal("0.0").is_multiple_of(7), Some(true));
        assert_eq!(decimal("1e400").is_multiple_of(2), None);
    }

    proptest! {
        #[test]
        fn comparison_agrees_with_integers(a in any::<i64>(), b in any::<i64>(), zeros in 0..4_usize) {
            let a_text = format!("{a}.{}", "0".repeat(zeros + 1));
            prop_assert_eq!(decimal(&a_text).cmp(&decimal(&b.to_string())), a.cmp(&b));
        }

        #[test]
        fn no_text_panics(text in "[-+0-9.eE]{0,12}") {
            if let Some(number) = Decimal::parse(text.as_bytes()) {
                let _facts = (number.is_integer(), number.is_portable(), number.is_multiple_of(3));
                prop_assert_eq!(number.cmp(&number), Ordering::Equal);
            }
        }
    }
}

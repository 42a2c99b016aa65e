//! Durations in config files and on the command line: a number of seconds, or a number with a unit.

use std::time::Duration;

/// A longer duration is a mistake. The limit also keeps `now + duration` from overflowing.
const MAX_DURATION: Duration = Duration::from_secs(365 * 24 * 3600);

/// What error messages say is expected.
pub const EXPECTED: &str =
    "a number of seconds, or a duration such as \"500ms\", \"90s\", \"5m\" or \"1h\", of at most 365 days";

/// Returns `None` if the number is negative, not finite or too large.
pub(super) fn from_seconds(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok().filter(|duration| *duration <= MAX_DURATION)
}

/// Parses a duration such as `300`, `500ms`, `90s`, `5m` or `1.5h`. A number without a unit counts seconds. Units are
/// in lower case. `None` if the text is no duration, or one of more than 365 days.
pub fn parse(text: &str) -> Option<Duration> {
    let text = text.trim();
    let number_ends = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(number_ends);
    let number: f64 = number.parse().ok()?;
    from_seconds(match unit.trim() {
        "ms" => number / 1000.0,
        "" | "s" => number,
        "m" => number * 60.0,
        "h" => number * 3600.0,
        _ => return None,
    })
}

/// Reads a duration from JSON: a number of seconds, or a text. `None` if the value is no duration.
pub fn of_json(value: &serde_json::Value) -> Option<Duration> {
    value.as_str().map_or_else(|| from_seconds(value.as_f64()?), parse)
}

/// Returns what to write to double a limit, such as `write "timeout": {"tools": "10m"} in its config entry`. `setting`
/// is its name in `timeout`, and `limit` its value now.
pub fn raise_timeout(setting: &str, limit: Duration) -> String {
    let seconds = (limit.as_secs_f64() * 2.0).ceil() as u64;
    let longer = match seconds {
        seconds if seconds.is_multiple_of(3600) => format!("{}h", seconds / 3600),
        seconds if seconds.is_multiple_of(60) => format!("{}m", seconds / 60),
        seconds => format!("{seconds}s"),
    };
    format!("write \"timeout\": {{\"{setting}\": \"{longer}\"}} in its config entry")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_unit_is_understood() {
        for (text, milliseconds) in [
            ("500ms", 500),
            ("90s", 90_000),
            ("5m", 300_000),
            ("1h", 3_600_000),
            ("1.5 h", 5_400_000),
            ("300", 300_000),
            ("0", 0),
        ] {
            assert_eq!(parse(text), Some(Duration::from_millis(milliseconds)), "{text}");
        }
    }

    #[test]
    fn a_limit_is_raised_to_a_value_that_the_config_understands() {
        for (milliseconds, expected) in
            [(250, "1s"), (2500, "5s"), (5000, "10s"), (60_000, "2m"), (300_000, "10m"), (1_800_000, "1h")]
        {
            let text = raise_timeout("tools", Duration::from_millis(milliseconds));
            assert_eq!(text, format!("write \"timeout\": {{\"tools\": \"{expected}\"}} in its config entry"));
            assert!(parse(expected) > Some(Duration::from_millis(milliseconds)));
        }
    }

    #[test]
    fn other_text_is_rejected() {
        for text in ["", "s", "5 minutes", "-1s", "1h30m", "soon", "1e9", "9000h", "1.2.3", "٣s"] {
            assert_eq!(parse(text), None, "{text}");
        }
        for seconds in [-1.0, f64::NAN, f64::INFINITY, 1e18] {
            assert_eq!(from_seconds(seconds), None, "{seconds}");
        }
    }

    proptest! {
        #[test]
        fn no_text_causes_a_panic(text in ".*") {
            let _unused = parse(&text);
        }

        #[test]
        fn whole_seconds_are_exact(seconds in 0u32..31_536_000) {
            prop_assert_eq!(parse(&seconds.to_string()), Some(Duration::from_secs(seconds.into())));
            prop_assert_eq!(from_seconds(seconds.into()), Some(Duration::from_secs(seconds.into())));
        }
    }
}

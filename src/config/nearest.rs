//! The name that was probably meant.

/// Below this likeness a suggestion is a guess.
const LIKE_ENOUGH: f64 = 0.8;

/// The candidate most like `name`, whatever its case and whether it is written with underscores; `None` if none is
/// like enough. Of equals the first.
pub(crate) fn nearest<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let name = plain(name);
    let mut best = None;
    let mut best_likeness = LIKE_ENOUGH;
    for candidate in candidates {
        let likeness = strsim::jaro_winkler(&name, &plain(candidate));
        if likeness > best_likeness {
            best = Some(candidate);
            best_likeness = likeness;
        }
    }
    best
}

fn plain(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '_' | '-')).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_is_found_whatever_its_case() {
        let fields = ["command", "args", "env", "env_file", "idle_timeout"];
        for (name, expected) in [
            ("comand", Some("command")),
            ("arg", Some("args")),
            ("IDLE-TIMEOUT", Some("idle_timeout")),
            ("idletimout", Some("idle_timeout")),
            ("zzz", None),
            ("", None),
        ] {
            assert_eq!(nearest(name, fields), expected, "{name}");
        }
    }
}

//! Suggestions for misspelled names.

/// The least Jaro-Winkler similarity of a suggestion. Below it, suggestions are guesses.
const MIN_SIMILARITY: f64 = 0.8;

/// Words of other programs for fields of ours.
const SYNONYMS: [(&str, &str); 5] = [
    ("arguments", "args"),
    ("cmd", "command"),
    ("environment", "env"),
    ("executable", "command"),
    ("program", "command"),
];

/// Returns the candidate that is most similar to `name`, regardless of case, underscores and hyphens. The first of
/// equals wins. A word of another program for a field of ours, such as `cmd`, means that field, if it is a candidate.
/// Returns `None` if no candidate is similar enough.
pub fn nearest<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let candidates = Vec::from_iter(candidates);
    if let Some((_, meant)) = SYNONYMS.iter().find(|(other, _)| other.eq_ignore_ascii_case(name))
        && let Some(known) = candidates.iter().find(|known| *known == meant)
    {
        return Some(known);
    }
    let name = normalized(name);
    let mut best = None;
    let mut best_similarity = MIN_SIMILARITY;
    for candidate in candidates {
        let similarity = strsim::jaro_winkler(&name, &normalized(candidate));
        if similarity > best_similarity {
            best = Some(candidate);
            best_similarity = similarity;
        }
    }
    best
}

fn normalized(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '_' | '-')).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_found_regardless_of_case() {
        let fields = ["command", "args", "env", "env_file", "idle_timeout"];
        for (name, expected) in [
            ("comand", Some("command")),
            ("arg", Some("args")),
            ("IDLE-TIMEOUT", Some("idle_timeout")),
            ("idletimout", Some("idle_timeout")),
            ("arguments", Some("args")),
            ("cmd", Some("command")),
            ("environment", Some("env")),
            ("zzz", None),
            ("", None),
        ] {
            assert_eq!(nearest(name, fields), expected, "{name}");
        }
    }
}

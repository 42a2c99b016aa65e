//! Steps: the parts of a query that ask for one thing after another.

/// Words that begin another step.
const SEQUENCE_WORDS: &[&str] = &[
    "then",
    "afterwards",
    "afterward",
    "finally",
    "lastly",
    "subsequently", // English
    "dann",
    "danach",
    "anschließend",
    "schließlich",
    "zuletzt", // German
    "puis",
    "ensuite",
    "enfin", // French
    "luego",
    "después",
    "finalmente", // Spanish
    "poi",
    "dopodiché",
    "infine", // Italian
    "затем",
    "потом",
    "наконец", // Russian
];
/// Pairs of words that begin another step.
const SEQUENCE_PAIRS: &[(&str, &str)] = &[
    ("after", "that"),
    ("after", "this"),
    ("after", "which"),
    ("followed", "by"),
    ("après", "cela"),
    ("после", "этого"),
];
/// With one of these words before it, a sequence word tells a time: "since then".
const TIME_WORDS: &[&str] =
    &["since", "by", "until", "till", "back", "before", "from", "seit", "bis", "depuis"];
/// Words of languages without spaces that begin another step.
const UNSPACED_SEQUENCE_WORDS: &[&str] =
    &["然后", "接着", "之后", "最后", "その後", "それから", "그런 다음", "그 후"];
/// Characters that end a step.
const STEP_ENDS: &[char] = &[';', '；', '\n', '→'];
/// More steps than this are not told apart: a list of results has few places.
const MAX_STEPS: usize = 8;

/// Splits a query into its steps, in order. A query without signs of a sequence is one step. A part without a letter or
/// digit is left out, so a query without any has no step. What follows the last step that is told apart belongs to it.
pub fn steps(query: &str) -> Vec<&str> {
    let mut cuts = Vec::new();
    let is_numbered = has_numbers(query);
    let mut before: Option<(usize, String)> = None;
    for word in query.split_whitespace() {
        let start = word.as_ptr().addr() - query.as_ptr().addr();
        let plain = word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
        let last = before.as_ref().map_or("", |(_, word)| word.as_str());
        if SEQUENCE_WORDS.contains(&plain.as_str()) && !TIME_WORDS.contains(&last)
            || is_numbered && number(word).is_some()
        {
            cuts.push((start, start + word.len()));
        } else if let Some((pair_start, _)) =
            before.as_ref().filter(|_| SEQUENCE_PAIRS.contains(&(last, plain.as_str())))
        {
            cuts.push((*pair_start, start + word.len()));
        }
        before = Some((start, plain));
    }
    cuts.extend(query.match_indices(STEP_ENDS).map(|(at, end)| (at, at + end.len())));
    cuts.extend(query.match_indices("->").map(|(at, end)| (at, at + end.len())));
    for word in UNSPACED_SEQUENCE_WORDS.iter().filter(|_| !query.is_ascii()) {
        cuts.extend(query.match_indices(*word).map(|(at, word)| (at, at + word.len())));
    }
    cuts.sort_unstable();
    cuts.truncate(MAX_STEPS - 1);
    let mut parts = Vec::new();
    let mut start = 0;
    for (from, to) in cuts {
        parts.extend(query.get(start..from));
        start = start.max(to);
    }
    parts.extend(query.get(start..));
    parts.retain(|part| part.contains(char::is_alphanumeric));
    parts
}

/// Returns whether a text has the numbers of a list: `1.` and `2.`.
fn has_numbers(text: &str) -> bool {
    let mut numbers = text.split_whitespace().filter_map(number);
    numbers.any(|number| number == 1) && numbers.any(|number| number == 2)
}

/// Returns the number that a word gives to an item of a list: `2.`, `2)` or `(2)`.
fn number(word: &str) -> Option<u8> {
    let digits = word.strip_suffix(['.', ')', ':'])?;
    digits.strip_prefix('(').unwrap_or(digits).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::steps;

    fn trimmed(query: &str) -> Vec<&str> {
        steps(query).into_iter().map(|step| step.trim_matches([' ', ',', '.'])).collect()
    }

    #[test]
    fn sequences_are_split() {
        assert_eq!(trimmed("read the file, then mail it"), ["read the file", "mail it"]);
        assert_eq!(trimmed("read it. After that, mail it; print it"), ["read it", "mail it", "print it"]);
        assert_eq!(trimmed("1. read it 2. mail it"), ["read it", "mail it"]);
        assert_eq!(trimmed("(1) read it\n(2) mail it"), ["read it", "mail it"]);
        assert_eq!(trimmed("erst lesen, dann senden"), ["erst lesen", "senden"]);
        assert_eq!(trimmed("查询天气然后发送邮件"), ["查询天气", "发送邮件"]);
    }

    #[test]
    fn one_step_stays_whole() {
        for query in [
            "what has changed since then",
            "page 2) of it",
            "salt and pepper, and oil",
            "the weather after the rain",
        ] {
            assert_eq!(steps(query), [query]);
        }
        assert!(steps("; then;").is_empty());
    }
}

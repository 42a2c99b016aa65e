//! Keys and names that differ only in case. Some readers of JSON, Go's `encoding/json` first of all, take a member
//! `Name` for `name`: they compare keys by Unicode's simple case folding, by which also U+017F is an `s` and U+212A a `k`.

/// Folds a character, as Go's `unicode.SimpleFold` compares it.
fn fold(c: char) -> char {
    match c {
        c if c.is_ascii() => c.to_ascii_lowercase(),
        // Without a dot it is a letter of its own, although its capital is `I`.
        'ı' => c,
        c => {
            let upper = only(c.to_uppercase()).unwrap_or(c);
            only(upper.to_lowercase()).unwrap_or(upper)
        }
    }
}

/// Returns the character that a mapping consists of. Simple folding ignores mappings to several.
fn only(mut mapped: impl Iterator<Item = char>) -> Option<char> {
    mapped.next().filter(|_| mapped.next().is_none())
}

/// Folds every character of a text.
pub fn folded(text: &str) -> String {
    text.chars().map(fold).collect()
}

/// Returns whether two texts are equal or differ only in case.
pub fn is_same(a: &str, b: &str) -> bool {
    a.chars().map(fold).eq(b.chars().map(fold))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_the_same_if_go_takes_them_for_the_same() {
        for (a, b) in [
            ("name", "NaMe"),
            ("arguments", "argumentſ"),
            ("task", "taſ\u{212a}"),
            ("dry_run", "DRY_RUN"),
            ("größe", "GRÖẞE"),
            ("σ", "ς"),
            ("å", "\u{212b}"),
            ("ǆ", "ǅ"),
            ("µ", "μ"),
        ] {
            assert!(is_same(a, b) && folded(a) == folded(b), "{a} {b}");
        }
        for (a, b) in
            [("name", "names"), ("name", "nam"), ("uri", "urı"), ("uri", "urİ"), ("ß", "ss"), ("é", "e")]
        {
            assert!(!is_same(a, b), "{a} {b}");
        }
    }
}

//! Globs over names of tools: `*`, `?`, `[a-z]`, `[!a-z]`, `{one,other}`, and `\` before a character that stands for itself.
//!
//! A glob must match the whole name. No character is special in a name: `*` also matches `/`. A glob has a limited length,
//! so the time for a match grows only with the length of the name, for any glob.

use std::iter::Peekable;
use std::str::Chars;

/// How deep braces may be nested.
const MAX_DEPTH: usize = 16;
/// The longest glob, in bytes: as long as the longest name that MCP clients may use.
const MAX_BYTES: usize = 1 << 10;

/// A glob, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob(Vec<GlobToken>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum GlobToken {
    Literal(char),
    /// `?`
    AnyCharacter,
    /// `*`
    AnyText,
    /// `[…]`
    Class {
        is_negated: bool,
        ranges: Vec<(char, char)>,
    },
    /// `{…,…}`
    Alternatives(Vec<Vec<Self>>),
}

/// Why a text is not a glob. Its text does not repeat the glob, which may be a secret in the wrong place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GlobError {
    /// `[` without `]`.
    #[error("unclosed character class; missing ']'")]
    UnclosedClass,
    /// Such as `[z-a]`.
    #[error("invalid range; its end is before its start")]
    InvalidRange,
    /// `{` without `}`.
    #[error("unclosed alternate group; missing '}}' (maybe escape '{{' with '[{{]'?)")]
    UnclosedAlternatives,
    /// `}` without `{`.
    #[error("unopened alternate group; missing '{{' (maybe escape '}}' with '[}}]'?)")]
    UnopenedAlternatives,
    /// Braces within braces, too often.
    #[error("braces are nested deeper than {MAX_DEPTH}")]
    TooDeep,
    /// `\` at the end.
    #[error("dangling '\\'")]
    DanglingEscape,
    /// More than [`MAX_BYTES`].
    #[error("it has {0} bytes, and the limit is {MAX_BYTES}; write several globs")]
    TooLong(usize),
}

impl Glob {
    /// Parses a glob.
    ///
    /// # Errors
    ///
    /// Fails if brackets, braces or escapes are incomplete, if a range ends before its start, if braces are nested
    /// deeper than 16 levels, or if the text has more than 1,024 bytes.
    pub fn parse(text: &str) -> Result<Self, GlobError> {
        if text.len() > MAX_BYTES {
            return Err(GlobError::TooLong(text.len()));
        }
        let mut chars = text.chars().peekable();
        let tokens = parse_tokens(&mut chars, 0)?;
        match chars.next() {
            None => Ok(Self(tokens)),
            Some(_) => Err(GlobError::UnopenedAlternatives),
        }
    }

    /// Makes the glob that matches only `name`.
    pub(crate) fn literal(name: &str) -> Self {
        Self(name.chars().map(GlobToken::Literal).collect())
    }

    /// Returns the only name that the glob matches. `None` if it may match others.
    pub fn only_name(&self) -> Option<String> {
        let only = |token: &GlobToken| match token {
            GlobToken::Literal(only) => Some(*only),
            GlobToken::Class { is_negated: false, ranges } => match ranges[..] {
                [(first, last)] if first == last => Some(first),
                _ => None,
            },
            _ => None,
        };
        self.0.iter().map(only).collect()
    }

    /// Returns the text of the glob that matches only `name`.
    pub fn escape(name: &str) -> String {
        let mut escaped = String::with_capacity(name.len());
        for character in name.chars() {
            if matches!(character, '*' | '?' | '[' | ']' | '{' | '}' | '\\') {
                escaped.extend(['[', character, ']']);
            } else {
                escaped.push(character);
            }
        }
        escaped
    }

    /// Returns whether the glob matches the whole name.
    pub fn matches(&self, name: &str) -> bool {
        // Most globs are names, and most names differ from them in the first characters.
        let (mut tokens, mut rest) = (&self.0[..], name.chars());
        while let [GlobToken::Literal(character), more @ ..] = tokens {
            if rest.next() != Some(*character) {
                return false;
            }
            tokens = more;
        }
        let rest: Vec<char> = rest.collect();
        let mut ends = vec![false; rest.len() + 1];
        ends[0] = true;
        advance(tokens, &rest, &mut ends);
        ends[rest.len()]
    }
}

/// Matches `tokens` from each of the positions in the name that are true in `ends`, and sets it to the positions where
/// such a match may end. Position n is before the character n.
fn advance(tokens: &[GlobToken], name: &[char], ends: &mut Vec<bool>) {
    for token in tokens {
        if !ends.contains(&true) {
            return;
        }
        match token {
            GlobToken::AnyText => {
                let mut is_after_start = false;
                for end in ends.iter_mut() {
                    is_after_start |= *end;
                    *end = is_after_start;
                }
            }
            GlobToken::Alternatives(alternatives) => {
                let starts = std::mem::replace(ends, vec![false; name.len() + 1]);
                for alternative in alternatives {
                    let mut own_ends = starts.clone();
                    advance(alternative, name, &mut own_ends);
                    ends.iter_mut().zip(own_ends).for_each(|(end, own)| *end |= own);
                }
            }
            single => {
                for (position, character) in name.iter().enumerate().rev() {
                    ends[position + 1] = ends[position] && single.matches(*character);
                }
                ends[0] = false;
            }
        }
    }
}

impl GlobToken {
    /// Returns whether the token, which stands for one character, matches this one.
    fn matches(&self, character: char) -> bool {
        match self {
            Self::Literal(literal) => *literal == character,
            Self::Class { is_negated, ranges } => {
                ranges.iter().any(|(first, last)| (*first..=*last).contains(&character)) != *is_negated
            }
            Self::AnyCharacter | Self::AnyText | Self::Alternatives(_) => true,
        }
    }
}

/// Parses up to the end of the text or, within braces, to the `,` or `}` that follows, which is not consumed. At depth 0
/// a `}` ends it, too.
///
/// # Errors
///
/// See [`GlobError`].
fn parse_tokens(chars: &mut Peekable<Chars<'_>>, depth: usize) -> Result<Vec<GlobToken>, GlobError> {
    let mut tokens = Vec::new();
    while let Some(character) = chars.next_if(|next| *next != '}' && (*next != ',' || depth == 0)) {
        tokens.push(match character {
            '?' => GlobToken::AnyCharacter,
            '*' => GlobToken::AnyText,
            '[' => parse_class(chars)?,
            '{' => parse_alternatives(chars, depth + 1)?,
            '\\' => GlobToken::Literal(chars.next().ok_or(GlobError::DanglingEscape)?),
            literal => GlobToken::Literal(literal),
        });
    }
    Ok(tokens)
}

/// Parses what follows a `{`, to its `}`. `depth` counts the braces that are open, with this one.
///
/// # Errors
///
/// `TooDeep` beyond [`MAX_DEPTH`], `UnclosedAlternatives` without a `}`, or that of a part.
fn parse_alternatives(chars: &mut Peekable<Chars<'_>>, depth: usize) -> Result<GlobToken, GlobError> {
    if depth > MAX_DEPTH {
        return Err(GlobError::TooDeep);
    }
    let mut alternatives = Vec::new();
    loop {
        alternatives.push(parse_tokens(chars, depth)?);
        match chars.next() {
            Some(',') => {}
            Some(_) => return Ok(GlobToken::Alternatives(alternatives)),
            None => return Err(GlobError::UnclosedAlternatives),
        }
    }
}

/// Parses what follows a `[`, to its `]`. A `]` at the start and a `-` at the start or end stand for themselves.
///
/// # Errors
///
/// `UnclosedClass` without a `]`, `InvalidRange` if a range ends before its start.
fn parse_class(chars: &mut Peekable<Chars<'_>>) -> Result<GlobToken, GlobError> {
    let is_negated = chars.next_if(|next| matches!(next, '!' | '^')).is_some();
    let mut ranges = Vec::new();
    loop {
        let first = chars.next().ok_or(GlobError::UnclosedClass)?;
        if first == ']' && !ranges.is_empty() {
            return Ok(GlobToken::Class { is_negated, ranges });
        }
        let mut after = chars.clone();
        let is_range = after.next() == Some('-') && after.next().is_some_and(|last| last != ']');
        if !is_range {
            ranges.push((first, first));
            continue;
        }
        chars.next();
        let last = chars.next().ok_or(GlobError::UnclosedClass)?;
        if last < first {
            return Err(GlobError::InvalidRange);
        }
        ranges.push((first, last));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matches(glob: &str, name: &str) -> bool {
        Glob::parse(glob).unwrap().matches(name)
    }

    #[test]
    fn a_glob_matches_the_whole_name() {
        for (glob, name) in [
            ("", ""),
            ("a", "a"),
            ("*", ""),
            ("*", "a/b.c"),
            ("get_*", "get_"),
            ("*_x*", "a_x_xb"),
            ("?é", "ìé"),
            ("[a-c-]x", "-x"),
            ("[]!]", "]"),
            ("[!a]", "b"),
            ("[a-a]", "a"),
            ("{get,list}_{,all_}x", "list_x"),
            ("{a,{b,c*}d}", "cxxd"),
            (r"\*\{", "*{"),
            ("a,b", "a,b"),
        ] {
            assert!(matches(glob, name), "{glob} {name}");
        }
        for (glob, name) in
            [("a", "ab"), ("b", "ab"), ("", "a"), ("?", ""), ("?", "ab"), ("[!a]", "a"), ("{a,b}", "ab")]
        {
            assert!(!matches(glob, name), "{glob} {name}");
        }
    }

    #[test]
    fn an_incomplete_glob_is_an_error() {
        for (glob, error) in [
            ("a[", GlobError::UnclosedClass),
            ("[]", GlobError::UnclosedClass),
            ("[b-a]", GlobError::InvalidRange),
            ("{a", GlobError::UnclosedAlternatives),
            ("a}", GlobError::UnopenedAlternatives),
            ("a\\", GlobError::DanglingEscape),
            ("{".repeat(1000).as_str(), GlobError::TooDeep),
            ("a".repeat(MAX_BYTES + 1).as_str(), GlobError::TooLong(MAX_BYTES + 1)),
        ] {
            assert_eq!(Glob::parse(glob), Err(error), "{glob:.10}");
        }
    }

    #[test]
    fn braces_may_be_nested_to_the_limit() {
        let nested = |depth| format!("{}a{}", "{".repeat(depth), "}".repeat(depth));
        assert!(matches(&nested(MAX_DEPTH), "a"));
        assert_eq!(Glob::parse(&nested(MAX_DEPTH + 1)), Err(GlobError::TooDeep));
    }

    #[test]
    fn no_glob_takes_long() {
        let glob = format!("{}b", "{*a,*{a,aa}*}".repeat(MAX_BYTES / 13 - 1));
        assert!(!matches(&glob, &"a".repeat(10_000)));
    }

    proptest! {
        #[test]
        fn an_escaped_name_matches_only_itself(name in r"[ab*?\[\]{},!^\\-]{0,8}", other in "[ab*]{0,3}") {
            let glob = Glob::escape(&name);
            prop_assert!(matches(&glob, &name));
            prop_assert_eq!(matches(&glob, &other), name == other);
        }

        /// globset is the reference. It has rules of its own for `**` beside a separator, which the backslash is to it on
        /// Windows, and for `[a-c-e]`.
        #[test]
        fn globs_match_what_globset_matches(
            parts in prop::collection::vec(
                prop::sample::select(vec![
                    "a", "b", "c", "*", "**", "?", "[ab]", "[a-c]", "[!a]", "[^b]", "[]a]", "[a-]", "[-a]", "[*]", "{",
                    "{", "}", "}", ",", r"\*", "[", "]", "[c-a]", "{a,b}", "{*a,}",
                ]),
                0..9,
            ),
            names in prop::collection::vec("[abc/*,-]{0,6}", 12),
        ) {
            let glob = parts.concat();
            prop_assume!(cfg!(unix) || !glob.contains(r"**\"));
            let reference = globset::GlobBuilder::new(&glob).empty_alternates(true).backslash_escape(true).build();
            let parsed = Glob::parse(&glob);
            prop_assert_eq!(parsed.is_ok(), reference.is_ok(), "{}", glob);
            if let (Ok(parsed), Ok(reference)) = (parsed, reference) {
                let reference = reference.compile_matcher();
                for name in names {
                    prop_assert_eq!(parsed.matches(&name), reference.is_match(&name), "{} {}", glob, name);
                }
            }
        }
    }
}

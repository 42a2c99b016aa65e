//! Text of others inside our own: one line, with every character visible, cut to a length.
//!
//! Upstreams choose the names, titles, descriptions and messages that stand in what a model, a user or a log reads. A
//! line break in a name would begin a line that seems to be ours, and a character without a glyph could hide or reorder
//! text (Trojan Source, CVE-2021-42574). [`visible`] is the only place that decides which characters are shown as
//! escapes; the other functions add quotation marks or fold white space. Bodies that are passed on as they are, such as
//! results and definitions, do not go through here.

use std::borrow::Borrow;
use std::fmt::{self, Write};
use std::path::Path;

/// English text and JSON have about four characters per token, by which tokens are estimated.
pub const CHARACTERS_PER_TOKEN: usize = 4;

/// Returns the text on one line: characters that end a line, control a terminal or have no glyph are escaped, as in
/// `\n` and `\u{202e}`. The escapes are visible themselves, so a second pass changes nothing.
pub fn visible(text: &str) -> String {
    Visible(text).to_string()
}

/// Returns a path for a text, as [`visible`] returns it.
pub fn path(path: &Path) -> String {
    visible(&path.to_string_lossy())
}

/// Returns the text with its lines and tabs, and everything else [`visible`]. CR LF becomes a line feed.
pub fn visible_lines(text: &str) -> String {
    let line = |line: &str| line.split('\t').map(visible).collect::<Vec<_>>().join("\t");
    text.replace("\r\n", "\n").split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// Displays a text as [`visible`] returns it.
pub struct Visible<'t>(pub &'t str);

impl fmt::Display for Visible<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Nearly all texts are plain, and this costs less.
        if self.0.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return f.write_str(self.0);
        }
        let mut before = None;
        let mut rest = self.0.chars().peekable();
        while let Some(c) = rest.next() {
            // Emoji consist of several characters. Between pictographs, the joining ones hide nothing.
            let is_part_of_emoji = match c {
                '\u{fe0f}' => before.is_some_and(is_pictograph),
                '\u{200d}' => {
                    before.is_some_and(|c| c == '\u{fe0f}' || is_pictograph(c))
                        && rest.peek().copied().is_some_and(is_pictograph)
                }
                _ => false,
            };
            let is_shown = !is_hidden(c) || is_part_of_emoji;
            before = Some(c).filter(|_| is_shown);
            match c {
                c if is_shown => f.write_char(c)?,
                c if c.is_control() => write!(f, "{}", c.escape_debug())?,
                c => write!(f, "{}", c.escape_unicode())?,
            }
        }
        Ok(())
    }
}

/// Folds every run of white space to one space and makes the rest [`visible`]: for descriptions, whose line breaks only
/// lay them out.
pub fn one_line(text: &str) -> String {
    visible(&folded(text))
}

/// Folds every run of white space to one space.
pub fn folded(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the text in quotation marks, so that it cannot be read as a part of the sentence that it stands in.
pub fn quoted(text: &str) -> String {
    format!("\"{}\"", visible(&text.replace('\\', "\\\\").replace('"', "\\\"")))
}

/// Returns the texts [`quoted`], separated by commas.
pub fn quoted_list<'t>(texts: impl IntoIterator<Item = &'t str>) -> String {
    joined(texts.into_iter().map(quoted))
}

/// Joins the entries of a list: `a, b, c`.
pub fn joined(entries: impl IntoIterator<Item = impl Borrow<str>>) -> String {
    entries.into_iter().collect::<Vec<_>>().join(", ")
}

/// Joins the first `max` entries of a list, and counts the others: `a, b and 3 more`.
pub fn joined_up_to(max: usize, entries: impl IntoIterator<Item = String>) -> String {
    let mut entries = entries.into_iter();
    let first = joined(entries.by_ref().take(max));
    match entries.count() {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// Returns a name for a list or a heading: as it is if it is one word of letters, digits, `_`, `-`, `.` and `/`, else
/// [`quoted`].
pub fn name(text: &str) -> String {
    // Nearly all names are ASCII, which has no hidden letters.
    let is_plain = |c: char| {
        c.is_ascii_alphanumeric()
            || matches!(c, '_' | '-' | '.' | '/')
            || c.is_alphanumeric() && !is_hidden(c)
    };
    if !text.is_empty() && text.chars().all(is_plain) { text.to_owned() } else { quoted(text) }
}

/// Returns a number with its noun: "1 tool", "2 tools".
pub fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Returns text of several lines with a `>` before each, so that none of them can be read as ours.
pub fn quoted_lines(text: &str) -> String {
    let lines = text.lines().map(|line| format!("> {}", visible(&line.replace('\t', "  "))));
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns a number with commas, for people and models.
pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns the text without its digits, to compare messages that differ only in numbers.
pub fn without_digits(text: &str) -> String {
    text.replace(|c: char| c.is_ascii_digit(), "")
}

/// Returns the last line that contains one of these texts, in any case. `words` are in lower case. `None` if there is
/// no such line.
pub fn last_line_with<'t>(text: &'t str, words: &[&str]) -> Option<&'t str> {
    text.lines().rfind(|line| has_word(line, words))
}

fn has_word(line: &str, words: &[&str]) -> bool {
    let line = line.to_lowercase();
    words.iter().any(|word| line.contains(word))
}

/// Returns the first line of an error, and `max` of the lines after it: those that speak of a failure, and the last
/// ones. The order stays.
pub fn telling_lines(text: &str, max: usize) -> Vec<&str> {
    const WORDS: [&str; 8] =
        ["error", "exception", "fail", "cannot", "not found", "no such", "missing", "required"];
    let mut lines = text.lines();
    let first = lines.next();
    let rest: Vec<_> = lines.collect();
    let (telling, others): (Vec<_>, Vec<_>) =
        (0..rest.len()).rev().partition(|&line| has_word(rest[line], &WORDS));
    let mut kept: Vec<_> = telling.into_iter().chain(others).take(max).collect();
    kept.sort_unstable();
    first.into_iter().chain(kept.into_iter().map(|line| rest[line])).collect()
}

/// Returns whether a character ends a line, controls a terminal, reorders its neighbours or has no glyph: the controls,
/// the line separators, and what Unicode calls default ignorable, with the tag characters.
pub(crate) fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// Returns whether a character is a symbol that emoji are made of.
fn is_pictograph(c: char) -> bool {
    matches!(c,
        '\u{a9}' | '\u{ae}' | '\u{203c}' | '\u{2049}' | '\u{2100}'..='\u{27ff}' | '\u{2900}'..='\u{2bff}'
        | '\u{3030}' | '\u{303d}' | '\u{3297}' | '\u{3299}' | '\u{1f000}'..='\u{1faff}')
}

/// Returns the first sentence of the first paragraph, on one line. One that begins with "deprecated" stands before it, so
/// that nobody chooses what its author has withdrawn.
pub fn summary(text: &str) -> String {
    const WARNING: &str = "deprecated";
    let sentences_of = |paragraph| {
        let line = one_line(paragraph);
        line.split_inclusive(". ").map(|sentence| sentence.trim_end().to_owned()).collect::<Vec<_>>()
    };
    let is_warning = |sentence: &String| {
        let words = sentence.trim_start_matches(|c: char| !c.is_alphabetic());
        words.get(..WARNING.len()).is_some_and(|word| word.eq_ignore_ascii_case(WARNING))
    };
    let mut sentences = text.trim().split("\n\n").flat_map(sentences_of);
    let first = sentences.next().unwrap_or_default();
    match sentences.find(is_warning) {
        Some(warning) if !is_warning(&first) => format!("{warning} {first}"),
        _ => first,
    }
}

/// Cuts `text` to at most `max` characters, at a word if one ends in the second half, and marks the cut with `…`.
pub fn shorten(text: &str, max: usize) -> String {
    if text.len() <= max || text.chars().count() <= max {
        return text.to_owned();
    }
    let end = text.char_indices().nth(max.saturating_sub(1)).map_or(text.len(), |(end, _)| end);
    let cut = &text[..end];
    let whole_words = cut.rfind(' ').filter(|&end| end > max / 2).map_or(cut, |end| &cut[..end]);
    format!("{}…", whole_words.trim_end_matches([' ', ',', ';', ':', '-', '(']))
}

/// Quotes a word for a POSIX shell, or on Windows for `cmd.exe` and PowerShell, if it needs that. `None` if it is not one
/// plain line, looks like an option, or cannot be quoted.
pub fn shell_word(word: &str) -> Option<String> {
    let plain = if cfg!(windows) { r"_-./:\+" } else { "_-./:@%+=," };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || plain.contains(c);
    if word.is_empty() || word.starts_with('-') || !word.chars().all(|c| c == ' ' || is_visible(c)) {
        return None;
    }
    if word.chars().all(is_plain) {
        return Some(word.to_owned());
    }
    if cfg!(windows) {
        // One of the shells interprets these between quotation marks.
        let is_safe = !word.contains(['"', '%', '$', '`', '!']) && !word.ends_with('\\');
        return is_safe.then(|| format!("\"{word}\""));
    }
    Some(format!("'{}'", word.replace('\'', r"'\''")))
}

/// Returns whether the character is shown as it is when a text is quoted.
fn is_visible(c: char) -> bool {
    matches!(c, '\'' | '"' | '\\') || c.escape_debug().count() == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_a_comma_after_each_three_digits() {
        for (number, text) in
            [(0, "0"), (999, "999"), (1000, "1,000"), (146_210, "146,210"), (1_048_576, "1,048,576")]
        {
            assert_eq!(grouped(number), text);
        }
    }
    use proptest::prelude::*;

    #[test]
    fn the_first_entries_are_named_and_the_others_counted() {
        let entries = |count: usize| (1..=count).map(|n| n.to_string());
        for (count, text) in
            [(0, ""), (1, "1"), (3, "1, 2, 3"), (4, "1, 2, 3 and 1 more"), (9, "1, 2, 3 and 6 more")]
        {
            assert_eq!(joined_up_to(3, entries(count)), text);
        }
    }

    #[test]
    fn a_summary_is_the_first_sentence_on_one_line() {
        assert_eq!(summary("Reads a file.\n\nMore about it."), "Reads a file.");
        assert_eq!(summary("  Reads v1.5\n  files. Then stops."), "Reads v1.5 files.");
        assert_eq!(summary("Reads\u{2029}a\u{202e} file\u{e0041}"), "Reads a\\u{202e} file\\u{e0041}");
        assert_eq!(summary(""), "");
        let old = "Reads a file. **Deprecated**: use read_text. Stops.";
        assert_eq!(summary(old), "**Deprecated**: use read_text. Reads a file.");
        assert_eq!(summary("DEPRECATED. Reads.\n\nDeprecated since 2."), "DEPRECATED.");
        assert_eq!(summary("Reads.\n\nThe option `x` is deprecated."), "Reads.");
    }

    #[test]
    fn shortens_text_after_a_whole_word() {
        assert_eq!(shorten("read a file from disk", 14), "read a file…");
        assert_eq!(shorten("éééé", 4), "éééé");
        assert_eq!(shorten("éééééééé", 4), "ééé…");
    }

    #[test]
    fn characters_that_hide_or_reorder_text_are_escaped() {
        for (text, wanted) in [
            ("a\n- bank: b", r"a\n- bank: b"),
            ("\r\t\0\u{1b}[2J\u{9b}\u{85}", r"\r\t\0\u{1b}[2J\u{9b}\u{85}"),
            ("\u{202e}\u{2066}\u{200f}\u{61c}", r"\u{202e}\u{2066}\u{200f}\u{61c}"),
            ("\u{200b}\u{ad}\u{feff}\u{2060}\u{3164}", r"\u{200b}\u{ad}\u{feff}\u{2060}\u{3164}"),
            ("\u{2028}\u{2029}", r"\u{2028}\u{2029}"),
            ("x\u{e0001}\u{e0049}\u{e007f}\u{e0100}", r"x\u{e0001}\u{e0049}\u{e007f}\u{e0100}"),
            ("x\u{fe0f}\u{fe00}y\u{200d}z", r"x\u{fe0f}\u{fe00}y\u{200d}z"),
            ("Grüße, мир, 搜索, नमस्ते, שלום \\d", "Grüße, мир, 搜索, नमस्ते, שלום \\d"),
        ] {
            assert_eq!(visible(text), wanted);
        }
    }

    #[test]
    fn emoji_stay_and_carry_nothing_else() {
        for emoji in ["⚠\u{fe0f}", "👩\u{200d}💻", "❤\u{fe0f}\u{200d}🔥", "👍🏽", "🇩🇪"] {
            assert_eq!(visible(emoji), emoji);
        }
        assert_eq!(visible("⚠\u{fe0f}\u{fe0f}\u{fe01}"), "⚠\u{fe0f}\\u{fe0f}\\u{fe01}");
        assert_eq!(visible("💻\u{200d}\u{200d}x"), r"💻\u{200d}\u{200d}x");
    }

    #[test]
    fn the_lines_that_speak_of_a_failure_are_kept() {
        let text = "it exited\n> start\n> Error: no key\n> at a\n> at b\n> at c\n> at d";
        assert_eq!(telling_lines(text, 3), ["it exited", "> Error: no key", "> at c", "> at d"]);
        assert_eq!(telling_lines("one\ntwo", 3), ["one", "two"]);
        assert_eq!(telling_lines("", 3), [""; 0]);
    }

    #[test]
    fn what_is_not_one_word_is_quoted() {
        assert_eq!(name("read_file-2.x/y"), "read_file-2.x/y");
        assert_eq!(name("搜索"), "搜索");
        for (text, wanted) in [
            ("", r#""""#),
            ("a b", r#""a b""#),
            ("a, b", r#""a, b""#),
            ("a\u{3164}", r#""a\u{3164}""#),
            ("a\"\\\n", r#""a\"\\\n""#),
        ] {
            assert_eq!(name(text), wanted);
        }
        assert_eq!(quoted("echo"), r#""echo""#);
        assert_eq!(quoted_lines("a\r\n\tb\rc\n\nGroup g"), "> a\n>   b\\rc\n> \n> Group g");
    }

    proptest! {
        #[test]
        fn visible_text_is_one_line_without_hidden_characters(text in "\\PC{0,20}|.{0,20}") {
            for shown in [visible(&text), one_line(&text), quoted(&text), name(&text), summary(&text)] {
                prop_assert_eq!(shown.lines().count().max(1), 1);
                let joins = |c| matches!(c, '\u{fe0f}' | '\u{200d}');
                prop_assert!(!shown.chars().any(|c| is_hidden(c) && !joins(c)), "{:?}", shown);
                prop_assert_eq!(visible(&shown), shown);
            }
        }
    }

    #[test]
    fn a_word_of_a_command_is_quoted_if_a_shell_would_read_it_otherwise() {
        for (word, expected) in [
            ("read_file", Some("read_file")),
            ("/a b/c.json", Some(if cfg!(windows) { "\"/a b/c.json\"" } else { "'/a b/c.json'" })),
            ("it's", Some(if cfg!(windows) { "\"it's\"" } else { r"'it'\''s'" })),
            ("$(rm)", (!cfg!(windows)).then_some("'$(rm)'")),
            (r"C:\a.json", Some(if cfg!(windows) { r"C:\a.json" } else { r"'C:\a.json'" })),
            ("", None),
            ("-x", None),
            ("a\nb", None),
            ("a\u{202e}b", None),
            ("a\u{e0041}b", None),
        ] {
            assert_eq!(shell_word(word).as_deref(), expected, "{word:?}");
        }
    }
}

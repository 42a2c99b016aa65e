//! Parts of a text: by bytes, by lines, or by a search. All offsets are in bytes of UTF-8, and no part cuts a character.

use base::text::grouped;
use memchr::{memchr_iter, memmem};
use std::fmt::Write;
use std::ops::Range;

/// How many matches of a search are shown.
const MAX_MATCHES: usize = 100;
/// A line up to this length in bytes is shown whole.
const MAX_LINE: usize = 300;
/// How much of a longer line is shown before and after a match, in bytes.
const CONTEXT: usize = 100;

/// A part of a text, by its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextPart {
    /// Where it is in the text.
    pub bytes: Range<usize>,
    /// Where what was asked for ends, if the part ends earlier because of the limit.
    pub(crate) cut_from: Option<usize>,
}

/// Returns the bytes from `from` up to `to`, at most `limit` of them. An offset within a character counts as its
/// beginning, so that parts which follow each other make up the text.
pub fn bytes(text: &str, from: usize, to: Option<usize>, limit: usize) -> TextPart {
    let floor = |at: usize| floor(text, at);
    let (start, wanted) = (floor(from), floor(to.unwrap_or(text.len())));
    let wanted = wanted.max(start);
    // A limit below the length of one character would never get further.
    let end = wanted.min(floor(start.saturating_add(limit.max(4))));
    TextPart { bytes: start..end, cut_from: (end < wanted).then_some(wanted) }
}

/// Returns the lines from `first` to `last`, counted from 1 and both included, at most `limit` bytes of them. The end
/// of the last line is left out. `None` if there are fewer lines than `first`.
pub fn lines(text: &str, first: usize, last: Option<usize>, limit: usize) -> Option<TextPart> {
    let start = line_start(text, first.max(1))?;
    let wanted = match last {
        Some(last) => {
            let after = last.max(first).saturating_sub(first.max(1));
            memchr_iter(b'\n', &text.as_bytes()[start..]).nth(after).map_or(text.len(), |at| start + at)
        }
        None => text.len() - usize::from(text.len() > start && text.ends_with('\n')),
    };
    if wanted - start <= limit {
        return Some(TextPart { bytes: start..wanted, cut_from: None });
    }
    // Whole lines if one fits.
    let room = floor(text, start + limit.max(4));
    let end = memchr::memrchr(b'\n', &text.as_bytes()[start..room])
        .filter(|at| *at > 0)
        .map_or(room, |at| start + at);
    Some(TextPart { bytes: start..end, cut_from: Some(wanted) })
}

/// Returns the beginning of the character that has the byte at `at`, or the end of the text.
pub fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default()
}

/// Returns the number of lines. A line end at the end of the text begins no line.
pub(crate) fn count_lines(text: &str) -> usize {
    let ends = memchr_iter(b'\n', text.as_bytes()).count();
    ends + usize::from(!text.is_empty() && !text.ends_with('\n'))
}

/// Returns the number of lines in words.
pub(crate) fn lines_in_words(text: &str) -> String {
    match count_lines(text) {
        1 => "1 line".to_owned(),
        lines => format!("{} lines", grouped(lines)),
    }
}

/// Returns the number of the line that has the byte at `at`, counted from 1.
pub fn line_of(text: &str, at: usize) -> usize {
    memchr_iter(b'\n', &text.as_bytes()[..at.min(text.len())]).count() + 1
}

/// Returns where a line begins. `None` if there is no such line.
fn line_start(text: &str, line: usize) -> Option<usize> {
    if line == 1 {
        return Some(0);
    }
    let start = memchr_iter(b'\n', text.as_bytes()).nth(line - 2)? + 1;
    (start < text.len()).then_some(start)
}

/// Finds `words` in the text, ignoring the case of ASCII letters, and describes each match on a line: its line, its
/// byte and what is around it. At most `MAX_MATCHES` are shown, and the answer has about `limit` bytes at most; all
/// matches are counted. A match inside what is already shown gets no line.
pub fn search(text: &str, words: &str, limit: usize) -> String {
    let (haystack, needle) = (text.to_ascii_lowercase(), words.to_ascii_lowercase());
    let (mut matches, mut shown) = (0_usize, String::new());
    let (mut shown_matches, mut covered) = (0_usize, 0_usize);
    let (mut line, mut counted) = (1, 0);
    for at in memmem::find_iter(haystack.as_bytes(), needle.as_bytes()) {
        matches += 1;
        if at < covered || shown_matches >= MAX_MATCHES || shown.len() >= limit {
            continue;
        }
        line += memchr_iter(b'\n', &text.as_bytes()[counted..at]).count();
        counted = at;
        let around = excerpt(text, at..at + needle.len());
        covered = around.end;
        shown_matches += 1;
        // Writing to a string cannot fail.
        writeln!(shown, "line {line}, byte {at}: {}", text[around].replace(['\n', '\r'], " ")).ok();
    }
    let lines = grouped(count_lines(text));
    match matches {
        0 => format!("No match in {lines} lines. Case makes no difference; the text is not a pattern."),
        1 => format!("1 match in {lines} lines, shown: 1\n{shown}"),
        _ => format!(
            "{} matches in {lines} lines, shown: {}\n{shown}",
            grouped(matches),
            grouped(shown_matches)
        ),
    }
}

/// Returns what is shown of a match: its line, or if that is long, what is around the match.
fn excerpt(text: &str, found: Range<usize>) -> Range<usize> {
    let bytes = text.as_bytes();
    let start = memchr::memrchr(b'\n', &bytes[..found.start]).map_or(0, |at| at + 1);
    let end = memchr::memchr(b'\n', &bytes[found.end..]).map_or(text.len(), |at| found.end + at);
    if end - start <= MAX_LINE {
        return start..end;
    }
    let from = found.start.saturating_sub(CONTEXT).max(start);
    let to = found.end.saturating_add(CONTEXT).min(end);
    let ceil = (to..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    floor(text, from)..ceil
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn line_part(text: &str, first: usize, last: Option<usize>, limit: usize) -> Option<(&str, bool)> {
        let part = lines(text, first, last, limit)?;
        Some((&text[part.bytes], part.cut_from.is_some()))
    }

    #[test]
    fn lines_are_counted_from_one_and_both_ends_belong_to_the_part() {
        let text = "one\ntwo\n\nfour\n";
        for (first, last, expected) in [
            (1, Some(1), Some("one")),
            (0, Some(1), Some("one")),
            (2, Some(3), Some("two\n")),
            (2, Some(4), Some("two\n\nfour")),
            (4, Some(99), Some("four\n")),
            (4, None, Some("four")),
            (5, None, None),
            (3, Some(2), Some("")),
        ] {
            assert_eq!(
                line_part(text, first, last, 100),
                expected.map(|text| (text, false)),
                "{first} {last:?}"
            );
        }
        assert_eq!(count_lines(text), 4);
        assert_eq!((count_lines(""), count_lines("a"), count_lines("\n")), (0, 1, 1));
        assert_eq!(line_part(text, 1, None, 8), Some(("one\ntwo", true)), "whole lines");
        assert_eq!(line_part("é".repeat(9).as_str(), 1, None, 5), Some(("éé", true)), "no line fits");
    }

    #[test]
    fn a_search_shows_where_each_match_is() {
        let text = format!("first\nHas a Word\n{}word{}\nlast word", "x".repeat(500), "é".repeat(500));
        let found = search(&text, "WORD", 10_000);
        let mut found = found.lines();
        assert_eq!(found.next(), Some("3 matches in 4 lines, shown: 3"));
        assert_eq!(found.next(), Some("line 2, byte 12: Has a Word"));
        let long = found.next().unwrap();
        assert!(long.starts_with("line 3, byte 517: xxx") && long.len() < 300, "{long}");
        assert_eq!(found.next(), Some(&*format!("line 4, byte {}: last word", text.len() - 4)));
        assert!(search(&text, "(word)", 10_000).starts_with("No match in 4 lines."));
        let many = search(&"word\n".repeat(100_000), "word", 1000);
        assert!(many.starts_with("100,000 matches in 100,000 lines, shown: ") && many.len() < 1100, "{many}");
        assert!(
            search(&"word".repeat(100_000), "word", 100_000).len() < 50_000,
            "matches that are shown already"
        );
    }

    proptest! {
        #[test]
        fn parts_that_follow_each_other_make_up_the_text(text in "(é|😀|a|\n){0,60}", size in 1usize..12, limit in 1usize..12) {
            let mut whole = String::new();
            for from in (0..text.len()).step_by(size) {
                let part = bytes(&text, from, Some(from + size), usize::MAX);
                prop_assert_eq!(part.cut_from, None);
                whole.push_str(&text[part.bytes]);
            }
            prop_assert_eq!(&whole, &text);
            // The same with the limit, by following where each part was cut.
            let (mut whole, mut from) = (String::new(), 0);
            loop {
                let part = bytes(&text, from, None, limit);
                whole.push_str(&text[part.bytes.clone()]);
                prop_assert!(part.bytes.len() <= limit.max(4));
                from = part.bytes.end;
                if part.cut_from.is_none() { break }
                prop_assert!(!part.bytes.is_empty());
            }
            prop_assert_eq!(&whole, &text);
        }

        #[test]
        fn every_line_is_what_the_standard_library_says(text in "(é|😀|a|\n){0,40}", limit in 1usize..200) {
            let expected: Vec<&str> = text.split_terminator('\n').collect();
            prop_assert_eq!(count_lines(&text), expected.len());
            for (n, line) in expected.iter().enumerate() {
                let part = lines(&text, n + 1, Some(n + 1), usize::MAX).unwrap();
                prop_assert_eq!(&text[part.bytes.clone()], *line);
                prop_assert_eq!(line_of(&text, part.bytes.start), n + 1);
                let cut = lines(&text, n + 1, None, limit).unwrap();
                prop_assert!(text.get(cut.bytes.clone()).is_some() && cut.bytes.len() <= limit.max(4));
                prop_assert!(!cut.bytes.is_empty() || cut.cut_from.is_none());
            }
            prop_assert_eq!(lines(&text, expected.len() + 2, None, limit), None);
        }

        #[test]
        fn no_place_and_no_words_cause_a_panic(text in "(é|😀|a|B|\n){0,30}", from: usize, to: Option<usize>, words in "(é|b|\n|x){1,3}") {
            let part = bytes(&text, from, to, 10);
            prop_assert!(text.get(part.bytes).is_some());
            let part = lines(&text, from, to, 10);
            prop_assert!(part.is_none_or(|part| text.get(part.bytes).is_some()));
            let found = search(&text, &words, 1000);
            let expected = text.to_ascii_lowercase().contains(&words.to_ascii_lowercase());
            prop_assert_eq!(!found.starts_with("No match"), expected);
        }
    }
}

//! Fits foreign text into our own: folds it to one line, or cuts it to a length.

/// Folds every run of white space to one space, so that the text is one line.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the first sentence of the first paragraph, on one line.
pub fn summary(text: &str) -> String {
    let line = one_line(text.trim().split("\n\n").next().unwrap_or_default());
    match line.find(". ") {
        Some(end) => line[..=end].to_owned(),
        None => line,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_the_first_sentence_on_one_line() {
        assert_eq!(summary("Reads a file.\n\nMore about it."), "Reads a file.");
        assert_eq!(summary("  Reads v1.5\n  files. Then stops."), "Reads v1.5 files.");
        assert_eq!(summary(""), "");
    }

    #[test]
    fn shortens_text_after_a_whole_word() {
        assert_eq!(shorten("read a file from disk", 14), "read a file…");
        assert_eq!(shorten("éééé", 4), "éééé");
        assert_eq!(shorten("éééééééé", 4), "ééé…");
    }
}

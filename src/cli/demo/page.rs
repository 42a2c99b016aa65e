//! How the demo looks: numbered steps, and what was asked and answered, within the width of a terminal.

use std::io::{self, Write};

const WIDTH: usize = 96;
const INDENT: &str = "   ";

const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const PLAIN: &str = "\x1b[0m";

pub struct Page<'a> {
    out: &'a mut dyn Write,
    color: bool,
    steps: usize,
}

impl<'a> Page<'a> {
    pub fn new(out: &'a mut dyn Write, color: bool) -> Self {
        Self { out, color, steps: 0 }
    }

    pub fn title(&mut self, text: &str) -> io::Result<()> {
        self.styled(BOLD, text)
    }

    /// A new step begins.
    pub fn step(&mut self, text: &str) -> io::Result<()> {
        self.steps += 1;
        let heading = format!("{}. {text}", self.steps);
        writeln!(self.out)?;
        self.styled(BOLD, &heading)
    }

    /// A sentence or more.
    pub fn say(&mut self, text: &str) -> io::Result<()> {
        for line in wrap(text, WIDTH - INDENT.len()) {
            writeln!(self.out, "{INDENT}{line}")?;
        }
        Ok(())
    }

    /// A line as it is: of a table, or to be copied.
    pub fn row(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "{INDENT}{text}")
    }

    /// What the client sends.
    pub fn asked(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out)?;
        self.marked("→ ", text, PLAIN)
    }

    /// What it gets.
    pub fn answered(&mut self, text: &str) -> io::Result<()> {
        self.marked("← ", text, DIM)
    }

    pub fn gap(&mut self) -> io::Result<()> {
        writeln!(self.out)
    }

    fn marked(&mut self, mark: &str, text: &str, style: &str) -> io::Result<()> {
        let width = WIDTH - INDENT.len() - 2;
        let lines = text.lines().flat_map(|line| wrap(line, width));
        for (n, line) in lines.enumerate() {
            let mark = if n == 0 { mark } else { "  " };
            self.styled(style, &format!("{INDENT}{mark}{line}"))?;
        }
        Ok(())
    }

    fn styled(&mut self, style: &str, line: &str) -> io::Result<()> {
        match self.color {
            true => writeln!(self.out, "{style}{line}{PLAIN}"),
            false => writeln!(self.out, "{line}"),
        }
    }
}

/// `text` in lines of at most `width` characters, broken after spaces and commas, or inside what is longer.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split_inclusive([' ', ',']) {
        if used > 0 && used + word.trim_end().chars().count() > width {
            lines.push(String::new());
            used = 0;
        }
        for c in word.chars() {
            if used >= width && c != ' ' {
                lines.push(String::new());
                used = 0;
            }
            lines.last_mut().into_iter().for_each(|line| line.push(c));
            used += 1;
        }
    }
    lines.into_iter().map(|line| line.trim_end().to_owned()).collect()
}

/// `n` with commas between the thousands.
pub fn thousands(n: usize) -> String {
    let digits = n.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_between_words_where_they_can() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("[1,22,333]", 5), ["[1,", "22,", "333]"]);
        assert_eq!(wrap("a abcdefgh b", 4), ["a", "abcd", "efgh", "b"]);
        assert_eq!(wrap("", 4), [""]);
    }

    #[test]
    fn numbers_are_easy_to_read() {
        assert_eq!([0, 999, 1000, 1_234_567].map(thousands), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn there_is_no_color_unless_asked_for() {
        for (color, escapes) in [(false, 0), (true, 4)] {
            let mut out = Vec::new();
            let mut page = Page::new(&mut out, color);
            page.step("first").unwrap();
            page.answered("yes").unwrap();
            let text = String::from_utf8(out).unwrap();
            assert!(text.contains("1. first") && text.contains("   ← yes"), "{text:?}");
            assert_eq!(text.matches('\x1b').count(), escapes);
        }
    }
}

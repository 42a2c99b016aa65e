//! The layout of the demo's output: numbered steps, and lines that fit the terminal.

use std::io;
use terminal::{TextStyle, VisibleText};

const MIN_WIDTH: usize = 40;
const MAX_WIDTH: usize = 96;
const INDENT: &str = "   ";

/// Writes the demo's output.
pub(super) struct Printer<'a> {
    /// Prints lines.
    print: &'a mut dyn FnMut(&VisibleText) -> io::Result<()>,
    /// Whether headings and answers are styled.
    has_color: bool,
    /// The number of characters in a line, including its indentation.
    width: usize,
    /// The number of the last step.
    step: usize,
}

impl<'a> Printer<'a> {
    /// Creates a printer. `width` is that of the terminal, or `None` if the lines go elsewhere.
    pub(super) fn new(
        print: &'a mut dyn FnMut(&VisibleText) -> io::Result<()>,
        has_color: bool,
        width: Option<u16>,
    ) -> Self {
        let width = width.map_or(MAX_WIDTH, |width| usize::from(width).clamp(MIN_WIDTH, MAX_WIDTH));
        Self { print, has_color, width, step: 0 }
    }

    /// Writes the title of the demo.
    ///
    /// # Errors
    ///
    /// Fails if the output cannot be written.
    pub(super) fn title(&mut self, text: &str) -> io::Result<()> {
        self.print(|printer, out| printer.block(out, "", text, Some(TextStyle::Bold)))
    }

    /// Writes the numbered heading of the next step.
    ///
    /// # Errors
    ///
    /// Fails if the output cannot be written.
    pub(super) fn step(&mut self, text: &str) -> io::Result<()> {
        self.step += 1;
        self.print(|printer, out| {
            out.line("");
            printer.block(out, &format!("{}. ", printer.step), text, Some(TextStyle::Bold));
        })
    }

    /// Writes a paragraph.
    ///
    /// # Errors
    ///
    /// Fails if the output cannot be written.
    pub(super) fn paragraph(&mut self, text: &str) -> io::Result<()> {
        self.print(|printer, out| {
            out.line("");
            printer.block(out, INDENT, text, None);
        })
    }

    /// Writes what the client sends and what it receives.
    ///
    /// # Errors
    ///
    /// Fails if the output cannot be written.
    pub(super) fn exchange(&mut self, request: &str, response: &str) -> io::Result<()> {
        self.print(|printer, out| {
            out.line("");
            printer.block(out, &format!("{INDENT}→ "), request, None);
            printer.block(out, &format!("{INDENT}← "), response, Some(TextStyle::Dim));
        })
    }

    /// Writes lines without breaking them.
    ///
    /// # Errors
    ///
    /// Fails if the output cannot be written.
    pub(super) fn verbatim(&mut self, lines: &str) -> io::Result<()> {
        self.print(|_, out| {
            out.line("");
            out.lines(INDENT, lines);
        })
    }

    fn print(&mut self, make: impl FnOnce(&Self, &mut VisibleText)) -> io::Result<()> {
        let mut out = VisibleText::default();
        make(self, &mut out);
        (self.print)(&out)
    }

    /// Adds `text` behind `prefix`, broken into lines that begin below the first one.
    fn block(&self, out: &mut VisibleText, prefix: &str, text: &str, style: Option<TextStyle>) {
        let indent = " ".repeat(prefix.chars().count());
        let lines = text.lines().flat_map(|line| wrap(line, self.width - indent.len()));
        for (n, line) in lines.enumerate() {
            let prefix = if n == 0 { prefix } else { &indent };
            let line = format!("{prefix}{}", line.trim_end());
            match style.filter(|_| self.has_color) {
                Some(style) => out.styled_line(style, line),
                None => out.line(line),
            }
        }
    }
}

/// Breaks a line after spaces and commas into lines of at most `width` characters, if its words are not longer.
fn wrap(line: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in line.split_inclusive([' ', ',']) {
        let [.., last] = &mut lines[..] else { break };
        match last.is_empty() || last.chars().count() + word.trim_end().chars().count() <= width {
            true => last.push_str(word),
            false => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_fits_the_terminal_and_has_color_only_if_asked_for() {
        let print = |has_color| {
            let mut out = String::new();
            let mut print = |text: &VisibleText| {
                out.push_str(&text.to_string());
                Ok(())
            };
            let mut printer = Printer::new(&mut print, has_color, Some(44));
            printer.step("first").unwrap();
            printer.exchange("ask", &"word [1,2] ".repeat(9)).unwrap();
            out
        };
        let plain = print(false);
        assert!(plain.starts_with("\n1. first\n\n   → ask\n   ← word [1,2] word "), "{plain:?}");
        assert!(plain.lines().all(|line| line.chars().count() <= 44), "{plain:?}");
        let color = print(true);
        assert!(color.starts_with("\n\x1b[1m1. first\x1b[0m\n\n   → ask\n\x1b[2m   ← word"), "{color:?}");
        assert_eq!(
            ["\x1b[1m", "\x1b[2m", "\x1b[0m"].iter().fold(color, |text, style| text.replace(style, "")),
            plain
        );
    }
}

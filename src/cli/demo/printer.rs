//! The layout of the demo's output: numbered steps, and lines that fit the terminal.

use std::io::{self, Write};

const MIN_WIDTH: usize = 40;
const MAX_WIDTH: usize = 96;
const INDENT: &str = "   ";

const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const RESET: &str = "\x1b[0m";

/// Writes the demo's output.
pub(super) struct Printer<'a> {
    /// Where the output goes.
    out: &'a mut dyn Write,
    /// Whether headings and answers are styled.
    has_color: bool,
    /// The number of characters in a line, including its indentation.
    width: usize,
    /// The number of the last step.
    step: usize,
}

impl<'a> Printer<'a> {
    /// Creates a printer. `width` is that of the terminal, or `None` if `out` is not a terminal.
    pub(super) fn new(out: &'a mut dyn Write, has_color: bool, width: Option<u16>) -> Self {
        let width = width.map_or(MAX_WIDTH, |width| usize::from(width).clamp(MIN_WIDTH, MAX_WIDTH));
        Self { out, has_color, width, step: 0 }
    }

    /// Writes the title of the demo.
    pub(super) fn title(&mut self, text: &str) -> io::Result<()> {
        self.block("", text, BOLD)
    }

    /// Writes the numbered heading of the next step.
    pub(super) fn step(&mut self, text: &str) -> io::Result<()> {
        self.step += 1;
        writeln!(self.out)?;
        self.block(&format!("{}. ", self.step), text, BOLD)
    }

    /// Writes a paragraph.
    pub(super) fn paragraph(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out)?;
        self.block(INDENT, text, "")
    }

    /// Writes what the client sends and what it receives.
    pub(super) fn exchange(&mut self, request: &str, response: &str) -> io::Result<()> {
        writeln!(self.out)?;
        self.block(&format!("{INDENT}→ "), request, "")?;
        self.block(&format!("{INDENT}← "), response, DIM)
    }

    /// Writes lines without breaking them.
    pub(super) fn verbatim(&mut self, lines: &str) -> io::Result<()> {
        writeln!(self.out)?;
        lines.lines().try_for_each(|line| writeln!(self.out, "{INDENT}{line}"))
    }

    /// Writes `text` behind `prefix`, broken into lines that begin below the first one.
    fn block(&mut self, prefix: &str, text: &str, style: &str) -> io::Result<()> {
        let [style, reset] = if self.has_color && !style.is_empty() { [style, RESET] } else { [""; 2] };
        let indent = " ".repeat(prefix.chars().count());
        let lines = text.lines().flat_map(|line| wrap(line, self.width - indent.len()));
        for (n, line) in lines.enumerate() {
            let prefix = if n == 0 { prefix } else { &indent };
            writeln!(self.out, "{style}{prefix}{}{reset}", line.trim_end())?;
        }
        Ok(())
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
            let mut out = Vec::new();
            let mut printer = Printer::new(&mut out, has_color, Some(44));
            printer.step("first").unwrap();
            printer.exchange("ask", &"word [1,2] ".repeat(9)).unwrap();
            String::from_utf8(out).unwrap()
        };
        let plain = print(false);
        assert!(plain.starts_with("\n1. first\n\n   → ask\n   ← word [1,2] word "), "{plain:?}");
        assert!(plain.lines().all(|line| line.chars().count() <= 44), "{plain:?}");
        let color = print(true);
        assert!(color.starts_with("\n\x1b[1m1. first\x1b[0m\n\n   → ask\n\x1b[2m   ← word"), "{color:?}");
        assert_eq!([BOLD, DIM, RESET].iter().fold(color, |text, style| text.replace(style, "")), plain);
    }
}

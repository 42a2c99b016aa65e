//! Prints on stderr what commands tell a person. Nothing fails for it: the terminal may be closed, or the reader of a
//! pipe gone, where `eprintln!` would panic.

use crate::text::shorten;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

/// The length of a line that shows progress, in characters.
const MAX_PROGRESS: usize = 76;
/// Moves to the beginning of the line and erases it.
const ERASE_LINE: &str = "\r\x1b[K";

/// Prints a line that begins with the name of the program.
pub fn message(text: impl Display) {
    print(format_args!("dynamic-mcp: {text}\n"));
}

/// Prints text as it is, in one write, so that texts of two processes do not mix.
pub(super) fn print(text: impl Display) {
    io::stderr().write_all(text.to_string().as_bytes()).ok();
}

/// The line of a terminal that shows what a command waits for. It is erased in the end.
pub(super) struct ProgressLine {
    /// What it shows; `None` if stderr is no terminal.
    shown: Option<String>,
}

impl ProgressLine {
    /// An empty line.
    pub(super) fn new() -> Self {
        Self { shown: io::stderr().is_terminal().then(String::new) }
    }

    /// Replaces the line, whose characters must be visible.
    pub(super) fn show(&mut self, line: &str) {
        let Some(shown) = &mut self.shown else { return };
        let line = shorten(line, MAX_PROGRESS);
        if *shown != line {
            print(format_args!("{ERASE_LINE}{line}"));
            *shown = line;
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.show("");
    }
}

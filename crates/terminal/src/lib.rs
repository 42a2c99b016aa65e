//! The only writer to stdout and stderr, for everything that commands show to a person.
//!
//! # Theory of operation
//!
//! Names, paths and messages come from configs, directories, servers and other processes, and a terminal interprets
//! some of their characters as commands. So everything that is printed is one of two kinds:
//!
//! - [`VisibleText`], tables and sentences of ours: every character in it is visible, wherever it goes. Messages on
//!   stderr and questions are made visible the same way.
//! - A [`payload`], such as the result of a tool, a log or JSON: its bytes, for the program that reads the pipe or the
//!   file, and visible characters if stdout is a terminal.
//!
//! [`table`] lays out columns, [`outcome`] has the exit codes and the error of a command, and [`ask`] puts questions, with
//! [`hidden_input`] for secrets, which are not shown.
//!
//! # Invariants
//!
//! - A lint (`clippy.toml`) forbids every other way to stdout and stderr.
//! - Colors and movements of the cursor are added here, after the text was made visible.
//! - A message that cannot be written is dropped, where `eprintln!` would panic: the terminal may be closed, or the
//!   reader of a pipe gone.
//!
//! ```no_run
//! let (name, mut text) = ("a server", terminal::VisibleText::default());
//! text.line(format_args!("{name} is ready"));
//! terminal::print(&text)?;
//! # Ok::<(), std::io::Error>(())
//! ```
#![expect(clippy::disallowed_methods, reason = "this is the writer")]

pub mod ask;
pub mod hidden_input;
pub mod outcome;
pub mod table;

use base::text::{shorten, visible, visible_lines};
use config::env::Env;
use std::fmt::{self, Display};
use std::io::{self, IsTerminal, Write};

/// The length of a line that shows progress, in characters.
const MAX_PROGRESS: usize = 76;
/// Moves to the beginning of the line and erases it.
const ERASE_LINE: &str = "\r\x1b[K";
/// Moves the cursor to the top and clears the screen.
const CLEAR_SCREEN: &str = "\x1b[H\x1b[2J";
/// Begins every style, and ends with `m`.
const STYLE: &str = "\x1b[";
/// Ends every style.
const END_STYLE: &str = "\x1b[0m";
/// After these a word that is longer than a line is broken.
const SEPARATORS: [char; 2] = ['/', '\\'];
/// What stands before the further lines of a message, so that none of them can be read as one of ours.
const CONTINUED: &str = "  ";

/// Lines of visible characters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VisibleText(String);

/// How a line stands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextStyle {
    /// Bold.
    Bold,
    /// Less bright.
    Dim,
    /// Green: it works.
    Good,
    /// Yellow: it is being done.
    Busy,
    /// Red: it failed.
    Bad,
}

impl TextStyle {
    fn sequence(self) -> &'static str {
        match self {
            Self::Bold => "\x1b[1m",
            Self::Dim => "\x1b[2m",
            Self::Good => "\x1b[32m",
            Self::Busy => "\x1b[33m",
            Self::Bad => "\x1b[31m",
        }
    }
}

impl VisibleText {
    /// Adds one line, even if `line` has line ends: a line break in a name becomes `\n`.
    pub fn line(&mut self, line: impl Display) {
        self.0.push_str(&visible(&line.to_string()));
        self.0.push('\n');
    }

    /// Returns the text with its long lines broken between words, and long paths at their separators. Where stdout is
    /// no terminal, as it is.
    pub fn wrapped(self) -> Self {
        match width() {
            Some(width) => Self(wrap(&self.0, usize::from(width))),
            None => self,
        }
    }

    /// Adds an empty line and another one.
    pub fn paragraph(&mut self, line: impl Display) {
        self.line("");
        self.line(line);
    }

    /// Adds a line in a style.
    pub fn styled_line(&mut self, style: TextStyle, line: impl Display) {
        self.parts(&[(Some(style), line.to_string())]);
    }

    /// Adds a line that consists of these parts, each with its style.
    pub fn parts(&mut self, parts: &[(Option<TextStyle>, String)]) {
        for (style, part) in parts {
            let (start, end) = style.map_or(("", ""), |style| (style.sequence(), END_STYLE));
            self.0.push_str(start);
            self.0.push_str(&visible(part));
            self.0.push_str(end);
        }
        self.0.push('\n');
    }

    /// Adds each line of a text that may have several, after `indent`.
    pub fn lines(&mut self, indent: &str, text: impl Display) {
        for line in visible_lines(&text.to_string()).lines() {
            self.0.push_str(indent);
            self.0.push_str(line);
            self.0.push('\n');
        }
    }
}

impl Display for VisibleText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Breaks lines that are longer than this number of columns between words, and words that are longer than a line after
/// their separators. What continues a line stands two columns further in.
fn wrap(text: &str, width: usize) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let content = line.trim_end_matches('\n');
        if columns(content) <= width {
            out.push_str(line);
            continue;
        }
        let indent = content.chars().take_while(|c| *c == ' ').count();
        let continued = indent + CONTINUED.len();
        out.push_str(&content[..indent]);
        let mut column = indent;
        for (index, word) in content[indent..].split(' ').enumerate() {
            let is_longer_than_a_line = continued + columns(word) > width;
            // The separator that precedes each piece of a word belongs to the piece before it.
            let pieces: Vec<&str> = match is_longer_than_a_line {
                true => word.split_inclusive(SEPARATORS).collect(),
                false => vec![word],
            };
            for (place, piece) in pieces.into_iter().enumerate() {
                let space = usize::from(index > 0 && place == 0);
                let length = columns(piece);
                if column > continued && column + space + length > width {
                    out.push('\n');
                    out.push_str(&" ".repeat(continued));
                    column = continued;
                } else if space > 0 {
                    out.push(' ');
                    column += 1;
                }
                out.push_str(piece);
                column += length;
            }
        }
        out.push_str(&line[content.len()..]);
    }
    out
}

/// Returns the number of columns that a text takes. Styles take none.
fn columns(text: &str) -> usize {
    let mut parts = text.split(STYLE);
    let first = parts.next().map_or(0, |part| part.chars().count());
    let styled = parts.map(|part| part.split_once('m').map_or(0, |(_, rest)| rest.chars().count()));
    first + styled.sum::<usize>()
}

/// Prints lines on stdout.
///
/// # Errors
///
/// Fails if stdout cannot be written.
pub fn print(text: &VisibleText) -> io::Result<()> {
    write_stdout(text.0.as_bytes())
}

/// Prints one line on stdout.
///
/// # Errors
///
/// Fails if stdout cannot be written.
pub fn line(line: impl Display) -> io::Result<()> {
    let mut text = VisibleText::default();
    text.line(line);
    print(&text)
}

/// Prints an empty line on stdout, and another one.
///
/// # Errors
///
/// Fails if stdout cannot be written.
pub fn paragraph(line: impl Display) -> io::Result<()> {
    let mut text = VisibleText::default();
    text.paragraph(line);
    print(&text)
}

/// Prints lines on stdout. On a terminal they replace its content.
///
/// # Errors
///
/// Fails if stdout cannot be written.
pub fn redraw(text: &VisibleText) -> io::Result<()> {
    let start = if io::stdout().is_terminal() { CLEAR_SCREEN } else { "" };
    write_stdout(format!("{start}{text}").as_bytes())
}

/// Prints a question on stdout, without a line end after it. The caller reads the answer.
///
/// # Errors
///
/// Fails if stdout cannot be written.
pub fn question(text: &str) -> io::Result<()> {
    write_stdout(visible_lines(text).as_bytes())
}

/// Writes what is not ours or is for a program to stdout: as it is, and with visible characters to a terminal.
///
/// # Errors
///
/// Fails if stdout cannot be written.
pub fn payload(bytes: &[u8]) -> io::Result<()> {
    match io::stdout().is_terminal() {
        true => write_stdout(visible_lines(&String::from_utf8_lossy(bytes)).as_bytes()),
        false => write_stdout(bytes),
    }
}

fn write_stdout(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()
}

/// Returns the number of columns of the terminal that stdout is; `None` if it is none.
pub fn width() -> Option<u16> {
    terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| width.0)
}

/// Returns whether stdout is a terminal whose user wants colors (<https://no-color.org>).
pub fn has_color(env: &Env) -> bool {
    io::stdout().is_terminal() && env.get("NO_COLOR").is_none_or(str::is_empty)
}

/// Returns whether stderr is a terminal.
pub fn is_stderr_shown() -> bool {
    io::stderr().is_terminal()
}

/// Prints a message on stderr after the name of the program. Its further lines are indented.
pub fn message(text: impl Display) {
    let text = text.to_string();
    let mut lines = text.lines();
    let mut shown = VisibleText::default();
    shown.line(format_args!("dynamic-mcp: {}", lines.next().unwrap_or_default()));
    lines.for_each(|line| shown.lines(CONTINUED, line));
    write_stderr(&shown.0);
}

/// Prints on stderr as many lines as the text has, without a line end of its own.
pub fn to_stderr(text: impl Display) {
    write_stderr(&visible_lines(&text.to_string()));
}

/// Prints in one write, so that texts of two processes do not mix.
fn write_stderr(text: &str) {
    io::stderr().write_all(text.as_bytes()).ok();
}

/// The line of a terminal that shows what a command waits for. It is erased in the end.
pub struct ProgressLine {
    /// What it shows; `None` if stderr is no terminal.
    shown: Option<String>,
}

impl ProgressLine {
    /// Creates an empty line.
    pub fn on_stderr() -> Self {
        Self { shown: is_stderr_shown().then(String::new) }
    }

    /// Replaces the line, shortened to `MAX_PROGRESS`. Does nothing if stderr is no terminal.
    pub fn show(&mut self, line: &str) {
        let Some(shown) = &mut self.shown else { return };
        let line = shorten(&visible(line), MAX_PROGRESS);
        if *shown != line {
            write_stderr(&format!("{ERASE_LINE}{line}"));
            *shown = line;
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.show("");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_broken_between_words() {
        let text = "  one two three four\n\nshort\n  a_word_that_is_longer_than_a_line b\nend  of";
        let wrapped =
            "  one two\n    three\n    four\n\nshort\n  a_word_that_is_longer_than_a_line\n    b\nend  of";
        assert_eq!(wrap(text, 10), wrapped);
        assert_eq!(wrap("in /one/two/three, done", 12), "in /one/two/\n  three,\n  done");
        assert_eq!(wrap("  runs: C:\\one\\two.exe", 14), "  runs: C:\\\n    one\\\n    two.exe");
        let styled = "\u{1b}[31mred\u{1b}[0m b";
        assert_eq!(wrap(styled, 5), styled);
    }

    #[test]
    fn every_character_is_visible_and_only_the_writer_makes_lines_and_styles() {
        let mut text = VisibleText::default();
        text.line("a\nb\t\u{1b}[2J\u{202e}");
        text.styled_line(TextStyle::Bold, "c\u{1b}[0m");
        text.lines("  ", "d\r\n\te\u{200b}\r\u{9b}1m");
        assert_eq!(
            text.to_string(),
            "a\\nb\\t\\u{1b}[2J\\u{202e}\n\u{1b}[1mc\\u{1b}[0m\u{1b}[0m\n  d\n  \te\\u{200b}\\r\\u{9b}1m\n"
        );
    }

    #[test]
    fn a_payload_for_a_terminal_keeps_its_lines_and_has_no_commands() {
        assert_eq!(visible_lines("a\tb\r\n\u{1b}[2Jc\n"), "a\tb\n\\u{1b}[2Jc\n");
        assert_eq!(visible_lines(""), "");
    }
}

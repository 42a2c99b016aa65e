//! Prints on stderr what commands tell a person. Nothing fails for it: the terminal may be closed, or the reader of a
//! pipe gone, where `eprintln!` would panic.

use std::fmt::Display;
use std::io::{self, Write};

/// Prints a line that begins with the name of the program.
pub fn message(text: impl Display) {
    print(format_args!("dynamic-mcp: {text}\n"));
}

/// Prints text as it is, in one write, so that texts of two processes do not mix.
pub(super) fn print(text: impl Display) {
    io::stderr().write_all(text.to_string().as_bytes()).ok();
}

//! A browser for the tests of logins: writes the number of its arguments and the first one to the file that
//! `BROWSER_ARGUMENTS` names, which then appears at once.

use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let file = PathBuf::from(std::env::var_os("BROWSER_ARGUMENTS").unwrap_or_default());
    let part = file.with_extension("part");
    let first = arguments.first().map_or("", String::as_str);
    std::fs::write(&part, format!("{}\n{first}\n", arguments.len()))?;
    std::fs::rename(part, file)
}

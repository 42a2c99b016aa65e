//! Commands on Windows: which file a command means, and how its arguments are passed to it.
//!
//! Windows passes one string to a program, which splits it by itself. Almost all split it as the C runtime does, and for
//! them every argument can be quoted. Batch files are run by `cmd.exe`, which reads the string as a line of a script: an
//! argument that ends its own quotes would run commands (CVE-2024-24576). So everything that `cmd.exe` could interpret is
//! quoted in its own way, and what cannot be quoted is refused.
//!
//! `std::process::Command` has the same rules for batch files. It is not used, because it can neither start a process in a
//! Job Object nor choose the handles that it inherits, and its command line cannot be had without it.
//!
//! Nothing here calls the system, so the tests run everywhere.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The extensions that a command may leave out, if `PATHEXT` is not set.
const DEFAULT_PATHEXT: &str = ".COM;.EXE;.BAT;.CMD";
/// The longest line that `cmd.exe` reads.
const MAX_BATCH_CHARS: usize = 8191;
/// The longest line that CreateProcessW takes, with the zero at its end.
const MAX_CHARS: usize = 32_767;

/// How a file is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProgramKind {
    /// By the system.
    Executable,
    /// By `cmd.exe`.
    Batch,
    /// By PowerShell.
    PowerShell,
}

impl ProgramKind {
    /// Returns how a file is run, by its extension. `None` if it cannot be run.
    fn of(file: &Path) -> Option<Self> {
        match file.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "exe" | "com" => Some(Self::Executable),
            "bat" | "cmd" => Some(Self::Batch),
            "ps1" => Some(Self::PowerShell),
            _ => None,
        }
    }
}

/// Finds the file that `command` means, as `cmd.exe` does: in each directory of PATH, under the name itself if it has the
/// extension of a program, then with each extension of `PATHEXT`. A command with a separator is not searched for, but
/// relative to `cwd`.
///
/// There are three differences. The current directory is not searched, because that is where a project has its files.
/// Extensions of files that need another program (`.js`, `.vbs`) are left out. A PowerShell script (`.ps1`) is found if
/// there is nothing else of this name.
pub(super) fn find(command: &Path, dirs: &[PathBuf], cwd: &Path, pathext: Option<&OsStr>) -> Option<PathBuf> {
    let name = command.file_name()?;
    let pathext = pathext.and_then(OsStr::to_str).filter(|list| !list.is_empty()).unwrap_or(DEFAULT_PATHEXT);
    let extensions: Vec<String> = pathext
        .split(';')
        .map(|extension| extension.trim().to_ascii_lowercase())
        .filter(|extension| ProgramKind::of(Path::new(&format!("x{extension}"))).is_some())
        .collect();
    let has_separator = command.components().count() > 1;
    let parent = cwd.join(command.parent()?);
    let dirs = if has_separator { std::slice::from_ref(&parent) } else { dirs };
    let is_complete = ProgramKind::of(Path::new(name)).is_some();
    let with_extensions = |extensions: &[String]| {
        // A relative directory of PATH would mean another one with each working directory.
        dirs.iter().filter(|dir| dir.is_absolute()).find_map(|dir| {
            let itself = is_complete.then(|| dir.join(name));
            let longer = extensions.iter().map(|extension| {
                let mut name = name.to_owned();
                name.push(extension);
                dir.join(name)
            });
            itself.into_iter().chain(longer).find(|file| is_file(file))
        })
    };
    with_extensions(&extensions).or_else(|| with_extensions(&[".ps1".to_owned()]))
}

/// Returns whether there is a file. The aliases of apps from the Store cannot be followed, but can be run.
fn is_file(path: &Path) -> bool {
    path.is_file() || path.symlink_metadata().is_ok_and(|metadata| metadata.is_file())
}

/// What CreateProcessW gets.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct QuotedCommand {
    /// The program that the system runs.
    pub program: PathBuf,
    /// The line, which begins with the program. It may hold secrets.
    pub text: OsString,
}

/// Why a command cannot be passed to its program. It never shows an argument, which may be a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum QuoteError {
    /// The program is no file that can be run.
    #[error("it is no program: the name of a program ends with .exe, .com, .cmd, .bat or .ps1")]
    NotAProgram,
    /// An argument of a batch file contains a line break.
    #[error(
        "argument {0} contains a line break, which cannot be passed to a batch file safely: set the program that the \
         batch file starts, such as node, as \"command\", or put the value into \"env\""
    )]
    LineBreak(usize),
    /// An argument contains a NUL character.
    #[error("argument {0} contains a NUL character, which no program can get")]
    Nul(usize),
    /// An argument is not Unicode.
    #[error("argument {0} is not Unicode")]
    NotUnicode(usize),
    /// The path of a batch file contains a quotation mark.
    #[error("the path of the batch file cannot be quoted")]
    Path,
    /// There are too many arguments, or they are too long.
    #[error("its arguments have {length} characters, and Windows takes {limit}")]
    TooLong {
        /// The length of the line.
        length: usize,
        /// The limit.
        limit: usize,
    },
}

/// Checks that [`command_line`] would succeed.
///
/// # Errors
///
/// As [`command_line`].
#[cfg(windows)]
pub(super) fn check(program: &Path, args: &[OsString]) -> Result<(), QuoteError> {
    command_line(program, args, Path::new(r"C:\Windows\System32")).map(drop)
}

/// Makes the command line of a program, which an interpreter in `system_dir` runs if it is a script.
///
/// # Errors
///
/// See [`QuoteError`].
pub(crate) fn command_line(
    program: &Path,
    args: &[OsString],
    system_dir: &Path,
) -> Result<QuotedCommand, QuoteError> {
    let args = texts(args)?;
    let kind = ProgramKind::of(program).ok_or(QuoteError::NotAProgram)?;
    let (program, text, limit) = match kind {
        ProgramKind::Executable => (program.to_owned(), ordinary_line(program, &args), MAX_CHARS),
        ProgramKind::Batch => {
            let shell = system_dir.join("cmd.exe");
            let text = batch_line(&shell, program, &args)?;
            (shell, text, MAX_BATCH_CHARS)
        }
        ProgramKind::PowerShell => {
            let shell = system_dir.join("WindowsPowerShell").join("v1.0").join("powershell.exe");
            // The policy of scripts is the user's and stays as it is.
            let before = ["-NoLogo", "-NoProfile", "-NonInteractive", "-File"];
            let script = program.to_str().ok_or(QuoteError::Path)?;
            let args: Vec<&str> = before.into_iter().chain([script]).chain(args).collect();
            let text = ordinary_line(&shell, &args);
            (shell, text, MAX_CHARS)
        }
    };
    let length = text.to_string_lossy().encode_utf16().count() + 1;
    match length > limit {
        true => Err(QuoteError::TooLong { length, limit }),
        false => Ok(QuotedCommand { program, text }),
    }
}

/// Returns the arguments as texts.
///
/// # Errors
///
/// `NotUnicode` or `Nul`, with the position of the argument, counted from 1.
fn texts<'a>(args: &'a [OsString]) -> Result<Vec<&'a str>, QuoteError> {
    let text = |(index, arg): (usize, &'a OsString)| match arg.to_str() {
        None => Err(QuoteError::NotUnicode(index + 1)),
        Some(text) if text.contains('\0') => Err(QuoteError::Nul(index + 1)),
        Some(text) => Ok(text),
    };
    args.iter().enumerate().map(text).collect()
}

/// Returns the command line of a program that splits it as the C runtime does.
fn ordinary_line(program: &Path, args: &[&str]) -> OsString {
    let mut line = quoted_path(program);
    for arg in args {
        let mut text = String::from(" ");
        let needs_quotes = arg.is_empty() || arg.contains([' ', '\t', '"', '\n', '\r', '\u{b}']);
        quote(&mut text, arg, needs_quotes, |text, c| match c {
            '"' => text.push_str("\\\""),
            c => text.push(c),
        });
        line.push(text);
    }
    line
}

/// Returns the command line of `cmd.exe` for a batch file: `cmd.exe /e:ON /v:OFF /d /s /c ""FILE" ARGS"`.
///
/// Extensions are on for the escape of percent signs. Delayed expansion is off because `!VAR!` cannot be escaped. Without
/// `/d`, commands of the registry would run first. With `/s`, exactly the first and the last quotation mark are removed.
///
/// # Errors
///
/// `Path` if the path cannot be quoted, `LineBreak` if an argument has a line break.
fn batch_line(shell: &Path, file: &Path, args: &[&str]) -> Result<OsString, QuoteError> {
    let file =
        file.to_str().filter(|file| !file.contains(['"', '\n', '\r', '\0'])).ok_or(QuoteError::Path)?;
    let mut text = String::from(r#" /e:ON /v:OFF /d /s /c ""#);
    text.push('"');
    file.chars().for_each(|c| push_batch_char(&mut text, c));
    text.push('"');
    for (index, arg) in args.iter().enumerate() {
        if arg.contains(['\n', '\r']) {
            return Err(QuoteError::LineBreak(index + 1));
        }
        text.push(' ');
        // Everything else may be a separator, an operator or an escape of cmd.exe.
        let is_plain = |c: char| match c.is_ascii() {
            true => c.is_ascii_alphanumeric() || r"#$*+-./:?@\_".contains(c),
            false => !c.is_control() && !c.is_whitespace(),
        };
        let needs_quotes = arg.is_empty() || arg.ends_with('\\') || !arg.chars().all(is_plain);
        quote(&mut text, arg, needs_quotes, push_batch_char);
    }
    text.push('"');
    let mut line = quoted_path(shell);
    line.push(text);
    Ok(line)
}

/// Escapes a character between the quotation marks of `cmd.exe`.
fn push_batch_char(text: &mut String, c: char) {
    match c {
        // Two end the quotes and begin them again. The C runtime of the program that gets the argument reads them as one.
        '"' => text.push_str("\"\""),
        // `%cd:~,%` is an empty part of a variable that always exists, so no name is left between two percent signs.
        '%' => text.push_str("%%cd:~,%"),
        c => text.push(c),
    }
}

/// Appends an argument. Backslashes before a quotation mark are doubled, as the C runtime requires.
fn quote(text: &mut String, arg: &str, needs_quotes: bool, mut push: impl FnMut(&mut String, char)) {
    if !needs_quotes {
        text.push_str(arg);
        return;
    }
    text.push('"');
    let mut backslashes = 0;
    for c in arg.chars() {
        if c == '"' {
            (0..backslashes).for_each(|_| text.push('\\'));
        }
        backslashes = if c == '\\' { backslashes + 1 } else { 0 };
        push(text, c);
    }
    (0..backslashes).for_each(|_| text.push('\\'));
    text.push('"');
}

/// Returns a path in quotation marks, which it cannot contain.
fn quoted_path(path: &Path) -> OsString {
    let mut text = OsString::from("\"");
    text.push(path);
    text.push("\"");
    text
}

#[cfg(test)]
mod tests;

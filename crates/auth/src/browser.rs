//! Opens a URL or a file in the user's browser: runs a program with one argument, never a shell.

use reqwest::Url;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Returns the programs to try, with their arguments before the URL. `$BROWSER` comes first, as is usual on Unix: a
/// list of programs without arguments, separated as the directories of PATH are: by colons, or by semicolons on
/// Windows.
fn openers(browser: Option<&str>) -> Vec<(PathBuf, &'static [&'static str])> {
    let mut openers: Vec<(PathBuf, &[&str])> = Vec::new();
    if let Some(browser) = browser.filter(|browser| !browser.is_empty()) {
        openers.extend(std::env::split_paths(browser).map(|program| (program, &[][..])));
    }
    openers.push(match std::env::consts::OS {
        "macos" => ("open".into(), &[]),
        // Not `start`, which is a command of the shell.
        "windows" => ("rundll32".into(), &["url.dll,FileProtocolHandler"]),
        _ => ("xdg-open".into(), &[]),
    });
    openers
}

/// Opens `url` and returns whether a program was started for it. Does not wait for the program: one that starts and
/// then fails counts. Opens only https and http URLs, because other schemes start other programs. The caller has
/// checked where they lead. `browser` is the value of `$BROWSER`.
pub fn open(url: &Url, browser: Option<&str>) -> bool {
    if !matches!(url.scheme(), "https" | "http") {
        return false;
    }
    start(url, browser)
}

/// Opens a file that we wrote, and returns whether a program was started for it. `browser` is as for [`open`].
pub fn open_file(file: &Path, browser: Option<&str>) -> bool {
    Url::from_file_path(file).is_ok_and(|url| start(&url, browser))
}

fn start(url: &Url, browser: Option<&str>) -> bool {
    openers(browser).into_iter().any(|(program, arguments)| {
        let mut command = Command::new(program);
        command.args(arguments).arg(url.as_str());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // Not waited for: a browser that was not running yet outlives this command, which exits soon.
        command.spawn().is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_of_the_variable_come_first_and_are_separated_as_directories_of_path_are() {
        let programs = |browser| openers(browser).into_iter().map(|(program, _)| program).collect::<Vec<_>>();
        let own = programs(None);
        assert_eq!(own.len(), 1);
        let (list, expected) = match cfg!(windows) {
            true => (r"C:\my browser\x.exe;firefox", [r"C:\my browser\x.exe", "firefox"]),
            false => ("/opt/my browser/x:firefox", ["/opt/my browser/x", "firefox"]),
        };
        assert_eq!(programs(Some(list)), [&expected.map(PathBuf::from)[..], &own].concat());
        assert_eq!(programs(Some("")), own);
    }
}

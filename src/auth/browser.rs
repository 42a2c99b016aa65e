//! Opens a URL in the user's browser: runs a program with one argument, never a shell.

use reqwest::Url;
use std::process::{Command, Stdio};

/// The programs to try, with their arguments before the URL. `$BROWSER` comes first, as is usual on Unix: a list of
/// programs without arguments, separated by colons.
fn openers(browser: Option<&str>) -> Vec<(String, Vec<&'static str>)> {
    let mut openers: Vec<(String, Vec<&'static str>)> = Vec::new();
    if let Some(browser) = browser.filter(|browser| !browser.is_empty()) {
        openers.extend(browser.split(':').map(|program| (program.to_owned(), Vec::new())));
    }
    openers.push(match std::env::consts::OS {
        "macos" => ("open".to_owned(), Vec::new()),
        // Not `start`, which is a command of the shell.
        "windows" => ("rundll32".to_owned(), vec!["url.dll,FileProtocolHandler"]),
        _ => ("xdg-open".to_owned(), Vec::new()),
    });
    openers
}

/// Opens `url` and returns whether a program was started for it. Only https and http URLs are opened, because other
/// schemes start other programs; the caller has checked where they lead.
pub fn open(url: &Url, browser: Option<&str>) -> bool {
    if !matches!(url.scheme(), "https" | "http") {
        return false;
    }
    openers(browser).into_iter().any(|(program, arguments)| {
        let mut command = Command::new(program);
        command.args(arguments).arg(url.as_str());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // Not waited for: a browser that was not running yet outlives this command, which exits soon.
        command.spawn().is_ok()
    })
}

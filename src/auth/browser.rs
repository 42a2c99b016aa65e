//! Opens a URL in the user's browser: a program with an argument, never a shell.

use reqwest::Url;
use std::process::{Command, Stdio};

/// What opens a URL on this system. `$BROWSER` first, as everywhere on Unix: a program, without arguments of its own.
fn openers(browser: Option<&str>) -> Vec<(String, Vec<&'static str>)> {
    let mut openers: Vec<(String, Vec<&'static str>)> = Vec::new();
    if let Some(browser) = browser.filter(|browser| !browser.is_empty()) {
        openers.extend(browser.split(':').map(|program| (program.to_owned(), Vec::new())));
    }
    openers.push(match std::env::consts::OS {
        "macos" => ("open".to_owned(), Vec::new()),
        // Not `start`, which is a word of the shell.
        "windows" => ("rundll32".to_owned(), vec!["url.dll,FileProtocolHandler"]),
        _ => ("xdg-open".to_owned(), Vec::new()),
    });
    openers
}

/// Whether something was started that opens it. Only https, or http on this machine: the caller has checked, and other
/// schemes start other programs.
pub fn open(url: &Url, browser: Option<&str>) -> bool {
    if !matches!(url.scheme(), "https" | "http") {
        return false;
    }
    openers(browser).into_iter().any(|(program, arguments)| {
        let mut command = Command::new(program);
        command.args(arguments).arg(url.as_str());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // Not waited for: a browser that was not running lives on. Ours is a short life, and it is reaped then.
        command.spawn().is_ok()
    })
}

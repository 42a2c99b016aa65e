//! Stands in for PowerShell under Wine, which has none: runs scripts of one line, `& "PROGRAM" $args`.
//!
//! It accepts the one command line that dynamic-mcp runs scripts with.

#![allow(clippy::print_stderr, reason = "the test shows it if it fails")]

use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let [logo, profile, interactive, file, script, arguments @ ..] = &*given else {
        return refuse(&given);
    };
    if [logo, profile, interactive, file] != ["-NoLogo", "-NoProfile", "-NonInteractive", "-File"] {
        return refuse(&given);
    }
    let text = std::fs::read_to_string(script).unwrap_or_else(|error| panic!("{script}: {error}"));
    let program = text.trim_end().strip_prefix("& \"").and_then(|text| text.strip_suffix("\" $args"));
    let program = program.unwrap_or_else(|| panic!("not a script that it runs: {text}"));
    let status = Command::new(program).args(arguments).status();
    let code = status.unwrap_or_else(|error| panic!("{program}: {error}")).code();
    ExitCode::from(u8::try_from(code.unwrap_or(1)).unwrap_or(1))
}

fn refuse(arguments: &[String]) -> ExitCode {
    eprintln!("unexpected arguments: {arguments:?}");
    ExitCode::FAILURE
}

//! Gives the program its version, with the commit that it is built from.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=DYNAMIC_MCP_COMMIT");
    // A commit, or a checkout of another one, changes this file. A package has none.
    if std::path::Path::new(".git/logs/HEAD").exists() {
        println!("cargo::rerun-if-changed=.git/logs/HEAD");
    } else {
        println!("cargo::rerun-if-changed=build.rs");
    }
    let version = env!("CARGO_PKG_VERSION");
    let version = match std::env::var("DYNAMIC_MCP_COMMIT").ok().or_else(of_git) {
        Some(commit) if !commit.is_empty() => format!("{version} ({commit})"),
        _ => version.to_owned(),
    };
    println!("cargo::rustc-env=DYNAMIC_MCP_VERSION={version}");
}

/// Returns the commit of this checkout. `None`: git is not there, or this is a package within another repository.
fn of_git() -> Option<String> {
    std::path::Path::new(".git").exists().then_some(())?;
    let output = Command::new("git").args(["rev-parse", "--short=9", "HEAD"]).output().ok()?;
    let commit = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    Some(commit.trim().to_owned())
}

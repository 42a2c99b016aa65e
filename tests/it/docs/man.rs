//! The man page, which the archives of a release have.

use clap::CommandFactory;
use dynamic_mcp::cli::Cli;

#[test]
fn the_man_page_is_made_from_the_command_line() {
    let path = super::root().join("packaging/dynamic-mcp.1");
    // Not with the commit, which changes always.
    let command = Cli::command().version(env!("CARGO_PKG_VERSION"));
    let mut rendered = Vec::new();
    clap_mangen::Man::new(command).date("").render(&mut rendered).unwrap();
    // It names a page for each command, but all commands have this one: `dynamic-mcp help COMMAND` says more.
    let page = String::from_utf8(rendered).unwrap();
    let rendered = page.replace(r"dynamic\-mcp\-", r"dynamic\-mcp help ").replace("(1)\n", "\n").into_bytes();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &rendered).unwrap();
    }
    let is_current = std::fs::read(&path).is_ok_and(|page| page == rendered);
    assert!(is_current, "the man page is out of date: UPDATE_DOCS=1 cargo test --test it docs::man");
}

//! The pictures of README.md.

use std::fs;
use std::process::Command;

use super::root;
use crate::support::output_of;

#[test]
fn the_picture_is_that_of_the_figures() {
    if !Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success()) {
        assert!(std::env::var_os("DYNAMIC_MCP_REQUIRE_REAL").is_none(), "python3 is missing");
        eprintln!("SKIPPED: python3 is missing");
        return;
    }
    let output = output_of(Command::new("python3").arg(root().join("docs/picture.py")).arg("--check"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_figures_beside_the_picture_are_those_in_it() {
    let page = fs::read_to_string(root().join("README.md")).unwrap();
    let picture = fs::read_to_string(root().join("docs/picture.svg")).unwrap();
    let (before, _) = page.split_once("](docs/picture.svg)").unwrap();
    let (_, description) = before.rsplit_once("![").unwrap();
    let mut count = 0;
    for word in description.split_whitespace().map(|word| word.trim_end_matches([',', '.', ':', ';'])) {
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            count += 1;
            let is_shown = [">", " "].iter().any(|before| picture.contains(&format!("{before}{word} ")));
            assert!(is_shown, "{word} is not in docs/picture.svg");
        }
    }
    assert!(count > 6, "{description}");
}

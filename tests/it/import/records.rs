//! The records of what `--write-client` changed.

use std::fs;

use super::undo::{CURSOR, github};
use super::{Home, stderr};

#[test]
fn a_record_is_forgotten_only_when_the_user_says_so() {
    let home = Home::empty();
    home.write(CURSOR, &github("ghp_cursor_0123456789"));
    home.imported(&["--yes", "--write-client"]);
    fs::remove_file(home.file(CURSOR)).unwrap();
    let output = home.import(&["--forget", "7", "--yes"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("there is no record 7; `dynamic-mcp import --undo --list`"),
        "{output:?}"
    );
    let output = home.import(&["--forget", "1"]);
    assert_eq!((output.status.code(), home.records().len()), (Some(2), 1), "without a terminal");
    let shown = home.imported(&["--forget", "1", "--dry-run"]);
    assert_eq!(home.records().len(), 1, "{shown}");
    let shown = home.imported(&["--forget", "1", "--yes"]);
    assert!(
        shown.contains("Deleted record 1 (~/.cursor/mcp.json: its old content with github, fs)."),
        "{shown}"
    );
    assert_eq!(home.records(), []);
    assert_eq!(home.imported(&["--undo", "--list"]), "There is nothing to take back.\n");
}

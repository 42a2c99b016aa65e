//! The records of what `--write-client` changed.

use std::fs;

use serde_json::{Value, json};

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

#[test]
fn records_of_the_earlier_form_are_taken_back() {
    use base64::Engine;
    let home = Home::with("home");
    let before = home.client_files();
    home.imported(&["--yes", "--write-client"]);
    let encode =
        |text: &Value| text.as_str().map(|text| base64::engine::general_purpose::STANDARD.encode(text));
    let mut old = Vec::new();
    let dir = home.path().join(if cfg!(windows) {
        "AppData/Local/dynamic-mcp/state"
    } else {
        ".local/state/dynamic-mcp"
    });
    for (name, record) in home.records() {
        let record: Value = serde_json::from_str(&record).unwrap();
        let place = |place: &Value| {
            let removed = place["removed"].as_array().unwrap().iter();
            let removed = removed.map(|name| (name.as_str().unwrap().to_owned(), json!({})));
            json!({"keys": place["keys"], "own": place["own"], "removed": Value::Object(removed.collect())})
        };
        let places: Vec<_> = record["places"].as_array().unwrap().iter().map(place).collect();
        old.push(json!({
            "client": record["client"], "file": record["file"], "before": encode(&record["before"]),
            "after": record["after"], "places": places
        }));
        fs::remove_file(dir.join("clients").join(name)).unwrap();
    }
    let file = dir.join("clients/changes.json");
    fs::write(&file, serde_json::to_vec(&old).unwrap()).unwrap();
    #[cfg(unix)]
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    assert_eq!(home.imported(&["--undo", "--list"]).lines().count(), 8);
    assert!(file.exists(), "a list changes nothing");
    fs::remove_file(home.file(CURSOR)).unwrap();
    let (code, shown) = home.undone();
    assert_eq!(code, Some(1), "{shown}");
    let records = home.records();
    let [(name, record)] = &records[..] else { panic!("{records:?}") };
    assert!(record.contains("browser") && shown.contains(&format!("/clients/{name}")), "{shown}");
    home.write(CURSOR, "{}");
    assert_eq!(home.undone().0, Some(0));
    let is_other = |(name, _): &&(String, Vec<u8>)| name != CURSOR;
    let after = home.client_files();
    assert!(after.iter().filter(is_other).eq(before.iter().filter(is_other)));
}

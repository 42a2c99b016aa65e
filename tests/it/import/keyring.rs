//! `--secrets` moves plain secrets to a keyring on a D-Bus.

use std::fs;
use std::process::{Command, Stdio};

use super::{Home, stderr, stdout};
use crate::oauth::keyring::Desktop;

/// Runs `import` with the keyring of a desktop. Returns its exit code, stdout and stderr, which have no secret.
fn import(home: &Home, desktop: &Desktop, args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dynamic-mcp"));
    command.arg("import").args(args).env_clear().env("HOME", home.path()).envs(desktop.shell_env());
    let output = command.current_dir(home.path()).stdin(Stdio::null()).output().unwrap();
    let (stdout, stderr) = (stdout(&output), stderr(&output));
    assert!(!stdout.contains("s3cret") && !stderr.contains("s3cret"), "{stdout}{stderr}");
    (output.status.code(), stdout, stderr)
}

#[test]
fn secrets_move_to_the_keyring_and_stand_in_no_file_of_ours() {
    let Some(desktop) = Desktop::start() else { return };
    let home = Home::empty();
    let text = r#"{"mcpServers": {
        "wiki": {"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer s3cret-header"}},
        "db": {"command": "db", "env": {"DB_PASSWORD": "s3cret-pa$$word", "LEVEL": "information"}}
    }}"#;
    fs::create_dir(home.file(".cursor")).unwrap();
    fs::write(home.file(".cursor/mcp.json"), text).unwrap();
    let import = |args: &[&str]| import(&home, &desktop, args);
    let (code, stdout, _) = import(&["--secrets", "--dry-run"]);
    assert_eq!(code, Some(0));
    assert!(
        stdout.contains("wiki: headers.Authorization becomes Bearer {keyring:wiki-Authorization}"),
        "{stdout}"
    );
    assert!(!desktop.entries().contains("s3cret"));
    let (code, stdout, stderr) = import(&["--secrets", "--yes"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains("Moved 2 secrets to the system's keyring."), "{stdout}");
    let servers = home.servers();
    assert_eq!(servers["wiki"]["headers"]["Authorization"], "Bearer {keyring:wiki-Authorization}");
    assert_eq!(servers["db"]["env"]["DB_PASSWORD"], "{keyring:db-DB_PASSWORD}");
    assert_eq!(servers["db"]["env"]["LEVEL"], "information");
    let entries = desktop.entries();
    assert!(
        entries.contains("secret = s3cret-header\n") && entries.contains("secret = s3cret-pa$$word\n"),
        "{entries}"
    );
    let (code, _, stderr) = import(&["--secrets", "--yes", "--config", "other.json"]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("--secrets works only with your own servers.json"), "{stderr}");
}

#[test]
fn values_that_move_to_the_keyring_leave_the_records_and_come_back_with_undo() {
    let Some(desktop) = Desktop::start() else { return };
    let home = Home::empty();
    let import = |args: &[&str]| {
        let (code, stdout, stderr) = import(&home, &desktop, args);
        (code, stdout + &stderr)
    };
    let cursor = r#"{"mcpServers": {"db": {"command": "db", "env": {"DB_PASSWORD": "s3cret-\"quoted\""}}}}"#;
    let gemini = r#"{"mcpServers": {"wiki": {"httpUrl": "https://x/mcp", "headers": {"Authorization": "Bearer s3cret-header"}}}}"#;
    home.write(".cursor/mcp.json", cursor);
    home.write(".gemini/settings.json", gemini);
    // Those of earlier imports, and those of the same one.
    let (code, shown) = import(&["cursor", "--yes", "--write-client"]);
    assert_eq!((code, home.records()[0].1.contains("s3cret")), (Some(0), true), "{shown}");
    let (code, shown) = import(&["--secrets", "--yes", "--write-client"]);
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("Removed them from 1 record of the clients' files"), "{shown}");
    let records = home.records();
    // Cursor has a second one: its `dyn` gets a profile without the servers of Gemini CLI.
    assert_eq!(records.len(), 3);
    assert!(records.iter().all(|(_, record)| !record.contains("s3cret")), "{records:?}");
    let is_in_a_file = |name: &str| home.text(name).contains("s3cret");
    assert!(!is_in_a_file(".cursor/mcp.json") && !is_in_a_file(".gemini/settings.json"));
    let (code, shown) = import(&["--undo", "--yes"]);
    assert_eq!(code, Some(0), "{shown}");
    assert!(!shown.contains("as they were before the import"), "{shown}");
    assert_eq!(
        (home.text(".cursor/mcp.json"), home.text(".gemini/settings.json"), home.records()),
        (cursor.to_owned(), gemini.to_owned(), vec![])
    );
}

#[test]
fn a_secret_that_the_keyring_has_stands_in_no_later_record_and_is_not_replaced_by_a_mark() {
    let Some(desktop) = Desktop::start() else { return };
    let home = Home::empty();
    let import = |args: &[&str]| {
        let (code, stdout, stderr) = import(&home, &desktop, args);
        (code, stdout + &stderr)
    };
    let cursor = r#"{"mcpServers": {"db": {"command": "db", "env": {"DB_PASSWORD": "s3cret-password"}}}}"#;
    home.write(".cursor/mcp.json", cursor);
    let (code, shown) = import(&["--secrets", "--yes"]);
    assert_eq!(code, Some(0), "{shown}");
    let (code, shown) = import(&["--yes", "--write-client"]);
    let records = home.records();
    assert_eq!((code, records.len(), records[0].1.contains("s3cret")), (Some(0), 1, false), "{shown}");
    let remove = |name: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dynamic-mcp"));
        command
            .args(["secret", "remove", name])
            .env_clear()
            .env("HOME", home.path())
            .envs(desktop.shell_env());
        assert!(command.stdin(Stdio::null()).status().unwrap().success());
    };
    remove("db-DB_PASSWORD");
    let written = home.text(".cursor/mcp.json");
    let (code, shown) = import(&["--undo", "--yes"]);
    let reason = "~/.cursor/mcp.json is left as it is, because the keyring has no secret `db-DB_PASSWORD` any more; store it again with `dynamic-mcp secret set db-DB_PASSWORD`. Record 1 keeps everything else";
    assert!(shown.contains(reason), "{shown}");
    assert_eq!(code, Some(1), "{shown}");
    assert_eq!((home.text(".cursor/mcp.json"), home.records().len()), (written, 1));
}

//! What `--write-client` changed comes back, or stays in a record that is named.

use std::fs;

use serde_json::{Value, json};

use super::{Home, fixtures, loaded, stderr, stdout};
#[cfg(unix)]
use crate::shell::at_terminal;

pub(super) const CURSOR: &str = ".cursor/mcp.json";
const GEMINI: &str = ".gemini/settings.json";

impl Home {
    /// `import --undo --yes`: its exit code, and what it printed.
    pub(super) fn undone(&self) -> (Option<i32>, String) {
        let output = self.import(&["--undo", "--yes"]);
        (output.status.code(), self.shown(&(stdout(&output) + &stderr(&output))))
    }

    /// The records, by their names, as text.
    pub(super) fn records(&self) -> Vec<(String, String)> {
        let dir = match cfg!(windows) {
            true => self.path().join("AppData/Local/dynamic-mcp/state/clients"),
            false => self.path().join(".local/state/dynamic-mcp/clients"),
        };
        let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
        let paths = entries.map(|entry| entry.unwrap().path());
        let records = paths.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
        let record = |path: std::path::PathBuf| {
            (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(path).unwrap())
        };
        let mut records: Vec<_> = records.map(record).collect();
        records.sort();
        records
    }
}

/// A file with a server `github` that has this token, and another server.
pub(super) fn github(token: &str) -> String {
    let entry = json!({"command": "npx", "args": ["github-mcp"], "env": {"GITHUB_TOKEN": token}});
    serde_json::to_string_pretty(&json!({"mcpServers": {"github": entry, "fs": {"command": "fs"}}})).unwrap()
}

#[test]
fn a_token_stays_in_its_record_until_it_is_back_in_the_clients_file() {
    let home = Home::empty();
    home.write(CURSOR, &github("ghp_cursor_0123456789"));
    home.write(GEMINI, &github("ghp_gemini_9876543210"));
    home.imported(&["--yes", "--write-client"]);
    assert_eq!(home.records().len(), 2);
    let own = home.text(CURSOR);
    let changed = own.replacen("\"dyn\"", "\"github\": {\"url\": \"https://new\"}, \"dyn\"", 1);
    home.write(CURSOR, &changed);
    let (code, shown) = home.undone();
    assert_eq!(code, Some(1), "{shown}");
    for line in [
        "~/.cursor/mcp.json was changed since: `dyn` is removed, and fs put back.",
        "  Not put back: github, because the file has another server of this name now.",
        "  Record 1 keeps it: ",
        "or delete the record with `dynamic-mcp import --forget 1`.",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    assert_eq!(home.text(GEMINI), github("ghp_gemini_9876543210"));
    let records = home.records();
    let [(name, record)] = &records[..] else { panic!("{records:?}") };
    assert_eq!(name, "1.json");
    assert!(record.contains("ghp_cursor_0123456789") && !record.contains("\\\"fs\\\""), "{record}");
    let listed = home.imported(&["--undo", "--list"]);
    assert!(listed.starts_with("  1  20") && listed.contains(" UTC  Cursor"), "{listed}");
    assert!(listed.ends_with("~/.cursor/mcp.json: not back yet: github\n"), "{listed}");
    let now: Value = serde_json::from_str(&home.text(CURSOR)).unwrap();
    assert_eq!(now["mcpServers"]["github"], json!({"url": "https://new"}));

    // Nothing has changed, so nothing changes.
    let (code, shown) = home.undone();
    assert_eq!((code, home.records()), (Some(1), records), "{shown}");
    assert!(shown.contains("Not put back: github"), "{shown}");
    home.write(CURSOR, &home.text(CURSOR).replace("\"github\"", "\"github-new\""));
    let (code, shown) = home.undone();
    assert_eq!(code, Some(0), "{shown}");
    let now: Value = serde_json::from_str(&home.text(CURSOR)).unwrap();
    let original: Value = serde_json::from_str(&github("ghp_cursor_0123456789")).unwrap();
    assert_eq!(now["mcpServers"]["github"], original["mcpServers"]["github"]);
    assert_eq!(now["mcpServers"]["github-new"], json!({"url": "https://new"}));
    assert_eq!(home.records(), []);
}

#[test]
fn the_content_of_a_file_that_was_removed_is_kept_and_named() {
    let home = Home::empty();
    let original = github("ghp_cursor_0123456789").replacen('{', r#"{ "theme": "dark", "#, 1);
    home.write(CURSOR, &original);
    home.imported(&["--yes", "--write-client"]);
    fs::remove_file(home.file(CURSOR)).unwrap();
    for _ in 0..2 {
        let (code, shown) = home.undone();
        assert_eq!(code, Some(1), "{shown}");
        assert!(shown.contains("~/.cursor/mcp.json does not exist any more."), "{shown}");
        assert!(shown.contains("Not put back: its old content, because the file was removed."), "{shown}");
        assert!(home.records()[0].1.contains("ghp_cursor_0123456789"));
    }
    home.write(CURSOR, "{}");
    let (code, shown) = home.undone();
    assert_eq!(code, Some(0), "{shown}");
    assert_eq!(home.text(CURSOR), original);
    assert_eq!(home.records(), []);
}

#[test]
fn the_other_content_of_a_file_that_was_made_again_stays_in_its_record() {
    let home = Home::empty();
    let original = json!({
        "theme": "dark", "$schema": "x", "ui": {"size": 1, "font": "f"},
        "mcpServers": {"fs": {"command": "fs"}, "broken": "str"}
    });
    home.write(CURSOR, &original.to_string());
    home.imported(&["--yes", "--write-client"]);
    home.write(CURSOR, r#"{"$schema": "x", "ui": {"size": 2}}"#);
    for is_first in [true, false] {
        let (code, shown) = home.undone();
        assert_eq!(code, Some(1), "{shown}");
        assert_eq!(shown.contains("was changed since: fs put back."), is_first, "{shown}");
        let line = "  Not put back: theme, ui.font, mcpServers.broken, because the file was made again.\n  Record 1 keeps it: ";
        assert!(shown.contains(line), "{shown}");
        let (_, record) = &home.records()[0];
        assert!(record.contains("dark") && !record.contains("\\\"fs\\\""), "{record}");
        let now = json!({"$schema": "x", "ui": {"size": 2}, "mcpServers": {"fs": {"command": "fs"}}});
        assert_eq!(home.json(CURSOR), now);
    }
    let listed = home.imported(&["--undo", "--list"]);
    assert!(listed.ends_with("not back yet: theme, ui.font, mcpServers.broken\n"), "{listed}");
    let mut copied = home.json(CURSOR);
    copied["theme"] = json!("dark");
    home.write(CURSOR, &copied.to_string());
    let (_, shown) = home.undone();
    assert!(shown.contains("Not put back: ui.font, mcpServers.broken,"), "{shown}");
    home.imported(&["--forget", "1", "--yes"]);
    assert_eq!(home.undone().0, Some(0));
    assert_eq!(home.json(CURSOR), copied);
    // No record gets the number of one that is gone.
    home.imported(&["--yes", "--write-client"]);
    assert_eq!(home.records()[0].0, "2.json");
}

/// Clients change their own values in files that they keep.
#[test]
fn a_file_whose_dyn_was_removed_by_hand_has_everything_else() {
    let home = Home::empty();
    home.write(CURSOR, r#"{"starts": 1, "theme": "dark", "mcpServers": {"fs": {"command": "fs"}}}"#);
    home.imported(&["--yes", "--write-client"]);
    home.write(CURSOR, r#"{"starts": 2, "theme": "dark", "mcpServers": {}}"#);
    let (code, shown) = home.undone();
    assert_eq!((code, home.records()), (Some(0), vec![]), "{shown}");
}

#[test]
fn an_import_after_an_undo_uses_the_profiles_that_are_there() {
    let home = Home::of(&[
        (CURSOR, json!({"mcpServers": {"fs": {"command": "fs"}}})),
        (GEMINI, json!({"mcpServers": {"fs": {"command": "fs"}, "wiki": {"command": "wiki"}}})),
    ]);
    for _ in 0..2 {
        home.imported(&["--yes", "--write-client"]);
        let profiles = &home.json(".config/dynamic-mcp/servers.json")["profiles"];
        assert_eq!(*profiles, json!({"cursor": ["*", "!wiki"]}));
        assert!(home.text(CURSOR).contains("\"--profile\""), "{}", home.text(CURSOR));
        assert_eq!(home.undone().0, Some(0));
    }
}

/// Claude Code has projects in its file, and forgets them.
#[test]
fn the_servers_of_a_project_that_is_gone_stay_in_their_record() {
    let home = Home::empty();
    let project = home.file("app");
    fs::create_dir(&project).unwrap();
    let project = project.canonicalize().unwrap();
    let project = project.to_str().unwrap().trim_start_matches(r"\\?\");
    let original =
        json!({"projects": {project: {"mcpServers": {"db": {"command": "db"}}, "allowedTools": []}}});
    home.write(".claude.json", &original.to_string());
    home.imported(&["claude-code", "--project=app", "--yes", "--write-client"]);
    let as_left = home.text(".claude.json");
    assert!(as_left.contains("\"dyn\""), "{as_left}");
    home.write(".claude.json", r#"{"projects": {}}"#);
    let (code, shown) = home.undone();
    assert_eq!((code, &*home.text(".claude.json")), (Some(1), r#"{"projects": {}}"#), "{shown}");
    assert!(
        shown.contains("  Not put back: db, because ") && shown.contains("of the file is gone."),
        "{shown}"
    );
    // It comes back, as it was left.
    home.write(".claude.json", &as_left);
    assert_eq!(home.undone().0, Some(0));
    assert_eq!((home.text(".claude.json"), home.records()), (original.to_string(), vec![]));
}

#[test]
fn comments_in_and_beside_entries_come_back_into_a_file_that_changed() {
    let home = Home::with("home");
    let (opencode, codex) = (".config/opencode/opencode.jsonc", ".codex/config.toml");
    let odd = "{\n  \"mcpServers\": {\n    \"a\": { \"command\": \"a\" }\n    // odd\n    ,\n    \"b\": { \"command\": \"b\" } // beside\n  }\n}\n";
    home.write(CURSOR, odd);
    home.imported(&["opencode", "codex", "cursor", "--yes", "--write-client"]);
    home.write(opencode, &home.text(opencode).replace("claude-sonnet-4-5", "claude-sonnet-5"));
    home.write(codex, &home.text(codex).replace("gpt-5.1-codex", "gpt-6"));
    home.write(CURSOR, &home.text(CURSOR).replacen('{', "{\n  \"new\": 1,", 1));
    let (code, shown) = home.undone();
    let original = |name: &str| fs::read_to_string(fixtures("home").join(name)).unwrap();
    let now = home.text(opencode);
    assert!(now.contains("    // Test server\n    \"everything\": {\n      \"type\": \"local\",\n"), "{now}");
    assert_eq!(now.matches("//").count(), original(opencode).matches("//").count(), "{now}");
    assert_eq!(home.text(codex), original(codex).replace("gpt-5.1-codex", "gpt-6"));
    assert!(home.text(CURSOR).contains("// beside"), "{}", home.text(CURSOR));
    // One that has no place.
    assert_eq!(code, Some(1), "{shown}");
    assert!(shown.contains("Not put back: the comment // odd\n  Record "), "{shown}");
    let records = home.records();
    assert!(matches!(&records[..], [(_, record)] if record.contains("// odd")), "{records:?}");
    assert!(home.imported(&["--undo", "--list"]).contains("not back yet: 1 comment"));
    home.write(
        CURSOR,
        &home.text(CURSOR).replace("// beside", "// beside // odd").replace("// odd", "\n// odd"),
    );
    assert_eq!((home.undone().0, home.records()), (Some(0), vec![]));
}

#[test]
fn our_entry_is_known_by_what_it_starts_whatever_its_name() {
    let home = Home::empty();
    let before = github("ghp_cursor_0123456789");
    home.write(CURSOR, &before);
    home.imported(&["--yes", "--write-client"]);
    let program = "\"env\": {\"MINE\": \"kept\"}, \"command\"";
    let renamed = home.text(CURSOR).replace("\"dyn\"", "\"my-dyn\"").replacen("\"command\"", program, 1);
    let with_new = renamed.replacen("\"my-dyn\"", "\"late\": {\"command\": \"late\"}, \"my-dyn\"", 1);
    home.write(CURSOR, &with_new);
    home.imported(&["--yes", "--write-client"]);
    let servers = serde_json::from_str::<Value>(&home.text(CURSOR)).unwrap()["mcpServers"].take();
    assert_eq!(servers.as_object().unwrap().keys().collect::<Vec<_>>(), ["my-dyn"], "{servers}");
    assert_eq!(servers["my-dyn"]["env"]["MINE"], "kept");
    home.write(CURSOR, &home.text(CURSOR).replacen('{', "{\"other\": 1,", 1));
    let (code, shown) = home.undone();
    assert_eq!(code, Some(1), "{shown}");
    assert!(shown.contains("`my-dyn` is removed, and github, fs put back."), "{shown}");
    // What the user wrote into it is in no file of a client any more.
    assert!(
        shown.contains("  Not kept: MINE, which you wrote into my-dyn.\n  Record 1 keeps it: "),
        "{shown}"
    );
    assert!(home.undone().1.contains("Not kept: MINE"));
    let records = home.records();
    assert!(matches!(&records[..], [(_, record)] if record.contains("kept")), "{records:?}");
    home.imported(&["--forget", "1", "--yes"]);
    let now: Value = serde_json::from_str(&home.text(CURSOR)).unwrap();
    let names: Vec<_> = now["mcpServers"].as_object().unwrap().keys().collect();
    assert_eq!(names.len(), 3, "{now}");
    assert_eq!(now["mcpServers"]["late"], json!({"command": "late"}));
    assert_eq!(home.records(), []);
}

/// Somebody made it so, or a program that manages it.
#[test]
fn a_file_that_is_read_only_is_left_and_named() {
    let home = Home::empty();
    home.write(CURSOR, &github("ghp_cursor_0123456789"));
    let set_read_only = |is_read_only: bool| {
        let mut permissions = fs::metadata(home.file(CURSOR)).unwrap().permissions();
        #[cfg(unix)]
        std::os::unix::fs::PermissionsExt::set_mode(
            &mut permissions,
            if is_read_only { 0o444 } else { 0o644 },
        );
        #[cfg(windows)]
        permissions.set_readonly(is_read_only);
        fs::set_permissions(home.file(CURSOR), permissions).unwrap();
    };
    set_read_only(true);
    let output = home.import(&["--yes", "--write-client"]);
    assert_eq!((output.status.code(), home.text(CURSOR)), (Some(1), github("ghp_cursor_0123456789")));
    let paste = "~/.cursor/mcp.json is read-only, so it is left as it is, and `--undo` will not know what you change there. To put dynamic-mcp in place of github, fs, remove these, and write this as `dyn` of `mcpServers`: {\"command\":";
    assert!(home.shown(&stderr(&output)).contains(paste), "{output:?}");
    let message = "~/.cursor/mcp.json is read-only, so it is left as it is; make it writable";
    assert_eq!((home.servers()["fs"]["command"].as_str(), home.records()), (Some("fs"), vec![]));
    set_read_only(false);
    home.imported(&["--yes", "--write-client"]);
    set_read_only(true);
    let (code, shown) = home.undone();
    assert_eq!((code, home.records().len()), (Some(1), 1), "{shown}");
    assert!(shown.contains(message) && home.text(CURSOR).contains("\"dyn\""), "{shown}");
    set_read_only(false);
    assert_eq!(home.undone().0, Some(0));
    assert_eq!((home.text(CURSOR), home.records()), (github("ghp_cursor_0123456789"), vec![]));
}

/// One question for everything.
#[cfg(unix)]
#[test]
fn undo_asks_once_and_shows_the_details() {
    let home = Home::of(&[
        (CURSOR, json!({"mcpServers": {"fs": {"command": "fs"}}})),
        (GEMINI, json!({"mcpServers": {"wiki": {"command": "wiki"}}})),
    ]);
    home.imported(&["--yes", "--write-client"]);
    let after = home.client_files();
    let (code, shown) = at_terminal(home.command(&["--undo"]), "d\nn\n");
    assert_eq!((code, home.client_files()), (0, after), "{shown}");
    assert_eq!(shown.matches("Take this back?").count(), 2, "{shown}");
    assert!(shown.contains("+++ ") && shown.contains("Nothing was written."), "{shown}");
    let (code, shown) = at_terminal(home.command(&["--undo"]), "y\n");
    assert_eq!((code, home.records()), (0, vec![]), "{shown}");
}

#[test]
fn a_dry_run_shows_what_all_records_of_a_file_do_together() {
    let home = Home::empty();
    let before = github("ghp_cursor_0123456789");
    home.write(CURSOR, &before);
    home.imported(&["--yes", "--write-client"]);
    home.write(
        CURSOR,
        &home.text(CURSOR).replacen("\"dyn\"", "\"late\": {\"command\": \"late\"}, \"dyn\"", 1),
    );
    let with_late = home.text(CURSOR);
    home.imported(&["--yes", "--write-client"]);
    let (files, records) = (home.client_files(), home.records());
    assert_eq!(records.len(), 2);
    let shown = home.imported(&["--undo", "--dry-run"]);
    assert!(shown.contains("`dyn` is removed, and github, fs put back"), "{shown}");
    assert!(!shown.contains("ghp_cursor") && shown.ends_with("Nothing was written.\n"), "{shown}");
    assert_eq!((home.client_files(), home.records()), (files, records));
    // The second change alone.
    let (code, shown) = home.undone();
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.starts_with("~/.cursor/mcp.json gets its old content."), "{shown}");
    assert!(with_late.contains("late") && home.text(CURSOR).contains("late"));
}

#[test]
fn a_client_without_a_file_gets_one_that_is_private_and_goes_with_undo() {
    let home = Home::empty();
    home.imported(&["copilot", "codex", "--yes", "--write-client"]);
    for name in [".copilot/mcp-config.json", ".codex/config.toml"] {
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(home.file(name)).unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert!(home.text(name).contains("dynamic-mcp"), "{}", home.text(name));
    }
    assert!(home.imported(&["--undo", "--list"]).contains("~/.codex/config.toml: there was no file"));
    home.imported(&["--undo", "--yes"]);
    assert_eq!(home.client_files(), []);
    assert!(!home.file(".copilot").exists() && !home.file(".codex").exists(), "nor do their directories");
}

/// `~/.claude.json` is written by its client all the time.
#[test]
fn undo_in_a_file_that_changed_removes_only_our_entry() {
    let home = Home::with("home");
    home.imported(&["claude-code", "codex", "--yes", "--write-client"]);
    let changed = home.text(".claude.json").replace("\"numStartups\": 42", "\"numStartups\": 43");
    let changed = changed
        .replace("\"live\":", "\"sentry\": { \"type\": \"http\", \"url\": \"https://new\" },\n    \"live\":");
    fs::write(home.file(".claude.json"), &changed).unwrap();
    fs::write(
        home.file(".codex/config.toml"),
        home.text(".codex/config.toml").replace("gpt-5.1-codex", "gpt-6"),
    )
    .unwrap();
    let (code, printed) = home.undone();
    assert_eq!(code, Some(1), "{printed}");
    let back = "~/.claude.json was changed since: `dyn` is removed, and github, airtable, asana put back.\n  Not put back: sentry, ";
    assert!(printed.contains(back) && home.records()[0].1.contains("mcp.sentry.dev"), "{printed}");
    let root: Value = serde_json::from_str(&home.text(".claude.json")).unwrap();
    assert_eq!(root["numStartups"], 43);
    assert_eq!(root["mcpServers"]["sentry"]["url"], "https://new", "what the client wrote stays");
    let original: Value = serde_json::from_slice(&fs::read(fixtures("home/.claude.json")).unwrap()).unwrap();
    for name in ["github", "airtable", "asana", "live"] {
        assert_eq!(root["mcpServers"][name], original["mcpServers"][name]);
    }
    assert!(root["mcpServers"].get("dyn").is_none());
    let codex = home.text(".codex/config.toml");
    let original =
        fs::read_to_string(fixtures("home/.codex/config.toml")).unwrap().replace("gpt-5.1-codex", "gpt-6");
    let content = |text: &str| {
        let file = home.file("content.toml");
        fs::write(&file, text).unwrap();
        let mut servers = loaded(&file).servers;
        servers.sort_by(|(a, _), (b, _)| a.cmp(b));
        servers.into_iter().map(|(name, server)| (name, server.unwrap().endpoint.clone())).collect::<Vec<_>>()
    };
    assert_eq!(content(&codex), content(&original), "{codex}");
    assert!(codex.starts_with("model = \"gpt-6\"   # the default\n"), "{codex}");
}

/// Gemini CLI starts only the servers in `mcp.allowed`.
#[test]
fn undo_takes_our_name_from_the_list_of_allowed_servers() {
    let home = Home::with("home");
    home.imported(&["gemini", "--yes", "--write-client"]);
    let file = ".gemini/settings.json";
    let allowed =
        || -> Value { serde_json::from_str::<Value>(&home.text(file)).unwrap()["mcp"]["allowed"].take() };
    assert_eq!(allowed(), serde_json::json!(["pythonTools", "httpServer", "dyn"]));
    let changed = home.text(file).replace("\"pythonTools\",", "\"other\", \"pythonTools\",");
    fs::write(home.file(file), changed).unwrap();
    home.imported(&["--undo", "--yes"]);
    assert_eq!(allowed(), serde_json::json!(["other", "pythonTools", "httpServer"]));
}

#[test]
fn what_was_changed_in_servers_json_since_is_named() {
    let home =
        Home::of(&[(CURSOR, serde_json::from_str(&github("ghp_oldoldoldoldoldoldoldoldold12OLD")).unwrap())]);
    home.imported(&["--yes", "--write-client"]);
    let mut config = home.json(".config/dynamic-mcp/servers.json");
    let entry = &mut config["mcpServers"]["github"];
    entry["env"]["GITHUB_TOKEN"] = json!("ghp_newnewnewnewnewnewnewnewnew12NEW");
    entry["tools"] = json!({"deny": ["delete_*"]});
    home.write(".config/dynamic-mcp/servers.json", &config.to_string());
    let (code, shown) = home.undone();
    assert_eq!(code, Some(0), "{shown}");
    for line in [
        "~/.config/dynamic-mcp/servers.json has changes that the clients do not get:\n",
        "  github: env.GITHUB_TOKEN is …2OLD in Cursor, …2NEW in ~/.config/dynamic-mcp/servers.json\n",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    // A rule alone is named too.
    home.imported(&["--yes", "--write-client"]);
    let mut config = home.json(".config/dynamic-mcp/servers.json");
    config["mcpServers"]["github-cursor"]["tools"] = json!({"deny": ["delete_*"]});
    home.write(".config/dynamic-mcp/servers.json", &config.to_string());
    let (_, shown) = home.undone();
    let line = "  github-cursor: ~/.config/dynamic-mcp/servers.json denies delete_*, and Cursor does not\n";
    assert!(shown.contains(line), "{shown}");
}

#[test]
fn a_codex_file_that_was_made_by_the_import_keeps_what_was_added_since() {
    let home = Home::of(&[(CURSOR, serde_json::from_str(&github("token")).unwrap())]);
    home.imported(&["cursor", "codex", "--yes", "--write-client"]);
    let made = home.text(".codex/config.toml");
    home.write(".codex/config.toml", &format!("model = \"x\"\n\n{made}"));
    let (code, shown) = home.undone();
    assert_eq!((code, home.text(".codex/config.toml").trim()), (Some(0), "model = \"x\""), "{shown}");
    assert!(home.records().is_empty(), "{shown}");
}

#[cfg(unix)]
#[test]
fn a_file_that_was_made_again_is_as_private_as_the_old_one_when_its_content_comes_back() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::of(&[(CURSOR, serde_json::from_str(&github("ghp_0123456789")).unwrap())]);
    let mode = |mode| fs::set_permissions(home.file(CURSOR), fs::Permissions::from_mode(mode)).unwrap();
    mode(0o600);
    home.imported(&["--yes", "--write-client"]);
    fs::remove_file(home.file(CURSOR)).unwrap();
    home.write(CURSOR, "{}");
    mode(0o644);
    let (code, shown) = home.undone();
    assert!(code == Some(0) && home.text(CURSOR).contains("ghp_"), "{shown}");
    assert_eq!(fs::metadata(home.file(CURSOR)).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn what_the_user_wrote_into_our_entry_is_named_with_what_to_do() {
    let home = Home::of(&[(CURSOR, serde_json::from_str(&github("token")).unwrap())]);
    home.imported(&["--yes", "--write-client"]);
    let mut file = home.json(CURSOR);
    file["mcpServers"]["dyn"]["timeout"] = json!(60);
    home.write(CURSOR, &file.to_string());
    let (_, shown) = home.undone();
    assert!(shown.contains("  Not kept: timeout, which you wrote into dyn.\n"), "{shown}");
    let advice = "What is not put back stays in its record. If you do not need it, delete the record with `dynamic-mcp import --forget 1`.";
    assert!(shown.contains(advice), "{shown}");
}

#[test]
fn an_import_without_servers_json_says_where_the_servers_are() {
    let home = Home::of(&[(CURSOR, serde_json::from_str(&github("token")).unwrap())]);
    home.imported(&["--yes", "--write-client"]);
    fs::remove_file(home.file(".config/dynamic-mcp/servers.json")).unwrap();
    let output = home.import(&["--yes"]);
    let shown = home.shown(&(stdout(&output) + &stderr(&output)));
    let reason = "~/.config/dynamic-mcp/servers.json does not exist, although a client uses dynamic-mcp with it already: the servers that were in it are gone; `dynamic-mcp import --undo` puts those of the clients back";
    assert!(shown.contains(reason) && !output.status.success(), "{shown}");
}

#[test]
fn every_change_in_servers_json_since_is_named() {
    let entry = |args: &[&str]| json!({"mcpServers": {"b": {"command": "b-mcp", "args": args}}});
    for (name, change, line) in [
        (
            "args",
            json!({"args": ["b", "--read-only"], "tools": {"deny": ["drop"]}}),
            "b: SERVERS runs b-mcp b --read-only, and Cursor b-mcp b\n",
        ),
        (
            "deny",
            json!({"args": ["b", "--read-only"], "tools": {"deny": ["drop"]}}),
            "b: SERVERS denies drop, and Cursor does not\n",
        ),
        ("enabled", json!({"enabled": false}), "b: it is disabled in SERVERS, and on in Cursor\n"),
        (
            "timeout",
            json!({"timeout": {"tools": "9s"}, "cwd": "/x"}),
            "b: cwd is not set in Cursor, /x in SERVERS\n",
        ),
        ("removed", Value::Null, "b is not in SERVERS any more\n"),
        ("profile", json!({}), "b: the profile of Cursor in SERVERS leaves it out, and Cursor has it\n"),
    ] {
        let home = Home::of(&[(CURSOR, entry(&["b"]))]);
        home.imported(&["--yes", "--write-client"]);
        let mut config = home.json(".config/dynamic-mcp/servers.json");
        match change.as_object() {
            Some(change) => {
                config["mcpServers"]["b"].as_object_mut().unwrap().extend(change.clone());
            }
            None => drop(config["mcpServers"].as_object_mut().unwrap().remove("b")),
        }
        if name == "profile" {
            config["profiles"] = json!({"cursor": ["*", "!b"]});
        }
        home.write(".config/dynamic-mcp/servers.json", &config.to_string());
        let (code, shown) = home.undone();
        let line = line.replace("SERVERS", "~/.config/dynamic-mcp/servers.json");
        assert!(code == Some(0) && shown.contains(&line), "{name}: {line}{shown}");
    }
    // What nobody changed is not named.
    let home = Home::of(&[(CURSOR, entry(&["b"])), (GEMINI, entry(&["c"]))]);
    home.imported(&["--yes", "--write-client"]);
    let (_, shown) = home.undone();
    assert!(!shown.contains("has changes that the clients do not get"), "{shown}");
}

#[cfg(unix)]
#[test]
fn a_config_with_secrets_that_others_may_read_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::of(&[
        (CURSOR, serde_json::from_str(&github("ghp_0123456789abcdef")).unwrap()),
        (".config/dynamic-mcp/servers.json", json!({"mcpServers": {}})),
    ]);
    let file = home.file(".config/dynamic-mcp/servers.json");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let output = home.import(&["--yes"]);
    let advice = "others may read it (its mode is 644); `chmod 600 ~/.config/dynamic-mcp/servers.json` keeps it private";
    assert!(home.shown(&stderr(&output)).contains(advice), "{output:?}");
}

#[test]
fn an_entry_without_a_record_is_named() {
    let home = Home::of(&[(CURSOR, json!({"mcpServers": {"dyn": {"command": "/x/dynamic-mcp"}}}))]);
    let (code, shown) = home.undone();
    let line = "Cursor: ~/.cursor/mcp.json still has `dyn`, of which there is no record";
    assert!(code == Some(0) && shown.contains(line), "{shown}");
}

#[test]
fn what_came_from_a_project_is_not_missed_in_the_users_config() {
    let home = Home::of(&[
        (CURSOR, json!({"mcpServers": {"fs": {"command": "fs"}}})),
        ("app/.cursor/mcp.json", json!({"mcpServers": {"shop": {"command": "shop"}}})),
    ]);
    home.imported(&["--yes", "--write-client", "--project=app"]);
    let (code, shown) = home.undone();
    assert_eq!(code, Some(0), "{shown}");
    assert!(!shown.contains("any more") && !shown.contains("in no client"), "{shown}");
}

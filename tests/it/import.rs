//! `dynamic-mcp import`: the files in `tests/clients`, written from the documentation of each client, in a home directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use config::env::Env;
use config::load::load;
use config::{Config, ConfigError, Overrides};
use serde_json::{Value, json};
use tempfile::TempDir;

#[cfg(unix)]
use crate::shell::at_terminal;
#[cfg(unix)]
use crate::support::{PipeReader, wait_for_child};
use crate::support::{base_env, merged, scripted_upstream};

mod accounts;
mod bans;
mod client_sets;
mod exact;
mod extensions;
// It has a keyring on a D-Bus.
#[cfg(all(unix, not(target_os = "macos")))]
mod keyring;
mod large;
mod leaving;
mod literal;
// It looks at processes in /proc.
#[cfg(target_os = "linux")]
mod measure;
mod more_clients;
mod plugins;
mod projects;
mod records;
mod redaction;
mod repositories;
mod samples;
mod undo;
mod variables;

/// The variables that the files use.
const VARIABLES: [&str; 12] = [
    "API_KEY",
    "API_TOKEN",
    "CONTEXT7_API_KEY",
    "DB_CONNECTION_STRING",
    "DYN_PERPLEXITY_KEY",
    "DYN_WORKSPACE_FOLDER",
    "EXTERNAL_API_KEY",
    "FIGMA_OAUTH_TOKEN",
    "GITHUB_TOKEN",
    "MCP_CLIENT_ID",
    "MCP_CLIENT_SECRET",
    "MY_ENV_VAR",
];

/// A home directory with the files of clients.
struct Home(TempDir);

impl Home {
    /// One with the files in a directory of `tests/clients`.
    fn with(files: &str) -> Self {
        let home = Self::empty();
        copy(&fixtures(files), home.path());
        home
    }

    fn empty() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// A file that the tests name as it is called on Linux.
    fn file(&self, name: &str) -> PathBuf {
        self.path().join(on_this_system(name))
    }

    /// One with these files of clients.
    fn of(files: &[(&str, Value)]) -> Self {
        let home = Self::empty();
        for (name, content) in files {
            home.write(name, &content.to_string());
        }
        home
    }

    /// Writes a file of a client.
    fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.file(name).parent().unwrap()).unwrap();
        fs::write(self.file(name), text).unwrap();
    }

    fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.text(name)).unwrap()
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap()
    }

    fn servers(&self) -> Value {
        serde_json::from_str::<Value>(&self.text(".config/dynamic-mcp/servers.json")).unwrap()["mcpServers"]
            .take()
    }

    /// `dynamic-mcp import` with these arguments.
    fn command(&self, args: &[&str]) -> Command {
        self.program(&[&["import"], args].concat())
    }

    /// `dynamic-mcp` with these arguments.
    fn program(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dynamic-mcp"));
        command.args(args).env_clear().current_dir(self.path());
        match cfg!(windows) {
            true => {
                let dirs = [("APPDATA", "AppData/Roaming"), ("LOCALAPPDATA", "AppData/Local")];
                command
                    .envs(base_env(self.path()))
                    .envs(dirs.map(|(name, dir)| (name, self.path().join(dir))))
            }
            false => command.env("HOME", self.path()),
        };
        command
    }

    /// Runs it without a terminal.
    fn import(&self, args: &[&str]) -> Output {
        self.command(args).stdin(Stdio::null()).output().unwrap()
    }

    /// Runs it, and returns what it printed.
    fn imported(&self, args: &[&str]) -> String {
        let output = self.import(args);
        assert!(output.status.success(), "{output:?}");
        self.shown(&stdout(&output))
    }

    /// A text with the paths of Linux, and with `/HOME` in place of this directory.
    fn shown(&self, text: &str) -> String {
        let home = self.path().to_str().unwrap();
        if !cfg!(windows) {
            return text.replace(home, "/HOME");
        }
        let text = text.replace(r"\\", "/").replace('\\', "/").replace(&home.replace('\\', "/"), "/HOME");
        text.replace("AppData/Roaming", ".config")
    }

    /// Every client's file with its bytes.
    fn client_files(&self) -> Vec<(String, Vec<u8>)> {
        let mut files = Vec::new();
        walk(self.path(), &mut |path| {
            let name = self.shown(path.strip_prefix(self.path()).unwrap().to_str().unwrap());
            if !name.contains("dynamic-mcp") {
                files.push((name, fs::read(path).unwrap()));
            }
        });
        files.sort();
        files
    }
}

fn fixtures(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name)
}

/// Where a file of the home directory is that is called so on Linux.
fn on_this_system(name: &str) -> String {
    let moved =
        ["Claude", "Code", "dynamic-mcp"].iter().any(|app| name.starts_with(&format!(".config/{app}")));
    match cfg!(windows) && moved {
        true => name.replacen(".config", "AppData/Roaming", 1),
        false => name.to_owned(),
    }
}

fn walk(dir: &Path, visit: &mut dyn FnMut(&Path)) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { walk(&path, visit) } else { visit(&path) }
    }
}

fn copy(from: &Path, to: &Path) {
    walk(from, &mut |path| {
        let name = path.strip_prefix(from).unwrap().to_str().unwrap().replace('\\', "/");
        let target = to.join(on_this_system(&name));
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(path, target).unwrap();
    });
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Loads a config where every variable of the files is set.
fn loaded(file: &Path) -> Config {
    let variables = VARIABLES.map(|name| (name, "value"));
    let home = file.parent().unwrap().to_str().unwrap();
    let env = Env::new(variables.into_iter().chain([("HOME", home), ("USERPROFILE", home)]), "/");
    load(&[file.to_owned()], &env, &Overrides::default())
}

#[test]
fn the_servers_of_every_client_are_imported_in_our_form() {
    let home = Home::with("home");
    let printed = home.imported(&["--yes"]);
    // Some variables and paths are others on Windows.
    #[cfg(unix)]
    insta::assert_snapshot!("import_prints", printed);
    assert!(printed.contains("19 servers for ~/.config/dynamic-mcp/servers.json:"), "{printed}");
    let file = home.file(".config/dynamic-mcp/servers.json");
    #[cfg(unix)]
    insta::assert_snapshot!("import_writes", home.shown(&fs::read_to_string(&file).unwrap()));
    for name in [".config/opencode/client-id", ".perplexity.env"] {
        fs::write(home.file(name), "").unwrap();
    }
    let config = loaded(&file);
    assert_eq!((&config.errors, config.all_warnings().count()), (&vec![], 0));
    let broken: Vec<_> = config.servers.iter().filter(|(_, server)| server.is_err()).collect();
    // Their files of variables do not exist here.
    let names: Vec<_> = broken.iter().map(|(name, _)| name.as_str()).collect();
    // A path without a drive is a relative one on Windows, and left out.
    let expected: &[&str] = if cfg!(windows) { &["perplexity"] } else { &["local", "perplexity"] };
    assert_eq!(names, expected, "{broken:?}");
    for (_, error) in &broken {
        assert!(error.as_ref().unwrap_err().message.starts_with("`env_file` cannot be read"), "{error:?}");
    }
}

#[test]
fn a_second_import_adds_nothing() {
    let home = Home::with("home");
    home.imported(&["--yes"]);
    let before = home.text(".config/dynamic-mcp/servers.json");
    let printed = home.imported(&["--yes"]);
    assert!(
        printed.contains("There are no new servers for ~/.config/dynamic-mcp/servers.json."),
        "{printed}"
    );
    assert_eq!(home.text(".config/dynamic-mcp/servers.json"), before);
}

#[test]
fn codex_gets_the_tools_themselves_if_its_model_searches_for_tools() {
    let import = |model: &str| {
        let home = Home::empty();
        home.write(".codex/config.toml", &format!("{model}\n[mcp_servers.g]\ncommand = \"g\"\n"));
        let cache = r#"{"models": [{"slug": "a", "supports_search_tool": true}]}"#;
        home.write(".codex/models_cache.json", cache);
        home.imported(&["codex", "--write-client", "--yes"]);
        home.text(".codex/config.toml")
    };
    let flat = r#""--surface", "flat", "--first-list-wait", "10s""#;
    for (model, is_flat) in [("", true), (r#"model = "a""#, true), (r#"model = "b""#, false)] {
        let file = import(model);
        assert_eq!(file.contains(flat), is_flat, "{file}");
    }
}

#[test]
fn an_import_says_if_all_tools_cost_less_than_ours() {
    let entry = scripted_upstream(&[]);
    let home = Home::of(&[(".cursor/mcp.json", json!({"mcpServers": {"g": entry}}))]);
    let hint = "the tools of all servers cost less than ";
    assert!(!home.imported(&["--yes"]).contains(hint));
    let few = json!({"mcpServers": {"g": merged(entry, json!({"tools": {"allow": ["echo"]}}))}});
    home.write(".config/dynamic-mcp/servers.json", &few.to_string());
    assert!(!home.imported(&["--yes"]).contains(hint), "no server has run yet");
    let checked = home.program(&["check"]).output().unwrap();
    assert!(stdout(&checked).contains(hint), "{checked:?}");
    assert!(home.imported(&["--yes"]).contains(hint));
}

#[test]
fn servers_json_keeps_its_comments_and_its_servers() {
    let home = Home::with("opencode-v2");
    let own = "{\n  // mine\n  \"mcpServers\": {\n    \"everything\": {\"command\": \"other\"}, // stays\n  },\n}\n";
    let file = home.file("my.json");
    fs::write(&file, own).unwrap();
    let printed = home.imported(&["--yes", "--config", "my.json"]);
    let text = home.text("my.json");
    assert!(text.starts_with(own.strip_suffix("  },\n}\n").unwrap()), "{text}");
    let names: Vec<_> = loaded(&file).servers.iter().map(|(name, _)| name.to_string()).collect();
    assert_eq!(names, ["everything", "everything-opencode"]);
    assert!(printed.contains("`dynamic-mcp import --write-client --config /HOME/my.json`"), "{printed}");
}

#[test]
fn clients_get_dynamic_mcp_alone_and_their_own_bytes_back() {
    for files in ["home", "opencode-v2"] {
        let home = Home::with(files);
        let before = home.client_files();
        home.imported(&["--yes", "--write-client"]);
        let after = home.client_files();
        assert_eq!(before.len(), after.len());
        for ((name, before), (_, after)) in before.iter().zip(&after) {
            assert_ne!(before, after, "{name}");
            let after = String::from_utf8(after.clone()).unwrap();
            let program = env!("CARGO_BIN_EXE_dynamic-mcp").replace('\\', "/");
            let shown = home.shown(&after);
            // Wine shows the root as a drive.
            let shown = shown.replace(&format!("Z:{program}"), "/BIN/dynamic-mcp");
            let shown = shown.replace(&program, "/BIN/dynamic-mcp");
            // A string of TOML with backslashes is a literal one.
            let shown = if cfg!(windows) { shown.replace('\'', "\"") } else { shown };
            insta::assert_snapshot!(format!("import_replaces_{files}_{}", name.replace('/', "_")), shown);
        }
        // It finds itself only.
        let again = home.imported(&["--yes", "--write-client"]);
        assert!(!again.contains("Wrote"), "{again}");
        home.imported(&["--undo", "--yes"]);
        assert_eq!(home.client_files(), before);
        assert_eq!(home.imported(&["--undo", "--yes"]), "There is nothing to take back.\n");
    }
}

#[cfg(unix)]
#[test]
fn a_clients_file_keeps_its_mode_and_its_link() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let home = Home::with("home");
    let (link, file) = (home.file(".cursor/mcp.json"), home.file("dotfiles.json"));
    fs::rename(&link, &file).unwrap();
    symlink(&file, &link).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    home.imported(&["cursor", "--yes", "--write-client"]);
    let mode = |name: &str| fs::metadata(home.file(name)).unwrap().permissions().mode() & 0o777;
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(home.text("dotfiles.json").contains("\"dyn\""));
    assert_eq!((mode("dotfiles.json"), mode(".config/dynamic-mcp/servers.json")), (0o640, 0o600));
    home.imported(&["--undo", "--yes"]);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(
        (fs::read(&file).unwrap(), mode("dotfiles.json")),
        (fs::read(fixtures("home/.cursor/mcp.json")).unwrap(), 0o640)
    );
}

/// The entries have variables, which TOML files have not.
#[test]
fn no_toml_file_is_written() {
    let home = Home::with("home");
    let output = home.import(&["--yes", "--config", "x.toml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("x.toml is a file of Codex"), "{output:?}");
    assert!(!home.file("x.toml").exists());
}

/// The servers are where the file has them, whichever client it is of.
#[test]
fn servers_are_added_where_the_file_has_them() {
    let home = Home::with("home");
    fs::write(home.file("oc.json"), r#"{"mcp": {"a": {"type": "local", "command": ["a"]}}}"#).unwrap();
    home.imported(&["cursor", "--yes", "--config", "oc.json"]);
    let root: Value = serde_json::from_str(&home.text("oc.json")).unwrap();
    assert!(root.get("mcpServers").is_none(), "{root}");
    assert!(root["mcp"].as_object().unwrap().len() > 1, "{root}");
    assert!(loaded(&home.file("oc.json")).errors.is_empty());
}

#[test]
fn an_invalid_file_is_reported_and_never_touched() {
    let home = Home::with("home");
    fs::write(
        home.file(".cursor/mcp.json"),
        "{\n  \"mcpServers\": {\n    \"a\": {\"command\": \"x\",,}\n  }\n}",
    )
    .unwrap();
    fs::write(home.file(".codex/config.toml"), "model = \"m\"\n[mcp_servers.a\n").unwrap();
    let before: Vec<_> = [".cursor/mcp.json", ".codex/config.toml"].map(|name| home.text(name)).into();
    let output = home.import(&["--yes", "--write-client"]);
    assert_eq!(output.status.code(), Some(78));
    let errors = home.shown(&stderr(&output));
    assert!(
        errors.contains("Cursor: ") && errors.contains("/.cursor/mcp.json:3:26: not valid JSON: "),
        "{errors}"
    );
    assert!(errors.contains("Codex: ") && errors.contains("/.codex/config.toml:2:"), "{errors}");
    assert_eq!(before, [".cursor/mcp.json", ".codex/config.toml"].map(|name| home.text(name)));
    assert!(home.servers().get("sentry").is_some(), "the others are imported");
}

#[test]
fn a_key_of_servers_that_is_there_twice_is_an_error_before_anything_is_written() {
    let server = r#"{"a": {"command": "a"}}"#;
    for (name, text, key, first) in [
        (
            ".cursor/mcp.json",
            format!("{{\n \"mcpServers\": {server},\n \"mcpServers\": {{}}}}"),
            "mcpServers",
            "2:2",
        ),
        (
            ".config/Code/User/mcp.json",
            format!("{{\"servers\": {{}},\n \n \"servers\": {server}}}"),
            "servers",
            "1:2",
        ),
        (
            ".config/opencode/opencode.json",
            format!("{{\"mcp\": {{\"servers\": {server},\n\n \"servers\": {{}}}}}}"),
            "servers",
            "1:10",
        ),
        (
            ".claude.json",
            format!("{{\"projects\": {{\"/x\": {{\"mcpServers\": {server},\n\n \"mcpServers\": {{}}}}}}}}"),
            "mcpServers",
            "1:22",
        ),
    ] {
        let home = Home::empty();
        home.write(name, &text);
        let output = home.import(&["--yes", "--write-client"]);
        assert_eq!(output.status.code(), Some(78), "{output:?}");
        let errors = home.shown(&stderr(&output));
        let error =
            format!("`{key}` is there twice, first at {first} (put the members of both into one of them)");
        assert!(errors.contains(&error) && errors.contains(":3:2: "), "{errors}");
        assert_eq!(home.text(name), text);
        assert!(!home.file(".config/dynamic-mcp").exists() && home.records().is_empty(), "{name}");
    }
}

#[test]
fn nothing_is_written_without_a_yes() {
    let home = Home::with("home");
    let before = home.client_files();
    let output = home.import(&["--write-client"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("run this again with --yes"), "{}", stderr(&output));
    let printed = home.imported(&["--dry-run", "--write-client", "--details"]);
    assert!(
        printed.contains(
            "+      \"args\": [\"--config\", \"/HOME/.config/dynamic-mcp/servers.json\", \"--profile\", "
        ),
        "{printed}"
    );
    assert!(
        printed.contains("-    \"filesystem\": {") && printed.ends_with("Nothing was written.\n"),
        "{printed}"
    );
    assert!(!printed.contains("pa$$w{o}rd") && printed.contains("•••"), "{printed}");
    assert_eq!(home.client_files(), before);
    assert!(!home.file(".config/dynamic-mcp").exists() && !home.file(".local").exists());
}

#[cfg(unix)]
#[test]
fn one_question_shows_the_details_or_writes_everything() {
    let files = [".cursor/mcp.json", ".gemini/settings.json"];
    let server = |debug: &str| json!({"mcpServers": {"fs": {"command": "x", "env": {"DEBUG": debug}}}});
    let home = Home::of(&[(files[0], server("1")), (files[1], server("2"))]);
    let (code, shown) = at_terminal(home.command(&["--write-client"]), "d\ny\n");
    assert_eq!(code, 0, "{shown}");
    assert_eq!(shown.matches("Write this? [y/N/d, where d shows the details] ").count(), 2, "{shown}");
    let (plan, details) = shown.split_once("Write this?").unwrap();
    assert!(!plan.contains("DEBUG"), "{plan}");
    assert!(details.contains("env.DEBUG is 1 in Cursor, 2 in Gemini CLI; that of Cursor counts"), "{shown}");
    assert!(details.contains("+++ "), "{shown}");
    assert_eq!(home.servers()["fs"]["env"]["DEBUG"], "1");
    assert!(files.iter().all(|file| home.text(file).contains("\"dyn\"")), "{shown}");
    assert!(shown.contains("Restart Cursor, Gemini CLI."), "{shown}");
    let home = Home::of(&[(files[0], server("1"))]);
    let (code, shown) = at_terminal(home.command(&["--write-client"]), "\n");
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("Nothing was written.") && !shown.contains("Restart"), "{shown}");
    assert!(!home.file(".config/dynamic-mcp").exists() && !home.text(files[0]).contains("dyn"), "{shown}");
}

/// Ten servers of three clients fit on one screen.
#[test]
fn the_plan_for_ten_servers_has_at_most_thirty_lines() {
    let servers = |first: u32, last: u32| -> Value {
        let server = |at: u32| {
            (
                format!("server-{at}"),
                json!({"command": "npx", "args": ["-y", format!("@x/{at}")], "env": {"T": "1"}, "autoApprove": []}),
            )
        };
        Value::Object((first..=last).map(server).collect())
    };
    let home = Home::of(&[
        (".claude.json", json!({"mcpServers": servers(1, 6)})),
        (".cursor/mcp.json", json!({"mcpServers": servers(4, 8)})),
        (".gemini/settings.json", json!({"mcpServers": servers(7, 10)})),
    ]);
    for args in [&["--dry-run"][..], &["--dry-run", "--write-client"], &["--yes", "--write-client"]] {
        let printed = home.imported(args);
        assert!(printed.lines().count() <= 30, "{printed}");
    }
    let printed = home.imported(&["--undo", "--yes"]);
    assert!(printed.lines().count() <= 15, "{printed}");
}

#[cfg(unix)]
#[test]
fn a_signal_ends_a_question_and_nothing_is_written() {
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let home = Home::with("home");
        let before = home.client_files();
        let terminal = nix::pty::openpty(None, None).unwrap();
        let mut command = home.command(&["--write-client"]);
        command.stdin(terminal.slave).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdout = PipeReader::new(child.stdout.take().unwrap());
        // The question follows an empty line and has no line feed.
        assert!(std::iter::from_fn(|| stdout.read_line()).any(|line| line.is_empty()));
        kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
        assert_eq!(wait_for_child(&mut child).code(), Some(130), "{signal}");
        let stderr = PipeReader::new(child.stderr.take().unwrap()).read_to_end();
        let stderr = String::from_utf8(stderr).unwrap();
        assert!(stderr.ends_with("dynamic-mcp: interrupted; nothing more was written\n"), "{stderr}");
        assert_eq!(home.client_files(), before);
        assert!(!home.file(".config/dynamic-mcp").exists() && !home.file(".local").exists());
    }
}

#[test]
fn servers_of_a_project_are_imported_only_when_asked_for() {
    let home = Home::empty();
    let project = home.file("app");
    copy(&fixtures("project"), &project);
    let claude = serde_json::json!({"projects": {project.to_str().unwrap(): {"mcpServers": {
        "db": {"type": "stdio", "command": "uvx", "args": ["db-mcp"], "env": {}}
    }}}});
    fs::write(home.file(".claude.json"), claude.to_string()).unwrap();
    let printed = home.imported(&["--yes"]);
    assert!(
        printed.contains("add --project=DIR to import those of one, or --all-projects: ~/app"),
        "{printed}"
    );
    assert!(printed.contains("There are no new servers"), "{printed}");
    home.imported(&["--yes", "--project=app", "--write-client"]);
    let servers = home.json(".config/dynamic-mcp/projects/app.json")["mcpServers"].take();
    let names: Vec<_> = servers.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(names, ["db", "shared", "lint", "docs"]);
    assert!(!home.file(".config/dynamic-mcp/servers.json").exists(), "the user has none of them");
    let cwd = |name: &str| servers[name]["cwd"].as_str().unwrap().to_owned();
    let project = project.canonicalize().unwrap();
    // Windows resolves it to a form that import does not write.
    let project = Path::new(project.to_str().unwrap().trim_start_matches(r"\\?\"));
    assert_eq!(cwd("shared"), project.to_str().unwrap());
    assert_eq!(cwd("lint"), project.join("tools").to_str().unwrap());
    let claude: Value = serde_json::from_str(&home.text(".claude.json")).unwrap();
    let servers = claude.pointer("/projects").unwrap().as_object().unwrap().values().next().unwrap();
    assert_eq!(servers["mcpServers"].as_object().unwrap().keys().collect::<Vec<_>>(), ["dyn"]);
}

#[test]
fn clients_files_are_configs_as_they_are() {
    let expected: [(&str, &[&str]); 9] = [
        (".config/Claude/claude_desktop_config.json", &["shop"]),
        (".claude.json", &["live"]),
        (".config/opencode/opencode.jsonc", &["jira"]),
        (".cursor/mcp.json", &["local"]),
        (".config/Code/User/mcp.json", &["perplexity"]),
        (".codex/config.toml", &[]),
        (".gemini/settings.json", &[]),
        (".copilot/mcp-config.json", &[]),
        ("../opencode-v2/.config/opencode/opencode.json", &[]),
    ];
    for (name, broken) in expected {
        let config = loaded(&fixtures("home").join(name));
        // What Gemini CLI expands and no shell does is text here, and a warning says so.
        let is_other = |warning: &ConfigError| !warning.message.contains("is not expanded");
        let warnings: Vec<_> = config.all_warnings().filter(is_other).collect();
        assert_eq!((&config.errors, warnings), (&vec![], vec![]), "{name}");
        let errors = config.servers.iter().filter(|(_, server)| server.is_err());
        // A variable that only the client has, a file that does not exist, a transport that is none of MCP's.
        assert_eq!(errors.map(|(name, _)| name.as_str()).collect::<Vec<_>>(), broken, "{name}");
        assert!(!config.servers.is_empty(), "{name}");
    }
}

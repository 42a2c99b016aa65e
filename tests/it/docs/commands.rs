//! The commands in the pages.
//!
//! Each fenced block of the language `sh` runs here, in a home directory that has what the pages assume: a config with
//! the servers that they name, files of two clients, and a running instance. `sh no-test: REASON` marks a block that
//! cannot run here. The commands that stand in the text, between backticks, are compared with the program's help.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;
use tempfile::TempDir;

use super::{fences, page_files};
use crate::support::{
    DISABLED_DBUS, PipeReader, config_of, output_of, scripted_upstream, wait_for_child, wait_until, write_all,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_dynamic-mcp");

/// The blocks that do not run here. A number that grows is to be seen in review.
const NOT_RUN: usize = 28;

/// `cargo run [--release] -- ARGUMENTS` is the built program. No other use of cargo runs in a test.
const CARGO: &str = r#"#!/bin/sh
[ "$1" = run ] || exit 1
shift
[ "$1" != --release ] || shift
[ "$1" = -- ] || exit 1
shift
exec dynamic-mcp "$@"
"#;

/// A home directory as the pages assume it.
struct Home {
    dir: TempDir,
}

impl Home {
    fn new() -> Self {
        let home = Self { dir: tempfile::tempdir().unwrap() };
        let notes = |group| json!({"command": PROGRAM, "args": ["__demo-server", group]});
        let read_file = json!({"name": "read_file", "description": "Reads a file", "inputSchema": {
            "type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}});
        let config = config_of([
            (
                "files",
                scripted_upstream(&["--resources", "--prompts", "--definitions", &read_file.to_string()]),
            ),
            ("time", notes("team")),
            ("github", notes("recipes")),
            ("docs", notes("travel")),
        ]);
        let cursor = json!({"mcpServers": {"weather": {"command": "uvx", "args": ["mcp-server-weather"]}}});
        for (path, config) in [
            (".config/dynamic-mcp/servers.json", &config),
            ("servers.json", &config),
            (".cursor/mcp.json", &cursor),
        ] {
            let path = home.dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, config.to_string()).unwrap();
        }
        let bin = home.dir.path().join("bin");
        fs::create_dir(&bin).unwrap();
        symlink(PROGRAM, bin.join("dynamic-mcp")).unwrap();
        fs::write(bin.join("cargo"), CARGO).unwrap();
        fs::set_permissions(bin.join("cargo"), fs::Permissions::from_mode(0o755)).unwrap();
        home
    }

    fn command(&self, program: &str) -> Command {
        let home = self.dir.path();
        let path: Vec<PathBuf> =
            [&*home.join("bin"), Path::new("/usr/local/bin"), Path::new("/usr/bin"), Path::new("/bin")]
                .map(Path::to_owned)
                .into();
        let mut command = Command::new(program);
        command.env_clear().current_dir(home).env("HOME", home).env("TMPDIR", home);
        command.env("PATH", std::env::join_paths(path).unwrap());
        command
            .env("BROWSER", "true")
            .env("XDG_RUNTIME_DIR", home)
            .env("DBUS_SESSION_BUS_ADDRESS", DISABLED_DBUS);
        command
    }
}

#[test]
fn the_commands_in_the_pages_run() {
    let (marked, blocks): (Vec<_>, Vec<_>) = fences()
        .into_iter()
        .filter(|fence| matches!(fence.language.as_str(), "sh" | "bash" | "shell" | "console"))
        .partition(|fence| fence.note.starts_with("no-test: "));
    let marked: Vec<&str> = marked.iter().map(|fence| fence.place.as_str()).collect();
    assert_eq!(marked.len(), NOT_RUN, "blocks that are marked with `no-test: `: {marked:#?}");
    assert!(blocks.len() > 10, "{}", blocks.len());
    for block in &blocks {
        assert!(
            block.language == "sh" && block.note.is_empty(),
            "{}: write `sh` or `sh no-test: REASON`",
            block.place
        );
    }
    std::thread::scope(|scope| {
        let runs: Vec<_> = blocks
            .chunks(blocks.len().div_ceil(2))
            .map(|half| scope.spawn(move || half.iter().filter_map(failure).collect::<Vec<_>>()))
            .collect();
        let failures: Vec<String> = runs.into_iter().flat_map(|run| run.join().unwrap()).collect();
        assert!(failures.is_empty(), "{}", failures.join("\n"));
    });
}

/// Runs a block beside an instance that serves a client. Returns what went wrong.
fn failure(block: &super::Fence) -> Option<String> {
    let home = Home::new();
    let mut instance = home.command("dynamic-mcp");
    instance.arg("--pure-lazy").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut instance = instance.spawn().unwrap();
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "docs", "version": "1"}}});
    let mut stdin = instance.stdin.take().unwrap();
    write_all(&mut stdin, format!("{initialize}\n").as_bytes()).unwrap();
    let mut stdout = PipeReader::new(instance.stdout.take().unwrap());
    stdout.read_line().unwrap();
    wait_until("an instance that commands find", || {
        String::from_utf8_lossy(&output_of(home.command("dynamic-mcp").arg("status")).stdout)
            .contains("(pid ")
    });
    let output = output_of(home.command("sh").args(["-eux", "-c", &block.text]).stdin(Stdio::null()));
    drop(stdin);
    wait_for_child(&mut instance);
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    (!output.status.success())
        .then(|| format!("{}: {}\n{}\n{}", block.place, output.status, text[0], text[1]))
}

/// The text between single backticks, and the lines of the fenced blocks that no test runs.
fn commands_in_the_text() -> Vec<(String, String)> {
    let mut commands = Vec::new();
    for page in page_files() {
        let text = fs::read_to_string(&page).unwrap();
        let name = page.file_name().unwrap().to_str().unwrap().to_owned();
        for line in text.lines().filter(|line| !line.trim_start().starts_with("```")) {
            let spans = line.split('`').skip(1).step_by(2);
            commands.extend(spans.map(|span| (name.clone(), span.trim().to_owned())));
        }
    }
    let marked = fences().into_iter().filter(|fence| fence.note.starts_with("no-test: "));
    commands.extend(marked.flat_map(|fence| {
        fence.text.lines().map(|line| (fence.place.clone(), line.to_owned())).collect::<Vec<_>>()
    }));
    commands.retain(|(_, command)| command.starts_with("dynamic-mcp "));
    commands
}

#[test]
fn the_commands_and_options_in_the_text_exist() {
    let mut help_texts: BTreeMap<Vec<String>, Option<String>> = BTreeMap::new();
    let mut help = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let text = help_texts.entry(words.clone()).or_insert_with(|| {
            let output = output_of(Command::new(PROGRAM).args(&words).arg("--help").env_clear());
            let text = String::from_utf8(output.stdout).unwrap();
            // The help of a command that does not exist is that of the program.
            let usage = ["Usage: dynamic-mcp"].into_iter().chain(words.iter().map(String::as_str));
            text.contains(&usage.collect::<Vec<_>>().join(" ")).then_some(text)
        });
        text.clone()
    };
    let mut wrong = Vec::new();
    let mut count = 0;
    for (place, command) in commands_in_the_text() {
        // These two are no commands: the first word after the name has no help of its own, or begins a sentence.
        if command.starts_with("dynamic-mcp help") || command.starts_with("dynamic-mcp is ") {
            continue;
        }
        let command = command.split(" #").next().unwrap();
        let words: Vec<&str> = command.split_whitespace().skip(1).collect();
        let is_name =
            |word: &&&str| word.chars().all(|c| c.is_ascii_lowercase() || c == '-') && !word.starts_with('-');
        let subcommand = words.first().filter(|word| is_name(word));
        let nested = words.get(1).filter(|word| is_name(word));
        let text = match (subcommand, nested) {
            (Some(first), _) if help(&[*first]).is_none() => None,
            (Some(first), Some(second)) if help(&[*first]).is_some_and(|text| text.contains("Commands:")) => {
                help(&[*first, *second])
            }
            (Some(first), _) => help(&[*first]),
            (None, _) => help(&[]),
        };
        count += 1;
        let options = words
            .iter()
            .map(|word| word.trim_matches(['[', ']']))
            .filter(|word| word.starts_with("--") && word.len() > 2);
        let names = options.map(|option| option.split(['=', '[']).next().unwrap());
        match text {
            None => wrong.push(format!("{place}: there is no such command: {command}")),
            Some(text) => wrong.extend(
                names
                    .filter(|name| !text.contains(name))
                    .map(|name| format!("{place}: there is no {name}: {command}")),
            ),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 30, "{count}");
}

#[test]
fn every_command_and_option_is_in_the_pages() {
    let pages: String = page_files().iter().map(|page| fs::read_to_string(page).unwrap()).collect();
    let help = |words: &[&str]| {
        let output = output_of(Command::new(PROGRAM).args(words).arg("--help").env_clear());
        String::from_utf8(output.stdout).unwrap()
    };
    let main = help(&[]);
    let (_, list) = main.split_once("Commands:\n").unwrap();
    let commands = list.lines().take_while(|line| !line.is_empty());
    let commands: Vec<&str> = commands
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .map(|line| line.split_whitespace().next().unwrap())
        .filter(|name| *name != "help")
        .collect();
    assert!(commands.len() > 10, "{commands:?}");
    let mut missing: Vec<String> = commands
        .iter()
        .map(|name| format!("dynamic-mcp {name}"))
        .filter(|name| !pages.contains(name))
        .collect();
    for text in commands.iter().map(|name| help(&[*name])).chain([main.clone()]) {
        let options = text.split_whitespace().filter(|word| word.starts_with("--"));
        let names = options.map(|word| word.split(['=', '[', ',', ']', '.', ';', ')']).next().unwrap());
        missing.extend(names.filter(|name| !pages.contains(name)).map(str::to_owned));
    }
    missing.sort();
    missing.dedup();
    missing.retain(|name| !matches!(name.as_str(), "--" | "--help" | "--version"));
    assert_eq!(missing, Vec::<String>::new());
}

//! `dynamic-mcp tools`, `search`, `call`, `resources` and `prompts`.

#[cfg(unix)]
use std::fs::File;
#[cfg(unix)]
use std::io::Read;
use std::path::Path;
#[cfg(unix)]
use std::process::Child;
use std::process::{Command, Stdio};

#[cfg(unix)]
use nix::sys::signal::{Signal, kill};
#[cfg(unix)]
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{InputRecord, base_env, config_of, full_upstream, merged, output_of, scripted_upstream};
#[cfg(unix)]
use crate::support::{wait_for_child, write_all};

/// The commands of one user, on one config.
pub(crate) struct Shell {
    home: TempDir,
}

/// The exit code, stdout and stderr of a command.
pub(crate) type Outcome = (i32, String, String);

impl Shell {
    pub(crate) fn new(config: &Value) -> Self {
        let home = TempDir::new().unwrap();
        std::fs::write(home.path().join("servers.json"), config.to_string()).unwrap();
        Self { home }
    }

    /// The home directory of the user, which has the config.
    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        self.plain_command(&[&["--config", "servers.json"], args].concat())
    }

    /// A command with the config that it finds by itself.
    pub(crate) fn plain_command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dynamic-mcp"));
        // The defaults of the XDG directories, so that the commands use the log and the cache as a user does.
        let env = base_env(self.home.path()).into_iter().filter(|(name, _)| !name.ends_with("_HOME"));
        command.env_clear().envs(env);
        command.current_dir(self.home.path()).args(args);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Outcome {
        let output = output_of(&mut self.command(args));
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    /// Runs a command at a terminal where `answers` are typed. Returns its exit code and what the terminal showed.
    #[cfg(unix)]
    pub(crate) fn run_at_terminal(&self, args: &[&str], answers: &str) -> (i32, String) {
        at_terminal(self.command(args), answers)
    }
}

/// Runs a command at a terminal where `answers` are typed. Returns its exit code and what the terminal showed.
#[cfg(unix)]
pub(crate) fn at_terminal(command: Command, answers: &str) -> (i32, String) {
    at_terminal_of(None, command, answers)
}

/// The same at a terminal of this many columns.
#[cfg(unix)]
pub(crate) fn at_terminal_of(columns: Option<u16>, mut command: Command, answers: &str) -> (i32, String) {
    let size =
        columns.map(|columns| nix::pty::Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 });
    let terminal = nix::pty::openpty(size.as_ref(), None).unwrap();
    command.stdin(terminal.slave.try_clone().unwrap()).stderr(terminal.slave.try_clone().unwrap());
    command.stdout(terminal.slave);
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut master = File::from(terminal.master);
    write_all(&mut master, answers.as_bytes()).unwrap();
    let code = wait_for_child(&mut child).code().unwrap();
    let mut shown = String::new();
    // The terminal is gone, which is an error after the last byte.
    master.read_to_string(&mut shown).ok();
    (code, shown)
}

fn recorded(record: &InputRecord, more: Value) -> Value {
    merged(record.attached_to(full_upstream(&[])), more)
}

/// A tool without parameters.
fn tool(name: &str, description: &str) -> Value {
    json!({"name": name, "description": description, "inputSchema": {"type": "object"}})
}

#[cfg(unix)]
fn signal(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
}

#[test]
fn tools_are_listed_by_the_rules_and_a_warm_cache_starts_no_server() {
    let record = InputRecord::new();
    let rules = json!({"tools": {"allow": ["echo", "p*"], "deny": ["params"], "ask": ["pid"]}});
    let shell = Shell::new(&config_of([("g", recorded(&record, rules))]));
    let (code, stdout, stderr) = shell.run(&["tools"]);
    assert_eq!((code, &*stderr), (0, ""));
    assert!(stdout.starts_with("g (3 tools)\n  echo: Returns its text.\n  pid (asks): Returns"), "{stdout}");
    assert!(!stdout.contains("params"), "{stdout}");
    assert_eq!(record.lines_of("initialize").len(), 1);

    assert_eq!(shell.run(&["tools"]), (0, stdout, String::new()));
    let (code, stdout, _) = shell.run(&["tools", "g"]);
    assert!(code == 0 && stdout.contains("\necho(text: string /* What to return */)\n"), "{stdout}");
    let (code, stdout, _) = shell.run(&["tools", "g", "echo"]);
    assert!(code == 0 && stdout.contains("\n{\"name\":\"echo\",\"title\":\"Echo\""), "{stdout}");
    let (code, stdout, _) = shell.run(&["tools", "--json", "g"]);
    let list: Value = serde_json::from_str(&stdout).unwrap();
    let names: Vec<_> = list["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!((code, names), (0, ["g__echo", "g__pid", "g__progress"].map(Value::from).to_vec()));
    let (code, stdout, _) = shell.run(&["search", "return", "text"]);
    assert!(code == 0 && stdout.starts_with("g / echo: Returns its text.\n  "), "{stdout}");
    let (code, _, stderr) = shell.run(&["tools", "g", "params"]);
    // Only this one asks the server, because the cache may be outdated.
    assert!(code == 1 && stderr.contains("has no tool \"params\""), "{stderr}");
    assert_eq!(record.lines_of("initialize").len(), 2);
}

#[test]
fn a_tool_is_found_by_its_own_name() {
    let tools = [tool("a__b", "A."), tool("b", "B.")].map(|tool| tool.to_string()).join(",");
    let shell = Shell::new(&config_of([("g", scripted_upstream(&["--definitions", &tools]))]));
    let names = |tool: &str| {
        let (code, stdout, _) = shell.run(&["tools", "--json", "g", tool]);
        assert_eq!(code, 0);
        let list: Value = serde_json::from_str(&stdout).unwrap();
        let tools = list["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names("a__b"), ["g__a__b"]);
    assert_eq!(names("b"), ["g__b"]);
    assert_eq!(names("nope"), Vec::<String>::new());
}

#[test]
#[cfg_attr(windows, ignore = "the command is quoted for another shell")]
fn the_command_that_approves_a_tool_can_be_pasted() {
    let record = InputRecord::new();
    let file = record.path("definitions");
    std::fs::write(&file, tool("write", "Writes.").to_string()).unwrap();
    let server = scripted_upstream(&["--definitions-file", file.to_str().unwrap()]);
    let shell = Shell::new(&config_of([("my notes", merged(server, json!({"pin_tools": true})))]));
    assert_eq!(shell.run(&["tools"]).0, 0);
    std::fs::write(&file, tool("write", "Writes and sends.").to_string()).unwrap();
    // It reads the definitions again.
    assert_eq!(shell.run(&["check"]).0, 0);
    let (_, stdout, _) = shell.run(&["tools"]);
    let config = shell.home().join("servers.json").canonicalize().unwrap();
    let command = format!("dynamic-mcp approve 'my notes' --config {}", config.display());
    assert!(
        stdout.contains(&format!("1 more changed and are refused until you run `{command}`\n")),
        "{stdout}"
    );
    let (_, stdout, _) = shell.run(&["tools", "my notes"]);
    assert!(!stdout.contains("get_dynamic_tools"), "{stdout}");
}

#[test]
fn a_call_prints_its_text_or_its_bytes_and_the_exit_code_says_who_failed() {
    let shell = Shell::new(&config_of([
        ("g", scripted_upstream(&[])),
        ("broken", scripted_upstream(&["--crash-at-start", "no such database"])),
    ]));
    assert_eq!(shell.run(&["call", "g", "echo", r#"{"text":"hi"}"#]), (0, "hi\n".into(), String::new()));
    assert_eq!(shell.run(&["call", "g", "echo", "{\r\n  \"text\": \"hi\"\n}\n"]).1, "hi\n");
    let (_, stdout, _) = shell.run(&["call", "g", "args", r#"{"n":1e400}"#]);
    assert_eq!(stdout, "{\"n\":1e400}\n");
    let (code, stdout, _) = shell.run(&["call", "g", "weird", "--json"]);
    assert!(code == 0 && stdout.contains(r#""huge":1e400,"big":123456789012345678901234567890"#), "{stdout}");
    assert_eq!(
        shell.run(&["call", "g", "fail", r#"{"text":"oops"}"#]),
        (5, String::new(), "oops\n".to_owned())
    );
    for (args, code, why) in [
        (&["g", "echo", r#"{"text":[],"x":2}"#][..], 1, "The arguments do not fit tool \"echo\""),
        (&["g", "nope"], 1, "Group g has no tool \"nope\""),
        (&["nope", "x"], 1, "There is no group \"nope\""),
        (&["broken", "x"], 1, "> no such database"),
        (&["broken", "x", "--select", "."], 1, "dynamic-mcp: broken: its process exited with code 3"),
        (&["g", "echo", "{x"], 2, "the arguments are not JSON"),
        (&["g", "echo", "[]"], 2, "the arguments must be a JSON object"),
        (
            &["g", "echo", r#"{"text":"x"}"#, "--select", ".["],
            2,
            "--select: the program is not valid: expected closing bracket at the end of the program; the tool was not called",
        ),
    ] {
        let (actual, stdout, stderr) = shell.run(&[&["call"], args].concat());
        assert_eq!((actual, &*stdout), (code, ""), "{args:?}: {stderr}");
        assert!(stderr.contains(why), "{args:?}: {stderr}");
        let for_models = ["get_dynamic_tools", "get_status", "Call again", "tell the user"];
        assert!(!for_models.iter().any(|text| stderr.contains(text)), "{args:?}: {stderr}");
    }
    // The server that works is listed beside the one that does not.
    let (code, stdout, stderr) = shell.run(&["tools"]);
    assert!(code == 1 && stdout.starts_with("g (21 tools)\n"), "{stdout}");
    assert!(stderr.starts_with("dynamic-mcp: broken: its process exited with code 3"), "{stderr}");
}

#[test]
fn found_tools_are_data_for_programs() {
    let tools = [tool("send_mail", "Sends a letter."), tool("read_mail", "Reads letters.")];
    let definitions = tools.iter().map(Value::to_string).collect::<Vec<_>>().join(",");
    let shell = Shell::new(&config_of([
        ("mail", scripted_upstream(&["--definitions", &definitions])),
        ("broken", scripted_upstream(&["--crash-at-start", "no such database"])),
    ]));
    let (code, stdout, _) = shell.run(&["search", "--json", "send", "a", "letter"]);
    let found: Value = serde_json::from_str(&stdout).unwrap();
    let best = &found["tools"][0];
    assert_eq!((code, &best["group"], &best["name"]), (0, &json!("mail"), &json!("send_mail")));
    assert_eq!((&best["definition"], &best["unavailable"]), (&tools[0], &json!(null)));
    assert_eq!(found["query"], "send a letter");
    let not_searched = found["notSearched"].as_array().unwrap();
    assert!(not_searched.len() == 1 && not_searched[0]["group"] == "broken", "{stdout}");

    // A person reads one line about the server that does not work.
    let (code, stdout, stderr) = shell.run(&["search", "send", "a", "letter"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains("send_mail") && !stdout.contains("Tell the user"), "{stdout}");
    assert!(
        stderr.starts_with("dynamic-mcp: broken was not asked: its process exited with code 3"),
        "{stderr}"
    );
    assert!(
        stderr.contains("`dynamic-mcp check broken --config ") && stderr.lines().count() == 1,
        "{stderr}"
    );
}

// It needs a terminal.
#[cfg(unix)]
#[test]
fn a_table_fits_its_terminal_and_shows_states_in_colors() {
    let shell = Shell::new(&config_of([
        ("a-server-with-a-long-name", scripted_upstream(&[])),
        (
            "broken",
            scripted_upstream(&["--crash-at-start", "there is no such database, so this server ends"]),
        ),
    ]));
    for width in [60, 80] {
        let (code, shown) = at_terminal_of(Some(width), shell.command(&["check"]), "");
        let table = shown.rsplit("\r\x1b[K").next().unwrap().replace('\r', "");
        assert_eq!(code, 1, "{shown:?}");
        assert!(table.contains("\x1b[32mok\x1b[0m") && table.contains("\x1b[31mfailed\x1b[0m"), "{table:?}");
        let styles = ["\x1b[32m", "\x1b[31m", "\x1b[0m"];
        let plain = styles.iter().fold(table, |text, style| text.replace(style, ""));
        for line in plain.lines() {
            // A part of a path without a separator is not broken.
            let is_one_word = !line.trim_start().contains(' ');
            assert!(line.chars().count() <= usize::from(width) || is_one_word, "{width}: {line:?}");
        }
        assert!(plain.contains("\n    runs:"), "{plain}");
    }
    let mut without_colors = shell.command(&["check"]);
    without_colors.env("NO_COLOR", "1");
    let (_, shown) = at_terminal_of(Some(80), without_colors, "");
    assert!(!shown.rsplit("\r\x1b[K").next().unwrap().contains('\x1b'), "{shown:?}");
}

// It needs a terminal.
#[cfg(unix)]
#[test]
fn a_call_that_has_to_be_confirmed_asks_at_the_terminal_and_is_refused_without_one() {
    let record = InputRecord::new();
    let shell = Shell::new(&config_of([("g", recorded(&record, json!({"tools": {"ask": ["echo"]}})))]));
    let call = ["call", "g", "echo", r#"{"text":"hello"}"#];
    let (code, stdout, stderr) = shell.run(&call);
    assert_eq!((code, &*stdout), (1, ""), "{stderr}");
    assert!(stderr.contains("run it at a terminal") && stderr.contains("tools.ask"), "{stderr}");
    let (code, shown) = shell.run_at_terminal(&call, "n\n");
    assert!(code == 1 && shown.contains("Group \"g\", tool \"echo\": allow this call?"), "{shown}");
    assert!(shown.contains("Its arguments: {\"text\":\"hello\"}"), "{shown}");
    assert_eq!(record.lines_of("tools/call").len(), 0);
    let (code, shown) = shell.run_at_terminal(&call, "y\n");
    assert!(code == 0 && shown.ends_with("hello\r\n"), "{shown}");
    assert_eq!(record.lines_of("tools/call").len(), 1);
}

// It needs a signal.
#[cfg(unix)]
#[test]
fn ctrl_c_cancels_the_call() {
    let record = InputRecord::new();
    let shell = Shell::new(&config_of([("g", recorded(&record, json!({})))]));
    let mut child = shell.command(&["call", "g", "sleep", r#"{"ms":60000}"#]).spawn().unwrap();
    record.wait_for("tools/call", 0);
    signal(&child, Signal::SIGINT);
    assert_eq!(wait_for_child(&mut child).code(), Some(130));
    assert_eq!(record.lines_of("notifications/cancelled").len(), 1);
}

#[test]
fn resources_and_prompts_are_read_from_the_servers() {
    let shell = Shell::new(&config_of([("g", full_upstream(&[])), ("h", scripted_upstream(&[]))]));
    let (code, stdout, stderr) = shell.run(&["resources"]);
    assert_eq!((code, &*stderr), (0, ""));
    assert!(stdout.starts_with("mem://one: one\nmem://two: two\n"), "{stdout}");
    assert!(stdout.contains("\nmem://item/{id}: item\n"), "{stdout}");
    let (_, stdout, _) = shell.run(&["prompts", "g"]);
    assert!(stdout.starts_with("g__greet\n"), "{stdout}");
    let (_, stdout, _) = shell.run(&["prompts", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&stdout).unwrap()["prompts"][0]["name"], "g__greet");
}

#[test]
fn without_a_config_the_command_that_makes_one_is_named() {
    let shell = Shell::new(&json!({"mcpServers": {}}));
    let (code, _, stderr) = shell.run(&["tools"]);
    assert!(code == 78 && stderr.contains("`dynamic-mcp import --config "), "{stderr}");
    std::fs::remove_file(Path::new(shell.home.path()).join("servers.json")).unwrap();
    let (code, _, stderr) = shell.run(&["tools"]);
    assert!(code == 78 && stderr.contains("no such file"), "{stderr}");
}

#[cfg(unix)]
#[test]
fn a_terminal_shows_on_one_line_which_servers_are_waited_for() {
    let shell = Shell::new(&config_of([
        ("quick", scripted_upstream(&[])),
        ("slow", scripted_upstream(&["--slow-list", "700"])),
    ]));
    for (args, shown_first) in [(&["tools"][..], "waiting for "), (&["check"], "0 of 2 done, waiting for ")] {
        let (code, shown) = shell.run_at_terminal(args, "");
        assert!(code == 0 && shown.starts_with(&format!("\r\x1b[K{shown_first}")), "{shown:?}");
        let lines: Vec<_> = shown.split('\n').filter(|line| line.contains("waiting for")).collect();
        let [line] = &*lines else { panic!("{shown:?}") };
        let (progress, answer) = line.rsplit_once("\r\x1b[K").unwrap();
        assert!(progress.ends_with("waiting for slow") && !answer.contains("waiting"), "{shown:?}");
        // The answer of a command that is not at a terminal has nothing of it.
        let (_, _, stderr) = shell.run(args);
        assert_eq!(stderr, "");
    }
}

//! `dynamic-mcp check`.

#[cfg(unix)]
use std::os::unix::fs::PermissionsExt;
#[cfg(unix)]
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::shell::Shell;
use crate::support::{InputRecord, config_of, merged, output_of, scripted_upstream};
#[cfg(unix)]
use crate::support::{scripted_upstream_program, wait_for_child, wait_until};

#[test]
fn each_server_is_started_and_each_failure_says_what_to_do() {
    let shell = Shell::new(&config_of([
        ("works", scripted_upstream(&["--instructions", "x"])),
        ("crashes", scripted_upstream(&["--crash-at-start", "no such database"])),
        ("missing", json!({"command": "nowhere-to-be-found"})),
        ("unset", merged(scripted_upstream(&[]), json!({"env": {"A": "${NOT_SET}"}}))),
        ("remote", json!({"url": "http://127.0.0.1:1/mcp"})),
    ]));
    let (code, stdout, stderr) = shell.run(&["check"]);
    assert_eq!((code, &*stderr), (1, ""), "{stdout}");
    for part in [
        "works    ok      ",
        "crashes  failed  -",
        "    > no such database\n",
        "command \"nowhere-to-be-found\" not found in PATH",
        "install it, or write its absolute path as \"command\"",
        "NOT_SET",
        "http://127.0.0.1:1\n",
        "1 of 5 servers work\n",
    ] {
        assert!(stdout.contains(part), "{part:?}: {stdout}");
    }
    let (code, stdout, _) = shell.run(&["check", "--json", "works", "remote"]);
    let report: Value = serde_json::from_str(&stdout).unwrap();
    let servers = report["servers"].as_array().unwrap();
    assert_eq!((code, servers.len()), (1, 2));
    assert!(servers[0]["works"] == true && servers[0]["tools"] == 21, "{report}");
    assert!(servers[0]["tokens"].as_u64().unwrap() > 500 && servers[0]["connectMs"].is_u64(), "{report}");
    assert!(servers[1]["works"] == false && servers[1]["error"].is_string(), "{report}");
    assert_eq!(shell.run(&["check", "works"]).0, 0);
    let (code, _, stderr) = shell.run(&["check", "nope"]);
    assert!(code == 2 && stderr.contains("no enabled server \"nope\"; it has works, crashes"), "{stderr}");
}

#[test]
fn a_set_of_tools_that_costs_less_than_ours_is_named() {
    let servers = |tools| [("works", merged(scripted_upstream(&[]), json!({"tools": tools})))];
    let hint = "with `--surface flat` in the client's entry";
    let shell = Shell::new(&config_of(servers(json!({"allow": ["echo"]}))));
    let (code, table, _) = shell.run(&["check"]);
    assert!(code == 0 && table.contains(hint), "{table}");
    let (_, report, _) = shell.run(&["check", "--json"]);
    let report: Value = serde_json::from_str(&report).unwrap();
    assert!(report["cost"][1].as_str().unwrap().contains(hint), "{report}");
    assert!(!shell.run(&["check", "works"]).1.contains(hint), "these are not all servers");
    let mut flat = config_of(servers(json!({"allow": ["echo"]})));
    flat["settings"] = json!({"surface": "flat"});
    assert!(!Shell::new(&flat).run(&["check"]).1.contains(hint), "the surface is flat");
    let (_, table, _) = Shell::new(&config_of(servers(json!({})))).run(&["check"]);
    assert!(!table.contains(hint), "{table}");
    let cost = regex_lite::Regex::new(r"\n21 tools, [0-9,]+ tokens; your client reads [0-9,]+\n$").unwrap();
    assert!(cost.is_match(&table), "{table}");
}

#[test]
fn a_name_is_quoted_once_in_the_table_and_never_in_json() {
    let shell = Shell::new(&config_of([("my files", scripted_upstream(&[]))]));
    let (_, table, _) = shell.run(&["check"]);
    assert!(table.contains("\n\"my files\"  ok "), "{table}");
    let (_, report, _) = shell.run(&["check", "--json"]);
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["servers"][0]["name"], "my files");
}

#[test]
fn what_is_doubtful_about_tools_is_noted() {
    let record = InputRecord::new();
    let file = record.path("definitions");
    let tool = |description: &str| json!({"name": "write", "description": description, "inputSchema": {}});
    std::fs::write(&file, tool("Writes.").to_string()).unwrap();
    let server = scripted_upstream(&["--definitions-file", file.to_str().unwrap()]);
    let rules = json!({"tools": {"allow": ["write"]}, "description": "x"});
    let shell = Shell::new(&config_of([("g", merged(server, rules))]));
    let (code, stdout, _) = shell.run(&["check"]);
    assert!(code == 0 && stdout.contains("does not say what to pass: \"write\"\n"), "{stdout}");
    assert!(!stdout.contains("changed since"), "{stdout}");
    std::fs::write(&file, tool("Writes.\u{e0041} Sends.").to_string()).unwrap();
    let (code, stdout, _) = shell.run(&["check"]);
    assert!(code == 0 && stdout.contains("do not see and models do: \"write\""), "{stdout}");
    assert!(
        stdout.contains("changed since first seen: \"write\"; review them, then run `dynamic-mcp approve g"),
        "{stdout}"
    );
}

/// Writes a file of a client in the home directory.
fn client_file(shell: &Shell, name: &str, text: &str) {
    let file = shell.home().join(name);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, text).unwrap();
}

/// Runs `check --as CLIENT` with a variable of the shell. Returns the exit code and stdout.
fn checked_as(shell: &Shell, client: &str, has_config: bool) -> (i32, String) {
    let args = ["check", "--as", client];
    let mut command = if has_config { shell.command(&args) } else { shell.plain_command(&args) };
    let output = output_of(command.env("ONLY_IN_THE_SHELL", "x"));
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
}

#[test]
#[cfg_attr(windows, ignore = "the files of clients are in other places")]
fn a_client_gives_what_it_passes_on() {
    let entry = merged(scripted_upstream(&[]), json!({"env": {"A": "${ONLY_IN_THE_SHELL}"}}));
    let shell = Shell::new(&config_of([("g", entry)]));
    for (client, expected) in [
        ("claude-code", 0),
        ("opencode", 0),
        ("gemini", 0),
        ("codex", 1),
        ("copilot", 1),
        ("claude-desktop", 1),
    ] {
        let (code, stdout) = checked_as(&shell, client, true);
        assert_eq!(code, expected, "{client}: {stdout}");
        assert_eq!(stdout.contains("`ONLY_IN_THE_SHELL` is not defined"), code == 1, "{stdout}");
        let advice = format!("`dynamic-mcp import {client} --write-client --config ");
        assert!(stdout.contains(&advice), "{stdout}");
        let of_desktop =
            "the environment is that of the desktop, because Claude Desktop runs no instance now\n";
        assert_eq!(stdout.starts_with(of_desktop), client == "claude-desktop", "{stdout}");
    }
    let own = "[mcp_servers.dyn]\ncommand = \"/bin/dynamic-mcp\"\nenv_vars = [\"ONLY_IN_THE_SHELL\"]\n";
    client_file(&shell, ".codex/config.toml", own);
    let (code, stdout) = checked_as(&shell, "codex", true);
    assert!(code == 0 && stdout.contains("the entry is `dyn` in ~/.codex/config.toml\n"), "{stdout}");
}

/// Claude Code passes on the text of a variable that it does not have.
#[test]
#[cfg_attr(windows, ignore = "the files of clients are in other places")]
fn a_variable_that_the_client_does_not_have_is_unset_as_check_says() {
    let fallback = merged(scripted_upstream(&[]), json!({"env": {"A": "${GREETING:-hello}"}}));
    let mut by_default = scripted_upstream(&[]);
    let program = by_default["command"].as_str().unwrap().to_owned();
    by_default["command"] = json!(format!("${{PROGRAM:-{program}}}"));
    let needs = merged(scripted_upstream(&[]), json!({"env": {"A": "${NO_TOKEN}"}}));
    let shell = Shell::new(&config_of([("a", fallback), ("b", by_default), ("c", needs)]));
    let names = ["GREETING", "PROGRAM", "NO_TOKEN"].map(|name| (name, format!("${{{name}}}")));
    let env: serde_json::Map<_, _> = names.iter().map(|(name, text)| ((*name).into(), json!(text))).collect();
    let own = json!({"mcpServers": {"dyn": {"command": "/bin/dynamic-mcp", "env": env}}});
    client_file(&shell, ".claude.json", &own.to_string());
    let started = output_of(shell.command(&["check"]).envs(names));
    let (code, checked) = checked_as(&shell, "claude-code", true);
    let started_text = String::from_utf8(started.stdout).unwrap();
    for (code, stdout) in [(started.status.code().unwrap(), started_text), (code, checked)] {
        assert_eq!(code, 1, "{stdout}");
        assert!(stdout.contains("2 of 3 servers work\n"), "{stdout}");
        assert!(stdout.contains("the variable `NO_TOKEN` is not defined"), "{stdout}");
    }
    // Gemini CLI passes the empty string.
    client_file(&shell, ".gemini/settings.json", &own.to_string());
    let (code, stdout) = checked_as(&shell, "gemini", true);
    assert!(code == 0 && stdout.contains("3 of 3 servers work\n"), "{stdout}");
}

#[test]
#[cfg_attr(windows, ignore = "the files of clients are in other places")]
fn the_entry_of_a_client_gives_variables_and_the_config() {
    let entry = merged(scripted_upstream(&[]), json!({"env": {"A": "${DYN_KEY}", "B": "${PLAIN}"}}));
    let shell = Shell::new(&config_of([("unused", json!({"command": "nowhere"}))]));
    let config = shell.home().join("other.json");
    std::fs::write(&config, config_of([("g", entry)]).to_string()).unwrap();
    let own = |env: Value| {
        let entry =
            json!({"command": "/bin/dynamic-mcp", "args": ["--config", config, "--no-such"], "env": env});
        json!({"servers": {"files": {"command": "x"}, "my": entry}}).to_string()
    };
    client_file(&shell, ".config/Code/User/mcp.json", &own(json!({"DYN_KEY": "${input:key}", "PLAIN": "p"})));
    let (code, stdout) = checked_as(&shell, "vscode", false);
    assert_eq!(code, 1, "{stdout}");
    for part in [
        "the entry is `my` in ~/.config/Code/User/mcp.json\n",
        "DYN_KEY is ${input:key}, which only VS Code knows; to check with a value, set DYN_KEY here\n",
        "the variable `DYN_KEY` is not defined",
        "config error: in `args` of the client's entry: there is no option --no-such",
        "0 of 1 servers work\n",
    ] {
        assert!(stdout.contains(part), "{part}: {stdout}");
    }
    assert!(!stdout.contains("PLAIN"), "{stdout}");
    let output = output_of(shell.plain_command(&["check", "--as", "vscode"]).env("DYN_KEY", "k"));
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(stdout.contains("1 of 1 servers work\n") && !stdout.contains("set DYN_KEY"), "{stdout}");
    client_file(&shell, ".config/Code/User/mcp.json", "{");
    let (_, stdout) = checked_as(&shell, "vscode", true);
    assert!(stdout.contains("the entry is not known: ") && stdout.contains("mcp.json:1:"), "{stdout}");
}

#[test]
#[cfg_attr(windows, ignore = "the files of clients are in other places")]
fn a_surface_that_does_not_fit_the_client_is_named() {
    let shell = Shell::new(&config_of([("g", scripted_upstream(&["--tools", "200"]))]));
    let config = shell.home().join("servers.json");
    let warning = |client: &str, file: &str, args: &[&str], settings: &str| {
        let args: Vec<&str> = [&["--config", config.to_str().unwrap()], args].concat();
        let entry = match client {
            "codex" => format!("[mcp_servers.dyn]\ncommand = \"dynamic-mcp\"\nargs = {args:?}\n"),
            _ => json!({"mcpServers": {"dyn": {"command": "dynamic-mcp", "args": args}}}).to_string(),
        };
        client_file(&shell, file, &entry);
        client_file(&shell, ".claude/settings.json", settings);
        let (_, stdout) = checked_as(&shell, client, false);
        let lines = stdout.split("warning: ").skip(1);
        lines.map(|text| text.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<String>()
    };
    let (claude, codex, flat) = (".claude.json", ".codex/config.toml", ["--surface", "flat"]);
    let off = r#"{"env": {"ENABLE_TOOL_SEARCH": "false"}}"#;
    let shows_all = "the surface `flat` shows the model all tools, about ";
    assert!(warning("claude-code", claude, &flat, off).contains(shows_all));
    assert_eq!(warning("claude-code", claude, &flat, "{}"), "");
    assert_eq!(warning("claude-code", claude, &[], off), "");
    assert!(warning("gemini", ".gemini/settings.json", &flat, "{}").contains(shows_all));
    assert!(warning("codex", codex, &[], "{}").contains("add `--surface flat --first-list-wait 10s`"));
    assert!(warning("codex", codex, &flat, "{}").contains("Codex lists the tools once"));
    let waits = [&flat[..], &["--first-list-wait", "10s"]].concat();
    assert_eq!(warning("codex", codex, &waits, "{}"), "");
}

// It needs /proc.
#[cfg(unix)]
#[test]
fn a_client_that_runs_shows_its_path() {
    let shell = Shell::new(&config_of([("g", json!({"command": "a-tool"}))]));
    let tools = shell.home().join("tools");
    std::fs::create_dir(&tools).unwrap();
    std::os::unix::fs::symlink(scripted_upstream_program(), tools.join("a-tool")).unwrap();
    let (code, stdout) = checked_as(&shell, "claude-desktop", true);
    assert!(code == 1 && stdout.contains("\"a-tool\" not found in PATH"), "{stdout}");
    // The client: a process of this name that starts an instance.
    let client = shell.home().join("claude-desktop");
    std::fs::write(&client, "#!/bin/sh\n\"$@\"\nexit\n").unwrap();
    std::fs::set_permissions(&client, PermissionsExt::from_mode(0o755)).unwrap();
    let instance = shell.command(&[]);
    let mut command = Command::new(&client);
    command.arg(instance.get_program()).args(instance.get_args()).current_dir(shell.home()).env_clear();
    command.env("HOME", shell.home()).env("XDG_RUNTIME_DIR", shell.home());
    command.env("PATH", format!("{}:/usr/bin:/bin", tools.display()));
    let mut running =
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let source = format!("is that of Claude Desktop, which runs (process {})\n", running.id());
    wait_until("the instance is found", || checked_as(&shell, "claude-desktop", true).1.contains(&source));
    let (code, stdout) = checked_as(&shell, "claude-desktop", true);
    assert!(code == 0 && stdout.contains("tools/a-tool\n"), "{stdout}");
    drop(running.stdin.take());
    wait_for_child(&mut running);
}

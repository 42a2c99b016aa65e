//! `dynamic-mcp completions`: what may stand at the cursor, and the scripts in their shells.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::shell::Shell;
use crate::support::{InputRecord, are_installed, config_of, merged, output_of, scripted_upstream};

/// The words that may stand in place of the last of these.
fn words(shell: &Shell, words: &[&str]) -> Vec<String> {
    let output = shell.run(&[&["__complete", "--"], words].concat());
    assert_eq!((output.0, &*output.2), (0, ""), "{words:?}");
    output.1.lines().map(|line| line.split_once('\t').unwrap().0.to_owned()).collect()
}

/// Servers of every kind, of which `files` records what it is sent.
fn config(record: &InputRecord) -> Value {
    let files = merged(
        record.attached_to(scripted_upstream(&[])),
        json!({"description": "My files\nand notes", "tools": {"deny": ["params"]}}),
    );
    merged(
        config_of([
            ("files", files),
            ("docs", json!({"url": "https://docs.example/mcp"})),
            ("old one", json!({"command": "x", "enabled": false})),
            ("broken", json!({})),
        ]),
        json!({"profiles": {"work": ["files"], "home": ["docs"]}}),
    )
}

#[test]
fn servers_tools_profiles_and_clients_are_completed_and_nothing_is_started() {
    let record = InputRecord::new();
    let shell = Shell::new(&config(&record));
    assert_eq!(words(&shell, &["call", "files", "e"]), Vec::<String>::new());
    assert!(shell.run(&["tools", "files"]).0 == 0 && record.lines_of("initialize").len() == 1);

    // The config of the command line is the default one here.
    let default = shell.home().join(".config/dynamic-mcp");
    std::fs::create_dir_all(&default).unwrap();
    std::fs::copy(shell.home().join("servers.json"), default.join("servers.json")).unwrap();
    let cases: [(&[&str], &[&str]); 20] = [
        (&["ca"], &["call", "cache"]),
        (&["secret", ""], &["set", "list", "remove", "help"]),
        (&["--pu"], &["--pure-lazy"]),
        (&["call", ""], &["broken", "docs", "files"]),
        (&["call", "files", "ec"], &["echo"]),
        (&["call", "files", "params"], &[]),
        (&["call", "nope", ""], &[]),
        (&["tools", "f"], &["files"]),
        (&["tools", "--profile", "work", ""], &["files"]),
        (&["tools", "--profile=nope", ""], &[]),
        (&["logs", "-f", ""], &["broken", "docs", "files"]),
        (&["reconnect", "fi"], &["files"]),
        (&["login", ""], &["broken", "docs"]),
        (&["check", "files", ""], &["broken", "docs"]),
        (&["check", "--as", "cla"], &["claude-desktop", "claude-code"]),
        (&["remove", ""], &["broken", "docs", "files", "old one"]),
        (&["enable", ""], &["old one"]),
        (&["disable", "d"], &["docs"]),
        (&["--profile", ""], &["work", "home"]),
        (&["--surface=m"], &["--surface=meta"]),
    ];
    for (typed, expected) in cases {
        let (mut found, mut expected) = (words(&shell, typed), expected.to_vec());
        // The order of the servers is that of the config.
        if typed.last() == Some(&"") {
            found.sort();
            expected.sort_unstable();
        }
        assert_eq!(found, expected, "{typed:?}");
    }
    let (_, stdout, _) = shell.run(&["__complete", "--", "call", "files", "echo"]);
    assert_eq!(stdout, "echo\tReturns its text.\n");
    let (_, stdout, _) = shell.run(&["__complete", "--", "call", "files"]);
    assert_eq!(stdout, "files\tMy files and notes\n");
    // Another directory has another entry in the cache; the names are remembered nevertheless.
    let elsewhere = shell.home().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let config = shell.home().join("servers.json");
    let mut command =
        shell.command(&["__complete", "--", "--config", config.to_str().unwrap(), "call", "files", "ec"]);
    let output = output_of(command.current_dir(elsewhere));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "echo\t\n");
    assert_eq!(record.lines_of("initialize").len(), 1, "a server was started");
}

#[test]
fn a_config_that_cannot_be_read_completes_commands_and_no_servers() {
    let shell = Shell::new(&json!({}));
    for text in ["{", "", "[]"] {
        std::fs::write(shell.home().join("servers.json"), text).unwrap();
        for typed in [&["call", ""][..], &["call", "x", ""], &["remove", ""], &["--profile", ""]] {
            let typed = [&["--config", "servers.json"], typed].concat();
            assert_eq!(words(&shell, &typed), Vec::<String>::new(), "{text:?} {typed:?}");
        }
        assert_eq!(words(&shell, &["sea"]), ["search"]);
    }
}

/// Runs `script` in a shell that finds the program, with the servers of `config`. Returns the lines that it prints.
fn run_in(shell: &Shell, command: &[&str], script: &str) -> Vec<String> {
    let home = shell.home();
    let bin = Path::new(env!("CARGO_BIN_EXE_dynamic-mcp")).parent().unwrap();
    let mut process = Command::new(command[0]);
    process.args(&command[1..]).arg(script).env_clear().current_dir(home).env("HOME", home);
    process.env("PATH", format!("{}:/usr/bin:/bin", bin.display())).env("XDG_RUNTIME_DIR", home);
    let output = output_of(&mut process);
    let (stdout, stderr) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(stderr, "", "{script}");
    stdout.lines().map(str::to_owned).collect()
}

/// A home directory whose default config has these servers, and a file.
fn home_with_servers() -> Shell {
    let servers = ["files", "flights", "my docs"]
        .map(|name| (name, json!({"command": "x", "description": "About: it"})));
    let shell = Shell::new(&json!({}));
    let dir = shell.home().join(".config/dynamic-mcp");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("servers.json"), config_of(servers).to_string()).unwrap();
    std::fs::write(shell.home().join("work.json"), "{}").unwrap();
    shell
}

#[test]
fn bash_completes_by_its_own_function() {
    if !are_installed(&["bash"]) {
        return;
    }
    let shell = home_with_servers();
    // What bash does with the words of a line before it calls the function.
    let complete = |words: &str, cursor: &str| {
        let script = format!(
            "eval \"$(dynamic-mcp completions bash)\"; [[ $(complete -p dynamic-mcp) == *'-o default -F _dynamic_mcp'* ]]\n\
             COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n\
             _dynamic_mcp dynamic-mcp {cursor} x; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        run_in(&shell, &["bash", "--norc", "-euc"], &script)
    };
    assert_eq!(complete("dynamic-mcp call ''", "''"), ["files", "flights", "my\\ docs"]);
    assert_eq!(complete("dynamic-mcp call fl", "fl"), ["flights"]);
    assert_eq!(complete("dynamic-mcp call 'my\\ d'", "'my\\ d'"), ["my\\ docs"]);
    assert_eq!(complete("dynamic-mcp --surface = me", "me"), ["meta"]);
    assert_eq!(complete("dynamic-mcp --surface =", "''"), ["meta", "flat"]);
    assert_eq!(complete("dynamic-mcp --config wo", "wo"), [""]);
}

#[test]
fn zsh_completes_by_its_own_function() {
    if !are_installed(&["zsh"]) {
        return;
    }
    let shell = home_with_servers();
    // Outside of its line editor zsh has no list of candidates, so they are printed.
    let complete = |words: &str, prefix: &str| {
        let script = format!(
            "autoload -Uz compinit && compinit -u -D; eval \"$(dynamic-mcp completions zsh)\"\n\
             [[ $_comps[dynamic-mcp] == _dynamic_mcp ]] || exit 1\n\
             _describe() {{ print -rl -- \"${{(@P)2}}\" }}; _files() {{ print files }}\n\
             words=({words}); CURRENT=$#words; PREFIX={prefix}; _dynamic_mcp"
        );
        run_in(&shell, &["zsh", "-fc"], &script)
    };
    assert_eq!(
        complete("dynamic-mcp call ''", "''"),
        ["files:About: it", "flights:About: it", "my docs:About: it"]
    );
    assert_eq!(complete("dynamic-mcp call fl", "fl"), ["flights:About: it"]);
    assert_eq!(
        complete("dynamic-mcp --surface=me", "--surface=me")[0].split(':').next(),
        Some("--surface=meta")
    );
    assert_eq!(complete("dynamic-mcp --config wo", "wo"), ["files"]);
}

#[test]
fn fish_completes_by_its_own_engine() {
    if !are_installed(&["fish"]) {
        return;
    }
    let shell = home_with_servers();
    let complete = |line: &str| {
        let script = format!("dynamic-mcp completions fish | source; complete -C '{line}'");
        run_in(&shell, &["fish", "--no-config", "-c"], &script)
    };
    assert_eq!(
        complete("dynamic-mcp call "),
        ["files\tAbout: it", "flights\tAbout: it", "my docs\tAbout: it"]
    );
    assert_eq!(complete("dynamic-mcp call fl"), ["flights\tAbout: it"]);
    assert_eq!(complete("dynamic-mcp --config wo"), ["work.json"]);
    assert!(complete("dynamic-mcp --surface=m")[0].starts_with("--surface=meta"));
}

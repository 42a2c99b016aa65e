//! `dynamic-mcp completions`: what may stand at the cursor, and the scripts in their shells.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::shell::{Shell, at_terminal};
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
        json!({"profiles": {
            "work": {"servers": ["files"], "tools": {"files": {"deny": ["echo"]}}},
            "home": ["*", "!files"],
        }}),
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
    let cases: [(&[&str], &[&str]); 22] = [
        (&["ca"], &["call", "cache"]),
        (&["secret", ""], &["set", "list", "remove", "help"]),
        (&["--pu"], &["--pure-lazy"]),
        (&["call", ""], &["broken", "docs", "files"]),
        (&["call", "files", "ec"], &["echo"]),
        (&["call", "files", "params"], &[]),
        (&["call", "nope", ""], &[]),
        (&["tools", "f"], &["files"]),
        (&["tools", "--profile", "work", ""], &["files"]),
        (&["tools", "--profile", "home", ""], &["broken", "docs"]),
        (&["call", "--profile", "work", "files", "ec"], &[]),
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

/// A process that finds the program, with the servers of `config`.
fn process_in(shell: &Shell, command: &[&str]) -> Command {
    let home = shell.home();
    let bin = Path::new(env!("CARGO_BIN_EXE_dynamic-mcp")).parent().unwrap();
    let mut process = Command::new(command[0]);
    process.args(&command[1..]).env_clear().current_dir(home).env("HOME", home);
    process.env("PATH", format!("{}:/usr/bin:/bin", bin.display())).env("XDG_RUNTIME_DIR", home);
    process
}

/// Runs `script` in a shell that finds the program, with the servers of `config`. Returns the lines that it prints.
fn run_in(shell: &Shell, command: &[&str], script: &str) -> Vec<String> {
    let output = output_of(process_in(shell, command).arg(script));
    let (stdout, stderr) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(stderr, "", "{script}");
    stdout.lines().map(str::to_owned).collect()
}

/// A home directory whose default config has these servers, and a file.
fn home_with_servers() -> Shell {
    let servers = ["files", "flights", "my docs", "a:files", "a:x"]
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
    let complete = |line: &str, words: &str, cursor: &str| {
        let script = format!(
            "eval \"$(dynamic-mcp completions bash)\"; [[ $(complete -p dynamic-mcp) == *'-o default -F _dynamic_mcp'* ]]\n\
             COMP_LINE='{line}'; COMP_POINT=${{#COMP_LINE}}\n\
             COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n\
             _dynamic_mcp dynamic-mcp {cursor} x; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        run_in(&shell, &["bash", "--norc", "-euc"], &script)
    };
    let all = ["files", "flights", "my\\ docs", "a:files", "a:x"];
    assert_eq!(complete("dynamic-mcp call  ", "dynamic-mcp call ''", "''"), all);
    assert_eq!(complete("dynamic-mcp call\tfl", "dynamic-mcp call fl", "fl"), ["flights"]);
    assert_eq!(complete("dynamic-mcp call my\\ d", "dynamic-mcp call 'my\\ d'", "'my\\ d'"), ["my\\ docs"]);
    assert_eq!(complete("dynamic-mcp --surface=me", "dynamic-mcp --surface = me", "me"), ["meta"]);
    assert_eq!(complete("dynamic-mcp --surface=", "dynamic-mcp --surface =", "''"), ["meta", "flat"]);
    assert_eq!(complete("dynamic-mcp --surface ", "dynamic-mcp --surface ''", "''"), ["meta", "flat"]);
    assert_eq!(complete("dynamic-mcp --config wo", "dynamic-mcp --config wo", "wo"), [""]);
    assert_eq!(complete("dynamic-mcp call a:f", "dynamic-mcp call a : f", "f"), ["files"]);
    assert_eq!(complete("dynamic-mcp call a:", "dynamic-mcp call a :", "''"), ["files", "x"]);
    assert_eq!(complete("dynamic-mcp call \"a:f", "dynamic-mcp call '\"a:f'", "a:f"), ["a:files"]);
}

// The shell is told what is typed, and shows what it passes.
#[test]
fn bash_completes_what_is_typed_in_its_terminal() {
    if !are_installed(&["bash"]) {
        return;
    }
    let shell = home_with_servers();
    let script = "eval \"$(dynamic-mcp completions bash)\"\n\
        dynamic-mcp() { if [[ $1 == __complete ]]; then command dynamic-mcp \"$@\"; else printf '<%s>' \"$@\"; fi; }\n";
    std::fs::write(shell.home().join("rc"), script).unwrap();
    let mut command = process_in(&shell, &["bash", "--rcfile", "rc", "-i"]);
    command.env("TERM", "dumb").env("INPUTRC", "/dev/null");
    let typed = "dynamic-mcp --surface=m\t call a:f\t\ndynamic-mcp call my\\ d\t\nexit\n";
    let (_, shown) = at_terminal(command, typed);
    assert!(shown.contains("<--surface=meta><call><a:files>"), "{shown}");
    assert!(shown.contains("<call><my docs>"), "{shown}");
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
        ["files", "flights", "my docs", r"a\:files", r"a\:x"].map(|name| format!("{name}:About: it"))
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
        ["a:files", "a:x", "files", "flights", "my docs"].map(|name| format!("{name}\tAbout: it"))
    );
    assert_eq!(complete("dynamic-mcp call fl"), ["flights\tAbout: it"]);
    assert_eq!(complete("dynamic-mcp --config wo"), ["work.json"]);
    assert!(complete("dynamic-mcp --surface=m")[0].starts_with("--surface=meta"));
}

// PowerShell is not among the packages that the tests may need, so what its script asks for is tested without it.
#[test]
fn powershell_is_answered_without_an_empty_argument() {
    let shell = home_with_servers();
    let (code, script, _) = shell.run(&["completions", "powershell"]);
    assert!(code == 0 && script.contains("Register-ArgumentCompleter -Native -CommandName 'dynamic-mcp'"));
    assert!(script.contains("$typed = '--typed=' + ($wordToComplete "), "{script}");
    assert!(script.contains("$lines = & $program __complete $typed '--' @words 2>$null\n"), "{script}");
    assert_eq!(shell.run(&["completions", "pwsh"]).1, script);
    let config = shell.home().join(".config/dynamic-mcp/servers.json").display().to_string();
    let complete = |typed: &str, words: &[&str]| {
        let typed = format!("--typed={typed}");
        let words = [&["__complete", &typed, "--", "--config", &config], words].concat();
        let (code, stdout, stderr) = shell.run(&words);
        assert_eq!((code, &*stderr), (0, ""), "{words:?}");
        stdout
    };
    assert_eq!(complete("my", &["call"]), "my docs\tAbout: it\n");
    assert_eq!(complete("a:", &["call"]), "a:files\tAbout: it\na:x\tAbout: it\n");
    assert_eq!(complete("", &["call"]).lines().count(), 5);
    assert!(complete("--surface=f", &[]).starts_with("--surface=flat\t"));
    assert!(complete("--js", &["call"]).starts_with("--json\t"));
    assert_eq!(complete("", &["call", "no-such"]), "");
}

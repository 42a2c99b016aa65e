//! `dynamic-mcp check --share`: servers that keep something are found, and the others are proposed.

use super::*;
use crate::shell::Shell;
use crate::support::{PipeReader, Turn, config_of, wait_for_child, wait_readable};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::Read;

/// A server with a read-only tool without arguments, which runs `call` and returns `$text`.
fn sh_server(call: &str) -> Value {
    let script = r#"
n=0
while IFS= read -r line; do
    text=x
    case $line in *'"id":'*) ;; *) continue ;; esac
    id=${line#*\"id\":}
    id=${id%%,*}
    case $line in
        *'"initialize"'*)
            case $line in *"$PICKY"*) n=7 ;; esac
            result='{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"'$n'"}}' ;;
        *'"tools/list"'*)
            result='{"tools":[{"name":"t","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}' ;;
        *)
            CALL
            result='{"content":[{"type":"text","text":"'$text'"}]}' ;;
    esac
    printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done"#;
    // The config has variables, too.
    let script = script.replace("CALL", call).replace('$', "$$");
    json!({"command": "sh", "args": ["-c", script], "env": {"PICKY": "no such client"}})
}

/// Returns the exit code and what stdout got. A test takes as long as its thousands of requests do: the deadline is for each
/// of the steps that stderr, which is a terminal, shows.
fn check(shell: &Shell, args: &[&str]) -> (i32, String) {
    let _turn = Turn::take();
    let terminal = nix::pty::openpty(None, None).unwrap();
    let mut command = shell.command(&[&["check", "--share"], args].concat());
    let mut child = command.stderr(terminal.slave).spawn().unwrap();
    drop(command);
    let (mut steps, mut shown) = (fs::File::from(terminal.master), [0; 4096]);
    loop {
        wait_readable(&steps).unwrap();
        // The terminal is gone at the end, which is an error.
        if steps.read(&mut shown).is_err() {
            break;
        }
    }
    let stdout = PipeReader::new(child.stdout.take().unwrap()).read_to_end();
    (wait_for_child(&mut child).code().unwrap(), String::from_utf8(stdout).unwrap())
}

/// Returns the report of each server.
fn reports(shell: &Shell, args: &[&str]) -> (i32, Vec<Value>) {
    let (code, stdout) = check(shell, &[&["--json"], args].concat());
    let report: Value = serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{stdout}"));
    (code, report["servers"].as_array().unwrap().clone())
}

#[test]
fn servers_that_keep_nothing_are_proposed() {
    let upstream = |tools: Value| merged(scripted_upstream(&[]), json!({"tools": tools}));
    let shell = Shell::new(&config_of([
        ("plain", sh_server(":")),
        ("echo", upstream(json!({"allow": ["read_only_echo"]}))),
        ("cwd", upstream(json!({"allow": ["cwd"], "read_only": ["cwd"]}))),
    ]));
    for (name, share, answers) in [("plain", "user", 1), ("echo", "user", 1000), ("cwd", "directory", 1)] {
        let (code, found) = reports(&shell, &[name]);
        assert_eq!((code, &found[0]["verdict"], &found[0]["share"]), (0, &json!("shareable"), &json!(share)));
        assert!(found[0]["answers"].as_u64().unwrap() > answers, "{found:?}");
    }
}

#[test]
fn what_a_server_keeps_is_found() {
    let picky = merged(sh_server(":"), json!({"env": {"PICKY": "claude-code"}}));
    let cases = [
        ("counts", sh_server("n=$((n+1)); text=$n"), "t {} has another result when it is repeated: `"),
        (
            "tires",
            sh_server("n=$((n+1)); [ $n -gt 300 ] && text=tired"),
            "has another result after 300 others",
        ),
        ("moves", sh_server("cd /"), "a call changes its working directory to /"),
        ("masks", sh_server("umask 077"), "a call changes its umask"),
        ("writes", sh_server("echo x >> written"), "writes files below its working directory: "),
        (
            "opens",
            sh_server("exec 3> /dev/shm/$$; rm /dev/shm/$$"),
            "calls leave files open for writing: /dev/shm/",
        ),
        (
            "leaves",
            sh_server("sleep 60 < /dev/null > /dev/null 2>&1 &"),
            "calls leave a process running: sleep",
        ),
        (
            "asks",
            sh_server("echo '{\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"roots/list\"}'"),
            "it asks its client: roots/list",
        ),
        ("ends", sh_server("exit 3"), "its process ends"),
        ("picky", picky, "it shows other lists to the client \"claude-code\""),
        (
            "changes",
            scripted_upstream(&["--list-changed-on-call"]),
            "it sends notifications/tools/list_changed",
        ),
    ];
    let shell = Shell::new(&config_of(cases.clone().map(|(name, entry, _)| {
        (name, merged(entry, json!({"tools": {"allow": ["t", "read_only_echo"]}})))
    })));
    for (name, _, text) in &cases {
        let (code, found) = reports(&shell, &[name]);
        let report = &found[0];
        assert!(report["name"] == *name && report["verdict"] == "private", "{report}");
        assert!(report["reasons"][0].as_str().unwrap().contains(text), "{text}: {report}");
        assert_eq!(code, 0, "it was tested to an end: {report}");
    }
}

#[test]
fn what_was_not_tested_is_named() {
    let tools = |rules: Value| merged(scripted_upstream(&[]), json!({"tools": rules}));
    let shell = Shell::new(&config_of([
        ("writes", tools(json!({"allow": ["echo", "read_only_echo"]}))),
        ("fails", tools(json!({"allow": ["fail"], "read_only": ["fail"]}))),
        ("broken", json!({"command": "sh", "args": ["-c", "echo no database >&2; exit 1"]})),
        ("remote", json!({"url": "http://127.0.0.1:1/mcp"})),
        ("stateful", merged(scripted_upstream(&[]), json!({"stateful": true}))),
    ]));
    let (mut codes, mut told) = (Vec::new(), String::new());
    for names in [&["writes"][..], &["fails"], &["broken", "remote", "stateful"]] {
        let (code, stdout) = check(&shell, names);
        codes.push(code);
        told.push_str(&stdout);
    }
    assert_eq!(codes, [1, 1, 1], "{told}");
    for part in [
        "writes: not tested completely, so it stays private\n    these tools are not read-only and were not called: \"echo\"; \
         `--all-tools` calls them\n",
        "fails: not tested completely, so it stays private\n    no call of \"fail\" succeeded: fail {",
        "broken: not tested completely, so it stays private\n    the server does not make the handshake: ",
        "no database\n",
        "remote: must stay private\n    it is a remote server",
        "stateful: must stay private\n    its entry says `stateful`\n",
    ] {
        assert!(told.contains(part), "{part:?}: {told}");
    }
    let (code, found) = reports(&shell, &["writes", "--all-tools"]);
    assert!(code == 1 && found[0]["verdict"] == "incomplete", "nobody is there to answer: {found:?}");
    let (code, found) = reports(&shell, &["writes", "--all-tools", "--yes"]);
    assert!(code == 0 && found[0]["verdict"] == "shareable", "{found:?}");
    assert_eq!(reports(&shell, &["remote", "stateful"]).0, 0);
    let (_, found) = reports(&shell, &["writes", "--time-limit", "0"]);
    assert!(found[0]["reasons"].to_string().contains("it takes longer than 0 s"), "{found:?}");
}

#[test]
fn calls_of_a_file_take_the_place_of_generated_ones() {
    let time = "$(cat /proc/uptime | cut -d' ' -f1)";
    let servers = [("clock", sh_server(&format!("text={time}"))), ("plain", sh_server(":"))];
    let shell = Shell::new(&config_of(servers));
    let (_, found) = reports(&shell, &["clock"]);
    assert_eq!(found[0]["verdict"], "private", "{found:?}");
    let write = |calls: &str| fs::write(shell.home().join("calls.json"), calls).unwrap();
    write(r#"{"clock": [{"tool": "t", "times": ["\\d+\\.\\d+"]}]}"#);
    let (code, found) = reports(&shell, &["clock", "--calls", "calls.json"]);
    assert_eq!((code, &found[0]["verdict"]), (0, &json!("shareable")), "{found:?}");
    write(r#"{"plain": [{"tool": "gone"}]}"#);
    let (code, found) = reports(&shell, &["plain", "--calls", "calls.json"]);
    assert!(
        code == 1 && found[0]["reasons"][0].as_str().unwrap().starts_with("\"gone\" in the file of calls"),
        "{found:?}"
    );
    for (calls, text) in [
        ("{", "the calls in calls.json cannot be read: EOF"),
        (r#"{"clock": [{"tool": "t", "times": ["("]}]}"#, "the calls in calls.json cannot be read: "),
        (r#"{"other": []}"#, "no enabled server \"other\""),
    ] {
        write(calls);
        let (code, _, stderr) = shell.run(&["check", "--share", "--calls", "calls.json"]);
        assert!(code == 2 && stderr.contains(text), "{stderr}");
    }
}

#[test]
fn ctrl_c_ends_the_server_under_test() {
    let shell = Shell::new(&config_of([]));
    let mark = shell.home().file_name().unwrap().to_str().unwrap().to_owned();
    let file = Path::new("/dev/shm").join(&mark);
    let config = merged(sh_server("echo $$ > /dev/shm/$MARK; sleep 60"), json!({"env": {"MARK": mark}}));
    fs::write(shell.home().join("servers.json"), config_of([("slow", config)]).to_string()).unwrap();
    let mut child = shell.command(&["check", "--share"]).spawn().unwrap();
    let mut pid = 0;
    wait_until("a call has begun", || {
        let text = fs::read_to_string(&file).unwrap_or_default();
        text.trim().parse().map(|found| pid = found).is_ok()
    });
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
    assert_eq!(wait_for_child(&mut child).code(), Some(130));
    assert!(pid > 0 && !Path::new(&format!("/proc/{pid}")).exists());
    fs::remove_file(file).unwrap();
}

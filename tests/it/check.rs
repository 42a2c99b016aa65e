//! `dynamic-mcp check`.

use serde_json::{Value, json};

use crate::shell::Shell;
use crate::support::{InputRecord, config_of, merged, scripted_upstream};

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

#[test]
fn a_client_with_a_window_gives_the_environment_of_the_desktop() {
    let entry = merged(scripted_upstream(&[]), json!({"env": {"A": "${ONLY_IN_THE_SHELL}"}}));
    let shell = Shell::new(&config_of([("g", entry)]));
    let run = |args: &[&str]| {
        let mut command = shell.command(args);
        command.env("ONLY_IN_THE_SHELL", "x");
        command.output().unwrap()
    };
    for (client, code) in [("codex", 0), ("claude-desktop", 1)] {
        let output = run(&["check", "--as", client]);
        let stdout = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(code), "{client}: {stdout}");
        assert_eq!(stdout.contains("ONLY_IN_THE_SHELL"), code == 1, "{stdout}");
    }
}

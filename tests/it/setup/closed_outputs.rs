//! Commands whose terminal is closed, or whose output nobody reads.

use std::io::{Read, pipe};
use std::process::Stdio;

use serde_json::json;

use crate::shell::Shell;
use crate::support::{config_of, output_of, scripted_upstream, wait_for_child, wait_until_closed};

/// A pipe that nobody reads.
fn unread() -> Stdio {
    let (reading_end, writing_end) = pipe().unwrap();
    drop(reading_end);
    wait_until_closed(&writing_end).unwrap();
    writing_end.into()
}

#[test]
fn a_command_whose_messages_nobody_reads_exits_with_its_own_code() {
    let shell = Shell::new(&config_of([
        ("works", scripted_upstream(&[])),
        ("broken", json!({"command": "no-such-program-anywhere"})),
    ]));
    let cases: [(&[&str], i32); 5] = [
        (&["tools"], 1),
        (&["call", "works", "fail"], 5),
        (&["login", "absent"], 2),
        (&["--idle-timeout", "x", "tools"], 2),
        (&["--profile", "absent", "search", "x"], 2),
    ];
    for (args, expected) in cases {
        let heard = output_of(&mut shell.command(args));
        assert!(heard.status.code() == Some(expected) && !heard.stderr.is_empty(), "{args:?}: {heard:?}");
        let mut command = shell.command(args);
        let mut child = command.stdout(Stdio::null()).stderr(unread()).spawn().unwrap();
        assert_eq!(wait_for_child(&mut child).code(), Some(expected), "{args:?}");
    }
}

#[test]
fn a_command_whose_answer_nobody_reads_says_nothing_about_it() {
    let shell = Shell::new(&config_of([("works", scripted_upstream(&[]))]));
    for args in [&["schema"][..], &["completions", "bash"], &["tools"]] {
        let mut child = shell.command(args).stdout(unread()).spawn().unwrap();
        let mut stderr = String::new();
        child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        assert_eq!((wait_for_child(&mut child).code(), &*stderr), (Some(1), ""), "{args:?}");
    }
}

#[test]
fn an_import_whose_report_nobody_reads_says_that_it_stopped() {
    let shell = Shell::new(&config_of([("works", scripted_upstream(&[]))]));
    let mut child = shell.command(&["import", "--yes"]).stdout(unread()).spawn().unwrap();
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    let expected = "dynamic-mcp: the output is not read any more; nothing more was written\n";
    assert_eq!((wait_for_child(&mut child).code(), &*stderr), (Some(1), expected));
}

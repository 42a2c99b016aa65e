//! What is wrong on the command line or in the variables of its options is reported while a client is served, and is a
//! usage error otherwise.

#[cfg(unix)]
use std::ffi::OsStr;
use std::fs;
#[cfg(unix)]
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use serde_json::json;

#[cfg(unix)]
use crate::shell::Shell;
use crate::support::{ProxyCommand, output_of, pure_config, scripted_config, scripted_upstream, text_of};

/// Arguments, variables, and a part of the error.
type WrongUsage = (&'static [&'static str], &'static [(&'static str, &'static str)], &'static str);

#[test]
#[cfg_attr(windows, ignore = "the system has other words")]
fn a_client_is_served_despite_a_wrong_command_line_and_is_told() {
    let cases: [WrongUsage; 8] = [
        (
            &[],
            &[("DYNAMIC_MCP_CONFG", "s3cret")],
            "there is no environment variable DYNAMIC_MCP_CONFG; did you mean DYNAMIC_MCP_CONFIG?",
        ),
        (&["--pure-lzay"], &[], "there is no option --pure-lzay; did you mean `--pure-lazy`?"),
        (&["--idle-timeout", "s3cret"], &[], "--idle-timeout: expected a number of seconds, or a duration"),
        (&["/x/servers.json"], &[], "to read it as the config file, write \"--config\" before it"),
        (
            &["--log-file", "/no/such/dir/log"],
            &[],
            "the log file /no/such/dir/log cannot be written: No such",
        ),
        (&["--log-level", "s3cret"], &[], "--log-level must be off, error, warn, info, debug or trace"),
        (
            &[],
            &[("DYNAMIC_MCP_IDLE_TIMEOUT", "s3cret"), ("DYNAMIC_MCP_PURE_LAZY", "s3cret")],
            "the environment variable DYNAMIC_MCP_IDLE_TIMEOUT: --idle-timeout: expected",
        ),
        (
            &[],
            &[("DYNAMIC_MCP_LOG", "s3cret")],
            "DYNAMIC_MCP_LOG must be off, error, warn, info, debug or trace",
        ),
    ];
    for (args, variables, part) in cases {
        let command = ProxyCommand::new().args(args).config(&scripted_config(&[]));
        let command = variables.iter().fold(command, |command, (name, value)| command.env(name, value));
        let mut proxy = command.start_initialized();
        let status = proxy.call_meta_tool("get_status", json!({}));
        let text = text_of(&status);
        let count = variables.len().max(1);
        let headline = if count == 1 { "1 command line error\n" } else { "2 command line errors\n" };
        assert!(text.starts_with(headline) && text.contains(part), "{args:?}: {text}");
        assert!(!text.contains("s3cret"), "{text}");
        let structured = &status["structuredContent"];
        assert_eq!((&structured["status"], &structured["error"]), (&json!("ready"), &json!(null)));
        assert_eq!(structured["problems"].as_array().unwrap().len(), 1 + count, "{structured}");
        assert_eq!(proxy.call_text("g", "echo", json!({"text": "works"})), "works");
        proxy.wait_for_log(part.split('"').next().unwrap());
        proxy.close_stdin();
        assert!(proxy.wait_for_exit().0.success(), "{args:?}");
    }
}

#[test]
fn without_a_client_and_in_commands_they_are_usage_errors() {
    let no_client: [&[&str]; 4] =
        [&["--nope"], &["/x/servers.json"], &["--log-file", "/no/such/dir/log"], &["lgoin", "docs"]];
    let commands: [&[&str]; 4] = [
        &["schema", "--nope"],
        &["--idle-timeout", "x", "schema"],
        &["login"],
        &["schema", "--log-level", "x"],
    ];
    for args in no_client.iter().chain(&commands) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dynamic-mcp"));
        let home = tempfile::tempdir().unwrap();
        let output = output_of(command.args(*args).env("HOME", home.path()));
        assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains("error:") || stderr.contains("dynamic-mcp: "), "{args:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
    // Help is no error.
    for args in [["--help"], ["--version"]] {
        let output = output_of(Command::new(env!("CARGO_BIN_EXE_dynamic-mcp")).args(args));
        assert!(output.status.success() && !output.stdout.is_empty(), "{output:?}");
    }
}

// It needs a terminal.
#[cfg(unix)]
#[test]
fn on_a_terminal_and_in_commands_a_wrong_option_or_variable_is_a_usage_error() {
    let shell = Shell::new(&scripted_config(&[]));
    for (args, part) in [
        (&["--pure-lzay"][..], "tip: a similar argument exists: '--pure-lazy'"),
        (&["--idle-timeout", "x"], "expected a number of seconds"),
        (&["/x/servers.json"], "unrecognized subcommand '/x/servers.json'"),
    ] {
        let (code, shown) = shell.run_at_terminal(args, "");
        assert!(code == 2 && shown.contains(part), "{args:?}: {code}: {shown}");
        assert!(!shown.contains("Waiting for JSON-RPC"), "{args:?}: {shown}");
    }
    for (name, value, part) in [
        ("DYNAMIC_MCP_CONFG", OsStr::new("x"), "did you mean DYNAMIC_MCP_CONFIG?"),
        (
            "DYNAMIC_MCP_PROFILE",
            OsStr::from_bytes(b"\xff"),
            "the environment variable DYNAMIC_MCP_PROFILE: it is not UTF-8",
        ),
    ] {
        let output = output_of(shell.command(&["tools"]).env(name, value));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && stderr.contains(part), "{name}: {stderr}");
    }
}

#[test]
fn a_client_that_never_asks_makes_a_wrong_command_line_a_usage_error() {
    let mut proxy = ProxyCommand::new().args(&["--nope"]).config(&scripted_config(&[])).start();
    proxy.wait_for_log("is ready");
    proxy.close_stdin();
    assert_eq!(proxy.wait_for_exit().0.code(), Some(2));
    assert!(proxy.log().contains("--nope"), "{}", proxy.log());
}

#[test]
fn a_config_path_may_begin_with_a_tilde_and_be_absent() {
    let command = ProxyCommand::new();
    fs::write(command.home().join("mine.json"), scripted_config(&[]).to_string()).unwrap();
    let args =
        ["--config", "~/mine.json", "--config", "~/other.json?", "--surface", "flat", "--idle-timeout", "5m"];
    let mut proxy = command.args(&args).start_initialized();
    let status = proxy.call_meta_tool("get_status", json!({}));
    assert_eq!(status["structuredContent"]["problems"], json!([]), "{status}");
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "works"})), "works");
    // The flat surface lists the tools of servers first; nothing was known at the start.
    let tools = proxy.request("tools/list", json!({}));
    assert_eq!(tools["result"]["tools"].as_array().unwrap().len(), 5, "{tools}");
    // The second file counts once it exists.
    let path = proxy.home().join("other.json");
    fs::write(path, pure_config([("h", scripted_upstream(&[]))]).to_string()).unwrap();
    proxy.wait_for_log("the group was added to the config");
    assert_eq!(proxy.call_text("h", "echo", json!({"text": "works"})), "works");
}

#[cfg(unix)]
#[test]
fn commands_about_a_server_of_a_running_instance_say_that_none_is_running() {
    let shell = Shell::new(&scripted_config(&[]));
    for command in ["logs", "reconnect"] {
        let (code, stdout, stderr) = shell.run(&[command, "g"]);
        let advice =
            "is running: start a client that uses it, or see with `dynamic-mcp check g` what the server says";
        assert!(code == 2 && stdout.is_empty() && stderr.contains(advice), "{stderr}");
    }
}

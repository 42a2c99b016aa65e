//! The real servers: how each is started, and calls whose results tell that the right thing was done.

use crate::scratch::{Scratch, text};
use serde_json::{Value, json};

/// A call and a piece of the text it gives back.
pub(crate) struct Call {
    pub(crate) tool: &'static str,
    pub(crate) arguments: Value,
    pub(crate) says: &'static str,
    pub(crate) is_error: bool,
}

pub(crate) struct Server {
    pub(crate) group: &'static str,
    pub(crate) command: Vec<String>,
    /// The first is of a tool that says of itself that it only reads.
    pub(crate) calls: Vec<Call>,
    /// A tool that does not say so.
    pub(crate) writes: &'static str,
}

pub(crate) fn all(scratch: &Scratch) -> [Server; 4] {
    [everything(scratch), filesystem(scratch), time(scratch), git(scratch)]
}

/// The reference server of every feature there is (TypeScript).
fn everything(scratch: &Scratch) -> Server {
    let calls = vec![
        ok("echo", json!({ "message": "hällo 🦀" }), "Echo: hällo 🦀"),
        ok("get-sum", json!({ "a": 2, "b": 40 }), "42"),
        ok("get-structured-content", json!({ "location": "New York" }), "temperature"),
        ok("get-tiny-image", json!({}), "image"),
        error("get-resource-reference", json!({ "resourceId": -1 }), "Invalid resourceId"),
    ];
    let command = node_server(scratch, "server-everything", "stdio");
    Server { group: "everything", command, calls, writes: "toggle-simulated-logging" }
}

/// Reads and writes files below one directory (TypeScript).
fn filesystem(scratch: &Scratch) -> Server {
    let file = scratch.write("files/greeting.txt", "first line\nsecond line\n");
    let files = text(file.parent().unwrap());
    let outside = scratch.write("outside.txt", "not for you");
    let calls = vec![
        ok("read_text_file", json!({ "path": text(&file) }), "second line"),
        ok("write_file", json!({ "path": format!("{files}/new.txt"), "content": "x" }), "Successfully wrote"),
        ok("list_directory", json!({ "path": files }), "[FILE] new.txt"),
        error("read_text_file", json!({ "path": text(&outside) }), "Access denied"),
    ];
    let command = node_server(scratch, "server-filesystem", &files);
    Server { group: "filesystem", command, calls, writes: "write_file" }
}

/// Tells and converts times (Python). Its tools all only read.
fn time(scratch: &Scratch) -> Server {
    let convert =
        |to: &str| json!({ "source_timezone": "Asia/Tokyo", "time": "12:30", "target_timezone": to });
    let calls = vec![
        ok("convert_time", convert("UTC"), "03:30:00+00:00"),
        error("convert_time", convert("Mars/Phobos"), "Invalid timezone"),
    ];
    Server { group: "time", command: python_server(scratch, "mcp_server_time"), calls, writes: "" }
}

/// Works on one Git repository (Python).
fn git(scratch: &Scratch) -> Server {
    let repository = text(scratch.write("repository/file.txt", "one\n").parent().unwrap());
    let git = |arguments: &[&str]| {
        let mut command = scratch.command("git");
        command
            .args(["-C", &repository, "-c", "user.name=T", "-c", "user.email=t@localhost"])
            .args(arguments);
        scratch.run(command);
    };
    git(&["init", "--quiet", "--initial-branch=trunk"]);
    git(&["add", "."]);
    git(&["commit", "--quiet", "--message=the first commit"]);
    scratch.write("repository/file.txt", "two\n");
    let at = |path: &str| json!({ "repo_path": path });
    let calls = vec![
        ok("git_status", at(&repository), "modified:   file.txt"),
        ok("git_log", at(&repository), "the first commit"),
        ok("git_diff_unstaged", at(&repository), "+two"),
        error("git_status", at(&text(&scratch.path("no-repository"))), "no-repository"),
    ];
    let mut command = python_server(scratch, "mcp_server_git");
    command.extend(["--repository".into(), repository]);
    Server { group: "git", command, calls, writes: "git_add" }
}

fn ok(tool: &'static str, arguments: Value, says: &'static str) -> Call {
    Call { tool, arguments, says, is_error: false }
}

fn error(tool: &'static str, arguments: Value, says: &'static str) -> Call {
    Call { tool, arguments, says, is_error: true }
}

fn node_server(scratch: &Scratch, package: &str, argument: &str) -> Vec<String> {
    let script = scratch.real.join("node_modules/@modelcontextprotocol").join(package).join("dist/index.js");
    [text(&scratch.real.join("bin/node")), text(&script), argument.to_owned()].into()
}

fn python_server(scratch: &Scratch, module: &str) -> Vec<String> {
    [text(&scratch.real.join("python2/bin/python")), "-m".to_owned(), module.to_owned()].into()
}

//! The reference servers: their commands, and calls with expected results.

use crate::workspace::{Workspace, path_string};
use serde_json::{Value, json};

/// A call of a tool.
pub(crate) struct ServerCall {
    pub(crate) tool: &'static str,
    pub(crate) arguments: Value,
    /// A part of the content of its result.
    pub(crate) expected: &'static str,
    pub(crate) is_error: bool,
}

pub(crate) struct ReferenceServer {
    pub(crate) group: &'static str,
    pub(crate) command: Vec<String>,
    /// The tool of the first call is marked as read-only.
    pub(crate) calls: Vec<ServerCall>,
    /// A tool that is not marked as read-only.
    pub(crate) writing_tool: Option<&'static str>,
}

pub(crate) fn all(workspace: &Workspace) -> [ReferenceServer; 4] {
    [everything(workspace), filesystem(workspace), time(workspace), git(workspace)]
}

/// The server of every MCP feature (TypeScript).
fn everything(workspace: &Workspace) -> ReferenceServer {
    let calls = vec![
        ok("echo", json!({ "message": "hällo 🦀" }), "Echo: hällo 🦀"),
        ok("get-sum", json!({ "a": 2, "b": 40 }), "42"),
        ok("get-structured-content", json!({ "location": "New York" }), "temperature"),
        ok("get-tiny-image", json!({}), "image"),
        error("get-resource-reference", json!({ "resourceId": -1 }), "Invalid resourceId"),
    ];
    let command = node_server(workspace, "server-everything", "stdio");
    ReferenceServer { group: "everything", command, calls, writing_tool: Some("toggle-simulated-logging") }
}

/// The server of the files in one directory (TypeScript).
fn filesystem(workspace: &Workspace) -> ReferenceServer {
    let file = workspace.write("files/greeting.txt", "first line\nsecond line\n");
    let files = path_string(file.parent().unwrap());
    let outside = workspace.write("outside.txt", "outside the directory");
    let calls = vec![
        ok("read_text_file", json!({ "path": path_string(&file) }), "second line"),
        ok("write_file", json!({ "path": format!("{files}/new.txt"), "content": "x" }), "Successfully wrote"),
        ok("list_directory", json!({ "path": files }), "[FILE] new.txt"),
        error("read_text_file", json!({ "path": path_string(&outside) }), "Access denied"),
    ];
    let command = node_server(workspace, "server-filesystem", &files);
    ReferenceServer { group: "filesystem", command, calls, writing_tool: Some("write_file") }
}

/// The server of times (Python). All its tools are read-only.
fn time(workspace: &Workspace) -> ReferenceServer {
    let convert =
        |to: &str| json!({ "source_timezone": "Asia/Tokyo", "time": "12:30", "target_timezone": to });
    let calls = vec![
        ok("convert_time", convert("UTC"), "03:30:00+00:00"),
        error("convert_time", convert("Mars/Phobos"), "Invalid timezone"),
    ];
    ReferenceServer {
        group: "time",
        command: python_server(workspace, "mcp_server_time"),
        calls,
        writing_tool: None,
    }
}

/// The server of one Git repository (Python).
fn git(workspace: &Workspace) -> ReferenceServer {
    let repository = path_string(workspace.write("repository/file.txt", "one\n").parent().unwrap());
    let git = |arguments: &[&str]| {
        let mut command = workspace.command("git");
        command
            .args(["-C", &repository, "-c", "user.name=T", "-c", "user.email=t@localhost"])
            .args(arguments);
        workspace.run(command);
    };
    git(&["init", "--quiet", "--initial-branch=trunk"]);
    git(&["add", "."]);
    git(&["commit", "--quiet", "--message=the first commit"]);
    workspace.write("repository/file.txt", "two\n");
    let in_repository = |path: &str| json!({ "repo_path": path });
    let calls = vec![
        ok("git_status", in_repository(&repository), "modified:   file.txt"),
        ok("git_log", in_repository(&repository), "the first commit"),
        ok("git_diff_unstaged", in_repository(&repository), "+two"),
        error("git_status", in_repository(&path_string(&workspace.path("no-repository"))), "no-repository"),
    ];
    let mut command = python_server(workspace, "mcp_server_git");
    command.extend(["--repository".into(), repository]);
    ReferenceServer { group: "git", command, calls, writing_tool: Some("git_add") }
}

fn ok(tool: &'static str, arguments: Value, expected: &'static str) -> ServerCall {
    ServerCall { tool, arguments, expected, is_error: false }
}

fn error(tool: &'static str, arguments: Value, expected: &'static str) -> ServerCall {
    ServerCall { tool, arguments, expected, is_error: true }
}

fn node_server(workspace: &Workspace, package: &str, argument: &str) -> Vec<String> {
    let script =
        workspace.install_dir.join("node_modules/@modelcontextprotocol").join(package).join("dist/index.js");
    [path_string(&workspace.install_dir.join("bin/node")), path_string(&script), argument.to_owned()].into()
}

fn python_server(workspace: &Workspace, module: &str) -> Vec<String> {
    [path_string(&workspace.install_dir.join("python2/bin/python")), "-m".to_owned(), module.to_owned()]
        .into()
}

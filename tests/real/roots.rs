//! `@modelcontextprotocol/server-filesystem` sees the client's roots in its first call after each start. `roots.py` makes
//! the calls.

use crate::workspace::{Workspace, parse_report, path_string};

#[test]
fn first_calls_see_the_roots() {
    let Some(workspace) = Workspace::new() else { return };
    let mut command = workspace.command(workspace.install_dir.join("python2/bin/python"));
    let server = workspace.install_dir.join("node_modules/.bin/mcp-server-filesystem");
    command.args([path_string(&workspace.path("roots.py")), path_string(&server)]);
    command.args([env!("CARGO_BIN_EXE_dynamic-mcp"), "28"]);
    let report = parse_report(&workspace.run(command));
    assert_eq!(report["all"], "28 of 28", "{report}");
    workspace.assert_no_process_left();
}

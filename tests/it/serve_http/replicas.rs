//! Three replicas behind HAProxy that are restarted and killed while clients call: a short run of `benches/team/replicas.py`.

use std::path::Path;
use std::process::Command;

use crate::scripted;
use crate::support::{Turn, are_installed, output_of};

#[test]
fn replicas_are_restarted_and_killed_without_a_lost_call() {
    let _turn = Turn::take();
    if !are_installed(&["python3", "../sbin/haproxy"]) {
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/team/replicas.py");
    let mut command = Command::new("/usr/bin/python3");
    command.arg(script).arg(env!("CARGO_BIN_EXE_dynamic-mcp")).arg(scripted::program()).arg("1000");
    command.env("PATH", "/usr/sbin:/usr/bin:/bin");
    let output = output_of(&mut command);
    let text = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&text));
}

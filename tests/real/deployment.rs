//! `deploy/kubernetes.yaml`: its objects are what the API of Kubernetes demands, and its files and arguments start a
//! replica. `deployment.py` does both.

use std::path::Path;

use serde_json::json;

use crate::workspace::{Workspace, parse_report};

#[test]
fn the_manifest_is_valid_and_starts_a_replica() {
    let Some(workspace) = Workspace::new() else { return };
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/kubernetes.yaml");
    let mut command = workspace.command(workspace.install_dir.join("python2/bin/python"));
    command.arg(workspace.path("deployment.py")).arg(manifest).arg(env!("CARGO_BIN_EXE_dynamic-mcp"));
    let report = parse_report(&workspace.run(command));
    let expected = json!({
        "kinds": ["ConfigMap", "Secret", "Service", "PodDisruptionBudget", "Deployment"],
        "healthy": 200, "ready": 200, "without a token": 401, "with one": 200, "another host": 403,
    });
    assert_eq!(report, expected);
    workspace.assert_no_process_left();
}

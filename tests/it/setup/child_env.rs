//! The variables that servers inherit, and those that a failed start names.

use serde_json::json;

use crate::support::{ProxyCommand, pure_config};

#[test]
#[cfg_attr(windows, ignore = "needs a shell")]
fn launchers_get_their_variables_and_a_failed_start_names_what_was_withheld() {
    let command = ProxyCommand::new();
    let seen = command.home().join("seen");
    let script = format!("env > {}; exit 3", seen.display());
    let config = pure_config([("github", json!({"command": "sh", "args": ["-c", script]}))]);
    let mut proxy = command
        .env("UV_CACHE_DIR", "/cache")
        .env("UV_INDEX_URL", "https://user:s3cret@pypi.example.com/")
        .env("GITHUB_TOKEN", "s3cret")
        .env("OTHER_TOKEN", "s3cret")
        .config(&config)
        .start_initialized();
    let failure = proxy.call_failure("github", "echo", json!({}));
    let expected = "these variables are set but were not passed to it: GITHUB_TOKEN; if it needs them, add \
                    \"inherit_env\": [\"GITHUB_TOKEN\"] to its config entry";
    assert!(failure.contains(expected) && !failure.contains("s3cret"), "{failure}");
    let seen = std::fs::read_to_string(seen).unwrap();
    assert!(seen.contains("UV_CACHE_DIR=/cache") && !seen.contains("s3cret"), "{seen}");
}

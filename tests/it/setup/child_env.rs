//! The variables that servers inherit, and those that a failed start names.

use serde_json::json;

use crate::support::{ProxyCommand, merged, pure_config, scripted_upstream};

/// Variables that have a program load or run other code, or trust whoever answers.
const HOSTILE: [&str; 22] = [
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
    "LD_AUDIT",
    "DYLD_INSERT_LIBRARIES",
    "DYLD_LIBRARY_PATH",
    "NODE_OPTIONS",
    "NODE_PATH",
    "NODE_TLS_REJECT_UNAUTHORIZED",
    "NPM_CONFIG_SCRIPT_SHELL",
    "npm_config_node_options",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "PYTHONHOME",
    "PYTHONHTTPSVERIFY",
    "PERL5OPT",
    "RUBYOPT",
    "JAVA_TOOL_OPTIONS",
    "BASH_ENV",
    "ENV",
    "GIT_SSH_COMMAND",
    "GIT_SSL_NO_VERIFY",
    "SSLKEYLOGFILE",
];

#[test]
#[cfg_attr(windows, ignore = "its loader has no such variables")]
fn no_variable_that_makes_a_program_run_other_code_is_inherited() {
    for (more, passed) in [
        (json!({}), &[][..]),
        (json!({"inherit_env": ["PYTHONPATH"]}), &["PYTHONPATH"]),
        (
            json!({"inherit_env": ["PYTHONPATH"], "env": {"NODE_OPTIONS": "-x"}}),
            &["PYTHONPATH", "NODE_OPTIONS"],
        ),
        // Whoever writes this wants all of them.
        (json!({"inherit_env": true}), &HOSTILE),
    ] {
        let command = ProxyCommand::new();
        // There are no such files.
        let command = HOSTILE.into_iter().fold(command, |command, name| command.env(name, "/nowhere/evil"));
        let config = pure_config([("g", merged(scripted_upstream(&[]), more.clone()))]);
        let mut proxy = command.config(&config).start_initialized();
        let env = proxy.call_text("g", "env", json!({}));
        let env: serde_json::Value = serde_json::from_str(&env).unwrap();
        for name in HOSTILE {
            assert_eq!(!env[name].is_null(), passed.contains(&name), "{more}: {name}");
        }
    }
}

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

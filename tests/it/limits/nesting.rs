//! dynamic-mcp as a server of dynamic-mcp.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::{Processes, ProxyCommand, config_of, pure_config, scripted_upstream, wait_until};

/// The program, with a drive if the system has drives: a server may run on another one.
fn program() -> PathBuf {
    std::path::absolute(env!("CARGO_BIN_EXE_dynamic-mcp")).unwrap()
}

fn nested(config: &Path) -> Value {
    json!({"command": program(), "args": ["--no-cache", "--config", config]})
}

#[test]
fn a_server_of_its_own_config_is_refused_by_name() {
    let launchers: &[&str] =
        if cfg!(windows) { &["direct", "shell"] } else { &["direct", "shell", "pipes", "variables"] };
    for &launcher in launchers {
        let command = ProxyCommand::new();
        let config = command.home().join("servers.json");
        let shell = |script: String| json!({"command": "sh", "args": ["-c", script]});
        let line = format!("{} --config {}", program().display(), config.display());
        let entry = match launcher {
            "direct" => nested(&config),
            "shell" if cfg!(windows) => {
                json!({"command": "cmd", "args": ["/c", program(), "--config", config]})
            }
            "shell" => shell(format!("{line}; exit")),
            "pipes" => shell(format!("cat | {line} | cat")),
            _ => json!({"command": "env", "args": ["A=1", program(), "--config", config]}),
        };
        // Hybrid: every instance connects to every server at its start.
        let names = ["self1", "self2", "self3"];
        let text = config_of(names.map(|name| (name, entry.clone())));
        let mut proxy = command.config(&text).start_initialized();
        let error = proxy.call_failure("self1", "echo", json!({}));
        println!("{launcher}: {error}");
        assert!(error.contains("self1") && error.contains("it is a server of its own config"), "{error}");
        assert!(error.contains("remove this server from the config"), "{error}");
        wait_until("no instance is left", || {
            Processes::descendants_of(proxy.pid()).running().len() <= usize::from(cfg!(unix))
        });
        proxy.wait_for_state("self2", "failed");
    }
}

#[test]
fn other_configs_nest_to_a_depth_of_three() {
    let command = ProxyCommand::new();
    let file = |n: usize| command.home().join(format!("{n}.json"));
    for n in 1..=4 {
        let config = pure_config([("next", nested(&file(n + 1))), ("g", scripted_upstream(&[]))]);
        std::fs::write(file(n), config.to_string()).unwrap();
    }
    let outermost = pure_config([("next", nested(&file(1)))]);
    let mut proxy = command.config(&outermost).start_initialized();
    // Around the call of a tool, calls through `depth` instances.
    let through = |depth: usize, group: &str, tool: &str, args: Value| {
        (0..depth).fold(
            json!({"group": group, "name": tool, "args": args}),
            |inner, _| json!({"group": "next", "name": "call_dynamic_tool", "args": inner}),
        )
    };
    let echo = proxy.call_meta_tool("call_dynamic_tool", through(3, "g", "echo", json!({"text": "deep"})));
    assert_eq!(echo["content"][0]["text"], "deep", "{echo}");
    let refused = proxy.call_meta_tool("call_dynamic_tool", through(4, "g", "echo", json!({"text": "deep"})));
    assert!(refused.to_string().contains("it is nested too deep"), "{refused}");
}

#[test]
fn an_agent_in_a_server_may_use_the_same_config() {
    let command = ProxyCommand::new();
    let config = pure_config([("g", scripted_upstream(&[]))]);
    let mut outer = command.config(&config).start_initialized();
    let env: Value = serde_json::from_str(&outer.call_text("g", "env", json!({}))).unwrap();
    let ancestors = env["DYNAMIC_MCP_ANCESTORS"].as_str().unwrap();
    // The client of this instance is the test, not the outer one.
    let file = outer.config_file();
    let inner = ProxyCommand::new().env("DYNAMIC_MCP_ANCESTORS", ancestors);
    let mut inner = inner.args(&["--config", file.to_str().unwrap()]).start_initialized();
    assert_eq!(inner.call_text("g", "echo", json!({"text": "inner"})), "inner");
    let env: Value = serde_json::from_str(&inner.call_text("g", "env", json!({}))).unwrap();
    assert_eq!(env["DYNAMIC_MCP_ANCESTORS"], format!("{ancestors}:{ancestors}"));
}

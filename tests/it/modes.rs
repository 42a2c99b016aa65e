//! The modes of `lazy_startup`: when groups connect and disconnect, what discovery adds to `tools/list`, and what the
//! next process knows from the cache.
//!
//! The tests whose names begin with `test_` are named in the requirements for the modes.

use crate::support::{
    Processes, Proxy, ProxyCommand, config_of, merged, scripted_upstream, text_of, wait_until,
};
use serde_json::{Value, json};
use std::path::Path;
use tempfile::TempDir;

mod other_offers;
mod prefetch;

/// A config with the scripted upstream as its only server, `g`, in the default mode.
fn default_mode_config(flags: &[&str]) -> Value {
    config_of([("g", scripted_upstream(flags))])
}

/// An entry for the scripted upstream in this mode.
fn upstream_in_mode(flags: &[&str], mode: &str) -> Value {
    merged(scripted_upstream(flags), json!({"lazy_startup": mode}))
}

/// Starts the program with this cache directory. Each server gets the same working directory, because the cache
/// identifies a server by it, too.
fn start_with_cache(config: &Value, cache: &Path) -> Proxy {
    let mut config = config.clone();
    for server in config["mcpServers"].as_object_mut().unwrap().values_mut() {
        server["cwd"] = json!("/");
    }
    ProxyCommand::new().env("XDG_CACHE_HOME", cache.to_str().unwrap()).config(&config).start_initialized()
}

#[test]
fn test_lazy_startup_no_connections_on_init() {
    let mut proxy =
        ProxyCommand::new().args(&["--pure-lazy"]).config(&default_mode_config(&[])).start_initialized();
    proxy.request("tools/list", json!({}));
    assert_eq!(proxy.group_state("g"), "pending");
    assert_eq!(Processes::descendants_of(proxy.pid()).0, [], "not even the warden");
}

#[test]
fn test_get_dynamic_tools_triggers_connection() {
    let mut proxy =
        ProxyCommand::new().args(&["--pure-lazy"]).config(&default_mode_config(&[])).start_initialized();
    assert!(proxy.get_dynamic_tools(json!({"group": "g"})).contains("echo"));
    assert_eq!(proxy.group_state("g"), "connected");
}

#[test]
fn test_call_tool_triggers_connection() {
    let mut proxy =
        ProxyCommand::new().args(&["--pure-lazy"]).config(&default_mode_config(&[])).start_initialized();
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "hi"})), "hi");
    assert_eq!(proxy.group_state("g"), "connected");
}

#[test]
fn test_lazy_startup_config_flag() {
    let config = config_of([
        ("e", upstream_in_mode(&[], "eager")),
        ("false", merged(scripted_upstream(&[]), json!({"lazy_startup": false}))),
        ("h", upstream_in_mode(&[], "hybrid")),
        ("p", upstream_in_mode(&[], "pure")),
    ]);
    let mut proxy = Proxy::new(&config);
    for (group, expected) in
        [("e", "connected"), ("false", "connected"), ("h", "discovered"), ("p", "pending")]
    {
        proxy.wait_for_state(group, expected);
    }
}

#[test]
fn test_eager_startup_cli_flag() {
    let config = config_of([("h", upstream_in_mode(&[], "hybrid")), ("p", upstream_in_mode(&[], "pure"))]);
    let mut proxy = ProxyCommand::new().args(&["--eager-startup"]).config(&config).start_initialized();
    for group in ["h", "p"] {
        proxy.wait_for_state(group, "connected");
        assert_eq!(proxy.group_status(group)["mode"], "eager");
    }
}

#[test]
fn test_hybrid_mode_disconnects_on_idle() {
    let config = config_of([("g", merged(scripted_upstream(&[]), json!({"idle_timeout": "300ms"})))]);
    let mut proxy = ProxyCommand::new().args(&["--hybrid-lazy"]).config(&config).start_initialized();
    let pid = proxy.upstream_pid("g");
    proxy.wait_for_state("g", "discovered");
    proxy.wait_for_log("Server g idle for 0s, disconnecting...");
    proxy.wait_for_log("Disconnected g (lazy mode, will reconnect on use)");
    wait_until("its process is gone", || !crate::support::is_alive(pid));
}

#[cfg(target_os = "linux")]
#[test]
fn the_memory_that_an_idle_disconnect_frees_is_known() {
    let config = config_of([("g", merged(scripted_upstream(&[]), json!({"idle_timeout": "300ms"})))]);
    let mut proxy = Proxy::new(&config);
    // Its end does not wait long for the measurement, so a busy machine may take more than one disconnect.
    wait_until("it is measured", || {
        proxy.connect(["g"]);
        proxy.wait_for_state("g", "discovered");
        proxy.group_status("g")["closedMemoryBytes"].as_u64().is_some_and(|bytes| bytes > 1 << 16)
    });
}

#[test]
fn test_hybrid_mode_reconnects_after_idle_disconnect() {
    let config = config_of([("g", merged(scripted_upstream(&[]), json!({"idle_timeout": "300ms"})))]);
    let mut proxy = ProxyCommand::new().args(&["--hybrid-lazy"]).config(&config).start_initialized();
    let first = proxy.upstream_pid("g");
    proxy.wait_for_state("g", "discovered");
    assert_ne!(proxy.upstream_pid("g"), first);
    proxy.wait_for_log("Connecting to g on-demand...");
}

#[test]
fn test_idle_timeout_configurable_per_server() {
    let config = config_of([
        ("short", merged(scripted_upstream(&[]), json!({"idle_timeout": "200ms"}))),
        ("never", merged(scripted_upstream(&[]), json!({"idle_timeout": 0}))),
        ("default", scripted_upstream(&[])),
    ]);
    let mut proxy = ProxyCommand::new()
        .args(&["--pure-lazy", "--idle-timeout", "3600"])
        .config(&config)
        .start_initialized();
    proxy.connect(["short", "never", "default"]);
    proxy.wait_for_state("short", "discovered");
    assert_eq!(proxy.group_state("never"), "connected");
    assert_eq!(proxy.group_state("default"), "connected");
}

#[test]
fn probing_requests_start_no_group() {
    let mut proxy = ProxyCommand::new().args(&["--eager-startup"]).config(&default_mode_config(&[])).start();
    proxy.error_code("server/discover", json!({}));
    proxy.request("ping", json!({}));
    assert_eq!(Processes::descendants_of(proxy.pid()).0, []);
}

#[test]
fn hanging_servers_do_not_delay_the_discovery_of_others() {
    let hanging = (0..8).map(|n| (format!("hanging{n}"), scripted_upstream(&["--hang", "initialize"])));
    let servers: serde_json::Map<_, _> =
        hanging.chain([("last".to_owned(), scripted_upstream(&[]))]).collect();
    let mut proxy = Proxy::new(&json!({ "mcpServers": servers }));
    assert_eq!(proxy.status()["status"], "initializing");
    proxy.wait_for_state("last", "discovered");
}

#[test]
fn discovery_changes_the_list_once_and_calls_do_not_change_it() {
    let config =
        config_of([("a", scripted_upstream(&["--name", "Server A"])), ("b", scripted_upstream(&[]))]);
    let mut proxy = ProxyCommand::new().config(&config).start();
    let before = proxy.handshake_and_list(json!({})).to_string();
    assert!(before.contains("call_dynamic_tool") && !before.contains("echo"), "{before}");
    let notification = proxy.next_message().unwrap();
    assert_eq!(notification.method(), Some("notifications/tools/list_changed"));
    let after = proxy.request("tools/list", json!({}))["result"].to_string();
    assert!(after.contains("Server A") && after.contains("echo"), "{after}");
    // Calls and descriptions do not change the list.
    proxy.upstream_pid("a");
    proxy.get_dynamic_tools(json!({"group": "b"}));
    assert_eq!(proxy.request("tools/list", json!({}))["result"].to_string(), after);
    assert_eq!(proxy.status()["status"], "ready");
}

#[test]
fn the_use_of_a_pure_group_does_not_change_the_list() {
    let mut proxy = ProxyCommand::new()
        .args(&["--pure-lazy"])
        .config(&default_mode_config(&["--name", "Server G"]))
        .start_initialized();
    let before = proxy.request("tools/list", json!({}))["result"].to_string();
    proxy.upstream_pid("g");
    assert_eq!(proxy.request("tools/list", json!({}))["result"].to_string(), before);
}

#[test]
fn a_change_of_an_upstreams_list_is_reported() {
    let mut proxy = Proxy::new(&config_of([("g", scripted_upstream(&["--list-changed-on-call"]))]));
    assert_eq!(proxy.next_message().unwrap().method(), Some("notifications/tools/list_changed"), "discovery");
    proxy.call_text("g", "echo", json!({"text": "x"}));
    assert_eq!(proxy.next_server_message().method(), Some("notifications/tools/list_changed"));
}

#[test]
fn the_next_process_knows_all_tools_from_the_cache_and_starts_no_group() {
    let cache = TempDir::new().unwrap();
    let config =
        config_of([("a", scripted_upstream(&["--name", "Server A"])), ("b", upstream_in_mode(&[], "pure"))]);
    let mut first = start_with_cache(&config, cache.path());
    let definitions = first.get_dynamic_tools(json!({"group": "b", "lazy": false}));
    first.wait_for_state("a", "discovered");
    first.close_stdin();
    first.wait_for_exit();

    let mut second = start_with_cache(&config, cache.path());
    let list = second.request("tools/list", json!({}))["result"].to_string();
    assert!(list.contains("Server A") && list.contains("echo"), "{list}");
    assert_eq!(second.get_dynamic_tools(json!({"group": "b", "lazy": false})), definitions, "byte for byte");
    for group in ["a", "b"] {
        assert_eq!(second.group_status(group)["state"], "discovered");
        assert_eq!(second.group_status(group)["cached"], true);
    }
    assert_eq!(Processes::descendants_of(second.pid()).0, [], "no process was started");
    assert!(second.status()["startUpSavedMs"].as_u64() > Some(0), "{}", second.status());
    assert_eq!(second.request("tools/list", json!({}))["result"].to_string(), list);
    // The first use reads the catalog again. It has not changed, so no change is reported.
    second.upstream_pid("a");
    assert_eq!(second.group_status("a")["cached"], false);
    assert_eq!(second.request("tools/list", json!({}))["result"].to_string(), list);
    second.close_stdin();
    assert!(second.next_message().is_none());
}

#[test]
#[cfg_attr(windows, ignore = "needs FIFOs")]
fn a_start_reads_only_the_index_of_the_cache() {
    let cache = TempDir::new().unwrap();
    let config = config_of([("g", scripted_upstream(&["--resources"]))]);
    let mut first = start_with_cache(&config, cache.path());
    first.wait_for_state("g", "discovered");
    first.close_stdin();
    first.wait_for_exit();
    // A process that opened one of these pipes would block.
    for file in std::fs::read_dir(crate::support::cache_dir_in(cache.path())).unwrap() {
        let path = file.unwrap().path();
        if !["index.json", "lock"].contains(&path.file_name().unwrap().to_str().unwrap()) {
            std::fs::remove_file(&path).unwrap();
            let status = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
            assert!(status.success());
        }
    }
    let mut second = start_with_cache(&config, cache.path());
    assert!(second.request("tools/list", json!({})).to_string().contains("echo"));
    assert_eq!(second.group_status("g")["cached"], true);
}

// It needs a shell.
#[cfg(unix)]
#[test]
fn a_tool_that_the_cache_lacks_is_looked_up_at_the_server() {
    let cache = TempDir::new().unwrap();
    // The config stays the same, and the server has more tools in the second process.
    let marker = cache.path().join("more");
    let script = format!(
        "exec {} $(test -e {} && echo --tools 5)",
        crate::support::scripted_upstream_program().to_str().unwrap(),
        marker.to_str().unwrap()
    );
    let config = config_of([("g", json!({"command": "sh", "args": ["-c", script]}))]);
    let mut first = start_with_cache(&config, cache.path());
    first.wait_for_state("g", "discovered");
    first.close_stdin();
    first.wait_for_exit();
    std::fs::write(&marker, "").unwrap();
    let mut second = start_with_cache(&config, cache.path());
    assert_eq!(second.group_status("g")["cached"], true);
    let listed = second.get_dynamic_tools(json!({"group": "g", "tools": ["generated_3"]}));
    assert!(listed.contains("generated_3") && listed.contains("inputSchema"), "{listed}");
}

#[test]
#[cfg_attr(windows, ignore = "the file has no access list of its own")]
fn a_broken_cache_is_ignored_and_no_cache_writes_no_file() {
    let cache = TempDir::new().unwrap();
    let dir = crate::support::cache_dir_in(cache.path());
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("index.json"), "{half").unwrap();
    #[cfg(unix)]
    {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(dir.join("index.json"), mode).unwrap();
    }
    let mut proxy = start_with_cache(&default_mode_config(&[]), cache.path());
    proxy.wait_for_state("g", "discovered");
    assert!(!proxy.log().contains("cache"), "{}", proxy.log());

    let unused = TempDir::new().unwrap();
    let command =
        ProxyCommand::new().env("XDG_CACHE_HOME", unused.path().to_str().unwrap()).args(&["--no-cache"]);
    let mut proxy = command.config(&default_mode_config(&[])).start_initialized();
    proxy.wait_for_state("g", "discovered");
    proxy.close_stdin();
    proxy.wait_for_exit();
    assert_eq!(std::fs::read_dir(unused.path()).unwrap().count(), 0);
}

#[test]
fn no_secret_of_the_config_is_in_the_cache() {
    let cache = TempDir::new().unwrap();
    let config =
        config_of([("g", merged(scripted_upstream(&[]), json!({"env": {"TOKEN": "s3cr3t-canary"}})))]);
    let mut proxy = start_with_cache(&config, cache.path());
    proxy.wait_for_state("g", "discovered");
    proxy.close_stdin();
    proxy.wait_for_exit();
    let mut files = 0;
    for file in std::fs::read_dir(crate::support::cache_dir_in(cache.path())).unwrap() {
        files += 1;
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        assert!(!text.contains("s3cr3t-canary"));
    }
    assert!(files >= 2, "index and definitions");
}

#[test]
#[cfg_attr(windows, ignore = "needs a shell")]
fn a_failed_start_is_retried_and_callers_wait_for_it() {
    // The first start fails, later ones succeed.
    let dir = TempDir::new().unwrap();
    let marker = dir.path().join("once").to_str().unwrap().to_owned();
    let program = crate::support::scripted_upstream_program();
    let script =
        format!("test -e {marker} || {{ touch {marker}; exit 3; }}; exec {}", program.to_str().unwrap());
    let config = config_of([("g", json!({"command": "sh", "args": ["-c", script]}))]);
    let mut proxy = ProxyCommand::new().args(&["--pure-lazy"]).config(&config).start_initialized();
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "x"})), "x");
    proxy.wait_for_log("exited with code 3");
    assert_eq!(proxy.group_status("g")["attempts"], 0, "success resets the counter");
}

#[test]
fn an_eager_group_reconnects_when_its_process_dies() {
    let mut proxy = Proxy::new(&config_of([("g", upstream_in_mode(&[], "eager"))]));
    let first = proxy.upstream_pid("g");
    crate::support::kill(first);
    wait_until("the group is connected again", || {
        let group = proxy.group_status("g");
        group["state"] == "connected" && group["attempts"] == 0 && proxy.log().contains("connection lost")
    });
    assert_ne!(proxy.upstream_pid("g"), first);
}

#[test]
fn the_call_after_the_loss_of_a_stateful_server_is_not_run() {
    let mut proxy =
        Proxy::new(&config_of([("g", merged(scripted_upstream(&[]), json!({"stateful": true})))]));
    proxy.call_text("g", "echo", json!({"text": "x"}));
    proxy.call_failure("g", "crash", json!({}));
    // They wait for the same start.
    let waiting = [1, 2, 3].map(|n| proxy.send_call("g", "echo", json!({"text": n.to_string()})));
    for call in waiting {
        let result = proxy.response(call).json()["result"].take();
        let failure = text_of(&result);
        assert!(failure.contains("was restarted") && failure.contains("not run"), "{failure}");
    }
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "y"})), "y");
}

#[test]
fn a_call_that_waits_for_a_slow_start_gets_progress_and_is_told_to_retry() {
    let slow = merged(scripted_upstream(&["--hang", "initialize"]), json!({"timeout": {"wait": "6s"}}));
    let mut proxy =
        ProxyCommand::new().args(&["--pure-lazy"]).config(&config_of([("g", slow)])).start_initialized();
    let arguments = json!({"group": "g", "name": "echo", "args": {}});
    let params =
        json!({"name": "call_dynamic_tool", "arguments": arguments, "_meta": {"progressToken": "t"}});
    let id = proxy.send_request("tools/call", params);
    let progress = proxy.next_message().unwrap().json()["params"].take();
    assert_eq!(progress["progressToken"], "t");
    assert_eq!(progress["message"], "group g is starting (5 s so far)");
    assert!(progress["progress"].as_f64().unwrap() <= 0.0, "below the progress of the server itself");
    let response = proxy.response(id).json();
    let text = response["result"]["content"][0]["text"].as_str().unwrap();
    let limits = "A call waits 6 s for it (timeout.wait), and an attempt ends after 60 s without an answer (timeout.initialize); \
                  if it needs longer, write \"timeout\": {\"initialize\": \"2m\"} in its config entry.";
    let expected = format!("Group g is initializing (6 s so far), please retry in 10 seconds\n{limits}");
    assert!(text.starts_with(&expected), "{text}");
}

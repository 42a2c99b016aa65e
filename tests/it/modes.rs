//! When groups connect and close, by mode, and what the next start knows from the cache.

use crate::support::{Processes, Proxy, Setup, as_configured as servers, until, upstream, with};
use serde_json::{Value, json};
use std::path::Path;
use tempfile::TempDir;

fn state(proxy: &mut Proxy, group: &str) -> String {
    proxy.group(group)["state"].as_str().unwrap().to_owned()
}

fn until_state(proxy: &mut Proxy, group: &str, wanted: &str) {
    until(&format!("{group} is {wanted}"), || state(proxy, group) == wanted);
}

fn one(flags: &[&str]) -> Value {
    servers([("g", upstream(flags))])
}

fn mode(flags: &[&str], mode: &str) -> Value {
    with(upstream(flags), json!({"lazy_startup": mode}))
}

/// A second start finds the first one's cache in `cache`: the same directory is part of what names a server there.
fn start(config: &Value, cache: &Path) -> Proxy {
    let mut config = config.clone();
    for server in config["mcpServers"].as_object_mut().unwrap().values_mut() {
        server["cwd"] = json!("/");
    }
    Setup::new().env("XDG_CACHE_HOME", cache.to_str().unwrap()).config(&config).ready()
}

#[test]
fn test_lazy_startup_no_connections_on_init() {
    let mut proxy = Setup::new().args(&["--pure-lazy"]).config(&one(&[])).ready();
    proxy.ask("tools/list", json!({}));
    assert_eq!(state(&mut proxy, "g"), "pending");
    assert_eq!(Processes::below(proxy.pid()).0, [], "not even the warden");
}

#[test]
fn test_get_dynamic_tools_triggers_connection() {
    let mut proxy = Setup::new().args(&["--pure-lazy"]).config(&one(&[])).ready();
    assert!(proxy.tools(json!({"group": "g"})).contains("echo"));
    assert_eq!(state(&mut proxy, "g"), "connected");
}

#[test]
fn test_call_tool_triggers_connection() {
    let mut proxy = Setup::new().args(&["--pure-lazy"]).config(&one(&[])).ready();
    assert_eq!(proxy.text("g", "echo", json!({"text": "hi"})), "hi");
    assert_eq!(state(&mut proxy, "g"), "connected");
}

#[test]
fn test_lazy_startup_config_flag() {
    let config = servers([
        ("e", mode(&[], "eager")),
        ("false", with(upstream(&[]), json!({"lazy_startup": false}))),
        ("h", mode(&[], "hybrid")),
        ("p", mode(&[], "pure")),
    ]);
    let mut proxy = Proxy::new(&config);
    for (group, wanted) in [("e", "connected"), ("false", "connected"), ("h", "discovered"), ("p", "pending")]
    {
        until_state(&mut proxy, group, wanted);
    }
}

#[test]
fn test_eager_startup_cli_flag() {
    let config = servers([("h", mode(&[], "hybrid")), ("p", mode(&[], "pure"))]);
    let mut proxy = Setup::new().args(&["--eager-startup"]).config(&config).ready();
    for group in ["h", "p"] {
        until_state(&mut proxy, group, "connected");
        assert_eq!(proxy.group(group)["mode"], "eager");
    }
}

#[test]
fn test_hybrid_mode_disconnects_on_idle() {
    let config = servers([("g", with(upstream(&[]), json!({"idle_timeout": "300ms"})))]);
    let mut proxy = Setup::new().args(&["--hybrid-lazy"]).config(&config).ready();
    let pid = proxy.upstream_pid("g");
    until_state(&mut proxy, "g", "discovered");
    proxy.until_logged("Server g idle for 0s, disconnecting...");
    proxy.until_logged("Disconnected g (lazy mode, will reconnect on use)");
    until("its process is gone", || !crate::support::alive(pid));
}

#[test]
fn test_hybrid_mode_reconnects_after_idle_disconnect() {
    let config = servers([("g", with(upstream(&[]), json!({"idle_timeout": "300ms"})))]);
    let mut proxy = Setup::new().args(&["--hybrid-lazy"]).config(&config).ready();
    let first = proxy.upstream_pid("g");
    until_state(&mut proxy, "g", "discovered");
    assert_ne!(proxy.upstream_pid("g"), first);
    proxy.until_logged("Connecting to g on-demand...");
}

#[test]
fn test_idle_timeout_configurable_per_server() {
    let config = servers([
        ("short", with(upstream(&[]), json!({"idle_timeout": "200ms"}))),
        ("never", with(upstream(&[]), json!({"idle_timeout": 0}))),
        ("default", upstream(&[])),
    ]);
    let mut proxy = Setup::new().args(&["--pure-lazy", "--idle-timeout", "3600"]).config(&config).ready();
    for group in ["short", "never", "default"] {
        proxy.upstream_pid(group);
    }
    until_state(&mut proxy, "short", "discovered");
    assert_eq!(state(&mut proxy, "never"), "connected");
    assert_eq!(state(&mut proxy, "default"), "connected");
}

#[test]
fn a_process_that_is_only_probed_starts_nothing() {
    let mut proxy = Setup::new().args(&["--eager-startup"]).config(&one(&[])).start();
    proxy.refused("server/discover", json!({}));
    proxy.ask("ping", json!({}));
    assert_eq!(Processes::below(proxy.pid()).0, []);
}

#[test]
fn servers_that_hang_at_start_hold_up_nobody() {
    let hung = (0..8).map(|n| (format!("hung{n}"), upstream(&["--hang", "initialize"])));
    let all: serde_json::Map<_, _> = hung.chain([("last".to_owned(), upstream(&[]))]).collect();
    let mut proxy = Proxy::new(&json!({ "mcpServers": all }));
    assert_eq!(proxy.status()["status"], "initializing");
    until_state(&mut proxy, "last", "discovered");
}

#[test]
fn what_discovery_finds_is_told_once_and_the_list_is_then_the_same() {
    let config = servers([("a", upstream(&["--name", "Server A"])), ("b", upstream(&[]))]);
    let mut proxy = Proxy::new(&config);
    let before = proxy.ask("tools/list", json!({}))["result"].to_string();
    assert!(!before.contains("echo"));
    let told = proxy.next().unwrap();
    assert_eq!(told.method(), Some("notifications/tools/list_changed"));
    let after = proxy.ask("tools/list", json!({}))["result"].to_string();
    assert!(after.contains("Server A") && after.contains("echo"), "{after}");
    // Calls and listings change nothing.
    proxy.upstream_pid("a");
    proxy.tools(json!({"group": "b"}));
    assert_eq!(proxy.ask("tools/list", json!({}))["result"].to_string(), after);
    assert_eq!(proxy.status()["status"], "ready");
}

#[test]
fn a_pure_group_does_not_change_the_list_by_being_used() {
    let mut proxy = Setup::new().args(&["--pure-lazy"]).config(&one(&["--name", "Server G"])).ready();
    let before = proxy.ask("tools/list", json!({}))["result"].to_string();
    proxy.upstream_pid("g");
    assert_eq!(proxy.ask("tools/list", json!({}))["result"].to_string(), before);
}

#[test]
fn a_list_that_an_upstream_changed_is_told() {
    let mut proxy = Proxy::new(&servers([("g", upstream(&["--list-changed-on-call"]))]));
    assert_eq!(proxy.next().unwrap().method(), Some("notifications/tools/list_changed"), "discovery");
    proxy.text("g", "echo", json!({"text": "x"}));
    let told = std::iter::from_fn(|| proxy.next()).find(|message| message.method().is_some()).unwrap();
    assert_eq!(told.method(), Some("notifications/tools/list_changed"));
}

#[test]
fn the_second_start_knows_every_tool_and_starts_nothing() {
    let cache = TempDir::new().unwrap();
    let config = servers([("a", upstream(&["--name", "Server A"])), ("b", mode(&[], "pure"))]);
    let mut first = start(&config, cache.path());
    let direct = first.tools(json!({"group": "b", "lazy": false}));
    until_state(&mut first, "a", "discovered");
    first.close_stdin();
    first.ends();

    let mut second = start(&config, cache.path());
    let list = second.ask("tools/list", json!({}))["result"].to_string();
    assert!(list.contains("Server A") && list.contains("echo"), "{list}");
    assert_eq!(second.tools(json!({"group": "b", "lazy": false})), direct, "byte for byte");
    for group in ["a", "b"] {
        assert_eq!(second.group(group)["state"], "discovered");
        assert_eq!(second.group(group)["cached"], true);
    }
    assert_eq!(Processes::below(second.pid()).0, [], "nothing was started");
    assert!(second.status()["startUpSavedMs"].as_u64() > Some(0), "{}", second.status());
    assert_eq!(second.ask("tools/list", json!({}))["result"].to_string(), list);
    // It is read again with the first use, and says the same: nothing is told.
    second.upstream_pid("a");
    assert_eq!(second.group("a")["cached"], false);
    assert_eq!(second.ask("tools/list", json!({}))["result"].to_string(), list);
    second.close_stdin();
    assert!(second.next().is_none());
}

#[test]
fn what_a_client_can_do_is_part_of_what_is_remembered() {
    let cache = TempDir::new().unwrap();
    let config = with(servers([("g", with(upstream(&[]), json!({"cwd": "/"})))]), json!({}));
    let start = |capabilities: Value| {
        let setup = Setup::new().env("XDG_CACHE_HOME", cache.path().to_str().unwrap()).config(&config);
        let mut proxy = setup.start();
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": {"name": "c", "version": "1"}});
        proxy.ask("initialize", params);
        proxy.notify("notifications/initialized", json!({}));
        proxy
    };
    for capabilities in [json!({}), json!({"sampling": {}})] {
        let mut first = start(capabilities.clone());
        assert_eq!(first.group("g")["cached"], Value::Null, "{capabilities}: a server may list other tools");
        until_state(&mut first, "g", "discovered");
        first.close_stdin();
        first.ends();
        assert_eq!(start(capabilities).group("g")["cached"], true);
    }
}

#[test]
fn a_start_reads_the_index_and_nothing_else_of_the_cache() {
    let cache = TempDir::new().unwrap();
    let config = servers([("g", upstream(&["--resources"]))]);
    let mut first = start(&config, cache.path());
    until_state(&mut first, "g", "discovered");
    first.close_stdin();
    first.ends();
    // Whoever opened one of these would wait for ever.
    for file in std::fs::read_dir(cache.path().join("dynamic-mcp")).unwrap() {
        let path = file.unwrap().path();
        if !["index.json", "lock"].contains(&path.file_name().unwrap().to_str().unwrap()) {
            std::fs::remove_file(&path).unwrap();
            let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
            assert!(made.success());
        }
    }
    let mut second = start(&config, cache.path());
    assert!(second.ask("tools/list", json!({})).to_string().contains("echo"));
    assert_eq!(second.group("g")["cached"], true);
}

#[test]
fn a_cached_catalog_answers_and_never_refuses() {
    let cache = TempDir::new().unwrap();
    // The config says the same; the server has more tools when it is asked again.
    let marker = cache.path().join("more");
    let script = format!(
        "exec {} $(test -e {} && echo --tools 5)",
        crate::support::program().to_str().unwrap(),
        marker.to_str().unwrap()
    );
    let config = servers([("g", json!({"command": "sh", "args": ["-c", script]}))]);
    let mut first = start(&config, cache.path());
    until_state(&mut first, "g", "discovered");
    first.close_stdin();
    first.ends();
    std::fs::write(&marker, "").unwrap();
    let mut second = start(&config, cache.path());
    assert_eq!(second.group("g")["cached"], true);
    let listed = second.tools(json!({"group": "g", "tools": ["generated_3"]}));
    assert!(listed.contains("generated_3") && listed.contains("inputSchema"), "{listed}");
}

#[test]
fn a_broken_cache_costs_nothing_and_no_cache_writes_nothing() {
    let cache = TempDir::new().unwrap();
    let dir = cache.path().join("dynamic-mcp");
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(dir.join("index.json"), "{half").unwrap();
    let mut proxy = start(&one(&[]), cache.path());
    until_state(&mut proxy, "g", "discovered");
    assert!(!proxy.log().contains("cache"), "{}", proxy.log());

    let none = TempDir::new().unwrap();
    let setup = Setup::new().env("XDG_CACHE_HOME", none.path().to_str().unwrap()).args(&["--no-cache"]);
    let mut proxy = setup.config(&one(&[])).ready();
    until_state(&mut proxy, "g", "discovered");
    proxy.close_stdin();
    proxy.ends();
    assert_eq!(std::fs::read_dir(none.path()).unwrap().count(), 0);
}

#[test]
fn no_secret_of_the_config_is_in_the_cache() {
    let cache = TempDir::new().unwrap();
    let config = servers([("g", with(upstream(&[]), json!({"env": {"TOKEN": "s3cr3t-canary"}})))]);
    let mut proxy = start(&config, cache.path());
    until_state(&mut proxy, "g", "discovered");
    proxy.close_stdin();
    proxy.ends();
    let mut files = 0;
    for file in std::fs::read_dir(cache.path().join("dynamic-mcp")).unwrap() {
        files += 1;
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        assert!(!text.contains("s3cr3t-canary"));
    }
    assert!(files >= 2, "index and definitions");
}

#[test]
fn a_failed_start_is_retried_by_itself_and_callers_wait_for_it() {
    // It fails once, then works.
    let dir = TempDir::new().unwrap();
    let marker = dir.path().join("once").to_str().unwrap().to_owned();
    let program = crate::support::program();
    let script =
        format!("test -e {marker} || {{ touch {marker}; exit 3; }}; exec {}", program.to_str().unwrap());
    let config = servers([("g", json!({"command": "sh", "args": ["-c", script]}))]);
    let mut proxy = Setup::new().args(&["--pure-lazy"]).config(&config).ready();
    assert_eq!(proxy.text("g", "echo", json!({"text": "x"})), "x");
    proxy.until_logged("exited with code 3");
    assert_eq!(proxy.group("g")["attempts"], 0, "success resets the counter");
}

#[test]
fn eager_comes_back_by_itself() {
    let mut proxy = Proxy::new(&servers([("g", mode(&[], "eager"))]));
    let first = proxy.upstream_pid("g");
    let died = nix::unistd::Pid::from_raw(first.cast_signed());
    nix::sys::signal::kill(died, nix::sys::signal::Signal::SIGKILL).unwrap();
    until("it is back", || {
        let group = proxy.group("g");
        group["state"] == "connected" && group["attempts"] == 0 && proxy.log().contains("connection lost")
    });
    assert_ne!(proxy.upstream_pid("g"), first);
}

#[test]
fn a_stateful_server_that_was_lost_is_not_silently_replaced() {
    let mut proxy = Proxy::new(&servers([("g", with(upstream(&[]), json!({"stateful": true})))]));
    proxy.text("g", "echo", json!({"text": "x"}));
    proxy.failure("g", "crash", json!({}));
    let told = proxy.failure("g", "echo", json!({"text": "x"}));
    assert!(told.contains("was restarted") && told.contains("not run"), "{told}");
    assert_eq!(proxy.text("g", "echo", json!({"text": "y"})), "y");
}

#[test]
fn who_waits_for_a_slow_start_hears_of_it_and_is_told_to_call_again() {
    let slow = with(upstream(&["--hang", "initialize"]), json!({"timeout": {"wait": "6s"}}));
    let mut proxy = Setup::new().args(&["--pure-lazy"]).config(&servers([("g", slow)])).ready();
    let arguments = json!({"group": "g", "name": "echo", "args": {}});
    let params =
        json!({"name": "call_dynamic_tool", "arguments": arguments, "_meta": {"progressToken": "t"}});
    let id = proxy.send("tools/call", params);
    let news = proxy.next().unwrap().json();
    assert_eq!(news["params"]["progressToken"], "t");
    assert_eq!(news["params"]["message"], "group g is starting (5 s so far)");
    assert!(news["params"]["progress"].as_f64().unwrap() <= 0.0, "what the server says comes after it");
    let answer = proxy.answer(id).json();
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert_eq!(text, "Group g is initializing (6 s so far), please retry in 10 seconds");
}

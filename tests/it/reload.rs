//! Reloads of the config: which changes restart which groups, and every way in which a file can be replaced.

use crate::support::{
    Proxy, ProxyCommand, config_of, is_alive, merged, scripted_upstream, text_of, wait_until,
};
use serde_json::{Value, json};
use std::fs;
#[cfg(unix)]
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Starts the program with all groups in pure mode, so that only a request starts a process.
fn start(config: &Value) -> Proxy {
    ProxyCommand::new().args(&["--pure-lazy"]).config(config).start_initialized()
}

/// Replaces the file by another one, as most editors do.
fn save(path: &Path, config: &Value) {
    let new = path.with_extension("new");
    fs::write(&new, config.to_string()).unwrap();
    // Wine does not replace a file while the program reads it.
    wait_until("the file is replaced", || fs::rename(&new, path).is_ok());
}

fn group_names(proxy: &mut Proxy) -> Vec<String> {
    let status = proxy.status();
    let groups = status["groups"].as_array().unwrap();
    groups.iter().map(|group| group["group"].as_str().unwrap().to_owned()).collect()
}

fn wait_for_groups(proxy: &mut Proxy, expected: &[&str]) {
    wait_until(&format!("the groups are {expected:?}"), || group_names(proxy) == expected);
}

/// A config with the group `kept`, and `entry` as the group `other`.
fn two_groups(entry: Value) -> Value {
    config_of([("kept", scripted_upstream(&[])), ("other", entry)])
}

#[test]
fn an_unchanged_group_keeps_its_process_and_its_open_calls() {
    let mut proxy = start(&two_groups(scripted_upstream(&[])));
    let (kept, other) = (proxy.upstream_pid("kept"), proxy.upstream_pid("other"));
    let call = proxy.send_call("kept", "sleep", json!({"ms": 1500}));
    save(&proxy.config_file(), &two_groups(scripted_upstream(&["--name", "another"])));
    wait_until("the changed group has stopped", || !is_alive(other));
    assert_ne!(proxy.upstream_pid("other"), other);
    assert!(proxy.response(call).json()["result"]["content"].is_array());
    assert_eq!(proxy.upstream_pid("kept"), kept);
}

#[test]
fn changed_settings_take_effect_without_a_restart() {
    let mut proxy = start(&two_groups(scripted_upstream(&[])));
    let pid = proxy.upstream_pid("other");
    let changed = merged(
        scripted_upstream(&[]),
        json!({"description": "Does other things", "timeout": {"tools": "1s"}, "tools": {"deny": ["echo"]}}),
    );
    save(&proxy.config_file(), &two_groups(changed));
    assert_eq!(proxy.next_message().unwrap().method(), Some("notifications/tools/list_changed"));
    let list = proxy.request("tools/list", json!({}))["result"].to_string();
    assert!(list.contains("Does other things"), "{list}");
    assert_eq!(proxy.upstream_pid("other"), pid);
    assert!(proxy.call_failure("other", "echo", json!({})).contains("has no tool"));
    assert!(proxy.call_failure("other", "sleep", json!({"ms": 5000})).contains("within 1 s"));
}

#[test]
fn newly_exposed_tools_enter_the_list() {
    let config_exposing =
        |globs: Value| config_of([("g", merged(scripted_upstream(&[]), json!({"expose": globs})))]);
    let mut proxy = ProxyCommand::new().config(&config_exposing(json!([]))).start_initialized();
    wait_until("the group is known", || proxy.status()["status"] == "ready");
    let is_listed = |proxy: &mut Proxy, name: &str| {
        proxy.request("tools/list", json!({}))["result"].to_string().contains(&format!("\"{name}\""))
    };
    assert!(!is_listed(&mut proxy, "g__echo"));
    save(&proxy.config_file(), &config_exposing(json!(["echo"])));
    wait_until("the tool is listed", || is_listed(&mut proxy, "g__echo"));
    save(&proxy.config_file(), &config_exposing(json!(["pid"])));
    wait_until("the other tool is listed", || is_listed(&mut proxy, "g__pid"));
    assert!(!is_listed(&mut proxy, "g__echo"));
}

#[test]
fn a_mode_changed_by_reload_takes_effect() {
    let mut proxy = ProxyCommand::new()
        .config(&two_groups(merged(scripted_upstream(&[]), json!({"lazy_startup": "pure"}))))
        .start_initialized();
    assert_eq!(proxy.group_status("other")["state"], "pending");
    save(&proxy.config_file(), &two_groups(merged(scripted_upstream(&[]), json!({"lazy_startup": "eager"}))));
    wait_until("the group is connected", || proxy.group_status("other")["state"] == "connected");
    save(
        &proxy.config_file(),
        &two_groups(merged(scripted_upstream(&[]), json!({"lazy_startup": "pure", "idle_timeout": "100ms"}))),
    );
    wait_until("the group idles out", || proxy.group_status("other")["state"] == "discovered");
}

#[test]
fn a_removed_group_finishes_its_calls_and_an_added_one_works() {
    let mut proxy = start(&two_groups(scripted_upstream(&[])));
    let pid = proxy.upstream_pid("other");
    let call = proxy.send_call("other", "sleep", json!({"ms": 1500}));
    let changed = config_of([("kept", scripted_upstream(&[])), ("new", scripted_upstream(&[]))]);
    save(&proxy.config_file(), &changed);
    wait_for_groups(&mut proxy, &["kept", "new"]);
    assert!(proxy.call_failure("other", "echo", json!({})).contains("There is no group \"other\""));
    assert!(proxy.response(call).json()["result"]["content"].is_array(), "the call was not cancelled");
    wait_until("its process is gone", || !is_alive(pid));
    assert_eq!(proxy.call_text("new", "echo", json!({"text": "x"})), "x");
}

#[test]
fn a_call_that_hangs_is_visible_and_learns_that_its_group_was_removed_or_replaced() {
    let mut proxy = start(&two_groups(scripted_upstream(&[])));
    for group in ["kept", "other"] {
        proxy.call_text(group, "echo", json!({"text": "x"}));
        assert_eq!(proxy.group_status(group)["inFlight"], 0);
    }
    let removed = proxy.send_call("other", "sleep", json!({"ms": 60_000}));
    let replaced = proxy.send_call("kept", "sleep", json!({"ms": 60_000}));
    wait_until("it is in flight", || proxy.group_status("other")["inFlightMs"].as_u64() >= Some(1000));
    let status = proxy.call_meta_tool("get_status", json!({}));
    assert_eq!(status["structuredContent"]["groups"][1]["inFlight"], 1, "{status}");
    assert!(text_of(&status).contains(", 1 call in flight for "), "{status}");
    save(&proxy.config_file(), &config_of([("kept", scripted_upstream(&["--name", "new"]))]));
    for (call, expected) in [
        (removed, ["an edit of the config removed the group", "Do not call it again unless the user adds"]),
        (replaced, ["an edit of the config restarted the server", "Call again"]),
    ] {
        let response = proxy.response(call).json();
        let text = text_of(&response["result"]);
        assert!(expected.iter().all(|part| text.contains(part)), "{text}");
    }
}

#[test]
fn an_added_group_is_discovered() {
    let mut proxy =
        ProxyCommand::new().config(&config_of([("a", scripted_upstream(&[]))])).start_initialized();
    wait_until("a is known", || proxy.group_status("a")["state"] == "discovered");
    save(
        &proxy.config_file(),
        &config_of([("a", scripted_upstream(&[])), ("b", scripted_upstream(&["--name", "Server B"]))]),
    );
    wait_until("b is known", || {
        group_names(&mut proxy).len() == 2 && proxy.group_status("b")["state"] == "discovered"
    });
    wait_until("b is in the list", || {
        proxy.request("tools/list", json!({})).to_string().contains("Server B")
    });
}

#[test]
fn an_incomplete_file_is_ignored_until_it_is_complete() {
    let mut proxy = start(&two_groups(scripted_upstream(&[])));
    let pid = proxy.upstream_pid("kept");
    let path = proxy.config_file();
    fs::write(&path, "{\"mcpServers\": {\"kept\":").unwrap();
    proxy.wait_for_log("config not reloaded");
    let status = proxy.status();
    assert!(status["error"].as_str().unwrap().contains("servers.json:1:"), "{status}");
    assert_eq!(group_names(&mut proxy), ["kept", "other"], "the last config stays in use");
    fs::write(&path, config_of([("kept", scripted_upstream(&[]))]).to_string()).unwrap();
    wait_for_groups(&mut proxy, &["kept"]);
    assert_eq!(proxy.status()["error"], Value::Null);
    assert_eq!(proxy.upstream_pid("kept"), pid);
}

#[test]
fn a_deleted_file_is_ignored_until_it_exists_again() {
    let mut proxy = start(&two_groups(scripted_upstream(&[])));
    let path = proxy.config_file();
    fs::remove_file(&path).unwrap();
    proxy.wait_for_log("config not reloaded");
    assert_eq!(group_names(&mut proxy), ["kept", "other"]);
    fs::write(&path, config_of([("new", scripted_upstream(&[]))]).to_string()).unwrap();
    wait_for_groups(&mut proxy, &["new"]);
}

// It needs links.
#[cfg(unix)]
#[test]
fn changed_symlinks_to_the_file_and_its_directory_are_followed() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    for (version, group) in [("one", "a"), ("two", "b")] {
        fs::create_dir(path(version)).unwrap();
        fs::write(
            path(version).join("servers.json"),
            config_of([(group, scripted_upstream(&[]))]).to_string(),
        )
        .unwrap();
    }
    // Kubernetes mounts files like this: servers.json → ..data/servers.json, ..data → one.
    symlink("one", path("..data")).unwrap();
    symlink("..data/servers.json", path("servers.json")).unwrap();
    let command =
        ProxyCommand::new().args(&["--pure-lazy", "--config", path("servers.json").to_str().unwrap()]);
    let mut proxy = command.start_initialized();
    assert_eq!(group_names(&mut proxy), ["a"]);
    symlink("two", path("..new")).unwrap();
    fs::rename(path("..new"), path("..data")).unwrap();
    wait_for_groups(&mut proxy, &["b"]);
    // The file changes in the directory that the link points to now.
    fs::write(path("two").join("servers.json"), config_of([("c", scripted_upstream(&[]))]).to_string())
        .unwrap();
    wait_for_groups(&mut proxy, &["c"]);
}

// It needs links.
#[cfg(unix)]
#[test]
fn a_changed_link_in_the_path_of_the_config_is_followed() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    for (version, group) in [("releases/1", "a"), ("releases/2", "b")] {
        fs::create_dir_all(path(version)).unwrap();
        let config = config_of([(group, scripted_upstream(&[]))]).to_string();
        fs::write(path(version).join("servers.json"), config).unwrap();
    }
    symlink("releases/1", path("current")).unwrap();
    let config = path("current/servers.json");
    let command = ProxyCommand::new().args(&["--pure-lazy", "--config", config.to_str().unwrap()]);
    let mut proxy = command.start_initialized();
    assert_eq!(group_names(&mut proxy), ["a"]);
    symlink("releases/2", path("next")).unwrap();
    fs::rename(path("next"), path("current")).unwrap();
    wait_for_groups(&mut proxy, &["b"]);
}

// It needs modes.
#[cfg(unix)]
#[test]
fn a_file_that_cannot_be_read_changes_nothing() {
    let mut proxy = start(&two_groups(scripted_upstream(&[])));
    let path = proxy.config_file();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    // Root can read the file, which has not changed.
    assert_eq!(group_names(&mut proxy), ["kept", "other"]);
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    proxy.wait_for_log("config not reloaded");
    assert_eq!(group_names(&mut proxy), ["kept", "other"]);
}

#[test]
fn saving_the_same_content_changes_nothing() {
    let config = two_groups(scripted_upstream(&[]));
    let mut proxy = start(&config);
    let pid = proxy.upstream_pid("kept");
    save(&proxy.config_file(), &config);
    fs::write(proxy.config_file(), config.to_string()).unwrap();
    // This change is visible, so the saves before it have been processed, too.
    save(&proxy.config_file(), &config_of([("kept", scripted_upstream(&[]))]));
    wait_for_groups(&mut proxy, &["kept"]);
    assert_eq!(proxy.upstream_pid("kept"), pid);
}

#[test]
fn a_group_whose_entry_becomes_invalid_keeps_its_last_config() {
    let mut proxy = start(&two_groups(scripted_upstream(&[])));
    let pid = proxy.upstream_pid("other");
    save(&proxy.config_file(), &two_groups(json!({"command": 3})));
    proxy.wait_for_log("the group goes on as it was");
    let error = proxy.status()["error"].as_str().unwrap().to_owned();
    assert!(error.contains("\"other\""), "{error}");
    assert!(error.ends_with("; until this is corrected, what was valid before stays in effect"), "{error}");
    assert_eq!(proxy.upstream_pid("other"), pid);
}

#[test]
fn a_hundred_reloads_lose_no_call() {
    let config = |n: usize| {
        let other = merged(scripted_upstream(&[]), json!({"env": {"N": n.to_string()}}));
        config_of([("kept", scripted_upstream(&[])), ("other", other)])
    };
    let mut proxy = start(&config(0));
    let kept = proxy.upstream_pid("kept");
    let path = proxy.config_file();
    let saves = std::thread::spawn(move || {
        for n in 1..=100 {
            save(&path, &config(n));
            std::thread::sleep(std::time::Duration::from_millis(60));
        }
    });
    let mut calls = 0;
    while !saves.is_finished() {
        let ids: Vec<_> = (0..8)
            .map(|n| {
                let group = if n % 4 == 0 { "other" } else { "kept" };
                proxy.send_call(group, "echo", json!({"text": n.to_string()}))
            })
            .collect();
        for (n, id) in ids.into_iter().enumerate() {
            let response = proxy.response(id).json();
            assert_eq!(response["result"]["content"][0]["text"], n.to_string(), "{response}");
            calls += 1;
        }
    }
    saves.join().unwrap();
    assert!(calls > 100, "{calls}");
    assert_eq!(proxy.upstream_pid("kept"), kept, "the unchanged group was not restarted");
    let is_last = |proxy: &mut Proxy| proxy.call_text("other", "env", json!({})).contains("\"N\":\"100\"");
    wait_until("the last config is in use", || is_last(&mut proxy));
}

/// A config whose group `other` never answers `initialize`. Another `n` is another server.
fn silent_group(n: usize, wait: &str) -> Value {
    let settings = json!({"env": {"N": n.to_string()}, "timeout": {"wait": wait}});
    two_groups(merged(scripted_upstream(&["--hang", "initialize"]), settings))
}

#[test]
fn a_call_that_waits_follows_its_group_through_every_reload() {
    let mut proxy = start(&silent_group(0, "60s"));
    let attempts = |proxy: &Proxy| proxy.log().matches("Connecting to other on-demand").count();
    let call = proxy.send_call("other", "echo", json!({"text": "x"}));
    for n in 1..=5 {
        wait_until("the call waits for the newest entry", || attempts(&proxy) == n);
        save(&proxy.config_file(), &silent_group(n, "60s"));
    }
    wait_until("the call waits for the last silent server", || attempts(&proxy) == 6);
    save(&proxy.config_file(), &two_groups(scripted_upstream(&[])));
    let response = proxy.response(call).json();
    assert_eq!(response["result"]["content"][0]["text"], "x", "{response}");
}

#[test]
fn reloads_do_not_make_a_call_wait_longer() {
    let mut proxy = start(&silent_group(0, "2s"));
    let call = proxy.send_call("other", "echo", json!({"text": "x"}));
    let path = proxy.config_file();
    let is_answered = Arc::new(AtomicBool::new(false));
    let saves = std::thread::spawn({
        let is_answered = is_answered.clone();
        move || {
            for n in 1.. {
                if is_answered.load(Ordering::Relaxed) {
                    return;
                }
                save(&path, &silent_group(n, "2s"));
                std::thread::sleep(std::time::Duration::from_millis(200));
            }
        }
    });
    let text = text_of(&proxy.response(call).json()["result"]).to_owned();
    is_answered.store(true, Ordering::Relaxed);
    saves.join().unwrap();
    assert!(text.contains("Group other is initializing (2 s so far)"), "{text}");
    assert!(proxy.log().matches("the server of this group changed").count() > 3, "{}", proxy.log());
}

#[test]
fn a_replaced_group_that_fails_at_once_does_not_keep_discovery_open() {
    let remote_entry = |n: u8| json!({"url": format!("http://127.0.0.1:1/{n}")});
    let config = |n| {
        config_of([
            ("kept", merged(scripted_upstream(&[]), json!({"lazy_startup": "pure"}))),
            ("http", remote_entry(n)),
        ])
    };
    let mut proxy = Proxy::new(&config(1));
    wait_until("discovery is over", || proxy.status()["status"] == "ready");
    save(&proxy.config_file(), &config(2));
    proxy.wait_for_log("the server of this group changed");
    wait_until("discovery is over again", || proxy.status()["status"] == "ready");
}

#[test]
fn a_group_that_is_removed_and_added_again_starts_after_its_old_process_has_exited() {
    let mut proxy = start(&two_groups(scripted_upstream(&[])));
    let old = proxy.upstream_pid("other");
    let call = proxy.send_call("other", "sleep", json!({"ms": 2500}));
    save(&proxy.config_file(), &config_of([("kept", scripted_upstream(&[]))]));
    wait_for_groups(&mut proxy, &["kept"]);
    save(&proxy.config_file(), &two_groups(scripted_upstream(&[])));
    wait_for_groups(&mut proxy, &["kept", "other"]);
    assert!(is_alive(old), "its call is still open");
    assert_ne!(proxy.upstream_pid("other"), old);
    assert!(!is_alive(old));
    assert!(proxy.response(call).json()["result"]["content"].is_array());
}

#[test]
fn an_added_group_that_the_cache_knows_is_in_the_list_at_once() {
    let cache = tempfile::tempdir().unwrap();
    let entry = |name| merged(scripted_upstream(&["--name", name]), json!({"cwd": "/"}));
    let both = config_of([("a", entry("Server A")), ("b", entry("Server B"))]);
    let command = || ProxyCommand::new().env("XDG_CACHE_HOME", cache.path().to_str().unwrap());
    let mut first = command().config(&both).start_initialized();
    wait_until("all groups are known", || first.status()["status"] == "ready");
    first.close_stdin();
    first.wait_for_exit();
    let mut second = command().config(&config_of([("a", entry("Server A"))])).start_initialized();
    save(&second.config_file(), &both);
    wait_for_groups(&mut second, &["a", "b"]);
    assert_eq!(second.group_status("b")["cached"], true);
    let list = second.request("tools/list", json!({})).to_string();
    assert!(list.contains("Server B"), "{list}");
}

#[test]
fn a_pure_group_that_becomes_hybrid_is_discovered() {
    let config_in_mode =
        |mode| config_of([("g", merged(scripted_upstream(&[]), json!({"lazy_startup": mode})))]);
    let mut proxy = ProxyCommand::new().config(&config_in_mode("pure")).start_initialized();
    save(&proxy.config_file(), &config_in_mode("hybrid"));
    wait_until("the group is known", || proxy.group_status("g")["state"] == "discovered");
    wait_until("it is in the list", || proxy.request("tools/list", json!({})).to_string().contains("echo"));
    assert_eq!(proxy.status()["status"], "ready");
}

#[test]
fn a_reload_before_initialize_starts_no_group() {
    let config_in_mode =
        |mode| config_of([("g", merged(scripted_upstream(&[]), json!({"lazy_startup": mode})))]);
    let mut proxy = ProxyCommand::new().config(&config_in_mode("pure")).start();
    proxy.request("ping", json!({}));
    save(&proxy.config_file(), &config_in_mode("eager"));
    proxy.wait_for_log("the config changed before a client came");
    proxy.request("ping", json!({}));
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(crate::support::Processes::descendants_of(proxy.pid()).0, []);
}

#[test]
fn a_change_during_startup_is_not_missed() {
    for step in 0..20 {
        let mut proxy =
            ProxyCommand::new().args(&["--pure-lazy"]).config(&two_groups(scripted_upstream(&[]))).start();
        std::thread::sleep(std::time::Duration::from_micros(1000 * step));
        save(&proxy.config_file(), &config_of([("new", scripted_upstream(&[]))]));
        proxy.handshake();
        wait_for_groups(&mut proxy, &["new"]);
    }
}

/// The value of a variable in the environment of the group `other`; empty if it cannot be started now.
fn env(proxy: &mut Proxy, name: &str) -> String {
    let result = proxy.call_tool("other", "env", json!({}));
    let env: Value = serde_json::from_str(text_of(&result)).unwrap_or_default();
    env[name].as_str().unwrap_or_default().to_owned()
}

/// A config whose group `other` has variables from `env_file` and from a `{file:…}`.
fn config_with_files() -> Value {
    let entry = json!({"env_file": "secrets/a.env", "env": {"TOKEN": "{file:secrets/token}"}});
    two_groups(merged(scripted_upstream(&[]), entry))
}

#[test]
fn changed_files_that_the_config_names_restart_the_groups_that_use_them() {
    let command = ProxyCommand::new().args(&["--pure-lazy"]);
    let dir = command.home().join("secrets");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("a.env"), "LEVEL=one\n").unwrap();
    fs::write(dir.join("token"), "t1\n").unwrap();
    let mut proxy = command.config(&config_with_files()).start_initialized();
    let kept = proxy.upstream_pid("kept");
    assert_eq!((env(&mut proxy, "LEVEL"), env(&mut proxy, "TOKEN")), ("one".to_owned(), "t1".to_owned()));
    // In place, as `echo >` does.
    fs::write(dir.join("token"), "t2\n").unwrap();
    wait_until("the new token is used", || env(&mut proxy, "TOKEN") == "t2");
    // By another file of the same length, as editors do; its modification time is older.
    let new = dir.join("new");
    fs::write(&new, "LEVEL=two\n").unwrap();
    fs::File::open(&new).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    fs::rename(&new, dir.join("a.env")).unwrap();
    wait_until("the new variable is used", || env(&mut proxy, "LEVEL") == "two");
    // Another config names another file, which is watched from then on, and does not exist yet.
    let entry = merged(scripted_upstream(&[]), json!({"env": {"TOKEN": "{file:secrets/later/token}"}}));
    save(&proxy.config_file(), &two_groups(entry));
    wait_until("the missing file is reported", || {
        proxy.call_meta_tool("get_status", json!({})).to_string().contains("no such file")
    });
    fs::create_dir(dir.join("later")).unwrap();
    fs::write(dir.join("later/token"), "t3").unwrap();
    wait_until("the file that exists now is used", || env(&mut proxy, "TOKEN") == "t3");
    assert_eq!(proxy.upstream_pid("kept"), kept, "the other group went on");
}

#[test]
fn a_change_during_startup_of_a_file_that_the_config_names_is_not_missed() {
    for step in 0..10 {
        let command = ProxyCommand::new().args(&["--pure-lazy"]);
        let dir = command.home().join("secrets");
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("a.env"), "LEVEL=one\n").unwrap();
        fs::write(dir.join("token"), "old").unwrap();
        let mut proxy = command.config(&config_with_files()).start();
        std::thread::sleep(std::time::Duration::from_micros(1000 * step));
        fs::write(dir.join("token"), "new").unwrap();
        proxy.handshake();
        wait_until("the new token is used", || env(&mut proxy, "TOKEN") == "new");
    }
}

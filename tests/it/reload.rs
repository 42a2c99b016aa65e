//! A config file that changes while the program runs, in every way that files change.

use crate::support::{Proxy, Setup, alive, as_configured as servers, until, upstream, with};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

/// Pure, so that a process says that somebody asked.
fn start(config: &Value) -> Proxy {
    Setup::new().args(&["--pure-lazy"]).config(config).ready()
}

/// As most editors save: another file takes the place of the old one.
fn save(path: &Path, config: &Value) {
    let new = path.with_extension("new");
    fs::write(&new, config.to_string()).unwrap();
    fs::rename(&new, path).unwrap();
}

fn groups(proxy: &mut Proxy) -> Vec<String> {
    let status = proxy.status();
    let groups = status["groups"].as_array().unwrap();
    groups.iter().map(|group| group["group"].as_str().unwrap().to_owned()).collect()
}

fn until_groups(proxy: &mut Proxy, wanted: &[&str]) {
    until(&format!("the groups are {wanted:?}"), || groups(proxy) == wanted);
}

fn two(second: Value) -> Value {
    servers([("kept", upstream(&[])), ("other", second)])
}

#[test]
fn what_did_not_change_keeps_its_process_and_its_calls_in_flight() {
    let mut proxy = start(&two(upstream(&[])));
    let (kept, other) = (proxy.upstream_pid("kept"), proxy.upstream_pid("other"));
    let call = proxy.send_call("kept", "sleep", json!({"ms": 1500}));
    save(&proxy.config_file(), &two(upstream(&["--name", "another"])));
    until("the other one has ended", || !alive(other));
    assert_ne!(proxy.upstream_pid("other"), other);
    assert!(proxy.answer(call).json()["result"]["content"].is_array());
    assert_eq!(proxy.upstream_pid("kept"), kept);
}

#[test]
fn a_changed_description_timeout_or_mode_restarts_nothing_and_takes_effect() {
    let mut proxy = start(&two(upstream(&[])));
    let pid = proxy.upstream_pid("other");
    let changed = with(
        upstream(&[]),
        json!({"description": "Does other things", "timeout": {"tools": "1s"}, "tools": {"deny": ["echo"]}}),
    );
    save(&proxy.config_file(), &two(changed));
    assert_eq!(proxy.next().unwrap().method(), Some("notifications/tools/list_changed"));
    let list = proxy.ask("tools/list", json!({}))["result"].to_string();
    assert!(list.contains("Does other things"), "{list}");
    assert_eq!(proxy.upstream_pid("other"), pid);
    assert!(proxy.failure("other", "echo", json!({})).contains("has no tool"));
    assert!(proxy.failure("other", "sleep", json!({"ms": 5000})).contains("within 1 s"));
}

#[test]
fn tools_that_are_exposed_now_enter_the_list() {
    let exposing = |globs: Value| servers([("g", with(upstream(&[]), json!({"expose": globs})))]);
    let mut proxy = Setup::new().config(&exposing(json!([]))).ready();
    until("it is known", || proxy.status()["status"] == "ready");
    let listed = |proxy: &mut Proxy, name: &str| {
        proxy.ask("tools/list", json!({}))["result"].to_string().contains(&format!("\"{name}\""))
    };
    assert!(!listed(&mut proxy, "g__echo"));
    save(&proxy.config_file(), &exposing(json!(["echo"])));
    until("it is listed", || listed(&mut proxy, "g__echo"));
    save(&proxy.config_file(), &exposing(json!(["pid"])));
    until("the other is listed", || listed(&mut proxy, "g__pid"));
    assert!(!listed(&mut proxy, "g__echo"));
}

#[test]
fn a_mode_changed_by_reload_takes_effect() {
    let mut proxy = Setup::new().config(&two(with(upstream(&[]), json!({"lazy_startup": "pure"})))).ready();
    assert_eq!(proxy.group("other")["state"], "pending");
    save(&proxy.config_file(), &two(with(upstream(&[]), json!({"lazy_startup": "eager"}))));
    until("it is connected", || proxy.group("other")["state"] == "connected");
    save(
        &proxy.config_file(),
        &two(with(upstream(&[]), json!({"lazy_startup": "pure", "idle_timeout": "100ms"}))),
    );
    until("it idles out", || proxy.group("other")["state"] == "discovered");
}

#[test]
fn groups_come_and_go_and_what_is_removed_finishes_its_calls() {
    let mut proxy = start(&two(upstream(&[])));
    let pid = proxy.upstream_pid("other");
    let call = proxy.send_call("other", "sleep", json!({"ms": 1500}));
    let now = servers([("kept", upstream(&[])), ("new", upstream(&[]))]);
    save(&proxy.config_file(), &now);
    until_groups(&mut proxy, &["kept", "new"]);
    assert!(proxy.failure("other", "echo", json!({})).contains("There is no group \"other\""));
    assert!(proxy.answer(call).json()["result"]["content"].is_array(), "it was drained");
    until("its process is gone", || !alive(pid));
    assert_eq!(proxy.text("new", "echo", json!({"text": "x"})), "x");
}

#[test]
fn added_groups_are_discovered_like_those_of_the_start() {
    let mut proxy = Setup::new().config(&servers([("a", upstream(&[]))])).ready();
    until("a is known", || proxy.group("a")["state"] == "discovered");
    save(&proxy.config_file(), &servers([("a", upstream(&[])), ("b", upstream(&["--name", "Server B"]))]));
    until("b is known", || groups(&mut proxy).len() == 2 && proxy.group("b")["state"] == "discovered");
    until("b is in the list", || proxy.ask("tools/list", json!({})).to_string().contains("Server B"));
}

#[test]
fn a_file_written_in_place_and_half_written_ones() {
    let mut proxy = start(&two(upstream(&[])));
    let pid = proxy.upstream_pid("kept");
    let path = proxy.config_file();
    fs::write(&path, "{\"mcpServers\": {\"kept\":").unwrap();
    proxy.until_logged("config not reloaded");
    let status = proxy.status();
    assert!(status["error"].as_str().unwrap().contains("servers.json:1:"), "{status}");
    assert_eq!(groups(&mut proxy), ["kept", "other"], "what was in force stays so");
    fs::write(&path, servers([("kept", upstream(&[]))]).to_string()).unwrap();
    until_groups(&mut proxy, &["kept"]);
    assert_eq!(proxy.status()["error"], Value::Null);
    assert_eq!(proxy.upstream_pid("kept"), pid);
}

#[test]
fn a_file_that_was_deleted_and_is_back() {
    let mut proxy = start(&two(upstream(&[])));
    let path = proxy.config_file();
    fs::remove_file(&path).unwrap();
    proxy.until_logged("config not reloaded");
    assert_eq!(groups(&mut proxy), ["kept", "other"]);
    fs::write(&path, servers([("back", upstream(&[]))]).to_string()).unwrap();
    until_groups(&mut proxy, &["back"]);
}

#[test]
fn a_link_that_leads_elsewhere_and_a_directory_that_is_swapped() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for (version, group) in [("one", "a"), ("two", "b")] {
        fs::create_dir(at(version)).unwrap();
        fs::write(at(version).join("servers.json"), servers([(group, upstream(&[]))]).to_string()).unwrap();
    }
    // As Kubernetes does it: servers.json → ..data/servers.json, ..data → one.
    symlink("one", at("..data")).unwrap();
    symlink("..data/servers.json", at("servers.json")).unwrap();
    let setup = Setup::new().args(&["--pure-lazy", "--config", at("servers.json").to_str().unwrap()]);
    let mut proxy = setup.ready();
    assert_eq!(groups(&mut proxy), ["a"]);
    symlink("two", at("..new")).unwrap();
    fs::rename(at("..new"), at("..data")).unwrap();
    until_groups(&mut proxy, &["b"]);
    // And in the directory it leads to now.
    fs::write(at("two").join("servers.json"), servers([("c", upstream(&[]))]).to_string()).unwrap();
    until_groups(&mut proxy, &["c"]);
}

#[test]
fn a_file_that_cannot_be_read_changes_nothing() {
    let mut proxy = start(&two(upstream(&[])));
    let path = proxy.config_file();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    // Root reads it all the same; then nothing has changed either.
    assert_eq!(groups(&mut proxy), ["kept", "other"]);
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    proxy.until_logged("config not reloaded");
    assert_eq!(groups(&mut proxy), ["kept", "other"]);
}

#[test]
fn the_same_content_again_does_nothing() {
    let config = two(upstream(&[]));
    let mut proxy = start(&config);
    let pid = proxy.upstream_pid("kept");
    save(&proxy.config_file(), &config);
    fs::write(proxy.config_file(), config.to_string()).unwrap();
    // Something that is seen, so that what was before it has been looked at.
    save(&proxy.config_file(), &servers([("kept", upstream(&[]))]));
    until_groups(&mut proxy, &["kept"]);
    assert_eq!(proxy.upstream_pid("kept"), pid);
}

#[test]
fn an_entry_that_is_wrong_now_goes_on_as_it_was() {
    let mut proxy = start(&two(upstream(&[])));
    let pid = proxy.upstream_pid("other");
    save(&proxy.config_file(), &two(json!({"command": 3})));
    proxy.until_logged("the group goes on as it was");
    assert!(proxy.status()["error"].as_str().unwrap().contains("\"other\""));
    assert_eq!(proxy.upstream_pid("other"), pid);
}

#[test]
fn a_hundred_reloads_lose_no_call() {
    let config = |n: usize| {
        let other = with(upstream(&[]), json!({"env": {"N": n.to_string()}}));
        servers([("kept", upstream(&[])), ("other", other)])
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
            let answer = proxy.answer(id).json();
            assert_eq!(answer["result"]["content"][0]["text"], n.to_string(), "{answer}");
            calls += 1;
        }
    }
    saves.join().unwrap();
    assert!(calls > 100, "{calls}");
    assert_eq!(proxy.upstream_pid("kept"), kept, "the unchanged one was never touched");
    let last = |proxy: &mut Proxy| proxy.text("other", "env", json!({})).contains("\"N\":\"100\"");
    until("the last config is in force", || last(&mut proxy));
}

#[test]
fn a_replaced_group_that_fails_at_once_does_not_keep_discovery_open() {
    let remote = |n: u8| json!({"url": format!("http://127.0.0.1:1/{n}")});
    let config =
        |n| servers([("kept", with(upstream(&[]), json!({"lazy_startup": "pure"}))), ("http", remote(n))]);
    let mut proxy = Proxy::new(&config(1));
    until("discovery is over", || proxy.status()["status"] == "ready");
    save(&proxy.config_file(), &config(2));
    proxy.until_logged("the server of this group changed");
    until("discovery is over again", || proxy.status()["status"] == "ready");
}

#[test]
fn a_group_removed_and_added_again_begins_when_the_old_process_has_ended() {
    let mut proxy = start(&two(upstream(&[])));
    let old = proxy.upstream_pid("other");
    let call = proxy.send_call("other", "sleep", json!({"ms": 2500}));
    save(&proxy.config_file(), &servers([("kept", upstream(&[]))]));
    until_groups(&mut proxy, &["kept"]);
    save(&proxy.config_file(), &two(upstream(&[])));
    until_groups(&mut proxy, &["kept", "other"]);
    assert!(alive(old), "its call is still in flight");
    assert_ne!(proxy.upstream_pid("other"), old);
    assert!(!alive(old));
    assert!(proxy.answer(call).json()["result"]["content"].is_array());
}

#[test]
fn a_group_that_is_added_and_known_from_the_cache_is_in_the_list_at_once() {
    let cache = tempfile::tempdir().unwrap();
    let at_root = |name| with(upstream(&["--name", name]), json!({"cwd": "/"}));
    let both = servers([("a", at_root("Server A")), ("b", at_root("Server B"))]);
    let setup = || Setup::new().env("XDG_CACHE_HOME", cache.path().to_str().unwrap());
    let mut first = setup().config(&both).ready();
    until("all is known", || first.status()["status"] == "ready");
    first.close_stdin();
    first.ends();
    let mut second = setup().config(&servers([("a", at_root("Server A"))])).ready();
    save(&second.config_file(), &both);
    until_groups(&mut second, &["a", "b"]);
    assert_eq!(second.group("b")["cached"], true);
    let list = second.ask("tools/list", json!({})).to_string();
    assert!(list.contains("Server B"), "{list}");
}

#[test]
fn a_pure_group_that_becomes_hybrid_is_discovered() {
    let mode = |mode| servers([("g", with(upstream(&[]), json!({"lazy_startup": mode})))]);
    let mut proxy = Setup::new().config(&mode("pure")).ready();
    save(&proxy.config_file(), &mode("hybrid"));
    until("it is known", || proxy.group("g")["state"] == "discovered");
    until("it is in the list", || proxy.ask("tools/list", json!({})).to_string().contains("echo"));
    assert_eq!(proxy.status()["status"], "ready");
}

#[test]
fn a_reload_before_there_is_a_client_starts_nothing() {
    let mode = |mode| servers([("g", with(upstream(&[]), json!({"lazy_startup": mode})))]);
    let mut proxy = Setup::new().config(&mode("pure")).start();
    proxy.ask("ping", json!({}));
    save(&proxy.config_file(), &mode("eager"));
    proxy.until_logged("the config changed before a client came");
    proxy.ask("ping", json!({}));
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(crate::support::Processes::below(proxy.pid()).0, []);
}

#[test]
fn what_is_saved_while_the_program_starts_is_not_missed() {
    for step in 0..20 {
        let mut proxy = Setup::new().args(&["--pure-lazy"]).config(&two(upstream(&[]))).start();
        std::thread::sleep(std::time::Duration::from_micros(1000 * step));
        save(&proxy.config_file(), &servers([("new", upstream(&[]))]));
        proxy.handshake();
        until_groups(&mut proxy, &["new"]);
    }
}

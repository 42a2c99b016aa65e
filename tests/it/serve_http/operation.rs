//! Probes, the end, and servers that are not for all.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fs;
#[cfg(unix)]
use std::io::Write;
use std::process::Command;
use std::time::Duration;
use tokio::time::Instant;

use super::{Served, call_params, config, for_all, read_head, stateless_message, stateless_post};
use crate::remote::Server;
use crate::support::{InputRecord, ProxyCommand, base_env, output_of, scripted_upstream, wait_until};

const READY: &str = "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n";

#[test]
fn a_local_server_is_for_all_users_only_if_the_config_says_so() {
    let mut private = scripted_upstream(&[]);
    private["share"] = json!("user");
    let served = Served::start(&config([("open", for_all(&[])), ("private", private)]), &[]);
    assert!(served.proxy.log().contains("\"all_users\": true"), "{}", served.proxy.log());
    assert_eq!(served.call(&[], "open", "echo", json!({"text": "x"}))["result"]["content"][0]["text"], "x");
    let refused = served.call(&[], "private", "echo", json!({"text": "x"}));
    assert_eq!(refused["result"]["isError"], true, "{refused}");
    let status = served.request("tools/call", json!({"name": "get_status", "arguments": {}}));
    assert!(!status.json().to_string().contains("private"));
}

#[test]
fn the_config_is_read_again() {
    let served = Served::start(&config([("g", for_all(&[]))]), &[]);
    let other = config([("g", for_all(&[])), ("h", for_all(&[])), ("private", scripted_upstream(&[]))]);
    fs::write(served.proxy.config_file(), other.to_string()).unwrap();
    let works =
        |group: &str| served.call(&[], group, "echo", json!({"text": "x"}))["result"]["isError"].is_null();
    wait_until("the new server is there", || works("h"));
    assert!(works("g") && !works("private"));
}

/// Whoever starts many replicas then keeps those that work.
#[test]
fn a_config_that_cannot_be_read_ends_it_before_it_listens() {
    let dir = tempfile::TempDir::new().unwrap();
    let file = dir.path().join("servers.json");
    for content in [None, Some("{"), Some("[]"), Some(r#"{"mcpServers": []}"#), Some(r#"{"mcpserver": {}}"#)]
    {
        if let Some(content) = content {
            fs::write(&file, content).unwrap();
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_dynamic-mcp"));
        command.env_clear().envs(base_env(dir.path())).current_dir(dir.path());
        let output = output_of(command.args(["--config", "servers.json", "serve", "--http", "127.0.0.1:0"]));
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(78), "{content:?}: {text}");
        assert!(text.contains("servers.json") && !text.contains("listening"), "{text}");
    }
}

#[test]
fn one_wrong_entry_ends_nothing() {
    let mut config = config([("g", for_all(&[])), ("wrong", json!({"command": 7}))]);
    config["settings"]["idle_timeout"] = json!("never ever");
    let served = Served::start(&config, &[]);
    assert!(served.call(&[], "g", "echo", json!({"text": "x"}))["result"]["isError"].is_null());
    fs::write(served.proxy.config_file(), "{").unwrap();
    served.proxy.wait_for_log("config not reloaded");
    assert!(served.call(&[], "g", "echo", json!({"text": "x"}))["result"]["isError"].is_null());
}

#[test]
fn it_is_ready_when_the_first_lists_are_read() {
    let mut config = config([("g", for_all(&[]))]);
    config["settings"] = json!({"lazy_startup": "hybrid"});
    let served = Served::start(&config, &[]);
    assert_eq!(served.send(READY).status, 200);
    let search = json!({"name": "search_dynamic_tools", "arguments": {"query": "echo text"}});
    let found = served.request("tools/call", search).json();
    assert!(found["result"]["content"][0]["text"].as_str().unwrap().contains("g / echo"), "{found}");
}

#[test]
#[cfg(unix)]
fn the_end_waits_for_open_requests_and_ends_streams() {
    let record = InputRecord::new();
    let mut served = Served::start(&config([("g", record.attached_to(for_all(&[])))]), &[]);
    let mut listener =
        served.request("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    listener.event().unwrap();
    let sleep = call_params("g", "sleep", json!({"ms": 2000}));
    let open = served.begin(&stateless_post(&[], "tools/call", sleep));
    record.wait_for("tools/call", 0);
    let begin = Instant::now();
    let pid = nix::unistd::Pid::from_raw(served.proxy.pid().try_into().unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    wait_until("it is not ready", || served.send(READY).status == 503);
    let ended = listener.event().unwrap();
    assert_eq!((&ended["id"], &ended["result"]["resultType"]), (&json!(1), &json!("complete")));
    assert!(listener.event().is_none());
    // A load balancer that has not looked yet still sends requests.
    let late = served.request("tools/list", json!({}));
    assert_eq!((late.status, late.header("connection")), (200, "close"));
    let mut response = read_head(open);
    assert_eq!(response.status, 200);
    assert!(response.text().contains("\"result\""), "the open call was answered");
    let (status, _) = served.proxy.wait_for_exit();
    assert!(status.success() && begin.elapsed() < Duration::from_secs(25), "{status} {:?}", begin.elapsed());
}

#[test]
#[cfg(unix)]
fn the_end_waits_for_a_body_that_is_arriving() {
    let mut served = Served::start(&config([]), &[]);
    wait_until("it is ready", || served.send(READY).status == 200);
    let request = stateless_post(&[], "tools/list", json!({}));
    let (sent, rest) = request.split_at(request.len() - 10);
    let mut open = served.begin(sent);
    wait_until("the head was read", || served.send(READY).status == 200);
    let pid = nix::unistd::Pid::from_raw(served.proxy.pid().try_into().unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    // Longer than the end waits for requests that may still come.
    std::thread::sleep(Duration::from_secs(4));
    open.write_all(rest.as_bytes()).unwrap();
    assert_eq!(read_head(open).status, 200);
    assert!(served.proxy.wait_for_exit().0.success());
}

/// Kubernetes mounts a ConfigMap or a Secret as links to files in a directory that is itself behind the link `..data`. A
/// change replaces that link alone.
#[test]
fn what_kubernetes_mounts_is_read_again() {
    let dir = tempfile::TempDir::new().unwrap();
    let write = |version: &str, servers: &[&str], token: &str, key: u8| {
        let to = dir.path().join(version);
        fs::create_dir(&to).unwrap();
        let mut all = config([]);
        for server in servers {
            all["mcpServers"][server] = for_all(&["--protocol", "--stateless", "--tasks"]);
        }
        fs::write(to.join("servers.json"), all.to_string()).unwrap();
        let hash: String = Sha256::digest(token).iter().map(|byte| format!("{byte:02x}")).collect();
        fs::write(to.join("tokens"), json!({"tokens": [{"name": "ann", "sha256": hash}]}).to_string())
            .unwrap();
        fs::write(to.join("keys"), STANDARD.encode([key; 32])).unwrap();
        std::os::unix::fs::symlink(version, dir.path().join("..new")).unwrap();
        fs::rename(dir.path().join("..new"), dir.path().join("..data")).unwrap();
    };
    write("..1", &["g"], "old", 1);
    for name in ["servers.json", "tokens", "keys"] {
        std::os::unix::fs::symlink(format!("..data/{name}"), dir.path().join(name)).unwrap();
    }
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let args = ["--config", &path("servers.json"), "--tokens", &path("tokens"), "--keys", &path("keys")];
    let served = Served::started(ProxyCommand::new(), &args);
    let ask = |token: &str, method: &str, params: Value| {
        let capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
        let (mut headers, body) = stateless_message(&capabilities, method, params);
        headers.push(("Authorization", format!("Bearer {token}")));
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let response = served.post(&headers, &body);
        if response.status == 200 { response.json()["result"].take() } else { Value::Null }
    };
    let call = |token: &str, group: &str| {
        let result = ask(token, "tools/call", call_params(group, "echo", json!({"text": "x"})));
        result["content"].is_array() && result["isError"].is_null()
    };
    let task = |token: &str| {
        let created = ask(token, "tools/call", call_params("g", "task_optional", json!({"hold": true})));
        created["taskId"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned()
    };
    let is_known =
        |token: &str, id: &str| ask(token, "tasks/get", json!({"taskId": id}))["status"] == "working";
    assert!(call("old", "g") && !call("old", "h") && !call("new", "g"));
    let old_task = task("old");
    assert!(is_known("old", &old_task));
    write("..2", &["g", "h"], "new", 2);
    fs::remove_dir_all(dir.path().join("..1")).unwrap();
    wait_until("the new files are used", || call("new", "h"));
    assert!(!call("old", "g"));
    wait_until("the new key is used", || !is_known("new", &old_task));
    assert!(is_known("new", &task("new")));
}

#[test]
fn the_log_is_json_with_the_request_that_each_line_belongs_to() {
    let args = ["--log-format", "json", "--log-level", "debug"];
    let served = Served::start(&config([("g", for_all(&[]))]), &args);
    served.call(&[], "g", "echo", json!({"text": "x"}));
    served.proxy.wait_for_log("answered");
    let log = served.proxy.log();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.iter().all(|line| line["timestamp"].is_string() && line["level"].is_string()), "{log}");
    let answered = lines.iter().find(|line| line["fields"]["message"] == "answered").unwrap();
    assert!(answered["fields"]["status"] == 200 && answered["fields"]["ms"].is_string(), "{answered}");
    let span = &answered["spans"][0];
    assert_eq!((&span["name"], &span["method"]), (&json!("request"), &json!("tools/call")), "{answered}");
    assert_eq!((&span["principal"], &span["tool"]), (&json!("anyone"), &json!("echo")), "{answered}");
}

#[test]
fn a_replica_begins_with_the_tools_that_another_machine_has_exported() {
    let server = Server::start(|_| None);
    let config = config([("g", json!({"url": server.url()}))]);
    let dir = tempfile::TempDir::new().unwrap();
    let file = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    fs::write(file("servers.json"), config.to_string()).unwrap();
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dynamic-mcp"));
        command.env_clear().envs(base_env(dir.path())).current_dir(dir.path());
        output_of(command.args(["--config", &file("servers.json")]).args(args))
    };
    let early = run(&["cache", "export"]);
    let text = String::from_utf8_lossy(&early.stderr).into_owned();
    assert!(!early.status.success() && text.contains("not known"), "{text}");
    assert!(run(&["check"]).status.success());
    let exported = run(&["cache", "export"]);
    assert!(exported.status.success(), "{}", String::from_utf8_lossy(&exported.stderr));
    fs::write(file("catalog.json"), &exported.stdout).unwrap();
    let asked = server.requests().len();
    let served = Served::start(&config, &["--catalog", &file("catalog.json")]);
    let search = json!({"name": "search_dynamic_tools", "arguments": {"query": "echo"}});
    let found = served.request("tools/call", search).json();
    assert!(found["result"]["content"][0]["text"].as_str().unwrap().contains("g / echo"), "{found}");
    assert_eq!(server.requests().len(), asked, "the server was not asked");
    assert_eq!(served.call(&[], "g", "echo", json!({"text": "x"}))["result"]["isError"], Value::Null);
    fs::write(file("wrong.json"), "{}").unwrap();
    let served = Served::start(&config, &["--catalog", &file("wrong.json")]);
    assert!(served.proxy.log().contains("the file of --catalog is not used"), "{}", served.proxy.log());
}

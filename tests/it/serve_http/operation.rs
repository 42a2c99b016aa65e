//! Probes, the end, and servers that are not for all.

use serde_json::json;
use std::fs;
use std::io::Write;
use std::time::{Duration, Instant};

use super::{Served, call_params, config, for_all, post, read_head, stateless_message};
use crate::support::{InputRecord, scripted_upstream, wait_until};

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
    let (headers, body) =
        stateless_message(&json!({}), "tools/call", call_params("g", "sleep", json!({"ms": 2000})));
    let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let mut open = served.connect();
    open.write_all(post(&headers, &body).as_bytes()).unwrap();
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

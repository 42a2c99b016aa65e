//! The skills extension: the skills of several groups as one list, and how their URIs lead back to the groups.

use serde_json::{Value, json};

use crate::support::{Proxy, ProxyCommand, config_of, full_upstream, pure_config, scripted_upstream};

/// Two groups with the same skill, and one without skills.
fn config() -> Value {
    let entry = |name, scheme| full_upstream(&["--skills", "--name", name, "--scheme", scheme]);
    pure_config([
        ("tools", scripted_upstream(&[])),
        ("plain", full_upstream(&["--scheme", "p"])),
        ("g", entry("g", "a")),
        ("h", entry("h", "b")),
    ])
}

fn started() -> Proxy {
    let mut proxy = Proxy::new(&config());
    proxy.connect(["tools", "plain", "g", "h"]);
    proxy
}

/// The URIs of a skill's entry.
fn uris(skill: &Value) -> Vec<&str> {
    let files = skill["resources"].as_array().unwrap().iter().map(|file| file["uri"].as_str().unwrap());
    std::iter::once(skill["uri"].as_str().unwrap()).chain(files).collect()
}

#[test]
fn skills_are_declared_and_the_lists_of_all_groups_are_one() {
    let mut proxy = ProxyCommand::new().config(&config()).start();
    let initialized = proxy.handshake();
    let declared = &initialized["result"]["capabilities"]["extensions"]["io.modelcontextprotocol/skills"];
    assert_eq!(*declared, json!({"directoryRead": true}));
    assert_eq!(proxy.request("skills/list", json!({}))["result"]["skills"], json!([]), "nothing is started");
    proxy.connect(["tools", "plain", "g", "h"]);
    let list = proxy.raw_result("skills/list", "{}");
    assert!(list.contains(r#""description":"g","x":1.50}"#), "{list}");
    let list = proxy.request("skills/list", json!({}))["result"]["skills"].take();
    assert_eq!(list.as_array().unwrap().len(), 2, "{list}");
    assert_eq!(
        uris(&list[0]),
        ["skill://refunds/SKILL.md", "skill://refunds/SKILL.md", "skill://refunds/examples/email.md"]
    );
    assert_eq!(
        uris(&list[1]),
        ["skill://h/refunds/SKILL.md", "skill://h/refunds/SKILL.md", "skill://h/refunds/examples/email.md"]
    );
    assert_eq!(list[1]["frontmatter"]["name"], "refunds");
    // The list of a named group is its own.
    let own = proxy.raw_result("skills/list", r#"{"group":"h"}"#);
    assert!(own.starts_with(r#"{"skills":[{"uri":"skill://refunds/SKILL.md""#), "{own}");
    let error = proxy.request("skills/list", json!({"group": "plain"}))["error"].take();
    assert_eq!(error["code"], -32601, "{error}");
}

#[test]
fn the_list_waits_for_servers_that_are_being_discovered() {
    let entry = full_upstream(&["--skills", "--slow-start", "300"]);
    let mut proxy = Proxy::new(&config_of([("g", entry), ("p", scripted_upstream(&[]))]));
    let list = proxy.request("skills/list", json!({}))["result"]["skills"].take();
    assert_eq!(list.as_array().unwrap().len(), 1, "{list}");
}

#[test]
fn every_uri_leads_back_to_its_group() {
    let mut proxy = started();
    for (prefix, name) in [("skill://refunds", "g"), ("skill://h/refunds", "h")] {
        let uri = format!("{prefix}/SKILL.md");
        let skill = proxy.request("skills/get", json!({"uri": uri}))["result"]["skill"].take();
        assert_eq!(skill["frontmatter"]["description"], name);
        assert_eq!(uris(&skill), [&*uri, &*uri, &*format!("{prefix}/examples/email.md")]);
        // `hidden.md` is in no list, but in the directory of the skill.
        for file in ["SKILL.md", "examples/email.md", "hidden.md"] {
            let uri = format!("{prefix}/{file}");
            let read = proxy.request("resources/read", json!({"uri": uri}))["result"]["contents"][0].take();
            assert_eq!(read, json!({"uri": uri, "text": format!("/{file} of {name}")}));
        }
        let directory = format!(r#"{{"uri":"{prefix}/examples"}}"#);
        let children = proxy.raw_result("resources/directory/read", &directory);
        let child = format!(r#"{{"uri":"{prefix}/examples/email.md","name":"email.md","x":1.0}}"#);
        assert_eq!(children, format!(r#"{{"resources":[{child}],"x":1e400}}"#));
    }
    for method in ["skills/get", "resources/directory/read"] {
        for uri in ["skill://refunds/nothing/SKILL.md", "skill://other/SKILL.md", "x://y"] {
            assert_eq!(proxy.error_code(method, json!({"uri": uri})), -32602, "{method} {uri}");
        }
        assert_eq!(proxy.error_code(method, json!({})), -32602);
    }
}

#[test]
fn a_stateless_client_gets_the_cache_hints_that_its_revision_demands() {
    let mut proxy = ProxyCommand::new().config(&config()).start();
    let discovered = proxy.stateless_request("server/discover", json!({}));
    let extensions = &discovered["result"]["capabilities"]["extensions"];
    assert!(extensions["io.modelcontextprotocol/skills"]["directoryRead"] == true, "{discovered}");
    for group in ["g", "h"] {
        let call = json!({"name": "call_dynamic_tool", "arguments": {"group": group, "name": "pid"}});
        proxy.stateless_request("tools/call", call);
    }
    for (method, params) in
        [("skills/list", json!({})), ("skills/get", json!({"uri": "skill://h/refunds/SKILL.md"}))]
    {
        let result = proxy.stateless_request(method, params)["result"].take();
        assert_eq!(result["resultType"], "complete", "{result}");
        assert!(result["ttlMs"].is_u64() && result["cacheScope"].is_string(), "{result}");
    }
}

#[test]
fn the_skills_of_a_group_that_is_not_connected_are_known_from_the_cache() {
    let cache = tempfile::TempDir::new().unwrap();
    let start = || {
        let mut config = config();
        for server in config["mcpServers"].as_object_mut().unwrap().values_mut() {
            server["cwd"] = json!("/");
        }
        let command = ProxyCommand::new().env("XDG_CACHE_HOME", cache.path().to_str().unwrap());
        command.config(&config).start_initialized()
    };
    let mut first = start();
    first.connect(["g", "h"]);
    let list = first.raw_result("skills/list", "{}");
    first.close_stdin();
    first.wait_for_exit();
    let mut second = start();
    assert_eq!(second.raw_result("skills/list", "{}"), list);
    assert_eq!(second.group_state("h"), "discovered");
    let uri = json!({"uri": "skill://h/refunds/hidden.md"});
    let read = second.request("resources/read", uri)["result"]["contents"][0]["text"].take();
    assert_eq!(read, "/hidden.md of h");
}

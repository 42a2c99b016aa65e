//! Who may ask, and what each sees.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fs;
use std::process::Command;
use tempfile::TempDir;

use super::{Served, config, for_all};
use crate::oauth::auth_server::MockAuthServer;
use crate::remote::Server;
use crate::support::{base_env, output_of, wait_until};

/// A file of tokens.
pub(super) fn tokens(dir: &TempDir, users: &[(&str, Option<&str>)]) -> String {
    let entries = users.iter().enumerate().map(|(n, (token, profile))| {
        let hash: String = Sha256::digest(token).iter().map(|byte| format!("{byte:02x}")).collect();
        json!({"name": format!("user {n}"), "sha256": hash, "profile": profile})
    });
    let path = dir.path().join("tokens.json");
    fs::write(&path, json!({"tokens": entries.collect::<Vec<_>>()}).to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Two servers, and profiles with one of them, and with one tool of it.
fn two_servers() -> Value {
    let mut config =
        config([("g", for_all(&["--protocol"])), ("h", for_all(&["--protocol", "--scheme", "h"]))]);
    config["profiles"] = json!({
        "all": ["*"],
        "only_g": {"servers": ["g"], "tools": {"g": {"allow": ["echo"]}}},
    });
    config
}

fn bearer(token: &str) -> [(&'static str, String); 1] {
    [("Authorization", format!("Bearer {token}"))]
}

#[test]
fn only_those_who_have_a_token_are_served() {
    let dir = TempDir::new().unwrap();
    let served = Served::start(&two_servers(), &["--tokens", &tokens(&dir, &[("ann", None)])]);
    for (authorization, challenge) in
        [("", "Bearer"), ("Basic ann", "Bearer"), ("Bearer bob", "Bearer error=\"invalid_token\"")]
    {
        let response = served.request_with(&[("Authorization", authorization)], "tools/list", json!({}));
        let challenged = response.header("www-authenticate");
        assert_eq!((response.status, challenged), (401, challenge), "{authorization}");
    }
    let response = served.request_with(&[("Authorization", "Bearer ann")], "tools/list", json!({}));
    assert_eq!(response.status, 200);
    assert_eq!(served.send("GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n").status, 200, "probes have no token");
}

#[test]
fn a_token_never_reaches_a_server_or_the_log() {
    let dir = TempDir::new().unwrap();
    let args = ["--tokens", &tokens(&dir, &[("a-secret-token", None)]), "--log-level", "trace"];
    let served = Served::start(&two_servers(), &args);
    let [(name, token)] = bearer("a-secret-token");
    let call = |tool: &str| served.call(&[(name, token.as_str())], "g", tool, json!({})).to_string();
    for tool in ["params", "env"] {
        let answer = call(tool);
        assert!(answer.contains("content") && !answer.contains("a-secret-token"), "{answer}");
    }
    let log = served.proxy.log();
    assert!(log.contains("user 0") && !log.contains("a-secret-token"));
}

#[test]
fn a_token_never_reaches_a_remote_server() {
    let dir = TempDir::new().unwrap();
    let server = Server::start(|_| None);
    let entry = json!({"url": server.url(), "headers": {"X-Team": "of the config"}});
    let args = ["--tokens", &tokens(&dir, &[("a-secret-token", None)])];
    let served = Served::start(&config([("g", entry)]), &args);
    let [(name, token)] = bearer("a-secret-token");
    let headers = [(name, token.as_str()), ("Cookie", "a-secret-cookie"), ("X-Team", "of the user")];
    let answer = served.call(&headers, "g", "echo", json!({"text": "x"}));
    assert!(answer["result"]["content"].is_array(), "{answer}");
    let requests = server.requests();
    assert!(requests.iter().any(|request| request.is_tool_call()));
    for request in requests {
        assert_eq!(request.header("x-team"), "of the config");
        let whole = format!("{request:?}");
        assert!(!whole.contains("a-secret"), "{whole}");
    }
}

#[test]
fn all_users_use_the_login_of_the_config() {
    let (dir, server) = (TempDir::new().unwrap(), MockAuthServer::start());
    // The server knows the client by this secret.
    let oauth = json!({"flow": "client_credentials", "client_id": "team", "client_secret": "s3cret-word"});
    let mut config = config([("g", json!({"url": server.url(), "oauth": oauth}))]);
    config["settings"]["keyring"] = json!(false);
    let args = ["--tokens", &tokens(&dir, &[("of-ann", None), ("of-bob", None)]), "--log-level", "trace"];
    let served = Served::start(&config, &args);
    let call = |user: &str| {
        let [(name, token)] = bearer(user);
        served.call(&[(name, token.as_str())], "g", "echo", json!({"text": user}))
    };
    for user in ["of-ann", "of-bob", "of-ann"] {
        let answer = call(user);
        assert_eq!(answer["result"]["content"][0]["text"], user, "{answer}");
    }
    assert_eq!(server.grants("client_credentials").len(), 1, "one login for all");
    let calls = server.http.requests_of("tools/call");
    assert!(calls.iter().all(|call| call.header("authorization").starts_with("Bearer s3cret-access")));
    assert!(!served.proxy.log().contains("s3cret-"), "{}", served.proxy.log());
}

#[test]
fn what_a_profile_hides_is_reached_on_no_route() {
    let dir = TempDir::new().unwrap();
    let tokens = tokens(&dir, &[("ann", Some("all")), ("bob", Some("only_g"))]);
    let served = Served::start(&two_servers(), &["--tokens", &tokens]);
    let ask = |user: &str, method: &str, params: Value| {
        let [(name, token)] = bearer(user);
        served.request_with(&[(name, token.as_str())], method, params).json()
    };
    let call = |user: &str, group: &str, tool: &str| {
        ask(user, "tools/call", super::call_params(group, tool, json!({"text": "x"})))
    };
    for group in ["g", "h"] {
        assert_eq!(call("ann", group, "echo")["result"]["content"][0]["text"], "x");
        assert!(call("ann", group, "pid")["result"]["isError"].is_null());
    }
    assert_eq!(call("bob", "g", "echo")["result"]["content"][0]["text"], "x");
    // The other server, and the other tools of this one.
    for (group, tool) in [("h", "echo"), ("g", "pid"), ("g", "g__pid"), ("h", "h__echo")] {
        let response = call("bob", group, tool);
        assert_eq!(response["result"]["isError"], true, "{group} {tool}: {response}");
    }
    for name in ["h__echo", "g__pid", "pid", "dynamic-mcp__result"] {
        let response = ask("bob", "tools/call", json!({"name": name, "arguments": {}}));
        let is_refused = response["error"]["code"] == -32602 || response["result"]["isError"] == true;
        assert!(is_refused, "{name}: {response}");
    }
    let hidden = |text: &str| text.contains("\"h\"") || text.contains("h__") || text.contains("h://");
    for (method, params) in [
        ("tools/list", json!({})),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("prompts/list", json!({})),
        ("server/discover", json!({})),
        ("tools/call", json!({"name": "get_status", "arguments": {}})),
        ("tools/call", json!({"name": "search_dynamic_tools", "arguments": {"query": "echo"}})),
    ] {
        let response = ask("bob", method, params).to_string();
        assert!(!hidden(&response), "{method}: {response}");
    }
    for uri in ["h://one", "dynamic-mcp://h/h%3A%2F%2Fone"] {
        let response = ask("bob", "resources/read", json!({"uri": uri}));
        assert!(response["error"]["code"].is_i64(), "{uri}: {response}");
        assert!(ask("ann", "resources/read", json!({"uri": uri}))["result"]["contents"].is_array(), "{uri}");
    }
    let response = ask("bob", "prompts/get", json!({"name": "h__greet", "arguments": {"who": "x"}}));
    assert!(response["error"]["code"].is_i64(), "{response}");
}

#[cfg(unix)]
#[test]
fn status_and_the_log_know_the_instance_of_each_profile() {
    use std::os::unix::fs::PermissionsExt;
    let (dir, runtime) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    fs::set_permissions(runtime.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let runtime = runtime.path().to_str().unwrap();
    let command = crate::support::ProxyCommand::new().env("XDG_RUNTIME_DIR", runtime);
    let users = tokens(&dir, &[("ann", Some("all")), ("bob", Some("only_g"))]);
    let served = Served::of(command, &two_servers(), &["--tokens", &users]);
    let status = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dynamic-mcp"));
        command.env_clear().envs(base_env(dir.path())).env("XDG_RUNTIME_DIR", runtime);
        let output = output_of(command.args(["status", "--json"]));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()["instances"].clone()
    };
    wait_until("both are found", || status().as_array().is_some_and(|all| all.len() == 2));
    let instances = status();
    let groups = |at: usize| instances[at]["groups"].as_array().unwrap().len();
    assert_eq!((groups(0).min(groups(1)), groups(0).max(groups(1))), (1, 2), "{instances}");
    assert_eq!(instances[0]["pid"], instances[1]["pid"]);
    let log = served.proxy.log();
    for name in ["all", "only_g"] {
        let is_named = |line: &str| line.contains("is ready") && line.contains(&format!("profile={name}"));
        assert!(log.lines().any(is_named), "{name}: {log}");
    }
}

#[test]
fn tokens_change_while_it_serves() {
    let dir = TempDir::new().unwrap();
    let served = Served::start(&two_servers(), &["--tokens", &tokens(&dir, &[("ann", None)])]);
    let status = |user: &str| {
        let [(name, token)] = bearer(user);
        served.request_with(&[(name, token.as_str())], "tools/list", json!({})).status
    };
    assert_eq!((status("ann"), status("bob")), (200, 401));
    tokens(&dir, &[("bob", Some("only_g"))]);
    wait_until("the new token counts", || status("bob") == 200);
    assert_eq!(status("ann"), 401);
    fs::write(dir.path().join("tokens.json"), "{").unwrap();
    served.proxy.wait_for_log("the changed tokens are not used");
    assert_eq!((status("ann"), status("bob")), (401, 200), "what is wrong changes nothing");
}

/// A stream of events about lists, which its client has begun to read.
fn listener(served: &Served, user: &str) -> super::Response {
    let [(name, token)] = bearer(user);
    let filter = json!({"notifications": {"toolsListChanged": true}});
    let mut listener = served.request_with(&[(name, token.as_str())], "subscriptions/listen", filter);
    assert_eq!(listener.event().unwrap()["method"], "notifications/subscriptions/acknowledged");
    listener
}

#[test]
fn an_answer_ends_with_its_token() {
    let dir = TempDir::new().unwrap();
    let served = Served::start(&two_servers(), &["--tokens", &tokens(&dir, &[("ann", None), ("bob", None)])]);
    let [(name, token)] = bearer("ann");
    let sleep = super::call_params("g", "sleep", json!({"ms": 12_000}));
    let headers = [(name, token.as_str()), ("Accept", "application/json")];
    let open = served.begin(&super::stateless_post(&headers, "tools/call", sleep));
    let (mut of_ann, mut of_bob) = (listener(&served, "ann"), listener(&served, "bob"));
    // The names of users are their places in the file.
    tokens(&dir, &[("cleo", None), ("bob", None)]);
    assert!(of_ann.event().is_none(), "the stream of a token that was revoked");
    assert_eq!(super::read_head(open).status, 403, "an answer that came later");
    let mut other = two_servers();
    other["mcpServers"]["third"] = for_all(&[]);
    fs::write(served.proxy.config_file(), other.to_string()).unwrap();
    assert_eq!(of_bob.event().unwrap()["method"], "notifications/tools/list_changed");
}

#[test]
fn a_profile_that_the_config_lacks_has_no_server() {
    let dir = TempDir::new().unwrap();
    let users = [("ann", Some("all")), ("bob", Some("only_g"))];
    let served = Served::start(&two_servers(), &["--tokens", &tokens(&dir, &users)]);
    let works = |user: &str| {
        let [(name, token)] = bearer(user);
        let params = super::call_params("g", "echo", json!({"text": "x"}));
        let response = served.request_with(&[(name, token.as_str())], "tools/call", params);
        // A call that was open meanwhile is a 403.
        response.status == 200 && response.json()["result"]["isError"].is_null()
    };
    let mut of_ann = listener(&served, "ann");
    assert!(works("ann") && works("bob"));
    let mut config = two_servers();
    config["profiles"].as_object_mut().unwrap().remove("all");
    fs::write(served.proxy.config_file(), config.to_string()).unwrap();
    wait_until("the profile is gone", || !works("ann"));
    assert!(works("bob"));
    assert!(of_ann.event().is_none(), "the stream of a profile that was removed");
    fs::write(served.proxy.config_file(), two_servers().to_string()).unwrap();
    wait_until("the profile is back", || works("ann"));
}

#[test]
fn a_new_profile_waits_for_a_config_that_can_be_read() {
    let dir = TempDir::new().unwrap();
    let served = Served::start(&two_servers(), &["--tokens", &tokens(&dir, &[("ann", Some("all"))])]);
    let status = |user: &str| {
        let [(name, token)] = bearer(user);
        served.request_with(&[(name, token.as_str())], "tools/list", json!({})).status
    };
    fs::write(served.proxy.config_file(), "{").unwrap();
    served.proxy.wait_for_log("config not reloaded");
    tokens(&dir, &[("bob", Some("only_g"))]);
    wait_until("the old token counts no more", || status("ann") == 401);
    assert_eq!(status("bob"), 503, "no server is known");
    fs::write(served.proxy.config_file(), two_servers().to_string()).unwrap();
    wait_until("the profile is served", || status("bob") == 200);
    let [(name, token)] = bearer("bob");
    let answer = served.call(&[(name, token.as_str())], "g", "echo", json!({"text": "x"}));
    assert_eq!(answer["result"]["content"][0]["text"], "x", "{answer}");
}

/// One process serves all users. What it prints may be about the call of any of them.
#[test]
#[cfg(unix)]
fn nothing_of_a_process_reaches_a_user() {
    let dir = TempDir::new().unwrap();
    let program = |script: &str| json!({"command": "sh", "args": ["-c", script], "all_users": true});
    let mut config = config([
        ("prints", for_all(&["--protocol"])),
        ("fails", for_all(&["--crash-at-start", "s3cret-of-ann"])),
        ("stuck", program("echo s3cret-of-ann >&2; echo s3cret-of-ann; sleep 60")),
        ("refuses", program("echo s3cret-of-ann >&2; echo '{\"nothing\": 1}'; sleep 60")),
    ]);
    config["mcpServers"]["stuck"]["timeout"] = json!({"wait": "1s"});
    config["mcpServers"]["refuses"]["timeout"] = json!({"initialize": "1s"});
    let users = tokens(&dir, &[("ann", None), ("bob", None)]);
    let served = Served::start(&config, &["--tokens", &users, "--log-level", "debug"]);
    let ask = |user: &str, method: &str, params: Value| {
        let [(name, token)] = bearer(user);
        let headers = [(name, token.as_str()), ("Accept", "application/json")];
        served.request_with(&headers, method, params).json().to_string()
    };
    let call = |group: &str, tool: &str| super::call_params(group, tool, json!({"text": "x"}));
    let own = |tool: &str, args: Value| json!({"name": tool, "arguments": args});
    let print = super::call_params("prints", "log_stderr", json!({"text": "s3cret-of-ann"}));
    ask("ann", "tools/call", print);
    let requests = [
        ("tools/call", call("prints", "crash")),
        ("tools/call", call("fails", "echo")),
        ("tools/call", call("stuck", "echo")),
        ("tools/call", call("refuses", "echo")),
        ("tools/call", own("get_status", json!({}))),
        ("tools/call", own("get_status", json!({"group": "prints"}))),
        ("tools/call", own("search_dynamic_tools", json!({"query": "fails"}))),
        ("tools/call", own("get_dynamic_tools", json!({"group": "fails"}))),
        ("prompts/get", json!({"name": "status"})),
        ("resources/read", json!({"uri": "dynamic-mcp://fails/x"})),
        ("tools/list", json!({})),
    ];
    for (method, params) in requests {
        let answer = ask("bob", method, params.clone());
        for word in ["s3cret", "stderr", "stdout", "with code", "\"pid\"", "inFlight", "share", "p50"] {
            assert!(!answer.contains(word), "{word} in {method} {params}: {answer}");
        }
    }
    let log = served.proxy.log();
    assert!(
        log.contains("s3cret-of-ann") && log.contains("exited with code 3"),
        "the operator has it: {log}"
    );
}

#[test]
fn others_reach_it_only_with_tokens() {
    let dir = TempDir::new().unwrap();
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dynamic-mcp"));
        command.env_clear().envs(base_env(dir.path())).current_dir(dir.path());
        let output = output_of(command.args(["serve", "--http"]).args(args));
        assert!(!output.status.success(), "{args:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(run(&["0.0.0.0:0"]).contains("--tokens"));
    let tokens = tokens(&dir, &[("ann", None)]);
    assert!(run(&["0.0.0.0:0", "--tokens", &tokens]).contains("--allowed-host"));
    assert!(run(&["127.0.0.1:0", "--tokens", "/no/such"]).contains("/no/such"));
    fs::write(dir.path().join("keys"), "short").unwrap();
    assert!(run(&["127.0.0.1:0", "--keys", "keys"]).contains("line 1 is not a key"));
    assert!(run(&["127.0.0.1:0", "--path", "mcp"]).contains("--path"));
}

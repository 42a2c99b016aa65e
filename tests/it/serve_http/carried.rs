//! What a client carries from one replica to another.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fs;
use tempfile::TempDir;

use super::{Served, call_params, config, for_all, stateless_message};
use crate::remote::{Reply, Server};
use crate::support::{merged, wait_until};

/// Two replicas with the same files, whose users are `ann` and `bob`.
struct Replicas {
    served: [Served; 2],
    dir: TempDir,
}

impl Replicas {
    fn start(config: &Value) -> Self {
        let dir = TempDir::new().unwrap();
        write_keys(&dir, &[1]);
        let tokens = ["ann", "bob"].map(|name| {
            let hash: String = Sha256::digest(name).iter().map(|byte| format!("{byte:02x}")).collect();
            json!({"name": name, "sha256": hash})
        });
        let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        fs::write(path("tokens"), json!({"tokens": tokens}).to_string()).unwrap();
        let args = ["--keys", &path("keys"), "--tokens", &path("tokens")];
        let served = [(); 2].map(|()| Served::start(config, &args));
        Self { served, dir }
    }

    fn ask(&self, replica: usize, user: &str, method: &str, params: Value) -> Value {
        let capabilities = json!({"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}});
        let (mut headers, body) = stateless_message(&capabilities, method, params);
        headers.push(("Authorization", format!("Bearer {user}")));
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        self.served[replica].post(&headers, &body).json()
    }
}

fn write_keys(dir: &TempDir, keys: &[u8]) {
    let lines: Vec<_> = keys.iter().map(|byte| STANDARD.encode([*byte; 32])).collect();
    fs::write(dir.path().join("keys"), lines.join("\n")).unwrap();
}

/// A call that asks its user.
fn asking_call(kinds: &str) -> Value {
    call_params("g", "asks", json!({"kinds": kinds}))
}

/// Adds the state of a question and an answer to the params of a call.
fn with_answer(mut params: Value, asked: &Value) -> Value {
    let requests = asked["inputRequests"].as_object().unwrap();
    let answers: serde_json::Map<_, _> = requests
        .keys()
        .map(|key| (key.clone(), json!({"action": "accept", "content": {"name": "x"}})))
        .collect();
    params["requestState"] = asked["requestState"].clone();
    params["inputResponses"] = json!(answers);
    params
}

#[test]
fn any_replica_takes_the_answer_to_a_question_of_its_user() {
    let replicas = Replicas::start(&config([("g", for_all(&["--protocol", "--stateless"]))]));
    for n in 0..100 {
        let asked = replicas.ask(n % 2, "ann", "tools/call", asking_call("elicitation"))["result"].take();
        assert_eq!(asked["resultType"], "input_required", "{asked}");
        let params = with_answer(asking_call("elicitation"), &asked);
        let answered = replicas.ask((n + 1) % 2, "ann", "tools/call", params);
        assert_eq!(answered["result"]["resultType"], "complete", "{answered}");
        assert!(answered["result"]["content"][0]["text"].as_str().unwrap().contains("accept"), "{answered}");
    }
}

#[test]
fn an_answer_counts_only_for_its_user_and_its_call() {
    let replicas = Replicas::start(&config([("g", for_all(&["--protocol", "--stateless"]))]));
    let asked = replicas.ask(0, "ann", "tools/call", asking_call("elicitation"))["result"].take();
    let with_answer = |params| with_answer(params, &asked);
    // Another user, another call, and no state of ours.
    for (user, params) in [
        ("bob", with_answer(asking_call("elicitation"))),
        ("ann", with_answer(asking_call("elicitation,roots"))),
        ("ann", with_answer(call_params("g", "echo", json!({"text": "x"})))),
        (
            "ann",
            json!({"requestState": "made up", "name": "call_dynamic_tool", "arguments": asking_call("elicitation")["arguments"]}),
        ),
    ] {
        let refused = replicas.ask(1, user, "tools/call", params);
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
    }
    let answered = replicas.ask(1, "ann", "tools/call", with_answer(asking_call("elicitation")));
    assert_eq!(answered["result"]["resultType"], "complete", "{answered}");
}

#[test]
fn every_replica_opens_what_another_one_has_sealed() {
    let server = Server::start(|request| {
        let result = match request.rpc_method() {
            "server/discover" => json!({"supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}}),
            "tools/list" => json!({"tools": [{"name": "slow", "inputSchema": {"type": "object"}}]}),
            "tools/call" => json!({"resultType": "task", "taskId": "t-7", "status": "working",
                "createdAt": "2026-07-28T00:00:00Z", "lastUpdatedAt": "2026-07-28T00:00:00Z", "ttlMs": 60000}),
            "tasks/get" => json!({"taskId": request.body["params"]["taskId"], "status": "working",
                "createdAt": "2026-07-28T00:00:00Z", "lastUpdatedAt": "2026-07-28T00:00:00Z", "ttlMs": 60000}),
            _ => return Some(Reply::text(404, "application/json", request.error_response(-32601, "no"))),
        };
        let complete = json!({"resultType": "complete"});
        let result = if result["resultType"].is_null() { merged(complete, result) } else { result };
        Some(Reply::json(request.response(result)))
    });
    let replicas = Replicas::start(&config([("g", json!({"url": server.url()}))]));
    for n in 0..100 {
        let created = replicas.ask(n % 2, "ann", "tools/call", call_params("g", "slow", json!({})));
        let id = created["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned();
        let status = replicas.ask((n + 1) % 2, "ann", "tasks/get", json!({"taskId": id}));
        assert_eq!(
            (&status["result"]["status"], &status["result"]["taskId"]),
            (&json!("working"), &json!(id))
        );
    }
    let asked: Vec<_> =
        server.requests().into_iter().filter(|request| request.rpc_method() == "tasks/get").collect();
    assert_eq!(asked.len(), 100);
    assert!(asked.iter().all(|request| request.body["params"]["taskId"] == "t-7"), "the server's own id");
}

#[test]
fn a_task_belongs_to_its_user() {
    let replicas = Replicas::start(&config([("g", for_all(&["--protocol", "--stateless", "--tasks"]))]));
    let call = call_params("g", "task_optional", json!({"hold": true}));
    let created = replicas.ask(0, "ann", "tools/call", call)["result"].take();
    assert_eq!(created["resultType"], "task", "{created}");
    let id = created["taskId"].as_str().unwrap().to_owned();
    assert!(!id.contains(':'), "{id}: it says neither the group nor the server's id");
    let about = |replica, user, id: &str| replicas.ask(replica, user, "tasks/get", json!({"taskId": id}));
    let status = about(0, "ann", &id)["result"].take();
    assert_eq!((&status["status"], &status["taskId"]), (&json!("working"), &json!(id)));
    assert_eq!(about(0, "bob", &id)["error"]["code"], -32602, "another user");
    assert_eq!(about(0, "ann", "g:1")["error"]["code"], -32602, "an id that was not sealed");
    // Another replica opens the id and asks the server, which is another process there.
    let elsewhere = about(1, "ann", &id)["error"].take();
    assert_eq!(elsewhere["message"], "Unknown task", "the words of the server: {elsewhere}");
    let cancelled = replicas.ask(0, "ann", "tasks/cancel", json!({"taskId": id}));
    assert!(cancelled["error"].is_null(), "{cancelled}");
}

#[test]
fn keys_are_rotated_while_it_serves() {
    let replicas = Replicas::start(&config([("g", for_all(&["--protocol", "--stateless", "--tasks"]))]));
    let create = || {
        let call = call_params("g", "task_optional", json!({"hold": true}));
        replicas.ask(0, "ann", "tools/call", call)["result"]["taskId"].as_str().unwrap().to_owned()
    };
    let opens = |id: &str| replicas.ask(0, "ann", "tasks/get", json!({"taskId": id}))["error"].is_null();
    let old = create();
    write_keys(&replicas.dir, &[2, 1]);
    // A text that the new key has sealed is one that the old one does not open.
    wait_until("the new key seals", || create()[..5] != old[..5]);
    assert!(opens(&old));
    let new = create();
    write_keys(&replicas.dir, &[2]);
    wait_until("the old key opens nothing", || !opens(&old));
    assert!(opens(&new));
}

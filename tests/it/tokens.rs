//! The estimate of the tokens that a model reads, beside a real vocabulary.

use serde_json::{Value, json};
use upstream::catalog::tool::model_tokens;

use crate::support::{Proxy, config_of, scripted_upstream};

const CATALOGS: &str = include_str!("../../benches/data/livemcp-70.json");

#[test]
fn the_estimate_is_near_o200k_for_each_server_and_in_sum() {
    let vocabulary = tiktoken_rs::o200k_base().unwrap();
    let catalogs: Vec<Value> = serde_json::from_str(CATALOGS).unwrap();
    let (mut estimated, mut counted) = (0, 0);
    for catalog in &catalogs {
        let tools = catalog["tools"].as_array().unwrap();
        let read: Vec<Value> = tools
            .iter()
            .map(|tool| json!({"name": tool["name"], "description": tool["description"], "inputSchema": tool["inputSchema"]}))
            .collect();
        // What no model reads does not count.
        let more = |tool: &Value| {
            let mut tool = tool.clone();
            tool["outputSchema"] = tool["inputSchema"].clone();
            tool["annotations"] = json!({"title": "A title", "readOnlyHint": true});
            model_tokens(&tool.to_string().into())
        };
        let estimate: usize = read.iter().map(more).sum();
        let count: usize = read.iter().map(|tool| vocabulary.encode_ordinary(&tool.to_string()).len()).sum();
        let ratio = estimate as f64 / count as f64;
        assert!((0.75..=1.25).contains(&ratio), "{}: {estimate} for {count}", catalog["server"]);
        (estimated, counted) = (estimated + estimate, counted + count);
    }
    let ratio = estimated as f64 / counted as f64;
    assert!((0.9..=1.1).contains(&ratio), "{estimated} for {counted}");
    assert!(catalogs.len() == 70 && counted > 50_000, "{counted}");
}

#[test]
fn the_status_of_ten_healthy_servers_takes_at_most_600_tokens() {
    let names: [_; 10] = std::array::from_fn(|n| format!("server-{n}"));
    let mut proxy =
        Proxy::new(&config_of(names.each_ref().map(|name| (name.as_str(), scripted_upstream(&[])))));
    for name in &names {
        proxy.call_tool(name, "pid", json!({}));
    }
    let result = proxy.call_meta_tool("get_status", json!({}));
    let text = result["content"][0]["text"].as_str().unwrap();
    let json = result["structuredContent"].to_string();
    let vocabulary = tiktoken_rs::o200k_base().unwrap();
    // Some clients show models one of them, some the other.
    for shown in [text, &json] {
        let tokens = vocabulary.encode_ordinary(shown).len();
        assert!(tokens <= 600 && names.iter().all(|name| shown.contains(name)), "{tokens}: {shown}");
    }
    assert_eq!(proxy.group_status("server-3")["mode"], "hybrid");
}

//! The buttons of the status page, from a machine without servers.json to a called tool, and who else may not press them.

use std::fs;

use serde_json::{Value, json};

use super::shows_pages;
use crate::support::{Proxy, ProxyCommand, merged, pure_config, scripted_upstream, wait_until};

const TOKEN: &str = "dynamic-mcp/page-token";

/// The file of a client with a server, as it is before an import.
fn cursor_file() -> String {
    format!("{{\n  // mine\n  \"mcpServers\": {{\"clock\": {}}}\n}}\n", scripted_upstream(&[]))
}

/// A program without servers.json, in a home directory in which Cursor has a server.
fn new_machine() -> ProxyCommand {
    let command = ProxyCommand::new();
    fs::create_dir(command.home().join(".cursor")).unwrap();
    fs::write(command.home().join(".cursor/mcp.json"), cursor_file()).unwrap();
    command
}

fn cursor_text(proxy: &Proxy) -> String {
    fs::read_to_string(proxy.home().join(".cursor/mcp.json")).unwrap()
}

/// A page, which has the token of its last result.
struct Page {
    token: String,
}

impl Page {
    fn of(shown: &Value) -> Self {
        Self { token: shown["_meta"][TOKEN].as_str().unwrap_or_default().to_owned() }
    }

    /// Presses a button, and returns what the page is told.
    fn press(&mut self, proxy: &mut Proxy, action: &str, args: Value) -> Value {
        let arguments = merged(json!({"action": action, "token": self.token}), args);
        let result = proxy.call_meta_tool("page_action", arguments);
        *self = Self::of(&result);
        result["structuredContent"].clone()
    }
}

#[test]
fn a_new_user_gets_from_nothing_to_a_called_tool_and_back() {
    let mut proxy = new_machine().start();
    let answer = proxy.handshake_with(shows_pages());
    let instructions = answer["result"]["instructions"].as_str().unwrap();
    assert!(instructions.contains("has no MCP servers yet"), "{instructions}");
    let text = proxy.call_meta_tool("get_status", json!({}))["content"][0]["text"].to_string();
    assert!(text.contains("there are no servers yet") && !text.contains("cannot be read"), "{text}");
    let shown = proxy.call_meta_tool("show_status", json!({}));
    assert_eq!(shown["structuredContent"]["instances"][0]["groups"], json!([]));
    let mut page = Page::of(&shown);

    let planned = page.press(&mut proxy, "plan_import", json!({}));
    let plan = &planned["plan"];
    assert_eq!((&planned["isSuccess"], &plan["changes"]), (&json!(true), &json!(true)), "{planned}");
    let [summary, details] = ["summary", "details"].map(|part| plan[part].as_str().unwrap());
    assert!(summary.contains("clock") && details.contains("+++ "), "{planned}");
    assert_eq!(cursor_text(&proxy), cursor_file(), "a plan writes nothing");

    let done = page.press(&mut proxy, "import", json!({}));
    assert_eq!(done["isSuccess"], true, "{done}");
    assert!(done["text"].as_str().unwrap().contains("Wrote "), "{done}");
    assert!(cursor_text(&proxy).contains("\"dyn\""), "{}", cursor_text(&proxy));
    wait_until("the instance has the server", || proxy.status()["groups"][0]["group"] == "clock");
    assert_eq!(proxy.call_text("clock", "echo", json!({"text": "a"})), "a");

    let planned = page.press(&mut proxy, "plan_undo", json!({}));
    assert!(planned["plan"]["summary"].as_str().unwrap().contains("mcp.json"), "{planned}");
    let undone = page.press(&mut proxy, "undo", json!({}));
    assert_eq!(undone["isSuccess"], true, "{undone}");
    assert_eq!(cursor_text(&proxy), cursor_file());
}

#[test]
fn what_changes_a_clients_file_needs_the_plan_that_was_shown() {
    let mut proxy = new_machine().start();
    proxy.handshake_with(shows_pages());
    let mut page = Page::of(&proxy.call_meta_tool("show_status", json!({})));
    let import =
        |token: &str| json!({"name": "page_action", "arguments": {"action": "import", "token": token}});
    assert_eq!(proxy.error_code("tools/call", import(&page.token)), -32602, "without a plan");
    let mut page_of_undo = Page::of(&proxy.call_meta_tool("show_status", json!({})));
    page_of_undo.press(&mut proxy, "plan_undo", json!({}));
    assert_eq!(proxy.error_code("tools/call", import(&page_of_undo.token)), -32602, "with another plan");
    page = Page::of(&proxy.call_meta_tool("show_status", json!({})));
    page.press(&mut proxy, "plan_import", json!({}));
    let other = cursor_file().replace("mine", "somebody else's");
    fs::write(proxy.home().join(".cursor/mcp.json"), &other).unwrap();
    let refused = page.press(&mut proxy, "import", json!({}));
    assert_eq!(refused["isSuccess"], false);
    assert!(refused["text"].as_str().unwrap().contains("the files have changed"), "{refused}");
    assert_eq!(cursor_text(&proxy), other);
}

#[test]
fn only_the_page_that_was_shown_has_a_token_and_it_is_good_once() {
    let mut proxy = ProxyCommand::new().config(&pure_config([("g", scripted_upstream(&[]))])).start();
    proxy.handshake_with(shows_pages());
    let shown = proxy.call_meta_tool("show_status", json!({}));
    let mut page = Page::of(&shown);
    assert_eq!(page.token.len(), 32, "{shown}");
    // Neither what models read nor what any page may ask for has it.
    for member in ["content", "structuredContent"] {
        assert!(!shown[member].to_string().contains(&page.token));
    }
    for tool in ["status_data", "get_status"] {
        assert_eq!(proxy.call_meta_tool(tool, json!({}))["_meta"], Value::Null, "{tool}");
    }
    let list = proxy.request("tools/list", json!({}))["result"]["tools"].take();
    let visibility = |name: &str| {
        let tool = list.as_array().unwrap().iter().find(|tool| tool["name"] == name).unwrap();
        tool["_meta"]["ui"]["visibility"].clone()
    };
    let visible = ["show_status", "status_data", "page_action"].map(visibility);
    assert_eq!(visible, [json!(["model"]), json!(["app"]), json!(["app"])]);

    let mut refused = |token: &str| {
        let arguments = json!({"action": "disable", "server": "g", "token": token});
        let result = proxy.call_meta_tool("page_action", arguments);
        assert_eq!(result["structuredContent"]["isSuccess"], false, "{result}");
        assert_eq!(Page::of(&result).token, "", "a refusal gives no token");
    };
    ["", "x", &"0".repeat(32)].into_iter().for_each(&mut refused);
    let used = page.token.clone();
    page.press(&mut proxy, "reconnect", json!({"server": "g"}));
    assert_ne!(page.token, used);
    let arguments = json!({"action": "disable", "server": "g", "token": used});
    assert_eq!(proxy.call_meta_tool("page_action", arguments)["structuredContent"]["isSuccess"], false);
    assert_eq!(proxy.status()["disabled"], json!([]));
    // The tools of servers have other names, whatever these are called.
    let failure = proxy.request(
        "tools/call",
        json!({"name": "call_dynamic_tool", "arguments": {"group": "dynamic-mcp", "name": "page_action", "args": {"action": "disable", "server": "g", "token": page.token}}}),
    );
    assert_eq!(failure["result"]["isError"], true, "{failure}");
}

#[test]
fn servers_are_turned_off_and_on_and_connected_again() {
    let config = pure_config([("g", scripted_upstream(&[])), ("h", scripted_upstream(&[]))]);
    let mut proxy = ProxyCommand::new().config(&config).start();
    proxy.handshake_with(shows_pages());
    let mut page = Page::of(&proxy.call_meta_tool("show_status", json!({})));
    assert_eq!(page.press(&mut proxy, "disable", json!({"server": "g"}))["isSuccess"], true);
    wait_until("g is off", || proxy.status()["disabled"] == json!(["g"]));
    assert_eq!(page.press(&mut proxy, "enable", json!({"server": "g"}))["isSuccess"], true);
    wait_until("g is on", || proxy.status()["disabled"] == json!([]));
    assert_eq!(page.press(&mut proxy, "reconnect", json!({"server": "h"}))["isSuccess"], true);
    proxy.wait_for_state("h", "connected");
    for (action, server) in [("reconnect", "nobody"), ("enable", "nobody"), ("disable", "--help")] {
        let answer = page.press(&mut proxy, action, json!({"server": server}));
        assert_eq!(answer["isSuccess"], false, "{action} {server}: {answer}");
        assert!(!answer["text"].as_str().unwrap().is_empty(), "{action} {server}");
    }
}

#[test]
fn a_client_without_pages_has_no_buttons() {
    let mut proxy = Proxy::with_capabilities(&pure_config([("g", scripted_upstream(&[]))]), json!({}));
    let call = json!({"name": "page_action", "arguments": {"action": "disable", "server": "g", "token": ""}});
    assert_eq!(proxy.error_code("tools/call", call), -32602);
}

#[test]
fn the_prompt_asks_in_a_form_where_there_are_no_pages() {
    for action in ["accept", "decline"] {
        let mut proxy = new_machine().start();
        proxy.handshake_with(json!({"elicitation": {}}));
        let id = proxy.send_request("prompts/get", json!({"name": "setup"}));
        let question = proxy.wait_for_message("elicitation/create");
        let message = question.json()["params"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains("clock") && message.contains("Write this?"), "{message}");
        assert_eq!(cursor_text(&proxy), cursor_file());
        proxy.respond(&question, &format!(r#""result":{{"action":"{action}","content":{{}}}}"#));
        let answer = proxy.response(id).json();
        let text = answer["result"]["messages"][0]["content"]["text"].as_str().unwrap();
        let is_accepted = action == "accept";
        assert_eq!(text.contains("Wrote "), is_accepted, "{text}");
        assert_eq!(cursor_text(&proxy) == cursor_file(), !is_accepted);
    }
}

#[test]
fn the_prompt_names_the_page_or_the_command() {
    for (capabilities, expected) in
        [(shows_pages(), "show_status"), (json!({}), "`dynamic-mcp import --write-client` at a terminal")]
    {
        let mut proxy = new_machine().start();
        proxy.handshake_with(capabilities);
        let prompts = proxy.request("prompts/list", json!({}))["result"]["prompts"].take();
        let names: Vec<_> = prompts.as_array().unwrap().iter().map(|prompt| prompt["name"].clone()).collect();
        assert_eq!(names, ["status", "setup"]);
        let answer = proxy.request("prompts/get", json!({"name": "setup"}));
        let text = answer["result"]["messages"][0]["content"]["text"].as_str().unwrap();
        assert!(text.contains(expected), "{text}");
        assert_eq!(cursor_text(&proxy), cursor_file());
    }
}

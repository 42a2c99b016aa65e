//! Reads the rules for tools from the files of the clients.
//!
//! From the documentation and the source of the clients, as of November 2026. docs/clients.md has the same for users.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::client_rules::{ClientRule, RuleFile, TurnedOff, in_tool_name};
use super::tool_rules::ToolEffect;
use crate::clients::apps::{ClientApp, HostOs};
use crate::json::{members, strings};
use config::env::Env;

/// Where `gemini mcp disable` notes what it turns off.
const GEMINI_ENABLEMENT: &str = "mcp-server-enablement.json";

/// Returns the files with nothing but settings that have rules for tools, whether or not they exist, each with whether
/// it is the project's.
pub(crate) fn settings_files(app: ClientApp, project: Option<&Path>, env: &Env) -> Vec<(PathBuf, bool)> {
    let home = |dir: &str| env.home().map(|home| home.join(dir));
    let (user, in_project): (Vec<PathBuf>, &[&str]) = match app {
        ClientApp::ClaudeCode => {
            let dir = env.get_non_empty("CLAUDE_CONFIG_DIR").map(PathBuf::from).or_else(|| home(".claude"));
            let managed = PathBuf::from(match HostOs::CURRENT {
                HostOs::Linux => "/etc/claude-code/managed-settings.json",
                HostOs::MacOs => "/Library/Application Support/ClaudeCode/managed-settings.json",
                HostOs::Windows => r"C:\Program Files\ClaudeCode\managed-settings.json",
            });
            let user = dir.map(|dir| dir.join("settings.json")).into_iter().chain([managed]);
            (user.collect(), &[".claude/settings.json", ".claude/settings.local.json"])
        }
        ClientApp::Cursor => (home(".cursor/cli-config.json").into_iter().collect(), &[".cursor/cli.json"]),
        ClientApp::Gemini => {
            (home(".gemini").map(|dir| dir.join(GEMINI_ENABLEMENT)).into_iter().collect(), &[])
        }
        _ => (Vec::new(), &[]),
    };
    let in_project = in_project.iter().filter_map(|name| Some((project?.join(name), true)));
    user.into_iter().map(|path| (path, false)).chain(in_project).collect()
}

/// Reads the rules of a file with this content, as the client writes it.
pub(crate) fn read(app: ClientApp, path: &Path, is_project: bool, root: &Value) -> RuleFile {
    let mut file =
        RuleFile { app, path: path.to_owned(), is_project, rules: Vec::new(), policies: Vec::new() };
    match app {
        ClientApp::Opencode => file.read_opencode(root),
        ClientApp::ClaudeCode => file.read_claude_code(root),
        ClientApp::Cursor => file.read_lists(root, &["permissions"], |rule| {
            rule.strip_prefix("Mcp(")?.strip_suffix(')').map(str::to_owned)
        }),
        ClientApp::Gemini => {
            let denied =
                ["/tools/exclude", "/excludeTools"].iter().map(|key| (*key, strings(root.pointer(key))));
            for (key, names) in denied {
                let key = key.trim_start_matches('/').replace('/', ".");
                names.for_each(|name| file.add(&key, name, name.to_owned(), ToolEffect::Deny));
            }
            file.read_gemini_servers(root);
        }
        ClientApp::Codex => file.read_codex(root),
        _ => {}
    }
    file
}

impl RuleFile {
    fn add(&mut self, key: &str, written: &str, pattern: String, effect: ToolEffect) {
        self.push(key, written, pattern, effect, TurnedOff::No);
    }

    fn push(&mut self, key: &str, written: &str, pattern: String, effect: ToolEffect, turns_off: TurnedOff) {
        let written = format!("`{key}`: {written}");
        self.rules.push(ClientRule { pattern, effect, written, agent: None, turns_off });
    }

    /// Reads the lists `allow`, `ask` and `deny` of an object. What denies counts before what asks, and that before what
    /// allows.
    fn read_lists(&mut self, root: &Value, keys: &[&str], pattern: impl Fn(&str) -> Option<String>) {
        let lists = keys.iter().try_fold(root, |value, key| value.get(key));
        for (name, effect) in ToolEffect::NAMED {
            for rule in strings(lists.and_then(|lists| lists.get(name))) {
                if let Some(pattern) = pattern(rule) {
                    self.add(&format!("{}.{name}", keys.join(".")), rule, pattern, effect);
                }
            }
        }
    }

    fn read_claude_code(&mut self, root: &Value) {
        self.read_lists(root, &["permissions"], |rule| Some(rule.to_owned()));
        for (key, of_user) in
            [("disabledMcpServers", None), ("disabledMcpjsonServers", Some(TurnedOff::NamedOfProject))]
        {
            let turned_off = if self.is_project { Some(TurnedOff::Named) } else { of_user };
            let Some(turned_off) = turned_off else { continue };
            strings(root.get(key)).for_each(|name| self.turn_off(key, name, turned_off.clone()));
        }
        let named = |key: &str| {
            let list = root.get(key)?.as_array()?.iter();
            Some(list.map(|server| Some(server.get("serverName")?.as_str()?.to_owned())).collect::<Vec<_>>())
        };
        for name in named("deniedMcpServers").into_iter().flatten().flatten() {
            self.turn_off("deniedMcpServers", &name, TurnedOff::Named);
        }
        // One that is allowed by its command or address may be any.
        if let Some(allowed) = named("allowedMcpServers").and_then(|names| names.into_iter().collect()) {
            self.turn_off_others("allowedMcpServers", "mcp__*", allowed);
        }
    }

    fn read_gemini_servers(&mut self, root: &Value) {
        if self.path.ends_with(GEMINI_ENABLEMENT) {
            let disabled = members(Some(root)).filter(|(_, server)| server["enabled"] == false);
            return disabled.for_each(|(name, _)| self.turn_off("enabled", name, TurnedOff::Named));
        }
        let excluded = strings(root.pointer("/mcp/excluded"));
        excluded.for_each(|name| self.turn_off("mcp.excluded", name, TurnedOff::Named));
        if let Some(allowed) = root.pointer("/mcp/allowed").filter(|allowed| allowed.is_array()) {
            let names = strings(Some(allowed)).map(str::to_owned).collect();
            self.turn_off_others("mcp.allowed", "mcp_*", names);
        }
    }

    /// Adds a rule that turns off the server of this name.
    fn turn_off(&mut self, key: &str, server: &str, turns_off: TurnedOff) {
        let name = in_tool_name(server);
        let pattern = match self.app {
            ClientApp::Gemini => format!("mcp_{name}_*"),
            _ => format!("mcp__{name}"),
        };
        self.push(key, server, pattern, ToolEffect::Deny, turns_off);
    }

    /// Adds a rule that turns off all servers but these.
    fn turn_off_others(&mut self, key: &str, pattern: &str, servers: Vec<String>) {
        let written = servers.join(", ");
        self.push(key, &written, pattern.to_owned(), ToolEffect::Deny, TurnedOff::AllBut(servers));
    }

    /// Reads the tools that go without a question although their server asks. The other rules are in its entry.
    fn read_codex(&mut self, root: &Value) {
        if root.get("approval_policy").is_some() {
            self.policies.push("`approval_policy`".to_owned());
        }
        const MODE: &str = "default_tools_approval_mode";
        // Of a server whose tools are named, the entry asks for the others by name.
        let asks = |entry: &Value| entry[MODE] == "prompt" && entry.get("enabled_tools").is_none();
        for (server, entry) in members(root.get("mcp_servers")).filter(|(_, entry)| asks(entry)) {
            let tools = members(entry.get("tools"));
            let modes =
                tools.filter_map(|(tool, settings)| Some((tool, settings["approval_mode"].as_str()?)));
            for (tool, mode) in modes.filter(|(_, mode)| *mode != "prompt") {
                self.add(MODE, "prompt", format!("mcp__{server}__*"), ToolEffect::Ask);
                let key = format!("mcp_servers.{server}.tools.{tool}.approval_mode");
                self.add(&key, mode, format!("mcp__{server}__{tool}"), ToolEffect::Allow);
            }
        }
    }

    /// Reads `tools`, `permission` and `permissions`, in the order in which they count, and the rules of single agents.
    fn read_opencode(&mut self, root: &Value) {
        self.read_opencode_object("", root);
        for key in ["agent", "agents", "mode"] {
            for (name, agent) in members(root.get(key)) {
                let first = self.rules.len();
                self.read_opencode_object(&format!("{key}.{name}."), agent);
                self.rules.iter_mut().skip(first).for_each(|rule| rule.agent = Some(name.clone()));
            }
        }
    }

    fn read_opencode_object(&mut self, at: &str, object: &Value) {
        let tools = members(object.get("tools"));
        for (pattern, is_on) in tools.filter_map(|(name, is_on)| Some((name, is_on.as_bool()?))) {
            let effect = if is_on { ToolEffect::Allow } else { ToolEffect::Deny };
            self.add(&format!("{at}tools"), &format!("{pattern} {is_on}"), pattern.clone(), effect);
        }
        let all = object.get("permission").filter(|all| all.is_string()).map(|all| ("*", all));
        let rules = members(object.get("permission")).map(|(pattern, value)| (pattern.as_str(), value));
        for (pattern, value) in all.into_iter().chain(rules) {
            // The calls of a server's tools are the resource `*`.
            self.add_opencode(&format!("{at}permission"), pattern, value.get("*").unwrap_or(value));
        }
        for rule in object.get("permissions").and_then(Value::as_array).into_iter().flatten() {
            let text = |key: &str| rule.get(key).and_then(Value::as_str);
            if let (Some(pattern), Some(effect), None | Some("*")) =
                (text("action"), rule.get("effect"), text("resource"))
            {
                self.add_opencode(&format!("{at}permissions"), pattern, effect);
            }
        }
    }

    fn add_opencode(&mut self, key: &str, pattern: &str, effect: &Value) {
        if let Some((name, effect)) = ToolEffect::NAMED.into_iter().find(|(name, _)| effect == name) {
            self.add(key, &format!("{pattern} {name}"), pattern.to_owned(), effect);
        }
    }
}

//! Whether a client gives its model only those tools of servers that the model searched for. docs/clients.md has the
//! measurements behind it.

use crate::clients::apps::{ClientApp, HostOs, short_path};
use crate::files::source::{literal, read_text};
use config::env::Env;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// What is known of a client's search for tools. The text is the evidence, as a fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostSearch {
    /// The model gets the tools that it searches for.
    On(String),
    /// The model gets all tools.
    Off(String),
    /// One or the other.
    Unknown(String),
}

/// Finds out whether a client's model searches for tools. `env` is the environment of the client. Reads the user's files
/// of the client, and not those of a project.
pub fn tool_search(app: ClientApp, env: &Env) -> HostSearch {
    match app {
        ClientApp::Codex => codex(env),
        ClientApp::ClaudeCode => claude_code(env),
        ClientApp::Copilot => HostSearch::Unknown("its model may change in a session".to_owned()),
        ClientApp::Opencode | ClientApp::Gemini => HostSearch::Off("it has no such search".to_owned()),
        ClientApp::ClaudeDesktop | ClientApp::Cursor | ClientApp::Vscode | ClientApp::VscodeInsiders => {
            HostSearch::Unknown("it was not measured".to_owned())
        }
    }
}

/// Codex 0.169 hides the tools of servers if its list of models says that the model can search for them. Nothing in its
/// settings changes that. Without a `model` it takes one that can.
fn codex(env: &Env) -> HostSearch {
    let Some(file) = ClientApp::Codex.user_files(env, HostOs::CURRENT).pop() else {
        return HostSearch::Unknown("its directory is not known".to_owned());
    };
    let Some(config) = members(&file) else {
        return HostSearch::Unknown(format!("{} cannot be read", short_path(&file, env)));
    };
    let text = |name: &str| config.get(name).and_then(Value::as_str);
    if text("profile").is_some() {
        return HostSearch::Unknown("a profile may name another model".to_owned());
    }
    let Some(model) = text("model") else {
        return HostSearch::On(format!("{} names no model", short_path(&file, env)));
    };
    let dir = file.parent().unwrap_or(&file);
    let catalog =
        text("model_catalog_json").map_or_else(|| dir.join("models_cache.json"), |file| dir.join(file));
    let known = members(&catalog);
    let Some(models) = known.as_ref().and_then(|known| known.get("models")?.as_array()) else {
        return HostSearch::Unknown(format!("{} has no list of models", short_path(&catalog, env)));
    };
    let entry = models.iter().find(|entry| entry["slug"] == model);
    let place = short_path(&catalog, env);
    match entry.map(|entry| entry["supports_search_tool"] == true) {
        Some(true) => HostSearch::On(format!("{model} can search by {place}")),
        Some(false) => HostSearch::Off(format!("{model} cannot search by {place}")),
        None => HostSearch::Off(format!("{place} has no model {model}")),
    }
}

/// Claude Code 2.1.332 hides the tools of servers, but lists their names. A value in `env` of its settings counts more
/// than the environment.
fn claude_code(env: &Env) -> HostSearch {
    let dir = env.get_non_empty("CLAUDE_CONFIG_DIR").map(PathBuf::from);
    let file =
        dir.or_else(|| env.home().map(|home| home.join(".claude"))).map(|dir| dir.join("settings.json"));
    let settings = file.as_deref().and_then(members).unwrap_or_default();
    let value = |name: &str| {
        let set = settings.get("env").and_then(|env| env.get(name)?.as_str());
        set.or_else(|| env.get_non_empty(name)).map(str::to_owned)
    };
    let is_true = |value: &str| ["1", "true", "yes", "on"].contains(&value.to_lowercase().as_str());
    let denied = settings.get("permissions").and_then(|rules| rules.get("deny")?.as_array());
    const BETAS: &str = "CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS";
    if value(BETAS).is_some_and(|value| is_true(&value)) {
        return HostSearch::Off(format!("{BETAS} is set"));
    }
    if denied.is_some_and(|rules| rules.iter().any(|rule| rule == "ToolSearch")) {
        return HostSearch::Off("`permissions.deny` has ToolSearch".to_owned());
    }
    match value("ENABLE_TOOL_SEARCH").as_deref() {
        Some("auto:0") => HostSearch::On("ENABLE_TOOL_SEARCH is auto:0".to_owned()),
        Some("auto:100") => HostSearch::Off("ENABLE_TOOL_SEARCH is auto:100".to_owned()),
        Some(auto) if auto.starts_with("auto") => {
            HostSearch::Unknown(format!("ENABLE_TOOL_SEARCH is {auto}"))
        }
        Some(set) if is_true(set) => HostSearch::On("ENABLE_TOOL_SEARCH is set".to_owned()),
        Some(_) => HostSearch::Off("ENABLE_TOOL_SEARCH turns it off".to_owned()),
        None if value("ANTHROPIC_BASE_URL").is_some() || value("CLAUDE_CODE_USE_VERTEX").is_some() => {
            HostSearch::Unknown("its API may refuse it".to_owned())
        }
        None => HostSearch::On("nothing turns it off".to_owned()),
    }
}

/// Returns the members of a file in JSON or TOML; those of a missing file are none. `None` if it cannot be read.
fn members(file: &Path) -> Option<Map<String, Value>> {
    let text = read_text(file).ok()?.unwrap_or_default();
    match text.trim().is_empty() {
        true => Some(Map::new()),
        false => match literal(file, &text).ok()? {
            Value::Object(members) => Some(members),
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use tempfile::TempDir;

    #[test]
    fn the_model_of_codex_decides() {
        let dir = TempDir::new().unwrap();
        let env = Env::new([("CODEX_HOME", dir.path())], dir.path());
        let search = |config: &str, catalog: &str| {
            fs::write(dir.path().join("config.toml"), config).unwrap();
            fs::write(dir.path().join("models_cache.json"), catalog).unwrap();
            tool_search(ClientApp::Codex, &env)
        };
        let catalog = r#"{"models": [{"slug": "a", "supports_search_tool": true}, {"slug": "b"}]}"#;
        assert!(matches!(search("", ""), HostSearch::On(reason) if reason.contains("names no model")));
        assert!(matches!(search("model = \"a\"", catalog), HostSearch::On(_)));
        assert!(matches!(search("model = \"b\"", catalog), HostSearch::Off(_)));
        assert!(matches!(search("model = \"c\"", catalog), HostSearch::Off(_)));
        assert!(matches!(search("model = \"a\"", ""), HostSearch::Unknown(_)));
        assert!(matches!(search("model = \"a\"\nprofile = \"p\"", catalog), HostSearch::Unknown(_)));
        assert!(matches!(search("model = ", catalog), HostSearch::Unknown(_)));
    }

    #[test]
    fn settings_of_claude_code_count_more_than_the_environment() {
        let dir = TempDir::new().unwrap();
        let search = |vars: &[(&str, &str)], settings: &str| {
            fs::write(dir.path().join("settings.json"), settings).unwrap();
            let vars = vars.iter().copied().chain([("CLAUDE_CONFIG_DIR", dir.path().to_str().unwrap())]);
            tool_search(ClientApp::ClaudeCode, &Env::new(vars, dir.path()))
        };
        let off = [("ENABLE_TOOL_SEARCH", "false")];
        assert!(matches!(search(&[], ""), HostSearch::On(_)));
        assert!(matches!(search(&off, ""), HostSearch::Off(_)));
        assert!(matches!(search(&off, r#"{"env": {"ENABLE_TOOL_SEARCH": "true"}}"#), HostSearch::On(_)));
        assert!(matches!(search(&[], r#"{"permissions": {"deny": ["ToolSearch"]}}"#), HostSearch::Off(_)));
        assert!(matches!(search(&[("ENABLE_TOOL_SEARCH", "auto:5")], ""), HostSearch::Unknown(_)));
        assert!(matches!(search(&[("ANTHROPIC_BASE_URL", "http://h")], ""), HostSearch::Unknown(_)));
        let betas = [("CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS", "1"), ("ENABLE_TOOL_SEARCH", "true")];
        assert!(matches!(search(&betas, ""), HostSearch::Off(_)));
    }
}

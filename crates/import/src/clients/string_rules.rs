//! What each client makes of the strings of a server: which notations of variables it knows, and in which fields it looks
//! for them. Everything else is text to it. docs/clients.md has the same for users.
//!
//! The file of each client has its rules.

/// Fields of a server.
#[derive(Debug)]
pub(super) enum Fields {
    /// All of them: the client reads its whole file so.
    All,
    /// These.
    Only(&'static [&'static str]),
}

/// A notation of variables.
#[derive(Clone, Copy, Debug)]
pub(super) enum VariableForm {
    /// Our own. Codex knows none, but its files are translated while they are read.
    Ours,
    /// `${NAME}` and `${NAME:-default}`.
    Braces,
    /// `${NAME}` without a default.
    Name,
    /// `$NAME`.
    BareName,
    /// `${env:NAME}`.
    EnvName,
    /// `${env:NAME}`, `${userHome}`, `${pathSeparator}` and `${/}`.
    Editor,
    /// `${NAME}` for these names, and `${NAME:…}` for those that end in a colon. Only the client knows their values.
    ClientOnly(&'static [&'static str]),
    /// `{env:NAME}` and `{file:PATH}`.
    OpenCode,
}

/// The fields of a server that is started, or asked, whatever stands in them. Claude Code 2.1.332, Copilot CLI 1.0.102 and
/// Gemini CLI 0.61.0 pass the text of an unset variable there; in `env`, Gemini CLI passes the empty string.
pub(super) const OPTIONAL: Fields = Fields::Only(&["args", "env", "headers"]);

impl Fields {
    /// Returns whether a field is among them.
    pub(super) fn has(&self, field: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(fields) => fields.contains(&field),
        }
    }
}

// Paths of the entries are those of Unix.
#[cfg(unix)]
#[cfg(test)]
mod tests {
    use crate::clients::apps::ClientApp;
    use crate::clients::translate::{TranslatedEntry, translate};
    use crate::clients::variables::EntryContext;
    use crate::source::understood;
    use config::env::Env;
    use config::load::load;
    use config::{Endpoint, Overrides, ServerConfig};
    use proptest::prelude::*;
    use regex_lite::{Captures, Regex};
    use serde_json::{Map, Value, json};
    use std::path::Path;
    use std::sync::Arc;

    /// The value of each variable that is set. Some look like variables of ours.
    const SET: [(&str, &str); 3] = [("A", "one"), ("B_2", "{command:id} ${A} {file:token}"), ("low", "l")];
    /// What the file `token` has, beside the client's file.
    const TOKEN: &str = "${A} {keyring:x}";

    /// A client whose file is in `dir`, which is the home directory, too.
    struct Reader<'a> {
        app: ClientApp,
        dir: &'a Path,
    }

    /// The string has a variable that is not set, in a field in which the server cannot work without it. For us that is
    /// an error.
    struct Unset;

    impl Reader<'_> {
        fn env(name: &str) -> Option<&'static str> {
            SET.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
        }

        /// What the client makes of a string, by its documentation and its source: an implementation that has nothing to
        /// do with that of the import.
        fn meaning(&self, field: &str, text: &str) -> Result<String, Unset> {
            let is_in = |fields: &[&str]| fields.contains(&field);
            // The server starts without it, and gets nothing in its place.
            let is_optional = is_in(&["args", "env", "headers"]);
            let replaced =
                |pattern: &str, text: &str, value: &mut dyn FnMut(&Captures<'_>) -> Option<String>| {
                    replaced(pattern, text, |found| value(found).or_else(|| is_optional.then(String::new)))
                };
            let braces = r"\$\{([^}]+)\}";
            match self.app.id {
                "claude-desktop" | "codex" => Ok(text.to_owned()),
                "claude-code" if !is_in(&["command", "args", "env", "url", "headers"]) => Ok(text.to_owned()),
                "claude-code" => replaced(braces, text, &mut |found| shell(&found[1], &found[0])),
                "opencode" => replaced(r"\{env:([^}]+)\}|\{file:([^}]+)\}", text, &mut |found| match (
                    found.get(1),
                    &found[0],
                ) {
                    (Some(name), _) => Some(Self::env(name.as_str()).unwrap_or_default().to_owned()),
                    (None, "{file:token}" | "{file:~/token}") => Some(TOKEN.to_owned()),
                    (None, _) => None,
                }),
                "cursor" if is_in(&["cwd"]) => Ok(text.to_owned()),
                "cursor" => replaced(braces, text, &mut |found| self.of_editor(&found[1], &found[0])),
                "vscode" | "vscode-insiders" => {
                    let text = self.of_vscode(text)?;
                    let is_home = text == "~" || text.starts_with("~/");
                    Ok(match is_home && is_in(&["command", "args", "cwd"]) {
                        true => format!("{}{}", self.dir.display(), &text[1..]),
                        false => text,
                    })
                }
                "copilot" if is_in(&["url"]) => Ok(text.to_owned()),
                _ => {
                    replaced(r"\$(?:(\w+)|\{([^}]+?)(?::-([^}]*))?\})", text, &mut |found| match found.get(1)
                    {
                        Some(name) if is_constant(name.as_str()) => {
                            Self::env(name.as_str()).map(str::to_owned)
                        }
                        Some(name) => Some(Self::env(name.as_str()).unwrap_or(&found[0]).to_owned()),
                        None => shell(found[0][2..].trim_end_matches('}'), &found[0]),
                    })
                }
            }
        }

        /// Variables of Cursor and VS Code.
        fn of_editor(&self, body: &str, whole: &str) -> Option<String> {
            let is_vscode = self.app.id.starts_with("vscode");
            Some(match body {
                "userHome" => self.dir.display().to_string(),
                "/" => std::path::MAIN_SEPARATOR.to_string(),
                "workspaceFolder" => Self::of_window(body),
                _ if is_vscode
                    && ["input:", "command:", "workspaceFolder:"]
                        .iter()
                        .any(|name| body.starts_with(name)) =>
                {
                    Self::of_window(body)
                }
                _ => match body.strip_prefix("env:") {
                    Some(name) if is_identifier(name) => {
                        return Self::env(name).or_else(|| is_vscode.then_some("")).map(str::to_owned);
                    }
                    Some(_) => Self::of_window(body),
                    None => whole.to_owned(),
                },
            })
        }

        /// What a variable stands for that only the client knows.
        fn of_window(body: &str) -> String {
            format!("<{}>", body.replace(['$', '{', '}', '~'], "_"))
        }

        /// VS Code counts the braces in a variable.
        fn of_vscode(&self, text: &str) -> Result<String, Unset> {
            let (mut out, mut rest) = (String::new(), text);
            while let Some(at) = rest.find("${") {
                out += &rest[..at];
                rest = &rest[at..];
                let mut depth = 0;
                let end = rest.char_indices().find_map(|(at, c)| {
                    depth += i32::from(c == '{') - i32::from(c == '}');
                    (c == '}' && depth == 0).then_some(at)
                });
                match end {
                    Some(end) => {
                        out += &self.of_editor(&rest[2..end], &rest[..=end]).ok_or(Unset)?;
                        rest = &rest[end + 1..];
                    }
                    None => {
                        out += "${";
                        rest = &rest[2..];
                    }
                }
            }
            Ok(out + rest)
        }
    }

    /// `None`: the variable is not set.
    fn replaced(
        pattern: &str,
        text: &str,
        mut value: impl FnMut(&Captures<'_>) -> Option<String>,
    ) -> Result<String, Unset> {
        let mut is_set = true;
        let mut found = |found: &Captures<'_>| {
            value(found).unwrap_or_else(|| {
                is_set = false;
                String::new()
            })
        };
        let text = Regex::new(pattern).unwrap().replace_all(text, &mut found).into_owned();
        if is_set { Ok(text) } else { Err(Unset) }
    }

    /// The value of `NAME` or `NAME:-default`. What is no name stays.
    fn shell(body: &str, whole: &str) -> Option<String> {
        let (name, default) =
            body.split_once(":-").map_or((body, None), |(name, default)| (name, Some(default)));
        match is_identifier(name) {
            true => Reader::env(name).or(default).map(str::to_owned),
            false => Some(whole.to_owned()),
        }
    }

    fn is_identifier(name: &str) -> bool {
        Regex::new(r"^[A-Za-z_]\w*$").unwrap().is_match(name)
    }

    fn is_constant(name: &str) -> bool {
        is_identifier(name) && !name.contains(|c: char| c.is_ascii_lowercase())
    }

    /// The entry of a client, imported into the user's own servers.json, and read from there.
    fn imported(app: ClientApp, dir: &Path, entry: &Map<String, Value>) -> Result<Arc<ServerConfig>, String> {
        let home = dir.to_str().unwrap();
        let env = Env::new(SET.into_iter().chain([("HOME", home), ("USERPROFILE", home)]), dir);
        let (name, key) = match app.id {
            "codex" => ("config.toml", "mcp_servers"),
            _ => ("client.json", "mcpServers"),
        };
        let path = dir.join(name);
        let file = json!({ key: { "s": entry } });
        let text = match app.id {
            "codex" => toml_text(&file),
            _ => file.to_string(),
        };
        let root = understood(&path, &text).unwrap();
        let entry = root[key]["s"].as_object().unwrap();
        let context = EntryContext { app, dir, project: None, env: &env, is_ours: false };
        let TranslatedEntry { entry, variables, .. } = translate(entry, &context)?;
        let own = env.config_dir().unwrap();
        std::fs::create_dir_all(&own).unwrap();
        let own = own.join("servers.json");
        std::fs::write(&own, json!({"mcpServers": {"s": entry}}).to_string()).unwrap();
        // The client's entry for this program sets what only the client knows.
        let of_window = |original: &String| Reader::of_window(&original[2..original.len() - 1]);
        let known: Vec<_> =
            variables.client.iter().map(|(name, original)| (name.as_str(), of_window(original))).collect();
        let env = env.with(known.iter().map(|(name, value)| (*name, value.as_str())));
        let config = load(&[own], &env, &Overrides::default());
        assert_eq!(config.errors, []);
        config.servers.into_iter().next().unwrap().1.map_err(|error| error.to_string())
    }

    fn toml_text(value: &Value) -> String {
        fn item(value: &Value) -> toml_edit::Value {
            match value {
                Value::String(text) => text.as_str().into(),
                Value::Array(list) => toml_edit::Value::Array(list.iter().map(item).collect()),
                Value::Object(members) => toml_edit::Value::InlineTable(
                    members.iter().map(|(name, value)| (name.as_str(), item(value))).collect(),
                ),
                other => panic!("{other}"),
            }
        }
        let members = value.as_object().unwrap();
        members.iter().map(|(name, value)| format!("{name} = {}\n", item(value))).collect()
    }

    /// Compares what the client makes of an entry with what we make of it once it is imported.
    fn compare(app: ClientApp, strings: &[String; 6]) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("token"), TOKEN).unwrap();
        let [command, first, second, variable, cwd, header] = strings;
        let client = Reader { app, dir: dir.path() };
        let means = |field: &str, text: &str| client.meaning(field, text);

        let cwd = format!("/{cwd}");
        let local = json!({"command": command, "args": [first, second], "env": {"V": variable}, "cwd": cwd});
        let server = imported(app, dir.path(), local.as_object().unwrap());
        let expected =
            [("command", command), ("args", first), ("args", second), ("env", variable), ("cwd", &cwd)];
        let expected: Result<Vec<_>, Unset> =
            expected.iter().map(|(field, text)| means(field, text)).collect();
        match (expected, server) {
            (Err(Unset), server) => assert!(server.is_err(), "{app:?} {local}"),
            // There is no program.
            (Ok(expected), server) if expected[0].is_empty() => assert!(server.is_err(), "{app:?} {local}"),
            (Ok(expected), server) => {
                let server = server.unwrap_or_else(|error| panic!("{app:?} {local}: {error}"));
                let Endpoint::Stdio(stdio) = &server.endpoint else { panic!("{app:?} {local}") };
                let literal_home = |text: &String| text == "~" || text.starts_with("~/");
                let mut expected = expected;
                // The same file, which is not in the home directory.
                if literal_home(&expected[0]) {
                    expected[0].insert_str(0, "./");
                }
                let cwd = stdio.cwd.as_ref().unwrap().to_str().unwrap();
                let found = [&stdio.command, &stdio.args[0], &stdio.args[1], &stdio.env["V"], cwd];
                assert_eq!(found.map(str::to_owned), expected[..], "{app:?} {local}");
                assert_eq!(server.secrets.0.len(), 0, "{app:?} {local}");
            }
        }

        let url = format!("https://example.com/{first}");
        let header_field = if app == ClientApp::find("codex").unwrap() { "http_headers" } else { "headers" };
        let remote = json!({"url": url, header_field: {"X": header}});
        let server = imported(app, dir.path(), remote.as_object().unwrap());
        match (means("url", &url).and_then(|url| Ok([url, means("headers", header)?])), server) {
            (Err(Unset), server) => assert!(server.is_err(), "{app:?} {remote}"),
            (Ok([url, header]), server) => {
                // A value may have what no address has.
                if url.contains(' ') {
                    return;
                }
                let server = server.unwrap_or_else(|error| panic!("{app:?} {remote}: {error}"));
                let Endpoint::Http(http) = &server.endpoint else { panic!("{app:?} {remote}") };
                assert_eq!((&http.url, &http.headers[0].1), (&url, &header), "{app:?} {remote}");
                assert_eq!(server.secrets.0.len(), 0, "{app:?} {remote}");
            }
        }
    }

    /// Generates strings from characters and notations that mean something to one of the clients, or to us.
    fn any_string() -> impl Strategy<Value = String> {
        let whole = r"(~/?)?([$]|[{]|[}]|[$][{]|:-|env:|keyring:k|command:id|input:i|A|B_2|low|workspaceFolder|userHome|x|-|é|[$]A|[$]low|[$][{]A[}]|[$][{]C:-d[}]|[$][{]env:A[}]|[{]env:A[}]|[{]file:token[}]|[{]command:id[}]|[{]keyring:k[}]|[$][{]input:i[}]|[$][{]workspaceFolder[}]|[$][{]/[}]){0,7}";
        prop_oneof![whole, "[$]UNSET|[$][{]UNSET[}]|[{]env:UNSET[}]|[$][{]env:UNSET[}]"]
    }

    fn command() -> impl Strategy<Value = String> {
        any_string().prop_map(|text| if text.is_empty() { "x".to_owned() } else { text })
    }

    /// A property for each client, because each has rules of its own.
    macro_rules! properties {
        ($($name:ident: $app:literal,)*) => {
            proptest! {
                #![proptest_config(ProptestConfig::with_cases(192))]
                $(
                    #[test]
                    fn $name(command in command(), rest in proptest::array::uniform5(any_string())) {
                        let [first, second, variable, cwd, header] = rest;
                        compare(ClientApp::find($app).unwrap(), &[command, first, second, variable, cwd, header]);
                    }
                )*
            }
        };
    }

    properties! {
        what_claude_desktop_makes_of_an_entry_is_imported: "claude-desktop",
        what_claude_code_makes_of_an_entry_is_imported: "claude-code",
        what_opencode_makes_of_an_entry_is_imported: "opencode",
        what_cursor_makes_of_an_entry_is_imported: "cursor",
        what_vscode_makes_of_an_entry_is_imported: "vscode",
        what_codex_makes_of_an_entry_is_imported: "codex",
        what_gemini_cli_makes_of_an_entry_is_imported: "gemini",
        what_copilot_cli_makes_of_an_entry_is_imported: "copilot",
    }
}

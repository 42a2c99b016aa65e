//! The clients that `import` knows.

use std::ops::Deref;
use std::path::Path;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser, ValueParserFactory};
use serde_json::Value;

use super::CLIENTS;
use super::client::{HostOs, KnownClient, MCP_SERVERS};
use crate::json::strings;
use crate::source::value_at;
use base::text;
use config::env::Env;

/// The key of our entry in a client's file. Clients put it before the names of tools, so it is short.
pub(crate) const OWN_NAME: &str = "dyn";

/// A client, by its place among all clients.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientApp(usize);

impl ClientApp {
    /// Returns every client, in the order in which their servers are merged.
    pub fn all() -> impl DoubleEndedIterator<Item = Self> {
        (0..CLIENTS.len()).map(Self)
    }

    /// Returns the client of this name on the command line.
    pub fn find(id: &str) -> Option<Self> {
        Self::all().find(|app| app.id == id)
    }

    /// A file that no client has.
    pub(crate) const OTHER_FILE: Self = Self(usize::MAX);

    /// Returns the client that has files of this name, or else with this content.
    pub(crate) fn of_file(path: &Path, root: &Value) -> Self {
        let has_name = |app: &Self| app.file_names().any(|name| path.ends_with(name));
        let has_plain_name = |app: &Self| app.file_names().any(|name| name.file_name() == path.file_name());
        // Such as `claude_desktop_config.json` in another directory.
        let is_only = Self::all().filter(has_plain_name).count() == 1;
        let has_key = |app: &Self| {
            let keys = app.servers_path(root);
            !keys.iter().eq(MCP_SERVERS) && value_at(root, &keys).is_some_and(Value::is_object)
        };
        Self::all()
            .find(has_name)
            .or_else(|| Self::all().find(has_plain_name).filter(|_| is_only))
            .or_else(|| Self::all().find(has_key))
            .unwrap_or(Self::OTHER_FILE)
    }

    /// Returns the client whose files of a project these are: of those that read them, the first that has a file of the
    /// user's. VS Code has two editions.
    pub(crate) fn in_project(self, env: &Env) -> Self {
        let has_file = |app: &Self| app.user_files(env, HostOs::CURRENT).iter().any(|file| file.exists());
        let same_files = Self::all().filter(|app| app.edition_of == self.id);
        std::iter::once(self).chain(same_files).find(has_file).unwrap_or(self)
    }
}

/// A file of no client that we know: its strings are ours.
static OTHER_FILE: KnownClient = KnownClient::of_other_files();

impl Deref for ClientApp {
    type Target = KnownClient;

    fn deref(&self) -> &KnownClient {
        CLIENTS.get(self.0).copied().unwrap_or(&OTHER_FILE)
    }
}

impl std::fmt::Debug for ClientApp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.id)
    }
}

impl ValueParserFactory for ClientApp {
    type Parser = clap::builder::MapValueParser<PossibleValuesParser, fn(String) -> Self>;

    fn value_parser() -> Self::Parser {
        let values = PossibleValuesParser::new(
            CLIENTS.iter().map(|client| PossibleValue::new(client.id).help(client.label)),
        );
        values.map(|id| Self::find(&id).unwrap_or(Self(0)))
    }
}

/// The name of our packages on npm and PyPI, as Cargo.toml has it.
pub(crate) const PUBLISHED_NAME: &str = "dynamic-mcp-proxy";

/// Returns whether an entry starts this program, itself or by its package.
pub(crate) fn is_own_entry(entry: &Value) -> bool {
    let words = [entry.get("command"), entry.get("args")]
        .into_iter()
        .flat_map(|value| value.and_then(Value::as_str).into_iter().chain(strings(value)));
    let words: Vec<&str> = words.collect();
    let Some((program, args)) = words.split_first() else { return false };
    // npm writes a version as `@1`, uv as `==1` and `@1`.
    let is_package = |word: &&str| {
        let version = word.strip_prefix(PUBLISHED_NAME);
        version.is_some_and(|version| version.is_empty() || version.starts_with(['@', '=']))
    };
    match program_name(program) {
        "dynamic-mcp" => true,
        "npx" | "bunx" | "pnpx" | "uvx" | "uv" | "pipx" => args.iter().any(is_package),
        wrapper if is_wrapper(wrapper) => args.iter().any(|arg| names_program(arg)),
        _ => is_this_program(program),
    }
}

/// Returns whether a program runs what its arguments say: a shell or `env`.
pub(crate) fn is_wrapper(program: &str) -> bool {
    matches!(program, "sh" | "bash" | "zsh" | "dash" | "fish" | "cmd" | "env")
}

/// Returns whether this program is among the words of a command.
fn names_program(command: &str) -> bool {
    command.split_whitespace().any(|word| program_name(word.trim_matches(['"', '\''])) == "dynamic-mcp")
}

/// Returns whether this is another name of the file that runs now.
fn is_this_program(program: &str) -> bool {
    let path = Path::new(program);
    let own = || std::env::current_exe().and_then(|own| own.canonicalize());
    path.is_absolute() && path.canonicalize().is_ok_and(|path| own().is_ok_and(|own| own == path))
}

/// Returns the name of a program, without its directory and the extension of Windows.
pub(crate) fn program_name(program: &str) -> &str {
    let name = program.rsplit(['/', '\\']).next().unwrap_or(program);
    name.strip_suffix(".exe").or_else(|| name.strip_suffix(".cmd")).unwrap_or(name)
}

/// Returns the path with the home directory as `~`, for texts, in visible characters.
pub fn short_path(path: &Path, env: &Env) -> String {
    match env.home().and_then(|home| path.strip_prefix(home).ok()) {
        Some(rest) => text::path(&Path::new("~").join(rest)),
        None => text::path(path),
    }
}

#[cfg(test)]
mod tests {
    use super::super::client::OwnLaunch;
    use super::*;
    use serde_json::{Map, json};

    /// The user's files of these clients.
    fn files(ids: &[&str], os: HostOs, variables: &[(&str, &str)]) -> Vec<String> {
        let env = Env::new(variables.iter().copied(), "/");
        let files = ids.iter().flat_map(|id| ClientApp::find(id).unwrap().user_files(&env, os));
        files.map(|path| path.to_str().unwrap().replace('\\', "/")).collect()
    }

    #[test]
    fn a_client_has_its_files_on_every_system() {
        let ids = ["claude-desktop", "claude-code", "vscode", "zed", "crush"];
        let common = |app_data: &str, zed: &str| {
            [
                format!("{app_data}/Claude/claude_desktop_config.json"),
                "/h/.claude.json".to_owned(),
                format!("{app_data}/Code/User/mcp.json"),
                format!("{zed}/zed/settings.json"),
                "/h/.config/crush/crush.json".to_owned(),
            ]
        };
        let unix = [("HOME", "/h")];
        assert_eq!(files(&ids, HostOs::Linux, &unix), common("/h/.config", "/h/.config"));
        let support = "/h/Library/Application Support";
        assert_eq!(files(&ids, HostOs::MacOs, &unix), common(support, "/h/.config"));
        let windows = [("USERPROFILE", "/h"), ("APPDATA", "/h/AppData/Roaming")];
        let roaming = "/h/AppData/Roaming";
        assert_eq!(files(&ids, HostOs::Windows, &windows), common(roaming, roaming));
        for app in ClientApp::all() {
            assert_eq!(files(&[app.id], HostOs::Linux, &[]), Vec::<String>::new(), "{app:?}");
            assert!(!files(&[app.id], HostOs::Linux, &unix).is_empty(), "{app:?}");
        }
    }

    #[test]
    fn an_extension_has_its_file_in_every_editor_and_a_package_of_windows_its_own_settings() {
        let roo = files(&["roo"], HostOs::Linux, &[("HOME", "/h")]);
        let file = "User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json";
        assert!(roo.contains(&format!("/h/.config/Cursor/{file}")), "{roo:?}");
        assert_eq!(roo.last(), Some(&format!("/h/.config/Code/{file}")), "that is made if there is none");
        let local = tempfile::tempdir().unwrap();
        let package = local.path().join("Packages/Claude_pzs8sxrjxfjjc");
        std::fs::create_dir_all(&package).unwrap();
        let variables = [("USERPROFILE", "/h"), ("LOCALAPPDATA", local.path().to_str().unwrap())];
        let files = files(&["claude-desktop"], HostOs::Windows, &variables);
        let file = package.join("LocalCache/Roaming/Claude/claude_desktop_config.json");
        assert_eq!(files[0], "/h/AppData/Roaming/Claude/claude_desktop_config.json");
        // The last one is made if there is none.
        assert_eq!(files[1], file.to_str().unwrap().replace('\\', "/"));
    }

    #[test]
    fn the_variables_of_the_clients_move_their_files() {
        let variables = [("CLAUDE_CONFIG_DIR", "/c"), ("CODEX_HOME", "/x"), ("COPILOT_HOME", "/g")];
        let files = files(&["claude-code", "codex", "copilot"], HostOs::Linux, &variables);
        assert_eq!(files, ["/c/.claude.json", "/x/config.toml", "/g/mcp-config.json"]);
    }

    #[test]
    fn an_entry_has_the_shape_of_its_client() {
        let launch = OwnLaunch {
            command: "/bin/dynamic-mcp".to_owned(),
            args: vec!["--config".to_owned(), "/s.json".to_owned()],
            env: Map::from_iter([("DYN_KEY".to_owned(), json!("${input:key}"))]),
            variables: vec!["TOKEN".to_owned()],
            lists_tools: false,
        };
        let entry = |app: ClientApp, root: &Value| Value::Object(app.entry(root, &launch));
        let args = ["--config", "/s.json"];
        let plain = json!({"command": "/bin/dynamic-mcp", "args": args, "env": {"DYN_KEY": "${input:key}"}});
        assert_eq!(entry(ClientApp::find("claude-desktop").unwrap(), &json!({})), plain);
        let claude = entry(ClientApp::find("claude-code").unwrap(), &json!({}));
        assert_eq!((&claude["type"], &claude["alwaysLoad"]), (&json!("stdio"), &json!(true)));
        let first = entry(ClientApp::find("opencode").unwrap(), &json!({"mcp": {}}));
        assert_eq!(first["command"], json!(["/bin/dynamic-mcp", "--config", "/s.json"]));
        assert_eq!((&first["environment"]["DYN_KEY"], first.get("codemode")), (&json!("${input:key}"), None));
        let second = entry(ClientApp::find("opencode").unwrap(), &json!({"mcp": {"servers": {"a": {}}}}));
        assert_eq!(second["codemode"], json!(false));
        assert_eq!(
            entry(ClientApp::find("cursor").unwrap(), &json!({}))["env"]["TOKEN"],
            json!("${env:TOKEN}")
        );
        assert_eq!(entry(ClientApp::find("gemini").unwrap(), &json!({}))["env"]["TOKEN"], json!("${TOKEN}"));
        assert_eq!(entry(ClientApp::find("codex").unwrap(), &json!({}))["env_vars"], json!(["TOKEN"]));
        let copilot = entry(ClientApp::find("copilot").unwrap(), &json!({}));
        assert_eq!((&copilot["tools"], &copilot["deferTools"]), (&json!(["*"]), &json!("never")));
    }
}

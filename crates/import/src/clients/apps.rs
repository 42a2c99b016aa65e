//! The clients that `import` knows. `known` has what is known of each.

use std::ops::Deref;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde_json::{Map, Value, json};

use super::known::{CLIENTS, ClientDir, KnownClient, has_nested_servers};
use crate::json::{into_members, strings};
use base::text;
use config::env::Env;

/// The key of our entry in a client's file. Clients put it before the names of tools, so it is short.
pub(crate) const OWN_NAME: &str = "dyn";

/// A client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum)]
pub enum ClientApp {
    /// Claude Desktop
    ClaudeDesktop,
    /// Claude Code
    ClaudeCode,
    /// OpenCode
    Opencode,
    /// Cursor
    Cursor,
    /// Visual Studio Code
    Vscode,
    /// Visual Studio Code Insiders
    VscodeInsiders,
    /// OpenAI Codex
    Codex,
    /// Gemini CLI
    Gemini,
    /// GitHub Copilot CLI
    Copilot,
}

/// The systems that differ in where clients keep their files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostOs {
    /// Linux and other Unix systems.
    Linux,
    /// macOS.
    MacOs,
    /// Windows.
    Windows,
}

impl HostOs {
    /// The system that this program was built for.
    pub(crate) const CURRENT: Self = if cfg!(target_os = "macos") {
        Self::MacOs
    } else if cfg!(windows) {
        Self::Windows
    } else {
        Self::Linux
    };
}

impl ClientApp {
    /// Returns every client, in the order in which their servers are merged.
    pub fn all() -> &'static [Self] {
        Self::value_variants()
    }

    /// Returns the files of the user, whether or not they exist. There are none if their directory is not known, as
    /// without a home directory.
    pub(crate) fn user_files(self, env: &Env, os: HostOs) -> Vec<PathBuf> {
        let home = |path: &str| env.home().map(|home| home.join(path));
        let below = |variable: &str, default: &str| {
            env.get_non_empty(variable).map(PathBuf::from).or_else(|| home(default))
        };
        let dir = match (&self.dir, os) {
            (ClientDir::Named(variable, default), _) => below(variable, default),
            (ClientDir::AppData, HostOs::Linux) => below("XDG_CONFIG_HOME", ".config"),
            (ClientDir::AppData, HostOs::MacOs) => home("Library/Application Support"),
            (ClientDir::AppData, HostOs::Windows) => below("APPDATA", "AppData/Roaming"),
        };
        // As components, so that every separator is that of the system.
        let file = |dir: &PathBuf, name: &str| dir.join(name).components().collect();
        dir.iter().flat_map(|dir| self.user_files.iter().map(|name| file(dir, name))).collect()
    }

    /// Returns the file to make if there is none. `None` if its directory is not known.
    pub(crate) fn new_file(self, env: &Env, os: HostOs) -> Option<PathBuf> {
        self.user_files(env, os).pop()
    }

    /// Returns the keys that lead to the servers in a file with this content.
    pub(crate) fn servers_path(self, root: &Value) -> Vec<String> {
        let nested = (self == Self::Opencode && has_nested_servers(root)).then_some("servers");
        std::iter::once(self.servers).chain(nested).map(str::to_owned).collect()
    }

    /// Returns the client whose files of a project these are: of VS Code, the edition that has a file of the user's.
    pub(crate) fn in_project(self, env: &Env) -> Self {
        let has_file = |app: Self| app.user_files(env, HostOs::CURRENT).iter().any(|file| file.exists());
        match self {
            Self::Vscode if !has_file(self) && has_file(Self::VscodeInsiders) => Self::VscodeInsiders,
            app => app,
        }
    }

    /// Returns whether the client shows its user what a server asks (form elicitation). `root` is the content of its file.
    pub(crate) fn shows_questions(self, root: &Value) -> bool {
        self.shows_questions || self == Self::Opencode && has_nested_servers(root)
    }

    /// Returns how the client's entry for us gets a variable of the environment, where it has to be named: the value of
    /// a member of `env`. `None` where the client passes its whole environment, has no variables, or has a list of
    /// names.
    pub(crate) fn named_variable(self, name: &str) -> Option<String> {
        (self.variable)(name, None).filter(|_| !self.passes_environment)
    }

    /// Returns the client's entry for this program. `root` is the content of the client's file.
    ///
    /// `env` has values in the client's syntax, `variables` the names of variables to pass.
    pub fn entry(self, root: &Value, launch: &OwnLaunch) -> Map<String, Value> {
        let OwnLaunch { command, args, env, variables } = launch;
        let mut entry = self.program_fields(json!(command), json!(args));
        let named =
            variables.iter().filter_map(|name| Some((name.clone(), self.named_variable(name)?.into())));
        let env: Map<_, _> = env.clone().into_iter().chain(named).collect();
        if !env.is_empty() {
            entry.insert(self.env.to_owned(), Value::Object(env));
        }
        entry.extend(into_members(Some((self.own_fields)(root, variables))));
        entry
    }

    /// Returns the fields of an entry that say which program is started.
    pub(crate) fn program_fields(self, program: Value, args: Value) -> Map<String, Value> {
        let command = match self.command_has_args {
            true => {
                let words = [vec![program], args.as_array().cloned().unwrap_or_default()].concat();
                json!({"command": words})
            }
            false => json!({"command": program, "args": args}),
        };
        let transport = self.local_type.map(|name| ("type".to_owned(), json!(name)));
        transport.into_iter().chain(into_members(Some(command))).collect()
    }
}

impl Deref for ClientApp {
    type Target = KnownClient;

    fn deref(&self) -> &KnownClient {
        &CLIENTS[*self as usize]
    }
}

/// How a client starts this program.
#[derive(Clone, Debug, Default)]
pub struct OwnLaunch {
    /// The absolute path of the program.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables that only the client knows, by the names that servers.json uses for them.
    pub env: Map<String, Value>,
    /// The names of variables of the environment that servers.json uses.
    pub variables: Vec<String>,
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
    use super::*;

    fn files(os: HostOs, variables: &[(&str, &str)]) -> Vec<String> {
        let env = Env::new(variables.iter().copied(), "/");
        let files = ClientApp::all().iter().flat_map(|app| app.user_files(&env, os));
        files.map(|path| path.to_str().unwrap().replace('\\', "/")).collect()
    }

    #[test]
    fn every_client_has_its_row_in_the_table() {
        for app in ClientApp::all() {
            assert_eq!(app.to_possible_value().unwrap().get_name(), app.id);
        }
    }

    #[test]
    fn every_client_has_its_files_on_every_system() {
        let common = |app_data: &str| {
            [
                format!("{app_data}/Claude/claude_desktop_config.json"),
                "/h/.claude.json".to_owned(),
                "/h/.config/opencode/opencode.jsonc".to_owned(),
                "/h/.config/opencode/opencode.json".to_owned(),
                "/h/.cursor/mcp.json".to_owned(),
                format!("{app_data}/Code/User/mcp.json"),
                format!("{app_data}/Code - Insiders/User/mcp.json"),
                "/h/.codex/config.toml".to_owned(),
                "/h/.gemini/settings.json".to_owned(),
                "/h/.copilot/mcp-config.json".to_owned(),
            ]
        };
        assert_eq!(files(HostOs::Linux, &[("HOME", "/h")]), common("/h/.config"));
        assert_eq!(files(HostOs::MacOs, &[("HOME", "/h")]), common("/h/Library/Application Support"));
        let windows = [("USERPROFILE", "/h"), ("APPDATA", "/h/AppData/Roaming")];
        assert_eq!(files(HostOs::Windows, &windows), common("/h/AppData/Roaming"));
        assert_eq!(files(HostOs::Linux, &[]), Vec::<String>::new());
    }

    #[test]
    fn the_variables_of_the_clients_move_their_files() {
        let variables = [("CLAUDE_CONFIG_DIR", "/c"), ("CODEX_HOME", "/x"), ("COPILOT_HOME", "/g")];
        let files = files(HostOs::Linux, &variables);
        assert_eq!(files, ["/c/.claude.json", "/x/config.toml", "/g/mcp-config.json"]);
    }

    #[test]
    fn an_entry_has_the_shape_of_its_client() {
        let launch = OwnLaunch {
            command: "/bin/dynamic-mcp".to_owned(),
            args: vec!["--config".to_owned(), "/s.json".to_owned()],
            env: Map::from_iter([("DYN_KEY".to_owned(), json!("${input:key}"))]),
            variables: vec!["TOKEN".to_owned()],
        };
        let entry = |app: ClientApp, root: &Value| Value::Object(app.entry(root, &launch));
        let args = ["--config", "/s.json"];
        let plain = json!({"command": "/bin/dynamic-mcp", "args": args, "env": {"DYN_KEY": "${input:key}"}});
        assert_eq!(entry(ClientApp::ClaudeDesktop, &json!({})), plain);
        let claude = entry(ClientApp::ClaudeCode, &json!({}));
        assert_eq!((&claude["type"], &claude["alwaysLoad"]), (&json!("stdio"), &json!(true)));
        let first = entry(ClientApp::Opencode, &json!({"mcp": {}}));
        assert_eq!(first["command"], json!(["/bin/dynamic-mcp", "--config", "/s.json"]));
        assert_eq!((&first["environment"]["DYN_KEY"], first.get("codemode")), (&json!("${input:key}"), None));
        let second = entry(ClientApp::Opencode, &json!({"mcp": {"servers": {"a": {}}}}));
        assert_eq!(second["codemode"], json!(false));
        assert_eq!(entry(ClientApp::Cursor, &json!({}))["env"]["TOKEN"], json!("${env:TOKEN}"));
        assert_eq!(entry(ClientApp::Gemini, &json!({}))["env"]["TOKEN"], json!("${TOKEN}"));
        assert_eq!(entry(ClientApp::Codex, &json!({}))["env_vars"], json!(["TOKEN"]));
        let copilot = entry(ClientApp::Copilot, &json!({}));
        assert_eq!((&copilot["tools"], &copilot["deferTools"]), (&json!(["*"]), &json!("never")));
    }
}

//! The clients that `import` knows: where their files are, and how they write servers. Everything here is from their
//! documentation; docs/clients.md has the same for users.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde_json::{Map, Value, json};

use crate::json::strings;
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

/// What a number in a server's `timeout` means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeoutMeaning {
    /// The client has no such field.
    None,
    /// Milliseconds that a call may take.
    Calls,
    /// Milliseconds for the start, for the list of tools and for calls, or an object with one of each.
    Everything,
    /// It is read as our `timeout` already.
    Ours,
}

impl ClientApp {
    /// Returns every client, in the order in which their servers are merged.
    pub fn all() -> &'static [Self] {
        Self::value_variants()
    }

    /// Returns the name on the command line.
    pub fn id(self) -> &'static str {
        self.names().0
    }

    /// Returns the name in texts.
    pub fn label(self) -> &'static str {
        self.names().1
    }

    /// Returns the name on the command line, and the one in texts.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::ClaudeDesktop => ("claude-desktop", "Claude Desktop"),
            Self::ClaudeCode => ("claude-code", "Claude Code"),
            Self::Opencode => ("opencode", "OpenCode"),
            Self::Cursor => ("cursor", "Cursor"),
            Self::Vscode => ("vscode", "VS Code"),
            Self::VscodeInsiders => ("vscode-insiders", "VS Code Insiders"),
            Self::Codex => ("codex", "Codex"),
            Self::Gemini => ("gemini", "Gemini CLI"),
            Self::Copilot => ("copilot", "Copilot CLI"),
        }
    }

    /// Returns the files of the user, whether or not they exist. There are none if their directory is not known, as
    /// without a home directory.
    pub(crate) fn user_files(self, env: &Env, os: HostOs) -> Vec<PathBuf> {
        let home = |path: &str| env.home().map(|home| home.join(path));
        let below = |variable: &str, default: &str| {
            env.get_non_empty(variable).map(PathBuf::from).or_else(|| home(default))
        };
        // The directory of an application's settings: Electron's `appData`.
        let app_data = || match os {
            HostOs::Linux => below("XDG_CONFIG_HOME", ".config"),
            HostOs::MacOs => home("Library/Application Support"),
            HostOs::Windows => below("APPDATA", "AppData/Roaming"),
        };
        let in_dir = |dir: Option<PathBuf>, names: &[&str]| {
            // As components, so that every separator is that of the system.
            let file = |dir: &PathBuf, name: &str| dir.join(name).components().collect();
            dir.iter().flat_map(|dir| names.iter().map(|name| file(dir, name))).collect::<Vec<PathBuf>>()
        };
        match self {
            Self::ClaudeDesktop => in_dir(app_data(), &["Claude/claude_desktop_config.json"]),
            Self::ClaudeCode => in_dir(below("CLAUDE_CONFIG_DIR", ""), &[".claude.json"]),
            Self::Opencode => in_dir(
                below("XDG_CONFIG_HOME", ".config"),
                &["opencode/opencode.jsonc", "opencode/opencode.json"],
            ),
            Self::Cursor => in_dir(home(".cursor"), &["mcp.json"]),
            Self::Vscode => in_dir(app_data(), &["Code/User/mcp.json"]),
            Self::VscodeInsiders => in_dir(app_data(), &["Code - Insiders/User/mcp.json"]),
            Self::Codex => in_dir(below("CODEX_HOME", ".codex"), &["config.toml"]),
            Self::Gemini => in_dir(home(".gemini"), &["settings.json"]),
            Self::Copilot => in_dir(below("COPILOT_HOME", ".copilot"), &["mcp-config.json"]),
        }
    }

    /// Returns the file to make if there is none. `None` if its directory is not known.
    pub(crate) fn new_file(self, env: &Env, os: HostOs) -> Option<PathBuf> {
        self.user_files(env, os).pop()
    }

    /// Returns the files of a project, relative to its directory.
    pub(crate) fn project_files(self) -> &'static [&'static str] {
        match self {
            Self::ClaudeDesktop => &[],
            Self::ClaudeCode => &[".mcp.json"],
            Self::Opencode => {
                &["opencode.jsonc", "opencode.json", ".opencode/opencode.jsonc", ".opencode/opencode.json"]
            }
            Self::Cursor => &[".cursor/mcp.json"],
            // Both editions read it (`in_project`).
            Self::Vscode => &[".vscode/mcp.json"],
            Self::VscodeInsiders => &[],
            Self::Codex => &[".codex/config.toml"],
            Self::Gemini => &[".gemini/settings.json"],
            Self::Copilot => &[".github/mcp.json"],
        }
    }

    /// Returns the keys that lead to the servers in a file with this content.
    pub(crate) fn servers_path(self, root: &Value) -> Vec<String> {
        let keys: &[&str] = match self {
            Self::Vscode | Self::VscodeInsiders => &["servers"],
            Self::Codex => &["mcp_servers"],
            Self::Opencode if has_nested_servers(root) => &["mcp", "servers"],
            Self::Opencode => &["mcp"],
            _ => &["mcpServers"],
        };
        keys.iter().map(|&key| key.to_owned()).collect()
    }

    /// Returns what the client means by a server's `timeout`.
    pub fn timeout(self) -> TimeoutMeaning {
        match self {
            Self::ClaudeDesktop | Self::Cursor | Self::Vscode | Self::VscodeInsiders => TimeoutMeaning::None,
            Self::ClaudeCode | Self::Gemini | Self::Copilot => TimeoutMeaning::Calls,
            Self::Opencode => TimeoutMeaning::Everything,
            Self::Codex => TimeoutMeaning::Ours,
        }
    }

    /// Returns whether the client passes its whole environment to servers.
    pub fn passes_environment(self) -> bool {
        matches!(self, Self::ClaudeCode | Self::Opencode) || self.is_vscode()
    }

    /// Returns whether it is an edition of VS Code.
    pub fn is_vscode(self) -> bool {
        matches!(self, Self::Vscode | Self::VscodeInsiders)
    }

    /// Returns the client whose files of a project these are: of VS Code, the edition that has a file of the user's.
    pub(crate) fn in_project(self, env: &Env) -> Self {
        let has_file = |app: Self| app.user_files(env, HostOs::CURRENT).iter().any(|file| file.exists());
        match self {
            Self::Vscode if !has_file(self) && has_file(Self::VscodeInsiders) => Self::VscodeInsiders,
            app => app,
        }
    }

    /// Returns whether the client shows its user what a server asks (form elicitation). `is_version_2`: OpenCode's
    /// second version.
    pub(crate) fn shows_questions(self, is_version_2: bool) -> bool {
        match self {
            Self::ClaudeDesktop | Self::Gemini => false,
            Self::Opencode => is_version_2,
            _ => true,
        }
    }

    /// Returns the names of the client's programs, as the system shows processes.
    pub fn programs(self) -> &'static [&'static str] {
        match self {
            Self::ClaudeDesktop => &["claude-desktop", "Claude"],
            Self::ClaudeCode => &["claude"],
            Self::Opencode => &["opencode"],
            Self::Cursor => &["cursor", "Cursor"],
            Self::Vscode => &["code", "Code"],
            Self::VscodeInsiders => &["code-insiders", "Code - Insiders"],
            Self::Codex => &["codex"],
            Self::Gemini => &["gemini"],
            Self::Copilot => &["copilot"],
        }
    }

    /// Returns how the client's entry for us gets a variable of the environment, where it has to be named: the value of
    /// a member of `env`. `None` where the client passes its whole environment, has no variables, or has a list of
    /// names.
    pub fn variable(self, name: &str) -> Option<String> {
        match self {
            Self::Cursor => Some(format!("${{env:{name}}}")),
            Self::Gemini | Self::Copilot => Some(format!("${{{name}}}")),
            _ => None,
        }
    }

    /// Returns the client's entry for this program. `root` is the content of the client's file.
    ///
    /// `env` has values in the client's syntax, `variables` the names of variables to pass. The entry has the client's
    /// own key, if it has one, that keeps our tools from being deferred: they are the few that are always needed.
    pub fn entry(self, root: &Value, launch: &OwnLaunch) -> Map<String, Value> {
        let OwnLaunch { command, args, env, variables } = launch;
        let mut entry = self.program_fields(json!(command), json!(args));
        let mut set = |name: &str, value: Value| drop(entry.insert(name.to_owned(), value));
        let mut env = env.clone();
        env.extend(variables.iter().filter_map(|name| Some((name.clone(), self.variable(name)?.into()))));
        if !env.is_empty() {
            set(self.env_field(), Value::Object(env));
        }
        match self {
            Self::ClaudeCode => set("alwaysLoad", json!(true)),
            Self::Opencode if has_nested_servers(root) => set("codemode", json!(false)),
            Self::Copilot => {
                set("tools", json!(["*"]));
                set("deferTools", json!("never"));
            }
            Self::Codex if !variables.is_empty() => set("env_vars", json!(variables)),
            _ => {}
        }
        entry
    }

    /// Returns the fields of an entry that say which program is started.
    pub(crate) fn program_fields(self, program: Value, args: Value) -> Map<String, Value> {
        let transport = match self {
            Self::ClaudeCode | Self::Vscode | Self::VscodeInsiders => Some("stdio"),
            Self::Opencode | Self::Copilot => Some("local"),
            _ => None,
        };
        let mut fields: Map<_, _> =
            transport.map(|name| ("type".to_owned(), json!(name))).into_iter().collect();
        if self == Self::Opencode {
            let words = std::iter::once(&program).chain(args.as_array().into_iter().flatten());
            fields.insert("command".to_owned(), words.cloned().collect());
        } else {
            fields.insert("command".to_owned(), program);
            fields.insert("args".to_owned(), args);
        }
        fields
    }

    /// Returns the name of the field that has the variables of a program.
    pub(crate) fn env_field(self) -> &'static str {
        if self == Self::Opencode { "environment" } else { "env" }
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

/// Returns whether an OpenCode file has the servers in `mcp.servers`, as its version 2 does.
pub(crate) fn has_nested_servers(root: &Value) -> bool {
    let Some(servers) = root.pointer("/mcp/servers").and_then(Value::as_object) else { return false };
    // A server of version 1 may be named "servers".
    !servers.contains_key("command") && !servers.contains_key("url") && servers.values().all(Value::is_object)
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

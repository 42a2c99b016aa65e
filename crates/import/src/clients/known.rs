//! The table of the clients: where the files of each are, and how it writes servers. Everything here is from their
//! documentation and their source, as of November 2026; docs/clients.md has the same for users.

use serde_json::{Value, json};

use super::string_rules::{Braces, CURSOR_NAMES, Fields, OPTIONAL, VSCODE_NAMES, VariableForm};
use ClientDir::{AppData, Named};

/// What is known of a client.
pub struct KnownClient {
    /// The name on the command line.
    pub id: &'static str,
    /// The name in texts.
    pub label: &'static str,
    /// The names of its programs, as the system shows processes.
    pub programs: &'static [&'static str],
    /// Whether the desktop starts it, and not a terminal.
    pub has_window: bool,
    /// The directory of the user's files.
    pub(super) dir: ClientDir,
    /// The files of the user in it. If there is none, the last one is made.
    pub(super) user_files: &'static [&'static str],
    /// The files of a project, relative to its directory.
    pub(crate) project_files: &'static [&'static str],
    /// Whether it puts a project's entry over the user's entry of the same name, member by member.
    pub(crate) puts_project_over_user: bool,
    /// The key of the servers.
    pub(super) servers: &'static str,
    /// What it means by a server's `timeout`.
    pub(super) timeout: TimeoutMeaning,
    /// Whether it passes its whole environment to servers.
    pub passes_environment: bool,
    /// Whether it shows its user what a server asks (form elicitation).
    pub(super) shows_questions: bool,
    /// Whether a denial of any of its files counts before a question of any other one.
    pub(crate) denies_first: bool,
    /// Whether a rule that allows a tool lifts the rules before it.
    pub(crate) allow_lifts: bool,
    /// The notations of variables that it knows.
    pub(super) forms: &'static [VariableForm],
    /// Where a `${` ends, for clients that know variables in such braces. Of those, what they do not know is text.
    pub(super) braces: Braces,
    /// The fields in which it looks for them, by our names. Everything else is text to it.
    pub(super) fields: Fields,
    /// The fields in which `~` before a separator, or alone, is the home directory. In a list, at the start of each string.
    pub(super) home_fields: &'static [&'static str],
    /// The fields in which a variable may be unset: the client starts the server nevertheless, with the empty string or
    /// with the text of the variable. Elsewhere the server cannot work without it.
    pub(super) optional: Fields,
    /// Whether such a variable reaches the server in `env` as the empty string, and not as its own text.
    pub is_empty_in_env: bool,
    /// Writes a variable with a default. `None` if it has no notation for that.
    pub(super) variable: fn(&str, Option<&str>) -> Option<String>,
    /// The `type` of a local server.
    pub(super) local_type: Option<&'static str>,
    /// The `type` of a remote server with this transport of ours.
    pub(super) remote_type: fn(&str) -> Option<&str>,
    /// The field of an address of Streamable HTTP.
    pub(super) http_url: &'static str,
    /// What to say about a remote server.
    pub(super) remote_note: Option<&'static str>,
    /// The field of the variables of a local server.
    pub(super) env: &'static str,
    /// Whether `command` is a list that has the arguments, too.
    pub(super) command_has_args: bool,
    /// Which of `env_file`, `cwd` and `enabled` a server may have.
    pub(super) known_fields: &'static [&'static str],
    /// The fields with the names of the tools in use and of those not in use; empty where it has none.
    pub(super) rule_fields: [&'static str; 2],
    /// Returns the fields that our entry has beside the usual ones, in a file with this content, if the entry passes these
    /// variables. One of them keeps our tools from being deferred, if the client has a key for that.
    pub(super) own_fields: fn(&Value, &[String]) -> Value,
}

/// What a number in a server's `timeout` means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimeoutMeaning {
    /// The client has no such field.
    None,
    /// Milliseconds that a call may take.
    Calls,
    /// Milliseconds for the start, for the list of tools and for calls, or an object with one of each.
    Everything,
    /// It is read as our `timeout` already.
    Ours,
}

/// The directory of a client's files.
#[derive(Clone, Copy)]
pub(super) enum ClientDir {
    /// That of an application's settings: Electron's `appData`.
    AppData,
    /// The one that this variable names, else this one below the home directory.
    Named(&'static str, &'static str),
}

/// Returns a client that has nothing of its own but its names. Every string is text to it.
const fn client(id: &'static str, label: &'static str, programs: &'static [&'static str]) -> KnownClient {
    KnownClient {
        id,
        label,
        programs,
        has_window: false,
        dir: AppData,
        user_files: &[],
        project_files: &[],
        puts_project_over_user: false,
        servers: "mcpServers",
        timeout: TimeoutMeaning::None,
        passes_environment: false,
        shows_questions: true,
        denies_first: false,
        allow_lifts: false,
        forms: &[],
        braces: Braces::None,
        fields: Fields::Only(&[]),
        home_fields: &[],
        optional: OPTIONAL,
        is_empty_in_env: false,
        variable: |_, _| None,
        local_type: None,
        remote_type: |_| None,
        http_url: "url",
        remote_note: None,
        env: "env",
        command_has_args: false,
        known_fields: &[],
        rule_fields: ["", ""],
        own_fields: |_, _| Value::Null,
    }
}

/// Returns an edition of VS Code.
const fn vscode(id: &'static str, label: &'static str, programs: &'static [&'static str]) -> KnownClient {
    KnownClient {
        has_window: true,
        servers: "servers",
        passes_environment: true,
        forms: &[VariableForm::Editor, VariableForm::ClientOnly(VSCODE_NAMES)],
        braces: Braces::Balanced,
        fields: Fields::Only(&["command", "args", "env", "env_file", "cwd", "url", "headers", "oauth"]),
        home_fields: &["command", "args", "cwd"],
        optional: Fields::All,
        is_empty_in_env: true,
        variable: editor_variable,
        local_type: Some("stdio"),
        remote_type: |transport| Some(transport),
        known_fields: &["env_file", "cwd"],
        ..client(id, label, programs)
    }
}

/// The clients, in the order of `ClientApp`.
pub(super) static CLIENTS: [KnownClient; 9] = [
    KnownClient {
        has_window: true,
        shows_questions: false,
        remote_note: Some("Claude Desktop takes a remote server in its settings, as a connector"),
        user_files: &["Claude/claude_desktop_config.json"],
        ..client("claude-desktop", "Claude Desktop", &["claude-desktop", "Claude"])
    },
    KnownClient {
        timeout: TimeoutMeaning::Calls,
        passes_environment: true,
        denies_first: true,
        forms: &[VariableForm::Braces],
        braces: Braces::First,
        fields: Fields::Only(&["command", "args", "env", "url", "headers"]),
        variable: shell_variable,
        local_type: Some("stdio"),
        remote_type: |transport| Some(transport),
        own_fields: |_, _| json!({"alwaysLoad": true}),
        dir: Named("CLAUDE_CONFIG_DIR", ""),
        user_files: &[".claude.json"],
        project_files: &[".mcp.json"],
        ..client("claude-code", "Claude Code", &["claude"])
    },
    KnownClient {
        puts_project_over_user: true,
        servers: "mcp",
        timeout: TimeoutMeaning::Everything,
        passes_environment: true,
        // Its second version does.
        shows_questions: false,
        allow_lifts: true,
        forms: &[VariableForm::OpenCode],
        fields: Fields::All,
        optional: Fields::All,
        is_empty_in_env: true,
        // An unset variable is empty there.
        variable: |name, default| default.is_none_or(str::is_empty).then(|| format!("{{env:{name}}}")),
        local_type: Some("local"),
        remote_type: |_| Some("remote"),
        env: "environment",
        command_has_args: true,
        known_fields: &["enabled"],
        own_fields: |root, _| {
            if has_nested_servers(root) { json!({"codemode": false}) } else { Value::Null }
        },
        dir: Named("XDG_CONFIG_HOME", ".config"),
        user_files: &["opencode/opencode.jsonc", "opencode/opencode.json"],
        project_files: &[
            "opencode.jsonc",
            "opencode.json",
            ".opencode/opencode.jsonc",
            ".opencode/opencode.json",
        ],
        ..client("opencode", "OpenCode", &["opencode"])
    },
    KnownClient {
        has_window: true,
        denies_first: true,
        forms: &[VariableForm::Editor, VariableForm::ClientOnly(CURSOR_NAMES)],
        braces: Braces::First,
        fields: Fields::Only(&["command", "args", "env", "env_file", "url", "headers", "oauth"]),
        variable: editor_variable,
        known_fields: &["env_file"],
        dir: Named("", ".cursor"),
        user_files: &["mcp.json"],
        project_files: &[".cursor/mcp.json"],
        ..client("cursor", "Cursor", &["cursor", "Cursor"])
    },
    // Both editions read the file of the project (`in_project`).
    KnownClient {
        user_files: &["Code/User/mcp.json"],
        project_files: &[".vscode/mcp.json"],
        ..vscode("vscode", "VS Code", &["code", "Code"])
    },
    KnownClient {
        user_files: &["Code - Insiders/User/mcp.json"],
        ..vscode("vscode-insiders", "VS Code Insiders", &["code-insiders", "Code - Insiders"])
    },
    KnownClient {
        puts_project_over_user: true,
        servers: "mcp_servers",
        timeout: TimeoutMeaning::Ours,
        allow_lifts: true,
        // It starts no server without the variable of its token.
        forms: &[VariableForm::Ours],
        fields: Fields::All,
        optional: Fields::Only(&[]),
        known_fields: &["cwd", "enabled"],
        rule_fields: ["enabled_tools", "disabled_tools"],
        own_fields: |_, variables| match variables {
            [] => Value::Null,
            names => json!({"env_vars": names}),
        },
        dir: Named("CODEX_HOME", ".codex"),
        user_files: &["config.toml"],
        project_files: &[".codex/config.toml"],
        ..client("codex", "Codex", &["codex"])
    },
    KnownClient {
        timeout: TimeoutMeaning::Calls,
        shows_questions: false,
        forms: &[VariableForm::Braces, VariableForm::BareName],
        braces: Braces::First,
        fields: Fields::All,
        is_empty_in_env: true,
        variable: shell_variable,
        http_url: "httpUrl",
        known_fields: &["cwd"],
        rule_fields: ["includeTools", "excludeTools"],
        dir: Named("", ".gemini"),
        user_files: &["settings.json"],
        project_files: &[".gemini/settings.json"],
        ..client("gemini", "Gemini CLI", &["gemini"])
    },
    KnownClient {
        timeout: TimeoutMeaning::Calls,
        forms: &[VariableForm::Braces, VariableForm::BareName],
        braces: Braces::First,
        fields: Fields::Only(&["command", "args", "env", "cwd", "headers"]),
        home_fields: &["cwd"],
        variable: shell_variable,
        local_type: Some("local"),
        remote_type: |transport| Some(transport),
        known_fields: &["cwd"],
        rule_fields: ["tools", ""],
        own_fields: |_, _| json!({"tools": ["*"], "deferTools": "never"}),
        dir: Named("COPILOT_HOME", ".copilot"),
        user_files: &["mcp-config.json"],
        project_files: &[".github/mcp.json"],
        ..client("copilot", "Copilot CLI", &["copilot"])
    },
];

/// `${NAME}` and `${NAME:-default}`.
fn shell_variable(name: &str, default: Option<&str>) -> Option<String> {
    let default = default.map(|default| format!(":-{default}")).unwrap_or_default();
    Some(format!("${{{name}{default}}}"))
}

/// `${env:NAME}`.
fn editor_variable(name: &str, default: Option<&str>) -> Option<String> {
    default.is_none().then(|| format!("${{env:{name}}}"))
}

/// Returns whether an OpenCode file has the servers in `mcp.servers`, as its version 2 does.
pub(crate) fn has_nested_servers(root: &Value) -> bool {
    let Some(servers) = root.pointer("/mcp/servers").and_then(Value::as_object) else { return false };
    // A server of version 1 may be named "servers".
    !servers.contains_key("command") && !servers.contains_key("url") && servers.values().all(Value::is_object)
}

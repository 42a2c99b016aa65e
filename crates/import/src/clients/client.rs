//! What is known of a client: the table that each file of a client fills. A function stands in it only for what a table
//! cannot say. docs/clients.md has the same for users.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::host_search::HostSearch;
use super::package::{ClientPackage, PackageContext};
use super::rule_file::RuleFile;
use super::string_rules::{Fields, OPTIONAL, VariableForm};
use crate::json::into_members;
use config::env::Env;

/// The members of a JSON object.
pub(super) type EntryMembers = Map<String, Value>;
/// Names, in the table of a client.
type Names = &'static [&'static str];
/// A place for servers of a single project: the keys that lead to it, and the project's directory.
pub(crate) type ProjectPlace = (Vec<String>, PathBuf);
/// Renames a rule for tools of a server: the rule, the server as it stands in the client's file, and the names of our entry
/// and of the server's group. `None`: the rule is about others.
pub(crate) type RenameRule = fn(&str, &str, &str, &str) -> Option<String>;

/// A client.
pub struct KnownClient {
    /// The name on the command line.
    pub id: &'static str,
    /// The name in texts.
    pub label: &'static str,
    /// The names of its programs, as the system shows processes.
    pub programs: Names,
    /// Whether the desktop starts it, and not a terminal.
    pub has_window: bool,
    /// The client of which it is another edition, which reads the same files of a project. Empty: none.
    pub(super) edition_of: &'static str,
    /// The files of the user. A name may be `*` with an extension: all such files of the directory. If there is none, the
    /// last one is made.
    pub(super) user_files: &'static [(ClientDir, &'static str)],
    /// The files of a project, relative to its directory.
    pub(crate) project_files: Names,
    /// Whether it puts a project's entry over the user's entry of the same name, member by member.
    pub(crate) puts_project_over_user: bool,
    /// Puts servers that stand in a list under their names.
    pub(crate) by_name: fn(&mut Value),
    /// Returns the keys that lead to the servers in a file with this content.
    pub(crate) servers: fn(&Value) -> Names,
    /// Returns the places of the user's file that are for single projects: the keys that lead to each, and its directory.
    pub(crate) projects: fn(&Value) -> Vec<ProjectPlace>,
    /// Finds its packages that are on.
    pub(crate) packages: fn(&PackageContext<'_>) -> Vec<ClientPackage>,
    /// A member beside the servers that is none.
    pub(crate) beside_servers: &'static str,
    /// The client's own names for fields of ours.
    pub(super) names: &'static [(&'static str, &'static str)],
    /// Fields that change what the server gets or may do, and that servers.json cannot have: a server with one stays.
    pub(super) own_meaning: Names,
    /// Rewrites an entry as most clients write it, or says why it cannot be a server of ours.
    pub(super) usual_form: fn(&mut EntryMembers) -> Result<(), String>,
    /// What it means by a server's `timeout`.
    pub(super) timeout: TimeoutMeaning,
    /// Whether it passes its whole environment to servers.
    pub passes_environment: bool,
    /// Parts of the names of variables that it takes for secrets, and does not pass to servers, if it passes all others.
    pub withholds: Names,
    /// Returns whether it is known to show its user what a server asks (form elicitation), by the content of its file.
    pub(crate) shows_questions: fn(&Value) -> bool,
    /// The notations of variables that it knows.
    pub(super) forms: &'static [VariableForm],
    /// Whether a `${` ends at the `}` that belongs to it, if there are braces in it. Elsewhere it ends at the first `}`. A
    /// variable in such braces that the client does not know is text.
    pub(super) balances_braces: bool,
    /// The fields in which it looks for them, by our names: all, unless it is known better. Everything else is text to it.
    pub(super) fields: Fields,
    /// The fields in which `~` before a separator, or alone, is the home directory. In a list, at the start of each string.
    pub(super) home_fields: Names,
    /// The fields in which a variable may be unset: the client starts the server nevertheless, with the empty string or
    /// with the text of the variable. Elsewhere the server cannot work without it.
    pub(super) optional: Fields,
    /// Whether such a variable reaches the server in `env` as the empty string, and not as its own text.
    pub is_empty_in_env: bool,
    /// Its notation of a variable, with `NAME` in it. `None`: it has none.
    pub(super) variable: Option<&'static str>,
    /// The `type` of a local server.
    pub(super) local_type: Option<&'static str>,
    /// The field of the variables of a local server.
    pub(super) env: &'static str,
    /// The field with the names of variables that a local server gets, if the client has one.
    pub(super) passed_names: Option<&'static str>,
    /// Whether `command` is a list that has the arguments, too.
    pub(super) command_has_args: bool,
    /// Returns the fields that our entry has beside the usual ones, in a file with this content. One of them keeps our
    /// tools from being deferred, if the client has a key for that.
    pub(crate) own_fields: fn(&Value) -> Value,
    /// Returns the members that our entry needs so that tools of a server go on to run without a question: from the server's
    /// entry, and what stands before the names of its tools where ours are listed one by one.
    pub(crate) approvals: fn(&Value, &str) -> Value,
    /// Whether a tool about which it has no rule may need a question.
    pub(crate) asks: bool,
    /// The list of the only servers that it starts, by the keys that lead to it: ours has to be in it.
    pub(crate) allowed_list: Names,
    /// Its rules for tools.
    pub(crate) rules: ToolRules,
    /// Whether the model gets only those tools that it searched for. docs/clients.md has the measurements behind it.
    pub tool_search: fn(&Self, &Env) -> HostSearch,
    /// Whether it lists the tools once, so that the first list must be complete.
    pub lists_tools_once: bool,
    /// Returns what to know before its servers move, one line each.
    pub(crate) remarks: fn(&Env) -> Vec<String>,
}

/// The rules for tools that a client's files have beside the servers.
pub(crate) struct ToolRules {
    /// Returns the user's files that have nothing but settings, whether or not they exist.
    pub(crate) user_files: fn(&Env) -> Vec<PathBuf>,
    /// Such files of a project, relative to its directory.
    pub(crate) project_files: Names,
    /// Reads the rules of a file with this content, as the client writes it.
    pub(crate) read: fn(&mut RuleFile, &Value),
    /// Returns the globs over the tools of a server that a pattern names: the pattern, and the server as it stands in the
    /// client's file.
    pub(crate) globs: fn(&str, &str) -> Vec<String>,
    /// Makes a rule for tools of a server one for the same tools of ours, if the client lists them one by one.
    pub(crate) renamed: Option<RenameRule>,
    /// Whether a denial of any file counts before a question of any other one.
    pub(crate) denies_first: bool,
    /// Whether a rule that allows a tool lifts the rules before it. Elsewhere it only means that no question is asked.
    pub(crate) allow_lifts: bool,
    /// Whether agents in files that are not read may turn on again what a rule turns off.
    pub(crate) has_agents: bool,
}

impl ToolRules {
    /// No rules.
    pub(super) const NONE: Self = Self {
        user_files: |_| Vec::new(),
        project_files: &[],
        read: |_, _| {},
        globs: |_, _| Vec::new(),
        renamed: None,
        denies_first: false,
        allow_lifts: false,
        has_agents: false,
    };
}

/// What a number in a server's `timeout` means.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum TimeoutMeaning {
    /// The client has no such field.
    None,
    /// A number for these limits of ours, in units of so many seconds. A smaller number than `least` is ignored. An object
    /// has one number each.
    Limits { names: Names, unit: f64, least: f64 },
    /// It is read as our `timeout` already.
    Ours,
}

impl TimeoutMeaning {
    /// Milliseconds that a call may take.
    pub(super) const MILLISECONDS: Self = Self::Limits { names: &["tools"], unit: 0.001, least: 1.0 };
    /// Seconds that a call may take.
    pub(super) const SECONDS: Self = Self::Limits { names: &["tools"], unit: 1.0, least: 1.0 };
    /// Milliseconds for the start, for the list of tools and for calls.
    pub(super) const EVERYTHING: Self =
        Self::Limits { names: &["initialize", "list", "tools"], unit: 0.001, least: 1.0 };
}

/// The directory of a client's file.
#[derive(Clone, Copy, Debug)]
pub(super) enum ClientDir {
    /// That of an application's settings: Electron's `appData`.
    AppData,
    /// The one that this variable names, else this one below the home directory.
    Named(&'static str, &'static str),
    /// That of settings, by the rules of Linux also on macOS.
    Config,
    /// The directories of packages from the store of Windows whose names begin so, with a directory in each.
    Package(&'static str, &'static str),
    /// What this extension stores in each editor that is made of VS Code.
    Extension(&'static str),
}

/// The user directories of the editors that are made of VS Code, below their `appData`.
const EDITORS: &[&str] =
    &["Antigravity", "Trae", "Kiro", "VSCodium", "Windsurf", "Cursor", "Code - Insiders", "Code"];

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

impl ClientDir {
    /// Returns the directories. There are none if the home directory is not known.
    fn resolve(self, env: &Env, os: HostOs) -> Vec<PathBuf> {
        let home = |path: &str| env.home().map(|home| home.join(path));
        let below = |variable: &str, default: &str| {
            env.get_non_empty(variable).map(PathBuf::from).or_else(|| home(default))
        };
        let app_data = || match os {
            HostOs::Linux => below("XDG_CONFIG_HOME", ".config"),
            HostOs::MacOs => home("Library/Application Support"),
            HostOs::Windows => below("APPDATA", "AppData/Roaming"),
        };
        match self {
            Self::AppData => app_data().into_iter().collect(),
            Self::Config if os == HostOs::Windows => app_data().into_iter().collect(),
            Self::Config => below("XDG_CONFIG_HOME", ".config").into_iter().collect(),
            Self::Named(variable, default) => below(variable, default).into_iter().collect(),
            Self::Extension(id) => {
                let in_editor = |dir: PathBuf| {
                    EDITORS.iter().map(move |editor| dir.join(editor).join("User/globalStorage").join(id))
                };
                app_data().into_iter().flat_map(in_editor).collect()
            }
            Self::Package(prefix, dir) if os == HostOs::Windows => {
                let packages = below("LOCALAPPDATA", "AppData/Local").map(|local| local.join("Packages"));
                let found =
                    packages.and_then(|packages| packages.read_dir().ok()).into_iter().flatten().flatten();
                let of_client = found.filter(|found| found.file_name().to_string_lossy().starts_with(prefix));
                of_client.map(|found| found.path().join(dir)).collect()
            }
            Self::Package(..) => Vec::new(),
        }
    }
}

/// The usual key of the servers.
pub(super) const MCP_SERVERS: &[&str] = &["mcpServers"];

impl KnownClient {
    /// Returns a client that has nothing of its own but its names. Every string is text to it.
    pub(super) const fn new(id: &'static str, label: &'static str, programs: Names) -> Self {
        Self {
            id,
            label,
            programs,
            has_window: false,
            edition_of: "",
            user_files: &[],
            project_files: &[],
            puts_project_over_user: false,
            by_name: |_| {},
            servers: |_| MCP_SERVERS,
            projects: |_| Vec::new(),
            packages: |_| Vec::new(),
            beside_servers: "",
            names: &[],
            own_meaning: &[],
            usual_form: |_| Ok(()),
            timeout: TimeoutMeaning::None,
            passes_environment: false,
            withholds: &[],
            shows_questions: |_| false,
            forms: &[],
            balances_braces: false,
            fields: Fields::All,
            home_fields: &[],
            optional: OPTIONAL,
            is_empty_in_env: false,
            variable: None,
            local_type: None,
            env: "env",
            passed_names: None,
            command_has_args: false,
            own_fields: |_| Value::Null,
            approvals: |_, _| Value::Null,
            asks: true,
            allowed_list: &[],
            rules: ToolRules::NONE,
            tool_search: |_, _| HostSearch::Unknown("it was not measured".to_owned()),
            lists_tools_once: false,
            remarks: |_| Vec::new(),
        }
    }

    /// Returns what stands for files of no client that we know: a table of servers whose strings are as ours.
    pub(super) const fn of_other_files() -> Self {
        Self {
            servers: |root| {
                if root.get("servers").is_some() { &["servers"] } else { MCP_SERVERS }
            },
            shows_questions: |_| true,
            forms: &[VariableForm::Ours],
            optional: Fields::Only(&[]),
            timeout: TimeoutMeaning::Ours,
            ..Self::new("file", "Another file", &[])
        }
    }

    /// Returns the names of its files, with the directories that say whose they are.
    pub(super) fn file_names(&self) -> impl Iterator<Item = PathBuf> {
        let of_user = self.user_files.iter().map(|(dir, name)| match dir {
            ClientDir::Named(_, default) => Path::new(default).join(name),
            ClientDir::Extension(id) => Path::new(id).join(name),
            _ => PathBuf::from(name),
        });
        of_user.chain(self.project_files.iter().map(PathBuf::from))
    }

    /// Returns the files of the user, whether or not they exist. There are none if their directory is not known, as
    /// without a home directory.
    pub(crate) fn user_files(&self, env: &Env, os: HostOs) -> Vec<PathBuf> {
        let dirs = |(dir, name): &(ClientDir, &'static str)| {
            let name = *name;
            dir.resolve(env, os).into_iter().flat_map(move |dir| files_named(&dir, name))
        };
        self.user_files.iter().flat_map(dirs).collect()
    }

    /// Returns the keys that lead to the servers in a file with this content.
    pub(crate) fn servers_path(&self, root: &Value) -> Vec<String> {
        (self.servers)(root).iter().map(|&key| key.to_owned()).collect()
    }

    /// Returns our name for a field of the client, or its own.
    pub(super) fn our_name<'n>(&self, name: &'n str) -> &'n str {
        self.names.iter().find(|(theirs, _)| *theirs == name).map_or(name, |(_, ours)| ours)
    }

    /// Returns whether the client can pass a variable of the environment to a server.
    pub(crate) fn passes_variables(&self) -> bool {
        self.passes_environment || self.variable.is_some() || self.passed_names.is_some()
    }

    /// Returns the client's entry for this program. `root` is the content of the client's file.
    pub fn entry(&self, root: &Value, launch: &OwnLaunch) -> Map<String, Value> {
        let OwnLaunch { command, args, env, variables, .. } = launch;
        let key = self.names.iter().find(|(_, ours)| *ours == "command").map_or("command", |(key, _)| key);
        let command = match self.command_has_args {
            true => {
                let words: Vec<&String> = std::iter::once(command).chain(args).collect();
                json!({key: words})
            }
            false => json!({key: command, "args": args}),
        };
        let transport = self.local_type.map(|name| ("type".to_owned(), json!(name)));
        let mut entry: Map<_, _> = transport.into_iter().chain(into_members(Some(command))).collect();
        // Where the client passes its whole environment, a variable need not be named.
        let notation = self.variable.filter(|_| !self.passes_environment && self.passed_names.is_none());
        let named = notation.into_iter().flat_map(|notation| {
            variables.iter().map(move |name| (name.clone(), json!(notation.replace("NAME", name))))
        });
        let env: Map<_, _> = env.clone().into_iter().chain(named).collect();
        if !env.is_empty() {
            entry.insert(self.env.to_owned(), Value::Object(env));
        }
        if let Some(field) = self.passed_names.filter(|_| !variables.is_empty()) {
            entry.insert(field.to_owned(), json!(variables));
        }
        if !launch.lists_tools {
            entry.extend(into_members(Some((self.own_fields)(root))));
        }
        entry
    }
}

/// Returns the file of this name in a directory, or all of its files if the name is `*` with an extension.
fn files_named(dir: &Path, name: &str) -> Vec<PathBuf> {
    // As components, so that every separator is that of the system.
    let path: PathBuf = dir.join(name).components().collect();
    let Some(extension) = name.rsplit_once("*.").map(|(_, extension)| extension) else { return vec![path] };
    let files = path.parent().and_then(|dir| dir.read_dir().ok()).into_iter().flatten().flatten();
    let is_meant = |path: &PathBuf| path.extension().is_some_and(|found| found == extension);
    let mut files: Vec<_> = files.map(|file| file.path()).filter(is_meant).collect();
    files.sort();
    files
}

/// How a client starts this program.
#[derive(Clone, Debug, Default)]
pub struct OwnLaunch {
    /// The absolute path of the program.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables that only the client knows, by the names that servers.json uses for them, in the client's notation.
    pub env: Map<String, Value>,
    /// The names of variables of the environment that servers.json uses.
    pub variables: Vec<String>,
    /// Whether it lists the tools of all servers, so that the client should defer them.
    pub lists_tools: bool,
}

/// Returns the directory that a variable names, else the one below the home directory.
pub(super) fn named_dir(variable: &'static str, default: &'static str, env: &Env) -> Option<PathBuf> {
    ClientDir::Named(variable, default).resolve(env, HostOs::CURRENT).pop()
}

/// Returns the paths of these files in a directory that is known.
pub(super) fn files_in(dir: Option<PathBuf>, names: &[&str]) -> Vec<PathBuf> {
    dir.iter().flat_map(|dir: &PathBuf| names.iter().map(|name| Path::join(dir, name))).collect()
}

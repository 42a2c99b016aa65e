//! The configuration: the files that users write, and the [`Config`] that the program uses.
//!
//! # Theory of operation
//!
//! There are two sets of types. `file` has the shape of a file as users write it: every field is optional, other
//! clients' names are accepted, and the doc comments become the descriptions in `config-schema.json`. The root of this
//! crate, `server` and [`tool_rules`] have what the program uses: validated, with variables expanded and durations
//! resolved. [`load`] is the only way from one to the other. It parses each file with the position of every value,
//! reads the entries with `value_reader` (which expands the variables of [`vars`]), merges the files and
//! applies the defaults. `object` makes the struct of an object of the file, the table of its fields and the struct
//! that the program uses from one definition.
//!
//! [`watch`] reports when a file may have changed, and [`referenced`] has the files that the config names.
//! [`env`](mod@env) is the environment of the process, and [`dirs`] names the
//! directories of our own files.
//!
//! # Invariants
//!
//! - Loading never fails as a whole. A wrong server is an error of that server only, a wrong setting counts as not
//!   given, and a wrong file has no servers.
//! - No message repeats a value, because any value may be a secret.
//! - A reload finds what has changed by `PartialEq`, so every type of the config has it.
//!
//! ```no_run
//! let env = config::env::Env::of_process();
//! let config = config::load::load(&["servers.json".into()], &env, &config::Overrides::default());
//! for (name, server) in &config.servers {
//!     println!("{name:?}: {}", server.as_ref().map_or_else(ToString::to_string, |_| "valid".to_owned()));
//! }
//! ```

use base::text;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use error::ConfigError;
pub use file::choices::{DiscoveryMode, Launcher, OAuthFlow, Share, SurfaceKind};
pub use file::keys::{CommonConfig, Features, OAuthConfig, Settings, Timeouts};
pub use file::values::{InheritEnv, Mode};
pub use referenced::FileStamp;
pub use server::{
    Endpoint, HttpConfig, HttpTransportKind, LaunchText, ServerConfig, ServerOrigin, StdioConfig,
};

mod byte_size;
pub mod dirs;
pub mod duration;
pub mod env;
mod error;
pub mod fields;
pub mod file;
#[cfg(any(test, fuzzing, feature = "fuzzing"))]
#[path = "../../../fuzz/glue/config.rs"]
pub mod fuzz;
pub mod glob;
pub mod load;
pub mod nearest;
pub mod notation;
mod object;
pub mod referenced;
pub mod secrets;
mod server;
pub mod stateful;
pub mod tool_rules;
mod value_reader;
pub mod vars;
pub mod watch;

/// The name of a group of our own, which no server can have: it has the tool that reads stored results.
pub const OWN_GROUP: &str = "dynamic-mcp";

/// A group's name: the key of its entry in the config. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupName(Arc<str>);

impl GroupName {
    /// Makes a name from the key of an entry.
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }

    /// Returns the name as the config writes it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for GroupName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// Writes the name as it stands in a text: quoted if it is more than one word. `as_str` has the name itself.
impl fmt::Display for GroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text::name(&self.0))
    }
}

impl fmt::Debug for GroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

/// The content of all config files together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// The enabled servers in config order. A server whose entry is wrong is here too, with its error: the other
    /// servers work, and `get_status` can say what is wrong with this one.
    pub servers: Vec<(GroupName, Result<Arc<ServerConfig>, ConfigError>)>,
    /// The servers that the config disables, in config order, unless the profile in use leaves them out.
    pub disabled: Vec<DisabledServer>,
    /// The settings of the instance.
    pub settings: Settings,
    /// The names of all profiles, in the order of the files.
    pub profiles: Vec<String>,
    /// The profile in use, if one is.
    pub profile: Option<ProfileInUse>,
    /// The local servers that are left out because not all users may use them, in config order.
    pub not_for_all_users: Vec<GroupName>,
    /// Whether a file, its servers or its profiles could not be read, so that it is not known what the files have.
    pub is_incomplete: bool,
    /// Errors that concern a whole file, `settings` or `profiles`, such as a file that is missing or not JSON.
    pub errors: Vec<ConfigError>,
    /// Oddities of a whole file, `settings` or `profiles` that do no harm, such as an unknown field. Each server has its
    /// own.
    pub warnings: Vec<ConfigError>,
    /// The files that the values depend on, as they were before they were read.
    pub referenced: BTreeMap<PathBuf, FileStamp>,
}

impl Config {
    /// What to know of a config that has nothing.
    pub const NO_SERVER: &str = "there are no servers yet; `dynamic-mcp import --write-client` takes over those of your clients, as the prompt `setup` does in a client, and `dynamic-mcp add` adds one";

    /// Returns whether nothing is wrong with the config but that it has no server.
    pub fn has_no_server(&self) -> bool {
        self.servers.is_empty()
            && self.disabled.is_empty()
            && self.errors.is_empty()
            && self.profile.is_none()
    }

    /// Finds a disabled server by name.
    pub fn disabled(&self, name: &str) -> Option<&DisabledServer> {
        self.disabled.iter().find(|server| server.name.as_str() == name)
    }

    /// Returns all warnings. Those of a server have its name. Those of a server with an error are a part of that.
    pub fn all_warnings(&self) -> impl Iterator<Item = ConfigError> {
        let of_servers = self.servers.iter().filter_map(|(name, server)| Some((name, server.as_ref().ok()?)));
        let of_servers = of_servers.flat_map(|(name, server)| {
            server.warnings.iter().map(move |warning| warning.of_server(name.as_str()))
        });
        self.warnings.iter().cloned().chain(of_servers)
    }

    /// Finds a server by name; `None` if the config does not have it or disables it, or if the profile in use leaves it
    /// out. It is an error if the server's entry is wrong.
    pub fn server(&self, name: &GroupName) -> Option<&Result<Arc<ServerConfig>, ConfigError>> {
        self.servers.iter().find(|(known, _)| known == name).map(|(_, server)| server)
    }

    /// Returns whether the profile in use leaves out a server of this name.
    pub fn is_left_out(&self, name: &GroupName) -> bool {
        self.profile.as_ref().is_some_and(|profile| profile.left_out.contains(name))
    }

    /// Returns whether the files are known to lack the profile that is wanted. Then no server is used.
    pub fn lacks_profile(&self) -> bool {
        !self.is_incomplete && self.profile.as_ref().is_some_and(|profile| !profile.is_known)
    }

    /// Returns the error of a profile that no file has, if nothing else is wrong with the config as a whole.
    pub fn wrong_profile(&self) -> Option<&ConfigError> {
        let is_unknown = self.profile.as_ref().is_some_and(|profile| !profile.is_known);
        self.errors.first().filter(|_| is_unknown && !self.is_incomplete && self.errors.len() == 1)
    }

    /// Says in one line which profile is in use, how many servers it leaves out, and for how many it has rules for
    /// tools. `None` without one, and for one that no file has.
    pub fn profile_summary(&self) -> Option<String> {
        let profile = self.profile.as_ref().filter(|profile| profile.is_known)?;
        let (used, left_out) = (self.servers.len(), profile.left_out.len());
        let servers = if used + left_out == 1 { "server" } else { "servers" };
        let name = text::name(&profile.name);
        let left_out = match left_out {
            0 => format!("profile {name} leaves out none of {used} {servers}"),
            _ => format!("profile {name} leaves out {left_out} of {} {servers}", used + left_out),
        };
        Some(match profile.restricted {
            0 => left_out,
            restricted => format!("{left_out} and restricts the tools of {restricted}"),
        })
    }
}

/// A server that the config has and disables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DisabledServer {
    /// Its name.
    pub name: GroupName,
    /// The option with which a command reads the file of its entry, with a space before it; empty for the default file.
    pub config_option: Arc<str>,
}

/// Says what to do about it.
impl fmt::Display for DisabledServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, option) = (text::shell_word(self.name.as_str()), &self.config_option);
        write!(f, "disabled; run `dynamic-mcp enable {}{option}`", word.as_deref().unwrap_or("SERVER"))
    }
}

/// The profile that chose the servers and restricts their tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileInUse {
    /// Its name; empty if it is not known which one is meant.
    pub name: String,
    /// Whether a file has it. If not, no server is used.
    pub is_known: bool,
    /// The enabled servers that it leaves out, in config order.
    pub left_out: Vec<GroupName>,
    /// The number of enabled servers that it uses and for whose tools it has rules.
    pub(crate) restricted: usize,
}

/// Options of the command line that take precedence over the files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// The mode of every server.
    pub mode: Option<Mode>,
    /// The idle timeout of servers without an `idle_timeout` of their own; `Some(None)` keeps connections open.
    pub idle_timeout: Option<Option<Duration>>,
    /// The surface, in place of `settings.surface`.
    pub surface: Option<SurfaceKind>,
    /// The profile that chooses the servers; empty if it is not known which one is meant.
    pub profile: Option<String>,
    /// The config files that may be absent.
    pub optional_files: BTreeSet<PathBuf>,
    /// Whether many users share the servers: local servers without `all_users` are left out, and no result is stored.
    pub all_users_only: bool,
    /// Where this instance is reached, if it serves HTTP. No server may be there.
    pub own_address: Option<OwnAddress>,
}

/// The address of an instance that serves HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnAddress {
    /// The names and addresses of its host, each also with its port where that is needed.
    pub authorities: Vec<String>,
    /// The path of the MCP endpoint.
    pub path: String,
}

impl OwnAddress {
    /// Returns whether a URL leads there.
    fn is_at(&self, url: &str) -> bool {
        let (_, rest) = url.split_once("://").unwrap_or_default();
        let rest = rest.split(['?', '#']).next().unwrap_or_default();
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let host = authority.rsplit('@').next().unwrap_or_default();
        self.authorities.iter().any(|own| own.eq_ignore_ascii_case(host))
            && path.trim_end_matches('/') == self.path.trim_end_matches('/')
    }
}

//! Values of a config file that are one of several words.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::value_reader::read_with;

/// Which windows use one process of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Share {
    /// None.
    // Which servers could be shared was once known of some packages.
    #[serde(alias = "auto")]
    Client,
    /// Those that start it in the same directory.
    Directory,
    /// All windows of the user.
    User,
}

impl Share {
    /// Returns the word for it in config files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Directory => "directory",
            Self::User => "user",
        }
    }
}

/// Whether a launcher stays between dynamic-mcp and the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Launcher {
    /// It stays.
    Keep,
    /// It is left out where that is possible.
    Direct,
}

/// What clients see listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum SurfaceKind {
    /// The tools of dynamic-mcp.
    Meta,
    /// All tools of all servers.
    #[value(help = "Every known tool of every group")]
    Flat,
}

/// Which hybrid servers are asked for their tools at start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DiscoveryMode {
    /// Only those whose tools were not read within the last day.
    Cached,
    /// All of them.
    Always,
}

/// Who logs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OAuthFlow {
    /// A person with a browser.
    Browser,
    /// dynamic-mcp itself, with a secret or a key.
    ClientCredentials,
}

read_with!(word: Share, Launcher, SurfaceKind, DiscoveryMode, OAuthFlow);

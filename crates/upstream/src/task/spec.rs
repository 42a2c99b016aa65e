//! What a group's task starts with.

use crate::catalog::Catalog;
use crate::connection::startup_output::StartupOutput;
use crate::pins::group::GroupPins;
use config::{ConfigError, GroupName, ServerConfig};
use futures_util::future::BoxFuture;
use process::server_log::ServerLog;
use std::sync::Arc;

/// What a group's task starts with.
pub struct GroupSpec {
    /// The group's name.
    pub name: GroupName,
    /// Its entry in the config.
    pub server: Result<Arc<ServerConfig>, ConfigError>,
    /// The catalog that the cache has, with the overrides of the config.
    pub cached: Option<Arc<Catalog>>,
    /// What is remembered of its tools.
    pub pins: Arc<GroupPins>,
    /// The end of the group of this name that the config changed. The first attempt begins after it.
    pub(crate) predecessor: Option<BoxFuture<'static, ()>>,
    /// What its processes wrote to stderr.
    pub log: ServerLog,
    /// What they print while they do not answer.
    pub startup: StartupOutput,
}

//! The messages by which an instance attaches to a server in the host: one line of JSON each way. Both ends are the
//! same build of the same program, because the socket's name contains the build.

use process::launch::{ANCESTORS_VAR, Launch};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The largest message that the host passes on, in bytes. It bounds the memory of the host.
pub(crate) const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// The notification by which the host tells that the server's process has ended: `{how, stderr}`. The host passes on no
/// notification of this name.
pub(crate) const SERVER_ENDED: &str = "notifications/dynamic-mcp/server_ended";

/// What a shared server finds in `DYNAMIC_MCP_ANCESTORS`, in the place of an instance's hash. A dynamic-mcp with it among its
/// ancestors shares nothing.
pub(crate) const SHARED_ANCESTOR: &str = "shared";

/// What decides whether two instances use the same process. Umask, groups and limits are not in it, because the host
/// accepts only instances that have its own.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ServerIdentity {
    /// The executable, an absolute path.
    pub program: String,
    /// The arguments. They may hold secrets.
    pub args: Vec<String>,
    /// The whole environment. Its values may be secrets.
    pub env: Vec<(String, String)>,
    /// The working directory.
    pub cwd: String,
    /// The limit for one message of the server.
    pub max_message_bytes: usize,
}

impl fmt::Debug for ServerIdentity {
    /// Shows neither arguments nor values of variables, because both may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerIdentity")
            .field("program", &self.program)
            .field("cwd", &self.cwd)
            .finish_non_exhaustive()
    }
}

impl ServerIdentity {
    /// Returns what has to be executed.
    pub fn launch(&self) -> Launch {
        let env = self.env.iter().map(|(name, value)| (name.into(), value.into()));
        Launch {
            program: self.program.as_str().into(),
            args: self.args.iter().map(Into::into).collect(),
            env: env.chain([(ANCESTORS_VAR.into(), SHARED_ANCESTOR.into())]).collect(),
            cwd: self.cwd.as_str().into(),
        }
    }
}

/// The first line of a session.
#[derive(Debug, Serialize, Deserialize)]
pub struct AttachRequest {
    /// The server to attach to.
    pub server: ServerIdentity,
    /// The same server as it starts without its launcher, if that is known. Not compared: it follows from `server`.
    pub without_launcher: Option<ServerIdentity>,
    /// The soft RLIMIT_NOFILE that the instance was started with. Its current one is raised.
    pub nofile: u64,
    /// The pid of the instance. The one that connected is that of its helper.
    pub instance: u32,
}

/// The host's answer to it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AttachReply {
    /// The server runs. JSON-RPC follows.
    Attached {
        /// The pid of the server's process, for display.
        pid: u32,
        /// Whether the process was started without its launcher.
        is_direct: bool,
        /// Whether it was started for this session.
        is_new: bool,
    },
    /// The instance has to start a process of its own. The host closes the connection.
    Refused(String),
}

/// Why a connection is private although the server is meant to be shared.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Declined(pub String);

impl Declined {
    /// Makes it of the reason, a fragment for the log.
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

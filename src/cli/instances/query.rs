//! Asks the running instances of this user.

use super::endpoint;
use super::{InstanceReply, InstanceRequest, InstanceStatus};
use crate::cli::stderr;
use crate::config::vars::Env;
use crate::transport::server_log::{LogCursor, LogPage};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long an instance may take to answer. One that hangs is left out.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// A running instance.
pub struct RunningInstance {
    /// What it says of itself.
    pub status: InstanceStatus,
    /// The file of its endpoint.
    file: PathBuf,
}

/// What became of a request to reconnect a group.
pub enum Reconnected {
    /// The group is being connected again.
    Yes,
    /// The instance has no such group.
    NoSuchGroup,
}

/// The answer to a request for a log.
pub enum LogReply {
    /// Its lines.
    Page(LogPage),
    /// The instance has no such group.
    NoSuchGroup,
}

/// Returns the instances that answer, the oldest first. Removes the files of those that were killed.
///
/// # Errors
///
/// Fails if the directory of the endpoints cannot be used.
pub fn all(env: &Env) -> io::Result<Vec<RunningInstance>> {
    let mut instances = Vec::new();
    let unusable = |error: io::Error| {
        io::Error::new(error.kind(), format!("the running instances cannot be found: {error}"))
    };
    for file in endpoint::find(endpoint::base(env).as_deref()).map_err(unusable)? {
        match ask(&file, &InstanceRequest::Status) {
            Ok(InstanceReply::Status(status)) => instances.push(RunningInstance { status: *status, file }),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                fs::remove_file(&file).ok();
            }
            _ => stderr::message(format_args!("{} does not answer", file.display())),
        }
    }
    instances.sort_by_key(|instance| std::cmp::Reverse((instance.status.up_s, instance.status.pid)));
    Ok(instances)
}

impl RunningInstance {
    /// Makes the instance connect a group again.
    ///
    /// # Errors
    ///
    /// Fails if the instance does not answer.
    pub fn reconnect(&self, group: &str) -> io::Result<Reconnected> {
        match ask(&self.file, &InstanceRequest::Reconnect(group.to_owned()))? {
            InstanceReply::Reconnecting => Ok(Reconnected::Yes),
            InstanceReply::NoSuchGroup => Ok(Reconnected::NoSuchGroup),
            InstanceReply::Status(_) | InstanceReply::Log(_) => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Reads the log of a group's server, from `after` on.
    ///
    /// # Errors
    ///
    /// Fails if the instance does not answer.
    pub fn log(&self, group: &str, after: Option<LogCursor>) -> io::Result<LogReply> {
        match ask(&self.file, &InstanceRequest::Logs { group: group.to_owned(), after })? {
            InstanceReply::Log(page) => Ok(LogReply::Page(page)),
            InstanceReply::NoSuchGroup => Ok(LogReply::NoSuchGroup),
            InstanceReply::Status(_) | InstanceReply::Reconnecting => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

fn ask(file: &Path, request: &InstanceRequest) -> io::Result<InstanceReply> {
    let line = serde_json::to_string(request)? + "\n";
    Ok(serde_json::from_str(&endpoint::exchange(file, &line, ANSWER_TIMEOUT)?)?)
}

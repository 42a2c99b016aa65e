//! The handle of one upstream process, and the commands that handles send to the client task.

use std::os::fd::OwnedFd;
use std::time::Duration;

use nix::errno::Errno;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

use super::protocol::{LostUpstreams, SPAWN_DESCRIPTORS, SpawnStep};
use crate::process_state::{Exit, ProcessState};
use crate::stop_timeouts::StopTimeouts;

/// How long a caller waits for a stop after its SIGKILL. The warden process gives up 3 s after its first SIGKILL.
const STOP_SLACK: Duration = Duration::from_secs(4);

/// A command to the client task, which owns our end of the socket. Not `Debug`: a frame holds an environment.
pub(super) enum ClientCommand {
    /// Starts an upstream.
    Spawn {
        /// The id of the upstream.
        id: u64,
        /// The encoded request.
        frame: Vec<u8>,
        /// Its descriptors. We close them once they are sent.
        descriptors: [OwnedFd; SPAWN_DESCRIPTORS],
        /// Notified when its first process exists. Dropped if there is a result without that.
        forked: oneshot::Sender<()>,
        /// Where the result goes. Dropped if another warden process has to be asked.
        reply: oneshot::Sender<SpawnReply>,
    },
    /// Ends an upstream.
    Stop {
        /// The id of the upstream.
        id: u64,
        /// When to send signals.
        timeouts: StopTimeouts,
    },
    /// Ends what killed warden processes left behind.
    EndOrphans(LostUpstreams),
    /// The warden process is silent and gets no more spawns. The client task ends when no upstream is left.
    Retire,
    /// Ends every upstream and the warden process.
    Shutdown {
        /// When to send signals.
        timeouts: StopTimeouts,
    },
}

/// The pid and the handle of a new upstream.
pub(super) type SpawnReply = Result<(u32, ProcessHandle), SpawnReplyError>;

/// Why an upstream was not started.
#[derive(Debug)]
pub(super) enum SpawnReplyError {
    /// A system call failed.
    Failed(SpawnStep, Errno),
    /// Our executable was replaced, and the warden process speaks another version of the protocol.
    VersionMismatch,
}

/// Owns one upstream process.
///
/// If it is dropped before [`stop`](Self::stop) is done, the upstream is stopped by [`StopTimeouts::ORDINARY`], so that
/// no process outlives a caller that is cancelled or fails.
#[derive(Debug)]
pub struct ProcessHandle {
    /// The number of the process, which the warden knows it by.
    id: u64,
    /// Whether the process runs.
    state: watch::Receiver<ProcessState>,
    /// Weak, so that the warden process ends when its last [`Warden`](super::Warden) is dropped.
    commands: mpsc::WeakSender<ClientCommand>,
}

impl ProcessHandle {
    /// Creates the handle of process `id`.
    pub(super) fn new(
        id: u64,
        state: watch::Receiver<ProcessState>,
        commands: mpsc::WeakSender<ClientCommand>,
    ) -> Self {
        Self { id, state, commands }
    }

    /// Waits for the process to exit, however long that takes. Cancel-safe, and can be called again. `Unknown` if the
    /// warden process has died.
    pub async fn exited(&self) -> Exit {
        ProcessState::exit(&self.state).await
    }

    /// Ends the process and every process that it started, with signals as `timeouts` says. A second call can only
    /// bring the signals forward.
    ///
    /// The caller closes the process's stdin first. Returns as soon as no process is left, or when the remaining ones
    /// have survived SIGKILL for 3 s; in any case 4 s after `sigkill_after`, and at once if the warden is gone.
    pub async fn stop(&self, timeouts: StopTimeouts) {
        let Some(commands) = self.commands.upgrade() else { return };
        let mut state = self.state.clone();
        let stopped = async {
            if commands.send(ClientCommand::Stop { id: self.id, timeouts }).await.is_ok() {
                state.wait_for(|state| state.is_stopped).await.ok();
            }
        };
        timeout(timeouts.sigkill_after + STOP_SLACK, stopped).await.ok();
    }
}

impl Drop for ProcessHandle {
    fn drop(&mut self) {
        if !self.state.borrow().is_stopped
            && let Some(commands) = self.commands.upgrade()
        {
            // Fails only if the client task has ended, or if a thousand commands wait for a warden process that is stuck.
            // The end of the warden process then is that of the upstream.
            commands.try_send(ClientCommand::Stop { id: self.id, timeouts: StopTimeouts::ORDINARY }).ok();
        }
    }
}

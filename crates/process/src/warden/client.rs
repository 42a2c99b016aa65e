//! The client task: owns our end of the socket, sends commands to the warden process and distributes its events.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use bytes::BytesMut;
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::process;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

use super::handle::{ClientCommand, ProcessHandle, SpawnReply, SpawnReplyError};
use super::owner_mark::{OwnerId, WARDEN_NAME};
use super::protocol::{FrameError, SpawnStep, WardenEvent, WardenRequest, decode, encode, next_frame};
use crate::descriptors;
use crate::process_state::{Exit, ProcessState};
use crate::stop_timeouts::StopTimeouts;

/// How long a warden process may take to exit, once its socket is closed, before it is killed: it ends its upstreams
/// before, and kills for 3 s.
const EXIT_TIMEOUT: Duration = StopTimeouts::ORDINARY.sigkill_after.saturating_add(Duration::from_secs(4));

/// Why the client task ends.
enum Disconnect {
    /// A `Shutdown` was sent, or the last handle was dropped.
    Requested,
    /// The warden process died.
    Lost(io::Error),
    /// The warden process speaks another version of the protocol.
    VersionMismatch,
}

impl From<FrameError> for Disconnect {
    fn from(error: FrameError) -> Self {
        match error {
            FrameError::OtherVersion => Self::VersionMismatch,
            FrameError::Malformed => Self::Lost(io::Error::new(io::ErrorKind::InvalidData, error)),
        }
    }
}

/// The connection to one warden process.
pub(super) struct WardenClient {
    /// The socket to the warden process.
    socket: UnixStream,
    /// Bytes that were received and not decoded yet.
    input: BytesMut,
    /// The commands of the handles.
    commands: mpsc::Receiver<ClientCommand>,
    /// For the handles of new processes.
    command_sender: mpsc::WeakSender<ClientCommand>,
    /// The upstreams by id.
    processes: HashMap<u64, TrackedProcess>,
    /// Whether a `Shutdown` was sent, so that the socket is going to be closed.
    is_shutting_down: bool,
    /// Whether the warden process gets no more spawns.
    is_retired: bool,
}

/// One upstream, from its request until it is stopped.
struct TrackedProcess {
    /// `None` until it is forked.
    pid: Option<u32>,
    /// `None` once it is forked.
    forked: Option<oneshot::Sender<()>>,
    /// `None` once it is spawned.
    reply: Option<oneshot::Sender<SpawnReply>>,
    /// Whether the process runs, for its handles.
    state: watch::Sender<ProcessState>,
}

impl WardenClient {
    /// Starts the warden process. Its stdin is its end of the socket. To be called in a Tokio runtime.
    ///
    /// # Errors
    ///
    /// Fails if the process or the socket cannot be made.
    pub(super) fn start(
        program: &Path,
        args: &[OsString],
        commands: mpsc::Receiver<ClientCommand>,
        command_sender: mpsc::WeakSender<ClientCommand>,
    ) -> io::Result<(Self, process::Child)> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let mut command = process::Command::new(program);
        let owner = OwnerId::of_process(std::process::id().cast_signed());
        // No environment, because each upstream gets its own. No directory of ours, because it may be unmounted.
        command.arg0(WARDEN_NAME).args(args).arg(owner.var_value(0)).env_clear().current_dir("/");
        command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn()?;
        let client = Self {
            socket: UnixStream::from_std(ours)?,
            input: BytesMut::new(),
            commands,
            command_sender,
            processes: HashMap::new(),
            is_shutting_down: false,
            is_retired: false,
        };
        Ok((client, child))
    }

    /// Serves the connection until the warden process is gone or speaks another version, until the last
    /// [`Warden`](super::Warden) is dropped, or until this one is retired and has no upstream left. Then waits for the
    /// end of the warden process, and kills it after [`EXIT_TIMEOUT`]. `hello` are the first frames to send, and
    /// `ending_file` comes with them.
    ///
    /// If the warden process dies while it has upstreams, calls `on_lost` with their pids.
    pub(super) async fn run(
        mut self,
        (hello, ending_file): (Vec<u8>, Option<OwnedFd>),
        mut warden: process::Child,
        on_lost: impl FnOnce(Vec<u32>),
    ) {
        let disconnect = self.serve(&hello, ending_file).await;
        match disconnect {
            Disconnect::Requested => drop(self),
            Disconnect::VersionMismatch => self.reject_all(),
            Disconnect::Lost(error) => {
                let orphaned: Vec<u32> = self.processes.values().filter_map(|process| process.pid).collect();
                tracing::warn!(%error, upstreams = orphaned.len(), "the warden process died");
                let had_processes = !self.processes.is_empty();
                // Before `on_lost`, so that every new request starts another warden process.
                drop(self);
                if had_processes {
                    on_lost(orphaned);
                }
            }
        }
        // It exits because its socket is closed, unless it is stopped.
        if let Some(pid) = warden.id() {
            // It is not reaped, so the pid is still its own.
            kill(Pid::from_raw(pid.cast_signed()), Signal::SIGCONT).ok();
        }
        if timeout(EXIT_TIMEOUT, warden.wait()).await.is_err() {
            warden.start_kill().ok();
        }
        warden.wait().await.ok();
    }

    async fn serve(&mut self, hello: &[u8], ending_file: Option<OwnedFd>) -> Disconnect {
        if let Err(error) = descriptors::send(&self.socket, hello, ending_file.as_slice()).await {
            return Disconnect::Lost(error);
        }
        loop {
            let result = tokio::select! {
                command = self.commands.recv() => match command {
                    Some(command) => self.execute(command).await.map_err(Disconnect::Lost),
                    None => return Disconnect::Requested,
                },
                read = self.socket.read_buf(&mut self.input) => match read {
                    Ok(0) => Err(Disconnect::Lost(io::ErrorKind::UnexpectedEof.into())),
                    Ok(_) => self.handle_events(),
                    Err(error) => Err(Disconnect::Lost(error)),
                },
            };
            match result {
                Ok(()) if self.is_retired && !self.has_upstreams() => return Disconnect::Requested,
                Ok(()) => {}
                Err(Disconnect::Lost(_)) if self.is_shutting_down => return Disconnect::Requested,
                Err(disconnect) => return disconnect,
            }
        }
    }

    /// Executes a command. It may wait for the warden process to read, because the warden process never waits for us to
    /// read.
    ///
    /// # Errors
    ///
    /// Fails if the warden process has died.
    async fn execute(&mut self, command: ClientCommand) -> io::Result<()> {
        let request = match command {
            ClientCommand::Spawn { id, frame, descriptors, forked, reply } => {
                if self.is_retired {
                    return Ok(());
                }
                let (forked, reply) = (Some(forked), Some(reply));
                let process = TrackedProcess { pid: None, forked, reply, state: watch::Sender::default() };
                self.processes.insert(id, process);
                return descriptors::send(&self.socket, &frame, &descriptors).await;
            }
            ClientCommand::Stop { id, timeouts } => WardenRequest::Stop { id, timeouts },
            ClientCommand::EndOrphans(lost) => WardenRequest::EndOrphans(lost),
            ClientCommand::Retire => {
                self.retire();
                return Ok(());
            }
            ClientCommand::Shutdown { timeouts } => {
                self.is_shutting_down = true;
                WardenRequest::Shutdown { timeouts }
            }
        };
        descriptors::send(&self.socket, &encode(&request), &[]).await
    }

    /// Handles every whole frame that was received.
    ///
    /// # Errors
    ///
    /// `Lost` if a frame is malformed, `VersionMismatch` if the warden process is of another version.
    fn handle_events(&mut self) -> Result<(), Disconnect> {
        while let Some(frame) = next_frame(&mut self.input)? {
            match decode(&frame)? {
                WardenEvent::Hello { .. } => {}
                WardenEvent::Forked { id, pid } => self.forked(id, pid),
                WardenEvent::Spawned { id } => self.spawned(id),
                WardenEvent::SpawnFailed { id, step, errno } => {
                    self.spawn_failed(id, step, Errno::from_raw(errno));
                }
                WardenEvent::Exited { id, status } => {
                    let exit = match libc::WIFSIGNALED(status) {
                        true => Exit::Signal(libc::WTERMSIG(status)),
                        false => Exit::Code(libc::WEXITSTATUS(status)),
                    };
                    self.update_state(id, |state| state.exit = Some(exit));
                }
                WardenEvent::Stopped { id, survivors } => self.stopped(id, survivors),
            }
        }
        Ok(())
    }

    fn forked(&mut self, id: u64, pid: u32) {
        let Some(process) = self.processes.get_mut(&id) else { return };
        process.pid = Some(pid);
        if let Some(forked) = process.forked.take() {
            // Fails if the caller has given up.
            forked.send(()).ok();
        }
    }

    fn spawned(&mut self, id: u64) {
        let Some(process) = self.processes.get_mut(&id) else { return };
        let Some(pid) = process.pid else { return };
        let handle = ProcessHandle::new(id, process.state.subscribe(), self.command_sender.clone());
        if let Some(reply) = process.reply.take() {
            // If the caller has given up, this drops the handle, which stops the process.
            drop(reply.send(Ok((pid, handle))));
        }
    }

    /// Sends the spawns that the warden process has not begun back to their callers. It may begin them when it wakes
    /// up; then they are stopped.
    fn retire(&mut self) {
        self.is_retired = true;
        for process in self.processes.values_mut().filter(|process| process.pid.is_none()) {
            (process.forked, process.reply) = (None, None);
        }
    }

    fn has_upstreams(&self) -> bool {
        self.processes.values().any(|process| process.pid.is_some())
    }

    fn spawn_failed(&mut self, id: u64, step: SpawnStep, errno: Errno) {
        if let Some(reply) = self.processes.remove(&id).and_then(|process| process.reply) {
            drop(reply.send(Err(SpawnReplyError::Failed(step, errno))));
        }
    }

    fn update_state(&self, id: u64, update: impl FnOnce(&mut ProcessState)) {
        if let Some(process) = self.processes.get(&id) {
            process.state.send_modify(update);
        }
    }

    fn stopped(&mut self, id: u64, survivors: u32) {
        self.update_state(id, |state| state.is_stopped = true);
        let pid = self.processes.remove(&id).and_then(|process| process.pid);
        if survivors > 0 {
            tracing::warn!(pid, survivors, "processes of an upstream survived SIGKILL");
        }
    }

    /// Rejects the spawns that are under way or queued.
    fn reject_all(mut self) {
        self.commands.close();
        for (_, process) in self.processes.drain() {
            if let Some(reply) = process.reply {
                drop(reply.send(Err(SpawnReplyError::VersionMismatch)));
            }
        }
        while let Ok(command) = self.commands.try_recv() {
            if let ClientCommand::Spawn { reply, .. } = command {
                drop(reply.send(Err(SpawnReplyError::VersionMismatch)));
            }
        }
    }
}

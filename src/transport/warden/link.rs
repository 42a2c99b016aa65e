//! The task that owns our end of the socket: it sends what the handles ask for and hands out what the warden
//! says, by the ids of the upstreams.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::process::Stdio;

use bytes::BytesMut;
use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, MsgFlags, UnixAddr, sendmsg};
use tokio::io::{AsyncReadExt, Interest};
use tokio::net::UnixStream;
use tokio::process;
use tokio::sync::{mpsc, oneshot, watch};

use super::protocol::{Notice, Request, VERSION, next_frame};
use super::{Exit, Grace, Launch, Process, SpawnError, State, Step};

/// What the handles ask for. Not `Debug`: a frame holds an environment.
pub(super) enum Command {
    /// A `Spawn` request, already a frame. `stdio` are the upstream's ends, closed here once they are sent.
    Spawn {
        id: u64,
        frame: Vec<u8>,
        stdio: [OwnedFd; 3],
        reply: oneshot::Sender<Reply>,
    },
    Stop {
        id: u64,
        grace: Grace,
    },
    End {
        grace: Grace,
    },
}

pub(super) type Reply = Result<(u32, Process), Refusal>;

/// Why there is no upstream.
#[derive(Debug)]
pub(super) enum Refusal {
    Failed(Step, Errno),
    /// Our program's file was replaced, and what it now holds speaks another version.
    Version,
}

impl Refusal {
    pub(super) fn into_error(self, launch: &Launch) -> SpawnError {
        match self {
            Self::Failed(Step::Cwd, errno) => SpawnError::Cwd { path: launch.cwd.clone(), errno },
            Self::Failed(Step::Exec, errno) => SpawnError::Exec { path: launch.program.clone(), errno },
            Self::Version => SpawnError::Warden(io::Error::other(
                "the program's file was replaced by another version: restart dynamic-mcp",
            )),
        }
    }
}

/// Why the link ended.
enum End {
    /// Asked for: by `End`, or by dropping the last handle.
    Deliberate,
    /// The warden died.
    Lost(io::Error),
    Version,
}

pub(super) struct Link {
    socket: UnixStream,
    input: BytesMut,
    commands: mpsc::UnboundedReceiver<Command>,
    /// For the handles of new processes.
    line: mpsc::WeakUnboundedSender<Command>,
    upstreams: HashMap<u64, Upstream>,
    /// `End` was sent: the socket will break.
    ending: bool,
}

/// One upstream, from its request until it is gone.
struct Upstream {
    /// Known once it was started.
    pid: Option<u32>,
    reply: Option<oneshot::Sender<Reply>>,
    state: watch::Sender<State>,
}

impl Link {
    /// Starts the warden process. Its end of the socket is its stdin.
    pub(super) fn open(
        program: &Path,
        args: &[OsString],
        commands: mpsc::UnboundedReceiver<Command>,
        line: mpsc::WeakUnboundedSender<Command>,
    ) -> io::Result<(Self, process::Child)> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let mut command = process::Command::new(program);
        // By another name, so that killing all that is called dynamic-mcp leaves the warden to do its work.
        // Without our environment (what it starts gets its own) and our directory (which may be unmounted).
        command.arg0("dmcp-warden").args(args).env_clear().current_dir("/");
        command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn()?;
        let socket = UnixStream::from_std(ours)?;
        let (input, upstreams) = (BytesMut::new(), HashMap::new());
        Ok((Self { socket, input, commands, line, upstreams, ending: false }, child))
    }

    /// Serves until the warden or the last handle is gone. `lost` is called with the pids of the upstreams of
    /// a warden that died unasked, if it had any.
    pub(super) async fn run(
        mut self,
        hello: Vec<u8>,
        mut warden: process::Child,
        lost: impl FnOnce(Vec<u32>),
    ) {
        match self.serve(hello).await {
            End::Deliberate => drop(self),
            End::Version => self.refuse_all(),
            End::Lost(error) => {
                let left: Vec<u32> = self.upstreams.values().filter_map(|upstream| upstream.pid).collect();
                tracing::warn!(%error, upstreams = left.len(), "the warden died");
                let had_any = !self.upstreams.is_empty();
                // Closed first: whoever asks now gets another warden.
                drop(self);
                if had_any {
                    lost(left);
                }
            }
        }
        // So that it does not stay a zombie. It ends by itself: its socket is closed.
        warden.wait().await.ok();
    }

    async fn serve(&mut self, hello: Vec<u8>) -> End {
        if let Err(error) = self.send(&hello, &[]).await {
            return End::Lost(error);
        }
        loop {
            let done = tokio::select! {
                command = self.commands.recv() => match command {
                    Some(command) => self.carry(command).await,
                    None => return End::Deliberate,
                },
                read = self.socket.read_buf(&mut self.input) => match read {
                    Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
                    Ok(_) => match self.hear() {
                        Ok(true) => Ok(()),
                        Ok(false) => return End::Version,
                        Err(error) => Err(error),
                    },
                    Err(error) => Err(error),
                },
            };
            match done {
                Ok(()) => {}
                Err(_) if self.ending => return End::Deliberate,
                Err(error) => return End::Lost(error),
            }
        }
    }

    async fn carry(&mut self, command: Command) -> io::Result<()> {
        match command {
            Command::Spawn { id, frame, stdio, reply } => {
                let state = watch::Sender::default();
                self.upstreams.insert(id, Upstream { pid: None, reply: Some(reply), state });
                let stdio = stdio.each_ref().map(AsRawFd::as_raw_fd);
                self.send(&frame, &stdio).await
            }
            Command::Stop { id, grace } => self.send(&Request::Stop { id, grace }.encode(), &[]).await,
            Command::End { grace } => {
                self.ending = true;
                self.send(&Request::End { grace }.encode(), &[]).await
            }
        }
    }

    /// The warden never waits for us to read, so this may wait for it to read.
    async fn send(&self, mut frame: &[u8], descriptors: &[RawFd]) -> io::Result<()> {
        let mut rights = (!descriptors.is_empty()).then_some(ControlMessage::ScmRights(descriptors));
        while !frame.is_empty() {
            let control = rights.as_slice();
            let write = || {
                let parts = [IoSlice::new(frame)];
                let socket = self.socket.as_raw_fd();
                Ok(sendmsg::<UnixAddr>(socket, &parts, control, NO_SIGNAL, None)?)
            };
            let count = self.socket.async_io(Interest::WRITABLE, write).await?;
            frame = &frame[count..];
            rights = None;
        }
        Ok(())
    }

    /// Handles every whole frame that came. False: the warden speaks another version.
    fn hear(&mut self) -> io::Result<bool> {
        let malformed = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        while let Some(frame) = next_frame(&mut self.input).map_err(malformed)? {
            match Notice::decode(frame).map_err(malformed)? {
                Notice::Welcome { version } if version != VERSION => return Ok(false),
                Notice::Welcome { .. } => {}
                Notice::Started { id, pid } => self.started(id, pid),
                Notice::Failed { id, step, errno } => self.failed(id, step, Errno::from_raw(errno)),
                Notice::Exited { id, status } => {
                    let exit = Exit::from_status(status);
                    self.update(id, |state| state.exit = Some(exit));
                }
                Notice::Gone { id, left } => self.gone(id, left),
            }
        }
        Ok(true)
    }

    fn started(&mut self, id: u64, pid: u32) {
        let Some(upstream) = self.upstreams.get_mut(&id) else { return };
        upstream.pid = Some(pid);
        let process = Process { id, state: upstream.state.subscribe(), line: self.line.clone() };
        if let Some(reply) = upstream.reply.take() {
            // Whoever asked may have given up: then dropping the process stops it.
            drop(reply.send(Ok((pid, process))));
        }
    }

    fn failed(&mut self, id: u64, step: Step, errno: Errno) {
        if let Some(reply) = self.upstreams.remove(&id).and_then(|upstream| upstream.reply) {
            drop(reply.send(Err(Refusal::Failed(step, errno))));
        }
    }

    fn update(&self, id: u64, change: impl FnOnce(&mut State)) {
        if let Some(upstream) = self.upstreams.get(&id) {
            upstream.state.send_modify(change);
        }
    }

    fn gone(&mut self, id: u64, left: u32) {
        self.update(id, |state| state.gone = true);
        let pid = self.upstreams.remove(&id).and_then(|upstream| upstream.pid);
        if left > 0 {
            tracing::warn!(pid, left, "processes of an upstream withstood SIGKILL");
        }
    }

    /// Answers whoever asked, for as long as somebody may.
    fn refuse_all(mut self) {
        self.commands.close();
        for upstream in self.upstreams.drain() {
            if let Some(reply) = upstream.1.reply {
                drop(reply.send(Err(Refusal::Version)));
            }
        }
        while let Ok(command) = self.commands.try_recv() {
            if let Command::Spawn { reply, .. } = command {
                drop(reply.send(Err(Refusal::Version)));
            }
        }
    }
}

/// macOS has no such flag; Rust programs ignore SIGPIPE anyway.
#[cfg(target_os = "linux")]
const NO_SIGNAL: MsgFlags = MsgFlags::MSG_NOSIGNAL;
#[cfg(not(target_os = "linux"))]
const NO_SIGNAL: MsgFlags = MsgFlags::empty();

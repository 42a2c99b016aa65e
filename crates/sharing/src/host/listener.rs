//! The host's socket: accepts sessions, and decides when the host ends.

use super::registry::{MAX_SERVERS, Registry};
use super::session;
use super::systemd_scope;
use crate::confinement::Confinement;
use process::ending_servers::EndingServers;
use process::runtime_dir::RuntimeDir;
use process::warden::{self, StopTimeouts, Warden};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

/// How long the host stays after its last session has ended: 2 s in which its server stays, and 5 s.
const LINGER: Duration = Duration::from_secs(7);
/// How long it waits if it cannot end, because an instance is looking for it.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);
/// How many sessions there may be. Further ones are private.
const MAX_SESSIONS: usize = 1024;
/// The interval between attempts to accept after one has failed.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// The listening socket.
pub(super) struct HostSocket {
    dir: RuntimeDir,
    path: PathBuf,
    /// The device and the inode of the socket's file. Another file at its path means that this host was replaced.
    file: (u64, u64),
    socket: UnixListener,
    /// Locked while the host ends.
    lock: File,
}

impl HostSocket {
    /// Listens at `path`, where there must be no file.
    ///
    /// # Errors
    ///
    /// Fails if the socket cannot be made, or the lock file cannot be opened.
    pub(super) fn bind(dir: RuntimeDir, path: PathBuf) -> io::Result<Self> {
        let socket = UnixListener::bind(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        let metadata = fs::symlink_metadata(&path)?;
        let lock = dir.lock_file()?;
        Ok(Self { dir, path, file: (metadata.dev(), metadata.ino()), socket, lock })
    }

    /// Serves until no instance has needed the host for `LINGER`, or a signal comes. Then ends every server. Refuses
    /// sessions beyond `MAX_SESSIONS` by closing their connections.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be read what confines this process, signals cannot be handled, or a file cannot be opened.
    pub(super) async fn serve(mut self) -> io::Result<()> {
        warden::raise_nofile();
        let own = Confinement::read_own().map_err(io::Error::other)?;
        let own = Arc::new(own);
        let warden = Warden::with_ending_servers(EndingServers::open(&self.dir)?);
        let (new_servers, mut added_servers) = mpsc::channel(MAX_SERVERS);
        let registry = Registry::new(warden.clone(), self.dir.clone(), new_servers);
        // Before a server is started, so that the servers are in the scope as well.
        let _scope = JoinSet::from_iter([systemd_scope::enter(
            self.dir.path().to_owned(),
            std::iter::once(std::process::id()).chain(warden.start()).collect(),
        )]);
        let (mut sessions, mut servers) = (JoinSet::new(), JoinSet::new());
        let mut end_at = Instant::now() + LINGER;
        let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        // Its own session has no terminal; a user who closes it does not mean to end the host.
        let mut hangup = signal(SignalKind::hangup())?;
        loop {
            tokio::select! {
                accepted = self.socket.accept() => match accepted {
                    Ok((socket, _)) if sessions.len() < MAX_SESSIONS && self.is_at_its_path() => {
                        drop(sessions.spawn(session::serve(socket, registry.clone(), own.clone())));
                    }
                    // The instance sees the end of the connection.
                    Ok(_) => {}
                    Err(error) => {
                        tracing::warn!(%error, "failed to accept a session");
                        sleep(ACCEPT_RETRY_INTERVAL).await;
                    }
                },
                Some(server) = added_servers.recv() => drop(servers.spawn(server)),
                Some(_) = servers.join_next() => {}
                Some(_) = sessions.join_next() => end_at = Instant::now() + LINGER,
                () = sleep_until(end_at), if sessions.is_empty() && servers.is_empty() => match self.retire() {
                    Ok(None) => break,
                    Ok(Some(socket)) => drop(sessions.spawn(session::serve(socket, registry.clone(), own.clone()))),
                    Err(_) => end_at = Instant::now() + RETRY_INTERVAL,
                },
                _ = term.recv() => break,
                _ = int.recv() => break,
                _ = hangup.recv() => {}
            }
        }
        if self.is_at_its_path() {
            fs::remove_file(&self.path).ok();
        }
        warden.shutdown(StopTimeouts::SHUTDOWN).await;
        Ok(())
    }

    /// Returns whether the socket is still where instances look for it.
    fn is_at_its_path(&self) -> bool {
        let file = fs::symlink_metadata(&self.path);
        file.is_ok_and(|file| (file.dev(), file.ino()) == self.file)
    }

    /// Stops listening, unless an instance has connected meanwhile, whose connection is returned. After `None`, the
    /// host has to end: it keeps the lock.
    ///
    /// # Errors
    ///
    /// Fails if an instance holds the lock, because it looks for a host, or if the system refuses.
    fn retire(&mut self) -> io::Result<Option<UnixStream>> {
        self.lock.try_lock()?;
        let retired = self.accept_waiting();
        if matches!(retired, Ok(None)) {
            // The lock is held until the process ends.
            if self.is_at_its_path() {
                fs::remove_file(&self.path)?;
            }
        } else {
            self.lock.unlock()?;
        }
        retired
    }

    /// Accepts a connection that waits. `None`: none does. Asks the system itself, because the runtime may not have
    /// noticed it yet.
    ///
    /// # Errors
    ///
    /// Fails as accept(2).
    fn accept_waiting(&self) -> io::Result<Option<UnixStream>> {
        use std::os::fd::AsFd;
        let listener = std::os::unix::net::UnixListener::from(self.socket.as_fd().try_clone_to_owned()?);
        match listener.accept() {
            Ok((socket, _)) => {
                socket.set_nonblocking(true)?;
                Ok(Some(UnixStream::from_std(socket)?))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

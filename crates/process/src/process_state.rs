//! What is known of a child process: whether it runs, and how it ended.

use std::fmt;
use tokio::sync::watch;

/// What is known of a process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProcessState {
    /// How its first process ended.
    pub(crate) exit: Option<Exit>,
    /// Whether its stop has finished: none of its processes is left, or those that are cannot be ended.
    pub(crate) is_stopped: bool,
}

impl ProcessState {
    /// Waits for the exit, however long that takes. Cancel-safe. `Unknown` if nobody reports it any more.
    pub(crate) async fn exit(state: &watch::Receiver<Self>) -> Exit {
        let exited = state.clone().wait_for(|state| state.exit.is_some()).await.map(|state| state.exit);
        exited.ok().flatten().unwrap_or(Exit::Unknown)
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It exited with this code.
    Code(i32),
    /// This signal killed it.
    #[cfg(unix)]
    Signal(i32),
    /// The warden process was killed, so the process was killed too and its status was lost. On Windows: the system does
    /// not tell.
    Unknown,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            // A status of Windows, such as 0xC0000005 for an access violation.
            Self::Code(code) if code < -1 => write!(f, "exited with code {code:#010X}"),
            Self::Code(code) => write!(f, "exited with code {code}"),
            #[cfg(unix)]
            Self::Signal(number) => match nix::sys::signal::Signal::try_from(number) {
                Ok(signal) => write!(f, "was killed by {signal}"),
                Err(_) => write!(f, "was killed by signal {number}"),
            },
            Self::Unknown if cfg!(windows) => f.write_str("ended"),
            Self::Unknown => f.write_str("was killed because dynamic-mcp's warden process died"),
        }
    }
}

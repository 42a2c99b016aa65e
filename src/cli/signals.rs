//! What tells the process to end: signals, and on Windows the events of its console.

use std::io;

/// The signals that end the process.
#[cfg(unix)]
pub(super) struct Signals([(&'static str, tokio::signal::unix::Signal); 3]);

#[cfg(unix)]
impl Signals {
    /// Starts to receive the signals, which then no longer end the process by themselves.
    pub(super) fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self([
            ("SIGTERM", signal(SignalKind::terminate())?),
            ("SIGINT", signal(SignalKind::interrupt())?),
            ("SIGHUP", signal(SignalKind::hangup())?),
        ]))
    }

    /// Waits for the next signal and returns its name. Cancel-safe.
    pub(super) async fn next(&mut self) -> &'static str {
        let [term, int, hup] = &mut self.0;
        tokio::select! {
            _ = term.1.recv() => term.0,
            _ = int.1.recv() => int.0,
            _ = hup.1.recv() => hup.0,
        }
    }
}

/// The events of the console that end the process. After the last three the system waits up to 5 s for us to exit.
#[cfg(windows)]
pub(super) struct Signals {
    c: tokio::signal::windows::CtrlC,
    break_: tokio::signal::windows::CtrlBreak,
    close: tokio::signal::windows::CtrlClose,
    logoff: tokio::signal::windows::CtrlLogoff,
    shutdown: tokio::signal::windows::CtrlShutdown,
}

#[cfg(windows)]
impl Signals {
    /// Starts to receive the events, which then no longer end the process by themselves.
    pub(super) fn listen() -> io::Result<Self> {
        use tokio::signal::windows;
        Ok(Self {
            c: windows::ctrl_c()?,
            break_: windows::ctrl_break()?,
            close: windows::ctrl_close()?,
            logoff: windows::ctrl_logoff()?,
            shutdown: windows::ctrl_shutdown()?,
        })
    }

    /// Waits for the next event and returns its name. Cancel-safe.
    pub(super) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.c.recv() => "CTRL_C_EVENT",
            _ = self.break_.recv() => "CTRL_BREAK_EVENT",
            _ = self.close.recv() => "CTRL_CLOSE_EVENT",
            _ = self.logoff.recv() => "CTRL_LOGOFF_EVENT",
            _ = self.shutdown.recv() => "CTRL_SHUTDOWN_EVENT",
        }
    }
}

//! The signals that end the process: SIGTERM, SIGINT (Ctrl-C) and SIGHUP (the end of the terminal), or the events of the
//! console on Windows.

use std::io;

/// Receives the signals.
#[cfg(unix)]
pub struct EndSignals([(&'static str, tokio::signal::unix::Signal); 3]);

#[cfg(unix)]
impl EndSignals {
    /// Starts to receive the signals, which then no longer end the process by themselves.
    ///
    /// # Errors
    ///
    /// Fails if they cannot be handled.
    pub fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self([
            ("SIGTERM", signal(SignalKind::terminate())?),
            ("SIGINT", signal(SignalKind::interrupt())?),
            ("SIGHUP", signal(SignalKind::hangup())?),
        ]))
    }

    /// Waits for the next signal and returns its name. Cancel-safe.
    pub async fn next(&mut self) -> &'static str {
        let [term, int, hup] = &mut self.0;
        tokio::select! {
            _ = term.1.recv() => term.0,
            _ = int.1.recv() => int.0,
            _ = hup.1.recv() => hup.0,
        }
    }
}

/// Receives the events of the console: Ctrl-C, Ctrl-Break, and the end of the console, the login or the system. After the
/// last three the system waits a few seconds for us to exit.
#[cfg(windows)]
pub struct EndSignals {
    interrupt: tokio::signal::windows::CtrlC,
    break_: tokio::signal::windows::CtrlBreak,
    close: tokio::signal::windows::CtrlClose,
    logoff: tokio::signal::windows::CtrlLogoff,
    shutdown: tokio::signal::windows::CtrlShutdown,
}

#[cfg(windows)]
impl EndSignals {
    /// Starts to receive the events, which then no longer end the process by themselves.
    ///
    /// # Errors
    ///
    /// Fails if they cannot be handled.
    pub fn listen() -> io::Result<Self> {
        use tokio::signal::windows;
        Ok(Self {
            interrupt: windows::ctrl_c()?,
            break_: windows::ctrl_break()?,
            close: windows::ctrl_close()?,
            logoff: windows::ctrl_logoff()?,
            shutdown: windows::ctrl_shutdown()?,
        })
    }

    /// Waits for the next event and returns its name. Cancel-safe.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "CTRL_C_EVENT",
            _ = self.break_.recv() => "CTRL_BREAK_EVENT",
            _ = self.close.recv() => "CTRL_CLOSE_EVENT",
            _ = self.logoff.recv() => "CTRL_LOGOFF_EVENT",
            _ = self.shutdown.recv() => "CTRL_SHUTDOWN_EVENT",
        }
    }
}

/// Waits for a signal that ends a command. Once this has been polled, signals do not end the process by themselves.
pub async fn interrupted() {
    match EndSignals::listen() {
        Ok(mut signals) => drop(signals.next().await),
        // A signal then ends the process by itself.
        Err(_) => std::future::pending().await,
    }
}

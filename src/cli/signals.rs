//! The signals that end the process: SIGTERM, SIGINT (Ctrl-C) and SIGHUP (the end of the terminal).

use std::io;

/// Receives the signals.
#[cfg(unix)]
pub(super) struct EndSignals([(&'static str, tokio::signal::unix::Signal); 3]);

#[cfg(unix)]
impl EndSignals {
    /// Starts to receive the signals, which then no longer end the process by themselves.
    ///
    /// # Errors
    ///
    /// Fails if they cannot be handled.
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

/// Receives Ctrl-C.
#[cfg(not(unix))]
pub(super) struct EndSignals(());

#[cfg(not(unix))]
impl EndSignals {
    /// Does nothing: the first `next` starts to receive Ctrl-C.
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self(()))
    }

    /// Waits for Ctrl-C.
    pub(super) async fn next(&mut self) -> &'static str {
        match tokio::signal::ctrl_c().await {
            Ok(()) => "Ctrl-C",
            Err(_) => std::future::pending().await,
        }
    }
}

/// Waits for a signal that ends a command.
pub(super) async fn interrupted() {
    match EndSignals::listen() {
        Ok(mut signals) => drop(signals.next().await),
        // A signal then ends the process by itself.
        Err(_) => std::future::pending().await,
    }
}

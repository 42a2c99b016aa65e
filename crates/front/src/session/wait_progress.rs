//! Progress notifications of the proxy itself, while a request waits for something else than the server's answer.

use serde_json::json;
use std::pin::pin;
use std::time::Duration;
use tokio::time::{Instant, interval_at};
use wire::peer::Progress;
use wire::protocol::methods::notification;
use wire::{Frame, raw};

/// The interval between two notifications.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// Sends progress to a client while its request waits for something else than the server's answer.
pub struct WaitProgress<'a> {
    /// Where progress goes, if the client gave a token.
    progress: Option<&'a Progress>,
    /// The value that was sent last.
    value: f64,
}

impl<'a> WaitProgress<'a> {
    /// Progress for a request; `None` if the client gave no token.
    pub fn new(progress: Option<&'a Progress>) -> Self {
        Self { progress, value: -16.0 }
    }

    /// Waits for `done` and returns its output. Sends `message` every five seconds until then, if the client gave a
    /// token.
    pub async fn during<T>(&mut self, message: &str, done: impl Future<Output = T>) -> T {
        let mut done = pin!(done);
        let Some(progress) = self.progress else { return done.await };
        let started = Instant::now();
        let mut due = interval_at(started + PROGRESS_INTERVAL, PROGRESS_INTERVAL);
        loop {
            tokio::select! {
                biased;
                outcome = &mut done => return outcome,
                _ = due.tick() => {
                    let seconds = started.elapsed().as_secs();
                    self.send(progress, &format!("{message} ({seconds} s so far)"));
                }
            }
        }
    }

    /// Sends a notification. The value grows with each notification, as it must, and stays below 0, so that the
    /// server's own progress continues from there.
    fn send(&mut self, progress: &Progress, message: &str) {
        let Some(token) = progress.token() else { return };
        self.value /= 2.0;
        let params = json!({ "progress": self.value, "message": message });
        let params = raw::set(&params.to_string().into(), "progressToken", &token);
        progress.output.send(Frame::notification(notification::PROGRESS, Some(params)));
    }
}

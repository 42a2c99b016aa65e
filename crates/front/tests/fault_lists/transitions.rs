//! Every change of a group's state, as the task logs it: no group becomes Pending again. `upstream/lifecycle/tests.rs` has
//! the table of transitions.

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

static VIOLATIONS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Returns the changes so far that must not happen.
pub(crate) fn take_violations() -> Vec<String> {
    std::mem::take(&mut VIOLATIONS.lock())
}

/// Watches every change from now on. With `FAULT_LISTS_LOG` the whole log is on stderr.
pub(crate) fn watch() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let filter = tracing_subscriber::filter::Targets::new();
        let log = std::env::var_os("FAULT_LISTS_LOG").map(|_| {
            tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false).without_time()
        });
        let changes =
            Watcher.with_filter(filter.with_target("dynamic_mcp_upstream::task", tracing::Level::DEBUG));
        tracing_subscriber::registry().with(changes).with(log).init();
    });
}

struct Watcher;

impl<S: Subscriber> Layer<S> for Watcher {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut change = Change::default();
        event.record(&mut change);
        let (from, to) = (change.from.as_str(), change.to.as_str());
        // A connection that nobody needs any more is closed before its state is published.
        let is_allowed = matches!(to, "connected" | "failed" | "discovered");
        if !to.is_empty() && !is_allowed {
            VIOLATIONS.lock().push(format!("a group went from {from} to {to}"));
        }
    }
}

#[derive(Default)]
struct Change {
    from: String,
    to: String,
}

impl Visit for Change {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "from" => self.from = value.to_owned(),
            "to" => self.to = value.to_owned(),
            _ => {}
        }
    }
    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

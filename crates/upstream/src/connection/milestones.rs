//! What an attempt to connect, or a new reading of the lists, gives before it is over: callers that need no more go on.

use super::lease::LiveConnection;
use crate::catalog::{Catalog, OtherLists};
use crate::error::UpstreamError;
use crate::pins::group::GroupPins;
use base::blocking;
use std::sync::Arc;
use tokio::sync::mpsc;
use wire::protocol::methods::Method;

/// How many milestones may be unread. One attempt has three at most.
const QUEUE_SIZE: usize = 8;

/// What a caller waits for. Each includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// A connection whose handshake is done.
    Handshake,
    /// That the tools were read from it, or could not be read.
    Tools,
    /// The same for all lists.
    Lists,
}

/// Something that a connection has reached.
pub(crate) enum Milestone {
    /// The handshake is done. The lists are being read.
    HandshakeDone(Arc<LiveConnection>),
    /// The tools were read. The catalog has the other lists as they were known before.
    ToolsRead(Box<Catalog>),
}

/// Reports the milestones of one connection to the task of its group. Cheap to clone.
#[derive(Clone)]
pub struct Milestones {
    sender: mpsc::Sender<Milestone>,
    /// What is remembered of the tools.
    pins: Arc<GroupPins>,
    known: KnownCatalog,
}

/// Returns the catalog of the group that is known now.
pub(crate) type KnownCatalog = Arc<dyn Fn() -> Option<Arc<Catalog>> + Send + Sync>;

impl Milestones {
    /// Makes the reporter of a connection, and the queue of its milestones.
    pub(crate) fn new(pins: Arc<GroupPins>, known: KnownCatalog) -> (Self, mpsc::Receiver<Milestone>) {
        let (sender, milestones) = mpsc::channel(QUEUE_SIZE);
        (Self { sender, pins, known }, milestones)
    }

    /// Reports that the handshake is done.
    pub(super) fn handshake_done(&self, live: &Arc<LiveConnection>) {
        drop(self.sender.try_send(Milestone::HandshakeDone(live.clone())));
    }

    /// Reports the tools while the other lists are being read. `make` makes the catalog of both; it gets the other
    /// lists that are known.
    pub(super) async fn tools_read(&self, make: impl FnOnce(OtherLists) -> Catalog + Send + 'static) {
        let known = self.known();
        // Their file may have to be read.
        let made = blocking::run_in_turn(move || {
            make(known.as_ref().and_then(|known| known.lists()).cloned().unwrap_or_default())
        });
        let Ok(catalog) = made.await else { return };
        if let Ok(catalog) = self.observe(catalog).await {
            drop(self.sender.try_send(Milestone::ToolsRead(Box::new(catalog))));
        }
    }

    /// Compares a catalog that was read with what is remembered of the tools. If its tools could not be read and some
    /// are known, returns the known catalog, with the findings of this one.
    ///
    /// # Errors
    ///
    /// `Protocol` if that took too long or panicked.
    pub(crate) async fn observe(&self, catalog: Catalog) -> Result<Catalog, UpstreamError> {
        if let Some(known) = self.known().filter(|known| catalog.tools_unread && !known.tools.is_empty()) {
            return Ok(known.kept_for(&catalog));
        }
        let (pins, known) = (self.pins.clone(), self.known());
        let bytes = known.as_ref().map_or(0, |known| known.work_bytes()).max(catalog.bytes);
        let observed = blocking::run_on(bytes, move || {
            let mut catalog = catalog;
            if let Some(known) = known {
                catalog.keep_listing_of(&known);
            }
            if let Some(definitions) = catalog.definitions() {
                let tools: Vec<_> =
                    definitions.map(|(tool, raw)| (tool.name.as_str(), &tool.digest, raw)).collect();
                pins.observe(tools.iter().copied(), catalog.info.version.as_deref());
            }
            catalog
        });
        observed.await.map_err(|error| UpstreamError::Protocol {
            step: Method::ToolsList.name(),
            what: format!("comparing its tools {error}"),
            stderr: String::new(),
        })
    }

    fn known(&self) -> Option<Arc<Catalog>> {
        (self.known)().map(|catalog| catalog.original().clone())
    }
}

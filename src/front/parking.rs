//! Calls of stateless clients that wait for what their server asks of the client. A server with a handshake asks while it
//! works on a call; its client hears of that by an answer that asks for input (`input_required`), and the call waits here
//! until the client comes again with it.

use super::caller::Caller;
use super::errors::{self, Refusal};
use crate::upstream::audience::client::Posed;
use crate::wire::inbound::ResponseFuture;
use crate::wire::peer::{CancelParams, Progress};
use crate::wire::{Raw, Reply, raw};
use parking_lot::Mutex;
use serde_json::json;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

/// A client that does not come again within this time has given up.
const PATIENCE: Duration = Duration::from_secs(10 * 60);
/// Calls that wait at the same time.
const PLACES: usize = 256;
/// Marks what a client has to give back as ours.
const TICKET: &str = "dynamic-mcp/waiting:";

/// The calls of one client that wait.
#[derive(Default)]
pub struct Lot(Mutex<Places>);

#[derive(Default)]
struct Places {
    parked: HashMap<String, (Parked, AbortHandle)>,
    clocks: JoinSet<()>,
}

/// A call that its server works on, and what came of it so far.
pub struct Parked {
    work: ResponseFuture,
    posed: mpsc::Receiver<Posed>,
    /// Asked and not answered.
    open: Vec<(String, Posed)>,
    progress: Option<Progress>,
    cancelled: CancelParams,
    asked: usize,
    /// Told to those who have a question for its client.
    parked: Arc<AtomicBool>,
}

impl Parked {
    /// A call that has just begun; what its server asks comes by `posed`.
    pub fn new(
        work: ResponseFuture,
        posed: mpsc::Receiver<Posed>,
        parked: Arc<AtomicBool>,
        caller: &Caller,
    ) -> Self {
        let (progress, cancelled) = (caller.progress.clone(), caller.cancelled.clone());
        Self { work, posed, open: Vec::new(), progress, cancelled, asked: 0, parked }
    }

    pub fn cancelled(&self) -> CancelParams {
        self.cancelled.clone()
    }

    /// Takes what the client came with.
    pub fn answered(&mut self, params: &Raw) {
        let responses = raw::get(params, "inputResponses").unwrap_or(Raw::from_static(b"{}"));
        let open = std::mem::take(&mut self.open);
        for (key, posed) in open {
            match raw::get(&responses, &key) {
                Some(response) => drop(posed.answer.send(Ok(response))),
                None => self.open.push((key, posed)),
            }
        }
        let token = raw::get(params, "_meta").and_then(|given| raw::get(&given, "progressToken"));
        if let Some(progress) = &self.progress {
            progress.redirect(token);
        }
    }

    fn ask(&mut self, posed: Posed) {
        self.asked += 1;
        self.open.push((self.asked.to_string(), posed));
    }

    /// What nobody waits for any more is not asked.
    fn withdraw(&mut self) {
        self.open.retain(|(_, posed)| !posed.answer.is_closed());
    }

    /// The answer that asks.
    fn question(&self, ticket: &str) -> Raw {
        let requests = self.open.iter().map(|(key, posed)| {
            let request = Raw::from(json!({ "method": posed.method }).to_string());
            let params = posed.params.as_ref();
            let request =
                params.map_or_else(|| request.clone(), |params| raw::set(&request, "params", params));
            [json!(key).to_string().as_bytes(), b":", &request[..]].concat()
        });
        let requests = requests.collect::<Vec<_>>().join(&b","[..]);
        let result = json!({ "resultType": "input_required", "requestState": ticket }).to_string();
        raw::set(&result.into(), "inputRequests", &[b"{", &requests[..], b"}"].concat())
    }
}

impl Lot {
    /// The call that the client comes again for, if it does.
    pub fn take(&self, params: &Raw) -> Result<Option<Parked>, Refusal> {
        let state = raw::get_str(params, "requestState");
        let Some(ticket) = state.filter(|state| state.starts_with(TICKET)) else { return Ok(None) };
        let waiting = self.0.lock().parked.remove(&ticket);
        let (parked, clock) = waiting.ok_or_else(|| {
            errors::bad_params(
                "the call that params.requestState is of does not wait any more: make it again",
            )
        })?;
        clock.abort();
        Ok(Some(parked))
    }

    /// Waits for the call's answer, or for a question: then the call waits in the lot.
    pub async fn attend(self: Arc<Self>, mut call: Parked) -> Reply {
        call.parked.store(false, Ordering::Relaxed);
        call.withdraw();
        while call.open.is_empty() {
            tokio::select! {
                biased;
                reply = &mut call.work => return reply,
                Some(posed) = call.posed.recv() => call.ask(posed),
            }
            call.withdraw();
        }
        call.parked.store(true, Ordering::Relaxed);
        while let Ok(posed) = call.posed.try_recv() {
            call.ask(posed);
        }
        let ticket = ticket();
        let question = call.question(&ticket);
        if let Some(progress) = &call.progress {
            progress.redirect(None);
        }
        match self.park(ticket, call) {
            true => Ok(question),
            false => Err(errors::too_many_waiting().into()),
        }
    }

    /// False: it was given up, because too many wait.
    fn park(self: &Arc<Self>, ticket: String, call: Parked) -> bool {
        let mut places = self.0.lock();
        while places.clocks.try_join_next().is_some() {}
        if places.parked.len() >= PLACES {
            return false;
        }
        let (lot, key) = (Arc::downgrade(self), ticket.clone());
        let clock = places.clocks.spawn(async move {
            tokio::time::sleep(PATIENCE).await;
            if let Some(lot) = lot.upgrade() {
                drop(lot.0.lock().parked.remove(&key));
            }
        });
        places.parked.insert(ticket, (call, clock));
        true
    }
}

/// Not to be guessed by whoever did not get it.
fn ticket() -> String {
    let random = || RandomState::new().hash_one(0);
    format!("{TICKET}{:016x}{:016x}", random(), random())
}

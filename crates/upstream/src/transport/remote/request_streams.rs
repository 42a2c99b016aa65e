//! Which stream each request of the server came on. A server sends a request on the stream of the call that it concerns
//! (MCP, Streamable HTTP, "Sending Messages to the Server"), which is how the two are matched.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use wire::Raw;

/// How many requests of a server are remembered. The oldest are forgotten.
const MAX_REQUESTS: usize = 256;

/// The server's requests that are not answered yet, each with the id of our request on whose stream it came. Clones
/// share them.
#[derive(Clone, Default)]
pub(crate) struct RequestStreams(Arc<Mutex<VecDeque<(Raw, Raw)>>>);

impl RequestStreams {
    /// Notes that the server's request `id` came on the stream of our request `call`.
    pub(crate) fn add(&self, id: Raw, call: Raw) {
        let mut requests = self.0.lock();
        requests.retain(|(known, _)| *known != id);
        requests.push_back((id, call));
        let excess = requests.len().saturating_sub(MAX_REQUESTS);
        requests.drain(..excess);
    }

    /// The id of our request on whose stream the server's request `id` came.
    pub(crate) fn call_of(&self, id: &Raw) -> Option<Raw> {
        self.0.lock().iter().find(|(known, _)| known == id).map(|(_, call)| call.clone())
    }

    /// Forgets the server's request `id`, because it was answered. Returns the id of our request on whose stream it
    /// came.
    pub(crate) fn take(&self, id: &Raw) -> Option<Raw> {
        let mut requests = self.0.lock();
        let at = requests.iter().position(|(known, _)| known == id)?;
        requests.remove(at).map(|(_, call)| call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_known_until_it_is_answered_or_too_many_came() {
        let streams = RequestStreams::default();
        let raw = |text: String| Raw::from(text);
        for n in 0..=MAX_REQUESTS {
            streams.add(raw(format!("\"q{n}\"")), raw(n.to_string()));
        }
        assert_eq!(streams.call_of(&raw("\"q0\"".to_owned())), None);
        streams.add(raw("\"q1\"".to_owned()), raw("77".to_owned()));
        assert_eq!(streams.take(&raw("\"q1\"".to_owned())), Some(raw("77".to_owned())), "the latest stream");
        assert_eq!(streams.call_of(&raw("\"q1\"".to_owned())), None);
    }
}

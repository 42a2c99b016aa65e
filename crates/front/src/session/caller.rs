//! Who makes a request that has no connection of its own (HTTP). Each such request is a session of its own, and another
//! process may get the next one. So what a client carries from one request to the next is sealed for it.

use super::sealed::KeyRing;
use base::digest;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use upstream::connection::task_ids;
use upstream::pins::canonical::canonical;
use wire::{Raw, raw};

/// How long the id of a task can be used.
const TASK_VALIDITY: Duration = Duration::from_secs(24 * 3600);
/// How long an upstream's state can be sent back. A person may have to answer meanwhile.
const STATE_VALIDITY: Duration = Duration::from_secs(3600);
/// The member of params and results with an upstream's state.
pub(crate) const REQUEST_STATE: &str = "requestState";

/// Who makes a request, and the keys for what this client carries.
#[derive(Clone)]
pub struct Caller {
    /// The name of the principal: nobody else can use what is sealed for it.
    pub principal: Arc<str>,
    /// The keys.
    pub keys: Arc<KeyRing>,
}

impl Caller {
    /// Seals the id of a task as clients of a connection see it.
    pub(crate) fn seal_task(&self, id: &str) -> String {
        self.keys.seal(&["task", &self.principal], TASK_VALIDITY, id)
    }

    /// Returns the id of a task that was sealed for this principal. `None` if it was not, or has expired.
    pub(crate) fn open_task(&self, sealed: &str) -> Option<String> {
        self.keys.open(&["task", &self.principal], sealed)
    }

    /// Seals the `taskId` of an object.
    pub(crate) fn seal_task_of(&self, object: &Raw) -> Raw {
        match raw::get_str(object, "taskId").filter(|id| task_ids::parse(id).is_some()) {
            Some(id) => raw::set_str(object, "taskId", &self.seal_task(&id)),
            None => object.clone(),
        }
    }

    /// Seals the state in a result that asks for input. `request`: what it is bound to (see [`RequestIdentity`]).
    pub(crate) fn seal_state(&self, request: &RequestIdentity, result: &Raw) -> Raw {
        match raw::get(result, REQUEST_STATE) {
            Some(state) => {
                let bound_to = request.bound_to(&self.principal);
                let sealed = self.keys.seal(&bound_to, STATE_VALIDITY, &String::from_utf8_lossy(&state));
                raw::set_str(result, REQUEST_STATE, &sealed)
            }
            None => result.clone(),
        }
    }

    /// Replaces the state in the params of a request by the upstream's own. `None` if it was not sealed for this
    /// principal and this request, or has expired.
    pub(crate) fn open_state(&self, request: &RequestIdentity, params: &Raw) -> Option<Raw> {
        let sealed = raw::get_str(params, REQUEST_STATE)?;
        let state = self.keys.open(&request.bound_to(&self.principal), &sealed)?;
        Some(raw::set(params, REQUEST_STATE, state.as_bytes()))
    }
}

/// What an upstream's state belongs to: the group, the method, and what the request is about.
pub(crate) struct RequestIdentity {
    group: String,
    method: &'static str,
    /// The name or the URI, and the hash of the arguments.
    about: String,
}

impl RequestIdentity {
    /// Reads the identity from the params that go to the upstream. The state and the answers are no part of it.
    pub(crate) fn of(group: &str, method: &'static str, params: &Raw) -> Self {
        let name = raw::get_str(params, "name").or_else(|| raw::get_str(params, "uri"));
        let arguments = raw::get(params, "arguments").unwrap_or(Raw::from_static(b"{}"));
        // In canonical form, because a client may write the same arguments with other spaces the next time.
        let about = json!([name, digest::of(&canonical(&arguments), 32)]).to_string();
        Self { group: group.to_owned(), method, about }
    }

    fn bound_to<'a>(&'a self, principal: &'a str) -> [&'a str; 5] {
        ["state", principal, &self.group, self.method, &self.about]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(principal: &str, keys: &Arc<KeyRing>) -> Caller {
        Caller { principal: principal.into(), keys: keys.clone() }
    }

    #[test]
    fn a_state_belongs_to_its_principal_and_request() {
        let keys = Arc::new(KeyRing::generate());
        let (ann, bob) = (caller("ann", &keys), caller("bob", &keys));
        let raw = |text: &str| Raw::copy_from_slice(text.as_bytes());
        let params = raw(r#"{"name":"t","arguments":{"a":1, "b":2}}"#);
        let request = RequestIdentity::of("g", "tools/call", &params);
        let result = raw(r#"{"resultType":"input_required","requestState":{"n":1e400}}"#);
        let sealed = ann.seal_state(&request, &result);
        let state = raw::get(&sealed, REQUEST_STATE).unwrap();
        assert!(!String::from_utf8_lossy(&state).contains("1e400"));
        let again = raw::set(&raw(r#"{"name":"t","arguments":{"a":1,"b":2}}"#), REQUEST_STATE, &state);
        let same = RequestIdentity::of("g", "tools/call", &again);
        let opened = ann.open_state(&same, &again).unwrap();
        assert_eq!(raw::get(&opened, REQUEST_STATE).unwrap(), r#"{"n":1e400}"#);
        assert!(bob.open_state(&same, &again).is_none(), "another principal");
        for (group, method, params) in [
            ("h", "tools/call", r#"{"name":"t","arguments":{"a":1,"b":2}}"#),
            ("g", "prompts/get", r#"{"name":"t","arguments":{"a":1,"b":2}}"#),
            ("g", "tools/call", r#"{"name":"u","arguments":{"a":1,"b":2}}"#),
            ("g", "tools/call", r#"{"name":"t","arguments":{"a":1,"b":3}}"#),
        ] {
            let params = raw::set(&raw(params), REQUEST_STATE, &state);
            assert!(ann.open_state(&RequestIdentity::of(group, method, &params), &params).is_none());
        }
        assert!(ann.open_state(&same, &raw(r#"{"requestState":"guessed"}"#)).is_none());
    }

    #[test]
    fn the_id_of_a_task_is_opened_for_its_principal_only() {
        let keys = Arc::new(KeyRing::generate());
        let (ann, bob) = (caller("ann", &keys), caller("bob", &keys));
        let task = ann.seal_task_of(&Raw::from_static(br#"{"taskId":"g:7","status":"working"}"#));
        let id = raw::get_str(&task, "taskId").unwrap();
        assert_eq!(ann.open_task(&id).as_deref(), Some("g:7"));
        assert_eq!(bob.open_task(&id), None);
        assert_eq!(ann.open_task("g:7"), None, "a plain id is nobody's");
        let other = caller("ann", &Arc::new(KeyRing::generate()));
        assert_eq!(other.open_task(&id), None, "another key");
    }
}

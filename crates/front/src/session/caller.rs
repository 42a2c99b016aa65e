//! Who makes a request that has no connection of its own (HTTP). Each such request is a session of its own, and another
//! process may get the next one. So what a client carries from one request to the next is sealed for it: encrypted and
//! authenticated (AES-256-GCM, RFC 5116) with a key that all replicas have. The client can neither read nor change it.
//!
//! A sealed text is bound to what the opener knows, such as its principal. It is opened only for exactly that, with one of
//! the keys, until it expires. So nothing has to be kept between two requests. It may be used several times meanwhile.

use base::digest;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::digest::SHA256;
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
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

/// The length of a key in bytes.
const KEY_BYTES: usize = 32;
/// How many keys a ring may have.
const MAX_KEYS: usize = 16;
/// The length of the id of a key in bytes.
const ID_BYTES: usize = 4;
/// The length of the expiry in bytes.
const EXPIRY_BYTES: usize = 8;

/// The keys of all replicas. The first seals; all open.
pub struct KeyRing(Vec<SealingKey>);

struct SealingKey {
    /// The beginning of its hash, by which a sealed text names it.
    id: [u8; ID_BYTES],
    key: LessSafeKey,
}

impl SealingKey {
    fn new(bytes: &[u8]) -> Option<Self> {
        let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, bytes).ok()?);
        let id = ring::digest::digest(&SHA256, bytes).as_ref().get(..ID_BYTES)?.try_into().ok()?;
        Some(Self { id, key })
    }
}

impl KeyRing {
    /// Creates a ring with a random key. Only this process opens what it seals.
    pub fn generate() -> Self {
        let mut bytes = [0; KEY_BYTES];
        // The system's generator does not fail once the machine has booted. A ring without a key opens nothing.
        match SystemRandom::new().fill(&mut bytes) {
            Ok(()) => Self(SealingKey::new(&bytes).into_iter().collect()),
            Err(_) => Self(Vec::new()),
        }
    }

    /// Reads a file of keys: one on each line, 32 bytes in base64. Empty lines and lines that begin with `#` do not count.
    ///
    /// # Errors
    ///
    /// Says which line is wrong, or that there is no key, or that there are more than 16. The text repeats no key.
    pub fn parse(text: &str) -> Result<Self, String> {
        let lines = text.lines().enumerate().map(|(number, line)| (number + 1, line.trim()));
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let keys: Result<Vec<_>, _> = lines
            .map(|(number, line)| {
                let bytes = STANDARD.decode(line).ok().filter(|bytes| bytes.len() == KEY_BYTES);
                let key = bytes.and_then(|bytes| SealingKey::new(&bytes));
                key.ok_or_else(|| format!("line {number} is not a key: 32 bytes in base64"))
            })
            .collect();
        match keys? {
            keys if keys.is_empty() => Err("it has no key".to_owned()),
            keys if keys.len() > MAX_KEYS => Err(format!("it has more than {MAX_KEYS} keys")),
            keys => Ok(Self(keys)),
        }
    }

    /// Seals a text, for `validity` from now on. `bound_to`: what has to be the same when it is opened. The result has only
    /// letters, digits, `-` and `_`. It is empty, and opens never, if the ring has no key.
    pub fn seal(&self, bound_to: &[&str], validity: Duration, text: &str) -> String {
        self.try_seal(bound_to, now_secs() + validity.as_secs(), text).unwrap_or_default()
    }

    fn try_seal(&self, bound_to: &[&str], expiry: u64, text: &str) -> Option<String> {
        let SealingKey { id, key } = self.0.first()?;
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).ok()?;
        let mut content = [&expiry.to_be_bytes()[..], text.as_bytes()].concat();
        let bound_to = Aad::from(joined(bound_to));
        key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), bound_to, &mut content).ok()?;
        Some(URL_SAFE_NO_PAD.encode([&id[..], &nonce[..], &content[..]].concat()))
    }

    /// Opens a sealed text. `None` if no key of the ring has sealed it, if it is bound to something else, or if it has
    /// expired.
    pub fn open(&self, bound_to: &[&str], sealed: &str) -> Option<String> {
        let bytes = URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let (id, rest) = bytes.split_at_checked(ID_BYTES)?;
        let (nonce, content) = rest.split_at_checked(NONCE_LEN)?;
        let (nonce, mut content) = (nonce.try_into().ok()?, content.to_vec());
        let SealingKey { key, .. } = self.0.iter().find(|key| key.id[..] == *id)?;
        let bound_to = Aad::from(joined(bound_to));
        let opened = key.open_in_place(Nonce::assume_unique_for_key(nonce), bound_to, &mut content).ok()?;
        let (expiry, text) = opened.split_at_checked(EXPIRY_BYTES)?;
        let expiry = u64::from_be_bytes(expiry.try_into().ok()?);
        (now_secs() < expiry).then(|| String::from_utf8(text.to_vec()).ok()).flatten()
    }
}

/// Joins the parts so that no two lists give the same bytes.
fn joined(parts: &[&str]) -> Vec<u8> {
    parts.iter().flat_map(|part| [&(part.len() as u64).to_be_bytes()[..], part.as_bytes()].concat()).collect()
}

/// Returns the time in seconds, which all replicas have in common.
fn now_secs() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
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

#[cfg(test)]
mod sealed_tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn ring(keys: &[u8]) -> KeyRing {
        let lines: Vec<_> = keys.iter().map(|byte| STANDARD.encode([*byte; KEY_BYTES])).collect();
        KeyRing::parse(&format!("# a comment\n\n{}\n", lines.join("\n"))).unwrap()
    }

    #[test]
    fn a_text_is_opened_for_what_it_is_bound_to_and_by_every_replica() {
        let sealed = ring(&[1]).seal(&["a", "bc"], HOUR, "secret ä");
        assert!(sealed.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)));
        assert_eq!(ring(&[1]).open(&["a", "bc"], &sealed).as_deref(), Some("secret ä"));
        assert_eq!(ring(&[1]).open(&["ab", "c"], &sealed), None);
        assert_eq!(ring(&[2]).open(&["a", "bc"], &sealed), None);
        assert_ne!(sealed, ring(&[1]).seal(&["a", "bc"], HOUR, "secret ä"), "no two are equal");
    }

    #[test]
    fn keys_are_rotated_without_a_gap() {
        let (old, both, new) = (ring(&[1]), ring(&[2, 1]), ring(&[2]));
        let (by_old, by_both) = (old.seal(&[], HOUR, "x"), both.seal(&[], HOUR, "x"));
        assert!(both.open(&[], &by_old).is_some() && new.open(&[], &by_both).is_some());
        assert!(new.open(&[], &by_old).is_none() && old.open(&[], &by_both).is_none());
    }

    #[test]
    fn nothing_that_was_changed_or_has_expired_is_opened() {
        let ring = ring(&[1]);
        let sealed = ring.seal(&[], HOUR, "x");
        for at in 0..sealed.len() {
            let mut changed = sealed.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(ring.open(&[], &String::from_utf8(changed).unwrap()), None, "at {at}");
        }
        for cut in 0..sealed.len() {
            assert_eq!(ring.open(&[], &sealed[..cut]), None);
        }
        let expired = ring.try_seal(&[], now_secs(), "x").unwrap();
        assert_eq!(ring.open(&[], &expired), None);
    }

    #[test]
    fn a_file_without_usable_keys_is_an_error_that_repeats_none() {
        let error = |text: &str| KeyRing::parse(text).err().unwrap();
        assert_eq!(error("\n# only this\n"), "it has no key");
        let short = STANDARD.encode([7; 31]);
        assert_eq!(error(&format!("\n{short}\n")), "line 2 is not a key: 32 bytes in base64");
        let many = format!("{}\n", STANDARD.encode([7; KEY_BYTES])).repeat(MAX_KEYS + 1);
        assert!(error(&many).contains("more than 16"));
    }
}

//! Texts that a client carries from one request to the next and can neither read nor change: encrypted and authenticated
//! (AES-256-GCM, RFC 5116) with a key that all replicas have.
//!
//! A sealed text is bound to what the opener knows, such as its principal. It is opened only for exactly that, with one of
//! the keys, until it expires. So nothing has to be kept between two requests. It may be used several times meanwhile.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

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
        let id = digest(&SHA256, bytes).as_ref().get(..ID_BYTES)?.try_into().ok()?;
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

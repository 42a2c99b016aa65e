//! The bearer tokens of a file, each with a name and a profile. The file has hashes only, so it tells nobody a token.

use base::digest;
use serde::Deserialize;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// How many hex digits a hash has.
const HASH_DIGITS: usize = 64;
/// How many profiles the tokens may have. Each has connections of its own.
const MAX_PROFILES: usize = 32;

/// A profile of the config; `None`: that of the command line, if it names one.
pub type UserProfile = Option<Arc<str>>;

/// Who makes a request, and what they see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// The name.
    pub name: Arc<str>,
    /// What they see.
    pub profile: UserProfile,
}

/// The bearer tokens that count, by the hash of the token in hex digits.
#[derive(Debug)]
pub struct TokenTable(HashMap<String, Principal>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenFile {
    tokens: Vec<TokenEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenEntry {
    name: String,
    sha256: String,
    profile: Option<String>,
}

impl TokenTable {
    /// Reads a file of tokens: `{"tokens": [{"name": "ann", "sha256": "…", "profile": "work"}]}`, where `sha256` is the hash
    /// of the token in hex digits.
    ///
    /// # Errors
    ///
    /// The file is not of this form, a name is empty or given twice, or a hash is none or given twice; or there are more
    /// than 32 profiles. The text repeats no hash.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file: TokenFile = serde_json::from_str(text).map_err(|error| {
            // The message of an unexpected value would repeat it.
            format!("line {}, column {}: not a file of tokens", error.line(), error.column())
        })?;
        let (mut tokens, mut names, mut profiles) = (HashMap::new(), BTreeSet::new(), BTreeSet::new());
        for TokenEntry { name, sha256, profile } in file.tokens {
            if name.trim().is_empty() || !names.insert(name.clone()) {
                return Err(format!("the name {name:?} is empty or given twice"));
            }
            let hash = sha256.to_ascii_lowercase();
            if hash.len() != HASH_DIGITS || !hash.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return Err(format!("the sha256 of {name:?} is not {HASH_DIGITS} hex digits"));
            }
            profiles.extend(profile.clone());
            let principal = Principal { name: name.as_str().into(), profile: profile.map(Into::into) };
            if tokens.insert(hash, principal).is_some() {
                return Err(format!("the sha256 of {name:?} is that of another name"));
            }
        }
        match profiles.len() > MAX_PROFILES {
            true => Err(format!("the tokens have more than {MAX_PROFILES} profiles")),
            false => Ok(Self(tokens)),
        }
    }

    /// Returns the profiles that a principal may have.
    pub(crate) fn profiles(&self) -> impl Iterator<Item = UserProfile> {
        self.0.values().map(|principal| principal.profile.clone())
    }

    /// Returns whose token it is. `None` if it is not known.
    pub(crate) fn principal(&self, token: &str) -> Option<&Principal> {
        // Whoever sends a token cannot choose its hash, so the time of this look-up tells nothing about the others.
        self.0.get(&digest::of(token.as_bytes(), 32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(entries: &[(&str, &str)]) -> String {
        let entries = entries.iter().map(|(name, hash)| format!(r#"{{"name":"{name}","sha256":"{hash}"}}"#));
        format!(r#"{{"tokens":[{}]}}"#, entries.collect::<Vec<_>>().join(","))
    }

    #[test]
    fn a_token_is_found_by_its_hash() {
        let hash = digest::of(b"secret", 32);
        let text =
            format!(r#"{{"tokens":[{{"name":"ann","sha256":"{}","profile":"p"}}]}}"#, hash.to_uppercase());
        let tokens = TokenTable::parse(&text).unwrap();
        let ann = Principal { name: "ann".into(), profile: Some("p".into()) };
        assert_eq!(tokens.principal("secret"), Some(&ann));
        for other in ["secre", "", &hash] {
            assert_eq!(tokens.principal(other), None, "{other}");
        }
        assert_eq!(tokens.profiles().collect::<Vec<_>>(), [Some("p".into())]);
    }

    #[test]
    fn a_file_that_is_wrong_is_an_error_that_repeats_no_hash() {
        let hash = "ab".repeat(32);
        let error = |text: &str| TokenTable::parse(text).unwrap_err();
        assert!(error(&file(&[("a", &hash), ("a", &"cd".repeat(32))])).contains("twice"));
        assert!(error(&file(&[("a", &hash), ("b", &hash)])).contains("another name"));
        assert!(error(&file(&[("", &hash)])).contains("empty"));
        assert!(error(&file(&[("a", "abc")])).contains("64 hex digits"));
        let unknown = format!(r#"{{"tokens":[{{"name":"a","sha256":"{hash}","profiles":["p"]}}]}}"#);
        assert!(
            error(&unknown).contains("not a file of tokens"),
            "a field that is misspelled may be what restricts"
        );
        assert!(!error(&format!(r#"{{"tokens":"{hash}"}}"#)).contains(&hash));
        let many: Vec<_> = (0..=MAX_PROFILES)
            .map(|n| format!(r#"{{"name":"{n}","sha256":"{n:064x}","profile":"{n}"}}"#))
            .collect();
        assert!(error(&format!(r#"{{"tokens":[{}]}}"#, many.join(","))).contains("32 profiles"));
    }
}

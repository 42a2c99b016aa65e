//! Secrets that move to the system's keyring: plain ones of servers with `--secrets`, and those that a client keeps
//! encrypted, which the person at the terminal types.

use std::collections::BTreeSet;
use std::io;

use anyhow::Context;
use serde_json::Value;

use crate::clients::variables::secrets_in;
use crate::files::edit::ObjectEdit;
use crate::merge::PlannedServer;
use auth::Secret;
use auth::secret_store::SecretStore;
use base::redact::{is_secret, split_scheme};
use base::text::{joined, visible};
use config::env::Env;
use config::notation::literal;
use config::secrets::free_secret_name;
use instance::stores::secret_store;
use terminal::ask::{Answers, ask_secret};

/// The fields of an entry in which `{keyring:NAME}` counts.
const FIELDS: [&str; 4] = ["env", "environment", "headers", "oauth"];

/// A secret that moves to the keyring.
pub(super) struct SecretMove {
    /// The server.
    server: String,
    /// Whether the server is in servers.json already.
    is_known: bool,
    /// The field of its entry.
    field: String,
    /// The member of the field.
    member: String,
    /// What stands there afterwards.
    reference: String,
    /// Its name in the keyring.
    pub(super) name: String,
    /// Its value.
    pub(super) value: Secret,
}

/// Returns the secrets that new servers name and the keyring does not have, and prints their names.
///
/// # Errors
///
/// Fails if stdout cannot be written.
pub(super) async fn name_missing_secrets(
    servers: impl Iterator<Item = &PlannedServer>,
    env: &Env,
) -> io::Result<BTreeSet<String>> {
    let named = servers.flat_map(|server| secrets_in(&Value::Object(server.entry.clone())));
    let mut named: BTreeSet<_> = named.collect();
    if let Some(store) = secret_store(env).filter(|_| !named.is_empty()) {
        let known = store.names().await.unwrap_or_default();
        named.retain(|name| !known.contains(name));
    }
    if !named.is_empty() {
        terminal::paragraph(format_args!(
            "Only their client can read these secrets: {}. After the import you are asked for them at the terminal, or run `dynamic-mcp secret set NAME`.",
            joined(named.iter().map(String::as_str))
        ))?;
    }
    Ok(named)
}

/// Asks the person at the terminal for secrets, and stores those that are typed. Says why one is not stored.
///
/// # Errors
///
/// Fails if the terminal cannot be read.
pub(super) async fn ask_for_secrets(answers: Answers, names: &BTreeSet<String>, env: &Env) -> io::Result<()> {
    let Some(store) = secret_store(env).filter(|_| answers == Answers::Terminal) else { return Ok(()) };
    for name in names {
        let value = ask_secret(&format!("Value of {name}, or Enter to leave it for later")).await?;
        if let Some(value) = value.filter(|value| !value.expose().is_empty())
            && let Err(error) = store.set(name, value).await
        {
            terminal::message(format_args!("{name} is not stored: {error}"));
        }
    }
    Ok(())
}

/// Takes the plain secrets out of the entries, and puts references in their places. Stores none yet: see
/// [`SecretMove::store`]. `taken` has the names that the keyring has.
pub(super) fn take_secrets(servers: &mut [PlannedServer], taken: &[String]) -> Vec<SecretMove> {
    let mut moves: Vec<SecretMove> = Vec::new();
    for server in servers {
        for field in FIELDS {
            let Some(members) = server.entry.get_mut(field).and_then(Value::as_object_mut) else { continue };
            for (member, value) in members.iter_mut() {
                let is_place = field != "oauth" || matches!(member.as_str(), "client_secret" | "private_key");
                let Some((before, plain)) = plain(member, value).filter(|_| is_place) else { continue };
                let names = taken.iter().chain(moves.iter().map(|secret| &secret.name));
                let is_taken = |name: &str| names.clone().any(|known| known == name);
                let name = free_secret_name(&server.name, member, is_taken);
                let reference = format!("{before}{{keyring:{name}}}");
                *value = Value::from(reference.as_str());
                moves.push(SecretMove {
                    server: server.name.clone(),
                    is_known: server.is_known,
                    field: field.to_owned(),
                    member: member.clone(),
                    reference,
                    name,
                    value: Secret::new(plain),
                });
            }
        }
    }
    moves
}

/// Returns what stands before a plain secret in this value, such as `Bearer `, and the secret itself. `None` if it is
/// none.
fn plain(name: &str, value: &Value) -> Option<(String, String)> {
    let plain = literal(value.as_str()?).filter(|plain| is_secret(name, plain))?;
    let (scheme, secret) = split_scheme(&plain);
    Some((scheme.to_owned(), secret.to_owned()))
}

impl SecretMove {
    /// Says what moves where, without the value.
    pub(super) fn describe(&self) -> String {
        format!(
            "  {}: {}.{} becomes {}",
            visible(&self.server),
            self.field,
            visible(&self.member),
            visible(&self.reference)
        )
    }

    /// Returns the change in servers.json, below the keys of the servers, for a server that is there. New ones have it
    /// already.
    pub(super) fn edit(&self, keys: &[String]) -> Option<ObjectEdit> {
        let keys = keys.iter().chain([&self.server, &self.field]).cloned().collect();
        let set = vec![(self.member.clone(), Value::from(self.reference.as_str()))];
        self.is_known.then_some(ObjectEdit::set(keys, set))
    }

    /// Puts the value into the keyring.
    ///
    /// # Errors
    ///
    /// Fails if the keyring cannot be used.
    pub(super) async fn store(&self, store: &SecretStore) -> anyhow::Result<()> {
        let stored = store.set(&self.name, self.value.clone()).await;
        stored.with_context(|| format!("servers.json was not changed; {} cannot be stored", self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn plain_secrets_are_taken_and_everything_else_stays() {
        let entry = json!({
            "command": "x",
            "env": {"GITHUB_TOKEN": "pa$$word$1", "LOG": "debug-level", "KEY": "${KEY}", "MIXED_KEY": "a${KEY}bcdef"},
            "headers": {"Authorization": "Bearer abcdefgh"},
            "oauth": {"client_id": "abcdefgh", "client_secret": "abcdefgh"}
        });
        let server = |is_known| PlannedServer {
            name: "git hub".to_owned(),
            entry: entry.as_object().unwrap().clone(),
            is_known,
            ..PlannedServer::default()
        };
        let mut servers = [server(false), server(true)];
        let moves = take_secrets(&mut servers, &["git_hub-GITHUB_TOKEN".to_owned()]);
        let entry = &servers[0].entry;
        assert_eq!(entry["env"]["GITHUB_TOKEN"], "{keyring:git_hub-GITHUB_TOKEN-2}");
        assert_eq!(entry["headers"]["Authorization"], "Bearer {keyring:git_hub-Authorization}");
        assert_eq!(
            entry["oauth"],
            json!({"client_id": "abcdefgh", "client_secret": "{keyring:git_hub-client_secret}"})
        );
        assert_eq!(entry["env"]["KEY"], "${KEY}");
        assert_eq!(entry["env"]["MIXED_KEY"], "a${KEY}bcdef");
        let values: Vec<_> = moves.iter().map(|secret| secret.value.expose()).collect();
        assert_eq!(values[..3], ["pa$word$1", "abcdefgh", "abcdefgh"]);
        assert_eq!(moves.len(), 6);
        let keys = ["mcpServers".to_owned()];
        assert!(moves[0].edit(&keys).is_none());
        let edit = moves[3].edit(&keys).unwrap();
        assert_eq!(edit.keys, ["mcpServers", "git hub", "env"]);
        assert_eq!(edit.set, [("GITHUB_TOKEN".to_owned(), json!("{keyring:git_hub-GITHUB_TOKEN-3}"))]);
        assert!(!moves[0].describe().contains("pa$word"), "{}", moves[0].describe());
    }
}

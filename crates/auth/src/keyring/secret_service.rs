//! The Secret Service of Linux and the BSDs: GNOME Keyring, KWallet, KeePassXC.
//!
//! It is called directly over D-Bus, because the library that the `keyring` crate uses unlocks locked collections
//! without being asked to, and waits for the user without a timeout. The secrets cross the user's own bus
//! unencrypted: a process that can listen there can also request them.

use super::{BoxFuture, CALL_TIMEOUT, Env, KeyringBackend, KeyringEntry, KeyringError, SERVICE_NAME, Secret};
use futures_util::StreamExt;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use tokio::time::timeout;
use zbus::connection::Builder;
use zbus::{Connection, MatchRule, MessageStream, OwnedObjectPath, OwnedVariant, Variant};
use zbus::{fdo, message};

const BUS_NAME: &str = "org.freedesktop.secrets";
const SERVICE_PATH: &str = "/org/freedesktop/secrets";
const SERVICE_INTERFACE: &str = "org.freedesktop.Secret.Service";
const COLLECTION_INTERFACE: &str = "org.freedesktop.Secret.Collection";
const ITEM_INTERFACE: &str = "org.freedesktop.Secret.Item";
const PROMPT_INTERFACE: &str = "org.freedesktop.Secret.Prompt";

/// The `Secret` struct of the Secret Service specification: session, encryption parameters, value, content type.
type WireSecret = (OwnedObjectPath, Vec<u8>, Vec<u8>, String);

/// The Secret Service on the user's session bus.
pub(super) struct SecretService {
    /// The address of the bus.
    bus: String,
    /// Whether the user may be asked to unlock it.
    may_prompt: bool,
}

/// Returns the Secret Service of this user. `None` if the user has no session bus.
pub(super) fn backend(env: &Env, may_prompt: bool) -> Option<SecretService> {
    let set = |name| env.get(name).filter(|value| !value.is_empty());
    let bus = match set("DBUS_SESSION_BUS_ADDRESS") {
        Some(address) => address.to_owned(),
        None => {
            // Some clients start this program without most of their environment. Then the bus is where systemd puts it.
            let default_dir = || Path::new("/run/user").join(nix::unistd::getuid().to_string());
            let socket = set("XDG_RUNTIME_DIR").map_or_else(default_dir, PathBuf::from).join("bus");
            format!("unix:path={}", socket.exists().then(|| socket.to_str())??)
        }
    };
    Some(SecretService { bus, may_prompt })
}

impl KeyringBackend for SecretService {
    fn unlock<'a>(&'a self, _entry: &'a KeyringEntry) -> BoxFuture<'a, Result<(), KeyringError>> {
        Box::pin(async { self.open_session(self.may_prompt).await.map(drop) })
    }

    fn get<'a>(&'a self, entry: &'a KeyringEntry) -> BoxFuture<'a, Result<Option<Secret>, KeyringError>> {
        Box::pin(async {
            let session = self.open_session(false).await?;
            let Some(item) = session.search(entry).await?.into_iter().next() else { return Ok(None) };
            let (_, _, text, _): WireSecret =
                session.call(item.as_str(), ITEM_INTERFACE, "GetSecret", &session.path).await?;
            Ok(String::from_utf8(text).ok().map(Secret::new))
        })
    }

    fn set<'a>(&'a self, entry: &'a KeyringEntry, text: Secret) -> BoxFuture<'a, Result<(), KeyringError>> {
        Box::pin(async move {
            let session = self.open_session(false).await?;
            let label = format!("{SERVICE_NAME}: {}", entry.label);
            let properties = HashMap::from([
                ("org.freedesktop.Secret.Item.Label", Variant::from(label)),
                ("org.freedesktop.Secret.Item.Attributes", Variant::from(attributes(entry))),
            ]);
            let value = text.expose().as_bytes().to_vec();
            let secret: WireSecret = (session.path.clone(), Vec::new(), value, entry.content_type.to_owned());
            let (_, prompt): (OwnedObjectPath, OwnedObjectPath) = session
                .call(
                    session.collection.as_str(),
                    COLLECTION_INTERFACE,
                    "CreateItem",
                    &(properties, secret, true),
                )
                .await?;
            complete_prompt(&session, &prompt, self.may_prompt).await
        })
    }

    fn remove<'a>(&'a self, entry: &'a KeyringEntry) -> BoxFuture<'a, Result<(), KeyringError>> {
        Box::pin(async {
            let session = self.open_session(false).await?;
            for item in session.search(entry).await? {
                let prompt: OwnedObjectPath =
                    session.call(item.as_str(), ITEM_INTERFACE, "Delete", &()).await?;
                complete_prompt(&session, &prompt, self.may_prompt).await?;
            }
            Ok(())
        })
    }
}

impl SecretService {
    /// Connects and makes sure that the default collection is unlocked: by the user, if `may_prompt`.
    ///
    /// # Errors
    ///
    /// `Unavailable` if there is no bus, no service or no default collection; `Locked` if the user may not be asked or
    /// refuses; `TimedOut` if an answer takes longer than `CALL_TIMEOUT`; `Failed` if the service rejects a call.
    async fn open_session(&self, may_prompt: bool) -> Result<ServiceSession, KeyringError> {
        let connecting = Builder::address(self.bus.as_str()).method_timeout(CALL_TIMEOUT).build();
        let connection = timeout(CALL_TIMEOUT, connecting).await.map_err(|_| KeyringError::TimedOut)?;
        let connection = connection.map_err(|error| match error {
            zbus::Error::Connection(..) | zbus::Error::Address(_) | zbus::Error::Unsupported => {
                KeyringError::Unavailable
            }
            error => keyring_error(error),
        })?;
        let unset = OwnedObjectPath::default();
        let mut session = ServiceSession { connection, path: unset.clone(), collection: unset };
        session.collection = session.call(SERVICE_PATH, SERVICE_INTERFACE, "ReadAlias", &"default").await?;
        if is_null(&session.collection) {
            return Err(KeyringError::Unavailable);
        }
        let (_, prompt): (Vec<OwnedObjectPath>, OwnedObjectPath) =
            session.call(SERVICE_PATH, SERVICE_INTERFACE, "Unlock", &vec![&session.collection]).await?;
        complete_prompt(&session, &prompt, may_prompt).await?;
        let plain = ("plain", Variant::from(""));
        let (_, path): (OwnedVariant, OwnedObjectPath) =
            session.call(SERVICE_PATH, SERVICE_INTERFACE, "OpenSession", &plain).await?;
        session.path = path;
        Ok(session)
    }
}

/// Has the user answer a prompt, if the service returned one. Waits for the answer without a limit.
///
/// # Errors
///
/// `Locked` if the user may not be asked, or dismisses the prompt. Otherwise why the prompt cannot be shown.
async fn complete_prompt(
    session: &ServiceSession,
    prompt: &OwnedObjectPath,
    may_prompt: bool,
) -> Result<(), KeyringError> {
    if is_null(prompt) {
        return Ok(());
    }
    if !may_prompt {
        return Err(KeyringError::Locked);
    }
    let rule = MatchRule::builder()
        .msg_type(message::Type::Signal)
        .path(prompt)
        .interface(PROMPT_INTERFACE)
        .member("Completed")
        .build()
        .map_err(keyring_error)?;
    let completed = MessageStream::for_match_rule(rule, &session.connection, None).await;
    let mut completed = completed.map_err(keyring_error)?;
    // The argument is the id of the parent window, and there is none.
    let () = session.call(prompt.as_str(), PROMPT_INTERFACE, "Prompt", &"").await?;
    let signal = completed.next().await.ok_or(KeyringError::TimedOut)?.map_err(keyring_error)?;
    let (is_dismissed, _): (bool, OwnedVariant) = signal.body().deserialize().map_err(keyring_error)?;
    if is_dismissed { Err(KeyringError::Locked) } else { Ok(()) }
}

/// A connection to the bus with a session of the Secret Service.
struct ServiceSession {
    connection: Connection,
    /// The object path of the session, which secrets are transferred in.
    path: OwnedObjectPath,
    /// The default collection.
    collection: OwnedObjectPath,
}

impl ServiceSession {
    async fn call<B, R>(&self, path: &str, interface: &str, method: &str, body: &B) -> Result<R, KeyringError>
    where
        B: serde::Serialize + zbus::DynamicType,
        R: serde::de::DeserializeOwned + zbus::Type,
    {
        let answer = self.connection.call_method(Some(BUS_NAME), path, Some(interface), method, body).await;
        answer.and_then(|answer| answer.body().deserialize()).map_err(keyring_error)
    }

    /// Returns the unlocked items of an entry: none if there is no such entry.
    ///
    /// # Errors
    ///
    /// Why the service did not answer.
    async fn search(&self, entry: &KeyringEntry) -> Result<Vec<OwnedObjectPath>, KeyringError> {
        let (unlocked, _): (Vec<OwnedObjectPath>, Vec<OwnedObjectPath>) =
            self.call(SERVICE_PATH, SERVICE_INTERFACE, "SearchItems", &attributes(entry)).await?;
        Ok(unlocked)
    }
}

/// Returns the attributes of an entry: those that the `keyring` crate uses, so that other tools find it.
fn attributes(entry: &KeyringEntry) -> HashMap<&'static str, String> {
    HashMap::from([("service", SERVICE_NAME.to_owned()), ("username", entry.username.clone())])
}

/// Returns whether an object path stands for no object: D-Bus has no null.
fn is_null(path: &OwnedObjectPath) -> bool {
    path.as_str() == "/"
}

/// Describes an error without the texts of the service.
fn keyring_error(error: zbus::Error) -> KeyringError {
    match error {
        zbus::Error::InputOutput(error) if error.kind() == std::io::ErrorKind::TimedOut => {
            KeyringError::TimedOut
        }
        zbus::Error::InputOutput(error) => KeyringError::Failed(error.to_string()),
        zbus::Error::FDO(error) => match *error {
            fdo::Error::ServiceUnknown(_) | fdo::Error::NameHasNoOwner(_) => KeyringError::Unavailable,
            fdo::Error::NoReply(_) | fdo::Error::Timeout(_) | fdo::Error::TimedOut(_) => {
                KeyringError::TimedOut
            }
            _ => KeyringError::Failed("the bus rejected the call".to_owned()),
        },
        zbus::Error::MethodError(name, ..) if name.as_str() == "org.freedesktop.Secret.Error.IsLocked" => {
            KeyringError::Locked
        }
        zbus::Error::MethodError(name, ..) => KeyringError::Failed(name.to_string()),
        _ => KeyringError::Failed("its answer is invalid".to_owned()),
    }
}

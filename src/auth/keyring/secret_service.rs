//! The Secret Service of Linux and the BSDs: GNOME Keyring, KWallet, KeePassXC.
//!
//! Asked directly over D-Bus: what the `keyring` crate uses unlocks whatever is locked without being asked to, and waits
//! for a person without an end. The secrets cross the user's own bus as they are: whoever may read along there may as
//! well ask for them.

use super::{BoxFuture, Env, Key, PATIENCE, Ring, SERVICE, Secret, Unusable};
use futures_util::StreamExt;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use tokio::time::timeout;
use zbus::connection::Builder;
use zbus::{Connection, MatchRule, MessageStream, OwnedObjectPath, OwnedVariant, Variant};
use zbus::{fdo, message};

const BUS_NAME: &str = "org.freedesktop.secrets";
const ROOT: &str = "/org/freedesktop/secrets";
const SERVICE_INTERFACE: &str = "org.freedesktop.Secret.Service";
const COLLECTION: &str = "org.freedesktop.Secret.Collection";
const ITEM: &str = "org.freedesktop.Secret.Item";
const PROMPT: &str = "org.freedesktop.Secret.Prompt";

/// A session, how it is encrypted (not at all), the secret, its type.
type Sealed = (OwnedObjectPath, Vec<u8>, Vec<u8>, String);

pub(super) struct SecretService {
    /// The address of the user's bus.
    bus: String,
    person: bool,
}

/// `None`: this user has no session bus.
pub(super) fn ring(env: &Env, person: bool) -> Option<SecretService> {
    let set = |name| env.get(name).filter(|value| !value.is_empty());
    let bus = match set("DBUS_SESSION_BUS_ADDRESS") {
        Some(address) => address.to_owned(),
        None => {
            // Clients start us without most of their environment; then it is where systemd has it.
            let usual = || Path::new("/run/user").join(nix::unistd::getuid().to_string());
            let socket = set("XDG_RUNTIME_DIR").map_or_else(usual, PathBuf::from).join("bus");
            format!("unix:path={}", socket.exists().then(|| socket.to_str())??)
        }
    };
    Some(SecretService { bus, person })
}

impl Ring for SecretService {
    fn unlock<'a>(&'a self, _key: &'a Key) -> BoxFuture<'a, Result<(), Unusable>> {
        Box::pin(async { self.open(self.person).await.map(drop) })
    }

    fn get<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Secret>, Unusable>> {
        Box::pin(async {
            let open = self.open(false).await?;
            let Some(item) = open.items(key).await?.into_iter().next() else { return Ok(None) };
            let (_, _, text, _): Sealed = open.call(item.as_str(), ITEM, "GetSecret", &open.session).await?;
            Ok(String::from_utf8(text).ok().map(Secret::new))
        })
    }

    fn put<'a>(&'a self, key: &'a Key, text: Secret) -> BoxFuture<'a, Result<(), Unusable>> {
        Box::pin(async move {
            let open = self.open(false).await?;
            let label = format!("{SERVICE}: login to {}", key.name());
            let properties = HashMap::from([
                ("org.freedesktop.Secret.Item.Label", Variant::from(label)),
                ("org.freedesktop.Secret.Item.Attributes", Variant::from(attributes(key))),
            ]);
            let (session, text) = (open.session.clone(), text.expose().as_bytes().to_vec());
            let sealed: Sealed = (session, Vec::new(), text, "application/json".to_owned());
            let (_, prompt): (OwnedObjectPath, OwnedObjectPath) = open
                .call(open.collection.as_str(), COLLECTION, "CreateItem", &(properties, sealed, true))
                .await?;
            agreed(&open, &prompt, self.person).await
        })
    }

    fn remove<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<(), Unusable>> {
        Box::pin(async {
            let open = self.open(false).await?;
            for item in open.items(key).await? {
                let prompt: OwnedObjectPath = open.call(item.as_str(), ITEM, "Delete", &()).await?;
                agreed(&open, &prompt, self.person).await?;
            }
            Ok(())
        })
    }
}

impl SecretService {
    /// Connects, and sees to it that the keyring is unlocked: by a `person`, if there is one.
    async fn open(&self, person: bool) -> Result<Open, Unusable> {
        let connecting = Builder::address(self.bus.as_str()).method_timeout(PATIENCE).build();
        let connection = timeout(PATIENCE, connecting).await.map_err(|_| Unusable::Silent)?;
        let connection = connection.map_err(|error| match error {
            zbus::Error::Connection(..) | zbus::Error::Address(_) | zbus::Error::Unsupported => {
                Unusable::Missing
            }
            error => unusable(error),
        })?;
        let nowhere = OwnedObjectPath::default();
        let mut open = Open { connection, session: nowhere.clone(), collection: nowhere };
        open.collection = open.call(ROOT, SERVICE_INTERFACE, "ReadAlias", &"default").await?;
        if is_none(&open.collection) {
            return Err(Unusable::Missing);
        }
        let (_, prompt): (Vec<OwnedObjectPath>, OwnedObjectPath) =
            open.call(ROOT, SERVICE_INTERFACE, "Unlock", &vec![&open.collection]).await?;
        agreed(&open, &prompt, person).await?;
        let plain = ("plain", Variant::from(""));
        let (_, session): (OwnedVariant, OwnedObjectPath) =
            open.call(ROOT, SERVICE_INTERFACE, "OpenSession", &plain).await?;
        open.session = session;
        Ok(open)
    }
}

/// Has a person agree, if the service wants it.
async fn agreed(open: &Open, prompt: &OwnedObjectPath, person: bool) -> Result<(), Unusable> {
    if is_none(prompt) {
        return Ok(());
    }
    if !person {
        return Err(Unusable::Locked);
    }
    let rule = MatchRule::builder()
        .msg_type(message::Type::Signal)
        .path(prompt)
        .interface(PROMPT)
        .member("Completed")
        .build()
        .map_err(unusable)?;
    let completed = MessageStream::for_match_rule(rule, &open.connection, None).await;
    let mut completed = completed.map_err(unusable)?;
    // No window of ours is below it.
    let () = open.call(prompt.as_str(), PROMPT, "Prompt", &"").await?;
    let answer = completed.next().await.ok_or(Unusable::Silent)?.map_err(unusable)?;
    let (dismissed, _): (bool, OwnedVariant) = answer.body().deserialize().map_err(unusable)?;
    if dismissed { Err(Unusable::Locked) } else { Ok(()) }
}

/// A connection with what it is for.
struct Open {
    connection: Connection,
    session: OwnedObjectPath,
    collection: OwnedObjectPath,
}

impl Open {
    async fn call<B, R>(&self, path: &str, interface: &str, method: &str, body: &B) -> Result<R, Unusable>
    where
        B: serde::Serialize + zbus::DynamicType,
        R: serde::de::DeserializeOwned + zbus::Type,
    {
        let answer = self.connection.call_method(Some(BUS_NAME), path, Some(interface), method, body).await;
        answer.and_then(|answer| answer.body().deserialize()).map_err(unusable)
    }

    async fn items(&self, key: &Key) -> Result<Vec<OwnedObjectPath>, Unusable> {
        let (unlocked, _): (Vec<OwnedObjectPath>, Vec<OwnedObjectPath>) =
            self.call(ROOT, SERVICE_INTERFACE, "SearchItems", &attributes(key)).await?;
        Ok(unlocked)
    }
}

/// Those that the `keyring` crate gives its entries, so that other tools find ours.
fn attributes(key: &Key) -> HashMap<&'static str, String> {
    HashMap::from([("service", SERVICE.to_owned()), ("username", key.id().to_owned())])
}

/// D-Bus has no word for nothing.
fn is_none(path: &OwnedObjectPath) -> bool {
    path.as_str() == "/"
}

/// In a few words; none of what the service says is repeated.
fn unusable(error: zbus::Error) -> Unusable {
    match error {
        zbus::Error::InputOutput(error) if error.kind() == std::io::ErrorKind::TimedOut => Unusable::Silent,
        zbus::Error::InputOutput(error) => Unusable::Failed(error.to_string()),
        zbus::Error::FDO(error) => match *error {
            fdo::Error::ServiceUnknown(_) | fdo::Error::NameHasNoOwner(_) => Unusable::Missing,
            fdo::Error::NoReply(_) | fdo::Error::Timeout(_) | fdo::Error::TimedOut(_) => Unusable::Silent,
            _ => Unusable::Failed("the bus refuses it".to_owned()),
        },
        zbus::Error::MethodError(name, ..) if name.as_str() == "org.freedesktop.Secret.Error.IsLocked" => {
            Unusable::Locked
        }
        zbus::Error::MethodError(name, ..) => Unusable::Failed(name.to_string()),
        _ => Unusable::Failed("its answer makes no sense".to_owned()),
    }
}

//! The keychain of macOS and the credential manager of Windows. Neither can be told to ask nobody.

use super::{BoxFuture, Env, Key, Ring, SERVICE, Secret, Unusable};
#[cfg(target_os = "macos")]
use apple_native_keyring_store::keychain::Store;
use keyring_core::api::CredentialStoreApi;
use keyring_core::{Entry, Error};
use parking_lot::Mutex;
use std::sync::Arc;
#[cfg(windows)]
use windows_native_keyring_store::Store;

/// One question at a time: whoever is asked for consent is asked once.
#[derive(Default)]
pub(super) struct Native(Arc<Mutex<()>>);

/// Every user has one.
pub(super) fn ring(_env: &Env, _person: bool) -> Option<Native> {
    Some(Native::default())
}

impl Native {
    /// Off the only thread, for it may last. Whoever gave up before its turn wants nothing any more.
    fn ask<T: Send + 'static>(
        &self,
        key: &Key,
        what: impl FnOnce(&Entry) -> keyring_core::Result<T> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, Unusable>> {
        let (turns, user) = (self.0.clone(), key.id().to_owned());
        Box::pin(async move {
            let waiting = Arc::new(());
            let wanted = Arc::downgrade(&waiting);
            let done = tokio::task::spawn_blocking(move || {
                let _turn = turns.lock();
                if wanted.strong_count() == 0 {
                    return Err(Unusable::Silent);
                }
                let entry = Store::new().and_then(|store| store.build(SERVICE, &user, None));
                entry.and_then(|entry| what(&entry)).map_err(|error| unusable(&error))
            });
            let done = done.await;
            drop(waiting);
            done.unwrap_or(Err(Unusable::Silent))
        })
    }
}

impl Ring for Native {
    /// As far as reading does that: no call of theirs does nothing else.
    fn unlock<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<(), Unusable>> {
        self.ask(key, |entry| match entry.get_secret() {
            Ok(_) | Err(Error::NoEntry) => Ok(()),
            Err(error) => Err(error),
        })
    }

    fn get<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Secret>, Unusable>> {
        self.ask(key, |entry| match entry.get_secret() {
            Ok(text) => Ok(String::from_utf8(text).ok().map(Secret::new)),
            Err(Error::NoEntry) => Ok(None),
            Err(error) => Err(error),
        })
    }

    fn put<'a>(&'a self, key: &'a Key, text: Secret) -> BoxFuture<'a, Result<(), Unusable>> {
        self.ask(key, move |entry| entry.set_secret(text.expose().as_bytes()))
    }

    fn remove<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<(), Unusable>> {
        self.ask(key, |entry| match entry.delete_credential() {
            Err(Error::NoEntry) => Ok(()),
            done => done,
        })
    }
}

/// In a few words: the errors may have data of entries.
fn unusable(error: &Error) -> Unusable {
    match error {
        Error::NoStorageAccess(_) => Unusable::Locked,
        Error::TooLong(..) => Unusable::Failed("the login is too long for it".to_owned()),
        Error::PlatformFailure(error) => Unusable::Failed(error.to_string()),
        _ => Unusable::Failed("it refuses the entry".to_owned()),
    }
}

//! The keychain of macOS and the credential manager of Windows. Neither can be told not to ask the user.

use super::{
    BoxFuture, Env, KeyringBackend, KeyringEntry, KeyringError, SERVICE_NAME, Secret, UNLOCK_TIMEOUT,
};
#[cfg(target_os = "macos")]
use apple_native_keyring_store::keychain::Store;
use base::blocking;
use keyring_core::api::CredentialStoreApi;
use keyring_core::{Entry, Error};
use parking_lot::Mutex;
use std::sync::Arc;
#[cfg(windows)]
use windows_native_keyring_store::Store;

/// A keyring of the operating system. One call runs at a time, so that the user is asked for consent once.
#[derive(Default)]
pub(super) struct NativeKeyring(Arc<Mutex<()>>);

/// Returns the keyring of this user: every user has one.
pub(super) fn backend(_env: &Env, _may_prompt: bool) -> Option<NativeKeyring> {
    Some(NativeKeyring::default())
}

impl NativeKeyring {
    /// Runs a call on another thread, because it may take long. A call whose caller has given up before its turn is not
    /// made.
    ///
    /// # Errors
    ///
    /// `TimedOut` after `UNLOCK_TIMEOUT`, or else why the keyring failed.
    fn call<T: Send + 'static>(
        &self,
        entry: &KeyringEntry,
        request: impl FnOnce(&Entry) -> keyring_core::Result<T> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, KeyringError>> {
        let (one_at_a_time, username) = (self.0.clone(), entry.username.clone());
        Box::pin(async move {
            let caller = Arc::new(());
            let caller_waits = Arc::downgrade(&caller);
            let done = blocking::run(UNLOCK_TIMEOUT, move || {
                let _turn = one_at_a_time.lock();
                if caller_waits.strong_count() == 0 {
                    return Err(KeyringError::TimedOut);
                }
                let entry = Store::new().and_then(|store| store.build(SERVICE_NAME, &username, None));
                entry.and_then(|entry| request(&entry)).map_err(|error| keyring_error(&error))
            });
            let done = done.await;
            drop(caller);
            done.unwrap_or(Err(KeyringError::TimedOut))
        })
    }
}

impl KeyringBackend for NativeKeyring {
    /// Reads the entry, because there is no call that only unlocks.
    fn unlock<'a>(&'a self, entry: &'a KeyringEntry) -> BoxFuture<'a, Result<(), KeyringError>> {
        self.call(entry, |entry| match entry.get_secret() {
            Ok(_) | Err(Error::NoEntry) => Ok(()),
            Err(error) => Err(error),
        })
    }

    fn get<'a>(&'a self, entry: &'a KeyringEntry) -> BoxFuture<'a, Result<Option<Secret>, KeyringError>> {
        self.call(entry, |entry| match entry.get_secret() {
            Ok(text) => Ok(String::from_utf8(text).ok().map(Secret::new)),
            Err(Error::NoEntry) => Ok(None),
            Err(error) => Err(error),
        })
    }

    /// Reads the entry once, so that the user is asked once.
    fn unlock_and_get<'a>(
        &'a self,
        entry: &'a KeyringEntry,
    ) -> BoxFuture<'a, Result<Option<Secret>, KeyringError>> {
        self.get(entry)
    }

    fn set<'a>(&'a self, entry: &'a KeyringEntry, text: Secret) -> BoxFuture<'a, Result<(), KeyringError>> {
        self.call(entry, move |entry| entry.set_secret(text.expose().as_bytes()))
    }

    fn remove<'a>(&'a self, entry: &'a KeyringEntry) -> BoxFuture<'a, Result<(), KeyringError>> {
        self.call(entry, |entry| match entry.delete_credential() {
            Err(Error::NoEntry) => Ok(()),
            done => done,
        })
    }
}

/// Describes an error without its details, which may contain data of entries.
fn keyring_error(error: &Error) -> KeyringError {
    match error {
        Error::NoStorageAccess(_) => KeyringError::Locked,
        Error::TooLong(..) => KeyringError::Failed("the text is too large for it".to_owned()),
        Error::PlatformFailure(error) => KeyringError::Failed(error.to_string()),
        _ => KeyringError::Failed("it rejected the entry".to_owned()),
    }
}

//! New tokens that could not be written. This process may have the only tokens that still work, and goes on with them.

use super::key::StoreKey;
use super::stored_login::StoredLogin;
use crate::error::AuthError;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// The unwritten logins of this process. Clones share them.
#[derive(Clone, Default)]
pub(super) struct UnsavedLogins(Arc<Mutex<HashMap<StoreKey, UnsavedLogin>>>);

struct UnsavedLogin {
    /// What has to be written.
    login: StoredLogin,
    /// The stored login that it replaces.
    replaces: Option<StoredLogin>,
}

impl UnsavedLogins {
    /// Adds an unwritten login that replaces the stored one, `replaces`. Returns whether there was no unwritten login
    /// of this key before. If there was one, the new login takes its place, and its `replaces` stays.
    pub(super) fn insert(&self, key: &StoreKey, login: StoredLogin, replaces: Option<StoredLogin>) -> bool {
        let mut logins = self.0.lock();
        match logins.get_mut(key) {
            Some(unsaved) => {
                unsaved.login = login;
                false
            }
            None => {
                logins.insert(key.clone(), UnsavedLogin { login, replaces });
                true
            }
        }
    }

    /// Removes the login of this key.
    pub(super) fn remove(&self, key: &StoreKey) {
        self.0.lock().remove(key);
    }

    /// Returns the unwritten login of this key.
    pub(super) fn get(&self, key: &StoreKey) -> Option<StoredLogin> {
        self.0.lock().get(key).map(|unsaved| unsaved.login.clone())
    }

    /// Returns the keys of all unwritten logins.
    pub(super) fn keys(&self) -> Vec<StoreKey> {
        self.0.lock().keys().cloned().collect()
    }

    /// Returns the unwritten login if the stored one is as it was, or cannot be read. If the stored login has changed
    /// since, another process logged in or out: the unwritten one is dropped. `stored` is what was read from the store.
    ///
    /// # Errors
    ///
    /// That of `stored`, if there is no unwritten login.
    pub(super) fn newest(
        &self,
        key: &StoreKey,
        stored: Result<Option<StoredLogin>, AuthError>,
    ) -> Result<Option<StoredLogin>, AuthError> {
        let mut logins = self.0.lock();
        match (logins.get(key), stored) {
            (Some(unsaved), Ok(stored)) if stored != unsaved.replaces => {
                logins.remove(key);
                Ok(stored)
            }
            (Some(unsaved), _) => Ok(Some(unsaved.login.clone())),
            (None, stored) => stored,
        }
    }
}

impl fmt::Debug for UnsavedLogins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("UnsavedLogins").field(&self.0.lock().len()).finish()
    }
}

//! New tokens that cannot be written: this process may have the only ones that still work, and goes on with them.

use super::{Key, Record, TokenStore};
use crate::auth::error::AuthError;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// Those of this process. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Unsaved(Arc<Mutex<HashMap<String, Newer>>>);

struct Newer {
    key: Key,
    record: Record,
    /// What is still kept in its place.
    before: Option<Record>,
}

impl Unsaved {
    pub(super) fn forget(&self, key: &Key) {
        self.0.lock().remove(key.id());
    }

    /// Of what is kept and what could not be, the newest: somebody else may have logged in or out since.
    pub(super) fn newest(
        &self,
        key: &Key,
        kept: Result<Option<Record>, AuthError>,
    ) -> Result<Option<Record>, AuthError> {
        let mut all = self.0.lock();
        match (all.get(key.id()), kept) {
            (Some(newer), Ok(kept)) if kept != newer.before => {
                all.remove(key.id());
                Ok(kept)
            }
            (Some(newer), _) => Ok(Some(newer.record.clone())),
            (None, kept) => kept,
        }
    }
}

impl TokenStore {
    /// Writes what takes the place of `before`, for who holds the lock. If it cannot be written, this process has it
    /// all the same, and tries again (`retry`).
    pub async fn save(&self, key: &Key, record: &Record, before: Option<Record>) {
        let Err(trouble) = self.rewrite(key, record).await else { return };
        let mut all = self.unsaved.0.lock();
        match all.get_mut(key.id()) {
            Some(newer) => newer.record = record.clone(),
            None => {
                tracing::warn!(
                    group = %key.name,
                    "its new tokens cannot be kept, and are lost when dynamic-mcp ends: {trouble}"
                );
                let newer = Newer { key: key.clone(), record: record.clone(), before };
                all.insert(key.id().to_owned(), newer);
            }
        }
    }

    /// Tries again to write what could not be written, unless somebody changes this login now.
    pub async fn retry(&self, key: &Key) {
        let Some(url) = self.unsaved.0.lock().get(key.id()).map(|newer| newer.record.url.clone()) else {
            return;
        };
        let Ok(Some(_lock)) = self.try_lock(key).await else { return };
        // Not over a login of somebody else.
        drop(self.read(key, &url).await);
        let record = self.unsaved.0.lock().get(key.id()).map(|newer| newer.record.clone());
        let Some(record) = record else { return };
        match self.rewrite(key, &record).await {
            Ok(()) => tracing::info!(group = %key.name, "its new tokens are kept now"),
            Err(trouble) => {
                tracing::debug!(group = %key.name, "its new tokens still cannot be kept: {trouble}");
            }
        }
    }

    /// The process ends: waits for what is under way, and tries a last time to write what could not be.
    pub async fn settled(&self) {
        self.errands.settled().await;
        let keys: Vec<Key> = self.unsaved.0.lock().values().map(|newer| newer.key.clone()).collect();
        for key in keys {
            self.retry(&key).await;
        }
    }
}

impl fmt::Debug for Unsaved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Unsaved").field(&self.0.lock().len()).finish()
    }
}

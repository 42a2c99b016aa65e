//! Runs work on the catalogs of all groups where it blocks no other work.

use super::manager::GroupManager;
use base::blocking::{self, BlockingError};
use std::sync::Arc;

impl GroupManager {
    /// Returns the bytes of the definitions in the catalogs of all groups.
    pub fn catalog_bytes(&self) -> usize {
        let catalogs = self.all().into_iter().filter_map(|group| group.snapshot().catalog.clone());
        catalogs.map(|catalog| catalog.work_bytes()).sum()
    }

    /// Does work on the catalogs of all groups: here if they are small, else on a thread that may block.
    ///
    /// # Errors
    ///
    /// The catalogs are large, and the work took or waited longer than 30 s, or it panicked.
    pub async fn run_on_lists<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T, BlockingError> {
        let groups = self.clone();
        blocking::run_on(self.catalog_bytes(), move || work(&groups)).await
    }
}

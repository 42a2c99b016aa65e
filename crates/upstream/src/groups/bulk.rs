//! Work on what all groups list.

use super::manager::GroupManager;
use base::blocking::{self, BlockingError};
use std::sync::Arc;

impl GroupManager {
    /// Does work on what the groups list: here if that is little, else on a thread that may block.
    ///
    /// # Errors
    ///
    /// It took too long.
    pub async fn run_on_lists<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T, BlockingError> {
        let catalogs = self.all().into_iter().filter_map(|group| group.snapshot().catalog.clone());
        let bytes = catalogs.map(|catalog| catalog.bytes).sum();
        let groups = self.clone();
        blocking::run_on(bytes, move || work(&groups)).await
    }
}

//! Records that pass from one machine to another.

use super::files;
use super::record::{PinRecord, PinTarget};
use config::{GroupName, ServerConfig};
use std::path::Path;

/// Reads what is remembered of a group's server. `None` if nothing is, or it cannot be read. Blocks.
pub(crate) fn record_of(dir: &Path, group: &GroupName, server: &ServerConfig) -> Option<PinRecord> {
    PinTarget::of(group, &server.origin).record(dir).ok().flatten()
}

/// Writes what another machine remembers of a group's server, in place of what is remembered here. Does nothing if the
/// record is about another server. Blocks.
///
/// # Errors
///
/// It cannot be written. The text names the file.
pub(crate) fn install_record(
    dir: &Path,
    group: &GroupName,
    server: &ServerConfig,
    mut record: PinRecord,
) -> Result<(), String> {
    let target = PinTarget::of(group, &server.origin);
    if !record.is_about(&target) {
        return Ok(());
    }
    record.config.clone_from(&target.config);
    let _lock = files::lock(dir)?;
    files::write(dir, &target.path(dir), &record)
}

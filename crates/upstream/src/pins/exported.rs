//! Records that pass from one machine to another.

use super::files;
use super::group::GroupPins;
use super::record::PinRecord;
use config::{GroupName, ServerConfig};
use std::path::Path;
use std::sync::Arc;

/// Reads what is remembered of a group's server. `None` if nothing is, or it cannot be read. Blocks.
pub(crate) fn record_of(dir: &Path, group: &GroupName, server: &ServerConfig) -> Option<PinRecord> {
    let pins = GroupPins::new(group, server, Arc::default());
    let record = files::read(&pins.path(dir)).ok().flatten();
    record.filter(|record| record.is_about(pins.target()))
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
    let pins = GroupPins::new(group, server, Arc::default());
    if !record.is_about(pins.target()) {
        return Ok(());
    }
    record.config.clone_from(&pins.target().config);
    let _lock = files::lock(dir)?;
    files::write(dir, &pins.path(dir), &record)
}

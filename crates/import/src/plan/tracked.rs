//! Whether Git tracks a file, so that a commit brings its changes to everybody.

use std::fs;
use std::path::Path;

/// The length of the header of an index, and where its version is.
const HEADER: usize = 12;

/// Returns whether the index of the repository around a file has the file. Git is not run.
pub(super) fn is_tracked(file: &Path) -> bool {
    let mut dirs = file.ancestors().skip(1);
    let Some(root) = dirs.find(|dir| dir.join(".git").exists()) else { return false };
    let Ok(name) = file.strip_prefix(root) else { return false };
    let name = name.to_string_lossy().replace('\\', "/");
    match fs::read(root.join(".git/index")) {
        // Version 4 writes only what differs from the name before.
        Ok(index) if index.get(..HEADER).is_some_and(|header| header[7] < 4) => {
            index.windows(name.len()).any(|window| window == name.as_bytes())
        }
        // A work tree of its own has its index elsewhere.
        Ok(_) => true,
        Err(_) => root.join(".git").is_file(),
    }
}

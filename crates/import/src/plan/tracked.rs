//! Whether Git tracks a file, so that a commit brings its changes to everybody.

use std::fs;
use std::path::Path;

/// The length of the header of an index, and where its version is.
const HEADER: usize = 12;
/// The longest length of a name that an entry has before the name. The byte before a name is the last one of that length, or
/// 0 if there are more flags. A 0 follows the name.
const MAX_LENGTH: usize = 0xFFF;

/// Returns whether the index of the repository around a file has the file. Git is not run.
pub(super) fn is_tracked(file: &Path) -> bool {
    let mut dirs = file.ancestors().skip(1);
    let Some(root) = dirs.find(|dir| dir.join(".git").exists()) else { return false };
    let Ok(name) = file.strip_prefix(root) else { return false };
    let name = name.to_string_lossy().replace('\\', "/");
    match fs::read(root.join(".git/index")) {
        // Version 4 writes only what differs from the name before.
        Ok(index) if index.get(..HEADER).is_some_and(|header| header[7] < 4) => {
            let length = name.len().min(MAX_LENGTH).to_le_bytes()[0];
            let is_entry = |window: &[u8]| matches!(window, [mark, path @ .., 0] if [length, 0].contains(mark) && path == name.as_bytes());
            index.windows(name.len() + 2).any(is_entry)
        }
        // A work tree of its own has its index elsewhere.
        Ok(_) => true,
        Err(_) => root.join(".git").is_file(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_tracked_under_its_whole_name_alone() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join(".git")).unwrap();
        let entry = |flags: &[u8], name: &str| [&[1; 60], flags, name.as_bytes(), &[0; 8]].concat();
        let entries = [entry(&[0, 13], "sub/.mcp.json"), entry(&[0x40, 7, 0x20, 0], "new.txt")].concat();
        let index = [&b"DIRC\0\0\0\x03\0\0\0\x02"[..], &entries].concat();
        fs::write(dir.path().join(".git/index"), index).unwrap();
        let tracked = ["sub/.mcp.json", "new.txt", ".mcp.json", "sub/.mcp", "w.txt"];
        let tracked = tracked.map(|name| is_tracked(&dir.path().join(name)));
        assert_eq!(tracked, [true, true, false, false, false]);
    }
}

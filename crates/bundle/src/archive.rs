//! Opens a bundle and unpacks it.
//!
//! A signature may follow the zip file. It is not verified: nothing here knows whom the user trusts.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use zip::ZipArchive;
use zip::read::ZipFile;

use crate::manifest::BundleManifest;
use base::files::{MAX_NAMED_BYTES, open_regular};
use base::private_files::{make_dirs, private_dir};
use base::text::{path as shown, quoted};

/// The largest bundle, in bytes.
const MAX_BUNDLE_BYTES: u64 = 512 << 20;
/// The most bytes that a bundle may have when it is unpacked.
const MAX_UNPACKED_BYTES: u64 = 2 << 30;
/// The most files and directories that a bundle may have.
const MAX_ENTRIES: usize = 50_000;
/// How far from the end of the file a signature may begin, in bytes.
const MAX_SIGNATURE_BYTES: u64 = 1 << 20;
/// What a signature begins with.
const SIGNATURE_START: &[u8] = b"MCPB_SIG_V1";
/// What a signature ends with.
const SIGNATURE_END: &[u8] = b"MCPB_SIG_END";
/// The bits of a Unix mode that say what a file is, and those of a regular file and of a directory.
const FILE_TYPE: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;
const DIRECTORY: u32 = 0o040_000;

/// An open bundle.
#[derive(Debug)]
pub struct OpenBundle {
    archive: ZipArchive<File>,
    /// Its manifest.
    pub manifest: BundleManifest,
    /// Whether a signature follows it.
    pub is_signed: bool,
}

impl OpenBundle {
    /// Opens a bundle. It is copied into a file without a name in `scratch`, a directory of ours, so that it stays as it is.
    /// Blocks.
    ///
    /// # Errors
    ///
    /// Says why it is no bundle that can be used.
    pub fn open(path: &Path, scratch: &Path) -> Result<Self, String> {
        let failed = |error: io::Error| format!("it cannot be read: {error}");
        private_dir(scratch).map_err(|error| error.to_string())?;
        let mut file = tempfile::tempfile_in(scratch).map_err(failed)?;
        let source = open_regular(path).map_err(failed)?;
        let length = io::copy(&mut source.take(MAX_BUNDLE_BYTES + 1), &mut file).map_err(failed)?;
        if length > MAX_BUNDLE_BYTES {
            return Err(format!("it is larger than {} MiB", MAX_BUNDLE_BYTES >> 20));
        }
        let is_signed = strip_signature(&mut file, length).map_err(failed)?;
        let mut archive = ZipArchive::new(file).map_err(|error| format!("it is no bundle: {error}"))?;
        if archive.has_duplicate_names() || archive.len() > MAX_ENTRIES {
            return Err(format!("it has two files of one name, or more than {MAX_ENTRIES}"));
        }
        let manifest = archive.by_name("manifest.json");
        let manifest = manifest.map_err(|_| "it is no bundle: it has no manifest.json at its root")?;
        let mut text = String::new();
        // What lies beyond the limit is missing from its end.
        let read = manifest.take(MAX_NAMED_BYTES).read_to_string(&mut text);
        read.map_err(|error| format!("manifest.json cannot be read: {error}"))?;
        let manifest = BundleManifest::parse(&text).map_err(|error| format!("manifest.json {error}"))?;
        Ok(Self { archive, manifest, is_signed })
    }

    /// Unpacks the bundle into a directory, which is made. If it fails, what it has unpacked stays. Blocks.
    ///
    /// # Errors
    ///
    /// Says what of the bundle is refused or cannot be written.
    pub fn unpack(&mut self, dir: &Path) -> Result<(), String> {
        self.unpack_within(MAX_UNPACKED_BYTES, dir)
    }

    /// Unpacks like [`unpack`](Self::unpack), so many bytes at most.
    fn unpack_within(&mut self, mut left: u64, dir: &Path) -> Result<(), String> {
        private_dir(dir).map_err(|error| error.to_string())?;
        let mut names = BTreeSet::new();
        for index in 0..self.archive.len() {
            let mut entry = self.archive.by_index(index).map_err(|error| error.to_string())?;
            let name = entry.name().map_err(|error| error.to_string())?.into_owned();
            let refused = |reason: &str| format!("its file {} {reason}", quoted(&name));
            let path = safe_path(&name).ok_or_else(|| {
                refused("has a path that leads elsewhere, or that not every system can have")
            })?;
            if !names.insert(path.to_lowercase()) {
                return Err(refused("differs from another one only in upper and lower case"));
            }
            let kind = entry.unix_mode().map_or(0, |mode| mode & FILE_TYPE);
            if !matches!(kind, 0 | REGULAR | DIRECTORY) {
                return Err(refused("is a link or a device"));
            }
            let target = dir.join(path);
            let written = match entry.is_dir() {
                true => make_dirs(&target),
                false => write_file(&mut entry, &target, &mut left),
            };
            written.map_err(|error| format!("{}: {error}", shown(&target)))?;
        }
        Ok(())
    }
}

/// Cuts off the signature at the end of a file of this length. Returns whether there was one.
fn strip_signature(file: &mut File, length: u64) -> io::Result<bool> {
    let begin = length.saturating_sub(MAX_SIGNATURE_BYTES);
    let mut end = Vec::new();
    file.seek(SeekFrom::Start(begin))?;
    file.read_to_end(&mut end)?;
    if !end.ends_with(SIGNATURE_END) {
        return Ok(false);
    }
    let start = end.windows(SIGNATURE_START.len()).rposition(|bytes| bytes == SIGNATURE_START);
    if let Some(start) = start {
        file.set_len(begin + start as u64)?;
    }
    Ok(start.is_some())
}

/// Returns the path of a file in a bundle, if it is one below the bundle's directory on every system.
fn safe_path(name: &str) -> Option<&str> {
    let path = name.strip_suffix('/').unwrap_or(name);
    path.split('/').all(is_safe_part).then_some(path)
}

/// Returns whether every system can have a file of this name, and takes it for nothing else. Windows has devices with names
/// of files, and cuts off dots and spaces at the end of a name.
fn is_safe_part(part: &str) -> bool {
    let stem = part.split('.').next().unwrap_or_default().trim_end().to_uppercase();
    let is_device = match stem.as_str() {
        "CON" | "PRN" | "AUX" | "NUL" | "CONIN$" | "CONOUT$" => true,
        stem => {
            let number = stem.strip_prefix("COM").or_else(|| stem.strip_prefix("LPT"));
            number.is_some_and(|number| {
                number.chars().count() == 1 && number.contains(|c: char| c.is_numeric())
            })
        }
    };
    let is_refused = |c: char| c.is_control() || matches!(c, '\\' | ':' | '<' | '>' | '"' | '|' | '?' | '*');
    !is_device && !part.is_empty() && !part.ends_with(['.', ' ']) && !part.contains(is_refused)
}

/// Writes a file of a bundle. Takes its length off the bytes that are left.
///
/// # Errors
///
/// Fails if there is such a file, it cannot be read or written, or it has more bytes than are left.
fn write_file(entry: &mut ZipFile<'_, File>, target: &Path, left: &mut u64) -> io::Result<()> {
    if let Some(dir) = target.parent() {
        make_dirs(dir)?;
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        let is_program = entry.unix_mode().is_some_and(|mode| mode & 0o111 != 0);
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, if is_program { 0o700 } else { 0o600 });
    }
    let mut file = options.open(target)?;
    let length = io::copy(&mut entry.take(*left + 1), &mut file)?;
    *left = left.checked_sub(length).ok_or_else(|| {
        io::Error::other(format!("the bundle has more than {} GiB of files", MAX_UNPACKED_BYTES >> 30))
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;
    use std::path::PathBuf;

    #[test]
    fn only_paths_that_are_below_the_bundle_on_every_system_are_safe() {
        for safe in ["a", "a/b.js", "a/", ".x/..y/a..b", "console.js", "COM.txt", "com10", "é/ü"] {
            assert!(safe_path(safe).is_some(), "{safe}");
        }
        for unsafe_path in [
            "",
            "/",
            "/a",
            "..",
            "../a",
            "a/../b",
            "a/..",
            "./a",
            "a//b",
            "a\\b",
            "..\\a",
            "C:/a",
            "C:a",
            "a:b",
            "nul",
            "a/NUL.txt",
            "Com1.log",
            "lpt²",
            "aux .x",
            "a.",
            "a /b",
            "a\0b",
            "a\nb",
            "a*",
            "\\\\server\\x",
        ] {
            assert_eq!(safe_path(unsafe_path), None, "{unsafe_path:?}");
        }
    }

    /// A bundle with a manifest, and with these files after it.
    fn packed(dir: &Path, files: &[(&str, &[u8])]) -> PathBuf {
        let path = dir.join("x.mcpb");
        let mut zip = zip::ZipWriter::new(File::create(&path).unwrap());
        let manifest = br#"{"manifest_version": "0.3", "name": "x", "server": {"type": "node"}}"#;
        for (name, content) in [("manifest.json", &manifest[..])].iter().chain(files) {
            zip.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
            zip.write_all(content).unwrap();
        }
        zip.finish().unwrap();
        path
    }

    #[test]
    fn the_bytes_that_are_unpacked_count_and_not_those_that_the_file_promises() {
        let dir = tempfile::tempdir().unwrap();
        let path = packed(dir.path(), &[("a", &[0; 60_000]), ("b", &[0; 60_000])]);
        let unpack = |path: &Path, limit, to: &str| {
            OpenBundle::open(path, dir.path()).unwrap().unpack_within(limit, &dir.path().join(to))
        };
        assert_eq!(unpack(&path, 200_000, "fits"), Ok(()));
        assert!(unpack(&path, 100_000, "large").unwrap_err().contains("GiB of files"));
        // Both directories of the zip file say that `b` has one byte.
        let mut bytes = fs::read(&path).unwrap();
        let length = 60_000_u32.to_le_bytes();
        let places: Vec<_> =
            bytes.windows(4).enumerate().filter(|(_, window)| *window == length).map(|(at, _)| at).collect();
        assert!(places.len() >= 2, "{places:?}");
        for at in places {
            bytes[at..at + 4].copy_from_slice(&1_u32.to_le_bytes());
        }
        fs::write(&path, bytes).unwrap();
        assert!(unpack(&path, 100_000, "bomb").is_err());
    }

    #[test]
    fn a_signature_is_cut_off() {
        let dir = tempfile::tempdir().unwrap();
        let path = packed(dir.path(), &[("a", b"x")]);
        assert!(!OpenBundle::open(&path, dir.path()).unwrap().is_signed);
        let mut signed = fs::read(&path).unwrap();
        signed.extend(b"MCPB_SIG_V1\x04\0\0\0DERsMCPB_SIG_END");
        fs::write(&path, signed).unwrap();
        let mut bundle = OpenBundle::open(&path, dir.path()).unwrap();
        assert!(bundle.is_signed);
        assert_eq!(bundle.unpack(&dir.path().join("to")), Ok(()));
        assert_eq!(fs::read(dir.path().join("to/a")).unwrap(), b"x");
    }
}

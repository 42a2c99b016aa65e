//! Files without a name.

use super::{PrivateFileError, private_dir};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// A file of ours without a name: no process can open it by a path, and it is gone with its last handle, however the
/// process ends.
#[derive(Debug)]
pub struct AnonymousFile {
    file: File,
    /// The length of its content in bytes.
    bytes: usize,
}

impl AnonymousFile {
    /// Writes a file into a directory of ours, which is made if it does not exist. Blocks.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be made or written, or its directory cannot be trusted.
    pub fn write(dir: &Path, content: &[u8]) -> Result<Self, PrivateFileError> {
        private_dir(dir)?;
        let failed = |error| PrivateFileError::io(dir, error);
        let mut file = tempfile::tempfile_in(dir).map_err(failed)?;
        #[cfg(unix)]
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600)).map_err(failed)?;
        file.write_all(content).map_err(failed)?;
        Ok(Self { file, bytes: content.len() })
    }

    /// Returns the content. Blocks.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read.
    pub fn read(&self) -> io::Result<Vec<u8>> {
        let mut content = vec![0; self.bytes];
        // At its own offset, because several threads may read the file.
        #[cfg(unix)]
        std::os::unix::fs::FileExt::read_exact_at(&self.file, &mut content, 0)?;
        #[cfg(windows)]
        {
            let mut done = 0;
            while done < content.len() {
                match std::os::windows::fs::FileExt::seek_read(&self.file, &mut content[done..], done as u64)?
                {
                    0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    count => done += count,
                }
            }
        }
        Ok(content)
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    #[cfg_attr(miri, ignore = "Miri's user is 1000, whoever owns the files")]
    fn an_anonymous_file_has_no_name_and_keeps_its_content() {
        let dir = tempfile::tempdir().unwrap();
        let results = dir.path().join("results");
        let file = AnonymousFile::write(&results, b"content").unwrap();
        assert_eq!(fs::read_dir(&results).unwrap().count(), 0);
        assert_eq!((file.read().unwrap(), file.read().unwrap()), (b"content".to_vec(), b"content".to_vec()));
        assert_eq!(file.file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        fs::set_permissions(&results, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(AnonymousFile::write(&results, b"x").unwrap_err().is_untrusted());
    }
}

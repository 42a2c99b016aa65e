//! Reading files that others may have put in our way: a FIFO, a device, a file that never ends.
//!
//! A file is opened without blocking and without a descriptor that children inherit. [`read`] accepts regular files
//! and, because password managers mount secrets as FIFOs, FIFOs: these are read for at most `FIFO_TIMEOUT` and
//! `FIFO_BYTES`. [`read_regular`] accepts regular files only; `private_files` uses only the last check, for files that
//! only this program writes. All have a limit on the size. They block for as long as the file system does, so they are
//! called through [`crate::blocking`].

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::path::Path;
#[cfg(unix)]
use std::time::Duration;

/// How long a FIFO is read.
#[cfg(unix)]
const FIFO_TIMEOUT: Duration = Duration::from_secs(2);
/// How much of a FIFO is read, in bytes.
#[cfg(unix)]
const FIFO_BYTES: u64 = 1 << 20;
/// The largest config file, in bytes.
pub const MAX_CONFIG_BYTES: u64 = 16 << 20;
/// The largest file that a config names (`env_file`, `{file:…}`, `ca_file`), in bytes.
pub const MAX_NAMED_BYTES: u64 = 1 << 20;
/// The largest file of the cache, in bytes.
pub const MAX_CACHED_BYTES: u64 = 64 << 20;

/// Reads a regular file of at most `limit` bytes, or a FIFO. A FIFO is read for 2 s at most, and may have no more than
/// 1 MiB even if `limit` is larger.
///
/// # Errors
///
/// Fails if the file is a directory, a device or a socket, is too large, cannot be read, or is a FIFO whose writer does
/// not end in time. `/dev/null` is an empty file.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    let metadata = file.metadata()?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::{FileTypeExt, MetadataExt};
        if metadata.file_type().is_fifo() {
            return fifo::read(file, limit.min(FIFO_BYTES));
        }
        let null = Path::new("/dev/null").metadata();
        if metadata.file_type().is_char_device() && null.is_ok_and(|null| null.rdev() == metadata.rdev()) {
            return Ok(Vec::new());
        }
    }
    check_regular(&metadata, "a file")?;
    read_to_limit(file, limit)
}

/// Reads a regular file of at most `limit` bytes. Opens nothing else: the writer of a FIFO waits until it is opened, and
/// what it then writes would be lost.
///
/// # Errors
///
/// Fails if it is anything else, is too large, or cannot be read.
pub fn read_regular(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_to_limit(open_regular(path)?, limit)
}

/// Opens a regular file for reading, and nothing else.
///
/// # Errors
///
/// Fails if it is anything else, or cannot be opened.
pub fn open_regular(path: &Path) -> io::Result<File> {
    check_regular(&path.metadata()?, "a regular file")?;
    let file = open(path)?;
    // The path may name another file by now.
    check_regular(&file.metadata()?, "a regular file")?;
    Ok(file)
}

/// Checks that this is a regular file.
///
/// # Errors
///
/// Fails if it is something else, which is not what is `wanted`.
fn check_regular(metadata: &Metadata, wanted: &str) -> io::Result<()> {
    #[cfg(unix)]
    use std::os::unix::fs::FileTypeExt;
    let kind = match metadata.file_type() {
        kind if kind.is_file() => return Ok(()),
        kind if kind.is_dir() => "directory",
        #[cfg(unix)]
        kind if kind.is_fifo() => "FIFO",
        #[cfg(unix)]
        kind if kind.is_socket() => "socket",
        _ => "device",
    };
    Err(io::Error::other(format!("it is a {kind}, not {wanted}")))
}

/// Reads an open regular file of at most `limit` bytes.
///
/// # Errors
///
/// Fails if it is larger, or cannot be read.
pub(crate) fn read_to_limit(file: File, limit: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    // Not trusted: the size of a file may change, and some file systems report 0.
    file.take(limit + 1).read_to_end(&mut content)?;
    match content.len() as u64 > limit {
        true => Err(too_large(limit)),
        false => Ok(content),
    }
}

fn too_large(limit: u64) -> io::Error {
    let message = format!("it is larger than the limit of {limit} bytes");
    io::Error::new(io::ErrorKind::FileTooLarge, message)
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    // The standard library adds O_CLOEXEC.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK | libc::O_NOCTTY);
    options.open(path)
}

#[cfg(unix)]
mod fifo {
    use super::{FIFO_TIMEOUT, too_large};
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use std::fs::File;
    use std::io::{self, Read};
    use std::os::fd::AsFd;
    use std::time::Duration;
    use tokio::time::Instant;

    /// The interval between attempts where poll(2) reports the end of a FIFO that no writer has opened yet.
    const RETRY_INTERVAL: Duration = Duration::from_millis(10);

    /// Reads a FIFO until its writer closes it. Blocks for at most [`FIFO_TIMEOUT`], also while no writer has opened
    /// it.
    ///
    /// # Errors
    ///
    /// Fails if it has more than `limit` bytes, cannot be read, or is not closed in time.
    pub(super) fn read(mut fifo: File, limit: u64) -> io::Result<Vec<u8>> {
        let deadline = Instant::now() + FIFO_TIMEOUT;
        let mut content = Vec::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let wait = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
            let mut watched = [PollFd::new(fifo.as_fd(), PollFlags::POLLIN)];
            match poll(&mut watched, wait) {
                Ok(0) => return Err(timed_out(content.is_empty())),
                Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            let mut chunk = [0; 16 << 10];
            match fifo.read(&mut chunk) {
                Ok(0) if content.is_empty() && Instant::now() < deadline => {
                    // The writer may not have come yet.
                    std::thread::sleep(RETRY_INTERVAL.min(left));
                }
                Ok(0) if content.is_empty() => return Err(timed_out(true)),
                Ok(0) => return Ok(content),
                Ok(n) => content.extend_from_slice(&chunk[..n]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if content.len() as u64 > limit {
                return Err(too_large(limit));
            }
            if Instant::now() >= deadline {
                return Err(timed_out(false));
            }
        }
    }

    fn timed_out(is_empty: bool) -> io::Error {
        let seconds = FIFO_TIMEOUT.as_secs();
        let message = match is_empty {
            true => format!("it is a FIFO that nothing was written to within {seconds} s"),
            false => format!("it is a FIFO that its writer did not close within {seconds} s"),
        };
        io::Error::new(io::ErrorKind::TimedOut, message)
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::stat::Mode;
    use std::io::Write;
    use tokio::time::Instant;

    fn fifo() -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fifo");
        nix::unistd::mkfifo(&path, Mode::S_IRWXU).unwrap();
        (dir, path)
    }

    fn message(outcome: io::Result<Vec<u8>>) -> String {
        outcome.unwrap_err().to_string()
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no FIFOs")]
    fn a_fifo_is_read_in_parts_until_its_writer_closes_it() {
        let (_dir, path) = fifo();
        let writer = std::thread::spawn({
            let path = path.clone();
            move || {
                let mut file = OpenOptions::new().write(true).open(path).unwrap();
                for _ in 0..40 {
                    file.write_all(&[b'x'; 10_000]).unwrap();
                }
            }
        });
        assert_eq!(read(&path, MAX_NAMED_BYTES).unwrap(), vec![b'x'; 400_000]);
        writer.join().unwrap();
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no FIFOs")]
    fn the_writer_of_a_fifo_waits_for_who_reads_it() {
        let (_dir, path) = fifo();
        let writer = std::thread::spawn({
            let path = path.clone();
            move || OpenOptions::new().write(true).open(path).unwrap().write_all(b"secret")
        });
        for _ in 0..1000 {
            assert!(read_regular(&path, 100).is_err() && !writer.is_finished());
        }
        assert_eq!(read(&path, 100).unwrap(), b"secret");
        writer.join().unwrap().unwrap();
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no FIFOs")]
    fn a_fifo_without_a_writer_or_with_one_that_stays_fails_in_time() {
        let (_dir, path) = fifo();
        let start = Instant::now();
        assert_eq!(message(read(&path, 100)), "it is a FIFO that nothing was written to within 2 s");
        let mut held = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        held.write_all(b"half").unwrap();
        assert_eq!(message(read(&path, 100)), "it is a FIFO that its writer did not close within 2 s");
        assert!(start.elapsed() < 4 * FIFO_TIMEOUT, "{:?}", start.elapsed());
        held.write_all(&[b'x'; 200]).unwrap();
        assert_eq!(read(&path, 100).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no FIFOs")]
    fn only_what_ends_is_read() {
        let (dir, path) = fifo();
        let refused = |outcome: io::Result<Vec<u8>>, why: &str| assert_eq!(message(outcome), why);
        refused(read(Path::new("/dev/zero"), 100), "it is a device, not a file");
        refused(read(dir.path(), 100), "it is a directory, not a file");
        refused(read_regular(&path, 100), "it is a FIFO, not a regular file");
        refused(read_regular(Path::new("/dev/zero"), 100), "it is a device, not a regular file");
        assert_eq!(read(Path::new("/dev/null"), 100).unwrap(), b"");
        let file = dir.path().join("file");
        std::fs::write(&file, [b'x'; 100]).unwrap();
        assert_eq!(read_regular(&file, 100).unwrap().len(), 100);
        assert_eq!(read_regular(&file, 99).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }
}

//! Owners and access lists.
//!
//! What we make gets a list of its own, which inherits nothing: full access for the user and for the system. A file or
//! directory is trusted if it belongs to the user and its list gives no other user a right to change it. The system and
//! the administrators do not count, because they can read and change everything anyway.
#![expect(unsafe_code, reason = "the calls that read and make access lists have no safe wrapper")]

use super::access::Access;
use super::error::PrivateFileError;
use std::ffi::{OsStr, OsString, c_void};
use std::fs::{self, File, Metadata};
use std::io;
use std::os::windows::ffi::{OsStrExt, OsStringExt};
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::path::Path;
use std::ptr;
use std::time::Duration;

use tokio::time::Instant;

use windows_sys::Win32::Foundation::{
    GENERIC_ALL, GENERIC_READ, GENERIC_WRITE, INVALID_HANDLE_VALUE, LocalFree,
};
use windows_sys::Win32::Security::Authorization::{
    ConvertSidToStringSidW, ConvertStringSecurityDescriptorToSecurityDescriptorW, GetSecurityInfo,
    SDDL_REVISION_1, SE_FILE_OBJECT,
};
use windows_sys::Win32::Security::{
    ACCESS_ALLOWED_ACE, ACL, DACL_SECURITY_INFORMATION, GetAce, GetTokenInformation, INHERIT_ONLY_ACE,
    IsWellKnownSid, OWNER_SECURITY_INFORMATION, PSECURITY_DESCRIPTOR, PSID, SECURITY_ATTRIBUTES, TOKEN_QUERY,
    TOKEN_USER, TokenUser, WELL_KNOWN_SID_TYPE, WinBuiltinAdministratorsSid, WinCreatorOwnerRightsSid,
    WinLocalSystemSid,
};
use windows_sys::Win32::Storage::FileSystem as fs_sys;
use windows_sys::Win32::System::Threading::{GetCurrentProcess, OpenProcessToken};

/// How long a file may be in the way of its replacement.
const RENAME_TIMEOUT: Duration = Duration::from_millis(500);
/// The interval between attempts to replace it.
const RENAME_INTERVAL: Duration = Duration::from_millis(10);

/// Rights that change a file or a directory, or who may.
const WRITES: u32 = fs_sys::FILE_WRITE_DATA
    | fs_sys::FILE_APPEND_DATA
    | fs_sys::FILE_WRITE_EA
    | fs_sys::FILE_DELETE_CHILD
    | fs_sys::DELETE
    | fs_sys::WRITE_DAC
    | fs_sys::WRITE_OWNER
    | GENERIC_WRITE
    | GENERIC_ALL;
/// Rights that read a file.
const READS: u32 = fs_sys::FILE_READ_DATA | GENERIC_READ;
/// The types of entries that give rights: `ACCESS_ALLOWED_ACE_TYPE`, and the same with a condition.
const ALLOWING: [u8; 2] = [0, 9];
/// Those that others may have a part in. Our own files have no owner other than the user.
const TRUSTED: [WELL_KNOWN_SID_TYPE; 3] =
    [WinLocalSystemSid, WinBuiltinAdministratorsSid, WinCreatorOwnerRightsSid];

/// Makes a directory that only its owner can enter. Fails if it exists, or cannot be made. Those above it are not made.
pub(super) fn make_dir(dir: &Path) -> io::Result<()> {
    let security = OwnerOnly::new()?;
    let path = wide(dir.as_os_str());
    // SAFETY: the path ends with a zero, and the attributes live until the call returns.
    match unsafe { fs_sys::CreateDirectoryW(path.as_ptr(), &raw const security.attributes) } {
        0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Opens a file, or makes one that only its owner can use. Never follows a link. Fails if the file cannot be opened or
/// made. A link is opened itself, and `check_file` refuses it.
pub(super) fn open(path: &Path, access: Access) -> io::Result<File> {
    if access != Access::Read {
        match create(path) {
            Err(error) if access != Access::CreateNew && error.kind() == io::ErrorKind::AlreadyExists => {}
            created => created?,
        }
    }
    access.options(false).custom_flags(fs_sys::FILE_FLAG_OPEN_REPARSE_POINT).open(path)
}

/// Makes an empty file that only its owner can use. Fails if it exists, or cannot be made.
fn create(path: &Path) -> io::Result<()> {
    create_with(path, &OwnerOnly::new()?)
}

fn create_with(path: &Path, security: &OwnerOnly) -> io::Result<()> {
    let path = wide(path.as_os_str());
    // SAFETY: the path ends with a zero, and the attributes live until the call returns.
    let handle = unsafe {
        fs_sys::CreateFileW(
            path.as_ptr(),
            GENERIC_WRITE,
            fs_sys::FILE_SHARE_READ | fs_sys::FILE_SHARE_WRITE | fs_sys::FILE_SHARE_DELETE,
            &raw const security.attributes,
            fs_sys::CREATE_NEW,
            fs_sys::FILE_ATTRIBUTE_NORMAL,
            ptr::null_mut(),
        )
    };
    if handle == INVALID_HANDLE_VALUE {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the handle is new and ours.
    drop(unsafe { OwnedHandle::from_raw_handle(handle) });
    Ok(())
}

/// Renames a file, also to the name of another one. A scanner for viruses, or another process, may have either open for
/// a moment: tries again for [`RENAME_TIMEOUT`] while access is denied. Blocks. Fails as the last attempt.
pub(super) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    let deadline = Instant::now() + RENAME_TIMEOUT;
    loop {
        match fs::rename(from, to) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && Instant::now() < deadline => {
                std::thread::sleep(RENAME_INTERVAL);
            }
            renamed => return renamed,
        }
    }
}

/// Returns the error of an open that failed.
pub(super) fn open_error(path: &Path, error: io::Error) -> PrivateFileError {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => not_regular(path),
        _ => PrivateFileError::io(path, error),
    }
}

/// Returns whether a file is the user's. It is in a directory that only the user can write.
pub(super) fn is_own(_metadata: &Metadata) -> bool {
    true
}

/// Checks that an open file is a regular one that only the user can use. Fails with `Io` if it cannot be looked at, and
/// with `Untrusted` if it is something else.
pub(super) fn check_file(path: &Path, file: &File) -> Result<(), PrivateFileError> {
    let metadata = file.metadata().map_err(|error| PrivateFileError::io(path, error))?;
    if metadata.is_symlink() {
        let remedy = "delete it, or put the file itself in its place";
        return Err(PrivateFileError::untrusted(path, "is a symbolic link", remedy));
    }
    if !metadata.is_file() {
        return Err(not_regular(path));
    }
    check_access(path, file, READS | WRITES)
}

fn not_regular(path: &Path) -> PrivateFileError {
    PrivateFileError::untrusted(path, "is not a regular file", "delete it")
}

/// Checks that a file, which is no link, belongs to the user and that nobody else can write it. Fails with `Io` if
/// it cannot be looked at, and with `Untrusted` if others may have changed it.
pub(super) fn check_unwritable(path: &Path) -> Result<(), PrivateFileError> {
    check_access(path, &open_for_checks(path)?, WRITES)
}

/// Checks that a directory belongs to the user and that nobody else can write it. A link is followed. Fails with
/// `Io` if it cannot be looked at, and with `Untrusted` if it is something else.
pub(super) fn check_dir(dir: &Path) -> Result<(), PrivateFileError> {
    let opened = open_for_checks(dir)?;
    let metadata = opened.metadata().map_err(|error| PrivateFileError::io(dir, error))?;
    match metadata.is_dir() {
        true => check_access(dir, &opened, WRITES),
        false => Err(PrivateFileError::untrusted(dir, "is not a directory", "delete it")),
    }
}

/// Opens a file or a directory to look at it. A link is followed. Fails if it cannot be opened.
fn open_for_checks(path: &Path) -> Result<File, PrivateFileError> {
    let mut options = File::options();
    options.access_mode(fs_sys::READ_CONTROL | fs_sys::FILE_READ_ATTRIBUTES);
    options.custom_flags(fs_sys::FILE_FLAG_BACKUP_SEMANTICS);
    options.open(path).map_err(|error| PrivateFileError::io(path, error))
}

/// Checks that a file belongs to the user and that nobody else has one of the rights in `forbidden`. Fails with `Io` if
/// its access list cannot be read, and with `Untrusted` if that says otherwise.
fn check_access(path: &Path, file: &File, forbidden: u32) -> Result<(), PrivateFileError> {
    let failed = |error| PrivateFileError::io(path, error);
    let own = own_sid().map_err(failed)?;
    let access = FileAccess::of(file).map_err(failed)?;
    let shown = path.display();
    if !is_trusted(&access.owner, &own) {
        let problem = format!("belongs to another user ({})", access.owner.text);
        let remedy = format!("delete it, or run `takeown /f \"{shown}\"` if you trust it");
        return Err(PrivateFileError::untrusted(path, problem, remedy));
    }
    let other = access.allowed.iter().find(|(sid, rights)| rights & forbidden != 0 && !is_trusted(sid, &own));
    let Some((sid, rights)) = other else { return Ok(()) };
    let can = if rights & WRITES == 0 { "read" } else { "changed" };
    let problem = format!("can be {can} by other users ({})", sid.text);
    let remedy = format!("run `icacls \"{shown}\" /inheritance:r /grant:r *{own}:F`");
    Err(PrivateFileError::untrusted(path, problem, remedy))
}

fn is_trusted(sid: &Sid, own: &str) -> bool {
    sid.text == own || sid.is_privileged
}

/// A user or a group.
struct Sid {
    /// In the form `S-1-5-18`.
    text: String,
    /// Whether it is one of [`TRUSTED`].
    is_privileged: bool,
}

impl Sid {
    /// Reads a SID. Fails as the system call.
    ///
    /// # Safety
    ///
    /// `sid` must be valid.
    unsafe fn read(sid: PSID) -> io::Result<Self> {
        // SAFETY: the caller gives a valid one.
        let is_privileged = TRUSTED.iter().any(|kind| unsafe { IsWellKnownSid(sid, *kind) } != 0);
        // SAFETY: as above.
        Ok(Self { text: unsafe { sid_text(sid) }?, is_privileged })
    }
}

/// Returns the text of a SID. Fails as the system call.
///
/// # Safety
///
/// `sid` must be valid.
unsafe fn sid_text(sid: PSID) -> io::Result<String> {
    let mut text = ptr::null_mut();
    // SAFETY: the caller gives a valid one.
    if unsafe { ConvertSidToStringSidW(sid, &raw mut text) } == 0 {
        return Err(io::Error::last_os_error());
    }
    let text = LocalMemory(text.cast());
    let start = text.0.cast::<u16>();
    // SAFETY: the text ends with a zero.
    let units = unsafe {
        let length = (0..).take_while(|at| *start.add(*at) != 0).count();
        std::slice::from_raw_parts(start, length)
    };
    Ok(OsString::from_wide(units).to_string_lossy().into_owned())
}

/// Memory of the system, which is freed when this is dropped.
struct LocalMemory(*mut c_void);

impl Drop for LocalMemory {
    fn drop(&mut self) {
        // SAFETY: the system allocated it, and nobody else frees it.
        unsafe { LocalFree(self.0) };
    }
}

/// Who may do what with a file.
struct FileAccess {
    owner: Sid,
    /// Rights, and who has them.
    allowed: Vec<(Sid, u32)>,
}

impl FileAccess {
    fn of(file: &File) -> io::Result<Self> {
        let (mut owner, mut list): (PSID, *mut ACL) = (ptr::null_mut(), ptr::null_mut());
        let mut descriptor: PSECURITY_DESCRIPTOR = ptr::null_mut();
        // SAFETY: the handle is open. The owner and the list are parts of the descriptor.
        let error = unsafe {
            GetSecurityInfo(
                file.as_raw_handle(),
                SE_FILE_OBJECT,
                OWNER_SECURITY_INFORMATION | DACL_SECURITY_INFORMATION,
                &raw mut owner,
                ptr::null_mut(),
                &raw mut list,
                ptr::null_mut(),
                &raw mut descriptor,
            )
        };
        if error != 0 {
            return Err(io::Error::from_raw_os_error(error.cast_signed()));
        }
        let _descriptor = LocalMemory(descriptor);
        // SAFETY: the descriptor lives.
        let owner = unsafe { Sid::read(owner) }?;
        if list.is_null() {
            // Everybody may do everything.
            let everyone = Sid { text: "everyone".to_owned(), is_privileged: false };
            return Ok(Self { owner, allowed: vec![(everyone, GENERIC_ALL)] });
        }
        // SAFETY: the descriptor lives.
        let count = unsafe { (*list).AceCount };
        let mut allowed = Vec::new();
        for index in 0..u32::from(count) {
            let mut entry = ptr::null_mut();
            // SAFETY: the list has that many entries.
            if unsafe { GetAce(list, index, &raw mut entry) } == 0 {
                return Err(io::Error::last_os_error());
            }
            let entry = entry.cast::<ACCESS_ALLOWED_ACE>();
            // SAFETY: every entry begins with this header.
            let header = unsafe { (*entry).Header };
            if ALLOWING.contains(&header.AceType) && u32::from(header.AceFlags) & INHERIT_ONLY_ACE == 0 {
                // SAFETY: entries of these types are of this structure, and the SID begins at its last member.
                allowed.push(unsafe { (Sid::read((&raw mut (*entry).SidStart).cast())?, (*entry).Mask) });
            }
        }
        Ok(Self { owner, allowed })
    }
}

/// Returns the SID of the user that we run as.
///
/// # Errors
///
/// Fails if the system does not tell.
pub fn own_sid() -> io::Result<String> {
    let mut token = ptr::null_mut();
    // SAFETY: the handle of the own process needs not be closed.
    if unsafe { OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &raw mut token) } == 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the handle is new and ours.
    let token = unsafe { OwnedHandle::from_raw_handle(token) };
    // Large enough for the largest SID, and aligned for the structure.
    let mut user = [0_u64; 16];
    let mut length = 0;
    // SAFETY: the length is that of the array.
    let read = unsafe {
        GetTokenInformation(
            token.as_raw_handle(),
            TokenUser,
            user.as_mut_ptr().cast(),
            size_of_val(&user) as u32,
            &raw mut length,
        )
    };
    if read == 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the array begins with this structure, and has the SID that it points to.
    unsafe { sid_text((*user.as_ptr().cast::<TOKEN_USER>()).User.Sid) }
}

/// The security descriptor of the files and directories that we create: full access for the user and for the system,
/// nothing inherited. What is made in such a directory inherits it.
pub struct OwnerOnly {
    attributes: SECURITY_ATTRIBUTES,
    _descriptor: LocalMemory,
}

impl OwnerOnly {
    /// Creates the descriptor for the user that we run as.
    ///
    /// # Errors
    ///
    /// Fails if the system does not tell who that is.
    pub fn new() -> io::Result<Self> {
        let own = own_sid()?;
        Self::parse(&format!("O:{own}D:P(A;OICI;FA;;;{own})(A;OICI;FA;;;SY)"))
    }

    /// Parses a descriptor in the Security Descriptor Definition Language. Fails if the text is no descriptor.
    fn parse(text: &str) -> io::Result<Self> {
        let text = wide(OsStr::new(text));
        let mut descriptor = ptr::null_mut();
        // SAFETY: the text ends with a zero.
        let made = unsafe {
            ConvertStringSecurityDescriptorToSecurityDescriptorW(
                text.as_ptr(),
                SDDL_REVISION_1,
                &raw mut descriptor,
                ptr::null_mut(),
            )
        };
        if made == 0 {
            return Err(io::Error::last_os_error());
        }
        let attributes = SECURITY_ATTRIBUTES {
            nLength: size_of::<SECURITY_ATTRIBUTES>() as u32,
            lpSecurityDescriptor: descriptor,
            bInheritHandle: 0,
        };
        Ok(Self { attributes, _descriptor: LocalMemory(descriptor) })
    }

    /// Returns it for a system call. The pointer is valid for as long as `self` lives.
    pub fn attributes(&mut self) -> *mut c_void {
        (&raw mut self.attributes).cast()
    }
}

/// Returns the text with the zero at its end.
fn wide(text: &OsStr) -> Vec<u16> {
    text.encode_wide().chain([0]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::private_files::{open_append, read_private, replace};
    use windows_sys::Win32::Security::SetFileSecurityW;

    /// Makes a file with an access list that begins with that of the user.
    fn file_with(dir: &Path, entries: &str) -> std::path::PathBuf {
        let (own, path) = (own_sid().unwrap(), dir.join("file"));
        fs::remove_file(&path).ok();
        let security = OwnerOnly::parse(&format!("O:{own}D:P(A;;FA;;;{own}){entries}")).unwrap();
        create_with(&path, &security).unwrap();
        // Once more, because Wine lets the umask change the list of a new file.
        let (name, descriptor) = (wide(path.as_os_str()), security.attributes.lpSecurityDescriptor);
        // SAFETY: the path ends with a zero, and the descriptor lives.
        assert_ne!(unsafe { SetFileSecurityW(name.as_ptr(), DACL_SECURITY_INFORMATION, descriptor) }, 0);
        path
    }

    #[test]
    fn what_is_made_admits_the_user_and_the_system_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a").join("b").join("file.json");
        replace(&path, b"text", true).unwrap();
        drop(open_append(&path.with_file_name("log")).unwrap());
        let own = own_sid().unwrap();
        let made = ["", "file.json", "log"].map(|name| path.parent().unwrap().join(name));
        for made in &made {
            let access = FileAccess::of(&open_for_checks(made).unwrap()).unwrap();
            assert_eq!(access.owner.text, own, "{made:?}");
            let others = access.allowed.iter().filter(|(sid, _)| sid.text != own && sid.text != "S-1-5-18");
            assert_eq!(others.count(), 0, "{made:?}");
        }
        assert_eq!(read_private(&path, 100).unwrap(), b"text");
    }

    #[test]
    fn what_others_can_read_or_change_is_refused_with_the_command_that_repairs_it() {
        let dir = tempfile::tempdir().unwrap();
        let private = dir.path().join("private");
        make_dir(&private).unwrap();
        for (entries, can) in [("(A;;FR;;;WD)", "read"), ("(A;;FA;;;WD)", "changed")] {
            let error = read_private(&file_with(&private, entries), 100).unwrap_err();
            let text = error.to_string();
            assert!(
                error.is_untrusted() && text.contains(&format!("can be {can} by other users (S-1-")),
                "{text}"
            );
            assert!(text.contains("/inheritance:r /grant:r *S-1-5-21-"), "{text}");
        }
        for entries in ["", "(A;;FA;;;SY)(A;;FA;;;BA)"] {
            assert_eq!(read_private(&file_with(&private, entries), 100).unwrap(), b"", "{entries}");
        }
    }

    #[test]
    fn what_is_no_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        assert!(read_private(dir.path(), 100).unwrap_err().is_untrusted());
        let error = replace(&file_with(dir.path(), "").join("x"), b"", false).unwrap_err();
        assert!(!error.is_missing(), "{error}");
    }
}

//! The end of stdout before that of the process.

/// Ends stdout, so that the client sees its end while the process runs on. Later writes are discarded.
#[cfg(unix)]
pub fn close_stdout() {
    if let Ok(null) = std::fs::File::options().write(true).open("/dev/null") {
        // Fails only for lack of descriptors.
        nix::unistd::dup2_stdout(null).ok();
    }
}

/// Ends stdout, so that the client sees its end while the process runs on. Later writes are discarded.
#[cfg(windows)]
#[expect(unsafe_code, reason = "the standard library keeps the handle open")]
pub fn close_stdout() {
    use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
    use windows_sys::Win32::System::Console::{STD_OUTPUT_HANDLE, SetStdHandle};
    let stdout = std::io::stdout().as_raw_handle();
    if stdout.is_null() {
        return;
    }
    // SAFETY: the standard library, which looks the handle up for each write, finds none from now on.
    let stdout = unsafe {
        SetStdHandle(STD_OUTPUT_HANDLE, std::ptr::null_mut());
        OwnedHandle::from_raw_handle(stdout)
    };
    // A write that the client does not read may keep the handle from being closed.
    std::thread::Builder::new().spawn(move || drop(stdout)).ok();
}

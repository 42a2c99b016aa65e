//! Processes as a snapshot of the system shows them.
#![expect(unsafe_code, reason = "the snapshot and the handles of processes have no safe wrapper")]

use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};

use windows_sys::Win32::Foundation::{FILETIME, HANDLE, INVALID_HANDLE_VALUE, WAIT_TIMEOUT};
use windows_sys::Win32::System::Diagnostics::ToolHelp::{
    CreateToolhelp32Snapshot, PROCESSENTRY32W, Process32FirstW, Process32NextW, TH32CS_SNAPPROCESS,
};
use windows_sys::Win32::System::Threading::{
    GetProcessTimes, OpenProcess, PROCESS_QUERY_LIMITED_INFORMATION, PROCESS_SYNCHRONIZE, PROCESS_TERMINATE,
    TerminateProcess, WaitForSingleObject,
};

/// The pid, the pid of the parent and the start time of every process that can be opened.
pub(super) fn all() -> Vec<(u32, u32, String)> {
    // SAFETY: no pointer is passed.
    let snapshot = unsafe { CreateToolhelp32Snapshot(TH32CS_SNAPPROCESS, 0) };
    assert_ne!(snapshot, INVALID_HANDLE_VALUE);
    // SAFETY: the handle is new and ours.
    let snapshot = unsafe { OwnedHandle::from_raw_handle(snapshot) };
    let mut entry = PROCESSENTRY32W { dwSize: size_of::<PROCESSENTRY32W>() as u32, ..Default::default() };
    let mut processes = Vec::new();
    // SAFETY: the entry has its size.
    let mut is_more = unsafe { Process32FirstW(snapshot.as_raw_handle(), &raw mut entry) };
    while is_more != 0 {
        let start = start_of(entry.th32ProcessID);
        processes.extend(start.map(|start| (entry.th32ProcessID, entry.th32ParentProcessID, start)));
        // SAFETY: as above.
        is_more = unsafe { Process32NextW(snapshot.as_raw_handle(), &raw mut entry) };
    }
    processes
}

/// When a process that runs was started.
pub(super) fn start_of(pid: u32) -> Option<String> {
    let process = open(pid, PROCESS_QUERY_LIMITED_INFORMATION | PROCESS_SYNCHRONIZE)?;
    // SAFETY: the handle is open.
    if unsafe { WaitForSingleObject(handle(&process), 0) } != WAIT_TIMEOUT {
        return None;
    }
    let [mut start, mut exit, mut kernel, mut user] = [FILETIME::default(); 4];
    // SAFETY: the handle is open, and the times are ours.
    unsafe {
        GetProcessTimes(handle(&process), &raw mut start, &raw mut exit, &raw mut kernel, &raw mut user)
    };
    Some(format!("{}-{}", start.dwHighDateTime, start.dwLowDateTime))
}

/// Whether a process runs.
pub(crate) fn is_alive(pid: u32) -> bool {
    start_of(pid).is_some()
}

/// Ends a process at once.
pub(crate) fn kill(pid: u32) {
    let process = open(pid, PROCESS_TERMINATE).unwrap();
    // SAFETY: the handle is open.
    assert_ne!(unsafe { TerminateProcess(handle(&process), 1) }, 0);
}

fn open(pid: u32, access: u32) -> Option<OwnedHandle> {
    // SAFETY: no pointer is passed.
    let process = unsafe { OpenProcess(access, 0, pid) };
    // SAFETY: a handle is new and ours.
    (!process.is_null()).then(|| unsafe { OwnedHandle::from_raw_handle(process) })
}

fn handle(process: &OwnedHandle) -> HANDLE {
    process.as_raw_handle()
}

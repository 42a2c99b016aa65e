//! The system calls: Job Objects, processes that are born in one, and their exit.
#![expect(unsafe_code, reason = "these calls have no safe wrapper")]

use std::ffi::{OsStr, OsString, c_void};
use std::io;
use std::mem::size_of_val;
use std::os::windows::ffi::{OsStrExt, OsStringExt};
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::path::PathBuf;
use std::ptr;
use std::time::Duration;

use tokio::sync::oneshot;
use windows_sys::Win32::Foundation::{
    HANDLE, HANDLE_FLAG_INHERIT, INVALID_HANDLE_VALUE, SetHandleInformation,
};
use windows_sys::Win32::System::JobObjects as job;
use windows_sys::Win32::System::SystemInformation::GetSystemDirectoryW;
use windows_sys::Win32::System::Threading as threading;
use windows_sys::core::BOOL;

use crate::launch::Launch;
use crate::launch::windows_command::command_line;

/// The exit code of processes that we terminate.
const TERMINATED: u32 = 1;

/// Turns the result of a call into that of the standard library.
///
/// # Errors
///
/// The last error of this thread, if the call failed.
fn check(succeeded: BOOL) -> io::Result<()> {
    if succeeded == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Returns the text with the zero at its end.
///
/// # Errors
///
/// Fails if the text contains a zero.
fn wide(text: &OsStr) -> io::Result<Vec<u16>> {
    let mut units: Vec<u16> = text.encode_wide().collect();
    if units.contains(&0) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it contains a NUL character"));
    }
    units.push(0);
    Ok(units)
}

/// Returns the directory of the system's programs, such as `C:\Windows\System32`.
///
/// # Errors
///
/// Fails if the system does not tell.
pub(super) fn system_directory() -> io::Result<PathBuf> {
    let mut path = [0; 260];
    // SAFETY: the length is that of the array.
    let length = unsafe { GetSystemDirectoryW(path.as_mut_ptr(), 260) };
    match usize::try_from(length).ok().and_then(|length| path.get(..length)) {
        Some(path) if !path.is_empty() => Ok(OsString::from_wide(path).into()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What a process may take.
#[derive(Clone, Copy, Debug)]
pub struct JobLimits {
    /// The memory that it may commit.
    pub memory_bytes: u64,
    /// The time of the processor, outside of the kernel.
    pub cpu_time: Duration,
}

/// A job, whose processes end when this is dropped.
pub(super) struct JobObject(OwnedHandle);

impl JobObject {
    /// Creates a job that no process can leave.
    ///
    /// # Errors
    ///
    /// Fails as the system calls.
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: no attributes, so that the handle is not inherited, and no name.
        let handle = unsafe { job::CreateJobObjectW(ptr::null(), ptr::null()) };
        if handle.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the handle is new and ours.
        let this = Self(unsafe { OwnedHandle::from_raw_handle(handle) });
        this.set_limits(job::JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default())?;
        Ok(this)
    }

    /// Creates a job of a single process with these limits. No dialog shows that it crashed.
    ///
    /// # Errors
    ///
    /// Fails as the system calls.
    pub(super) fn limited(limits: JobLimits) -> io::Result<Self> {
        let this = Self::new()?;
        let mut all = job::JOBOBJECT_EXTENDED_LIMIT_INFORMATION {
            ProcessMemoryLimit: usize::try_from(limits.memory_bytes).unwrap_or(usize::MAX),
            ..Default::default()
        };
        // In units of 100 ns.
        let time = i64::try_from(limits.cpu_time.as_nanos() / 100).unwrap_or(i64::MAX);
        all.BasicLimitInformation.PerProcessUserTimeLimit = time;
        all.BasicLimitInformation.ActiveProcessLimit = 1;
        all.BasicLimitInformation.LimitFlags = job::JOB_OBJECT_LIMIT_PROCESS_MEMORY
            | job::JOB_OBJECT_LIMIT_PROCESS_TIME
            | job::JOB_OBJECT_LIMIT_ACTIVE_PROCESS
            | job::JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION;
        this.set_limits(all)?;
        Ok(this)
    }

    /// Sets the limits, and that the processes end with the job.
    ///
    /// # Errors
    ///
    /// Fails as the system call.
    fn set_limits(&self, mut limits: job::JOBOBJECT_EXTENDED_LIMIT_INFORMATION) -> io::Result<()> {
        limits.BasicLimitInformation.LimitFlags |= job::JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
        // SAFETY: the pointer and the length are those of a structure of this class.
        check(unsafe {
            job::SetInformationJobObject(
                self.handle(),
                job::JobObjectExtendedLimitInformation,
                (&raw const limits).cast(),
                size_of_val(&limits) as u32,
            )
        })
    }

    fn handle(&self) -> HANDLE {
        self.0.as_raw_handle()
    }

    /// Returns whether any process is left.
    pub(super) fn has_processes(&self) -> bool {
        let mut counts = job::JOBOBJECT_BASIC_ACCOUNTING_INFORMATION::default();
        // SAFETY: the pointer and the length are those of a structure of this class.
        let known = check(unsafe {
            job::QueryInformationJobObject(
                self.handle(),
                job::JobObjectBasicAccountingInformation,
                (&raw mut counts).cast(),
                size_of_val(&counts) as u32,
                ptr::null_mut(),
            )
        });
        known.is_ok() && counts.ActiveProcesses > 0
    }

    /// Ends all processes.
    pub(super) fn terminate(&self) {
        // It fails only without the right to, which we have.
        // SAFETY: the handle is that of a job.
        unsafe { job::TerminateJobObject(self.handle(), TERMINATED) };
    }
}

/// The attributes of a new process.
struct Attributes(Vec<usize>);

impl Attributes {
    /// Makes room for `count` attributes.
    ///
    /// # Errors
    ///
    /// Fails as the system call.
    fn new(count: u32) -> io::Result<Self> {
        let mut size = 0;
        // It fails, and tells the size.
        // SAFETY: without a list only the size is written.
        unsafe { threading::InitializeProcThreadAttributeList(ptr::null_mut(), count, 0, &raw mut size) };
        let mut list = vec![0; size.div_ceil(size_of::<usize>())];
        // SAFETY: the list has that size.
        check(unsafe {
            threading::InitializeProcThreadAttributeList(list.as_mut_ptr().cast(), count, 0, &raw mut size)
        })?;
        Ok(Self(list))
    }

    /// Sets an attribute that is a list of handles.
    ///
    /// # Errors
    ///
    /// Fails as the system call.
    ///
    /// # Safety
    ///
    /// `handles` must stay where it is for as long as the list is used.
    unsafe fn set(&mut self, attribute: u32, handles: &[HANDLE]) -> io::Result<()> {
        // SAFETY: the caller keeps the handles.
        check(unsafe {
            threading::UpdateProcThreadAttribute(
                self.0.as_mut_ptr().cast(),
                0,
                attribute as usize,
                handles.as_ptr().cast(),
                size_of_val(handles),
                ptr::null_mut(),
                ptr::null(),
            )
        })
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: the list was initialized.
        unsafe { threading::DeleteProcThreadAttributeList(self.0.as_mut_ptr().cast()) };
    }
}

/// Starts a process in `job`, with `stdio` as its stdin, stdout and stderr, and no window. It inherits no other handle.
///
/// # Errors
///
/// Fails if the program cannot be executed, its arguments cannot be passed to it, the working directory cannot be
/// entered, a text contains a NUL character, or the exit of the process cannot be awaited.
pub(super) fn start(
    job: &JobObject,
    launch: &Launch,
    stdio: &[OwnedHandle; 3],
) -> io::Result<StartedProcess> {
    let line = command_line(&launch.program, &launch.args, &system_directory()?)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let program = wide(line.program.as_os_str())?;
    let mut text = wide(&line.text)?;
    let environment = environment_block(&launch.env)?;
    let cwd = wide(launch.cwd.as_os_str())?;
    let inherited = stdio.each_ref().map(AsRawHandle::as_raw_handle);
    for handle in inherited {
        // SAFETY: the handle is open.
        check(unsafe { SetHandleInformation(handle, HANDLE_FLAG_INHERIT, HANDLE_FLAG_INHERIT) })?;
    }
    let jobs = [job.handle()];
    let mut attributes = Attributes::new(2)?;
    // SAFETY: both arrays live longer than the list.
    unsafe {
        attributes.set(threading::PROC_THREAD_ATTRIBUTE_HANDLE_LIST, &inherited)?;
        attributes.set(threading::PROC_THREAD_ATTRIBUTE_JOB_LIST, &jobs)?;
    }
    let mut startup = threading::STARTUPINFOEXW::default();
    startup.StartupInfo.cb = size_of_val(&startup) as u32;
    startup.StartupInfo.dwFlags = threading::STARTF_USESTDHANDLES;
    [startup.StartupInfo.hStdInput, startup.StartupInfo.hStdOutput, startup.StartupInfo.hStdError] =
        inherited;
    startup.lpAttributeList = attributes.0.as_mut_ptr().cast();
    let flags = threading::CREATE_NO_WINDOW
        | threading::CREATE_UNICODE_ENVIRONMENT
        | threading::EXTENDED_STARTUPINFO_PRESENT;
    let mut created = threading::PROCESS_INFORMATION::default();
    // SAFETY: all texts end with a zero, the environment with two; the handles of the lists are open.
    check(unsafe {
        threading::CreateProcessW(
            program.as_ptr(),
            text.as_mut_ptr(),
            ptr::null(),
            ptr::null(),
            1,
            flags,
            environment.as_ptr().cast(),
            cwd.as_ptr(),
            (&raw const startup).cast(),
            &raw mut created,
        )
    })?;
    // SAFETY: both handles are new and ours.
    let (process, thread) = unsafe {
        (OwnedHandle::from_raw_handle(created.hProcess), OwnedHandle::from_raw_handle(created.hThread))
    };
    drop(thread);
    StartedProcess::watch(process, created.dwProcessId)
}

/// Returns the environment as CreateProcessW takes it: `NAME=VALUE`, each with a zero, sorted by name, and another zero.
///
/// # Errors
///
/// Fails if a name or a value contains a NUL character.
fn environment_block(env: &[(OsString, OsString)]) -> io::Result<Vec<u16>> {
    let mut sorted: Vec<_> =
        env.iter().map(|(name, value)| (name.to_ascii_uppercase(), name, value)).collect();
    sorted.sort();
    let mut block = Vec::new();
    for (_, name, value) in sorted {
        let name = wide(name)?;
        block.extend_from_slice(&name[..name.len() - 1]);
        block.push(u16::from(b'='));
        block.extend(wide(value)?);
    }
    if block.is_empty() {
        block.push(0);
    }
    block.push(0);
    Ok(block)
}

/// A process that was started.
pub(super) struct StartedProcess {
    /// Before `process`, so that it is dropped first.
    _wait: ExitWait,
    process: OwnedHandle,
    pid: u32,
    exited: oneshot::Receiver<()>,
}

impl StartedProcess {
    fn watch(process: OwnedHandle, pid: u32) -> io::Result<Self> {
        let (sender, exited) = oneshot::channel();
        let wait = ExitWait::new(&process, sender)?;
        Ok(Self { _wait: wait, process, pid, exited })
    }

    /// Returns the pid.
    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// Waits for the process to exit. Returns its exit code, if the system tells it. Cancel-safe, but to be called no more
    /// after it has returned.
    pub(super) async fn exited(&mut self) -> Option<i32> {
        (&mut self.exited).await.ok()?;
        let mut code = 0;
        // SAFETY: the handle is that of a process.
        let known =
            check(unsafe { threading::GetExitCodeProcess(self.process.as_raw_handle(), &raw mut code) });
        known.ok().map(|()| code.cast_signed())
    }
}

/// The system's thread pool waits for the exit of a process, so that no thread of ours does.
struct ExitWait {
    wait: HANDLE,
    /// What the callback gets. It belongs to the callback until the wait is unregistered.
    context: *mut ExitSender,
}

type ExitSender = Option<oneshot::Sender<()>>;

// SAFETY: handles can be used by every thread, and the context is used by one at a time.
unsafe impl Send for ExitWait {}
// SAFETY: a shared reference gives access to nothing.
unsafe impl Sync for ExitWait {}

impl ExitWait {
    fn new(process: &OwnedHandle, sender: oneshot::Sender<()>) -> io::Result<Self> {
        unsafe extern "system" fn exited(context: *mut c_void, _: bool) {
            // SAFETY: the context is that of `new`, and lives until the wait is unregistered.
            let sender = unsafe { &mut *context.cast::<ExitSender>() };
            if let Some(sender) = sender.take() {
                // Fails if nobody waits.
                sender.send(()).ok();
            }
        }
        let mut this = Self { wait: ptr::null_mut(), context: Box::into_raw(Box::new(Some(sender))) };
        // SAFETY: the process and the context live until `drop` has unregistered the wait.
        check(unsafe {
            threading::RegisterWaitForSingleObject(
                &raw mut this.wait,
                process.as_raw_handle(),
                Some(exited),
                this.context.cast(),
                threading::INFINITE,
                threading::WT_EXECUTEINWAITTHREAD | threading::WT_EXECUTEONLYONCE,
            )
        })?;
        Ok(this)
    }
}

impl Drop for ExitWait {
    fn drop(&mut self) {
        if !self.wait.is_null() {
            // SAFETY: the wait is registered. The call returns when the callback no longer runs.
            unsafe { threading::UnregisterWaitEx(self.wait, INVALID_HANDLE_VALUE) };
        }
        // SAFETY: nobody else has the context any more.
        drop(unsafe { Box::from_raw(self.context) });
    }
}

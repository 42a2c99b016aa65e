//! The thread that ends the process of a jq program at a limit, on Windows.
//!
//! The job of the process has limits too, but the system does not tell which one it has enforced, and looks at the time
//! seldom. So they are for what the watchdog does not see.
#![expect(unsafe_code, reason = "these calls have no safe wrapper")]

use super::exit::{OUT_OF_MEMORY, TIMED_OUT};
use super::limits::{CPU_TIME, MEMORY_BYTES, WALL_TIME};
use std::io;
use std::thread;
use std::time::Duration;
use tokio::time::Instant;
use windows_sys::Win32::Foundation::FILETIME;
use windows_sys::Win32::System::ProcessStatus::{K32GetProcessMemoryInfo, PROCESS_MEMORY_COUNTERS};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, GetProcessTimes, TerminateProcess};

/// How often it looks.
const INTERVAL: Duration = Duration::from_millis(5);

/// Starts the thread that ends this process at once when it exceeds `CPU_TIME`, `WALL_TIME` or `MEMORY_BYTES`. The wall
/// time counts from this call, so call it before the program is read.
///
/// # Errors
///
/// No thread can be started. No program may run then.
pub(super) fn start() -> io::Result<()> {
    let deadline = Instant::now() + WALL_TIME;
    let watch = move || {
        loop {
            thread::sleep(INTERVAL);
            if cpu_time() >= CPU_TIME || Instant::now() >= deadline {
                end(TIMED_OUT);
            }
            if memory_bytes() >= MEMORY_BYTES {
                end(OUT_OF_MEMORY);
            }
        }
    };
    thread::Builder::new().stack_size(64 << 10).spawn(watch).map(drop)
}

/// Ends this process at once, without waiting for its other threads.
fn end(code: i32) {
    // SAFETY: the handle is that of this process.
    unsafe { TerminateProcess(GetCurrentProcess(), code.cast_unsigned()) };
}

/// Returns the time of the processor that this process has taken.
fn cpu_time() -> Duration {
    let [mut created, mut exited, mut kernel, mut user] = [FILETIME::default(); 4];
    // It fails only without the right to, which we have; the times are 0 then, and the job has its own limit.
    // SAFETY: the handle is that of this process, and all pointers are those of structures.
    unsafe {
        GetProcessTimes(
            GetCurrentProcess(),
            &raw mut created,
            &raw mut exited,
            &raw mut kernel,
            &raw mut user,
        )
    };
    let of = |time: FILETIME| {
        let units = u64::from(time.dwHighDateTime) << 32 | u64::from(time.dwLowDateTime);
        Duration::from_nanos(units * 100)
    };
    of(kernel) + of(user)
}

/// Returns the memory that this process has committed.
fn memory_bytes() -> u64 {
    let mut counters =
        PROCESS_MEMORY_COUNTERS { cb: size_of::<PROCESS_MEMORY_COUNTERS>() as u32, ..Default::default() };
    // SAFETY: the handle is that of this process, and the length is that of the structure.
    unsafe { K32GetProcessMemoryInfo(GetCurrentProcess(), &raw mut counters, counters.cb) };
    counters.PagefileUsage as u64
}

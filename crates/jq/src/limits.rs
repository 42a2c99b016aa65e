//! What the process of a jq program may take of the system.

use std::time::Duration;

/// The largest input, in bytes. A larger one would not fit the memory.
pub(super) const MAX_INPUT_BYTES: usize = 32 << 20;
/// The largest output, in bytes.
pub(super) const MAX_OUTPUT_BYTES: usize = 1_000_000;
/// The memory, in bytes.
pub(super) const MEMORY_BYTES: u64 = 256 << 20;
/// The time of the processor.
pub(super) const CPU_TIME: Duration = Duration::from_secs(2);
/// The time from the start to the last output. Only a busy machine takes longer than `CPU_TIME`.
pub(super) const WALL_TIME: Duration = Duration::from_secs(10);

/// Limits this process: memory, time, and no files, processes or core dumps. It ends by itself even if no process is
/// left to end it. On Windows, the job that it is started in has the limits, and `watchdog` looks at them.
///
/// # Errors
///
/// The system refuses a limit. No program may run then.
#[cfg(unix)]
pub(super) fn apply() -> std::io::Result<()> {
    use nix::sys::resource::{Resource, setrlimit};
    let limit = |resource, limit| setrlimit(resource, limit, limit);
    // The signal of the soft limit says what ended the process.
    let seconds = CPU_TIME.as_secs();
    setrlimit(Resource::RLIMIT_CPU, seconds, seconds + 1)?;
    // Linux counts private memory for the one limit. The other one, which counts what is only reserved as well, is for
    // systems that do not.
    limit(Resource::RLIMIT_DATA, MEMORY_BYTES)?;
    // macOS refuses a limit below what is mapped already.
    let address_space = limit(Resource::RLIMIT_AS, 2 * MEMORY_BYTES);
    if cfg!(target_os = "linux") {
        address_space?;
    }
    limit(Resource::RLIMIT_CORE, 0)?;
    limit(Resource::RLIMIT_FSIZE, 0)?;
    // No file, socket or pipe can be opened any more.
    limit(Resource::RLIMIT_NOFILE, 0)?;
    // Other systems have it in another form, or not at all.
    #[cfg(target_os = "linux")]
    limit(Resource::RLIMIT_NPROC, 0)?;
    nix::unistd::alarm::set(u32::try_from(WALL_TIME.as_secs()).unwrap_or(u32::MAX));
    Ok(())
}

//! Work that blocks: on the threads of the runtime, with a deadline.
//!
//! tokio's `spawn_blocking` panics when the system refuses a thread (RLIMIT_NPROC, a pids cgroup) and none is left. So
//! [`runtime`] starts the first thread while the program can still fail with an error, and no thread ever ends: work
//! that finds no free thread waits for one, in our code as in the libraries that use the same threads (DNS lookups,
//! D-Bus). [`run`] limits that wait together with the work.

use crate::fair::Turns;
use parking_lot::Mutex;
use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::timeout;

/// The largest number of threads. A hung file system or a stdin that is a terminal takes one each.
const MAX_THREADS: usize = 4;
/// The time after which an idle thread would end: never.
const KEEP_ALIVE: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Work on so many bytes of definitions takes some 30 ms at most, and usually a few.
pub const MAX_INLINE_BYTES: usize = 256 << 10;
/// How long work on more may wait for its turn, and take.
const BULK_TIMEOUT: Duration = Duration::from_secs(30);
/// How much of such work is done at a time. The other threads are for files.
static BULK_TURNS: LazyLock<Turns> = LazyLock::new(|| Turns::new(2));

/// Why blocking work has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BlockingError {
    /// It took longer than this, or no thread became free.
    #[error("took longer than {} s; the file system hangs, or the limit of threads is reached", .0.as_secs())]
    TimedOut(Duration),
    /// It panicked, or the runtime is shutting down.
    #[error("was aborted")]
    Aborted,
}

/// The number of descriptors that the program itself takes, at most, before it starts a server.
const NEEDED_DESCRIPTORS: usize = 24;

/// Makes the runtime of the program: one thread for everything async, and at least one for blocking work.
///
/// # Errors
///
/// Fails if the system refuses a thread, or the descriptors without which tokio panics.
pub fn runtime() -> io::Result<Runtime> {
    let null = if cfg!(windows) { "NUL" } else { "/dev/null" };
    let descriptors: io::Result<Vec<_>> = (0..NEEDED_DESCRIPTORS).map(|_| File::open(null)).collect();
    drop(descriptors.map_err(|error| {
        let advice = "raise the limit of open files (ulimit -n)";
        io::Error::other(format!("{NEEDED_DESCRIPTORS} descriptors are not available ({error}); {advice}"))
    })?);
    let runtime = Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(MAX_THREADS)
        .thread_keep_alive(KEEP_ALIVE)
        .build()?;
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let started = catch_unwind(AssertUnwindSafe(|| drop(runtime.spawn_blocking(|| ()))));
    std::panic::set_hook(hook);
    match started {
        Ok(()) => Ok(runtime),
        // Its drop would wait for work that no thread takes.
        Err(_) => {
            runtime.shutdown_background();
            Err(io::Error::other("the system refuses a thread; raise the limit of processes (ulimit -u)"))
        }
    }
}

/// Runs `work` on a thread that may block. Waits `limit` at most, for a free thread and for the work together. Work
/// that has begun continues after that, without a result; work that has not begun is dropped. If this is dropped, the
/// work is done all the same.
///
/// # Errors
///
/// See [`BlockingError`].
pub async fn run<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, BlockingError> {
    let mut task = tokio::task::spawn_blocking(work);
    match timeout(limit, &mut task).await {
        Ok(done) => done.map_err(|_| BlockingError::Aborted),
        Err(_) => {
            task.abort();
            Err(BlockingError::TimedOut(limit))
        }
    }
}

/// Runs `work`, which processes `bytes` bytes of a request and of servers' lists: on this thread if they are few
/// ([`MAX_INLINE_BYTES`]), else in a turn ([`run_in_turn`]), so that no request and no list delays another server. The
/// work takes at most n log n for n bytes.
///
/// # Errors
///
/// See [`BlockingError`]. Work on this thread does not fail.
pub async fn run_on<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, BlockingError> {
    if bytes <= MAX_INLINE_BYTES {
        return Ok(work());
    }
    // Boxed, so that the future of work on this thread is small.
    Box::pin(run_in_turn(work)).await
}

/// Runs `work`, which takes long, on a thread that may block. It may wait 30 s for its turn, and take 30 s. Users take
/// turns ([`Turns`]).
///
/// # Errors
///
/// See [`BlockingError`].
pub async fn run_in_turn<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, BlockingError> {
    let turn = BULK_TURNS.take(BULK_TIMEOUT).await.ok_or(BlockingError::TimedOut(BULK_TIMEOUT))?;
    run(BULK_TIMEOUT, move || {
        let _turn = turn;
        work()
    })
    .await
}

/// Drops a value that takes long to drop: without waiting, on a thread that may block, or at once on this one if there
/// is no runtime.
pub fn discard<T: Send + 'static>(value: T) {
    match Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(move || drop(value))),
        Err(_) => drop(value),
    }
}

/// Returns whether the system lets us start some threads beside each other, for libraries that panic if they cannot
/// start one: by then, other processes under the same limit may have taken the room of a few. Starts and ends six
/// threads.
pub fn can_start_threads() -> bool {
    const SPARE_THREADS: usize = 6;
    let gate = Arc::new(Mutex::new(()));
    let closed = gate.lock();
    let started: [_; SPARE_THREADS] = std::array::from_fn(|_| {
        let gate = gate.clone();
        std::thread::Builder::new().spawn(move || drop(gate.lock()))
    });
    drop(closed);
    let ok = started.iter().all(Result::is_ok);
    started.into_iter().flatten().for_each(|thread| drop(thread.join()));
    ok
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_finds_no_thread_fails_at_its_deadline_and_is_not_done_later() {
        let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(1).build().unwrap();
        runtime.block_on(async {
            let (release, released) = std::sync::mpsc::channel::<()>();
            let busy = tokio::spawn(run(Duration::from_secs(60), move || released.recv().is_ok()));
            tokio::task::yield_now().await;
            let limit = Duration::from_millis(50);
            let (done, was_done) = std::sync::mpsc::channel();
            let late = run(limit, move || done.send(()).is_ok()).await;
            assert_eq!(late, Err(BlockingError::TimedOut(limit)));
            drop(release);
            busy.await.unwrap().unwrap();
            assert_eq!(run(Duration::from_secs(60), || 3).await, Ok(3));
            assert!(was_done.try_recv().is_err());
        });
    }

    #[tokio::test]
    async fn work_that_panics_is_an_error() {
        let outcome = run(Duration::from_secs(60), || -> u8 { panic!("on purpose") }).await;
        assert_eq!(outcome, Err(BlockingError::Aborted));
    }
}

//! A warden process or an exec that hangs delays nothing else.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::time::Duration;

use nix::sys::signal::{SigHandler, Signal, signal};
use process::warden::{MODE_ARG, SpawnError, Warden};
use tempfile::TempDir;
use tokio::time::{Instant, timeout};

use super::{
    SHORT_TIMEOUTS, children_of, echoes, launch, new_tag, processes_with, run, run_alone, send_signal, sh,
    spawn_unruly, wait_until, warden,
};
use crate::support::{TEST_TIMEOUT, is_alive};

/// How long the wardens of these tests may be silent.
const REPLY_TIMEOUT: Duration = Duration::from_secs(1);

/// A test that uses this runs alone: a second warden ends whatever else has the mark of the test process in the end.
fn impatient_warden() -> Warden {
    let program = env!("CARGO_BIN_EXE_dynamic-mcp").into();
    Warden::of(program, vec![MODE_ARG.into()], REPLY_TIMEOUT, None)
}

/// A program whose exec hangs until this is dropped, for up to 45 s: whoever opens a leased file waits for the holder
/// of the lease (F_SETLEASE, fcntl(2)).
struct HungProgram {
    path: PathBuf,
    _lease: File,
    _dir: TempDir,
}

impl HungProgram {
    #[expect(unsafe_code, reason = "leases have no safe wrapper")]
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hung");
        fs::copy("/bin/true", &path).unwrap();
        // The kernel tells the holder that somebody waits.
        // SAFETY: ignoring a signal runs no code.
        unsafe { signal(Signal::SIGIO, SigHandler::SigIgn) }.unwrap();
        let lease = File::options().read(true).write(true).open(&path).unwrap();
        // A process that another test is just starting has the file open until it executes its program.
        // SAFETY: the call takes a number only.
        let leases = || unsafe { libc::fcntl(lease.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK) } == 0;
        let deadline = Instant::now() + Duration::from_secs(10);
        while !leases() {
            let error = std::io::Error::last_os_error();
            assert!(Instant::now() < deadline, "{error}");
            std::thread::yield_now();
        }
        Self { path, _lease: lease, _dir: dir }
    }
}

#[test]
fn a_hung_exec_stalls_no_other_spawn_and_is_ended() {
    run(async {
        let warden = warden();
        let tag = new_tag();
        let mut other = spawn_unruly(&warden, "polite", &tag).await;
        let pid = warden.pid().unwrap();
        let hung = HungProgram::new();
        let start = Instant::now();
        let hanging = tokio::spawn({
            let (warden, launch) = (warden.clone(), launch(hung.path.to_str().unwrap(), &[]));
            async move { warden.spawn(launch).await }
        });
        wait_until("the exec hangs", || children_of(pid).len() == 2).await;
        let mut child = spawn_unruly(&warden, "stubborn", &tag).await;
        assert!(echoes(&mut child, "x").await && echoes(&mut other, "y").await);
        child.handle.stop(SHORT_TIMEOUTS).await;
        assert!(
            start.elapsed() < Duration::from_secs(5),
            "nothing waited for the hung exec: {:?}",
            start.elapsed()
        );
        assert!(!hanging.is_finished());
        let error = timeout(TEST_TIMEOUT, hanging).await.unwrap().unwrap().unwrap_err();
        assert!(matches!(error, SpawnError::Hung { .. }), "{error:?}");
        let expected = format!(
            "cannot run {}: the system did not start it within 5 s; the file system that has it, or its working \
             directory /, does not answer",
            hung.path.display()
        );
        assert_eq!(error.to_string(), expected);
        wait_until("the hung process is ended", || children_of(pid).len() == 1).await;
        assert_eq!(warden.pids(), [pid], "the warden was not silent");
        assert!(echoes(&mut other, "z").await);
    });
}

#[test]
fn a_hung_exec_does_not_outlive_its_owner() {
    run(async {
        let warden = warden();
        let _other = spawn_unruly(&warden, "polite", &new_tag()).await;
        let pid = warden.pid().unwrap();
        let hung = HungProgram::new();
        let hanging = tokio::spawn({
            let (warden, launch) = (warden.clone(), launch(hung.path.to_str().unwrap(), &[]));
            async move { warden.spawn(launch).await }
        });
        wait_until("the exec hangs", || children_of(pid).len() == 2).await;
        let children = children_of(pid);
        hanging.abort();
        drop(hanging.await);
        drop(warden);
        wait_until("no warden", || !is_alive(pid)).await;
        assert!(!children.iter().any(|child| is_alive(child.unsigned_abs())));
    });
}

#[test]
fn a_silent_warden_keeps_its_upstreams_and_another_one_starts_new_ones() {
    run_alone(async {
        let warden = impatient_warden();
        let (tag, late_tag, new_tag) = (new_tag(), new_tag(), new_tag());
        let mut old = spawn_unruly(&warden, "parent", &tag).await;
        let silent = warden.pid().unwrap();
        send_signal(silent, Signal::SIGSTOP);
        let start = Instant::now();
        // Several spawns that wait for the silent warden get another one at the same time.
        let late = async || spawn_unruly(&warden, "polite", &late_tag).await;
        let (mut a, mut b) = tokio::join!(late(), late());
        assert!(
            start.elapsed() >= REPLY_TIMEOUT && start.elapsed() < REPLY_TIMEOUT * 3,
            "{:?}",
            start.elapsed()
        );
        let [first, second] = warden.pids()[..] else { panic!("{:?}", warden.pids()) };
        assert_eq!(first, silent);
        assert!(echoes(&mut a, "a").await && echoes(&mut b, "b").await && echoes(&mut old, "old").await);
        let start = Instant::now();
        let new = spawn_unruly(&warden, "daemon", &new_tag).await;
        assert!(start.elapsed() < REPLY_TIMEOUT, "it does not wait for the silent warden");
        assert_eq!(warden.pids(), [silent, second]);
        send_signal(silent, Signal::SIGCONT);
        // The spawns that the silent warden had begun too late are ended.
        wait_until("only the two upstreams run", || processes_with(&late_tag).len() == 2).await;
        assert!(echoes(&mut old, "still").await);
        assert_eq!(processes_with(&tag).len(), 3);
        drop(old.stdin);
        old.handle.stop(SHORT_TIMEOUTS).await;
        assert_eq!(processes_with(&tag), []);
        wait_until("the warden without upstreams exits", || !is_alive(silent)).await;
        wait_until("it is forgotten", || warden.pids() == [second]).await;
        assert_eq!(processes_with(&new_tag).len(), 2, "upstreams of the other warden are not touched");
        drop(new.stdin);
        new.handle.stop(SHORT_TIMEOUTS).await;
        assert_eq!(processes_with(&new_tag), []);
    });
}

/// It knew another warden, which was retired before and has ended.
#[test]
fn a_retired_warden_that_ends_leaves_the_other_and_its_upstreams_alone() {
    run_alone(async {
        let warden = impatient_warden();
        let tag = new_tag();
        let mut children = Vec::new();
        for number in 0..2 {
            let child = spawn_unruly(&warden, "polite", &tag).await;
            let silent = *warden.pids().last().unwrap();
            send_signal(silent, Signal::SIGSTOP);
            children.push(spawn_unruly(&warden, "daemon", &tag).await);
            let [first, second] = warden.pids()[..] else { panic!("{:?}", warden.pids()) };
            assert_eq!((first, is_alive(first)), (silent, true));
            send_signal(silent, Signal::SIGCONT);
            drop(child.stdin);
            child.handle.stop(SHORT_TIMEOUTS).await;
            if number == 1 {
                let child = children.remove(0);
                drop(child.stdin);
                child.handle.stop(SHORT_TIMEOUTS).await;
            }
            wait_until("the retired warden exits", || !is_alive(silent)).await;
            wait_until("it is forgotten", || warden.pids() == [second]).await;
        }
        let [child] = &mut children[..] else { panic!("one upstream is left") };
        assert!(echoes(child, "still here").await);
        assert_eq!(processes_with(&tag).len(), 2);
    });
}

#[test]
fn a_silent_warden_without_upstreams_is_killed() {
    run_alone(async {
        let warden = impatient_warden();
        let child = spawn_unruly(&warden, "polite", &new_tag()).await;
        drop(child.stdin);
        child.handle.stop(SHORT_TIMEOUTS).await;
        let silent = warden.pid().unwrap();
        send_signal(silent, Signal::SIGSTOP);
        let _other = spawn_unruly(&warden, "polite", &new_tag()).await;
        wait_until("the silent warden is gone", || !is_alive(silent)).await;
    });
}

#[test]
fn the_number_of_wardens_is_bounded() {
    run_alone(async {
        let warden = impatient_warden();
        let tag = new_tag();
        let mut children = Vec::new();
        for _ in 0..2 {
            children.push(spawn_unruly(&warden, "polite", &tag).await);
            send_signal(warden.pid().unwrap(), Signal::SIGSTOP);
        }
        let pids = warden.pids();
        assert_eq!(pids.len(), 2);
        let error = warden.spawn(sh("true")).await.unwrap_err();
        assert!(matches!(error, SpawnError::Timeout(_)), "{error:?}");
        assert_eq!(warden.pids(), pids);
        send_signal(pids[1], Signal::SIGCONT);
        children.push(spawn_unruly(&warden, "polite", &tag).await);
        for child in &mut children {
            assert!(echoes(child, "still here").await);
        }
        drop((warden, children));
        wait_until("nothing left", || processes_with(&tag).is_empty()).await;
        wait_until("no warden", || !pids.iter().any(|pid| is_alive(*pid))).await;
    });
}

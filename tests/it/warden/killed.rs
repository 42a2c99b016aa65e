//! No process outlives our process, whichever of our processes is killed.

use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::support::{PipeReader, wait_for_child, write_all};

use crate::support::is_alive;

use super::{
    new_tag, processes_with, rounds, run, run_alone, send_signal, sh, unruly_program, wait_until, warden,
};

/// A process of `unruly` that owns ten upstreams: 19 processes with the tag, itself included, beside its warden.
struct OwnerProcess {
    process: std::process::Child,
    /// The pid of the warden process after each spawn.
    reports: PipeReader<std::process::ChildStdout>,
    /// The pid of its warden process.
    warden: u32,
    tag: String,
}

impl OwnerProcess {
    async fn start() -> Self {
        let tag = new_tag();
        let mut command = Command::new(unruly_program());
        command.args(["owner", &tag]).env("WARDEN", env!("CARGO_BIN_EXE_dynamic-mcp"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut process = command.spawn().unwrap();
        let mut reports = PipeReader::new(process.stdout.take().unwrap());
        let warden = reports.read_line().unwrap().parse().unwrap();
        let owner = Self { process, reports, warden, tag };
        wait_until("all processes run", || processes_with(&owner.tag).len() == 19).await;
        owner
    }

    /// Makes it spawn another upstream. Returns the pid of its warden process.
    fn spawn_another(&mut self) -> u32 {
        write_all(self.process.stdin.as_mut().unwrap(), b"another\n").unwrap();
        self.reports.read_line().unwrap().parse().unwrap()
    }

    /// Reaps it and waits until none of its processes is left.
    async fn assert_nothing_left(mut self) {
        wait_for_child(&mut self.process);
        wait_until("nothing left", || processes_with(&self.tag).is_empty()).await;
        wait_until("no warden", || !is_alive(self.warden)).await;
    }
}

#[test]
fn nothing_outlives_a_killed_owner() {
    run(async {
        for _ in 0..rounds() {
            let owner = OwnerProcess::start().await;
            send_signal(owner.process.id(), Signal::SIGKILL);
            owner.assert_nothing_left().await;
        }
    });
}

#[test]
fn nothing_outlives_a_killed_process_group_of_the_owner() {
    run(async {
        for signal in [Signal::SIGKILL, Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
            for _ in 0..rounds() {
                let owner = OwnerProcess::start().await;
                killpg(Pid::from_raw(owner.process.id().cast_signed()), signal).unwrap();
                owner.assert_nothing_left().await;
            }
        }
    });
}

#[test]
fn the_warden_survives_signals_that_end_its_owner() {
    run(async {
        let mut owner = OwnerProcess::start().await;
        for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGPIPE] {
            send_signal(owner.warden, signal);
        }
        assert_eq!(owner.spawn_another(), owner.warden);
        send_signal(owner.process.id(), Signal::SIGKILL);
        owner.assert_nothing_left().await;
    });
}

#[test]
fn a_killed_warden_is_replaced_and_none_of_its_upstreams_is_left() {
    run(async {
        for _ in 0..rounds() {
            let mut owner = OwnerProcess::start().await;
            send_signal(owner.warden, Signal::SIGKILL);
            // The owner itself has the tag, too.
            wait_until("only the owner is left", || processes_with(&owner.tag).len() == 1).await;
            let another = owner.spawn_another();
            assert_ne!(another, owner.warden);
            assert_eq!(processes_with(&owner.tag).len(), 2);
            // At once, before the owner notices.
            send_signal(another, Signal::SIGKILL);
            owner.warden = owner.spawn_another();
            wait_until("only the owner and its last upstream are left", || {
                processes_with(&owner.tag).len() == 2
            })
            .await;
            send_signal(owner.process.id(), Signal::SIGKILL);
            owner.assert_nothing_left().await;
        }
    });
}

/// The silent warden cannot end its upstreams, so the other one does.
#[test]
fn nothing_outlives_an_owner_whose_warden_is_silent() {
    run(async {
        for signal in [Signal::SIGKILL, Signal::SIGTERM] {
            let mut owner = OwnerProcess::start().await;
            let silent = owner.warden;
            send_signal(silent, Signal::SIGSTOP);
            owner.warden = owner.spawn_another();
            assert_ne!(owner.warden, silent);
            assert_eq!(processes_with(&owner.tag).len(), 20, "the silent warden keeps its upstreams");
            send_signal(owner.process.id(), signal);
            owner.assert_nothing_left().await;
            wait_until("no silent warden", || !is_alive(silent)).await;
        }
    });
}

#[test]
fn a_silent_warden_that_is_killed_leaves_nothing_and_the_other_one_keeps_its_upstreams() {
    run(async {
        let mut owner = OwnerProcess::start().await;
        let silent = owner.warden;
        send_signal(silent, Signal::SIGSTOP);
        owner.warden = owner.spawn_another();
        send_signal(silent, Signal::SIGKILL);
        wait_until("only the owner and its last upstream are left", || processes_with(&owner.tag).len() == 2)
            .await;
        assert_eq!(owner.spawn_another(), owner.warden);
        send_signal(owner.process.id(), Signal::SIGKILL);
        owner.assert_nothing_left().await;
    });
}

#[test]
fn orphans_of_a_dead_owner_are_ended_before_the_first_spawn() {
    run_alone(async {
        for _ in 0..rounds() {
            let mut owner = OwnerProcess::start().await;
            // The stopped warden cannot act when its owner dies.
            send_signal(owner.warden, Signal::SIGSTOP);
            send_signal(owner.process.id(), Signal::SIGKILL);
            send_signal(owner.warden, Signal::SIGKILL);
            wait_for_child(&mut owner.process);
            wait_until("the direct children of the warden are gone", || {
                processes_with(&owner.tag).len() <= 8
            })
            .await;
            assert_eq!(processes_with(&owner.tag).len(), 8, "these are left until the next start");
            let warden = warden();
            let _child = warden.spawn(sh("read line")).await.unwrap();
            assert_eq!(processes_with(&owner.tag), []);
        }
    });
}

/// Spawns an `unruly` with an owner mark, without a warden, in a session of its own. It gets the mark after its session:
/// a warden of any other program ends the process groups of marked processes, and before that its group is ours.
fn spawn_marked(kind: &str, tag: &str, owner: u32, namespace: &str) -> std::process::Child {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let mut command = Command::new("setsid");
    command.args(["env", &format!("DYNAMIC_MCP_OWNER={owner}/1/{}/{namespace}/5", boot.trim())]);
    command.arg(unruly_program()).args([kind, tag]);
    command.env("WARDEN", env!("CARGO_BIN_EXE_dynamic-mcp"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap()
}

/// Whether a process of `spawn_marked` has become the program that has the mark.
fn is_unruly(pid: u32) -> bool {
    fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|program| program == unruly_program())
}

#[test]
fn orphans_of_another_namespace_and_our_own_ancestors_are_spared() {
    run_alone(async {
        let own_namespace = fs::read_link("/proc/self/ns/pid").unwrap().display().to_string();
        let own_namespace = own_namespace.trim_matches(|c: char| !c.is_ascii_digit());
        let (foreign_tag, used_tag, dead_tag) = (new_tag(), new_tag(), new_tag());
        // Linux never assigns these pids, so their owners are dead.
        let mut foreign = spawn_marked("session", &foreign_tag, 5_000_001, "1");
        let mut shell = spawn_marked("session", &used_tag, 5_000_002, own_namespace);
        let mut orphan = spawn_marked("session", &dead_tag, 5_000_003, own_namespace);
        wait_until("they have their marks", || {
            [&foreign, &shell, &orphan].iter().all(|process| is_unruly(process.id()))
        })
        .await;
        // This one was started from that "shell".
        let mut owner = spawn_marked("owner", &used_tag, 5_000_002, own_namespace);
        let mut reports = PipeReader::new(owner.stdout.take().unwrap());
        reports.read_line().unwrap();
        assert_eq!(wait_for_child(&mut orphan).signal(), Some(9));
        assert!(foreign.try_wait().unwrap().is_none());
        assert!(shell.try_wait().unwrap().is_none());
        for process in [&mut foreign, &mut shell, &mut owner] {
            process.kill().unwrap();
            wait_for_child(process);
        }
        wait_until("nothing left", || processes_with(&used_tag).is_empty()).await;
    });
}

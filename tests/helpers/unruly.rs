//! Upstreams that misbehave, and a program that owns such upstreams: `unruly KIND TAG`.
//!
//! The tests find the remaining processes by the tag in their command lines. Every process exits by itself within a
//! minute, even if the tests are killed.
//!
//! - `polite` echoes its stdin and exits at its end; `stubborn` ignores the end, SIGTERM, SIGHUP and SIGINT.
//! - `parent` leaves a stubborn grandchild behind; `daemon` leaves one in another session, `daemon-without-env` one
//!   with an empty environment too.
//! - `respawner` starts a process that forks and exits every 0.3 ms, each time into a new session.
//! - `session` is stubborn in a session of its own.
//! - `owner` starts two upstreams each of `polite`, `stubborn`, `parent`, `daemon` and `daemon-without-env`.
#![allow(clippy::disallowed_methods, reason = "stdout is the protocol's")]

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
fn main() {
    linux::main();
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io::{BufRead, Read, Write};
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use nix::sys::signal::{SigHandler, Signal, signal};
    use nix::unistd::{ForkResult, fork, setsid};
    use process::launch::Launch;
    use process::warden::{SpawnedProcess, Warden};

    /// How long a process lives at most.
    const LIFETIME: Duration = Duration::from_secs(45);

    pub(super) fn main() {
        let args: Vec<String> = std::env::args().skip(1).collect();
        let [kind, tag] = &args[..] else { panic!("usage: unruly KIND TAG") };
        match kind.as_str() {
            "polite" => echo(),
            "stubborn" => {
                ignore_signals();
                echo();
                std::thread::sleep(LIFETIME);
            }
            "parent" => {
                start("sleeper-parent", tag);
                echo();
            }
            "sleeper-parent" => {
                start("sleeper", tag);
                sleep_ignoring_signals();
            }
            "daemon" | "daemon-without-env" => {
                let mut daemonize = own_command(&format!("start-{kind}"), tag);
                assert!(daemonize.status().expect("start").success());
                echo();
            }
            "start-daemon" => {
                setsid().expect("setsid");
                start("sleeper", tag);
            }
            "start-daemon-without-env" => {
                setsid().expect("setsid");
                spawn(own_command("sleeper", tag).env_clear());
            }
            "sleeper" => sleep_ignoring_signals(),
            "session" => {
                setsid().ok();
                sleep_ignoring_signals();
            }
            "respawner" => {
                start("forker", tag);
                echo();
            }
            "forker" => fork_repeatedly(),
            "owner" => run_owner(tag),
            other => panic!("unknown kind {other}"),
        }
    }

    /// Echoes stdin to stdout until its end, after a first line that says that it is ready.
    fn echo() {
        let (mut stdin, mut stdout) = (std::io::stdin(), std::io::stdout());
        let mut buffer = [0; 65536];
        stdout.write_all(b"up\n").and_then(|()| stdout.flush()).ok();
        while let Ok(count @ 1..) = stdin.read(&mut buffer) {
            if stdout.write_all(&buffer[..count]).and_then(|()| stdout.flush()).is_err() {
                break;
            }
        }
    }

    fn sleep_ignoring_signals() {
        ignore_signals();
        std::thread::sleep(LIFETIME);
    }

    #[expect(unsafe_code, reason = "signal(2)")]
    fn ignore_signals() {
        for number in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT] {
            // SAFETY: ignoring a signal runs no code.
            unsafe { signal(number, SigHandler::SigIgn).expect("signal") };
        }
    }

    fn own_command(kind: &str, tag: &str) -> Command {
        let mut command = Command::new(std::env::current_exe().expect("own path"));
        command.args([kind, tag]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn start(kind: &str, tag: &str) {
        spawn(&mut own_command(kind, tag));
    }

    #[expect(clippy::zombie_processes, reason = "it leaves processes behind on purpose")]
    fn spawn(command: &mut Command) {
        command.spawn().expect("start");
    }

    /// Continues as another process in another session every 0.3 ms.
    #[expect(unsafe_code, reason = "fork(2)")]
    fn fork_repeatedly() {
        ignore_signals();
        let start = tokio::time::Instant::now();
        while start.elapsed() < LIFETIME {
            // SAFETY: this process has one thread.
            match unsafe { fork() } {
                Ok(ForkResult::Parent { .. }) => return,
                Ok(ForkResult::Child) => drop(setsid()),
                Err(_) => {}
            }
            std::thread::sleep(Duration::from_micros(300));
        }
    }

    /// Owns ten upstreams, and spawns another for each line that it reads. Reports the warden each time.
    #[tokio::main(flavor = "current_thread")]
    async fn run_owner(tag: &str) {
        let program = std::env::var_os("WARDEN").expect("WARDEN").into();
        let warden = Warden::with_program(program, vec!["__warden".into()]);
        let mut children = Vec::new();
        for kind in ["polite", "stubborn", "parent", "daemon", "daemon-without-env"] {
            for _ in 0..2 {
                children.push(spawn_upstream(&warden, kind, tag).await);
            }
        }
        report_warden(&warden);
        let (lines, mut line) = tokio::sync::mpsc::channel(1);
        std::thread::spawn(move || {
            for line in std::io::stdin().lock().lines() {
                if line.is_err() || lines.blocking_send(()).is_err() {
                    return;
                }
            }
        });
        let spawn_more = async {
            while line.recv().await.is_some() {
                children.push(spawn_upstream(&warden, "polite", tag).await);
                report_warden(&warden);
            }
            // Stdin is closed: wait to be killed.
            std::future::pending::<()>().await;
        };
        tokio::time::timeout(LIFETIME, spawn_more).await.ok();
    }

    /// Writes the pid of the warden process to stdout.
    fn report_warden(warden: &Warden) {
        let pid = warden.pid().expect("a warden");
        let mut stdout = std::io::stdout();
        writeln!(stdout, "{pid}").and_then(|()| stdout.flush()).expect("write");
    }

    /// Spawns an upstream and waits until it is ready.
    async fn spawn_upstream(warden: &Warden, kind: &str, tag: &str) -> SpawnedProcess {
        let launch = Launch {
            program: std::env::current_exe().expect("own path"),
            args: vec![kind.into(), tag.into()],
            env: Vec::new(),
            cwd: "/".into(),
        };
        let mut child = warden.spawn(launch).await.expect("spawn");
        let mut ready = [0; 3];
        tokio::io::AsyncReadExt::read_exact(&mut child.stdout, &mut ready).await.expect("ready");
        child
    }
}

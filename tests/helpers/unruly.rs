//! Upstreams that misbehave, and a program that owns such upstreams: `unruly KIND TAG`.
//! The tag stays in the command line, by which the tests find what is left. Every process ends by itself
//! within a minute, whatever becomes of the tests.

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

    use dynamic_mcp::transport::launch::Launch;
    use dynamic_mcp::transport::warden::{Child, Warden};
    use nix::sys::signal::{SigHandler, Signal, signal};
    use nix::unistd::{ForkResult, fork, setsid};

    const LIFE: Duration = Duration::from_secs(45);

    pub(super) fn main() {
        let args: Vec<String> = std::env::args().skip(1).collect();
        let [kind, tag] = &args[..] else { panic!("usage: unruly KIND TAG") };
        match kind.as_str() {
            "polite" => echo(),
            "stubborn" => {
                ignore_all();
                echo();
                std::thread::sleep(LIFE);
            }
            "parent" => {
                start("sleeper-parent", tag, false);
                echo();
            }
            "sleeper-parent" => {
                start("sleeper", tag, false);
                sleeper();
            }
            "escapee" | "escapee-bare" => {
                let mut leaving = itself(&format!("leaving-{kind}"), tag);
                assert!(leaving.status().expect("start").success());
                echo();
            }
            "leaving-escapee" | "leaving-escapee-bare" => {
                setsid().expect("setsid");
                start("sleeper", tag, kind.ends_with("bare"));
            }
            "sleeper" => sleeper(),
            "session" => {
                setsid().ok();
                sleeper();
            }
            "respawner" => {
                start("hopper", tag, false);
                echo();
            }
            "hopper" => hop(),
            "owner" => own(tag),
            other => panic!("unknown kind {other}"),
        }
    }

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

    fn sleeper() {
        ignore_all();
        std::thread::sleep(LIFE);
    }

    #[expect(unsafe_code, reason = "signal(2)")]
    fn ignore_all() {
        for number in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT] {
            // SAFETY: ignoring a signal runs no code.
            unsafe { signal(number, SigHandler::SigIgn).expect("signal") };
        }
    }

    fn itself(kind: &str, tag: &str) -> Command {
        let mut command = Command::new(std::env::current_exe().expect("own path"));
        command.args([kind, tag]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    #[expect(clippy::zombie_processes, reason = "to leave processes behind is what it is for")]
    fn start(kind: &str, tag: &str, bare: bool) {
        let mut command = itself(kind, tag);
        if bare {
            command.env_clear();
        }
        command.spawn().expect("start");
    }

    /// Another process in another session every 0.3 ms.
    #[expect(unsafe_code, reason = "fork(2)")]
    fn hop() {
        ignore_all();
        let begin = tokio::time::Instant::now();
        while begin.elapsed() < LIFE {
            // SAFETY: this process has one thread.
            match unsafe { fork() } {
                Ok(ForkResult::Parent { .. }) => return,
                Ok(ForkResult::Child) => drop(setsid()),
                Err(_) => {}
            }
            std::thread::sleep(Duration::from_micros(300));
        }
    }

    /// Owns two upstreams of each kind and says so; starts one more for each line it reads.
    #[tokio::main(flavor = "current_thread")]
    async fn own(tag: &str) {
        let program = std::env::var_os("WARDEN").expect("WARDEN").into();
        let warden = Warden::with_program(program, vec!["__warden".into()]);
        let mut children = Vec::new();
        for kind in ["polite", "stubborn", "parent", "escapee", "escapee-bare"] {
            for _ in 0..2 {
                children.push(up(&warden, kind, tag).await);
            }
        }
        report(&warden);
        let (lines, mut line) = tokio::sync::mpsc::channel(1);
        std::thread::spawn(move || {
            for line in std::io::stdin().lock().lines() {
                if line.is_err() || lines.blocking_send(()).is_err() {
                    return;
                }
            }
        });
        let another = async {
            while line.recv().await.is_some() {
                children.push(up(&warden, "polite", tag).await);
                report(&warden);
            }
            // Closed: to be killed.
            std::future::pending::<()>().await;
        };
        tokio::time::timeout(LIFE, another).await.ok();
    }

    fn report(warden: &Warden) {
        let pid = warden.pid().expect("a warden");
        let mut stdout = std::io::stdout();
        writeln!(stdout, "{pid}").and_then(|()| stdout.flush()).expect("report");
    }

    async fn up(warden: &Warden, kind: &str, tag: &str) -> Child {
        let launch = Launch {
            program: std::env::current_exe().expect("own path"),
            args: vec![kind.into(), tag.into()],
            env: Vec::new(),
            cwd: "/".into(),
        };
        let mut child = warden.spawn(launch).await.expect("spawn");
        let mut hello = [0; 3];
        tokio::io::AsyncReadExt::read_exact(&mut child.stdout, &mut hello).await.expect("up");
        child
    }
}

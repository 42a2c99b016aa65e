//! Sandboxes, and attackers of the host of shared servers: `sandboxed KIND ARGUMENT…`.
//!
//! - `seccomp COMMAND…` and `landlock COMMAND…` execute a command with a seccomp filter that allows everything, or in a
//!   Landlock sandbox that forbids to make block devices. Neither sets `no_new_privs`, so CAP_SYS_ADMIN is needed.
//! - `listen SOCKET RECORD` listens until its stdin ends, and lets a child answer, whose pid it prints. The child writes
//!   what it gets to a file, and ends within a minute.
//! - `connect SOCKET` connects the socket that is its stdin.
//! - `attach SOCKET` says whether the host lets it `in` or keeps it `out`.

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
fn main() {
    linux::main();
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::fd::{AsFd, AsRawFd, OwnedFd};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use nix::sys::socket::{UnixAddr, connect};
    use sharing::challenge;

    /// How long a process that nobody waits for lives at most.
    const LIFETIME: Duration = Duration::from_secs(45);

    pub(super) fn main() {
        let args: Vec<String> = std::env::args().skip(1).collect();
        match &args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["seccomp", command @ ..] => {
                add_seccomp_filter();
                execute(command);
            }
            ["landlock", command @ ..] => {
                enter_landlock();
                execute(command);
            }
            ["listen", socket, record] => listen(socket, record),
            ["answer", record] => answer(record),
            ["connect", socket] => {
                connect(std::io::stdin().as_raw_fd(), &UnixAddr::new(*socket).expect("path"))
                    .expect("connect");
            }
            ["attach", socket] => attach(socket),
            other => panic!("unknown arguments {other:?}"),
        }
    }

    fn execute(command: &[&str]) {
        panic!("{}", Command::new(command[0]).args(&command[1..]).exec());
    }

    #[expect(unsafe_code, reason = "prctl(2)")]
    fn add_seccomp_filter() {
        // BPF_RET | BPF_K
        let mut allow = libc::sock_filter { code: 6, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW };
        let program = libc::sock_fprog { len: 1, filter: &raw mut allow };
        // SAFETY: the program lives until the call returns.
        let result =
            unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program, 0, 0) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    }

    #[expect(unsafe_code, reason = "landlock(7)")]
    fn enter_landlock() {
        // LANDLOCK_ACCESS_FS_MAKE_BLOCK
        let handled_access: u64 = 1 << 11;
        // SAFETY: the attribute lives until the call returns, and 8 is its size.
        let ruleset =
            unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, &raw const handled_access, 8, 0) };
        assert!(ruleset >= 0, "{}", std::io::Error::last_os_error());
        // SAFETY: the call takes numbers only.
        let result = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset, 0) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    }

    fn say(line: &str) {
        #[expect(clippy::disallowed_methods, reason = "the test reads it")]
        let mut stdout = std::io::stdout();
        writeln!(stdout, "{line}").and_then(|()| stdout.flush()).expect("write");
    }

    fn listen(socket: &str, record: &str) {
        let listener = UnixListener::bind(socket).expect("bind");
        let mut child = Command::new(std::env::current_exe().expect("own path"));
        child.args(["answer", record]).stdin(Stdio::from(OwnedFd::from(listener)));
        say(&child.stdout(Stdio::null()).spawn().expect("start").id().to_string());
        drop(std::io::stdin().read_to_end(&mut Vec::new()));
    }

    /// Poses as the host. Sends a question, and sends back the first bytes after its answer, for the case that they are
    /// one, too.
    fn answer(record: &str) {
        let listener = UnixListener::from(std::io::stdin().as_fd().try_clone_to_owned().expect("descriptor"));
        let mut record = File::options().create(true).append(true).open(record).expect("record");
        std::thread::spawn(move || accept(&listener, &mut record));
        std::thread::sleep(LIFETIME);
    }

    fn accept(listener: &UnixListener, record: &mut File) {
        for socket in listener.incoming() {
            let mut socket = socket.expect("accept");
            let mut question = [b'0'; challenge::CHALLENGE_BYTES];
            let mut chunk = vec![0; 1 << 16];
            let answered = socket.write_all(&question).and_then(|()| socket.read_exact(&mut question));
            let mut is_first = answered.is_ok();
            while let Ok(count @ 1..) = socket.read(&mut chunk) {
                record.write_all(&chunk[..count]).expect("write");
                if std::mem::take(&mut is_first) {
                    drop(socket.write_all(&chunk[..count.min(challenge::CHALLENGE_BYTES)]));
                }
            }
        }
    }

    fn attach(socket: &str) {
        let mut socket = UnixStream::connect(socket).expect("connect");
        socket.set_read_timeout(Some(Duration::from_secs(10))).expect("timeout");
        drop(challenge::answer(&socket));
        // A question to the host, and no request.
        drop(socket.write_all(b"0123456789abcdef0123456789abcde\n"));
        let got_in = socket.read(&mut [0; 64]).is_ok_and(|count| count > 0);
        say(if got_in { "in" } else { "out" });
    }
}

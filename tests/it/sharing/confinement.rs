//! What confines a window confines the servers that it uses: sandboxes without `no_new_privs`, and control groups.

use super::attach::sandbox;
use super::impostor::sandboxed;
use super::*;
use crate::support::namespaces::{NamespaceRun, run_again_in};
use crate::support::output_of;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Returns whether this process is root, in a user namespace if the user is not. Otherwise the test has run there or is
/// skipped.
fn is_root() -> bool {
    if nix::unistd::geteuid().is_root() {
        return true;
    }
    let run = run_again_in(&[]);
    if run == NamespaceRun::Impossible {
        eprintln!("SKIPPED: needs CAP_SYS_ADMIN, and no user namespace can be made here");
    }
    run == NamespaceRun::Inside
}

/// The command that confines what follows it. `None`, with a line that says so, if that does not work here.
fn confined_by(words: &[&str]) -> Option<Vec<String>> {
    let program = sandboxed();
    let command: Vec<&str> =
        std::iter::once(program.to_str().unwrap()).chain(words.iter().copied()).collect();
    let command = sandbox(&command)?;
    Some(command.into_iter().map(str::to_owned).collect())
}

fn started_by(command: ProxyCommand, wrapper: &[String]) -> Proxy {
    command.started_by(&wrapper.iter().map(String::as_str).collect::<Vec<_>>()).start_initialized()
}

#[test]
fn with_cap_sys_admin_equal_numbers_of_seccomp_filters_prove_nothing() {
    if !is_root() {
        return;
    }
    let Some(filtered) = confined_by(&["seccomp"]) else { return };
    let user = User::new();
    let config = shared_config(&[]);
    let mut a = started_by(user.command(&config), &filtered);
    let mut b = started_by(user.command(&config), &filtered);
    assert_ne!(a.upstream_pid("g"), b.upstream_pid("g"));
    b.wait_for_log("CAP_SYS_ADMIN and a seccomp filter");
    assert!(user.hosts().is_empty());
}

/// As in a container: the runtime adds a filter, and then nobody has CAP_SYS_ADMIN.
#[test]
fn windows_in_a_default_container_share() {
    if !is_root() {
        return;
    }
    let Some(container) = confined_by(&["seccomp", "setpriv", "--bounding-set", "-sys_admin"]) else {
        return;
    };
    let user = User::new();
    let config = shared_config(&[]);
    let mut a = started_by(user.command(&config), &container);
    let mut b = started_by(user.command(&config), &container);
    let status = fs::read_to_string(format!("/proc/{}/status", b.pid())).unwrap();
    assert!(status.contains("Seccomp_filters:\t1\n"), "{status}");
    assert_eq!(a.upstream_pid("g"), b.upstream_pid("g"), "{}", b.log());
    // One that has a filter of its own besides.
    let program = sandboxed();
    let more = [vec![program.to_str().unwrap().to_owned(), "seccomp".to_owned()], container].concat();
    assert_ne!(started_by(user.command(&config), &more).upstream_pid("g"), a.upstream_pid("g"));
}

#[test]
fn a_window_in_a_landlock_sandbox_shares_nothing() {
    if !is_root() {
        return;
    }
    let Some(landlocked) = confined_by(&["landlock"]) else { return };
    let user = User::new();
    let config = shared_config(&[]);
    let mut plain = user.window(&config);
    let pid = plain.upstream_pid("g");
    let mut other = started_by(user.command(&config), &landlocked);
    assert_ne!(other.upstream_pid("g"), pid);
    other.wait_for_log("the server gets a process of its own");
    assert_eq!(user.window(&config).upstream_pid("g"), pid, "others do");
    assert_eq!(user.hosts().len(), 1);
}

/// A program in the sandbox need not be ours.
#[test]
fn the_host_keeps_programs_in_a_landlock_sandbox_out() {
    if !is_root() {
        return;
    }
    let Some(landlocked) = confined_by(&["landlock"]) else { return };
    let user = User::new();
    let mut window = user.window(&shared_config(&[]));
    window.upstream_pid("g");
    let attach = |wrapper: &[String]| {
        let program = sandboxed().to_str().unwrap().to_owned();
        let words = [wrapper, &[program, "attach".to_owned()]].concat();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg(user.host_socket());
        String::from_utf8(output_of(&mut command).stdout).unwrap()
    };
    assert_eq!(attach(&landlocked), "out\n");
    assert_eq!(attach(&[]), "in\n");
}

/// A control group with a limit of processes, which is removed when it is dropped.
struct LimitedGroup(PathBuf);

impl LimitedGroup {
    /// `None`, with a line that says so, if there can be none here.
    fn new(name: &str, max_processes: &str) -> Option<Self> {
        let cgroups = fs::read_to_string("/proc/self/cgroup").unwrap();
        let of =
            |prefix: &str| cgroups.lines().find_map(|line| line.split_once(prefix).map(|(_, path)| path));
        // Version 1, and version 2 at its root and where this process is.
        let parents = [
            Path::new("/sys/fs/cgroup/pids").join(of(":pids:/").unwrap_or_default()),
            Path::new("/sys/fs/cgroup").to_owned(),
            Path::new("/sys/fs/cgroup").join(of("0::/").unwrap_or_default()),
        ];
        for parent in parents {
            drop(fs::write(parent.join("cgroup.subtree_control"), "+pids"));
            let dir = parent.join(format!("dynamic-mcp-test-{}-{name}", std::process::id()));
            if fs::create_dir(&dir).is_err() {
                continue;
            }
            let group = Self(dir);
            if fs::write(group.0.join("pids.max"), max_processes).is_ok() {
                return Some(group);
            }
        }
        eprintln!("SKIPPED: no control group with a limit can be made here");
        None
    }

    fn window(&self, user: &User, config: &Value) -> Proxy {
        let script = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", self.0.display());
        user.command(config).started_by(&["sh", "-c", &script, "sh"]).start_initialized()
    }
}

impl Drop for LimitedGroup {
    fn drop(&mut self) {
        let processes = || fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default();
        wait_until("the group is removed", || {
            for pid in processes().lines() {
                // Fails if it has ended meanwhile.
                kill(Pid::from_raw(pid.parse().unwrap()), Signal::SIGKILL).ok();
            }
            fs::remove_dir(&self.0).is_ok()
        });
    }
}

#[test]
fn a_window_whose_control_group_is_limited_more_than_the_hosts_is_private() {
    let Some(of_host) = LimitedGroup::new("host", "200") else { return };
    let user = User::new();
    let config = shared_config(&[]);
    let mut first = of_host.window(&user, &config);
    let pid = first.upstream_pid("g");
    for (limit, is_shared) in [("200", true), ("max", true), ("199", false)] {
        let group = LimitedGroup::new(limit, limit).unwrap();
        let mut window = group.window(&user, &config);
        assert_eq!(window.upstream_pid("g") == pid, is_shared, "{limit}: {}", window.log());
        if !is_shared {
            window.wait_for_log("a control group limits processes more than the host's does");
        }
    }
    assert_eq!(user.window(&config).upstream_pid("g"), pid, "one that is not limited");
}

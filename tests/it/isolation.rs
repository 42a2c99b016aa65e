//! What a server, as another process of the same user, can learn of our processes, and what other users can feed us.
//! Linux only.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::{Processes, ProxyCommand, config_of, is_alive, merged, scripted_config, wait_until};

/// The value of a variable that only dynamic-mcp has.
const SECRET: &str = "hunter2-of-the-owner";

/// A server that is this shell script, and is started at once. It stays in the handshake.
fn eager_scripts<const N: usize>(scripts: [(&str, String); N]) -> Value {
    let entries = scripts.map(|(name, script)| {
        (name, json!({"command": "/bin/sh", "args": ["-c", format!("{script}\nexec cat > /dev/null").replace('$', "$$")]}))
    });
    merged(config_of(entries), json!({"settings": {"lazy_startup": "eager"}}))
}

/// Waits until a file exists and returns its text. It must be made by a rename.
fn wait_for_file(path: &Path) -> String {
    wait_until(&format!("{} exists", path.display()), || path.exists());
    fs::read_to_string(path).unwrap()
}

#[test]
fn a_server_reads_neither_environment_nor_descriptors_nor_memory_of_our_processes() {
    let Some(command) = ProxyCommand::unprivileged() else { return };
    let report = command.home().join("report");
    let script = r#"
        owner=${DYNAMIC_MCP_OWNER%%/*}
        attack() {
            echo "$1 $2"
            tr '\0' '\n' < /proc/$2/environ | sed "s/^/$1 environ /"
            ls /proc/$2/fd | sed "s/^/$1 fd /"
            head -c 9 /proc/$2/maps | sed "s/^/$1 maps /"
            readlink /proc/$2/exe | sed "s/^/$1 exe /"
        }
        { attack self $$; attack owner $owner; attack warden $PPID; } > REPORT.tmp 2>&1
        mv REPORT.tmp REPORT"#;
    let script = script.replace("REPORT", report.to_str().unwrap());
    let command = command.env("BANK_PASSWORD", SECRET).config(&eager_scripts([("spy", script)]));
    let mut proxy = command.start_initialized();
    let report = wait_for_file(&report);
    let warden = Processes::descendants_of(proxy.pid()).warden_pid();
    assert!(report.contains(&format!("owner {}\n", proxy.pid())), "the mark names our pid: {report}");
    assert!(report.contains(&format!("warden {warden}\n")), "{report}");
    // The user can read other processes, so the report shows what the user cannot read of ours.
    for what in ["environ DYNAMIC_MCP_OWNER=", "fd 0", "maps ", "exe /"] {
        assert!(report.contains(&format!("self {what}")), "{report}");
        assert!(!report.contains(&format!("owner {what}")), "{report}");
        assert!(!report.contains(&format!("warden {what}")), "{report}");
    }
    assert!(!report.contains("owner environ") && !report.contains(SECRET), "{report}");
    proxy.close_stdin();
    proxy.wait_for_exit();
}

/// The marks of processes that escaped are read in /proc, where our own processes can be read by root only.
#[test]
fn processes_that_escaped_are_ended_by_an_owner_that_is_not_root() {
    for cause in ["removed", "eof", "killed"] {
        let Some(command) = ProxyCommand::unprivileged() else { return };
        let pid_file = |name: &str| command.home().join(name);
        // One descends from init or from the warden and has the mark, the other one has no environment.
        let escape = |file: PathBuf| {
            let file = file.display();
            format!(
                "setsid sh -c 'sleep 600 & echo $! > {file}.tmp; env -i sleep 600 & echo $! >> {file}.tmp; \
                 mv {file}.tmp {file}' &"
            )
        };
        let (a, b) = (pid_file("a"), pid_file("b"));
        let config = eager_scripts([("a", escape(a.clone())), ("b", escape(b.clone()))]);
        let mut proxy = command.config(&config).start_initialized();
        let pids = |path: &Path| -> Vec<u32> {
            wait_for_file(path).lines().map(|pid| pid.parse().unwrap()).collect()
        };
        let (of_a, of_b) = (pids(&a), pids(&b));
        assert!(of_a.len() == 2 && of_a.iter().chain(&of_b).all(|pid| is_alive(*pid)));
        match cause {
            "removed" => {
                fs::write(proxy.config_file(), eager_scripts([("b", escape(b.clone()))]).to_string())
                    .unwrap();
                wait_until("the processes of a are gone", || !of_a.iter().any(|pid| is_alive(*pid)));
                assert!(of_b.iter().all(|pid| is_alive(*pid)), "those of b are not");
                proxy.close_stdin();
            }
            "eof" => proxy.close_stdin(),
            _ => proxy.send_signal(Signal::SIGKILL),
        }
        proxy.wait_for_exit();
        wait_until(&format!("no process is left: {cause}"), || {
            !of_a.iter().chain(&of_b).any(|pid| is_alive(*pid))
        });
    }
}

#[test]
fn a_cache_that_others_can_change_is_not_used_and_the_log_says_how_to_repair_it() {
    let command = ProxyCommand::new().config(&scripted_config(&[]));
    let dir = command.home().join("cache/dynamic-mcp");
    fs::create_dir_all(&dir).unwrap();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
    let mut proxy = command.start_initialized();
    proxy.wait_for_log(&format!(
        "cache of the servers' tools: {0} can be changed by other users (mode 777), so it is not \
         used: run `chmod 700 {0}`",
        dir.display()
    ));
    assert_eq!(proxy.call_text("g", "echo", json!({"text": "works"})), "works");
    proxy.close_stdin();
    proxy.wait_for_exit();
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0, "nothing is written there either");
}

//! `dynamic-mcp status` and `dynamic-mcp reconnect`.

use super::*;
use crate::support::output_of;
use nix::sys::signal::Signal;
use std::process::Output;

/// Runs a command of the program for this user, in this directory.
pub(super) fn run(user: &User, dir: &Path, args: &[&str]) -> Output {
    output_of(user.program_command().args(args).current_dir(dir))
}

pub(super) fn stdout(output: Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The JSON of `status` once it lists `count` instances.
pub(super) fn status_of(user: &User, count: usize) -> Value {
    let mut report = Value::Null;
    wait_until(&format!("{count} instances answer"), || {
        report = serde_json::from_str(&stdout(run(user, Path::new("/"), &["status", "--json"]))).unwrap();
        report["instances"].as_array().unwrap().len() == count
    });
    report
}

#[test]
fn status_lists_every_window_with_its_groups_and_what_they_share() {
    let user = User::new();
    let config = pure_config([("g", shared(scripted_upstream(&[]))), ("own", scripted_upstream(&[]))]);
    assert!(stdout(run(&user, Path::new("/"), &["status"])).contains("no instance"));
    let (mut a, b) = two_windows(&user, &config, &json!({}));
    let (pid, own) = (a.upstream_pid("g"), a.upstream_pid("own"));
    a.call_failure("own", "fail", json!({}));
    let report = status_of(&user, 2);
    let instances = report["instances"].as_array().unwrap();
    let of = |window: &Proxy| instances.iter().find(|instance| instance["pid"] == window.pid()).unwrap();
    for (window, other) in [(&a, &b), (&b, &a)] {
        let instance = of(window);
        assert_eq!(instance["clientPid"], std::process::id());
        assert_eq!(instance["config"], json!([window.config_file()]));
        assert!(instance["memoryBytes"].as_u64().unwrap() > 1 << 20, "{instance}");
        let group = &instance["groups"][0];
        assert_eq!((&group["pid"], &group["shared"]), (&json!(pid), &json!(true)));
        assert_eq!(group["sharedWith"], json!([other.pid()]));
        assert!(group["memoryBytes"].as_u64().unwrap() > 0, "{group}");
        assert!(group["calls"].as_u64().unwrap() > 0, "{group}");
        let idle = group["idleMs"].as_u64().unwrap() + group["closesInMs"].as_u64().unwrap();
        assert!((299_000..=300_000).contains(&idle), "{group}");
    }
    let private = &of(&a)["groups"][1];
    assert_eq!((&private["pid"], &private["shared"]), (&json!(own), &json!(false)));
    assert_eq!((&private["calls"], &private["errors"]), (&json!(2), &json!(1)));
    assert_eq!(of(&b)["groups"][1]["pid"], Value::Null);
    assert_eq!((&report["notRunning"], &report["savedBySharing"]["processes"]), (&json!(1), &json!(1)));
    let table = stdout(run(&user, Path::new("/"), &["status"]));
    for window in [&a, &b] {
        assert!(table.contains(&format!("shared with the instance of pid {}\n", window.pid())), "{table}");
    }
    assert!(table.contains("closes in") && table.contains("sharing saves 1 process"), "{table}");
}

#[test]
fn the_sockets_of_windows_and_of_the_host_are_closed_to_others() {
    let user = User::new();
    let mut window = user.window(&shared_config(&[]));
    window.connect(["g"]);
    status_of(&user, 1);
    let files = fs::read_dir(user.host_dir()).unwrap().flatten();
    let modes: Vec<_> = files
        .filter(|file| file.path().extension().is_some_and(|extension| extension == "sock"))
        .map(|file| (file.file_name(), file.metadata().unwrap().permissions().mode() & 0o7777))
        .collect();
    assert_eq!(modes.len(), 2, "{modes:?}");
    assert!(modes.iter().all(|(_, mode)| *mode == 0o600), "{modes:?}");
}

#[test]
fn commands_say_what_is_wrong_with_the_runtime_directory() {
    let user = User::new();
    fs::create_dir(user.host_dir()).unwrap();
    fs::set_permissions(user.host_dir(), fs::Permissions::from_mode(0o755)).unwrap();
    let commands: [&[&str]; 3] = [&["status"], &["logs", "g"], &["reconnect", "g"]];
    for args in commands {
        let output = run(&user, Path::new("/"), args);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let expected = format!(
            "dynamic-mcp: the running instances cannot be found: {}: others may use the directory (its mode is not 0700)\n",
            user.host_dir().display()
        );
        assert_eq!(String::from_utf8_lossy(&output.stderr), expected);
    }
    // Where XDG_RUNTIME_DIR names nothing, there is another directory.
    let mut command = user.program_command();
    command.env("XDG_RUNTIME_DIR", user.home.path().join("missing")).arg("status").current_dir("/");
    stdout(output_of(&mut command));
}

#[test]
fn a_window_that_ends_or_is_killed_is_no_longer_listed() {
    let user = User::new();
    let config = shared_config(&[]);
    let (mut a, b, c) = (user.window(&config), user.window(&config), user.window(&config));
    status_of(&user, 3);
    a.close_stdin();
    a.wait_for_exit();
    b.send_signal(Signal::SIGKILL);
    let report = status_of(&user, 1);
    assert_eq!(report["instances"][0]["pid"], c.pid());
    let left = format!("instance-{}.sock", c.pid());
    // A window that is dying may still accept the connection of one `status`.
    wait_until("the sockets of the others are gone", || {
        status_of(&user, 1);
        let files = fs::read_dir(user.host_dir()).unwrap().flatten().map(|file| file.file_name());
        files.filter(|name| name.to_str().unwrap().starts_with("instance")).eq([left.as_str()])
    });
}

#[test]
fn reconnect_concerns_the_windows_of_its_directory_or_all() {
    let user = User::new();
    let config = pure_config([("own", scripted_upstream(&[]))]);
    let (mut a, mut b) = (user.window(&config), user.window(&config));
    let (of_a, of_b) = (a.upstream_pid("own"), b.upstream_pid("own"));
    status_of(&user, 2);
    let here = fs::canonicalize(a.config_file()).unwrap().parent().unwrap().to_owned();
    let text = stdout(run(&user, &here, &["reconnect", "own"]));
    assert_eq!(text, format!("own: connected again in pid {}\n", a.pid()));
    a.wait_for_log("reconnecting, because the user wants that");
    let next = a.upstream_pid("own");
    assert_ne!(next, of_a);
    assert_eq!(b.upstream_pid("own"), of_b);
    let elsewhere = run(&user, Path::new("/"), &["reconnect", "own"]);
    assert_eq!(elsewhere.status.code(), Some(2), "{elsewhere:?}");
    assert!(String::from_utf8_lossy(&elsewhere.stderr).contains("--all"), "{elsewhere:?}");
    assert_eq!(run(&user, &here, &["reconnect", "no-such"]).status.code(), Some(2));
    stdout(run(&user, Path::new("/"), &["reconnect", "own", "--all"]));
    wait_until("both reconnect", || a.upstream_pid("own") != next && b.upstream_pid("own") != of_b);
    // A server that is broken says so, to those who read its log, too.
    let broken = pure_config([("own", json!({"url": "http://127.0.0.1:9/mcp"}))]);
    fs::write(a.config_file(), broken.to_string()).unwrap();
    a.wait_for_log("the server of this group changed");
    let failed = run(&user, &here, &["reconnect", "own"]);
    let error = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert!(failed.status.code() == Some(1) && error.contains("own: not connected in pid"), "{error}");
    assert!(error.contains("start the server, or correct \"url\""), "{error}");
    let empty = run(&user, &here, &["logs", "own"]);
    let text = String::from_utf8_lossy(&empty.stderr).into_owned();
    assert!(text.contains("own: nothing was written to stderr in the instance with pid"), "{text}");
    assert!(text.contains("; it failed: http://127.0.0.1:9 cannot be reached"), "{text}");
}

#[test]
fn reconnect_leaves_the_session_of_another_window() {
    let user = User::new();
    let (mut a, mut b) = two_windows(&user, &shared_config(&[]), &json!({}));
    let pid = a.upstream_pid("g");
    status_of(&user, 2);
    let open = b.send_call("g", "sleep", json!({"ms": 500}));
    let here = fs::canonicalize(a.config_file()).unwrap().parent().unwrap().to_owned();
    stdout(run(&user, &here, &["reconnect", "g"]));
    wait_until("the session is made again", || a.log().matches("attached to the shared").count() == 2);
    assert_eq!(a.upstream_pid("g"), pid);
    assert!(b.response(open).line.contains("slept"));
    assert_eq!(b.log().matches("attached to the shared").count(), 1);
}

#[test]
fn status_shows_an_ordinary_user_the_memory_of_windows_and_servers() {
    let Some(user) = User::unprivileged() else { return };
    let config = pure_config([("g", user.shared_upstream(&[]))]);
    let (mut a, _b) = two_windows(&user, &config, &json!({}));
    let pid = a.upstream_pid("g");
    for instance in status_of(&user, 2)["instances"].as_array().unwrap() {
        assert!(instance["memoryBytes"].as_u64().unwrap() > 1 << 20, "{instance}");
        let group = &instance["groups"][0];
        assert_eq!(group["pid"], pid);
        assert!(group["memoryBytes"].as_u64().unwrap() > 1 << 18, "{group}");
    }
}

/// The report in a page.
fn report_of(page: &str) -> Value {
    let (_, rest) = page.split_once("id=\"data\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn the_page_is_a_private_file_with_the_report_inside() {
    let user = User::new();
    let failing = json!({"command": "sh", "args": ["-c", "echo '</script><img src=x>' >&2; exit 3"],
        "env": {"TOKEN": "no-page-has-this"}});
    let config = pure_config([("g", scripted_upstream(&[])), ("bad", failing)]);
    let mut window = user.window(&config);
    window.connect(["g"]);
    window.call_failure("bad", "x", json!({}));
    status_of(&user, 1);
    let opened = user.host_dir().join("opened");
    let browser = user.host_dir().join("browser");
    fs::write(&browser, format!("#!/bin/sh\necho \"$1\" > {}\n", opened.display())).unwrap();
    fs::set_permissions(&browser, fs::Permissions::from_mode(0o700)).unwrap();
    let run = |args: &[&str]| {
        let mut command = user.program_command();
        let command = command.args(["status", "--html"]).args(args).env("BROWSER", &browser);
        output_of(command.current_dir(user.home.path()))
    };
    let write = |args: &[&str]| PathBuf::from(stdout(run(args)).trim_end());
    let file = write(&["--no-open"]);
    assert_eq!(file, user.host_dir().join("status.html"));
    assert!(!opened.exists());
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let page = fs::read_to_string(&file).unwrap();
    let report = report_of(&page);
    assert_eq!(report["instances"][0]["pid"], window.pid());
    assert!(report.to_string().contains("</script><img src=x>"), "{report}");
    assert!(!page.contains("<img") && !page.contains("no-page-has-this"));
    let named = write(&["named.html"]);
    assert_eq!(named, user.home.path().join("named.html"));
    assert_eq!(fs::metadata(&named).unwrap().permissions().mode() & 0o777, 0o600);
    wait_until("the browser is started", || fs::read_to_string(&opened).is_ok_and(|url| url.ends_with('\n')));
    assert_eq!(fs::read_to_string(&opened).unwrap().trim_end(), format!("file://{}", named.display()));
    std::os::unix::fs::symlink(&named, user.home.path().join("link.html")).unwrap();
    for refused in ["link.html", "/dev/null"] {
        let output = run(&[refused, "--no-open"]);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains("is not a regular file, so no page"), "{error}");
    }
}

#[test]
fn a_client_sees_of_other_windows_only_the_servers_of_its_profile() {
    let user = User::new();
    let config = merged(
        pure_config([("g", scripted_upstream(&[])), ("hidden", scripted_upstream(&[]))]),
        json!({"profiles": {"work": ["g"]}}),
    );
    let file = user.home.path().join("servers.json");
    fs::write(&file, config.to_string()).unwrap();
    // Both windows read the same file.
    let window = |args: &[&str]| {
        let command = ProxyCommand::new().env("XDG_RUNTIME_DIR", user.runtime.path().to_str().unwrap());
        command.args(&["--no-cache", "--config", file.to_str().unwrap()]).args(args)
    };
    let mut all = window(&[]).start_initialized();
    all.connect(["g", "hidden"]);
    let mut work = window(&["--profile", "work"]).start();
    work.handshake_with(
        json!({"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}}),
    );
    status_of(&user, 2);
    let data = work.call_meta_tool("status_data", json!({}))["structuredContent"].take();
    let instances = data["instances"].as_array().unwrap();
    let groups = |pid: u32| {
        let instance = instances.iter().find(|instance| instance["pid"] == pid).unwrap();
        instance["groups"].as_array().unwrap().iter().map(|group| &group["group"]).collect::<Vec<_>>()
    };
    assert_eq!((groups(work.pid()), groups(all.pid())), (vec![&json!("g")], vec![&json!("g")]));
    assert!(!data.to_string().contains("hidden"), "{data}");
}

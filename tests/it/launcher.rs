//! `"launcher": "direct"`: servers of `npx` without `npx`. It is a script here that does with its package what npx does.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::shell::Shell;
use crate::support::{config_of, merged, scripted_upstream_program, wait_until};

/// A value of the config that may be stored nowhere.
const SECRET: &str = "s3cret-v4lue";
/// The package, of which the cache has this version.
const PACKAGE: &str = "@a/scripted@1.2.3";

/// A user with a cache of npm.
struct Npm {
    shell: Shell,
}

impl Npm {
    /// The server `g` is started by this command line of `npx`, and its entry has `more`.
    fn new(args: &[&str], more: Value) -> Self {
        let shell = Shell::new(&Value::Null);
        let npm = Self { shell };
        let write = |path: &str, text: &str| {
            let file = npm.path(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, Permissions::from_mode(0o755)).unwrap();
        };
        let root = npm.path("_npx/0a1b");
        let home = npm.shell.home().display();
        write(
            "bin/npx",
            &format!(
                "#!/bin/sh\nmkdir -p {home}/records\necho x >> {home}/starts\nchmod +x {root}/node_modules/@a/scripted/main\n\
                 shift 2\nPATH={root}/node_modules/.bin:$PATH npm_command=exec npm_config_copied=\"at $TOKEN\" \
                 sh -c \"'scripted' $*; exit \\$?\"\nexit $?\n",
                root = root.display(),
            ),
        );
        // The path of the script follows on the command line.
        let interpreter = format!("#!{} --instructions\n", scripted_upstream_program().display());
        write("_npx/0a1b/node_modules/@a/scripted/main", &interpreter);
        write(
            "_npx/0a1b/node_modules/@a/scripted/package.json",
            r#"{"name": "@a/scripted", "version": "1.2.3"}"#,
        );
        fs::create_dir_all(root.join("node_modules/.bin")).unwrap();
        symlink("../@a/scripted/main", root.join("node_modules/.bin/scripted")).unwrap();
        let record = npm.path("records/g").display().to_string();
        let args = [args, &["--record", &record]].concat();
        let entry = json!({
            "command": npm.path("bin/npx"), "args": args, "env": {"TOKEN": SECRET}
        });
        fs::write(npm.path("servers.json"), config_of([("g", merged(entry, more))]).to_string()).unwrap();
        npm
    }

    fn path(&self, path: &str) -> PathBuf {
        self.shell.home().join(path)
    }

    /// Starts the server, and returns its environment and how often `npx` has run until then.
    fn start(&self) -> (BTreeMap<String, String>, usize) {
        let (code, stdout, stderr) = self.shell.run(&["call", "g", "env"]);
        assert_eq!(code, 0, "{stdout}{stderr}");
        let mut env: BTreeMap<_, _> = serde_json::from_str(&stdout).unwrap();
        // It names the process that started the server.
        assert!(env.remove("DYNAMIC_MCP_OWNER").is_some());
        (env, self.starts())
    }

    fn starts(&self) -> usize {
        fs::read_to_string(self.path("starts")).unwrap().lines().count()
    }

    /// The files of what was learned.
    fn learned(&self) -> Vec<PathBuf> {
        let dir = self.path(".cache/dynamic-mcp/launchers");
        let entries = fs::read_dir(dir).into_iter().flatten().map(|entry| entry.unwrap().path());
        entries.filter(|file| file.extension().is_some_and(|extension| extension == "json")).collect()
    }
}

#[test]
fn a_launcher_is_left_out_once_it_has_shown_what_it_starts() {
    let npm = Npm::new(&["-y", PACKAGE], json!({"launcher": "direct"}));
    let (through_npx, starts) = npm.start();
    assert_eq!(starts, 1);
    assert_eq!(through_npx["npm_config_copied"], format!("at {SECRET}"));
    assert_eq!(npm.start(), (through_npx.clone(), 1));
    let [file] = &*npm.learned() else { panic!("{:?}", npm.learned()) };
    let text = fs::read_to_string(file).unwrap();
    assert!(text.contains("npm_config_copied") && !text.contains(SECRET), "{text}");

    // Another file of the package is another start.
    let json = npm.path("_npx/0a1b/node_modules/@a/scripted/package.json");
    fs::write(json, r#"{"name": "@a/scripted", "version": "1.2.3", "x": 1}"#).unwrap();
    assert_eq!(npm.start(), (through_npx.clone(), 2));
    assert_eq!(npm.start(), (through_npx.clone(), 2));
    // So is another file that npx would read.
    fs::write(npm.path(".npmrc"), "").unwrap();
    assert_eq!(npm.start(), (through_npx, 3));
}

#[test]
fn a_server_that_does_not_start_without_its_launcher_is_started_through_it() {
    let npm = Npm::new(&["-y", PACKAGE], json!({"launcher": "direct"}));
    assert_eq!(npm.start().1, 1);
    assert_eq!(npm.start().1, 1);
    // It cannot be executed.
    let main = npm.path("_npx/0a1b/node_modules/@a/scripted/main");
    fs::set_permissions(main, Permissions::from_mode(0o644)).unwrap();
    assert_eq!(npm.start().1, 2);
    // It starts, and ends at once.
    fs::remove_dir_all(npm.path("records")).unwrap();
    assert_eq!(npm.start().1, 3);
    assert_eq!(npm.start().1, 3);
}

#[test]
fn a_shared_server_starts_without_its_launcher_as_well() {
    // Other tests raise it at some time, and only processes with equal limits share.
    process::warden::raise_nofile();
    let npm = Npm::new(&["-y", PACKAGE], json!({"launcher": "direct", "share": "user"}));
    let pid = || -> u32 {
        let (code, stdout, stderr) = npm.shell.run(&["call", "g", "pid"]);
        assert_eq!(code, 0, "{stderr}");
        stdout.trim().parse().unwrap()
    };
    let through_npx = pid();
    assert_eq!(npm.learned().len(), 1);
    // What is learned changes nothing for a process that runs.
    assert_eq!((pid(), npm.starts()), (through_npx, 1));
    let ended = |pid: u32| wait_until("the server ends", || !PathBuf::from(format!("/proc/{pid}")).exists());
    ended(through_npx);
    let direct = pid();
    assert_eq!((pid(), npm.starts()), (direct, 1));
    assert_ne!(direct, through_npx);
    let parent = fs::read_to_string(format!("/proc/{direct}/stat")).unwrap();
    let parent = parent.rsplit(')').next().unwrap().split_whitespace().nth(1).unwrap().to_owned();
    let parent = fs::read_to_string(format!("/proc/{parent}/comm")).unwrap();
    assert!(parent.starts_with("dmcp"), "{parent}");
    ended(direct);
    // It cannot be executed, so the host starts it as the config has it.
    let main = npm.path("_npx/0a1b/node_modules/@a/scripted/main");
    fs::set_permissions(main, Permissions::from_mode(0o644)).unwrap();
    let again = pid();
    assert_eq!(npm.starts(), 2);
    ended(again);
}

/// Writes a file below the user's home.
fn write(npm: &Npm, path: &str, text: &str) {
    let file = npm.path(path);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
}

/// Each of these files lets npx start another program, or read another registry or cache.
#[test]
fn a_file_that_npx_would_follow_brings_npx_back() {
    let npm = Npm::new(&["-y", PACKAGE], json!({"launcher": "direct"}));
    // A project with packages, which npm has not installed.
    for dir in ["node_modules/@a/scripted", "node_modules/other"] {
        fs::create_dir_all(npm.path(dir)).unwrap();
    }
    let mut starts = 1;
    for (path, text) in [
        (".npmrc", "registry=http://127.0.0.1:9/\n"),
        (".npmrc", "cache=/tmp/of-somebody-else\n"),
        (".npmrc", "prefix=/tmp/of-somebody-else\n"),
        ("package.json", r#"{"bin": {"@a/scripted@1.2.3": "evil"}}"#),
        (
            "node_modules/@a/scripted/package.json",
            r#"{"name": "@a/scripted", "version": "1.2.3", "bin": "evil"}"#,
        ),
        ("node_modules/.bin/@a/scripted@1.2.3", "#!/bin/sh\n"),
        ("node_modules/alias/package.json", r#"{"name": "@a/scripted", "version": "1.2.3", "bin": "evil"}"#),
        ("_npx/0a1b/package.json", "{}"),
        ("_npx/0a1b/node_modules/.package-lock.json", "{}"),
    ] {
        assert_eq!((npm.start().1, npm.start().1), (starts, starts), "before {path}");
        write(&npm, path, text);
        starts += 1;
        assert_eq!(npm.start().1, starts, "{path}: {text}");
    }
}

#[test]
fn a_changed_file_with_its_old_time_and_length_brings_npx_back() {
    let npm = Npm::new(&["-y", PACKAGE], json!({"launcher": "direct"}));
    write(&npm, ".npmrc", "cache=/tmp/a\n");
    assert_eq!((npm.start().1, npm.start().1), (1, 1));
    let file = npm.path(".npmrc");
    let before = fs::metadata(&file).unwrap().modified().unwrap();
    fs::write(&file, "cache=/tmp/b\n").unwrap();
    fs::File::open(&file).unwrap().set_modified(before).unwrap();
    assert_eq!(npm.start().1, 2);
}

/// npx has chosen by files that are no longer there when the server answers.
#[test]
fn what_npx_starts_while_its_files_change_is_not_learned() {
    let npm = Npm::new(&["-y", PACKAGE], json!({"launcher": "direct"}));
    let npx = npm.path("bin/npx");
    let script = fs::read_to_string(&npx).unwrap();
    let rc = npm.path(".npmrc").display().to_string();
    write(&npm, ".npmrc", "cache=/tmp/a\n");
    fs::write(&npx, script.replace("shift 2\n", &format!("shift 2\nrm -f {rc}\n"))).unwrap();
    assert_eq!((npm.start().1, npm.learned()), (1, vec![]));
    // This time, it stays as it was.
    assert_eq!((npm.start().1, npm.start().1), (2, 2));
}

/// The same launch is a different program each time, and only npx knows which.
#[test]
fn a_program_that_is_not_a_file_of_the_package_is_not_learned() {
    let package = "_npx/0a1b/node_modules/@a/scripted";
    let bin = "_npx/0a1b/node_modules/.bin/scripted";
    let description = |version: &str| format!(r#"{{"name": "@a/scripted", "version": "{version}"}}"#);
    type Change<'a> = &'a dyn Fn(&Npm);
    let relink = |npm: &Npm, target: &str| {
        fs::remove_file(npm.path(bin)).unwrap();
        symlink(target, npm.path(bin)).unwrap();
    };
    let changes: [(&str, Change<'_>); 4] = [
        ("`bin` leads out of the package", &|npm| {
            fs::copy(npm.path(package).join("main"), npm.path("evil")).unwrap();
            relink(npm, "../../../../evil");
        }),
        ("`bin` leads to another package of the cache", &|npm| {
            write(npm, "_npx/0a1b/node_modules/evil/package.json", &description("1.2.3"));
            fs::copy(npm.path(package).join("main"), npm.path("_npx/0a1b/node_modules/evil/main")).unwrap();
            relink(npm, "../evil/main");
        }),
        ("the program of the package is a link", &|npm| {
            let main = npm.path(package).join("main");
            fs::rename(&main, npm.path("evil")).unwrap();
            symlink(npm.path("evil"), main).unwrap();
        }),
        ("a folder of another version claims to be this one", &|npm| {
            write(npm, &format!("{package}/package.json"), &description("6.6.6"));
            write(npm, &format!("{package}/dist/package.json"), &description("1.2.3"));
            fs::copy(npm.path(package).join("main"), npm.path(package).join("dist/main")).unwrap();
            relink(npm, "../@a/scripted/dist/main");
        }),
    ];
    for (what, change) in changes {
        let npm = Npm::new(&["-y", PACKAGE], json!({"launcher": "direct"}));
        change(&npm);
        assert_eq!((npm.start().1, npm.start().1), (1, 2), "{what}");
        assert_eq!(npm.learned(), Vec::<PathBuf>::new(), "{what}");
    }
}

/// A link in the cache that leads elsewhere after it was learned.
#[test]
fn a_program_whose_link_leads_elsewhere_brings_npx_back() {
    let npm = Npm::new(&["-y", PACKAGE], json!({"launcher": "direct"}));
    assert_eq!((npm.start().1, npm.start().1), (1, 1));
    let bin = npm.path("_npx/0a1b/node_modules/.bin/scripted");
    fs::copy(npm.path("_npx/0a1b/node_modules/@a/scripted/main"), npm.path("evil")).unwrap();
    fs::remove_file(&bin).unwrap();
    symlink(npm.path("evil"), &bin).unwrap();
    assert_eq!((npm.start().1, npm.start().1), (2, 3));
}

#[test]
fn a_launcher_that_names_no_version_or_is_not_asked_to_go_stays() {
    for (args, more) in [
        (["-y", PACKAGE], json!({})),
        (["-y", PACKAGE], json!({"launcher": "keep"})),
        (["-y", "@a/scripted"], json!({"launcher": "direct"})),
        (["-y", "@a/scripted@1.2.4"], json!({"launcher": "direct"})),
    ] {
        let npm = Npm::new(&args, more);
        assert_eq!(npm.start().1, 1);
        assert_eq!((npm.start().1, npm.learned()), (2, vec![]), "{args:?}");
    }
}

#[test]
fn check_says_what_a_launcher_costs_and_why_it_stays() {
    let checked = |args: &[&str], more: Value| {
        let (code, stdout, stderr) = Npm::new(args, more).shell.run(&["check"]);
        assert_eq!(code, 0, "{stdout}{stderr}");
        stdout
    };
    let kept = checked(&["-y", PACKAGE], json!({}));
    assert!(
        kept.contains("note: `npx` takes ")
            && kept.contains("`\"launcher\": \"direct\"` in its entry saves both\n"),
        "{kept}"
    );
    let unpinned = checked(&["-y", "@a/scripted"], json!({}));
    assert!(!unpinned.contains("launcher"), "{unpinned}");
    // The shell of the launcher changes an argument, so the server has to be started through both.
    let changed = checked(&["-y", PACKAGE, "--name", "$HOME"], json!({}));
    assert!(!changed.contains("launcher"), "{changed}");
    let without = checked(&["-y", "@a/scripted"], json!({"launcher": "direct"}));
    assert!(
        without.contains("note: `launcher` has no effect, because no exact version is named"),
        "{without}"
    );
    let npm = Npm::new(&["-y", PACKAGE], json!({"launcher": "direct"}));
    for expected in
        ["started through `npx` this time; the next start needs it no more", "started without `npx`"]
    {
        let (_, stdout, _) = npm.shell.run(&["check"]);
        assert!(stdout.contains(&format!("note: {expected}\n")), "{stdout}");
    }
}

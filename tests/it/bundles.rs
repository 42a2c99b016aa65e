//! `dynamic-mcp add FILE.mcpb`: bundles that the tests pack, as `mcpb pack` does.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::shell::{Outcome, Shell};
use crate::support::{output_of, scripted_upstream};

/// A user without a config.
fn user() -> Shell {
    let shell = Shell::new(&json!({}));
    fs::remove_file(shell.home().join("servers.json")).unwrap();
    shell
}

/// Runs a command with the user's own config.
fn run(shell: &Shell, args: &[&str]) -> Outcome {
    let output = output_of(&mut shell.plain_command(args));
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn data_dir(shell: &Shell) -> PathBuf {
    let dir = if cfg!(windows) { "AppData/Local" } else { ".local/share" };
    shell.home().join(dir).join("dynamic-mcp/bundles")
}

fn servers(shell: &Shell) -> Value {
    let dir = if cfg!(windows) { "AppData/Roaming" } else { ".config" };
    let text = fs::read_to_string(shell.home().join(dir).join("dynamic-mcp/servers.json")).unwrap();
    serde_json::from_str::<Value>(&text).unwrap()["mcpServers"].take()
}

/// What is unpacked.
fn unpacked(shell: &Shell) -> Vec<PathBuf> {
    let dirs = fs::read_dir(data_dir(shell)).into_iter().flatten();
    dirs.map(|dir| dir.unwrap().path()).collect()
}

/// The manifest of a bundle whose server is the scripted upstream.
fn manifest(version: &str) -> Value {
    let upstream = scripted_upstream(&[]);
    let text = |title: &str| json!({"type": "string", "title": title, "description": "any"});
    let mut folders = text("Folders");
    folders["type"] = "directory".into();
    (folders["multiple"], folders["required"]) = (true.into(), true.into());
    let mut level = text("Level");
    level["default"] = "low".into();
    json!({
        "manifest_version": "0.3", "name": "notes", "version": version, "description": "Keeps notes.\nOf all kinds.",
        "author": {"name": "Brindle"}, "user_config": {"folders": folders, "level": level},
        "server": {"type": "binary", "entry_point": "server/main", "mcp_config": {
            "command": upstream["command"], "env": {"LEVEL": "${user_config.level}", "DIR": "${__dirname}"}, "args": [],
        }},
    })
}

fn pack(shell: &Shell, manifest: &Value, files: impl FnOnce(&mut ZipWriter<File>)) {
    let mut zip = ZipWriter::new(File::create(shell.home().join("notes.mcpb")).unwrap());
    zip.start_file("manifest.json", SimpleFileOptions::default()).unwrap();
    zip.write_all(manifest.to_string().as_bytes()).unwrap();
    files(&mut zip);
    zip.finish().unwrap();
}

fn add_file(zip: &mut ZipWriter<File>, name: &str, mode: u32) {
    zip.start_file(name, SimpleFileOptions::default().unix_permissions(mode)).unwrap();
    zip.write_all(b"#!/bin/sh\n").unwrap();
}

#[test]
fn a_bundle_is_added_updated_and_removed() {
    let shell = user();
    pack(&shell, &manifest("1"), |zip| {
        zip.add_directory("server", SimpleFileOptions::default()).unwrap();
        add_file(zip, "server/main", 0o755);
        add_file(zip, "README.md", 0o644);
    });
    let add = |more: &[&str]| run(&shell, &[&["add", "notes.mcpb"], more].concat());
    let (code, stdout, stderr) = add(&["--set", "folders=docs", "--env", "MORE=1"]);
    assert_eq!((code, &*stderr), (0, ""), "{stdout}");
    assert!(
        stdout.starts_with("notes: added to ") && stdout.contains("`dynamic-mcp check notes`"),
        "{stdout}"
    );
    let [first] = &unpacked(&shell)[..] else { panic!("{:?}", unpacked(&shell)) };
    let entry = servers(&shell)["notes"].clone();
    assert_eq!(entry["description"], "Keeps notes. Of all kinds.");
    assert_eq!((&entry["env"]["LEVEL"], &entry["env"]["MORE"]), (&json!("low"), &json!("1")));
    assert_eq!(Path::new(entry["env"]["DIR"].as_str().unwrap()), first.join("files"));
    assert!(first.join("files/server/main").is_file());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |name: &str| first.join(name).metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!([mode(""), mode("files/server/main"), mode("files/README.md")], [0o700, 0o700, 0o600]);
    }
    let (code, stdout, stderr) = run(&shell, &["call", "notes", "env", "{}"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains(r#""LEVEL":"low""#), "{stdout}");

    // The values and what the user added stay; what the new version brings counts.
    let mut second = manifest("2");
    second["server"]["mcp_config"]["env"]["NEW"] = "${user_config.folders}".into();
    second["server"]["mcp_config"]["args"] = json!(["${user_config.folders}"]);
    pack(&shell, &second, |zip| add_file(zip, "server/main", 0o755));
    let (code, _, stderr) = add(&["--set", "level=high"]);
    assert_eq!((code, &*stderr), (0, ""));
    assert!(!first.exists() && unpacked(&shell).len() == 1, "{:?}", unpacked(&shell));
    let entry = servers(&shell)["notes"].clone();
    let folder = Path::new(entry["args"][0].as_str().unwrap());
    assert!(folder.is_absolute() && folder.ends_with("docs"), "{entry}");
    assert_eq!((&entry["env"]["LEVEL"], &entry["env"]["MORE"]), (&json!("high"), &json!("1")));

    // Another bundle of the same name gets none of that.
    second["author"]["name"] = "Mallory".into();
    pack(&shell, &second, |_| {});
    let (code, _, stderr) = add(&[]);
    assert!(
        code == 2 && stderr.contains("notes is another server already; choose a name with --name"),
        "{stderr}"
    );
    let (code, _, stderr) = add(&["--name", "others", "--set", "folders=docs"]);
    assert_eq!((code, unpacked(&shell).len()), (0, 2), "{stderr}");
    let (code, _, stderr) = run(&shell, &["remove", "notes", "others"]);
    assert_eq!((code, &*stderr, unpacked(&shell).len()), (0, "", 0));
    assert_eq!(servers(&shell), json!({}));

    // An entry that was removed by hand leaves its files, which the next one replaces.
    assert_eq!(add(&["--set", "folders=docs"]).0, 0);
    let file = shell.home().join(if cfg!(windows) { "AppData/Roaming" } else { ".config" });
    fs::write(file.join("dynamic-mcp/servers.json"), "{}").unwrap();
    assert_eq!(add(&[]).0, 0);
    assert_eq!(unpacked(&shell).len(), 1);
}

#[test]
fn what_is_wrong_with_a_bundle_or_a_value_changes_nothing() {
    let shell = user();
    let refused = |args: &[&str], why: &str| {
        let (code, stdout, stderr) = run(&shell, &[&["add", "notes.mcpb"], args].concat());
        assert!(code != 0 && stderr.contains(why), "{why}: {code} {stdout}{stderr}");
        assert_eq!(unpacked(&shell), Vec::<PathBuf>::new(), "{why}");
    };
    let folders = ["--set", "folders=docs"];
    refused(&[], "notes.mcpb: it cannot be read: ");
    fs::write(shell.home().join("notes.mcpb"), "no zip").unwrap();
    refused(&[], "notes.mcpb: it is no bundle: ");
    let pack_with = |change: fn(&mut Value)| {
        let mut manifest = manifest("1");
        change(&mut manifest);
        pack(&shell, &manifest, |_| {});
    };
    pack_with(|_| {});
    refused(&[], "notes needs values: run this at a terminal, or add --set folders=VALUE");
    refused(&["--set", "nothing=1"], "write --set KEY=VALUE; the settings of the bundle are folders, level");
    refused(&["--set", "folders=docs", "--name", "dynamic-mcp"], "choose another one with --name");
    pack_with(|manifest| manifest["user_config"]["level"]["type"] = "number".into());
    refused(&["--set", "folders=docs", "--set", "level=high"], "level: expected a number");
    pack_with(|manifest| manifest["user_config"] = json!([]));
    refused(&folders, "manifest.json is no manifest of a bundle: invalid type: sequence");
    pack_with(|manifest| manifest["server"]["entry_point"] = "../../x".into());
    refused(&folders, "its entry_point \"../../x\" leads out of its directory");
    pack_with(|manifest| manifest["compatibility"] = json!({"platforms": ["plan9"]}));
    refused(&folders, "it runs only on \"plan9\"");
    pack_with(|manifest| manifest["description"] = "\0keyring".into());
    refused(&folders, "manifest.json has a text with a NUL character");
}

#[test]
fn files_that_would_be_elsewhere_or_hide_one_another_are_refused() {
    let shell = user();
    type Attack = fn(&mut ZipWriter<File>);
    let attacks: [(&str, Attack); 9] = [
        ("../../outside", |zip| add_file(zip, "../../outside", 0o644)),
        ("/tmp/outside", |zip| add_file(zip, "/tmp/outside", 0o644)),
        ("server/../../outside", |zip| add_file(zip, "server/../../outside", 0o644)),
        ("..\\\\outside", |zip| add_file(zip, "..\\outside", 0o644)),
        ("C:/outside", |zip| add_file(zip, "C:/outside", 0o644)),
        ("server/aux.js", |zip| add_file(zip, "server/aux.js", 0o644)),
        ("\"link\" is a link or a device", |zip| {
            zip.add_symlink("link", "/etc", SimpleFileOptions::default()).unwrap();
        }),
        ("\"MANIFEST.json\" differs from another one only in upper and lower case", |zip| {
            add_file(zip, "MANIFEST.json", 0o644);
        }),
        ("manifest.json/x", |zip| add_file(zip, "manifest.json/x", 0o644)),
    ];
    for (why, attack) in attacks {
        pack(&shell, &manifest("1"), attack);
        let (code, _, stderr) = run(&shell, &["add", "notes.mcpb", "--set", "folders=docs"]);
        assert!(code == 1 && stderr.contains(why), "{why}: {code} {stderr}");
        assert_eq!(unpacked(&shell), Vec::<PathBuf>::new(), "{why}");
    }
    assert!(!shell.home().join("outside").exists() && !Path::new("/tmp/outside").exists());
}

/// What Enter means: the default of a required setting, and nothing for others.
#[cfg(unix)]
#[test]
fn settings_are_asked_for_at_a_terminal() {
    let shell = user();
    let mut bundle = manifest("1");
    bundle["user_config"]["level"]["title"] = "Level \u{1b}[2J".into();
    bundle["user_config"]["folders"]["default"] = json!(["${HOME}/Desktop", "/b"]);
    bundle["server"]["mcp_config"]["args"] = json!(["${user_config.folders}"]);
    pack(&shell, &bundle, |_| {});
    let (code, shown) = crate::shell::at_terminal(shell.plain_command(&["add", "notes.mcpb"]), "\nhigh\n");
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("Folders (any) [${HOME}/Desktop:/b]: "), "{shown}");
    assert!(!shown.contains("\u{1b}[2J") && shown.contains("Level \\u{1b}[2J"), "{shown}");
    let entry = servers(&shell)["notes"].clone();
    assert_eq!(entry["args"], json!([shell.home().join("Desktop"), "/b"]));
    assert_eq!(entry["env"]["LEVEL"], "high");
}

// It has a keyring on a D-Bus.
#[cfg(all(unix, not(target_os = "macos")))]
#[test]
fn secrets_of_a_bundle_are_in_the_keyring_and_in_no_file() {
    use std::io::Read;

    let Some(desktop) = crate::oauth::keyring::Desktop::start() else { return };
    let shell = user();
    let with_keyring = |args: &[&str]| {
        let mut command = shell.plain_command(args);
        command.envs(desktop.shell_env());
        command
    };
    let run = |args: &[&str]| {
        let output = output_of(&mut with_keyring(args));
        let text = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        (output.status.code().unwrap(), text)
    };
    let mut bundle = manifest("1");
    bundle["user_config"] = json!({"api key": {"type": "string", "title": "Key", "description": "Yours", "sensitive": true, "required": true}});
    bundle["server"]["mcp_config"]["env"] = json!({"TOKEN": "Bearer ${user_config.api key}"});
    pack(&shell, &bundle, |_| {});
    let (code, shown) = run(&["add", "notes.mcpb", "--set", "api key=s3cret-one", "--config", "other.json"]);
    assert!(
        code == 2 && shown.contains("api key is a secret, which only your own servers.json can name"),
        "{shown}"
    );
    let terminal = nix::pty::openpty(None, None).unwrap();
    let mut child = with_keyring(&["add", "notes.mcpb"]).stdin(terminal.slave).spawn().unwrap();
    // The terminal is silent when the question is shown.
    let mut question = [0; "Key (Yours) (not shown): ".len()];
    child.stderr.take().unwrap().read_exact(&mut question).unwrap();
    assert_eq!(&question, b"Key (Yours) (not shown): ");
    File::from(terminal.master).write_all(b"s3cret-typed\n").unwrap();
    assert!(crate::support::wait_for_child(&mut child).success());
    assert_eq!(servers(&shell)["notes"]["env"]["TOKEN"], "Bearer {keyring:notes-api_key}");
    assert!(desktop.entries().contains("secret = s3cret-typed\n"), "{}", desktop.entries());
    // An update keeps it, and another value takes its place.
    assert_eq!(run(&["add", "notes.mcpb"]).0, 0);
    assert!(desktop.entries().contains("secret = s3cret-typed\n"));
    assert_eq!(run(&["add", "notes.mcpb", "--set", "api key=s3cret-two"]).0, 0);
    let (entries, [dir]) = (desktop.entries(), &unpacked(&shell)[..]) else { panic!() };
    assert!(entries.contains("secret = s3cret-two\n") && !entries.contains("s3cret-typed"), "{entries}");
    assert!(!fs::read_to_string(dir.join("bundle.json")).unwrap().contains("s3cret"));
    let (code, shown) = run(&["remove", "notes"]);
    assert!(code == 0 && shown.contains("`dynamic-mcp secret remove notes-api_key` removes it"), "{shown}");
    // An argument is visible to every user of the machine.
    bundle["server"]["mcp_config"]["args"] = json!(["--key=${user_config.api key}"]);
    pack(&shell, &bundle, |_| {});
    let (code, shown) = run(&["add", "notes.mcpb", "--set", "api key=s3cret-three"]);
    assert!(
        code == 1 && shown.contains("passes a secret as an argument") && !shown.contains("s3cret"),
        "{shown}"
    );
}

//! What a user has who leaves: the servers in the clients' files, and nothing else.

#[cfg(unix)]
use std::fs;
#[cfg(unix)]
use std::path::Path;
#[cfg(unix)]
use std::process::Command;

use serde_json::json;

use super::Home;

/// The files of three clients whose forms differ, and one server in each.
fn home_with_three_clients() -> Home {
    let home = Home::empty();
    home.write(".config/Code/User/mcp.json", r#"{"servers": {"a": {"type": "stdio", "command": "a"}}}"#);
    home.write(".config/opencode/opencode.json", r#"{"mcp": {"b": {"type": "local", "command": ["b"]}}}"#);
    home.write(".codex/config.toml", "[mcp_servers.c]\ncommand = \"c\"\n");
    home
}

#[test]
fn undo_names_the_clients_to_restart_and_the_servers_that_none_has() {
    let home = home_with_three_clients();
    home.imported(&["--yes", "--write-client"]);
    let file = ".config/dynamic-mcp/servers.json";
    let mut config: serde_json::Value = serde_json::from_str(&home.text(file)).unwrap();
    config["mcpServers"]["late"] = json!({"command": "late", "env": {"LATE_TOKEN": "s3cret-0123456789"}});
    config["mcpServers"]["docs"] = json!({"url": "https://docs.example.com/mcp"});
    home.write(file, &config.to_string());
    let line = "Only in ~/.config/dynamic-mcp/servers.json, where they stay, and in no client: late, docs.\n";
    let planned = home.imported(&["--undo", "--dry-run"]);
    assert!(planned.starts_with(line) && planned.ends_with("Nothing was written.\n"), "{planned}");
    let (code, shown) = home.undone();
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.starts_with(line), "{shown}");
    assert!(shown.ends_with("Done. Restart Codex, OpenCode, VS Code.\n"), "{shown}");
    assert!(!shown.contains("s3cret"), "{shown}");
}

#[test]
fn servers_that_came_from_clients_or_that_one_has_are_not_printed() {
    let home = home_with_three_clients();
    home.imported(&["--yes", "--write-client"]);
    let changed =
        home.text(".codex/config.toml") + "\n[mcp_servers.mine]\ncommand = \"mine\"\nargs = [\"$5\"]\n";
    home.write(".codex/config.toml", &changed);
    let file = ".config/dynamic-mcp/servers.json";
    let mut config: serde_json::Value = serde_json::from_str(&home.text(file)).unwrap();
    config["mcpServers"]["same-as-mine"] = json!({"command": "mine", "args": ["$$5"]});
    home.write(file, &config.to_string());
    let (code, shown) = home.undone();
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("Restart ") && !shown.contains("in no client:"), "{shown}");
}

/// The commands of the page.
#[cfg(unix)]
fn removal() -> String {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/install.md")).unwrap();
    let fences = page.split("```sh").skip(1).map(|rest| rest.split("```").next().unwrap());
    let block = fences.filter(|block| block.contains("rm -rf")).collect::<Vec<_>>();
    let [block] = block[..] else { panic!("{block:?}") };
    block.lines().skip(1).map(|line| format!("{}\n", line.trim())).collect()
}

/// Runs the commands of the page with `sh`. What is in `/tmp` for all users is looked for in the home directory.
#[cfg(unix)]
fn run_removal(home: &Home, variables: &[(&str, &Path)]) {
    let commands = removal();
    assert!(commands.contains(" \"/tmp/dynamic-mcp-$(id -u)\""), "{commands}");
    let commands = commands.replace("/tmp/", &format!("{}/tmp/", home.path().display()));
    let mut shell = Command::new("/bin/sh");
    shell.args(["-euc", &commands]).env_clear().env("HOME", home.path()).env("PATH", "/usr/bin:/bin");
    let output = shell.envs(variables.iter().copied()).current_dir(home.path()).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[cfg(unix)]
#[test]
fn the_removal_of_the_page_leaves_nothing() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::empty();
    run_removal(&home, &[]);
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0, "and it works where nothing ever was");
    for with_variables in [false, true] {
        let home = home_with_three_clients();
        let before = home.client_files();
        let dirs = ["config dir", "cache", "state", "data", "run"].map(|name| home.path().join(name));
        let names =
            ["XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"];
        let variables: Vec<_> = names.into_iter().zip(dirs.iter().map(|dir| &**dir)).collect();
        let variables = if with_variables { &variables[..] } else { &[] };
        if with_variables {
            dirs.iter().for_each(|dir| fs::create_dir(dir).unwrap());
            // Where these are, then.
            for (from, to) in
                [(".config/opencode", "config dir/opencode"), (".config/Code", "config dir/Code")]
            {
                fs::rename(home.file(from), home.path().join(to)).unwrap();
            }
        }
        let run = |args: &[&str]| {
            let mut command = home.command(args);
            let output = command.envs(variables.iter().copied()).output().unwrap();
            assert!(output.status.success(), "{output:?}");
        };
        run(&["--yes", "--write-client"]);
        let runtime = home.path().join(if with_variables { "run/dynamic-mcp" } else { "tmp/dynamic-mcp-0" });
        let uid = nix::unistd::geteuid().to_string();
        let runtime =
            runtime.with_file_name(runtime.file_name().unwrap().to_str().unwrap().replace('0', &uid));
        fs::create_dir_all(&runtime).unwrap();
        fs::set_permissions(&runtime, fs::Permissions::from_mode(0o700)).unwrap();
        run(&["--undo", "--yes"]);
        run_removal(&home, variables);
        let mut left = Vec::new();
        super::walk(home.path(), &mut |path| left.push(path.to_owned()));
        assert_eq!(left.len(), before.len(), "{left:?}");
        let output = Command::new("find").arg(home.path()).args(["-name", "*dynamic-mcp*"]).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "");
    }
}

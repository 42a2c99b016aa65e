use std::fs;

use super::*;
use crate::config::{InheritEnv, StdioConfig};

fn ambient(vars: &[(&str, &str)], cwd: &Path) -> ProcessEnv {
    let vars = vars.iter().map(|(name, value)| (name.into(), value.into())).collect();
    ProcessEnv { vars, cwd: cwd.to_owned() }
}

fn stdio(command: &str) -> StdioConfig {
    StdioConfig {
        command: command.to_owned(),
        args: Vec::new(),
        env: BTreeMap::new(),
        cwd: None,
        inherit_env: InheritEnv::Safe,
    }
}

/// A file that can be run, in a directory made for it.
fn tool(dir: &Path, name: &str) -> PathBuf {
    let file = dir.join(name);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "#!/bin/sh\n").unwrap();
    #[cfg(unix)]
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    file
}

fn names(env: &[(OsString, OsString)]) -> Vec<&str> {
    env.iter().map(|(name, _)| name.to_str().unwrap()).collect()
}

const EVERYTHING: &[(&str, &str)] = &[
    ("AWS_SECRET_ACCESS_KEY", "canary"),
    ("DYNAMIC_MCP_LOG", "debug"),
    ("HOME", "/home/me"),
    ("LC_ALL", "C"),
    ("PATH", "/opt/tools:/usr/bin"),
    ("XDG_CONFIG_HOME", "/x"),
    ("http_proxy", "p"),
];

#[test]
fn a_child_gets_the_safe_variables_only() {
    let dir = tempfile::tempdir().unwrap();
    let mut stdio = stdio(tool(dir.path(), "server").to_str().unwrap());
    let ambient = ambient(EVERYTHING, dir.path());
    let safe = ["HOME", "LC_ALL", "PATH", "XDG_CONFIG_HOME", "http_proxy"];
    assert_eq!(names(&look_up(&stdio, &ambient, None).unwrap().env), safe);

    stdio.inherit_env = InheritEnv::Named(vec!["AWS_SECRET_ACCESS_KEY".into(), "DYNAMIC_MCP_LOG".into()]);
    let named = look_up(&stdio, &ambient, None).unwrap().env;
    assert_eq!(names(&named), [&["AWS_SECRET_ACCESS_KEY"], &safe[..]].concat());

    stdio.inherit_env = InheritEnv::All;
    assert_eq!(look_up(&stdio, &ambient, None).unwrap().env, named);
}

#[test]
fn the_entrys_own_variables_win() {
    let dir = tempfile::tempdir().unwrap();
    let mut stdio = stdio(tool(dir.path(), "server").to_str().unwrap());
    stdio.env = BTreeMap::from([("HOME".into(), "/other".into()), ("DYNAMIC_MCP_LOG".into(), "info".into())]);
    let launch = look_up(&stdio, &ambient(EVERYTHING, dir.path()), None).unwrap();
    assert!(launch.env.contains(&("HOME".into(), "/other".into())));
    assert!(launch.env.contains(&("DYNAMIC_MCP_LOG".into(), "info".into())));
}

#[test]
fn the_directory_is_the_entrys_then_ours_then_home() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    fs::create_dir_all(home.join("sub")).unwrap();
    let vars = [("HOME", home.to_str().unwrap())];
    let of = |ours: &Path, entry: Option<&str>| {
        let stdio = StdioConfig { cwd: entry.map(PathBuf::from), ..stdio("x") };
        cwd(&stdio, &ambient(&vars, ours))
    };
    assert_eq!(of(dir.path(), None).unwrap(), dir.path());
    assert_eq!(of(Path::new("/"), None).unwrap(), home);
    assert_eq!(of(dir.path(), Some("home")).unwrap(), home);
    assert_eq!(of(dir.path(), Some("~/sub")).unwrap(), home.join("sub"));
    let missing = of(dir.path(), Some("nowhere")).unwrap_err();
    assert!(matches!(&missing, LaunchError::Cwd { source, .. } if source.kind() == io::ErrorKind::NotFound));
    assert!(missing.to_string().contains("nowhere"), "{missing}");
}

#[test]
fn a_bare_command_is_searched_on_the_childs_path() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (tool(dir.path(), "one/server"), tool(dir.path(), "two/server"));
    let path = |file: &Path| file.parent().unwrap().to_str().unwrap().to_owned();
    let (first, second) = (path(&one), path(&two));
    let ambient = ambient(&[("PATH", &first)], dir.path());
    let mut stdio = stdio("server");
    assert_eq!(look_up(&stdio, &ambient, None).unwrap().program, one);
    stdio.env.insert("PATH".into(), second);
    assert_eq!(look_up(&stdio, &ambient, None).unwrap().program, two);
}

#[test]
fn a_command_with_a_slash_starts_at_the_directory_or_home() {
    let dir = tempfile::tempdir().unwrap();
    let (server, mine) = (tool(dir.path(), "sub/bin/server"), tool(dir.path(), "home/mine"));
    let home = mine.parent().unwrap().to_str().unwrap();
    let ambient = ambient(&[("HOME", home), ("PATH", "/bin")], dir.path());
    let of =
        |command: &str| look_up(&StdioConfig { cwd: Some("sub".into()), ..stdio(command) }, &ambient, None);
    for relative in ["bin/server", "./bin/server"] {
        assert_eq!(
            fs::canonicalize(of(relative).unwrap().program).unwrap(),
            fs::canonicalize(&server).unwrap()
        );
    }
    assert_eq!(of("~/mine").unwrap().program, mine);
    assert!(matches!(of("./server"), Err(LaunchError::NoSuchFile { .. })));
    assert!(matches!(of("./bin"), Err(LaunchError::NotExecutable { .. })));
}

#[cfg(unix)]
#[test]
fn not_found_says_where_it_was_searched_and_where_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let found = tool(dir.path(), ".local/bin/only-here");
    let home = dir.path().to_str().unwrap();
    let ambient = ambient(&[("HOME", home), ("PATH", "/one:/two")], dir.path());
    let error = look_up(&stdio("only-here"), &ambient, None).unwrap_err();
    let said = format!(
        "command \"only-here\" not found in PATH (/one:/two); it is at {found:?}: \
         write this absolute path as \"command\""
    );
    assert_eq!(error.to_string(), said);
    let error = look_up(&stdio("no-such-thing -y"), &ambient, None).unwrap_err();
    assert!(error.to_string().ends_with("; if it holds arguments, move them to \"args\""), "{error}");
}

#[cfg(unix)]
#[test]
fn a_file_that_is_not_executable_is_named() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("script"), "").unwrap();
    let ambient = ambient(&[("PATH", dir.path().to_str().unwrap())], dir.path());
    let error = look_up(&stdio("script"), &ambient, None).unwrap_err();
    assert!(matches!(error, LaunchError::NotExecutable { path } if path == dir.path().join("script")));
}

#[cfg(unix)]
#[test]
fn a_poor_path_is_enriched_and_a_given_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let npx = tool(dir.path(), ".nvm/versions/node/v24.9.0/bin/node-only");
    tool(dir.path(), ".nvm/versions/node/v9.1.0/bin/node-only");
    tool(dir.path(), "tools/of-login");
    let home = dir.path().to_str().unwrap();
    let login = OsString::from(format!("{home}/tools:$PATH:/usr/bin"));
    let poor = ambient(&[("HOME", home), ("PATH", "/usr/bin:/bin")], dir.path());
    assert!(look_up(&stdio("of-login"), &poor, Some(&login)).is_ok());
    let launch = look_up(&stdio("node-only"), &poor, Some(&login)).unwrap();
    assert_eq!(launch.program, npx);
    let path = PathList::of(&launch.env.iter().find(|(name, _)| name == "PATH").unwrap().1);
    assert_eq!(path.0[..3], [dir.path().join("tools"), "/usr/bin".into(), "/bin".into()]);
    assert_eq!(path.0.iter().filter(|dir| *dir == Path::new("/usr/bin")).count(), 1);

    let mut given = stdio("node-only");
    given.env.insert("PATH".into(), "/usr/bin".into());
    assert!(matches!(look_up(&given, &poor, Some(&login)), Err(LaunchError::NotFound { .. })));
    let rich = ambient(&[("HOME", home), ("PATH", "/usr/bin:/opt/some")], dir.path());
    assert!(matches!(look_up(&stdio("node-only"), &rich, Some(&login)), Err(LaunchError::NotFound { .. })));
    let none = ambient(&[("HOME", home)], dir.path());
    assert!(look_up(&stdio("sh"), &none, None).is_ok());
}

#[test]
fn withheld_variables_are_named_if_stderr_mentions_them() {
    let vars = [("GITHUB_TOKEN", "x"), ("TOKEN", "x"), ("HOME", "/"), ("PWD", "/"), ("DYNAMIC_MCP_LOG", "x")];
    let ambient = ambient(&vars, Path::new("/"));
    let tail = "Error: GITHUB_TOKEN, HOME, PWD and DYNAMIC_MCP_LOG must be set";
    let mut stdio = stdio("x");
    assert_eq!(withheld(&ambient, &stdio, tail), ["GITHUB_TOKEN"]);
    stdio.inherit_env = InheritEnv::Named(vec!["GITHUB_TOKEN".into()]);
    assert!(withheld(&ambient, &stdio, tail).is_empty());
}

#[tokio::test]
async fn neither_errors_nor_debug_repeat_a_value() {
    let dir = tempfile::tempdir().unwrap();
    let mut stdio = stdio("no-such-command");
    stdio.env.insert("KEY".into(), "canary".into());
    stdio.args.push("--token=canary".into());
    let mut ambient = ambient(EVERYTHING, dir.path());
    let error = prepare(&stdio, &ambient).await.unwrap_err();
    stdio.command = tool(dir.path(), "server").to_str().unwrap().to_owned();
    ambient.vars.insert("OTHER".into(), "canary".into());
    let launch = prepare(&stdio, &ambient).await.unwrap();
    assert!(!format!("{error} {error:?} {ambient:?} {launch:?}").contains("canary"));
}

use std::collections::BTreeMap;
use std::fs;

#[cfg(unix)]
use super::command_advice::advice;
use super::*;
use config::InheritEnv;

fn process_env(vars: &[(&str, &str)], cwd: &Path) -> Env {
    Env::new(vars.iter().copied(), cwd)
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

/// Creates an executable file and its directory.
fn executable(dir: &Path, name: &str) -> PathBuf {
    let file = dir.join(name).with_extension(std::env::consts::EXE_EXTENSION);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "#!/bin/sh\n").unwrap();
    #[cfg(unix)]
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    file
}

fn var_names(env: &[(OsString, OsString)]) -> Vec<&str> {
    env.iter().map(|(name, _)| name.to_str().unwrap()).collect()
}

const MIXED_VARS: &[(&str, &str)] = &[
    ("AWS_SECRET_ACCESS_KEY", "canary"),
    ("DYNAMIC_MCP_LOG", "debug"),
    ("HOME", "/home/me"),
    ("LC_ALL", "C"),
    ("NPM_CONFIG_REGISTRY", "https://user:canary@npm.example.com/"),
    ("PATH", "/opt/tools:/usr/bin"),
    ("UV_CACHE_DIR", "/u"),
    ("XDG_CONFIG_HOME", "/x"),
    ("http_proxy", "p"),
];

#[test]
fn a_child_gets_the_safe_variables_only() {
    let dir = tempfile::tempdir().unwrap();
    let mut stdio = stdio(executable(dir.path(), "server").to_str().unwrap());
    // What only the client knows is for those that name it.
    let vars = [MIXED_VARS, &[("DYN_API_KEY", "of-another-server")]].concat();
    let process_env = process_env(&vars, dir.path());
    let safe = ["HOME", "LC_ALL", "PATH", "UV_CACHE_DIR", "XDG_CONFIG_HOME", "http_proxy"];
    assert_eq!(var_names(&prepare_blocking(&stdio, &process_env, None).unwrap().env), safe);

    stdio.inherit_env = InheritEnv::Named(vec!["AWS_SECRET_ACCESS_KEY".into(), "DYNAMIC_MCP_LOG".into()]);
    let named = prepare_blocking(&stdio, &process_env, None).unwrap().env;
    assert_eq!(var_names(&named), [&["AWS_SECRET_ACCESS_KEY"], &safe[..]].concat());

    stdio.inherit_env = InheritEnv::All;
    let all = prepare_blocking(&stdio, &process_env, None).unwrap().env;
    assert!(var_names(&all).contains(&"NPM_CONFIG_REGISTRY") && all.len() == named.len() + 1);
}

#[test]
fn the_entrys_own_variables_take_precedence() {
    let dir = tempfile::tempdir().unwrap();
    let mut stdio = stdio(executable(dir.path(), "server").to_str().unwrap());
    stdio.env = BTreeMap::from([("HOME".into(), "/other".into()), ("DYNAMIC_MCP_LOG".into(), "info".into())]);
    let launch = prepare_blocking(&stdio, &process_env(MIXED_VARS, dir.path()), None).unwrap();
    assert!(launch.env.contains(&("HOME".into(), "/other".into())));
    assert!(launch.env.contains(&("DYNAMIC_MCP_LOG".into(), "info".into())));
}

#[test]
fn the_working_directory_is_the_entrys_then_ours_then_home() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    fs::create_dir_all(home.join("sub")).unwrap();
    let vars = [("HOME", home.to_str().unwrap())];
    let working_dir = |own_cwd: &Path, entry: Option<&str>| {
        let stdio = StdioConfig { cwd: entry.map(PathBuf::from), ..stdio("x") };
        usable_working_dir(&stdio, &process_env(&vars, own_cwd))
    };
    assert_eq!(working_dir(dir.path(), None).unwrap(), dir.path());
    assert_eq!(working_dir(Path::new("/"), None).unwrap(), home);
    assert_eq!(working_dir(dir.path(), Some("home")).unwrap(), home);
    assert_eq!(working_dir(dir.path(), Some("~/sub")).unwrap(), home.join("sub"));
    let missing = working_dir(dir.path(), Some("nowhere")).unwrap_err();
    assert!(matches!(&missing, LaunchError::Cwd { reason, .. } if reason.kind() == io::ErrorKind::NotFound));
    assert!(missing.to_string().contains("nowhere"), "{missing}");
}

#[test]
fn a_bare_command_is_searched_on_the_childs_path() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (executable(dir.path(), "one/server"), executable(dir.path(), "two/server"));
    let path = |file: &Path| file.parent().unwrap().to_str().unwrap().to_owned();
    let (first, second) = (path(&one), path(&two));
    let process_env = process_env(&[("PATH", &first)], dir.path());
    let mut stdio = stdio("server");
    assert_eq!(prepare_blocking(&stdio, &process_env, None).unwrap().program, one);
    stdio.env.insert("PATH".into(), second);
    assert_eq!(prepare_blocking(&stdio, &process_env, None).unwrap().program, two);
}

#[test]
fn a_command_with_a_slash_is_relative_to_the_working_directory_or_home() {
    let dir = tempfile::tempdir().unwrap();
    let (server, mine) = (executable(dir.path(), "sub/bin/server"), executable(dir.path(), "home/mine"));
    let home = mine.parent().unwrap().to_str().unwrap();
    let process_env = process_env(&[("HOME", home), ("PATH", "/bin")], dir.path());
    let resolve = |command: &str| {
        prepare_blocking(&StdioConfig { cwd: Some("sub".into()), ..stdio(command) }, &process_env, None)
    };
    for relative in ["bin/server", "./bin/server"] {
        assert_eq!(
            fs::canonicalize(resolve(relative).unwrap().program).unwrap(),
            fs::canonicalize(&server).unwrap()
        );
    }
    assert_eq!(resolve("~/mine").unwrap().program, mine);
    assert!(matches!(resolve("./server"), Err(LaunchError::NoSuchFile { .. })));
    assert!(matches!(resolve("./bin"), Err(LaunchError::Directory { .. })));
}

#[cfg(unix)]
#[test]
fn launchers_that_are_missing_or_misspelled_are_named() {
    for (command, expected) in [
        (
            "uvx",
            "install it (uv, https://docs.astral.sh/uv has it), or write its absolute path as \"command\"",
        ),
        ("pyhton3", "did you mean \"python3\"? install it, or write its absolute path as \"command\""),
        ("my-server", "install it, or write its absolute path as \"command\""),
    ] {
        assert_eq!(advice(command, None, None), expected);
    }
}

#[test]
fn not_found_names_the_path_and_where_the_command_is() {
    let dir = tempfile::tempdir().unwrap();
    let found = executable(dir.path(), ".local/bin/only-here");
    let home = dir.path().to_str().unwrap();
    let process_env = process_env(&[("HOME", home), ("PATH", "/one:/two")], dir.path());
    let error = prepare_blocking(&stdio("only-here"), &process_env, None).unwrap_err();
    let expected = format!(
        "command \"only-here\" not found in PATH; it is at {found:?}: \
         write this absolute path as \"command\" (PATH: /one:/two)"
    );
    assert_eq!(error.to_string(), expected);
    let error = prepare_blocking(&stdio("no-such-thing --key=canary"), &process_env, None).unwrap_err();
    assert!(
        error.to_string().contains("; if it contains arguments, move them to \"args\" (PATH: "),
        "{error}"
    );
    assert!(error.to_string().starts_with("command \"no-such-thing …\" not found"), "{error}");
}

#[cfg(unix)]
#[test]
fn arguments_in_the_command_are_recognized_and_not_shown() {
    let dir = tempfile::tempdir().unwrap();
    let path = executable(dir.path(), "tools/npx").parent().unwrap().to_str().unwrap().to_owned();
    let program = executable(dir.path(), "with space/server");
    let process_env = process_env(&[("HOME", "/home/me"), ("PATH", &path)], dir.path());
    for (command, first) in
        [("npx -y @x/y".to_owned(), "npx".to_owned()), (format!("{path}/npx canary"), format!("{path}/npx"))]
    {
        let error = prepare_blocking(&stdio(&command), &process_env, None).unwrap_err();
        let expected = format!(
            "\"command\" has arguments in it: write \"command\": {first:?}, and put the words after it into \"args\", \
             each as a string of its own"
        );
        assert_eq!(error.to_string(), expected);
    }
    assert!(prepare_blocking(&stdio(program.to_str().unwrap()), &process_env, None).is_ok());
}

#[cfg(unix)]
#[test]
fn a_file_that_is_not_executable_is_reported_with_its_path() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("script"), "").unwrap();
    let process_env = process_env(&[("PATH", dir.path().to_str().unwrap())], dir.path());
    let error = prepare_blocking(&stdio("script"), &process_env, None).unwrap_err();
    assert!(matches!(error, LaunchError::NotExecutable { path } if path == dir.path().join("script")));
}

#[cfg(unix)]
#[test]
fn a_path_of_system_directories_is_extended_and_any_other_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let node = executable(dir.path(), ".nvm/versions/node/v24.9.0/bin/node-only");
    executable(dir.path(), ".nvm/versions/node/v9.1.0/bin/node-only");
    executable(dir.path(), "tools/login-only");
    let home = dir.path().to_str().unwrap();
    let login = OsString::from(format!("{home}/tools:$PATH:/usr/bin"));
    let system_only = process_env(&[("HOME", home), ("PATH", "/usr/bin:/bin")], dir.path());
    assert!(prepare_blocking(&stdio("login-only"), &system_only, Some(&login)).is_ok());
    let launch = prepare_blocking(&stdio("node-only"), &system_only, Some(&login)).unwrap();
    assert_eq!(launch.program, node);
    let path = PathList::parse(&launch.env.iter().find(|(name, _)| name == "PATH").unwrap().1);
    assert_eq!(path.0[..3], [dir.path().join("tools"), "/usr/bin".into(), "/bin".into()]);
    assert_eq!(path.0.iter().filter(|dir| *dir == Path::new("/usr/bin")).count(), 1);

    let mut with_own_path = stdio("node-only");
    with_own_path.env.insert("PATH".into(), "/usr/bin".into());
    assert!(matches!(
        prepare_blocking(&with_own_path, &system_only, Some(&login)),
        Err(LaunchError::NotFound { .. })
    ));
    let with_tools = process_env(&[("HOME", home), ("PATH", "/usr/bin:/opt/some")], dir.path());
    assert!(matches!(
        prepare_blocking(&stdio("node-only"), &with_tools, Some(&login)),
        Err(LaunchError::NotFound { .. })
    ));
    let without_path = process_env(&[("HOME", home)], dir.path());
    assert!(prepare_blocking(&stdio("sh"), &without_path, None).is_ok());
}

#[test]
fn withheld_variables_are_reported_if_stderr_mentions_them() {
    let vars = [("GITHUB_TOKEN", "x"), ("TOKEN", "x"), ("HOME", "/"), ("PWD", "/"), ("DYNAMIC_MCP_LOG", "x")];
    let process_env = process_env(&vars, Path::new("/"));
    let tail = "Error: GITHUB_TOKEN, HOME, PWD and DYNAMIC_MCP_LOG must be set";
    let mut stdio = stdio("x");
    assert_eq!(withheld_vars(&process_env, "g", &stdio, tail), ["GITHUB_TOKEN"]);
    stdio.inherit_env = InheritEnv::Named(vec!["GITHUB_TOKEN".into()]);
    assert!(withheld_vars(&process_env, "g", &stdio, tail).is_empty());
}

#[test]
fn withheld_credentials_are_reported_if_they_are_named_like_the_server() {
    let vars = [
        ("BRAVE_API_KEY", "x"),
        ("GITHUB_ACTIONS", "true"),
        ("GITHUB_TOKEN", "x"),
        ("MCP_TOKEN", "x"),
        ("OPENAI_API_KEY", "x"),
    ];
    let process_env = process_env(&vars, Path::new("/"));
    let withheld = |group: &str, command: &str, args: &[&str]| {
        let args = args.iter().map(ToString::to_string).collect();
        withheld_vars(&process_env, group, &StdioConfig { args, ..stdio(command) }, "")
    };
    assert_eq!(withheld("github", "npx", &[]), ["GITHUB_TOKEN"]);
    assert_eq!(withheld("gh", "npx", &["-y", "@modelcontextprotocol/server-github"]), ["GITHUB_TOKEN"]);
    assert_eq!(withheld("Brave Search", "brave-mcp", &[]), ["BRAVE_API_KEY"]);
    assert_eq!(withheld("search", "uvx", &["mcp-server-time"]), [] as [&str; 0]);
}

#[tokio::test]
async fn neither_errors_nor_debug_output_show_a_value() {
    let dir = tempfile::tempdir().unwrap();
    let mut stdio = stdio("no-such-command");
    stdio.env.insert("KEY".into(), "canary".into());
    stdio.args.push("--token=canary".into());
    let mut process_env = process_env(MIXED_VARS, dir.path());
    let error = prepare(&stdio, &process_env, Duration::ZERO).await.unwrap_err();
    stdio.command = executable(dir.path(), "server").to_str().unwrap().to_owned();
    Arc::make_mut(&mut process_env.vars).insert("OTHER".into(), "canary".into());
    let launch = prepare(&stdio, &process_env, Duration::ZERO).await.unwrap();
    assert!(!format!("{error} {error:?} {process_env:?} {launch:?}").contains("canary"));
}

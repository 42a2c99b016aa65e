//! Tests how files, settings and the command line are combined. The rules of one entry are tested in `tests/configs`.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::glob::Glob;
use crate::secrets::{SecretPart, SecretPlace, SecretSource, ServerSecrets};
use crate::{Endpoint, InheritEnv, Launcher, Mode, OwnAddress, Share, StdioConfig};
use crate::{Settings, SurfaceKind};

const MINUTE: Duration = Duration::from_secs(60);

/// Returns the config of files with these texts, loaded in this order.
fn load_texts(texts: &[&str], overrides: &Overrides) -> Config {
    let dir = tempfile::tempdir().unwrap();
    let files: Vec<PathBuf> = (0..texts.len()).map(|index| PathBuf::from(format!("{index}.json"))).collect();
    for (file, text) in files.iter().zip(texts) {
        std::fs::write(dir.path().join(file), text).unwrap();
    }
    load(&files, &Env::new([("TOKEN", "t0k3n"), ("HOME", "/home/u")], dir.path()), overrides)
}

fn load_text(text: &str) -> Config {
    load_texts(&[text], &Overrides::default())
}

fn server<'c>(config: &'c Config, name: &str) -> &'c ServerConfig {
    let (_, server) = config.servers.iter().find(|(group, _)| group.as_str() == name).unwrap();
    server.as_ref().unwrap()
}

fn stdio<'c>(config: &'c Config, name: &str) -> &'c StdioConfig {
    match &server(config, name).endpoint {
        Endpoint::Stdio(stdio) => stdio,
        Endpoint::Http(_) => panic!("{name} is a remote server"),
    }
}

fn names(config: &Config) -> Vec<&str> {
    config.servers.iter().map(|(name, _)| name.as_str()).collect()
}

#[test]
fn a_server_without_options_gets_the_defaults() {
    let config =
        load_text(r#"{"mcpServers": {"Time Server": {"command": "uvx", "args": ["mcp-server-time"]}}}"#);
    assert_eq!((&config.errors, &config.warnings), (&vec![], &vec![]));
    let server = server(&config, "Time Server");
    assert_eq!(
        (server.common.mode, server.common.idle_timeout, server.common.stateful),
        (Mode::Hybrid, Some(5 * MINUTE), false)
    );
    assert_eq!(server.timeout, Default::default());
    assert_eq!(server.common.features, Default::default());
    let stdio = stdio(&config, "Time Server");
    assert_eq!(
        (stdio.command.as_str(), stdio.args.as_slice()),
        ("uvx", ["mcp-server-time".to_owned()].as_slice())
    );
    assert_eq!((&stdio.cwd, &stdio.inherit_env), (&None, &InheritEnv::Safe));
    assert_eq!(config.settings, Settings::default());
}

#[test]
fn the_globs_of_an_entry_itself_are_known_with_their_fields() {
    let config = load_text(
        r#"{"settings": {"tools": {"deny": ["s*"]}},
            "mcpServers": {"a": {"command": "x", "expose": ["e*"], "tools":
                {"allow": ["a*"], "ask": ["q*", "r*"], "read_only": ["o*"]}}}}"#,
    );
    let globs = &server(&config, "a").own_globs;
    assert_eq!(
        globs.iter().map(|glob| (glob.field, glob.written.as_str())).collect::<Vec<_>>(),
        [
            ("tools.allow", "a*"),
            ("tools.ask", "q*"),
            ("tools.ask", "r*"),
            ("tools.read_only", "o*"),
            ("expose", "e*")
        ]
    );
}

#[test]
fn a_later_file_overrides_servers_by_name_and_keeps_their_position() {
    let config = load_texts(
        &[
            r#"{"mcpServers": {"a": {"command": "1"}, "b": {"command": "1"}, "c": {"command": "1"}}}"#,
            r#"{"mcpServers": {"d": {"command": "2"}, "a": {"command": "2"}, "b": {"enabled": false}}}"#,
        ],
        &Overrides::default(),
    );
    assert_eq!(names(&config), ["a", "c", "d"]);
    assert_eq!(["a", "c", "d"].map(|name| stdio(&config, name).command.as_str()), ["2", "1", "2"]);
}

#[test]
fn a_wrong_file_does_not_affect_the_others() {
    let config = load_texts(&["{", r#"{"mcpServers": {"a": {"command": "x"}}}"#], &Overrides::default());
    assert_eq!(names(&config), ["a"]);
    assert_eq!(config.errors.len(), 1);
    assert_eq!(config.errors[0].file, Path::new("0.json"));
}

#[test]
fn an_optional_file_may_be_absent_and_is_read_otherwise() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.json"), r#"{"mcpServers": {"a": {"command": "x"}}}"#).unwrap();
    let files = ["a.json", "b.json", "c.json"].map(PathBuf::from);
    let env = Env::new([("", ""); 0], dir.path());
    let errors = |optional: &[&str]| {
        let optional_files = optional.iter().map(PathBuf::from).collect();
        let config = load(&files, &env, &Overrides { optional_files, ..Overrides::default() });
        assert_eq!(names(&config), ["a"]);
        config.errors.len()
    };
    assert_eq!(errors(&[]), 2);
    assert_eq!(errors(&["a.json", "b.json"]), 1);
    assert_eq!(errors(&["b.json", "c.json"]), 0);
    std::fs::write(dir.path().join("b.json"), "{").unwrap();
    assert_eq!(errors(&["b.json", "c.json"]), 1, "an error in an optional file counts");
}

#[test]
fn a_wrong_server_does_not_affect_the_others() {
    let config = load_text(
        r#"{"mcpServers": {"a": {}, "b": {"command": "x", "env": {"T": "${NO}"}}, "c": {"command": "x"}}}"#,
    );
    let good: Vec<bool> = config.servers.iter().map(|(_, server)| server.is_ok()).collect();
    assert_eq!(good, [false, false, true]);
    assert!(config.errors.is_empty());
}

#[test]
fn the_command_line_overrides_every_mode_but_not_a_servers_own_idle_timeout() {
    let text = r#"{
        "mcpServers": {
            "own": {"command": "x", "lazy_startup": "pure", "idle_timeout": "1m"},
            "never": {"command": "x", "idleTimeout": 0},
            "none": {"command": "x", "lazyStartup": false},
        },
        "settings": {"idle_timeout": 120, "lazy_startup": "pure", "surface": "flat"},
    }"#;
    let modes_and_timeouts = |overrides: &Overrides| {
        let config = load_texts(&[text], overrides);
        ["own", "never", "none"]
            .map(|name| (server(&config, name).common.mode, server(&config, name).common.idle_timeout))
    };
    assert_eq!(
        modes_and_timeouts(&Overrides::default()),
        [(Mode::Pure, Some(MINUTE)), (Mode::Pure, None), (Mode::Eager, Some(2 * MINUTE))]
    );
    let flags = Overrides {
        mode: Some(Mode::Eager),
        idle_timeout: Some(None),
        surface: Some(SurfaceKind::Meta),
        ..Overrides::default()
    };
    assert_eq!(
        modes_and_timeouts(&flags),
        [(Mode::Eager, Some(MINUTE)), (Mode::Eager, None), (Mode::Eager, None)]
    );
    assert_eq!(load_texts(&[text], &flags).settings.surface, SurfaceKind::Meta);
    assert_eq!(load_texts(&[text], &Overrides::default()).settings.surface, SurfaceKind::Flat);
}

#[test]
fn settings_are_the_defaults_for_each_key() {
    let config = load_text(
        r#"{
            "mcpServers": {"a": {
                "command": "x", "timeout": {"tools": "1m"}, "features": {"prompts": true}, "tools": {"ask": ["rm_*"]},
                "excludeTools": ["a*b"]
            }},
            "settings": {
                "timeout": {"tools": 5, "list": "500ms"}, "features": {"prompts": false, "resources": false},
                "tools": {"ask": ["x"], "deny": ["y"]}, "inherit_env": ["AWS_PROFILE"], "stateful": true, "share": "user",
                "launcher": "direct"
            }
        }"#,
    );
    let server = server(&config, "a");
    assert_eq!((server.timeout.tools, server.timeout.list), (MINUTE, Duration::from_millis(500)));
    assert_eq!(
        (server.common.features.prompts, server.common.features.resources, server.common.features.tools),
        (true, false, true)
    );
    assert_eq!(server.tools.ask, [Glob::parse("rm_*").unwrap()]);
    assert_eq!(server.tools.deny.len(), 2);
    assert!(server.tools.deny[1].matches("a*b") && !server.tools.deny[1].matches("axb"));
    assert_eq!(stdio(&config, "a").inherit_env, InheritEnv::Named(vec!["AWS_PROFILE".to_owned()]));
    assert!(server.common.stateful);
    assert_eq!((server.common.share, server.common.launcher), (Share::User, Launcher::Direct));
}

#[test]
fn no_server_runs_while_the_rules_for_tools_are_unknown() {
    let config = load_text(
        r#"{"mcpServers": {"a": {"command": "x"}}, "settings": {"tools": {"deny": "rm"}, "surface": "flat"}}"#,
    );
    assert!(config.servers[0].1.is_err());
    assert_eq!(config.errors.len(), 1);
    assert_eq!(config.settings.surface, SurfaceKind::Flat);
    // Rules that are given twice, and rules after any number of other mistakes.
    let wrong: String = (0..30).map(|at| format!(r#""idle_timeout": {{"x": {at}}}, "#)).collect();
    for settings in [r#""tools": {}, "tools": {}"#.to_owned(), format!(r#"{wrong}"tools": 1"#)] {
        let config = load_text(&format!(
            r#"{{"mcpServers": {{"a": {{"command": "x"}}}}, "settings": {{{settings}}}}}"#
        ));
        assert!(config.servers[0].1.is_err(), "{settings}");
    }
}

#[test]
fn no_server_runs_while_it_is_unknown_whether_tools_are_pinned_or_annotations_trusted() {
    for setting in [r#""pin_tools": "yes""#, r#""pinTools": 1"#, r#""trust_annotations": "no""#] {
        let config = load_text(&format!(
            r#"{{"mcpServers": {{"a": {{"command": "x"}}}}, "settings": {{{setting}}}}}"#
        ));
        assert!(config.servers[0].1.is_err(), "{setting}");
    }
}

#[test]
fn trust_in_annotations_and_pins_are_set_for_each_server_or_all() {
    let trust_and_pin = |entry: &str, settings: &str| {
        let config = load_text(&format!(
            r#"{{"mcpServers": {{"a": {{"command": "x"{entry}}}}}, "settings": {{{settings}}}}}"#
        ));
        (server(&config, "a").common.trust_annotations, server(&config, "a").common.pin_tools)
    };
    assert_eq!(trust_and_pin("", ""), (true, false));
    assert_eq!(trust_and_pin(r#", "trust_annotations": false, "pinTools": true"#, ""), (false, true));
    assert_eq!(trust_and_pin(r#", "tools": {"trustAnnotations": false}"#, ""), (false, false));
    assert_eq!(trust_and_pin("", r#""trust_annotations": false, "pin_tools": true"#), (false, true));
    assert_eq!(trust_and_pin("", r#""tools": {"trust_annotations": false}"#), (false, false));
    let own = r#", "trust_annotations": true, "pin_tools": false, "tools": {"trust_annotations": false}"#;
    assert_eq!(trust_and_pin(own, r#""trust_annotations": false, "pin_tools": true"#), (true, false));
    let within = r#", "tools": {"trust_annotations": true}"#;
    assert_eq!(trust_and_pin(within, r#""trust_annotations": false"#), (true, false));
}

#[test]
fn env_overrides_the_env_file_and_relative_paths_start_at_the_config() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("conf")).unwrap();
    std::fs::write(dir.path().join("conf/.env"), "A=file\nB=file\n").unwrap();
    std::fs::write(
        dir.path().join("conf/c.json"),
        r#"{"mcpServers": {
            "a": {"command": "x", "envFile": ".env", "env": {"B": "${TOKEN}"}, "cwd": "sub"},
            "b": {"command": "x", "cwd": "~/w"}
        }}"#,
    )
    .unwrap();
    let env = Env::new([("TOKEN", "t0k3n"), ("HOME", "/home/u")], dir.path());
    let config = load(&["conf/c.json".into()], &env, &Overrides::default());
    let expected: BTreeMap<_, _> =
        [("A", "file"), ("B", "t0k3n")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    assert_eq!(stdio(&config, "a").env, expected);
    assert_eq!(stdio(&config, "a").cwd, Some(dir.path().join("conf/sub")));
    assert_eq!(stdio(&config, "b").cwd, Some("/home/u/w".into()));
}

#[test]
fn an_argument_that_only_a_shell_would_expand_is_a_warning() {
    let config = load_text(
        r#"{"mcpServers": {"a": {
            "command": "x",
            "args": ["$HOME/notes", "~/notes", "--key=pa$$word", "$NO_SUCH", "${HOME}", "a~b", "$$HOME", "x$TOKEN"]
        }}}"#,
    );
    assert!(server(&config, "a").description.is_none());
    let warnings: Vec<String> = config.all_warnings().map(|warning| warning.to_string()).collect();
    let expected = [("args[0]", "$HOME"), ("args[1]", "~"), ("args[7]", "$TOKEN")];
    assert_eq!(warnings.len(), expected.len(), "{warnings:#?}");
    for (warning, (arg, what)) in warnings.iter().zip(expected) {
        assert!(warning.contains(&format!("`{arg}`: `{what}` is not expanded")), "{warning}");
    }
    assert!(warnings[0].ends_with("(write `${HOME}`)"), "{warnings:?}");
}

#[test]
fn the_launch_text_has_unexpanded_variables_and_no_order() {
    let config = load_text(
        r#"{"mcpServers": {
            "a": {"command": "x", "env": {"T": "${TOKEN}"}, "description": "one"},
            "b": {"env": {"T": "${TOKEN}"}, "command": "x", "idle_timeout": 5}
        }}"#,
    );
    assert_eq!(server(&config, "a").launch_text, server(&config, "b").launch_text);
    assert!(server(&config, "a").launch_text.as_str().contains("${TOKEN}"));
    assert_eq!(stdio(&config, "a").env["T"], "t0k3n");
    assert!(!format!("{config:?}").contains("t0k3n"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn no_file_causes_a_panic(
        text in r#"(\{|\}|\[|\]|,|:|"mcpServers"|"mcp"|"settings"|"a"|"command"|"tools"|"timeout"|"\$\{|null|1|-|é| )*"#
    ) {
        load_text(&text);
    }

    #[test]
    fn no_value_of_a_field_affects_another_server(
        field in "command|args|env|url|type|headers|oauth|timeout|tools|expose|features|idle_timeout|lazy_startup|cwd|enabled",
        value in r#"null|true|false|0|-1|1e999|1\.5|"x"|"\$\{"|\[\]|\["x"\]|\[1\]|\{\}|\{"x": 1\}|\{"tools": "x"\}"#,
    ) {
        let config = load_text(&format!(r#"{{"mcpServers": {{"a": {{"{field}": {value}}}, "b": {{"command": "x"}}}}}}"#));
        prop_assert!(config.errors.is_empty());
        prop_assert!(config.servers.iter().any(|(name, server)| name.as_str() == "b" && server.is_ok()));
    }
}

#[test]
fn asking_for_shared_servers_is_a_warning_where_there_are_none() {
    let config = load_text(
        r#"{"mcpServers": {"a": {"command": "x", "share": "user"}}, "settings": {"share": "directory"}}"#,
    );
    assert_eq!(config.errors, []);
    let expected = if cfg!(target_os = "linux") { 0 } else { 2 };
    assert_eq!(config.all_warnings().count(), expected, "{config:?}");
}

#[test]
fn an_empty_list_of_a_client_allows_no_tool_and_ours_all() {
    let allows = |list: &str| {
        let config = load_text(&format!(r#"{{"mcpServers": {{"a": {{"command": "x", {list}}}}}}}"#));
        server(&config, "a").rules().allows("t")
    };
    for (list, is_allowed) in [
        (r#""includeTools": []"#, false),
        (r#""enabledTools": ["t"]"#, true),
        (r#""includeTools": null"#, true),
        (r#""tools": {"allow": []}"#, true),
    ] {
        assert_eq!(allows(list), is_allowed, "{list}");
    }
}

/// What the file with this text says is wrong or doubtful.
fn said_of(text: &str) -> String {
    let config = load_text(text);
    let of_servers = config.servers.iter().filter_map(|(_, server)| server.as_ref().err());
    let errors = config.errors.iter().chain(of_servers).map(ToString::to_string);
    let warnings = config.all_warnings().map(|warning| warning.to_string());
    errors.chain(warnings).collect::<Vec<_>>().join("\n")
}

#[test]
fn usual_mistakes_are_named_with_what_to_write() {
    for (text, expected) in [
        (
            r#"{"mcpServers": {"a": {"command": "x", "env": {"KEY": "$TOKEN"}}}}"#,
            "`env.KEY`: `$TOKEN` is not expanded, because no shell reads it (write `${TOKEN}`)",
        ),
        (
            r#"{"mcpServers": {"a": {"url": "http://a.example", "headers": {"Authorization": "Bearer $UNSET_1"}}}}"#,
            "`headers.Authorization`: `$NAME` is not expanded, because no shell reads it (write `${NAME}`)",
        ),
        (
            r#"{"mcpServers": {"a": {"command": "x", "arguments": ["y"]}}}"#,
            "unknown field `arguments` (did you mean `args`?)",
        ),
        (r#"{"mcpServers": {"a": {"cmd": "x"}}}"#, "unknown field `cmd` (did you mean `command`?)"),
        (
            r#"{"a": {"command": "x"}, "b": {"url": "http://b.example"}}"#,
            "the servers \"a\", \"b\" are not within `mcpServers` (write {\"mcpServers\": {…}} around them)",
        ),
        (r#"{"command": "x"}"#, "the file is a server without a name (write {\"mcpServers\": {…}} around it"),
        (
            r#"{"mcpServers": {"a": {"command": "x", "timeout": 60000}}}"#,
            "`timeout` as one number has no effect: clients count it in seconds or in milliseconds (write \"timeout\": \
             {\"tools\": \"60s\"})",
        ),
        (
            r#"{"mcpServers": {"a": {"command": "C:\Users\x.exe"}}}"#,
            r"invalid escape (write each backslash of a path twice, as in C:\\Users)",
        ),
        (
            r#"{"mcpServers": {"a": {"command": "c:\users\x.exe"}}}"#,
            r"expected four hex digits (write each backslash of a path twice, as in C:\\Users)",
        ),
    ] {
        let said = said_of(text);
        assert!(said.contains(expected), "{text}: {said}");
    }
    for text in [
        r#"{"mcpServers": {"a": {"command": "x", "env": {"environment": "${TOKEN}", "B": "p$Sw0rd", "C": "5$"}}}}"#,
        r#"{"mcpServers": {"a": {"command": "x", "timeout": {"tools": 60}}}}"#,
        r#"{"mcpServers": {"a": {"command": "x", "environment": {"A": "b"}}}}"#,
    ] {
        assert_eq!(said_of(text), "", "{text}");
    }
    let dir = tempfile::tempdir().unwrap();
    for (name, is_named) in [("servers.json", true), (".mcp.json", false), ("settings.json", false)] {
        std::fs::write(
            dir.path().join(name),
            r#"{"mcpServers": {"a": {"command": "x", "timeout": 600000}}}"#,
        )
        .unwrap();
        let env = Env::new([("HOME", "/home/u")], dir.path());
        assert_eq!(
            load(&[name.into()], &env, &Overrides::default()).all_warnings().count(),
            usize::from(is_named),
            "{name}"
        );
    }
    let said = said_of(r#"{"mcpServers": {"a": {"command": "x", "env": {"P": "$ECRET_PASSWORD"}}}}"#);
    assert!(said.contains("`env.P`") && !said.contains("ECRET"), "{said}");
}

#[test]
fn no_server_is_the_instance_itself() {
    let urls = [
        ("http://127.0.0.1:8080/mcp", true),
        ("HTTP://user@LocalHost:8080/mcp/?x=1", true),
        ("https://tools.example/mcp", true),
        ("http://127.0.0.1:8081/mcp", false),
        ("http://127.0.0.1:8080/other", false),
        ("https://tools.example.com/mcp", false),
    ];
    let authorities = ["127.0.0.1:8080", "localhost:8080", "tools.example"].map(str::to_owned).to_vec();
    let own_address = Some(OwnAddress { authorities, path: "/mcp".to_owned() });
    for (url, is_own) in urls {
        let text = format!(r#"{{"mcpServers": {{"a": {{"url": "{url}"}}}}}}"#);
        let overrides = Overrides { own_address: own_address.clone(), ..Overrides::default() };
        let config = load_texts(&[&text], &overrides);
        let error =
            config.servers.iter().find_map(|(_, server)| server.as_ref().err()).map(ToString::to_string);
        let says_so = error.is_some_and(|error| error.contains("`url` is the address of this instance"));
        assert_eq!(says_so, is_own, "{url}");
    }
}

#[test]
fn many_users_share_only_servers_that_say_so() {
    let text = r#"{"mcpServers": {
        "remote": {"url": "https://example.com/mcp", "store_above": 1000},
        "private": {"command": "x", "share": "user"},
        "shared": {"command": "x", "all_users": true, "store_above": 1000},
        "wrong": {"command": 3}
    }}"#;
    let config = load_texts(&[text], &Overrides { all_users_only: true, ..Overrides::default() });
    assert_eq!(names(&config), ["remote", "shared", "wrong"]);
    assert_eq!(config.not_for_all_users, [GroupName::new("private")]);
    for name in ["remote", "shared"] {
        assert_eq!(server(&config, name).common.store_above, None, "{name}");
    }
    let config = load_text(text);
    assert_eq!(names(&config), ["remote", "private", "shared", "wrong"]);
    assert!(config.not_for_all_users.is_empty() && server(&config, "shared").common.store_above.is_some());
}

#[test]
fn a_server_is_started_early_only_if_nothing_and_nobody_is_disturbed() {
    for (keys, expected) in [
        (r#""command": "npx", "args": ["-y", "a"]"#, true),
        (r#""command": "x", "env": {"KEY": "{keyring:key}"}"#, true),
        (r#""command": "x", "prefetch": false"#, false),
        (r#""command": "x", "lazy_startup": "pure""#, false),
        (r#""command": "x", "lazy_startup": "eager""#, false),
        (r#""command": "x", "stateful": true"#, false),
        (r#""command": "x", "tools": {"ask": ["delete_*"]}"#, false),
        (r#""command": "docker", "args": ["run", "-i", "--rm", "mcp/fetch"]"#, false),
        (r#""command": "/usr/bin/podman", "args": ["run", "x"]"#, false),
        (r#""command": "sudo", "args": ["docker", "run", "x"]"#, false),
        (r#""command": "sh", "args": ["-c", "exec docker.exe run x"]"#, false),
        (r#""command": "npx", "args": ["-y", "docker-mcp"]"#, true),
        (r#""url": "https://example.com/mcp""#, false),
    ] {
        let config =
            load_texts(&[&format!(r#"{{"mcpServers": {{"a": {{{keys}}}}}}}"#)], &Overrides::default());
        assert_eq!(server(&config, "a").may_prefetch(), expected, "{keys}");
    }
    let mut fetches = server(&load_text(r#"{"mcpServers": {"a": {"command": "x"}}}"#), "a").clone();
    let prints_key = SecretPart::Fetched(SecretSource::Command(vec!["op".into()]));
    fetches.secrets = ServerSecrets(vec![(SecretPlace::Env("KEY".into()), vec![prints_key])]);
    assert!(!fetches.may_prefetch(), "the command may ask the user");
    let of_settings = r#"{"mcpServers": {"a": {"command": "x"}}, "settings": {"prefetch": false}}"#;
    assert!(!server(&load_texts(&[of_settings], &Overrides::default()), "a").may_prefetch());
}

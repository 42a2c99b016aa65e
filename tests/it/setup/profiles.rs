//! Profiles: a client sees the servers that a profile chooses and the tools that it does not deny, and never more.

use std::fs;

use serde_json::{Value, json};

use crate::shell::Shell;
#[cfg(unix)]
use crate::support::config_of;
use crate::support::{ProxyCommand, merged, pure_config, scripted_upstream, text_of, wait_until};

/// Three servers, and these profiles.
fn config(profiles: Value) -> Value {
    let servers = ["files", "docs", "docs-old"].map(|name| (name, scripted_upstream(&[])));
    merged(pure_config(servers), json!({"profiles": profiles}))
}

fn groups(status: &Value) -> Vec<&str> {
    let groups = status["structuredContent"]["groups"].as_array().unwrap();
    groups.iter().map(|group| group["group"].as_str().unwrap()).collect()
}

#[test]
fn a_client_sees_what_the_profile_chooses_and_edits_of_it_take_effect() {
    let command = ProxyCommand::new().args(&["--profile", "work"]);
    let mut proxy = command.config(&config(json!({"work": ["files"]}))).start_initialized();
    let status = proxy.call_meta_tool("get_status", json!({}));
    assert_eq!(groups(&status), ["files"]);
    assert!(text_of(&status).contains("\nprofile work leaves out 2 of 3 servers"), "{status}");
    let tools = proxy.request("tools/list", json!({}));
    assert!(!tools.to_string().contains("docs"), "{tools}");
    assert_eq!(proxy.call_text("files", "echo", json!({"text": "hi"})), "hi");
    let refused = proxy.call_meta_tool("get_dynamic_tools", json!({"group": "docs"}));
    assert!(text_of(&refused).contains("There is no group"), "{refused}");

    fs::write(proxy.config_file(), config(json!({"work": ["docs*"]})).to_string()).unwrap();
    proxy.wait_for_log("the group was added to the config group=docs-old");
    let status = proxy.call_meta_tool("get_status", json!({}));
    assert_eq!(groups(&status), ["docs", "docs-old"]);
    assert!(text_of(&status).contains("profile work leaves out 1 of 3 servers"), "{status}");

    // Without its profile the config is not used: its servers would be shown, or those in use would end.
    fs::write(proxy.config_file(), config(json!({"home": ["*"]})).to_string()).unwrap();
    let problem = "there is no profile \"work\", so no server is used (the config has home)";
    wait_until("the status says why", || {
        text_of(&proxy.call_meta_tool("get_status", json!({}))).contains(problem)
    });
    assert_eq!(groups(&proxy.call_meta_tool("get_status", json!({}))), ["docs", "docs-old"]);
}

/// A profile that denies `echo` of `files` and these tools.
fn denying(tools: &[&str]) -> Value {
    let deny = [&["echo"], tools].concat();
    json!({"work": {"servers": ["*", "!docs-old"], "tools": {"files": {"deny": deny}, "docs-old": {"deny": ["*"]}}}})
}

#[test]
fn a_profile_excludes_servers_and_denies_tools_and_edits_take_effect_without_a_restart() {
    let command = ProxyCommand::new().args(&["--profile", "work"]);
    let mut proxy = command.config(&config(denying(&[]))).start_initialized();
    let status = proxy.call_meta_tool("get_status", json!({}));
    assert_eq!(groups(&status), ["files", "docs"]);
    let summary = "\nprofile work leaves out 1 of 3 servers and restricts the tools of 1";
    assert!(text_of(&status).ends_with(summary), "{status}");
    let pid = proxy.upstream_pid("files");
    assert!(proxy.call_failure("files", "echo", json!({})).contains("has no tool \"echo\""));
    assert_eq!(proxy.call_text("docs", "echo", json!({"text": "hi"})), "hi");
    let count = proxy.group_status("files")["tools"].as_u64().unwrap();
    assert_eq!(proxy.group_status("docs")["tools"], count + 1, "denied tools do not count");

    fs::write(proxy.config_file(), config(denying(&["cwd"])).to_string()).unwrap();
    wait_until("the tool is denied", || proxy.call_tool("files", "cwd", json!({}))["isError"] == true);
    assert!(proxy.call_failure("files", "cwd", json!({})).contains("has no tool \"cwd\""));
    // A profile that is wrong changes nothing.
    let mut wrong = denying(&[]);
    wrong["work"]["tools"]["files"]["denny"] = json!([]);
    fs::write(proxy.config_file(), config(wrong).to_string()).unwrap();
    proxy.wait_for_log("profile work: unknown field `denny` (did you mean `deny`?)");
    assert!(proxy.call_failure("files", "cwd", json!({})).contains("has no tool \"cwd\""));

    fs::write(proxy.config_file(), config(json!({"work": {}})).to_string()).unwrap();
    wait_until("the rules are gone", || proxy.call_tool("files", "cwd", json!({}))["isError"] != true);
    assert_eq!(proxy.call_text("files", "echo", json!({"text": "hi"})), "hi");
    assert_eq!(proxy.upstream_pid("files"), pid);
    let status = proxy.call_meta_tool("get_status", json!({}));
    assert!(text_of(&status).ends_with("profile work leaves out none of 3 servers"), "{status}");
}

#[test]
fn the_user_is_asked_where_the_profile_says_so() {
    let profile = json!({"work": {"tools": {"files": {"ask": ["echo"]}}}});
    let command = ProxyCommand::new().args(&["--profile", "work"]).config(&config(profile));
    let mut proxy = command.start();
    proxy.handshake_with(json!({"elicitation": {}}));
    let call = proxy.send_call("files", "echo", json!({"text": "hi"}));
    let question = proxy.wait_for_message("elicitation/create");
    proxy.respond(&question, r#""result":{"action":"accept","content":{}}"#);
    assert_eq!(text_of(&proxy.response(call).json()["result"]), "hi");
    assert_eq!(proxy.call_text("docs", "echo", json!({"text": "not asked"})), "not asked");
}

#[test]
fn commands_use_the_rules_of_the_profile() {
    let rules = json!({"allow": ["echo", "pid", "cwd"], "deny": ["cwd"], "ask": ["pid"]});
    let profile = json!({"servers": ["files"], "tools": {"files": rules, "nothing": {}}});
    let shell = Shell::new(&config(json!({"work": profile})));
    let (code, stdout, _) = shell.run(&["tools", "--profile", "work"]);
    assert!(code == 0 && stdout.starts_with("files (2 tools)\n"), "{stdout}");
    assert!(stdout.contains("\n  echo: ") && stdout.contains("\n  pid (asks): "), "{stdout}");
    let (code, stdout, _) = shell.run(&["search", "working directory", "--profile", "work"]);
    assert!(code == 0 && !stdout.contains("cwd"), "{stdout}");
    let (code, stdout, _) = shell.run(&["call", "files", "echo", r#"{"text":"hi"}"#, "--profile", "work"]);
    assert_eq!((code, &*stdout), (0, "hi\n"));
    for (args, expected, why) in [
        (&["call", "files", "cwd", "--profile", "work"][..], 1, "has no tool \"cwd\""),
        (&["tools", "files", "cwd", "--profile", "work"], 1, "has no tool \"cwd\""),
        (&["call", "files", "pid", "--profile", "work"], 1, "there is a question, and nobody to answer it"),
    ] {
        let (code, stdout, stderr) = shell.run(args);
        assert!((code, &*stdout) == (expected, "") && stderr.contains(why), "{args:?}: {code} {stderr}");
    }
    let (code, stdout, _) = shell.run(&["check", "--profile", "work"]);
    assert!(
        stdout.contains(
            "profile work: `tools`: no server has exactly the name \"nothing\" (`dynamic-mcp remove"
        ),
        "{stdout}"
    );
    let summary =
        "profile work leaves out 2 of 3 servers and restricts the tools of 1\n1 of 1 servers work\n";
    assert!(code == 0 && stdout.contains(summary), "{code} {stdout}");
    let (_, stdout, _) = shell.run(&["check", "--json", "--profile", "work"]);
    let report: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(report["servers"][0]["tools"], 2);
    // A profile that only excludes shows nothing.
    let shell = Shell::new(&config(json!({"work": ["!files"]})));
    let (code, stdout, stderr) = shell.run(&["tools", "--profile", "work"]);
    assert!(
        (code, &*stdout) == (78, "") && stderr.contains("it excludes servers and chooses none"),
        "{code} {stderr}"
    );
}

#[test]
fn a_profile_that_is_not_known_shows_no_server_until_the_config_has_it() {
    let profiles = || config(json!({"work": ["files"]}));
    let unknown = "there is no profile \"wrok\", so no server is used (did you mean --profile work? the config has work)";
    let unclear = "it is not known which profile to use, so no server is used";
    for (args, variable, problems) in [
        (&["--profile", "wrok"][..], "", &[unknown][..]),
        (&[], "wrok", &[unknown]),
        (&["--porfile", "work"], "", &[unclear, "there is no option --porfile; did you mean `--profile`?"]),
    ] {
        let command = ProxyCommand::new().args(args).env("DYNAMIC_MCP_PROFILE", variable);
        let mut proxy = command.config(&profiles()).start_initialized();
        let status = proxy.call_meta_tool("get_status", json!({}));
        assert_eq!(groups(&status), Vec::<&str>::new(), "{args:?}");
        for problem in problems {
            assert!(text_of(&status).contains(problem), "{args:?}: {status}");
        }
        let tools = proxy.request("tools/list", json!({}));
        assert!(!tools.to_string().contains("files"), "{tools}");
    }
    let mut proxy = ProxyCommand::new().args(&["--profile", "new"]).config(&profiles()).start_initialized();
    fs::write(proxy.config_file(), config(json!({"new": ["docs"]})).to_string()).unwrap();
    proxy.wait_for_log("the group was added to the config group=docs");
    let status = proxy.call_meta_tool("get_status", json!({}));
    assert_eq!((groups(&status), &status["structuredContent"]["problems"]), (vec!["docs"], &json!([])));
}

#[test]
fn a_misspelled_variable_hides_no_profile_that_is_named() {
    let unclear = "it is not known which profile to use, so no server is used";
    let misspelled = "there is no environment variable DYNAMIC_MCP_PROFIL; did you mean DYNAMIC_MCP_PROFILE?";
    for (args, variable, expected) in [
        (&["--profile", "work"][..], "", &["files"][..]),
        (&[], "work", &["files"]),
        (&[], "", &[]),
        (&["--profile", "work", "--porfile", "x"], "", &[]),
    ] {
        let command = ProxyCommand::new().args(args).env("DYNAMIC_MCP_PROFIL", "home");
        let command = command.env("DYNAMIC_MCP_PROFILE", variable);
        let mut proxy = command.config(&config(json!({"work": ["files"]}))).start_initialized();
        let status = proxy.call_meta_tool("get_status", json!({}));
        assert_eq!(groups(&status), expected, "{args:?} {variable:?}: {status}");
        assert!(text_of(&status).contains(misspelled), "{args:?}: {status}");
        assert_eq!(text_of(&status).contains(unclear), expected.is_empty(), "{args:?}: {status}");
    }
}

#[test]
fn commands_use_the_profile_and_an_unknown_one_is_a_usage_error() {
    let shell = Shell::new(&config(json!({"work": ["files", "nothing*"], "none": []})));
    let (code, stdout, _) = shell.run(&["tools", "--profile", "work"]);
    assert!(code == 0 && stdout.starts_with("files (21 tools)\n") && !stdout.contains("docs"), "{stdout}");
    let (code, stdout, _) = shell.run(&["check", "--profile", "work"]);
    let summary = "profile work leaves out 2 of 3 servers\n1 of 1 servers work\n21 tools, ";
    assert!(code == 0 && stdout.contains(summary), "{stdout}");
    assert!(stdout.contains("profile work: \"nothing*\" matches no server\n"), "{stdout}");
    let (_, stdout, _) = shell.run(&["check", "--json", "--profile", "work"]);
    let report: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(report["profile"], "profile work leaves out 2 of 3 servers");
    for (args, expected, why) in [
        (&["call", "docs", "echo", "--profile", "work"][..], 1, "There is no group \"docs\""),
        (
            &["check", "docs", "--profile", "work"],
            2,
            "profile work leaves out 2 of 3 servers, among them \"docs\"",
        ),
        (&["login", "docs", "--profile", "work"], 2, "docs: the profile leaves this server out"),
        (&["tools", "--profile", "none"], 78, "profile none leaves out 3 of 3 servers"),
    ] {
        let (code, stdout, stderr) = shell.run(args);
        assert!((code, &*stdout) == (expected, "") && stderr.contains(why), "{args:?}: {code} {stderr}");
    }
    for args in [
        &["tools"][..],
        &["search", "text"],
        &["call", "files", "echo"],
        &["resources"],
        &["prompts"],
        &["check"],
        &["login", "files"],
        &["logout", "files"],
        &["approve", "files"],
    ] {
        let mut command = shell.command(args);
        let output = command.env("DYNAMIC_MCP_PROFILE", "wrok").output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains("there is no profile \"wrok\""), "{args:?}: {stderr}");
        assert!(
            stderr.contains("(did you mean --profile work? the config has work, none)"),
            "{args:?}: {stderr}"
        );
    }
}

// It needs a terminal.
#[cfg(unix)]
#[test]
fn without_a_client_and_on_a_terminal_an_unknown_profile_is_a_usage_error() {
    let mut proxy = ProxyCommand::new().args(&["--profile", "wrok"]).config(&config(json!({}))).start_ready();
    proxy.close_stdin();
    assert_eq!(proxy.wait_for_exit().0.code(), Some(2));
    assert!(proxy.log().contains("there is no profile"), "{}", proxy.log());
    let shell = Shell::new(&config_of([("g", scripted_upstream(&[]))]));
    let (code, shown) = shell.run_at_terminal(&["--profile", "wrok"], "");
    assert!(code == 2 && shown.contains("there is no profile \"wrok\""), "{code}: {shown}");
}

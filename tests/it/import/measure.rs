//! `--measure`: what the servers take.

use std::fs;

use super::{Home, stderr, stdout};
use crate::shell::at_terminal;
use crate::support::scripted_upstream;

#[test]
fn measure_starts_each_server_once_and_leaves_nothing() {
    let home = Home::empty();
    let tagged = |flags: &[&str]| {
        scripted_upstream(&[&["--record", home.file("started").to_str().unwrap()], flags].concat())
    };
    let cursor = serde_json::json!({"mcpServers": {
        "one": tagged(&[]), "two": tagged(&["--tools", "40", "--grandchild"]), "gone": {"command": "no-such-program"}
    }});
    let copilot = serde_json::json!({"mcpServers": {"one": tagged(&[])}});
    for (name, text) in [(".cursor/mcp.json", cursor), (".copilot/mcp-config.json", copilot)] {
        fs::create_dir_all(home.file(name).parent().unwrap()).unwrap();
        fs::write(home.file(name), text.to_string()).unwrap();
    }
    let output = home.import(&["--measure", "--dry-run"]);
    assert!(output.status.success(), "{output:?}");
    let printed = stdout(&output);
    let row = |label: &str| {
        let line = printed
            .lines()
            .filter(|line| line.contains(" MB "))
            .find_map(|line| line.trim().strip_prefix(label))
            .unwrap_or_else(|| panic!("{printed}"));
        let words: Vec<&str> = line.split_whitespace().collect();
        let [processes, memory, "MB", start, "s", tokens] = words[..] else { panic!("{line}") };
        let number = |text: &str| text.trim_start_matches('~').parse::<f64>().unwrap();
        [processes, memory, start, tokens].map(number)
    };
    let (one, two) = (row("one"), row("two"));
    assert_eq!((one[0], two[0]), (1.0, 2.0), "{printed}");
    assert!(two[3] > 5.0 * one[3], "{printed}");
    assert!(
        printed.contains("gone                       did not start: command \"no-such-program\" not found"),
        "{printed}"
    );
    let (cursor, copilot, after) =
        (row("Cursor today"), row("Copilot CLI today"), row("each with dynamic-mcp"));
    assert_eq!((cursor[0], copilot[0], after[0]), (3.0, 1.0, 1.0), "{printed}");
    assert!((cursor[3] - one[3] - two[3]).abs() < 2.0 && copilot[3] == one[3], "{printed}");
    assert!(after[3] < cursor[3] && after[1] > 0.0, "{printed}");
    // Once to measure it, and once to learn its tools.
    let started = home.text("started").matches("\"initialize\"").count();
    assert_eq!(started, 4, "{printed}");
    let marker = home.path().to_str().unwrap().to_owned();
    let left = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let left = left.filter(|cmdline| String::from_utf8_lossy(cmdline).contains(&marker));
    assert_eq!(left.count(), 0, "a process is left");
    assert!(!home.file(".config").exists() && !home.file(".local").exists(), "nothing is written");
    // A log has a line for each event, and nothing of a terminal.
    let progress = stderr(&output);
    for event in [
        "dynamic-mcp: gone did not start (",
        "dynamic-mcp: two has started (",
        " (3 of 3)\n",
        "dynamic-mcp: starting dynamic-mcp on the same servers: the first time, with an empty cache\n",
        "dynamic-mcp: starting dynamic-mcp on the same servers: the second time, as always\n",
    ] {
        assert!(progress.contains(event), "{event}{progress}");
    }
    assert!(progress.lines().count() == 5 && !progress.contains(['\r', '\u{1b}']), "{progress}");
}

#[test]
fn a_terminal_shows_in_one_line_what_measure_waits_for() {
    let home = Home::empty();
    let servers = serde_json::json!({"mcpServers": {"one": scripted_upstream(&[]), "gone": {"command": "no-such-program"}}});
    home.write(".cursor/mcp.json", &servers.to_string());
    let (code, shown) = at_terminal(home.command(&["--measure", "--dry-run"]), "");
    assert_eq!(code, 0, "{shown}");
    for line in [
        "\r\u{1b}[Kstarted 0 of 2; starting one, gone",
        "starting dynamic-mcp on the same servers: the second",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    assert!(shown.contains("\r\u{1b}[K\r\n") && !shown.contains("(1 of 2)"), "{shown}");
}

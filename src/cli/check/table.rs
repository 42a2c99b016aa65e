//! The report as a table.

use super::{CheckReport, CheckedServer};
use base::clock::rounded;
use base::text::{joined, name, visible};
use config::Config;
use std::collections::BTreeMap;
use std::time::Duration;
use terminal::table::{self, Cell, Column, Layout, Row};
use terminal::{TextStyle, VisibleText};

/// The columns. On a narrow terminal the last ones go first.
const COLUMNS: [Column; 6] = [
    Column::kept("server"),
    Column::kept(""),
    Column::dispensable("time", 1),
    Column::dispensable("tools", 2),
    Column::dispensable("tokens", 3),
    Column { head: "runs", dispensable: 4, moves_below: true },
];

/// Formats the report for a terminal: a line for each server, and below it what to know.
pub(super) fn table(report: &CheckReport, layout: Layout) -> VisibleText {
    let mut text = VisibleText::default();
    report.environment.iter().for_each(|line| text.line(line));
    let common = common_findings(&report.servers);
    if !report.servers.is_empty() {
        let rows = report.servers.iter().map(|server| row(server, &common)).collect();
        table::write(&mut text, &COLUMNS, rows, layout);
    }
    for (finding, servers) in &common {
        text.line(format_args!(
            "note: {}: {}",
            joined(servers.iter().map(|server| name(server))),
            visible(finding)
        ));
    }
    for (kind, lines) in [("error", &report.errors), ("warning", &report.warnings)] {
        for line in lines {
            // An error of a server may have a line for each of its fields.
            line.lines().for_each(|line| text.line(format_args!("config {kind}: {line}")));
        }
    }
    report.disabled.iter().for_each(|line| text.line(line));
    report.profile.iter().for_each(|profile| text.line(profile));
    let working = report.servers.iter().filter(|server| server.works).count();
    match report.servers.len() {
        // A file that cannot be read may have servers.
        0 if !report.errors.is_empty() => {}
        0 if report.disabled.is_empty() => text.line(Config::NO_SERVER),
        0 => text.line("no server is enabled"),
        all => text.line(format_args!("{working} of {all} servers work")),
    }
    report.cost.iter().for_each(|line| text.line(line));
    text
}

/// Returns the findings that several servers have, which are shown once, with the servers.
fn common_findings(servers: &[CheckedServer]) -> BTreeMap<&str, Vec<&str>> {
    let mut all: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for server in servers {
        server.findings.iter().for_each(|finding| all.entry(finding).or_default().push(&server.name));
    }
    all.retain(|_, servers| servers.len() > 1);
    all
}

fn row(server: &CheckedServer, common: &BTreeMap<&str, Vec<&str>>) -> Row<6> {
    let number = |number: Option<usize>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    let (state, style) = if server.works { ("ok", TextStyle::Good) } else { ("failed", TextStyle::Bad) };
    let cells = [
        name(&server.name).into(),
        Cell::styled(state, Some(style)),
        server.connect_ms.map_or_else(|| "-".to_owned(), |ms| rounded(Duration::from_millis(ms))).into(),
        number(server.tools).into(),
        number(server.tokens).into(),
        server.runs.as_deref().unwrap_or("-").into(),
    ];
    let findings = server.findings.iter().filter(|finding| !common.contains_key(finding.as_str()));
    let findings = findings.map(|finding| format!("note: {}", visible(finding)));
    Row { cells, below: server.error.iter().chain(&server.warnings).cloned().chain(findings).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: Layout = Layout { indent: 0, width: None, has_color: false };

    #[test]
    fn each_failure_stands_below_its_server() {
        let files = CheckedServer {
            name: "files".into(),
            works: true,
            runs: Some("/usr/bin/files".into()),
            connect_ms: Some(120),
            tools: Some(11),
            tokens: Some(2000),
            findings: vec!["changed".into()],
            ..CheckedServer::default()
        };
        let broken = CheckedServer {
            name: "db".into(),
            error: Some("its process exited:\n> no \u{1b}database".into()),
            ..CheckedServer::default()
        };
        let report = CheckReport {
            servers: vec![files, broken],
            warnings: vec!["c.json:1:1: odd".into()],
            profile: Some("profile work leaves out 1 of 3 servers".into()),
            ..CheckReport::default()
        };
        let expected = "\
server          time    tools  tokens  runs
files   ok      120 ms  11     2000    /usr/bin/files
    note: changed
db      failed  -       -      -       -
    its process exited:
    > no \\u{1b}database
config warning: c.json:1:1: odd
profile work leaves out 1 of 3 servers
1 of 2 servers work
";
        assert_eq!(table(&report, LAYOUT).to_string(), expected);
        let both = ["files", "db"].map(|name| CheckedServer {
            name: name.into(),
            findings: vec!["direct".into()],
            ..CheckedServer::default()
        });
        let report = CheckReport { servers: both.into(), ..CheckReport::default() };
        let text = table(&report, LAYOUT).to_string();
        assert!(text.ends_with("\nnote: files, db: direct\n0 of 2 servers work\n"), "{text}");
        assert_eq!(text.matches("direct").count(), 1, "{text}");
        assert_eq!(table(&CheckReport::default(), LAYOUT).to_string(), format!("{}\n", Config::NO_SERVER));
    }
}

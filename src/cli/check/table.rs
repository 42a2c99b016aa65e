//! The report as a table.

use super::{CheckReport, CheckedServer};
use crate::cli::terminal::VisibleText;
use crate::text::{name, visible};

/// The heads of the columns.
const HEAD: [&str; 6] = ["server", "", "time", "tools", "tokens", "runs"];

/// Formats the report for a terminal: a line for each server, and below it what to know.
pub(super) fn table(report: &CheckReport) -> VisibleText {
    let mut rows = vec![(HEAD.map(str::to_owned), Vec::new())];
    rows.extend(report.servers.iter().map(|server| (row(server), notes(server))));
    let width = |column: usize| rows.iter().map(|(row, _)| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
    let mut text = VisibleText::default();
    report.environment.iter().for_each(|line| text.line(line));
    for (row, notes) in rows.iter().filter(|_| !report.servers.is_empty()) {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        text.line(cells.collect::<Vec<_>>().join("  ").trim_end());
        notes.iter().for_each(|note| text.lines("    ", note));
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
    text.line(match report.servers.len() {
        0 => "the config has no server".to_owned(),
        all => format!("{working} of {all} servers work"),
    });
    text
}

fn row(server: &CheckedServer) -> [String; 6] {
    let number = |number: Option<usize>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    [
        name(&server.name),
        if server.works { "ok" } else { "failed" }.to_owned(),
        server.connect_ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms} ms")),
        number(server.tools),
        number(server.tokens),
        server.runs.as_deref().map_or_else(|| "-".to_owned(), visible),
    ]
}

/// The lines below a server.
fn notes(server: &CheckedServer) -> Vec<String> {
    let findings = server.findings.iter().map(|finding| format!("note: {}", visible(finding)));
    server.error.iter().cloned().chain(findings).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(table(&report).to_string(), expected);
        assert_eq!(table(&CheckReport::default()).to_string(), "the config has no server\n");
    }
}

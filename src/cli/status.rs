//! `dynamic-mcp status`: the running instances of this user and their groups.
//!
//! Each instance is asked over its control socket. `instance::report` sums up the answers, which this command prints as
//! JSON or as a table, once or again and again. `page` writes them into a page and opens it in the browser.

use super::running_instances::running_instances;
use base::clock::{in_largest_unit, rounded};
use base::text::{counted, joined, joined_up_to, name, shell_word, telling_lines};
use clap::Args;
use config::Config;
use config::env::Env;
use instance::report;
use instance::signals::EndSignals;
use page::PageArgs;
use serde_json::Value;
use std::process::ExitCode;
use std::time::Duration;
use terminal::table::{self, Cell, Column, Layout, Row};
use terminal::{TextStyle, VisibleText};

mod page;

/// The interval of `--watch`.
const WATCH_INTERVAL: Duration = Duration::from_secs(2);
/// How many of the windows that share a server the table names.
const MAX_NAMED_WINDOWS: usize = 5;

/// The space before the table of an instance, in characters.
const TABLE_INDENT: usize = 2;

/// How many lines of a longer error follow its first one.
const MAX_ERROR_LINES: usize = 4;
/// A call that takes longer may hang.
const LONG_CALL: Duration = Duration::from_secs(30);

/// Show the running instances of dynamic-mcp and their servers
#[derive(Args, Debug)]
pub struct StatusArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Show it again every 2 seconds, until Ctrl-C
    #[arg(long)]
    pub watch: bool,
    #[command(flatten)]
    page: PageArgs,
}

/// Prints the instances.
///
/// # Errors
///
/// Fails if signals cannot be handled, the runtime directory cannot be used, or stdout or the page cannot be written.
pub async fn status(args: &StatusArgs, env: &Env) -> anyhow::Result<ExitCode> {
    if let Some(file) = &args.page.html {
        return page::write(&report_on_all(env).await?, file.as_deref(), args.page.no_open, env);
    }
    let mut signals = EndSignals::listen()?;
    loop {
        let report = report_on_all(env).await?;
        // A terminal may be resized meanwhile.
        let layout = Layout::of_stdout(TABLE_INDENT, env);
        match (args.json, args.watch) {
            (true, _) => terminal::payload(format!("{report}\n").as_bytes())?,
            (false, true) => terminal::redraw(&table(&report, layout).wrapped())?,
            (false, false) => terminal::print(&table(&report, layout).wrapped())?,
        }
        if !args.watch {
            return Ok(ExitCode::SUCCESS);
        }
        tokio::select! {
            _ = signals.next() => return Ok(ExitCode::SUCCESS),
            () = tokio::time::sleep(WATCH_INTERVAL) => {}
        }
    }
}

/// Reports on all instances.
///
/// # Errors
///
/// Fails if the directory of the endpoints cannot be used.
async fn report_on_all(env: &Env) -> std::io::Result<Value> {
    let instances = running_instances(env).await?;
    Ok(report::report(&instances.into_iter().map(|instance| instance.status).collect::<Vec<_>>()))
}

/// Formats the report for a terminal.
fn table(report: &Value, layout: Layout) -> VisibleText {
    let mut text = VisibleText::default();
    let instances = report["instances"].as_array().map(Vec::as_slice).unwrap_or_default();
    if instances.is_empty() {
        text.line(
            "no instance of dynamic-mcp is running: a client that uses it starts one; `dynamic-mcp check` tries the \
             servers without a client",
        );
        return text;
    }
    for instance in instances {
        let config = joined(strings(&instance["config"]));
        text.line(format_args!(
            "dynamic-mcp {} (pid {}), started by {} {} ago in {}, {} with its servers, config {}",
            instance["version"].as_str().unwrap_or_default(),
            instance["pid"],
            instance["client"].as_str().unwrap_or("an unknown client"),
            in_largest_unit(Duration::from_secs(instance["upS"].as_u64().unwrap_or_default())),
            instance["cwd"].as_str().unwrap_or_default(),
            megabytes(&instance["memoryBytes"]),
            if config.is_empty() { "none" } else { &config },
        ));
        if let Some(error) = instance["error"].as_str() {
            error.lines().for_each(|line| text.line(format_args!("  error: {line}")));
        }
        for warning in strings(&instance["warnings"]) {
            text.line(format_args!("  config warning: {warning}"));
        }
        if let Some(profile) = instance["profile"].as_str() {
            text.line(format_args!("  {profile}"));
        }
        let is_empty = |list: &str| instance[list].as_array().is_none_or(Vec::is_empty);
        if is_empty("groups")
            && is_empty("disabled")
            && instance["error"].is_null()
            && instance["profile"].is_null()
        {
            text.line(format_args!("  {}", Config::NO_SERVER));
        }
        let disabled = joined(strings(&instance["disabled"]).map(name));
        let rows = instance["groups"].as_array().into_iter().flatten().map(group_row).collect();
        table::write(&mut text, &COLUMNS, rows, layout);
        if !disabled.is_empty() {
            text.line(format_args!("  disabled: {disabled}; `dynamic-mcp enable SERVER` enables one"));
        }
    }
    text.lines("", savings(report));
    text
}

/// Returns the strings in a list; none if it is something else.
fn strings(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// Says what laziness and sharing save; empty if that is nothing.
fn savings(report: &Value) -> String {
    let number =
        |value: &Value| value.as_u64().map_or(0, |number| usize::try_from(number).unwrap_or(usize::MAX));
    let mut savings = Vec::new();
    let (count, bytes) = (number(&report["notRunning"]), &report["savedByLaziness"]["bytes"]);
    if count > 0 {
        let verb = if count == 1 { "is" } else { "are" };
        let saved = match number(bytes) {
            0 => String::new(),
            _ => format!(", which saves {} or more", megabytes(bytes)),
        };
        savings.push(format!("{} {verb} configured and not running{saved}", counted(count, "server")));
    }
    let (processes, bytes) =
        (number(&report["savedBySharing"]["processes"]), &report["savedBySharing"]["bytes"]);
    match processes {
        0 => {}
        1 => savings.push(format!("sharing saves 1 process and {}", megabytes(bytes))),
        _ => savings.push(format!("sharing saves {processes} processes and {}", megabytes(bytes))),
    }
    savings.join("; ")
}

/// The columns of the groups. On a narrow terminal the last ones go first.
const COLUMNS: [Column; 11] = [
    Column::kept("server"),
    Column::kept("state"),
    Column::dispensable("mode", 6),
    Column::dispensable("pid", 5),
    Column::dispensable("memory", 2),
    Column::dispensable("calls", 1),
    Column::dispensable("failed", 3),
    Column::dispensable("p50", 4),
    Column::dispensable("p95", 7),
    Column::dispensable("idle", 8),
    Column::dispensable("closes in", 9),
];

/// Returns a group as a row. Below it stands why it failed, what it is doing, and who else uses its process.
fn group_row(group: &Value) -> Row<11> {
    let text = |name: &str| match &group[name] {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    let took =
        |name: &str| match group[name].as_f64().map(|millis| Duration::try_from_secs_f64(millis / 1000.0)) {
            Some(Ok(duration)) => rounded(duration),
            _ => "-".to_owned(),
        };
    let state = if group["connecting"] == true { "connecting".to_owned() } else { text("state") };
    let cells = [
        name(group["group"].as_str().unwrap_or_default()).into(),
        Cell::styled(&*state, state_style(&state)),
        text("mode").into(),
        text("pid").into(),
        megabytes(&group["memoryBytes"]).into(),
        text("calls").into(),
        text("errors").into(),
        took("p50Ms").into(),
        took("p95Ms").into(),
        seconds(&group["idleMs"]).into(),
        seconds(&group["closesInMs"]).into(),
    ];
    let mut below: Vec<String> = Vec::new();
    if group["connecting"] == true {
        below.push(format!("connecting for {}", seconds(&group["connectingMs"])));
    }
    let in_flight = group["inFlight"].as_u64().unwrap_or_default();
    let since = seconds(&group["inFlightMs"]);
    let is_long = Duration::from_millis(group["inFlightMs"].as_u64().unwrap_or_default()) > LONG_CALL;
    let server = group["group"].as_str().and_then(shell_word).filter(|_| is_long);
    let end = server.map(|server| format!("; `dynamic-mcp reconnect {server}` ends it")).unwrap_or_default();
    match in_flight {
        0 => {}
        1 => below.push(format!("1 call in flight for {since}{end}")),
        count => below.push(format!("{count} calls in flight, the first for {since}{end}")),
    }
    if group["shared"] == true {
        below.push(shared_with(group["sharedWith"].as_array().map(Vec::as_slice).unwrap_or_default()));
    }
    if group["connecting"] == true {
        let line = group["startupLine"].as_str().map(|line| format!("the last line of its stderr: {line}"));
        below.extend(line.into_iter().chain(group["startupHint"].as_str().map(str::to_owned)));
    }
    below.extend(group["error"].as_str().map(|error| telling_lines(error, MAX_ERROR_LINES).join("\n")));
    below.extend(
        ["warnings", "findings"].into_iter().flat_map(|list| strings(&group[list])).map(str::to_owned),
    );
    if let Some(next) = group["nextAttemptMs"].as_u64().filter(|_| group["connecting"] != true) {
        below.push(format!("next attempt in {}", in_largest_unit(Duration::from_millis(next))));
    }
    Row { cells, below }
}

/// Returns how a state stands out.
fn state_style(state: &str) -> Option<TextStyle> {
    match state {
        "connected" => Some(TextStyle::Good),
        "connecting" => Some(TextStyle::Busy),
        "failed" => Some(TextStyle::Bad),
        _ => Some(TextStyle::Dim),
    }
}

/// Returns a number of milliseconds in whole seconds, minutes, hours or days.
fn seconds(millis: &Value) -> String {
    let text = |millis| in_largest_unit(Duration::from_millis(millis));
    millis.as_u64().map_or_else(|| "-".to_owned(), text)
}

/// Names the other instances that use a shared process, by the pids of their instances.
fn shared_with(pids: &[Value]) -> String {
    let named = joined_up_to(MAX_NAMED_WINDOWS, pids.iter().map(Value::to_string));
    match pids.len() {
        0 => "shared, used by this instance only".to_owned(),
        1 => format!("shared with the instance of pid {named}"),
        _ => format!("shared with the instances of pids {named}"),
    }
}

fn megabytes(bytes: &Value) -> String {
    bytes.as_u64().map_or_else(|| "-".to_owned(), |bytes| format!("{} MB", bytes.div_ceil(1_000_000)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_table_says_what_is_shared_and_what_that_saves() {
        let group = json!({
            "group": "docs", "state": "connected", "mode": "hybrid", "pid": 7, "shared": true,
            "sharedWith": [3], "memoryBytes": 45_000_000, "calls": 2, "errors": 1, "p50Ms": 1.5, "p95Ms": 75_001.66, "idleMs": 20_400,
            "closesInMs": 39_600, "inFlight": 2, "inFlightMs": 130_000, "findings": ["it works, but"],
        });
        let slow = json!({"group": "slow", "state": "failed", "connecting": true, "connectingMs": 12_000, "startupLine": "\"loading\""});
        let failed = json!({"group": "x", "state": "failed", "mode": "pure", "calls": 0, "errors": 0, "nextAttemptMs": 34_000, "error": "no, the end of its stderr:\n> 1\n> Error: 2\n> 3\n> 4\n> 5\n> 6"});
        let report = json!({
            "instances": [{
                "pid": 5, "client": "code", "version": "1.0.0", "upS": 600, "cwd": "/p", "config": ["/c.json"],
                "memoryBytes": 1, "error": null, "profile": "profile work leaves out 1 of 3 servers", "groups": [group, slow, failed],
            }],
            "notRunning": 1,
            "savedByLaziness": {"servers": 1, "bytes": 30_000_000},
            "savedBySharing": {"processes": 1, "bytes": 45_000_000},
        });
        let expected = "\
dynamic-mcp 1.0.0 (pid 5), started by code 10 min ago in /p, 1 MB with its servers, config /c.json
  profile work leaves out 1 of 3 servers
  server  state       mode    pid  memory  calls  failed  p50     p95   idle  closes in
  docs    connected   hybrid  7    45 MB   2      1       1.5 ms  75 s  20 s  39 s
      2 calls in flight, the first for 2 min; `dynamic-mcp reconnect docs` ends it
      shared with the instance of pid 3
      it works, but
  slow    connecting  -       -    -       -      -       -       -     -     -
      connecting for 12 s
      the last line of its stderr: \"loading\"
  x       failed      pure    -    -       0      0       -       -     -     -
      no, the end of its stderr:
      > Error: 2
      > 4
      > 5
      > 6
      next attempt in 34 s
1 server is configured and not running, which saves 30 MB or more; sharing saves 1 process and 45 MB
";
        let layout = Layout { indent: 2, width: None, has_color: false };
        assert_eq!(table(&report, layout).to_string(), expected);
        let narrow = table(&report, Layout { width: Some(60), ..layout }).to_string();
        let head = "  server  state       pid  memory  calls  failed  p50\n  docs    connected   7 ";
        assert!(narrow.contains(head), "{narrow}");
        let none = table(&json!({"instances": []}), layout).to_string();
        assert!(none.starts_with("no instance of dynamic-mcp is running: a client"), "{none}");
        let nothing = json!({"notRunning": 0, "savedBySharing": {"processes": 0, "bytes": 0}});
        assert_eq!(savings(&nothing), "");
        let unknown = json!({"notRunning": 2, "savedByLaziness": {"bytes": 0}, "savedBySharing": {"processes": 2, "bytes": 9}});
        let expected = "2 servers are configured and not running; sharing saves 2 processes and 1 MB";
        assert_eq!(savings(&unknown), expected);
    }

    #[test]
    fn the_table_names_the_instances_that_share_a_server() {
        let named = |count: u64| shared_with(&(1..=count).map(Value::from).collect::<Vec<_>>());
        assert_eq!(named(0), "shared, used by this instance only");
        assert_eq!(named(2), "shared with the instances of pids 1, 2");
        assert_eq!(named(20), "shared with the instances of pids 1, 2, 3, 4, 5 and 15 more");
    }
}

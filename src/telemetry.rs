//! The log: one line per event, on stderr or in a file.
//!
//! # Theory of operation
//!
//! [`init`] installs a `tracing` subscriber with a filter, a format and a writer. The filter comes from `--log-level`,
//! else from `DYNAMIC_MCP_LOG`, else it is `info`. The format escapes everything that could end a line or control a
//! terminal, because many fields hold text of upstreams. stderr is written by a thread of its own (`lossy`): a client
//! that does not read it loses events but never blocks the program. A file is written directly.

use std::fmt::{self, Write};
use std::fs::OpenOptions;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::Arc;

use crate::text::Visible;
use anyhow::{Context, bail};
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::debug_fn;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

mod lossy;

pub use lossy::FlushGuard;

/// The options of the log, from the command line and the environment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options<'a> {
    /// `--log-level`: a level. Takes precedence over `filter`.
    pub level: Option<&'a str>,
    /// `DYNAMIC_MCP_LOG`: a level, or directives such as `warn,dynamic_mcp::upstream=debug`.
    pub filter: Option<&'a str>,
    /// `--log-file`: a file to append to, in place of stderr.
    pub file: Option<&'a Path>,
    /// Whether `NO_COLOR` is set and not empty.
    pub no_color: bool,
}

/// rmcp logs authorization codes and id tokens. We log what matters of a login ourselves.
const SECRET_TARGET: &str = "rmcp::transport::auth";

/// Starts the log of this process. Keep the guard until the process ends: its drop waits a moment for events that are
/// not written yet. A log file needs no guard.
///
/// # Errors
///
/// Fails if an option is invalid or the log file cannot be opened.
pub fn init(options: Options<'_>) -> anyhow::Result<Option<FlushGuard>> {
    let filter = filter(options)?;
    let (writer, guard, ansi) = match options.file {
        Some(path) => (BoxMakeWriter::new(Arc::new(open_log_file(path)?)), None, false),
        None => {
            let (writer, guard) =
                lossy::writer(io::stderr()).context("failed to start the thread that writes the log")?;
            (BoxMakeWriter::new(writer), Some(guard), io::stderr().is_terminal() && !options.no_color)
        }
    };
    subscriber(filter, writer, ansi).try_init().context("failed to start the log")?;
    Ok(guard)
}

fn open_log_file(path: &Path) -> anyhow::Result<std::fs::File> {
    let mut file = OpenOptions::new();
    file.create(true).append(true);
    // Other users must not read what upstreams write to stderr.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut file, 0o600);
    file.open(path).with_context(|| format!("failed to open the log file {}", path.display()))
}

/// Makes the filter. A plain level applies to us and to the stderr of upstreams; dependencies stay at `warn` or below
/// unless directives name them.
fn filter(options: Options<'_>) -> anyhow::Result<Targets> {
    let (name, text) = match (options.level, options.filter) {
        (Some(level), _) => ("--log-level", level),
        (None, Some(filter)) if !filter.trim().is_empty() => ("DYNAMIC_MCP_LOG", filter),
        (None, _) => ("the default level", "info"),
    };
    let text = text.trim();
    if let Ok(level) = text.parse::<LevelFilter>() {
        let dependencies = level.min(LevelFilter::WARN);
        let ours = [("dynamic_mcp", level), ("upstream", level), (SECRET_TARGET, LevelFilter::OFF)];
        return Ok(Targets::new().with_default(dependencies).with_targets(ours));
    }
    let parts = text.split(',').filter(|part| !part.trim().is_empty());
    let directives: Option<Vec<_>> = parts.map(directive).collect();
    match directives {
        Some(directives) if options.level.is_none() && !directives.is_empty() => {
            let default = directives.iter().rev().find(|(target, _)| target.is_none());
            let targets = directives.iter().filter_map(|(target, level)| Some(((*target)?, *level)));
            Ok(Targets::new()
                .with_default(default.map_or(LevelFilter::OFF, |(_, level)| *level))
                .with_targets(targets)
                .with_target(SECRET_TARGET, LevelFilter::OFF))
        }
        _ => bail!(
            "{name} is {text:?}, but must be off, error, warn, info, debug or trace{}",
            if options.level.is_none() { ", or directives such as warn,dynamic_mcp=debug" } else { "" }
        ),
    }
}

/// Parses `LEVEL`, or `TARGET=LEVEL`. A target alone is not a directive: a misspelled level would be one, and silence
/// everything else.
fn directive(text: &str) -> Option<(Option<&str>, LevelFilter)> {
    let (target, level) = match text.split_once('=') {
        Some((target, level)) => (Some(target.trim()), level.trim()),
        None => (None, text.trim()),
    };
    // tracing takes an empty level for `error`.
    if level.is_empty() { None } else { Some((target, level.parse().ok()?)) }
}

/// Makes the subscriber. Its format escapes all fields: many hold text of upstreams, and tracing-subscriber keeps line
/// breaks in all of them and terminal escapes in most.
fn subscriber<W>(filter: Targets, writer: W, ansi: bool) -> impl tracing::Subscriber + Send + Sync
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let fields = debug_fn(|writer, field, value| match field.name() {
        "message" => write!(Escaped(writer), "{value:?}"),
        name => write!(Escaped(writer), "{name}={value:?}"),
    });
    tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_writer(writer)
        .with_ansi(ansi)
        .fmt_fields(fields.delimited(" "))
        // They are written by a macro that panics if stderr is closed.
        .log_internal_errors(false)
        .compact()
        .finish()
        .with(filter)
}

/// Escapes what ends a line, controls a terminal or hides text.
struct Escaped<W>(W);

impl<W: Write> Write for Escaped<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        write!(self.0, "{}", Visible(text))
    }
}

#[cfg(test)]
mod tests;

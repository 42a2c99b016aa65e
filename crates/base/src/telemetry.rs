//! The log: one line per event, on stderr or in a file, as text or as JSON (`json`).
//!
//! # Theory of operation
//!
//! [`init`] installs a `tracing` subscriber with a filter, a format and writers. The filter comes from `--log-level`,
//! else from `DYNAMIC_MCP_LOG`, else it is `info`. The format escapes everything that could end a line or control a
//! terminal, because many fields hold text of upstreams.
//!
//! By default events go to stderr and to a file in the user's state directory (`log_file`), because most clients hide
//! stderr. Each is written by a thread of its own (`lossy`): a client that does not read stderr, or a disk that hangs,
//! loses events but never blocks the program. The file of `--log-file` takes the place of both and is written directly.

use std::fmt::{self, Write};
use std::fs::OpenOptions;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::text::Visible;
use tracing_subscriber::Layer;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::debug_fn;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

mod json;
mod log_file;
mod lossy;

pub use lossy::FlushGuard;

/// The options of the log, from the command line and the environment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options<'a> {
    /// `--log-level`: a level. Takes precedence over `filter`.
    pub level: Option<&'a str>,
    /// `DYNAMIC_MCP_LOG`: a level, or directives such as `warn,dynamic_mcp::upstream=debug`.
    pub filter: Option<&'a str>,
    /// `--log-file`: a file to append to, in place of stderr and the file in `dir`.
    pub file: Option<&'a Path>,
    /// The directory of the file that the log is also written to; `None` for stderr alone.
    pub dir: Option<&'a Path>,
    /// Whether `NO_COLOR` is set and not empty.
    pub no_color: bool,
    /// `--log-format`: whether each event is a JSON object.
    pub json: bool,
}

/// The log of this process. Keep it until the process ends: its drop waits a moment for events that are not written yet.
#[must_use = "without it the last events are lost"]
pub struct Log {
    _guards: Vec<FlushGuard>,
    /// The path of the log file, once it is known that it can be written.
    pub file: Arc<OnceLock<PathBuf>>,
    /// What is wrong with the options. The log is written nevertheless.
    pub errors: Vec<String>,
}

/// rmcp logs authorization codes and id tokens. We log what matters of a login ourselves.
const SECRET_TARGET: &str = "rmcp::transport::auth";

/// Starts the log of this process. An option that is wrong is replaced by its default.
#[expect(clippy::disallowed_methods, reason = "every field of an event is escaped")]
pub fn init(options: Options<'_>) -> Log {
    let (filter, error) = filter(options);
    let mut log = Log { _guards: Vec::new(), file: Arc::default(), errors: Vec::from_iter(error) };
    let chosen = options.file.and_then(|path| match open_log_file(path) {
        Ok(file) => {
            log.file.set(path.to_owned()).ok();
            Some(BoxMakeWriter::new(Arc::new(file)))
        }
        Err(error) => {
            log.errors.push(format!("the log file {} cannot be written: {error}", path.display()));
            None
        }
    });
    let (first, second, ansi) = match chosen {
        Some(file) => (Some(file), None, false),
        None => {
            let ansi = io::stderr().is_terminal() && !options.no_color;
            let file = options.dir.and_then(|dir| log.default_file(dir));
            (log.writer(lossy::writer("log", || Some(io::stderr()))), file, ansi)
        }
    };
    let subscriber = tracing_subscriber::registry().with(filter);
    // Fails only if a log was started before.
    let started = if options.json {
        subscriber.with(first.map(json_layer)).with(second.map(json_layer)).try_init()
    } else {
        let first = first.map(|writer| layer(writer, ansi));
        subscriber.with(first).with(second.map(|writer| layer(writer, false))).try_init()
    };
    started.ok();
    log
}

impl Log {
    /// Starts to write to the file that is kept by default. `None` if the system refuses a thread.
    fn default_file(&mut self, dir: &Path) -> Option<BoxMakeWriter> {
        let (dir, path) = (dir.to_owned(), self.file.clone());
        self.writer(lossy::writer("log-file", move || match log_file::LogFile::open(&dir) {
            Ok(file) => {
                path.set(log_file::path_in(&dir)).ok();
                Some(file)
            }
            Err(error) => {
                tracing::info!("no log file is kept: {error}");
                None
            }
        }))
    }

    /// Keeps the guard of a writer. Without a thread there is no writer.
    fn writer<F>(&mut self, started: io::Result<(F, FlushGuard)>) -> Option<BoxMakeWriter>
    where
        F: Fn() -> lossy::LossyWriter + Send + Sync + 'static,
    {
        let (writer, guard) = started.ok()?;
        self._guards.push(guard);
        Some(BoxMakeWriter::new(writer))
    }
}

fn open_log_file(path: &Path) -> io::Result<std::fs::File> {
    let mut file = OpenOptions::new();
    file.create(true).append(true);
    // Other users must not read what upstreams write to stderr.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut file, 0o600);
    file.open(path)
}

/// Makes the filter, and says what is wrong if it is not the one that the options ask for. A plain level applies to us
/// and to the stderr of upstreams; dependencies stay at `warn` or below unless directives name them.
fn filter(options: Options<'_>) -> (Targets, Option<String>) {
    let (name, text) = match (options.level, options.filter) {
        (Some(level), _) => ("--log-level", level),
        (None, Some(filter)) if !filter.trim().is_empty() => ("DYNAMIC_MCP_LOG", filter),
        (None, _) => ("", DEFAULT_LEVEL),
    };
    match parse_filter(text.trim(), options.level.is_none()) {
        Some(filter) => (filter, None),
        None => {
            let directives = match options.level {
                Some(_) => "",
                None => ", or directives such as warn,dynamic_mcp=debug",
            };
            let error = format!("{name} must be off, error, warn, info, debug or trace{directives}");
            (parse_filter(DEFAULT_LEVEL, false).unwrap_or_default(), Some(error))
        }
    }
}

/// The level of the log, if no option sets it.
const DEFAULT_LEVEL: &str = "info";

/// Makes a filter of a level, or of directives if they are allowed. `None` if the text is neither.
fn parse_filter(text: &str, may_be_directives: bool) -> Option<Targets> {
    if let Ok(level) = text.parse::<LevelFilter>() {
        let dependencies = level.min(LevelFilter::WARN);
        let ours = [("dynamic_mcp", level), ("upstream", level), (SECRET_TARGET, LevelFilter::OFF)];
        return Some(Targets::new().with_default(dependencies).with_targets(ours));
    }
    let parts = text.split(',').filter(|part| !part.trim().is_empty());
    let directives = parts.map(parse_directive).collect::<Option<Vec<_>>>()?;
    if !may_be_directives || directives.is_empty() {
        return None;
    }
    let default = directives.iter().rev().find(|(target, _)| target.is_none());
    let filter = Targets::new()
        .with_default(default.map_or(LevelFilter::OFF, |(_, level)| *level))
        .with_targets(directives.iter().filter_map(|(target, level)| Some(((*target)?, *level))));
    Some(filter.with_target(SECRET_TARGET, LevelFilter::OFF))
}

/// Parses `LEVEL`, or `TARGET=LEVEL`; `None` for anything else. A target alone is not a directive: a misspelled level
/// would be one, and silence everything else.
fn parse_directive(text: &str) -> Option<(Option<&str>, LevelFilter)> {
    let (target, level) = match text.split_once('=') {
        Some((target, level)) => (Some(target.trim()), level.trim()),
        None => (None, text.trim()),
    };
    // tracing takes an empty level for `error`.
    if level.is_empty() { None } else { Some((target, level.parse().ok()?)) }
}

/// Makes the layer that writes events. Its format escapes all fields: many hold text of upstreams, and
/// tracing-subscriber keeps line breaks in all of them and terminal escapes in most.
fn layer<S, W>(writer: W, ansi: bool) -> impl Layer<S>
where
    S: tracing::Subscriber + for<'s> LookupSpan<'s>,
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let fields = debug_fn(|writer, field, value| match field.name() {
        "message" => write!(Escaped(writer), "{value:?}"),
        name => write!(Escaped(writer), "{name}={value:?}"),
    });
    tracing_subscriber::fmt::layer()
        .with_writer(writer)
        .with_ansi(ansi)
        .fmt_fields(fields.delimited(" "))
        // They are written by a macro that panics if stderr is closed.
        .log_internal_errors(false)
        .compact()
}

/// Makes the layer that writes events as JSON.
fn json_layer<S, W>(writer: W) -> impl Layer<S>
where
    S: tracing::Subscriber + for<'s> LookupSpan<'s>,
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    tracing_subscriber::fmt::layer()
        .json()
        .with_current_span(false)
        .map_event_format(json::VisibleJson)
        .with_writer(writer)
        .log_internal_errors(false)
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

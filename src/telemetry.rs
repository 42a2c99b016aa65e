//! Our log: one line an event, to stderr or a file.

use std::fmt::{self, Write};
use std::fs::OpenOptions;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::filter::{EnvFilter, LevelFilter};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::debug_fn;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::util::SubscriberInitExt;

mod lossy;

pub use lossy::Flush;

/// What the command line and the environment say about the log.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options<'a> {
    /// `--log-level`: beats `filter`.
    pub level: Option<&'a str>,
    /// `DYNAMIC_MCP_LOG`: a level, or directives such as `warn,dynamic_mcp::upstream=debug`.
    pub filter: Option<&'a str>,
    /// `--log-file`: appended to, in place of stderr.
    pub file: Option<&'a Path>,
    /// Whether `NO_COLOR` is set and not empty.
    pub no_color: bool,
}

/// rmcp writes codes and id tokens to its log; what matters of a login we tell ourselves.
const QUIET: &str = "rmcp::transport::auth=off";

/// Starts the log of this process. The guard's drop waits a moment for what is not written yet.
pub fn init(options: Options<'_>) -> anyhow::Result<Option<Flush>> {
    let filter = filter(options)?;
    let (writer, flush, ansi) = match options.file {
        Some(path) => (BoxMakeWriter::new(Arc::new(open(path)?)), None, false),
        None => {
            let (writer, flush) = lossy::writer(io::stderr()).context("failed to start the log's thread")?;
            (BoxMakeWriter::new(writer), Some(flush), io::stderr().is_terminal() && !options.no_color)
        }
    };
    subscriber(filter, writer, ansi).try_init().context("failed to start the log")?;
    Ok(flush)
}

fn open(path: &Path) -> anyhow::Result<std::fs::File> {
    let mut file = OpenOptions::new();
    file.create(true).append(true);
    // What upstreams write to stderr is nobody else's business.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut file, 0o600);
    file.open(path).with_context(|| format!("failed to open the log file {}", path.display()))
}

/// A level is ours, and our upstreams'; dependencies stay at `warn` unless directives name them.
fn filter(options: Options<'_>) -> anyhow::Result<EnvFilter> {
    let (name, text) = match (options.level, options.filter) {
        (Some(level), _) => ("--log-level", level),
        (None, Some(filter)) if !filter.trim().is_empty() => ("DYNAMIC_MCP_LOG", filter),
        (None, _) => ("default", "info"),
    };
    let text = text.trim();
    if let Ok(level) = text.parse::<LevelFilter>() {
        let others = level.min(LevelFilter::WARN);
        let directives = format!("{others},dynamic_mcp={level},upstream={level}");
        return Ok(EnvFilter::builder().parse(directives)?.add_directive(QUIET.parse()?));
    }
    // EnvFilter takes any word for the name of a module, so that `inof` would silence everything.
    let is_directive = |part: &str| part.contains(['=', '[']) || part.trim().parse::<LevelFilter>().is_ok();
    let filter = text.split(',').all(is_directive).then(|| EnvFilter::builder().parse(text).ok()).flatten();
    match filter {
        Some(filter) if options.level.is_none() => Ok(filter.add_directive(QUIET.parse()?)),
        _ => bail!(
            "{name} is {text:?}; it has to be off, error, warn, info, debug or trace{}",
            if options.level.is_none() { ", or directives such as warn,dynamic_mcp=debug" } else { "" }
        ),
    }
}

/// The format. Fields are of strangers as often as not, and tracing-subscriber leaves `\n` in all and
/// ESC in most of them: all are escaped here.
fn subscriber<W>(filter: EnvFilter, writer: W, ansi: bool) -> impl tracing::Subscriber + Send + Sync
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let fields = debug_fn(|writer, field, value| match field.name() {
        "message" => write!(Escaped(writer), "{value:?}"),
        name => write!(Escaped(writer), "{name}={value:?}"),
    });
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer)
        .with_ansi(ansi)
        .fmt_fields(fields.delimited(" "))
        // They would go to stderr by a macro that panics where stderr is closed.
        .log_internal_errors(false)
        .compact()
        .finish()
}

/// Writes control characters, and what else ends a line, as escapes.
struct Escaped<W>(W);

impl<W: Write> Write for Escaped<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            match c {
                c if c.is_control() => write!(self.0, "{}", c.escape_debug())?,
                '\u{2028}' | '\u{2029}' => write!(self.0, "{}", c.escape_unicode())?,
                c => self.0.write_char(c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

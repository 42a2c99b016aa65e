//! The log as JSON: one object on each line, for programs that collect logs.
//!
//! The layout is tracing-subscriber's: `timestamp`, `level`, `target`, `fields` with the message, and `spans`, the outermost
//! first. Many values hold text of upstreams, and JSON needs no escape for what hides text or controls a terminal, so
//! this file adds it.

use crate::text::is_hidden;
use std::fmt;
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::{Format, Json, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Writes an event as a JSON object in which every character is visible.
pub(super) struct VisibleJson(pub(super) Format<Json>);

impl<S, N> FormatEvent<S, N> for VisibleJson
where
    S: Subscriber + for<'s> LookupSpan<'s>,
    N: for<'w> FormatFields<'w> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = String::new();
        self.0.format_event(context, Writer::new(&mut line), event)?;
        let mut units = [0; 2];
        for c in line.trim_end().chars() {
            if !is_hidden(c) {
                writer.write_char(c)?;
                continue;
            }
            for unit in c.encode_utf16(&mut units) {
                write!(writer, "\\u{unit:04x}")?;
            }
        }
        writeln!(writer)
    }
}

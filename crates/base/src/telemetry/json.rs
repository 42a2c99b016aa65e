//! The log as JSON: one object on each line, for programs that collect logs.
//!
//! `{"time":"…","level":"INFO","target":"…","message":"…","FIELD":"…","spans":[{"name":"request","id":"…"}]}`: the fields of
//! the event beside its message, and the spans that it is in, the outermost first, each with its own fields. Every value is
//! a string, because most hold text of upstreams.

use crate::text::is_hidden;
use std::fmt::{self, Debug, Write};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

/// Writes an event as a JSON object.
pub(super) struct JsonEvents;

/// Writes fields as members of a JSON object, each with a comma before it.
pub(super) struct JsonFields;

impl<S> FormatEvent<S, JsonFields> for JsonEvents
where
    S: Subscriber + for<'s> LookupSpan<'s>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, JsonFields>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        writer.write_str("{\"time\":\"")?;
        SystemTime.format_time(&mut writer)?;
        write!(writer, "\",\"level\":\"{}\",\"target\":\"", event.metadata().level())?;
        write!(JsonText(&mut writer), "{}", event.metadata().target())?;
        writer.write_char('"')?;
        context.format_fields(writer.by_ref(), event)?;
        let spans = context.event_scope().into_iter().flat_map(|scope| scope.from_root());
        let mut before = ",\"spans\":[";
        for span in spans {
            write!(writer, "{before}{{\"name\":\"{}\"", span.name())?;
            if let Some(fields) = span.extensions().get::<FormattedFields<JsonFields>>() {
                writer.write_str(fields)?;
            }
            writer.write_char('}')?;
            before = ",";
        }
        let end = if before == "," { "]}" } else { "}" };
        writeln!(writer, "{end}")
    }
}

impl<'w> FormatFields<'w> for JsonFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut members = FieldMembers { writer, outcome: Ok(()) };
        fields.record(&mut members);
        members.outcome
    }

    /// The same as at first, without the space that the default puts in between.
    fn add_fields(
        &self,
        current: &'w mut FormattedFields<Self>,
        fields: &tracing::span::Record<'_>,
    ) -> fmt::Result {
        self.format_fields(current.as_writer(), fields)
    }
}

struct FieldMembers<'w> {
    writer: Writer<'w>,
    outcome: fmt::Result,
}

impl Visit for FieldMembers<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let mut write = || {
            write!(self.writer, ",\"{}\":\"", field.name())?;
            write!(JsonText(&mut self.writer), "{value:?}")?;
            self.writer.write_char('"')
        };
        let written = write();
        self.outcome = self.outcome.and(written);
    }
}

/// Escapes what JSON needs, and what controls a terminal or hides text.
struct JsonText<W>(W);

impl<W: Write> Write for JsonText<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            match c {
                '"' | '\\' => write!(self.0, "\\{c}")?,
                c if c.is_control() || is_hidden(c) => {
                    let mut units = [0; 2];
                    for unit in c.encode_utf16(&mut units) {
                        write!(self.0, "\\u{unit:04x}")?;
                    }
                }
                c => self.0.write_char(c)?,
            }
        }
        Ok(())
    }
}

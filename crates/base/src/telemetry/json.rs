//! The log as JSON: one object on each line, for programs that collect logs.
//!
//! `{"time":"…","level":"INFO","target":"…","message":"…","FIELD":"…","spans":[{"name":"request","id":"…"}]}`: the fields of
//! the event beside its message, and the spans that it is in, the outermost first, each with its own fields. Every value is
//! a string, because most hold text of upstreams. A name occurs once in an object: the values of a field that a span
//! recorded several times are joined, and a field with a name of ours gets a `_`.

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

    fn add_fields(
        &self,
        current: &'w mut FormattedFields<Self>,
        fields: &tracing::span::Record<'_>,
    ) -> fmt::Result {
        let mut added = AddedFields(&mut current.fields);
        fields.record(&mut added);
        Ok(())
    }
}

/// The names of the members that are no fields.
const OWN_NAMES: [&str; 5] = ["time", "level", "target", "spans", "name"];

/// Adds fields to those that a span already has.
struct AddedFields<'a>(&'a mut String);

impl Visit for AddedFields<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let Self(fields) = self;
        let mut member = String::new();
        if write_member(&mut member, field, value).is_err() {
            return;
        }
        // A quotation mark inside a value is escaped, so these bytes are no part of one.
        let value_at = member.find("\":\"").map_or(0, |end| end + "\":\"".len());
        let Some(found) = fields.find(&member[..value_at]) else { return fields.push_str(&member) };
        let begin = found + value_at;
        let end = begin + length_of_text(&fields[begin..]);
        let value = &member[value_at..member.len() - 1];
        if !fields[begin..end].split(", ").any(|known| known == value) {
            let value = format!(", {value}");
            fields.insert_str(end, &value);
        }
    }
}

/// Returns how long a JSON string is, up to its quotation mark.
fn length_of_text(text: &str) -> usize {
    let mut is_escaped = false;
    let is_end = |byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    };
    text.bytes().position(is_end).unwrap_or(text.len())
}

/// Writes a field as a member of an object, with a comma before it.
fn write_member(mut to: impl Write, field: &Field, value: &dyn Debug) -> fmt::Result {
    let suffix = if OWN_NAMES.contains(&field.name()) { "_" } else { "" };
    write!(to, ",\"{}{suffix}\":\"", field.name())?;
    write!(JsonText(&mut to), "{value:?}")?;
    to.write_char('"')
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
        let written = write_member(&mut self.writer, field, value);
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

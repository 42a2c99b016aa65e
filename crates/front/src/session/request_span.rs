//! The span of one request of the client. Every log line that is written while the request is served has its method and its
//! id and, once they are known, the group and the tool. The span exists only if the log has level `debug`: otherwise each
//! function here is one comparison.

use config::GroupName;
use tracing::field::Empty;
use tracing::{Instrument, Level, Span, debug_span, enabled};
use wire::Request;
use wire::inbound::ResponseFuture;
use wire::log_text::LogText;

/// The name of the span. Others may be current, such as that of a group whose task continues the request.
const NAME: &str = "request";

/// Creates the span of a request. It has no params, which may hold secrets.
pub fn new(request: &Request) -> Span {
    let (method, id) = (LogText(request.method.as_bytes()), LogText(&request.id));
    let id = format_args!("{id:.64}");
    debug_span!(parent: None, NAME, %method, %id, principal = Empty, group = Empty, tool = Empty)
}

/// Creates the span of a request that a principal makes.
pub fn of_principal(request: &Request, principal: &str) -> Span {
    let span = new(request);
    span.record("principal", tracing::field::display(LogText(principal.as_bytes())));
    span
}

/// Has the future run in the span that is current now.
pub fn continued(answer: ResponseFuture) -> ResponseFuture {
    match current() {
        Some(span) => Box::pin(answer.instrument(span)),
        None => answer,
    }
}

/// Notes a group that the current request is sent to. Of several groups, the log as text has all and JSON the last one.
pub(crate) fn record_group(group: &GroupName) {
    if let Some(span) = current() {
        span.record("group", tracing::field::display(group));
    }
}

/// Notes the tool that the current request calls, and its group.
pub(crate) fn record_tool(group: &GroupName, tool: &str) {
    if let Some(span) = current() {
        span.record("group", tracing::field::display(group));
        span.record("tool", tracing::field::display(LogText(tool.as_bytes())));
    }
}

/// The span of the request that is being served, if requests have spans.
fn current() -> Option<Span> {
    if !enabled!(Level::DEBUG) {
        return None;
    }
    let span = Span::current();
    span.metadata().is_some_and(|metadata| metadata.name() == NAME).then_some(span)
}

//! The stream on which a server says what belongs to no request (revisions 2025-03-26 to 2025-11-25): opened by GET,
//! opened again where it broke off.

use super::error::RemoteErrorKind;
use super::events::{Cursor, End};
use super::exchange::Exchange;
use reqwest::StatusCode;
use std::sync::Arc;

/// Attempts in a row that found no server: then it is gone, and whoever calls next had better know.
const GONE: u32 = 3;

pub async fn listen(exchange: Arc<Exchange>) {
    let (mut cursor, mut failures, mut offered) = (Cursor::default(), 0, false);
    loop {
        match exchange.listen(cursor.last.as_ref()).await {
            Ok(mut events) => {
                offered = true;
                let end = loop {
                    match events.next().await {
                        Ok(event) => {
                            failures = 0;
                            cursor.pass(&event);
                            exchange.pass(event).await;
                        }
                        Err(end) => break end,
                    }
                };
                if let End::TooLong(bytes) = end {
                    tracing::warn!(
                        bytes,
                        limit = exchange.limit,
                        "skipped a message of the server that is too long"
                    );
                }
            }
            Err(fault) => match fault.kind {
                RemoteErrorKind::Status(StatusCode::NOT_FOUND)
                    if offered && exchange.session.get().is_some() =>
                {
                    return exchange.end(super::error::RemoteError::session_over(), None).await;
                }
                RemoteErrorKind::LoginNeeded | RemoteErrorKind::Config => {
                    return exchange.end(fault, None).await;
                }
                RemoteErrorKind::Unreachable if failures + 1 >= GONE => {
                    return exchange.end(fault, None).await;
                }
                RemoteErrorKind::Unreachable | RemoteErrorKind::Busy | RemoteErrorKind::Broken => {}
                RemoteErrorKind::Status(status) if status.is_server_error() && offered => {}
                // Most often 405: the server has no such stream.
                RemoteErrorKind::Status(_)
                | RemoteErrorKind::RightsNeeded
                | RemoteErrorKind::Foreign
                | RemoteErrorKind::SessionOver => {
                    tracing::debug!(%fault, "the server offers no stream of its own");
                    return;
                }
            },
        }
        cursor.pause(failures).await;
        failures += 1;
    }
}

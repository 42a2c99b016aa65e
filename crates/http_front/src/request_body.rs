//! Reads the body of a request: within a limit, a deadline, and the memory for messages of the whole process.

use base::fair::User;
use bytes::{Bytes, BytesMut};
use front::arguments::without_line_ends;
use hyper::body::Body;
use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;
use tokio::time::timeout;
use wire::budget::Reservation;

/// How long a client may take to send a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Why a body cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RequestBodyError {
    /// It exceeds the limit.
    TooLong,
    /// The memory for messages is used up, or the user's share of it.
    OverBudget,
    /// It did not come in time.
    TooSlow,
    /// The client sent no whole body.
    Incomplete,
}

/// Reads a body of at most `limit` bytes, for 30 s at most. The body counts for its user. Line breaks between the tokens of
/// the JSON become spaces: a server behind a pipe would read them as the ends of messages.
///
/// # Errors
///
/// See [`RequestBodyError`].
pub(crate) async fn read(
    body: impl Body<Data = Bytes> + Unpin,
    limit: usize,
    user: User,
) -> Result<Bytes, RequestBodyError> {
    if body.size_hint().lower() > limit as u64 {
        return Err(RequestBodyError::TooLong);
    }
    let read = timeout(BODY_TIMEOUT, collect(body, limit, user)).await;
    read.map_err(|_| RequestBodyError::TooSlow)?
}

async fn collect(
    mut body: impl Body<Data = Bytes> + Unpin,
    limit: usize,
    user: User,
) -> Result<Bytes, RequestBodyError> {
    let mut reservation = Reservation::of_user(user);
    let (mut first, mut rest) = (Bytes::new(), BytesMut::new());
    loop {
        let frame = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await;
        let Some(frame) = frame else { break };
        let Ok(data) = frame.map_err(|_| RequestBodyError::Incomplete)?.into_data() else { continue };
        let length = first.len() + rest.len() + data.len();
        if length > limit {
            return Err(RequestBodyError::TooLong);
        }
        if !reservation.reserve(length).await {
            return Err(RequestBodyError::OverBudget);
        }
        match (first.is_empty(), rest.is_empty()) {
            (true, true) => first = data,
            (true, false) => rest.extend_from_slice(&data),
            (false, _) => {
                rest.reserve(length);
                rest.extend_from_slice(&std::mem::take(&mut first));
                rest.extend_from_slice(&data);
            }
        }
    }
    let whole = if rest.is_empty() { first } else { rest.freeze() };
    Ok(reservation.hold(without_line_ends(whole)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::body::Frame;
    use std::convert::Infallible;
    use std::task::{Context, Poll};
    use tokio::time::{Instant, Interval, interval};

    /// A body without end, of which a byte comes at each interval.
    struct Trickle(Interval);

    impl Body for Trickle {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            self.0.poll_tick(context).map(|_| Some(Ok(Frame::data(Bytes::from_static(b" ")))))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_body_is_given_up() {
        let begin = Instant::now();
        let read = read(Trickle(interval(Duration::from_secs(1))), 1000, None).await;
        assert_eq!((read, begin.elapsed()), (Err(RequestBodyError::TooSlow), BODY_TIMEOUT));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_has_a_limit() {
        let body = Trickle(interval(Duration::from_millis(1)));
        assert_eq!(read(body, 1000, None).await, Err(RequestBodyError::TooLong));
    }

    #[test]
    fn a_message_is_one_line() {
        let body = Bytes::from_static(b"{\r\n \"a\": \"b\\n\"\n}");
        assert_eq!(without_line_ends(body), "{   \"a\": \"b\\n\" }");
        assert_eq!(without_line_ends(Bytes::from_static(b"{}")), "{}");
    }
}

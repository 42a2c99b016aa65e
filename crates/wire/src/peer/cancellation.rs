//! The params of a cancellation, for the calls that were made to answer the cancelled request.
//!
//! A request that is cancelled is dropped, and with it the calls of its future: to servers, and to the user who is asked
//! about it. Each call cancels its own request, and finds here what to say, so that the reason reaches whom it is for.

use crate::Raw;
use std::cell::RefCell;

thread_local! {
    /// The params of the `notifications/cancelled` whose request is being dropped.
    static PARAMS: RefCell<Option<Raw>> = const { RefCell::new(None) };
}

/// Drops the future that a `notifications/cancelled` with these params cancels.
pub(crate) fn drop_cancelled<T>(cancelled: T, params: Raw) {
    // The outer one comes back also if dropping panics.
    let _dropping = Dropping { outer: PARAMS.replace(Some(params)) };
    drop(cancelled);
}

/// Returns the params of the cancellation for which the caller is being dropped; `None` if it is dropped for another
/// reason.
pub(crate) fn params() -> Option<Raw> {
    // There are none at the end of a thread.
    PARAMS.try_with(|params| params.borrow().clone()).ok().flatten()
}

/// Ends a `drop_cancelled`.
struct Dropping {
    outer: Option<Raw>,
}

impl Drop for Dropping {
    fn drop(&mut self) {
        PARAMS.set(self.outer.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds what it finds when it is dropped.
    struct Call<'a>(&'a RefCell<Vec<Option<Raw>>>, Option<Box<Self>>);

    impl Drop for Call<'_> {
        fn drop(&mut self) {
            if let Some(inner) = self.1.take() {
                drop_cancelled(inner, Raw::from_static(b"inner"));
            }
            self.0.borrow_mut().push(params());
        }
    }

    #[test]
    fn params_are_there_only_while_something_is_dropped() {
        let found = RefCell::default();
        drop_cancelled(Call(&found, Some(Box::new(Call(&found, None)))), Raw::from_static(b"outer"));
        drop(Call(&found, None));
        let [inner, outer] = ["inner", "outer"].map(|params| Some(Raw::from_static(params.as_bytes())));
        assert_eq!(found.into_inner(), [inner, outer, None]);
    }
}

//! What must not be cut off: a request whose answer has the only tokens that still work, until they are kept. Whoever
//! asked for it may go away, and the process waits for it before it ends.

use tokio::sync::watch;

/// Those of this process. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Errands(watch::Sender<State>);

#[derive(Debug, Default)]
struct State {
    under_way: usize,
    /// The process ends: none begins any more.
    over: bool,
}

/// One that is under way until this is dropped.
pub(super) struct Errand(Errands);

impl Errands {
    /// `None`: the process ends, and may not be there any more when the answer comes.
    pub(super) fn begin(&self) -> Option<Errand> {
        let begun = self.0.send_if_modified(|state| {
            state.under_way += usize::from(!state.over);
            !state.over
        });
        begun.then(|| Errand(self.clone()))
    }

    /// No other begins; waits for those that are under way.
    pub(super) async fn settled(&self) {
        self.0.send_modify(|state| state.over = true);
        // Its sender is here.
        drop(self.0.subscribe().wait_for(|state| state.under_way == 0).await);
    }
}

impl Drop for Errand {
    fn drop(&mut self) {
        self.0.0.send_modify(|state| state.under_way -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn the_end_waits_for_what_is_under_way_and_nothing_else_begins() {
        let errands = Errands::default();
        let (one, two) = (errands.begin().unwrap(), errands.clone().begin().unwrap());
        let mut settled = std::pin::pin!(errands.settled());
        assert!(settled.as_mut().now_or_never().is_none());
        assert!(errands.begin().is_none());
        drop(one);
        assert!(settled.as_mut().now_or_never().is_none());
        drop(two);
        assert!(settled.as_mut().now_or_never().is_some());
    }
}

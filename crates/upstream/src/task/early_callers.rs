//! Callers that need not wait for all lists of a connection.

use super::Task;
use crate::connection::Connect;
use crate::connection::milestones::{Milestone, Need};

impl<C: Connect> Task<C> {
    /// Forgets the milestones of what is over, so that they do not replace its outcome.
    pub(super) fn skip_milestones(&mut self) {
        self.reached = None;
        while self.milestones.try_recv().is_ok() {}
    }

    /// Answers the callers that need no more than this milestone.
    pub(super) fn handle_milestone(&mut self, milestone: Milestone) {
        match milestone {
            Milestone::HandshakeDone(live) => self.reached = Some((live, Need::Handshake)),
            Milestone::ToolsRead(catalog) => {
                self.set_catalog(*catalog);
                self.publish();
                if let Some((_, reached)) = &mut self.reached {
                    *reached = Need::Tools;
                }
                self.refresh_waiting.retain(|(need, _)| *need > Need::Tools);
            }
        }
        self.answer_early();
    }

    /// Gives a lease to each caller that needs no more than the attempt in progress has reached.
    pub(super) fn answer_early(&mut self) {
        let Some((live, reached)) = self.reached.clone() else { return };
        for (need, caller) in std::mem::take(&mut self.waiting) {
            match live.lease().filter(|_| need <= reached) {
                Some(lease) => drop(caller.send(Ok(lease))),
                None => self.waiting.push((need, caller)),
            }
        }
    }
}

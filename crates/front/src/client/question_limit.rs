//! Limits how many questions about one group are open to the user at a time.
//!
//! A server may ask as often as it likes while it runs a call, and over stdio nothing says to which call a question
//! belongs. So the questions of a group are counted together: elicitations and sampling requests of its server, our
//! approvals of calls, and login offers. A few are open, some wait for their turn, and the rest are refused.

use config::GroupName;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// How many questions of one group are open to the user at the same time.
pub(crate) const MAX_OPEN_QUESTIONS: usize = 3;
/// How many more of them wait for their turn. Further ones are refused.
const MAX_WAITING: usize = 32;
/// How many may be open or wait.
pub(crate) const MAX_QUESTIONS: usize = MAX_OPEN_QUESTIONS + MAX_WAITING;
/// The longest time that a question waits for its turn, as long as a person has for an answer.
const MAX_WAIT: Duration = Duration::from_secs(3600);

/// The open and waiting questions of one client.
#[derive(Default)]
pub struct QuestionLimit(Mutex<HashMap<GroupName, Arc<GroupQuestions>>>);

/// The questions of one group.
struct GroupQuestions {
    /// A permit for each question that is open or waits.
    admitted: Arc<Semaphore>,
    /// A permit for each question that is open.
    open: Arc<Semaphore>,
}

impl Default for GroupQuestions {
    fn default() -> Self {
        let admitted = Semaphore::new(MAX_QUESTIONS);
        Self { admitted: Arc::new(admitted), open: Arc::new(Semaphore::new(MAX_OPEN_QUESTIONS)) }
    }
}

/// Keeps the place of an open question until it is dropped: among the open ones, and among the admitted ones.
pub type QuestionPermit = [OwnedSemaphorePermit; 2];

/// Too many questions of a group wait for the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyQuestions;

impl QuestionLimit {
    /// Waits until one more question of `group` may be open, for `MAX_WAIT` at most.
    ///
    /// # Errors
    ///
    /// Too many questions of the group wait already, or this one has waited for too long.
    pub async fn acquire(&self, group: &GroupName) -> Result<QuestionPermit, TooManyQuestions> {
        let questions = self.0.lock().entry(group.clone()).or_default().clone();
        let admitted = questions.admitted.clone().try_acquire_owned().map_err(|_| TooManyQuestions)?;
        match timeout(MAX_WAIT, questions.open.clone().acquire_owned()).await {
            Ok(Ok(open)) => Ok([open, admitted]),
            Ok(Err(_)) | Err(_) => Err(TooManyQuestions),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn three_questions_are_open_some_wait_and_the_rest_are_refused() {
        let (limit, group, other) = (QuestionLimit::default(), GroupName::new("g"), GroupName::new("h"));
        let mut open = Vec::new();
        for _ in 0..MAX_OPEN_QUESTIONS {
            open.push(limit.acquire(&group).await.unwrap());
        }
        let mut waiting: Vec<_> = (0..MAX_WAITING).map(|_| Box::pin(limit.acquire(&group))).collect();
        assert!(waiting.iter_mut().all(|question| question.now_or_never().is_none()));
        assert_eq!(limit.acquire(&group).await.err(), Some(TooManyQuestions));
        assert!(limit.acquire(&other).await.is_ok(), "each group has its own limit");
        drop(open.pop());
        let next = waiting.remove(0).now_or_never().unwrap().unwrap();
        assert!(waiting.iter_mut().all(|question| question.now_or_never().is_none()), "one after the other");
        // A question that was withdrawn while it waited leaves its place.
        assert!(limit.acquire(&group).now_or_never().is_none());
        drop((next, open, waiting));
        assert!(limit.acquire(&group).await.is_ok());
    }
}

//! The warden processes of one [`Warden`](super::Warden): usually one, never more than two.
//!
//! A warden process that begins no spawn for 5 s is stopped or stuck. It is *retired*: it keeps its upstreams, which work
//! on, and their stops, and another one gets the spawns. When a retired warden process has no upstream left, its socket is
//! closed. If the other one becomes silent too before that, spawns fail until it works again.

use std::ops::Range;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::sleep;

use super::handle::ClientCommand;
use super::protocol::LostUpstreams;
use crate::held_process::HeldProcess;

/// How many commands may wait for a warden process that does not read.
pub(super) const MAX_COMMANDS: usize = 1024;
/// How many of them may wait when a spawn is added. The others are stops, of which a process has two at most.
const MAX_WAITING_SPAWNS: usize = 64;
/// How often a spawn looks whether others were sent.
const ROOM_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The warden processes, and the ids of upstreams, which they share.
#[derive(Debug, Default)]
pub(super) struct WardenPool {
    /// Was silent, and gets no more spawns.
    retired: Option<WardenProcess>,
    /// Gets the spawns.
    current: Option<WardenProcess>,
    /// The id of the next upstream. Ids are never reused.
    next_id: u64,
    /// Whether [`Warden::shutdown`](super::Warden::shutdown) was called.
    pub(super) is_shut_down: bool,
}

/// A warden process that is not known to have ended.
#[derive(Debug)]
struct WardenProcess {
    /// To its client task, which ends if this is dropped.
    commands: mpsc::Sender<ClientCommand>,
    /// Its pid.
    pid: Option<u32>,
    /// Continues and kills it at the end. `None` where the system has no such descriptors.
    held: Option<HeldProcess>,
    /// The ids of its upstreams. Their end is unknown until it is retired.
    ids: Range<u64>,
}

impl WardenPool {
    /// Returns the commands of the warden process that spawns; `None` if one has to be started.
    pub(super) fn current(&mut self) -> Option<mpsc::Sender<ClientCommand>> {
        self.forget_ended();
        Some(self.current.as_ref()?.commands.clone())
    }

    /// Adds a warden process, which gets the spawns from now on.
    pub(super) fn add(&mut self, commands: mpsc::Sender<ClientCommand>, pid: Option<u32>) {
        let held = pid.and_then(|pid| HeldProcess::open(pid.cast_signed()).ok());
        self.current = Some(WardenProcess { commands, pid, held, ids: self.next_id..u64::MAX });
    }

    /// Returns the id of the next upstream.
    pub(super) fn take_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    /// Retires a silent warden process. Returns its pid, if it is known; `None` too if the warden process is retired or
    /// ended already.
    ///
    /// # Errors
    ///
    /// Fails if it is the current one and another one is retired.
    pub(super) fn retire(&mut self, silent: &mpsc::Sender<ClientCommand>) -> Result<Option<u32>, BothSilent> {
        self.forget_ended();
        let is_silent = |process: &mut WardenProcess| process.commands.same_channel(silent);
        if self.retired.is_some() && self.current.as_mut().is_some_and(is_silent) {
            return Err(BothSilent);
        }
        let Some(mut process) = self.current.take_if(is_silent) else { return Ok(None) };
        process.ids.end = self.next_id;
        // Fails if its client task has ended just now.
        process.commands.try_send(ClientCommand::Retire).ok();
        Ok(self.retired.insert(process).pid)
    }

    /// Returns the pid of the retired warden process.
    pub(super) fn retired_pid(&self) -> Option<u32> {
        self.retired.as_ref()?.pid
    }

    /// Returns the upstreams of the warden processes that were killed. `pids` are those of the last one.
    pub(super) fn lost(&mut self, pids: Vec<u32>) -> LostUpstreams {
        self.forget_ended();
        let spared = self.processes().map(|process| process.ids.clone()).collect();
        LostUpstreams { below: self.next_id, spared, pids }
    }

    /// Makes every later spawn fail. Hands over the warden processes: their commands, and the processes with their pids.
    pub(super) fn shut_down(&mut self) -> (Vec<mpsc::Sender<ClientCommand>>, Vec<(u32, HeldProcess)>) {
        self.is_shut_down = true;
        let (mut commands, mut held) = (Vec::new(), Vec::new());
        for process in self.retired.take().into_iter().chain(self.current.take()) {
            commands.push(process.commands);
            held.extend(process.pid.zip(process.held));
        }
        (commands, held)
    }

    /// Returns the pids of the warden processes, the retired one first.
    pub(super) fn pids(&self) -> Vec<u32> {
        let alive = self.processes().filter(|process| !process.commands.is_closed());
        alive.filter_map(|process| process.pid).collect()
    }

    fn processes(&self) -> impl Iterator<Item = &WardenProcess> {
        self.retired.iter().chain(&self.current)
    }

    fn forget_ended(&mut self) {
        for process in [&mut self.retired, &mut self.current] {
            process.take_if(|process| process.commands.is_closed());
        }
    }
}

/// Waits until a spawn may be added to the commands of a warden process. The caller limits the time.
pub(super) async fn room_for_spawn(commands: &mpsc::Sender<ClientCommand>) {
    while MAX_COMMANDS - commands.capacity() >= MAX_WAITING_SPAWNS && !commands.is_closed() {
        sleep(ROOM_POLL_INTERVAL).await;
    }
}

/// The current warden process is silent, and the retired one has upstreams still.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BothSilent;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::Launch;
    use crate::warden::Warden;
    use tokio::task::JoinSet;

    #[tokio::test]
    async fn a_warden_process_that_does_not_read_gets_few_spawns() {
        let warden = Warden::of("/missing".into(), Vec::new(), Duration::from_millis(200), None);
        let (commands, receiver) = mpsc::channel(MAX_COMMANDS);
        warden.0.pool.lock().add(commands, None);
        let launch = Launch { program: "/x".into(), args: Vec::new(), env: Vec::new(), cwd: "/".into() };
        let mut spawns = JoinSet::new();
        for _ in 0..2 * MAX_WAITING_SPAWNS {
            let (warden, launch) = (warden.clone(), launch.clone());
            spawns.spawn(async move { warden.spawn(launch).await.is_err() });
        }
        assert!(spawns.join_all().await.into_iter().all(|failed| failed));
        assert_eq!(receiver.len(), MAX_WAITING_SPAWNS + 1, "and that it is retired");
    }

    #[test]
    fn one_silent_warden_process_is_retired_and_keeps_its_ids() {
        let mut pool = WardenPool::default();
        let add = |pool: &mut WardenPool, pid| {
            assert!(pool.current().is_none());
            let (commands, receiver) = mpsc::channel(MAX_COMMANDS);
            pool.add(commands.clone(), Some(pid));
            assert!(pool.current().unwrap().same_channel(&commands));
            pool.take_id();
            pool.take_id();
            (commands, receiver)
        };
        let lost_ids = |pool: &mut WardenPool| {
            let lost = pool.lost(vec![]);
            (0..9).filter(|id| lost.contains(*id)).collect::<Vec<u64>>()
        };
        let (first, mut first_receiver) = add(&mut pool, 1);
        assert_eq!(pool.retire(&first), Ok(Some(1)));
        assert_eq!(pool.retire(&first), Ok(None), "another caller has retired it");
        assert!(matches!(first_receiver.try_recv(), Ok(ClientCommand::Retire)));
        let (second, second_receiver) = add(&mut pool, 2);
        assert_eq!(pool.retire(&second), Err(BothSilent));
        assert_eq!(pool.retire(&first), Ok(None));
        assert_eq!((pool.pids(), pool.retired_pid()), (vec![1, 2], Some(1)));
        // The second one is killed: the upstreams 2 and 3 are lost.
        drop(second_receiver);
        assert_eq!((lost_ids(&mut pool), pool.pids()), (vec![2, 3], vec![1]));
        let (third, _third_receiver) = add(&mut pool, 3);
        assert_eq!(pool.retire(&third), Err(BothSilent));
        // The retired one is killed: there is room for another one.
        drop(first_receiver);
        assert_eq!(lost_ids(&mut pool), [0, 1, 2, 3]);
        assert_eq!(pool.retire(&third), Ok(Some(3)));
        assert!(pool.current().is_none());
    }
}

//! The warden processes of one [`Warden`](super::Warden): usually one.
//!
//! A warden process that begins no spawn for 5 s is stopped or stuck. It is *retired*: it keeps its upstreams and their
//! stops, and another one gets the spawns. When a retired warden process has no upstream left, its socket is closed.

use tokio::sync::mpsc;

use super::handle::ClientCommand;
use super::protocol::LostUpstreams;
use crate::transport::held_process::HeldProcess;

/// The number of warden processes at which a silent one is not retired: then spawns fail until it works again.
pub(super) const MAX_WARDENS: usize = 4;

/// The warden processes, and the ids of upstreams, which they share.
#[derive(Debug, Default)]
pub(super) struct WardenPool {
    /// Oldest first. Spawns go to the last one, unless it is retired.
    processes: Vec<WardenProcess>,
    /// The id of the next upstream. Ids are never reused.
    next_id: u64,
    /// Whether [`Warden::shutdown`](super::Warden::shutdown) was called.
    pub(super) is_shut_down: bool,
}

/// A warden process that lives as far as is known.
#[derive(Debug)]
struct WardenProcess {
    /// To its client task, which ends if this is dropped. Unbounded, because its senders are bounded: each waits for
    /// the result of its spawn, and a process has at most two stops.
    commands: mpsc::UnboundedSender<ClientCommand>,
    /// Its pid.
    pid: Option<u32>,
    /// Continues and kills it at the end. `None` where the system has no such descriptors.
    held: Option<HeldProcess>,
    /// The first id of its upstreams, and the end of their ids, which is unknown until it is retired.
    ids: (u64, u64),
    /// Whether it gets no more spawns.
    is_retired: bool,
}

impl WardenPool {
    /// Returns the commands of the warden process that spawns; `None` if one has to be started.
    pub(super) fn current(&mut self) -> Option<mpsc::UnboundedSender<ClientCommand>> {
        self.forget_ended();
        let last = self.processes.last().filter(|process| !process.is_retired)?;
        Some(last.commands.clone())
    }

    /// Adds a warden process, which gets the spawns from now on.
    pub(super) fn add(&mut self, commands: mpsc::UnboundedSender<ClientCommand>, pid: Option<u32>) {
        let held = pid.and_then(|pid| HeldProcess::open(pid.cast_signed()).ok());
        self.processes.push(WardenProcess {
            commands,
            pid,
            held,
            ids: (self.next_id, u64::MAX),
            is_retired: false,
        });
    }

    /// Returns the id of the next upstream.
    pub(super) fn take_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    /// Retires a silent warden process. Returns its pid if this call did so, and an error at `MAX_WARDENS`.
    pub(super) fn retire(
        &mut self,
        silent: &mpsc::UnboundedSender<ClientCommand>,
    ) -> Result<Option<u32>, TooManyWardens> {
        self.forget_ended();
        let count = self.processes.len();
        let silent = |process: &&mut WardenProcess| process.commands.same_channel(silent);
        let Some(process) = self.processes.last_mut().filter(silent).filter(|process| !process.is_retired)
        else {
            return Ok(None);
        };
        if count >= MAX_WARDENS {
            return Err(TooManyWardens);
        }
        (process.is_retired, process.ids.1) = (true, self.next_id);
        // Fails if its client task has ended just now.
        process.commands.send(ClientCommand::Retire).ok();
        Ok(process.pid)
    }

    /// Returns the upstreams of the warden processes that were killed. `pids` are those of the last one.
    pub(super) fn lost(&mut self, pids: Vec<u32>) -> LostUpstreams {
        self.forget_ended();
        let spared = self.processes.iter().map(|process| process.ids).collect();
        LostUpstreams { below: self.next_id, spared, pids }
    }

    /// Makes every later spawn fail. Returns the commands of all warden processes, and at the first call the processes
    /// with their pids.
    pub(super) fn shut_down(
        &mut self,
    ) -> (Vec<mpsc::UnboundedSender<ClientCommand>>, Vec<(u32, HeldProcess)>) {
        self.is_shut_down = true;
        let commands = self.processes.iter().map(|process| process.commands.clone()).collect();
        let held = self.processes.iter_mut().filter_map(|process| process.pid.zip(process.held.take()));
        (commands, held.collect())
    }

    /// Returns the pids of all warden processes, oldest first.
    pub(super) fn pids(&self) -> Vec<u32> {
        let alive = self.processes.iter().filter(|process| !process.commands.is_closed());
        alive.filter_map(|process| process.pid).collect()
    }

    fn forget_ended(&mut self) {
        self.processes.retain(|process| !process.commands.is_closed());
    }
}

/// There are `MAX_WARDENS` warden processes, and the last one is silent too.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooManyWardens;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silent_warden_processes_are_retired_up_to_a_bound_and_keep_their_ids() {
        let mut pool = WardenPool::default();
        let mut receivers = Vec::new();
        for pid in 1..=4 {
            assert!(pool.current().is_none());
            let (commands, receiver) = mpsc::unbounded_channel();
            receivers.push(receiver);
            pool.add(commands.clone(), Some(pid));
            assert!(pool.current().unwrap().same_channel(&commands));
            pool.take_id();
            pool.take_id();
            let expected = if pid == 4 { Err(TooManyWardens) } else { Ok(Some(pid)) };
            assert_eq!(pool.retire(&commands), expected);
            assert!(pid == 4 || pool.retire(&commands) == Ok(None), "another caller has retired it");
        }
        assert_eq!(pool.pids(), [1, 2, 3, 4]);
        // The second one is killed: the upstreams 2 and 3 are lost.
        drop(receivers.remove(1));
        let lost = pool.lost(vec![]);
        assert_eq!((0..9).filter(|id| lost.contains(*id)).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(pool.pids(), [1, 3, 4]);
        // Now there is room for one more.
        let last = pool.current().unwrap();
        assert_eq!(pool.retire(&last), Ok(Some(4)));
        assert!(matches!(receivers[2].try_recv(), Ok(ClientCommand::Retire)));
    }
}

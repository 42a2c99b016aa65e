//! The warden process: one thread that starts, signals, scans for and reaps every upstream, and that ends
//! them all when the socket to us breaks.
//!
//! ```text
//! Hello ──▶ strays ended ──▶ serving ──▶ Stop: wait, TERM, KILL, eight empty scans ──▶ Gone
//!                               │
//!                               └─▶ End, or the socket broke, or nonsense on it: TERM, KILL until ECHILD
//! ```
//! It never blocks on us (what the socket does not take is queued), never panics on what it reads, writes no
//! logs and opens no files but those of /proc.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{ErrorKind, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::Duration;

use nix::sys::select::{FdSet, pselect};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::time::TimeSpec;
use tokio::time::Instant;

use super::ipc::Inbox;
use super::mark::Owner;
use super::protocol::{Notice, Request, VERSION};
use super::scan::{EMPTY_SCANS, Member, Process};
use super::{Grace, scan, setup, spawn, strays};

/// When we are gone without a word nobody waits for answers any more.
const ABANDONED: Grace = Grace { term: Duration::ZERO, kill: Duration::from_millis(250) };
/// How long killing may take after the first SIGKILL: what is then left is not ours to kill, or sleeps
/// uninterruptibly.
const KILLING: Duration = Duration::from_secs(3);
/// Between scans while something is being killed or its end confirmed.
const TIGHT: Duration = Duration::from_millis(1);
/// The same once `TIGHT` did not help for `PATIENT`.
const LOOSE: Duration = Duration::from_millis(10);
const PATIENT: Duration = Duration::from_millis(100);

/// Runs the warden; `main` calls this before anything else. Returns when everything was ended.
pub fn run() -> ExitCode {
    let Ok(socket) = setup::take() else {
        // Not started by us: our other end of the socket tells whoever did.
        return ExitCode::from(2);
    };
    Keeper::new(socket).serve();
    ExitCode::SUCCESS
}

/// Why the warden ends.
enum Over {
    /// We died, or what came cannot be understood.
    Abandoned,
    Asked(Grace),
}

/// One upstream, from its start until everything of it is gone.
struct Upstream {
    pid: i32,
    exited: bool,
    stop: Option<Stop>,
}

struct Stop {
    /// `None` once it was sent.
    term: Option<Instant>,
    kill: Instant,
    empty_scans: u8,
}

struct Keeper {
    inbox: Inbox,
    /// What the socket did not take yet.
    outbox: Vec<u8>,
    /// The owner and its original RLIMIT_NOFILE, known from `Hello` on.
    owner: Option<(Owner, u64)>,
    upstreams: BTreeMap<u64, Upstream>,
    /// An adopted process ended: one that should not be there any more may have forked before it did.
    look: bool,
}

impl Keeper {
    fn new(socket: UnixStream) -> Self {
        Self {
            inbox: Inbox::new(socket),
            outbox: Vec::new(),
            owner: None,
            upstreams: BTreeMap::new(),
            look: false,
        }
    }

    fn serve(mut self) {
        let grace = loop {
            self.reap();
            let wake = self.advance_stops();
            if self.flush().is_err() {
                break ABANDONED;
            }
            self.sleep(wake);
            match self.receive() {
                Ok(()) => {}
                Err(Over::Abandoned) => break ABANDONED,
                Err(Over::Asked(grace)) => break grace,
            }
        };
        self.end_all(grace);
    }

    /// Until a signal, a message, room for one, or `wake`. Signals come in here only (`estate`), so none is
    /// lost between looking and sleeping.
    fn sleep(&self, wake: Option<Instant>) {
        let socket = self.inbox.socket().as_fd();
        let (mut readable, mut writable) = (FdSet::new(), FdSet::new());
        readable.insert(socket);
        if !self.outbox.is_empty() {
            writable.insert(socket);
        }
        let timeout = wake.map(|at| TimeSpec::from_duration(at.saturating_duration_since(Instant::now())));
        // Interrupted or ready: the loop looks at everything either way.
        pselect(None, &mut readable, &mut writable, None, timeout.as_ref(), &SigSet::empty()).ok();
    }

    fn receive(&mut self) -> Result<(), Over> {
        self.inbox.fill().map_err(|_| Over::Abandoned)?;
        while let Some(frame) = self.inbox.next_frame().map_err(|_| Over::Abandoned)? {
            self.obey(Request::decode(frame).map_err(|_| Over::Abandoned)?)?;
        }
        if self.inbox.is_closed() { Err(Over::Abandoned) } else { Ok(()) }
    }

    fn obey(&mut self, request: Request) -> Result<(), Over> {
        match (request, &self.owner) {
            (Request::Hello { version, owner, nofile, first, left }, None) => {
                self.tell(&Notice::Welcome { version: VERSION });
                if version != VERSION {
                    return Ok(());
                }
                let owner = Owner::of(i32::try_from(owner).map_err(|_| Over::Abandoned)?);
                strays::end(&owner, first, &left);
                self.owner = Some((owner, nofile));
            }
            (Request::Spawn { id, launch }, Some((owner, nofile))) => {
                let stdio: [OwnedFd; 3] = self.inbox.take_stdio().ok_or(Over::Abandoned)?;
                let started = spawn::start(&launch, stdio, owner, id, *nofile);
                self.tell(&match started {
                    Ok(pid) => Notice::Started { id, pid },
                    Err((step, errno)) => Notice::Failed { id, step, errno },
                });
                if let Ok(pid) = started {
                    self.upstreams.insert(id, Upstream { pid: pid.cast_signed(), exited: false, stop: None });
                }
            }
            (Request::Stop { id, grace }, Some(_)) => self.stop(id, grace),
            (Request::End { grace }, _) => return Err(Over::Asked(grace)),
            _ => return Err(Over::Abandoned),
        }
        Ok(())
    }

    /// A second stop can only make the first one shorter.
    fn stop(&mut self, id: u64, grace: Grace) {
        let Some(upstream) = self.upstreams.get_mut(&id) else {
            return self.tell(&Notice::Gone { id, left: 0 });
        };
        let (term, kill) = (after(grace.term), after(grace.kill));
        match &mut upstream.stop {
            Some(stop) => {
                stop.term = stop.term.map(|earlier| earlier.min(term));
                stop.kill = stop.kill.min(kill);
            }
            None => upstream.stop = Some(Stop { term: Some(term), kill, empty_scans: 0 }),
        }
    }

    /// Does what is due for every upstream that is being stopped, and says when to come back.
    fn advance_stops(&mut self) -> Option<Instant> {
        let now = Instant::now();
        if self.look || self.upstreams.values().any(|upstream| upstream.wants_scan(now)) {
            self.look = false;
            let mut members = self.members();
            let stopping: Vec<u64> = self
                .upstreams
                .iter()
                .filter(|(_, upstream)| upstream.stop.is_some())
                .map(|(id, _)| *id)
                .collect();
            for id in stopping {
                self.advance(id, now, members.remove(&id).unwrap_or_default());
            }
            self.end_unwanted(&members);
        }
        self.upstreams.values().filter_map(|upstream| upstream.wake(now)).min()
    }

    fn advance(&mut self, id: u64, now: Instant, members: Vec<Member>) {
        let Some(upstream) = self.upstreams.get_mut(&id) else { return };
        let Some(stop) = &mut upstream.stop else { return };
        let empty = upstream.exited && members.is_empty();
        stop.empty_scans = if empty { stop.empty_scans + 1 } else { 0 };
        if stop.empty_scans >= EMPTY_SCANS || now >= stop.kill + KILLING {
            self.upstreams.remove(&id);
            let left = u32::try_from(members.len()).unwrap_or(u32::MAX);
            return self.tell(&Notice::Gone { id, left });
        }
        let processes = members.iter().map(|member| &member.process);
        if now >= stop.kill {
            scan::signal(processes, Signal::SIGKILL);
        } else if stop.term.is_some_and(|term| now >= term) {
            scan::signal(processes, Signal::SIGTERM);
            stop.term = None;
        }
    }

    /// Ends what bears the mark of an upstream that was stopped: it slipped through all the empty scans, or
    /// withstood SIGKILL. Its end will be a reason to look again; until then there is none.
    fn end_unwanted(&self, members: &HashMap<u64, Vec<Member>>) {
        let unwanted = members.iter().filter(|(id, _)| !self.upstreams.contains_key(id));
        let processes = unwanted.flat_map(|(_, list)| list.iter().map(|member| &member.process));
        scan::signal(processes, Signal::SIGKILL);
    }

    /// The living members of each upstream that is being stopped, or was.
    fn members(&self) -> HashMap<u64, Vec<Member>> {
        let mut by_upstream: HashMap<u64, Vec<Member>> = HashMap::new();
        for member in self.descendants(false) {
            if let Some(id) = member.upstream {
                by_upstream.entry(id).or_default().push(member);
            }
        }
        by_upstream
    }

    /// The living descendants: `everything`, or without the trees of upstreams that run and shall go on. What
    /// escaped from a tree is the warden's own child, so that a stop need not look at all the others.
    /// An upstream that was not seen is named all the same: without /proc, its group can still be ended.
    fn descendants(&self, everything: bool) -> Vec<Member> {
        let Some((owner, _)) = &self.owner else { return Vec::new() };
        let roots = self.upstreams.iter().map(|(id, upstream)| (upstream.pid, *id)).collect();
        let living = || self.upstreams.iter().filter(|(_, upstream)| !upstream.exited);
        let aside = living().filter(|(_, upstream)| !everything && upstream.stop.is_none());
        let aside: HashSet<i32> = aside.map(|(_, upstream)| upstream.pid).collect();
        let mut members = scan::members(&roots, &aside, owner);
        let seen: HashSet<i32> = members.iter().map(|member| member.process.pid).chain(aside).collect();
        let unseen = living().filter(|(_, upstream)| !seen.contains(&upstream.pid));
        members.extend(
            unseen
                .map(|(id, upstream)| Member { process: Process::leader(upstream.pid), upstream: Some(*id) }),
        );
        members
    }

    /// Reaps what ended. True when no child is left, which for a subreaper proves that no descendant is.
    fn reap(&mut self) -> bool {
        loop {
            let (pid, status) = match wait_any() {
                Ok(Some(ended)) => ended,
                Ok(None) => return false,
                Err(NoChild) => return true,
            };
            let ended =
                self.upstreams.iter_mut().find(|(_, upstream)| upstream.pid == pid && !upstream.exited);
            let Some((&id, upstream)) = ended else {
                self.look = true;
                continue;
            };
            upstream.exited = true;
            self.tell(&Notice::Exited { id, status });
        }
    }

    fn tell(&mut self, notice: &Notice) {
        self.outbox.extend(notice.encode());
    }

    fn flush(&mut self) -> std::io::Result<()> {
        while !self.outbox.is_empty() {
            match self.inbox.socket().write(&self.outbox) {
                Ok(count) => drop(self.outbox.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Ends every descendant. Requests are not read any more, notices still go out.
    fn end_all(&mut self, grace: Grace) {
        let (mut term, kill) = (Some(after(grace.term)), after(grace.kill));
        loop {
            let done = self.reap();
            // Nobody may be listening any more.
            self.flush().ok();
            let now = Instant::now();
            if done || now >= kill + KILLING {
                return;
            }
            if now >= kill {
                self.signal_all(Signal::SIGKILL);
            } else if term.is_some_and(|term| now >= term) {
                self.signal_all(Signal::SIGTERM);
                term = None;
            }
            pause(if now < kill { term.unwrap_or(kill) } else { now + killing_pace(now, kill) });
        }
    }

    fn signal_all(&self, signal: Signal) {
        scan::signal(self.descendants(true).iter().map(|member| &member.process), signal);
    }
}

impl Upstream {
    /// While it lives there is nothing to find out, unless a signal is due.
    fn wants_scan(&self, now: Instant) -> bool {
        self.stop
            .as_ref()
            .is_some_and(|stop| self.exited || now >= stop.kill || stop.term.is_some_and(|term| now >= term))
    }

    /// When to look again if no child ends before. What is left of an exited one hangs from a child of the
    /// warden, whose end is a signal.
    fn wake(&self, now: Instant) -> Option<Instant> {
        let stop = self.stop.as_ref()?;
        Some(if stop.empty_scans > 0 {
            now + TIGHT
        } else if now >= stop.kill {
            now + killing_pace(now, stop.kill)
        } else {
            stop.term.unwrap_or(stop.kill)
        })
    }
}

fn killing_pace(now: Instant, since: Instant) -> Duration {
    if now < since + PATIENT { TIGHT } else { LOOSE }
}

/// A time from now. At most a year: clocks and system calls have ends.
fn after(time: Duration) -> Instant {
    Instant::now() + time.min(Duration::from_secs(31_536_000))
}

/// Sleeps until `wake` or a signal.
fn pause(wake: Instant) {
    let timeout = TimeSpec::from_duration(wake.saturating_duration_since(Instant::now()));
    pselect(None, None, None, None, &timeout, &SigSet::empty()).ok();
}

struct NoChild;

/// Pid and status of a child that ended, if one did. The status stays a number: nix cannot name every signal,
/// and a notice must not be lost for that.
#[expect(unsafe_code, reason = "the safe wrapper loses children that a real-time signal killed")]
fn wait_any() -> Result<Option<(i32, i32)>, NoChild> {
    #[cfg(target_os = "linux")]
    let flags = libc::WNOHANG | libc::__WALL;
    #[cfg(not(target_os = "linux"))]
    let flags = libc::WNOHANG;
    let mut status = 0;
    // SAFETY: `status` is a live int; the warden is the only one here who waits.
    match unsafe { libc::waitpid(-1, &raw mut status, flags) } {
        0 => Ok(None),
        pid if pid > 0 => Ok(Some((pid, status))),
        _ => Err(NoChild),
    }
}

//! One client: rounds of calls and faults, and the checks of their answers.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::random::Random;
use super::upstreams::{Kind, tag};
use crate::support::{Message, Processes, Proxy, wait_until};

/// The most calls of a round.
const MAX_CALLS: u64 = 12;
/// How long after a kill calls to the same group may fail. By then the next process answers.
const GRACE: Duration = Duration::from_secs(3);
/// How long a client waits for the end of the program.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);

/// How a session ends.
#[derive(Debug, Clone, Copy)]
pub(super) enum Departure {
    /// As clients do.
    CloseStdin,
    Terminate,
    /// Nothing of the program itself can clean up.
    Kill,
}

impl Departure {
    pub(super) const ALL: [Self; 3] = [Self::CloseStdin, Self::Terminate, Self::Kill];
}

/// What happened, by name.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) calls: BTreeMap<&'static str, u64>,
    pub(super) faults: BTreeMap<&'static str, u64>,
    /// Calls that failed because their upstream was killed.
    pub(super) excused: u64,
    pub(super) notifications: u64,
    pub(super) slowest: Duration,
}

/// What a call has to be answered with.
enum Expected {
    /// A result with this text.
    Text(String),
    /// A result with a text of this length.
    Length(usize),
    /// Any result.
    Success,
    /// A result or an error that says what failed.
    Failure,
}

struct OpenCall {
    id: u64,
    group: String,
    sent: Instant,
    expected: Expected,
}

pub(super) struct Session {
    pub(super) proxy: Proxy,
    upstreams: Vec<(String, Kind)>,
    random: Random,
    pub(super) counts: Counts,
    /// When the process of each group was killed last.
    killed: HashMap<String, Instant>,
}

impl Session {
    pub(super) fn new(proxy: Proxy, upstreams: Vec<(String, Kind)>, random: Random) -> Self {
        Self { proxy, upstreams, random, counts: Counts::default(), killed: HashMap::new() }
    }

    /// Sends some calls, perhaps breaks something, and checks the answers.
    pub(super) fn round(&mut self) {
        let calls: Vec<_> = (0..=self.random.below(MAX_CALLS)).filter_map(|_| self.send()).collect();
        if self.random.one_in(4) {
            self.break_something();
        }
        for call in calls {
            self.check(call);
        }
        self.check_that_nothing_else_came();
    }

    /// Sends a call. Returns none if it was cancelled, and gets no answer.
    fn send(&mut self) -> Option<OpenCall> {
        let (group, kind) = self.random.pick(&self.upstreams);
        let token = format!("{group} {}", self.random.below(u64::MAX));
        let dice = self.random.below(100);
        let (what, tool, args, expected) = match (kind, dice) {
            (_, 0..60) => ("echo", "echo", json!({"text": token}), Expected::Text(token)),
            (_, 60..70) => return Some(self.send_to_program(group)),
            (Kind::Process, 70..78) => {
                ("sleep", "sleep", json!({"ms": self.random.below(300)}), Expected::Text("slept".to_owned()))
            }
            (Kind::Process, 78..84) => {
                let bytes = self.random.below(200_000);
                let length = usize::try_from(bytes).unwrap();
                ("large result", "big", json!({"bytes": bytes}), Expected::Length(length))
            }
            (Kind::Process, 84..88) => ("error", "fail", json!({"text": token}), Expected::Failure),
            (Kind::Process, 88..91) => {
                self.send_and_cancel(&group);
                return None;
            }
            (Kind::Process, 91..93) => {
                self.note_kill(&group, "half an answer and exit");
                ("crash", "half", json!({}), Expected::Failure)
            }
            (Kind::Process, 93..95) => {
                self.note_kill(&group, "exit during a call");
                ("crash", "crash", json!({"code": 3}), Expected::Failure)
            }
            (Kind::Http, 85..95) => {
                let fault = self.random.pick(&["status", "not_json", "cut", "reset", "empty"]);
                *self.counts.faults.entry("malformed HTTP answer").or_default() += 1;
                ("malformed", "echo", json!({"fault": fault}), Expected::Failure)
            }
            (Kind::Sse, 90..95) => {
                *self.counts.faults.entry("HTTP status 500").or_default() += 1;
                ("malformed", "echo", json!({"fault": "status"}), Expected::Failure)
            }
            _ => ("echo", "echo", json!({"text": token}), Expected::Text(token)),
        };
        *self.counts.calls.entry(what).or_default() += 1;
        let id = self.proxy.send_call(&group, tool, args);
        Some(OpenCall { id, group, sent: Instant::now(), expected })
    }

    /// Calls one of the program's own tools.
    fn send_to_program(&mut self, group: String) -> OpenCall {
        let (tool, arguments) = self.random.pick(&[
            ("get_status", json!({})),
            ("get_dynamic_tools", json!({"group": group, "detail": "stub"})),
            ("search_dynamic_tools", json!({"query": "return the text"})),
        ]);
        *self.counts.calls.entry("own tools").or_default() += 1;
        let id = self.proxy.send_request("tools/call", json!({"name": tool, "arguments": arguments}));
        OpenCall { id, group, sent: Instant::now(), expected: Expected::Success }
    }

    /// A call that hangs, and that the client gives up.
    fn send_and_cancel(&mut self, group: &str) {
        *self.counts.calls.entry("cancelled").or_default() += 1;
        let id = self.proxy.send_call(group, "late", json!({}));
        self.proxy.notify("notifications/cancelled", json!({"requestId": id, "reason": "soak"}));
    }

    fn note_kill(&mut self, group: &str, fault: &'static str) {
        *self.counts.faults.entry(fault).or_default() += 1;
        self.killed.insert(group.to_owned(), Instant::now());
    }

    /// Kills or stops one of the processes, or kills the warden.
    fn break_something(&mut self) {
        let processes = Processes::descendants_of(self.proxy.pid());
        if self.random.one_in(40) && !processes.running().is_empty() {
            let groups = self.upstreams.iter().filter(|(_, kind)| *kind == Kind::Process);
            self.killed.extend(groups.map(|(group, _)| (group.clone(), Instant::now())));
            *self.counts.faults.entry("warden killed").or_default() += 1;
            let warden = processes.find_warden_pid();
            return warden.into_iter().for_each(|pid| send_signal(pid, Signal::SIGKILL));
        }
        let marked: Vec<_> =
            processes.running().into_iter().filter_map(|pid| Some((pid, group_of(pid)?))).collect();
        if marked.is_empty() {
            return;
        }
        let (pid, group) = self.random.pick(&marked);
        if self.random.one_in(2) {
            self.note_kill(&group, "process killed");
            send_signal(pid, Signal::SIGKILL);
        } else {
            *self.counts.faults.entry("process stopped for up to 0.5 s").or_default() += 1;
            send_signal(pid, Signal::SIGSTOP);
            std::thread::sleep(Duration::from_millis(self.random.below(500)));
            send_signal(pid, Signal::SIGCONT);
        }
    }

    /// Waits for the answer to a call, and checks it.
    fn check(&mut self, call: OpenCall) {
        let message = self.proxy.response(call.id);
        self.counts.slowest = self.counts.slowest.max(call.sent.elapsed());
        let answer = message.json();
        let text = answer["result"]["content"][0]["text"].as_str();
        let is_failure = answer.get("error").is_some() || answer["result"]["isError"] == true;
        let is_right = match &call.expected {
            Expected::Failure => is_failure,
            Expected::Success => !is_failure,
            Expected::Text(expected) => !is_failure && text == Some(expected),
            Expected::Length(expected) => !is_failure && text.map(str::len) == Some(*expected),
        };
        if is_right {
            return;
        }
        let was_killed = self.killed.get(&call.group).is_some_and(|killed| *killed + GRACE > call.sent);
        assert!(
            is_failure && was_killed,
            "a wrong answer or a lost call, {:?} after it was sent to {}: {}\n{}",
            call.sent.elapsed(),
            call.group,
            shortened(&answer),
            last_lines(&self.proxy.log())
        );
        self.counts.excused += 1;
    }

    /// Asserts that only notifications have come beside the answers.
    fn check_that_nothing_else_came(&mut self) {
        let ping = self.proxy.send_request("ping", json!({})).to_string();
        loop {
            let message: Message = self.proxy.next_message().unwrap();
            match message.method() {
                Some(_) => self.counts.notifications += 1,
                None if message.id() == Some(&ping) => return,
                None => panic!("an answer that nobody waits for: {}", message.line),
            }
        }
    }

    /// Leaves while calls are open. Asserts that no process is left.
    pub(super) fn leave(&mut self, departure: Departure) {
        for _ in 0..5 {
            drop(self.send());
        }
        let processes = Processes::descendants_of(self.proxy.pid());
        let fault = match departure {
            Departure::CloseStdin => {
                self.proxy.close_stdin();
                "client left"
            }
            Departure::Terminate => {
                self.proxy.send_signal(Signal::SIGTERM);
                "program terminated"
            }
            Departure::Kill => {
                self.proxy.send_signal(Signal::SIGKILL);
                "program killed"
            }
        };
        *self.counts.faults.entry(fault).or_default() += 1;
        let (status, took) = self.proxy.wait_for_exit();
        assert!(matches!(departure, Departure::Kill) || status.success(), "{departure:?}: {status}");
        assert!(took < EXIT_TIMEOUT, "{departure:?}: {took:?}");
        wait_until(&format!("no process is left: {departure:?}"), || processes.running().is_empty());
    }
}

/// The group of a process, which is in its arguments.
fn group_of(pid: u32) -> Option<String> {
    let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
    line.split('\0').find_map(|argument| argument.strip_prefix(&tag())).map(str::to_owned)
}

/// Processes may have exited already.
fn send_signal(pid: u32, signal: Signal) {
    let _gone = kill(Pid::from_raw(pid.cast_signed()), signal);
}

fn shortened(answer: &Value) -> String {
    answer.to_string().chars().take(2000).collect()
}

fn last_lines(log: &str) -> String {
    let lines: Vec<_> = log.lines().rev().take(20).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("\n")
}

//! A stdio MCP server whose behaviour is set by flags: the child process of the end-to-end tests.
//!
//! It speaks every handshake revision, and its flags make it do what no server should. Without flags it
//! answers `initialize`, `ping`, `tools/list` and `tools/call`; `tools` describes its tools.
//! It flushes every message, answers other requests while a call waits, and ends at EOF. It exits
//! after 120 s even if it ignores everything.
//!
//! | flag | effect |
//! | --- | --- |
//! | `--tools N` | adds N generated tools, with `$defs` and unknown keywords in their schemas |
//! | `--definitions JSON` | adds these definitions of tools, separated by commas; they answer with their arguments; `write` is a tool that has no other definition, and so is `verbatim`, whose arguments are its result; `--definitions-file FILE`: those in this file, which is read for each list |
//! | `--page N` | lists N tools per page, with opaque cursors; `--empty-cursor`: the cursor of page 2 is `""`; `--same-cursor`: every page has the cursor of page 2 |
//! | `--list-changed-on-call` | each call adds a tool and sends `notifications/tools/list_changed` |
//! | `--late-tool MS` | adds a tool this long after `notifications/initialized`, and sends the same |
//! | `--resources`, `--prompts`, `--logging` | serves these as well (`mem://one`, `mem://two`; `greet`) |
//! | `--undeclared` | serves resources, and does not declare that
//! | `--protocol` | all of MCP, byte for byte: see `protocol`; `--scheme S`: its URIs begin with `S://`, not `mem://`; `--template T`: one more template; `--many N`: N more resources; `--asks`: lists the entries that ask the client |
//! | `--skills` | with `--protocol`, the skill `skill://refunds/SKILL.md` with two more files (`examples/email.md`, and `hidden.md`, which is not in its entry) |
//! | `--tasks` | tools that run as tasks, and `tasks/*`: see `tasks`; `--same-task-ids`: every process has the same task ids |
//! | `--stateless` | speaks only 2026-07-28: answers `initialize` with the error -32022; `--refuses-initialize CODE`: with this code |
//! | `--dual` | speaks 2026-07-28 as well: a request is of that revision if its `_meta` says so |
//! | `--batches` | sends what belongs together as one batch (answers, notifications, the requests of `asks`), and reads batches |
//! | `--version V` | answers protocol version V to every request for one; `--server-version V`: names V as its own |
//! | `--reject-versions-but V` | answers other versions with the error -32602 and `data.supported` |
//! | `--name NAME`, `--instructions TEXT` | sets these in the result of `initialize` |
//! | `--no-capabilities` | omits `capabilities` from it; `--tools-in-initialize`: adds `tools` to it |
//! | `--no-version` | omits `protocolVersion` from it |
//! | `--early` | sends a request, a notification and unsolicited answers before that result; `--earlier`: before it has read anything; `--chatty`: after `notifications/initialized` |
//! | `--asks-roots MS` | asks for roots this long after `notifications/initialized`, and refuses calls, reads and prompts until 10 ms after the answer |
//! | `--serial` | handles no other request while it waits for an answer of its client |
//! | `--number-ids` | its own requests have the ids 1, 2, …, not strings |
//! | `--hang start\|initialize\|list\|call` | never reads, or never answers that request |
//! | `--flood` | sends notifications without end after it was initialized |
//! | `--slow-start MS` | reads nothing for this long at the start; `--slow-list MS`: waits before it answers `tools/list` |
//! | `--garbage` | writes lines that are no messages around every message, and CRLF; `--bom`: a byte order mark before the first |
//! | `--no-newline-flush` | writes the newline of a message 20 ms after it |
//! | `--ignore-eof`, `--ignore-term` | does not end on these |
//! | `--save FILE` | at EOF, or with `--ignore-eof` at SIGTERM, writes to stdout and stderr for 1.5 s, then FILE, and exits |
//! | `--lock FILE` | exits with 4 if another process has locked FILE, and locks it until it has ended |
//! | `--grandchild` | starts itself as a child that ignores both and holds stdout open, for 60 s; `--grandchild-escapes`: in a session of its own |
//! | `--exit-after N` | exits after N answered calls |
//! | `--crash-at-start TEXT` | writes TEXT to stderr and exits with 3 |
//! | `--record FILE` | appends every line it reads to FILE |
//! | `--live SECONDS` | exits after this long, not 120 s |
//! | `--setsid` | starts a session of its own |
#![allow(clippy::print_stderr, clippy::print_stdout, reason = "a test that reads it keeps it open")]
#![allow(clippy::exit, reason = "a server that crashes on demand")]
#![allow(clippy::unwrap_used, reason = "a helper of tests may panic")]

use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, Write, stdin};
use std::process::{Command, Stdio, exit};
use std::sync::Arc;
use std::thread::{park, sleep, spawn};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

mod flags;
mod input_requests;
mod protocol;
mod server;
mod stateless;
mod tasks;
mod tools;
mod wire;

use flags::Flags;
use server::Server;

/// How long the process lives at most, so that a test that forgets it leaves nothing behind.
const MAX_LIFETIME_SECONDS: u64 = 120;

/// A message whose id and `params` are the JSON that came.
#[derive(Deserialize)]
pub(crate) struct Incoming<'a> {
    #[serde(borrow)]
    pub(crate) id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) params: Option<&'a RawValue>,
}

fn main() {
    let flags = Flags::parse(std::env::args().skip(1));
    if flags.has("--setsid") {
        #[cfg(unix)]
        nix::unistd::setsid().unwrap();
    }
    if flags.has("--ignore-term") || flags.has("--ignore-eof") && flags.text("--save").is_some() {
        block_term();
    }
    let _lock = flags.text("--lock").map(lock);
    let lifetime = Duration::from_secs(flags.number("--live").unwrap_or(MAX_LIFETIME_SECONDS));
    spawn(move || {
        sleep(lifetime);
        exit(9);
    });
    if let Some(text) = flags.text("--crash-at-start") {
        eprintln!("{text}");
        exit(3);
    }
    let has_grandchild = flags.has("--grandchild") || flags.has("--grandchild-escapes");
    let grandchild = has_grandchild.then(|| spawn_grandchild(&flags));
    if flags.text("--hang") == Some("start") {
        park_forever();
    }
    sleep(Duration::from_millis(flags.number("--slow-start").unwrap_or(0)));
    let server = Arc::new(Server::new(flags, grandchild));
    if server.flags.has("--earlier") {
        server.send_unsolicited("earlier");
    }
    serve(&server);
}

fn serve(server: &Arc<Server>) {
    let mut record = server.flags.text("--record").map(open_for_appending);
    let mut input = stdin().lock();
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
        if let Some(file) = &mut record {
            file.write_all(&line).unwrap();
        }
        handle_line(server, &line);
        line.clear();
    }
    let saved = server.flags.text("--save");
    if server.flags.has("--ignore-eof") {
        if let Some(file) = saved {
            save_at_term(file.to_owned());
        }
        park_forever();
    }
    if let Some(file) = saved {
        save(file);
    }
    // Exit at once, whatever the threads of pending calls do.
    exit(0);
}

fn handle_line(server: &Arc<Server>, line: &[u8]) {
    let Ok(line) = std::str::from_utf8(line) else { return };
    if server.flags.has("--batches")
        && let Ok(batch) = serde_json::from_str::<Vec<&RawValue>>(line)
    {
        return server.wire.batch(|| batch.iter().for_each(|message| handle_message(server, message.get())));
    }
    handle_message(server, line);
}

fn handle_message(server: &Arc<Server>, line: &str) {
    let Ok(message) = serde_json::from_str::<Incoming<'_>>(line) else { return };
    match (&message.method, message.id) {
        (Some(_), Some(_)) if server.flags.has("--serial") && server.is_asking() => server.hold(line),
        (Some(method), Some(id)) => server.handle_request(id.get(), method, message.params),
        (Some(method), None) => server.handle_notification(method, message.params),
        (None, Some(id)) => {
            server.handle_response(id.get(), line);
            server.take_held().iter().for_each(|line| handle_message(server, line));
        }
        (None, None) => (),
    }
}

fn open_for_appending(path: &str) -> File {
    OpenOptions::new().create(true).append(true).open(path).unwrap()
}

/// Locks a file until the process has ended.
fn lock(path: &str) -> File {
    let file = open_for_appending(path);
    if file.try_lock().is_err() {
        eprintln!("another process has locked {path}");
        exit(4);
    }
    file
}

/// How long saving takes, what it writes to stdout and stderr each time, and how often. It is more than pipes hold.
const SAVING_TIME: Duration = Duration::from_millis(1500);
const SAVING_BYTES: usize = 12_000;
const SAVING_INTERVAL: Duration = Duration::from_millis(50);

/// Saves, and exits. A pipe that nobody reads keeps it from doing so, or ends it.
fn save(file: &str) -> ! {
    let (start, line) = (tokio::time::Instant::now(), "x".repeat(SAVING_BYTES));
    while start.elapsed() < SAVING_TIME {
        eprintln!("saving {line}");
        println!("saving {line}");
        sleep(SAVING_INTERVAL);
    }
    std::fs::write(file, "saved").unwrap();
    exit(0)
}

/// Saves at SIGTERM, which must be blocked.
fn save_at_term(file: String) {
    #[cfg(unix)]
    spawn(move || {
        use nix::sys::signal::{SigSet, Signal};
        SigSet::from(Signal::SIGTERM).wait().unwrap();
        save(&file)
    });
    #[cfg(windows)]
    drop(file);
}

/// Blocks the signals instead of ignoring them, which would need unsafe code. There must be no other thread yet.
fn block_term() {
    #[cfg(unix)]
    {
        use nix::sys::signal::{SigSet, Signal};
        let mut signals = SigSet::empty();
        for signal in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT] {
            signals.add(signal);
        }
        signals.thread_block().unwrap();
    }
}

/// Starts a child that inherits stdout and holds it open. Returns its process ID.
fn spawn_grandchild(flags: &Flags) -> u32 {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignore-eof", "--ignore-term", "--live", "60"]).stdin(Stdio::null());
    if flags.has("--grandchild-escapes") {
        command.arg("--setsid");
    }
    command.spawn().unwrap().id()
}

fn park_forever() -> ! {
    loop {
        park();
    }
}

/// `params` as a value. `Null`: there are none.
pub(crate) fn to_value(params: Option<&RawValue>) -> Value {
    params.map(|params| lossy_value(params.get())).unwrap_or_default()
}

/// Parses JSON. A member with a number that is too large for a [`Value`] becomes `null`.
pub(crate) fn lossy_value(text: &str) -> Value {
    let whole = serde_json::from_str(text);
    let by_member = || {
        let members: std::collections::BTreeMap<String, &RawValue> = serde_json::from_str(text).ok()?;
        Some(members.into_iter().map(|(name, value)| (name, lossy_value(value.get()))).collect())
    };
    whole.ok().or_else(by_member).unwrap_or_default()
}

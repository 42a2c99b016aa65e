//! A stdio MCP server whose behaviour is given by flags: the child process of our end-to-end tests.
//!
//! It speaks every handshake revision and does what no server should, if told so. Without flags it
//! answers `initialize`, `ping`, `tools/list` and `tools/call`; its tools are described in `tools`.
//! It flushes every message, answers other requests while a call waits, ends at EOF, and ends by
//! itself after 120 s even if told to ignore everything.
//!
//! | flag | does |
//! | --- | --- |
//! | `--tools N` | adds N generated tools, with `$defs` and unknown keywords in their schemas |
//! | `--page N` | lists N tools a page, by opaque cursors; `--empty-cursor`: that of page 2 is `""`; `--same-cursor`: that of every page is that of page 2 |
//! | `--list-changed-on-call` | each call adds a tool and sends `notifications/tools/list_changed` |
//! | `--resources`, `--prompts`, `--logging` | serves these too (`mem://one`, `mem://two`; `greet`) |
//! | `--protocol` | all of MCP, byte for byte: see `protocol`; `--scheme S`: its URIs begin with `S://`, not `mem://`; `--many N`: N resources more; `--asks`: lists those that ask the client |
//! | `--tasks` | tools that are tasks, and `tasks/*`: see `tasks`; `--same-task-ids`: their ids are those of every other process |
//! | `--stateless` | speaks 2026-07-28 and nothing else: `initialize` is refused with -32022. `--refuses-initialize CODE`: with that |
//! | `--dual` | speaks 2026-07-28 too: a request that says so in its `_meta` is one of it |
//! | `--batches` | what is due together goes out as one batch (answers, notifications, what `asks` asks), and a batch is read |
//! | `--version V` | answers protocol version V whatever is asked |
//! | `--reject-versions-but V` | refuses other versions with -32602 and `data.supported` |
//! | `--name NAME`, `--instructions TEXT` | says so in the answer to `initialize` |
//! | `--no-capabilities` | leaves `capabilities` out of it; `--tools-in-initialize` puts `tools` in |
//! | `--no-version` | leaves `protocolVersion` out of it |
//! | `--early` | sends a request, a notification and answers to nobody before that answer; `--earlier`: before it has read anything; `--chatty`: upon `notifications/initialized` |
//! | `--number-ids` | its own requests have the ids 1, 2, …, not strings |
//! | `--hang start\|initialize\|list\|call` | never reads, or never answers that |
//! | `--flood` | sends notifications without end once it was initialized |
//! | `--slow-start MS` | reads nothing at first; `--slow-list MS`: nor after `tools/list` |
//! | `--garbage` | lines that are no messages around every message, CRLF; `--bom`: one before the first |
//! | `--no-newline-flush` | the newline of a message comes 20 ms after it |
//! | `--ignore-eof`, `--ignore-term` | stays |
//! | `--grandchild` | starts a child of itself that ignores both and holds stdout, for 60 s; `--grandchild-escapes`: in a session of its own |
//! | `--exit-after N` | exits when N calls are answered |
//! | `--crash-at-start TEXT` | writes TEXT to stderr and exits with 3 |
//! | `--record FILE` | appends every line it reads to FILE |
//! | `--live SECONDS` | ends by itself then; `--setsid`: first leaves the session |
#![allow(clippy::exit, reason = "a server that crashes on demand")]
#![allow(clippy::unwrap_used, reason = "a test's helper: what is impossible may panic")]

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

mod asking;
mod flags;
mod protocol;
mod server;
mod stateless;
mod tasks;
mod tools;
mod wire;

use flags::Flags;
use server::Server;

/// Whatever it is told, a test that forgets it leaves nothing behind.
const LIVE: u64 = 120;

/// A message as it came: `params` and ids are the bytes they were.
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
    if flags.has("--ignore-term") {
        ignore_term();
    }
    let live = Duration::from_secs(flags.number("--live").unwrap_or(LIVE));
    spawn(move || {
        sleep(live);
        exit(9);
    });
    if let Some(text) = flags.text("--crash-at-start") {
        eprintln!("{text}");
        exit(3);
    }
    let grandchild =
        (flags.has("--grandchild") || flags.has("--grandchild-escapes")).then(|| grandchild(&flags));
    if flags.text("--hang") == Some("start") {
        stay();
    }
    sleep(Duration::from_millis(flags.number("--slow-start").unwrap_or(0)));
    let server = Arc::new(Server::new(flags, grandchild));
    if server.flags.has("--earlier") {
        server.chat("earlier");
    }
    serve(&server);
}

fn serve(server: &Arc<Server>) {
    let mut record = server.flags.text("--record").map(append);
    let mut input = stdin().lock();
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
        if let Some(file) = &mut record {
            file.write_all(&line).unwrap();
        }
        receive(server, &line);
        line.clear();
    }
    if server.flags.has("--ignore-eof") {
        stay();
    }
    // Not a return: threads of calls that wait must not hold it.
    exit(0);
}

fn receive(server: &Arc<Server>, line: &[u8]) {
    let Ok(line) = std::str::from_utf8(line) else { return };
    if server.flags.has("--batches")
        && let Ok(batch) = serde_json::from_str::<Vec<&RawValue>>(line)
    {
        return server.wire.together(|| batch.iter().for_each(|message| one(server, message.get())));
    }
    one(server, line);
}

fn one(server: &Arc<Server>, line: &str) {
    let Ok(message) = serde_json::from_str::<Incoming<'_>>(line) else { return };
    match (&message.method, message.id) {
        (Some(method), Some(id)) => server.request(id.get(), method, message.params),
        (Some(method), None) => server.notification(method, message.params),
        (None, Some(id)) => server.answered(id.get(), line),
        (None, None) => (),
    }
}

fn append(path: &str) -> File {
    OpenOptions::new().create(true).append(true).open(path).unwrap()
}

/// Blocked rather than ignored: that needs no unsafe code. Called before there is another thread.
fn ignore_term() {
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

/// Its pid. It inherits stdout and holds it open.
fn grandchild(flags: &Flags) -> u32 {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignore-eof", "--ignore-term", "--live", "60"]).stdin(Stdio::null());
    if flags.has("--grandchild-escapes") {
        command.arg("--setsid");
    }
    command.spawn().unwrap().id()
}

fn stay() -> ! {
    loop {
        park();
    }
}

/// `params` as a value; `null` where there are none.
pub(crate) fn value(params: Option<&RawValue>) -> Value {
    params.map(|params| readable(params.get())).unwrap_or_default()
}

/// What of a value can be looked at: a member with a number that is too large is `null`.
pub(crate) fn readable(text: &str) -> Value {
    let whole = serde_json::from_str(text);
    let by_member = || {
        let members: std::collections::BTreeMap<String, &RawValue> = serde_json::from_str(text).ok()?;
        Some(members.into_iter().map(|(name, value)| (name, readable(value.get()))).collect())
    };
    whole.ok().or_else(by_member).unwrap_or_default()
}

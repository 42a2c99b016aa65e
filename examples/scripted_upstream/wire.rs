//! What goes to stdout: one message a line, flushed, with the noise that the flags ask for.

use std::cell::RefCell;
use std::io::{Write, stdout};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use crate::flags::Flags;
use crate::stateless::StatelessRequests;

/// Lines that are not messages.
const NOISE: &[&[u8]] = &[
    b"Starting the server... \x1b[32mok\x1b[0m\n",
    b"{\"level\":\"info\",\"msg\":\"listening\"}\n",
    b"{not json\n",
    b"\n",
    b"\r\n",
    b"\xef\xbb\xbf\n",
    b"\xff\xfe \xc3\x28\n",
    b"[]\n",
    b"42\n",
];

/// How long `--no-newline-flush` holds a newline back.
const NEWLINE_DELAY: Duration = Duration::from_millis(20);

/// The output of the server.
pub(crate) struct Wire {
    /// Held while a message is written.
    write_lock: Mutex<()>,
    has_noise: bool,
    delays_newlines: bool,
    /// A byte order mark is still due.
    bom: AtomicBool,
    has_batches: bool,
    pub(crate) stateless: StatelessRequests,
}

thread_local! {
    /// The messages of the batch that this thread collects.
    static BATCH: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

impl Wire {
    pub(crate) fn new(flags: &Flags) -> Self {
        Self {
            write_lock: Mutex::new(()),
            has_noise: flags.has("--garbage"),
            delays_newlines: flags.has("--no-newline-flush"),
            bom: AtomicBool::new(flags.has("--bom")),
            has_batches: flags.has("--batches"),
            stateless: StatelessRequests::default(),
        }
    }

    /// Runs `send_messages`. With `--batches`, the messages that this thread sends meanwhile go out as one batch.
    pub(crate) fn batch(&self, send_messages: impl FnOnce()) {
        let is_outermost = self.has_batches && BATCH.with_borrow(Option::is_none);
        if is_outermost {
            BATCH.set(Some(Vec::new()));
        }
        send_messages();
        if is_outermost {
            let messages = BATCH.take().unwrap_or_default();
            match &*messages {
                [] => (),
                [message] => self.send(message),
                several => self.send(&format!("[{}]", several.join(","))),
            }
        }
    }

    /// Sends a message, or adds it to this thread's batch.
    pub(crate) fn send(&self, message: &str) {
        let is_batched = BATCH.with_borrow_mut(|batch| match batch {
            Some(messages) => {
                messages.push(message.to_owned());
                true
            }
            None => false,
        });
        if is_batched {
            return;
        }
        let _write_lock = self.write_lock.lock().unwrap();
        if self.bom.swap(false, Ordering::Relaxed) {
            write(b"\xef\xbb\xbf");
        }
        if self.has_noise {
            write(&NOISE.concat());
        }
        if self.delays_newlines {
            write(message.as_bytes());
            sleep(NEWLINE_DELAY);
            write(b"\n");
        } else {
            write(format!("{message}{}", if self.has_noise { "\r\n" } else { "\n" }).as_bytes());
        }
        if self.has_noise {
            write(b"sent a message\n");
        }
    }

    /// Answers the request `id`. Here and below, ids and bodies are JSON.
    pub(crate) fn result(&self, id: &str, result: &str) {
        let result = self.stateless.complete_result(id, result);
        self.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#));
    }

    /// Answers the request `id` with a whole error object.
    pub(crate) fn error(&self, id: &str, error: &str) {
        self.stateless.forget(id);
        self.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#));
    }

    /// Sends a notification.
    pub(crate) fn notify(&self, method: &str, params: &str) {
        self.send(&format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#));
    }

    /// Sends a request to the client.
    pub(crate) fn request(&self, id: &str, method: &str, params: &str) {
        self.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#));
    }
}

/// Writes to stdout. Errors are ignored: a client that has stopped reading ends this process in other ways.
pub(crate) fn write(bytes: &[u8]) {
    #[expect(clippy::disallowed_methods, reason = "stdout is the protocol's")]
    let mut out = stdout().lock();
    let _written = out.write_all(bytes).and_then(|()| out.flush());
}

/// A JSON string.
pub(crate) fn quote(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

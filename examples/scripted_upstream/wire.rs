//! What goes to stdout: one message a line, flushed, with the noise that was asked for.

use std::cell::RefCell;
use std::io::{Write, stdout};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use crate::flags::Flags;
use crate::stateless::Requests;

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

pub(crate) struct Wire {
    /// One message at a time.
    turn: Mutex<()>,
    garbage: bool,
    newline_later: bool,
    bom: AtomicBool,
    batches: bool,
    pub(crate) stateless: Requests,
}

thread_local! {
    /// What is to go out together.
    static TOGETHER: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

impl Wire {
    pub(crate) fn new(flags: &Flags) -> Self {
        Self {
            turn: Mutex::new(()),
            garbage: flags.has("--garbage"),
            newline_later: flags.has("--no-newline-flush"),
            bom: AtomicBool::new(flags.has("--bom")),
            batches: flags.has("--batches"),
            stateless: Requests::default(),
        }
    }

    /// Does something; with `--batches`, what this thread sends meanwhile goes out as one batch.
    pub(crate) fn together(&self, act: impl FnOnce()) {
        let is_first = self.batches && TOGETHER.with_borrow(Option::is_none);
        if is_first {
            TOGETHER.set(Some(Vec::new()));
        }
        act();
        if is_first {
            let all = TOGETHER.take().unwrap_or_default();
            match &*all {
                [] => (),
                [message] => self.send(message),
                several => self.send(&format!("[{}]", several.join(","))),
            }
        }
    }

    pub(crate) fn send(&self, message: &str) {
        let is_kept = TOGETHER.with_borrow_mut(|all| match all {
            Some(all) => {
                all.push(message.to_owned());
                true
            }
            None => false,
        });
        if is_kept {
            return;
        }
        let _turn = self.turn.lock().unwrap();
        if self.bom.swap(false, Ordering::Relaxed) {
            write(b"\xef\xbb\xbf");
        }
        if self.garbage {
            write(&NOISE.concat());
        }
        if self.newline_later {
            write(message.as_bytes());
            sleep(Duration::from_millis(20));
            write(b"\n");
        } else {
            write(format!("{message}{}", if self.garbage { "\r\n" } else { "\n" }).as_bytes());
        }
        if self.garbage {
            write(b"sent a message\n");
        }
    }

    pub(crate) fn result(&self, id: &str, result: &str) {
        let result = self.stateless.dressed(id, result);
        self.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#));
    }

    /// `error` is the whole error object.
    pub(crate) fn error(&self, id: &str, error: &str) {
        self.stateless.forget(id);
        self.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#));
    }

    pub(crate) fn notify(&self, method: &str, params: &str) {
        self.send(&format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#));
    }

    pub(crate) fn request(&self, id: &str, method: &str, params: &str) {
        self.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#));
    }
}

/// Whoever does not read any more ends us by other means.
pub(crate) fn write(bytes: &[u8]) {
    let mut out = stdout().lock();
    let _written = out.write_all(bytes).and_then(|()| out.flush());
}

/// Text as JSON.
pub(crate) fn quote(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

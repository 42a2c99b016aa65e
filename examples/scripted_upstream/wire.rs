//! What goes to stdout: one message a line, flushed, with the noise that was asked for.

use std::io::{Write, stdout};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use crate::flags::Flags;

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
}

impl Wire {
    pub(crate) fn new(flags: &Flags) -> Self {
        Self {
            turn: Mutex::new(()),
            garbage: flags.has("--garbage"),
            newline_later: flags.has("--no-newline-flush"),
            bom: AtomicBool::new(flags.has("--bom")),
        }
    }

    pub(crate) fn send(&self, message: &str) {
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
        self.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#));
    }

    /// `error` is the whole error object.
    pub(crate) fn error(&self, id: &str, error: &str) {
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

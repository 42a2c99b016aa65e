use std::io;

use proptest::prelude::*;
use tokio::io::{AsyncWriteExt, duplex};
use tracing::subscriber;

use super::*;

/// A log that a test can read.
#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Captured {
    /// Until the guard is dropped, what this thread logs comes here.
    fn install(&self) -> subscriber::DefaultGuard {
        let log = self.clone();
        let format = tracing_subscriber::fmt().with_writer(move || log.clone()).with_ansi(false);
        subscriber::set_default(format.without_time().with_level(false).with_target(false).finish())
    }

    fn lines(&self) -> Vec<String> {
        String::from_utf8(self.0.lock().clone()).unwrap().lines().map(str::to_owned).collect()
    }
}

impl io::Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn escape_sequences_and_controls_are_removed() {
    for (raw, expected) in [
        ("\x1b[1;31merror\x1b[0m: no", "error: no"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;https://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b(Btext\x1b=", "text"),
        ("\u{9b}2Jtext\u{9d}0;title\u{9c}more", "textmore"),
        ("\x1bPq device string \x1b\\text", "text"),
        ("a\0b\x08c\x7fd\u{85}e\tf", "abcde  f"),
        ("Größe: 5 → 6 ✓", "Größe: 5 → 6 ✓"),
        ("\x1b[31ö", "ö"),
    ] {
        assert_eq!(clean(raw.as_bytes()), expected);
    }
    assert_eq!(clean(b"a\xff\x9b1mb"), "a\u{fffd}\u{fffd}1mb");
}

#[test]
fn the_tail_is_the_last_lines_and_the_unfinished_one() {
    let stderr = Stderr::default();
    stderr.0.lock().feed(b"one\r\n\n10 %\r20 %\rtwo\nPassw");
    stderr.0.lock().feed(b"ord: ");
    assert_eq!(stderr.tail(2), "two\nPassword: ");
    assert_eq!(stderr.tail(99), "one\n10 %\n20 %\ntwo\nPassword: ");
    assert_eq!(stderr.tail(0), "");
}

#[test]
fn only_the_end_is_kept_and_no_line_is_long() {
    let stderr = Stderr::default();
    for i in 0..20_000 {
        stderr.0.lock().feed(format!("line {i}\n").as_bytes());
    }
    let tail = stderr.tail(usize::MAX);
    assert!(tail.ends_with("\nline 19999") && tail.len() < KEPT && tail.len() > KEPT - 100, "{}", tail.len());
    stderr.0.lock().feed(&vec![0xff; 1 << 20]);
    stderr.0.lock().feed("ä\nlast\n".as_bytes());
    let tail = stderr.tail(2);
    let (long, last) = tail.split_once('\n').unwrap();
    assert!(long.len() <= LINE && long.len() > LINE - 4 && last == "last");
}

#[tokio::test(start_paused = true)]
async fn a_flood_is_logged_in_part_and_kept_in_full() {
    let log = Captured::default();
    let _guard = log.install();
    let (mut theirs, ours) = duplex(1 << 10);
    let stderr = Stderr::default();
    let follow = stderr.clone().follow(ours);
    let write = async move {
        for i in 0..100 {
            theirs.write_all(format!("{i}\n").as_bytes()).await.unwrap();
        }
        tokio::time::sleep(WINDOW + Duration::from_millis(1)).await;
        // The report does not wait for another line.
        assert_eq!(log.lines().last().unwrap(), "36 lines left out");
        theirs.write_all(b"calm again\nand an unfinished end").await.unwrap();
        drop(theirs);
        log
    };
    let ((), log) = tokio::join!(follow, write);
    let lines = log.lines();
    assert_eq!(lines.len(), 64 + 1 + 2);
    assert_eq!(lines[62..], ["62", "63", "36 lines left out", "calm again", "and an unfinished end"]);
    assert_eq!(stderr.tail(usize::MAX).lines().count(), 102);
}

proptest! {
    #[test]
    fn nothing_that_steers_a_terminal_survives(
        chunks in prop::collection::vec(
            prop::collection::vec(prop_oneof![any::<u8>(), Just(0x1b), Just(b'['), Just(b']'), Just(0xc2), Just(b'\n')], 0..60),
            0..20,
        ),
    ) {
        let (whole, chunked) = (Stderr::default(), Stderr::default());
        whole.0.lock().feed(&chunks.concat());
        for chunk in &chunks {
            chunked.0.lock().feed(chunk);
        }
        let tail = chunked.tail(usize::MAX);
        prop_assert!(!tail.chars().any(|c| c.is_control() && c != '\n'), "{tail:?}");
        prop_assert_eq!(tail, whole.tail(usize::MAX));
    }
}

use std::io;

use proptest::prelude::*;
use tokio::io::{AsyncWriteExt, duplex};
use tracing::subscriber;

use super::*;

/// A log that a test can read.
#[derive(Clone, Default)]
struct CapturedLog(Arc<Mutex<Vec<u8>>>);

impl CapturedLog {
    /// Captures the log of this thread until the guard is dropped.
    fn install(&self) -> subscriber::DefaultGuard {
        let log = self.clone();
        let format = tracing_subscriber::fmt().with_writer(move || log.clone()).with_ansi(false);
        subscriber::set_default(format.without_time().with_level(false).with_target(false).finish())
    }

    fn lines(&self) -> Vec<String> {
        String::from_utf8(self.0.lock().clone()).unwrap().lines().map(str::to_owned).collect()
    }
}

impl io::Write for CapturedLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn escape_sequences_and_control_characters_are_removed() {
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
        assert_eq!(sanitize(raw.as_bytes()), expected);
    }
    assert_eq!(sanitize(b"a\xff\x9b1mb"), "a\u{fffd}\u{fffd}1mb");
}

#[test]
fn the_tail_includes_a_last_line_without_an_ending() {
    let stderr = StderrTail::default();
    stderr.0.lock().push(b"one\r\n\n10 %\r20 %\rtwo\nPassw");
    stderr.0.lock().push(b"ord: ");
    assert_eq!(stderr.last_lines(2), "two\nPassword: ");
    assert_eq!(stderr.last_lines(99), "one\n10 %\n20 %\ntwo\nPassword: ");
    assert_eq!(stderr.last_lines(0), "");
}

#[test]
fn only_the_tail_is_kept_and_long_lines_are_cut() {
    let stderr = StderrTail::default();
    for i in 0..20_000 {
        stderr.0.lock().push(format!("line {i}\n").as_bytes());
    }
    let tail = stderr.last_lines(usize::MAX);
    assert!(
        tail.ends_with("\nline 19999") && tail.len() < 64 << 10 && tail.len() > (64 << 10) - 100,
        "{}",
        tail.len()
    );
    stderr.0.lock().push(&vec![0xff; 1 << 20]);
    stderr.0.lock().push("ä\nlast\n".as_bytes());
    let tail = stderr.last_lines(2);
    let (long, last) = tail.split_once('\n').unwrap();
    assert!(long.len() <= MAX_LINE_BYTES && long.len() > MAX_LINE_BYTES - 4 && last == "last");
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_lines_is_logged_in_part_and_kept_in_full() {
    let log = CapturedLog::default();
    let _guard = log.install();
    let (mut theirs, ours) = duplex(1 << 10);
    let stderr = StderrTail::default();
    let follow = stderr.clone().follow(ours, ServerLog::default());
    let write = async move {
        for i in 0..100 {
            theirs.write_all(format!("{i}\n").as_bytes()).await.unwrap();
        }
        tokio::time::sleep(LOG_WINDOW + Duration::from_millis(1)).await;
        // The report does not wait for another line.
        assert_eq!(log.lines().last().unwrap(), "36 lines were not logged");
        theirs.write_all(b"calm again\nand a last line").await.unwrap();
        drop(theirs);
        log
    };
    let ((), log) = tokio::join!(follow, write);
    let lines = log.lines();
    assert_eq!(lines.len(), 64 + 1 + 2);
    assert_eq!(lines[62..], ["62", "63", "36 lines were not logged", "calm again", "and a last line"]);
    assert_eq!(stderr.last_lines(usize::MAX).lines().count(), 102);
}

proptest! {
    #[test]
    fn no_control_character_survives(
        chunks in prop::collection::vec(
            prop::collection::vec(prop_oneof![any::<u8>(), Just(0x1b), Just(b'['), Just(b']'), Just(0xc2), Just(b'\n')], 0..60),
            0..20,
        ),
    ) {
        let (whole, chunked) = (StderrTail::default(), StderrTail::default());
        whole.0.lock().push(&chunks.concat());
        for chunk in &chunks {
            chunked.0.lock().push(chunk);
        }
        let tail = chunked.last_lines(usize::MAX);
        prop_assert!(!tail.chars().any(|c| c.is_control() && c != '\n'), "{tail:?}");
        prop_assert_eq!(tail, whole.last_lines(usize::MAX));
    }
}

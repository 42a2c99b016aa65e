use std::io::Read;
use std::sync::Mutex;

use tracing::{debug, error, info, info_span};

use super::*;

/// Returns the text that `events` logs under `options`.
fn log_text(options: Options<'_>, events: impl FnOnce()) -> String {
    let file = tempfile::NamedTempFile::new().unwrap();
    let writer = Mutex::new(file.as_file().try_clone().unwrap());
    let subscriber = tracing_subscriber::registry().with(filter(options).0).with(layer(writer, false));
    tracing::subscriber::with_default(subscriber, events);
    std::fs::read_to_string(file.path()).unwrap()
}

#[test]
fn an_event_is_one_line_regardless_of_its_content() {
    let evil = "a\nb\r\x1b[31mc\u{9b}d\x07\u{2028}e\0";
    let text = log_text(Options::default(), || {
        let _span = info_span!("upstream", group = %evil, other = evil).entered();
        let source = io::Error::other(evil);
        info!(display = %evil, debug = ?evil, string = evil, error = &source as &dyn std::error::Error, "{evil}");
    });
    assert_eq!(text.lines().count(), 1, "{text:?}");
    assert!(!text.trim_end_matches('\n').chars().any(|c| c.is_control() || c == '\u{2028}'), "{text:?}");
    assert_eq!(text.matches(r"a\nb\r\u{1b}[31mc\u{9b}d\u{7}\u{2028}e\0").count(), 7, "{text}");
}

#[test]
fn a_line_has_time_level_group_and_message() {
    let text = log_text(Options::default(), || {
        let _span = info_span!("upstream", group = %"github").entered();
        info!(attempt = 2, "connect failed, will retry");
    });
    let (time, rest) = text.split_once(' ').unwrap();
    assert!(time.ends_with('Z') && time.contains('T'), "{time}");
    assert_eq!(
        rest.trim(),
        "INFO upstream: dynamic_mcp_base::telemetry::tests: connect failed, will retry attempt=2 group=github"
    );
}

#[test]
fn a_field_that_a_span_gets_later_is_in_both_outputs_once() {
    let files = [(); 2].map(|()| tempfile::NamedTempFile::new().unwrap());
    let [first, second] =
        [0, 1].map(|n| BoxMakeWriter::new(Mutex::new(files[n].as_file().try_clone().unwrap())));
    let subscriber =
        tracing_subscriber::registry().with(Some(layer(first, true))).with(Some(layer(second, false)));
    tracing::subscriber::with_default(subscriber, || {
        let span = info_span!("request", id = 1, group = tracing::field::Empty).entered();
        span.record("group", "github");
        info!("sent");
    });
    for file in &files {
        let text = std::fs::read_to_string(file).unwrap();
        assert!(text.contains("id=1 group=\"github\"") && text.matches("group=").count() == 1, "{text}");
    }
}

#[test]
fn a_line_of_json_has_the_fields_of_the_event_and_of_its_spans() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let writer = Mutex::new(file.as_file().try_clone().unwrap());
    let subscriber = tracing_subscriber::registry().with(json_layer(writer));
    tracing::subscriber::with_default(subscriber, || {
        let _outer = info_span!("upstream", group = "a\"b\n").entered();
        let inner = info_span!("request", id = 1, tool = tracing::field::Empty).entered();
        inner.record("tool", "echo");
        info!(error = ?"x\u{1b}\u{202e}", text = "\u{1b}\u{202e}\u{9b}", count = 2, "said {}", "\\\u{e0041}");
        drop(inner);
    });
    let text = std::fs::read_to_string(file.path()).unwrap();
    let (time, rest) = text.split_once("\",\"level").unwrap();
    assert!(time.starts_with("{\"timestamp\":\"2") && time.ends_with('Z'), "{text}");
    let expected = r#"":"INFO","fields":{"message":"said \\\udb40\udc41","error":"\"x\\u{1b}\\u{202e}\"","text":"\u001b\u202e\u009b","count":2},"target":"dynamic_mcp_base::telemetry::tests","spans":[{"group":"a\"b\n","name":"upstream"},{"id":1,"tool":"echo","name":"request"}]}"#;
    assert_eq!(rest, format!("{expected}\n"));
}

#[test]
fn a_line_of_json_has_each_name_once() {
    let files = [(); 2].map(|()| tempfile::NamedTempFile::new().unwrap());
    let [first, second] = [0, 1].map(|n| Mutex::new(files[n].as_file().try_clone().unwrap()));
    let subscriber =
        tracing_subscriber::registry().with(Some(json_layer(first))).with(Some(json_layer(second)));
    tracing::subscriber::with_default(subscriber, || {
        let span = info_span!("request", group = tracing::field::Empty).entered();
        for group in ["a\"\\", "b"] {
            span.record("group", group);
        }
        info!(level = "l", timestamp = "t", "sent");
    });
    let expected = r#""level":"INFO","fields":{"message":"sent","level":"l","timestamp":"t"},"target":"dynamic_mcp_base::telemetry::tests","spans":[{"group":"b","name":"request"}]}"#;
    for file in &files {
        let text = std::fs::read_to_string(file).unwrap();
        assert!(text.ends_with(&format!("{expected}\n")), "{text}");
    }
}

#[test]
fn a_plain_level_applies_to_us_and_our_upstreams() {
    let events = || {
        debug!("ours");
        info!(target: "upstream::stderr", "theirs");
        info!(target: "hyper", "a dependency's");
        error!(target: "hyper", "a dependency's error");
    };
    let logged = |level, filter| {
        let text = log_text(Options { level, filter, ..Options::default() }, events);
        ["ours", "theirs", "a dependency's\n", "a dependency's error"].map(|part| text.contains(part))
    };
    assert_eq!(logged(None, None), [false, true, false, true]);
    assert_eq!(logged(None, Some("debug")), [true, true, false, true]);
    assert_eq!(logged(Some("error"), Some("debug")), [false, false, false, true]);
    assert_eq!(logged(None, Some("off,hyper=info")), [false, false, true, true]);
    assert_eq!(logged(None, Some(" hyper = error , info, ")), [false, true, false, true]);
    assert_eq!(logged(None, Some("upstream::stderr=info")), [false, true, false, false]);
    assert_eq!(logged(Some("OFF"), None), [false; 4]);
}

#[test]
fn rmcps_events_of_a_login_are_never_logged() {
    for filter in [
        "trace",
        "rmcp=trace",
        "trace,rmcp::transport=trace",
        "rmcp::transport::auth=debug",
        "rmcp::transport::auth[{x}]=trace",
    ] {
        let text = log_text(Options { filter: Some(filter), ..Options::default() }, || {
            debug!(target: "rmcp::transport::auth", "a code");
        });
        assert_eq!(text, "", "{filter}");
    }
}

#[test]
fn an_invalid_filter_is_an_error() {
    let error_of = |level, text| filter(Options { level, filter: text, ..Options::default() }).1;
    let error = error_of(Some("inof"), None).unwrap();
    assert_eq!(error, "--log-level must be off, error, warn, info, debug or trace");
    let error = error_of(None, Some("inof")).unwrap();
    assert!(error.starts_with("DYNAMIC_MCP_LOG must be ") && error.contains("directives"), "{error}");
    for invalid in ["dynamic_mcp=loud", "dynamic_mcp=", ",", "[span]=info=x"] {
        assert!(error_of(None, Some(invalid)).is_some(), "{invalid}");
    }
    assert!(error_of(Some("dynamic_mcp=debug"), None).is_some());
    assert!(error_of(None, Some(" ")).is_none());
}

#[test]
fn an_invalid_filter_is_replaced_by_the_default() {
    let text = log_text(Options { level: Some("inof"), ..Options::default() }, || {
        info!("shown");
        debug!("hidden");
    });
    assert!(text.contains("shown") && !text.contains("hidden"), "{text}");
}

#[test]
fn a_log_file_is_appended_to() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    for _ in 0..2 {
        io::Write::write_all(&mut open_log_file(&path).unwrap(), b"x").unwrap();
    }
    let mut text = String::new();
    std::fs::File::open(&path).unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "xx");
    assert!(open_log_file(&dir.path().join("no/log")).is_err());
}

/// A writer that blocks while its buffer is locked.
struct BlockedWriter(Arc<Mutex<Vec<u8>>>);

impl io::Write for BlockedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
#[cfg_attr(miri, ignore = "5,000 lines take minutes")]
fn a_blocked_reader_never_blocks_the_log() {
    let written = Arc::new(Mutex::new(Vec::new()));
    let to = BlockedWriter(written.clone());
    let (new_writer, guard) = lossy::writer("log", || Some(to)).unwrap();
    let blocked = written.lock().unwrap();
    for _ in 0..5000 {
        io::Write::write_all(&mut new_writer(), b"x").unwrap();
    }
    drop(blocked);
    io::Write::write_all(&mut new_writer(), b"").unwrap();
    drop(guard);
    let count = written.lock().unwrap().len();
    assert!((1024..=1026).contains(&count), "{count}");
}

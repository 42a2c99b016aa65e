use super::*;
use proptest::prelude::*;
use std::time::Duration;

/// One place for each line, as configs, commands and terminals have them. The part between `«` and `»` is the secret.
const SECRETS: &str = include_str!("../../tests/secrets.txt");
/// One text for each line, without a secret.
const INNOCENT: &str = include_str!("../../tests/innocent.txt");

/// Returns the text without the marks, and the secret parts.
fn marked(line: &str) -> (String, Vec<String>) {
    let parts = line.split('«').skip(1).filter_map(|part| part.split_once('»'));
    (line.replace(['«', '»'], ""), parts.map(|(secret, _)| secret.to_owned()).collect())
}

/// Returns whether a secret, or half of it, still stands in a text.
fn shows(shown: &str, secret: &str) -> bool {
    let half = secret.chars().count().div_ceil(2);
    let chars: Vec<char> = secret.chars().collect();
    chars.windows(half.max(3).min(chars.len())).any(|part| shown.contains(&part.iter().collect::<String>()))
}

fn as_args(line: &str) -> Vec<String> {
    line.split(" ␣ ").map(str::to_owned).collect()
}

#[test]
fn secrets_in_published_forms_are_masked() {
    let mut shown = Vec::new();
    let lines: Vec<_> = SECRETS.lines().filter(|line| !line.is_empty()).collect();
    for line in &lines {
        let (plain, secrets) = marked(line);
        assert!(!secrets.is_empty(), "{line}");
        // Arguments are redacted one by one, and anything else as the text of a file.
        let out = args(as_args(&plain).iter().map(String::as_str)).join(" ␣ ");
        if secrets.iter().any(|secret| shows(&out, secret)) {
            shown.push(format!("{line}  =>  {out}"));
        }
    }
    assert!(lines.len() >= 114, "{}", lines.len());
    assert!(shown.len() <= 5, "{} of {} show:\n{}", shown.len(), lines.len(), shown.join("\n"));
}

#[test]
fn values_without_secrets_are_shown() {
    let lines: Vec<_> = INNOCENT.lines().filter(|line| !line.is_empty()).collect();
    let masked = lines.iter().map(|line| (line, args(as_args(line).iter().map(String::as_str)).join(" ␣ ")));
    let masked: Vec<_> = masked.filter(|(line, out)| **line != out).collect();
    assert!(lines.len() >= 300, "{}", lines.len());
    assert!(masked.len() <= 3, "{} of {} are masked: {masked:#?}", masked.len(), lines.len());
}

#[test]
fn a_private_key_of_many_lines_is_masked_and_the_lines_stay() {
    let file = "a = 1\nkey = \"\"\"\n-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAKC\n-----END RSA PRIVATE KEY-----\n\"\"\"\nb = 2\n";
    let shown = text(file);
    assert!(!shown.contains("MIIEow") && !shown.contains("IBAAKC") && shown.contains("b = 2"), "{shown}");
    assert_eq!(shown.lines().count(), file.lines().count());
    let public = "-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBaMQsw\n-----END CERTIFICATE-----";
    assert_eq!(text(public), public);
}

#[test]
fn names_and_values_decide_together() {
    for (name, value) in [
        ("GITHUB_TOKEN", "abcdef123"),
        ("apiKey", "0123456789"),
        ("DATABASE_URL", "postgres://u:hunter2@db/x"),
        ("CONNECTION", "Server=db;Password=hunter2;"),
        ("HOOK", "https://hooks.slack.com/services/T0/B0/x"),
        ("X-Forward", "Bearer abcdefgh"),
        ("API_KEYS", "first-of-1, second-of-2"),
    ] {
        assert!(is_secret(name, value), "{name}");
    }
    for (name, value) in [
        ("Authorization", "Bearer ${TOKEN}"),
        ("GOOGLE_APPLICATION_CREDENTIALS", r"\\server\keys\google.json"),
        ("AWS_ACCESS_KEY_ID", "public-id"),
        ("URL", "https://user@host/x"),
        ("MAX_TOKENS", "4096"),
        ("PROJECT_ID", "550e8400-e29b-41d4-a716-446655440000"),
        ("TOKEN", ""),
    ] {
        assert!(!is_secret(name, value), "{name}");
    }
}

/// The parts of which texts are made that take long if anything is looked for twice.
const REPEATED: &[&str] = &[
    "key=\"",
    "key=\\\"",
    "token=${ ",
    "key: ",
    "token=a,",
    "--token ",
    "{",
    "[ \"",
    "-----BEGIN ",
    "-----BEGIN PRIVATE KEY-----",
    "http://a:b@c/",
    "?a=b&",
    "Bearer a${ ",
    "\"'`",
    "\\",
    "\\\\\"key=",
    "aB3",
    "é",
    "\"tokens\": [\"",
    "token=\"a${",
    "token=\"\0",
    "a.b@c.",
    "x=\\\"",
    "\u{202e}",
    "\n",
    "'",
    "op://",
    "://",
];

#[test]
fn the_time_is_linear() {
    let time = |part: &str, length: usize| {
        let long = part.repeat(length / part.len());
        // The shortest of three: another process may take the processor meanwhile.
        let times = (0..3).map(|_| {
            let start = tokio::time::Instant::now();
            assert!(!text(&long).is_empty());
            start.elapsed()
        });
        times.min().unwrap_or_default()
    };
    for part in REPEATED {
        // Ten times the length takes a hundred times as long if the time is quadratic.
        let (short, long) = (time(part, 4_000), time(part, 40_000));
        assert!(long < short * 40 + Duration::from_millis(500), "{part:?}: {short:?}, {long:?}");
    }
}

proptest! {
    #[test]
    fn any_text_keeps_its_lines_and_never_panics(parts in prop::collection::vec(
        prop_oneof![
            prop::sample::select(REPEATED).prop_map(str::to_owned),
            "\\PC{0,6}",
            prop::collection::vec(any::<u8>(), 0..6).prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
        ],
        0..20,
    )) {
        let whole = parts.concat();
        prop_assert_eq!(text(&whole).matches('\n').count(), whole.matches('\n').count());
        let shown = args(parts.iter().map(String::as_str));
        prop_assert_eq!(shown.len(), parts.len());
        for name in ["", "TOKEN", "id", "--user", &whole] {
            is_secret(name, &whole);
        }
    }
}

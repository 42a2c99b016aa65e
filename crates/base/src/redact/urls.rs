//! Secrets in an address: the password, secret parts of the path, and values in the query.

use super::names::{self, NameKind};
use super::shapes;
use std::ops::Range;

/// Hosts whose paths have hashes of commits and files, which are public.
const CODE_HOSTS: &[&str] = &["github", "gitlab", "bitbucket", "huggingface", "codeberg"];
/// The least length of a part of a path that is a secret by its shape, in bytes.
const MIN_RANDOM: usize = 16;

/// Returns the index behind the `://` of the address that begins here. `None` if none does.
pub(super) fn after_scheme(text: &str) -> Option<usize> {
    let is_scheme = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.' | b':');
    let length = text.bytes().take(40).take_while(|byte| is_scheme(*byte)).count();
    let length = text[..length].strip_suffix(':')?.len();
    (length > 0 && text[length..].starts_with("://")).then_some(length + 3)
}

/// Adds the secrets of an address that begins at `start` of the whole text. `scheme` is the index behind `://`.
pub(super) fn find(url: &str, start: usize, scheme: usize, secrets: &mut Vec<Range<usize>>) {
    let is_web = url.starts_with("http") || url.starts_with("git") || url.starts_with("ws");
    let rest = &url[scheme..];
    let path_start = rest.find(['/', '?', '#', ';']).unwrap_or(rest.len());
    let query_start = rest.find('?').unwrap_or(rest.len());
    // A password may contain a slash. In the path of a web page `@` is usual.
    let user_end = match rest[..path_start].rfind('@') {
        None if !is_web => rest[..query_start].rfind('@'),
        found => found,
    };
    let mut found =
        |range: Range<usize>| secrets.push(start + scheme + range.start..start + scheme + range.end);
    if let Some(end) = user_end {
        let user = &rest[..end];
        let name_end = user.find(':').unwrap_or(end);
        let is_token = |text: &str| {
            shapes::is_token(text)
                || text.len() >= MIN_RANDOM && (shapes::is_mixed(text) || shapes::is_hex(text))
        };
        if is_token(&user[..name_end]) {
            found(0..name_end);
        }
        if name_end < end && !is_shown(&user[name_end + 1..]) {
            found(name_end + 1..end);
        }
    }
    let host_start = user_end.map_or(0, |end| end + 1);
    let host_end = rest[host_start..].find(['/', '?', '#', ';']).map_or(rest.len(), |end| host_start + end);
    let host = &rest[host_start..host_end];
    let is_code = CODE_HOSTS.iter().any(|code| host.contains(code)) || url.starts_with("git+");
    let mut before = if host.starts_with("hooks.") { Before::Hook(1) } else { Before::Nothing };
    let mut at = host_end;
    let mut is_path = true;
    while at < rest.len() {
        // A delimiter is one byte.
        is_path &= rest.as_bytes()[at] == b'/';
        at += 1;
        let end = rest[at..].find(['/', '?', '#', '&', ';']).map_or(rest.len(), |end| at + end);
        // What follows `?` may contain slashes.
        let end =
            if is_path { end } else { rest[at..].find(['#', '&', ';']).map_or(rest.len(), |end| at + end) };
        let part = &rest[at..end];
        if let Some((name, value)) = part.split_once('=').filter(|(name, _)| !name.is_empty()) {
            if is_secret_value(names::kind(name), value) {
                found(end - value.len()..end);
            }
        } else if is_path && is_secret_segment(part, before, is_code) {
            found(at..end);
        }
        before = before.next(part);
        at = end;
    }
}

/// What stood before a part of a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Nothing,
    /// A word for a secret: `/token/x`.
    Secret,
    /// A hook whose parts are secret after this number of parts.
    Hook(u8),
}

impl Before {
    fn next(self, part: &str) -> Self {
        match (self, names::kind(part)) {
            (Self::Hook(left), _) => Self::Hook(left.saturating_sub(1)),
            _ if matches!(part, "webhook" | "webhooks" | "webhookb2" | "hooks" | "hook") => Self::Hook(0),
            (_, NameKind::Plain | NameKind::Id) => Self::Nothing,
            _ => Self::Secret,
        }
    }
}

fn is_secret_segment(part: &str, before: Before, is_code: bool) -> bool {
    if part.is_empty() || is_shown(part) {
        return false;
    }
    let is_long_number = shapes::is_hex(part) && part.len() >= 32 && !is_code;
    let is_random = shapes::is_random_from(part, MIN_RANDOM) || shapes::is_token(part);
    // As in `/bot123456:AbC…/`, and in parts with `.` or `@`.
    let has_random =
        || part.split([':', '.', '@', ',']).any(|part| shapes::is_random(part) || shapes::is_token(part));
    is_long_number
        || is_random
        || match before {
            Before::Hook(0) => true,
            Before::Secret => shapes::is_secret(NameKind::Perhaps, part),
            _ => has_random(),
        }
}

fn is_secret_value(kind: NameKind, value: &str) -> bool {
    if value.is_empty() || is_shown(value) {
        return false;
    }
    match kind {
        // In an address these are not the names of keys on a keyboard.
        NameKind::Perhaps if !shapes::is_mixed(value) => {
            value.len() >= 12 && shapes::is_secret(NameKind::Secret, value)
        }
        NameKind::Id => shapes::is_token(value),
        NameKind::Plain => shapes::is_token(value) || shapes::is_random(value),
        kind => shapes::is_secret(kind, value),
    }
}

fn is_shown(text: &str) -> bool {
    text.is_empty() || shapes::is_reference(text)
}

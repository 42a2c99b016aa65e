//! Finds pairs of names and values, addresses and words in any text, and the secrets among them.

use super::names::{self, NameKind};
use super::{shapes, urls};
use std::ops::Range;

/// The most backslashes before a quotation mark, which JSON within JSON within JSON needs.
const MAX_ESCAPES: usize = 15;
/// Begins the header of a key or certificate (PEM).
const PEM_BEGIN: &str = "-----BEGIN ";
/// Begins the end of one.
const PEM_END: &str = "-----END";

/// Returns the secrets in a text, in order and apart from each other. `kind`: what the name of the whole text says.
pub(super) fn secrets(text: &str, kind: NameKind) -> Vec<Range<usize>> {
    let mut scanner = SecretScanner {
        text,
        bytes: text.as_bytes(),
        secrets: Vec::new(),
        open: Vec::new(),
        unclosed: Vec::new(),
        run: usize::MAX..usize::MAX,
        option: None,
        name: kind,
    };
    let start = match kind {
        NameKind::Plain => 0,
        kind => scanner.judge(kind, 0..text.len()),
    };
    scanner.scan(start);
    scanner.secrets
}

struct SecretScanner<'t> {
    text: &'t str,
    bytes: &'t [u8],
    secrets: Vec<Range<usize>>,
    /// The objects and lists that are open, each with its bracket and what its name says.
    open: Vec<(u8, NameKind)>,
    /// The quotation marks, with their number of backslashes, of which no more follows.
    unclosed: Vec<(usize, u8)>,
    /// The last run of characters without a break, whose end need not be looked for again.
    run: Range<usize>,
    /// What the option before says about the word that follows.
    option: Option<NameKind>,
    /// What the name before says about an object or list that follows.
    name: NameKind,
}

impl<'t> SecretScanner<'t> {
    fn scan(&mut self, mut at: usize) {
        while let Some(&byte) = self.bytes.get(at) {
            match byte {
                b'{' | b'[' => self.open.push((byte, std::mem::replace(&mut self.name, NameKind::Plain))),
                b'}' | b']' => drop(self.open.pop()),
                _ => {}
            }
            at = self.value_of_option(at, byte).unwrap_or_else(|| self.step(at, byte));
        }
    }

    /// Looks at the value of an option, or at an item of a list, if one begins here. Returns where to go on then.
    fn value_of_option(&mut self, at: usize, byte: u8) -> Option<usize> {
        let kind = self.option.or_else(|| self.kind_of_item(at))?;
        if matches!(byte, b',' | b' ' | b'\t' | b'\r' | b'\n' | 0) {
            return None;
        }
        // In YAML, the items of a list begin with a dash.
        if byte == b'-' && self.bytes.get(at + 1) == Some(&b' ') {
            return Some(at + 1);
        }
        self.option = None;
        let value = self.value(at);
        if byte == b'-' || self.text[value.clone()].starts_with('-') {
            return None;
        }
        Some(self.judge(kind, value)).filter(|next| *next > at)
    }

    /// Looks at the key, address, pair, option or word that begins here. Returns where to go on.
    fn step(&mut self, at: usize, byte: u8) -> usize {
        if self.text[at..].starts_with(PEM_BEGIN) {
            return self.pem(at);
        }
        if !is_word(byte) {
            return at + 1;
        }
        if byte.is_ascii_alphabetic()
            && let Some(scheme) = urls::after_scheme(&self.text[at..])
        {
            let end = self.end_of_run(at).max(at + scheme);
            urls::find(&self.text[at..end], at, scheme, &mut self.secrets);
            return end;
        }
        let end = at + self.bytes[at..].iter().take_while(|byte| is_word(**byte)).count();
        if let Some(value) = self.after_name(end) {
            return self.pair(at..end, value);
        }
        self.name = NameKind::Plain;
        let text = &self.text[at..end];
        if text.starts_with('-') {
            self.option = Some(names::kind(text)).filter(|kind| is_telling(*kind));
            return end + self.quote(end).map_or(0, |(escapes, _)| escapes + 1);
        }
        if shapes::is_scheme(text) && self.is_alone(at, end) {
            let value = end + 1..self.end_of_run(end + 1);
            return self.judge(NameKind::Secret, value);
        }
        self.word(at..end);
        end
    }

    /// Looks at a name whose value begins at `value`. Returns where to go on.
    fn pair(&mut self, word: Range<usize>, value: usize) -> usize {
        let (at, end) = (word.start, word.end);
        let short = &self.text[word.clone()];
        let short = &short[short.rfind(['/', '@', '$', '%', '~']).map_or(0, |before| before + 1)..];
        let is_reference = self.text[..at].ends_with("${");
        let kind = match names::kind(short) {
            _ if is_reference => NameKind::Plain,
            NameKind::Plain => self.inherited(),
            kind => kind,
        };
        self.word(word);
        self.name = kind;
        // A structure has pairs of its own. After a name in quotation marks, the same mark is their end.
        let next = self.bytes.get(value);
        let is_empty = next.is_some_and(|next| is_quote(*next)) && at > 0 && next == self.bytes.get(at - 1);
        match kind {
            NameKind::Plain => value,
            _ if is_empty && value == end + 1 || matches!(next, Some(b'{' | b'[')) => value,
            kind => {
                let range = self.value(value);
                self.judge(kind, range)
            }
        }
    }

    /// Adds a value if it is a secret. Returns its end, or its start if its parts are to be looked at.
    fn judge(&mut self, kind: NameKind, value: Range<usize>) -> usize {
        let text = &self.text[value.clone()];
        let (scheme, rest) = shapes::split_scheme(text);
        let start = value.start + scheme.len();
        if kind == NameKind::Login
            && let Some(at) = rest.find(':').filter(|&at| is_password(&rest[..at], &rest[at + 1..]))
        {
            self.secrets.push(start + at + 1..value.end);
            return value.end;
        }
        let is_credential =
            !scheme.is_empty() && !rest.contains(' ') && shapes::is_secret(NameKind::Secret, rest);
        if is_credential || shapes::is_secret(kind, rest) {
            self.secrets.push(start..value.end);
            return value.end;
        }
        // What identifies something is random and no secret.
        if kind == NameKind::Id && !shapes::is_token(rest) && !rest.is_empty() && !rest.contains(is_break) {
            return value.end;
        }
        value.start
    }

    /// Adds a word, or parts of it, if they are secrets by their shape.
    fn word(&mut self, word: Range<usize>) {
        let text = &self.text[word.clone()];
        let is_one = !text.contains(['.', '@']) || shapes::is_token(text);
        if is_one && (shapes::is_token(text) || shapes::is_random(text)) {
            self.secrets.push(word);
            return;
        }
        let mut start = word.start;
        for part in text.split(['.', '@', '/', '%', '$', '~']) {
            let end = start + part.len();
            if shapes::is_token(part) || shapes::is_random(part) {
                self.secrets.push(start..end);
            }
            start = end + 1;
        }
    }

    /// Adds the private key that begins here. Returns the end of what needs no look any more.
    fn pem(&mut self, at: usize) -> usize {
        let label = at + PEM_BEGIN.len();
        let head = shapes::head(&self.text[label..]);
        let Some(length) = head.find("-----") else { return label };
        let body = label + length + 5;
        let is_body = |byte: u8| {
            byte.is_ascii_alphanumeric() || byte.is_ascii_whitespace() || b"+/=\\-:,.".contains(&byte)
        };
        let end = body + self.bytes[body..].iter().take_while(|byte| is_body(**byte)).count();
        let end = self.text[body..end].find(PEM_END).map_or(end, |end| body + end);
        if head[..length].contains("PRIVATE KEY") && end > body {
            self.secrets.push(body..end);
        }
        end + usize::from(self.text[end..].starts_with(PEM_END)) * PEM_END.len()
    }

    /// Returns what the name of a list says, if a text in quotation marks begins here that is one of its items.
    fn kind_of_item(&self, at: usize) -> Option<NameKind> {
        let (b'[', kind) = *self.open.last()? else { return None };
        let is_first = || {
            let before = self.bytes[..at].iter().rev().find(|byte| !byte.is_ascii_whitespace());
            matches!(before, Some(b'[' | b','))
        };
        (is_telling(kind) && self.quote(at).is_some() && is_first()).then_some(kind)
    }

    /// Returns the start of the value if the word that ends here is the name of one.
    fn after_name(&self, end: usize) -> Option<usize> {
        let quote = match self.quote(end) {
            // In sentences, names stand between these.
            Some((_, b'`')) => return None,
            Some((escapes, _)) => end + escapes + 1,
            None => end,
        };
        let sign = quote + self.spaces(quote);
        let length = match &self.bytes[sign.min(self.bytes.len())..] {
            [b':', b'/', b'/', ..] | [b':', b':', ..] | [b'=', b'=', ..] => return None,
            [b':', b'=', ..] | [b'=', b'>', ..] => 2,
            [b':' | b'=', ..] => 1,
            _ => return None,
        };
        let after = sign + length;
        Some(after + self.spaces(after))
    }

    /// Returns what the object says in which a name stands.
    fn inherited(&self) -> NameKind {
        match self.open.last() {
            Some((b'{', kind)) if is_telling(*kind) => NameKind::Perhaps,
            _ => NameKind::Plain,
        }
    }

    /// Returns the value that begins here, without its quotation marks.
    fn value(&mut self, start: usize) -> Range<usize> {
        if let Some((escapes, quote)) = self.quote(start) {
            let start = start + escapes + 1;
            return start..self.closing(start, escapes, quote).unwrap_or_else(|| self.end_of_run(start));
        }
        // After a NUL, the value is all of the argument.
        if start > 0 && self.bytes[start - 1] == 0 {
            let length = self.text[start..].find('\0').unwrap_or(self.text.len() - start);
            return start..start + length;
        }
        let mut end = self.end_of_value(start);
        let is_scheme =
            |end: usize| shapes::is_scheme(&self.text[start..end]) && self.bytes.get(end) == Some(&b' ');
        if is_scheme(end) {
            end = self.end_of_value(end + 1);
        }
        let value = self.text[start..end].trim_end_matches([' ', '\r', ',', '}', ']', ')', ';']);
        start..start + value.len()
    }

    /// Returns the end of a value without quotation marks and spaces.
    fn end_of_value(&mut self, start: usize) -> usize {
        let end = self.end_of_run(start);
        let value = &self.text[start..end];
        let mut at = 0;
        while let Some(found) = shapes::head(&value[at..]).find([';', '&', ',']) {
            at += found + 1;
            let next = shapes::head(&value[at..]);
            let name = next
                .bytes()
                .take_while(|byte| byte.is_ascii_alphanumeric() || b"_-. ".contains(byte))
                .count();
            let is_pair = name > 0 && next[name..].starts_with(['=', ':']);
            if is_pair || next.is_empty() || next.starts_with(['&', ';']) || at > shapes::HEAD {
                return start + at - 1;
            }
        }
        end
    }

    /// Returns where the next break is: a space, a quotation mark or an escaped line break.
    fn end_of_run(&mut self, start: usize) -> usize {
        if !(self.run.start..=self.run.end).contains(&start) {
            let mut end = start;
            while let Some(&byte) = self.bytes.get(end) {
                let next = self.bytes.get(end + 1);
                let is_escape = byte == b'\\' && next.is_some_and(|next| b"\"'\\nrt".contains(next));
                if is_break(char::from(byte)) && byte.is_ascii() || is_escape {
                    break;
                }
                end += 1;
            }
            self.run = start..end;
        }
        self.run.end
    }

    /// Returns the number of backslashes before the quotation mark that follows here, and the mark.
    fn quote(&self, at: usize) -> Option<(usize, u8)> {
        let escapes =
            self.bytes.get(at..)?.iter().take(MAX_ESCAPES + 1).take_while(|byte| **byte == b'\\').count();
        self.bytes.get(at + escapes).filter(|byte| is_quote(**byte)).map(|quote| (escapes, *quote))
    }

    /// Returns where the quotation mark with this number of backslashes follows.
    fn closing(&mut self, start: usize, escapes: usize, quote: u8) -> Option<usize> {
        if self.unclosed.contains(&(escapes, quote)) {
            return None;
        }
        let mut before = 0;
        for (at, &byte) in self.bytes.iter().enumerate().skip(start) {
            match byte {
                b'\\' => before += 1,
                0 => return None,
                byte if byte == quote && before == escapes => return Some(at - escapes),
                _ => before = 0,
            }
        }
        self.unclosed.push((escapes, quote));
        None
    }

    /// Returns whether the words at this place are the scheme of a header and its secret, and nothing else.
    fn is_alone(&mut self, start: usize, end: usize) -> bool {
        let is_edge =
            |byte: Option<&u8>| byte.is_none_or(|byte| is_quote(*byte) || matches!(byte, 0 | b'\\' | b'\n'));
        if self.bytes.get(end) != Some(&b' ') {
            return false;
        }
        let after = self.end_of_run(end + 1);
        let value = &self.text[end + 1..after];
        let is_telling =
            value.bytes().any(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase() || byte == b'=');
        let before = start.checked_sub(1).and_then(|at| self.bytes.get(at));
        value.len() >= 8 && (is_telling || (is_edge(before) && is_edge(self.bytes.get(after))))
    }

    /// Counts the spaces at a place.
    fn spaces(&self, at: usize) -> usize {
        self.bytes
            .get(at..)
            .unwrap_or_default()
            .iter()
            .take_while(|byte| matches!(byte, b' ' | b'\t'))
            .count()
    }
}

/// Returns whether a name says that its value may be a secret.
fn is_telling(kind: NameKind) -> bool {
    !matches!(kind, NameKind::Plain | NameKind::Id)
}

/// Returns whether what follows the colon after a user is a password.
fn is_password(user: &str, password: &str) -> bool {
    let is_number = password.bytes().all(|byte| byte.is_ascii_digit());
    !(is_number
        || user == password
        || password.starts_with('$')
        || user.contains(['/', ' '])
        || password.contains('/'))
}

fn is_quote(byte: u8) -> bool {
    matches!(byte, b'"' | b'\'' | b'`')
}

fn is_break(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n' | '\0' | '"' | '\'' | '`' | '<' | '>' | '|' | '^')
}

/// Returns whether a byte may be part of a word or a name.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || !byte.is_ascii() || b"_-.+/~%@$*".contains(&byte)
}

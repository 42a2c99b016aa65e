//! JSON objects whose members are known, so that none of them is read again.

use super::block::skip_plain;
use super::body::{Body, BodyEdit};
use super::fold;
use super::scan::{Member, Members, Scanner};
use base::text::quoted;
use bytes::Bytes;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

/// A JSON object whose members are known.
#[derive(Debug, Clone)]
pub struct Object {
    text: Bytes,
    /// Where the text begins in the line in which the members were found.
    start: usize,
    /// The members, in order, as offsets in that line.
    pub(super) members: Members,
}

/// A member that some readers of JSON take for another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AmbiguousMember {
    /// Its key as it is written.
    pub written: String,
    /// The key of the other member; the same if it is given twice.
    pub key: &'static str,
}

impl fmt::Display for AmbiguousMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { written, key } = self;
        match written == key {
            true => write!(f, "the member {key:?} is given twice"),
            false => write!(f, "some programs read the member {} as {key:?}", quoted(written)),
        }
    }
}

/// The value of a member.
#[derive(Debug, Clone, Copy)]
pub struct Value<'a> {
    text: &'a [u8],
    /// Whether a string in it has escapes.
    escaped: bool,
}

impl<'a> Value<'a> {
    /// Returns the value as JSON text.
    pub fn text(self) -> &'a [u8] {
        self.text
    }

    /// Returns whether the value is this string, written without escapes. This costs less than to decode it.
    pub fn is_plain_str(self, wanted: &str) -> bool {
        matches!(self.text, [b'"', content @ .., b'"'] if !self.escaped && content == wanted.as_bytes())
    }

    /// Returns the value if it is a string. `None` also if it has half of a surrogate pair.
    pub fn as_str(self) -> Option<Cow<'a, str>> {
        match self.text {
            [b'"', content @ .., b'"'] if !self.escaped => {
                std::str::from_utf8(content).ok().map(Cow::Borrowed)
            }
            [b'"', ..] => serde_json::from_slice(self.text).ok().map(Cow::Owned),
            _ => None,
        }
    }
}

impl Default for Object {
    /// Creates the object without members.
    fn default() -> Self {
        Self { text: Bytes::from_static(b"{}"), ..Self::empty() }
    }
}

impl Object {
    /// Finds the members. `None` if the text is not a JSON object.
    pub fn parse(text: &Bytes) -> Option<Self> {
        let mut scanner = Scanner::new(text);
        let mut object = Self { text: text.clone(), start: 0, members: Members::new() };
        scanner.members(&mut object.members)?;
        scanner.end()?;
        Some(object)
    }

    /// Creates an object whose members are not known yet. It is filled in place, because it is large.
    pub(super) fn empty() -> Self {
        Self { text: Bytes::new(), start: 0, members: Members::new() }
    }

    /// Moves past an object in a line, and fills this one, which is empty. Returns where it is. `None` if it is not JSON.
    pub(super) fn scan(&mut self, scanner: &mut Scanner<'_>, line: &Bytes) -> Option<Range<usize>> {
        let range = scanner.members(&mut self.members)?;
        self.set_text(line, &range);
        Some(range)
    }

    /// Sets the text of the object, after all its members were found.
    pub(super) fn set_text(&mut self, line: &Bytes, range: &Range<usize>) {
        self.start = range.start;
        self.text = line.slice(range.clone());
    }

    /// Returns the object as JSON text.
    pub fn text(&self) -> &Bytes {
        &self.text
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Returns the value of the member `key`; `None` if there is none. If a key is given twice, the last value counts,
    /// as in most parsers.
    pub fn get(&self, key: &str) -> Option<Bytes> {
        Some(self.text.slice(self.range(key)?))
    }

    /// Returns whether there is a member `key`.
    pub fn has(&self, key: &str) -> bool {
        self.member(key).is_some()
    }

    /// Returns the member `key` if it is a string.
    pub fn get_str(&self, key: &str) -> Option<Cow<'_, str>> {
        self.value(key)?.as_str()
    }

    /// Returns the first of these keys whose member is there, and its value.
    pub fn first<'k>(&self, keys: &[&'k str]) -> Option<(&'k str, Value<'_>)> {
        keys.iter().find_map(|key| Some((*key, self.value(key)?)))
    }

    /// Returns the value of the member `key`, not as a slice of its own.
    pub fn value(&self, key: &str) -> Option<Value<'_>> {
        self.member(key).map(|member| self.value_of(member))
    }

    fn value_of(&self, member: &Member) -> Value<'_> {
        Value { text: &self.text[self.in_text(&member.value)], escaped: member.value_escaped }
    }

    /// Returns where the value of `key` is.
    pub(super) fn range(&self, key: &str) -> Option<Range<usize>> {
        self.member(key).map(|member| self.in_text(&member.value))
    }

    fn member(&self, key: &str) -> Option<&Member> {
        self.members.iter().rfind(|member| self.has_key(member, key))
    }

    /// Turns offsets in the line into offsets in the text.
    #[inline]
    fn in_text(&self, part: &Range<usize>) -> Range<usize> {
        part.start - self.start..part.end - self.start
    }

    #[inline]
    pub(super) fn has_key(&self, member: &Member, key: &str) -> bool {
        match member.key_escaped {
            // The length first, which costs less.
            false => member.key.len() == key.len() && &self.text[self.in_text(&member.key)] == key.as_bytes(),
            true => self.key(member).is_some_and(|own| own == key),
        }
    }

    /// Returns the key of a member. `None` if it is not Unicode text.
    fn key(&self, member: &Member) -> Option<Cow<'_, str>> {
        let Range { start, end } = self.in_text(&member.key);
        written_str(&self.text[start - 1..end + 1], member.key_escaped)
    }

    /// Returns the keys in order, without those that are not Unicode text.
    pub fn keys(&self) -> impl Iterator<Item = Cow<'_, str>> {
        self.members.iter().filter_map(|member| self.key(member))
    }

    /// Checks that every reader finds the same value for each of these keys: no member is given twice, or has a key that
    /// differs only in case.
    ///
    /// # Errors
    ///
    /// The first member for which that does not hold.
    pub fn check_spelling(&self, wanted: &[&'static str]) -> Result<(), AmbiguousMember> {
        let mut seen = SmallVec::<[&str; 8]>::new();
        for written in self.keys() {
            let Some(key) = wanted.iter().copied().find(|key| fold::is_same(key, &written)) else { continue };
            if *written != *key || seen.contains(&key) {
                return Err(AmbiguousMember { written: written.into_owned(), key });
            }
            seen.push(key);
        }
        Ok(())
    }

    /// Returns all members in order. `None` if a key is not Unicode text.
    pub fn entries(&self) -> Option<Vec<(Cow<'_, str>, Bytes)>> {
        let entry = |member: &Member| Some((self.key(member)?, self.text.slice(self.in_text(&member.value))));
        self.members.iter().map(entry).collect()
    }

    /// Sets members: replaces their values in place, or adds them at the end. Of a member that is there several times,
    /// all values are replaced. If `values` has such a key twice, its first value counts.
    pub fn with(&self, values: &mut dyn Iterator<Item = (&str, Bytes)>) -> Body {
        let mut edits = Vec::with_capacity(values.size_hint().0);
        let mut end = None;
        for (key, value) in values {
            let mut places = self.members.iter().filter(|member| self.has_key(member, key));
            match places.next() {
                Some(first) => {
                    let mut place = self.in_text(&first.value);
                    for next in places {
                        let next = self.in_text(&next.value);
                        edits.push(BodyEdit {
                            place: std::mem::replace(&mut place, next),
                            value: value.clone(),
                        });
                    }
                    edits.push(BodyEdit { place, value });
                }
                None => {
                    let (at, separator) = end.get_or_insert_with(|| self.end_of_members());
                    let key = format!("{separator}{}:", serde_json::Value::from(key)).into();
                    edits.extend([key, value].map(|value| BodyEdit { place: *at..*at, value }));
                    *separator = ",";
                }
            }
        }
        // Those at the end stay in their order.
        edits.sort_by_key(|edit| edit.place.start);
        // A key may be given twice, as servers do. The first value counts.
        edits.dedup_by(|later, first| !later.place.is_empty() && later.place == first.place);
        Body::edited(self.text.clone(), edits)
    }

    /// Returns where members are added, so that all white space stays where it is: after the last value. Also what
    /// separates a member there from those before it.
    fn end_of_members(&self) -> (usize, &'static str) {
        let open_brace = || self.text.iter().position(|&byte| byte == b'{').unwrap_or_default();
        match self.members.last() {
            Some(last) => (last.value.end - self.start, ","),
            None => (open_brace() + 1, ""),
        }
    }

    /// Removes the member `key`, however often it is given. White space between the members is lost then; without such
    /// a member the text stays as it is.
    pub fn without(&self, key: &str) -> Bytes {
        if self.range(key).is_none() {
            return self.text.clone();
        }
        let kept = self.members.iter().filter(|member| !self.has_key(member, key));
        let kept = kept.map(|member| {
            let Range { start, end } = self.in_text(&member.key);
            [&self.text[start - 1..end + 1], b":", &self.text[self.in_text(&member.value)]].concat()
        });
        [b"{", &kept.collect::<Vec<_>>().join(&b","[..])[..], b"}"].concat().into()
    }
}

/// Decodes a string, if the caller knows whether it has escapes. `None` if it is not Unicode text.
pub fn written_str(text: &[u8], escaped: bool) -> Option<Cow<'_, str>> {
    Value { text, escaped }.as_str()
}

/// Returns the content of a JSON string. `None` if the text is none, or has half of a surrogate pair. The text is a whole
/// JSON value.
pub fn str(text: &[u8]) -> Option<Cow<'_, str>> {
    let content = text.get(1..text.len().saturating_sub(1)).unwrap_or_default();
    Value { text, escaped: skip_plain(content, 0).0 < content.len() }.as_str()
}

/// Decodes a string, and copies its content. `None` as with [`str()`].
pub fn string(text: &[u8]) -> Option<String> {
    str(text).map(Cow::into_owned)
}

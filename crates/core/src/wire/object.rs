//! JSON objects whose members are known, and the params of requests, whose members are found when their line is read.

use super::block::skip_plain;
use super::body::{Body, BodyEdit};
use super::scan::{Member, Members, Scanner};
use bytes::Bytes;
use std::borrow::Cow;
use std::ops::{Deref, Range};

/// A JSON object whose members are known.
#[derive(Debug, Clone)]
pub struct Object {
    text: Bytes,
    /// The members, in order.
    members: Members,
}

impl Object {
    /// Finds the members. `None` if the text is not a JSON object.
    pub fn parse(text: &Bytes) -> Option<Self> {
        let mut scanner = Scanner::new(text);
        let mut object = Self { text: text.clone(), members: Members::new() };
        scanner.members(&mut object.members)?;
        scanner.end()?;
        Some(object)
    }

    /// An object whose members are not known yet. It is filled in place, because it is large.
    fn empty() -> Self {
        Self { text: Bytes::new(), members: Members::new() }
    }

    /// Moves past an object in a line, and fills this one, which is empty. Returns where it is. `None` if it is not JSON.
    fn scan(&mut self, scanner: &mut Scanner<'_>, line: &Bytes) -> Option<Range<usize>> {
        let range = scanner.members(&mut self.members)?;
        self.end(line, &range);
        Some(range)
    }

    /// Sets the text, when all members are known by their offsets in the line.
    fn end(&mut self, line: &Bytes, range: &Range<usize>) {
        for Member { key, value, .. } in &mut self.members {
            for offset in [&mut key.start, &mut key.end, &mut value.start, &mut value.end] {
                *offset -= range.start;
            }
        }
        self.text = line.slice(range.clone());
    }

    /// The object as JSON text.
    pub fn text(&self) -> &Bytes {
        &self.text
    }

    /// The number of members.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Returns the value of the member `key`. If a key is given twice, the last value counts, as in most parsers.
    pub fn get(&self, key: &str) -> Option<Bytes> {
        Some(self.text.slice(self.range(key)?))
    }

    /// Returns whether there is a member `key`.
    pub fn has(&self, key: &str) -> bool {
        self.range(key).is_some()
    }

    /// Returns the member `key` if it is a string.
    pub fn get_str(&self, key: &str) -> Option<Cow<'_, str>> {
        str(&self.text[self.range(key)?])
    }

    /// Returns the first of these members that is there, as a key and the text of the value.
    pub fn first<'k>(&self, keys: &[&'k str]) -> Option<(&'k str, &[u8])> {
        keys.iter().find_map(|key| Some((*key, &self.text[self.range(key)?])))
    }

    /// Returns where the value of `key` is.
    fn range(&self, key: &str) -> Option<Range<usize>> {
        self.members.iter().rfind(|member| self.has_key(member, key)).map(|member| member.value.clone())
    }

    #[inline]
    fn has_key(&self, member: &Member, key: &str) -> bool {
        match member.escaped {
            // The length first, which costs less.
            false => member.key.len() == key.len() && &self.text[member.key.clone()] == key.as_bytes(),
            true => self.key(member).is_some_and(|own| own == key),
        }
    }

    /// The key of a member. `None` if it is not Unicode text.
    fn key(&self, member: &Member) -> Option<Cow<'_, str>> {
        let Range { start, end } = member.key;
        match member.escaped {
            false => std::str::from_utf8(&self.text[start..end]).ok().map(Cow::Borrowed),
            true => serde_json::from_slice(&self.text[start - 1..end + 1]).ok().map(Cow::Owned),
        }
    }

    /// Returns all members in order. `None` if a key is not Unicode text.
    pub fn entries(&self) -> Option<Vec<(Cow<'_, str>, Bytes)>> {
        let entry = |member: &Member| Some((self.key(member)?, self.text.slice(member.value.clone())));
        self.members.iter().map(entry).collect()
    }

    /// Sets members: replaces their values in place, or adds them at the end.
    pub fn with(&self, values: &mut dyn Iterator<Item = (&str, Bytes)>) -> Body {
        let mut edits = Vec::with_capacity(values.size_hint().0);
        let mut end = None;
        for (key, value) in values {
            let mut places = self.members.iter().filter(|member| self.has_key(member, key));
            match places.next() {
                Some(first) => {
                    let mut place = &first.value;
                    for next in places {
                        edits.push(BodyEdit { place: place.clone(), value: value.clone() });
                        place = &next.value;
                    }
                    edits.push(BodyEdit { place: place.clone(), value });
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

    /// Where members are added, so that all white space stays where it is: after the last value. Also what separates a
    /// member there from those before it.
    fn end_of_members(&self) -> (usize, &'static str) {
        let open_brace = || self.text.iter().position(|&byte| byte == b'{').unwrap_or_default();
        match self.members.last() {
            Some(last) => (last.value.end, ","),
            None => (open_brace() + 1, ""),
        }
    }

    /// Removes the member `key`.
    pub fn without(&self, key: &str) -> Bytes {
        if self.range(key).is_none() {
            return self.text.clone();
        }
        let kept = self.members.iter().filter(|member| !self.has_key(member, key));
        let kept = kept.map(|member| {
            let key = &self.text[member.key.start - 1..member.key.end + 1];
            [key, b":", &self.text[member.value.clone()]].concat()
        });
        [b"{", &kept.collect::<Vec<_>>().join(&b","[..])[..], b"}"].concat().into()
    }
}

/// Returns the content of a JSON string. `None` if the text is none, or has half of a surrogate pair. The text is a whole
/// JSON value.
pub fn str(text: &[u8]) -> Option<Cow<'_, str>> {
    match text {
        [b'"', content @ .., b'"'] if skip_plain(content, 0).0 == content.len() => {
            std::str::from_utf8(content).ok().map(Cow::Borrowed)
        }
        [b'"', ..] => serde_json::from_slice(text).ok().map(Cow::Owned),
        _ => None,
    }
}

/// Does the same, and copies the content.
pub fn string(text: &[u8]) -> Option<String> {
    str(text).map(Cow::into_owned)
}

/// The params of a request. The members of the params, of their `_meta` and of their `arguments` were found when the
/// line of the request was checked, so that no handler reads it again.
#[derive(Debug, Clone)]
pub struct Params(Box<FoundParams>);

/// What is known of params. Behind a pointer, because params are moved often.
#[derive(Debug, Clone)]
struct FoundParams {
    value: ParamsValue,
    /// Whether no key of the params has escapes or is one of the two below a second time, so that these are what counts.
    is_plain: bool,
    /// The member `_meta` if it is an object.
    meta: Option<Object>,
    /// The member `arguments` if it is an object.
    arguments: Option<Object>,
}

/// What the params are.
#[derive(Debug, Clone)]
enum ParamsValue {
    Object(Object),
    /// The text of any other value.
    Other(Bytes),
}

/// Moves past the value of a member that is looked for, and returns where it is. If it is an object, it becomes `found`.
fn scan_member(scanner: &mut Scanner<'_>, line: &Bytes, found: &mut Option<Object>) -> Option<Range<usize>> {
    match scanner.peek() {
        Some(b'{') => found.insert(Object::empty()).scan(scanner, line),
        _ => scanner.value(),
    }
}

impl Params {
    /// The params of a request that has none.
    pub fn empty() -> Self {
        Bytes::from_static(b"{}").into()
    }

    /// Moves past the params in a line, and returns them. `None` if they are not JSON.
    pub(super) fn scan(scanner: &mut Scanner<'_>, line: &Bytes) -> Option<Self> {
        if scanner.peek()? != b'{' {
            let text = line.slice(scanner.value()?);
            return Some(Self::of_no_object(text));
        }
        let mut params = Box::new(FoundParams {
            value: ParamsValue::Object(Object::empty()),
            is_plain: true,
            meta: None,
            arguments: None,
        });
        let FoundParams { value: ParamsValue::Object(object), is_plain, meta, arguments } = &mut *params
        else {
            return None;
        };
        let (mut has_meta, mut has_arguments) = (false, false);
        let range = scanner.object(|scanner, key, escaped| {
            let (is_repeated, value) = match &line[key.clone()] {
                b"_meta" => (std::mem::replace(&mut has_meta, true), scan_member(scanner, line, meta)?),
                b"arguments" => {
                    (std::mem::replace(&mut has_arguments, true), scan_member(scanner, line, arguments)?)
                }
                _ => (false, scanner.value()?),
            };
            *is_plain &= !escaped && !is_repeated;
            object.members.push(Member { key, escaped, value });
            Some(())
        })?;
        object.end(line, &range);
        Some(Self(params))
    }

    fn of_no_object(text: Bytes) -> Self {
        let value = ParamsValue::Other(text);
        Self(Box::new(FoundParams { value, is_plain: true, meta: None, arguments: None }))
    }

    /// The params if they are an object.
    pub fn object(&self) -> Option<&Object> {
        match &self.0.value {
            ParamsValue::Object(object) => Some(object),
            ParamsValue::Other(_) => None,
        }
    }

    /// Returns the value of the member `key`. `None` also if the params are not an object.
    pub fn get(&self, key: &str) -> Option<Bytes> {
        self.object()?.get(key)
    }

    /// Returns whether there is a member `key`.
    pub fn has(&self, key: &str) -> bool {
        self.object().is_some_and(|object| object.has(key))
    }

    /// Returns the member `key` if it is a string.
    pub fn get_str(&self, key: &str) -> Option<Cow<'_, str>> {
        self.object()?.get_str(key)
    }

    /// The member `_meta` if it is an object.
    pub fn meta(&self) -> Option<Cow<'_, Object>> {
        self.member("_meta", self.0.meta.as_ref())
    }

    /// The member `arguments` if it is an object.
    pub fn arguments(&self) -> Option<Cow<'_, Object>> {
        self.member("arguments", self.0.arguments.as_ref())
    }

    /// Returns the member `key` if it is an object: `known`, unless the key is given twice and another value counts.
    fn member<'a>(&self, key: &str, known: Option<&'a Object>) -> Option<Cow<'a, Object>> {
        if self.0.is_plain {
            return known.map(Cow::Borrowed);
        }
        let object = self.object()?;
        let value = object.range(key)?;
        match known.filter(|known| known.text.as_ptr() == object.text[value.clone()].as_ptr()) {
            Some(known) => Some(Cow::Borrowed(known)),
            None => Object::parse(&object.text.slice(value)).map(Cow::Owned),
        }
    }

    /// Sets members, like [`Object::with`]. The body knows where its progress token is, so that another one can take its
    /// place.
    pub fn with<const N: usize>(&self, values: [(&str, Bytes); N]) -> Body {
        let Some(object) = self.object() else { return Bytes::clone(self).into() };
        let replaces_meta = values.iter().any(|(key, _)| *key == "_meta");
        object.with(&mut values.into_iter()).with_token(self.token().filter(|_| !replaces_meta))
    }

    /// Where the value of `_meta.progressToken` is, if no key on the way to it is given twice.
    fn token(&self) -> Option<Range<usize>> {
        let meta = self.0.meta.as_ref()?;
        let tokens = || meta.members.iter().filter(|member| meta.has_key(member, "progressToken"));
        let is_certain = self.0.is_plain && tokens().count() == 1;
        let range = meta.range("progressToken").filter(|_| is_certain)?;
        // Both are slices of one line.
        let start = meta.text.as_ptr() as usize - self.as_ptr() as usize;
        Some(start + range.start..start + range.end)
    }
}

impl From<Bytes> for Params {
    /// Params that did not come in a line. Text that is not JSON is kept as it is.
    fn from(text: Bytes) -> Self {
        let mut scanner = Scanner::new(&text);
        let scanned = Self::scan(&mut scanner, &text).filter(|_| scanner.end().is_some());
        scanned.unwrap_or_else(|| Self::of_no_object(text.clone()))
    }
}

impl From<Params> for Body {
    fn from(params: Params) -> Self {
        params.with([])
    }
}

impl Deref for Params {
    type Target = Bytes;

    fn deref(&self) -> &Bytes {
        match &self.0.value {
            ParamsValue::Object(object) => &object.text,
            ParamsValue::Other(text) => text,
        }
    }
}

impl PartialEq for Params {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Params {}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(text: &str) -> Params {
        Params::from(Bytes::copy_from_slice(text.as_bytes()))
    }

    #[test]
    fn the_last_of_two_members_counts_however_its_key_is_written() {
        for (text, wanted) in [
            (r#"{"arguments":{"a":1},"arguments":{"a":2}}"#, Some("2")),
            (r#"{"arguments":{"a":1},"\u0061rguments":{"a":2}}"#, Some("2")),
            (r#"{"\u0061rguments":{"a":1},"arguments":{"a":2}}"#, Some("2")),
            (r#"{"arguments":{"a":1},"arguments":"{\"a\":2}"}"#, None),
            (r#"{"arguments":[1],"arguments":{"\u0061":2}}"#, Some("2")),
        ] {
            let found = params(text).arguments().and_then(|arguments| arguments.get("a"));
            assert_eq!(found.as_deref(), wanted.map(str::as_bytes), "{text}");
        }
    }

    #[test]
    fn a_progress_token_is_replaced_in_place() {
        let values = [("name", Bytes::from_static(b"\"b\"")), ("arguments", Bytes::from_static(b"{}"))];
        for (given, wanted) in [
            (
                r#"{"_meta":{"x":1.0,"progressToken" : 5 },"name":"a","arguments":{"progressToken":5}}"#,
                r#"{"_meta":{"x":1.0,"progressToken" : 77 },"name":"b","arguments":{}}"#,
            ),
            (
                r#"{"name":"a","_meta":{"progressToken":"t"}, "arguments":{} , "z":1e400}"#,
                r#"{"name":"b","_meta":{"progressToken":77}, "arguments":{} , "z":1e400}"#,
            ),
        ] {
            let body =
                params(given).with(values.clone()).set_progress_token(Bytes::from_static(b"77")).unwrap();
            assert_eq!(body.join(), wanted, "{given}");
        }
        for given in [
            r#"{"name":"a"}"#,
            r#"{"name":"a","_meta":{"progressToken":1,"progressToken":2}}"#,
            r#"{"_meta":{"progressToken":1},"name":"a","_meta":{"progressToken":2}}"#,
        ] {
            let body = params(given).with(values.clone());
            assert!(body.set_progress_token(Bytes::from_static(b"77")).is_err(), "{given}");
        }
    }

    #[test]
    fn members_are_set_in_text_of_any_size() {
        for length in [1, 4 << 10, 12 << 10] {
            let long = "x".repeat(length);
            let given = params(&format!(r#"{{ "a" : 1.0, "b":"{long}" , "a":2}}"#));
            let values = [("a", Bytes::from_static(b"1e400")), ("é", Bytes::from_static(b"[]"))];
            let wanted = format!(r#"{{ "a" : 1e400, "b":"{long}" , "a":1e400,"é":[]}}"#);
            assert_eq!(given.with(values).join(), wanted);
        }
        let values = [("a", Bytes::from_static(b"1")), ("b", Bytes::from_static(b"2"))];
        assert_eq!(params(r#"{"a":0,"a":0}"#).with(values).join(), r#"{"a":1,"a":1,"b":2}"#);
        let twice = [("a", Bytes::from_static(b"1")), ("a", Bytes::from_static(b"2"))];
        assert_eq!(params(r#"{"b":0,"a":0,"a":0}"#).with(twice).join(), r#"{"b":0,"a":1,"a":1}"#);
    }

    #[test]
    fn params_that_are_no_object_are_kept() {
        for text in ["null", "[1]", "3", "{", ""] {
            let params = params(text);
            assert!(params.object().is_none() && params.arguments().is_none() && params.meta().is_none());
            assert_eq!(params.with([("a", Bytes::from_static(b"1"))]).join(), text);
        }
    }
}

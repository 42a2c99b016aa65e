//! The params of a request, whose members are found when its line is read.

use super::body::Body;
use super::object::{AmbiguousMember, Object};
use super::scan::{Member, Scanner};
use bytes::Bytes;
use std::borrow::Cow;
use std::ops::{Deref, Range};

/// The members of params that decide what a request does and where it goes.
const DECIDING_KEYS: [&str; 6] = ["name", "arguments", "uri", "_meta", "task", "ref"];

/// The params of a request. The members of the params, of their `_meta` and of their `arguments` were found when the
/// line of the request was checked, so that no handler reads it again.
#[derive(Debug, Clone)]
pub struct Params(Box<FoundParams>);

/// The text of params and the members that were found in it. Behind a pointer, because params are moved often.
#[derive(Debug, Clone)]
struct FoundParams {
    value: ParamsValue,
    /// Whether no key of the params has escapes or is one of the two below a second time, so that these two count.
    is_plain: bool,
    /// Whether the keys are some of `_meta`, `arguments` and `name`, `name` once at most. Those of most calls are.
    is_usual: bool,
    /// The member `_meta` if it is an object.
    meta: Option<Object>,
    /// The member `arguments` if it is an object.
    arguments: Option<Object>,
}

/// The kind of the params.
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
    /// Creates the params of a request that has none.
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
            is_usual: true,
            meta: None,
            arguments: None,
        });
        let FoundParams { value: ParamsValue::Object(object), is_plain, is_usual, meta, arguments } =
            &mut *params
        else {
            return None;
        };
        let (mut has_meta, mut has_arguments, mut has_name) = (false, false, false);
        let range = scanner.object(|scanner, key, key_escaped| {
            let (is_repeated, found) = match &line[key.clone()] {
                b"_meta" => (std::mem::replace(&mut has_meta, true), &mut *meta),
                b"arguments" => (std::mem::replace(&mut has_arguments, true), &mut *arguments),
                written => {
                    *is_plain &= !key_escaped;
                    *is_usual &= written == b"name" && !std::mem::replace(&mut has_name, true);
                    object.members.push(scanner.member(key, key_escaped)?);
                    return Some(());
                }
            };
            *is_plain &= !is_repeated;
            let value = scan_member(scanner, line, found)?;
            object.members.push(Member { key, key_escaped: false, value, value_escaped: true });
            Some(())
        })?;
        object.set_text(line, &range);
        Some(Self(params))
    }

    fn of_no_object(text: Bytes) -> Self {
        let value = ParamsValue::Other(text);
        Self(Box::new(FoundParams { value, is_plain: true, is_usual: true, meta: None, arguments: None }))
    }

    /// Returns the params if they are an object.
    pub fn object(&self) -> Option<&Object> {
        match &self.0.value {
            ParamsValue::Object(object) => Some(object),
            ParamsValue::Other(_) => None,
        }
    }

    /// Checks that every server finds the same name, URI and arguments in these params as dynamic-mcp does.
    ///
    /// # Errors
    ///
    /// The first member that is one of `DECIDING_KEYS` to some readers of JSON and not to others.
    pub fn check_spelling(&self) -> Result<(), AmbiguousMember> {
        match self.object() {
            Some(object) if !(self.0.is_usual && self.0.is_plain) => object.check_spelling(&DECIDING_KEYS),
            _ => Ok(()),
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

    /// Returns the member `_meta` if it is an object.
    pub fn meta(&self) -> Option<Cow<'_, Object>> {
        self.member("_meta", self.0.meta.as_ref())
    }

    /// Returns the member `arguments` if it is an object.
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
        match known.filter(|known| known.text().as_ptr() == object.text()[value.clone()].as_ptr()) {
            Some(known) => Some(Cow::Borrowed(known)),
            None => Object::parse(&object.text().slice(value)).map(Cow::Owned),
        }
    }

    /// Sets members, like [`Object::with`]. Params that are not an object stay as they are. The body knows where its
    /// progress token is, so that another one can take its place.
    pub fn with<const N: usize>(&self, values: [(&str, Bytes); N]) -> Body {
        let Some(object) = self.object() else { return Bytes::clone(self).into() };
        let replaces_meta = values.iter().any(|(key, _)| *key == "_meta");
        object.with(&mut values.into_iter()).with_token(self.token().filter(|_| !replaces_meta))
    }

    /// Returns where the value of `_meta.progressToken` is, if no key on the way to it is given twice.
    fn token(&self) -> Option<Range<usize>> {
        let meta = self.0.meta.as_ref()?;
        let tokens = || meta.members.iter().filter(|member| meta.has_key(member, "progressToken"));
        let is_certain = self.0.is_plain && tokens().count() == 1;
        let range = meta.range("progressToken").filter(|_| is_certain)?;
        // Both are slices of one line.
        let start = meta.text().as_ptr() as usize - self.as_ptr() as usize;
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
            ParamsValue::Object(object) => object.text(),
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
    fn a_member_that_other_readers_take_for_a_deciding_one_is_found() {
        for text in [
            r#"{"name":"a","arguments":{"Name":1,"name":1,"NAME":1},"_meta":{}}"#,
            r#"{"_meta":{},"uri":"a","task":{},"group":"g","Group":"h"}"#,
            r#"{"n\u0061me":"a","names":1,"nam":1}"#,
            "[1]",
        ] {
            assert_eq!(params(text).check_spelling(), Ok(()), "{text}");
        }
        for (text, written, key) in [
            (r#"{"name":"a","Name":"b"}"#, "Name", "name"),
            (r#"{"name":"a","name":"b"}"#, "name", "name"),
            (r#"{"name":"a","n\u0061me":"b"}"#, "name", "name"),
            (r#"{"name":"a","n\u0041me":"b"}"#, "nAme", "name"),
            (r#"{"name":"a","arguments":{},"arguments":{}}"#, "arguments", "arguments"),
            (r#"{"name":"a","argumentſ":{}}"#, "argumentſ", "arguments"),
            (r#"{"uri":"a","URI":"b"}"#, "URI", "uri"),
            (r#"{"ref":{},"Ref":{}}"#, "Ref", "ref"),
            (r#"{"_meta":{},"_META":{}}"#, "_META", "_meta"),
            (r#"{"name":"a","ta\u017f\u212a":{}}"#, "ta\u{17f}\u{212a}", "task"),
        ] {
            let wanted = AmbiguousMember { written: written.to_owned(), key };
            assert_eq!(params(text).check_spelling(), Err(wanted), "{text}");
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

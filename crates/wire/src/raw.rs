//! Reads and edits single members of JSON objects and leaves all other bytes as they are.
//!
//! Each function reads the whole object. Where several members of one object are needed, [`Object`] reads it once.

use super::object::Object;
use super::tokens::Tokens;
use super::{Raw, json_string};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// Returns the value of the member `key`; `None` if there is none or `object` is not an object. If a key is given
/// twice, the last value counts, as in most parsers.
pub fn get(object: &Raw, key: &str) -> Option<Raw> {
    Object::parse(object)?.get(key)
}

/// Returns the member `key`; `None` if it is missing or not a string.
pub fn get_str(object: &Raw, key: &str) -> Option<String> {
    Object::parse(object)?.get_str(key).map(Cow::into_owned)
}

/// Returns the code of a JSON-RPC error; `None` if it has none, or one that is not an `i64`.
pub fn error_code(error: &Raw) -> Option<i64> {
    get(error, "code").and_then(|code| serde_json::from_slice(&code).ok())
}

/// Returns all members in order; `None` if `object` is not an object, or has a key that is not Unicode text.
pub fn entries(object: &Raw) -> Option<Vec<(String, Raw)>> {
    let object = Object::parse(object)?;
    Some(object.entries()?.into_iter().map(|(key, value)| (key.into_owned(), value)).collect())
}

/// Returns the elements of the member `key`; `None` if it is missing or not an array.
pub fn elements(object: &Raw, key: &str) -> Option<Vec<Raw>> {
    elements_of(&get(object, key)?)
}

/// Returns the elements of an array; `None` if `list` is not one.
pub fn elements_of(list: &Raw) -> Option<Vec<Raw>> {
    let elements: Vec<&RawValue> = serde_json::from_slice(list).ok()?;
    Some(elements.iter().map(|element| list.slice_ref(element.get().as_bytes())).collect())
}

/// Returns how deep the objects and arrays of JSON text are nested: 0 for a scalar. Does not recurse.
pub fn depth(json: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    for (_, byte) in Tokens::new(json) {
        match byte {
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Sets the member `key`: replaces its value in place, or adds it at the end. Returns anything that is not an object
/// unchanged.
pub fn set(object: &Raw, key: &str, value: &[u8]) -> Raw {
    set_all(object, &[(key, value)])
}

/// Sets the member `key` to a string.
pub fn set_str(object: &Raw, key: &str, text: &str) -> Raw {
    set(object, key, &json_string(text))
}

/// Sets several members at once, like [`set`].
pub fn set_all(object: &Raw, values: &[(&str, &[u8])]) -> Raw {
    let Some(parsed) = Object::parse(object) else { return object.clone() };
    parsed.with(&mut values.iter().map(|(key, value)| (*key, Raw::copy_from_slice(value)))).join()
}

/// Makes an object of these members, whose values are JSON text. Of equal keys, the last value counts.
pub fn object<K: AsRef<str>>(members: &[(K, Raw)]) -> Raw {
    let last: HashMap<&str, &Raw> = members.iter().map(|(key, value)| (key.as_ref(), value)).collect();
    let mut seen = HashSet::new();
    let kept = members.iter().map(|(key, _)| key.as_ref()).filter(|key| seen.insert(*key));
    let kept = kept.map(|key| [&json_string(key)[..], b":", &last[key][..]].concat());
    [b"{", &kept.collect::<Vec<_>>().join(&b","[..])[..], b"}"].concat().into()
}

/// Makes an array of these elements, which are JSON text.
pub fn array<E: AsRef<[u8]>>(elements: &[E]) -> Raw {
    let length: usize = elements.iter().map(|element| element.as_ref().len() + 1).sum();
    let mut array = Vec::with_capacity(length + 2);
    array.push(b'[');
    for (n, element) in elements.iter().enumerate() {
        if n > 0 {
            array.push(b',');
        }
        array.extend_from_slice(element.as_ref());
    }
    array.push(b']');
    array.into()
}

/// Removes the member `key`. Returns anything that is not an object unchanged.
pub fn remove(object: &Raw, key: &str) -> Raw {
    Object::parse(object).map_or_else(|| object.clone(), |parsed| parsed.without(key))
}

/// Sets the member `key` of the member `outer`, which is added if it is missing, and replaced if it is not an object.
/// Returns anything that is not an object unchanged.
pub fn set_in(object: &Raw, outer: &str, key: &str, value: &[u8]) -> Raw {
    let Some(parsed) = Object::parse(object) else { return object.clone() };
    let inner = parsed.get(outer).filter(|inner| inner.first() == Some(&b'{'));
    let inner = set(&inner.unwrap_or(Raw::from_static(b"{}")), key, value);
    parsed.with(&mut [(outer, inner)].into_iter()).join()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn raw(text: &str) -> Raw {
        Raw::copy_from_slice(text.as_bytes())
    }

    #[test]
    fn an_array_has_its_elements_verbatim() {
        assert_eq!(array::<Raw>(&[]), "[]");
        assert_eq!(array(&["1e400"]), "[1e400]");
        assert_eq!(array(&[raw("1.0"), raw(r#"{"a":[]}"#), raw(r#""x""#)]), r#"[1.0,{"a":[]},"x"]"#);
    }

    #[test]
    fn the_depth_counts_brackets_outside_of_strings() {
        for (json, expected) in [
            ("1", 0),
            ("[]", 1),
            (r#"{"a":[{}],"b":{"c":1}}"#, 3),
            (r#"["[[[[","\\\"[{",{"\\\\":[]}]"#, 3),
            (r#"["unended [["#, 1),
        ] {
            assert_eq!(depth(json.as_bytes()), expected, "{json}");
        }
        let levels = if cfg!(miri) { 1_000 } else { 100_000 };
        let deep = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert_eq!(depth(deep.as_bytes()), levels);
    }

    #[test]
    fn replaces_a_value_in_place_and_leaves_the_rest() {
        let object = raw(r#"{ "a" : 1.0, "b": {"a":2} , "c":1e400 }"#);
        assert_eq!(set(&object, "b", b"\"x\""), raw(r#"{ "a" : 1.0, "b": "x" , "c":1e400 }"#));
        assert_eq!(get(&object, "a"), Some(raw("1.0")));
        assert_eq!(get(&object, "d"), None);
    }

    #[test]
    fn adds_a_missing_member_at_the_end() {
        assert_eq!(set(&raw("{}"), "k", b"1"), raw(r#"{"k":1}"#));
        assert_eq!(set(&raw(" { } "), "k", b"1"), raw(r#" {"k":1 } "#));
        let both = |object| set_all(&raw(object), &[("a", b"1"), ("b", b"2")]);
        assert_eq!(both("{}"), raw(r#"{"a":1,"b":2}"#));
        assert_eq!(both(r#"{"b":0,"c":3 }"#), raw(r#"{"b":2,"c":3,"a":1 }"#));
        assert_eq!(set(&raw(r#"{"a":[] }"#), "q\"", b"{}"), raw(r#"{"a":[],"q\"":{} }"#));
    }

    #[test]
    fn replaces_every_duplicate_so_that_no_reader_sees_the_old_value() {
        assert_eq!(set(&raw(r#"{"id":1,"x":2,"id":3}"#), "id", b"9"), raw(r#"{"id":9,"x":2,"id":9}"#));
    }

    #[test]
    fn removing_leaves_the_other_values() {
        let object = raw(r#"{"a":1.0, "group" : "g","b":1e400,"group":2}"#);
        assert_eq!(remove(&object, "group"), raw(r#"{"a":1.0,"b":1e400}"#));
        assert_eq!(remove(&raw(r#"{"group":1}"#), "group"), raw("{}"));
        assert_eq!(remove(&raw(r#"{ "x":1 }"#), "group"), raw(r#"{ "x":1 }"#));
    }

    #[test]
    fn sees_through_escaped_keys() {
        assert_eq!(get(&raw(r#"{"\u0069d":5}"#), "id"), Some(raw("5")));
    }

    #[test]
    fn leaves_other_values_than_objects_unchanged() {
        for text in ["null", "[1]", "3", "{", ""] {
            assert_eq!(set(&raw(text), "a", b"1"), raw(text));
        }
    }

    #[test]
    fn sets_a_nested_member_and_adds_its_parent() {
        assert_eq!(
            set_in(&raw(r#"{"_meta":{"x":1.0,"t":"a"}}"#), "_meta", "t", b"7"),
            raw(r#"{"_meta":{"x":1.0,"t":7}}"#)
        );
        assert_eq!(set_in(&raw("{}"), "_meta", "t", b"7"), raw(r#"{"_meta":{"t":7}}"#));
    }

    proptest! {
        #[test]
        fn setting_a_member_changes_only_that_member(keys in proptest::collection::vec("[a-d\"\\\\é]{0,3}", 0..6), key in "[a-d\"\\\\é]{0,3}") {
            let object = keys.iter().map(|k| format!("{}:[1.50]", serde_json::Value::from(k.as_str())));
            let object = raw(&format!("{{{}}}", object.collect::<Vec<_>>().join(" , ")));
            let edited = set(&object, &key, b"1e400");
            prop_assert_eq!(get(&edited, &key), Some(raw("1e400")));
            for other in keys.iter().filter(|k| **k != key) {
                prop_assert_eq!(get(&edited, other), Some(raw("[1.50]")));
            }
        }
    }
}

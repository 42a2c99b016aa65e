//! JSON in a form in which equal content is equal text.

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// Writes JSON so that texts with the same content become equal: without white space, and with the members of objects
/// in order. Members that are given twice are both kept, because parsers do not agree on which of them counts. A text
/// that cannot be read, such as one with the number 1e400, stays as it is.
pub fn canonical(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len());
    let mut reader = serde_json::Deserializer::from_slice(json);
    match Canonical(&mut out).deserialize(&mut reader).and_then(|()| reader.end()) {
        Ok(()) => out,
        Err(_) => json.to_vec(),
    }
}

/// Appends a value in canonical form.
struct Canonical<'o>(&'o mut Vec<u8>);

impl Canonical<'_> {
    /// Appends a scalar. Never fails.
    fn scalar<E: Error>(self, value: impl Into<serde_json::Value>) -> Result<(), E> {
        self.0.extend_from_slice(value.into().to_string().as_bytes());
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Canonical<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Canonical<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.scalar(())
    }
    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.scalar(value)
    }
    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.scalar(value)
    }
    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.scalar(value)
    }
    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.scalar(value)
    }
    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        self.scalar(value)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        self.0.push(b'[');
        while list.next_element_seed(Canonical(self.0))?.is_some() {
            self.0.push(b',');
        }
        self.0.push(b']');
        Ok(())
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut members: Vec<(String, Vec<u8>)> = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            let mut value = Vec::new();
            map.next_value_seed(Canonical(&mut value))?;
            members.push((key, value));
        }
        // The sort is stable: values of the same key stay in their order.
        members.sort_by(|a, b| a.0.cmp(&b.0));
        self.0.push(b'{');
        for (key, value) in members {
            self.0.extend_from_slice(serde_json::Value::from(key).to_string().as_bytes());
            self.0.push(b':');
            self.0.extend_from_slice(&value);
            self.0.push(b',');
        }
        self.0.push(b'}');
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_kept_and_members_are_in_order() {
        let json =
            r#" {"b": [null, true, -1, 18446744073709551615, 1.50, "x\u0041", [] ], "a": {}, "a": 1} "#;
        let canonical = String::from_utf8(canonical(json.as_bytes())).unwrap();
        assert_eq!(canonical, r#"{"a":{},"a":1,"b":[null,true,-1,18446744073709551615,1.5,"xA",[],],}"#);
    }

    #[test]
    fn what_cannot_be_read_stays_as_it_is() {
        for json in ["1e400 ", "{\"a\": ", "{} {}", ""] {
            assert_eq!(canonical(json.as_bytes()), json.as_bytes());
        }
    }
}

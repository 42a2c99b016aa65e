//! The settings of a bundle (`user_config`), and the values that the user gives them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What encloses the name of a secret in a text that is made of values. No program can get it as an argument or a variable.
pub(crate) const SECRET_MARK: char = '\0';

/// A setting of a bundle.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct UserSetting {
    /// What it takes: `string`, `number`, `boolean`, `directory` or `file`.
    #[serde(rename = "type")]
    kind: String,
    /// Its name for people.
    pub title: String,
    /// What it is for.
    pub description: String,
    /// Whether the server cannot be started without a value.
    pub required: bool,
    default: Option<Value>,
    /// The least number that it takes.
    min: Option<f64>,
    /// The greatest number that it takes.
    max: Option<f64>,
    /// Whether it takes a list.
    pub multiple: bool,
    /// Whether its value is a secret.
    pub sensitive: bool,
}

/// A value of a setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SettingValue {
    /// Text, a number or a boolean, as it reaches the server.
    Text(String),
    /// Several texts.
    List(Vec<String>),
    /// The secret of this name in the system's keyring.
    Keyring(String),
}

impl SettingValue {
    /// Reads a value as it stands in JSON. `None`: it is null, or an object.
    pub fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Array(list) => Some(Self::List(list.iter().filter_map(text_of).collect())),
            value => text_of(value).map(Self::Text),
        }
    }

    /// Returns whether it counts as a value of a required setting.
    pub(crate) fn is_given(&self) -> bool {
        match self {
            Self::Text(text) => !text.is_empty(),
            Self::List(texts) => !texts.is_empty() && texts.iter().all(|text| !text.is_empty()),
            Self::Keyring(_) => true,
        }
    }
}

/// Returns a value as the text that JavaScript makes of it.
fn text_of(value: &Value) -> Option<String> {
    match value {
        // No program can get the mark of secrets.
        Value::String(text) => Some(text.replace(SECRET_MARK, "")),
        // Rust writes 20.0 in the same way: as 20.
        Value::Number(number) if number.is_f64() => number.as_f64().map(|number| number.to_string()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

impl UserSetting {
    /// Returns its value if the user gives none.
    pub fn default(&self) -> Option<SettingValue> {
        SettingValue::of(self.default.as_ref()?)
    }

    /// Checks a text that the user gives as a value.
    ///
    /// # Errors
    ///
    /// Says what is expected.
    pub fn check(&self, text: &str) -> Result<(), String> {
        match self.kind.as_str() {
            "boolean" if !matches!(text, "true" | "false") => Err("expected true or false".to_owned()),
            "number" if !text.parse().is_ok_and(|number| self.takes(number)) => Err(self.expected_number()),
            _ => Ok(()),
        }
    }

    /// Returns whether it takes a number.
    fn takes(&self, number: f64) -> bool {
        number.is_finite()
            && self.min.is_none_or(|min| number >= min)
            && self.max.is_none_or(|max| number <= max)
    }

    /// Says which numbers it takes.
    fn expected_number(&self) -> String {
        let limits = [("at least", self.min), ("at most", self.max)];
        let limits = limits.into_iter().filter_map(|(word, limit)| Some(format!("{word} {}", limit?)));
        let limits = limits.collect::<Vec<_>>().join(" and ");
        format!("expected a number{}{limits}", if limits.is_empty() { "" } else { " of " })
    }

    /// Returns whether the value is a path.
    pub fn is_path(&self) -> bool {
        matches!(self.kind.as_str(), "directory" | "file")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_to_be_within_its_limits() {
        let setting: UserSetting =
            serde_json::from_str(r#"{"type": "number", "min": 1, "max": 100}"#).unwrap();
        for text in ["1", "100", "2.5"] {
            assert_eq!(setting.check(text), Ok(()), "{text}");
        }
        for text in ["0", "100.1", "-1", "inf", "NaN"] {
            assert_eq!(
                setting.check(text),
                Err("expected a number of at least 1 and at most 100".to_owned()),
                "{text}"
            );
        }
        let setting = UserSetting { max: None, ..setting };
        assert_eq!(setting.check("1e300"), Ok(()));
        assert_eq!(setting.check("x"), Err("expected a number of at least 1".to_owned()));
    }
}

//! Parses the `profiles` of one file, and remembers where their parts are.

use std::sync::Arc;

use jsonc_parser::ast::{ObjectProp, Value};
use jsonc_parser::common::Ranged;

use super::findings::{unknown_field, value_error};
use super::json_text::expected_an_object;
use super::source_text::SourceText;
use crate::ConfigError;
use crate::file::profiles::ProfileEntry;
use crate::value_reader::ValueReader;
use crate::vars::ExpandContext;
use base::text;

/// A profile of a file.
pub(super) struct NamedProfile {
    /// Its name.
    pub(super) name: String,
    /// What it says. Of a profile that is wrong, nothing: it chooses no server.
    pub(super) content: ProfileEntry,
    /// The file.
    pub(super) text: Arc<SourceText>,
}

/// Reads the value of `profiles`. Returns the profiles, and what is wrong with them. A profile that is wrong, or
/// defined twice, has nothing.
pub(super) fn parse_profiles(
    value: &Value<'_>,
    text: &Arc<SourceText>,
    context: ExpandContext<'_>,
) -> (Vec<NamedProfile>, Vec<ConfigError>) {
    let Value::Object(object) = value else {
        let message = format!("`profiles`: {}", expected_an_object(value));
        return (Vec::new(), vec![text.error(value.start(), message, None)]);
    };
    let (mut profiles, mut errors): (Vec<NamedProfile>, Vec<ConfigError>) = (Vec::new(), Vec::new());
    for member in &object.properties {
        let name = member.name.as_str().to_owned();
        let mut wrong = |error: ConfigError| {
            let message = format!("profile {}: {}", text::name(&name), error.message);
            errors.push(ConfigError { message, ..error });
            ProfileEntry::default()
        };
        let content = read_profile(member, text, context).unwrap_or_else(&mut wrong);
        match profiles.iter_mut().find(|known| known.name == name) {
            Some(first) => {
                first.content = wrong(text.error(member.name.start(), "it is defined twice", None));
            }
            None => profiles.push(NamedProfile { name, content, text: text.clone() }),
        }
    }
    (profiles, errors)
}

/// Reads a profile: a list of globs, or an object.
///
/// # Errors
///
/// Fails at any mistake, also at an unknown field: a field that is misspelled may be what hides servers or tools.
fn read_profile(
    member: &ObjectProp<'_>,
    text: &SourceText,
    context: ExpandContext<'_>,
) -> Result<ProfileEntry, ConfigError> {
    let value = &member.value;
    if member.name.as_str().trim().is_empty() {
        return Err(text.error(member.name.start(), "its name is empty", None));
    }
    let reader = ValueReader::new(context);
    let entry = reader.read(value).map_err(|error| {
        let is_no_list = error.offset == Some(value.start());
        let hint = is_no_list.then(|| "write a list, such as [\"docs*\"]".to_owned());
        let error = value_error(text, &error);
        ConfigError { hint: error.hint.or(hint), ..error }
    })?;
    if let Some(field) = reader.into_unknown().first() {
        return Err(unknown_field(text, field));
    }
    Ok(entry)
}

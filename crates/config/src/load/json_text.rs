//! The syntax of JSON files: JSON with comments and trailing commas.

use jsonc_parser::ast::{Object, Value};
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use super::findings::syntax_error;
use super::source_text::SourceText;
use crate::ConfigError;
use crate::value_reader::json_type;

/// What is accepted beyond plain JSON.
pub const PARSE_OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// Parses the text as JSON with comments and trailing commas. Returns the top-level object.
///
/// # Errors
///
/// Fails if the text is not JSON, is empty, or has something else at its top level, with line and column.
pub(super) fn parse_json(text: &SourceText) -> Result<Object<'_>, ConfigError> {
    const HINT: &str =
        r#"a config file looks like {"mcpServers": {NAME: {"command": …}}}, and may have comments"#;
    let parsed = parse_to_ast(text.as_str(), &CollectOptions::default(), &PARSE_OPTIONS)
        .map_err(|error| syntax_error(text, &error))?;
    match parsed.value {
        Some(Value::Object(root)) => Ok(root),
        Some(other) => Err(text.error(other.start(), expected_an_object(&other), Some(HINT.to_owned()))),
        None => Err(text.error(0, "the file is empty", Some(HINT.to_owned()))),
    }
}

/// Returns the message for a value that is no object.
pub(super) fn expected_an_object(found: &Value<'_>) -> String {
    format!("expected an object, found {}", json_type(found))
}

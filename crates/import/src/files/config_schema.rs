//! The JSON Schema beside a config file that we make. Editors complete and check the file with it.
//!
//! It is named by a relative path, so that it needs no network and fits the version that wrote it.

use std::fs;
use std::path::Path;

use serde_json::json;

use super::edit::{ObjectEdit, edit};
use super::write::replace;
use crate::source::read_text;
use config::file::SCHEMA;
use config::load::is_toml;

/// The name of the schema's file.
const FILE: &str = "dynamic-mcp.schema.json";

/// Returns the text of a config file with these edits. A new file of JSON names its schema. `before`: the text of the
/// file; `None` if there is none. Writes nothing.
///
/// # Errors
///
/// Says why the text cannot be edited so.
pub fn edit_config(path: &Path, before: Option<&str>, edits: Vec<ObjectEdit>) -> Result<String, String> {
    let schema = ObjectEdit::set(Vec::new(), vec![("$schema".to_owned(), json!(format!("./{FILE}")))]);
    let schema = Some(schema).filter(|_| before.is_none() && !is_toml(path));
    let edits: Vec<_> = schema.into_iter().chain(edits).collect();
    edit(path, before.unwrap_or_default(), &edits)
}

/// Replaces the text of a config file like [`replace`], and writes the schema that it names. The config counts without
/// the schema, so nothing fails if it cannot be written.
///
/// # Errors
///
/// As [`replace`].
pub fn replace_config(path: &Path, before: Option<&str>, after: &str) -> std::io::Result<()> {
    // First, so that a command that is interrupted here finds the config unwritten and does this again.
    if after.contains(FILE) {
        let file = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()).with_file_name(FILE);
        let known = read_text(&file).ok().flatten();
        if known.as_deref() != Some(SCHEMA) {
            let _not_written = replace(&file, known.as_deref(), SCHEMA);
        }
    }
    replace(path, before, after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_names_its_schema_which_each_write_renews() {
        let dir = tempfile::tempdir().unwrap();
        let (file, schema) = (dir.path().join("servers.json"), dir.path().join(FILE));
        let add = |name: &str| {
            vec![ObjectEdit::set(
                vec!["mcpServers".to_owned()],
                vec![(name.to_owned(), json!({"command": "x"}))],
            )]
        };
        let new = edit_config(&file, None, add("a")).unwrap();
        assert!(
            new.starts_with("{\n  \"$schema\": \"./dynamic-mcp.schema.json\",\n  \"mcpServers\""),
            "{new}"
        );
        replace_config(&file, None, &new).unwrap();
        assert_eq!(fs::read_to_string(&schema).unwrap(), SCHEMA);
        fs::write(&schema, "{}").unwrap();
        let both = edit_config(&file, Some(&new), add("b")).unwrap();
        assert_eq!(both.matches("$schema").count(), 1);
        replace_config(&file, Some(&new), &both).unwrap();
        assert_eq!(fs::read_to_string(&schema).unwrap(), SCHEMA);
        // A file without it is not changed, and TOML has no such member.
        let old = r#"{"mcpServers": {}}"#;
        assert!(!edit_config(&file, Some(old), add("a")).unwrap().contains("$schema"));
        assert!(!edit_config(Path::new("servers.toml"), None, add("a")).unwrap().contains("$schema"));
    }
}

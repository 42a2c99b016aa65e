//! A plan as programs see it: printed by `--json`, and compared by `--plan`, so that what is written is what was shown.

use std::path::Path;

use anyhow::bail;
use serde_json::json;

use super::mode::ImportArgs;
use base::digest;
use terminal::VisibleText;
use terminal::outcome::{CommandError, EXIT_FAILURE};

/// The change of one file: its path, its text, and the text that it gets. `None`: there is no file.
pub(crate) type FileChange<'a> = (&'a Path, Option<&'a str>, Option<&'a str>);

/// Prints the plan if `--json` asks for it. Returns whether it did.
///
/// # Errors
///
/// Fails if stdout cannot be written, or the plan is not the one that `--plan` names.
pub(crate) fn print_or_compare<'a>(
    args: &ImportArgs,
    changes: impl Iterator<Item = FileChange<'a>>,
    summary: &VisibleText,
    details: &VisibleText,
) -> anyhow::Result<bool> {
    let changes: Vec<_> = changes.filter(|(_, before, after)| before != after).collect();
    let id = id_of(&changes);
    if args.json {
        let plan = json!({
            "plan": id,
            "changes": !changes.is_empty(),
            "summary": summary.to_string(),
            "details": details.to_string(),
        });
        terminal::line(plan)?;
    } else if args.plan.as_ref().is_some_and(|shown| *shown != id) {
        let message =
            "the files have changed since the plan was made, so nothing was written; look at the plan again";
        bail!(CommandError::new(EXIT_FAILURE, message));
    }
    Ok(args.json)
}

/// Returns the SHA-256 of the changes, in hexadecimal digits.
fn id_of(changes: &[FileChange<'_>]) -> String {
    digest::of(json!(changes).to_string().as_bytes(), 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_has_another_id_if_a_path_or_a_text_differs() {
        let id = |path: &str, before, after| id_of(&[(Path::new(path), before, after)]);
        let first = id("/a", Some("x"), Some("y"));
        assert_eq!(first, id("/a", Some("x"), Some("y")));
        for other in [id("/b", Some("x"), Some("y")), id("/a", None, Some("y")), id("/a", Some("x"), None)] {
            assert_ne!(first, other);
        }
    }
}

//! The `env_file` of a server: a file of NAME=VALUE lines.

use std::path::Path;

use super::source_text::SourceText;
use crate::ConfigError;
use base::files::MAX_NAMED_BYTES;

/// Reads a file of variables, of at most [`MAX_NAMED_BYTES`]. Blocks.
///
/// Blank lines and lines that start with `#` are skipped, as is `export ` before a name. A value in single quotes is
/// taken literally; one in double quotes may have the escapes `\n`, `\r`, `\t`, `\"`, `\\` and `\$`; one without quotes
/// ends at ` #`. Variables in values are not expanded.
///
/// # Errors
///
/// Fails if the file cannot be read, is larger or is not UTF-8 (an error without a position), or at the first line that
/// is not a variable.
pub(super) fn read(path: &Path) -> Result<Vec<(String, String)>, ConfigError> {
    let hint = "a relative path starts at the config file's directory";
    let text = SourceText::read(path, path, MAX_NAMED_BYTES, hint)?;
    let mut variables = Vec::new();
    for (index, line) in text.as_str().lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        variables.push(parse_line(line).map_err(|message| ConfigError {
            file: path.to_owned(),
            at: Some((index + 1, 1)),
            message: message.to_owned(),
            hint: Some("write NAME=VALUE on one line, and line breaks in a value as \"…\\n…\"".to_owned()),
        })?);
    }
    Ok(variables)
}

fn parse_line(line: &str) -> Result<(String, String), &'static str> {
    let line = line.strip_prefix("export ").unwrap_or(line);
    let (name, value) = line.split_once('=').ok_or("the line has no `=`")?;
    let name = name.trim();
    if name.is_empty() || name.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err("the line has no valid name before `=`");
    }
    Ok((name.to_owned(), unquote(value.trim())?))
}

fn unquote(value: &str) -> Result<String, &'static str> {
    const UNCLOSED: &str = "the line has a quote that is not closed";
    if let Some(rest) = value.strip_prefix('\'') {
        return rest.split_once('\'').map(|(value, _)| value.to_owned()).ok_or(UNCLOSED);
    }
    let Some(rest) = value.strip_prefix('"') else {
        let end = if value.starts_with('#') { Some(0) } else { value.find(" #") };
        return Ok(value[..end.unwrap_or(value.len())].trim_end().to_owned());
    };
    let mut out = String::new();
    let mut chars = rest.chars();
    loop {
        match chars.next().ok_or(UNCLOSED)? {
            '"' => return Ok(out),
            '\\' => match chars.next().ok_or(UNCLOSED)? {
                'n' => out.push('\n'),
                'r' => out.push('\r'),
                't' => out.push('\t'),
                c @ ('"' | '\\' | '$') => out.push(c),
                c => out.extend(['\\', c]),
            },
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<Vec<(String, String)>, ConfigError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(".env");
        std::fs::write(&path, text).unwrap();
        read(&path)
    }

    #[test]
    fn lines_are_read_as_a_shell_reads_them() {
        let variables = read_text(concat!(
            "\u{feff}# comment\n\nA=1\r\nexport B = two words # why\nC='$x \"#\\n' # c\n",
            "D=\"a\\nb\\\"\\q\" # d\nE=\nF=#\nG=a#b=c\n",
        ))
        .unwrap();
        let expected = [
            ("A", "1"),
            ("B", "two words"),
            ("C", "$x \"#\\n"),
            ("D", "a\nb\"\\q"),
            ("E", ""),
            ("F", ""),
            ("G", "a#b=c"),
        ];
        let found: Vec<_> = variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn an_invalid_line_is_named_and_not_repeated() {
        for (text, message) in [
            ("A=1\nsecret", "the line has no `=`"),
            ("A=1\n=secret", "the line has no valid name before `=`"),
            ("A=1\nB=\"secret", "the line has a quote that is not closed"),
            ("A=1\nB='secret", "the line has a quote that is not closed"),
        ] {
            let error = read_text(text).unwrap_err();
            assert_eq!((error.at, error.message.as_str()), (Some((2, 1)), message));
        }
    }
}

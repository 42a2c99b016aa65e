//! Tests of commands on Windows.

use super::*;
use std::fs;

/// A directory with these empty files.
fn dir_with(files: &[&str]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    files.iter().for_each(|file| fs::write(dir.path().join(file), "").unwrap());
    dir
}

fn find_in(command: &str, dirs: &[&tempfile::TempDir], pathext: Option<&str>) -> Option<PathBuf> {
    let dirs: Vec<_> = dirs.iter().map(|dir| dir.path().to_owned()).collect();
    let nowhere = tempfile::tempdir().unwrap();
    find(Path::new(command), &dirs, nowhere.path(), pathext.map(OsStr::new))
}

#[test]
fn a_command_is_found_with_the_first_extension_of_pathext_that_exists() {
    // As Node installs it: a shell script, a batch file and a PowerShell script.
    let node = dir_with(&["npx", "npx.cmd", "npx.ps1", "node.exe"]);
    let uv = dir_with(&["uvx.exe", "npx.exe"]);
    let expected = |dir: &tempfile::TempDir, file: &str| Some(dir.path().join(file));
    assert_eq!(find_in("npx", &[&node, &uv], None), expected(&node, "npx.cmd"));
    assert_eq!(find_in("npx", &[&uv, &node], None), expected(&uv, "npx.exe"));
    assert_eq!(find_in("uvx", &[&node, &uv], None), expected(&uv, "uvx.exe"));
    assert_eq!(find_in("node", &[&node, &uv], Some(".COM;.EXE;.BAT;.CMD;.JS")), expected(&node, "node.exe"));
    let both = dir_with(&["x.exe", "x.cmd"]);
    assert_eq!(find_in("x", &[&both], None), expected(&both, "x.exe"));
    assert_eq!(find_in("x", &[&both], Some(".CMD;.EXE")), expected(&both, "x.cmd"));
    assert_eq!(find_in("x", &[&both], Some("")), expected(&both, "x.exe"));
}

#[test]
fn a_complete_name_is_found_as_it_is() {
    let dir = dir_with(&["npx.cmd", "npx.ps1", "a.exe.bat", "tool.v2.exe"]);
    assert_eq!(find_in("npx.cmd", &[&dir], None), Some(dir.path().join("npx.cmd")));
    assert_eq!(find_in("npx.ps1", &[&dir], None), Some(dir.path().join("npx.ps1")));
    assert_eq!(find_in("a.exe", &[&dir], None), Some(dir.path().join("a.exe.bat")));
    assert_eq!(find_in("tool.v2", &[&dir], None), Some(dir.path().join("tool.v2.exe")));
}

#[test]
fn a_powershell_script_is_found_if_nothing_else_is() {
    let (script, program) = (dir_with(&["x.ps1"]), dir_with(&["x.bat"]));
    assert_eq!(find_in("x", &[&script, &program], None), Some(program.path().join("x.bat")));
    assert_eq!(find_in("x", &[&script], None), Some(script.path().join("x.ps1")));
}

#[test]
fn what_cannot_be_run_is_not_found() {
    let dir = dir_with(&["sh", "script.js", "doc.txt", "script.vbs"]);
    fs::create_dir(dir.path().join("folder.exe")).unwrap();
    for command in ["sh", "script", "script.js", "doc.txt", "folder", "folder.exe", "", "..", "."] {
        assert_eq!(find_in(command, &[&dir], Some(".EXE;.JS;.VBS;.TXT")), None, "{command}");
    }
}

#[test]
fn neither_the_current_directory_nor_a_relative_one_is_searched() {
    let cwd = dir_with(&["npx.cmd"]);
    fs::create_dir(cwd.path().join("bin")).unwrap();
    fs::write(cwd.path().join("bin/tool.exe"), "").unwrap();
    let find = |command: &str, dirs: &[PathBuf]| find(Path::new(command), dirs, cwd.path(), None);
    assert_eq!(find("npx", &[".".into(), "bin".into()]), None);
    assert_eq!(find("tool", &["bin".into()]), None);
    assert_eq!(find("./npx", &[]), Some(cwd.path().join("npx.cmd")));
    assert_eq!(find("bin/tool", &[]), Some(cwd.path().join("bin").join("tool.exe")));
    let absolute = cwd.path().join("npx.cmd");
    assert_eq!(find(absolute.to_str().unwrap(), &[]), Some(absolute.clone()));
}

fn line(program: &str, args: &[&str]) -> Result<String, QuoteError> {
    let args: Vec<_> = args.iter().map(OsString::from).collect();
    let line = command_line(Path::new(program), &args, Path::new("C:/S"))?;
    Ok(line.text.into_string().unwrap())
}

#[test]
fn arguments_of_a_program_are_quoted_for_the_c_runtime() {
    for (arg, expected) in [
        ("plain", "plain"),
        ("", "\"\""),
        ("two words", "\"two words\""),
        ("tab\there", "\"tab\there\""),
        (r"C:\dir\", r"C:\dir\"),
        (r"C:\my dir\", r#""C:\my dir\\""#),
        (r#"say "hi""#, r#""say \"hi\"""#),
        (r#"\"x"#, r#""\\\"x""#),
        (r#"{"a":1}"#, r#""{\"a\":1}""#),
        ("%PATH% & calc", "\"%PATH% & calc\""),
        ("a&b|c>d", "a&b|c>d"),
        ("line\nbreak", "\"line\nbreak\""),
    ] {
        assert_eq!(line("C:/node.exe", &[arg]).unwrap(), format!("\"C:/node.exe\" {expected}"), "{arg}");
    }
    assert_eq!(line("C:/a b/x.EXE", &["1", "2"]).unwrap(), "\"C:/a b/x.EXE\" 1 2");
}

/// What a C runtime of 2008 or later makes of a command line.
fn split(line: &str) -> Vec<String> {
    let chars: Vec<char> = line.chars().collect();
    let (mut args, mut current, mut at) = (Vec::new(), None::<String>, 0);
    let mut is_quoted = false;
    while let Some(&c) = chars.get(at) {
        let slashes = chars[at..].iter().take_while(|c| **c == '\\').count();
        if slashes > 0 {
            let before_quote = chars.get(at + slashes) == Some(&'"');
            let count = if before_quote { slashes / 2 } else { slashes };
            let text = current.get_or_insert_default();
            (0..count).for_each(|_| text.push('\\'));
            at += slashes;
            if before_quote && slashes % 2 == 1 {
                text.push('"');
                at += 1;
            }
            continue;
        }
        match c {
            '"' if is_quoted && chars.get(at + 1) == Some(&'"') => {
                current.get_or_insert_default().push('"');
                at += 1;
            }
            '"' => {
                current.get_or_insert_default();
                is_quoted = !is_quoted;
            }
            ' ' | '\t' if !is_quoted => args.extend(current.take()),
            c => current.get_or_insert_default().push(c),
        }
        at += 1;
    }
    args.extend(current);
    args
}

/// Arguments that try to end their quotes.
const HOSTILE: [&str; 20] = [
    "& calc",
    "\" & calc & \"",
    "\"&calc",
    "a\"&\"b",
    "\\\"&calc",
    "\\\\\"&calc",
    "^\"&calc",
    "^^^\"^&calc",
    "%PATH%",
    "%CMDCMDLINE:~-1%&calc",
    "%COMSPEC:~0,1%",
    "100% sure",
    "%%",
    "a|b>c<d",
    "(a)",
    "!PATH!",
    "trailing\\",
    "trailing \\\\",
    "a,b;c=d",
    "\"",
];

#[test]
fn a_program_gets_every_argument_as_it_is() {
    for arg in HOSTILE {
        assert_eq!(split(&line("p.exe", &[arg, "next"]).unwrap()), ["p.exe", arg, "next"], "{arg}");
    }
}

/// Returns whether any character that `cmd.exe` interprets is outside of quotes.
fn cmd_interprets(text: &str) -> bool {
    let mut is_quoted = false;
    text.chars().any(|c| {
        is_quoted ^= c == '"';
        !is_quoted && "&|<>()^,;=".contains(c)
    })
}

#[test]
fn no_argument_of_a_batch_file_ends_its_quotes() {
    let before = "\"C:/S/cmd.exe\" /e:ON /v:OFF /d /s /c \"";
    for arg in HOSTILE {
        let line = line("C:/dir & co/npx.cmd", &[arg, "next"]).unwrap().replace('\\', "/");
        let rest = line.strip_prefix(before).unwrap_or_else(|| panic!("{line}"));
        let rest = rest.strip_suffix('"').unwrap();
        assert!(!cmd_interprets(rest), "{arg}: {rest}");
        assert!(!rest.replace("%%cd:~,%", "").contains('%'), "{arg}: {rest}");
        assert!(rest.ends_with(" next"), "{arg}: {rest}");
    }
}

#[test]
fn the_program_behind_a_batch_file_gets_every_argument_as_it_is() {
    for arg in HOSTILE {
        let line = line("C:/npx.cmd", &[arg, "next"]).unwrap();
        // What %* is, after cmd.exe has expanded the empty variables.
        let passed = line.split_once("/c \"").unwrap().1.strip_suffix('"').unwrap().replace("%%cd:~,%", "%");
        assert_eq!(split(&passed), ["C:/npx.cmd", arg, "next"], "{arg}");
    }
}

#[test]
fn what_cannot_be_passed_is_refused_by_its_position_and_never_shown() {
    let secret = "s3cret\nvalue";
    assert_eq!(line("npx.cmd", &["a", "b", secret]), Err(QuoteError::LineBreak(3)));
    assert_eq!(line("npx.BAT", &["s3cret\r"]), Err(QuoteError::LineBreak(1)));
    assert_eq!(line("x.exe", &["a", "\0"]), Err(QuoteError::Nul(2)));
    let error = line("npx.cmd", &["a", secret]).unwrap_err().to_string();
    assert!(error.starts_with("argument 2 contains a line break") && !error.contains("s3cret"), "{error}");
    for program in ["x", "x.txt", "x.bat.", "x.cmd ", "x.js"] {
        assert_eq!(line(program, &[]), Err(QuoteError::NotAProgram), "{program}");
    }
    assert_eq!(line("a\"b.cmd", &[]), Err(QuoteError::Path));
}

#[test]
fn a_line_that_is_too_long_is_refused() {
    let long = "x".repeat(8200);
    assert!(matches!(line("npx.cmd", &[&long]), Err(QuoteError::TooLong { limit: 8191, .. })));
    assert!(line("npx.exe", &[&long]).is_ok());
    let longer = "x".repeat(33_000);
    assert!(matches!(line("npx.exe", &[&longer]), Err(QuoteError::TooLong { limit: 32_767, .. })));
}

#[test]
fn a_powershell_script_is_passed_to_powershell() {
    let line = line("C:/my dir/x.ps1", &["a b"]).unwrap().replace('\\', "/");
    let expected = "\"C:/S/WindowsPowerShell/v1.0/powershell.exe\" -NoLogo -NoProfile -NonInteractive -File \"C:/my dir/x.ps1\" \"a b\"";
    assert_eq!(line, expected);
}

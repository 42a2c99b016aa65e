//! Compiles a jq program and runs it over one input.

use super::natives::{self, ProgramData};
use jaq_core::compile::Undefined;
use jaq_core::load::{self, Arena, File, Loader, lex, parse};
use jaq_core::{Compiler, Ctx, Vars, unwrap_valr};
use jaq_json::{Val, read};
use std::fmt::{self, Write as _};
use std::io::{self, Write};

/// The longest part of a program or a value that an error shows, in characters.
const MAX_SHOWN: usize = 200;
/// The error of a program that imports something.
const NO_MODULES: &str = "modules cannot be imported here";

/// Why a program has no outputs.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ProgramError {
    /// It does not compile.
    Invalid(String),
    /// It ended with this error.
    Failed(String),
    /// Its input is no JSON.
    NoJson(String),
    /// Its outputs exceed the limit.
    TooMuchOutput,
}

/// Runs a program. Returns its outputs, one on each line: strings as they are, everything else as JSON. `limit`: how
/// many bytes they may have together.
///
/// # Errors
///
/// See [`ProgramError`].
pub(super) fn run(program: &str, input: Vec<u8>, limit: usize) -> Result<Vec<u8>, ProgramError> {
    let arena = Arena::default();
    let filter = compile(program, &arena).map_err(ProgramError::Invalid)?;
    let value = read::parse_single(&input).map_err(|error| ProgramError::NoJson(error.to_string()))?;
    drop(input);
    let context = Ctx::<ProgramData>::new(&filter.lut, Vars::new([]));
    let mut out = LimitedOutput { bytes: Vec::new(), limit };
    for output in filter.id.run((context, value)).map(unwrap_valr) {
        let output = output.map_err(|error| ProgramError::Failed(cut(&error)))?;
        let separator = if out.bytes.is_empty() { &b""[..] } else { b"\n" };
        let written = out.write_all(separator).and_then(|()| match &output {
            Val::TStr(text) => out.write_all(String::from_utf8_lossy(text).as_bytes()),
            value => write!(out, "{value}"),
        });
        written.map_err(|_| ProgramError::TooMuchOutput)?;
    }
    Ok(out.bytes)
}

/// Compiles a program.
///
/// # Errors
///
/// The program has a mistake, or it imports something. The text says what is wrong and where.
fn compile<'a>(program: &'a str, arena: &'a Arena) -> Result<jaq_core::Filter<ProgramData>, String> {
    let defs = jaq_core::defs().chain(natives::defs()).chain(jaq_json::defs());
    let funs = jaq_core::funs().chain(natives::funs()).chain(jaq_json::funs());
    let file = File { code: program, path: () };
    let loaded = Loader::new(defs).load(arena, file).map_err(|errors| {
        let errors = errors.into_iter().map(|(_, error)| load_error(program, error));
        errors.collect::<Vec<_>>().join("; ")
    })?;
    // The loader refuses modules, but not imports of data.
    let no_data = |_: load::Import<'_, &str, ()>| Err(String::new());
    load::import(&loaded, no_data).map_err(|_| NO_MODULES.to_owned())?;
    Compiler::default().with_funs(funs).compile(loaded).map_err(|errors| {
        let errors = errors.into_iter().flat_map(|(_, errors)| errors);
        errors.map(|(name, what)| undefined(name, &what)).collect::<Vec<_>>().join("; ")
    })
}

fn load_error(program: &str, error: load::Error<&str>) -> String {
    let errors: Vec<String> = match error {
        load::Error::Io(_) => return NO_MODULES.to_owned(),
        load::Error::Lex(errors) => {
            let text =
                |(expected, found): &(lex::Expect<&str>, &str)| unexpected(program, expected.as_str(), found);
            errors.iter().map(text).collect()
        }
        load::Error::Parse(errors) => {
            let text = |(expected, found): &(parse::Expect<&str>, &str)| {
                unexpected(program, expected.as_str(), found)
            };
            errors.iter().map(text).collect()
        }
    };
    errors.join("; ")
}

/// `found` is a part of the program, empty at its end.
fn unexpected(program: &str, expected: &str, found: &str) -> String {
    if found.is_empty() {
        return format!("expected {expected} at the end of the program");
    }
    let before = program.get(..load::span(program, found).start).unwrap_or_default();
    format!("expected {expected} at character {}: {}", before.chars().count() + 1, cut(&found))
}

fn undefined(name: &str, what: &Undefined) -> String {
    match what {
        Undefined::Filter(arity) => format!("there is no filter {}/{arity} here", cut(&name)),
        other => format!("there is no {} {} here", other.as_str(), cut(&name)),
    }
}

/// Returns the text of a value, cut after `MAX_SHOWN` characters. The whole text is never made.
fn cut(value: &impl fmt::Display) -> String {
    struct Cut(String, usize);
    impl fmt::Write for Cut {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            for c in text.chars() {
                if self.1 == 0 {
                    self.0.push('…');
                    return Err(fmt::Error);
                }
                self.0.push(c);
                self.1 -= 1;
            }
            Ok(())
        }
    }
    let mut cut = Cut(String::new(), MAX_SHOWN);
    // It fails where the text is cut.
    write!(cut, "{value}").ok();
    cut.0
}

/// Outputs that may not exceed a limit.
struct LimitedOutput {
    bytes: Vec<u8>,
    limit: usize,
}

impl Write for LimitedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.limit {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outputs(program: &str, input: &str) -> Result<String, ProgramError> {
        run(program, input.as_bytes().to_vec(), 10_000).map(|outputs| String::from_utf8(outputs).unwrap())
    }

    fn invalid(program: &str) -> String {
        match outputs(program, "null") {
            Err(ProgramError::Invalid(why)) => why,
            other => panic!("{program}: {other:?}"),
        }
    }

    #[test]
    fn programs_that_models_write_run() {
        let input = r#"{"items":[{"id":2,"name":"Über \"x\"","tags":["a","b"],"at":null},{"id":1,"name":"foo bar","tags":[]}],"n":7.5}"#;
        for (program, expected) in [
            (".items | length", "2"),
            (".items[].name", "Über \"x\"\nfoo bar"),
            (".items | map({id, name})", r#"[{"id":2,"name":"Über \"x\""},{"id":1,"name":"foo bar"}]"#),
            (r#".items[] | select(.name | test("FOO"; "i")) | .id"#, "1"),
            (r#".items | map(select(.tags | index("a"))) | .[0].id"#, "2"),
            (".items | sort_by(.id) | map(.id)", "[1,2]"),
            (".items | group_by(.id > 1) | map(length)", "[1,1]"),
            ("[.items[] | {(.name): .id}] | add | keys", r#"["foo bar","Über \"x\""]"#),
            (".items[0] | to_entries | map(.key) | join(\",\")", "id,name,tags,at"),
            (".items[0] | with_entries(.value |= tostring) | .id", "2"),
            ("[.items[].tags[]?] | unique", r#"["a","b"]"#),
            (r#".items[1].name | sub("o+"; "0") | split(" ")"#, r#"["f0","bar"]"#),
            (r#".items[1].name | gsub("(?<l>[ao])"; "<\(.l)>")"#, "f<o><o> b<a>r"),
            (
                r#".items[1].name | capture("(?<first>\\w+) (?<second>\\w+)")"#,
                r#"{"first":"foo","second":"bar"}"#,
            ),
            (r#"[.items[1].name | scan("o")]"#, r#"["o","o"]"#),
            (r#".items[1].name | [match("o"; "g").offset]"#, "[1,2]"),
            (r#".items[1].name | [splits(" ")]"#, r#"["foo","bar"]"#),
            (r#".items[] | [.id, .name, .at] | @csv"#, "2,\"Über \"\"x\"\"\",\n1,\"foo bar\","),
            (r#".items[1] | [.id, .name] | @tsv"#, "1\tfoo bar"),
            (r#""a b" | @base64, (@base64 | @base64d)"#, "YSBi\na b"),
            (r#""<&>" | @html"#, "&lt;&amp;&gt;"),
            (r#""a/é" | @uri"#, "a%2F%C3%A9"),
            ("INDEX(.items[]; .id) | keys", r#"["1","2"]"#),
            (".items[] | select(.id | IN(1, 3)) | .id", "1"),
            ("[paths(type == \"null\")]", r#"[["items",0,"at"]]"#),
            (".n | floor, (. * 2), (9 | sqrt), pow(2; 3)", "7\n15.0\n3.0\n8.0"),
            ("[limit(3; range(10))], first(.items[].id), ([.items[].id] | add)", "[0,1,2]\n2\n3"),
            (".items | first, last | .id", "2\n1"),
            ("try error(\"x\") catch .", "x"),
            (".nothing.at.all, (.nothing[]? // \"none\")", "null\nnone"),
            ("[.items[] | if .tags == [] then \"empty\" end] | length", "2"),
            ("reduce .items[].id as $n (0; . + $n)", "3"),
            ("def f($x): $x * 2; f(3)", "6"),
            (". as {$n} | $n", "7.5"),
            (".items[1] | del(.name) | tojson", r#"{"id":1,"tags":[]}"#),
            ("[.items[] | .name | ascii_downcase | ltrimstr(\"foo\")]", "[\"Über \\\"x\\\"\",\" bar\"]"),
            (".items[0].tags | contains([\"b\"]), any(. == \"z\")", "true\nfalse"),
            ("[.items[].id] | min, max", "1\n2"),
            ("empty", ""),
        ] {
            assert_eq!(outputs(program, input).as_deref(), Ok(expected), "{program}");
        }
    }

    #[test]
    fn numbers_keep_their_text_until_they_are_calculated_with() {
        let input =
            r#"{"big":123456789012345678901234567890,"exact":1.10,"huge":1e400,"minus":-0.0,"exp":1E+2}"#;
        assert_eq!(outputs(".", input).as_deref(), Ok(input));
        assert_eq!(outputs(".big + 1", input).as_deref(), Ok("123456789012345678901234567891"));
        assert_eq!(outputs(".exact + 0", input).as_deref(), Ok("1.1"), "a number of 64 bits");
        // The exception: an integer has one notation.
        assert_eq!(outputs(".", "[-0, [-0]]").as_deref(), Ok("[0,[0]]"));
        assert_eq!(outputs(".", "[-0.0, -0e5, 1E400]").as_deref(), Ok("[-0.0,-0e5,1E400]"));
    }

    #[test]
    fn calculations_are_with_integers_of_any_length_or_with_numbers_of_64_bits() {
        for (program, expected) in [
            ("9007199254740993 * 9007199254740993 - 1", "81129638414606699710187514626048"),
            ("-7 % 3, 10 / 5, 10 / 4", "-1\n2.0\n2.5"),
            ("1e2 + 0, 2 * 0.5, -0.0 + 0", "100.0\n1.0\n0.0"),
            (". + 0, -(. + 0), nan, [infinite]", "Infinity\n-Infinity\nNaN\n[Infinity]"),
        ] {
            assert_eq!(outputs(program, "1e400").as_deref(), Ok(expected), "{program}");
        }
    }

    #[test]
    fn what_is_outside_of_the_input_does_not_exist() {
        for name in
            ["env", "input", "inputs", "debug", "stderr", "input_filename", "halt", "now", "get_search_list"]
        {
            assert_eq!(invalid(name), format!("there is no filter {name}/0 here"));
        }
        assert_eq!(invalid("$ENV.PATH"), "there is no variable $ENV here");
        assert_eq!(invalid("$__prog_args"), "there is no variable $__prog_args here");
        for program in [r#"import "a" as a; ."#, r#"include "a"; ."#, r#"import "a" as $a; $a"#] {
            assert_eq!(invalid(program), "modules cannot be imported here");
        }
        assert_eq!(invalid("debug(1)"), "there is no filter debug/1 here");
    }

    #[test]
    fn an_error_says_what_is_wrong_and_where() {
        assert_eq!(invalid(".items[ | .a"), "expected closing bracket at the end of the program");
        assert_eq!(invalid("map(.a"), "expected closing parenthesis at the end of the program");
        assert_eq!(invalid("if .a then 1"), "expected else or end at the end of the program");
        assert_eq!(invalid(". | § 1"), "expected token at character 5: § 1");
        assert_eq!(invalid("nope(1)"), "there is no filter nope/1 here");
        assert!(invalid("").contains("expected term"));
        for (program, input, expected) in [
            (".a.b", r#"{"a":"text"}"#, r#"cannot index "text" with "b""#),
            (".[]", "3", "cannot use 3 as iterable (array or object)"),
            ("error({a: 1})", "null", r#"{"a":1}"#),
            (r#"test("(")"#, "\"x\"", "invalid regex"),
            (r#"test("a"; "q")"#, "\"x\"", "invalid regex flag: q"),
        ] {
            match outputs(program, input) {
                Err(ProgramError::Failed(why)) => assert!(why.contains(expected), "{program}: {why}"),
                other => panic!("{program}: {other:?}"),
            }
        }
        let long = format!("\"{}\"", "x".repeat(100_000));
        let Err(ProgramError::Failed(why)) = outputs(".a", &long) else { panic!() };
        assert_eq!(why.chars().count(), MAX_SHOWN + 1);
    }

    #[test]
    fn outputs_are_limited() {
        assert_eq!(outputs("range(1000000)", "null"), Err(ProgramError::TooMuchOutput));
        assert_eq!(outputs("[range(10000)]", "null"), Err(ProgramError::TooMuchOutput));
        assert!(matches!(outputs(".", "{"), Err(ProgramError::NoJson(_))));
    }
}

//! Filters beyond jaq's smallest set. Its crates have them only together with the environment, the log and a library for
//! dates, which we leave out.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jaq_core::load::parse::Def;
use jaq_core::native::{Filter, Fun, bome, unary, v};
use jaq_core::{Cv, Error, Native, RunPtr, ValR, ValT as _, data, load};
use jaq_json::Val;
use jaq_std::ValT as _;
use regex_lite::{Captures, Regex, RegexBuilder};
use std::collections::VecDeque;

/// The values that a program works on.
pub(super) type ProgramData = data::JustLut<Val>;

/// Definitions of jaq's standard library that need what we leave out.
const LEFT_OUT_DEFS: [&str; 17] = [
    "stderr",
    "debug",
    "halt",
    "halt_error",
    "logb",
    "significand",
    "gamma",
    "drem",
    "nexttoward",
    "scalb",
    "pow10",
    "todate",
    "fromdate",
    "@htmld",
    "@urid",
    "@html",
    "@sh",
];
/// The native filter of the smallest set that ends the program.
const HALT: &str = "halt";
/// What jq has and jaq's standard library has not.
const OWN_DEFS: &str = include_str!("natives.jq");

/// Returns the definitions of the standard library, and our own.
pub(super) fn defs() -> impl Iterator<Item = Def<&'static str>> {
    let standard = jaq_std::defs().filter(|def| !LEFT_OUT_DEFS.contains(&def.name));
    standard.chain(load::parse(OWN_DEFS, |parser| parser.defs()).unwrap_or_default())
}

/// Returns the native filters of the standard library, and our own.
pub(super) fn funs() -> impl Iterator<Item = Fun<ProgramData>> {
    let standard = jaq_std::base_funs().filter(|(name, ..)| *name != HALT);
    standard.chain(
        own_funs()
            .into_iter()
            .map(|(name, arguments, filter)| (name, arguments, Native::<ProgramData>::new(filter))),
    )
}

fn own_funs() -> Vec<Filter<RunPtr<ProgramData>>> {
    vec![
        // The standard library defines test, match, capture, scan, splits, sub and gsub with these three.
        ("matches", v(2), |cv| bome(find(cv, Parts { mismatches: false, matches: true }))),
        ("split_matches", v(2), |cv| bome(find(cv, Parts { mismatches: true, matches: true }))),
        ("split_", v(2), |cv| bome(find(cv, Parts { mismatches: true, matches: false }))),
        ("encode_base64", v(0), |cv| bome(bytes(&cv.1).map(|bytes| Val::utf8_str(STANDARD.encode(bytes))))),
        ("decode_base64", v(0), |cv| {
            let decode = |bytes| STANDARD.decode(bytes).map_err(Error::str);
            bome(bytes(&cv.1).and_then(decode).map(Val::utf8_str))
        }),
        ("encode_uri", v(0), |cv| bome(text(&cv.1).map(|text| Val::utf8_str(encode_uri(text))))),
        ("sqrt", v(0), |cv| bome(number(&cv.1).map(|n| n.sqrt().into()))),
        ("exp", v(0), |cv| bome(number(&cv.1).map(|n| n.exp().into()))),
        ("log", v(0), |cv| bome(number(&cv.1).map(|n| n.ln().into()))),
        ("log2", v(0), |cv| bome(number(&cv.1).map(|n| n.log2().into()))),
        ("log10", v(0), |cv| bome(number(&cv.1).map(|n| n.log10().into()))),
        ("pow_of", v(1), |cv| unary(cv, |base, power| Ok(number(&base)?.powf(number(&power)?).into()))),
    ]
}

fn bytes(value: &Val) -> Result<&[u8], Error<Val>> {
    value.try_as_utf8_bytes()
}

fn text(value: &Val) -> Result<&str, Error<Val>> {
    std::str::from_utf8(bytes(value)?).map_err(Error::str)
}

fn number(value: &Val) -> Result<f64, Error<Val>> {
    value.as_f64().ok_or_else(|| Error::typ(value.clone(), "number"))
}

/// Percent-encodes everything but the unreserved characters of RFC 3986.
fn encode_uri(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

/// Which parts of a text are wanted.
#[derive(Clone, Copy)]
struct Parts {
    /// What is between the matches, as strings.
    mismatches: bool,
    /// The matches, each a list of its groups.
    matches: bool,
}

/// Finds a regular expression in a string: its first match, or all of them with the flag `g`. The variables are the
/// expression and its flags, as jq has them.
///
/// # Errors
///
/// The input or a variable is no string of valid UTF-8, or the expression or a flag is invalid.
fn find(mut cv: Cv<'_, ProgramData>, parts: Parts) -> ValR<Val> {
    let (flags, expression) = (cv.0.pop_var(), cv.0.pop_var());
    let flags = text(&flags)?;
    let regex = compile(text(&expression)?, flags)?;
    let (given, haystack) = (&cv.1, text(&cv.1)?);
    let mut found = VecDeque::new();
    let mut end = 0;
    let mut position = CharPosition { text: haystack, byte: 0, characters: 0 };
    for captures in regex.captures_iter(haystack) {
        let Some(whole) = captures.get(0) else { continue };
        if whole.is_empty() && flags.contains('n') {
            continue;
        }
        if parts.mismatches {
            found.push_back(given.as_sub_str(&haystack.as_bytes()[end..whole.start()]));
            end = whole.end();
        }
        if parts.matches {
            found.push_back(groups(given, &regex, &captures, &mut position)?);
        }
        if !flags.contains('g') {
            break;
        }
    }
    if parts.mismatches {
        found.push_back(given.as_sub_str(&haystack.as_bytes()[end..]));
    }
    Ok(found.into_iter().collect())
}

fn compile(expression: &str, flags: &str) -> Result<Regex, Error<Val>> {
    if let Some(flag) = flags.chars().find(|flag| !"gnimslxp".contains(*flag)) {
        return Err(Error::str(format_args!("invalid regex flag: {flag}")));
    }
    let has = |flag| flags.contains(flag);
    let mut builder = RegexBuilder::new(expression);
    builder
        .case_insensitive(has('i'))
        .multi_line(has('m') || has('p'))
        .dot_matches_new_line(has('s') || has('p'));
    builder.swap_greed(has('l')).ignore_whitespace(has('x'));
    builder.build().map_err(|error| Error::str(format_args!("invalid regex: {error}")))
}

/// Returns the groups of a match that took part in it, the whole match first.
fn groups(given: &Val, regex: &Regex, captures: &Captures<'_>, position: &mut CharPosition<'_>) -> ValR<Val> {
    let integer = |n: usize| Val::from(n);
    let of = |(group, name): (Option<regex_lite::Match<'_>>, Option<&str>)| {
        let group = group?;
        let mut members = vec![
            (key("offset"), integer(position.characters_before(group.start()))),
            (key("length"), integer(group.as_str().chars().count())),
            (key("string"), given.as_sub_str(group.as_str().as_bytes())),
        ];
        members.extend(name.map(|name| (key("name"), key(name))));
        Some(Val::from_map(members))
    };
    captures.iter().zip(regex.capture_names()).filter_map(of).collect()
}

fn key(text: &str) -> Val {
    Val::utf8_str(text.to_owned())
}

/// Counts the characters before a byte of a text. Mostly the bytes come in order.
struct CharPosition<'t> {
    text: &'t str,
    byte: usize,
    characters: usize,
}

impl CharPosition<'_> {
    /// Returns the number of characters before the byte at `byte`.
    fn characters_before(&mut self, byte: usize) -> usize {
        if byte < self.byte {
            (self.byte, self.characters) = (0, 0);
        }
        self.characters += self.text[self.byte..byte].chars().count();
        self.byte = byte;
        self.characters
    }
}

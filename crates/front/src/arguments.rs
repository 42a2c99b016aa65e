//! Parses the arguments of our tools in every form that models write: nested or flattened, as objects or as JSON in a
//! string, under our names or under those of `tools/call`.
//!
//! `text_limits` has the limits of the texts by which requests and arguments identify something: names, queries and URIs.

use crate::arguments::text_limits::LimitedText;
use base::blocking;
use base::text::grouped;
use base::text::shorten;
use memchr::memchr2;
use serde_json::json;
use std::borrow::Cow;
use wire::object::Object;
use wire::params::Params;
use wire::{Raw, raw};

pub(crate) mod text_limits;

/// The arguments of `call_dynamic_tool`. The names are usually those of the request, not copied.
#[derive(Debug, PartialEq, Eq)]
pub struct CallArguments<'a> {
    /// The group, if it is named.
    pub group: Option<Cow<'a, str>>,
    /// The name of the tool.
    pub tool: Cow<'a, str>,
    /// The name as JSON text, if that is a slice of the params of the request.
    pub(crate) tool_as_json: Option<&'a [u8]>,
    /// The tool's own arguments: a JSON object in the caller's own bytes.
    pub args: Raw,
    /// What to make of the result. Behind a pointer, because few calls have it.
    pub select: Option<Box<SelectArgument>>,
}

/// The argument `select`.
#[derive(Debug, PartialEq, Eq)]
pub struct SelectArgument {
    /// The jq program.
    pub program: String,
    /// The tool's arguments together with `select`, if they were written beside it: it may be one of them.
    pub(crate) args_with_select: Option<Raw>,
}

/// The arguments of `get_dynamic_tools`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DescribeArguments {
    /// The group whose tools to describe; `None`: the groups themselves are listed.
    pub group: Option<String>,
    /// The tools to describe; `None`: all.
    pub tools: Option<Vec<String>>,
    /// How much to say about each tool; `None`: as much as fits the budget.
    pub detail: Option<Detail>,
}

/// How much `get_dynamic_tools` says about a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    /// Its name and the beginning of its description.
    Stub,
    /// Its parameters in a short notation.
    Signature,
    /// Its definition, verbatim.
    Full,
}

/// The arguments of `search_dynamic_tools`.
#[derive(Debug, PartialEq, Eq)]
pub struct SearchQuery {
    /// What the tool should do, in the model's words.
    pub query: String,
    /// Only search this group.
    pub group: Option<String>,
    /// The largest number of results.
    pub limit: Option<usize>,
}

/// The accepted names of each argument; the first one is ours.
const QUERY: [&str; 5] = ["query", "q", "search", "text", "task"];
const GROUP: [&str; 2] = ["group", "server"];
const TOOL: [&str; 3] = ["name", "tool", "tool_name"];
const ARGS: [&str; 3] = ["args", "arguments", "parameters"];
const SELECT: &str = "select";

/// How many tools one `get_dynamic_tools` may name. Each may be compared with all tools of the group.
const MAX_NAMES: usize = 200;

/// How many characters of a name that may be long a text shows.
const MAX_SHOWN_NAME: usize = 80;

/// Returns the text for `args` that are no object, with the way to the signature of the tool.
fn not_an_object(group: Option<&str>, tool: &str) -> String {
    let shown = |name: &str| shorten(name, MAX_SHOWN_NAME);
    let asked = json!({ "group": shown(group.unwrap_or("GROUP")), "tools": [shown(tool)] });
    format!(
        "Argument \"args\" must be an object: the tool's arguments, such as {{\"name\": \"value\"}}. get_dynamic_tools {asked} \
         shows them."
    )
}

impl<'a> CallArguments<'a> {
    /// Parses the arguments. No arguments count as an empty object.
    ///
    /// # Errors
    ///
    /// They are no object; `name` is missing; `group` or `name` is no string; `args` is no object; or `select` stands
    /// beside `args` and is no string. The text is for the model.
    pub fn parse(arguments: Option<&Raw>) -> Result<Self, String> {
        CallArguments::from_members(&object(arguments)?).map(CallArguments::into_owned)
    }

    /// Parses the arguments of a request, which were read with it if they are an object.
    ///
    /// # Errors
    ///
    /// See [`parse`](Self::parse).
    pub fn of(params: &'a Params) -> Result<Self, String> {
        match params.arguments() {
            Some(Cow::Borrowed(members)) => Self::from_members(members),
            Some(Cow::Owned(members)) => CallArguments::from_members(&members).map(CallArguments::into_owned),
            None => Self::parse(params.get("arguments").as_ref()),
        }
    }

    /// Parses the arguments of a large request, on a thread that may block.
    ///
    /// # Errors
    ///
    /// See [`parse`](Self::parse); or it took too long.
    pub(crate) async fn of_large(params: &Params) -> Result<CallArguments<'static>, String> {
        let (bytes, params) = (params.len(), params.clone());
        let parse = move || CallArguments::of(&params).map(CallArguments::into_owned);
        let parsed = blocking::run_on(bytes, parse).await;
        parsed.unwrap_or_else(|error| Err(format!("Reading the arguments {error}; call again.")))
    }

    /// Returns whether `select` was written among the tool's own arguments, so that it may be one of them.
    pub(crate) fn has_flattened_select(&self) -> bool {
        self.select.as_ref().is_some_and(|select| select.args_with_select.is_some())
    }

    /// Returns the arguments for the tool as the caller wrote them. `takes_select`: whether the tool has an argument
    /// `select`; if so, one that was written among its arguments stays there.
    pub(crate) fn args_of_tool(&self, takes_select: bool) -> &Raw {
        let with_select = self.select.as_ref().filter(|_| takes_select);
        with_select.and_then(|select| select.args_with_select.as_ref()).unwrap_or(&self.args)
    }

    /// Copies what belongs to the request.
    fn into_owned<'b>(self) -> CallArguments<'b> {
        let owned = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        CallArguments {
            group: self.group.map(owned),
            tool: owned(self.tool),
            tool_as_json: None,
            args: self.args,
            select: self.select,
        }
    }

    fn from_members(members: &'a Object) -> Result<Self, String> {
        let (tool, json) = str_and_json(members, &TOOL, LimitedText::Name)?
            .ok_or("Argument \"name\" is missing: the tool to call.")?;
        let tool_as_json = Some(json);
        let group = str_and_json(members, &GROUP, LimitedText::Name)?.map(|(group, _)| group);
        let args = match ARGS.iter().find_map(|key| members.get(key)) {
            // A value that begins so is an object: it is part of JSON that was checked.
            Some(given) if given.first() == Some(&b'{') => without_line_ends(given),
            Some(given) => object(Some(&given))
                .map(|args| args.text().clone())
                .map_err(|_| not_an_object(group.as_deref(), &tool))?,
            None => {
                let (args, select) = flattened(members);
                return Ok(Self { group, tool, tool_as_json, args, select });
            }
        };
        // Usually there is nothing but what was found above.
        let found = usize::from(group.is_some()) + 2;
        let program = if members.len() > found { program(members)? } else { None };
        let select = program.map(|program| Box::new(SelectArgument { program, args_with_select: None }));
        Ok(Self { group, tool, tool_as_json, args, select })
    }
}

impl DescribeArguments {
    /// Parses the arguments. If tools are named, `detail` is `Full` unless it is given. Without tools, `lazy` may stand
    /// for it.
    ///
    /// # Errors
    ///
    /// They are no object; `group` or `detail` is no string; `tools` is no list of names, or is given without `group`;
    /// or `detail` is unknown. The text is for the model.
    pub(crate) fn parse(arguments: Option<&Raw>) -> Result<Self, String> {
        let members = object(arguments)?;
        let group = string(&members, &["group", "server", "name"], LimitedText::Name)?;
        let tools = members.get("tools").filter(|value| &value[..] != b"null");
        let tools = tools.as_ref().map(names).transpose()?.filter(|names| !names.is_empty());
        if group.is_none() && tools.is_some() {
            return Err("Argument \"group\" is missing: the group of these tools.".to_owned());
        }
        let detail = match string(&members, &["detail"], LimitedText::Name)? {
            Some(detail) => Some(Detail::parse(&detail)?),
            None if tools.is_some() => Some(Detail::Full),
            None => members
                .get("lazy")
                .and_then(|lazy| flag(&lazy))
                .map(|lazy| if lazy { Detail::Stub } else { Detail::Full }),
        };
        Ok(Self { group, tools, detail })
    }
}

impl Detail {
    /// Parses the argument `detail`. Case and a plural `s` make no difference.
    ///
    /// # Errors
    ///
    /// It is none of the three. The text is for the model.
    fn parse(word: &str) -> Result<Self, String> {
        match word.trim().to_ascii_lowercase().trim_end_matches('s') {
            "stub" => Ok(Self::Stub),
            "signature" => Ok(Self::Signature),
            "full" => Ok(Self::Full),
            _ => Err("Argument \"detail\" must be \"stub\", \"signature\" or \"full\".".to_owned()),
        }
    }
}

impl SearchQuery {
    /// Parses the arguments. A `limit` that is no number counts as absent.
    ///
    /// # Errors
    ///
    /// They are no object; `query` is missing or blank; or `query` or `group` is no string. The text is for the model.
    pub fn parse(arguments: Option<&Raw>) -> Result<Self, String> {
        let members = object(arguments)?;
        let query = string(&members, &QUERY, LimitedText::Query)?.filter(|query| !query.trim().is_empty());
        let query = query.ok_or("Argument \"query\" is missing: what the tool should do, in a few words.")?;
        let group = string(&members, &GROUP, LimitedText::Name)?;
        let limit = members.get("limit").and_then(|limit| count(&limit));
        Ok(Self { query, group, limit })
    }
}

/// Parses the optional `group` of `get_status`.
///
/// # Errors
///
/// The arguments are no object, or `group` is no string. The text is for the model.
pub(crate) fn status_group(arguments: Option<&Raw>) -> Result<Option<String>, String> {
    string(&object(arguments)?, &GROUP, LimitedText::Name)
}

/// Reads an object, given as such or as a string that contains one. If it is absent, null or a blank string, it is
/// empty.
///
/// # Errors
///
/// It is anything else. The text is for the model.
fn object(value: Option<&Raw>) -> Result<Object, String> {
    let value = value.filter(|value| &value[..] != b"null").cloned();
    let text = value.unwrap_or(Raw::from_static(b"{}"));
    let text = match serde_json::from_slice::<String>(&text) {
        Ok(text) if text.trim().is_empty() => Raw::from_static(b"{}"),
        Ok(text) => Raw::from(text.trim().to_owned()),
        Err(_) => text,
    };
    // A message is one line, but JSON in a string may have several.
    Object::parse(&without_line_ends(text)).ok_or_else(|| "The arguments must be a JSON object.".to_owned())
}

/// Replaces line ends in JSON text by spaces. They can only be white space between values.
pub fn without_line_ends(json: Raw) -> Raw {
    if memchr2(b'\n', b'\r', &json).is_some() {
        json.iter().map(|&b| if matches!(b, b'\n' | b'\r') { b' ' } else { b }).collect()
    } else {
        json
    }
}

fn string(members: &Object, keys: &[&str], kind: LimitedText) -> Result<Option<String>, String> {
    Ok(str_and_json(members, keys, kind)?.map(|(text, _)| text.into_owned()))
}

/// Reads the jq program beside `args`. It has no limit, as the arguments of a tool have none.
///
/// # Errors
///
/// It is no string. The text is for the model.
fn program(members: &Object) -> Result<Option<String>, String> {
    match members.value(SELECT).map(|value| (value.as_str(), value.text())) {
        None | Some((_, b"null" | b"\"\"")) => Ok(None),
        Some((Some(program), _)) => Ok(Some(program.into_owned())),
        Some((None, _)) => Err(format!("Argument {SELECT:?} must be a string.")),
    }
}

/// A string, and how it is written.
type StrAndJson<'m> = (Cow<'m, str>, &'m [u8]);

/// Reads the first of these members that is there. `None` if there is none, or if it is null or an empty string.
///
/// # Errors
///
/// It is no string, or too long for what it is. The text is for the model.
fn str_and_json<'m>(
    members: &'m Object,
    keys: &[&str],
    kind: LimitedText,
) -> Result<Option<StrAndJson<'m>>, String> {
    let Some((key, value)) = members.first(keys) else { return Ok(None) };
    match value.as_str() {
        Some(text) if text.is_empty() => Ok(None),
        Some(text) => {
            kind.check_argument(key, &text)?;
            Ok(Some((text, value.text())))
        }
        None if value.text() == b"null" => Ok(None),
        None => Err(format!("Argument {key:?} must be a string.")),
    }
}

/// Reads a list of names, or a string with a list, with one name, or with several and commas between them.
///
/// # Errors
///
/// It is anything else, has more than `MAX_NAMES`, or one is too long. The text is for the model.
fn names(value: &Raw) -> Result<Vec<String>, String> {
    let text = wire::object::string(value);
    let list = text.as_ref().map_or_else(|| value.clone(), |text| Raw::copy_from_slice(text.as_bytes()));
    let list = raw::elements_of(&list);
    let listed =
        text.as_deref().unwrap_or_default().split(',').map(str::trim).filter(|name| !name.is_empty());
    let count = list.as_ref().map_or_else(|| listed.clone().count(), Vec::len);
    if count > MAX_NAMES {
        let count = grouped(count);
        return Err(format!("Argument \"tools\" has {count} names, and the limit is {MAX_NAMES}."));
    }
    let names = list.and_then(|list| list.iter().map(|name| wire::object::string(name)).collect());
    let names: Vec<String> = match (names, &text) {
        (Some(names), _) => names,
        (None, Some(_)) => listed.map(str::to_owned).collect(),
        (None, None) => return Err("Argument \"tools\" must be a list of tool names.".to_owned()),
    };
    names.iter().try_for_each(|name| LimitedText::Name.check_argument("tools", name))?;
    Ok(names)
}

fn flag(value: &Raw) -> Option<bool> {
    match value.trim_ascii() {
        b"true" | b"\"true\"" | b"1" => Some(true),
        b"false" | b"\"false\"" | b"0" => Some(false),
        _ => None,
    }
}

/// Reads a number, which may be written as a string. Anything else counts as absent.
fn count(value: &Raw) -> Option<usize> {
    let text = std::str::from_utf8(value).ok()?.trim().trim_matches('"');
    let number: f64 = text.parse().ok()?;
    // The conversion saturates: a negative number becomes 0.
    number.is_finite().then_some(number as usize)
}

/// Returns the arguments that a model wrote beside `group` and `name`, and `select` if it can be ours.
fn flattened(members: &Object) -> (Raw, Option<Box<SelectArgument>>) {
    let args = other_members(members, None);
    match members.get_str(SELECT).filter(|program| !program.is_empty()) {
        None => (args, None),
        Some(program) => {
            let select = SelectArgument { program: program.into_owned(), args_with_select: Some(args) };
            (other_members(members, Some(SELECT)), Some(Box::new(select)))
        }
    }
}

/// Returns the members that are not ours, and not `left_out`.
fn other_members(members: &Object, left_out: Option<&str>) -> Raw {
    let known = |key: &str| GROUP.contains(&key) || TOOL.contains(&key) || left_out == Some(key);
    let members = members.entries().unwrap_or_default();
    raw::object(&members.into_iter().filter(|(key, _)| !known(key)).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_call(arguments: &str) -> Result<CallArguments<'static>, String> {
        CallArguments::parse(Some(&Raw::copy_from_slice(arguments.as_bytes())))
    }

    #[test]
    fn arguments_keep_their_bytes() {
        let got =
            parse_call(r#"{"group":"g","name":"t","args":{"big":123456789012345678901234567890,"f":1.0}}"#)
                .unwrap();
        assert_eq!(got.args, r#"{"big":123456789012345678901234567890,"f":1.0}"#);
    }

    #[test]
    fn every_form_that_models_write_is_understood() {
        let args = r#"{"a":1}"#.into();
        let (group, tool) = (Some("g".into()), "t".into());
        let wanted = CallArguments { group, tool, tool_as_json: None, args, select: None };
        for text in [
            r#"{"group":"g","name":"t","args":{"a":1}}"#,
            r#"{"group":"g","tool":"t","arguments":{"a":1}}"#,
            r#"{"group":"g","name":"t","args":"{\"a\":1}"}"#,
            r#"{"group":"g","name":"t","a":1}"#,
            r#"{"server":"g","tool_name":"t","parameters":{"a":1}}"#,
            r#""{\"group\":\"g\",\"name\":\"t\",\"args\":{\"a\":1}}""#,
        ] {
            assert_eq!(parse_call(text).as_ref(), Ok(&wanted), "{text}");
        }
    }

    #[test]
    fn the_name_of_the_tool_is_known_as_it_is_written() {
        for (written, name) in [(r#""t""#, "t"), (r#""\u0074""#, "t")] {
            let text = format!(r#"{{"arguments":{{"name":{written},"args":{{}}}}}}"#);
            let params = Params::from(Raw::from(text));
            let arguments = CallArguments::of(&params).unwrap();
            assert_eq!((&*arguments.tool, arguments.tool_as_json), (name, Some(written.as_bytes())));
        }
    }

    #[test]
    fn thousands_of_flattened_arguments_take_linear_time() {
        let many: Vec<_> = (0..20_000).map(|n| format!(r#""k\u00e9{n}":{n}.0"#)).collect();
        let started = tokio::time::Instant::now();
        let got = parse_call(&format!(r#"{{"name":"t",{},"k\u00e90":"last","group":"g"}}"#, many.join(",")))
            .unwrap();
        assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
        assert!(got.args.starts_with(r#"{"ké0":"last","ké1":1.0,"#.as_bytes()));
        assert_eq!(raw::entries(&got.args).unwrap().len(), 20_000);
    }

    #[test]
    fn names_and_queries_have_limits_and_arguments_have_none() {
        let long = |count: usize| "x".repeat(count);
        let text = |argument: &str, value: String| {
            Raw::from(format!(r#"{{"name":"n","query":"q","group":"g","{argument}":{value}}}"#))
        };
        let quoted = |count: usize| format!("{:?}", long(count));
        let call = |arguments: Raw| CallArguments::parse(Some(&arguments)).map(drop);
        let describe = |arguments: Raw| DescribeArguments::parse(Some(&arguments)).map(drop);
        let search = |arguments: Raw| SearchQuery::parse(Some(&arguments)).map(drop);
        let status = |arguments: Raw| status_group(Some(&arguments)).map(drop);
        type Parse<'a> = &'a dyn Fn(Raw) -> Result<(), String>;
        let limited: [(Parse<'_>, &str, usize); 8] = [
            (&call, "name", 1024),
            (&call, "group", 1024),
            (&describe, "group", 1024),
            (&describe, "tools", 1024),
            (&describe, "detail", 1024),
            (&search, "query", 2048),
            (&search, "group", 1024),
            (&status, "group", 1024),
        ];
        for (parse, argument, limit) in limited {
            if argument != "detail" {
                assert_eq!(parse(text(argument, quoted(limit))), Ok(()), "{argument}");
            }
            let error = parse(text(argument, quoted(limit + 1))).unwrap_err();
            assert!(
                error.starts_with(&format!("Argument {argument:?} has {} bytes", grouped(limit + 1))),
                "{error}"
            );
        }
        for argument in ["args", "select", "other"] {
            let value =
                if argument == "args" { format!("{{\"name\":{}}}", quoted(5000)) } else { quoted(5000) };
            assert_eq!(call(text(argument, value)), Ok(()), "{argument}");
        }
        let error = describe(text("tools", format!("{:?}", vec!["a"; MAX_NAMES + 1]))).unwrap_err();
        assert_eq!(error, "Argument \"tools\" has 201 names, and the limit is 200.");
    }

    #[test]
    fn missing_arguments_are_an_empty_object() {
        for text in [r#"{"name":"t"}"#, r#"{"name":"t","args":null}"#, r#"{"name":"t","args":""}"#] {
            let got = parse_call(text).unwrap();
            assert_eq!((got.group, &got.args[..]), (None, &b"{}"[..]), "{text}");
        }
    }

    #[test]
    fn a_string_of_several_lines_becomes_one_line() {
        let got = parse_call(r#"{"name":"t","args":"{\n \"a\": \"x\\ny\"\n}"}"#).unwrap();
        assert_eq!(got.args, "{  \"a\": \"x\\ny\" }");
    }

    #[test]
    fn select_is_ours_beside_the_arguments_and_may_be_the_tools_among_them() {
        let select = |text: &str| {
            let got = parse_call(text).unwrap();
            let select = got.select.map(|select| (select.program, select.args_with_select));
            (String::from_utf8(got.args.to_vec()).unwrap(), select)
        };
        let program = || ".x".to_owned();
        for (text, args, expected) in [
            (r#"{"name":"t","args":{"a":1},"select":".x"}"#, r#"{"a":1}"#, Some((program(), None))),
            (r#"{"name":"t","args":{"select":"a"}}"#, r#"{"select":"a"}"#, None),
            (r#"{"name":"t","args":{},"select":""}"#, "{}", None),
            (r#"{"name":"t","args":{},"select":null}"#, "{}", None),
            (
                r#"{"name":"t","a":1,"select":".x"}"#,
                r#"{"a":1}"#,
                Some((program(), Some(r#"{"a":1,"select":".x"}"#.into()))),
            ),
            (r#"{"name":"t","select":".x"}"#, "{}", Some((program(), Some(r#"{"select":".x"}"#.into())))),
            (r#"{"name":"t","a":1,"select":["b"]}"#, r#"{"a":1,"select":["b"]}"#, None),
        ] {
            assert_eq!(select(text), (args.to_owned(), expected), "{text}");
        }
        assert!(
            parse_call(r#"{"name":"t","args":{},"select":1}"#)
                .unwrap_err()
                .contains("\"select\" must be a string")
        );
    }

    #[test]
    fn an_error_names_the_argument() {
        assert!(parse_call("{}").unwrap_err().contains("\"name\""));
        assert!(parse_call(r#"{"name":3}"#).unwrap_err().contains("\"name\" must be a string"));
        assert!(parse_call(r#"{"name":"t","args":[1]}"#).unwrap_err().contains("\"args\""));
        assert!(parse_call("[1]").is_err());
    }

    #[test]
    fn the_tools_to_describe_are_understood_in_any_form() {
        let parse = |text: &str| DescribeArguments::parse(Some(&Raw::copy_from_slice(text.as_bytes())));
        let named = |tools: &str| parse(&format!(r#"{{"group":"g","tools":{tools}}}"#)).unwrap().tools;
        let two = Some(vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(named(r#"["a","b"]"#), two);
        assert_eq!(named(r#""a, b""#), two);
        assert_eq!(named(r#""[\"a\",\"b\"]""#), two);
        assert_eq!(named("[]"), None);
        assert_eq!(parse("{}").unwrap().group, None);
        assert!(parse(r#"{"tools":["a"]}"#).is_err());
    }

    #[test]
    fn the_level_of_detail_is_understood_in_any_form() {
        let detail = |more: &str| {
            let text = format!(r#"{{"group":"g"{more}}}"#);
            DescribeArguments::parse(Some(&text.into())).map(|arguments| arguments.detail)
        };
        for (more, wanted) in [
            ("", None),
            (r#","lazy":null"#, None),
            (r#","lazy":"true""#, Some(Detail::Stub)),
            (r#","lazy":false"#, Some(Detail::Full)),
            (r#","lazy":true,"tools":["a"]"#, Some(Detail::Full)),
            (r#","detail":"signature""#, Some(Detail::Signature)),
            (r#","detail":"Stubs","tools":["a"]"#, Some(Detail::Stub)),
            (r#","detail":"full","lazy":true"#, Some(Detail::Full)),
            (r#","detail":"""#, None),
        ] {
            assert_eq!(detail(more), Ok(wanted), "{more}");
        }
        assert!(detail(r#","detail":"all""#).unwrap_err().contains("\"signature\""));
    }

    #[test]
    fn a_search_query_is_understood_in_any_form() {
        let query = |text: &str| SearchQuery::parse(Some(&Raw::copy_from_slice(text.as_bytes())));
        let wanted = SearchQuery { query: "send mail".into(), group: Some("g".into()), limit: Some(3) };
        for text in [
            r#"{"query":"send mail","group":"g","limit":3}"#,
            r#"{"q":"send mail","server":"g","limit":"3"}"#,
            r#"{"query":"send mail","group":"g","limit":3.0}"#,
            r#""{\"query\":\"send mail\",\"group\":\"g\",\"limit\":3}""#,
        ] {
            assert_eq!(query(text).as_ref(), Ok(&wanted), "{text}");
        }
        for limit in ["null", "\"many\"", "[]"] {
            assert_eq!(query(&format!(r#"{{"query":"x","limit":{limit}}}"#)).unwrap().limit, None);
        }
        assert_eq!(query(r#"{"query":"x","limit":-1}"#).unwrap().limit, Some(0));
        for text in ["{}", r#"{"query":"  "}"#, r#"{"query":7}"#] {
            assert!(query(text).unwrap_err().contains("\"query\""), "{text}");
        }
    }
}

//! Repairs arguments that do not fit a schema, in the ways in which models get them wrong.
//!
//! # Theory of operation
//!
//! A value is repaired only where it certainly breaks a rule, and only if exactly one other value fits there. First the
//! [`conversions`] of the value are tried as they are. If none fits, the parts of the value and of its conversions are
//! repaired, each by itself: the members of an object, the elements of an array. A schema with alternatives is tried with
//! each of them. Where two different values fit, nothing is repaired: the model has to say which it means. Arguments that
//! cannot be repaired stay beside those that can.
//!
//! The work is done on the bytes of the arguments. What is not repaired keeps its bytes, and numbers keep their digits.
//!
//! A candidate may be one that the check cannot decide, because the schema has rules that are not checked: the server
//! decides. Only a number that becomes a string has to fit for certain, because such rules (`pattern`, `format`) mostly
//! say which string is meant.

use super::check::{self, ArgumentVerdict, Fit};
use super::compile::{NodeId, SchemaNode};
use super::json::TypeSet;
use serde::de::IgnoredAny;
use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;
use wire::object;
use wire::scan::Scanner;

/// The depth to which a repair follows nested values and alternatives.
const MAX_DEPTH: usize = 24;
/// The limit of the work, which alternatives multiply: checking so many bytes.
const MAX_WORK: usize = 4 << 20;
/// The names under which models wrap all arguments in one more object.
const WRAPPERS: [&str; 4] = ["input", "params", "arguments", "args"];

/// The values that may take the place of one that does not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Repairs {
    /// No value fits.
    None,
    /// Only this one fits.
    One(Vec<u8>),
    /// Several fit, or it takes too long to find out.
    Several,
}

impl Repairs {
    /// Returns the values of both.
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::None, other) | (other, Self::None) => other,
            (Self::One(a), Self::One(b)) if a == b => Self::One(a),
            _ => Self::Several,
        }
    }
}

/// Returns the arguments with each value repaired that has exactly one repair. `None` if there is no such value, for
/// arguments that fit, and for those that the check cannot decide.
///
/// `drops_nulls`: `null` for an optional property is removed. Otherwise it stays where the check lets it pass.
pub(super) fn repair(nodes: &[SchemaNode], args: &[u8], drops_nulls: bool) -> Option<Vec<u8>> {
    match check::check(nodes, args) {
        ArgumentVerdict::Misfit(_) => {}
        ArgumentVerdict::OptionalNulls if drops_nulls => {}
        _ => return None,
    }
    let args = args.trim_ascii();
    let repairer = || Repairer { nodes, drops_nulls, work: MAX_WORK, depth: 0 };
    match repairer().arguments(args) {
        Repairs::One(repaired) => Some(repaired),
        Repairs::None | Repairs::Several if args.starts_with(b"{") && unwrapped(args).is_none() => {
            let mut repairer = repairer();
            let schemas = repairer.schemas(0).all;
            repairer.some_parts(Target::Arguments, &schemas, args)
        }
        Repairs::None | Repairs::Several => None,
    }
}

/// Applying one schema takes as long as checking so many bytes.
const SCHEMA_WORK: usize = 64;

/// The schemas that apply to one value.
struct Schemas<'n> {
    /// All of these apply.
    all: Vec<NodeId>,
    /// One of each of these applies, too.
    one_of_each: Vec<&'n [NodeId]>,
}

struct Repairer<'n> {
    nodes: &'n [SchemaNode],
    drops_nulls: bool,
    /// The work that is left.
    work: usize,
    /// The nesting depth.
    depth: usize,
}

/// A schema that a value has to fit.
#[derive(Clone, Copy)]
enum Target {
    /// That of all arguments.
    Arguments,
    /// That of a value in them.
    Value(NodeId),
}

impl<'n> Repairer<'n> {
    /// Repairs all arguments: in place, or by removing a wrapper.
    fn arguments(&mut self, args: &[u8]) -> Repairs {
        self.depth += 1;
        let in_place = self.parts(Target::Arguments, &self.schemas(0), args);
        let unwrapped = match unwrapped(args) {
            _ if self.depth > MAX_DEPTH => Repairs::Several,
            Some(inner) => match self.is_accepted(Target::Arguments, &inner) {
                Some(true) => Repairs::One(inner),
                Some(false) => self.arguments(&inner),
                None => Repairs::Several,
            },
            None => Repairs::None,
        };
        self.depth -= 1;
        in_place.or(unwrapped)
    }

    /// Repairs the parts of a value that can be repaired, each by itself, and leaves the others to the server. `None` if
    /// there is none, or when too much was tried.
    fn some_parts(&mut self, target: Target, schemas: &[NodeId], value: &[u8]) -> Option<Vec<u8>> {
        self.work = self.work.checked_sub(value.len() + SCHEMA_WORK * schemas.len())?;
        let parts = parts_of(value).filter(|_| self.depth < MAX_DEPTH)?;
        self.depth += 1;
        let edit = |part: &Part<'_>| {
            let value = &value[part.value.clone()];
            // Many parts may have many schemas.
            let Some(left) = self.work.checked_sub(schemas.len()) else { return Edit::Keep };
            self.work = left;
            if let Ok(edit) = self.edit(target, schemas, part, value) {
                return edit;
            }
            let of_part = self.of_part(schemas, part);
            let all = without_repetitions(of_part.iter().flat_map(|id| self.schemas(*id).all));
            let target = Target::Value(all.first().copied().unwrap_or_default());
            self.some_parts(target, &all, value).map_or(Edit::Keep, Edit::Replace)
        };
        let edits: Vec<Edit> = parts.iter().map(edit).collect();
        self.depth -= 1;
        let is_changed = edits.iter().any(|edit| !matches!(edit, Edit::Keep));
        is_changed.then(|| joined(value, &parts, &edits))
    }

    /// Returns the schemas that apply to a part of a value to which `schemas` apply.
    fn of_part(&self, schemas: &[NodeId], part: &Part<'_>) -> Vec<NodeId> {
        let of_part = |id: &NodeId| match &part.key {
            Some(key) => {
                self.nodes[*id].properties.get(key.as_bytes()).copied().or(self.nodes[*id].additional)
            }
            None => self.nodes[*id].items,
        };
        without_repetitions(schemas.iter().filter_map(of_part))
    }

    /// Repairs a value that does not fit a schema: by a conversion if no value of its type fits, else in its parts.
    fn value(&mut self, id: NodeId, value: &[u8]) -> Repairs {
        let is_other_type = TypeSet::of_value(value).is_some_and(|types| {
            let types = if types == TypeSet::NUMBER { TypeSet::of_number(value) } else { types };
            !types.intersects(self.types(id))
        });
        let conversions = if is_other_type { conversions(value) } else { Vec::new() };
        let mut repairs = Repairs::None;
        for conversion in &conversions {
            repairs = repairs.or(match self.fit(id, &conversion.text) {
                Some(Fit::Fits) => Repairs::One(conversion.text.clone()),
                Some(Fit::Unknown) if !conversion.needs_certainty => Repairs::One(conversion.text.clone()),
                Some(_) => Repairs::None,
                None => Repairs::Several,
            });
        }
        if repairs != Repairs::None {
            return repairs;
        }
        let schemas = self.schemas(id);
        let converted = conversions.iter().map(|conversion| &conversion.text[..]);
        for candidate in std::iter::once(value).chain(converted) {
            repairs = repairs.or(self.parts(Target::Value(id), &schemas, candidate));
        }
        repairs
    }

    /// Repairs the parts of a value that do not fit `schemas`: all of them, with as few of the alternatives as possible.
    fn parts(&mut self, target: Target, schemas: &Schemas<'n>, value: &[u8]) -> Repairs {
        if !matches!(value.first(), Some(b'{' | b'[')) {
            return Repairs::None;
        }
        let work = value.len() + SCHEMA_WORK * (schemas.all.len() + schemas.one_of_each.len());
        let Some(left) = self.work.checked_sub(work).filter(|_| self.depth < MAX_DEPTH) else {
            return Repairs::Several;
        };
        self.work = left;
        self.depth += 1;
        let mut repairs = self.edited(target, &schemas.all, value);
        if let Repairs::One(edited) = &repairs {
            repairs = match self.is_accepted(target, edited) {
                Some(true) => repairs,
                Some(false) => Repairs::None,
                None => Repairs::Several,
            };
        }
        if let (Repairs::None, Some((alternatives, others))) = (&repairs, schemas.one_of_each.split_first()) {
            for id in *alternatives {
                let more = self.schemas(*id);
                let schemas = Schemas {
                    all: [&schemas.all[..], &more.all].concat(),
                    one_of_each: [others, &more.one_of_each].concat(),
                };
                repairs = repairs.or(self.parts(target, &schemas, value));
                if repairs == Repairs::Several {
                    break;
                }
            }
        }
        self.depth -= 1;
        repairs
    }

    /// Repairs each part that does not fit.
    fn edited(&mut self, target: Target, schemas: &[NodeId], value: &[u8]) -> Repairs {
        let Some(parts) = parts_of(value) else { return Repairs::Several };
        let mut edits = Vec::new();
        for part in &parts {
            match self.edit(target, schemas, part, &value[part.value.clone()]) {
                Ok(edit) => edits.push(edit),
                Err(repairs) => return repairs,
            }
        }
        match edits.iter().all(|edit| matches!(edit, Edit::Keep)) {
            true => Repairs::None,
            false => Repairs::One(joined(value, &parts, &edits)),
        }
    }

    /// Repairs one part.
    ///
    /// # Errors
    ///
    /// There is not exactly one repair.
    fn edit(
        &mut self,
        target: Target,
        schemas: &[NodeId],
        part: &Part<'_>,
        value: &[u8],
    ) -> Result<Edit, Repairs> {
        let own =
            |id: &NodeId| part.key.as_ref().and_then(|key| self.nodes[*id].properties.get(key.as_bytes()));
        let is_required = |id: &NodeId| {
            part.key.as_ref().is_some_and(|key| self.nodes[*id].required.contains(key.as_bytes()))
        };
        let is_optional = schemas.iter().any(|id| own(id).is_some()) && !schemas.iter().any(is_required);
        let of_part = self.of_part(schemas, part);
        let mut broken = None;
        for id in &of_part {
            if self.fit(*id, value).ok_or(Repairs::Several)? == Fit::Misfit {
                broken.get_or_insert(*id);
            }
        }
        let Some(broken) = broken else { return Ok(Edit::Keep) };
        if value == b"null" && is_optional {
            return match (self.drops_nulls, target) {
                (true, _) => Ok(Edit::Drop),
                (false, Target::Arguments) => Ok(Edit::Keep),
                (false, Target::Value(_)) => Err(Repairs::None),
            };
        }
        let repaired = match self.value(broken, value) {
            Repairs::One(repaired) => repaired,
            repairs => return Err(repairs),
        };
        for id in of_part {
            if self.fit(id, &repaired).ok_or(Repairs::Several)? == Fit::Misfit {
                return Err(Repairs::None);
            }
        }
        Ok(Edit::Replace(repaired))
    }

    /// Returns whether a value may take the place of one that does not fit. `None` if it takes too long to find out.
    fn is_accepted(&mut self, target: Target, value: &[u8]) -> Option<bool> {
        match target {
            Target::Arguments => {
                self.work = self.work.checked_sub(value.len())?;
                Some(!matches!(check::check(self.nodes, value), ArgumentVerdict::Misfit(_)))
            }
            Target::Value(id) => self.fit(id, value).map(|fit| fit != Fit::Misfit),
        }
    }

    /// Returns whether a value fits a schema. `None` if it takes too long to find out.
    fn fit(&mut self, id: NodeId, value: &[u8]) -> Option<Fit> {
        check::fit(self.nodes, id, value, &mut self.work)
    }

    /// Returns the types of the values that may fit a schema.
    fn types(&mut self, id: NodeId) -> TypeSet {
        let Some(left) = self.work.checked_sub(SCHEMA_WORK).filter(|_| self.depth < MAX_DEPTH) else {
            return TypeSet::ALL;
        };
        self.work = left;
        self.depth += 1;
        let node = &self.nodes[id];
        let mut types = node.types;
        for choices in &node.choices {
            let of_choice = |choice: &String| TypeSet::of_value(choice.as_bytes());
            types =
                types.intersection(choices.iter().filter_map(of_choice).fold(TypeSet::NONE, TypeSet::union));
        }
        for id in &node.all_of {
            types = types.intersection(self.types(*id));
        }
        for (ids, _) in &node.alternatives {
            let any = ids.iter().fold(TypeSet::NONE, |any, id| any.union(self.types(*id)));
            types = types.intersection(any);
        }
        self.depth -= 1;
        types
    }

    /// Returns the schemas that apply to a value that has to fit this one.
    fn schemas(&self, id: NodeId) -> Schemas<'n> {
        let nodes = self.nodes;
        let mut all = vec![id];
        let mut done = 0;
        while let Some(id) = all.get(done) {
            done += 1;
            let more: Vec<NodeId> =
                nodes[*id].all_of.iter().copied().filter(|id| !all.contains(id)).collect();
            all.extend(more);
        }
        let alternatives = all.iter().flat_map(|id| &nodes[*id].alternatives);
        let one_of_each = alternatives.map(|(ids, _)| &ids[..]).collect();
        Schemas { all, one_of_each }
    }
}

/// Returns the schemas in their order, each once: those of a part may lead to the same one in many ways.
fn without_repetitions(ids: impl Iterator<Item = NodeId>) -> Vec<NodeId> {
    let mut seen = HashSet::new();
    ids.filter(|id| seen.insert(*id)).collect()
}

/// Returns the arguments inside a wrapper: the object, or the string with an object, that is the only member of an
/// object and has a name that models use for it.
fn unwrapped(args: &[u8]) -> Option<Vec<u8>> {
    let parts = parts_of(args)?;
    let [part] = &parts[..] else { return None };
    part.key.as_ref().filter(|key| WRAPPERS.contains(&&***key))?;
    let value = &args[part.value.clone()];
    match value.first()? {
        b'{' => Some(value.to_vec()),
        b'"' => container(&object::str(value)?).filter(|json| json.starts_with(b"{")),
        _ => None,
    }
}

/// Another way to write a value.
struct Conversion {
    /// The value as JSON text.
    text: Vec<u8>,
    /// Whether it counts only if it fits for certain.
    needs_certainty: bool,
}

/// Returns the other ways to write a value: a string that has a decimal number, a boolean, an object or an array as that
/// value; a number as a string; a single value as an array.
fn conversions(value: &[u8]) -> Vec<Conversion> {
    let texts = match value.first() {
        Some(b'"') => string_conversions(value),
        Some(b'-' | b'0'..=b'9' | b't' | b'f' | b'{') => vec![in_array(value)],
        _ => Vec::new(),
    };
    let mut conversions: Vec<_> =
        texts.into_iter().map(|text| Conversion { text, needs_certainty: false }).collect();
    if let Some(b'-' | b'0'..=b'9') = value.first() {
        conversions.push(Conversion { text: [b"\"", value, b"\""].concat(), needs_certainty: true });
    }
    conversions
}

fn string_conversions(string: &[u8]) -> Vec<Vec<u8>> {
    let Some(text) = object::str(string) else { return Vec::new() };
    let mut texts = Vec::new();
    if is_decimal(&text) {
        texts.push(text.as_bytes().to_vec());
    }
    match &*text {
        "true" | "True" => texts.push(b"true".to_vec()),
        "false" | "False" => texts.push(b"false".to_vec()),
        _ => {}
    }
    match container(&text) {
        Some(json) => {
            if json.starts_with(b"{") {
                texts.push(in_array(&json));
            }
            texts.push(json);
        }
        // A text with separators may be meant as several elements.
        None if text.trim().is_empty() || text.contains([',', ';', '\n']) => {}
        None => texts.push(in_array(string)),
    }
    texts
}

/// Returns the object or the array that a text is, as JSON on one line.
fn container(text: &str) -> Option<Vec<u8>> {
    let text = text.trim();
    let is_container = text.starts_with(['{', '[']) && serde_json::from_str::<IgnoredAny>(text).is_ok();
    // Line ends in JSON are white space between values.
    is_container
        .then(|| text.bytes().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte }).collect())
}

/// Returns whether a text is a decimal number as JSON writes it, without an exponent.
fn is_decimal(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').map_or((digits, None), |(a, b)| (a, Some(b)));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_digits(whole) && (whole == "0" || !whole.starts_with('0')) && fraction.is_none_or(is_digits)
}

fn in_array(value: &[u8]) -> Vec<u8> {
    [b"[", value, b"]"].concat()
}

/// A member of an object, or an element of an array.
struct Part<'a> {
    /// The name of the member; `None` for an element.
    key: Option<Cow<'a, str>>,
    /// Where it is, with its name.
    whole: Range<usize>,
    /// Where its value is.
    value: Range<usize>,
}

/// What happens to a part.
enum Edit {
    Keep,
    Replace(Vec<u8>),
    Drop,
}

/// Finds the parts of an object or an array. `None` for other values, for text that is not JSON, and for an object that
/// has a key twice.
fn parts_of(value: &[u8]) -> Option<Vec<Part<'_>>> {
    let mut scanner = Scanner::new(value);
    let (mut parts, mut keys) = (Vec::new(), HashSet::new());
    match scanner.peek()? {
        b'{' => scanner.object(|scanner, key, escaped| {
            let start = key.start - 1;
            let key = object::written_str(&value[start..key.end + 1], escaped)?;
            if !keys.insert(key.clone()) {
                return None;
            }
            let value = scanner.value()?;
            parts.push(Part { key: Some(key), whole: start..value.end, value });
            Some(())
        })?,
        _ => scanner.array(|scanner| {
            let value = scanner.value()?;
            parts.push(Part { key: None, whole: value.clone(), value });
            Some(())
        })?,
    };
    Some(parts)
}

/// Writes a value with the edits of its parts, one for each part. All other bytes stay.
fn joined(value: &[u8], parts: &[Part<'_>], edits: &[Edit]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    let (mut end, mut is_first) = (0, true);
    for (part, edit) in parts.iter().zip(edits) {
        let between = &value[end..part.whole.start];
        end = part.whole.end;
        let replacement = match edit {
            Edit::Drop if part.whole.start == parts[0].whole.start => {
                // The bracket.
                out.extend_from_slice(between);
                continue;
            }
            Edit::Drop => continue,
            Edit::Keep => &value[part.value.clone()],
            Edit::Replace(replacement) => replacement,
        };
        // What stands before the first part that stays is the bracket, which is written, and then a comma.
        if !(is_first && part.whole.start != parts[0].whole.start) {
            out.extend_from_slice(between);
        }
        is_first = false;
        out.extend_from_slice(&value[part.whole.start..part.value.start]);
        out.extend_from_slice(replacement);
    }
    out.extend_from_slice(&value[end..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::compile;

    #[test]
    fn a_schema_that_leads_to_itself_in_many_ways_takes_no_more_work_than_the_limit() {
        let branches = [r##"{"items":{"$ref":"#/$defs/X"}}"##; 5].join(",");
        let schema = format!(
            r##"{{"properties":{{"p":{{"type":"integer","items":{{"$ref":"#/$defs/X"}}}}}},"$defs":{{"X":{{"allOf":[{branches}]}}}}}}"##
        );
        let nodes = compile::compile(schema.as_bytes()).unwrap();
        let args = format!(r#"{{"p":{}{{}}{}}}"#, "[".repeat(20), "]".repeat(20));
        let mut repairer = Repairer { nodes: &nodes, drops_nulls: true, work: MAX_WORK, depth: 0 };
        let schemas = repairer.schemas(0).all;
        // Without a limit it would not end.
        assert_eq!(repairer.some_parts(Target::Arguments, &schemas, args.as_bytes()), None);
    }
}

//! Walks the bytes of arguments along the nodes of a schema.
//!
//! A walk returns `None` where it ends without a verdict: the text is not JSON, an object has a key twice, or the walk
//! takes too long.

use super::compile::{NodeId, SchemaNode};
use super::json::{JsonNumber, TypeSet};
use super::violation::{BrokenRule, MAX_VIOLATIONS, Violation, Violations, nearest, of_alternatives};
use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;
use wire::object;
use wire::scan::Scanner;

/// The depth to which a walk follows nested values, references and alternatives.
const MAX_DEPTH: usize = 128;
/// The limit of a walk's work, which alternatives and references multiply: skipping so many bytes.
const MAX_WORK: usize = 16 << 20;
/// Applying a schema takes as long as skipping so many bytes.
const SCHEMA_WORK: usize = 16;

/// Whether arguments fit a schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArgumentVerdict {
    /// The arguments keep every rule of the schema.
    Fits,
    /// `null` for optional properties is all that breaks a rule. Many servers treat it as the property's absence.
    OptionalNulls,
    /// The arguments certainly break a rule.
    Misfit(Violations),
    /// The rules that are checked do not decide it.
    Unknown,
}

/// Whether a value fits one schema. Where several rules must hold, the greatest of their fits counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fit {
    Fits,
    Unknown,
    Misfit,
}

/// Checks arguments against a schema.
///
/// The first walk finds out whether the arguments fit. If they do not, a second one collects the violations. It skips
/// `null` for optional properties.
pub(super) fn check(nodes: &[SchemaNode], args: &[u8]) -> ArgumentVerdict {
    match walk(nodes, args, false) {
        Some((Fit::Fits, _)) => ArgumentVerdict::Fits,
        Some((Fit::Misfit, _)) => match walk(nodes, args, true) {
            Some((Fit::Misfit, violations)) => ArgumentVerdict::Misfit(Violations(violations)),
            Some(_) => ArgumentVerdict::OptionalNulls,
            None => ArgumentVerdict::Unknown,
        },
        _ => ArgumentVerdict::Unknown,
    }
}

/// Checks a value against one schema. Reduces `work` by what it takes. `None` if there is no verdict.
pub(super) fn fit(nodes: &[SchemaNode], id: NodeId, value: &[u8], work: &mut usize) -> Option<Fit> {
    let mut walk = Walk { nodes, explains: false, work: *work, depth: 0, violations: Vec::new() };
    let fit = walk.apply(id, &mut Scanner::of_json(value));
    *work = walk.work;
    fit
}

fn walk(nodes: &[SchemaNode], args: &[u8], explains: bool) -> Option<(Fit, Vec<Violation>)> {
    let mut walk = Walk { nodes, explains, work: MAX_WORK, depth: 0, violations: Vec::new() };
    let mut scanner = Scanner::of_json(args.trim_ascii());
    let fit = walk.apply(0, &mut scanner)?;
    scanner.peek().is_none().then_some((fit, walk.violations))
}

/// A pass over the arguments.
struct Walk<'a> {
    nodes: &'a [SchemaNode],
    /// Whether violations are collected.
    explains: bool,
    /// The work that is left.
    work: usize,
    /// The nesting depth.
    depth: usize,
    /// The violations so far. Their paths begin at the value that is being checked.
    violations: Vec<Violation>,
}

impl<'a> Walk<'a> {
    /// Applies a schema to the value before the scanner, and moves past the value.
    fn apply(&mut self, id: NodeId, scanner: &mut Scanner<'a>) -> Option<Fit> {
        self.work = self.work.checked_sub(SCHEMA_WORK)?;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let node = &self.nodes[id];
        let start = scanner.clone();
        let mut fit = self.apply_rules(node, scanner)?;
        for id in &node.all_of {
            fit = fit.max(self.apply(*id, &mut start.clone())?);
        }
        for (ids, only_one) in &node.alternatives {
            fit = fit.max(self.alternatives(ids, *only_one, &start)?);
        }
        self.depth -= 1;
        Some(fit)
    }

    /// Applies the rules of a schema that have no other schemas for the same value in them.
    fn apply_rules(&mut self, node: &SchemaNode, scanner: &mut Scanner<'a>) -> Option<Fit> {
        let mut types = TypeSet::before(scanner)?;
        let (mut fit, mut count) = (Fit::Fits, 0);
        let range = match types {
            TypeSet::ARRAY if node.types.intersects(types) => {
                self.elements(node, scanner, &mut fit, &mut count)?
            }
            TypeSet::OBJECT if node.types.intersects(types) => self.members(node, scanner, &mut fit)?,
            _ => self.skip(scanner)?,
        };
        let text = scanner.text(range);
        if types == TypeSet::NUMBER && !types.is_subset(node.types) {
            types = TypeSet::of_number(text);
        }
        if !types.intersects(node.types) {
            return Some(self.violation(text, || BrokenRule::Type(node.types)));
        }
        if !types.is_subset(node.types) || node.unchecked.intersects(types) {
            fit = fit.max(Fit::Unknown);
        }
        let mut limits = node.limits.iter().filter(|limit| limit.types.intersects(types)).peekable();
        let measure = limits.peek().and_then(|_| measure(text, count));
        for limit in limits {
            match measure.map(|measure| (limit.allows)(measure.cmp(&limit.bound))) {
                Some(true) => {}
                Some(false) => fit = self.violation(text, || BrokenRule::Limit(limit.text.clone())),
                None => fit = fit.max(Fit::Unknown),
            }
        }
        for choices in &node.choices {
            let equals_any = |wanted| choices.iter().any(|choice| equals(text, choice.as_bytes()) == wanted);
            if equals_any(Some(true)) {
                continue;
            }
            fit = match equals_any(None) {
                true => fit.max(Fit::Unknown),
                false => self.violation(text, || BrokenRule::Choice(choices.clone())),
            };
        }
        Some(fit)
    }

    /// Checks the elements of an array, and counts them. Returns where the array is.
    fn elements(
        &mut self,
        node: &SchemaNode,
        scanner: &mut Scanner<'a>,
        fit: &mut Fit,
        count: &mut usize,
    ) -> Option<Range<usize>> {
        scanner.array(|scanner| {
            match node.items {
                Some(id) => {
                    *fit = (*fit).max(self.within(|| count.to_string(), |walk| walk.apply(id, scanner))?);
                }
                None => {
                    self.skip(scanner)?;
                }
            }
            *count += 1;
            Some(())
        })
    }

    /// Checks the members of an object, and that no required one is missing. Returns where the object is.
    fn members(
        &mut self,
        node: &SchemaNode,
        scanner: &mut Scanner<'a>,
        fit: &mut Fit,
    ) -> Option<Range<usize>> {
        let is_root = scanner.offset() == 0;
        let mut present = 0;
        let mut keys = HashSet::new();

        let range = scanner.object(|scanner, key, escaped| {
            let key = match escaped {
                false => Cow::Borrowed(scanner.text(key)),
                true => {
                    let key = object::written_str(scanner.text(key.start - 1..key.end + 1), true)?;
                    Cow::Owned(key.into_owned().into_bytes())
                }
            };
            // Programs disagree on which of two members with the same key counts.
            if self.explains && !keys.insert(key.clone()) {
                return None;
            }
            let declared = node.properties.get(&*key).copied();
            let is_required = node.required.contains(&*key);
            present += usize::from(is_required);
            let may_be_null = self.explains && is_root && declared.is_some() && !is_required;
            match declared.or(node.additional) {
                Some(_) if may_be_null && scanner.peek() == Some(b'n') => {
                    self.skip(scanner)?;
                }
                Some(id) if self.nodes[id].types == TypeSet::NONE => {
                    self.skip(scanner)?;
                    let rule = || {
                        BrokenRule::Additional(nearest(
                            &name_text(&key),
                            node.properties.keys().map(|name| name_text(name)),
                        ))
                    };
                    *fit = self.within(|| name_text(&key), |walk| Some(walk.violation(b"", rule)))?;
                }
                Some(id) => {
                    *fit = (*fit).max(self.within(|| name_text(&key), |walk| walk.apply(id, scanner))?);
                }
                None => {
                    self.skip(scanner)?;
                }
            }
            Some(())
        })?;
        if present < node.required.len() {
            *fit = Fit::Misfit;
            for name in node.required.iter().filter(|name| !keys.contains(name.as_slice())) {
                self.within(|| name_text(name), |walk| Some(walk.violation(b"", || BrokenRule::Required)))?;
            }
        }
        Some(range)
    }

    /// Checks `anyOf`, or `oneOf`, where only one of the alternatives may fit.
    fn alternatives(&mut self, ids: &[NodeId], only_one: bool, start: &Scanner<'a>) -> Option<Fit> {
        let (mut fitting, mut unknown) = (0, 0);
        let mut misfits = Vec::new();
        for id in ids {
            let outer = std::mem::take(&mut self.violations);
            let fit = self.apply(*id, &mut start.clone())?;
            let violations = std::mem::replace(&mut self.violations, outer);
            match fit {
                Fit::Fits if !only_one => return Some(Fit::Fits),
                Fit::Fits => fitting += 1,
                Fit::Unknown => unknown += 1,
                Fit::Misfit if self.explains => misfits.push(violations),
                Fit::Misfit => {}
            }
        }
        let text = || start.clone().value().map_or(&b""[..], |range| start.text(range));
        Some(match (fitting, unknown) {
            (1, 0) => Fit::Fits,
            (0 | 1, 1..) => Fit::Unknown,
            (0, 0) => {
                if self.explains {
                    self.violations.extend(of_alternatives(text(), misfits));
                    self.violations.truncate(MAX_VIOLATIONS + 1);
                }
                Fit::Misfit
            }
            _ => self.violation(text(), || BrokenRule::OneOf),
        })
    }

    /// Checks a part of a value. The paths of the violations in it begin with `segment`.
    fn within(
        &mut self,
        segment: impl Fn() -> String,
        f: impl FnOnce(&mut Self) -> Option<Fit>,
    ) -> Option<Fit> {
        let before = self.violations.len();
        let fit = f(self);
        for violation in &mut self.violations[before..] {
            violation.move_into(&segment());
        }
        fit
    }

    fn violation(&mut self, given: &[u8], rule: impl FnOnce() -> BrokenRule) -> Fit {
        if self.explains && self.violations.len() <= MAX_VIOLATIONS {
            self.violations.push(Violation::new(given, rule()));
        }
        Fit::Misfit
    }

    /// Moves past a value, and returns where it is.
    fn skip(&mut self, scanner: &mut Scanner<'a>) -> Option<Range<usize>> {
        let range = scanner.value()?;
        self.work = self.work.checked_sub(range.len())?;
        Some(range)
    }
}

/// Returns the name of a property, for a message.
fn name_text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// Returns the number that has limits: a number itself, the length of a string, or the number of an array's elements.
fn measure(text: &[u8], elements: usize) -> Option<JsonNumber> {
    match text.first()? {
        b'"' => object::str(text).map(|text| JsonNumber::from_count(text.chars().count())),
        b'[' => Some(JsonNumber::from_count(elements)),
        _ => JsonNumber::parse(text),
    }
}

/// Returns whether two values are equal. `None` for numbers that programs round, and for arrays and objects.
fn equals(a: &[u8], b: &[u8]) -> Option<bool> {
    match TypeSet::of_value(a)? {
        kind if TypeSet::of_value(b)? != kind => Some(false),
        TypeSet::STRING if a.contains(&b'\\') || b.contains(&b'\\') => {
            Some(object::str(a)? == object::str(b)?)
        }
        TypeSet::NUMBER => Some(JsonNumber::parse(a)? == JsonNumber::parse(b)?),
        TypeSet::ARRAY | TypeSet::OBJECT => None,
        _ => Some(a == b),
    }
}

//! Walks the bytes of arguments along a compiled schema.
//!
//! A walk computes the [`Fit`] of a value for each schema that it applies. A rule that is not checked makes the fit
//! unknown. A rule that is certainly broken makes it a misfit, whatever the other rules say. A walk with a [`Report`]
//! also collects the violations.

use super::decimal::Decimal;
use super::node::{CompiledSchema, NodeId, SchemaNode, SizeRange, TypeSet};
use super::reader::{JsonKind, JsonReader, MalformedJson, count_characters, unescape};
use super::tree::JsonTree;
use super::violation::{Keyword, Violations, one_of};
use equality::{equals, equals_any};
use report::{Report, Segment};
use std::ops::Range;

mod alternatives;
mod containers;
mod equality;
mod report;

/// The depth to which a walk follows nested values, references and alternatives.
const MAX_DEPTH: usize = 128;
/// The limit of a walk's work, in units: skipping a byte takes one unit. Alternatives and references multiply the work.
const BASE_WORK: usize = 1 << 20;
/// Each byte of the arguments raises the limit by this.
const WORK_PER_BYTE: usize = 16;
/// The units that applying one schema takes.
const SCHEMA_WORK: usize = 8;
/// The bytes of a string that take one unit: the search for its end looks at many bytes at a time.
const STRING_BYTES_PER_UNIT: usize = 8;

/// Whether arguments fit a schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArgumentVerdict {
    /// The arguments keep every rule of the schema.
    Fits,
    /// The arguments certainly break a rule.
    Misfit(Violations),
    /// The rules that are checked do not decide it.
    Unknown,
}

/// Whether a value fits one schema. Where several schemas must hold, the greatest of their fits counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    Fits,
    Unknown,
    Misfit,
}

/// Why a walk ends early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WalkError {
    /// The text is not JSON, or the walk takes too long.
    NoVerdict,
    /// An object has a key twice, and the fit depends on which of them counts.
    RepeatedKey,
}

impl From<MalformedJson> for WalkError {
    fn from(_: MalformedJson) -> Self {
        Self::NoVerdict
    }
}

/// Checks arguments against a schema.
///
/// Many servers treat `null` for an optional property as its absence. So the verdict is `Unknown` for arguments that fit
/// only without such members.
pub(super) fn check(schema: &CompiledSchema, args: &[u8]) -> ArgumentVerdict {
    let mut walk = Walk::new(schema, args);
    match walk.run() {
        Ok(Fit::Fits) => ArgumentVerdict::Fits,
        Ok(Fit::Misfit) => explain(walk),
        Ok(Fit::Unknown) | Err(_) => ArgumentVerdict::Unknown,
    }
}

/// Walks the arguments again, to collect the violations.
fn explain(mut walk: Walk<'_>) -> ArgumentVerdict {
    walk.skips_optional_nulls = true;
    walk.report = Some(Report::default());
    match (walk.run(), walk.report) {
        (Ok(Fit::Misfit), Some(report)) if !report.violations.first.is_empty() => {
            ArgumentVerdict::Misfit(report.violations)
        }
        _ => ArgumentVerdict::Unknown,
    }
}

/// A pass over the arguments.
struct Walk<'a> {
    schema: &'a CompiledSchema,
    args: &'a [u8],
    /// The offset at which the arguments begin.
    root: usize,
    /// Whether members are skipped whose key comes again in the same object. Finding them takes time.
    skips_repeated_keys: bool,
    /// Whether optional properties of the arguments are skipped where they are `null`.
    skips_optional_nulls: bool,
    /// The units of work that are left.
    work: usize,
    /// The nesting depth.
    depth: usize,
    /// The violations so far, if they are collected.
    report: Option<Report<'a>>,
}

impl<'a> Walk<'a> {
    fn new(schema: &'a CompiledSchema, args: &'a [u8]) -> Self {
        Self {
            schema,
            args,
            root: 0,
            skips_repeated_keys: false,
            skips_optional_nulls: false,
            work: 0,
            depth: 0,
            report: None,
        }
    }

    /// Walks the arguments, a second time if it matters which of several members with the same key counts.
    fn run(&mut self) -> Result<Fit, WalkError> {
        let collects = self.report.is_some();
        let fit = self.run_once();
        if fit != Err(WalkError::RepeatedKey) {
            return fit;
        }
        self.skips_repeated_keys = true;
        self.report = collects.then(Report::default);
        self.run_once()
    }

    fn run_once(&mut self) -> Result<Fit, WalkError> {
        let mut reader = JsonReader::new(self.args);
        reader.kind()?;
        self.root = reader.position();
        self.work = BASE_WORK + WORK_PER_BYTE * self.args.len();
        self.depth = 0;
        let fit = self.apply(self.schema.root, &mut reader)?;
        if reader.is_at_end() { Ok(fit) } else { Err(WalkError::NoVerdict) }
    }

    /// Applies a schema to the value before the reader, and moves past the value.
    fn apply(&mut self, id: NodeId, reader: &mut JsonReader<'a>) -> Result<Fit, WalkError> {
        self.spend(SCHEMA_WORK)?;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(WalkError::NoVerdict);
        }
        let schema = self.schema;
        let node = &schema.nodes[id];
        let fit = match node.only_reference() {
            Some(target) => self.apply(target, reader)?,
            None => self.apply_all(node, reader)?,
        };
        self.depth -= 1;
        Ok(fit)
    }

    /// Applies a schema to the value at `start`.
    fn apply_here(&mut self, id: NodeId, mut start: JsonReader<'a>) -> Result<Fit, WalkError> {
        self.apply(id, &mut start)
    }

    fn apply_all(&mut self, node: &'a SchemaNode, reader: &mut JsonReader<'a>) -> Result<Fit, WalkError> {
        let start = *reader;
        let mut fit = self.apply_rules(node, reader)?;
        for id in &node.all_of {
            fit = fit.max(self.apply_here(*id, start)?);
        }
        if let Some(alternatives) = &node.any_of {
            fit = fit.max(self.any_of(alternatives, start)?);
        }
        if let Some(alternatives) = &node.one_of {
            fit = fit.max(self.exactly_one_of(alternatives, start)?);
        }
        Ok(fit)
    }

    /// Applies the rules of a schema that have no other schemas for the same value in them.
    fn apply_rules(&mut self, node: &'a SchemaNode, reader: &mut JsonReader<'a>) -> Result<Fit, WalkError> {
        let kind = reader.kind()?;
        let start = reader.position();
        let mut types = TypeSet::of_kind(kind);
        let may_fit = node.types.intersects(types);
        let mut fit = Fit::Fits;
        match kind {
            JsonKind::Null | JsonKind::Boolean => drop(reader.scalar()),
            JsonKind::Number => {
                let text = reader.scalar();
                if !types.is_subset(node.types) {
                    types = self.types_of_number(text);
                }
                fit = self.number(node, text, start);
            }
            JsonKind::String => {
                let content = reader.string()?;
                self.spend(content.len() / STRING_BYTES_PER_UNIT)?;
                if let Some(range) = node.length.as_deref().filter(|_| may_fit) {
                    fit = self.length(range, content, start..reader.position());
                }
            }
            JsonKind::Array => match &node.array {
                Some(rules) if may_fit => fit = self.array(rules, reader)?,
                _ => self.skip(reader)?,
            },
            JsonKind::Object => match &node.object {
                Some(rules) if may_fit => fit = self.object(rules, reader)?,
                _ => self.skip(reader)?,
            },
        }
        if node.unchecked.intersects(types) {
            fit = fit.max(Fit::Unknown);
        }
        let span = start..reader.position();
        match self.types(node, types, span.clone()) {
            Fit::Misfit => Ok(Fit::Misfit),
            type_fit => Ok(fit.max(type_fit).max(self.values(node, kind, span))),
        }
    }

    /// Checks `type` for a value that has one of `types`.
    fn types(&mut self, node: &SchemaNode, types: TypeSet, span: Range<usize>) -> Fit {
        if types.is_subset(node.types) {
            return Fit::Fits;
        }
        match node.types.intersects(types) || node.nullable && types == TypeSet::NULL {
            true => Fit::Unknown,
            false if node.types == TypeSet::NONE => self.violation(Keyword::False, String::new, span),
            false => self.violation(Keyword::Type, || node.types.describe(), span),
        }
    }

    /// The types of a number. It has two where programs may disagree on whether it is an integer.
    fn types_of_number(&self, text: &[u8]) -> TypeSet {
        if !text.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E')) {
            return TypeSet::INTEGER;
        }
        match Decimal::parse(text) {
            Some(number) if number.is_integer() && !self.schema.integers_are_literal => TypeSet::INTEGER,
            Some(number) if !number.is_integer() && number.is_portable() => TypeSet::FRACTION,
            _ => TypeSet::NUMBER,
        }
    }

    /// Checks the rules for numbers.
    fn number(&mut self, node: &'a SchemaNode, text: &[u8], start: usize) -> Fit {
        let Some(rules) = node.number.as_deref().filter(|_| node.types.intersects(TypeSet::NUMBER)) else {
            return Fit::Fits;
        };
        let span = start..start + text.len();
        // Programs that round the number may find that it fits.
        let is_portable = || Decimal::parse(text).is_some_and(|number| number.is_portable());
        let mut fit = Fit::Fits;
        for (keyword, bound) in &rules.bounds {
            fit = fit.max(match bound.allows(*keyword, text) {
                Some(true) => Fit::Fits,
                Some(false) if is_portable() => {
                    self.violation(*keyword, || bound.number.text().to_owned(), span.clone())
                }
                _ => Fit::Unknown,
            });
        }
        if let Some(divisor) = rules.multiple_of {
            let is_multiple = Decimal::parse(text).and_then(|number| number.is_multiple_of(divisor));
            fit = fit.max(match is_multiple {
                Some(true) => Fit::Fits,
                Some(false) if is_portable() => {
                    self.violation(Keyword::MultipleOf, || divisor.to_string(), span)
                }
                _ => Fit::Unknown,
            });
        }
        fit
    }

    /// Checks `minLength` and `maxLength`.
    fn length(&mut self, range: &SizeRange, content: &[u8], span: Range<usize>) -> Fit {
        match count_characters(content) {
            Some(count) => self.size(range, count, [Keyword::MinLength, Keyword::MaxLength], &span),
            None => Fit::Unknown,
        }
    }

    /// Checks a count against its limits, which the keywords `min` and `max` set.
    fn size(
        &mut self,
        range: &SizeRange,
        count: usize,
        [min, max]: [Keyword; 2],
        span: &Range<usize>,
    ) -> Fit {
        let count = count as u64;
        let mut fit = Fit::Fits;
        if let Some(least) = range.min.filter(|least| count < *least) {
            fit = self.violation(min, || least.to_string(), span.clone());
        }
        if let Some(most) = range.max.filter(|most| count > *most) {
            fit = self.violation(max, || most.to_string(), span.clone());
        }
        fit
    }

    /// Checks `enum` and `const`.
    fn values(&mut self, node: &'a SchemaNode, kind: JsonKind, span: Range<usize>) -> Fit {
        let text = &self.args[span.clone()];
        let mut fit = Fit::Fits;
        if let Some(choices) = &node.choices {
            fit = match equals_any(choices, kind, text) {
                Some(true) => Fit::Fits,
                None => Fit::Unknown,
                Some(false) => {
                    let choices = || one_of(&choices.iter().map(JsonTree::to_string).collect::<Vec<_>>());
                    self.violation(Keyword::Enum, choices, span.clone())
                }
            };
        }
        if let Some(constant) = &node.constant {
            fit = fit.max(match equals(constant, kind, text) {
                Some(true) => Fit::Fits,
                None => Fit::Unknown,
                Some(false) => self.violation(Keyword::Const, || constant.to_string(), span),
            });
        }
        fit
    }

    /// Moves past a value.
    fn skip(&mut self, reader: &mut JsonReader<'a>) -> Result<(), WalkError> {
        let start = reader.position();
        reader.skip()?;
        self.spend(reader.position() - start)
    }

    /// Takes units from the work that is left.
    fn spend(&mut self, work: usize) -> Result<(), WalkError> {
        self.work = self.work.checked_sub(work).ok_or(WalkError::NoVerdict)?;
        Ok(())
    }

    /// Reports that the value in `span` breaks a rule. For a string that is not Unicode text that is not certain, because
    /// programs read different strings.
    fn violation(&mut self, keyword: Keyword, expected: impl FnOnce() -> String, span: Range<usize>) -> Fit {
        let value = &self.args[span.clone()];
        if let [b'"', content @ .., b'"'] = value
            && unescape(content).is_none()
        {
            return Fit::Unknown;
        }
        if let Some(report) = &mut self.report {
            report.add(keyword, expected(), span, self.args);
        }
        Fit::Misfit
    }

    /// Applies a schema to a part of a value.
    fn apply_to_part(
        &mut self,
        part: Segment<'a>,
        id: NodeId,
        reader: &mut JsonReader<'a>,
    ) -> Result<Fit, WalkError> {
        self.enter_part(part);
        let fit = self.apply(id, reader)?;
        self.leave_part();
        Ok(fit)
    }

    fn enter_part(&mut self, part: Segment<'a>) {
        if let Some(report) = &mut self.report {
            report.path.push(part);
        }
    }

    fn leave_part(&mut self) {
        if let Some(report) = &mut self.report {
            report.path.pop();
        }
    }
}

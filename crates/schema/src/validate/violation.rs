//! Violations of a schema, and their text for a model.

use super::json::TypeSet;
use base::text::{shorten, visible};
use std::fmt;

/// Violations that are described.
pub(super) const MAX_VIOLATIONS: usize = 5;
/// A longer line about a violation is cut.
const MAX_LINE_CHARACTERS: usize = 300;
/// A longer value is not repeated as a whole.
const MAX_VALUE_CHARACTERS: usize = 60;
/// Names that are less similar (Jaro-Winkler, 0 to 1) are not suggested.
const MIN_NAME_SIMILARITY: f64 = 0.8;

/// A rule of a schema that the arguments break.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The names and indexes that lead to the value, or to the missing property: `/tags/1`.
    pub(super) path: String,
    /// How many names and indexes these are.
    depth: usize,
    /// The value, as [`shown`].
    given: String,
    /// The types of the value; none if there is no value.
    given_types: TypeSet,
    pub(super) rule: BrokenRule,
}

impl Violation {
    /// Creates the violation by the whole value `given`.
    pub(super) fn new(given: &[u8], rule: BrokenRule) -> Self {
        let given_types = TypeSet::of_value(given).unwrap_or_default();
        Self { path: String::new(), depth: 0, given: shown(given), given_types, rule }
    }

    /// Puts a name or an index before the path.
    pub(super) fn move_into(&mut self, segment: &str) {
        self.path = format!("/{segment}{}", self.path);
        self.depth += 1;
    }

    /// Returns whether no server can take an argument with this violation.
    fn is_fatal(&self) -> bool {
        const CONTAINERS: TypeSet = TypeSet::ARRAY.union(TypeSet::OBJECT);
        const SCALARS: TypeSet = TypeSet::STRING.union(TypeSet::BOOLEAN).union(TypeSet::NUMBER);
        self.depth == 1
            && match self.rule {
                BrokenRule::Type(TypeSet::NONE) => false,
                BrokenRule::Type(types) if self.given_types.intersects(CONTAINERS) => {
                    !types.intersects(CONTAINERS)
                }
                BrokenRule::Type(types) => {
                    self.given_types.intersects(SCALARS) && types.is_subset(CONTAINERS)
                }
                _ => false,
            }
    }
}

/// What a value does not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BrokenRule {
    /// `type`: the value has none of these types. A schema that is `false` allows none.
    Type(TypeSet),
    /// `enum` or `const`: the value is none of these.
    Choice(Vec<String>),
    /// A limit: the value is, as the text says, beyond it.
    Limit(String),
    /// `required`: there is no value.
    Required,
    /// `additionalProperties`: the property may not be given. The name of a similar one.
    Additional(Option<String>),
    /// `anyOf` or `oneOf`: why each of the alternatives does not fit.
    NoAlternative(String),
    /// `oneOf`: several alternatives fit.
    OneOf,
}

/// Writes the place, unless it is the whole value, and what is wrong there.
impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = self.path.strip_prefix('/') {
            write!(f, "{place}{}", if self.rule == BrokenRule::Required { " " } else { ": " })?;
        }
        let given = &self.given;
        match &self.rule {
            BrokenRule::Type(TypeSet::NONE) => write!(f, "no value is allowed here"),
            BrokenRule::Type(types) => write!(f, "{given} is not of type {}", types.describe()),
            BrokenRule::Choice(choices) if choices.len() == 1 => write!(f, "{given} is not {}", choices[0]),
            BrokenRule::Choice(choices) => write!(f, "{given} is not one of {}", choices.join(", ")),
            BrokenRule::Limit(text) => write!(f, "{given} {text}"),
            BrokenRule::Required => write!(f, "is missing"),
            BrokenRule::Additional(None) => write!(f, "there is no such parameter"),
            BrokenRule::Additional(Some(name)) => {
                write!(f, "there is no such parameter; did you mean `{name}`?")
            }
            BrokenRule::NoAlternative(reasons) => write!(f, "none of the alternatives fits: {reasons}"),
            BrokenRule::OneOf => write!(f, "{given} fits more than one alternative, and only one may fit"),
        }
    }
}

/// The violations that arguments certainly have, in the order of the arguments: at most one more than are described.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violations(pub(super) Vec<Violation>);

impl Violations {
    /// Returns whether no server can take the arguments: one is an object or an array where a scalar is required, or the
    /// reverse.
    pub fn are_fatal(&self) -> bool {
        self.0.iter().any(Violation::is_fatal)
    }
}

/// Writes a line for each violation.
impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |violation: &Violation| {
            let text = visible(&violation.to_string());
            format!("- {}", shorten(&text, MAX_LINE_CHARACTERS))
        };
        let mut lines: Vec<String> = self.0.iter().take(MAX_VIOLATIONS).map(line).collect();
        if self.0.len() > MAX_VIOLATIONS {
            lines.push("- and more".to_owned());
        }
        f.write_str(&lines.join("\n"))
    }
}

/// Returns the violations of a value that fits none of several alternatives: those of the alternative that was clearly
/// meant, else the first of each.
///
/// Alternatives for values of another type were not meant. If only one of the others has the members with fixed values
/// that the value has, it was meant: such members often tell alternatives apart.
pub(super) fn of_alternatives(given: &[u8], alternatives: Vec<Vec<Violation>>) -> Vec<Violation> {
    let mut types = TypeSet::NONE;
    let mut meant = Vec::new();
    for violations in alternatives {
        let of_type = violations.iter().find_map(|violation| match violation.rule {
            BrokenRule::Type(types) if violation.path.is_empty() => Some(types),
            _ => None,
        });
        match of_type {
            Some(more) => types = types.union(more),
            None => meant.push(violations),
        }
    }
    let is_tag =
        |violation: &Violation| !violation.path.is_empty() && matches!(violation.rule, BrokenRule::Choice(_));
    if meant.iter().filter(|violations| !violations.iter().any(is_tag)).count() == 1 {
        meant.retain(|violations| !violations.iter().any(is_tag));
    }
    let rule = match &mut meant[..] {
        [] => BrokenRule::Type(types),
        [only] => return std::mem::take(only),
        several => {
            let mut reasons: Vec<String> =
                several.iter().flat_map(|all| all.first()).map(ToString::to_string).collect();
            reasons.dedup();
            BrokenRule::NoAlternative(reasons.join("; "))
        }
    };
    vec![Violation::new(given, rule)]
}

/// Returns the candidate that is most similar to `name`, if one is similar enough. Case, underscores and hyphens make
/// no difference.
pub(super) fn nearest(name: &str, candidates: impl Iterator<Item = String>) -> Option<String> {
    let plain = |name: &str| name.to_lowercase().replace(['_', '-'], "");
    let similarity = |candidate: &str| strsim::jaro_winkler(&plain(name), &plain(candidate));
    let rated = candidates.map(|candidate| (similarity(&candidate), candidate));
    let near = rated.filter(|(similarity, _)| *similarity > MIN_NAME_SIMILARITY);
    near.max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, candidate)| candidate)
}

/// Returns a value as a message repeats it: whole if it is short, else its beginning or its kind.
fn shown(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(value);
    match value.first() {
        _ if text.chars().count() <= MAX_VALUE_CHARACTERS => text.into_owned(),
        Some(b'{') => "the object".to_owned(),
        Some(b'[') => "the list".to_owned(),
        Some(b'"') => shorten(&text, MAX_VALUE_CHARACTERS) + "\"",
        _ => shorten(&text, MAX_VALUE_CHARACTERS),
    }
}

//! A schema in the form in which arguments are checked against it.

use super::decimal::Decimal;
use super::reader::JsonKind;
use super::tree::{JsonNumber, JsonTree};
use super::violation::Keyword;

/// A schema's place in [`CompiledSchema::nodes`].
pub(super) type NodeId = usize;

/// A schema document: its schemas, which refer to each other by their places.
#[derive(Debug)]
pub(super) struct CompiledSchema {
    pub(super) nodes: Vec<SchemaNode>,
    pub(super) root: NodeId,
    /// Properties of the root that are not required, sorted: servers take `null` for them as their absence.
    pub(super) optional: Vec<Box<str>>,
    /// Whether `1.0` may be no integer, as in draft 4.
    pub(super) integers_are_literal: bool,
}

/// One schema. Every rule in it must hold.
#[derive(Debug, Default)]
pub(super) struct SchemaNode {
    pub(super) types: TypeSet,
    /// OpenAPI's `nullable: true`, which JSON Schema does not know.
    pub(super) nullable: bool,
    /// Types of values that have rules here which are not checked.
    pub(super) unchecked: TypeSet,
    pub(super) choices: Option<Box<[JsonTree]>>,
    pub(super) constant: Option<Box<JsonTree>>,
    pub(super) number: Option<Box<NumberRules>>,
    pub(super) length: Option<Box<SizeRange>>,
    pub(super) array: Option<Box<ArrayRules>>,
    pub(super) object: Option<Box<ObjectRules>>,
    /// `allOf` and `$ref`.
    pub(super) all_of: Vec<NodeId>,
    pub(super) any_of: Option<Box<[NodeId]>>,
    pub(super) one_of: Option<Box<[NodeId]>>,
    /// Whether the schema is nothing but a reference.
    pub(super) is_reference: bool,
}

impl SchemaNode {
    /// Completes the node once all its rules are there.
    pub(super) fn complete(mut self) -> Self {
        let has_values = self.nullable || self.choices.is_some() || self.constant.is_some();
        let has_rules = self.number.is_some() || self.length.is_some() || self.array.is_some();
        let has_alternatives = self.any_of.is_some() || self.one_of.is_some();
        let is_bare = !(has_values || has_rules || has_alternatives || self.object.is_some());
        let is_open = self.types == TypeSet::ALL && self.unchecked == TypeSet::NONE;
        self.is_reference = is_bare && is_open && self.all_of.len() == 1;
        self
    }

    /// The schema that this one stands for, if it is nothing but a reference.
    pub(super) fn only_reference(&self) -> Option<NodeId> {
        self.is_reference.then(|| self.all_of[0])
    }
}

/// A set of types of values. Integers and other numbers are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TypeSet(u8);

impl TypeSet {
    pub(super) const NONE: Self = Self(0);
    pub(super) const NULL: Self = Self(1);
    pub(super) const BOOLEAN: Self = Self(1 << 1);
    pub(super) const STRING: Self = Self(1 << 2);
    pub(super) const ARRAY: Self = Self(1 << 3);
    pub(super) const OBJECT: Self = Self(1 << 4);
    pub(super) const INTEGER: Self = Self(1 << 5);
    pub(super) const FRACTION: Self = Self(1 << 6);
    pub(super) const NUMBER: Self = Self(1 << 5 | 1 << 6);
    pub(super) const ALL: Self = Self(0x7f);

    const NAMES: [(Self, &'static str); 7] = [
        (Self::STRING, "string"),
        (Self::NUMBER, "number"),
        (Self::INTEGER, "integer"),
        (Self::BOOLEAN, "boolean"),
        (Self::ARRAY, "array"),
        (Self::OBJECT, "object"),
        (Self::NULL, "null"),
    ];

    /// The type called `name` in JSON Schema.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(_, known)| *known == name).map(|(set, _)| *set)
    }

    /// The types that a value of this kind may have.
    pub(super) fn of_kind(kind: JsonKind) -> Self {
        match kind {
            JsonKind::Null => Self::NULL,
            JsonKind::Boolean => Self::BOOLEAN,
            JsonKind::Number => Self::NUMBER,
            JsonKind::String => Self::STRING,
            JsonKind::Array => Self::ARRAY,
            JsonKind::Object => Self::OBJECT,
        }
    }

    pub(super) fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(super) fn is_subset(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    pub(super) fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The types' names in JSON, separated by "or".
    pub(super) fn describe(self) -> String {
        let mut left = self.0;
        let mut names = Vec::new();
        for (set, name) in Self::NAMES {
            if left & set.0 == set.0 {
                left &= !set.0;
                names.push(format!("\"{name}\""));
            }
        }
        names.join(" or ")
    }
}

impl Default for TypeSet {
    fn default() -> Self {
        Self::NONE
    }
}

/// The rules for numbers.
#[derive(Debug, Default)]
pub(super) struct NumberRules {
    /// `minimum`, `maximum` and their exclusive forms.
    pub(super) bounds: Vec<(Keyword, NumberBound)>,
    pub(super) multiple_of: Option<u64>,
}

/// A bound of a number.
#[derive(Debug)]
pub(super) struct NumberBound {
    pub(super) number: JsonNumber,
    /// The bound as an integer, if it is a short one.
    integer: Option<i64>,
}

impl NumberBound {
    pub(super) fn new(number: JsonNumber) -> Self {
        let integer = short_integer(number.text().as_bytes());
        Self { number, integer }
    }

    /// Whether `text` keeps to this bound of `keyword`. `None` if that cannot be computed.
    pub(super) fn allows(&self, keyword: Keyword, text: &[u8]) -> Option<bool> {
        let order = match (self.integer, short_integer(text)) {
            (Some(bound), Some(value)) => value.cmp(&bound),
            _ => Decimal::parse(text)?.cmp(&self.number.decimal()?),
        };
        Some(match keyword {
            Keyword::Minimum => order.is_ge(),
            Keyword::Maximum => order.is_le(),
            Keyword::ExclusiveMinimum => order.is_gt(),
            _ => order.is_lt(),
        })
    }
}

/// An integer of few digits, written as such.
fn short_integer(text: &[u8]) -> Option<i64> {
    let (sign, digits) = match text {
        [b'-', digits @ ..] => (-1, digits),
        digits => (1, digits),
    };
    if digits.is_empty() || digits.len() > 18 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(sign * digits.iter().fold(0, |value, digit| value * 10 + i64::from(digit - b'0')))
}

/// How many characters, elements or members there may be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct SizeRange {
    pub(super) min: Option<u64>,
    pub(super) max: Option<u64>,
}

impl SizeRange {
    pub(super) fn is_open(&self) -> bool {
        *self == Self::default()
    }
}

/// What may follow the elements or properties that have a schema of their own.
#[derive(Debug, Clone, Copy, Default)]
pub(super) enum Additional {
    #[default]
    Anything,
    Nothing,
    Schema(NodeId),
}

#[derive(Debug, Default)]
pub(super) struct ArrayRules {
    pub(super) size: SizeRange,
    pub(super) unique: bool,
    /// The schemas of the first elements.
    pub(super) prefix: Vec<NodeId>,
    pub(super) rest: Additional,
}

#[derive(Debug, Default)]
pub(super) struct ObjectRules {
    pub(super) size: SizeRange,
    /// Sorted by name.
    pub(super) properties: Vec<PropertyRule>,
    /// Places in `properties`, in the schema's order.
    pub(super) required: Vec<usize>,
    pub(super) additional: Additional,
    /// Whether `patternProperties` may have a schema for any property.
    pub(super) has_patterns: bool,
}

/// A property that is declared or required.
#[derive(Debug)]
pub(super) struct PropertyRule {
    pub(super) name: Box<str>,
    /// `None` for a property that is only required.
    pub(super) schema: Option<NodeId>,
}

impl ObjectRules {
    /// The place in `properties` of the property called `name`.
    pub(super) fn find(&self, name: &[u8]) -> Option<usize> {
        self.properties.binary_search_by(|property| property.name.as_bytes().cmp(name)).ok()
    }
}

#[cfg(test)]
impl CompiledSchema {
    /// Whether every rule that the document has for arguments is checked.
    pub(super) fn is_checked_completely(&self) -> bool {
        let mut seen = vec![false; self.nodes.len()];
        let mut open = vec![self.root];
        while let Some(id) = open.pop() {
            if std::mem::replace(&mut seen[id], true) {
                continue;
            }
            let node = &self.nodes[id];
            if node.unchecked != TypeSet::NONE || node.nullable {
                return false;
            }
            open.extend(&node.all_of);
            open.extend([&node.any_of, &node.one_of].into_iter().flatten().flatten());
            if let Some(array) = &node.array {
                open.extend(&array.prefix);
                open.extend(array.rest.schema());
            }
            if let Some(object) = &node.object {
                open.extend(object.properties.iter().filter_map(|property| property.schema));
                open.extend(object.additional.schema());
            }
        }
        true
    }
}

#[cfg(test)]
impl Additional {
    fn schema(self) -> Option<NodeId> {
        match self {
            Self::Schema(id) => Some(id),
            Self::Anything | Self::Nothing => None,
        }
    }
}

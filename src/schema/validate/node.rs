//! The compiled form of a schema.

use super::decimal::Decimal;
use super::reader::JsonKind;
use super::tree::{JsonNumber, JsonTree};
use super::violation::Keyword;

/// The index of a node in [`CompiledSchema::nodes`].
pub(super) type NodeId = usize;

/// A compiled schema document. Its schemas are nodes, which refer to each other by their indexes.
#[derive(Debug)]
pub(super) struct CompiledSchema {
    pub(super) nodes: Vec<SchemaNode>,
    /// The node of the whole document.
    pub(super) root: NodeId,
    /// The names of the root's properties that are not required, sorted.
    pub(super) optional: Vec<Box<str>>,
    /// Whether `1.0` is not an integer for some validators, as in draft 4.
    pub(super) integers_are_literal: bool,
}

/// A compiled schema. A value fits it if it keeps every rule.
#[derive(Debug, Default)]
pub(super) struct SchemaNode {
    /// `type`.
    pub(super) types: TypeSet,
    /// `nullable: true`, a keyword of OpenAPI that JSON Schema does not define.
    pub(super) nullable: bool,
    /// The types of values for which the schema has rules that are not checked.
    pub(super) unchecked: TypeSet,
    /// `enum`.
    pub(super) choices: Option<Box<[JsonTree]>>,
    /// `const`.
    pub(super) constant: Option<Box<JsonTree>>,
    pub(super) number: Option<Box<NumberRules>>,
    /// `minLength` and `maxLength`.
    pub(super) length: Option<Box<SizeRange>>,
    pub(super) array: Option<Box<ArrayRules>>,
    pub(super) object: Option<Box<ObjectRules>>,
    /// `allOf` and `$ref`.
    pub(super) all_of: Vec<NodeId>,
    /// `anyOf`.
    pub(super) any_of: Option<Box<[NodeId]>>,
    /// `oneOf`.
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

/// A set of types. Integers and other numbers are two types.
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
    /// The bound as an integer, if it is one of at most 18 digits.
    integer: Option<i64>,
}

impl NumberBound {
    pub(super) fn new(number: JsonNumber) -> Self {
        let integer = short_integer(number.text().as_bytes());
        Self { number, integer }
    }

    /// Whether the number `text` is within the bound that `keyword` sets. `None` if that cannot be computed.
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

/// Parses an integer of at most 18 digits.
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

/// The limits of a count of characters, elements or members.
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

/// The rule for elements and properties that have no schema of their own.
#[derive(Debug, Clone, Copy, Default)]
pub(super) enum Additional {
    #[default]
    Anything,
    Nothing,
    Schema(NodeId),
}

/// The rules for arrays.
#[derive(Debug, Default)]
pub(super) struct ArrayRules {
    pub(super) size: SizeRange,
    /// `uniqueItems`.
    pub(super) unique: bool,
    /// The schemas of the first elements.
    pub(super) prefix: Vec<NodeId>,
    /// The rule for the other elements.
    pub(super) rest: Additional,
}

/// The rules for objects.
#[derive(Debug, Default)]
pub(super) struct ObjectRules {
    pub(super) size: SizeRange,
    /// The declared and the required properties, sorted by name.
    pub(super) properties: Vec<PropertyRule>,
    /// Indexes in `properties`, in the order of `required`.
    pub(super) required: Vec<usize>,
    /// `additionalProperties`.
    pub(super) additional: Additional,
    /// Whether there are `patternProperties`, which are not checked.
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
    /// The index in `properties` of the property `name`.
    pub(super) fn find(&self, name: &[u8]) -> Option<usize> {
        self.properties.binary_search_by(|property| property.name.as_bytes().cmp(name)).ok()
    }
}

#[cfg(test)]
impl CompiledSchema {
    /// Whether every rule of the document is checked.
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

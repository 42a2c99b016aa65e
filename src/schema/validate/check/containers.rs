//! The rules for arrays and objects.

use super::report::Segment;
use super::{Fit, Walk, WalkError};
use crate::schema::validate::decimal::Decimal;
use crate::schema::validate::node::{Additional, ArrayRules, ObjectRules};
use crate::schema::validate::reader::{JsonKind, JsonReader, unescape};
use crate::schema::validate::tree::JsonTree;
use crate::schema::validate::violation::{Keyword, nearest};
use std::ops::Range;

/// `uniqueItems` is not checked for longer arrays, because every element is compared with every other.
const MAX_UNIQUE_ITEMS: usize = 1000;
/// The units of work that comparing two scalars or keys takes.
const COMPARISON_WORK: usize = 8;
/// The units of work that reading a byte into a tree takes.
const TREE_BYTE_WORK: usize = 8;

impl<'a> Walk<'a> {
    /// Applies the rules for arrays to the array before the reader, and moves past it.
    pub(super) fn array(
        &mut self,
        rules: &'a ArrayRules,
        reader: &mut JsonReader<'a>,
    ) -> Result<Fit, WalkError> {
        let array = *reader;
        let start = reader.position();
        let mut fit = Fit::Fits;
        let mut count = 0;
        reader.enter();
        while reader.next_element()? {
            let schema = rules.prefix.get(count).map_or(rules.rest, |id| Additional::Schema(*id));
            let part = Segment::Index(count);
            match schema {
                Additional::Anything => self.skip(reader)?,
                Additional::Schema(id) => fit = fit.max(self.apply_to_part(part, id, reader)?),
                Additional::Nothing => {
                    let span = self.skip_value(reader)?;
                    self.enter_part(part);
                    fit = fit.max(self.violation(Keyword::Items, || rules.prefix.len().to_string(), span));
                    self.leave_part();
                }
            }
            count += 1;
        }
        let span = start..reader.position();
        fit = fit.max(self.size(&rules.size, count, [Keyword::MinItems, Keyword::MaxItems], &span));
        if rules.unique && count > 1 {
            fit = fit.max(self.unique_items(array, count, span)?);
        }
        Ok(fit)
    }

    fn unique_items(
        &mut self,
        mut array: JsonReader<'a>,
        count: usize,
        span: Range<usize>,
    ) -> Result<Fit, WalkError> {
        if count > MAX_UNIQUE_ITEMS {
            return Ok(Fit::Unknown);
        }
        array.enter();
        let mut fit = Fit::Fits;
        while array.next_element()? {
            let (kind, item) = read_value(&mut array)?;
            let mut others = array;
            while others.next_element()? {
                let (other_kind, other) = read_value(&mut others)?;
                self.spend(COMPARISON_WORK)?;
                let are_equal = match () {
                    () if item == other => Some(true),
                    () if kind == other_kind => self.are_equal(kind, item, other)?,
                    () => Some(false),
                };
                match are_equal {
                    Some(true) => return Ok(self.violation(Keyword::UniqueItems, String::new, span)),
                    Some(false) => {}
                    None => fit = Fit::Unknown,
                }
            }
        }
        Ok(fit)
    }

    /// Whether two values of the same kind that are written differently are equal. `None` if that cannot be computed.
    fn are_equal(&mut self, kind: JsonKind, a: &[u8], b: &[u8]) -> Result<Option<bool>, WalkError> {
        Ok(match kind {
            JsonKind::Null | JsonKind::Boolean => Some(false),
            JsonKind::Number => Decimal::parse(a).zip(Decimal::parse(b)).map(|(a, b)| a == b),
            JsonKind::String if !a.contains(&b'\\') && !b.contains(&b'\\') => Some(false),
            JsonKind::String | JsonKind::Array | JsonKind::Object => {
                self.spend(TREE_BYTE_WORK * (a.len() + b.len()))?;
                JsonTree::parse(a).ok().zip(JsonTree::parse(b).ok()).map(|(a, b)| a == b)
            }
        })
    }

    /// Applies the rules for objects to the object before the reader, and moves past it.
    pub(super) fn object(
        &mut self,
        rules: &'a ObjectRules,
        reader: &mut JsonReader<'a>,
    ) -> Result<Fit, WalkError> {
        let start = reader.position();
        let skips_nulls = self.skips_optional_nulls && start == self.root;
        let mut keys = SeenKeys::default();
        let mut fit = Fit::Fits;
        reader.enter();
        while let Some(key) = reader.next_key()? {
            let is_repeated = self.skips_repeated_keys && self.is_repeated(key, *reader)?;
            if is_repeated || skips_nulls && self.is_optional_null(key, *reader)? {
                self.skip(reader)?;
                continue;
            }
            let index = find_property(rules, key)?;
            if let Some(index) = index
                && !keys.declared.insert(index)
            {
                return Err(WalkError::RepeatedKey);
            }
            let schema = index.and_then(|index| rules.properties[index].schema);
            fit = fit.max(match schema {
                Some(id) => self.apply_to_part(Segment::Key(key), id, reader)?,
                None => {
                    keys.others += usize::from(index.is_none());
                    self.additional_property(rules, key, &mut keys, reader)?
                }
            });
        }
        let span = start..reader.position();
        for index in rules.required.iter().filter(|index| !keys.declared.contains(**index)) {
            fit = fit.max(self.missing_property(&rules.properties[*index].name, span.clone()));
        }
        Ok(fit.max(self.member_count(rules, &keys, span)?))
    }

    /// Checks a property that has no schema of its own.
    fn additional_property(
        &mut self,
        rules: &'a ObjectRules,
        key: &'a [u8],
        keys: &mut SeenKeys<'a>,
        reader: &mut JsonReader<'a>,
    ) -> Result<Fit, WalkError> {
        let id = match rules.additional {
            Additional::Anything => {
                self.skip(reader)?;
                return Ok(Fit::Fits);
            }
            // A pattern may declare the property.
            _ if rules.has_patterns => {
                self.skip(reader)?;
                return Ok(Fit::Unknown);
            }
            Additional::Nothing => {
                let span = self.skip_value(reader)?;
                return Ok(self.unknown_property(rules, key, span));
            }
            Additional::Schema(id) => id,
        };
        if keys.misfit.is_some_and(|misfit| may_be_same_key(misfit, key)) {
            return Err(WalkError::RepeatedKey);
        }
        let fit = self.apply_to_part(Segment::Key(key), id, reader)?;
        if fit == Fit::Misfit && !self.skips_repeated_keys {
            keys.misfit.get_or_insert(key);
        }
        Ok(fit)
    }

    fn unknown_property(&mut self, rules: &ObjectRules, key: &'a [u8], span: Range<usize>) -> Fit {
        let declared = rules.properties.iter().filter(|property| property.schema.is_some());
        let suggestion = || {
            let name = unescape(key).unwrap_or_default();
            nearest(&name, declared.map(|property| &*property.name)).unwrap_or_default().to_owned()
        };
        self.enter_part(Segment::Key(key));
        if let Some(report) = &mut self.report {
            report.add(Keyword::AdditionalProperties, suggestion(), span, self.args);
        }
        self.leave_part();
        Fit::Misfit
    }

    fn missing_property(&mut self, name: &'a str, object: Range<usize>) -> Fit {
        self.enter_part(Segment::Name(name));
        let fit = self.violation(Keyword::Required, String::new, object);
        self.leave_part();
        fit
    }

    /// Checks `minProperties` and `maxProperties`. A repeated key counts once.
    fn member_count(
        &mut self,
        rules: &ObjectRules,
        keys: &SeenKeys<'a>,
        span: Range<usize>,
    ) -> Result<Fit, WalkError> {
        let most = keys.declared.len() + keys.others;
        let least = if self.skips_repeated_keys { most } else { keys.declared.len() + keys.others.min(1) };
        let is_within = |count: usize| {
            let count = count as u64;
            rules.size.min.is_none_or(|min| count >= min) && rules.size.max.is_none_or(|max| count <= max)
        };
        match (is_within(least), is_within(most)) {
            (true, true) => Ok(Fit::Fits),
            _ if least < most => Err(WalkError::RepeatedKey),
            _ => Ok(self.size(&rules.size, most, [Keyword::MinProperties, Keyword::MaxProperties], &span)),
        }
    }

    /// Whether the key comes again in the object, after `value`.
    fn is_repeated(&mut self, key: &[u8], value: JsonReader<'a>) -> Result<bool, WalkError> {
        let mut ahead = value;
        self.skip(&mut ahead)?;
        while let Some(next) = ahead.next_key()? {
            self.spend(COMPARISON_WORK)?;
            if next == key || may_be_same_key(next, key) && unescape(next) == unescape(key) {
                return Ok(true);
            }
            self.skip(&mut ahead)?;
        }
        Ok(false)
    }

    fn is_optional_null(&self, key: &[u8], mut value: JsonReader<'a>) -> Result<bool, WalkError> {
        let is_optional =
            |name: &str| self.schema.optional.binary_search_by(|known| (**known).cmp(name)).is_ok();
        Ok(value.kind()? == JsonKind::Null && unescape(key).is_some_and(|name| is_optional(&name)))
    }

    fn skip_value(&mut self, reader: &mut JsonReader<'a>) -> Result<Range<usize>, WalkError> {
        reader.kind()?;
        let start = reader.position();
        self.skip(reader)?;
        Ok(start..reader.position())
    }
}

/// The keys of an object so far.
#[derive(Default)]
struct SeenKeys<'a> {
    /// The indexes of the declared and required properties.
    declared: IndexSet,
    /// The number of other members.
    others: usize,
    /// The first key among the others whose value does not fit.
    misfit: Option<&'a [u8]>,
}

/// A set of indexes. Small ones need no allocation.
#[derive(Default)]
struct IndexSet {
    small: [u64; 2],
    large: Vec<u64>,
    len: usize,
}

impl IndexSet {
    /// Returns whether the index is new.
    fn insert(&mut self, index: usize) -> bool {
        let word = index / 64;
        let bits = match word.checked_sub(self.small.len()) {
            None => &mut self.small[word],
            Some(word) => {
                if self.large.len() <= word {
                    self.large.resize(word + 1, 0);
                }
                &mut self.large[word]
            }
        };
        let bit = 1 << (index % 64);
        let is_new = *bits & bit == 0;
        *bits |= bit;
        self.len += usize::from(is_new);
        is_new
    }

    fn contains(&self, index: usize) -> bool {
        let word = index / 64;
        let bits = self.small.get(word).or_else(|| self.large.get(word - self.small.len()));
        bits.is_some_and(|bits| bits & 1 << (index % 64) != 0)
    }

    fn len(&self) -> usize {
        self.len
    }
}

fn find_property(rules: &ObjectRules, key: &[u8]) -> Result<Option<usize>, WalkError> {
    match key.contains(&b'\\') {
        true => Ok(rules.find(unescape(key).ok_or(WalkError::NoVerdict)?.as_bytes())),
        false => Ok(rules.find(key)),
    }
}

/// Whether two keys may be the same. Keys with escapes are not decoded.
fn may_be_same_key(a: &[u8], b: &[u8]) -> bool {
    a == b || a.contains(&b'\\') || b.contains(&b'\\')
}

fn read_value<'a>(reader: &mut JsonReader<'a>) -> Result<(JsonKind, &'a [u8]), WalkError> {
    let kind = reader.kind()?;
    let start = reader.position();
    reader.skip()?;
    Ok((kind, reader.since(start)))
}

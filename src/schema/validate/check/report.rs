//! Collects violations with their places.

use crate::schema::validate::reader::unescape;
use crate::schema::validate::violation::{Keyword, Violation, Violations, pointer_segment};
use std::ops::Range;

/// Violations that are described. Further ones are counted.
const MAX_VIOLATIONS: usize = 5;

/// A step from a value to a part of it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Segment<'a> {
    /// A key, as it is written between its quotes.
    Key(&'a [u8]),
    /// The name of a missing property.
    Name(&'a str),
    Index(usize),
}

/// The violations of one walk so far.
#[derive(Debug, Default)]
pub(super) struct Report<'a> {
    /// The way from the arguments to the value that is being checked.
    pub(super) path: Vec<Segment<'a>>,
    pub(super) violations: Violations,
}

impl<'a> Report<'a> {
    /// An empty report about the value at `path`.
    pub(super) fn at(path: Vec<Segment<'a>>) -> Self {
        Self { path, violations: Violations::default() }
    }

    pub(super) fn add(&mut self, keyword: Keyword, expected: String, given: Range<usize>, args: &[u8]) {
        self.extend(Violations {
            first: vec![Violation::new(self.pointer(), keyword, expected, given, args)],
            more: 0,
        });
    }

    pub(super) fn extend(&mut self, violations: Violations) {
        self.violations.more += violations.more;
        for violation in violations.first {
            match self.violations.first.len() < MAX_VIOLATIONS {
                true => self.violations.first.push(violation),
                false => self.violations.more += 1,
            }
        }
    }

    /// The path as a JSON pointer.
    pub(super) fn pointer(&self) -> String {
        let mut pointer = String::new();
        for segment in &self.path {
            pointer.push('/');
            match segment {
                Segment::Index(index) => pointer.push_str(&index.to_string()),
                Segment::Name(name) => pointer.push_str(&pointer_segment(name)),
                Segment::Key(key) => match unescape(key) {
                    Some(name) => pointer.push_str(&pointer_segment(&name)),
                    None => pointer.push_str(&String::from_utf8_lossy(key)),
                },
            }
        }
        pointer
    }
}

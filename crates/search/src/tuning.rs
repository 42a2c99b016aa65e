//! The parameters of the ranking, found by trial on the tuning part of the evaluation set (benches/search).

use super::document::FIELD_COUNT;

/// The weight of each field: name, description, parameters, group name, group description (BM25F).
pub const FIELD_WEIGHTS: [f32; FIELD_COUNT] = [2.1, 0.4, 0.25, 0.7, 0.35];
/// How much each field's length is normalized, from 0 (not at all) to 1 (BM25F's `b`).
pub const LENGTH_NORMALIZATION: [f32; FIELD_COUNT] = [0.5, 0.55, 0.12, 0.5, 0.35];
/// How soon further occurrences of a term add nothing (BM25's `k1`).
pub const SATURATION: f32 = 1.2;

/// The weight of a term from a number, a path or a file name.
pub(crate) const DATA_WEIGHT: f32 = 0.55;
/// The weight of a proper noun that no tool or group is named after: it names a person or a place.
pub(crate) const PROPER_NOUN_WEIGHT: f32 = 0.7;
/// The weight of an indexed term that begins with the query's term.
pub(crate) const PREFIX_WEIGHT: f32 = 0.5;
/// The weight of a prefix match for a term of the query that is indexed itself, or has indexed synonyms.
pub(crate) const KNOWN_PREFIX_WEIGHT: f32 = 0.25;
/// The weight of an indexed term that is spelled like the query's term.
pub(crate) const MISSPELLING_WEIGHT: f32 = 0.55;
/// The weight of a part of a compound.
pub(crate) const COMPOUND_PART_WEIGHT: f32 = 0.5;
/// A term with more synonyms than this is ambiguous, so that each match counts less.
pub(crate) const MAX_UNAMBIGUOUS_SYNONYMS: f32 = 10.0;
/// The part of its score that a match counts if the same query term has a better one in the same tool (the tie breaker
/// of a disjunction maximum).
pub(crate) const TIE_BREAKER: f32 = 0.2;

/// The part of a tool's score for the whole query that is added to its score for a clause.
pub(crate) const WHOLE_QUERY_SHARE: f32 = 0.2;
/// The part of a group's score for the query that is added to the score of each of its tools.
pub(crate) const GROUP_SHARE: f32 = 0.1;
/// The part of a clause's weight that is left once a tool has answered it.
pub(crate) const ANSWERED_CLAUSE_FACTOR: f32 = 0.8;
/// The part of its score that is left to a tool once another one of its group was picked.
pub(crate) const REPEATED_GROUP_FACTOR: f32 = 0.95;
/// The exponent of a clause's score. Above 1, one clause that fits well counts more than several that fit a little.
pub(crate) const CLAUSE_EXPONENT: f32 = 1.5;

/// The weight of a word that only introduces what is wanted.
pub(crate) const INTRODUCTION_WEIGHT: f32 = 0.3;
/// The factor for the synonyms of a term that is indexed itself: what is written counts more than what may be meant.
pub(crate) const KNOWN_SYNONYM_FACTOR: f32 = 0.8;

/// The factor for a tool whose name has another word of the same stem: a locator is not what "locate" asks for.
pub(crate) const OTHER_WORD_FACTOR: f32 = 0.7;

/// The places that matter most: models are shown five tools.
pub(crate) const FIRST_PLACES: usize = 5;
/// How many of them are left to the tools that have most of the query's own words.
pub(crate) const LITERAL_PLACES: usize = 2;

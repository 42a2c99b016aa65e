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
/// The weight of an indexed term that begins with the query's term.
pub(crate) const PREFIX_WEIGHT: f32 = 0.5;
/// The weight of an indexed term that is spelled like the query's term.
pub(crate) const MISSPELLING_WEIGHT: f32 = 0.55;
/// The weight of a part of a compound.
pub(crate) const COMPOUND_PART_WEIGHT: f32 = 0.5;

/// How many terms of a query are compared with the indexed terms one by one, because no tool has them. Further ones find
/// nothing: each comparison goes through all terms that begin alike.
pub(crate) const MAX_GUESSED_TERMS: usize = 16;

/// The exponent of a clause's score. Above 1, one clause that fits well counts more than several that fit a little.
pub(crate) const CLAUSE_EXPONENT: f32 = 1.5;

/// The places that matter most: models are shown five tools.
pub(crate) const FIRST_PLACES: usize = 5;
/// How many of them are left to the tools that have most of the query's own words.
pub(crate) const LITERAL_PLACES: usize = 2;

//! The parameters of the ranking, found by trial on the tuning parts of the evaluation sets (benches/search).

use super::document::FIELD_COUNT;

/// The weight of each field: name, description, parameters, group name, group description (BM25F).
pub const FIELD_WEIGHTS: [f32; FIELD_COUNT] = [2.1, 0.4, 0.25, 0.7, 0.35];
/// How much each field's length is normalized, from 0 (not at all) to 1 (BM25F's `b`).
pub const LENGTH_NORMALIZATION: [f32; FIELD_COUNT] = [0.5, 0.55, 0.12, 0.5, 0.35];
/// How soon further occurrences of a term add nothing (BM25's `k1`).
pub const SATURATION: f32 = 1.2;

/// How much a synonym counts, relative to the term that it stands for.
pub(crate) const SYNONYM_WEIGHT: f32 = 0.6;
/// The number of terms from which on a query says itself what it means: synonyms of words that tools have count less
/// the longer it is.
pub(crate) const LONG_QUERY: f32 = 12.0;
/// How much an indexed term counts that looks like a term of the query, relative to their similarity.
pub(crate) const SIMILAR_WEIGHT: f32 = 0.3;
/// Terms that are less similar have nothing to do with each other. 1 is equal.
pub(crate) const MIN_SIMILARITY: f32 = 0.5;
/// How many terms of a query are compared with the indexed terms one by one, because no tool has them. Further ones find
/// nothing: each comparison goes through all terms that begin alike.
pub(crate) const MAX_GUESSED_TERMS: usize = 16;

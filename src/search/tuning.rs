//! The numbers of the ranking, found by trying on the part of the evaluation set that is for that.

use super::document::FIELDS;

#[derive(Debug, Clone)]
pub struct Tuning {
    /// What a word counts by the field it stands in, and how far a field's length tells against it.
    pub weights: [f32; FIELDS],
    pub lengths: [f32; FIELDS],
    /// How soon saying a word again adds nothing.
    pub saturation: f32,
    /// What a query's word counts that is a number or a path.
    pub data: f32,
    /// What a name counts that no tool or group has: it is of somebody or somewhere.
    pub stranger: f32,
    /// What a word counts that is only begun, or spelled otherwise, or half of a compound.
    pub prefix: f32,
    pub typo: f32,
    pub half: f32,
    /// A word that may stand for more words than this says less of each.
    pub meanings: f32,
    /// What a further meaning of the same word adds.
    pub more: f32,
    /// What the whole query counts beside a clause of it.
    pub whole: f32,
    /// What a group that knows many of the query's words lends to each of its tools.
    pub group: f32,
    /// What remains of a clause once a tool has answered it.
    pub answered: f32,
    /// What remains of a group once a tool of it was found.
    pub again: f32,
    /// Above 1, one clause that is met well counts more than many that are met a little.
    pub power: f32,
}

pub const TUNING: Tuning = Tuning {
    // name, text, parameters, group, about
    weights: [2.1, 0.4, 0.25, 0.7, 0.35],
    lengths: [0.5, 0.55, 0.12, 0.5, 0.35],
    saturation: 1.2,
    data: 0.55,
    stranger: 0.7,
    prefix: 0.5,
    typo: 0.55,
    half: 0.5,
    meanings: 10.0,
    more: 0.45,
    whole: 0.2,
    group: 0.1,
    answered: 0.6,
    again: 0.95,
    power: 2.2,
};

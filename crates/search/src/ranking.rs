//! Ranks tools for a query.
//!
//! A tool's score is the sum of its scores for the clauses of the query, each raised so that one clause that fits well
//! counts more than several that fit a little. If the query says that one thing comes after another, the first places go
//! to the best tool of each step, in their order.

use super::inverted_index::InvertedIndex;
use super::query::{Clause, QueryTerm};
use super::tuning::{CLAUSE_EXPONENT, MAX_GUESSED_TERMS};
use std::collections::HashSet;

/// Scores tools for the steps of a query.
pub(crate) struct Ranker {
    /// For each step, the score of each tool.
    steps: Vec<Vec<f32>>,
}

impl Ranker {
    /// Scores `tool_count` tools for the steps of a query.
    pub(crate) fn new(steps: &[Vec<Clause>], index: &InvertedIndex, tool_count: usize) -> Self {
        let mut guesses = MAX_GUESSED_TERMS;
        let score = |clauses: &Vec<Clause>| {
            let mut scores = vec![0.0_f32; tool_count];
            for clause in clauses {
                let of_clause = clause_scores(clause, index, tool_count, &mut guesses);
                scores.iter_mut().zip(of_clause).for_each(|(sum, score)| *sum += score.powf(CLAUSE_EXPONENT));
            }
            scores
        };
        Self { steps: steps.iter().map(score).collect() }
    }

    /// Returns whether no tool has a score.
    pub(crate) fn is_empty(&self) -> bool {
        self.steps.iter().flatten().all(|score| *score <= 0.0)
    }

    /// Picks the best `limit` tools among those in scope, in the order in which they are shown. Tools without a score
    /// are not picked. Of equal scores the first counts, so that they keep the order of the config.
    pub(crate) fn best(&self, limit: usize, is_in_scope: impl Fn(usize) -> bool) -> Vec<usize> {
        let tool_count = self.steps.first().map_or(0, Vec::len);
        let whole = |tool: usize| self.steps.iter().map(|scores| scores[tool]).sum::<f32>();
        let mut rest: Vec<(usize, f32)> =
            (0..tool_count).filter(|tool| is_in_scope(*tool)).map(|tool| (tool, whole(tool))).collect();
        rest.retain(|(_, score)| *score > 0.0);
        rest.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        let mut picked = Vec::new();
        // Each step has a place before the second best tool of any other.
        for scores in self.steps.iter().filter(|_| self.steps.len() > 1) {
            let best = position_of_max(rest.iter().map(|(tool, _)| scores[*tool]));
            if let Some(best) = best.filter(|best| scores[rest[*best].0] > 0.0) {
                picked.push(rest.remove(best).0);
            }
        }
        picked.extend(rest.into_iter().map(|(tool, _)| tool));
        picked.truncate(limit);
        picked
    }
}

/// Returns the score of each tool for a clause of the query: the sum of those for its terms. `guesses`: see
/// [`InvertedIndex::score`].
fn clause_scores(
    clause: &[QueryTerm],
    index: &InvertedIndex,
    tool_count: usize,
    guesses: &mut usize,
) -> Vec<f32> {
    let mut sums = vec![0.0; tool_count];
    let mut scores = vec![0.0; tool_count];
    let mut seen: HashSet<&str> = HashSet::new();
    for term in clause {
        if !seen.insert(&term.text) {
            continue;
        }
        index.score(term, guesses, &mut scores);
        sums.iter_mut().zip(&scores).for_each(|(sum, score)| *sum += score);
    }
    sums
}

/// Returns the position of the greatest value; of equal ones the first.
pub(crate) fn position_of_max(values: impl Iterator<Item = f32>) -> Option<usize> {
    let mut best: Option<(usize, f32)> = None;
    for (position, value) in values.enumerate() {
        if best.is_none_or(|(_, max)| value > max) {
            best = Some((position, value));
        }
    }
    best.map(|(position, _)| position)
}

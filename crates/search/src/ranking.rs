//! Ranks tools for a query.
//!
//! A query may name several steps, so the tools are picked one by one, in the manner of maximal marginal relevance: a
//! clause that a picked tool answers counts less for the next pick, and so does a group that has a picked tool. If the
//! query says that one thing comes after another, the first places go to the best tool of each step, in their order.

use super::inverted_index::InvertedIndex;
use super::query::{Clause, QueryTerm};
use super::tuning::{
    ANSWERED_CLAUSE_FACTOR, CLAUSE_EXPONENT, GROUP_SHARE, REPEATED_GROUP_FACTOR, WHOLE_QUERY_SHARE,
};
use std::ops::Range;

/// Scores tools for the clauses of a query.
pub(crate) struct Ranker<'a> {
    /// The group of each tool.
    groups: &'a [usize],
    /// For each clause, the score of each tool.
    clause_scores: Vec<Vec<f32>>,
    /// The score of each group: the sum of the best scores that its tools have for each term. The terms of a task occur
    /// in one group more often than in one tool.
    group_scores: Vec<f32>,
    /// For each step, its first clause.
    step_starts: Vec<usize>,
}

impl<'a> Ranker<'a> {
    /// Creates a ranker for tools, given the group of each.
    pub(crate) fn new(groups: &'a [usize]) -> Self {
        let count = groups.iter().max().map_or(0, |last| last + 1);
        Self { groups, clause_scores: Vec::new(), group_scores: vec![0.0; count], step_starts: Vec::new() }
    }

    /// Adds a step of the query, after those that were added before.
    pub(crate) fn add_step(&mut self, clauses: &[Clause], index: &InvertedIndex) {
        self.step_starts.push(self.clause_scores.len());
        clauses.iter().for_each(|clause| self.add_clause(clause, index));
    }

    /// Adds a clause of the query.
    fn add_clause(&mut self, terms: &[QueryTerm], index: &InvertedIndex) {
        let mut sums = vec![0.0; self.groups.len()];
        let mut scores = vec![0.0; self.groups.len()];
        let mut best = vec![0.0_f32; self.group_scores.len()];
        let mut seen: Vec<&str> = Vec::new();
        for term in terms {
            if seen.contains(&term.text.as_str()) {
                continue;
            }
            seen.push(&term.text);
            index.score(term, &mut scores);
            best.fill(0.0);
            for ((sum, score), group) in sums.iter_mut().zip(&scores).zip(self.groups) {
                *sum += score;
                best[*group] = best[*group].max(*score);
            }
            self.group_scores.iter_mut().zip(&best).for_each(|(sum, best)| *sum += best);
        }
        self.clause_scores.push(sums);
    }

    /// Returns whether no tool has a score for the steps that were added.
    pub(crate) fn is_empty(&self) -> bool {
        self.clause_scores.iter().flatten().all(|score| *score <= 0.0)
    }

    /// Picks the best `limit` tools among those in scope, in the order in which they are shown. Tools without a score
    /// are not picked.
    pub(crate) fn best(&self, limit: usize, is_in_scope: impl Fn(usize) -> bool) -> Vec<usize> {
        let candidates: Vec<usize> = (0..self.groups.len())
            .filter(|&tool| is_in_scope(tool) && self.whole_score(tool) > 0.0)
            .collect();
        let clauses = self.candidate_scores(&candidates);
        let mut clause_weights = vec![1.0_f32; clauses.len()];
        let mut group_weights = vec![1.0_f32; self.group_scores.len()];
        let mut remaining: Vec<usize> = (0..candidates.len()).collect();
        let mut picked = Vec::new();
        // Each step has a place before the second best tool of any other.
        let mut steps = self.steps().into_iter();
        while picked.len() < limit && !remaining.is_empty() {
            let next = steps.next();
            let is_step = next.is_some();
            let step = next.unwrap_or(0..clauses.len());
            let gain = |i: usize| {
                let of_step = step.clone().map(|clause| clauses[clause][i] * clause_weights[clause]);
                of_step.sum::<f32>() * group_weights[self.groups[candidates[i]]]
            };
            let Some(best) = position_of_max(remaining.iter().map(|&i| gain(i))) else { break };
            if is_step && gain(remaining[best]) <= 0.0 {
                continue;
            }
            let i = remaining.remove(best);
            picked.push(candidates[i]);
            group_weights[self.groups[candidates[i]]] *= REPEATED_GROUP_FACTOR;
            let answered = clauses.iter().zip(&clause_weights).map(|(clause, weight)| clause[i] * weight);
            if let Some(clause) = position_of_max(answered) {
                clause_weights[clause] *= ANSWERED_CLAUSE_FACTOR.powf(CLAUSE_EXPONENT);
            }
        }
        picked
    }

    /// Returns the clauses of each step, if there are several steps.
    fn steps(&self) -> Vec<Range<usize>> {
        let ends = self.step_starts.iter().skip(1).copied().chain([self.clause_scores.len()]);
        match self.step_starts.len() {
            0..=1 => Vec::new(),
            _ => self.step_starts.iter().zip(ends).map(|(&start, end)| start..end).collect(),
        }
    }

    /// Returns the score of a tool for the whole query.
    fn whole_score(&self, tool: usize) -> f32 {
        self.clause_scores.iter().map(|clause| clause[tool]).sum()
    }

    /// For each clause, the score of each candidate, raised by its scores for the whole query and by its group's.
    fn candidate_scores(&self, candidates: &[usize]) -> Vec<Vec<f32>> {
        let bonus = |tool: usize| {
            let sum = WHOLE_QUERY_SHARE * self.whole_score(tool)
                + GROUP_SHARE * self.group_scores[self.groups[tool]];
            sum / self.clause_scores.len() as f32
        };
        let bonuses: Vec<f32> = candidates.iter().map(|&tool| bonus(tool)).collect();
        let score = |clause: &[f32], tool: usize, bonus: f32| match clause[tool] > 0.0 {
            true => (clause[tool] + bonus).powf(CLAUSE_EXPONENT),
            false => 0.0,
        };
        let scores = |clause: &Vec<f32>| {
            candidates.iter().zip(&bonuses).map(|(&tool, &bonus)| score(clause, tool, bonus)).collect()
        };
        self.clause_scores.iter().map(scores).collect()
    }
}

/// Returns the position of the greatest value. Of equal values the first counts, so that they keep the order of the
/// config.
pub(crate) fn position_of_max(values: impl Iterator<Item = f32>) -> Option<usize> {
    let mut best: Option<(usize, f32)> = None;
    for (position, value) in values.enumerate() {
        if best.is_none_or(|(_, max)| value > max) {
            best = Some((position, value));
        }
    }
    best.map(|(position, _)| position)
}

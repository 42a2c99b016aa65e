//! Which tools come first.
//!
//! A query may name several steps, so what is found is chosen one by one: a clause that a tool has answered counts
//! less for what comes next, and so does a group that was found.

use super::query::Word;
use super::tuning::Tuning;
use super::vocabulary::Vocabulary;

pub struct Ranking<'a> {
    tuning: &'a Tuning,
    /// Each tool's group.
    groups: &'a [usize],
    /// For each clause, what each tool gets.
    clauses: Vec<Vec<f32>>,
    /// What each group gets, by the best of its tools for each word: the words of a task meet in one group more often
    /// than in one tool.
    coherence: Vec<f32>,
}

impl<'a> Ranking<'a> {
    pub fn new(groups: &'a [usize], tuning: &'a Tuning) -> Self {
        let count = groups.iter().max().map_or(0, |last| last + 1);
        Self { tuning, groups, clauses: Vec::new(), coherence: vec![0.0; count] }
    }

    pub fn add_clause(&mut self, words: &[Word], vocabulary: &Vocabulary) {
        let mut sum = vec![0.0; self.groups.len()];
        let mut scores = vec![0.0; self.groups.len()];
        let mut best = vec![0.0_f32; self.coherence.len()];
        let mut seen: Vec<&str> = Vec::new();
        for word in words {
            if seen.contains(&word.text.as_str()) {
                continue;
            }
            seen.push(&word.text);
            vocabulary.score(word, self.tuning, &mut scores);
            best.fill(0.0);
            for ((sum, score), group) in sum.iter_mut().zip(&scores).zip(self.groups) {
                *sum += score;
                best[*group] = best[*group].max(*score);
            }
            self.coherence.iter_mut().zip(&best).for_each(|(sum, best)| *sum += best);
        }
        self.clauses.push(sum);
    }

    /// The best `limit` tools of those that may be found.
    pub fn best(&self, limit: usize, may: impl Fn(usize) -> bool) -> Vec<usize> {
        let tuning = self.tuning;
        let whole = |at: usize| self.clauses.iter().map(|clause| clause[at]).sum::<f32>();
        let candidates: Vec<usize> =
            (0..self.groups.len()).filter(|&at| may(at) && whole(at) > 0.0).collect();
        let context = |at: usize| {
            let lent = tuning.whole * whole(at) + tuning.group * self.coherence[self.groups[at]];
            lent / self.clauses.len() as f32
        };
        let context: Vec<f32> = candidates.iter().map(|&at| context(at)).collect();
        let score = |clause: &Vec<f32>, at: usize, context: f32| match clause[at] > 0.0 {
            true => (clause[at] + context).powf(tuning.power),
            false => 0.0,
        };
        let scores =
            |clause| candidates.iter().zip(&context).map(move |(&at, &context)| score(clause, at, context));
        let clauses: Vec<Vec<f32>> = self.clauses.iter().map(|clause| scores(clause).collect()).collect();

        let mut open = vec![1.0_f32; clauses.len()];
        let mut fresh = vec![1.0_f32; self.coherence.len()];
        let mut left: Vec<usize> = (0..candidates.len()).collect();
        let mut found = Vec::new();
        while found.len() < limit && !left.is_empty() {
            let gain = |i: usize| {
                let sum: f32 = clauses.iter().zip(&open).map(|(clause, open)| clause[i] * open).sum();
                sum * fresh[self.groups[candidates[i]]]
            };
            let Some(place) = first_most(left.iter().map(|&i| gain(i))) else { break };
            let i = left.remove(place);
            found.push(candidates[i]);
            fresh[self.groups[candidates[i]]] *= tuning.again;
            if let Some(clause) = first_most(clauses.iter().zip(&open).map(|(clause, open)| clause[i] * open))
            {
                open[clause] *= tuning.answered.powf(tuning.power);
            }
        }
        found
    }
}

/// Where the greatest value stands, the first of several: equals keep the order of the config.
fn first_most(values: impl Iterator<Item = f32>) -> Option<usize> {
    let mut best: Option<(usize, f32)> = None;
    for (at, value) in values.enumerate() {
        if best.is_none_or(|(_, most)| value > most) {
            best = Some((at, value));
        }
    }
    best.map(|(at, _)| at)
}

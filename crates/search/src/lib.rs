//! Ranked search for tools by a description of their purpose.
//!
//! # Theory of operation
//!
//! The search is lexical and in memory: no model, no network, no clock. A tool is a [`document`] of five fields: its
//! name, its description and its parameters, and its group's name and description. The `tokenizer` cuts their texts
//! into terms (folded, stemmed, identifiers split), and the `inverted_index` maps terms to tools, weighted by BM25F.
//!
//! A `query` is its terms without stop words, and BM25F adds up what they give to each tool. A term also finds its
//! `synonyms` and, if no tool has any of them, words that look like it. Tools that the query calls by name come first,
//! then, if it asks for several steps one after another, the best tool of each. The weights are in `tuning`;
//! `cargo bench --bench search` measures the result.
//!
//! # Invariants
//!
//! - The result depends only on the tools and the query. Tools with equal scores keep the order of the config.
//! - A large catalog or a long query is cut at a limit and never refused.
//!
//! ```no_run
//! let definition = br#"{"name": "create_issue", "description": "Opens an issue"}"#.as_slice();
//! let tools = vec![("create_issue", definition)];
//! let group = search::SearchGroup { name: "github", description: String::new(), tools };
//! let hits = search::SearchIndex::new(&[group]).search("report a bug", None, 5);
//! println!("{hits:?}");
//! ```

use document::{Analyzer, Document, Field};
use inverted_index::InvertedIndex;
use std::collections::HashSet;
use tokenizer::name_key;
use tuning::MAX_GUESSED_TERMS;

pub mod document;
pub mod inverted_index;
pub mod query;
pub mod synonyms;
pub mod tokenizer;
pub mod tuning;

#[cfg(test)]
mod tests;

/// How many terms the tools of one group share, so that no group fills the memory. Larger groups are searched by the
/// beginnings of their definitions.
const MAX_GROUP_TERMS: usize = 300_000;

/// A group whose tools are indexed.
pub struct SearchGroup<'a> {
    /// The group's name.
    pub name: &'a str,
    /// The description of the group by the config or its server.
    pub description: String,
    /// The names and definitions of its tools.
    pub tools: Vec<(&'a str, &'a [u8])>,
}

/// A tool that was found, by its position in the groups that were indexed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hit {
    /// The index of the group.
    pub group: usize,
    /// The index of the tool in its group.
    pub tool: usize,
}

/// An index of tools.
#[derive(Default)]
pub struct SearchIndex {
    /// The tools in the order of the config. Their positions are the documents' numbers.
    tools: Vec<IndexedTool>,
    terms: InvertedIndex,
}

struct IndexedTool {
    hit: Hit,
    name: String,
    /// The key of the name.
    key: String,
    /// The key of the group's name and the tool's name together.
    qualified_key: String,
}

/// How a query calls a tool by name. Better matches come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum NameMatch {
    /// The query is the name.
    Exact,
    /// The query is the name in another spelling.
    Key,
    /// An identifier in the query is the name.
    Mention,
}

impl SearchIndex {
    /// Indexes the tools of all groups. Reads only the beginnings of the definitions of a group that exceeds
    /// `MAX_GROUP_TERMS`.
    pub fn new(groups: &[SearchGroup<'_>]) -> Self {
        let mut analyzer = Analyzer::default();
        let mut tools = Vec::new();
        let mut documents: Vec<Document> = Vec::new();
        for (group_index, group) in groups.iter().enumerate() {
            let (name, description) = (analyzer.terms(group.name), analyzer.terms(&group.description));
            let group_key = name_key(group.name);
            let max_terms = MAX_GROUP_TERMS / group.tools.len().max(1);
            for (tool_index, (tool, definition)) in group.tools.iter().enumerate() {
                let mut document = analyzer.document(tool, definition, max_terms);
                document[Field::GroupName as usize].clone_from(&name);
                document[Field::GroupDescription as usize].clone_from(&description);
                documents.push(document);
                let key = name_key(tool);
                let qualified_key = format!("{group_key}{key}");
                let hit = Hit { group: group_index, tool: tool_index };
                tools.push(IndexedTool { hit, name: (*tool).to_owned(), key, qualified_key });
            }
        }
        let terms = InvertedIndex::new(&documents, analyzer);
        Self { tools, terms }
    }

    /// Returns the best tools for a query, the best first and at most `limit`. With `group`, an index in the groups
    /// that were indexed, only tools of that group. Tools that the query calls by name come first, then the best tool
    /// of each step. Tools without a match are left out, and of equal scores the first counts.
    pub fn search(&self, query: &str, group: Option<usize>, limit: usize) -> Vec<Hit> {
        let is_in_scope = |tool: &usize| group.is_none_or(|group| self.tools[*tool].hit.group == group);
        let mut found: Vec<usize> = self.named_tools(query).into_iter().filter(is_in_scope).collect();
        let mut guesses = MAX_GUESSED_TERMS;
        let steps: Vec<Vec<f32>> =
            query::steps(query).iter().map(|terms| self.terms.scores(terms, &mut guesses)).collect();
        let score = |tool: &usize| steps.iter().map(|scores| scores[*tool]).sum::<f32>();
        let mut rest: Vec<usize> = (0..self.tools.len()).filter(is_in_scope).collect();
        rest.retain(|tool| !found.contains(tool) && score(tool) > 0.0);
        rest.sort_by(|a, b| score(b).total_cmp(&score(a)));
        for scores in steps.iter().filter(|_| steps.len() > 1) {
            let best = (0..rest.len()).min_by(|a, b| scores[rest[*b]].total_cmp(&scores[rest[*a]]));
            found.extend(best.filter(|best| scores[rest[*best]] > 0.0).map(|best| rest.remove(best)));
        }
        found.append(&mut rest);
        found.truncate(limit);
        found.into_iter().map(|tool| self.tools[tool].hit).collect()
    }

    /// The tools that the query calls by name.
    fn named_tools(&self, query: &str) -> Vec<usize> {
        let query = query.trim();
        let query_key = name_key(query);
        let mentions: HashSet<String> =
            query.split_whitespace().filter(|word| is_identifier(word)).map(name_key).collect();
        let name_match = |tool: &IndexedTool| match () {
            () if tool.name.trim() == query => Some(NameMatch::Exact),
            () if tool.key.is_empty() => None,
            () if tool.key == query_key || tool.qualified_key == query_key => Some(NameMatch::Key),
            () => (mentions.contains(&tool.key) || mentions.contains(&tool.qualified_key))
                .then_some(NameMatch::Mention),
        };
        let tools = self.tools.iter().enumerate();
        let mut named: Vec<(NameMatch, usize)> =
            tools.filter_map(|(index, tool)| Some((name_match(tool)?, index))).collect();
        named.sort_unstable();
        named.into_iter().map(|(_, index)| index).collect()
    }
}

/// Whether a word is written like an identifier: `snake_case` or `camelCase`.
fn is_identifier(word: &str) -> bool {
    let inside = word.trim_matches(|c: char| !c.is_alphanumeric());
    let is_case_boundary = |(a, b): (char, char)| a.is_lowercase() && b.is_uppercase();
    inside.contains('_') || inside.chars().zip(inside.chars().skip(1)).any(is_case_boundary)
}

//! Which tools do what somebody describes: ranked search over names, descriptions and parameters.
//!
//! Lexical and in memory: no model, no network, no clock. `document` says what of a tool is searched, `words` what a
//! word is, `concepts` which words stand for others, `vocabulary` which known words a query's word may mean, `query`
//! which steps a query names, `ranking` which tools come first, by the numbers in `tuning`.

use document::{Document, Field, Lexicon};
use ranking::Ranking;
use tuning::{TUNING, Tuning};
use vocabulary::Vocabulary;
use words::key;

pub mod concepts;
pub mod document;
pub mod query;
pub mod ranking;
pub mod tuning;
pub mod vocabulary;
pub mod words;

#[cfg(test)]
mod tests;

/// A group whose tools are to be found.
pub struct Group<'a> {
    pub name: &'a str,
    /// What the config or the server says of it.
    pub about: String,
    /// Names and definitions.
    pub tools: Vec<(&'a str, &'a [u8])>,
}

/// A tool, by its place in what the index was made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hit {
    pub group: usize,
    pub tool: usize,
}

/// All tools, ready to be searched.
pub struct Index {
    /// In config order, which decides between equals.
    tools: Vec<Entry>,
    /// Each tool's group.
    groups: Vec<usize>,
    vocabulary: Vocabulary,
    tuning: Tuning,
}

struct Entry {
    at: Hit,
    name: String,
    /// The name, and group and name, however their words are joined.
    key: String,
    full: String,
}

impl Index {
    pub fn new(groups: &[Group<'_>]) -> Self {
        Self::tuned(groups, TUNING)
    }

    /// With other numbers than ours, to try them out.
    pub fn tuned(groups: &[Group<'_>], tuning: Tuning) -> Self {
        let mut lexicon = Lexicon::default();
        let mut tools = Vec::new();
        let mut documents: Vec<Document> = Vec::new();
        for (group_at, group) in groups.iter().enumerate() {
            let (name, about) = (lexicon.read(group.name), lexicon.read(&group.about));
            let prefix = key(group.name);
            for (tool_at, (tool, definition)) in group.tools.iter().enumerate() {
                let mut document = lexicon.document(tool, definition);
                document[Field::Group as usize].clone_from(&name);
                document[Field::About as usize].clone_from(&about);
                documents.push(document);
                let key = key(tool);
                let full = format!("{prefix}{key}");
                let at = Hit { group: group_at, tool: tool_at };
                tools.push(Entry { at, name: (*tool).to_owned(), key, full });
            }
        }
        let vocabulary = Vocabulary::new(&documents, lexicon, &tuning);
        let groups = tools.iter().map(|tool| tool.at.group).collect();
        Self { tools, groups, vocabulary, tuning }
    }

    /// The best tools for a query, best first; of one group alone if `group` is given.
    pub fn search(&self, query: &str, group: Option<usize>, limit: usize) -> Vec<Hit> {
        let within = |at: usize| group.is_none_or(|group| self.groups[at] == group);
        let mut found = self.called(query);
        found.retain(|&at| within(at));
        found.truncate(limit);
        let mut ranking = Ranking::new(&self.groups, &self.tuning);
        for clause in query::clauses(query, &self.tuning) {
            ranking.add_clause(&clause, &self.vocabulary);
        }
        let others = ranking.best(limit - found.len(), |at| within(at) && !found.contains(&at));
        found.extend(others);
        found.into_iter().map(|at| self.tools[at].at).collect()
    }

    /// Tools that the query calls by name: all of it is the name, or the name is written as only names are.
    fn called(&self, query: &str) -> Vec<usize> {
        let query = query.trim();
        let whole = key(query);
        let mentions: Vec<String> = query.split_whitespace().filter(|w| is_identifier(w)).map(key).collect();
        let how = |tool: &Entry| {
            let is = |name: &String| tool.key == *name || tool.full == *name;
            match () {
                () if tool.name.trim() == query => Some(0),
                () if tool.key.is_empty() => None,
                () if is(&whole) => Some(1),
                () => mentions.iter().any(is).then_some(2),
            }
        };
        let tools = self.tools.iter().enumerate();
        let mut called: Vec<(u8, usize)> = tools.filter_map(|(at, tool)| Some((how(tool)?, at))).collect();
        called.sort_unstable();
        called.into_iter().map(|(_, at)| at).collect()
    }
}

/// Whether a word looks like a name in a program.
fn is_identifier(word: &str) -> bool {
    let inside = word.trim_matches(|c: char| !c.is_alphanumeric());
    let rises = |(a, b): (char, char)| a.is_lowercase() && b.is_uppercase();
    inside.contains('_') || inside.chars().zip(inside.chars().skip(1)).any(rises)
}

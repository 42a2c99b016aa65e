//! Records with ids, kept in memory, and what all three kinds of server do with them.

use serde_json::{Map, Value, json};

pub(super) type Record = Map<String, Value>;

/// What a tool answers: a value, or what is wrong with the call.
pub(super) type Outcome = Result<Value, String>;

pub(super) struct Records {
    /// What one of them is called; also what ids begin with.
    noun: &'static str,
    last: u64,
    items: Vec<Record>,
}

impl Records {
    pub(super) fn new(noun: &'static str, examples: Value) -> Self {
        let mut records = Self { noun, last: 0, items: Vec::new() };
        for example in examples.as_array().into_iter().flatten().filter_map(Value::as_object) {
            records.add(example.clone());
        }
        records
    }

    pub(super) fn add(&mut self, fields: Record) -> Value {
        self.last += 1;
        let mut record =
            Record::from_iter([("id".to_owned(), json!(format!("{}-{}", self.noun, self.last)))]);
        record.extend(fields);
        self.items.push(record.clone());
        record.into()
    }

    pub(super) fn all(&self) -> impl DoubleEndedIterator<Item = &Record> {
        self.items.iter()
    }

    /// The one whose id is among `args`.
    pub(super) fn find(&mut self, args: &Record) -> Result<&mut Record, String> {
        let at = self.position(args)?;
        Ok(&mut self.items[at])
    }

    /// Sets every field that `args` has.
    pub(super) fn update(&mut self, args: Record) -> Outcome {
        let record = self.find(&args)?;
        record.extend(args);
        Ok(record.clone().into())
    }

    pub(super) fn delete(&mut self, args: &Record) -> Outcome {
        let at = self.position(args)?;
        let gone = self.items.remove(at);
        Ok(json!({ "deleted": gone["id"], "title": gone["title"] }))
    }

    fn position(&self, args: &Record) -> Result<usize, String> {
        let id = text(args, "id");
        let found = self.items.iter().position(|record| text(record, "id") == id);
        found.ok_or_else(|| format!("there is no {} with the id {id:?}", self.noun))
    }

    /// Each value that `values` finds, and how often, in the order of first mention.
    pub(super) fn count<'a>(&'a self, values: impl Fn(&'a Record) -> Vec<&'a str>) -> Vec<(&'a str, usize)> {
        let mut counts: Vec<(&str, usize)> = Vec::new();
        for value in self.items.iter().flat_map(values) {
            match counts.iter_mut().find(|(known, _)| *known == value) {
                Some((_, n)) => *n += 1,
                None => counts.push((value, 1)),
            }
        }
        counts
    }
}

/// The field as text; empty where there is none.
pub(super) fn text<'a>(record: &'a Record, field: &str) -> &'a str {
    record.get(field).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn texts<'a>(record: &'a Record, field: &str) -> Vec<&'a str> {
    record.get(field).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Sets `field` if the caller did not.
pub(super) fn default(record: &mut Record, field: &str, value: impl Into<Value>) {
    record.entry(field).or_insert_with(|| value.into());
}

/// Whether `record` has the value that `args` asks for, if they ask for one.
pub(super) fn matches(record: &Record, args: &Record, field: &str) -> bool {
    args.get(field).is_none_or(|wanted| record.get(field) == Some(wanted))
}

/// Whether each word of `query` is in one of the fields.
pub(super) fn has_words(record: &Record, query: &str, fields: &[&str]) -> bool {
    let values = fields.iter().filter_map(|field| record.get(*field));
    let all = values.map(|value| value.to_string().to_lowercase()).collect::<Vec<_>>().join(" ");
    query.to_lowercase().split_whitespace().all(|word| all.contains(word))
}

/// The first records, as many as `args` allow.
pub(super) fn first(records: Vec<Value>, args: &Record, default: u64) -> Vec<Value> {
    let limit = args.get("limit").and_then(Value::as_u64).unwrap_or(default);
    records.into_iter().take(usize::try_from(limit).unwrap_or(usize::MAX)).collect()
}

/// Some of the fields of a record.
pub(super) fn pick(record: &Record, fields: &[&str]) -> Value {
    let chosen = fields.iter().filter_map(|field| Some(((*field).to_owned(), record.get(*field)?.clone())));
    chosen.collect::<Record>().into()
}

//! The server of kind `notes`.

use super::records::{Outcome, Record, Records, default, first, has_words, matches, pick, text, texts};
use serde_json::{Value, json};

/// Characters of a body that lists show.
const EXCERPT: usize = 80;

pub(super) struct Notes(Records);

impl Notes {
    pub(super) fn new() -> Self {
        Self(Records::new(
            "note",
            json!([
                {"title": "Reading list", "body": "- The Design of Everyday Things\n- A Pattern Language",
                 "notebook": "Personal", "tags": ["books"]},
                {"title": "Offsite: ideas", "body": "Budget 4,000. Ask Ana about the cabin by the lake.",
                 "notebook": "Work", "tags": ["offsite", "idea"]},
                {"title": "Standing desk", "body": "Height 112 cm standing, 71 cm sitting.",
                 "notebook": "Personal", "tags": []},
            ]),
        ))
    }
}

impl super::Service for Notes {
    fn call(&mut self, tool: &str, args: Record) -> Option<Outcome> {
        let notes = &mut self.0;
        Some(match tool {
            "add_note" => Ok(add(notes, args)),
            "get_note" => notes.find(&args).map(|note| note.clone().into()),
            "list_notes" => Ok(list(notes, &args)),
            "search_notes" => Ok(search(notes, &args)),
            "update_note" | "move_note" => notes.update(args),
            "append_to_note" => append(notes, &args),
            "delete_note" => notes.delete(&args),
            "list_tags" => Ok(tags(notes)),
            _ => return None,
        })
    }
}

fn add(notes: &mut Records, mut note: Record) -> Value {
    default(&mut note, "notebook", "Inbox");
    default(&mut note, "tags", json!([]));
    notes.add(note)
}

fn list(notes: &Records, args: &Record) -> Value {
    let wanted = |note: &&Record| {
        let tagged =
            args.get("tag").and_then(Value::as_str).is_none_or(|tag| texts(note, "tags").contains(&tag));
        tagged && matches(note, args, "notebook")
    };
    let mut found: Vec<&Record> = notes.all().filter(wanted).collect();
    match text(args, "sort_by") {
        "oldest" => {}
        "title" => found.sort_by_key(|note| text(note, "title").to_lowercase()),
        _ => found.reverse(),
    }
    json!({ "notes": first(found.into_iter().map(excerpt).collect(), args, 20) })
}

fn search(notes: &Records, args: &Record) -> Value {
    let query = text(args, "query");
    let hit = |note: &&Record| {
        matches(note, args, "notebook") && has_words(note, query, &["title", "body", "tags"])
    };
    json!({ "notes": first(notes.all().rev().filter(hit).map(excerpt).collect(), args, 10) })
}

fn excerpt(note: &Record) -> Value {
    let mut short = pick(note, &["id", "title", "notebook", "tags"]);
    short["excerpt"] = text(note, "body").chars().take(EXCERPT).collect::<String>().into();
    short
}

fn append(notes: &mut Records, args: &Record) -> Outcome {
    let note = notes.find(args)?;
    let heading = match text(args, "heading") {
        "" => String::new(),
        heading => format!("\n## {heading}"),
    };
    let body = format!("{}{heading}\n{}", text(note, "body"), text(args, "text"));
    note.insert("body".to_owned(), body.into());
    Ok(note.clone().into())
}

fn tags(notes: &Records) -> Value {
    let mut counts = notes.count(|note| texts(note, "tags"));
    counts.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let tags: Vec<_> = counts.into_iter().map(|(tag, n)| json!({ "tag": tag, "notes": n })).collect();
    json!({ "tags": tags })
}

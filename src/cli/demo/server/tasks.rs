//! The server of kind `tasks`.

use super::records::{Outcome, Record, Records, default, first, matches, text, texts};
use serde_json::{Value, json};

pub(super) struct Tasks(Records);

impl Tasks {
    pub(super) fn new() -> Self {
        Self(Records::new(
            "task",
            json!([
                {"title": "Book the cabin for the offsite", "project": "Offsite", "due": "2026-03-06",
                 "priority": "high", "labels": ["phone"], "status": "open", "comments": []},
                {"title": "Renew the library card", "project": "Inbox", "priority": "low",
                 "labels": [], "status": "open", "comments": []},
                {"title": "Send the invitations", "project": "Offsite", "due": "2026-02-20",
                 "priority": "normal", "labels": [], "status": "done", "comments": ["All 12 sent."]},
            ]),
        ))
    }
}

impl super::Service for Tasks {
    fn call(&mut self, tool: &str, args: Record) -> Option<Outcome> {
        let tasks = &mut self.0;
        Some(match tool {
            "add_task" => Ok(add(tasks, args)),
            "list_tasks" => Ok(list(tasks, &args)),
            "get_task" => tasks.find(&args).map(|task| task.clone().into()),
            "update_task" => update(tasks, args),
            "complete_task" => set_status(tasks, &args, "done"),
            "reopen_task" => set_status(tasks, &args, "open"),
            "add_comment" => tasks.find(&args).map(|task| comment(task, text(&args, "text"))),
            "delete_task" => tasks.delete(&args),
            "list_projects" => Ok(projects(tasks)),
            _ => return None,
        })
    }
}

fn add(tasks: &mut Records, mut task: Record) -> Value {
    default(&mut task, "project", "Inbox");
    default(&mut task, "priority", "normal");
    default(&mut task, "labels", json!([]));
    default(&mut task, "status", "open");
    default(&mut task, "comments", json!([]));
    tasks.add(task)
}

fn update(tasks: &mut Records, args: Record) -> Outcome {
    let task = tasks.find(&args)?;
    task.extend(args);
    if text(task, "due").is_empty() {
        task.shift_remove("due");
    }
    Ok(task.clone().into())
}

fn list(tasks: &Records, args: &Record) -> Value {
    let status = args.get("status").and_then(Value::as_str).unwrap_or("open");
    let wanted = |task: &&Record| {
        let due = text(task, "due");
        (status == "all" || text(task, "status") == status)
            && matches(task, args, "project")
            && matches(task, args, "priority")
            && args
                .get("label")
                .and_then(Value::as_str)
                .is_none_or(|label| texts(task, "labels").contains(&label))
            && (!args.contains_key("due_before") || (!due.is_empty() && due < text(args, "due_before")))
    };
    let mut found: Vec<&Record> = tasks.all().filter(wanted).collect();
    found.sort_by_key(|task| (text(task, "due").is_empty(), text(task, "due")));
    let found = found.into_iter().map(|task| Value::from(task.clone())).collect();
    json!({ "tasks": first(found, args, 50) })
}

fn set_status(tasks: &mut Records, args: &Record, status: &str) -> Outcome {
    let task = tasks.find(args)?;
    task.insert("status".to_owned(), status.into());
    Ok(match text(args, "comment") {
        "" => task.clone().into(),
        closing => comment(task, closing),
    })
}

fn comment(task: &mut Record, comment: &str) -> Value {
    default(task, "comments", json!([]));
    if let Some(comments) = task.get_mut("comments").and_then(Value::as_array_mut) {
        comments.push(comment.into());
    }
    task.clone().into()
}

fn projects(tasks: &Records) -> Value {
    let names = tasks.count(|task| vec![text(task, "project")]);
    let projects = names.into_iter().map(|(name, all)| {
        let of_it = tasks.all().filter(|task| text(task, "project") == name);
        let done = of_it.filter(|task| text(task, "status") == "done").count();
        json!({ "project": name, "open": all - done, "done": done })
    });
    json!({ "projects": projects.collect::<Vec<_>>() })
}

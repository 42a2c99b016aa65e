//! The server of kind `calendar`. Times are text such as "2026-03-02T09:30", which sorts as it should.

use super::records::{Outcome, Record, Records, default, first, has_words, matches, pick, text};
use serde_json::{Value, json};

pub(super) struct Calendar(Records);

impl Calendar {
    pub(super) fn new() -> Self {
        Self(Records::new(
            "event",
            json!([
                {"title": "Planning", "start": "2026-03-02T09:30", "end": "2026-03-02T10:30", "calendar": "Work",
                 "location": "Room 2", "attendees": [{"email": "ana@example.com"}], "reminder_minutes": 10},
                {"title": "Dentist", "start": "2026-03-02T14:00", "end": "2026-03-02T14:45",
                 "calendar": "Personal", "attendees": [], "reminder_minutes": 60},
                {"title": "Offsite", "start": "2026-03-12T08:00", "end": "2026-03-13T18:00", "calendar": "Work",
                 "location": "Cabin by the lake", "attendees": [], "reminder_minutes": 1440},
            ]),
        ))
    }
}

impl super::Service for Calendar {
    fn call(&mut self, tool: &str, args: Record) -> Option<Outcome> {
        let events = &mut self.0;
        Some(match tool {
            "add_event" => add(events, args),
            "list_events" => Ok(list(events, &args)),
            "get_event" => events.find(&args).map(|event| event.clone().into()),
            "search_events" => Ok(search(events, &args)),
            "find_free_time" => free_time(events, &args),
            "update_event" => update(events, args),
            "respond_to_invitation" => respond(events, &args),
            "delete_event" => events.delete(&args),
            "list_calendars" => Ok(calendars(events)),
            _ => return None,
        })
    }
}

fn add(events: &mut Records, mut event: Record) -> Outcome {
    in_order(&event)?;
    default(&mut event, "calendar", "Personal");
    default(&mut event, "attendees", json!([]));
    default(&mut event, "reminder_minutes", 10);
    Ok(events.add(event))
}

fn update(events: &mut Records, args: Record) -> Outcome {
    let mut changed = events.find(&args)?.clone();
    changed.extend(args.clone());
    in_order(&changed)?;
    events.update(args)
}

fn in_order(event: &Record) -> Result<(), String> {
    let ordered = text(event, "start") < text(event, "end");
    ordered.then_some(()).ok_or_else(|| "\"end\" must be after \"start\"".to_owned())
}

fn list(events: &Records, args: &Record) -> Value {
    let (from, to) = (text(args, "from"), text(args, "to"));
    let wanted = |event: &&Record| touches(event, from, to) && matches(event, args, "calendar");
    let mut found: Vec<&Record> = events.all().filter(wanted).collect();
    found.sort_by_key(|event| text(event, "start"));
    json!({ "events": first(found.into_iter().map(summary).collect(), args, 50) })
}

/// Whether any of it is on one of these days.
fn touches(event: &Record, from: &str, to: &str) -> bool {
    let day = |field| text(event, field).split('T').next().unwrap_or_default();
    day("start") <= to && day("end") >= from
}

fn search(events: &Records, args: &Record) -> Value {
    let hit = |event: &&Record| has_words(event, text(args, "query"), &["title", "location", "description"]);
    json!({ "events": first(events.all().filter(hit).map(summary).collect(), args, 20) })
}

fn summary(event: &Record) -> Value {
    pick(event, &["id", "title", "start", "end", "calendar", "location"])
}

fn free_time(events: &Records, args: &Record) -> Outcome {
    let (date, wanted) =
        (text(args, "date"), args.get("duration_minutes").and_then(Value::as_u64).unwrap_or(0));
    let time =
        |field, default| format!("{date}T{}", args.get(field).and_then(Value::as_str).unwrap_or(default));
    let (mut from, latest) = (time("earliest", "09:00"), time("latest", "17:00"));
    let mut busy: Vec<_> = events.all().filter(|event| touches(event, date, date)).collect();
    busy.sort_by_key(|event| text(event, "start"));
    let mut gaps = Vec::new();
    for event in busy {
        push_gap(&mut gaps, &from, text(event, "start").min(&latest), wanted)?;
        from = from.max(text(event, "end").to_owned());
    }
    push_gap(&mut gaps, &from, &latest, wanted)?;
    Ok(json!({ "date": date, "free": gaps }))
}

/// Both ends are on the same day, or `from` is after `to`.
fn push_gap(gaps: &mut Vec<Value>, from: &str, to: &str, wanted: u64) -> Result<(), String> {
    if from < to && minutes(to)?.saturating_sub(minutes(from)?) >= wanted {
        gaps.push(json!({ "start": from, "end": to }));
    }
    Ok(())
}

fn minutes(time: &str) -> Result<u64, String> {
    let clock = time.split('T').nth(1).and_then(|clock| clock.split_once(':'));
    let parsed = clock.and_then(|(h, m)| Some(h.parse::<u64>().ok()? * 60 + m.parse::<u64>().ok()?));
    parsed.ok_or_else(|| format!("{time:?} is no time"))
}

fn respond(events: &mut Records, args: &Record) -> Outcome {
    let event = events.find(args)?;
    event.insert("response".to_owned(), text(args, "response").into());
    match text(args, "comment") {
        "" => drop(event.shift_remove("response_comment")),
        comment => drop(event.insert("response_comment".to_owned(), comment.into())),
    }
    Ok(event.clone().into())
}

fn calendars(events: &Records) -> Value {
    let counts = events.count(|event| vec![text(event, "calendar")]);
    let calendars: Vec<_> =
        counts.into_iter().map(|(name, n)| json!({ "calendar": name, "events": n })).collect();
    json!({ "calendars": calendars })
}

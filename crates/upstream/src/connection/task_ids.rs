//! The ids of MCP tasks as clients see them: the upstream's own id with the group's name in front, so that the ids of
//! several upstreams never collide. The mapping needs no state. (Tasks: 2025-11-25, and the extension of 2026-07-28.)

use config::GroupName;
use memchr::{memchr, memmem};
use wire::percent::{decode, encode};
use wire::protocol::{Era, meta};
use wire::{Raw, raw};

/// Returns the id that clients see for `id` of `group`.
pub fn exposed(group: &GroupName, id: &str) -> String {
    format!("{}:{id}", encode(group.as_str()))
}

/// Splits an id that clients see into the group and the upstream's own id. `None` if it has not the form of such an id;
/// the group need not exist.
pub fn parse(exposed: &str) -> Option<(String, &str)> {
    let (group, id) = exposed.split_once(':')?;
    Some((decode(group)?, id))
}

/// Replaces the `taskId` of an upstream's object by the id that clients see.
pub fn expose(group: &GroupName, object: &Raw) -> Raw {
    rename(object, |id| Some(exposed(group, id)))
}

/// Replaces the id of the related task in the params or the result of an upstream's message by the id that clients see.
pub fn expose_related(group: &GroupName, body: &Raw) -> Raw {
    rename_related(body, |id| Some(exposed(group, id)))
}

/// The upstream's own id of the related task in a body whose related task has the id that clients see.
pub fn related(body: &Raw) -> Option<String> {
    let task = raw::get(&raw::get(body, "_meta")?, meta::RELATED_TASK)?;
    let exposed = raw::get_str(&task, "taskId")?;
    parse(&exposed).map(|(_, id)| id.to_owned())
}

/// Replaces the id of the related task in a client's answer by the upstream's own id.
pub fn restore_related(body: &Raw) -> Raw {
    rename_related(body, |id| parse(id).map(|(_, id)| id.to_owned()))
}

/// The id, as JSON, of the task that a result of `tools/call` announces; `None` if it announces none.
pub fn created(era: Era, result: &Raw) -> Option<Raw> {
    match era {
        Era::Handshake => raw::get(&raw::get(result, "task")?, "taskId"),
        Era::Stateless => {
            let is_task = raw::get_str(result, "resultType").as_deref() == Some("task");
            raw::get(result, "taskId").filter(|_| is_task)
        }
    }
}

fn rename_related(body: &Raw, new_id: impl Fn(&str) -> Option<String>) -> Raw {
    // A related task is rare, and parsing a large body for it would be slow. A body with escapes may write the key in
    // another way.
    if memmem::find(body, meta::RELATED_TASK.as_bytes()).is_none() && memchr(b'\\', body).is_none() {
        return body.clone();
    }
    let given = raw::get(body, "_meta");
    let task = given.as_ref().and_then(|given| raw::get(given, meta::RELATED_TASK));
    match task {
        Some(task) => raw::set_in(body, "_meta", meta::RELATED_TASK, &rename(&task, new_id)),
        None => body.clone(),
    }
}

fn rename(object: &Raw, new_id: impl Fn(&str) -> Option<String>) -> Raw {
    let renamed = raw::get_str(object, "taskId").and_then(|id| new_id(&id));
    match renamed {
        Some(id) => raw::set_str(object, "taskId", &id),
        None => object.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn raw(text: &str) -> Raw {
        Raw::copy_from_slice(text.as_bytes())
    }

    #[test]
    fn only_the_related_task_of_a_message_is_renamed() {
        let group = GroupName::new("g:1");
        let body = raw(
            r#"{"x":1e400,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"a:b","y":1.0}},"taskId":"own"}"#,
        );
        let exposed = expose_related(&group, &body);
        assert_eq!(exposed, String::from_utf8_lossy(&body).replace("a:b", "g%3A1:a:b"));
        assert_eq!(restore_related(&exposed), body);
        assert_eq!(expose(&group, &raw(r#"{"taskId":3}"#)), raw(r#"{"taskId":3}"#));
    }

    #[test]
    fn the_related_task_is_renamed_however_its_key_is_written() {
        let body = raw(r#"{"_m\u0065ta":{"io.modelcontextprotocol\/related-task":{"taskId":"bank:5"}}}"#);
        let exposed = expose_related(&GroupName::new("evil"), &body);
        assert_eq!(exposed, String::from_utf8_lossy(&body).replace("bank:5", "evil:bank:5"));
    }

    proptest! {
        #[test]
        fn every_id_survives_the_round_trip(group in "\\PC{1,12}", id in "\\PC{0,20}") {
            let exposed = exposed(&GroupName::new(&group), &id);
            prop_assert_eq!(parse(&exposed), Some((group, id.as_str())));
        }
    }
}

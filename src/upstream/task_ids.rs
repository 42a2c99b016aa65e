//! Ids of tasks as clients know them: an upstream's own, with the group before it, so that those of several never meet.
//! Nothing is remembered for it. (Tasks of MCP: 2025-11-25, and the extension of 2026-07-28.)

use crate::config::GroupName;
use crate::protocol::meta;
use crate::wire::percent::{decode, encode};
use crate::wire::{Raw, raw};
use memchr::memmem;

/// `id` of `group` as clients know it.
pub fn exposed(group: &GroupName, id: &str) -> String {
    format!("{}:{id}", encode(group.as_str()))
}

/// The group of a task, and the id that it has there.
pub fn behind(exposed: &str) -> Option<(String, &str)> {
    let (group, id) = exposed.split_once(':')?;
    Some((decode(group)?, id))
}

/// `object` with its `taskId` as clients know it.
pub fn out(group: &GroupName, object: &Raw) -> Raw {
    changed(object, |id| Some(exposed(group, id)))
}

/// The params of a message of `group`, or a result, with the task that it belongs to as clients know it.
pub fn related_out(group: &GroupName, body: &Raw) -> Raw {
    related(body, |id| Some(exposed(group, id)))
}

/// An answer to `group` with the task that it belongs to as the upstream knows it.
pub fn related_back(body: &Raw) -> Raw {
    related(body, |id| behind(id).map(|(_, id)| id.to_owned()))
}

fn related(body: &Raw, rename: impl Fn(&str) -> Option<String>) -> Raw {
    // Rare, and a large body is not to be read for it.
    if memmem::find(body, meta::RELATED_TASK.as_bytes()).is_none() {
        return body.clone();
    }
    let given = raw::get(body, "_meta");
    let task = given.as_ref().and_then(|given| raw::get(given, meta::RELATED_TASK));
    match task {
        Some(task) => raw::set_in(body, "_meta", meta::RELATED_TASK, &changed(&task, rename)),
        None => body.clone(),
    }
}

fn changed(object: &Raw, rename: impl Fn(&str) -> Option<String>) -> Raw {
    let renamed = raw::get_str(object, "taskId").and_then(|id| rename(&id));
    match renamed {
        Some(id) => raw::set(object, "taskId", serde_json::Value::from(id).to_string().as_bytes()),
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
    fn the_task_of_a_message_is_renamed_and_nothing_else() {
        let group = GroupName::new("g:1");
        let body = raw(
            r#"{"x":1e400,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"a:b","y":1.0}},"taskId":"own"}"#,
        );
        let out = related_out(&group, &body);
        assert_eq!(out, String::from_utf8_lossy(&body).replace("a:b", "g%3A1:a:b"));
        assert_eq!(related_back(&out), body);
        assert_eq!(super::out(&group, &raw(r#"{"taskId":3}"#)), raw(r#"{"taskId":3}"#));
    }

    proptest! {
        #[test]
        fn every_id_comes_back(group in "\\PC{1,12}", id in "\\PC{0,20}") {
            let exposed = exposed(&GroupName::new(&group), &id);
            prop_assert_eq!(behind(&exposed), Some((group, id.as_str())));
        }
    }
}

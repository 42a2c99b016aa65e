use super::{Group, Hit, Index};
use proptest::prelude::*;
use serde_json::json;

/// Groups with what they are about, and their tools with a description and a parameter each.
type Written = Vec<(String, String, Vec<(String, String, String)>)>;

/// A tool's name, description and parameter.
type ToolText<'a> = (&'a str, &'a str, &'a str);

fn written(groups: &[(&str, &str, &[ToolText<'_>])]) -> Written {
    let own = |(name, text, parameter): &ToolText<'_>| {
        ((*name).to_owned(), (*text).to_owned(), (*parameter).to_owned())
    };
    groups
        .iter()
        .map(|(name, about, tools)| {
            ((*name).to_owned(), (*about).to_owned(), tools.iter().map(own).collect())
        })
        .collect()
}

/// An index, and the hits of it as `group/tool`.
fn index(written: &Written) -> Index {
    let definitions: Vec<Vec<String>> = written
        .iter()
        .map(|(_, _, tools)| {
            let definition = |(name, text, parameter): &(String, String, String)| {
                json!({
                    "name": name, "description": text,
                    "inputSchema": { "type": "object", "properties": { parameter: { "type": "string" } } },
                })
            };
            tools.iter().map(|tool| definition(tool).to_string()).collect()
        })
        .collect();
    let groups: Vec<Group<'_>> = written
        .iter()
        .zip(&definitions)
        .map(|((name, about, tools), definitions)| {
            let names = tools.iter().map(|(name, _, _)| name.as_str());
            let tools = names.zip(definitions.iter().map(String::as_bytes)).collect();
            Group { name, about: about.clone(), tools }
        })
        .collect();
    Index::new(&groups)
}

fn office() -> Written {
    written(&[
        (
            "mail",
            "Reads and sends electronic mail",
            &[
                ("send_message", "Sends an e-mail to somebody.", "recipient"),
                ("list_messages", "Lists the messages in a mailbox.", "mailbox"),
            ],
        ),
        (
            "calendar",
            "",
            &[
                ("createEvent", "Puts an appointment into the calendar.", "start"),
                ("deleteEvent", "Takes an appointment out of the calendar.", "event_id"),
            ],
        ),
        ("weather", "Open-Meteo", &[("get_forecast", "The weather of the next days.", "city")]),
        ("wetter-cn", "", &[("tianqi", "查询城市的天气预报", "城市")]),
        ("musée", "", &[("chercher", "Cherche des œuvres d'art dans le musée.", "requête")]),
        ("diagrams", "", &[("render_mindmap", "Renders a mindmap.", "markdown")]),
    ])
}

fn found(query: &str) -> Vec<String> {
    let office = office();
    let hits = index(&office).search(query, None, 5);
    hits.iter().map(|hit| office[hit.group].2[hit.tool].0.clone()).collect()
}

fn first(query: &str) -> String {
    found(query).first().cloned().unwrap_or_default()
}

#[test]
fn words_find_names_descriptions_and_parameters() {
    assert_eq!(first("sending mails"), "send_message");
    assert_eq!(first("the next days"), "get_forecast");
    assert_eq!(first("which mailbox"), "list_messages");
}

#[test]
fn other_words_for_the_same_find_it_too() {
    assert_eq!(first("remove a meeting"), "deleteEvent");
    assert_eq!(first("will there be rain"), "get_forecast");
    assert_eq!(first("wie wird das Wetter"), "get_forecast");
}

#[test]
fn mistakes_and_beginnings_are_understood() {
    assert_eq!(first("appointmnet delete"), "deleteEvent");
    assert_eq!(first("recip"), "send_message");
    assert_eq!(first("a mind map"), "render_mindmap");
    assert_eq!(first("mindmaprenderer"), "render_mindmap");
}

#[test]
fn a_hyphen_makes_one_word_of_two() {
    let groups = written(&[(
        "g",
        "",
        &[("do_it", "What to do, to the letter.", "to"), ("list_tasks", "Lists tasks.", "x")],
    )]);
    assert_eq!(index(&groups).search("my to-do", None, 5).first(), Some(&Hit { group: 0, tool: 1 }));
}

#[test]
fn what_is_known_is_not_taken_for_a_mistake() {
    let groups = written(&[("g", "", &[("cat", "Shows a cart.", "x"), ("card", "Shows a card.", "x")])]);
    let hits = index(&groups).search("card", None, 5);
    assert_eq!(hits, [Hit { group: 0, tool: 1 }]);
}

#[test]
fn other_scripts_and_accents_are_no_obstacle() {
    assert_eq!(first("明天的天气预报"), "tianqi");
    assert_eq!(first("oeuvres au musee"), "chercher");
}

#[test]
fn every_step_of_a_task_is_answered() {
    let found = found("look at tomorrow's weather, put a picnic into the calendar and mail it to Anna");
    for tool in ["createEvent", "send_message"] {
        assert!(found[..4].iter().any(|name| name == tool), "{found:?}");
    }
    assert!(found[..4].iter().any(|name| name == "get_forecast" || name == "tianqi"), "{found:?}");
}

#[test]
fn equals_keep_the_order_of_the_config() {
    let twin = ("look", "Looks around.", "at");
    let groups = written(&[("b", "", &[twin]), ("a", "", &[twin]), ("c", "", &[twin])]);
    let order: Vec<usize> =
        index(&groups).search("look around", None, 5).iter().map(|hit| hit.group).collect();
    assert_eq!(order, [0, 1, 2]);
    assert_eq!(index(&groups).search("c look", None, 1)[0].group, 2, "the group's name is part of it");
}

#[test]
fn a_name_in_a_sentence_is_a_name() {
    assert_eq!(first("please use deleteEvent on the message list"), "deleteEvent");
    assert_eq!(first("calendar__createEvent"), "createEvent");
}

#[test]
fn nothing_is_found_where_nothing_is_meant() {
    for query in ["", "   ", "?!", "zzzzzzzz", "\u{0}"] {
        assert_eq!(found(query), [""; 0], "{query:?}");
    }
    assert!(index(&Vec::new()).search("anything", None, 5).is_empty());
}

#[test]
fn a_definition_that_is_no_json_is_found_by_its_name() {
    let group = Group { name: "g", about: String::new(), tools: vec![("odd_one", b"{")] };
    assert_eq!(Index::new(&[group]).search("the odd one", None, 5).len(), 1);
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof!["[a-zA-Z_]{1,12}", "[a-z]{1,6}_[a-z0-9]{1,6}", "\\PC{1,6}"]
}

fn groups() -> impl Strategy<Value = Written> {
    let tools = proptest::collection::vec((name(), "\\PC{0,60}", name()), 0..6);
    proptest::collection::vec((name(), "\\PC{0,30}", tools), 0..5)
}

proptest! {
    #[test]
    fn no_query_panics_and_limits_and_groups_hold(
        groups in groups(), query in "\\PC{0,80}", limit in 0_usize..8, group in 0_usize..5,
    ) {
        let index = index(&groups);
        let all = index.search(&query, None, usize::MAX);
        let distinct: std::collections::HashSet<_> = all.iter().collect();
        prop_assert_eq!(distinct.len(), all.len());
        prop_assert_eq!(&index.search(&query, None, limit)[..], &all[..limit.min(all.len())]);
        let within = index.search(&query, Some(group), usize::MAX);
        prop_assert!(within.iter().all(|hit| hit.group == group));
        prop_assert_eq!(within.len(), all.iter().filter(|hit| hit.group == group).count());
    }

    #[test]
    fn every_tool_is_found_first_by_its_name(groups in groups()) {
        let index = index(&groups);
        for (at, (_, _, tools)) in groups.iter().enumerate() {
            for (name, _, _) in tools.iter().filter(|(name, _, _)| !name.trim().is_empty()) {
                let hits = index.search(name, Some(at), 1);
                prop_assert_eq!(hits.first().map(|hit| tools[hit.tool].0.trim()), Some(name.trim()));
            }
        }
    }
}

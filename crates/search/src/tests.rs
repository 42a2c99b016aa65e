use super::{Hit, SearchGroup, SearchIndex};
use proptest::prelude::*;
use serde_json::json;

/// Groups with a name, a description and tools; each tool with a name, a description and a parameter.
type GroupTexts = Vec<(String, String, Vec<(String, String, String)>)>;

/// The name, the description and the parameter of a tool.
type ToolText<'a> = (&'a str, &'a str, &'a str);

fn owned(groups: &[(&str, &str, &[ToolText<'_>])]) -> GroupTexts {
    let to_owned = |(name, text, parameter): &ToolText<'_>| {
        ((*name).to_owned(), (*text).to_owned(), (*parameter).to_owned())
    };
    groups
        .iter()
        .map(|(name, about, tools)| {
            ((*name).to_owned(), (*about).to_owned(), tools.iter().map(to_owned).collect())
        })
        .collect()
}

fn index_of(texts: &GroupTexts) -> SearchIndex {
    let definitions: Vec<Vec<String>> = texts
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
    let groups: Vec<SearchGroup<'_>> = texts
        .iter()
        .zip(&definitions)
        .map(|((name, description, tools), definitions)| {
            let names = tools.iter().map(|(name, _, _)| name.as_str());
            let tools = names.zip(definitions.iter().map(String::as_bytes)).collect();
            SearchGroup { name, description: description.clone(), tools }
        })
        .collect();
    SearchIndex::new(&groups)
}

fn office() -> GroupTexts {
    owned(&[
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
    let hits = index_of(&office).search(query, None, 5);
    hits.iter().map(|hit| office[hit.group].2[hit.tool].0.clone()).collect()
}

fn first(query: &str) -> String {
    found(query).first().cloned().unwrap_or_default()
}

#[test]
fn finds_tools_by_name_description_and_parameters() {
    assert_eq!(first("sending mails"), "send_message");
    assert_eq!(first("the next days"), "get_forecast");
    assert_eq!(first("which mailbox"), "list_messages");
}

#[test]
fn finds_tools_by_synonyms() {
    assert_eq!(first("remove a meeting"), "deleteEvent");
    assert_eq!(first("will there be rain"), "get_forecast");
    assert_eq!(first("die Wettervorhersage"), "get_forecast");
}

#[test]
fn finds_tools_by_misspellings_prefixes_and_compounds() {
    assert_eq!(first("appointmnet delete"), "deleteEvent");
    assert_eq!(first("recip"), "send_message");
    assert_eq!(first("a mind map"), "render_mindmap");
    assert_eq!(first("mindmaprenderer"), "render_mindmap");
}

#[test]
fn a_known_word_is_not_a_misspelling() {
    let groups = owned(&[("g", "", &[("cat", "Shows a cart.", "x"), ("card", "Shows a card.", "x")])]);
    let hits = index_of(&groups).search("card", None, 5);
    assert_eq!(hits, [Hit { group: 0, tool: 1 }]);
}

#[test]
fn finds_other_scripts_and_ignores_accents() {
    assert_eq!(first("明天的天气预报"), "tianqi");
    assert_eq!(first("oeuvres au musee"), "chercher");
}

#[test]
fn each_step_has_a_place_before_further_tools_of_another() {
    let mail: Vec<String> = ('a'..'g').map(|letter| format!("mail_message_{letter}")).collect();
    let mail: Vec<ToolText<'_>> =
        mail.iter().map(|name| (name.as_str(), "Sends a mail message.", "to")).collect();
    let groups = owned(&[
        ("mail", "", &mail),
        ("backup", "", &[("archive", "Stores a backup.", "to")]),
        ("print", "", &[("paper", "Puts a page on paper.", "page")]),
    ]);
    for query in [
        "mail the message as a mail message, then store a backup, and after that put the page on paper",
        "1. mail the mail message\n2. backup\n3. paper",
        "mail the mail message; backup; paper",
    ] {
        let groups: Vec<usize> =
            index_of(&groups).search(query, None, 3).iter().map(|hit| hit.group).collect();
        assert_eq!(groups, [0, 1, 2], "{query}");
    }
}

#[test]
fn a_rare_synonym_of_a_common_word_says_no_more_than_the_word() {
    let names: Vec<String> = (0..8).map(|number| format!("delete_{number}")).collect();
    let mut tools: Vec<ToolText<'_>> = names.iter().map(|name| (name.as_str(), "Deletes.", "x")).collect();
    tools.push(("clear_other", "Clears something.", "x"));
    tools.push(("purger", "Deletes a mailbox.", "x"));
    let groups = owned(&[("g", "", &tools)]);
    let hits = index_of(&groups).search("delete the mailbox", None, 10);
    assert_eq!(hits.first(), Some(&Hit { group: 0, tool: 9 }), "{hits:?}");
    assert_eq!(hits.last(), Some(&Hit { group: 0, tool: 8 }), "{hits:?}");
}

#[test]
fn a_query_of_unknown_words_finds_tools_with_similar_ones() {
    let groups = owned(&[
        ("museum", "", &[("ancient_egypt", "Old things.", "x")]),
        ("other", "", &[("chess", "A game.", "x")]),
    ]);
    let index = index_of(&groups);
    assert_eq!(index.search("something of the Egyptians", None, 5), [Hit { group: 0, tool: 0 }]);
    assert!(index.search("qqqqqq", None, 5).is_empty());
}

#[test]
fn finds_words_of_other_scripts_without_the_table() {
    let groups = owned(&[
        (
            "ru",
            "",
            &[("a", "Показывает расписание поездов между городами.", "x"), ("b", "Считает налоги.", "x")],
        ),
        ("zh", "", &[("c", "管理乐队的巡演日程。", "x"), ("d", "修剪盆栽。", "x")]),
        ("el", "", &[("e", "Βρίσκει δρομολόγια τρένων.", "x"), ("f", "Υπολογίζει φόρους.", "x")]),
        ("ko", "", &[("g", "기차 시간표를 보여줍니다.", "x"), ("h", "세금을 계산합니다.", "x")]),
    ]);
    let index = index_of(&groups);
    let first = |query: &str| index.search(query, None, 5).first().map(|hit| (hit.group, hit.tool));
    assert_eq!(first("расписания поезда"), Some((0, 0)));
    assert_eq!(first("налог"), Some((0, 1)));
    assert_eq!(first("巡演什么时候"), Some((1, 0)));
    assert_eq!(first("剪"), Some((1, 1)), "one character, which is indexed only in pairs");
    assert_eq!(first("τρένων"), Some((2, 0)));
    assert_eq!(first("세금"), Some((3, 1)));
}

#[test]
fn equal_scores_keep_the_order_of_the_config() {
    let twin = ("look", "Looks around.", "at");
    let groups = owned(&[("b", "", &[twin]), ("a", "", &[twin]), ("c", "", &[twin])]);
    let order: Vec<usize> =
        index_of(&groups).search("look around", None, 5).iter().map(|hit| hit.group).collect();
    assert_eq!(order, [0, 1, 2]);
    assert_eq!(index_of(&groups).search("c look", None, 1)[0].group, 2, "the group's name is part of it");
}

#[test]
fn a_name_in_a_sentence_is_found_first() {
    assert_eq!(first("please use deleteEvent on the message list"), "deleteEvent");
    assert_eq!(first("calendar__createEvent"), "createEvent");
}

#[test]
fn a_query_without_words_finds_nothing() {
    for query in ["", "   ", "?!", "zzzzzzzz", "\u{0}"] {
        assert_eq!(found(query), [""; 0], "{query:?}");
    }
    assert!(index_of(&Vec::new()).search("anything", None, 5).is_empty());
}

#[test]
fn a_definition_that_is_not_json_is_found_by_its_name() {
    let group = SearchGroup { name: "g", description: String::new(), tools: vec![("odd_one", b"{")] };
    assert_eq!(SearchIndex::new(&[group]).search("the odd one", None, 5).len(), 1);
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof!["[a-zA-Z_]{1,12}", "[a-z]{1,6}_[a-z0-9]{1,6}", "\\PC{1,6}"]
}

fn groups() -> impl Strategy<Value = GroupTexts> {
    let tools = proptest::collection::vec((name(), "\\PC{0,60}", name()), 0..6);
    proptest::collection::vec((name(), "\\PC{0,30}", tools), 0..5)
}

proptest! {
    #[test]
    fn no_query_panics_and_limits_and_groups_hold(
        groups in groups(), query in "\\PC{0,80}", limit in 0_usize..8, group in 0_usize..5,
    ) {
        let index = index_of(&groups);
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
        let index = index_of(&groups);
        for (at, (_, _, tools)) in groups.iter().enumerate() {
            for (name, _, _) in tools.iter().filter(|(name, _, _)| !name.trim().is_empty()) {
                let hits = index.search(name, Some(at), 1);
                prop_assert_eq!(hits.first().map(|hit| tools[hit.tool].0.trim()), Some(name.trim()));
            }
        }
    }
}

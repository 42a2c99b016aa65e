//! What is remembered of one group: first seen, changed, approved, varying.

use super::*;
use wire::Raw;

fn target(server: &str) -> PinTarget {
    PinTarget { config: "/c.json".into(), group: "g".into(), server: server.into() }
}

fn seen(tools: &[(&str, &str)]) -> Vec<SeenTool> {
    let pinned = |(name, description): &(&str, &str)| {
        let json = serde_json::json!({ "name": name, "description": description }).to_string();
        let definition = Raw::from(json);
        ((*name).to_owned(), PinnedTool::new(DefinitionDigest::of(&definition), &definition))
    };
    tools.iter().map(pinned).collect()
}

fn observe(record: Option<PinRecord>, tools: &[(&str, &str)], pinned: bool) -> PinRecord {
    PinRecord::observe(record, &target("s"), &seen(tools), pinned, 0).unwrap()
}

/// The names and changed parts of these tools.
fn changes(record: &PinRecord, tools: &[(&str, &str)], pinned: bool) -> Vec<(String, String)> {
    let seen = seen(tools);
    let tools = seen.iter().map(|(name, tool)| (name.as_str(), &tool.digest));
    let changes = record.changes(tools, pinned);
    changes.into_iter().map(|(name, change)| (name, change.parts.join(", "))).collect()
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
}

#[test]
fn the_first_tools_are_trusted_and_later_ones_are_compared() {
    let first = observe(None, &[("a", "1"), ("b", "1")], true);
    assert!(changes(&first, &[("a", "1")], true).is_empty());
    let now = [("a", "2"), ("b", "1"), ("c", "1")];
    let pinned = observe(Some(first.clone()), &now, true);
    assert_eq!(changes(&pinned, &now, true), pairs(&[("a", "description"), ("c", "new")]));
    let open = observe(Some(first.clone()), &now, false);
    assert_eq!(changes(&open, &now, false), pairs(&[("a", "description")]));
    assert!(changes(&open, &[("c", "1")], true).is_empty(), "it is known when the group is pinned later");
    let back = observe(Some(pinned), &[("a", "1"), ("b", "1")], true);
    assert_eq!(back, observe(Some(first), &[("c", "1")], true), "c may come back");
}

#[test]
fn a_tool_that_was_removed_is_compared_when_it_comes_back() {
    let first = observe(None, &[("a", "1"), ("b", "1")], false);
    let without = observe(Some(first), &[("a", "1")], false);
    let back = observe(Some(without), &[("b", "2")], false);
    assert_eq!(changes(&back, &[("b", "2")], false), pairs(&[("b", "description")]));
}

#[test]
fn another_program_is_another_server() {
    let first = observe(None, &[("a", "1")], true);
    let other = PinRecord::observe(Some(first), &target("t"), &seen(&[("a", "2")]), true, 7).unwrap();
    assert!(changes(&other, &[("a", "2")], true).is_empty());
    assert_eq!(other.replaced_s, Some(7));
    let mut approved = other;
    assert_eq!(approved.approve(None, false), Ok(Vec::new()));
    assert_eq!(approved.replaced_s, None);
}

#[test]
fn only_what_was_seen_is_approved() {
    let first = observe(None, &[("a", "1"), ("b", "1")], true);
    let mut record = observe(Some(first), &[("a", "2"), ("b", "2"), ("c", "1")], true);
    assert_eq!(
        record.approve(Some("x"), false),
        Err(NotApproved::UnknownTool(["a", "b", "c"].map(str::to_owned).into()))
    );
    let approved = record.approve(Some("a"), false).unwrap();
    let expected = ApprovedTool {
        name: "a".into(),
        parts: vec!["description".into()],
        old: Some("1".into()),
        new: "2".into(),
        varying: VaryingMembers::new(),
    };
    assert_eq!(approved, [expected]);
    assert_eq!(record.approve(Some("a"), false), Err(NotApproved::ToolNotChanged));
    assert_eq!(changes(&record, &[("a", "3")], true), pairs(&[("a", "definition")]), "changed once more");
    assert_eq!(record.approve(None, false).unwrap().len(), 2);
    assert_eq!(record.approve(None, false), Err(NotApproved::NothingChanged));
    assert!(changes(&record, &[("a", "2"), ("b", "2"), ("c", "1")], true).is_empty());
}

#[test]
fn what_was_approved_stays_approved_within_the_bound() {
    let text = |n: usize| n.to_string();
    let mut record = observe(None, &[("a", &text(0)), ("b", "1")], true);
    for n in 1..=MAX_EARLIER + 1 {
        record = observe(Some(record), &[("a", &text(n))], true);
        assert_eq!(changes(&record, &[("a", &text(n))], true).len(), 1, "it was never approved");
        record.approve(None, false).unwrap();
    }
    for n in 1..=MAX_EARLIER + 1 {
        record = observe(Some(record), &[("a", &text(n))], true);
        assert!(changes(&record, &[("a", &text(n))], true).is_empty(), "{n}");
    }
    assert_eq!(record.approve(None, false), Err(NotApproved::NothingChanged));
    record = observe(Some(record), &[("a", &text(0))], true);
    assert_eq!(changes(&record, &[("a", &text(0))], true), pairs(&[("a", "description")]), "the oldest");
    let other = PinRecord::observe(Some(record), &target("t"), &seen(&[("a", "x")]), true, 7).unwrap();
    assert_eq!(changes(&other, &[("a", "1")], true).len(), 1, "of another server nothing is approved");
}

#[test]
fn a_record_of_an_earlier_version_is_read_and_stays_as_it_is_until_something_is_approved() {
    let record = observe(Some(observe(None, &[("a", "1")], true)), &[("a", "2")], true);
    let json = serde_json::to_value(&record).unwrap();
    assert!(json.get("earlier").is_none(), "{json}");
    let mut read: PinRecord = serde_json::from_value(json).unwrap();
    assert_eq!(read, record);
    read.approve(None, false).unwrap();
    let written = serde_json::to_string(&read).unwrap();
    let read: PinRecord = serde_json::from_str(&written).unwrap();
    assert!(changes(&read, &[("a", "1")], true).is_empty(), "{written}");
}

#[test]
fn what_is_remembered_is_bounded_and_the_rest_of_a_pinned_group_is_refused() {
    let names: Vec<String> = (0..MAX_TOOLS + 10).map(|n| format!("t{n:05}")).collect();
    let tools: Vec<_> = names.iter().map(|name| (name.as_str(), "1")).collect();
    let first = observe(None, &tools, true);
    assert_eq!(first.approved.len(), MAX_TOOLS);
    assert_eq!(changes(&first, &tools, true).len(), 10);
    let changed: Vec<_> = names.iter().map(|name| (name.as_str(), "2")).collect();
    let record = observe(Some(first), &changed, true);
    assert_eq!(record.changed.len(), MAX_TOOLS);
    assert_eq!(changes(&record, &changed, true).len(), names.len());
    let long = "x".repeat(MAX_NAME + 1);
    let record = observe(Some(record), &[(&long, "1")], true);
    assert_eq!(changes(&record, &[(&long, "1")], true), pairs(&[(&long, "new")]));
    assert_eq!(PinRecord::observe(None, &target("s"), &[], true, 0), None, "nothing was seen");
}

#[test]
fn changed_tools_that_were_not_just_seen_are_forgotten_first_and_only_beyond_the_bound() {
    let first = observe(None, &[("a", "1")], true);
    let names: Vec<String> = (0..=MAX_TOOLS).map(|n| format!("t{n:05}")).collect();
    let tools: Vec<_> = names.iter().map(|name| (name.as_str(), "1")).collect();
    let full = observe(Some(first), &tools[..MAX_TOOLS], true);
    let again = observe(Some(full), &tools[..1], true);
    assert_eq!(again.changed.len(), MAX_TOOLS, "as many as may be");
    let beyond = observe(Some(again), &tools[MAX_TOOLS..], true);
    assert_eq!(beyond.changed.keys().collect::<Vec<_>>(), [&names[MAX_TOOLS]]);
}

#[test]
fn a_group_that_is_not_pinned_trusts_new_tools_within_the_bound() {
    let names: Vec<String> = (0..=MAX_TOOLS).map(|n| format!("t{n:05}")).collect();
    let tools: Vec<_> = names.iter().map(|name| (name.as_str(), "1")).collect();
    let first = observe(None, &tools[1..MAX_TOOLS], false);
    let full = observe(Some(first), &tools[..1], false);
    assert_eq!(full.approved.len(), MAX_TOOLS);
    let record = observe(Some(full), &tools[MAX_TOOLS..], false);
    assert_eq!(record.approved.len(), MAX_TOOLS);
}

#[test]
fn what_another_client_had_approved_does_not_replace_the_last_approval() {
    let first = observe(None, &[("a", "1")], true);
    let mut record = observe(Some(first), &[("a", "2")], true);
    record.approve(None, false).unwrap();
    let approved = record.clone();
    assert_eq!(observe(Some(record), &[("a", "1")], false), approved);
}

#[test]
fn a_tool_lacks_an_approval_if_it_differs_and_nothing_of_it_is_to_be_approved() {
    let first = observe(None, &[("a", "1")], true);
    let waiting = observe(Some(first.clone()), &[("a", "2")], true);
    let long = "x".repeat(MAX_NAME + 1);
    assert!(first.lacks_one_of(&seen(&[("a", "1"), ("b", "1")]), true));
    assert!(first.lacks_one_of(&seen(&[("a", "3")]), false));
    for (record, tools, pinned) in [
        (&first, ("a", "1"), true),
        (&first, ("b", "1"), false),
        (&first, (long.as_str(), "1"), true),
        (&waiting, ("a", "3"), true),
    ] {
        assert!(!record.lacks_one_of(&seen(&[tools]), pinned), "{tools:?}");
    }
    let names: Vec<String> = (0..MAX_TOOLS).map(|n| format!("t{n:05}")).collect();
    let tools: Vec<_> = names.iter().map(|name| (name.as_str(), "1")).collect();
    let full = observe(Some(first), &tools, true);
    assert!(!full.lacks_one_of(&seen(&[("b", "1")]), true), "there is no room");
}

#[test]
fn a_record_has_all_tools_only_if_nothing_of_them_is_to_be_approved() {
    let first = observe(None, &[("a", "1"), ("b", "1")], true);
    let has_all = |record: &PinRecord, server: &str, tools: &[(&str, &str)]| {
        let digests: Vec<_> = seen(tools).into_iter().map(|(name, tool)| (name, tool.digest)).collect();
        record.has_all(&target(server), &digests)
    };
    assert!(has_all(&first, "s", &[("a", "1"), ("b", "1")]) && has_all(&first, "s", &[]));
    assert!(!has_all(&first, "t", &[("a", "1")]), "of another server");
    assert!(!has_all(&first, "s", &[("a", "1"), ("b", "2")]));
    assert!(!has_all(&first, "s", &[("c", "1")]));
    let waiting = observe(Some(first), &[("a", "2")], true);
    assert!(!has_all(&waiting, "s", &[("a", "1")]), "the file still has a change of it");
}

#[test]
fn the_tools_of_a_record_are_named() {
    let first = observe(None, &[("b", "1"), ("c", "1")], true);
    let record = observe(Some(first), &[("a", "1"), ("b", "2")], true);
    let part = |tool: &str, part: &str| (tool.to_owned(), vec![part.to_owned()]);
    assert_eq!(record.changed_tools(), [part("a", "new"), part("b", "description")].into());
    assert_eq!(record.tool_names(), ["a", "b", "c"].map(str::to_owned).into());
}

/// A tool whose default is `default`, as version `version` of its server has it.
fn with_default(default: &str, version: &str) -> Vec<SeenTool> {
    let properties = serde_json::json!({ "x": { "type": "string", "default": default } });
    let definition =
        serde_json::json!({ "name": "t", "inputSchema": { "properties": properties } }).to_string();
    let definition = Raw::from(definition);
    let tool = PinnedTool::new(DefinitionDigest::of(&definition), &definition);
    vec![("t".to_owned(), tool.with_details(&definition, Some(version)))]
}

/// The record after a start, and how its tool differs.
fn start(record: Option<PinRecord>, seen: &[SeenTool]) -> (PinRecord, Vec<ToolChange>) {
    let record = PinRecord::observe(record, &target("s"), seen, true, 0).unwrap();
    let tools = seen.iter().map(|(name, tool)| (name.as_str(), &tool.digest));
    let changes = record.changes(tools, true).into_values().collect();
    (record, changes)
}

#[test]
fn what_was_approved_as_varying_is_accepted_at_each_start() {
    let (record, _) = start(None, &with_default("a,b,c", "1"));
    let (mut record, changes) = start(Some(record), &with_default("b,c,a", "1"));
    assert_eq!(changes[0].parts, ["inputSchema.properties.x.default"]);
    assert!(changes[0].may_vary);
    let approved = record.approve(None, true).unwrap();
    let path = "inputSchema.properties.x.default".to_owned();
    assert_eq!(approved[0].varying, [(path.clone(), varying::Varying::Order)].into());
    for order in ["c,b,a", "a,c,b", "a,b,c", "c,a,b"] {
        let seen = with_default(order, "2");
        let (next, changes) = start(Some(record), &seen);
        assert!(changes.is_empty(), "{order}: {changes:?}");
        // What the cache has of it is accepted, too, for which the definition is not read.
        assert!(next.accepts("t", &seen[0].1.digest, true));
        let json = serde_json::to_string(&next).unwrap();
        record = serde_json::from_str(&json).unwrap();
    }
    let (mut record, changes) = start(Some(record), &with_default("a,b,c,d", "2"));
    assert_eq!(changes[0].parts, std::slice::from_ref(&path), "it differs by more than its order");
    let error = record.approve(None, true).unwrap_err();
    assert!(matches!(&error, NotApproved::NotVarying(_, why) if why.contains("from 1 to 2")), "{error:?}");
    record.approve(None, false).unwrap();
    let (mut record, _) = start(Some(record), &with_default("x", "2"));
    assert_eq!(record.approve(Some("t"), true).unwrap()[0].varying, [(path, varying::Varying::Value)].into());
    let (record, changes) = start(Some(record), &with_default("anything", "3"));
    assert!(changes.is_empty(), "{record:?}");
    let mut other = with_default("else", "3");
    other[0].1 = PinnedTool::new(DefinitionDigest::of(b"{}"), &"{}".into())
        .with_details(&r#"{"name":"t","title":"x"}"#.into(), None);
    assert_eq!(start(Some(record), &other).1.len(), 1, "another member differs, too");
}

#[test]
fn a_new_tool_and_one_without_known_members_cannot_vary() {
    let first = observe(None, &[("a", "1")], true);
    let mut record = observe(Some(first), &[("a", "2"), ("b", "1")], true);
    for (tool, part) in [("a", "were not remembered"), ("b", "is new")] {
        let before = record.clone();
        let error = record.approve(Some(tool), true).unwrap_err();
        assert!(matches!(&error, NotApproved::NotVarying(name, why) if name == tool && why.contains(part)));
        assert_eq!(record, before);
    }
}

#[test]
fn a_tool_with_varying_members_has_many_variants_within_a_bound() {
    let (record, _) = start(None, &with_default("0", "1"));
    let (mut record, _) = start(Some(record), &with_default("1", "1"));
    record.approve(None, true).unwrap();
    for n in 2..MAX_VARIANTS + 20 {
        let (next, changes) = start(Some(record), &with_default(&n.to_string(), "1"));
        assert!(changes.is_empty());
        record = next;
    }
    assert_eq!(record.earlier["t"].len(), MAX_VARIANTS);
}

//! `store_above`: previews of results, and their parts.

use serde_json::json;

use super::{block, id_in, note, read, read_failure, read_text, recorded, select, storing, text_result};
use crate::support::{Proxy, merged, text_of};

/// A million bytes in lines of 20 bytes, each of which says where it is.
fn million() -> String {
    (0..50_000).map(|n| format!("line {:>8} word{}\n", n + 1, n % 10)).collect()
}

#[test]
fn any_part_of_a_megabyte_takes_two_calls_and_the_upstream_is_asked_once() {
    let (mut proxy, record) = recorded(json!({"store_above": "50kB"}));
    let text = million();
    let result = proxy.call_tool("g", "verbatim", text_result(&text));
    assert!(result.to_string().len() < 3500, "{result}");
    let shown = block(&result, 0);
    assert!(text.starts_with(shown) && shown.len() > 1900);
    let id = id_in(note(&result));
    let uri = format!("dynamic-mcp://result/{id}");
    assert!(
        note(&result).contains(&uri) && note(&result).contains("1,000,000 bytes of text (50,000 lines)"),
        "{result}"
    );
    // By line and by byte in one call, by words in two.
    assert_eq!(read_text(&mut proxy, &id, json!({"lines": "40001-40002"})), text[800_000..800_039]);
    assert_eq!(read_text(&mut proxy, &id, json!({"bytes": "999900-1000000"})), text[999_900..]);
    let found = read_text(&mut proxy, &id, json!({"search": "LINE    49999"}));
    assert_eq!(found, "1 match in 50,000 lines, shown: 1\nline 49999, byte 999960: line    49999 word8\n");
    let wide = read(&mut proxy, &id, json!({"lines": "1-4000"}));
    assert!(block(&wide, 0).len() <= 50_000 && block(&wide, 0).ends_with("word9"));
    assert_eq!(
        note(&wide),
        "[lines 1-2,500 of 50,000; bytes 0-49999 of 1000000; cut at 50,000 bytes, go on with \"lines\":\"2501-4000\"]"
    );
    assert_eq!(record.lines_of("tools/call").len(), 1);
    // Other forms: the whole URI as the id, arguments beside the name.
    let flat = json!({"group": "dynamic-mcp", "name": "result", "id": uri, "lines": [1, 1]});
    assert_eq!(text_of(&proxy.call_meta_tool("call_dynamic_tool", flat)), "line        1 word0");
    let preview = read(&mut proxy, &id, json!({}));
    assert_eq!(preview, result);
    // The whole.
    let contents = proxy.request("resources/read", json!({"uri": uri}))["result"]["contents"].take();
    assert_eq!(contents, json!([{"uri": uri, "mimeType": "text/plain", "text": text}]));
    assert_eq!(record.lines_of("tools/call").len() + record.lines_of("resources/read").len(), 1);
}

#[test]
fn json_is_read_by_programs_and_described() {
    let mut proxy = storing(10_000);
    let args = json!({"bytes": 1_000_000, "kind": "rows"});
    let result = proxy.call_tool("g", "big", args);
    assert_eq!(result.get("structuredContent"), None);
    assert!(
        note(&result).ends_with("Shape: {rows: [15,625 x {id: number, name: string, value: number}]}]"),
        "{result}"
    );
    let id = id_in(note(&result));
    let got = read(&mut proxy, &id, json!({"select": ".rows[15000] | .id, .value"}));
    assert_eq!(block(&got, 0), "15000\n15000.25");
    // What is derived is stored, too, if it is too large.
    let derived = read(&mut proxy, &id, json!({"select": ".rows | map(.id)"}));
    assert!(
        note(&derived).contains(", derived by select from 1,125,074 bytes")
            && block(&derived, 0).starts_with("[0,1,2,"),
        "{derived}"
    );
    let id = id_in(note(&derived));
    assert_eq!(block(&read(&mut proxy, &id, json!({"select": ".[15624]"})), 0), "15624");
    let got = read(&mut proxy, &id, json!({"bytes": "0-8"}));
    assert_eq!((block(&got, 0), note(&got)), ("[0,1,2,3", "[lines 1-1 of 1; bytes 0-8 of 82641]"));
    // The same in one call.
    let direct = json!({"group": "g", "name": "big", "args": {"bytes": 1_000_000, "kind": "rows"}, "select": ".rows | map(.id)"});
    let direct = proxy.call_meta_tool("call_dynamic_tool", direct);
    assert!(note(&direct).contains(", derived by select from 1,125,074 bytes"), "{direct}");
}

#[test]
fn only_text_counts_and_is_cut() {
    let mut proxy = storing("2kB");
    let image = json!({"type": "image", "data": "A".repeat(100_000), "mimeType": "image/png"});
    let audio = json!({"type": "audio", "data": "B".repeat(10_000), "mimeType": "audio/wav"});
    let blob = json!({"type": "resource", "resource": {"uri": "x:1", "blob": "C".repeat(10_000)}});
    let short = json!({"type": "text", "text": "short"});
    let unstored = json!({"content": [image, audio, short, blob]});
    assert_eq!(proxy.call_tool("g", "verbatim", unstored.clone()), unstored);
    let long = json!({"type": "text", "text": "é".repeat(2000)});
    let embedded = json!({"type": "resource", "resource": {"uri": "x:2", "mimeType": "text/plain", "text": "y".repeat(5000)}});
    let result = proxy.call_tool("g", "verbatim", json!({"content": [image, long, audio, embedded, blob]}));
    assert_eq!(
        (&result["content"][0], &result["content"][2], &result["content"][4]),
        (&image, &audio, &blob)
    );
    assert_eq!(block(&result, 1), "é".repeat(1000));
    assert_eq!(
        result["content"][3]["resource"],
        json!({"uri": "x:2", "mimeType": "text/plain", "text": "y".repeat(2000)})
    );
    let id = id_in(note(&result));
    assert_eq!(
        read_text(&mut proxy, &id, json!({"bytes": "1999-2003"})),
        "éé",
        "an offset within a character is its beginning"
    );
    let uri = format!("dynamic-mcp://result/{id}");
    let whole = proxy.request("resources/read", json!({"uri": uri}));
    let whole = &whole["result"]["contents"];
    assert_eq!(whole[0], json!({"uri": uri, "mimeType": "image/png", "blob": "A".repeat(100_000)}));
    assert_eq!(whole[1], json!({"uri": uri, "mimeType": "text/plain", "text": "é".repeat(2000)}));
    assert_eq!((&whole[3], &whole[4]), (&embedded["resource"], &blob["resource"]));
}

#[test]
fn small_results_errors_and_servers_without_the_option_pass_byte_for_byte() {
    let mut proxy = storing("100");
    let small = r#"{"content":[{"type":"text","text":"1.0 \u00e9"}], "x-unknown" : 1e400}"#;
    let params = |args: &str| {
        format!(
            r#"{{"name":"call_dynamic_tool","arguments":{{"group":"g","name":"verbatim","args":{args}}}}}"#
        )
    };
    assert_eq!(proxy.raw_result("tools/call", &params(small)), small);
    let error = json!({"content": [{"type": "text", "text": "x".repeat(5000)}], "isError": true});
    assert_eq!(proxy.call_tool("g", "verbatim", error.clone()), error);
    let config = super::config(json!({"store_above": false}));
    let mut off =
        Proxy::new(&merged(config, json!({"settings": {"lazy_startup": "pure", "store_above": 100}})));
    let large = text_result(&"x".repeat(5000));
    assert_eq!(off.call_tool("g", "verbatim", large.clone()), large);
    let mut inherited =
        Proxy::new(&merged(super::config(json!({})), json!({"settings": {"store_above": "0.1kB"}})));
    assert_ne!(inherited.call_tool("g", "verbatim", large.clone()), large);
}

#[test]
fn what_cannot_be_read_is_an_error_that_says_why() {
    let mut proxy = storing(1000);
    let failure = read_failure(&mut proxy, "nothing", json!({"lines": "1-2"}));
    assert_eq!(
        failure,
        "There is no stored result \"nothing\". Results are kept until the session ends or newer ones need the place (64 at \
         most). Call the tool that gave it again."
    );
    let error = proxy.request("resources/read", json!({"uri": "dynamic-mcp://result/nothing"}));
    assert_eq!(error["error"]["code"], -32002, "{error}");
    let id = id_in(note(&proxy.call_tool("g", "verbatim", text_result(&"ab\n".repeat(1000)))));
    for (part, expected) in [
        (json!({"lines": "1001"}), "has only 1000 lines"),
        (json!({"bytes": "3000-"}), "has only 3000 bytes"),
        (json!({"lines": "x"}), "must be a range, such as \"100-200\""),
        (json!({"lines": "1", "search": "a"}), "Give one of"),
        (json!({"select": "."}), "select failed: it needs JSON"),
    ] {
        let failure = read_failure(&mut proxy, &id, part.clone());
        assert!(failure.contains(expected), "{part}: {failure}");
    }
    let other = json!({"group": "dynamic-mcp", "name": "results", "args": {}});
    let other = proxy.call_meta_tool("call_dynamic_tool", other);
    assert!(text_of(&other).starts_with("Group dynamic-mcp has only the tool result."), "{other}");
    assert!(proxy.get_dynamic_tools(json!({"group": "dynamic-mcp"})).contains("result(args: {"));
    let status = proxy.call_meta_tool("get_status", json!({}));
    assert_eq!(status["structuredContent"]["storedResults"]["count"], 1, "{status}");
    assert!(text_of(&status).contains("stored results: 1 ("), "{status}");
}

#[test]
fn the_oldest_results_give_way_and_ids_are_never_used_again() {
    let mut proxy = storing(100);
    let mut ids = Vec::new();
    for n in 0..65 {
        let result = proxy.call_tool("g", "verbatim", text_result(&format!("{n} {}", "x".repeat(200))));
        ids.push(id_in(note(&result)));
    }
    assert!(read_failure(&mut proxy, &ids[0], json!({"lines": 1})).starts_with("There is no stored result"));
    assert_eq!(&read_text(&mut proxy, &ids[1], json!({"bytes": "0-2"})), "1 ");
    assert_eq!(&read_text(&mut proxy, &ids[64], json!({"bytes": "0-3"})), "64 ");
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 65);
    // Failed programs count as well.
    select(&mut proxy, &text_result("{}"), "nope");
    assert_eq!(proxy.status()["storedResults"]["count"], 64);
}

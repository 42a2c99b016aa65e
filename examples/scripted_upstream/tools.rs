//! The tools that are always there, and `tools/call`. `SIMPLE_TOOLS` describes most of them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::process::{abort, exit};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{sleep, spawn};
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::input_requests::{self, InputRequest};
use crate::protocol;
use crate::server::Server;
use crate::stateless::notify;
use crate::wire::{quote, write};

/// Name, description and properties of the input.
const SIMPLE_TOOLS: &[(&str, &str, &str)] = &[
    ("args", "Returns its arguments as text, byte for byte.", "{}"),
    ("params", "Returns the params of the call as text, byte for byte.", "{}"),
    ("env", "Returns its environment as a JSON object.", "{}"),
    ("cwd", "Returns its working directory.", "{}"),
    ("pid", "Returns its process id, and that of its child.", "{}"),
    ("sleep", "Answers later; other requests do not wait.", r#"{"ms":{"type":"integer"}}"#),
    ("big", "Returns this many bytes.", r#"{"bytes":{"type":"integer"},"kind":{"enum":["text","rows"]}}"#),
    ("fail", "Returns a result that is an error.", r#"{"text":{"type":"string"}}"#),
    ("rpc_error", "Answers with an error.", r#"{"code":{},"message":{"type":"string"},"data":{}}"#),
    ("weird", "Returns everything that JSON allows.", "{}"),
    ("crash", "Exits without an answer.", r#"{"code":{"type":"integer"}}"#),
    ("abort", "Dies of SIGABRT.", "{}"),
    ("half", "Writes half an answer and exits.", "{}"),
    ("twice", "Answers twice.", "{}"),
    ("progress", "Reports progress n times.", r#"{"n":{"type":"integer"}}"#),
    ("ask", "Asks the client and returns its answer.", r#"{"method":{"type":"string"},"params":{}}"#),
    ("late", "Answers only after it was cancelled.", "{}"),
    ("log_stderr", "Writes a line to stderr.", r#"{"text":{"type":"string"}}"#),
    (
        "huge_line",
        "Sends a line of this many bytes.",
        r#"{"bytes":{"type":"integer"},"id":{"enum":["first","last"]}}"#,
    ),
];

const ECHO: &str = r#"{"name":"echo","title":"Echo","description":"Returns its text.\n\nThe text comes back as it was given, in one content block. Use it to find out whether a call arrives at all.","inputSchema":{"type":"object","properties":{"text":{"type":"string","description":"What to return"}},"required":["text"],"additionalProperties":false},"annotations":{"openWorldHint":false},"_meta":{"x/y":{"deep":[1,2.50,1e3]}},"x-unknown":null}"#;

const READ_ONLY_ECHO: &str = r#"{"name":"read_only_echo","description":"Returns its text, and changes nothing.","inputSchema":{"type":"object","properties":{"text":{"type":"string"}}},"annotations":{"readOnlyHint":true,"x-unknown":1},"execution":{"taskSupport":"forbidden"}}"#;

/// The result of `weird`. A proxy must pass it byte for byte, down to the notation of its numbers.
const WEIRD: &str = r#"{"messages":[{"role":"x"}],"tools":null,"contents":{"a":[]},"content":[{"type":"text","text":"\ud83d\ude00 \u0000 caf\u00e9 \/ \ud800","x-unknown":true},{"type":"x-hologram","data":{"huge":1e400}}],"structuredContent":{"minusZero":-0.0,"huge":1e400,"big":123456789012345678901234567890,"exact":1.10,"null":null,"":"ö"},"isError":false,"_meta":{"x/y":[1.0,1E+2]},"x-unknown":null, "spaced" : [ 1 , 2 ]}"#;

/// The definitions for `tools/list`, in order: the fixed tools, `generated` ones, and `added` ones.
pub(crate) fn definitions(generated: u64, added: usize) -> Vec<String> {
    let simple = SIMPLE_TOOLS.iter().map(|(name, description, properties)| {
        let schema = format!(r#"{{"type":"object","properties":{properties}}}"#);
        format!(r#"{{"name":"{name}","description":"{description}","inputSchema":{schema}}}"#)
    });
    let added = (0..added).map(|i| format!(r#"{{"name":"added_{i}","inputSchema":{{"type":"object"}}}}"#));
    [ECHO.to_owned(), READ_ONLY_ECHO.to_owned()]
        .into_iter()
        .chain(simple)
        .chain((0..generated).map(generated_definition))
        .chain(added)
        .collect()
}

fn generated_definition(i: u64) -> String {
    let defs = r##"{"item":{"type":"object","properties":{"id":{"type":"integer","maximum":18446744073709551615},"next":{"$ref":"#/$defs/item"}}}}"##;
    let schema = format!(
        r##"{{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","$defs":{defs},"properties":{{"items":{{"type":"array","items":{{"$ref":"#/$defs/item"}}}}}},"x-unknown":{{"n":{i}}}}}"##
    );
    format!(
        r#"{{"name":"generated_{i}","description":"Generated tool number {i}. It returns its arguments.","inputSchema":{schema},"outputSchema":{{"type":"object"}},"x-unknown":{i}.0}}"#
    )
}

/// The arguments of `ask`: a request to the client.
#[derive(Deserialize)]
struct AskArguments<'a> {
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

/// A call. It owns everything, because it may outlive the line that it came in.
struct ToolCall {
    server: Arc<Server>,
    id: String,
    name: String,
    /// The arguments as they came. Empty: there are none.
    arguments: String,
    /// The same, parsed.
    args: Value,
    params: String,
    progress_token: Option<String>,
}

#[derive(Deserialize)]
struct CallParams<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, rename = "_meta")]
    meta: Option<CallMeta<'a>>,
}

#[derive(Deserialize)]
struct CallMeta<'a> {
    #[serde(borrow, rename = "progressToken")]
    progress_token: Option<&'a RawValue>,
}

/// Handles `tools/call`. Calls that wait do so in threads of their own.
pub(crate) fn handle_call(server: &Arc<Server>, id: &str, params: Option<&RawValue>) {
    if server.flags.text("--hang") == Some("call") {
        return;
    }
    let raw = params.map_or("", RawValue::get);
    let Ok(parsed) = serde_json::from_str::<CallParams<'_>>(raw) else {
        return server.wire.error(id, r#"{"code":-32602,"message":"Invalid params"}"#);
    };
    let call = ToolCall {
        server: server.clone(),
        id: id.to_owned(),
        name: parsed.name.into_owned(),
        arguments: parsed.arguments.map_or("", RawValue::get).to_owned(),
        args: crate::to_value(parsed.arguments),
        params: raw.to_owned(),
        progress_token: parsed.meta.and_then(|meta| Some(meta.progress_token?.get().to_owned())),
    };
    // Registered now, because the next line may be the cancellation.
    let cancelled = (call.name == "late").then(|| server.cancellation(id));
    match (&*call.name, cancelled) {
        ("late", Some(cancelled)) => drop(spawn(move || {
            let _cancelled = cancelled.recv();
            sleep(Duration::from_millis(50));
            call.answer(&text_result("late"));
        })),
        ("sleep" | "ask" | "asks" | "write", _) => drop(spawn(move || call.run())),
        _ => call.run(),
    }
}

impl ToolCall {
    fn run(&self) {
        let wire = &self.server.wire;
        match &*self.name {
            "rpc_error" => {
                wire.error(&self.id, &self.rpc_error());
                self.count_answer();
            }
            "crash" => exit(self.args["code"].as_i64().unwrap_or(1) as i32),
            "abort" => abort(),
            "half" => {
                write(
                    format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"content":[{{"ty"#, self.id).as_bytes(),
                );
                exit(1)
            }
            "huge_line" => self.huge_line(),
            "ask" if self.server.wire.stateless.contains(&self.id) => self.ask_by_input_required(),
            "asks" => self.ask_several(),
            "together" => self.answer_all_together(),
            "write" => self.write_parts(),
            _ => match self.result() {
                Some(result) => self.answer(&result),
                None if self.is_defined() => self.answer(&text_result(&self.arguments)),
                None => wire.error(&self.id, r#"{"code":-32602,"message":"Unknown tool"}"#),
            },
        }
    }

    fn result(&self) -> Option<String> {
        let server = &self.server;
        Some(match &*self.name {
            "echo" | "read_only_echo" => text_result(self.text_argument()),
            "args" => text_result(&self.arguments),
            "params" => text_result(&self.params),
            "env" => {
                let vars = std::env::vars_os();
                let lossy = |s: std::ffi::OsString| s.to_string_lossy().into_owned();
                let vars = vars.map(|(name, value)| (lossy(name), lossy(value)));
                text_result(&json!(vars.collect::<BTreeMap<_, _>>()).to_string())
            }
            "cwd" => text_result(&std::env::current_dir().unwrap().to_string_lossy()),
            "pid" => {
                let (pid, child) = (std::process::id(), server.grandchild);
                let content = json!([{"type": "text", "text": pid.to_string()}]);
                json!({"content": content, "structuredContent": {"pid": pid, "grandchild": child}})
                    .to_string()
            }
            "sleep" => {
                sleep(Duration::from_millis(self.args["ms"].as_u64().unwrap_or(0)));
                text_result("slept")
            }
            "big" => self.big(),
            "fail" => {
                let message = self.args["text"].as_str().unwrap_or("it failed");
                json!({"content": [{"type": "text", "text": message}], "isError": true}).to_string()
            }
            "weird" => WEIRD.to_owned(),
            "verbatim" => self.arguments.clone(),
            "twice" => {
                server.wire.result(&self.id, &text_result("first"));
                text_result("second")
            }
            "progress" => self.progress(),
            "ask" => {
                let ask: AskArguments<'_> = serde_json::from_str(&self.arguments)
                    .unwrap_or(AskArguments { method: None, params: None });
                let params = ask.params.map_or("{}", RawValue::get);
                text_result(&server.request_client(ask.method.as_deref().unwrap_or("ping"), params))
            }
            "log_stderr" => {
                eprintln!("{}", self.text_argument());
                text_result("logged")
            }
            name if name.starts_with("generated_") || name.starts_with("added_") => {
                text_result(&self.arguments)
            }
            name => return protocol::call_tool(server, &self.id, name, &self.arguments),
        })
    }

    /// `ask` in the stateless era. The text is that of a response to a request.
    fn ask_by_input_required(&self) {
        let ask: AskArguments<'_> =
            serde_json::from_str(&self.arguments).unwrap_or(AskArguments { method: None, params: None });
        let request = InputRequest {
            key: "asked".to_owned(),
            method: ask.method.unwrap_or_default().into_owned(),
            params: ask.params.map_or(String::new(), |params| params.get().to_owned()),
        };
        if let Some(responses) =
            input_requests::responses(&self.server, &self.id, &self.params, &[request], 1)
        {
            let by_key: BTreeMap<&str, &RawValue> = serde_json::from_str(&responses).unwrap();
            let result = by_key.get("asked").map_or("null", |response| response.get());
            self.answer(&text_result(&format!(r#"{{"jsonrpc":"2.0","id":"asked","result":{result}}}"#)));
        }
    }

    fn ask_several(&self) {
        let kinds = input_requests::parse_kinds(&self.args["kinds"]);
        let requests = input_requests::of_kinds(kinds.iter().map(String::as_str));
        let rounds = self.args["rounds"].as_u64().unwrap_or(1);
        if let Some(responses) =
            input_requests::responses(&self.server, &self.id, &self.params, &requests, rounds)
        {
            self.answer(&text_result(&responses));
        }
    }

    /// Writes the strings of the argument `parts` instead of an answer, each character as one byte, with the call's id
    /// for `$ID` and a pause of `pause_ms` between them. Only `--definitions` lists this tool.
    fn write_parts(&self) {
        let parts = self.args["parts"].as_array().cloned().unwrap_or_default();
        for (n, part) in parts.iter().filter_map(Value::as_str).enumerate() {
            if n > 0 {
                sleep(Duration::from_millis(self.args["pause_ms"].as_u64().unwrap_or(0)));
            }
            let bytes = part.replace("$ID", &self.id).chars().map(|c| c as u8).collect::<Vec<_>>();
            write(&bytes);
        }
    }

    /// Returns whether a flag defines the tool. Such a tool answers with its arguments.
    fn is_defined(&self) -> bool {
        let file = self.server.flags.text("--definitions-file").map(std::fs::read_to_string);
        let file = file.and_then(Result::ok).unwrap_or_default();
        let name = format!("\"name\":{}", quote(&self.name));
        [self.server.flags.text("--definitions").unwrap_or_default(), &file]
            .iter()
            .any(|all| all.contains(&name))
    }

    /// Answers all pending calls of this tool as soon as there are as many as the argument `n` says.
    fn answer_all_together(&self) {
        let due = {
            let mut pending = self.server.together_calls.lock().unwrap();
            pending.push(self.id.clone());
            let is_enough = pending.len() as u64 >= self.args["n"].as_u64().unwrap_or(2);
            if is_enough { std::mem::take(&mut *pending) } else { Vec::new() }
        };
        self.server.wire.notify("notifications/message", r#"{"level":"info","data":"one more"}"#);
        for (n, id) in due.iter().enumerate() {
            self.server.wire.result(id, &text_result(&format!("{n}")));
        }
    }

    fn text_argument(&self) -> &str {
        self.args["text"].as_str().unwrap_or_default()
    }

    /// Text, or an array of rows of 64 bytes each.
    fn big(&self) -> String {
        let bytes = self.bytes_argument();
        if self.args["kind"] != "rows" {
            return text_result(&"x".repeat(bytes));
        }
        let rows = (0..bytes / 64)
            .map(|i| format!(r#"{{"id":{i:>12},"name":"{:a<22}","value":{:>8}.25}}"#, "row ", i));
        let rows = rows.collect::<Vec<_>>().join(",");
        format!(r#"{{"content":[{{"type":"text","text":"rows"}}],"structuredContent":{{"rows":[{rows}]}}}}"#)
    }

    fn progress(&self) -> String {
        let n = self.args["n"].as_u64().unwrap_or(1);
        for (i, token) in self.progress_token.iter().flat_map(|token| (1..=n).map(move |i| (i, token))) {
            let params =
                format!(r#"{{"progressToken":{token},"progress":{i},"total":{n}.0,"message":"step {i}"}}"#);
            self.server.wire.notify("notifications/progress", &params);
        }
        text_result("done")
    }

    /// Sends one message of slightly more than `bytes` bytes.
    fn huge_line(&self) {
        let (id, result) = (&self.id, text_result(&"x".repeat(self.bytes_argument())));
        match self.args["id"].as_str() {
            Some("last") => {
                self.server.wire.send(&format!(r#"{{"jsonrpc":"2.0","result":{result},"id":{id}}}"#));
                self.count_answer();
            }
            _ => self.answer(&result),
        }
    }

    /// The error object. Its code and data are passed as they came, because a code may be of any size.
    fn rpc_error(&self) -> String {
        #[derive(Deserialize)]
        struct ErrorArguments<'a> {
            #[serde(borrow)]
            code: Option<&'a RawValue>,
            #[serde(borrow)]
            data: Option<&'a RawValue>,
        }
        let error =
            serde_json::from_str(&self.arguments).unwrap_or(ErrorArguments { code: None, data: None });
        let code = error.code.map_or("-32000", RawValue::get);
        let data = error.data.map(|data| format!(r#","data":{}"#, data.get())).unwrap_or_default();
        let message = quote(self.args["message"].as_str().unwrap_or("an error"));
        format!(r#"{{"code":{code},"message":{message}{data}}}"#)
    }

    fn bytes_argument(&self) -> usize {
        self.args["bytes"].as_u64().unwrap_or(0) as usize
    }

    /// Sends the result, and what the flags add to it.
    fn answer(&self, result: &str) {
        let server = &self.server;
        if server.flags.has("--list-changed-on-call") {
            server.added_tools.fetch_add(1, Ordering::Relaxed);
            notify(server, &self.id, "notifications/tools/list_changed", "{}");
        }
        server.wire.result(&self.id, result);
        self.count_answer();
    }

    fn count_answer(&self) {
        let calls = self.server.answered_calls.fetch_add(1, Ordering::Relaxed) + 1;
        if self.server.flags.number("--exit-after").is_some_and(|last| calls >= last) {
            exit(0);
        }
    }
}

/// The result of a call, with one block of text.
pub(crate) fn text_result(text: &str) -> String {
    format!(r#"{{"content":[{{"type":"text","text":{}}}]}}"#, quote(text))
}

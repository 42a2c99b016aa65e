//! The tools, which `SIMPLE` describes, and `tools/call`.

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

use crate::asking::{self, Question};
use crate::protocol;
use crate::server::Server;
use crate::stateless::tell;
use crate::wire::{quote, write};

/// Name, description and properties of the input.
const SIMPLE: &[(&str, &str, &str)] = &[
    ("args", "Returns its arguments as text, byte for byte.", "{}"),
    ("params", "Returns the params of the call as text, byte for byte.", "{}"),
    ("env", "Returns its environment as a JSON object.", "{}"),
    ("cwd", "Returns its working directory.", "{}"),
    ("pid", "Returns its process id, and that of its child.", "{}"),
    ("sleep", "Answers later; other requests do not wait.", r#"{"ms":{"type":"integer"}}"#),
    ("big", "Returns so many bytes.", r#"{"bytes":{"type":"integer"},"kind":{"enum":["text","rows"]}}"#),
    ("fail", "Returns a result that is an error.", r#"{"text":{"type":"string"}}"#),
    ("rpc_error", "Answers with an error.", r#"{"code":{},"message":{"type":"string"},"data":{}}"#),
    ("weird", "Returns everything that JSON allows.", "{}"),
    ("crash", "Exits without an answer.", r#"{"code":{"type":"integer"}}"#),
    ("abort", "Dies of SIGABRT.", "{}"),
    ("half", "Writes half an answer and exits.", "{}"),
    ("twice", "Answers twice.", "{}"),
    ("progress", "Tells its progress n times.", r#"{"n":{"type":"integer"}}"#),
    ("ask", "Asks the client and returns its answer.", r#"{"method":{"type":"string"},"params":{}}"#),
    ("late", "Answers only after it was cancelled.", "{}"),
    ("log_stderr", "Writes a line to stderr.", r#"{"text":{"type":"string"}}"#),
    (
        "huge_line",
        "One line of so many bytes.",
        r#"{"bytes":{"type":"integer"},"id":{"enum":["first","last"]}}"#,
    ),
];

const ECHO: &str = r#"{"name":"echo","title":"Echo","description":"Returns its text.\n\nThe text comes back as it was given, in one content block. Use it to find out whether a call arrives at all.","inputSchema":{"type":"object","properties":{"text":{"type":"string","description":"What to return"}},"required":["text"],"additionalProperties":false},"annotations":{"openWorldHint":false},"_meta":{"x/y":{"deep":[1,2.50,1e3]}},"x-unknown":null}"#;

const READ_ONLY_ECHO: &str = r#"{"name":"read_only_echo","description":"Returns its text, and changes nothing.","inputSchema":{"type":"object","properties":{"text":{"type":"string"}}},"annotations":{"readOnlyHint":true,"x-unknown":1},"execution":{"taskSupport":"forbidden"}}"#;

/// The result of `weird`. Nothing of it may change on its way, not even the spelling of a number.
const WEIRD: &str = r#"{"messages":[{"role":"x"}],"tools":null,"contents":{"a":[]},"content":[{"type":"text","text":"\ud83d\ude00 \u0000 caf\u00e9 \/ \ud800","x-unknown":true},{"type":"x-hologram","data":{"huge":1e400}}],"structuredContent":{"minusZero":-0.0,"huge":1e400,"big":123456789012345678901234567890,"exact":1.10,"null":null,"":"ö"},"isError":false,"_meta":{"x/y":[1.0,1E+2]},"x-unknown":null, "spaced" : [ 1 , 2 ]}"#;

/// What `tools/list` gives, in its order.
pub(crate) fn definitions(generated: u64, added: usize) -> Vec<String> {
    let simple = SIMPLE.iter().map(|(name, description, properties)| {
        let schema = format!(r#"{{"type":"object","properties":{properties}}}"#);
        format!(r#"{{"name":"{name}","description":"{description}","inputSchema":{schema}}}"#)
    });
    let added = (0..added).map(|i| format!(r#"{{"name":"added_{i}","inputSchema":{{"type":"object"}}}}"#));
    [ECHO.to_owned(), READ_ONLY_ECHO.to_owned()]
        .into_iter()
        .chain(simple)
        .chain((0..generated).map(generate))
        .chain(added)
        .collect()
}

fn generate(i: u64) -> String {
    let defs = r##"{"item":{"type":"object","properties":{"id":{"type":"integer","maximum":18446744073709551615},"next":{"$ref":"#/$defs/item"}}}}"##;
    let schema = format!(
        r##"{{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","$defs":{defs},"properties":{{"items":{{"type":"array","items":{{"$ref":"#/$defs/item"}}}}}},"x-unknown":{{"n":{i}}}}}"##
    );
    format!(
        r#"{{"name":"generated_{i}","description":"Generated tool number {i}. It returns its arguments.","inputSchema":{schema},"outputSchema":{{"type":"object"}},"x-unknown":{i}.0}}"#
    )
}

/// What `ask` is to ask.
#[derive(Deserialize)]
struct Asked<'a> {
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

/// One call: what it was asked, owned, for it may outlive its line.
struct Call {
    server: Arc<Server>,
    id: String,
    name: String,
    /// As they came; empty: none.
    arguments: String,
    args: Value,
    params: String,
    token: Option<String>,
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, rename = "_meta")]
    meta: Option<Meta<'a>>,
}

#[derive(Deserialize)]
struct Meta<'a> {
    #[serde(borrow, rename = "progressToken")]
    token: Option<&'a RawValue>,
}

pub(crate) fn call(server: &Arc<Server>, id: &str, params: Option<&RawValue>) {
    if server.flags.text("--hang") == Some("call") {
        return;
    }
    let raw = params.map_or("", RawValue::get);
    let Ok(parsed) = serde_json::from_str::<Params<'_>>(raw) else {
        return server.wire.error(id, r#"{"code":-32602,"message":"Invalid params"}"#);
    };
    let call = Call {
        server: server.clone(),
        id: id.to_owned(),
        name: parsed.name.into_owned(),
        arguments: parsed.arguments.map_or("", RawValue::get).to_owned(),
        args: crate::value(parsed.arguments),
        params: raw.to_owned(),
        token: parsed.meta.and_then(|meta| Some(meta.token?.get().to_owned())),
    };
    // Registered before the next line is read, which may be the cancellation.
    let cancelled = (call.name == "late").then(|| server.cancellation(id));
    match (&*call.name, cancelled) {
        ("late", Some(cancelled)) => drop(spawn(move || {
            let _late = cancelled.recv();
            sleep(Duration::from_millis(50));
            call.answer(&text("late"));
        })),
        ("sleep" | "ask" | "asks", _) => drop(spawn(move || call.run())),
        _ => call.run(),
    }
}

impl Call {
    fn run(&self) {
        let wire = &self.server.wire;
        match &*self.name {
            "rpc_error" => {
                wire.error(&self.id, &self.error());
                self.count();
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
            "ask" if self.server.wire.stateless.has(&self.id) => self.ask_by_result(),
            "asks" => self.ask_several(),
            "together" => self.answer_together(),
            _ => match self.result() {
                Some(result) => self.answer(&result),
                None => wire.error(&self.id, r#"{"code":-32602,"message":"Unknown tool"}"#),
            },
        }
    }

    fn result(&self) -> Option<String> {
        let server = &self.server;
        Some(match &*self.name {
            "echo" | "read_only_echo" => text(self.text()),
            "args" => text(&self.arguments),
            "params" => text(&self.params),
            "env" => {
                let vars = std::env::vars_os();
                let lossy = |s: std::ffi::OsString| s.to_string_lossy().into_owned();
                let vars = vars.map(|(name, value)| (lossy(name), lossy(value)));
                text(&json!(vars.collect::<BTreeMap<_, _>>()).to_string())
            }
            "cwd" => text(&std::env::current_dir().unwrap().to_string_lossy()),
            "pid" => {
                let (pid, child) = (std::process::id(), server.grandchild);
                let content = json!([{"type": "text", "text": pid.to_string()}]);
                json!({"content": content, "structuredContent": {"pid": pid, "grandchild": child}})
                    .to_string()
            }
            "sleep" => {
                sleep(Duration::from_millis(self.args["ms"].as_u64().unwrap_or(0)));
                text("slept")
            }
            "big" => self.big(),
            "fail" => {
                let said = self.args["text"].as_str().unwrap_or("it failed");
                json!({"content": [{"type": "text", "text": said}], "isError": true}).to_string()
            }
            "weird" => WEIRD.to_owned(),
            "twice" => {
                server.wire.result(&self.id, &text("first"));
                text("second")
            }
            "progress" => self.progress(),
            "ask" => {
                let asked: Asked<'_> =
                    serde_json::from_str(&self.arguments).unwrap_or(Asked { method: None, params: None });
                let params = asked.params.map_or("{}", RawValue::get);
                text(&server.ask(asked.method.as_deref().unwrap_or("ping"), params))
            }
            "log_stderr" => {
                eprintln!("{}", self.text());
                text("logged")
            }
            name if name.starts_with("generated_") || name.starts_with("added_") => text(&self.arguments),
            name => return protocol::call(server, &self.id, name, &self.arguments),
        })
    }

    /// `ask` where there are no requests to a client: the text is what it would be if there were.
    fn ask_by_result(&self) {
        let asked: Asked<'_> =
            serde_json::from_str(&self.arguments).unwrap_or(Asked { method: None, params: None });
        let question = Question {
            key: "asked".to_owned(),
            method: asked.method.unwrap_or_default().into_owned(),
            params: asked.params.map_or(String::new(), |params| params.get().to_owned()),
        };
        if let Some(inputs) = asking::inputs(&self.server, &self.id, &self.params, &[question], 1) {
            let answers: BTreeMap<&str, &RawValue> = serde_json::from_str(&inputs).unwrap();
            let result = answers.get("asked").map_or("null", |answer| answer.get());
            self.answer(&text(&format!(r#"{{"jsonrpc":"2.0","id":"asked","result":{result}}}"#)));
        }
    }

    fn ask_several(&self) {
        let kinds = asking::kinds(&self.args["kinds"]);
        let questions = asking::questions(kinds.iter().map(String::as_str));
        let rounds = self.args["rounds"].as_u64().unwrap_or(1);
        if let Some(inputs) = asking::inputs(&self.server, &self.id, &self.params, &questions, rounds) {
            self.answer(&text(&inputs));
        }
    }

    /// Answers when there are as many of these calls as the argument `n` says.
    fn answer_together(&self) {
        let waiting = {
            let mut waiting = self.server.together.lock().unwrap();
            waiting.push(self.id.clone());
            let is_enough = waiting.len() as u64 >= self.args["n"].as_u64().unwrap_or(2);
            if is_enough { std::mem::take(&mut *waiting) } else { Vec::new() }
        };
        self.server.wire.notify("notifications/message", r#"{"level":"info","data":"one more"}"#);
        for (n, id) in waiting.iter().enumerate() {
            self.server.wire.result(id, &text(&format!("{n}")));
        }
    }

    fn text(&self) -> &str {
        self.args["text"].as_str().unwrap_or_default()
    }

    /// Text, or rows of an object of 64 bytes each.
    fn big(&self) -> String {
        let bytes = self.bytes();
        if self.args["kind"] != "rows" {
            return text(&"x".repeat(bytes));
        }
        let rows = (0..bytes / 64)
            .map(|i| format!(r#"{{"id":{i:>12},"name":"{:a<22}","value":{:>8}.25}}"#, "row ", i));
        let rows = rows.collect::<Vec<_>>().join(",");
        format!(r#"{{"content":[{{"type":"text","text":"rows"}}],"structuredContent":{{"rows":[{rows}]}}}}"#)
    }

    fn progress(&self) -> String {
        let n = self.args["n"].as_u64().unwrap_or(1);
        for i in self.token.iter().flat_map(|token| (1..=n).map(move |i| (i, token))) {
            let (i, token) = i;
            let params =
                format!(r#"{{"progressToken":{token},"progress":{i},"total":{n}.0,"message":"step {i}"}}"#);
            self.server.wire.notify("notifications/progress", &params);
        }
        text("done")
    }

    /// One message of `bytes` bytes and a few more.
    fn huge_line(&self) {
        let (id, result) = (&self.id, text(&"x".repeat(self.bytes())));
        match self.args["id"].as_str() {
            Some("last") => {
                self.server.wire.send(&format!(r#"{{"jsonrpc":"2.0","result":{result},"id":{id}}}"#));
                self.count();
            }
            _ => self.answer(&result),
        }
    }

    /// Code and data as they came: a code need not be a number that fits anywhere.
    fn error(&self) -> String {
        #[derive(Deserialize)]
        struct Error<'a> {
            #[serde(borrow)]
            code: Option<&'a RawValue>,
            #[serde(borrow)]
            data: Option<&'a RawValue>,
        }
        let error = serde_json::from_str(&self.arguments).unwrap_or(Error { code: None, data: None });
        let code = error.code.map_or("-32000", RawValue::get);
        let data = error.data.map(|data| format!(r#","data":{}"#, data.get())).unwrap_or_default();
        let message = quote(self.args["message"].as_str().unwrap_or("an error"));
        format!(r#"{{"code":{code},"message":{message}{data}}}"#)
    }

    fn bytes(&self) -> usize {
        self.args["bytes"].as_u64().unwrap_or(0) as usize
    }

    fn answer(&self, result: &str) {
        let server = &self.server;
        if server.flags.has("--list-changed-on-call") {
            server.added.fetch_add(1, Ordering::Relaxed);
            tell(server, &self.id, "notifications/tools/list_changed", "{}");
        }
        server.wire.result(&self.id, result);
        self.count();
    }

    fn count(&self) {
        let calls = self.server.calls.fetch_add(1, Ordering::Relaxed) + 1;
        if self.server.flags.number("--exit-after").is_some_and(|last| calls >= last) {
            exit(0);
        }
    }
}

/// A result of one block of text.
pub(crate) fn text(text: &str) -> String {
    format!(r#"{{"content":[{{"type":"text","text":{}}}]}}"#, quote(text))
}

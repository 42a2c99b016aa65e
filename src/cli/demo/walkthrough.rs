//! The steps of the demo: what the client does, and what the text says about it.

use super::printer::Printer;
use super::sandbox::{BROKEN_GROUP, GROUPS, IDLE_SECONDS, Sandbox};
use anyhow::{Context, ensure};
use base::text::joined;
use base::tokens::estimate;
use instance::program_client::ProgramClient;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use upstream::catalog::tool::model_tokens;
use wire::Raw;

/// How long to wait until all servers are closed, and how often to look.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The group and the tool that the model uses.
const GROUP: &str = "work";
const TOOL: &str = "search_notes";

/// Runs all steps. `user_config` is where the user's own config belongs.
///
/// # Errors
///
/// Fails if a step has another outcome than its text promises, or the output cannot be written.
pub(super) async fn run(
    out: &mut Printer<'_>,
    sandbox: &Sandbox,
    user_config: Option<PathBuf>,
) -> anyhow::Result<()> {
    out.title("dynamic-mcp demo: all of this happens now, on this machine, and every figure is measured")?;
    let (direct_tokens, direct_result) = run_without_proxy(out).await?;
    let (config, started) = (sandbox.config_file(), Instant::now());
    let args = ["--no-cache", "--log-level=error", "--config"].map(AsRef::as_ref);
    let state_dir: Vec<_> = config.parent().map(|dir| ("XDG_STATE_HOME", dir)).into_iter().collect();
    let proxy = ProgramClient::start(&[&args[..], &[config.as_os_str()]].concat(), &state_dir)?;
    let mut walkthrough = Walkthrough { out, sandbox, proxy, tokens_read: 0 };
    walkthrough.start(started).await?;
    walkthrough.find_and_call(&direct_result).await?;
    walkthrough.make_mistakes().await?;
    walkthrough.pause().await?;
    walkthrough.shut_down(direct_tokens).await?;

    out.step("The same for your own servers")?;
    let config = user_config.map_or_else(|| "servers.json".to_owned(), |path| path.display().to_string());
    out.paragraph(
        "`dynamic-mcp import --dry-run` shows what it would take over from the clients on this machine, and \
         `dynamic-mcp import --write-client` does it. It asks first, and `dynamic-mcp import --undo` takes it back.",
    )?;
    out.paragraph(&format!(
        "By hand: move \"mcpServers\" from the config of your client to {config}. Leave only this in the client's \
         config:"
    ))?;
    let server =
        json!({ "command": std::env::current_exe()?.to_string_lossy(), "args": ["--config", config] });
    out.verbatim(&format!("{:#}", json!({ "mcpServers": { "dyn": server } })))?;
    Ok(())
}

/// Starts each server, one after the other. Returns the tokens of all definitions, and the result of the call of
/// [`TOOL`].
///
/// # Errors
///
/// Fails if a server does not answer or does not exit, or the output cannot be written.
async fn run_without_proxy(out: &mut Printer<'_>) -> anyhow::Result<(usize, Raw)> {
    out.step("Without dynamic-mcp: every server runs, and the model reads all their tools")?;
    let (mut definitions, mut result) = (Vec::new(), Raw::default());
    for (group, _) in GROUPS {
        let mut server = ProgramClient::start(&["__demo-server".as_ref(), group.as_ref()], &[])?;
        server.initialize().await?;
        definitions.extend(server.client.list_tools().await?);
        if group == GROUP {
            result = server.client.call_tool(TOOL, tool_args().to_string().as_bytes()).await?;
        }
        server.shut_down().await?;
    }
    let tokens = definition_tokens(&definitions);
    out.paragraph(&format!(
        "{} servers have {} tools: ~{tokens} tokens, by an estimate. Of a tool, its name, description and input schema \
         count, which is what a model reads.",
        GROUPS.len(),
        definitions.len(),
    ))?;
    Ok((tokens, result))
}

/// The steps that share a client of dynamic-mcp.
struct Walkthrough<'p, 'o> {
    /// Where the output goes.
    out: &'p mut Printer<'o>,
    /// The files of the demo.
    sandbox: &'p Sandbox,
    /// dynamic-mcp, and the client of it.
    proxy: ProgramClient,
    /// The tokens that the model has read to find its tool.
    tokens_read: usize,
}

impl Walkthrough<'_, '_> {
    async fn start(&mut self, started: Instant) -> anyhow::Result<()> {
        self.out.step("With dynamic-mcp: one server in front of them, which answers at once")?;
        let handshake = self.proxy.initialize().await?;
        self.proxy.client.list_tools().await?;
        let (listed, running) = (millis(started), self.sandbox.running_servers().len());
        self.out.paragraph(&format!(
            "tools/list was answered {listed} after the start, and {running} servers ran by then."
        ))?;
        self.wait_until_closed().await?;
        let learnt = millis(started);
        let tools = self.proxy.client.list_tools().await?;
        let instructions = handshake["instructions"].as_str().unwrap_or_default();
        self.tokens_read = definition_tokens(&tools) + estimate(instructions);
        let text = format!(
            "In the background, each server was then started once, asked for its tools and closed again. This was \
             done {learnt} after the start. Now the model reads the instructions and {} tools: ~{} tokens.",
            tools.len(),
            self.tokens_read
        );
        self.print_servers(&text, 0)?;
        self.out.paragraph(
            "If your own servers have so few tools that all of them cost less, `dynamic-mcp check` says so. With \
             `--surface flat` the model then gets the tools themselves.",
        )?;
        Ok(())
    }

    async fn find_and_call(&mut self, direct_result: &Raw) -> anyhow::Result<()> {
        self.out.step("The model looks for a tool: no server is needed for that")?;
        let query = json!({ "query": "find the notes about the offsite at work" });
        let hits = self.call("search_dynamic_tools", &query, false).await?;
        let definition = json!({ "group": GROUP, "tools": [TOOL] });
        let definition = self.call("get_dynamic_tools", &definition, false).await?;
        let costs = [hits, definition].map(|answer| estimate(&answer.text));
        self.tokens_read += costs.iter().sum::<usize>();
        let [hits, definition] = costs;
        self.print_servers(&format!("The answers cost ~{hits} and ~{definition} tokens."), 0)?;

        self.out.step("It calls the tool: the server starts, and no other")?;
        let call = json!({ "group": GROUP, "name": TOOL, "args": tool_args() });
        let answer = self.call("call_dynamic_tool", &call, false).await?;
        ensure!(answer.result == *direct_result, "the result is not the server's: {}", answer.text);
        let text = format!(
            "Answered in {}, the start of the server included. All {} bytes of the result are those that the server \
             sends without dynamic-mcp.",
            answer.elapsed,
            answer.result.len()
        );
        self.print_servers(&text, 1)
    }

    async fn make_mistakes(&mut self) -> anyhow::Result<()> {
        self.out.step("It passes wrong arguments: beside the server's answer, it is told the signature")?;
        let args = json!({ "title": "Offsite", "text": "Bring boots." });
        let call = json!({ "group": GROUP, "name": "add_note", "args": args });
        self.call("call_dynamic_tool", &call, true).await?;

        self.out
            .step("It needs a server that is not installed: it is told what to do, and the others work")?;
        self.call("get_dynamic_tools", &json!({ "group": BROKEN_GROUP }), true).await?;
        self.call("get_status", &json!({}), false).await?;
        Ok(())
    }

    async fn pause(&mut self) -> anyhow::Result<()> {
        let heading =
            format!("It asks nothing for {IDLE_SECONDS} s: the server is closed until it is needed again");
        self.out.step(&heading)?;
        self.wait_until_closed().await?;
        self.print_servers("", 0)?;
        let call = json!({ "group": GROUP, "name": "get_note", "args": { "id": "note-1" } });
        let answer = self.call("call_dynamic_tool", &call, false).await?;
        self.print_servers(&format!("Answered in {}.", answer.elapsed), 1)
    }

    async fn shut_down(&mut self, direct_tokens: usize) -> anyhow::Result<()> {
        self.out.step("The client closes the connection: nothing is left running")?;
        let closed = Instant::now();
        self.proxy.shut_down().await?;
        self.print_servers(&format!("dynamic-mcp exited after {}.", millis(closed)), 0)?;

        self.out.step("What this saved")?;
        self.out.paragraph(&format!(
            "To find its tool, the model read ~{} tokens instead of ~{direct_tokens}, {:.0} % less, and one server ran \
             instead of {}. Each further server would add all its tools to the larger number, and one line to the smaller one.",
            self.tokens_read,
            100.0 * (1.0 - self.tokens_read as f64 / direct_tokens as f64),
            GROUPS.len()
        ))?;
        Ok(())
    }

    /// Waits until the tools of all servers are known and no server runs.
    ///
    /// # Errors
    ///
    /// Fails if dynamic-mcp does not answer, or that takes longer than `CLOSE_TIMEOUT`.
    async fn wait_until_closed(&mut self) -> anyhow::Result<()> {
        let wait = async {
            loop {
                let status = self.proxy.client.call_tool("get_status", b"{}").await?;
                let status: Value = serde_json::from_slice(&status)?;
                let known = &status["structuredContent"]["ready"];
                if *known == GROUPS.len() && self.sandbox.running_servers().is_empty() {
                    return anyhow::Ok(());
                }
                sleep(POLL_INTERVAL).await;
            }
        };
        timeout(CLOSE_TIMEOUT, wait).await.context("the servers were not closed in time")?
    }

    /// Calls a tool of dynamic-mcp and prints the call and its answer. `is_error`: whether the answer has to be an
    /// error.
    ///
    /// # Errors
    ///
    /// Fails if dynamic-mcp does not answer, the answer is not as expected, or the output cannot be written.
    async fn call(&mut self, tool: &str, args: &Value, is_error: bool) -> anyhow::Result<ToolAnswer> {
        let called = Instant::now();
        let result = self.proxy.client.call_tool(tool, args.to_string().as_bytes()).await?;
        let elapsed = millis(called);
        let value: Value = serde_json::from_slice(&result)?;
        let blocks = value["content"].as_array().context("a result without content")?;
        let text = blocks.iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n");
        self.out.exchange(&format!("{tool} {args}"), &text)?;
        ensure!((value["isError"] == true) == is_error, "this is not the answer that was expected");
        Ok(ToolAnswer { result, text, elapsed })
    }

    /// Prints `text` and which servers run.
    ///
    /// # Errors
    ///
    /// Fails if there are not as many as `expected`, or the output cannot be written.
    fn print_servers(&mut self, text: &str, expected: usize) -> anyhow::Result<()> {
        let running = self.sandbox.running_servers();
        let processes = joined(running.iter().map(|(group, pid)| format!("{group} (process {pid})")));
        let listed = if running.is_empty() { "none" } else { &processes };
        self.out.paragraph(format!("{text} Running servers: {listed}.").trim_start())?;
        ensure!(running.len() == expected, "{} servers run instead of {expected}", running.len());
        Ok(())
    }
}

/// The answer to a call of a tool.
struct ToolAnswer {
    /// The whole result, as the bytes that came.
    result: Raw,
    /// The text of its content blocks.
    text: String,
    /// How long the call took, as text.
    elapsed: String,
}

/// Returns the arguments that the model passes to [`TOOL`].
fn tool_args() -> Value {
    json!({ "query": "lake" })
}

/// Estimates the tokens of tool definitions.
fn definition_tokens(tools: &[Value]) -> usize {
    tools.iter().map(|tool| model_tokens(&tool.to_string().into())).sum()
}

/// Returns the time since `start`.
fn millis(start: Instant) -> String {
    format!("{:.1} ms", start.elapsed().as_secs_f64() * 1000.0)
}

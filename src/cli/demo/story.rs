//! What the demo does and tells, step by step. Every number is measured as it goes.

use super::client::{Answer, Client};
use super::page::{Page, thousands};
use super::stage::{GROUPS, IDLE_SECONDS, Stage, USED};
use anyhow::{Context, bail};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// English text and JSON have about four characters a token.
const CHARACTERS_PER_TOKEN: usize = 4;
/// Characters of a line that are shown.
const SHOWN: usize = 440;
/// For the server to be closed, once it is not used any more.
const CLOSED: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

struct Story<'p, 'o> {
    page: &'p mut Page<'o>,
    stage: &'p Stage,
    client: Client,
    /// Characters of tool definitions that the model has read so far.
    read: usize,
    /// The states in which the group that is used was seen.
    states: Vec<String>,
    last_use: Instant,
    /// Groups that were not pending any more when last looked at.
    started: usize,
}

/// What all tools cost when they are listed directly.
struct Direct {
    tools: usize,
    characters: usize,
}

pub async fn tell(page: &mut Page<'_>, stage: &Stage, config: Option<PathBuf>) -> anyhow::Result<()> {
    page.title("dynamic-mcp demo: all of this happens now, on this machine, and every number is measured")?;
    let direct = without(page, stage).await?;
    let args = ["--config".into(), stage.config().into_os_string()];
    let client = Client::start(&stage.program, &args, stage.log()?)?;
    let mut story =
        Story { page, stage, client, read: 0, states: Vec::new(), last_use: Instant::now(), started: 0 };
    story.first_look().await?;
    story.look_up().await?;
    story.use_it().await?;
    story.misspell().await?;
    story.idle().await?;
    let Story { page, client, read, started, .. } = story;
    client.end().await?;
    savings(page, &direct, read, started)?;
    yours(page, stage, config)?;
    Ok(())
}

/// Every server started and listed as a client without us does.
async fn without(page: &mut Page<'_>, stage: &Stage) -> anyhow::Result<Direct> {
    page.step("Without dynamic-mcp: every server runs, and the model gets all their tools")?;
    let mut direct = Direct { tools: 0, characters: 0 };
    for (group, _) in GROUPS {
        let client = Client::start(&stage.program, &["__demo-server", group], stage.log()?)?;
        client.initialize().await?;
        let (tools, _) = client.tools().await?;
        client.end().await?;
        let characters = tools.iter().map(seen_by_the_model).sum();
        page.row(&cost(group, tools.len(), characters))?;
        direct.tools += tools.len();
        direct.characters += characters;
    }
    page.row(&cost("together", direct.tools, direct.characters))?;
    page.say(&format!(
        "Tokens are estimated: characters / {CHARACTERS_PER_TOKEN}. Of a tool, its name, description and input \
         schema are counted, which is what a model reads."
    ))?;
    Ok(direct)
}

fn cost(name: &str, tools: usize, characters: usize) -> String {
    format!("{name:<10} {tools:>3} tools  {:>7} tokens", about(characters))
}

impl Story<'_, '_> {
    async fn first_look(&mut self) -> anyhow::Result<()> {
        self.page.step("With dynamic-mcp: one server in front of them, and none of them runs")?;
        let (greeting, greeted) = self.client.initialize().await?;
        let (tools, listed) = self.client.tools().await?;
        let instructions = greeting["instructions"].as_str().unwrap_or_default();
        let characters = tools.iter().map(seen_by_the_model).sum::<usize>() + instructions.chars().count();
        self.read += characters;
        let names: Vec<_> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
        self.page.say(&format!("The model sees {}.", names.join(", ")))?;
        self.page.row(&format!("{} (instructions included)", cost("together", tools.len(), characters)))?;
        self.page.say(&format!(
            "initialize was answered {} after the process was started, tools/list after {}.",
            millis(greeted),
            millis(listed)
        ))?;
        self.status("pending", 0).await?;
        self.page.gap()?;
        self.page.say("The last column is not get_status: the demo looks for the processes itself.")?;
        Ok(())
    }

    async fn look_up(&mut self) -> anyhow::Result<()> {
        self.page.step(&format!("The model looks into a group: now {USED} starts, and only {USED}"))?;
        let stubs = self.ask("get_dynamic_tools", json!({ "group": USED, "lazy": true })).await?;
        self.read += stubs.text.chars().count();
        let one = json!({ "group": USED, "tools": ["add_note"] });
        let definition = self.ask("get_dynamic_tools", one).await?;
        self.read += definition.text.chars().count();
        self.page.gap()?;
        self.page.say(&format!(
            "The list cost {} tokens and took {}, start included; the definition cost {} and took {}.",
            about(stubs.text.chars().count()),
            millis(stubs.took),
            about(definition.text.chars().count()),
            millis(definition.took)
        ))?;
        Ok(())
    }

    async fn use_it(&mut self) -> anyhow::Result<()> {
        self.page.step("It calls tools: the results arrive as the server gave them")?;
        let body = "Cabin by the lake, 12 to 13 March, 12 people.";
        let note = json!({ "title": "Offsite: plan", "body": body, "tags": ["offsite"] });
        let call = json!({ "group": USED, "name": "add_note", "args": note });
        let added = self.ask("call_dynamic_tool", call).await?;
        let call = json!({ "group": USED, "name": "search_notes", "args": { "query": "lake offsite" } });
        let found = self.ask("call_dynamic_tool_readonly", call).await?;
        self.page.gap()?;
        self.page.say(&format!(
            "The calls took {} and {}. The second tool says of itself that it only reads, so a user can allow \
             call_dynamic_tool_readonly for good.",
            millis(added.took),
            millis(found.took)
        ))?;
        self.status("connected", 1).await
    }

    async fn misspell(&mut self) -> anyhow::Result<()> {
        self.page.step("It misspells a tool: the answer names the nearest ones")?;
        let call = json!({ "group": USED, "name": "serach_notes", "args": { "query": "lake" } });
        let answer = self.tool("call_dynamic_tool", &call).await?;
        if !answer.is_error {
            bail!("a misspelt tool was called: {}", answer.text);
        }
        self.read += answer.text.chars().count();
        Ok(())
    }

    /// Waits until the server was closed, and asks for what is known without it.
    async fn idle(&mut self) -> anyhow::Result<()> {
        self.page
            .step(&format!("{USED} is not used any more: its server is closed, its tools stay known"))?;
        let deadline = Instant::now() + CLOSED;
        while self.look().await? != "discovered" || self.stage.running() > 0 {
            if Instant::now() > deadline {
                bail!("{USED} was not closed within {} s", CLOSED.as_secs());
            }
            sleep(LOOK_AGAIN).await;
        }
        let closed = self.last_use.elapsed().as_secs_f64();
        self.page
            .say(&format!("Closed {closed:.1} s after its last use (idle_timeout: {IDLE_SECONDS} s)."))?;
        self.status("discovered", 0).await?;
        let one = json!({ "group": USED, "tools": ["list_tags"] });
        let again = self.ask("get_dynamic_tools", one).await?;
        self.read += again.text.chars().count();
        let running = self.stage.running();
        let states = self.states.join(" → ");
        self.page.gap()?;
        self.page.say(&format!("Answered within {}; servers running: {running}.", millis(again.took)))?;
        self.page.say(&format!("The states of {USED} so far: {states}."))?;
        Ok(())
    }

    /// Asks, shows both, and fails if the answer is an error.
    async fn ask(&mut self, tool: &str, args: Value) -> anyhow::Result<Answer> {
        let answer = self.tool(tool, &args).await?;
        if answer.is_error {
            bail!("{tool} {args} failed: {}", answer.text);
        }
        Ok(answer)
    }

    async fn tool(&mut self, tool: &str, args: &Value) -> anyhow::Result<Answer> {
        self.page.asked(&format!("{tool} {args}"))?;
        let answer = self.client.call(tool, args).await?;
        self.last_use = Instant::now();
        self.page.answered(&shortened(&answer.text))?;
        Ok(answer)
    }

    /// The state of the group that is used, as `get_status` tells it.
    async fn look(&mut self) -> anyhow::Result<String> {
        let answer = self.client.call("get_status", &json!({ "group": USED })).await?;
        let state = answer.structured["groups"][0]["state"].as_str();
        let state = state.context("get_status told no state")?.to_owned();
        if self.states.last() != Some(&state) {
            self.states.push(state.clone());
        }
        Ok(state)
    }

    /// Shows all groups, as `get_status` tells them, and which of them have a process. The group that is used must be
    /// in `state`, and so many servers must run.
    async fn status(&mut self, state: &str, running: usize) -> anyhow::Result<()> {
        let seen = self.look().await?;
        let answer = self.client.call("get_status", &json!({})).await?;
        self.page.asked("get_status {}")?;
        let groups = answer.structured["groups"].as_array().context("get_status told of no groups")?;
        for group in groups {
            self.page.row(&self.status_line(group))?;
        }
        self.started = groups.iter().filter(|group| group["state"] != "pending").count();
        match self.stage.running() {
            n if n != running => bail!("{n} servers run, but it should be {running}"),
            _ if seen != state => bail!("{USED} is {seen}, but should be {state}"),
            _ => Ok(()),
        }
    }

    fn status_line(&self, group: &Value) -> String {
        let [name, state] = ["group", "state"].map(|key| group[key].as_str().unwrap_or_default());
        let tools = match group["tools"].as_u64() {
            Some(tools) => format!("{tools} tools known"),
            None => "tools not known".to_owned(),
        };
        let process = match self.stage.process(name) {
            Some(pid) => format!("process {pid}"),
            None => "no process".to_owned(),
        };
        format!("  {name:<10} {state:<12} {tools:<17} {process}")
    }
}

fn savings(page: &mut Page<'_>, direct: &Direct, read: usize, started: usize) -> anyhow::Result<()> {
    let percent = 100.0 * (1.0 - read as f64 / direct.characters as f64);
    page.step("What that saved")?;
    page.row(&format!(
        "tokens     {:>7} → {:<7}  {percent:.0} % saved",
        about(direct.characters),
        about(read)
    ))?;
    page.row(&format!(
        "servers    {:>7} → {:<7}  {} were never started",
        GROUPS.len(),
        started,
        GROUPS.len() - started
    ))?;
    page.say(
        "Counted is all that the model read to find its tools. Each further server would add all its tools to \
         the left number, and one line to the right one.",
    )?;
    Ok(())
}

fn yours(page: &mut Page<'_>, stage: &Stage, config: Option<PathBuf>) -> anyhow::Result<()> {
    page.step("The same for your own servers")?;
    let config = config.map_or_else(|| "servers.json".to_owned(), |path| path.display().to_string());
    page.say(&format!(
        "Move \"mcpServers\" from your client's config to {config}, and name only this one there:"
    ))?;
    let client = json!({ "mcpServers": { "dynamic-mcp": {
        "command": stage.program.to_string_lossy(), "args": ["--config", config],
    } } });
    page.gap()?;
    for line in format!("{client:#}").lines() {
        page.row(line)?;
    }
    Ok(())
}

/// Characters of a definition that clients give to the model.
fn seen_by_the_model(tool: &Value) -> usize {
    let seen = ["name", "description", "inputSchema"].map(|key| (key.to_owned(), tool[key].clone()));
    Value::from(serde_json::Map::from_iter(seen)).to_string().chars().count()
}

fn about(characters: usize) -> String {
    format!("~{}", thousands(characters / CHARACTERS_PER_TOKEN))
}

fn millis(duration: Duration) -> String {
    format!("{:.1} ms", duration.as_secs_f64() * 1000.0)
}

/// Enough of a long line to see what it is.
fn shortened(text: &str) -> String {
    let shorten = |line: &str| match line.char_indices().nth(SHOWN) {
        Some((end, _)) => {
            let more = thousands(line[end..].chars().count());
            format!("{} … and {more} more characters, as the server wrote them", &line[..end])
        }
        None => line.to_owned(),
    };
    text.lines().map(shorten).collect::<Vec<_>>().join("\n")
}

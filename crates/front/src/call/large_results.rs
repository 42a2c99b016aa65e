//! What becomes of a result before the client gets it: `select` derives another one, and what is still too large is
//! stored.

use crate::arguments::SelectArgument;
use crate::errors::tool_errors;
use crate::results::content::{ToolResult, block_text, text_block};
use crate::results::preview;
use crate::session::context::RequestContext;
use base::blocking;
use base::text::grouped;
use config::GroupName;
use jq::JqRunner;
use std::num::NonZeroUsize;
use std::time::Duration;
use wire::Raw;

/// The largest part of a stored result that is read at once where the config has no limit, in bytes.
const DEFAULT_PART: usize = 50_000;
/// The smallest limit for a part, in bytes.
const MIN_PART: usize = 1000;
/// How long it may take to read a result and to describe it.
const WORK_TIMEOUT: Duration = Duration::from_secs(20);

/// A result of an upstream, and what the caller and the config want of it.
pub struct ReceivedResult<'a> {
    /// The group that was called.
    pub group: &'a GroupName,
    /// Its own name for the tool.
    pub tool: &'a str,
    /// What to make of the result.
    pub select: Option<&'a SelectArgument>,
    /// The bytes of text above which the result is stored.
    pub store_above: Option<NonZeroUsize>,
    /// The result.
    pub result: Raw,
}

/// A result that a program has derived.
pub struct DerivedResult {
    /// The result that it is derived from.
    of: ToolResult,
    /// The outputs of the program, and every block of the result that is no text.
    blocks: Vec<Raw>,
    /// The outputs alone.
    pub outputs: String,
}

impl DerivedResult {
    /// Returns the result, with the outputs of the program in place of its text.
    pub fn result(&self) -> Raw {
        self.of.with_blocks(&self.blocks)
    }

    /// Returns what the client is told about it.
    fn note(&self) -> String {
        let outputs = if self.outputs.is_empty() { "; the program has no output" } else { "" };
        format!("derived by select from {} bytes{outputs}", grouped(self.of.raw().len()))
    }
}

/// Why a program has derived nothing.
pub struct SelectError {
    /// The reason, as a part of a sentence.
    pub why: String,
    /// The shape of the result.
    pub shape: String,
}

impl SelectError {
    /// Returns the kind of part by which the result is best read then.
    pub(super) fn best_part(&self) -> &'static str {
        if self.why == tool_errors::SELECT_WITHOUT_JSON { "lines" } else { "select" }
    }
}

/// Returns what the client gets. A result whose text exceeds the limit is stored, and its preview returned. If `select`
/// fails, the result is stored, and the client gets an error with the way to read it. An error, a task and anything
/// else that is no final result stay as they are.
pub async fn finish(context: &RequestContext, received: ReceivedResult<'_>) -> Raw {
    let ReceivedResult { group, tool, select, store_above, result } = received;
    let Some(SelectArgument { program, .. }) = select else {
        return match store_above.is_some_and(|limit| result.len() > limit.get()) {
            true => store(context, result, None, store_above).await,
            false => result,
        };
    };
    match derive(&context.requester.instance.jq, &result, program).await {
        Ok(None) => result,
        Ok(Some(derived)) => deliver(context, derived, store_above).await,
        Err(error) => {
            let kept = keep(context, &result, store_above).await;
            let kept = kept.map(|id| preview::how_to_read(&id, error.best_part()));
            let bytes = grouped(result.len());
            let called = Some((group, tool));
            let text = tool_errors::select_failed(called, &error.why, &bytes, kept.as_deref(), &error.shape);
            tool_errors::result(&text)
        }
    }
}

/// Returns a derived result with a note that says so, or its preview if it is too large.
pub(super) async fn deliver(
    context: &RequestContext,
    mut derived: DerivedResult,
    store_above: Option<NonZeroUsize>,
) -> Raw {
    let note = derived.note();
    if store_above.is_some_and(|limit| derived.outputs.len() > limit.get()) {
        return store(context, derived.result(), Some(note), store_above).await;
    }
    derived.blocks.push(text_block(&format!("[{note}]")));
    derived.result()
}

/// Stores a result whose text exceeds the limit, and returns its preview. Returns any other one, and one that cannot be
/// stored. `derived`: what the preview says about the result's origin.
async fn store(
    context: &RequestContext,
    result: Raw,
    derived: Option<String>,
    store_above: Option<NonZeroUsize>,
) -> Raw {
    let Some(limit) = store_above.map(NonZeroUsize::get) else { return result };
    let given = result.clone();
    let parse = move || ToolResult::parse(&given).filter(|parsed| parsed.text_bytes() > limit);
    let Ok(Some(parsed)) = blocking::run(WORK_TIMEOUT, parse).await else { return result };
    let Some(id) = keep(context, &result, store_above).await else { return result };
    let previewed = blocking::run(WORK_TIMEOUT, move || preview::of(&parsed, &id, limit, derived.as_deref()));
    previewed.await.unwrap_or(result)
}

/// Keeps a result for the client's later requests. Returns its id; `None` if it cannot be kept. `store_above`: the limit
/// of the group in the config.
pub(crate) async fn keep(
    context: &RequestContext,
    result: &Raw,
    store_above: Option<NonZeroUsize>,
) -> Option<String> {
    context.session()?.results.add(result, part_bytes(store_above)).await
}

/// Runs a program over a result, all in one turn. `None` if the result is an error, has no content, or is no final
/// result.
///
/// # Errors
///
/// The result has no JSON, the program fails, its turn did not come, or reading the result took too long.
pub async fn derive(
    runner: &JqRunner,
    result: &Raw,
    program: &str,
) -> Result<Option<DerivedResult>, SelectError> {
    let turn = runner.turn().await;
    let turn = turn.map_err(|error| SelectError { why: error.to_string(), shape: String::new() })?;
    let given = result.clone();
    let parse = move || ToolResult::parse(&given).map(|parsed| (parsed.json(), parsed));
    let parsed = blocking::run(WORK_TIMEOUT, parse).await;
    let (json, parsed) = match parsed {
        Ok(Some(parsed)) => parsed,
        Ok(None) => return Ok(None),
        Err(error) => {
            return Err(SelectError { why: format!("reading the result {error}"), shape: String::new() });
        }
    };
    let outputs = match json {
        Some(json) => turn.run(program, json).await.map_err(|error| error.to_string()),
        None => Err(tool_errors::SELECT_WITHOUT_JSON.to_owned()),
    };
    match outputs {
        Ok(outputs) => {
            let mut blocks = vec![text_block(&outputs)];
            blocks.extend(parsed.blocks.iter().filter(|block| block_text(block).is_none()).cloned());
            Ok(Some(DerivedResult { of: parsed, blocks, outputs }))
        }
        Err(why) => {
            let shape = blocking::run(WORK_TIMEOUT, move || preview::shape_of(&parsed)).await;
            Err(SelectError { why, shape: shape.unwrap_or_default() })
        }
    }
}

/// Returns the largest part that is read at once, in bytes. `store_above`: the limit in the config.
fn part_bytes(store_above: Option<NonZeroUsize>) -> usize {
    store_above.map_or(DEFAULT_PART, |limit| limit.get().max(MIN_PART))
}

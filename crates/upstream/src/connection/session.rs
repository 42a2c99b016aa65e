//! The requests that the proxy sends for itself on a connection, among them the requests for the lists of the catalog.

use super::lease::LiveConnection;
use super::startup_output::StartupOutput;
use super::translate;
use crate::catalog::entries::ListEntry;
use crate::catalog::list_limits::{CatalogList, LeftOff};
use crate::catalog::list_reader::{ListReader, Listed};
use crate::catalog::{Catalog, OtherLists, ServerInfo};
use crate::error::UpstreamError;
use crate::error::server_output::{ServerOutput, not_configured};
use crate::transport::TransportHandle;
use base::blocking;
use base::text::{quoted, quoted_list};
use config::ServerConfig;
use std::sync::Arc;
use std::time::Duration;
use wire::peer::{CallError, CallOptions};
use wire::protocol::methods::Method;
use wire::protocol::{Era, HANDSHAKE_REVISIONS, REVISIONS, SKILLS_EXTENSION, capability, code};
use wire::{Raw, Reply, raw};

/// A connection as the proxy uses it for its own requests.
pub(super) struct Session {
    /// The connection as callers share it.
    pub(super) live: Arc<LiveConnection>,
    /// The transport, which has the process's stderr.
    pub(super) handle: TransportHandle,
    /// The group's configuration.
    pub(super) server: Arc<ServerConfig>,
    /// An additional limit for the first answer.
    pub(super) limit: Option<Duration>,
    /// Whether the server counts as belonging to the era of the connection, regardless of the revision that it names.
    pub(super) is_certain: bool,
    /// What the process prints while it does not answer.
    pub(super) startup: StartupOutput,
}

impl Session {
    /// Reads every list of the catalog, all pages. A list that the config or the server does not have is empty. Each
    /// page may take `timeout.list`.
    ///
    /// # Errors
    ///
    /// Fails if the tools cannot be read, or if making the catalog takes too long. Without the other lists a group
    /// still works.
    pub(super) async fn catalog(&self, info: ServerInfo) -> Result<Catalog, UpstreamError> {
        let features = self.server.common.features;
        let has_resources = features.resources && info.declares(capability::RESOURCES);
        let has_prompts = features.prompts && info.declares(capability::PROMPTS);
        let has_skills = has_resources && info.has_extension(SKILLS_EXTENSION);
        let has_tools = features.tools && info.may_have(capability::TOOLS);
        let (tools, resources, templates, prompts, skills) = tokio::join!(
            self.list(CatalogList::Tools, Method::ToolsList, has_tools, &info),
            self.list(CatalogList::Resources, Method::ResourcesList, has_resources, &info),
            self.list(CatalogList::Templates, Method::ResourceTemplatesList, has_resources, &info),
            self.list(CatalogList::Prompts, Method::PromptsList, has_prompts, &info),
            self.list(CatalogList::Skills, Method::SkillsList, has_skills, &info),
        );
        let (tools, mut left_off) = tools?;
        let mut other = |list: Result<(Vec<ListEntry>, LeftOff), UpstreamError>, member: &str| {
            let (entries, more) = list.unwrap_or_else(|error| {
                tracing::warn!(%error, "failed to read the server's {member}");
                Default::default()
            });
            left_off.merge(more);
            entries.into()
        };
        let lists = OtherLists {
            resources: other(resources, "resources"),
            templates: other(templates, "resourceTemplates"),
            prompts: other(prompts, "prompts"),
            skills: other(skills, "skills"),
        };
        let bytes = tools.iter().map(|(_, definition)| definition.len()).sum::<usize>() + lists.bytes();
        let made = blocking::run_on(bytes, || {
            let catalog = Catalog::new(info, tools, lists, left_off);
            // Computed on this thread, because later callers may not wait for it.
            catalog.claims();
            catalog
        });
        let made = made.await.map_err(|error| {
            self.protocol_error(Method::ToolsList.name(), format!("reading the lists {error}"))
        });
        let mut catalog = made?;
        catalog.info.asks_for_roots = self.live.roots.lists_read();
        catalog.offered = Some(self.live.offered.clone());
        catalog.findings.extend(self.handle.finding());
        if has_tools && catalog.tools.is_empty() {
            let line = not_configured(&self.handle.stderr_tail());
            catalog
                .findings
                .extend(line.map(|line| format!("it lists no tools, and its stderr may say why: {line}")));
        }
        Ok(catalog)
    }

    /// Reads all pages of one list; none unless `wanted`. A list whose method the server does not have is empty, unless
    /// it is that of the tools and the server declares them.
    ///
    /// # Errors
    ///
    /// Those of `ask` and `accept`, and `Protocol` for a page that is no page of this list. Pages that were read are
    /// lost then.
    async fn list<E: Listed>(
        &self,
        list: CatalogList,
        method: Method,
        wanted: bool,
        info: &ServerInfo,
    ) -> Result<(Vec<E>, LeftOff), UpstreamError> {
        let step = method.name();
        let (mut reader, mut cursor) = (ListReader::new(list), None::<Raw>);
        if !wanted {
            return Ok(reader.into_parts());
        }
        loop {
            let params = cursor.as_ref().map(|c| raw::set(&Raw::from_static(b"{}"), "cursor", c));
            let options = CallOptions::within(self.server.timeout.list);
            let reply = self.ask(step, params, options).await?;
            if let Err(error) = &reply
                && !(method == Method::ToolsList && info.declares(capability::TOOLS))
                && error_code(error) == code::METHOD_NOT_FOUND
            {
                // The server did not declare the list (or has resources but no templates), so this is no failure.
                break;
            }
            let page = self.accept(step, reply)?;
            (reader, cursor) = reader.read(page).await.map_err(|what| self.protocol_error(step, what))?;
            if cursor.is_none() {
                break;
            }
        }
        Ok(reader.into_parts())
    }

    /// Sends a request in the server's era, and waits for the answer within the timeout in `options`. An error that the
    /// server answers with is an `Ok(Err(_))`.
    ///
    /// # Errors
    ///
    /// `TimedOut`. `Unanswered` if the transport cannot deliver the request. `Protocol` if the answer cannot be read or
    /// is too large. If the connection ends, the reason; `Internal` if it did not end by itself.
    pub(super) async fn ask(
        &self,
        step: &'static str,
        params: Option<Raw>,
        options: CallOptions,
    ) -> Result<Reply, UpstreamError> {
        let params = translate::request(params, Era::Handshake, self.live.era, &self.live.stateless_offer);
        self.live.peer.call(step, params, options).await.map_err(|error| match error {
            CallError::TimedOut(after) => {
                let is_handshake = [Method::Initialize.name(), Method::ServerDiscover.name()].contains(&step);
                let setting = if is_handshake { "initialize" } else { "list" };
                self.timed_out(step, after, Some(setting))
            }
            CallError::Failed { why, .. } => UpstreamError::Unanswered { step, why },
            CallError::TooLong { .. } | CallError::OverBudget { .. } => {
                self.protocol_error(step, error.to_string())
            }
            CallError::Malformed(what) | CallError::AnswerRefused(what) => self.protocol_error(step, what),
            CallError::Closed { .. } => {
                let skipped = self.live.skipped.text();
                self.live
                    .lost
                    .get()
                    .map_or(UpstreamError::Internal, |lost| lost.while_waiting_for(step, skipped))
            }
        })
    }

    /// Makes the error for a `step` that was not answered. `setting` names the timeout; `None` if the attempt ended
    /// early.
    pub(super) fn timed_out(
        &self,
        step: &'static str,
        after: Duration,
        setting: Option<&'static str>,
    ) -> UpstreamError {
        let output = ServerOutput::new(self.handle.stderr_tail(), self.live.skipped.text());
        UpstreamError::TimedOut { step, after, setting, output }
    }

    /// Returns the result of a reply.
    ///
    /// # Errors
    ///
    /// `Protocol` if the result is no object. `Refused` if the reply is an error.
    pub(super) fn accept(&self, step: &'static str, reply: Reply) -> Result<Raw, UpstreamError> {
        let error = match reply {
            Ok(result) if result.first() == Some(&b'{') => return Ok(result),
            Ok(_) => return Err(self.protocol_error(step, "the result is not an object".to_owned())),
            Err(error) => error,
        };
        let message = raw::get_str(&error, "message").map(|message| quoted(&message));
        let mut message = message.unwrap_or_else(|| "no message".to_owned());
        let supported = supported_revisions(&error);
        if !supported.is_empty() {
            message = format!("{message}; it supports {}", quoted_list(supported.iter().map(String::as_str)));
        }
        Err(UpstreamError::Refused {
            step,
            code: error_code(&error),
            message,
            stderr: self.handle.stderr_tail(),
        })
    }

    /// Makes the error for an answer to `step` that does not follow MCP.
    pub(super) fn protocol_error(&self, step: &'static str, what: String) -> UpstreamError {
        UpstreamError::Protocol { step, what, stderr: self.handle.stderr_tail() }
    }
}

/// Returns the code of a JSON-RPC error; 0 if it has none.
pub(super) fn error_code(error: &Raw) -> i64 {
    raw::error_code(error).unwrap_or_default()
}

/// Returns the revisions that an error names as supported.
pub(super) fn supported_revisions(error: &Raw) -> Vec<String> {
    strings(raw::get(error, "data").and_then(|data| raw::get(&data, "supported")))
}

/// Returns the newest revision of the handshake era that an error names as supported.
pub(super) fn common_handshake_revision(error: &Raw) -> Option<&'static str> {
    let supported = supported_revisions(error);
    HANDSHAKE_REVISIONS.into_iter().rev().find(|known| supported.iter().any(|name| name == known))
}

/// Returns whether an error of the stateless era says that there is no common revision. If so, the other era does not
/// help.
pub(super) fn has_no_common_revision(error: &Raw) -> bool {
    let supported = supported_revisions(error);
    error_code(error) == code::UNSUPPORTED_REVISION
        && !supported.is_empty()
        && !supported.iter().any(|revision| REVISIONS.contains(&revision.as_str()))
}

/// Parses a JSON list of strings; empty if it is something else.
pub(super) fn strings(list: Option<Raw>) -> Vec<String> {
    list.and_then(|list| serde_json::from_slice(&list).ok()).unwrap_or_default()
}

//! The requests that the proxy sends for itself on a connection, among them the requests for the lists of the catalog.

use super::lease::LiveConnection;
use super::milestones::Milestones;
use super::startup_output::StartupOutput;
use super::translate;
use crate::catalog::entries::ListEntry;
use crate::catalog::list_limits::{CatalogList, LeftOff};
use crate::catalog::list_reader::{ListReader, Listed};
use crate::catalog::{Catalog, OtherLists, ServerInfo, Tool};
use crate::error::UpstreamError;
use crate::error::server_output::{ServerOutput, not_configured};
use crate::transport::TransportHandle;
use base::blocking;
use base::text::{quoted, quoted_list};
use config::ServerConfig;
use futures_util::future::{Either, select};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use wire::peer::{CallError, CallOptions};
use wire::protocol::methods::Method;
use wire::protocol::{Era, HANDSHAKE_REVISIONS, REVISIONS, SKILLS_EXTENSION, capability, code};
use wire::{Raw, Reply, raw};

/// How long a catalog waits for the other lists once the tools were read, so that most connections make one catalog.
const OTHER_LISTS_DELAY: Duration = Duration::from_millis(50);

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
    /// Where callers learn what they need not wait for any more.
    pub(super) milestones: Option<Milestones>,
}

/// What was read of one list.
struct ReadList<E> {
    entries: Vec<E>,
    left_off: LeftOff,
    /// Why the rest of it, or all of it, could not be read.
    failure: Option<UpstreamError>,
}

/// What a catalog is made of, beside the other lists.
#[derive(Clone)]
struct CatalogParts {
    info: ServerInfo,
    tools: Vec<(Tool, Raw)>,
    left_off: LeftOff,
    /// Why the tools could not be read.
    failure: Option<String>,
    findings: Vec<String>,
    offered: Raw,
}

impl CatalogParts {
    fn make(mut self, lists: OtherLists, left_off: LeftOff) -> Catalog {
        self.left_off.merge(left_off);
        let mut catalog = Catalog::new(self.info, self.tools, lists, self.left_off);
        // Computed on this thread, because later callers may not wait for it.
        catalog.claims();
        catalog.offered = Some(self.offered);
        catalog.findings = self.findings;
        if let Some(why) = self.failure {
            catalog.set_tools_unread(&why);
        }
        catalog
    }
}

impl Session {
    /// Reads every list of the catalog, all pages. A list that the config or the server does not have is empty. Each
    /// page may take `timeout.list`. Of a list that cannot be read, the pages before the failure are used. `is_first`:
    /// the handshake was just done. `needs_tools`: the connection is of no use without its tools.
    ///
    /// # Errors
    ///
    /// The connection has ended, or the server wants a login; the tools are needed and cannot be read; or making the
    /// catalog takes too long.
    pub(super) async fn catalog(
        &self,
        info: ServerInfo,
        is_first: bool,
        needs_tools: bool,
    ) -> Result<Catalog, UpstreamError> {
        if is_first {
            // Before the first caller goes on, because the program may end with its answer.
            if let Some(used) = self.handle.learn_start().await {
                self.live.set_launcher(used);
            }
            if let Some(milestones) = self.milestones.as_ref().filter(|_| !needs_tools) {
                milestones.handshake_done(&self.live);
            }
        }
        let has_tools = self.server.common.features.tools && info.may_have(capability::TOOLS);
        let read_tools = pin!(self.list(CatalogList::Tools, Method::ToolsList, has_tools, &info));
        let read_others = pin!(self.other_lists(&info));
        let (parts, others) = match select(read_tools, read_others).await {
            Either::Right((others, tools)) => (self.parts(&info, tools.await?, needs_tools)?, others?),
            Either::Left((tools, mut read_others)) => {
                let parts = self.parts(&info, tools?, needs_tools)?;
                let others = match timeout(OTHER_LISTS_DELAY, &mut read_others).await {
                    Ok(others) => others,
                    Err(_) => {
                        let parts = parts.clone();
                        if let Some(milestones) = &self.milestones {
                            milestones.tools_read(|lists| parts.make(lists, LeftOff::default())).await;
                        }
                        read_others.await
                    }
                };
                (parts, others?)
            }
        };
        let (lists, left_off) = others;
        let bytes = parts.tools.iter().map(|(_, definition)| definition.len()).sum::<usize>() + lists.bytes();
        let made = blocking::run_on(bytes, || parts.make(lists, left_off)).await;
        let mut catalog = made.map_err(|error| {
            self.protocol_error(Method::ToolsList.name(), format!("reading the lists {error}"))
        })?;
        catalog.info.asks_for_roots = self.live.roots.lists_read();
        Ok(catalog)
    }

    /// Returns what a catalog with these tools is made of, with what to know of the server.
    ///
    /// # Errors
    ///
    /// The tools are needed and could not be read.
    fn parts(
        &self,
        info: &ServerInfo,
        tools: ReadList<(Tool, Raw)>,
        needs_tools: bool,
    ) -> Result<CatalogParts, UpstreamError> {
        let ReadList { entries: tools, left_off, failure } = tools;
        let mut findings = Vec::from_iter(self.handle.finding());
        let failure = match failure {
            Some(error) if needs_tools => return Err(error),
            Some(UpstreamError::Refused { code: code::METHOD_NOT_FOUND, .. }) if tools.is_empty() => {
                findings.push("it says that it has tools, but it has no tools/list".to_owned());
                None
            }
            Some(error) => error.to_string().lines().next().map(str::to_owned),
            None => None,
        };
        if tools.is_empty() && failure.is_none() && self.server.common.features.tools {
            let line = not_configured(&self.handle.stderr_tail());
            findings
                .extend(line.map(|line| format!("it lists no tools, and its stderr may say why: {line}")));
        }
        let mut info = info.clone();
        info.asks_for_roots = self.live.roots.lists_read();
        let offered = self.live.offered.clone();
        Ok(CatalogParts { info, tools, left_off, failure, findings, offered })
    }

    /// Reads the lists beside the tools. Returns also what is left off them.
    ///
    /// # Errors
    ///
    /// Those of `list`.
    async fn other_lists(&self, info: &ServerInfo) -> Result<(OtherLists, LeftOff), UpstreamError> {
        let features = self.server.common.features;
        let has_resources = features.resources && info.declares(capability::RESOURCES);
        let has_prompts = features.prompts && info.declares(capability::PROMPTS);
        let has_skills = has_resources && info.has_extension(SKILLS_EXTENSION);
        let (resources, templates, prompts, skills) = tokio::try_join!(
            self.list(CatalogList::Resources, Method::ResourcesList, has_resources, info),
            self.list(CatalogList::Templates, Method::ResourceTemplatesList, has_resources, info),
            self.list(CatalogList::Prompts, Method::PromptsList, has_prompts, info),
            self.list(CatalogList::Skills, Method::SkillsList, has_skills, info),
        )?;
        let mut left_off = LeftOff::default();
        let mut entries = |list: ReadList<ListEntry>| {
            left_off.merge(list.left_off);
            list.entries.into()
        };
        let lists = OtherLists {
            resources: entries(resources),
            templates: entries(templates),
            prompts: entries(prompts),
            skills: entries(skills),
        };
        Ok((lists, left_off))
    }

    /// Reads all pages of one list; none unless `wanted`. A list whose method the server does not have is empty. If
    /// reading it fails, that is logged, and the pages before are returned with the error.
    ///
    /// # Errors
    ///
    /// The connection has ended, or the server wants a login.
    async fn list<E: Listed>(
        &self,
        list: CatalogList,
        method: Method,
        wanted: bool,
        info: &ServerInfo,
    ) -> Result<ReadList<E>, UpstreamError> {
        let mut reader = ListReader::new(list);
        let mut failure = None;
        if wanted && let Err(error) = self.read_pages(&mut reader, method).await {
            if error.needs_login()
                || matches!(error, UpstreamError::Internal)
                || self.live.lost.get().is_some()
            {
                return Err(error);
            }
            let is_absent = matches!(error, UpstreamError::Refused { code: code::METHOD_NOT_FOUND, .. });
            // A server may have resources and no templates, and may have no tools unless it declares them.
            if !is_absent || method == Method::ToolsList && info.declares(capability::TOOLS) {
                tracing::warn!(%error, "failed to read the server's {}", list.member());
                reader.stop_unread();
                failure = Some(error);
            }
        }
        let (entries, left_off) = reader.into_parts();
        Ok(ReadList { entries, left_off, failure })
    }

    /// Reads all pages of one list.
    ///
    /// # Errors
    ///
    /// Those of `ask` and `accept`, and `Protocol` for a page that is no page of this list.
    async fn read_pages<E: Listed>(
        &self,
        reader: &mut ListReader<E>,
        method: Method,
    ) -> Result<(), UpstreamError> {
        let (step, mut cursor) = (method.name(), None::<Raw>);
        loop {
            let params = cursor.as_ref().map(|c| raw::set(&Raw::from_static(b"{}"), "cursor", c));
            let options = CallOptions::within(self.server.timeout.list);
            let page = self.accept(step, self.ask(step, params, options).await?)?;
            cursor = reader.read(page).await.map_err(|what| self.protocol_error(step, what))?;
            if cursor.is_none() {
                return Ok(());
            }
        }
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

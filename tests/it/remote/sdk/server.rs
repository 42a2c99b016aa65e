//! A server made with rmcp.

use std::borrow::Cow;
use std::convert::Infallible;
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::Method;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ElicitRequest,
    ElicitRequestParams, InputRequest, InputRequiredResult, ListToolsResult, PaginatedRequestParams,
    ProgressNotificationParam, ProtocolVersion, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::json;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// How the server is configured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum ServerMode {
    /// Handshake revisions, with sessions.
    Sessions,
    /// Handshake revisions without sessions. Answers are event streams.
    NoSessions,
    /// Handshake revisions without sessions. Answers are JSON.
    NoSessionsJson,
    /// Only revision 2026-07-28. Answers are event streams.
    StatelessRevision,
    /// Only revision 2026-07-28. Answers are JSON.
    StatelessRevisionJson,
}

/// A server that listens until it is dropped.
pub(super) struct RmcpServer {
    pub(super) url: String,
    pub(super) observed: Arc<Observed>,
    manager: Arc<LocalSessionManager>,
    runtime: Handle,
    /// Ends the server's thread when it is dropped.
    _stop: oneshot::Sender<()>,
}

/// What the server was asked to do.
#[derive(Default)]
pub(super) struct Observed {
    /// Calls of any tool.
    pub(super) calls: AtomicUsize,
    /// Calls of `wait` that were cancelled.
    pub(super) cancelled: AtomicUsize,
    /// The methods of the HTTP requests.
    http_methods: Mutex<Vec<Method>>,
}

impl Observed {
    /// How many HTTP requests with this method it received.
    pub(super) fn http_requests(&self, method: &Method) -> usize {
        let methods = self.http_methods.lock().unwrap_or_else(PoisonError::into_inner);
        methods.iter().filter(|received| *received == method).count()
    }

    pub(super) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

impl RmcpServer {
    pub(super) fn start(mode: ServerMode) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let observed = Arc::<Observed>::default();
        let handler = Handler {
            observed: observed.clone(),
            is_stateless_revision: matches!(
                mode,
                ServerMode::StatelessRevision | ServerMode::StatelessRevisionJson
            ),
        };
        // Short intervals: a client that is gone is noticed soon, and a lost stream is resumed soon.
        let config = StreamableHttpServerConfig::default()
            .with_sse_keep_alive(Some(Duration::from_millis(50)))
            .with_sse_retry(Some(Duration::from_millis(50)))
            .with_legacy_session_mode(mode == ServerMode::Sessions)
            .with_json_response(matches!(
                mode,
                ServerMode::NoSessionsJson | ServerMode::StatelessRevisionJson
            ));
        let manager = Arc::<LocalSessionManager>::default();
        let service = StreamableHttpService::new(move || Ok(handler.clone()), manager.clone(), config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        listener.set_nonblocking(true).unwrap();
        let (stop, stopped) = oneshot::channel();
        let (handle, listening) = (runtime.handle().clone(), listen(listener, service, observed.clone()));
        std::thread::spawn(move || {
            runtime.spawn(listening);
            let _sender_dropped = runtime.block_on(stopped);
        });
        Self { url, observed, manager, runtime: handle, _stop: stop }
    }

    /// Drops all sessions, like a server that was restarted.
    pub(super) fn lose_sessions(&self) {
        self.runtime.block_on(async { self.manager.sessions.write().await.clear() });
    }

    /// How many sessions there are.
    pub(super) fn sessions(&self) -> usize {
        self.runtime.block_on(async { self.manager.sessions.read().await.len() })
    }
}

async fn listen(
    listener: TcpListener,
    service: StreamableHttpService<Handler, LocalSessionManager>,
    observed: Arc<Observed>,
) {
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    while let Ok((stream, _)) = listener.accept().await {
        let (service, observed) = (service.clone(), observed.clone());
        let answer = service_fn(move |request| {
            let service = service.clone();
            observed
                .http_methods
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(hyper::Request::method(&request).clone());
            async move { Ok::<_, Infallible>(service.handle(request).await) }
        });
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), answer));
    }
}

#[derive(Clone)]
pub(super) struct Handler {
    observed: Arc<Observed>,
    is_stateless_revision: bool,
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        if self.is_stateless_revision {
            return Cow::Borrowed(&[ProtocolVersion::V_2026_07_28]);
        }
        Cow::Borrowed(ProtocolVersion::KNOWN_VERSIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = json!({"type": "object"}).as_object().unwrap().clone();
        let tools = ["count", "greet", "wait"].map(|name| Tool::new(name, name, schema.clone()));
        Ok(ListToolsResult::with_all_items(tools.into()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.observed.calls.fetch_add(1, Ordering::SeqCst);
        match &*request.name {
            "count" => count(&context).await,
            "greet" if self.is_stateless_revision => Ok(greet_by_input_request(&request)),
            "greet" => greet(&context).await,
            _ => {
                context.ct.cancelled().await;
                self.observed.cancelled.fetch_add(1, Ordering::SeqCst);
                Ok(text_result("cancelled"))
            }
        }
    }
}

fn text_result(text: &str) -> CallToolResponse {
    CallToolResult::success(vec![ContentBlock::text(text)]).into()
}

async fn count(context: &RequestContext<RoleServer>) -> Result<CallToolResponse, ErrorData> {
    let token = context.meta.get_progress_token();
    for n in 1..=3 {
        let Some(token) = token.clone() else { break };
        let progress = ProgressNotificationParam::new(token, f64::from(n));
        context.peer.notify_progress(progress).await.unwrap();
    }
    Ok(text_result("counted"))
}

fn question() -> ElicitRequestParams {
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: "Your name?".into(),
        requested_schema: serde_json::from_value(schema).unwrap(),
    }
}

async fn greet(context: &RequestContext<RoleServer>) -> Result<CallToolResponse, ErrorData> {
    let answer = context.peer.create_elicitation(question()).await;
    let answer = answer.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
    Ok(text_result(&format!("Hello, {}", answer.content.unwrap_or_default()["name"])))
}

fn greet_by_input_request(request: &CallToolRequestParams) -> CallToolResponse {
    match request.input_responses.as_ref().and_then(|answers| answers.get("name")) {
        Some(answer) => text_result(&format!("Hello, {}", answer["content"]["name"])),
        None => {
            let name = InputRequest::Elicitation(ElicitRequest::new(question()));
            let asked = [("name".to_owned(), name)].into();
            InputRequiredResult::new(Some(asked), Some("asked once".into())).into()
        }
    }
}

//! A server made with rmcp, listening in whichever of its ways a test wants.

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

/// How it listens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Way {
    Sessions,
    Stateless,
    StatelessJson,
    /// 2026-07-28 and nothing before it.
    Later,
    LaterJson,
}

/// Listens as long as it lives.
pub(super) struct Sdk {
    pub(super) url: String,
    pub(super) did: Arc<Did>,
    manager: Arc<LocalSessionManager>,
    runtime: Handle,
    /// Ends the thread.
    _lives: oneshot::Sender<()>,
}

/// What it was asked.
#[derive(Default)]
pub(super) struct Did {
    pub(super) calls: AtomicUsize,
    /// Calls of `wait` that were told to stop.
    pub(super) cancelled: AtomicUsize,
    http: Mutex<Vec<Method>>,
}

impl Did {
    /// How many requests of this HTTP method there were.
    pub(super) fn requests(&self, method: &Method) -> usize {
        let http = self.http.lock().unwrap_or_else(PoisonError::into_inner);
        http.iter().filter(|seen| *seen == method).count()
    }

    pub(super) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

impl Sdk {
    pub(super) fn start(way: Way) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let did = Arc::<Did>::default();
        let handler = Handler { did: did.clone(), later: matches!(way, Way::Later | Way::LaterJson) };
        // Soon, so that who reads a stream no more is noticed, and streams that broke off are asked for again.
        let config = StreamableHttpServerConfig::default()
            .with_sse_keep_alive(Some(Duration::from_millis(50)))
            .with_sse_retry(Some(Duration::from_millis(50)))
            .with_legacy_session_mode(way == Way::Sessions)
            .with_json_response(matches!(way, Way::StatelessJson | Way::LaterJson));
        let manager = Arc::<LocalSessionManager>::default();
        let service = StreamableHttpService::new(move || Ok(handler.clone()), manager.clone(), config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        listener.set_nonblocking(true).unwrap();
        let (lives, over) = oneshot::channel();
        let (handle, listening) = (runtime.handle().clone(), listen(listener, service, did.clone()));
        std::thread::spawn(move || {
            runtime.spawn(listening);
            let _over = runtime.block_on(over);
        });
        Self { url, did, manager, runtime: handle, _lives: lives }
    }

    /// As a server that was started anew has.
    pub(super) fn forget_sessions(&self) {
        self.runtime.block_on(async { self.manager.sessions.write().await.clear() });
    }

    pub(super) fn sessions(&self) -> usize {
        self.runtime.block_on(async { self.manager.sessions.read().await.len() })
    }
}

async fn listen(
    listener: TcpListener,
    service: StreamableHttpService<Handler, LocalSessionManager>,
    did: Arc<Did>,
) {
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    while let Ok((stream, _)) = listener.accept().await {
        let (service, did) = (service.clone(), did.clone());
        let answer = service_fn(move |request| {
            let service = service.clone();
            did.http
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
    did: Arc<Did>,
    later: bool,
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        if self.later {
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
        self.did.calls.fetch_add(1, Ordering::SeqCst);
        match &*request.name {
            "count" => count(&context).await,
            "greet" if self.later => Ok(greet_later(&request)),
            "greet" => greet(&context).await,
            _ => {
                context.ct.cancelled().await;
                self.did.cancelled.fetch_add(1, Ordering::SeqCst);
                Ok(says("cancelled"))
            }
        }
    }
}

fn says(text: &str) -> CallToolResponse {
    CallToolResult::success(vec![ContentBlock::text(text)]).into()
}

async fn count(context: &RequestContext<RoleServer>) -> Result<CallToolResponse, ErrorData> {
    let token = context.meta.get_progress_token();
    for n in 1..=3 {
        let Some(token) = token.clone() else { break };
        let progress = ProgressNotificationParam::new(token, f64::from(n));
        context.peer.notify_progress(progress).await.unwrap();
    }
    Ok(says("counted"))
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
    Ok(says(&format!("Hello, {}", answer.content.unwrap_or_default()["name"])))
}

fn greet_later(request: &CallToolRequestParams) -> CallToolResponse {
    match request.input_responses.as_ref().and_then(|answers| answers.get("name")) {
        Some(answer) => says(&format!("Hello, {}", answer["content"]["name"])),
        None => {
            let name = InputRequest::Elicitation(ElicitRequest::new(question()));
            let asked = [("name".to_owned(), name)].into();
            InputRequiredResult::new(Some(asked), Some("asked once".into())).into()
        }
    }
}

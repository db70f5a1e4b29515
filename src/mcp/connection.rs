//! A connection to a running server, by the official SDK. Nothing else in flock knows the SDK's types.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rmcp::RoleClient;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientConfig, ClientRequest, ClientResult, CustomResult,
    ErrorCode, ErrorData, Implementation, JsonRpcMessage, ListToolsRequest, PaginatedRequestParams,
    ProgressNotificationParam, ProgressToken, ProtocolVersion, RequestMetaObject, ServerNotification,
    ServerRequest,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, NotificationContext, PeerRequestOptions, RequestContext,
    RunningService, RxJsonRpcMessage, Service, ServiceError, TxJsonRpcMessage, serve_client_with_lifecycle,
};
use rmcp::transport::Transport;
use rmcp::transport::streamable_http_client::{AuthRequiredError, InsufficientScopeError};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::asks::{AskError, Asks, CallGuard};
use super::definition::cleaned_text;
use super::error::McpError;
use super::lines::Flow;
use super::rounds::{self, Answers, ToolCall};
use crate::config::McpServer;
use crate::error::chain;
use crate::id::McpServerName;
use crate::sync::lock;
use crate::telemetry;
use crate::tool::{CallProgress, ProgressSink, safe_text};

/// The most pages of a list of tools, and the most tools in it.
const MAX_PAGES: usize = 100;
pub(super) const MAX_TOOLS: usize = 1_000;
/// The most bytes of a list of tools.
const MAX_LIST: usize = 4 << 20;
/// The longest time for one page from a server that is not busy.
pub(super) const PAGE_TIME: Duration = Duration::from_secs(30);
/// The most bytes of a server's error message.
const MAX_MESSAGE: usize = 2_000;

/// The most calls whose progress is known.
const MAX_PROGRESS: usize = 64;

/// The most characters of what a server says about its progress.
const MAX_PROGRESS_MESSAGE: usize = 200;

/// The last progress that a server reported for each call.
#[derive(Default)]
struct ReportedProgress(Mutex<HashMap<ProgressToken, CallReport>>);

/// The progress of one call.
#[derive(Default)]
struct CallReport {
    last: Option<CallProgress>,
    /// Its recipient. `None` until the call is known here.
    sink: Option<ProgressSink>,
}

impl ReportedProgress {
    /// Passes the progress of a call on. A report that came before is passed on at once.
    fn follow(&self, token: &ProgressToken, sink: Option<&ProgressSink>) {
        let Some(sink) = sink else { return };
        let mut known = lock(&self.0);
        let report = known.entry(token.clone()).or_default();
        if let Some(last) = &report.last {
            sink.report(last.clone());
        }
        report.sink = Some(sink.clone());
    }

    fn note(&self, reported: &ProgressNotificationParam) {
        let mut known = lock(&self.0);
        // A server can report progress of calls that nobody made.
        if known.len() >= MAX_PROGRESS && !known.contains_key(&reported.progress_token) {
            return;
        }
        let report = known.entry(reported.progress_token.clone()).or_default();
        // Progress grows, as the protocol has it. What does not is no news.
        let is_news = report.last.as_ref().is_none_or(|last| reported.progress > last.done);
        if !reported.progress.is_finite() || !is_news {
            return;
        }
        let clean = |text: &String| crate::clean::label(&cleaned_text(text), MAX_PROGRESS_MESSAGE);
        let progress = CallProgress {
            done: reported.progress,
            total: reported.total.filter(|total| total.is_finite()),
            message: reported.message.as_ref().map(clean).filter(|text| !text.is_empty()),
        };
        if let Some(sink) = &report.sink {
            sink.report(progress.clone());
        }
        report.last = Some(progress);
    }

    /// Forgets a call, and returns its last progress.
    fn take(&self, token: &ProgressToken) -> Option<String> {
        let last = lock(&self.0).remove(token)?.last?;
        let total = last.total.map(|total| format!(" of {total}")).unwrap_or_default();
        let message = last.message.unwrap_or_default();
        Some(crate::clean::label(&format!("{}{total} {message}", last.done), MAX_PROGRESS_MESSAGE))
    }
}

/// Returns the trace that a call belongs to, so that a server which records traces continues it.
fn trace_context() -> Option<RequestMetaObject> {
    let values = telemetry::current()?.propagated();
    let mut meta = RequestMetaObject::default();
    for (name, value) in values {
        meta.insert(name.to_owned(), Value::String(value));
    }
    (!meta.is_empty()).then_some(meta)
}

/// A transport that notes progress and log messages in the order in which they come, and before the answer of the call. The SDK handles
/// notices in tasks of their own, which have no order.
struct ProgressTap<T> {
    inner: T,
    progress: Arc<ReportedProgress>,
    /// The calls whose callers read the server's log messages.
    asks: Arc<Asks>,
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for ProgressTap<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let message = self.inner.receive().await?;
        if let JsonRpcMessage::Notification(notice) = &message {
            match &notice.notification {
                ServerNotification::ProgressNotification(reported) => self.progress.note(&reported.params),
                ServerNotification::LoggingMessageNotification(logged) => self.asks.log(&logged.params),
                _ => {}
            }
        }
        Some(message)
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}

/// flock's side of what a server sends by itself.
struct Receiver {
    /// Set when the server says that its tools have changed.
    changed: Arc<AtomicBool>,
    asks: Arc<Asks>,
}

impl Service<RoleClient> for Receiver {
    async fn handle_request(
        &self,
        request: ServerRequest,
        context: RequestContext<RoleClient>,
    ) -> Result<ClientResult, ErrorData> {
        if matches!(request, ServerRequest::PingRequest(_)) {
            return Ok(ClientResult::empty(()));
        }
        // The SDK's types are left here, as with answers.
        let request = serde_json::to_value(request).map_err(|_| AskError::unknown())?;
        let method = request["method"].as_str().unwrap_or_default();
        let answer = self.asks.answer(method, &request["params"], context.ct).await?;
        Ok(ClientResult::CustomResult(CustomResult::new(answer)))
    }

    async fn handle_notification(
        &self,
        notification: ServerNotification,
        _context: NotificationContext<RoleClient>,
    ) -> Result<(), ErrorData> {
        // Progress was noted when it was received, see `ProgressTap`.
        if let ServerNotification::ToolListChangedNotification(_) = notification {
            self.changed.store(true, Ordering::Release);
        }
        Ok(())
    }

    fn get_info(&self) -> ClientConfig {
        let flock = Implementation::new("flock", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(self.asks.offers.declared(), flock)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}

/// The time of a request or of all rounds of a call, and who hears of its progress.
pub(super) struct CallWaits<'a> {
    pub limit: Duration,
    began: Instant,
    /// The call, whose time stands still while a person is asked.
    guard: Option<&'a CallGuard>,
    progress: Option<&'a ProgressSink>,
}

impl<'a> CallWaits<'a> {
    /// Begins the time.
    pub fn new(limit: Duration, guard: Option<&'a CallGuard>, progress: Option<&'a ProgressSink>) -> Self {
        Self { limit, began: Instant::now(), guard, progress }
    }

    /// Resolves when the time is over.
    pub async fn over(&self) {
        loop {
            let waited = self.guard.map_or(Duration::ZERO, CallGuard::waited);
            let left = (self.limit + waited).saturating_sub(self.began.elapsed());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left).await;
        }
    }
}

/// The beginning of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handshake {
    /// With `initialize`, as all versions until 2025-11-25 do.
    Initialize,
    /// With `server/discover`, as the versions after it do.
    Discover,
}

/// The reason why a connection did not begin.
pub(super) enum OpenError {
    /// The server answered, but does not know this beginning.
    OtherHandshake(String),
    /// The connection could not be prepared.
    Prepared(McpError),
    Failed(String),
}

/// An open connection.
pub(super) struct Connection {
    pub server: McpServerName,
    service: RunningService<RoleClient, Receiver>,
    pub flow: Arc<Flow>,
    changed: Arc<AtomicBool>,
    progress: Arc<ReportedProgress>,
    /// The questions that the server may ask, and the calls that run.
    pub asks: Arc<Asks>,
    /// The version of the protocol that both sides speak.
    pub version: String,
    /// `true` if that version has no requests over the connection: servers ask in the results of calls, and each request declares
    /// what they may ask for.
    pub asks_in_results: bool,
    /// The server's own name and version, cleaned.
    pub title: String,
}

impl Connection {
    /// Opens the connection.
    pub async fn open<T: Transport<RoleClient> + 'static>(
        server: &McpServer,
        transport: T,
        flow: Arc<Flow>,
        asks: Arc<Asks>,
        handshake: Handshake,
    ) -> Result<Self, OpenError> {
        let changed = Arc::new(AtomicBool::new(false));
        let mode = match handshake {
            Handshake::Initialize => ClientLifecycleMode::Initialize,
            Handshake::Discover => {
                ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::LATEST] }
            }
        };
        let progress = Arc::new(ReportedProgress::default());
        let handler = Receiver { changed: Arc::clone(&changed), asks: Arc::clone(&asks) };
        let transport =
            ProgressTap { inner: transport, progress: Arc::clone(&progress), asks: Arc::clone(&asks) };
        let service = serve_client_with_lifecycle(handler, transport, mode).await.map_err(|error| {
            let text = cleaned(
                match &error {
                    // The SDK's own words around it say nothing to a person.
                    ClientInitializeError::TransportError { error, .. } => {
                        if let Some(reason) = wanted_sign_in(error.error.as_ref()) {
                            let server = server.name.clone();
                            return OpenError::Prepared(McpError::NotSignedIn { server, reason });
                        }
                        inner_words(&chain(error.error.as_ref())).to_owned()
                    }
                    other => chain(other),
                }
                .as_str(),
            );
            match error {
                ClientInitializeError::JsonRpcError(_) => OpenError::OtherHandshake(text),
                _ => OpenError::Failed(text),
            }
        })?;
        let info = service.peer_info();
        let version = info.as_ref().map(|info| info.protocol_version.to_string()).unwrap_or_default();
        let known = ProtocolVersion::KNOWN_VERSIONS.iter().any(|known| known.to_string() == version);
        if !known {
            let version = crate::clean::label(&version, 40);
            return Err(OpenError::Failed(format!(
                "it speaks the version {version:?} of MCP, which flock does not"
            )));
        }
        let asks_in_results = info.as_ref().is_some_and(|info| !info.protocol_version.has_initialize());
        let title = info.and_then(|info| info.server_info.clone()).map_or_else(String::new, |found| {
            crate::clean::label(&format!("{} {}", found.name, found.version), 120)
        });
        let server = server.name.clone();
        Ok(Self { server, service, flow, changed, progress, asks, version, asks_in_results, title })
    }

    /// Returns `true` if the server has said since the last call that its tools have changed.
    pub fn take_changed(&self) -> bool {
        self.changed.swap(false, Ordering::AcqRel)
    }

    /// Returns the definitions of all tools, as the server sends them. `limit` is the longest time for one page of them.
    pub async fn tools(&self, limit: Duration) -> Result<Vec<Value>, McpError> {
        let mut tools = Vec::new();
        let mut bytes = 0;
        let mut cursor: Option<String> = None;
        let excess = |what: &str| McpError::Excess { server: self.server.clone(), what: what.to_owned() };
        for _ in 0..MAX_PAGES {
            let params =
                cursor.take().map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
            // The SDK keeps answers for as long as the server says, and the server could hide a change behind that.
            let request = ClientRequest::ListToolsRequest(ListToolsRequest {
                method: Default::default(),
                params,
                extensions: Default::default(),
            });
            let waits = CallWaits::new(limit, None, None);
            let options = PeerRequestOptions::no_options();
            let page = self.request((request, options), &waits, &CancellationToken::new()).await?;
            if rounds::is_demand(&page) {
                return Err(excess("asks for something before it lists its tools, which MCP does not allow"));
            }
            let listed = page["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
            bytes += page.to_string().len();
            if bytes > MAX_LIST || tools.len() + listed.len() > MAX_TOOLS {
                return Err(excess(&format!(
                    "lists more than {MAX_TOOLS} tools, or more than 4 MiB of them"
                )));
            }
            tools.extend_from_slice(listed);
            match page["nextCursor"].as_str() {
                Some(next) if !next.is_empty() => cursor = Some(next.to_owned()),
                _ => return Ok(tools),
            }
        }
        Err(excess("lists its tools on too many pages"))
    }

    /// Calls a tool once, with the answers that the server asked for in the round before. A call that takes too long or is
    /// cancelled is cancelled at the server, too.
    pub async fn call(
        &self,
        call: &ToolCall<'_>,
        answers: Answers,
        waits: &CallWaits<'_>,
    ) -> Result<Value, McpError> {
        let mut params =
            CallToolRequestParams::new(call.tool.to_owned()).with_arguments(call.arguments.clone());
        params.meta = trace_context();
        params.input_responses = (!answers.responses.is_empty()).then_some(answers.responses);
        params.request_state = answers.state;
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let mut options = PeerRequestOptions::no_options();
        if self.asks_in_results {
            // Otherwise the SDK declares what was true when the connection began, and of any agent.
            let mut meta = RequestMetaObject::default();
            meta.set_client_capabilities(call.offers.declared());
            options.meta = Some(meta);
        }
        self.request((request, options), waits, &call.context.cancel).await
    }

    async fn request(
        &self,
        (request, options): (ClientRequest, PeerRequestOptions),
        waits: &CallWaits<'_>,
        cancel: &CancellationToken,
    ) -> Result<Value, McpError> {
        let mut handle = self
            .service
            .send_cancellable_request(request, options)
            .await
            .map_err(|error| self.failed(error))?;
        let token = handle.progress_token.clone();
        self.progress.follow(&token, waits.progress);
        let is_silent = tokio::select! {
            answer = &mut handle.rx => {
                self.progress.take(&token);
                let answer = answer.map_err(|_| self.broken())?.map_err(|error| self.failed(error))?;
                // The SDK's types are left here: what follows is for any version of the protocol.
                return serde_json::to_value(answer).map_err(|_| self.ended());
            }
            () = self.flow.over.cancelled() => return Err(self.ended()),
            () = waits.over() => true,
            () = cancel.cancelled() => false,
        };
        let reported = self.progress.take(&token);
        let (reason, error) = if is_silent {
            let reported = reported.map(|text| format!("; it last reported {text:?}")).unwrap_or_default();
            let silent =
                McpError::Silent { server: self.server.clone(), seconds: waits.limit.as_secs(), reported };
            ("it took too long", silent)
        } else {
            ("its caller cancelled it", McpError::Cancelled)
        };
        // The server may not read any more, and nobody waits for this.
        let told = handle.cancel(Some(reason.to_owned()));
        drop(tokio::time::timeout(Duration::from_secs(1), told).await);
        Err(error)
    }

    /// Returns the error of a server that has ended.
    pub fn ended(&self) -> McpError {
        let reason = self.flow.reason().unwrap_or_else(|| "its connection was closed".to_owned());
        McpError::Ended { server: self.server.clone(), reason }
    }

    fn failed(&self, error: ServiceError) -> McpError {
        match error {
            ServiceError::McpError(error) => {
                let server = self.server.clone();
                let is_lack = error.code == ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY;
                match error.data.as_ref().filter(|_| is_lack).and_then(rounds::missing) {
                    Some(wanted) => McpError::NotGranted { server, wanted },
                    None => {
                        let message = cleaned(&error.message);
                        McpError::Answered { server, code: error.code.0, message }
                    }
                }
            }
            ServiceError::UnexpectedResponse => McpError::Excess {
                server: self.server.clone(),
                what: "answered with something else than was asked for".to_owned(),
            },
            ServiceError::TransportSend(error) if !self.flow.over.is_cancelled() => {
                let server = self.server.clone();
                match wanted_sign_in(error.error.as_ref()) {
                    Some(reason) => McpError::NotSignedIn { server, reason },
                    None => {
                        let reason = cleaned(inner_words(&chain(error.error.as_ref())));
                        McpError::Unreached { server, reason }
                    }
                }
            }
            _ => self.broken(),
        }
    }

    /// Returns the error of a call whose answer can't come any more.
    fn broken(&self) -> McpError {
        if self.flow.over.is_cancelled() {
            return self.ended();
        }
        // The answer of one request over HTTP can break off alone.
        McpError::Unreached { server: self.server.clone(), reason: "the answer broke off".to_owned() }
    }
}

/// Returns the reason if a server wants a sign-in. It is flock's own text, see [`SigningClient`](super::oauth::SigningClient).
fn wanted_sign_in(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    std::iter::successors(Some(error), |error| error.source()).find_map(|error| {
        let wanted = error.downcast_ref::<AuthRequiredError>().map(|error| &error.www_authenticate_header);
        let more =
            || error.downcast_ref::<InsufficientScopeError>().map(|error| &error.www_authenticate_header);
        wanted.or_else(more).map(|reason| cleaned(reason))
    })
}

/// Returns a reason without the SDK's words before it.
fn inner_words(reason: &str) -> &str {
    reason.strip_prefix("unexpected server response: ").unwrap_or(reason)
}

/// Returns a text of the server or of the way to it, without anything that a terminal would interpret.
fn cleaned(text: &str) -> String {
    safe_text::start(&safe_text::harmless(text), MAX_MESSAGE).to_owned()
}

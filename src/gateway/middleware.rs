//! The middleware for all requests: source, size, credential, route, response. Checks that are made here apply to all
//! routes, so no route can forget them.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Request, Response, StatusCode, Uri, header};
use axum::response::IntoResponse as _;
use axum::routing::{any, delete, get, post, put};
use hyper::body::Incoming;
use tower_service::Service as _;

use super::auth::{self, Caller, TurnService};
use super::body::check_announced;
use super::connection_slots::ConnectionSlot;
use super::draining_body::DrainingBody;
use super::driver::TurnRefused;
use super::error::ApiError;
use super::peers::{self, OwnerLogin, Placed, StatedCaller, Statement};
use super::relay;
use super::routes::dashboard::DashboardState;
use super::routes::{
    self, a2a, agents, audit, chat, config, dashboard, doctor, events, graph, health, hooks, logs, mcp,
    messages, metrics, models, openapi, plugin, prompt, push, responses, sessions, settings, sign_ins,
    status, supervisor, tasks, transcript,
};
use super::scope::{self, RequiredAccess};
use super::sign_in;
use super::state::Gateway;
use super::stream_auth::guard_stream;
use super::turn_error;
use super::uploads;
use crate::id::AgentId;
use crate::provider::BoxFuture;
use crate::sandbox::egress::{self, SandboxApi};
use crate::swarm::attachment::MAX_FILE;
use crate::swarm::lease::Owner;
use crate::telemetry::{self, Current, TRACEPARENT, TRACESTATE, TraceContext};

/// The origin of a request.
#[derive(Clone, Copy)]
enum RequestSource<'a> {
    /// A connection of this machine.
    Machine,
    /// The sandbox of this agent.
    Sandbox(&'a AgentId),
    /// Another gateway of the group, which passes it on.
    Gateway,
}

impl<'a> RequestSource<'a> {
    /// Returns the agent from whose sandbox the request comes, if it comes from one.
    const fn inside(self) -> Option<&'a AgentId> {
        match self {
            Self::Sandbox(agent) => Some(agent),
            Self::Machine | Self::Gateway => None,
        }
    }
}

/// The request handler of the gateway: its routes, and the checks in front of them.
pub struct Middleware {
    gateway: Arc<Gateway>,
    router: Router,
}

impl Middleware {
    /// Builds the router for this gateway.
    #[must_use]
    pub fn new(gateway: Arc<Gateway>) -> Self {
        let api = Router::new()
            .route("/health", get(health::show))
            .route("/hooks/{name}", post(hooks::receive))
            .route("/v1/models", get(models::list))
            .route("/v1/models/{*id}", get(models::show))
            .route("/v1/chat/completions", post(chat::complete))
            .route("/v1/responses", post(responses::create))
            .route("/v1/responses/{id}", get(responses::show).delete(responses::delete))
            .route("/api/agents", get(agents::list).post(agents::create))
            .route("/api/agents/{id}", delete(agents::remove))
            .route("/api/agents/{id}/prepare", post(agents::prepare))
            .route("/api/agents/{id}/probe", post(agents::probe))
            .route("/api/audit", get(audit::list))
            .route("/api/audit/verify", get(audit::verify))
            .route("/api/config", get(config::show))
            .route("/api/config/backups/{name}", get(config::backup))
            .route("/api/config/restore", post(config::restore_backup))
            .route("/api/config/value", put(config::set).delete(config::unset))
            .route("/api/doctor", get(doctor::show))
            .route("/api/logs", get(logs::list))
            .route("/api/usage", get(audit::usage))
            .route("/api/usage/budgets", get(audit::budgets))
            .route("/api/usage/hours", get(audit::hours))
            .route("/api/sandboxes/usage", get(status::sandboxes))
            .route("/api/sessions", get(sessions::list).post(sessions::adopt))
            .route("/api/sessions/{key}", get(sessions::show))
            .route("/api/sessions/{key}/compact", post(sessions::compact))
            .route("/api/sessions/{key}/prompt", get(prompt::show))
            .route("/api/sessions/{key}/reset", post(sessions::reset))
            .route("/api/sessions/{key}/stop", post(transcript::stop))
            .route("/api/sessions/{key}/transcript", get(transcript::show))
            .route("/api/sessions/{key}/turns/{turn}", delete(transcript::withdraw))
            .route("/api/sessions/{key}/turns/{turn}/pictures/{n}", get(transcript::picture))
            .route("/api/message", post(messages::say))
            .route("/api/messages", get(messages::list))
            .route("/api/settings", put(settings::change))
            .route("/api/openapi.json", get(openapi::show))
            .route("/api/plugin/tools/{name}", post(plugin::call))
            .route("/api/plugin/events", post(plugin::report))
            .route("/mcp", get(mcp::listen).post(mcp::post).delete(mcp::end))
            .route("/api/dashboard/codes", post(sign_ins::create_code))
            .route("/api/dashboard/push", get(push::show).put(push::subscribe).delete(push::unsubscribe))
            .route("/api/events", get(events::watch))
            .route("/api/graph", get(graph::show))
            .route("/api/status", get(status::show))
            .route("/api/supervisor", get(supervisor::show))
            .route("/metrics", get(metrics::show))
            .route("/api/tasks", get(tasks::list))
            .route("/api/tasks/{id}", get(tasks::show))
            .route("/api/tasks/{id}/cancel", post(tasks::cancel))
            .route("/relay/{*path}", any(relay::handler::on))
            .route("/.well-known/agent-card.json", get(a2a::home_card))
            .route("/flock/.well-known/agent-card.json", get(a2a::directory))
            .route("/flock/a2a/{agent}", post(a2a::call))
            .route("/flock/a2a/{agent}/", post(a2a::call))
            .route("/flock/a2a/{agent}/.well-known/agent-card.json", get(a2a::agent_card))
            .merge(routes::team())
            .fallback(async |uri: Uri| not_found_at(uri.path()))
            .method_not_allowed_fallback(async || {
                ApiError::new(
                    StatusCode::METHOD_NOT_ALLOWED,
                    "method_not_allowed",
                    "this path does not take this method",
                )
            })
            .with_state(gateway.clone());
        let pages = Router::new()
            .route("/dashboard", get(dashboard::page))
            .route("/dashboard/sign-in", post(dashboard::sign_in_by_form))
            .route("/dashboard/{*path}", get(dashboard::page))
            .route("/dashboard/assets/{name}", get(dashboard::asset))
            .with_state(DashboardState { gateway: gateway.clone(), api: api.clone() });
        Self { gateway, router: api.merge(pages) }
    }

    /// Performs all checks that need only the head of a request.
    async fn admit(
        &self,
        parts: &mut axum::http::request::Parts,
        source: RequestSource<'_>,
    ) -> Result<(), ApiError> {
        let gateway = &self.gateway;
        let inside = source.inside();
        let turns = TurnService::at(parts.uri.path());
        let is_upload = uploads::is_upload(&parts.method, parts.uri.path());
        let mut limits = gateway.limits;
        limits.body = match turns {
            Some(TurnService::Relay) => relay::MAX_BODY,
            Some(TurnService::Mcp) => limits.body.min(mcp::MAX_BODY),
            None if auth::is_plugin_path(parts.uri.path()) => limits.body.min(plugin::MAX_BODY),
            None if is_upload => MAX_FILE,
            None if hooks::is_delivery(parts.uri.path()) => limits.body.min(hooks::MAX_BODY),
            None => limits.body,
        };
        if is_upload {
            // A file takes longer than a request of a few kilobytes.
            limits.body_timeout = limits.body_timeout.max(uploads::TIMEOUT);
        }
        // Size and source are checked before the credential, because they cost no look into the database.
        check_announced(&parts.headers, limits.body)?;
        if let RequestSource::Gateway = source {
            parts.extensions.insert(limits);
            return self.admit_passed(parts).await;
        }
        let port = if inside.is_some() { egress::PROXY_PORT } else { gateway.port };
        let config = gateway.config();
        if hooks::is_delivery(parts.uri.path()) {
            // No agent has anything to send here, and one that learned a secret should not be able to.
            if inside.is_some() {
                return Err(not_found_at(parts.uri.path()));
            }
            auth::check_source(parts, port, &config.hook_origins)?;
        } else {
            auth::check_source(parts, port, &config.trusted_origins)?;
        }
        if let Some(turns) = turns {
            let ticket = gateway.ticket(turns, &parts.headers, inside);
            // A caller with a good token of another kind is told that the token does not belong here.
            let ticket = match ticket {
                Err(error) if error.status == StatusCode::UNAUTHORIZED => {
                    let is_known = gateway.caller(&parts.headers).await.is_ok();
                    Err(if is_known { turns.out_of_scope() } else { error })
                }
                ticket => ticket,
            }?;
            keep_connection(parts)?;
            parts.extensions.insert(ticket);
            parts.extensions.insert(limits);
            return Ok(());
        }
        match scope::needed(&parts.method, parts.uri.path()) {
            RequiredAccess::Nothing => {}
            RequiredAccess::Browser => {
                // A browser that is signed out gets a page all the same, and it is the route that chooses it.
                if let Some(caller) = gateway.browser(&parts.headers).await? {
                    keep_connection(parts)?;
                    parts.extensions.insert(caller);
                }
            }
            _ => {
                let caller = gateway.caller(&parts.headers).await?;
                caller.check_scope(&parts.method, parts.uri.path())?;
                if caller.sign_in().is_some() {
                    sign_in::check_request(&parts.method, &parts.headers, &gateway.cookies)?;
                }
                keep_connection(parts)?;
                parts.extensions.insert(caller);
            }
        }
        parts.extensions.insert(limits);
        Ok(())
    }

    /// Performs the checks for a request that another gateway passes on. That one has checked where it came from, and who
    /// asked. What the caller may do is looked up here again.
    async fn admit_passed(&self, parts: &mut axum::http::request::Parts) -> Result<(), ApiError> {
        let gateway = &self.gateway;
        let (method, path) = (&parts.method, parts.uri.path());
        let needed = scope::needed(method, path);
        if !matches!(needed, RequiredAccess::AnyOf(_) | RequiredAccess::ForAll(_) | RequiredAccess::Owner) {
            return Err(not_found_at(path));
        }
        let statement = Statement::read(&parts.headers).ok_or_else(|| {
            ApiError::invalid("no_statement", "another gateway did not say whose request it passes on")
        })?;
        let caller = statement.caller.resolve(gateway).await?;
        caller.check_scope(method, path)?;
        // The sender may know less than this gateway does, and the other way round. Nothing is passed on twice. One that stops
        // leaves its agents to others.
        let is_here = gateway.swarm.ownership().of_subject(&statement.about.subject()) == Owner::Here;
        if !is_here || gateway.stop.is_cancelled() {
            return Err(turn_error::refusal(TurnRefused::Elsewhere));
        }
        parts.headers.remove(peers::HEADER);
        parts.extensions.insert(caller);
        if let StatedCaller::Owner { login } = statement.caller {
            parts.extensions.insert(OwnerLogin(login));
        }
        Ok(())
    }

    /// Returns what the work of a request belongs to in traces: the span that its client names, or the turn whose agent
    /// program sends it. A program could name any span, so it is not asked.
    fn trace_of(&self, parts: &axum::http::request::Parts, inside: Option<&AgentId>) -> Option<Current> {
        let telemetry = self.gateway.swarm.telemetry();
        if let Some(ticket) = parts.extensions.get::<Arc<relay::Ticket>>() {
            return telemetry.turn(ticket.turn);
        }
        let text = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
        let above = text(TRACEPARENT)
            .filter(|_| inside.is_none())
            .and_then(|parent| TraceContext::parse(parent, text(TRACESTATE)));
        telemetry.enter(above)
    }

    /// Answers a request that came over a connection of the machine.
    pub(super) async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        self.handle_from(RequestSource::Machine, request).await
    }

    /// Answers a request of another gateway of the group, which has shown its key.
    pub(super) async fn answer_gateway(&self, request: Request<Incoming>) -> Response<Body> {
        if let Some(response) = peers::answer(&self.gateway, &request) {
            return response;
        }
        if peers::is_mcp_call(&request) {
            return Box::pin(peers::answer_mcp_call(&self.gateway, request)).await;
        }
        self.handle_from(RequestSource::Gateway, request).await
    }

    /// Has a request answered by its route, or by the gateway that has its agent.
    async fn answer_admitted(&self, source: RequestSource<'_>, request: Request<Body>) -> Response<Body> {
        let placed = match source {
            RequestSource::Gateway => Ok(Placed::Here(request)),
            RequestSource::Machine | RequestSource::Sandbox(_) => {
                Box::pin(peers::place(&self.gateway, request)).await
            }
        };
        match placed {
            Ok(Placed::Here(request)) => match self.router.clone().call(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            },
            Ok(Placed::Elsewhere(response)) => response,
            Err(error) => error.into_response(),
        }
    }

    /// Returns the response to a request.
    async fn handle_from(&self, source: RequestSource<'_>, request: Request<Incoming>) -> Response<Body> {
        let id = self.gateway.request_id();
        let (mut parts, body) = request.into_parts();
        let method = parts.method.clone();
        let path = parts.uri.path().to_owned();
        let body = DrainingBody::new(body, &parts.headers);
        let ended = body.ended();
        let mut response = match self.admit(&mut parts, source).await {
            Ok(()) => {
                // The credential is kept beside the request, because a stream has to check it again while it runs. The gateway
                // that the client has reached looks after it.
                let is_passed_on = matches!(source, RequestSource::Gateway);
                let caller = parts.extensions.get::<Caller>().filter(|_| !is_passed_on);
                let shown = caller.map(|caller| (caller.clone(), parts.headers.clone()));
                let current = self.trace_of(&parts, source.inside());
                let request = Request::from_parts(parts, Body::new(body));
                let handled = self.answer_admitted(source, request);
                let response = telemetry::scoped(current, handled).await;
                match shown {
                    Some((caller, headers)) => guard_stream(response, &self.gateway, headers, caller),
                    None => response,
                }
            }
            Err(error) => {
                // Dropping the body starts to drain it, so that the client can read the refusal.
                drop(body);
                error.into_response()
            }
        };
        if let Some(error) = response.extensions_mut().remove::<Arc<ApiError>>() {
            let (status, code, cause) = (error.status.as_u16(), &*error.code, error.cause());
            // As fields, texts from elsewhere are escaped, so they can't begin a new line in the log.
            let text = error.message.as_str();
            if error.status.is_server_error() {
                tracing::error!(request = id, %method, path, status, code, text, cause, "a request failed");
            } else {
                tracing::debug!(request = id, %method, path, status, code, text, cause, "a request was refused");
            }
            // The router has set `Allow` on its own response to a wrong method. It must survive the new response.
            let before = std::mem::replace(&mut response, error.render(&path));
            if let Some(value) = before.headers().get(header::ALLOW) {
                response.headers_mut().insert(header::ALLOW, value.clone());
            }
            if matches!(source, RequestSource::Gateway) && turn_error::is_for_others(&error.code) {
                response.headers_mut().insert(peers::ELSEWHERE, HeaderValue::from_static("1"));
            }
        }
        if !ended.is_ended() {
            // The rest of what the client sends is discarded, and no further request is read from this connection.
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        if let Ok(id) = HeaderValue::from_str(&id) {
            response.headers_mut().insert("x-request-id", id);
        }
        response
    }
}

impl SandboxApi for Middleware {
    fn answer<'a>(&'a self, agent: &'a AgentId, request: Request<Incoming>) -> BoxFuture<'a, Response<Body>> {
        Box::pin(self.handle_from(RequestSource::Sandbox(agent), request))
    }
}

/// Lets the connection of a request with a credential keep its slot.
///
/// # Errors
///
/// Returns 503 if the connection has lost its slot to a newer one.
fn keep_connection(parts: &mut axum::http::request::Parts) -> Result<(), ApiError> {
    if parts.extensions.remove::<Arc<ConnectionSlot>>().is_some_and(|slot| !slot.know()) {
        return Err(ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "too_many_connections",
            "this connection has given way to a newer one",
        ));
    }
    Ok(())
}

/// Returns the response for a path that does not exist. Below `/v1` it lists the existing paths.
fn not_found_at(path: &str) -> ApiError {
    const THERE: &str = "GET /v1/models, GET /v1/models/{id}, POST /v1/chat/completions, POST /v1/responses, GET /v1/responses/{id}";
    let is_below = path.strip_prefix("/v1").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let message = if is_below {
        format!("there is nothing at this path. Below /v1 there is: {THERE}")
    } else {
        "there is nothing at this path".to_owned()
    };
    ApiError::not_found("not_found", message)
}

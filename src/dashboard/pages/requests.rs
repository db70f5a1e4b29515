//! The requests of agents: everything that a person decides about, and the decision.

use askama::Template;
use serde::Deserialize;
use serde_json::Value;

use crate::clean;
use crate::dashboard::format::Moment;
use crate::dashboard::layout::{Layout, NavItem};
use crate::dashboard::texts::Texts;
use crate::dashboard::{Api, ApiFailure, Page, Viewer, fetch, query};
use crate::mcp::{FieldKind, QuestionField};
use crate::swarm::triage::view::words;

#[derive(Deserialize)]
struct RequestList {
    requests: Vec<Request>,
}

#[derive(Deserialize)]
struct FoundRequest {
    request: Request,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    id: String,
    kind: String,
    agent: String,
    channel: Option<String>,
    shown: Vec<String>,
    body: String,
    sha256: String,
    reason: String,
    level: String,
    why: Vec<String>,
    state: String,
    scope: String,
    created_at: i64,
    expires_at: i64,
    decided_by: Option<String>,
    revoked_at: Option<i64>,
    revoked_by: Option<String>,
    result: Option<String>,
    granted: Option<Vec<String>>,
    question: Option<Question>,
}

/// The question of an MCP server, whose words are in `shown`.
#[derive(Deserialize)]
struct Question {
    fields: Vec<QuestionField>,
}

#[derive(Template)]
#[template(path = "requests.html")]
struct RequestsPage {
    layout: Layout,
    /// `true` if the page has the decided requests too.
    all: bool,
    /// `true` if the page has one request alone.
    is_one: bool,
    requests: Vec<RequestView>,
}

/// A request as the page shows it. Everything that a decision is about is there in full, in printable ASCII.
struct RequestView {
    id: String,
    kind: String,
    agent: String,
    channel: Option<String>,
    shown: Vec<String>,
    body: String,
    sha256: String,
    reason: String,
    level: String,
    why: Vec<String>,
    state: String,
    state_text: &'static str,
    scope: &'static str,
    created: Moment,
    until: Moment,
    decided_by: Option<String>,
    revoked_by: Option<String>,
    result: Option<String>,
    /// The agent's earlier grants of this kind; `None` for a closed request.
    granted: Option<Vec<String>>,
    /// The fields of a question that waits for an answer.
    fields: Option<Vec<FieldView>>,
    can_approve: bool,
    can_deny: bool,
    can_revoke: bool,
}

/// A field of a question.
struct FieldView {
    name: String,
    /// Its title and the values that it takes.
    label: String,
    /// `text`, `number`, `flag`, `choice` or `several`.
    kind: &'static str,
    is_required: bool,
    /// The default of a text or a number.
    default: String,
    choices: Vec<ChoiceView>,
}

struct ChoiceView {
    value: String,
    title: String,
    is_default: bool,
}

impl FieldView {
    fn new(field: &QuestionField) -> Self {
        let default = field.default.as_ref();
        let is_default = |value: &str| match default {
            Some(Value::Array(values)) => values.iter().any(|one| one.as_str() == Some(value)),
            Some(Value::String(default)) => default == value,
            Some(Value::Bool(default)) => value.parse() == Ok(*default),
            // A number has no choices.
            _ => false,
        };
        let choice = |value: &str, title: &str| ChoiceView {
            value: value.to_owned(),
            title: if title.is_empty() { value.to_owned() } else { title.to_owned() },
            is_default: is_default(value),
        };
        let (kind, choices) = match &field.kind {
            FieldKind::Text { .. } => ("text", Vec::new()),
            FieldKind::Number { .. } => ("number", Vec::new()),
            FieldKind::Flag => ("flag", vec![choice("true", ""), choice("false", "")]),
            FieldKind::Choice { choices, is_multiple, .. } => {
                let kind = if *is_multiple { "several" } else { "choice" };
                (kind, choices.iter().map(|known| choice(&known.value, &known.title)).collect())
            }
        };
        Self {
            name: field.name.clone(),
            label: words(&field.describe()),
            kind,
            is_required: field.required && default.is_none(),
            default: match default {
                Some(Value::String(text)) => text.clone(),
                Some(Value::Number(number)) => number.to_string(),
                _ => String::new(),
            },
            choices,
        }
    }
}

/// Returns the address of the page with one request, decided or not.
pub(super) fn address(id: &str) -> String {
    format!("/dashboard/requests?id={}", query::encoded(id))
}

/// Returns the page. With `?state=all` it has the decided requests too, and with `?id=` one request alone.
pub(crate) async fn page(viewer: &Viewer, api: &dyn Api, query: &str) -> Result<Page, ApiFailure> {
    let all = query::value(query, "state").as_deref() == Some("all");
    let one = query::value(query, "id").filter(|id| !id.is_empty());
    let listed: RequestList = match &one {
        Some(id) => {
            let found: FoundRequest = fetch(api, &format!("/api/approvals/{}", query::encoded(id))).await?;
            RequestList { requests: vec![found.request] }
        }
        None => fetch(api, if all { "/api/approvals?state=all" } else { "/api/approvals" }).await?,
    };
    let texts = viewer.texts();
    let mut layout = Layout::new(viewer, Some(NavItem::Requests), texts.requests);
    layout.waiting = listed.requests.iter().filter(|request| request.state == "waiting").count();
    let mut requests: Vec<RequestView> =
        listed.requests.into_iter().map(|request| view(texts, request)).collect();
    // The list is the oldest first. Those that wait come first here, and then the newest.
    requests.reverse();
    requests.sort_by_key(|request| request.state != "waiting");
    Page::of(&RequestsPage { layout, all, is_one: one.is_some(), requests })
}

fn view(texts: &'static Texts, request: Request) -> RequestView {
    let is_revoked = request.revoked_at.is_some();
    let waits = request.state == "waiting";
    let is_question = request.question.is_some();
    let fields = request.question.filter(|_| waits);
    let fields = fields.map(|question| question.fields.iter().map(FieldView::new).collect());
    RequestView {
        // The same step leads from a revoked grant back to it.
        can_approve: !is_question && (waits || is_revoked),
        fields,
        can_deny: matches!(request.state.as_str(), "triage" | "waiting" | "approved"),
        can_revoke: request.state == "done" && !is_revoked && request.scope == "agent",
        state_text: if is_revoked { texts.request_revoked } else { state_text(texts, &request.state) },
        scope: if request.scope == "once" { texts.scope_once } else { texts.scope_agent },
        body: clean::spelled(&request.body),
        reason: words(&request.reason),
        why: request.why.iter().map(|why| words(why)).collect(),
        result: request.result.as_deref().map(words),
        granted: request.granted,
        created: Moment::new(request.created_at),
        until: Moment::new(request.expires_at),
        id: request.id,
        kind: request.kind,
        agent: request.agent,
        channel: request.channel,
        shown: request.shown,
        sha256: request.sha256,
        level: request.level,
        state: request.state,
        decided_by: request.decided_by,
        revoked_by: request.revoked_by,
    }
}

fn state_text(texts: &'static Texts, state: &str) -> &'static str {
    match state {
        "triage" => texts.request_triage,
        "waiting" => texts.request_waiting,
        "approved" => texts.request_approved,
        "running" => texts.request_running,
        "done" => texts.request_done,
        "failed" => texts.request_failed,
        "denied" => texts.request_denied,
        _ => texts.request_expired,
    }
}

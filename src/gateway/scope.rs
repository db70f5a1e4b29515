//! Decides what a client's token opens: the right that each path needs, and the agents and sessions that the token may
//! see. Pure.

use std::fmt;

use axum::http::Method;
use serde_json::Value;

use super::error::ApiError;
use crate::id::{AgentId, SessionKey, SessionKind};
use crate::store::{Channel, ClientToken, Right, Task};

/// The credential that a path needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequiredAccess {
    /// A token with one of these rights. The route itself shows and accepts only what belongs to the token's agents.
    AnyOf(&'static [Right]),
    /// A token with this right that is for all agents.
    ForAll(Right),
    /// The owner's token.
    Owner,
    /// The token of flock's plugin in OpenClaw.
    Plugin,
    /// The token of a turn that an agent program runs.
    Turn,
    /// The cookie of a browser that is signed in. Without it, a page says how to sign in.
    Browser,
    /// No credential at all.
    Nothing,
}

impl fmt::Display for RequiredAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AnyOf(rights) => {
                let words: Vec<&str> = rights.iter().map(|right| right.as_str()).collect();
                f.write_str(&words.join(" or "))
            }
            Self::ForAll(right) => write!(f, "{} for all agents", right.as_str()),
            Self::Owner => f.write_str("owner"),
            Self::Plugin => f.write_str("plugin"),
            Self::Turn => f.write_str("turn"),
            Self::Browser => f.write_str("browser"),
            Self::Nothing => f.write_str("nothing"),
        }
    }
}

/// Returns the credential that a request needs. A path that is not listed here needs the owner's token, so a new route
/// is closed to clients until somebody opens it.
#[must_use]
pub fn needed(method: &Method, path: &str) -> RequiredAccess {
    // Empty parts are dropped, so a doubled or trailing slash does not change what a path needs.
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let is_get = *method == Method::GET || *method == Method::HEAD;
    let is_post = *method == Method::POST;
    match parts.as_slice() {
        // This answers everybody on the machine, see `routes::health`.
        ["health"] => RequiredAccess::Nothing,
        // The signature over the body is the credential, and the route checks it.
        ["hooks", _] if is_post => RequiredAccess::Nothing,
        // They are the same for everybody, and the page of a browser that is signed out needs them too.
        ["dashboard", "assets", _] if is_get => RequiredAccess::Nothing,
        // The token or the code in the form is the credential, and the route checks it.
        ["dashboard", "sign-in"] if is_post => RequiredAccess::Nothing,
        ["dashboard", ..] if is_get => RequiredAccess::Browser,
        ["mcp"] | ["relay", ..] => RequiredAccess::Turn,
        ["api", "plugin", ..] => RequiredAccess::Plugin,
        ["v1", "models", ..] if is_get => RequiredAccess::AnyOf(&[Right::Chat, Right::Read]),
        ["v1", "chat", "completions"] | ["v1", "responses"] | ["api", "message"] if is_post => {
            RequiredAccess::AnyOf(&[Right::Chat])
        }
        ["v1", "responses", _] if is_get || *method == Method::DELETE => {
            RequiredAccess::AnyOf(&[Right::Chat])
        }
        ["api", "channels", _, "messages"] if is_post => RequiredAccess::AnyOf(&[Right::Chat]),
        ["api", "files"] if *method == Method::PUT => RequiredAccess::AnyOf(&[Right::Chat]),
        ["api", "approvals"] | ["api", "approvals", _] if is_get => RequiredAccess::AnyOf(&[Right::Approve]),
        ["api", "approvals", _, "approve" | "answer" | "deny" | "revoke"] if is_post => {
            RequiredAccess::AnyOf(&[Right::Approve])
        }
        ["api", "agents" | "messages" | "sessions" | "tasks" | "channels" | "events"]
        | ["api", "sessions" | "tasks" | "channels", _]
        | ["api", "channels", _, "messages"]
        | ["api", "channels", _, "messages", _, "files", _]
        | ["api", "sessions", _, "transcript"]
        | ["api", "sessions", _, "turns", _, "pictures", _]
            if is_get =>
        {
            RequiredAccess::AnyOf(&[Right::Read])
        }
        // The description of the API shows nothing of the home, so it is for everybody with a token.
        ["api", "openapi.json"] if is_get => RequiredAccess::AnyOf(&Right::ALL),
        // These show all agents at once, so a token for some agents can't open them.
        ["api", "status" | "usage" | "audit" | "search" | "graph" | "doctor" | "supervisor"]
        | ["api", "usage", "budgets" | "hours"]
        | ["api", "sandboxes", "usage"]
        | ["api", "audit", "verify"]
        | ["api", "receipts"]
        | ["api", "receipts", _]
        | ["api", "projects"]
        | ["api", "projects", _]
        | ["api", "projects", _, "diff" | "log" | "submissions"]
        | ["api", "projects", _, "submissions", _]
        | ["api", "races"]
        | ["api", "races", _]
        | ["api", "skills"]
        | ["api", "hooks"]
        | ["api", "hooks", _]
        | ["api", "hooks", _, "history"]
        | ["api", "engines"]
        | ["api", "engines", _]
        | ["api", "schedules"]
        | ["api", "schedules", _]
        | ["api", "schedules", _, "history"]
        | ["metrics"]
            if is_get =>
        {
            RequiredAccess::ForAll(Right::Read)
        }
        ["api", "projects", _, "submissions", _, "accept" | "refuse"] if is_post => {
            RequiredAccess::ForAll(Right::Approve)
        }
        [".well-known", "agent-card.json"]
        | ["flock", ".well-known", "agent-card.json"]
        | ["flock", "a2a", _, ".well-known", "agent-card.json"]
            if is_get =>
        {
            RequiredAccess::AnyOf(&[Right::A2a])
        }
        ["flock", "a2a", _] if is_post => RequiredAccess::AnyOf(&[Right::A2a]),
        _ => RequiredAccess::Owner,
    }
}

/// Refuses a path that this token does not open.
///
/// # Errors
///
/// Returns 403 if the token lacks the right, or if the path shows all agents and the token is for some.
pub(crate) fn check(token: &ClientToken, method: &Method, path: &str) -> Result<(), ApiError> {
    let lacks = |rights: &[Right]| {
        let words: Vec<&str> = rights.iter().map(|right| right.as_str()).collect();
        out_of_scope(format!("the token {} lacks the right {}", token.name, words.join(" or ")))
    };
    match needed(method, path) {
        RequiredAccess::AnyOf(rights) if rights.iter().any(|right| token.may(*right)) => Ok(()),
        RequiredAccess::AnyOf(rights) => Err(lacks(rights)),
        RequiredAccess::ForAll(right) if !token.may(right) => Err(lacks(&[right])),
        RequiredAccess::ForAll(_) if token.agents.is_some() => Err(out_of_scope(format!(
            "the token {} is for some agents, and this answer shows all of them",
            token.name
        ))),
        RequiredAccess::ForAll(_) | RequiredAccess::Nothing => Ok(()),
        RequiredAccess::Owner | RequiredAccess::Plugin | RequiredAccess::Turn | RequiredAccess::Browser => {
            Err(out_of_scope("only the owner's token may do this".to_owned()))
        }
    }
}

/// Returns the refusal for an agent that the token does not cover.
#[must_use]
pub(crate) fn agent_not_covered(token: &ClientToken) -> ApiError {
    out_of_scope(format!("the token {} is not for this agent", token.name))
}

/// Returns the refusal for a session that the token did not begin.
#[must_use]
pub(crate) fn session_not_owned(token: &ClientToken) -> ApiError {
    out_of_scope(format!("the token {} may only continue sessions of its own", token.name))
}

fn out_of_scope(message: String) -> ApiError {
    ApiError::forbidden("out_of_scope", message).with_hint("flock token list")
}

/// Returns the peer part of the key of the client's own session with an agent. No login contains a colon here, so no
/// session of a person has this key.
#[must_use]
pub(crate) fn peer(token: &ClientToken) -> String {
    match token.client.split_once(':') {
        // The form is not `token:name:2`, because the first client of that name may have given one of its own sessions
        // that name.
        Some((name, generation)) => format!("token.{generation}:{name}"),
        None => format!("token:{}", token.client),
    }
}

/// Returns `true` if a client may have turns in this session. In a person's session the client would be taken for that
/// person, and in the session of a channel or of another agent for a member.
#[must_use]
pub(crate) fn is_own(token: &ClientToken, session: &SessionKey) -> bool {
    let own = peer(token);
    // Keys that differ only in case name the same session, so the comparison ignores case.
    let is_own = session.peer().split_at_checked(own.len()).is_some_and(|(begin, rest)| {
        begin.eq_ignore_ascii_case(&own) && (rest.is_empty() || rest.starts_with(':'))
    });
    is_own && matches!(session.kind(), SessionKind::Main | SessionKind::Request)
}

/// Returns `true` if a token covers a channel: the channel has at least one agent, and the token is for all of its
/// agents.
#[must_use]
pub(crate) fn covers_channel(token: &ClientToken, channel: &Channel) -> bool {
    let mut agents = channel.members.iter().filter_map(|member| member.party.agent()).peekable();
    token.agents.is_none() || (agents.peek().is_some() && agents.all(|agent| token.covers(agent)))
}

/// Returns `true` if a token covers both ends of a task. A client or a person at one end counts as covered.
#[must_use]
pub(crate) fn covers_task(token: &ClientToken, task: &Task) -> bool {
    let requester = task.requester.parse::<AgentId>();
    token.covers(task.assignee()) && requester.map_or(true, |agent| token.covers(&agent))
}

/// Returns `true` if an event may be shown to a token: everything that the event names belongs to the token's agents, and
/// it is not about a project. `is_covered` decides about a channel.
#[must_use]
pub(crate) fn may_see_event(token: &ClientToken, data: &Value, is_covered: impl Fn(&str) -> bool) -> bool {
    if token.agents.is_none() {
        return true;
    }
    let text = |key: &str| data[key].as_str();
    // A project is the whole team's, whoever works on it, and only tokens for all agents read projects, see `needed`.
    if text("project").is_some() {
        return false;
    }
    let agent = |id: &str| id.parse::<AgentId>().is_ok_and(|agent| token.covers(&agent));
    let session = |key: &str| key.parse::<SessionKey>().is_ok_and(|key| token.covers(key.agent()));
    // A requester that is not an agent is a client.
    let requester = |id: &str| id.parse::<AgentId>().map_or(true, |agent| token.covers(&agent));
    let named = [
        text("agent").map(agent),
        text("assignee").map(agent),
        text("session").map(session),
        text("channel").map(is_covered),
    ];
    let is_empty = data.as_object().is_some_and(serde_json::Map::is_empty);
    // An event with data that names none of these could be about any agent, so it is not shown.
    let names_something = named.iter().any(Option::is_some);
    (is_empty || names_something)
        && named.into_iter().flatten().all(|covered| covered)
        && text("requester").is_none_or(requester)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn token(rights: &[Right], agents: Option<&[&str]>) -> ClientToken {
        ClientToken {
            name: "ci".to_owned(),
            client: "ci".to_owned(),
            agents: agents.map(|ids| ids.iter().map(|id| id.parse().unwrap()).collect()),
            rights: rights.to_vec(),
            created_at: 0,
            expires_at: None,
            revoked_at: None,
            person: None,
            used_at: None,
        }
    }

    fn opens(token: &ClientToken, method: &Method, path: &str) -> bool {
        check(token, method, path).is_ok()
    }

    #[test]
    fn each_right_opens_its_own_paths() {
        let (get, post) = (Method::GET, Method::POST);
        for (method, path, right) in [
            (&post, "/v1/chat/completions", Right::Chat),
            (&post, "/v1/responses", Right::Chat),
            (&get, "/v1/responses/resp_1", Right::Chat),
            (&Method::DELETE, "/v1/responses/resp_1", Right::Chat),
            (&post, "/api/message", Right::Chat),
            (&post, "/api/channels/dev/messages", Right::Chat),
            (&Method::PUT, "/api/files", Right::Chat),
            (&get, "/api/channels/dev/messages/1/files/0", Right::Read),
            (&get, "/api/channels/dev/messages", Right::Read),
            (&get, "/api/events", Right::Read),
            (&get, "/api/messages", Right::Read),
            (&get, "/api/audit", Right::Read),
            (&get, "/api/approvals", Right::Approve),
            (&post, "/api/approvals/r-1/approve", Right::Approve),
            (&post, "/flock/a2a/coder", Right::A2a),
            (&get, "/flock/.well-known/agent-card.json", Right::A2a),
            (&get, "/flock/a2a/coder/.well-known/agent-card.json", Right::A2a),
        ] {
            for owned in Right::ALL {
                assert_eq!(opens(&token(&[owned], None), method, path), owned == right, "{path} {owned:?}");
            }
        }
        assert!(opens(&token(&[Right::Chat], None), &get, "/v1/models"));
    }

    #[test]
    fn no_client_token_opens_owner_paths() {
        let all = token(&Right::ALL, None);
        for (method, path) in [
            (Method::PUT, "/api/settings"),
            (Method::POST, "/api/freeze"),
            (Method::POST, "/api/agents/coder/thaw"),
            (Method::DELETE, "/api/agents/coder"),
            (Method::POST, "/api/channels"),
            (Method::POST, "/api/channels/dev/members"),
            (Method::POST, "/api/channels/dev/archive"),
            (Method::POST, "/api/sessions/x/reset"),
            (Method::DELETE, "/api/sessions/x/turns/y"),
            (Method::POST, "/api/tasks/x/cancel"),
            (Method::POST, "/api/tokens"),
            (Method::GET, "/api/tokens"),
            (Method::DELETE, "/api/tokens/ci"),
            (Method::GET, "/api/new-one"),
            (Method::POST, "/mcp"),
            (Method::POST, "/relay/x"),
        ] {
            assert!(!opens(&all, &method, path), "{method} {path}");
        }
        let one = token(&Right::ALL, Some(&["coder"]));
        for path in ["/api/audit", "/api/usage", "/api/status"] {
            assert!(opens(&all, &Method::GET, path) && !opens(&one, &Method::GET, path), "{path}");
        }
    }

    #[test]
    fn a_session_is_a_clients_own_by_its_key() {
        let token = token(&[Right::Chat], None);
        for (key, own) in [
            ("agent:coder:flock:main:token:ci", true),
            ("agent:coder:flock:main:token:CI", true),
            ("agent:coder:flock:request:token:ci:0192", true),
            ("agent:coder:flock:request:token:cia", false),
            ("agent:coder:flock:request:0192", false),
            ("agent:coder:flock:main:ci", false),
            ("agent:coder:flock:main:ann", false),
            ("agent:coder:flock:dm:token:ci", false),
            ("agent:coder:flock:channel:dev", false),
        ] {
            assert_eq!(is_own(&token, &key.parse().unwrap()), own, "{key}");
        }
    }

    #[test]
    fn a_later_client_of_a_name_has_sessions_of_its_own() {
        let first = token(&[Right::Chat], None);
        let second = ClientToken { client: "ci:2".to_owned(), ..first.clone() };
        let key = |token: &ClientToken| -> SessionKey {
            format!("agent:coder:flock:main:{}", peer(token)).parse().unwrap()
        };
        assert!(is_own(&first, &key(&first)) && is_own(&second, &key(&second)));
        assert!(!is_own(&first, &key(&second)) && !is_own(&second, &key(&first)));
        let named = "agent:coder:flock:request:token:ci:2".parse().unwrap();
        assert!(is_own(&first, &named) && !is_own(&second, &named));
    }

    #[test]
    fn an_event_is_shown_to_a_token_for_all_that_it_names() {
        let one = token(&[Right::Read], Some(&["coder"]));
        for (data, shown) in [
            (json!({}), true),
            (json!({"agent": "coder"}), true),
            (json!({"agent": "tester"}), false),
            (json!({"turn": "x", "session": "agent:coder:flock:main:ann"}), true),
            (json!({"turn": "x", "session": "agent:tester:flock:main:ann"}), false),
            (json!({"channel": "ours", "seq": 1}), true),
            (json!({"channel": "theirs", "seq": 1}), false),
            (json!({"task": "t", "assignee": "coder", "requester": "a2a:ci"}), true),
            (json!({"task": "t", "assignee": "coder", "requester": "tester"}), false),
            (json!({"task": "t", "assignee": "tester", "requester": "coder"}), false),
            (json!({"agent": null, "by": "human:ann"}), false),
            (json!({"new": 1}), false),
        ] {
            assert_eq!(may_see_event(&one, &data, |id| id == "ours"), shown, "{data}");
        }
        assert!(may_see_event(&token(&[Right::Read], None), &json!({"new": 1}), |_| false));
    }

    #[test]
    fn an_event_about_a_project_is_shown_exactly_to_those_who_may_read_the_project() {
        let submitted = json!({"project": "p", "submission": 1, "state": "merged", "agent": "coder"});
        for data in [json!({"project": "p"}), submitted] {
            for (agents, shown) in [(None, true), (Some(&["coder"][..]), false)] {
                let reader = token(&[Right::Read], agents);
                assert_eq!(opens(&reader, &Method::GET, "/api/projects/p"), shown, "{agents:?}");
                assert_eq!(may_see_event(&reader, &data, |_| true), shown, "{agents:?} {data}");
            }
        }
    }
}

//! Decides what a person of the home may do: the kind of action that a request is, the roles that may do it, and what
//! the person may see. Pure.

use axum::http::{Method, StatusCode};
use serde_json::Value;

use super::error::ApiError;
use super::scope::{self, RequiredAccess};
use crate::id::{AgentId, ChannelId, Party, SessionKey, SessionKind};
use crate::store::{Level, Person, PersonRole, RequestRow, Right, Task, UsageScope};
use crate::swarm::task::a2a_requester;

/// A kind of action, by which roles differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Look at what the person may see. The route shows nothing else.
    Look,
    /// Sign the own browser in and out.
    SignIn,
    /// Begin turns, post and send files, in what the person may see.
    Talk,
    /// Decide a request of an agent that the person may see.
    Decide,
    /// Look at what shows all agents at once.
    Survey,
    /// Look at what also shows the work of other people: the audit, the graph, and the state of the machine.
    Oversee,
    /// Run the team: freezes, agents, channels, sessions, tasks, schedules, races, projects.
    Manage,
    /// Do what belongs to the owner: people, tokens, bridges, webhooks, MCP servers, engines, all memories, generations,
    /// logs.
    Administer,
    /// Do what reveals or replaces the owner's token, or belongs to a program. No person may.
    Root,
}

impl Action {
    /// All actions.
    pub const ALL: [Self; 9] = [
        Self::Look,
        Self::SignIn,
        Self::Talk,
        Self::Decide,
        Self::Survey,
        Self::Oversee,
        Self::Manage,
        Self::Administer,
        Self::Root,
    ];

    /// Returns the name that documentation and tests use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Look => "look",
            Self::SignIn => "sign in",
            Self::Talk => "talk",
            Self::Decide => "decide",
            Self::Survey => "survey",
            Self::Oversee => "oversee",
            Self::Manage => "manage",
            Self::Administer => "administer",
            Self::Root => "root",
        }
    }
}

/// Returns `true` if a role allows an action.
#[must_use]
pub const fn allows(role: PersonRole, action: Action) -> bool {
    use PersonRole::{Member, Operator, Owner, Viewer};
    match action {
        Action::Look | Action::SignIn | Action::Survey => {
            matches!(role, Owner | Operator | Member | Viewer)
        }
        // A member decides only some requests, see `may_decide`.
        Action::Talk | Action::Decide => matches!(role, Owner | Operator | Member),
        Action::Oversee | Action::Manage => matches!(role, Owner | Operator),
        Action::Administer => matches!(role, Owner),
        Action::Root => false,
    }
}

/// Returns `true` if a role allows a decision about a request of this level.
#[must_use]
pub const fn may_decide(role: PersonRole, level: Level) -> bool {
    match role {
        PersonRole::Owner | PersonRole::Operator => true,
        PersonRole::Member => matches!(level, Level::Green | Level::Yellow),
        PersonRole::Viewer => false,
    }
}

/// Returns the kind of action that a request is. A path that is not listed is closed to people, so a new route of the
/// owner is, until somebody opens it.
#[must_use]
pub fn action(method: &Method, path: &str) -> Action {
    let parts = parts(path);
    let is_get = *method == Method::GET || *method == Method::HEAD;
    match scope::needed(method, path) {
        RequiredAccess::Nothing | RequiredAccess::Browser => Action::Look,
        RequiredAccess::Plugin | RequiredAccess::Turn => Action::Root,
        RequiredAccess::AnyOf(_) if is_get => Action::Look,
        RequiredAccess::AnyOf([Right::Approve]) => Action::Decide,
        // It changes the project for everybody who works on it.
        RequiredAccess::ForAll(Right::Approve) => Action::Manage,
        RequiredAccess::AnyOf(_) => Action::Talk,
        RequiredAccess::ForAll(_) => match parts.as_slice() {
            // These show only messages of channels that the person is on, and budgets that concern the person.
            ["api", "search"] | ["api", "usage", "budgets"] => Action::Look,
            ["api", "audit" | "graph" | "doctor" | "supervisor" | "sandboxes" | "engines", ..]
            | ["metrics"] => Action::Oversee,
            _ => Action::Survey,
        },
        RequiredAccess::Owner => owners_action(method, &parts),
    }
}

/// Returns the kind of action of a request that needs the owner's token if a client makes it.
fn owners_action(method: &Method, parts: &[&str]) -> Action {
    let is_get = *method == Method::GET || *method == Method::HEAD;
    let is_post = *method == Method::POST;
    match parts {
        // A turn of one's own can be stopped by everybody who can begin one. The route checks the session.
        ["api", "sessions", _, "compact" | "reset" | "stop"] if is_post => Action::Talk,
        ["api", "sessions", _, "turns", _] => Action::Talk,
        ["api", "sessions", _, "prompt"] if is_get => Action::Manage,
        ["api", "agents"] | ["api", "channels"] | ["api", "races"] | ["api", "schedules"] if is_post => {
            Action::Manage
        }
        ["api", "agents", _]
        | ["api", "agents", _, "prepare" | "probe" | "checkpoints" | "rewind" | "fork" | "freeze" | "thaw"]
        | ["api", "channels", _]
        | ["api", "channels", _, "members" | "archive" | "fork"]
        | ["api", "freeze" | "thaw" | "settings"]
        | ["api", "quota", "resume"]
        | ["api", "races", _, "drop" | "keep" | "stop"]
        | ["api", "schedules", _]
        | ["api", "schedules", _, "run"]
        | ["api", "tasks", _, "cancel"]
        | ["api", "projects", _, "sync" | "land" | "submissions"]
        | ["api", "projects", _, "submissions", _, "withdraw"] => Action::Manage,
        ["api", "mcp", "servers", ..] if is_get => Action::Oversee,
        ["api", "dashboard", "codes"] | ["api", "dashboard", "sessions", "current"] => Action::SignIn,
        ["api", "dashboard", "sessions"] if is_get => Action::SignIn,
        ["api", "dashboard", "sessions", ..]
        | ["api", "people" | "tokens" | "bridges" | "generations" | "logs" | "hooks" | "engines", ..]
        | ["api", "mcp", "servers", ..]
        | ["api", "search", "memory", ..]
        | ["api", "projects"]
        | ["api", "projects", _]
        | ["api", "projects", _, "agents"] => Action::Administer,
        ["api", "config"] if is_get => Action::Administer,
        // The configuration holds the owner's token, and an imported transcript may be in anybody's name.
        _ => Action::Root,
    }
}

/// Returns `true` if a request concerns all agents, so that a person who is limited to some can't make it.
#[must_use]
pub fn is_for_all(method: &Method, path: &str) -> bool {
    match action(method, path) {
        Action::Look | Action::SignIn | Action::Talk | Action::Decide => false,
        Action::Survey | Action::Oversee | Action::Administer | Action::Root => true,
        // These name what they are about, and it is checked that the person may see it.
        Action::Manage => !matches!(
            parts(path).as_slice(),
            ["api", "agents", _, "prepare" | "probe" | "checkpoints" | "rewind" | "freeze" | "thaw"]
                | ["api", "channels", _]
                | ["api", "channels", _, "members" | "archive"]
                | ["api", "sessions" | "tasks", _, _]
                | ["api", "settings"]
        ),
    }
}

fn parts(path: &str) -> Vec<&str> {
    // Empty parts are dropped, so a doubled or trailing slash does not change what a path needs.
    path.split('/').filter(|part| !part.is_empty()).collect()
}

/// Refuses a request that the role or the limits of a person do not allow.
///
/// # Errors
///
/// Returns 403 if the role does not allow it or it concerns all agents, and 404 if the path names an agent that the person
/// may not see.
pub(crate) fn check(person: &Person, method: &Method, path: &str) -> Result<(), ApiError> {
    let refused = |text: String| Err(ApiError::forbidden("out_of_scope", text));
    if !allows(person.role, action(method, path)) {
        return refused(format!("the role {} of {} does not allow this", person.role.as_str(), person.name));
    }
    if person.is_limited() && is_for_all(method, path) {
        return refused(format!(
            "{} is limited to some agents or channels, and this is about all of them",
            person.name
        ));
    }
    if let ["api", "agents", id, ..] = parts(path).as_slice()
        && person.agents.is_some()
    {
        // An id in another spelling of the address is not parsed, so it is unknown too.
        let is_covered = id.parse::<AgentId>().is_ok_and(|agent| person.covers(&agent));
        return if is_covered { Ok(()) } else { Err(unknown_agent(id)) };
    }
    Ok(())
}

/// Returns the refusal for an agent that does not exist, or that the caller must not learn of.
#[must_use]
pub(crate) fn unknown_agent(id: &str) -> ApiError {
    // The id comes from the client and may contain anything, so control characters and excess length are removed.
    let id: String = id.chars().filter(|c| !c.is_control()).take(80).collect();
    ApiError::not_found("agent_not_found", format!("there is no agent {id:?}")).with_hint("flock list")
}

/// Returns the refusal for a session that belongs to somebody else.
#[must_use]
pub(crate) fn session_not_owned(person: &Person) -> ApiError {
    let message = format!("{} may only have turns in sessions of their own", person.name);
    ApiError::forbidden("out_of_scope", message)
}

/// Returns the refusal for a request whose level the role does not decide.
#[must_use]
pub(crate) fn level_not_decided(person: &Person, level: Level) -> ApiError {
    let message = format!(
        "the role {} of {} does not decide requests of the level {}",
        person.role.as_str(),
        person.name,
        level.as_str()
    );
    ApiError::new(StatusCode::FORBIDDEN, "not_approver", message)
}

/// Returns `true` if a person may read this session: one of their own, that of a channel that they are on, and for those
/// who run the team also the agents' own. The sessions that other people have with agents are read by nobody else.
#[must_use]
pub(crate) fn sees_session(person: &Person, session: &SessionKey) -> bool {
    if !person.covers(session.agent()) {
        return false;
    }
    if person.role == PersonRole::Owner || person.is_peer_of(session) {
        return true;
    }
    let runs_the_team = person.role == PersonRole::Operator;
    let peer_agent = || session.peer().parse::<AgentId>().ok();
    match session.kind() {
        SessionKind::Channel => session.channel().is_some_and(|channel| person.is_on(&channel)),
        SessionKind::Dm => runs_the_team && peer_agent().is_some_and(|agent| person.covers(&agent)),
        SessionKind::Main | SessionKind::Request => false,
    }
}

/// Returns `true` if a person may stop, compact and reset this session.
#[must_use]
pub(crate) fn controls_session(person: &Person, session: &SessionKey) -> bool {
    person.owns(session)
        || matches!(person.role, PersonRole::Owner | PersonRole::Operator) && sees_session(person, session)
}

/// Returns `true` if a person may see this request of an agent. It says what the agent does for somebody, so only those
/// who run the team see requests from sessions that they can't read.
#[must_use]
pub(crate) fn sees_request(person: &Person, row: &RequestRow) -> bool {
    let runs_the_team = matches!(person.role, PersonRole::Owner | PersonRole::Operator);
    person.covers(&row.agent)
        && (runs_the_team || sees_session(person, &row.session))
        && row.channel.as_ref().is_none_or(|channel| person.is_on(channel))
}

/// Returns `true` if a person may see this task: both ends are theirs to see, and it did not begin for somebody else.
#[must_use]
pub(crate) fn sees_task(person: &Person, task: &Task) -> bool {
    let runs_the_team = matches!(person.role, PersonRole::Owner | PersonRole::Operator);
    let is_own = task.requester == a2a_requester(&person.sender());
    let requester = match task.requester.parse::<AgentId>() {
        Ok(agent) => person.covers(&agent),
        Err(_) => is_own || runs_the_team,
    };
    let origin = task.origin.as_ref().is_none_or(|origin| sees_session(person, origin));
    person.covers(task.assignee()) && requester && (origin || person.role == PersonRole::Owner)
}

/// Returns `true` if a person may see this budget: their own, those of the team if they see all of it, and other people's
/// if they run the team.
#[must_use]
pub(crate) fn sees_budget(person: &Person, scope: &UsageScope) -> bool {
    match scope {
        UsageScope::Person(name) => {
            *name == person.name || matches!(person.role, PersonRole::Owner | PersonRole::Operator)
        }
        UsageScope::Agent(agent) => person.covers(agent),
        UsageScope::Channel(channel) => person.is_on(channel),
        UsageScope::Day | UsageScope::Race(_) => !person.is_limited(),
    }
}

/// Returns `true` if an event may be shown to a person: everything that it names is theirs to see. About an event of a request
/// or a task, [`sees_request`] or [`sees_task`] has to decide as well.
#[must_use]
pub(crate) fn sees_event(person: &Person, data: &Value) -> bool {
    if person.role == PersonRole::Owner {
        return true;
    }
    let text = |key: &str| data[key].as_str();
    let agent = |id: &str| id.parse::<AgentId>().is_ok_and(|agent| person.covers(&agent));
    let session = |key: &str| key.parse::<SessionKey>().is_ok_and(|key| sees_session(person, &key));
    let channel = |id: &str| id.parse::<ChannelId>().is_ok_and(|id| person.is_on(&id));
    // A requester that is no agent is a client, or a person.
    let requester = |id: &str| match id.parse::<Party>() {
        Ok(Party::Agent(agent)) => person.covers(&agent),
        _ => id == a2a_requester(&person.sender()) || person.role == PersonRole::Operator,
    };
    let named = [
        text("agent").map(agent),
        text("assignee").map(agent),
        text("session").map(session),
        text("channel").map(channel),
        text("requester").map(requester),
    ];
    let is_empty = data.as_object().is_some_and(serde_json::Map::is_empty);
    // An event that names none of these could be about any agent. A project is the whole team's, whoever works on it.
    let is_of_team = text("project").is_some() || !is_empty && named.iter().all(Option::is_none);
    if is_of_team && person.is_limited() {
        return false;
    }
    named.into_iter().flatten().all(|seen| seen)
}

#[cfg(test)]
#[path = "person_access_tests.rs"]
mod tests;

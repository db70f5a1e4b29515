//! What each role of a person may do: every route of the gateway with its kind of action, and every kind with the roles
//! that allow it. A new route is closed to people until it is written down here.

use std::collections::BTreeSet;

use axum::http::Method;
use flock::gateway::person_access::{Action, action, allows, is_for_all};
use flock::store::PersonRole;

use super::routes::ROUTES;

pub(crate) const ACTIONS: &[(&str, &str, &str)] = &[
    ("GET", "/health", "look"),
    ("GET", "/v1/models", "look"),
    ("GET", "/v1/models/{*id}", "look"),
    ("POST", "/v1/chat/completions", "talk"),
    ("POST", "/v1/responses", "talk"),
    ("GET", "/v1/responses/{id}", "look"),
    ("DELETE", "/v1/responses/{id}", "talk"),
    ("GET", "/api/agents", "look"),
    ("POST", "/api/agents", "manage"),
    ("DELETE", "/api/agents/{id}", "manage"),
    ("POST", "/api/agents/{id}/prepare", "manage"),
    ("POST", "/api/agents/{id}/probe", "manage"),
    ("GET", "/api/agents/{id}/checkpoints", "manage"),
    ("POST", "/api/agents/{id}/checkpoints", "manage"),
    ("POST", "/api/agents/{id}/rewind", "manage"),
    ("POST", "/api/agents/{id}/fork", "manage"),
    ("POST", "/api/channels/{id}/fork", "manage"),
    ("POST", "/api/quota/resume", "manage"),
    ("GET", "/api/races", "survey"),
    ("POST", "/api/races", "manage"),
    ("GET", "/api/races/{number}", "survey"),
    ("POST", "/api/races/{number}/drop", "manage"),
    ("POST", "/api/races/{number}/keep", "manage"),
    ("POST", "/api/races/{number}/stop", "manage"),
    ("POST", "/api/agents/{id}/freeze", "manage"),
    ("POST", "/api/agents/{id}/thaw", "manage"),
    ("POST", "/api/freeze", "manage"),
    ("POST", "/api/thaw", "manage"),
    ("GET", "/api/approvals", "look"),
    ("GET", "/api/approvals/{id}", "look"),
    ("POST", "/api/approvals/{id}/approve", "decide"),
    ("POST", "/api/approvals/{id}/answer", "decide"),
    ("POST", "/api/approvals/{id}/deny", "decide"),
    ("POST", "/api/approvals/{id}/revoke", "decide"),
    ("GET", "/api/mcp/servers", "oversee"),
    ("GET", "/api/mcp/servers/{name}", "oversee"),
    ("DELETE", "/api/mcp/servers/{name}", "administer"),
    ("POST", "/api/mcp/servers/{name}/test", "administer"),
    ("POST", "/api/mcp/servers/{name}/grant", "administer"),
    ("POST", "/api/mcp/servers/{name}/revoke", "administer"),
    ("GET", "/api/audit", "oversee"),
    ("GET", "/api/audit/verify", "oversee"),
    ("GET", "/api/config", "administer"),
    ("GET", "/api/config/backups/{name}", "root"),
    ("POST", "/api/config/restore", "root"),
    ("PUT", "/api/config/value", "root"),
    ("DELETE", "/api/config/value", "root"),
    ("GET", "/api/doctor", "oversee"),
    ("GET", "/api/supervisor", "oversee"),
    ("GET", "/api/generations", "administer"),
    ("GET", "/api/generations/{number}", "administer"),
    ("GET", "/api/receipts", "survey"),
    ("GET", "/api/receipts/{id}", "survey"),
    ("GET", "/api/logs", "administer"),
    ("GET", "/api/usage", "survey"),
    ("GET", "/api/usage/budgets", "look"),
    ("GET", "/api/usage/hours", "survey"),
    ("GET", "/api/status", "survey"),
    ("GET", "/api/sandboxes/usage", "oversee"),
    ("GET", "/metrics", "oversee"),
    ("GET", "/api/projects", "survey"),
    ("POST", "/api/projects", "administer"),
    ("GET", "/api/projects/{name}", "survey"),
    ("DELETE", "/api/projects/{name}", "administer"),
    ("POST", "/api/projects/{name}/agents", "administer"),
    ("POST", "/api/projects/{name}/sync", "manage"),
    ("GET", "/api/projects/{name}/diff", "survey"),
    ("GET", "/api/projects/{name}/log", "survey"),
    ("GET", "/api/projects/{name}/submissions", "survey"),
    ("POST", "/api/projects/{name}/submissions", "manage"),
    ("GET", "/api/projects/{name}/submissions/{number}", "survey"),
    ("POST", "/api/projects/{name}/submissions/{number}/accept", "manage"),
    ("POST", "/api/projects/{name}/submissions/{number}/refuse", "manage"),
    ("POST", "/api/projects/{name}/submissions/{number}/withdraw", "manage"),
    ("POST", "/api/projects/{name}/land", "manage"),
    ("GET", "/api/bridges", "administer"),
    ("DELETE", "/api/bridges/{name}", "administer"),
    ("POST", "/api/bridges/{name}/links", "administer"),
    ("DELETE", "/api/bridges/{name}/links", "administer"),
    ("POST", "/api/bridges/{name}/pause", "administer"),
    ("POST", "/api/bridges/{name}/resume", "administer"),
    ("POST", "/api/bridges/{name}/test", "administer"),
    ("POST", "/api/bridges/{name}/heard", "administer"),
    ("GET", "/api/people", "administer"),
    ("POST", "/api/people", "administer"),
    ("GET", "/api/people/{name}", "administer"),
    ("PUT", "/api/people/{name}", "administer"),
    ("DELETE", "/api/people/{name}", "administer"),
    ("POST", "/api/people/{name}/tokens", "administer"),
    ("POST", "/api/people/accounts", "administer"),
    ("POST", "/api/people/rename", "administer"),
    ("GET", "/api/channels", "look"),
    ("POST", "/api/channels", "manage"),
    ("GET", "/api/channels/{id}", "look"),
    ("PUT", "/api/channels/{id}", "manage"),
    ("GET", "/api/channels/{id}/messages", "look"),
    ("POST", "/api/channels/{id}/messages", "talk"),
    ("GET", "/api/channels/{id}/messages/{seq}/files/{n}", "look"),
    ("PUT", "/api/files", "talk"),
    ("POST", "/api/channels/{id}/members", "manage"),
    ("POST", "/api/channels/{id}/archive", "manage"),
    ("GET", "/api/graph", "oversee"),
    ("POST", "/hooks/{name}", "look"),
    ("GET", "/api/skills", "survey"),
    ("GET", "/api/hooks", "survey"),
    ("POST", "/api/hooks", "administer"),
    ("GET", "/api/hooks/{name}", "survey"),
    ("PUT", "/api/hooks/{name}", "administer"),
    ("DELETE", "/api/hooks/{name}", "administer"),
    ("GET", "/api/hooks/{name}/history", "survey"),
    ("POST", "/api/hooks/{name}/preview", "administer"),
    ("GET", "/api/engines", "oversee"),
    ("POST", "/api/engines", "administer"),
    ("GET", "/api/engines/{name}", "oversee"),
    ("DELETE", "/api/engines/{name}", "administer"),
    ("POST", "/api/engines/{name}/check", "administer"),
    ("POST", "/api/engines/{name}/drain", "administer"),
    ("GET", "/api/schedules", "survey"),
    ("POST", "/api/schedules", "manage"),
    ("GET", "/api/schedules/{name}", "survey"),
    ("PUT", "/api/schedules/{name}", "manage"),
    ("DELETE", "/api/schedules/{name}", "manage"),
    ("GET", "/api/schedules/{name}/history", "survey"),
    ("POST", "/api/schedules/{name}/run", "manage"),
    ("GET", "/api/search", "look"),
    ("GET", "/api/search/memory", "administer"),
    ("GET", "/api/search/memory/file", "administer"),
    ("GET", "/api/sessions", "look"),
    ("POST", "/api/sessions", "root"),
    ("GET", "/api/sessions/{key}", "look"),
    ("POST", "/api/sessions/{key}/compact", "talk"),
    ("GET", "/api/sessions/{key}/prompt", "manage"),
    ("POST", "/api/sessions/{key}/reset", "talk"),
    ("POST", "/api/sessions/{key}/stop", "talk"),
    ("GET", "/api/sessions/{key}/transcript", "look"),
    ("DELETE", "/api/sessions/{key}/turns/{turn}", "talk"),
    ("GET", "/api/sessions/{key}/turns/{turn}/pictures/{n}", "look"),
    ("POST", "/api/message", "talk"),
    ("GET", "/api/messages", "look"),
    ("PUT", "/api/settings", "manage"),
    ("POST", "/api/dashboard/codes", "sign in"),
    ("GET", "/api/dashboard/push", "root"),
    ("PUT", "/api/dashboard/push", "root"),
    ("DELETE", "/api/dashboard/push", "root"),
    ("GET", "/api/dashboard/sessions", "sign in"),
    ("DELETE", "/api/dashboard/sessions", "administer"),
    ("DELETE", "/api/dashboard/sessions/{id}", "administer"),
    ("GET", "/dashboard", "look"),
    ("GET", "/dashboard/{*path}", "look"),
    ("POST", "/dashboard/sign-in", "look"),
    ("GET", "/dashboard/assets/{name}", "look"),
    ("GET", "/api/events", "look"),
    ("GET", "/api/openapi.json", "look"),
    ("GET", "/api/tokens", "administer"),
    ("POST", "/api/tokens", "administer"),
    ("DELETE", "/api/tokens/{name}", "administer"),
    ("GET", "/api/tasks", "look"),
    ("GET", "/api/tasks/{id}", "look"),
    ("POST", "/api/tasks/{id}/cancel", "manage"),
    ("POST", "/api/plugin/tools/{name}", "root"),
    ("POST", "/api/plugin/events", "root"),
    ("GET", "/mcp", "root"),
    ("POST", "/mcp", "root"),
    ("DELETE", "/mcp", "root"),
    ("ANY", "/relay/{*path}", "root"),
    ("GET", "/.well-known/agent-card.json", "look"),
    ("GET", "/flock/.well-known/agent-card.json", "look"),
    ("POST", "/flock/a2a/{agent}", "talk"),
    ("POST", "/flock/a2a/{agent}/", "talk"),
    ("GET", "/flock/a2a/{agent}/.well-known/agent-card.json", "look"),
];

/// The roles that allow each kind of action: owner, operator, member, viewer.
const ROLES: &[(&str, [bool; 4])] = &[
    ("look", [true, true, true, true]),
    ("sign in", [true, true, true, true]),
    ("survey", [true, true, true, true]),
    ("talk", [true, true, true, false]),
    ("decide", [true, true, true, false]),
    ("oversee", [true, true, false, false]),
    ("manage", [true, true, false, false]),
    ("administer", [true, false, false, false]),
    ("root", [false, false, false, false]),
];

/// Routes that a person with limits may use although they can change something: each names what it is about.
const LIMITED: &[&str] = &[
    "/api/agents/{id}/prepare",
    "/api/agents/{id}/probe",
    "/api/agents/{id}/checkpoints",
    "/api/agents/{id}/rewind",
    "/api/agents/{id}/freeze",
    "/api/agents/{id}/thaw",
    "/api/channels/{id}",
    "/api/channels/{id}/members",
    "/api/channels/{id}/archive",
    "/api/sessions/{key}/prompt",
    "/api/tasks/{id}/cancel",
    "/api/settings",
];

fn called(path: &str) -> String {
    path.split('/').map(|part| if part.starts_with('{') { "x" } else { part }).collect::<Vec<_>>().join("/")
}

fn method(word: &str) -> Method {
    // The relay takes any.
    if word == "ANY" { Method::POST } else { word.parse().unwrap() }
}

#[test]
fn every_route_has_a_kind_of_action_that_is_written_down() {
    let pairs = |table: &[(&str, &str, &str)]| -> BTreeSet<(String, String)> {
        table.iter().map(|(method, path, _)| ((*method).to_owned(), (*path).to_owned())).collect()
    };
    assert_eq!(pairs(ROUTES), pairs(ACTIONS), "the tables have different routes");
    for (word, path, wanted) in ACTIONS {
        assert_eq!(action(&method(word), &called(path)).as_str(), *wanted, "{word} {path}");
    }
    // The own sign-in can be ended by everybody.
    assert_eq!(action(&Method::DELETE, "/api/dashboard/sessions/current"), Action::SignIn);
}

#[test]
fn every_kind_of_action_has_the_roles_that_are_written_down() {
    assert_eq!(ROLES.len(), Action::ALL.len());
    for kind in Action::ALL {
        let (_, wanted) = ROLES.iter().find(|(word, _)| *word == kind.as_str()).unwrap();
        assert_eq!(PersonRole::ALL.map(|role| allows(role, kind)), *wanted, "{}", kind.as_str());
    }
    // A role never has less than the next one.
    for (kind, roles) in ROLES {
        assert!(roles.is_sorted_by(|before, after| before >= after), "{kind}");
    }
}

#[test]
fn a_route_that_is_written_down_nowhere_is_closed_to_all_people() {
    for path in [
        "/",
        "/api",
        "/api/new",
        "/api/new/x",
        "/v1/new",
        "/api/sessions/x/new",
        "/api/config/new",
        "/flock/new",
    ] {
        for method in [Method::GET, Method::POST, Method::PUT, Method::DELETE, Method::PATCH] {
            assert_eq!(action(&method, path), Action::Root, "{method} {path}");
        }
    }
}

#[test]
fn what_is_about_all_agents_is_closed_to_people_with_limits() {
    for (word, path, kind) in ACTIONS {
        let is_closed = match *kind {
            "look" | "sign in" | "talk" | "decide" => false,
            "manage" => !LIMITED.contains(path),
            _ => true,
        };
        assert_eq!(is_for_all(&method(word), &called(path)), is_closed, "{word} {path}");
    }
}

//! Every route of the gateway with the credential that it needs. A new route is not there until it is written down here.

use std::collections::BTreeSet;
use std::path::Path;

use axum::http::Method;
use flock::gateway::scope;

pub(super) const ROUTES: &[(&str, &str, &str)] = &[
    ("GET", "/health", "nothing"),
    ("GET", "/v1/models", "chat or read"),
    ("GET", "/v1/models/{*id}", "chat or read"),
    ("POST", "/v1/chat/completions", "chat"),
    ("POST", "/v1/responses", "chat"),
    ("GET", "/v1/responses/{id}", "chat"),
    ("DELETE", "/v1/responses/{id}", "chat"),
    ("GET", "/api/agents", "read"),
    ("POST", "/api/agents", "owner"),
    ("DELETE", "/api/agents/{id}", "owner"),
    ("POST", "/api/agents/{id}/prepare", "owner"),
    ("POST", "/api/agents/{id}/probe", "owner"),
    ("GET", "/api/agents/{id}/checkpoints", "owner"),
    ("POST", "/api/agents/{id}/checkpoints", "owner"),
    ("POST", "/api/agents/{id}/rewind", "owner"),
    ("POST", "/api/agents/{id}/fork", "owner"),
    ("POST", "/api/channels/{id}/fork", "owner"),
    ("POST", "/api/quota/resume", "owner"),
    ("GET", "/api/races", "read for all agents"),
    ("POST", "/api/races", "owner"),
    ("GET", "/api/races/{number}", "read for all agents"),
    ("POST", "/api/races/{number}/drop", "owner"),
    ("POST", "/api/races/{number}/keep", "owner"),
    ("POST", "/api/races/{number}/stop", "owner"),
    ("POST", "/api/agents/{id}/freeze", "owner"),
    ("POST", "/api/agents/{id}/thaw", "owner"),
    ("POST", "/api/freeze", "owner"),
    ("POST", "/api/thaw", "owner"),
    ("GET", "/api/approvals", "approve"),
    ("GET", "/api/approvals/{id}", "approve"),
    ("POST", "/api/approvals/{id}/approve", "approve"),
    ("POST", "/api/approvals/{id}/answer", "approve"),
    ("POST", "/api/approvals/{id}/deny", "approve"),
    ("POST", "/api/approvals/{id}/revoke", "approve"),
    ("GET", "/api/mcp/servers", "owner"),
    ("GET", "/api/mcp/servers/{name}", "owner"),
    ("DELETE", "/api/mcp/servers/{name}", "owner"),
    ("POST", "/api/mcp/servers/{name}/test", "owner"),
    ("POST", "/api/mcp/servers/{name}/grant", "owner"),
    ("POST", "/api/mcp/servers/{name}/revoke", "owner"),
    ("GET", "/api/audit", "read for all agents"),
    ("GET", "/api/audit/verify", "read for all agents"),
    ("GET", "/api/config", "owner"),
    ("GET", "/api/config/backups/{name}", "owner"),
    ("POST", "/api/config/restore", "owner"),
    ("PUT", "/api/config/value", "owner"),
    ("DELETE", "/api/config/value", "owner"),
    ("GET", "/api/doctor", "read for all agents"),
    ("GET", "/api/supervisor", "read for all agents"),
    ("GET", "/api/generations", "owner"),
    ("GET", "/api/generations/{number}", "owner"),
    ("GET", "/api/receipts", "read for all agents"),
    ("GET", "/api/receipts/{id}", "read for all agents"),
    ("GET", "/api/logs", "owner"),
    ("GET", "/api/usage", "read for all agents"),
    ("GET", "/api/usage/budgets", "read for all agents"),
    ("GET", "/api/usage/hours", "read for all agents"),
    ("GET", "/api/status", "read for all agents"),
    ("GET", "/api/sandboxes/usage", "read for all agents"),
    ("GET", "/metrics", "read for all agents"),
    ("GET", "/api/projects", "read for all agents"),
    ("POST", "/api/projects", "owner"),
    ("GET", "/api/projects/{name}", "read for all agents"),
    ("DELETE", "/api/projects/{name}", "owner"),
    ("POST", "/api/projects/{name}/agents", "owner"),
    ("POST", "/api/projects/{name}/sync", "owner"),
    ("GET", "/api/projects/{name}/diff", "read for all agents"),
    ("GET", "/api/projects/{name}/log", "read for all agents"),
    ("GET", "/api/projects/{name}/submissions", "read for all agents"),
    ("POST", "/api/projects/{name}/submissions", "owner"),
    ("GET", "/api/projects/{name}/submissions/{number}", "read for all agents"),
    ("POST", "/api/projects/{name}/submissions/{number}/accept", "approve for all agents"),
    ("POST", "/api/projects/{name}/submissions/{number}/refuse", "approve for all agents"),
    ("POST", "/api/projects/{name}/submissions/{number}/withdraw", "owner"),
    ("POST", "/api/projects/{name}/land", "owner"),
    ("GET", "/api/bridges", "owner"),
    ("DELETE", "/api/bridges/{name}", "owner"),
    ("POST", "/api/bridges/{name}/links", "owner"),
    ("DELETE", "/api/bridges/{name}/links", "owner"),
    ("POST", "/api/bridges/{name}/pause", "owner"),
    ("POST", "/api/bridges/{name}/resume", "owner"),
    ("POST", "/api/bridges/{name}/test", "owner"),
    ("POST", "/api/bridges/{name}/heard", "owner"),
    ("GET", "/api/people", "owner"),
    ("POST", "/api/people", "owner"),
    ("GET", "/api/people/{name}", "owner"),
    ("PUT", "/api/people/{name}", "owner"),
    ("DELETE", "/api/people/{name}", "owner"),
    ("POST", "/api/people/{name}/tokens", "owner"),
    ("POST", "/api/people/accounts", "owner"),
    ("POST", "/api/people/rename", "owner"),
    ("GET", "/api/channels", "read"),
    ("POST", "/api/channels", "owner"),
    ("GET", "/api/channels/{id}", "read"),
    ("PUT", "/api/channels/{id}", "owner"),
    ("GET", "/api/channels/{id}/messages", "read"),
    ("POST", "/api/channels/{id}/messages", "chat"),
    ("GET", "/api/channels/{id}/messages/{seq}/files/{n}", "read"),
    ("PUT", "/api/files", "chat"),
    ("POST", "/api/channels/{id}/members", "owner"),
    ("POST", "/api/channels/{id}/archive", "owner"),
    ("GET", "/api/graph", "read for all agents"),
    ("POST", "/hooks/{name}", "nothing"),
    ("GET", "/api/skills", "read for all agents"),
    ("GET", "/api/hooks", "read for all agents"),
    ("POST", "/api/hooks", "owner"),
    ("GET", "/api/hooks/{name}", "read for all agents"),
    ("PUT", "/api/hooks/{name}", "owner"),
    ("DELETE", "/api/hooks/{name}", "owner"),
    ("GET", "/api/hooks/{name}/history", "read for all agents"),
    ("POST", "/api/hooks/{name}/preview", "owner"),
    ("GET", "/api/engines", "read for all agents"),
    ("POST", "/api/engines", "owner"),
    ("GET", "/api/engines/{name}", "read for all agents"),
    ("DELETE", "/api/engines/{name}", "owner"),
    ("POST", "/api/engines/{name}/check", "owner"),
    ("POST", "/api/engines/{name}/drain", "owner"),
    ("GET", "/api/schedules", "read for all agents"),
    ("POST", "/api/schedules", "owner"),
    ("GET", "/api/schedules/{name}", "read for all agents"),
    ("PUT", "/api/schedules/{name}", "owner"),
    ("DELETE", "/api/schedules/{name}", "owner"),
    ("GET", "/api/schedules/{name}/history", "read for all agents"),
    ("POST", "/api/schedules/{name}/run", "owner"),
    ("GET", "/api/search", "read for all agents"),
    ("GET", "/api/search/memory", "owner"),
    ("GET", "/api/search/memory/file", "owner"),
    ("GET", "/api/sessions", "read"),
    ("POST", "/api/sessions", "owner"),
    ("GET", "/api/sessions/{key}", "read"),
    ("POST", "/api/sessions/{key}/compact", "owner"),
    ("GET", "/api/sessions/{key}/prompt", "owner"),
    ("POST", "/api/sessions/{key}/reset", "owner"),
    ("POST", "/api/sessions/{key}/stop", "owner"),
    ("GET", "/api/sessions/{key}/transcript", "read"),
    ("DELETE", "/api/sessions/{key}/turns/{turn}", "owner"),
    ("GET", "/api/sessions/{key}/turns/{turn}/pictures/{n}", "read"),
    ("POST", "/api/message", "chat"),
    ("GET", "/api/messages", "read"),
    ("PUT", "/api/settings", "owner"),
    ("POST", "/api/dashboard/codes", "owner"),
    ("GET", "/api/dashboard/push", "owner"),
    ("PUT", "/api/dashboard/push", "owner"),
    ("DELETE", "/api/dashboard/push", "owner"),
    ("GET", "/api/dashboard/sessions", "owner"),
    ("DELETE", "/api/dashboard/sessions", "owner"),
    ("DELETE", "/api/dashboard/sessions/{id}", "owner"),
    ("GET", "/dashboard", "browser"),
    ("GET", "/dashboard/{*path}", "browser"),
    ("POST", "/dashboard/sign-in", "nothing"),
    ("GET", "/dashboard/assets/{name}", "nothing"),
    ("GET", "/api/events", "read"),
    ("GET", "/api/openapi.json", "chat or a2a or read or approve"),
    ("GET", "/api/tokens", "owner"),
    ("POST", "/api/tokens", "owner"),
    ("DELETE", "/api/tokens/{name}", "owner"),
    ("GET", "/api/tasks", "read"),
    ("GET", "/api/tasks/{id}", "read"),
    ("POST", "/api/tasks/{id}/cancel", "owner"),
    ("POST", "/api/plugin/tools/{name}", "plugin"),
    ("POST", "/api/plugin/events", "plugin"),
    ("GET", "/mcp", "turn"),
    ("POST", "/mcp", "turn"),
    ("DELETE", "/mcp", "turn"),
    ("ANY", "/relay/{*path}", "turn"),
    ("GET", "/.well-known/agent-card.json", "a2a"),
    ("GET", "/flock/.well-known/agent-card.json", "a2a"),
    ("POST", "/flock/a2a/{agent}", "a2a"),
    ("POST", "/flock/a2a/{agent}/", "a2a"),
    ("GET", "/flock/a2a/{agent}/.well-known/agent-card.json", "a2a"),
];

/// The methods and paths of the gateway's routers.
fn routes() -> BTreeSet<(String, String)> {
    let gateway = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/gateway");
    let read = |file| std::fs::read_to_string(gateway.join(file)).unwrap();
    let text = ["middleware.rs", "routes/mod.rs"].map(read).concat();
    let mut found = BTreeSet::new();
    for route in text.split(".route(").skip(1) {
        let rest = route.trim_start().strip_prefix('"').expect("a route begins with its path");
        let (path, handlers) = rest.split_once('"').unwrap();
        let handlers = handlers.split("\n            .").next().unwrap();
        let before = found.len();
        for method in ["get", "post", "put", "delete", "patch", "any"] {
            let is_there = handlers.match_indices(&format!("{method}(")).any(|(at, _)| {
                !handlers[..at].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | ':'))
            });
            if is_there {
                found.insert((method.to_uppercase(), path.to_owned()));
            }
        }
        assert!(found.len() > before, "no method of {path} was found");
    }
    found
}

#[test]
fn every_route_needs_a_credential_that_is_written_down() {
    let known: BTreeSet<_> =
        ROUTES.iter().map(|(method, path, _)| ((*method).to_owned(), (*path).to_owned())).collect();
    assert_eq!(routes(), known, "a route of the gateway is not in the table, or one of the table is gone");
    for (method, path, needed) in ROUTES {
        let methods = if *method == "ANY" { vec!["GET", "POST", "DELETE"] } else { vec![*method] };
        let called: Vec<&str> =
            path.split('/').map(|part| if part.starts_with('{') { "x" } else { part }).collect();
        for method in methods {
            let method: Method = method.parse().unwrap();
            let found = scope::needed(&method, &called.join("/")).to_string();
            assert_eq!(&found, needed, "{method} {path}");
        }
    }
}

#[test]
fn a_route_that_is_written_down_nowhere_is_the_owners() {
    for path in
        ["/", "/api", "/api/new", "/v1/new", "/api/sessions/x/new", "/api/approvals/x/new", "/flock/new"]
    {
        for method in [Method::GET, Method::POST, Method::PUT, Method::DELETE] {
            assert_eq!(scope::needed(&method, path), scope::RequiredAccess::Owner, "{method} {path}");
        }
    }
}

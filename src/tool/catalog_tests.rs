use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::id::{AgentId, SessionKey};
use crate::provider::BoxFuture;
use crate::tool::fake::FakeSandbox;
use crate::tool::sessions::{HistoryEntry, SessionInfo, SessionServiceError};

struct NoSessions;

impl SessionService for NoSessions {
    fn list<'a>(&'a self, _: &'a AgentId) -> BoxFuture<'a, Result<Vec<SessionInfo>, SessionServiceError>> {
        panic!("not asked")
    }

    fn status<'a>(&'a self, _: &'a SessionKey) -> BoxFuture<'a, Result<SessionInfo, SessionServiceError>> {
        panic!("not asked")
    }

    fn history<'a>(
        &'a self,
        _: &'a SessionKey,
        _: usize,
    ) -> BoxFuture<'a, Result<Vec<HistoryEntry>, SessionServiceError>> {
        panic!("not asked")
    }

    fn send<'a>(
        &'a self,
        _: &'a SessionKey,
        _: &'a SessionKey,
        _: String,
    ) -> BoxFuture<'a, Result<(), SessionServiceError>> {
        panic!("not asked")
    }

    fn spawn<'a>(
        &'a self,
        _: &'a SessionKey,
        _: SessionKey,
        _: String,
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<String, SessionServiceError>> {
        panic!("not asked")
    }
}

fn registry() -> Registry {
    build(&ToolServices {
        sandbox: Arc::new(FakeSandbox::default()),
        sessions: Arc::new(NoSessions),
        agents: Arc::new(|_| None),
        workspaces: Workspaces::of_this_machine(),
    })
}

/// Maximum bytes of JSON that the tools may add to every request.
const SCHEMA_BUDGET: usize = 5 * 1024;

#[test]
fn all_tools_are_there_and_can_be_sent() {
    let registry = registry();
    let names: Vec<&str> = registry.iter().map(|tool| tool.spec().name.as_str()).collect();
    assert_eq!(
        names,
        [
            "exec",
            "process",
            "read",
            "write",
            "edit",
            "apply_patch",
            "image",
            "sessions_list",
            "sessions_history",
            "sessions_send",
            "sessions_spawn",
            "session_status"
        ]
    );
    // The configuration, a lower layer, has the default list of allowed tools.
    let default = crate::config::starter::SANDBOX_TOOLS;
    assert_eq!(default.split_last(), Some((&"flock_*", &names[..])));
    for tool in registry.iter() {
        let spec = tool.spec();
        assert!(spec.name.len() <= 64 && spec.name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'));
        assert!(!spec.description.is_empty() && !spec.description.contains("  "), "{}", spec.name);
        assert_eq!(spec.parameters["type"], "object", "{}", spec.name);
        let properties = spec.parameters["properties"].as_object().unwrap();
        for required in spec.parameters["required"].as_array().into_iter().flatten() {
            assert!(properties.contains_key(required.as_str().unwrap()), "{} {required}", spec.name);
        }
    }
}

#[test]
fn the_schemas_are_small() {
    let size: usize = registry().iter().map(|tool| serde_json::to_string(tool.spec()).unwrap().len()).sum();
    assert!(size <= SCHEMA_BUDGET, "{size} bytes");
}

#[tokio::test]
async fn a_removed_agent_reaches_no_workspace() {
    let registry = registry();
    for name in ["read", "write", "edit", "apply_patch", "image"] {
        let tool = registry.get(name).unwrap();
        let error = crate::tool::fake::call(tool.as_ref(), json!({"path": "x"})).await.unwrap_err();
        assert!(error.contains("removed"), "{name}: {error}");
    }
}

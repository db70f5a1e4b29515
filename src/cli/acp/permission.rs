//! Requests of agents that a person decides about: shown in the editor, and decided by the digest of what was shown.
//!
//! Only an answer that names one of the two options decides. Everything else leaves the request open in flock.

use agent_client_protocol::v1::schema::{
    ContentBlock, PermissionOption, PermissionOptionKind, RequestPermissionRequest, ToolCallStatus,
    ToolCallUpdate, ToolCallUpdateFields, ToolKind,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::follow::Scope;
use super::host::TIMEOUT;
use super::outlet::Outlet;
use super::tool_view::fenced;
use crate::cli::{Failure, person};
use crate::supervise::gateway_client::{Call, Client};
use crate::swarm::triage::question as question_kind;

/// The option that approves.
const APPROVE: &str = "approve";
/// The option that denies.
const DENY: &str = "deny";

/// The end of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// The request belongs to another session, or nobody can decide about it any more.
    NotAsked,
    /// Nobody decided here. The request is as open as before.
    Open,
    /// It was decided, here or elsewhere, and may still be carried out.
    Decided,
    /// It was decided, and its session is told the result.
    Ended,
}

/// Asks the person about a request, if it belongs to this session and waits. `withdrawn` takes the question back.
pub(super) async fn ask(
    outlet: &Outlet,
    gateway: &Client,
    scope: &Scope,
    id: &str,
    withdrawn: &CancellationToken,
) -> Decision {
    let Ok(row) = read(gateway, id).await else { return Decision::NotAsked };
    if row["state"] != "waiting" || !scope.has(row["session"].as_str().unwrap_or_default()) {
        return Decision::NotAsked;
    }
    let choice = tokio::select! {
        choice = outlet.ask(question(outlet, &row)) => choice,
        () = withdrawn.cancelled() => {
            let now = read(gateway, id).await.unwrap_or_default();
            tell(outlet, id, ToolCallStatus::Completed, &format!("decided elsewhere: {}", word(&now))).await;
            return after(&now);
        }
    };
    let sent = match choice.as_deref() {
        // The digest binds the decision to what was shown, whatever the request says by now.
        Some(APPROVE) => {
            decide(gateway, id, APPROVE, &json!({"sha256": row["sha256"], "by": person::name()})).await
        }
        Some(DENY) => decide(gateway, id, DENY, &json!({"by": person::name()})).await,
        _ => {
            let text = format!("not decided here; it stays open: flock approvals show {id}");
            tell(outlet, id, ToolCallStatus::Failed, &text).await;
            return Decision::Open;
        }
    };
    match sent {
        Ok(now) => {
            let failed = matches!(word(&now), "failed" | "denied");
            let status = if failed { ToolCallStatus::Failed } else { ToolCallStatus::Completed };
            tell(outlet, id, status, word(&now)).await;
            after(&now)
        }
        Err(failure) => {
            tell(outlet, id, ToolCallStatus::Failed, &failure.to_line_with_hint()).await;
            // Somebody else may have decided in the same moment.
            read(gateway, id).await.map_or(Decision::Open, |now| after(&now))
        }
    }
}

/// Reads a request.
pub(super) async fn read(gateway: &Client, id: &str) -> Result<Value, Failure> {
    let mut found: Value = gateway.get_json(&format!("/api/approvals/{id}"), TIMEOUT).await?;
    Ok(found["request"].take())
}

/// Returns what the state of a request means for the session that waits for it.
pub(super) fn after(row: &Value) -> Decision {
    match word(row) {
        "waiting" | "triage" => Decision::Open,
        "approved" | "running" => Decision::Decided,
        _ => Decision::Ended,
    }
}

async fn decide(gateway: &Client, id: &str, verb: &str, body: &Value) -> Result<Value, Failure> {
    let call = Call::post(&format!("/api/approvals/{id}/{verb}")).json(body)?;
    let mut decided: Value = gateway.ask(call, TIMEOUT).await?.json(TIMEOUT).await?;
    Ok(decided["request"].take())
}

fn word(row: &Value) -> &str {
    row["state"].as_str().unwrap_or("unknown")
}

/// Returns the question, with everything that a person decides about.
fn question(outlet: &Outlet, row: &Value) -> RequestPermissionRequest {
    let option = |id: &'static str, name: &str, kind| PermissionOption::new(id, name, kind);
    let mut options = vec![option(DENY, "Deny", PermissionOptionKind::RejectOnce)];
    // A question of an MCP server wants values, which an editor can't ask for here.
    if row["kind"] != question_kind::KIND {
        options.insert(0, option(APPROVE, "Approve exactly this, once", PermissionOptionKind::AllowOnce));
    }
    RequestPermissionRequest::new(outlet.session.clone(), shown(row), options)
}

/// Returns a request as a call of a tool, complete.
fn shown(row: &Value) -> ToolCallUpdate {
    let text = |key: &str| row[key].as_str().unwrap_or_default();
    let title = format!("{} wants: {}", text("agent"), text("summary"));
    let kind = match text("kind") {
        "command" => ToolKind::Execute,
        "egress" => ToolKind::Fetch,
        "mount" => ToolKind::Read,
        _ => ToolKind::Other,
    };
    let list = |key: &str| {
        let texts = row[key].as_array().into_iter().flatten();
        texts.filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>().join("\n")
    };
    let parts = [
        ("request", text("id").to_owned()),
        ("agent", text("agent").to_owned()),
        ("level", format!("{}\n{}", text("level"), list("why"))),
        ("what", list("shown")),
        ("reason that the agent gives", text("reason").to_owned()),
        ("granted before", list("granted")),
        ("exact body", text("body").to_owned()),
        ("sha256", text("sha256").to_owned()),
    ];
    let parts = parts.iter().filter(|(_, text)| !text.trim().is_empty());
    let lines: Vec<String> =
        parts.map(|(name, text)| format!("{name}: {}", text.trim().replace('\n', "\n  "))).collect();
    let fields = ToolCallUpdateFields::new()
        .title(crate::clean::label(&title, 200))
        .kind(kind)
        .status(ToolCallStatus::Pending)
        .content(vec![ContentBlock::from(fenced(&crate::clean::block(&lines.join("\n")))).into()]);
    ToolCallUpdate::new(call_id(text("id")), fields)
}

async fn tell(outlet: &Outlet, id: &str, status: ToolCallStatus, text: &str) {
    let text = crate::clean::block(text).into_owned();
    let fields = ToolCallUpdateFields::new().status(status).content(vec![ContentBlock::from(text).into()]);
    let update = ToolCallUpdate::new(call_id(id), fields);
    outlet.update(agent_client_protocol::v1::schema::SessionUpdate::ToolCallUpdate(update)).await;
}

fn call_id(id: &str) -> String {
    format!("request/{id}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_sees_all_of_a_request_as_text() {
        let row = json!({"id": "r-1", "agent": "coder", "kind": "command", "summary": "run on the host: ls",
            "shown": ["command: ls", "in: /tmp"], "reason": "```\n![x](http://evil/)\u{1b}[2J", "level": "RED",
            "why": ["a command on the host"], "body": "{\"x\":1}", "sha256": "abc", "granted": null});
        let shown = serde_json::to_value(shown(&row)).unwrap();
        assert_eq!(shown["toolCallId"], "request/r-1");
        assert_eq!((&shown["kind"], &shown["status"]), (&json!("execute"), &json!("pending")));
        let text = shown["content"][0]["content"]["text"].as_str().unwrap();
        for part in ["command: ls", "in: /tmp", "RED", "{\"x\":1}", "sha256: abc", "evil"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(text.starts_with("````\n") && text.ends_with("\n````") && !text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn a_request_that_waits_is_open_whatever_happened_to_the_question() {
        assert_eq!(after(&json!({"state": "waiting"})), Decision::Open);
        assert_eq!(after(&json!({"state": "running"})), Decision::Decided);
        for state in ["done", "failed", "denied", "expired"] {
            assert_eq!(after(&json!({"state": state})), Decision::Ended);
        }
    }
}

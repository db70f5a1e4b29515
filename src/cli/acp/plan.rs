//! The plan of a session: the tasks that its agents gave to others in it. Pure.

use agent_client_protocol::v1::schema::{PlanEntry, PlanEntryPriority, PlanEntryStatus};
use serde_json::Value;

use super::follow::Scope;

/// Number of entries of a plan at most. The newest tasks are shown.
const MAX_ENTRIES: usize = 50;
/// Longest entry in characters.
const MAX_ENTRY: usize = 200;

/// Returns the plan of a session from the gateway's list of tasks, oldest first: those that were open at `since`, in
/// milliseconds since 1970, or begun later.
pub(super) fn entries(tasks: &Value, scope: &Scope, since: i64) -> Vec<PlanEntry> {
    let tasks = tasks["tasks"].as_array().into_iter().flatten();
    let of_scope = tasks.filter(|task| {
        let is_of_now = task["completedAt"].as_i64().is_none_or(|at| at >= since);
        is_of_now && task["origin"].as_str().is_some_and(|origin| scope.has(origin))
    });
    let mut entries: Vec<PlanEntry> = of_scope.take(MAX_ENTRIES).map(entry).collect();
    entries.reverse();
    entries
}

fn entry(task: &Value) -> PlanEntry {
    let text = |key: &str| task[key].as_str().unwrap_or_default();
    let state = text("state");
    let (status, suffix) = match state {
        "submitted" => (PlanEntryStatus::Pending, String::new()),
        "working" => (PlanEntryStatus::InProgress, String::new()),
        "input-required" => (PlanEntryStatus::InProgress, " (has a question)".to_owned()),
        "completed" => (PlanEntryStatus::Completed, String::new()),
        // A plan has no other word for an end.
        ended => (PlanEntryStatus::Completed, format!(" ({ended})")),
    };
    let content = crate::clean::label(&format!("{}: {}", text("assignee"), text("summary")), MAX_ENTRY);
    PlanEntry::new(content + &suffix, PlanEntryPriority::Medium, status)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_plan_has_the_tasks_of_its_session_with_their_states() {
        let task = |state: &str, origin: Value, completed: Value| {
            json!({"assignee": "tester", "summary": "test\nit", "state": state, "origin": origin,
                "completedAt": completed})
        };
        let (here, there) = ("agent:lead:flock:channel:dev", "agent:lead:flock:channel:ops");
        let tasks = json!({"tasks": [
            task("submitted", json!(here), Value::Null),
            task("working", json!("agent:coder:flock:channel:Dev"), Value::Null),
            task("failed", json!(here), json!(20)),
            task("completed", json!(here), json!(5)),
            task("working", json!(there), Value::Null),
            task("working", Value::Null, Value::Null),
        ]});
        let plan = entries(&tasks, &Scope::Channel("dev".parse().unwrap()), 10);
        let plan = serde_json::to_value(plan).unwrap();
        let shown: Vec<_> = plan
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| (entry["content"].as_str().unwrap(), entry["status"].as_str().unwrap()))
            .collect();
        assert_eq!(
            shown,
            [
                ("tester: test it (failed)", "completed"),
                ("tester: test it", "in_progress"),
                ("tester: test it", "pending"),
            ]
        );
        let one = Scope::Session(there.parse().unwrap());
        assert_eq!(entries(&tasks, &one, 10).len(), 1);
    }
}

//! The events after which a schedule can run. A pure function tells which one an event of the gateway is.

use serde_json::Value;

/// The names of the events.
pub(crate) const NAMES: [&str; 7] = [
    "task.completed",
    "task.failed",
    "project.merged",
    "race.decided",
    "channel.archived",
    "agent.added",
    "approval.waiting",
];

/// The prefix of the requester of a schedule's tasks.
pub(crate) const REQUESTER: &str = "schedule:";

/// Returns the name under which schedules know an event of the gateway, if it is one of theirs.
#[must_use]
pub(crate) fn name(event: &str, data: &Value) -> Option<&'static str> {
    let is = |field: &str, value: &str| data[field] == *value;
    let found = match event {
        "task.changed" if is("state", "completed") => "task.completed",
        "task.changed" if is("state", "failed") => "task.failed",
        "project.changed" if is("state", "merged") => "project.merged",
        "race.changed" if is("state", "decided") => "race.decided",
        "channel.changed" if is("action", "channel.archived") => "channel.archived",
        "agent.added" => "agent.added",
        "approval.waiting" => "approval.waiting",
        _ => return None,
    };
    Some(found)
}

/// Returns `true` if an event tells of a task that a schedule gave. Such a task would make a schedule follow itself.
#[must_use]
pub(crate) fn is_of_schedule(data: &Value) -> bool {
    data["requester"].as_str().is_some_and(|requester| requester.starts_with(REQUESTER))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_events_of_the_list_are_known() {
        assert_eq!(name("task.changed", &json!({"state": "completed"})), Some("task.completed"));
        assert_eq!(name("task.changed", &json!({"state": "working"})), None);
        assert_eq!(name("channel.changed", &json!({"action": "channel.archived"})), Some("channel.archived"));
        assert_eq!(name("channel.message", &json!({})), None);
        assert!(is_of_schedule(&json!({"requester": "schedule:morning"})));
        assert!(!is_of_schedule(&json!({"requester": "coder"})));
    }
}

//! Builds the JSON form of tasks for each version of the protocol.

use serde_json::{Map, Value, json};

use super::ProtocolVersion;
use crate::store::{Task, TaskMessage, TaskState};

/// Returns a task in its current state. `said` holds its messages, and `history` is the number of them that are
/// included, the newest ones. `None` includes all.
#[must_use]
pub(crate) fn task(
    version: ProtocolVersion,
    task: &Task,
    said: &[TaskMessage],
    history: Option<usize>,
    artifacts: bool,
) -> Value {
    let mut messages = conversation(version, task, said);
    let skip = messages.len() - messages.len().min(history.unwrap_or(usize::MAX));
    messages.drain(..skip);
    let mut shown = json!({
        "id": task.id,
        "contextId": task.context,
        "status": status(version, task, None),
    });
    if !messages.is_empty() {
        shown["history"] = messages.into();
    }
    if artifacts && task.state == TaskState::Completed {
        shown["artifacts"] = json!([artifact_json(version, task)]);
    }
    kind(version, "task", shown)
}

/// Adds a note about what a task waits for to its JSON form.
#[must_use]
pub(crate) fn noted(version: ProtocolVersion, task: &Task, note: Option<&str>, mut shown: Value) -> Value {
    if note.is_some() {
        shown["status"] = status(version, task, note);
    }
    shown
}

/// Returns the event for a change of a task. `note` says what is being done meanwhile, and `is_last` is `true` if the
/// stream ends with this event.
#[must_use]
pub(crate) fn status_update(
    version: ProtocolVersion,
    task: &Task,
    note: Option<&str>,
    is_last: bool,
) -> Value {
    let mut update = json!({
        "taskId": task.id,
        "contextId": task.context,
        "status": status(version, task, note),
    });
    // Only 0.3 marks the last event. In 1.0 the end of the stream says it.
    if version == ProtocolVersion::V03 {
        update["final"] = is_last.into();
    }
    event(version, ("status-update", "statusUpdate"), update)
}

/// Returns the event with a task's answer.
#[must_use]
pub(crate) fn artifact_update(version: ProtocolVersion, task: &Task) -> Value {
    let update = json!({
        "taskId": task.id,
        "contextId": task.context,
        "artifact": artifact_json(version, task),
        "append": false,
        "lastChunk": true,
    });
    event(version, ("artifact-update", "artifactUpdate"), update)
}

/// Wraps an event of a stream. `names` are its kind in 0.3 and its field in 1.0.
fn event(version: ProtocolVersion, names: (&str, &str), update: Value) -> Value {
    match version {
        ProtocolVersion::V03 => kind(version, names.0, update),
        ProtocolVersion::V1 => json!({(names.1): update}),
    }
}

/// Wraps a task as the response to a message, or as the first event of a stream.
#[must_use]
pub(crate) fn given(version: ProtocolVersion, shown: Value) -> Value {
    match version {
        ProtocolVersion::V03 => shown,
        ProtocolVersion::V1 => json!({"task": shown}),
    }
}

/// Returns `true` if a task in this state no longer changes by itself.
#[must_use]
pub(crate) const fn settles(state: TaskState) -> bool {
    state.is_final() || matches!(state, TaskState::InputRequired)
}

fn status(version: ProtocolVersion, task: &Task, note: Option<&str>) -> Value {
    let state = match version {
        ProtocolVersion::V03 => task.state.as_str().to_owned(),
        ProtocolVersion::V1 => {
            // 1.0 uses the names of the enum in its protocol buffers.
            format!("TASK_STATE_{}", task.state.as_str().to_ascii_uppercase().replace('-', "_"))
        }
    };
    let mut status = json!({"state": state, "timestamp": timestamp(task.updated_at)});
    // A state with words of its own shows those instead of the note.
    let said = match task.state {
        TaskState::InputRequired => task.question.as_deref(),
        TaskState::Failed | TaskState::Rejected | TaskState::Canceled => task.response.as_deref(),
        _ => note,
    };
    if let Some(said) = said {
        let name = if note.is_some() { "note" } else { "status" };
        status["message"] = message(version, task, name, false, said);
    }
    status
}

fn conversation(version: ProtocolVersion, task: &Task, said: &[TaskMessage]) -> Vec<Value> {
    if said.is_empty() {
        return legacy_conversation(version, task);
    }
    let shown = |(at, said): (usize, &TaskMessage)| {
        let mut shown = message(version, task, &format!("message-{at}"), said.is_client, &said.text);
        // A client's message keeps the id that the client gave it.
        if let Some(name) = &said.name {
            shown["messageId"] = name.as_str().into();
        }
        shown
    };
    said.iter().enumerate().map(shown).collect()
}

/// Returns what is known of the conversation of a task that began before flock stored all messages.
fn legacy_conversation(version: ProtocolVersion, task: &Task) -> Vec<Value> {
    let mut messages = vec![message(version, task, "request", true, &task.request)];
    if let Some(question) = &task.question {
        messages.push(message(version, task, "question", false, question));
    }
    if let Some(reply) = &task.reply {
        messages.push(message(version, task, "reply", true, reply));
    }
    messages
}

fn message(version: ProtocolVersion, task: &Task, name: &str, is_user: bool, text: &str) -> Value {
    let role = match (version, is_user) {
        (ProtocolVersion::V03, true) => "user",
        (ProtocolVersion::V03, false) => "agent",
        (ProtocolVersion::V1, true) => "ROLE_USER",
        (ProtocolVersion::V1, false) => "ROLE_AGENT",
    };
    let message = json!({
        "messageId": format!("{}-{name}", task.id),
        "contextId": task.context,
        "taskId": task.id,
        "role": role,
        "parts": [part(version, text)],
    });
    kind(version, "message", message)
}

fn artifact_json(version: ProtocolVersion, task: &Task) -> Value {
    json!({
        "artifactId": format!("{}-response", task.id),
        "name": "response",
        "parts": [part(version, task.response.as_deref().unwrap_or_default())],
    })
}

fn part(version: ProtocolVersion, text: &str) -> Value {
    kind(version, "text", json!({"text": text}))
}

/// Adds the `kind` that every object has in 0.3.
fn kind(version: ProtocolVersion, kind: &str, shown: Value) -> Value {
    match (version, shown) {
        (ProtocolVersion::V03, Value::Object(shown)) => {
            let mut named = Map::from_iter([("kind".to_owned(), kind.into())]);
            named.extend(shown);
            named.into()
        }
        (_, shown) => shown,
    }
}

fn timestamp(at: i64) -> Option<String> {
    jiff::Timestamp::from_millisecond(at).ok().map(|at| at.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::TaskKind;

    fn sample(state: TaskState) -> Task {
        Task {
            id: "t".into(),
            context: "c".into(),
            kind: TaskKind::A2a,
            requester: "a2a:owner".into(),
            origin: None,
            session: "agent:coder:flock:dm:a2a:c".parse().unwrap(),
            state,
            summary: "do".into(),
            request: "do it".into(),
            question: Some("which?".into()),
            asked_in: None,
            reply: Some("that".into()),
            response: Some("done".into()),
            turn: None,
            created_at: 0,
            updated_at: 1_500,
            completed_at: None,
            project: None,
            delivered_in: None,
            reminders: 0,
        }
    }

    #[test]
    fn a_completed_task_has_its_answer_as_an_artifact() {
        let old = task(ProtocolVersion::V03, &sample(TaskState::Completed), &[], None, true);
        assert_eq!((&old["kind"], &old["status"]["state"]), (&json!("task"), &json!("completed")));
        assert_eq!(old["artifacts"][0]["parts"], json!([{"kind": "text", "text": "done"}]));
        assert_eq!(old["status"]["timestamp"], "1970-01-01T00:00:01.5Z");
        let roles: Vec<_> = old["history"].as_array().unwrap().iter().map(|m| m["role"].clone()).collect();
        assert_eq!(roles, ["user", "agent", "user"]);
        let new = task(ProtocolVersion::V1, &sample(TaskState::Completed), &[], Some(1), true);
        assert_eq!(new["status"]["state"], "TASK_STATE_COMPLETED");
        assert_eq!(new["artifacts"][0]["parts"], json!([{"text": "done"}]));
        assert_eq!(new["history"].as_array().unwrap().len(), 1);
        assert_eq!(new["history"][0]["role"], "ROLE_USER");
        assert!(!new.to_string().contains("\"kind\""), "{new}");
        let none = task(ProtocolVersion::V1, &sample(TaskState::Completed), &[], Some(0), false);
        assert!(none.get("history").is_none() && none.get("artifacts").is_none());
    }

    #[test]
    fn the_history_has_all_that_was_said_under_the_clients_names() {
        let said = |is_client, name: Option<&str>, text: &str| TaskMessage {
            is_client,
            name: name.map(str::to_owned),
            text: text.to_owned(),
        };
        let said = [
            said(true, Some("m-1"), "do it"),
            said(false, None, "which?"),
            said(true, Some("m-2"), "that"),
            said(false, None, "sure?"),
        ];
        let shown = task(ProtocolVersion::V1, &sample(TaskState::InputRequired), &said, None, true);
        let of = |key: &str| -> Vec<Value> {
            shown["history"].as_array().unwrap().iter().map(|message| message[key].clone()).collect()
        };
        assert_eq!(of("messageId"), ["m-1", "t-message-1", "m-2", "t-message-3"]);
        assert_eq!(of("role"), ["ROLE_USER", "ROLE_AGENT", "ROLE_USER", "ROLE_AGENT"]);
    }

    #[test]
    fn updates_say_what_is_asked_and_whether_more_comes() {
        let old = status_update(ProtocolVersion::V03, &sample(TaskState::InputRequired), None, true);
        assert_eq!((&old["kind"], &old["final"]), (&json!("status-update"), &json!(true)));
        assert_eq!(old["status"]["message"]["parts"][0]["text"], "which?");
        let new = status_update(ProtocolVersion::V1, &sample(TaskState::Working), Some("calls exec"), false);
        let new = &new["statusUpdate"];
        assert_eq!(new["status"]["state"], "TASK_STATE_WORKING");
        assert_eq!(new["status"]["message"]["parts"], json!([{"text": "calls exec"}]));
        assert!(new.get("final").is_none());
        let failed = status_update(ProtocolVersion::V1, &sample(TaskState::Failed), None, true);
        assert_eq!(failed["statusUpdate"]["status"]["message"]["parts"][0]["text"], "done");
        let answer = artifact_update(ProtocolVersion::V1, &sample(TaskState::Completed));
        assert_eq!(answer["artifactUpdate"]["lastChunk"], true);
        assert!(TaskState::ALL.iter().filter(|state| !settles(**state)).count() == 2);
    }
}

//! Parses the parameters of a call, in either version.

use serde_json::{Map, Value};

use super::ProtocolVersion;
use super::rpc::RpcFault;
use crate::store::TaskState;

/// Most bytes of an id that a client chooses.
const MAX_ID: usize = 64;
/// Most bytes of a message's name.
const MAX_NAME: usize = 256;
/// Most parts of a message.
const MAX_PARTS: usize = 64;

/// A message for an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IncomingMessage {
    /// The id that the client gave the message.
    pub name: String,
    /// The text parts of the message, and its data parts as JSON.
    pub text: String,
    /// The conversation that the message belongs to, if the client names one.
    pub context: Option<String>,
    /// The task that the message replies to, if it is a reply.
    pub task: Option<String>,
    /// `true` if the client waits for the outcome.
    pub waits: bool,
    /// Number of messages of the conversation that the client wants back. `None` stands for all.
    pub history: Option<usize>,
}

type Object = Map<String, Value>;

/// Returns the message of a call.
///
/// # Errors
///
/// Returns a [`RpcFault`] if the message, its parts or its settings are missing, of the wrong type or too long, or if they
/// ask for push notifications or for content that is not supported.
pub(crate) fn incoming(version: ProtocolVersion, params: &Object) -> Result<IncomingMessage, RpcFault> {
    let message = object(params, "message")?.ok_or_else(|| RpcFault::params("`message` is missing"))?;
    let name = text(message, "messageId")?.filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| RpcFault::params("`message.messageId` is missing"))?;
    if name.len() > MAX_NAME {
        return Err(RpcFault::params(format!("`message.messageId` must have at most {MAX_NAME} bytes")));
    }
    let role = match version {
        ProtocolVersion::V03 => "user",
        ProtocolVersion::V1 => "ROLE_USER",
    };
    // A client can send only its own side of the conversation.
    if text(message, "role")? != Some(role) {
        return Err(RpcFault::params(format!("`message.role` must be {role:?}")));
    }
    let Some(parts) = message.get("parts").and_then(Value::as_array).filter(|parts| !parts.is_empty()) else {
        return Err(RpcFault::params("`message.parts` must be a list that is not empty"));
    };
    if parts.len() > MAX_PARTS {
        return Err(RpcFault::params(format!("a message has at most {MAX_PARTS} parts")));
    }
    let texts = parts.iter().map(part).collect::<Result<Vec<_>, _>>()?;
    let empty = Object::new();
    let settings = object(params, "configuration")?.unwrap_or(&empty);
    if ["pushNotificationConfig", "taskPushNotificationConfig"].iter().any(|key| has_field(settings, key)) {
        return Err(RpcFault::push());
    }
    accepts_text(settings)?;
    // Both versions wait by default, but they name the option by its opposite.
    let waits = match version {
        ProtocolVersion::V03 => field(settings, "blocking").and_then(Value::as_bool).unwrap_or(true),
        ProtocolVersion::V1 => {
            !field(settings, "returnImmediately").and_then(Value::as_bool).unwrap_or(false)
        }
    };
    Ok(IncomingMessage {
        name: name.to_owned(),
        text: texts.join("\n"),
        context: chosen_id(message, "contextId")?,
        task: chosen_id(message, "taskId")?,
        waits,
        history: history(settings)?,
    })
}

fn part(part: &Value) -> Result<String, RpcFault> {
    let Some(part) = part.as_object() else { return Err(RpcFault::params("a part must be an object")) };
    // A part that names a file is refused, even if it has a text as well.
    if ["file", "raw", "url", "filename"].iter().any(|key| has_field(part, key))
        || part.get("kind").and_then(Value::as_str) == Some("file")
    {
        return Err(RpcFault::content("files are not taken: send text, or data as JSON"));
    }
    let kind = part.get("kind").and_then(Value::as_str);
    if let Some(kind) = kind.filter(|kind| !matches!(*kind, "text" | "data")) {
        let kind = crate::clean::summary(kind, 64);
        return Err(RpcFault::content(format!(
            "parts of kind {kind:?} are not taken: send text, or data as JSON"
        )));
    }
    // The `kind` of 0.3 must match the content.
    if kind.is_some_and(|kind| !part.contains_key(kind)) {
        return Err(RpcFault::params("a part must hold what its `kind` says"));
    }
    match (part.get("text"), part.get("data")) {
        (Some(Value::String(text)), None) => Ok(text.clone()),
        (None, Some(data)) => Ok(format!("Attached data: {data}")),
        _ => Err(RpcFault::params("a part must have either `text`, a string, or `data`")),
    }
}

/// Checks that the client accepts text, because all answers are text.
fn accepts_text(settings: &Object) -> Result<(), RpcFault> {
    let Some(modes) = field(settings, "acceptedOutputModes").and_then(Value::as_array) else { return Ok(()) };
    let is_text = |mode: &Value| {
        mode.as_str().is_some_and(|mode| matches!(mode, "text" | "*/*" | "*") || mode.starts_with("text/"))
    };
    // An empty list sets no restriction.
    if modes.is_empty() || modes.iter().any(is_text) {
        return Ok(());
    }
    Err(RpcFault::content("answers are text/plain"))
}

/// Returns the id of a task, and the number of messages that the client wants with it.
///
/// # Errors
///
/// Returns a [`RpcFault`] if a parameter is missing or has the wrong type.
pub(crate) fn task(params: &Object) -> Result<(String, Option<usize>), RpcFault> {
    let id = text(params, "id")?.filter(|id| !id.is_empty());
    let id = id.ok_or_else(|| RpcFault::params("`id` is missing"))?;
    Ok((id.to_owned(), history(params)?))
}

/// The parameters of a call that lists tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TaskListParams {
    /// Only tasks of this conversation.
    pub context: Option<String>,
    /// Only tasks in this state.
    pub state: Option<TaskState>,
    /// Only tasks that changed at this time (Unix milliseconds) or later.
    pub since: Option<i64>,
    /// Id of the last task on the page before.
    pub after: Option<String>,
    /// Most tasks on the page.
    pub limit: u32,
    /// Number of messages of each task that the client wants. `None` stands for all.
    pub history: Option<usize>,
    /// `true` if the client wants the answers of the tasks.
    pub artifacts: bool,
}

/// Returns the parameters of a call that lists tasks.
///
/// # Errors
///
/// Returns a [`RpcFault`] if a parameter has the wrong type or a value that does not exist.
pub(crate) fn listing(params: &Object) -> Result<TaskListParams, RpcFault> {
    let state = match text(params, "status")? {
        None | Some("" | "TASK_STATE_UNSPECIFIED") => None,
        Some(word) => {
            // The protocol's names are `TASK_STATE_…` with underscores. flock's own are in lower case with hyphens.
            let plain = word.strip_prefix("TASK_STATE_").unwrap_or_default();
            let plain = plain.to_ascii_lowercase().replace('_', "-");
            Some(
                TaskState::named(&plain)
                    .ok_or_else(|| RpcFault::params("`status` is no state of a task here"))?,
            )
        }
    };
    let since = text(params, "statusTimestampAfter")?.map(|time| {
        time.parse::<jiff::Timestamp>().map_err(|_| RpcFault::params("`statusTimestampAfter` is no time"))
    });
    let limit = match field(params, "pageSize") {
        None | Some(Value::Null) => 50,
        // The JSON form of protocol buffers may write an unset number as 0.
        Some(size) => match size.as_u64() {
            Some(0) => 50,
            Some(size @ 1..=100) => u32::try_from(size).unwrap_or(50),
            _ => return Err(RpcFault::params("`pageSize` must be a number from 1 to 100")),
        },
    };
    Ok(TaskListParams {
        context: text(params, "contextId")?.filter(|id| !id.is_empty()).map(str::to_owned),
        state,
        since: since.transpose()?.map(jiff::Timestamp::as_millisecond),
        after: text(params, "pageToken")?.filter(|token| !token.is_empty()).map(str::to_owned),
        limit,
        history: history(params)?,
        artifacts: field(params, "includeArtifacts").and_then(Value::as_bool).unwrap_or(false),
    })
}

/// Returns the number of messages that the client wants to see.
fn history(object: &Object) -> Result<Option<usize>, RpcFault> {
    let length = typed(object, "historyLength", "a number, 0 or more", Value::as_u64)?;
    Ok(length.map(|length| usize::try_from(length).unwrap_or(usize::MAX)))
}

/// Returns the value with this name, or with the snake-case form of it that protocol buffers have. Readers of their
/// JSON form must accept both.
fn field<'a>(of: &'a Object, key: &str) -> Option<&'a Value> {
    of.get(key).or_else(|| of.get(&snake_case(key)))
}

fn snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    for c in name.chars() {
        if c.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

fn has_field(object: &Object, key: &str) -> bool {
    field(object, key).is_some_and(|value| !value.is_null() && value.as_str() != Some(""))
}

/// Returns an entry that `read` accepts. A missing one and `null` count as absent.
fn typed<'a, T>(
    of: &'a Object,
    key: &str,
    kind: &str,
    read: impl FnOnce(&'a Value) -> Option<T>,
) -> Result<Option<T>, RpcFault> {
    match field(of, key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match read(value) {
            Some(value) => Ok(Some(value)),
            None => Err(RpcFault::params(format!("`{key}` must be {kind}"))),
        },
    }
}

fn object<'a>(of: &'a Object, key: &str) -> Result<Option<&'a Object>, RpcFault> {
    typed(of, key, "an object", Value::as_object)
}

fn text<'a>(of: &'a Object, key: &str) -> Result<Option<&'a str>, RpcFault> {
    typed(of, key, "a string", Value::as_str)
}

/// Returns an id that becomes part of a session's key. Two different ids must never become the same, so only a few
/// characters are allowed.
fn chosen_id(message: &Object, key: &str) -> Result<Option<String>, RpcFault> {
    let Some(id) = text(message, key)?.filter(|id| !id.is_empty()) else { return Ok(None) };
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if id.len() > MAX_ID || !id.chars().all(fits) {
        return Err(RpcFault::params(format!(
            "`message.{key}` must be 1 to {MAX_ID} letters, digits, '.', '_' and '-'"
        )));
    }
    Ok(Some(id.to_owned()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(version: ProtocolVersion, params: Value) -> Result<IncomingMessage, i32> {
        incoming(version, params.as_object().unwrap()).map_err(|fault| fault.code)
    }

    fn message(version: ProtocolVersion, parts: Value) -> Value {
        let role = if version == ProtocolVersion::V1 { "ROLE_USER" } else { "user" };
        json!({"message": {"messageId": "m", "role": role, "parts": parts}})
    }

    #[test]
    fn texts_and_data_are_taken_in_both_versions() {
        let old = json!([{"kind": "text", "text": "a"}, {"kind": "data", "data": {"x": 1}}]);
        let new = json!([{"text": "a"}, {"data": {"x": 1}, "mediaType": "application/json"}]);
        for (version, parts) in [(ProtocolVersion::V03, old), (ProtocolVersion::V1, new)] {
            let read = read(version, message(version, parts)).unwrap();
            assert_eq!(read.text, "a\nAttached data: {\"x\":1}");
            assert!(read.waits && read.context.is_none() && read.task.is_none() && read.history.is_none());
        }
    }

    #[test]
    fn files_are_refused_in_both_versions() {
        for part in [
            json!({"kind": "file", "file": {"uri": "file:///etc/passwd"}}),
            json!({"kind": "file", "file": {"bytes": "eA=="}}),
            json!({"url": "http://169.254.169.254/"}),
            json!({"raw": "eA==", "filename": "x"}),
            json!({"text": "x", "url": "http://evil.example"}),
        ] {
            for version in [ProtocolVersion::V03, ProtocolVersion::V1] {
                assert_eq!(read(version, message(version, json!([part]))), Err(-32005), "{part}");
            }
        }
    }

    #[test]
    fn a_part_of_an_unknown_kind_is_refused() {
        for version in [ProtocolVersion::V03, ProtocolVersion::V1] {
            for (part, code) in [
                (json!({"kind": "video", "text": "x"}), -32005),
                (json!({"kind": "", "text": "x"}), -32005),
                (json!({"kind": "data", "text": "x"}), -32602),
                (json!({"kind": "text", "data": {}}), -32602),
            ] {
                assert_eq!(read(version, message(version, json!([part]))), Err(code), "{part}");
            }
        }
    }

    #[test]
    fn snake_case_names_are_accepted() {
        let params = json!({"message": {"message_id": "m", "role": "ROLE_USER", "context_id": "c",
            "parts": [{"text": "x"}]}, "configuration": {"history_length": 3, "return_immediately": true}});
        let read = read(ProtocolVersion::V1, params).unwrap();
        assert_eq!((read.history, read.waits, read.context.as_deref()), (Some(3), false, Some("c")));
        assert_eq!(task(json!({"id": "t", "history_length": 1}).as_object().unwrap()).unwrap().1, Some(1));
        let asked = listing(json!({"page_size": 2, "context_id": "c"}).as_object().unwrap()).unwrap();
        assert_eq!((asked.limit, asked.context.as_deref()), (2, Some("c")));
    }

    #[test]
    fn invalid_parameters_are_refused() {
        for version in [ProtocolVersion::V03, ProtocolVersion::V1] {
            let good = message(version, json!([{"text": "x"}]));
            assert!(read(version, good.clone()).is_ok());
            for (pointer, value, code) in [
                ("/message", json!(null), -32602),
                ("/message", json!("x"), -32602),
                ("/message/messageId", json!(""), -32602),
                ("/message/messageId", json!(1), -32602),
                ("/message/role", json!("agent"), -32602),
                ("/message/role", json!("system"), -32602),
                ("/message/parts", json!([]), -32602),
                ("/message/parts", json!([{}]), -32602),
                ("/message/parts", json!(["x"]), -32602),
                ("/message/parts", json!([{"text": 1}]), -32602),
                ("/message/parts", json!(vec![json!({"text": "x"}); 65]), -32602),
            ] {
                let mut bad = good.clone();
                *bad.pointer_mut(pointer).unwrap() = value.clone();
                assert_eq!(read(version, bad), Err(code), "{pointer} {value}");
            }
            for id in ["a b", "a/b", "a:b", "ü", "\n", &"x".repeat(65)] {
                let mut bad = good.clone();
                bad["message"]["contextId"] = id.into();
                assert_eq!(read(version, bad), Err(-32602), "{id:?}");
            }
            for (settings, code) in [
                (json!({"pushNotificationConfig": {"url": "http://x"}}), -32003),
                (json!({"acceptedOutputModes": ["image/png"]}), -32005),
                (json!({"historyLength": -1}), -32602),
            ] {
                let mut bad = good.clone();
                bad["configuration"] = settings;
                assert_eq!(read(version, bad), Err(code));
            }
        }
    }

    #[test]
    fn each_version_has_its_own_way_not_to_wait() {
        let mut old = message(ProtocolVersion::V03, json!([{"text": "x"}]));
        old["configuration"] = json!({"blocking": false, "historyLength": 0});
        let read_old = read(ProtocolVersion::V03, old).unwrap();
        assert!(!read_old.waits && read_old.history == Some(0));
        let mut new = message(ProtocolVersion::V1, json!([{"text": "x"}]));
        new["configuration"] = json!({"returnImmediately": true, "acceptedOutputModes": ["text/plain"]});
        assert!(!read(ProtocolVersion::V1, new).unwrap().waits);
    }

    #[test]
    fn a_list_is_asked_for_by_state_and_page() {
        let read = |params: Value| listing(params.as_object().unwrap());
        let asked =
            read(json!({"status": "TASK_STATE_INPUT_REQUIRED", "pageSize": 2, "pageToken": "t"})).unwrap();
        assert_eq!(
            (asked.state, asked.limit, asked.after.as_deref()),
            (Some(TaskState::InputRequired), 2, Some("t"))
        );
        let asked = read(json!({"statusTimestampAfter": "2026-01-01T00:00:00Z"})).unwrap();
        assert_eq!((asked.since, asked.limit), (Some(1_767_225_600_000), 50));
        for bad in
            [json!({"status": "done"}), json!({"pageSize": 101}), json!({"statusTimestampAfter": "now"})]
        {
            assert!(read(bad).is_err());
        }
    }
}

//! JSON-RPC 2.0: the envelope of a call, and the errors of A2A. Every response to a call has the status 200, even with
//! an error, because clients read no other.

use serde_json::{Map, Value, json};

use super::ProtocolVersion;

/// The operation that a call asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RpcMethod {
    /// Send a message and wait for the outcome.
    Send,
    /// Send a message and stream the outcome.
    Stream,
    /// Return the current state of a task.
    Get,
    /// Stop a task and its turn.
    Cancel,
    /// Stream the changes of an existing task.
    Subscribe,
    /// List the tasks of the caller.
    List,
    /// Any operation on push notifications.
    Push,
    /// Return a card for authenticated clients.
    ExtendedCard,
}

// No name occurs in both versions, so the name determines the version.
const METHODS: &[(&str, ProtocolVersion, RpcMethod)] = &[
    ("message/send", ProtocolVersion::V03, RpcMethod::Send),
    ("message/stream", ProtocolVersion::V03, RpcMethod::Stream),
    ("tasks/get", ProtocolVersion::V03, RpcMethod::Get),
    ("tasks/cancel", ProtocolVersion::V03, RpcMethod::Cancel),
    ("tasks/resubscribe", ProtocolVersion::V03, RpcMethod::Subscribe),
    ("tasks/pushNotificationConfig/set", ProtocolVersion::V03, RpcMethod::Push),
    ("tasks/pushNotificationConfig/get", ProtocolVersion::V03, RpcMethod::Push),
    ("tasks/pushNotificationConfig/list", ProtocolVersion::V03, RpcMethod::Push),
    ("tasks/pushNotificationConfig/delete", ProtocolVersion::V03, RpcMethod::Push),
    ("agent/getAuthenticatedExtendedCard", ProtocolVersion::V03, RpcMethod::ExtendedCard),
    ("SendMessage", ProtocolVersion::V1, RpcMethod::Send),
    ("SendStreamingMessage", ProtocolVersion::V1, RpcMethod::Stream),
    ("GetTask", ProtocolVersion::V1, RpcMethod::Get),
    ("CancelTask", ProtocolVersion::V1, RpcMethod::Cancel),
    ("SubscribeToTask", ProtocolVersion::V1, RpcMethod::Subscribe),
    ("ListTasks", ProtocolVersion::V1, RpcMethod::List),
    ("CreateTaskPushNotificationConfig", ProtocolVersion::V1, RpcMethod::Push),
    ("GetTaskPushNotificationConfig", ProtocolVersion::V1, RpcMethod::Push),
    ("ListTaskPushNotificationConfigs", ProtocolVersion::V1, RpcMethod::Push),
    ("DeleteTaskPushNotificationConfig", ProtocolVersion::V1, RpcMethod::Push),
    ("GetExtendedAgentCard", ProtocolVersion::V1, RpcMethod::ExtendedCard),
];

/// A call that was parsed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RpcCall {
    /// The id that the response repeats.
    pub id: Value,
    pub version: ProtocolVersion,
    pub method: RpcMethod,
    pub params: Map<String, Value>,
}

/// An error of the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RpcFault {
    /// The JSON-RPC error code.
    pub code: i32,
    reason: &'static str,
    pub message: String,
}

impl RpcFault {
    fn new(code: i32, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into() }
    }

    /// The body is not JSON.
    pub(crate) fn parse(message: impl Into<String>) -> Self {
        Self::new(-32700, "PARSE_ERROR", message)
    }

    /// The body is not a call.
    pub(crate) fn request(message: impl Into<String>) -> Self {
        Self::new(-32600, "INVALID_REQUEST", message)
    }

    /// There is no such method.
    pub(crate) fn method(message: impl Into<String>) -> Self {
        Self::new(-32601, "METHOD_NOT_FOUND", message)
    }

    /// The parameters are wrong.
    pub(crate) fn params(message: impl Into<String>) -> Self {
        Self::new(-32602, "INVALID_PARAMS", message)
    }

    /// A defect on this machine. The client learns only that it happened.
    #[must_use]
    pub(crate) fn internal() -> Self {
        Self::new(-32603, "INTERNAL_ERROR", "the gateway failed to do this")
    }

    /// A fault of the storage, which may pass.
    #[must_use]
    pub(crate) fn storage() -> Self {
        let message = "the gateway's database can't be used just now: try again later";
        Self::new(-32603, "INTERNAL_ERROR", message)
    }

    /// There is no such task for this caller.
    #[must_use]
    pub(crate) fn no_task() -> Self {
        Self::new(-32001, "TASK_NOT_FOUND", "there is no such task")
    }

    /// The task has ended already.
    pub(crate) fn not_cancelable(message: impl Into<String>) -> Self {
        Self::new(-32002, "TASK_NOT_CANCELABLE", message)
    }

    /// Push notifications are not supported.
    #[must_use]
    pub(crate) fn push() -> Self {
        let message = "push notifications are not supported: ask for the task, or subscribe to it";
        Self::new(-32003, "PUSH_NOTIFICATION_NOT_SUPPORTED", message)
    }

    /// The operation is not possible in the current state.
    pub(crate) fn unsupported(message: impl Into<String>) -> Self {
        Self::new(-32004, "UNSUPPORTED_OPERATION", message)
    }

    /// This type of content is not accepted or not available.
    pub(crate) fn content(message: impl Into<String>) -> Self {
        Self::new(-32005, "CONTENT_TYPE_NOT_SUPPORTED", message)
    }

    /// There is no other card than the agent's own.
    #[must_use]
    pub(crate) fn no_extended_card() -> Self {
        let message = "there is no other card than the agent's own";
        Self::new(-32007, "EXTENDED_AGENT_CARD_NOT_CONFIGURED", message)
    }

    /// This version of the protocol is not supported.
    #[must_use]
    pub(crate) fn version() -> Self {
        Self::new(-32009, "VERSION_NOT_SUPPORTED", "versions 1.0 and 0.3 of A2A are spoken here")
    }
}

/// Parses a body as a call. `version` is the value of the header `A2A-Version`.
///
/// # Errors
///
/// Returns the fault with the id of the call, or with `null` if the call has none.
pub(crate) fn call(body: &[u8], version: Option<&str>) -> Result<RpcCall, (Value, RpcFault)> {
    let body: Value = serde_json::from_slice(body)
        .map_err(|error| (Value::Null, RpcFault::parse(format!("the body is not JSON: {error}"))))?;
    let Value::Object(mut body) = body else {
        return Err((
            Value::Null,
            RpcFault::request("the body must be one JSON-RPC call; batches are not taken"),
        ));
    };
    // The id is read first, so that every later fault can carry it.
    let id = match body.remove("id") {
        Some(id @ (Value::String(_) | Value::Number(_))) => id,
        None | Some(Value::Null) => Value::Null,
        Some(_) => return Err((Value::Null, RpcFault::request("`id` must be a string or a number"))),
    };
    parse_body(&id, &mut body, version).map_err(|fault| (id, fault))
}

fn parse_body(id: &Value, body: &mut Map<String, Value>, header: Option<&str>) -> Result<RpcCall, RpcFault> {
    if body.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err(RpcFault::request("`jsonrpc` must be \"2.0\""));
    }
    // The header is optional, and only its version is checked. The method's name decides which version is spoken.
    if header.is_some_and(|header| !is_supported_version(header)) {
        return Err(RpcFault::version());
    }
    let Some(name) = body.get("method").and_then(Value::as_str) else {
        return Err(RpcFault::request("`method` must be a string"));
    };
    let Some((_, version, method)) = METHODS.iter().find(|(known, _, _)| *known == name) else {
        return Err(RpcFault::method("there is no such method"));
    };
    let params = match body.remove("params") {
        Some(Value::Object(params)) => params,
        None | Some(Value::Null) => Map::new(),
        Some(_) => return Err(RpcFault::params("`params` must be an object")),
    };
    Ok(RpcCall { id: id.clone(), version: *version, method: *method, params })
}

/// Returns `true` if a version is supported. Its patch number does not matter.
fn is_supported_version(header: &str) -> bool {
    let mut parts = header.trim().split('.');
    // Clients of 0.3 send an empty version.
    matches!(
        (parts.next(), parts.next()),
        (Some(""), None) | (Some("1"), None | Some("0")) | (Some("0"), Some("3"))
    )
}

/// Returns the response to a call.
#[must_use]
pub(crate) fn answer(id: &Value, result: Result<Value, RpcFault>) -> Value {
    match result {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(fault) => json!({"jsonrpc": "2.0", "id": id, "error": {
            "code": fault.code,
            "message": fault.message,
            "data": [{
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": fault.reason,
                "domain": "a2a-protocol.org",
            }],
        }}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(body: &str) -> i32 {
        call(body.as_bytes(), None).unwrap_err().1.code
    }

    #[test]
    fn a_call_is_understood_in_either_version() {
        let made = |method: &str| {
            let body = json!({"jsonrpc": "2.0", "id": "x", "method": method, "params": {"a": 1}});
            call(body.to_string().as_bytes(), None).unwrap()
        };
        let old = made("message/send");
        assert_eq!((old.version, old.method, &old.id), (ProtocolVersion::V03, RpcMethod::Send, &json!("x")));
        let new = made("SendMessage");
        assert_eq!(
            (new.version, new.method, new.params["a"].as_i64()),
            (ProtocolVersion::V1, RpcMethod::Send, Some(1))
        );
        let names: std::collections::HashSet<_> = METHODS.iter().map(|(name, _, _)| name).collect();
        assert_eq!(names.len(), METHODS.len());
    }

    #[test]
    fn an_invalid_call_gets_its_error_code() {
        assert_eq!(code("{"), -32700);
        assert_eq!(code("\u{0}"), -32700);
        assert_eq!(code("[]"), -32600);
        assert_eq!(code("\"x\""), -32600);
        assert_eq!(code("{}"), -32600);
        assert_eq!(code(r#"{"jsonrpc": "1.0", "method": "GetTask"}"#), -32600);
        assert_eq!(code(r#"{"jsonrpc": "2.0", "id": {}, "method": "GetTask"}"#), -32600);
        assert_eq!(code(r#"{"jsonrpc": "2.0", "method": 7}"#), -32600);
        assert_eq!(code(r#"{"jsonrpc": "2.0", "method": "tasks/drop"}"#), -32601);
        assert_eq!(code(r#"{"jsonrpc": "2.0", "method": "GetTask", "params": [1]}"#), -32602);
        let id = call(br#"{"jsonrpc": "2.0", "id": 7, "method": "x"}"#, None).unwrap_err().0;
        assert_eq!(id, json!(7));
    }

    #[test]
    fn an_unsupported_version_is_refused() {
        let body = br#"{"jsonrpc": "2.0", "id": 1, "method": "GetTask"}"#;
        for good in ["1.0", "1.0.0", "1", "0.3", "0.3.7", "", " 1.0 "] {
            assert!(call(body, Some(good)).is_ok(), "{good}");
        }
        for bad in ["2.0", "0.2", "1.1", "0", "0.0", "x", "10.0"] {
            assert_eq!(call(body, Some(bad)).unwrap_err().1.code, -32009, "{bad}");
        }
    }
}

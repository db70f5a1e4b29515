//! The log messages that a server sends while an agent calls it. Pure.
//!
//! They are for a person who reads the log of a program. Like all texts of a server they may say anything, so they are
//! bounded and cleaned, and the server is named beside them.

use serde_json::Value;

use super::definition::{cleaned, cleaned_text, depth};
use crate::id::McpServerName;
use crate::tool::{LogLevel, LogMessage, safe_text};

/// The most bytes of a message.
const MAX_DATA: usize = 4_000;
/// The deepest nesting of a message. A deeper one is passed on as a text.
const MAX_DEPTH: usize = 8;
/// The most characters of the name that a server gives a part of itself.
const MAX_LOGGER: usize = 60;

/// Returns a message in the form in which a caller gets it. `None` if it has no level.
pub(super) fn message(server: &McpServerName, params: &Value) -> Option<LogMessage> {
    let level = LogLevel::parse(params["level"].as_str()?)?;
    let part = params["logger"].as_str().map(|part| crate::clean::label(&text(part), MAX_LOGGER));
    let logger = match part.filter(|part| !part.is_empty()) {
        Some(part) => format!("mcp:{server}:{part}"),
        None => format!("mcp:{server}"),
    };
    Some(LogMessage { level, logger, data: data(&params["data"]) })
}

/// Returns the content of a message: a short value as it is, a long one as the beginning of its text.
fn data(value: &Value) -> Value {
    if let Value::String(said) = value {
        return Value::String(text(said));
    }
    let written = value.to_string();
    if written.len() <= MAX_DATA && depth(value) <= MAX_DEPTH {
        return cleaned(value);
    }
    Value::String(text(&written))
}

/// Returns the beginning of a text without anything invisible.
fn text(said: &str) -> String {
    // It is cut first, because cleaning takes time, and again, because an escape is longer than its character.
    let clean = cleaned_text(safe_text::start(said, MAX_DATA));
    if said.len() <= MAX_DATA && clean.len() <= MAX_DATA {
        return clean;
    }
    format!("{} […]", safe_text::start(&clean, MAX_DATA))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn logged(params: &Value) -> Option<LogMessage> {
        message(&"files".parse().unwrap(), params)
    }

    #[test]
    fn a_message_names_the_server_whatever_the_server_calls_itself() {
        let logger =
            |logger: Value| logged(&json!({"level": "info", "logger": logger, "data": "x"})).unwrap().logger;
        assert_eq!(logger(Value::Null), "mcp:files");
        assert_eq!(logger(json!("")), "mcp:files");
        assert_eq!(logger(json!("index")), "mcp:files:index");
        assert_eq!(logger(json!("flock\n\u{1b}[31m")), "mcp:files:flock");
        assert!(logger(json!("x".repeat(1 << 20))).len() < 100);
    }

    #[test]
    fn a_message_is_cleaned_and_cut_and_keeps_its_form() {
        let data = |data: Value| logged(&json!({"level": "error", "data": data})).unwrap().data;
        assert_eq!(data(json!("read \u{1b}[31mall\u{1b}[0m\u{202e}")), json!("read all\\u{202e}"));
        assert_eq!(data(json!({"a\u{7}": [1, "b\u{200b}"]})), json!({"a␇": [1, "b\\u{200b}"]}));
        assert_eq!(data(Value::Null), Value::Null);
        for long in
            [json!("\u{200b}".repeat(1 << 20)), json!(vec!["x"; 1 << 20]), json!({"x": "y".repeat(5_000)})]
        {
            let cut = data(long);
            let cut = cut.as_str().unwrap();
            assert!(cut.len() < MAX_DATA + 20 && cut.ends_with(" […]"), "{} {:?}", cut.len(), &cut[..20]);
        }
        let deep = (0..50).fold(json!(1), |inner, _| json!([inner]));
        assert!(data(deep).is_string());
    }

    #[test]
    fn a_message_without_a_level_is_none() {
        for params in [json!({}), json!({"level": "loud", "data": "x"}), json!({"level": 3}), Value::Null] {
            assert_eq!(logged(&params), None, "{params}");
        }
    }
}

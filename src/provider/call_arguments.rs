//! Reads the arguments of a tool call as models write them.

use serde_json::Value;

/// Maximum nesting depth of arguments. The reader of transcripts gives up at twice that depth, and an answer that
/// cannot be read back would be lost.
pub(super) const MAX_DEPTH: usize = 64;

/// Returns the arguments unchanged, or as a text if they are nested too deeply. No tool accepts a text as arguments.
#[must_use]
pub(crate) fn shallow(arguments: Value) -> Value {
    // The depth is bounded by `left`, so hostile nesting cannot overflow the stack.
    fn is_too_deep(value: &Value, left: usize) -> bool {
        let Some(left) = left.checked_sub(1) else { return true };
        match value {
            Value::Array(items) => items.iter().any(|item| is_too_deep(item, left)),
            Value::Object(entries) => entries.values().any(|entry| is_too_deep(entry, left)),
            _ => false,
        }
    }
    if is_too_deep(&arguments, MAX_DEPTH) { Value::String(arguments.to_string()) } else { arguments }
}

/// Parses arguments. They may be an object, or a string that contains an object. Anything else is kept as text.
pub(super) fn parse(text: String) -> Value {
    if text.trim().is_empty() {
        return Value::Object(serde_json::Map::new());
    }
    match serde_json::from_str::<Value>(&text) {
        Ok(value @ Value::Object(_)) => value,
        // Some models write `null` for a call without arguments.
        Ok(Value::Null) => Value::Object(serde_json::Map::new()),
        Ok(Value::String(inner)) => match serde_json::from_str::<Value>(&inner) {
            Ok(value @ Value::Object(_)) => value,
            _ => Value::String(text),
        },
        _ => Value::String(text),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_are_an_object_or_the_text_itself() {
        for (text, expected) in [
            ("", json!({})),
            (" \n", json!({})),
            ("null", json!({})),
            (r#"{"a":1}"#, json!({"a": 1})),
            (r#""{\"a\":1}""#, json!({"a": 1})),
            (r#"{"a":"#, json!(r#"{"a":"#)),
            ("[1]", json!("[1]")),
            ("7", json!("7")),
            (r#""text""#, json!(r#""text""#)),
        ] {
            assert_eq!(parse(text.to_owned()), expected, "{text}");
        }
        let deep = "[".repeat(100_000);
        assert_eq!(parse(deep.clone()), json!(deep));
    }
}

//! Removes results that are sent twice. Gemini CLI does so (seen in 0.61) when it continues a conversation with tool
//! calls, and Google's API refuses the request: there must be as many results as calls.

use std::collections::HashSet;

use bytes::Bytes;
use memchr::memmem;
use serde_json::Value;

use crate::config::Api;

/// Returns the request with each result once. `None` if there is nothing to remove.
pub fn once(bytes: &[u8], api: Api) -> Option<Bytes> {
    const RESULT: &str = "functionResponse";
    // Parsing is needed only if the request holds at least two results.
    if api != Api::GoogleGenerativeAi || memmem::find_iter(bytes, RESULT).nth(1).is_none() {
        return None;
    }
    let mut body: Value = serde_json::from_slice(bytes).ok()?;
    let mut is_changed = false;
    for content in body.get_mut("contents")?.as_array_mut()? {
        let Some(parts) = content.get_mut("parts").and_then(Value::as_array_mut) else { continue };
        let mut seen = HashSet::new();
        let before = parts.len();
        parts.retain(|part| {
            let id = part.get(RESULT).and_then(|result| result.get("id")?.as_str());
            id.is_none_or(|id| seen.insert(id.to_owned()))
        });
        is_changed |= parts.len() < before;
    }
    is_changed.then(|| body.to_string().into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn result(id: &str, text: &str) -> Value {
        json!({"functionResponse": {"id": id, "name": "run", "response": {"output": text}}})
    }

    fn mended(body: &Value) -> Option<Value> {
        let sent = once(body.to_string().as_bytes(), Api::GoogleGenerativeAi)?;
        serde_json::from_slice(&sent).ok()
    }

    #[test]
    fn duplicate_results_are_removed() {
        let body = |parts: Vec<Value>| {
            json!({"systemInstruction": {"parts": []}, "contents": [
                {"role": "user", "parts": [{"text": "functionResponse"}]},
                {"role": "user", "parts": parts},
                {"role": "user", "parts": [result("a", "in another turn")]},
            ], "n": 1.5})
        };
        let twice = vec![result("a", "1"), result("b", "2"), result("a", "1"), json!({"text": "x"})];
        let once = vec![result("a", "1"), result("b", "2"), json!({"text": "x"})];
        assert_eq!(mended(&body(twice)), Some(body(once.clone())));
        assert_eq!(mended(&body(once)), None, "what is right is not touched");
    }

    #[test]
    fn results_without_ids_and_other_forms_are_left_alone() {
        let nameless = json!({"functionResponse": {"name": "run", "response": {}}});
        for body in [
            json!({"contents": [{"parts": [nameless, nameless]}]}),
            json!({"contents": [{"parts": "functionResponse functionResponse"}, 7]}),
            json!({"contents": "functionResponse functionResponse"}),
            json!(["functionResponse", "functionResponse"]),
        ] {
            assert_eq!(mended(&body), None, "{body}");
        }
        assert_eq!(once(b"functionResponse {functionResponse", Api::GoogleGenerativeAi), None);
        let twice = json!({"contents": [{"parts": [result("a", "1"), result("a", "1")]}]}).to_string();
        assert_eq!(once(twice.as_bytes(), Api::OpenAiCompletions), None);
    }
}

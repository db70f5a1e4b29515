//! What a provider says when it does not answer.

use std::time::{Duration, SystemTime};

use serde_json::Value;

use super::super::ProviderError;
use super::{Endpoint, retry_after};

const LONGEST: usize = 64 * 1024;
const READ_TIME: Duration = Duration::from_secs(10);

/// The error of a response that is no success.
pub(super) async fn read(endpoint: &Endpoint, mut response: reqwest::Response) -> ProviderError {
    let status = response.status().as_u16();
    let wait = retry_after::of(response.headers(), SystemTime::now());
    let mut body = Vec::new();
    let receive = async {
        while let Ok(Some(chunk)) = response.chunk().await {
            let room = LONGEST - body.len();
            body.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if body.len() == LONGEST {
                return;
            }
        }
    };
    // What was said before the time was up is still worth reporting.
    let _ = tokio::time::timeout(READ_TIME, receive).await;
    let said = parse(&body);
    if status == 429 && said.out_of_money {
        return ProviderError::Rejected {
            provider: endpoint.provider().to_owned(),
            status,
            message: endpoint.clean(&said.message),
        };
    }
    let message = match status {
        300..400 => "it redirects to another address".to_owned(),
        404 if said.is_page => format!("nothing answers at {}", endpoint.url().path()),
        _ => said.message,
    };
    endpoint.status(status, &message, wait)
}

#[derive(Debug, PartialEq, Eq)]
struct Said {
    message: String,
    out_of_money: bool,
    is_page: bool,
}

fn parse(body: &[u8]) -> Said {
    if let Ok(value) = serde_json::from_slice::<Value>(body) {
        let message = message_of(&value).unwrap_or_else(|| value.to_string());
        let error = &value["error"];
        let out_of_money = [&error["code"], &error["type"]]
            .iter()
            .any(|code| matches!(code.as_str(), Some("insufficient_quota" | "billing_hard_limit_reached")));
        return Said { message, out_of_money, is_page: false };
    }
    let text = String::from_utf8_lossy(body);
    let text = text.trim();
    let message = if text.is_empty() {
        "without a word".to_owned()
    } else if text.starts_with('<') {
        title(text).map_or("with an HTML page".to_owned(), |title| format!("with an HTML page: {title}"))
    } else {
        text.to_owned()
    };
    Said { message, out_of_money: false, is_page: text.is_empty() || text.starts_with('<') }
}

/// The words in an error object of any of the shapes in use: `{"error":{"message"}}`, `{"error":"…"}`,
/// `{"message"}`, `{"detail"}`, and lists of them.
pub(crate) fn message_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.trim().is_empty() => Some(text.clone()),
        Value::Array(items) => items.iter().find_map(message_of),
        Value::Object(entries) => ["error", "message", "detail", "msg"]
            .iter()
            .find_map(|key| entries.get(*key).and_then(message_of)),
        _ => None,
    }
}

fn title(page: &str) -> Option<&str> {
    let start = page.find("<title>")? + "<title>".len();
    let rest = &page[start..];
    Some(rest[..rest.find("</title>")?].trim()).filter(|title| !title.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_found_in_every_shape() {
        for (body, expected) in [
            (r#"{"error":{"message":"a","type":"t"}}"#, "a"),
            (r#"{"type":"error","error":{"type":"x","message":"b"}}"#, "b"),
            (r#"{"error":"c"}"#, "c"),
            (r#"{"object":"error","message":"d","code":400}"#, "d"),
            (r#"{"detail":[{"loc":["body"],"msg":"e"}]}"#, "e"),
            (r#"[{"error":{"message":"f"}}]"#, "f"),
            (r#"{"x":1}"#, r#"{"x":1}"#),
            ("plain words", "plain words"),
            ("<html><head><title> Bad gateway </title>", "with an HTML page: Bad gateway"),
            ("<!doctype html><p>", "with an HTML page"),
            ("", "without a word"),
        ] {
            assert_eq!(parse(body.as_bytes()).message, expected, "{body}");
        }
    }

    #[test]
    fn no_money_left_is_told_from_too_many_requests() {
        let said = parse(br#"{"error":{"message":"m","code":"insufficient_quota"}}"#);
        assert!(said.out_of_money);
        assert!(!parse(br#"{"error":{"message":"m","code":"rate_limit_exceeded"}}"#).out_of_money);
    }
}

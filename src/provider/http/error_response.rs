//! Reads the answer of a provider that refuses a request.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use serde_json::Value;

use super::super::ProviderError;
use super::super::quota;
use super::{Endpoint, retry_after};

/// Maximum bytes of an error body that are read.
const MAX_BODY_BYTES: usize = 64 * 1024;
/// Time limit for reading an error body.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// The refusal of a request.
#[derive(Debug)]
pub struct RequestError {
    /// The error that the refusal is reported as.
    pub error: ProviderError,
    /// The HTTP status; 0 if there was none.
    pub status: u16,
    /// The body if it is a JSON document, without the key.
    pub said: Option<Value>,
}

impl From<ProviderError> for RequestError {
    fn from(error: ProviderError) -> Self {
        let status = match &error {
            ProviderError::Unauthorised { status, .. }
            | ProviderError::Rejected { status, .. }
            | ProviderError::Limited { status, .. } => *status,
            _ => 0,
        };
        Self { error, status, said: None }
    }
}

/// Reads a response with an error status.
pub(super) async fn read(endpoint: &Endpoint, mut response: reqwest::Response) -> RequestError {
    let status = response.status().as_u16();
    let now = Timestamp::now();
    let asked = retry_after::of(response.headers(), SystemTime::now());
    // A server that is overloaded may name its windows too, but they are not why it refuses.
    let wait =
        asked.or_else(|| (status == 429).then(|| quota::windows::wait(response.headers(), now)).flatten());
    let mut body = Vec::new();
    let receive = async {
        while let Ok(Some(chunk)) = response.chunk().await {
            // An error page may be of any size. Only its beginning is kept.
            let room = MAX_BODY_BYTES - body.len();
            body.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if body.len() == MAX_BODY_BYTES {
                return;
            }
        }
    };
    // After the timeout, the part that has arrived is still worth reporting.
    let _ = tokio::time::timeout(READ_TIMEOUT, receive).await;
    let document = serde_json::from_slice(&body).ok().map(|mut document| {
        scrub(endpoint, &mut document);
        document
    });
    RequestError {
        error: to_provider_error(endpoint, status, wait, parse(&body, now)),
        status,
        said: document,
    }
}

/// Removes the key from all texts of a document.
fn scrub(endpoint: &Endpoint, document: &mut Value) {
    match document {
        Value::String(text) => *text = endpoint.scrub(text),
        Value::Array(items) => items.iter_mut().for_each(|item| scrub(endpoint, item)),
        Value::Object(entries) => {
            // The names of fields may contain the key too.
            let all = std::mem::take(entries);
            entries.extend(all.into_iter().map(|(name, mut value)| {
                scrub(endpoint, &mut value);
                (endpoint.scrub(&name), value)
            }));
        }
        _ => {}
    }
}

fn to_provider_error(
    endpoint: &Endpoint,
    status: u16,
    wait: Option<Duration>,
    said: ParsedError,
) -> ProviderError {
    let wait = wait.or(said.wait);
    // Google reports a wrong key with status 400.
    let status = if said.bad_key { 401 } else { status };
    if said.out_of_money {
        return ProviderError::Rejected {
            provider: endpoint.provider().to_owned(),
            // The status varies between providers. As 402 the call is not retried, and another provider may have credit
            // left.
            status: if status == 429 { status } else { 402 },
            message: endpoint.clean(&said.message),
        };
    }
    let message = match status {
        // Redirects are not followed, because the request carries the key.
        300..400 => "it redirects to another address".to_owned(),
        // A page in place of an API error means that the base URL is wrong.
        404 if said.is_page => format!("nothing answers at {}", endpoint.url().path()),
        _ => said.message,
    };
    endpoint.status(status, &message, wait)
}

#[derive(Debug, PartialEq, Eq)]
struct ParsedError {
    message: String,
    out_of_money: bool,
    is_page: bool,
    bad_key: bool,
    wait: Option<Duration>,
}

fn parse(body: &[u8], now: Timestamp) -> ParsedError {
    if let Ok(value) = serde_json::from_slice::<Value>(body) {
        let message = message_of(&value).unwrap_or_else(|| value.to_string());
        // Some servers wrap the error in a list.
        let error = &value.get(0).unwrap_or(&value)["error"];
        // OpenAI names an account without credit by these codes, with status 429.
        let out_of_money = [&error["code"], &error["type"]]
            .iter()
            .any(|code| matches!(code.as_str(), Some("insufficient_quota" | "billing_hard_limit_reached")))
            || says_no_credit(&message);
        let bad_key = is_bad_key(&error["details"]);
        let wait = quota::body::wait(error, now);
        return ParsedError { message, out_of_money, is_page: false, bad_key, wait };
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
    let is_page = text.is_empty() || text.starts_with('<');
    ParsedError { message, out_of_money: false, is_page, bad_key: false, wait: None }
}

/// Returns `true` if the text says that no credit is left, for providers whose status and code do not say it.
///
/// Anthropic reports it with 400 and `invalid_request_error` (anthropics/anthropic-sdk-typescript#618), MiniMax with
/// 500 and `api_error` (MiniMax-AI/MiniMax-M2#62).
fn says_no_credit(message: &str) -> bool {
    let message = message.to_lowercase();
    ["credit balance is too low", "insufficient balance"].iter().any(|words| message.contains(words))
}

/// Returns `true` if the details that Google adds to an error say that the key is wrong.
fn is_bad_key(details: &Value) -> bool {
    let all = details.as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter().any(|one| one["reason"] == "API_KEY_INVALID")
}

/// Returns the text in an error object of any common form: `{"error":{"message"}}`, `{"error":"…"}`, `{"message"}`,
/// `{"detail"}`, and lists of them.
///
/// A router puts the text of the provider behind it into `metadata.raw`, and only that text names the cause.
pub(crate) fn message_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.trim().is_empty() => Some(text.clone()),
        Value::Array(items) => items.iter().find_map(message_of),
        Value::Object(entries) => {
            let own = ["error", "message", "detail", "msg"]
                .iter()
                .find_map(|key| entries.get(*key).and_then(message_of));
            let behind = entries.get("metadata").and_then(|metadata| behind(&metadata["raw"]));
            match (own, behind) {
                (Some(own), Some(behind)) if !own.contains(&behind) => Some(format!("{own}: {behind}")),
                (own, behind) => own.or(behind),
            }
        }
        _ => None,
    }
}

/// Returns the text of the provider behind a router: an object, an object written as a text, or plain text.
fn behind(raw: &Value) -> Option<String> {
    let read = raw.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    read.as_ref().and_then(message_of).or_else(|| message_of(raw))
}

fn title(page: &str) -> Option<&str> {
    let start = page.find("<title>")? + "<title>".len();
    let rest = &page[start..];
    Some(rest[..rest.find("</title>")?].trim()).filter(|title| !title.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(body: &[u8]) -> ParsedError {
        super::parse(body, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn the_error_text_is_found_in_every_known_form() {
        for (body, expected) in [
            (r#"{"error":{"message":"a","type":"t"}}"#, "a"),
            (r#"{"type":"error","error":{"type":"x","message":"b"}}"#, "b"),
            (r#"{"error":"c"}"#, "c"),
            (r#"{"object":"error","message":"d","code":400}"#, "d"),
            (r#"{"detail":[{"loc":["body"],"msg":"e"}]}"#, "e"),
            (r#"[{"error":{"message":"f"}}]"#, "f"),
            (
                r#"{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":{\"message\":\"g\"}}"}}}"#,
                "Provider returned error: g",
            ),
            (r#"{"error":{"message":"h","metadata":{"raw":{"message":"i"}}}}"#, "h: i"),
            (r#"{"error":{"message":"j","metadata":{"raw":"plain k"}}}"#, "j: plain k"),
            (r#"{"error":{"message":"l","metadata":{"raw":" ","provider_name":"x"}}}"#, "l"),
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
    fn googles_error_details_are_read() {
        let said = parse(
            br#"{"error":{"code":400,"message":"m","status":"INVALID_ARGUMENT",
            "details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}]}}"#,
        );
        assert!(said.bad_key && said.wait.is_none());
        let said = parse(
            br#"[{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED",
            "details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.5s"}]}}]"#,
        );
        assert_eq!((said.bad_key, said.wait), (false, Some(Duration::from_millis(34_500))));
        for odd in ["-1s", "1e400s", "s", "x"] {
            let body = format!(r#"{{"error":{{"details":[{{"retryDelay":"{odd}"}}]}}}}"#);
            assert_eq!(parse(body.as_bytes()).wait, None, "{odd}");
        }
    }

    #[test]
    fn missing_credit_is_distinguished_from_rate_limiting() {
        let said = parse(br#"{"error":{"message":"m","code":"insufficient_quota"}}"#);
        assert!(said.out_of_money);
        assert!(!parse(br#"{"error":{"message":"m","code":"rate_limit_exceeded"}}"#).out_of_money);
    }
}

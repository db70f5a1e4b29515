//! Knows the paths of each model API and the format of its errors. Pure.

use serde_json::{Value, json};

use crate::config::Api;
use crate::provider::passthrough::ForwardKind;
use crate::runtime::cli::interface::relay_path;

/// The wire formats that are passed on, one for each path.
const APIS: [Api; 4] =
    [Api::AnthropicMessages, Api::OpenAiResponses, Api::GoogleGenerativeAi, Api::OpenAiCompletions];

/// Returns the wire format of a path and the rest of the path, without a leading slash.
fn split_path(path: &str) -> Option<(Api, &str)> {
    APIS.iter().find_map(|api| Some((*api, path.strip_prefix(relay_path(*api))?.strip_prefix('/')?)))
}

/// Returns the wire format and the purpose of a request to this path, or `None` if the path is not passed on. The model
/// that a path names is ignored.
#[must_use]
pub fn asked(path: &str) -> Option<(Api, ForwardKind)> {
    let (api, rest) = split_path(path)?;
    let want = match (api, rest) {
        (Api::AnthropicMessages, "v1/messages")
        | (Api::OpenAiResponses, "responses")
        | (Api::OpenAiCompletions, "chat/completions") => ForwardKind::Answer,
        (Api::AnthropicMessages, "v1/messages/count_tokens") => ForwardKind::Count,
        (Api::GoogleGenerativeAi, rest) => {
            let (model, method) = rest.strip_prefix("v1beta/models/")?.rsplit_once(':')?;
            // Such a path is not one of the methods below.
            if model.is_empty() || model.contains('/') {
                return None;
            }
            match method {
                "generateContent" => ForwardKind::Answer,
                "streamGenerateContent" => ForwardKind::Stream,
                "countTokens" => ForwardKind::Count,
                _ => return None,
            }
        }
        _ => return None,
    };
    Some((api, want))
}

/// Returns `true` if both wire formats have the same path. Models of one are then asked at the path of the other.
#[must_use]
pub fn is_same(one: Api, other: Api) -> bool {
    relay_path(one) == relay_path(other)
}

/// Returns an error in the format of the API that this path belongs to, or `None` if the path is not below `/relay`.
#[must_use]
pub fn error(path: &str, status: u16, message: &str, hint: Option<&str>) -> Option<Value> {
    let rest = path.strip_prefix("/relay")?;
    if !rest.is_empty() && !rest.starts_with('/') {
        return None;
    }
    let message = match hint {
        Some(hint) => format!("flock: {message} ({hint})"),
        None => format!("flock: {message}"),
    };
    let kind = match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        400..=499 => "invalid_request_error",
        _ => "api_error",
    };
    Some(match split_path(path).map(|(api, _)| api) {
        Some(Api::GoogleGenerativeAi) => {
            let word = match status {
                401 => "UNAUTHENTICATED",
                403 => "PERMISSION_DENIED",
                404 => "NOT_FOUND",
                429 => "RESOURCE_EXHAUSTED",
                400..=499 => "INVALID_ARGUMENT",
                _ => "INTERNAL",
            };
            json!({"error": {"code": status, "message": message, "status": word}})
        }
        Some(Api::OpenAiResponses | Api::OpenAiCompletions) => {
            json!({"error": {"message": message, "type": kind, "param": null, "code": null}})
        }
        // An unknown path gets Anthropic's format.
        _ => json!({"type": "error", "error": {"type": kind, "message": message}}),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fixed_list_of_paths_is_passed_on() {
        for (path, expected) in [
            ("/relay/anthropic/v1/messages", Some((Api::AnthropicMessages, ForwardKind::Answer))),
            ("/relay/anthropic/v1/messages/count_tokens", Some((Api::AnthropicMessages, ForwardKind::Count))),
            ("/relay/responses/v1/responses", Some((Api::OpenAiResponses, ForwardKind::Answer))),
            ("/relay/completions/v1/chat/completions", Some((Api::OpenAiCompletions, ForwardKind::Answer))),
            (
                "/relay/google/v1beta/models/gemini-3-pro:streamGenerateContent",
                Some((Api::GoogleGenerativeAi, ForwardKind::Stream)),
            ),
            (
                "/relay/google/v1beta/models/x:generateContent",
                Some((Api::GoogleGenerativeAi, ForwardKind::Answer)),
            ),
            (
                "/relay/google/v1beta/models/x:countTokens",
                Some((Api::GoogleGenerativeAi, ForwardKind::Count)),
            ),
            ("/relay/google/v1beta/models/x:embedContent", None),
            ("/relay/google/v1beta/models/:generateContent", None),
            ("/relay/google/v1beta/models/a/../b:generateContent", None),
            ("/relay/google/v1beta/files", None),
            ("/relay/anthropic/v1/messages/", None),
            ("/relay/anthropic/v1/messages/batches", None),
            ("/relay/anthropic/v1/files", None),
            ("/relay/anthropic/../v1/messages", None),
            ("/relay/anthropicx/v1/messages", None),
            ("/relay/responses/v1/responses/resp_1", None),
            ("/relay/completions/v1/models", None),
            ("/relay/anthropic", None),
            ("/relay/", None),
            ("/v1/messages", None),
        ] {
            assert_eq!(asked(path), expected, "{path}");
        }
    }

    #[test]
    fn an_error_has_the_shape_of_its_api() {
        let of = |path, status| error(path, status, "no", Some("do this")).unwrap();
        let anthropic = of("/relay/anthropic/v1/messages", 404);
        assert_eq!(
            (&anthropic["type"], &anthropic["error"]["type"]),
            (&json!("error"), &json!("not_found_error"))
        );
        let google = of("/relay/google/v1beta/models/x:countTokens", 403);
        assert_eq!(
            (&google["error"]["code"], &google["error"]["status"]),
            (&json!(403), &json!("PERMISSION_DENIED"))
        );
        for path in ["/relay/responses/v1/responses", "/relay/completions/v1/chat/completions"] {
            assert_eq!(of(path, 400)["error"]["type"], "invalid_request_error");
            assert_eq!(of(path, 400)["error"]["message"], "flock: no (do this)");
        }
        for other in ["/relayed", "/v1/models", "/api/agents", "/mcp"] {
            assert_eq!(error(other, 404, "no", None), None, "{other}");
        }
    }
}

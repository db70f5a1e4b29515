//! Knows the paths of each model API and the format of its errors. Pure.

use serde_json::Value;

use crate::config::Api;
use crate::provider::passthrough::ForwardKind;
use crate::provider::wire_format::{self, FORMATS};
use crate::provider::{RelayFormat, anthropic};

/// Returns the wire format of a path and the rest of the path, without a leading slash.
fn split_path(path: &str) -> Option<(&'static RelayFormat, &str)> {
    let mut formats = FORMATS.iter().filter_map(|format| format.relay);
    formats.find_map(|format| Some((format, path.strip_prefix(format.path)?.strip_prefix('/')?)))
}

/// Returns the wire format and the purpose of a request to this path, or `None` if the path is not passed on. The model
/// that a path names is ignored.
#[must_use]
pub(crate) fn asked(path: &str) -> Option<(&'static RelayFormat, ForwardKind)> {
    let (format, rest) = split_path(path)?;
    Some((format, (format.kind)(rest)?))
}

/// Returns `true` if models with this wire format are asked at the path of `format`. Two formats may share a path.
#[must_use]
pub(crate) fn is_same(api: Api, format: &RelayFormat) -> bool {
    wire_format::of(api).relay.is_some_and(|own| own.path == format.path)
}

/// Returns an error in the format of the API that this path belongs to, or `None` if the path is not below `/relay`.
#[must_use]
pub(crate) fn error(path: &str, status: u16, message: &str, hint: Option<&str>) -> Option<Value> {
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
    // An unknown path gets Anthropic's format.
    let format = split_path(path).map_or(&anthropic::relay::RELAY, |(format, _)| format);
    Some((format.error)(status, kind, &message))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
            assert_eq!(asked(path).map(|(format, want)| (format.api, want)), expected, "{path}");
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

//! Slack's errors: what they mean for flock, and what a person can do about them.

use std::time::Duration;

use serde_json::Value;

use crate::bridge::platform::PlatformError;

/// The page on which scopes are given.
pub(super) const APPS: &str = "https://api.slack.com/apps";
/// The wait where Slack asks for one and does not say how long.
const DEFAULT_WAIT: Duration = Duration::from_secs(5);
/// Longest wait that is believed.
const MAX_WAIT: Duration = Duration::from_secs(3600);

/// Returns the wait that a `Retry-After` header asks for.
pub(super) fn wait(header: Option<&str>) -> Duration {
    let seconds = header.and_then(|text| text.trim().parse().ok());
    seconds
        .map_or(DEFAULT_WAIT, |seconds| Duration::from_secs(seconds).clamp(Duration::from_secs(1), MAX_WAIT))
}

/// Returns the error of an answer with `ok: false`, which was made with a token of this name.
pub(super) fn refusal(token: &str, answer: &Value) -> PlatformError {
    let code = word(&answer["error"]);
    match code.as_str() {
        "ratelimited" | "rate_limited" | "message_limit_exceeded" => PlatformError::RateLimited(DEFAULT_WAIT),
        "invalid_auth"
        | "not_authed"
        | "token_revoked"
        | "token_expired"
        | "account_inactive"
        | "user_removed_from_team"
        | "app_uninstalled"
        | "bot_not_found" => {
            PlatformError::Unauthorized(format!("{code} (the {token}; {APPS}, OAuth & Permissions)"))
        }
        "internal_error"
        | "fatal_error"
        | "service_unavailable"
        | "request_timeout"
        | "team_added_to_org"
        | "" => PlatformError::Unavailable(format!("Slack answers {code:?}")),
        "missing_scope" => PlatformError::Refused(missing(token, &[word(&answer["needed"]).as_str()])),
        _ => PlatformError::Refused(match hint(&code) {
            Some(hint) => format!("{code}: {hint}"),
            None => {
                let detail = answer["response_metadata"]["messages"][0].as_str().unwrap_or_default();
                format!("{code} {}", crate::clean::summary(detail, 200)).trim_end().to_owned()
            }
        }),
    }
}

/// Says that a token lacks scopes.
pub(super) fn missing(token: &str, scopes: &[&str]) -> String {
    let place = if scopes.contains(&"connections:write") {
        "Basic Information, App-Level Tokens"
    } else {
        "OAuth & Permissions, then install the app again"
    };
    format!("the {token} lacks the scope {}; add it at {APPS} ({place})", scopes.join(", "))
}

fn hint(code: &str) -> Option<&'static str> {
    Some(match code {
        "not_in_channel" => "the app is not in the channel; write /invite with its name there",
        "channel_not_found" => {
            "there is no such channel, or it is private and the app is not in it; write /invite with its name there"
        }
        "is_archived" => "the channel is archived",
        "not_allowed_token_type" => {
            "the token is of another kind: a bot token begins with xoxb-, an app-level token with xapp-"
        }
        "restricted_action" | "restricted_action_read_only_channel" => {
            "only some people may write there; see the channel's settings"
        }
        "name_taken" => "there is a channel of this name; link it instead",
        "user_not_in_channel" => "the person is not in the channel",
        _ => return None,
    })
}

/// Returns a word of an answer, without anything that is in no name of Slack's.
fn word(value: &Value) -> String {
    let text = value.as_str().unwrap_or_default();
    text.chars().filter(|c| c.is_ascii_alphanumeric() || "_:.,-".contains(*c)).take(80).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(answer: Value) -> PlatformError {
        refusal("bot token", &answer)
    }

    #[test]
    fn errors_are_told_apart() {
        for code in ["invalid_auth", "token_revoked", "account_inactive"] {
            let error = of(json!({"error": code}));
            assert!(matches!(&error, PlatformError::Unauthorized(why) if why.contains(code)), "{error}");
        }
        assert!(matches!(of(json!({"error": "internal_error"})), PlatformError::Unavailable(_)));
        assert!(matches!(of(json!({})), PlatformError::Unavailable(_)));
        assert_eq!(of(json!({"error": "ratelimited"})), PlatformError::RateLimited(DEFAULT_WAIT));
        let error = of(json!({"error": "not_in_channel"})).to_string();
        assert!(error.contains("/invite"), "{error}");
    }

    #[test]
    fn a_missing_scope_is_named_with_its_page() {
        let error = of(json!({"error": "missing_scope", "needed": "chat:write\u{1b}[31m"})).to_string();
        assert!(error.contains("scope chat:write31m;") && error.contains(APPS), "{error}");
        assert!(missing("app-level token", &["connections:write"]).contains("App-Level Tokens"));
    }

    #[test]
    fn a_wait_is_read_and_has_bounds() {
        assert_eq!(wait(Some("7")), Duration::from_secs(7));
        assert_eq!(wait(Some("0")), Duration::from_secs(1));
        assert_eq!(wait(Some("99999999999")), MAX_WAIT);
        assert_eq!(wait(Some("soon")), DEFAULT_WAIT);
        assert_eq!(wait(None), DEFAULT_WAIT);
    }
}

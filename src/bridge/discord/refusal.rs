//! Discord's refusals, in words that say what to do.

use reqwest::StatusCode;
use serde_json::Value;

use crate::bridge::platform::PlatformError;

/// The page on which the settings of an app are.
pub(super) const APPS: &str = "https://discord.com/developers/applications";
/// The longest text of Discord's that is repeated.
const MAX_TEXT: usize = 300;

/// Codes of refusals that are treated in a way of their own.
pub(super) mod code {
    pub(crate) const UNKNOWN_CHANNEL: u64 = 10_003;
    pub(crate) const UNKNOWN_MEMBER: u64 = 10_007;
    pub(crate) const UNKNOWN_MESSAGE: u64 = 10_008;
    pub(crate) const UNKNOWN_WEBHOOK: u64 = 10_015;
    pub(crate) const TOO_MANY_WEBHOOKS: u64 = 30_007;
    pub(crate) const MISSING_ACCESS: u64 = 50_001;
    pub(crate) const MISSING_PERMISSIONS: u64 = 50_013;
    pub(crate) const OTHER_KIND_OF_CHANNEL: u64 = 50_024;
    pub(crate) const INVALID_WEBHOOK_TOKEN: u64 = 50_027;
    /// Discord's answer to a request whose agent it does not like, or that its network failed on.
    pub(crate) const INTERNAL: u64 = 40_333;
}

/// A request that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    /// Discord's code of the refusal; 0 if there is none.
    pub(super) code: u64,
    pub(super) error: PlatformError,
}

impl Failure {
    pub(super) fn unavailable(text: String) -> Self {
        PlatformError::Unavailable(text).into()
    }
}

impl From<PlatformError> for Failure {
    fn from(error: PlatformError) -> Self {
        Self { code: 0, error }
    }
}

impl From<Failure> for PlatformError {
    fn from(failure: Failure) -> Self {
        failure.error
    }
}

/// Reads an answer that is neither a success nor a rate limit. `needs` is the permission that the request needs.
pub(super) fn read(status: StatusCode, body: &Value, needs: &str) -> Failure {
    let code = body["code"].as_u64().unwrap_or(0);
    let text = shortened(body["message"].as_str().unwrap_or_default());
    let said = if code == 0 { format!("{status} {text}") } else { format!("{text} ({code})") };
    let said = said.trim().to_owned();
    let error = match (status.as_u16(), code) {
        (_, code::INVALID_WEBHOOK_TOKEN) => PlatformError::Refused(said),
        (401, _) => {
            PlatformError::Unauthorized(format!("{said}; get a new one at {APPS} under Bot, Reset Token"))
        }
        (_, code::INTERNAL) | (408 | 500.., _) => PlatformError::Unavailable(format!("Discord says {said}")),
        (_, code::MISSING_ACCESS) => PlatformError::Refused(format!(
            "{said}: flock's bot can't see this channel or server. Give it the permission View Channel there, or \
             invite it by the OAuth2 page of its app at {APPS}"
        )),
        (_, code::MISSING_PERMISSIONS) => PlatformError::Refused(format!(
            "{said}: flock's bot needs the permission {needs}. Give it to its role in the server's settings under \
             Roles, or in the channel's settings under Permissions"
        )),
        (_, code::UNKNOWN_CHANNEL) => PlatformError::Refused(format!("{said}: there is no such channel")),
        (300..=399, _) => PlatformError::Unavailable(format!("Discord redirects the request: {status}")),
        _ => PlatformError::Refused(format!("{said}{}", details(&body["errors"]))),
    };
    Failure { code, error }
}

/// Returns the first of the single errors of a body that has the wrong form.
fn details(errors: &Value) -> String {
    let Value::Object(fields) = errors else { return String::new() };
    let Some((name, inner)) = fields.iter().next() else { return String::new() };
    match inner["_errors"][0]["message"].as_str() {
        Some(message) => format!(": {}: {}", shortened(name), shortened(message)),
        None => details(inner),
    }
}

fn shortened(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(MAX_TEXT).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(status: u16, body: &Value) -> PlatformError {
        read(StatusCode::from_u16(status).unwrap(), body, "Send Messages").error
    }

    #[test]
    fn a_refusal_names_what_is_missing() {
        let missing = said(403, &json!({"message": "Missing Permissions", "code": 50013}));
        assert!(matches!(&missing, PlatformError::Refused(why) if why.contains("permission Send Messages")));
        let unseen = said(403, &json!({"message": "Missing Access", "code": 50001}));
        assert!(matches!(&unseen, PlatformError::Refused(why) if why.contains("View Channel")));
        let form = json!({
            "message": "Invalid Form Body", "code": 50035,
            "errors": {"embeds": {"0": {"title": {"_errors": [{"code": "X", "message": "too long"}]}}}},
        });
        assert_eq!(
            said(400, &form),
            PlatformError::Refused("Invalid Form Body (50035): title: too long".to_owned())
        );
    }

    #[test]
    fn a_token_that_is_not_accepted_is_told_apart_from_a_webhooks() {
        let token = said(401, &json!({"message": "401: Unauthorized", "code": 0}));
        assert!(matches!(&token, PlatformError::Unauthorized(why) if why.contains(APPS)));
        let webhook = said(401, &json!({"message": "Invalid Webhook Token", "code": 50027}));
        assert!(matches!(webhook, PlatformError::Refused(_)));
    }

    #[test]
    fn what_may_work_later_is_no_refusal() {
        for (status, body) in [
            (502, Value::Null),
            (500, json!({"message": "x"})),
            (403, json!({"message": "internal network error", "code": 40333})),
            (302, Value::Null),
        ] {
            assert!(matches!(said(status, &body), PlatformError::Unavailable(_)), "{status}");
        }
    }

    #[test]
    fn hostile_answers_are_shortened() {
        let long = json!({"message": "x".repeat(100_000), "errors": {"a": {"b": [1]}}});
        assert!(said(400, &long).to_string().len() < 500);
        assert!(matches!(said(400, &json!([1])), PlatformError::Refused(_)));
    }
}

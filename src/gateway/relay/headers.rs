//! Which headers are passed on. Only those that are known to belong to a model API: no credential of the program's,
//! nothing of the connection, nothing that names an account. Pure.

use axum::http::header::{HeaderMap, HeaderName};

/// Of a request: what it may ask for beside its body, and what a provider finds a session's prompt by.
const ASKED: [&str; 10] = [
    "accept",
    "openai-beta",
    "originator",
    "session-id",
    "session_id",
    "thread-id",
    "x-app",
    "x-client-request-id",
    "x-session-affinity",
    "x-session-id",
];
const ASKED_WITH: [&str; 6] = [
    "anthropic-",
    "x-claude-code-",
    "x-codex-",
    "x-goog-api-client",
    "x-openai-internal-codex-",
    "x-stainless-",
];

/// Of an answer: what it is, what it is known by, what is left of the provider's limits.
const ANSWERED: [&str; 6] =
    ["content-type", "openai-model", "openai-version", "request-id", "x-models-etag", "x-reasoning-included"];
const ANSWERED_WITH: [&str; 2] = ["anthropic-ratelimit-", "x-ratelimit-"];

/// The headers of a request that go to the provider.
#[must_use]
pub fn asked(headers: &HeaderMap) -> HeaderMap {
    filtered(headers, &ASKED, &ASKED_WITH)
}

/// The headers of an answer that go to the program.
#[must_use]
pub fn answered(headers: &HeaderMap) -> HeaderMap {
    filtered(headers, &ANSWERED, &ANSWERED_WITH)
}

fn filtered(headers: &HeaderMap, names: &[&str], beginnings: &[&str]) -> HeaderMap {
    let is_known = |name: &HeaderName| {
        names.contains(&name.as_str()) || beginnings.iter().any(|one| name.as_str().starts_with(one))
    };
    let known = headers.iter().filter(|(name, _)| is_known(name));
    known.map(|(name, value)| (name.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(names: &[&'static str]) -> HeaderMap {
        names.iter().map(|name| (HeaderName::from_static(name), "x".parse().unwrap())).collect()
    }

    #[test]
    fn no_credential_and_no_account_is_passed_on() {
        let sent = map(&[
            "x-api-key",
            "authorization",
            "x-goog-api-key",
            "api-key",
            "cookie",
            "proxy-authorization",
            "openai-organization",
            "openai-project",
            "chatgpt-account-id",
            "x-goog-user-project",
            "host",
            "connection",
            "content-length",
            "accept-encoding",
            "x-forwarded-for",
            "user-agent",
            "anthropic-beta",
            "anthropic-version",
            "x-stainless-retry-count",
            "x-codex-window-id",
            "session-id",
        ]);
        let passed = asked(&sent);
        let mut names: Vec<&str> = passed.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        let expected = [
            "anthropic-beta",
            "anthropic-version",
            "session-id",
            "x-codex-window-id",
            "x-stainless-retry-count",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn an_answer_tells_nothing_of_the_account() {
        let sent = map(&[
            "content-type",
            "content-length",
            "content-encoding",
            "set-cookie",
            "anthropic-organization-id",
            "openai-organization",
            "x-ratelimit-remaining-tokens",
            "request-id",
        ]);
        let passed = answered(&sent);
        let mut names: Vec<&str> = passed.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["content-type", "request-id", "x-ratelimit-remaining-tokens"]);
    }
}

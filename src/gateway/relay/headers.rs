//! Selects the headers that are passed on: only those that are known to belong to a model API. No credential of the
//! program, no header of the connection, and nothing that names an account passes. Pure.

use axum::http::header::{HeaderMap, HeaderName, HeaderValue};

use crate::provider::wire_format::FORMATS;
use crate::runtime::program::PROGRAMS;

/// Request headers of several client libraries. Each API and each program adds the headers that are its own. A name that
/// ends in `-` is a prefix, here and below.
const REQUEST_HEADERS: [&str; 3] = ["accept", "x-client-request-id", "x-stainless-"];

/// Header in which a request to Anthropic names the new features that it uses.
const BETA_HEADER: &str = "anthropic-beta";

/// Prefixes of the new features that reach beyond the model. [`super::request_filter`] refuses the body fields that would use
/// them. A program may send such names with every request, so they are removed and the request is passed on.
const BLOCKED_BETAS: [&str; 28] = [
    "advisor-",
    "agent-memory-",
    "agent-skills-",
    "batch",
    "ccr-",
    "code-execution-",
    "dreaming-",
    "environments-",
    "fallback-",
    "fast-mode-",
    "files-",
    "managed-agents-",
    "mcp-client-",
    "mcp-servers-",
    "mcp-tunnels-",
    "message-batches-",
    "message-threads-",
    "oauth-",
    "oidc-",
    "priority-",
    "programmatic-",
    "resumption-",
    "server-side-",
    "skills-",
    "tool-search-",
    "user-profiles-",
    "web-fetch-",
    "web-search-",
];

/// Response headers: the type and the id of the response, and what is left of the provider's limits.
const RESPONSE_HEADERS: [&str; 3] = ["content-type", "request-id", "x-ratelimit-"];

/// Returns the headers of a request that go to the provider.
#[must_use]
pub(crate) fn asked(headers: &HeaderMap) -> HeaderMap {
    let of_apis = FORMATS.iter().filter_map(|format| format.relay).flat_map(|relay| relay.request_headers);
    let of_programs = PROGRAMS.iter().flat_map(|program| program.facts().headers);
    // The feature names need a filter of their own, so the header is taken out and rebuilt.
    let mut passed = filter_headers(headers, REQUEST_HEADERS.iter().chain(of_apis).chain(of_programs));
    let betas: Vec<&str> =
        headers.get_all(BETA_HEADER).iter().filter_map(|value| value.to_str().ok()).collect();
    let all = betas.iter().flat_map(|value| value.split(',')).map(str::trim);
    let kept: Vec<&str> = all.filter(|beta| is_allowed_beta(beta)).collect();
    passed.remove(BETA_HEADER);
    if let Ok(value) = HeaderValue::from_str(&kept.join(","))
        && !kept.is_empty()
    {
        passed.insert(BETA_HEADER, value);
    }
    passed
}

fn is_allowed_beta(beta: &str) -> bool {
    // A provider may ignore case, so the names are compared in lower case.
    let beta = beta.to_ascii_lowercase();
    !beta.is_empty() && !BLOCKED_BETAS.iter().any(|out| beta.starts_with(out))
}

/// Returns the headers of a response that go to the program.
#[must_use]
pub(crate) fn answered(headers: &HeaderMap) -> HeaderMap {
    let of_apis = FORMATS.iter().filter_map(|format| format.relay).flat_map(|relay| relay.response_headers);
    filter_headers(headers, RESPONSE_HEADERS.iter().chain(of_apis))
}

fn filter_headers<'n>(headers: &HeaderMap, names: impl Iterator<Item = &'n &'n str>) -> HeaderMap {
    let names: Vec<&str> = names.copied().collect();
    let is_known = |name: &HeaderName| {
        let name = name.as_str();
        names.iter().any(|known| name == *known || known.ends_with('-') && name.starts_with(known))
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
            "anthropic-workspace-id",
            "anthropic-user-profile-id",
            "anthropic-beta",
            "anthropic-version",
            "x-stainless-retry-count",
            "x-codex-window-id",
            "session-id",
            "session-id-2",
            "x-app",
            "x-claude-code-session-id",
            "x-session-affinity",
        ]);
        let passed = asked(&sent);
        let mut names: Vec<&str> = passed.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        let expected = [
            "anthropic-beta",
            "anthropic-version",
            "session-id",
            "x-app",
            "x-claude-code-session-id",
            "x-codex-window-id",
            "x-session-affinity",
            "x-stainless-retry-count",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn beta_features_that_reach_beyond_the_model_are_removed() {
        let betas = |values: &[&str]| {
            let mut sent = HeaderMap::new();
            for value in values {
                sent.append(BETA_HEADER, value.parse().unwrap());
            }
            let passed = asked(&sent);
            assert!(passed.get_all(BETA_HEADER).iter().count() <= 1);
            passed.get(BETA_HEADER).map(|value| value.to_str().unwrap().to_owned())
        };
        // Claude Code 2.1.330 and OpenCode 1.18.33 send these.
        let own = "claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27,\
                   thinking-token-count-2026-05-13,thinking-display-updates-2026-08-18";
        assert_eq!(betas(&[own]).as_deref(), Some(own));
        assert_eq!(
            betas(&["structured-outputs-2025-11-13"]).as_deref(),
            Some("structured-outputs-2025-11-13")
        );
        for out in [
            "files-api-2025-04-14",
            "mcp-client-2025-11-20",
            "code-execution-2025-08-25",
            "skills-2025-10-02",
            "fast-mode-2026-02-01",
            "Web-Fetch-2025-09-10",
            "server-side-fallback-2026-07-01",
            "message-threads-2026-08-12",
        ] {
            assert_eq!(betas(&[out]), None, "{out}");
            assert_eq!(betas(&[&format!("a-1, {out} ,b-2"), out, "c-3"]).as_deref(), Some("a-1,b-2,c-3"));
        }
        assert_eq!(betas(&[" , ,"]), None);
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

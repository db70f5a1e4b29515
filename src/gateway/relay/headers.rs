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
#[path = "headers_tests.rs"]
mod tests;

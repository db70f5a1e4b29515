//! Who may ask: the Host and Origin of a request, and the credential it carries.
//!
//! A browser on this machine can be led to send requests to loopback. Checking Host keeps out names that
//! somebody else resolves to 127.0.0.1, checking Origin keeps out pages of other sites.

use axum::http::{HeaderMap, Uri, header, request::Parts};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::error::ApiError;
use axum::http::StatusCode;

/// Who a request comes from, as its credential says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caller {
    /// The owner of the home: may do everything that a person may.
    Owner,
    /// flock's plugin in OpenClaw: calls tools as OpenClaw's agents and reports what they do, and nothing else.
    Plugin,
}

/// Where the plugin's paths begin. Its token opens them and no others, and no other token opens them: nobody calls a
/// tool as an agent by saying so.
const PLUGIN: &str = "/api/plugin/";

/// What the tokens of an agent program's turn open, each its own one. No other token opens either, and they open nothing
/// else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turns {
    /// The way to the agent's model.
    Relay,
    /// flock's tools.
    Mcp,
}

impl Turns {
    /// What of the two is at this path, if anything.
    #[must_use]
    pub fn at(path: &str) -> Option<Self> {
        match path {
            "/mcp" => Some(Self::Mcp),
            path if path.starts_with("/relay/") => Some(Self::Relay),
            _ => None,
        }
    }

    /// What is said to who shows a token that is good for other paths.
    #[must_use]
    pub fn out_of_scope(self) -> ApiError {
        let what = match self {
            Self::Relay => "asks a model here",
            Self::Mcp => "calls tools here",
        };
        let message =
            format!("only the program that runs an agent's turn {what}, with the token of that turn");
        ApiError::new(StatusCode::FORBIDDEN, "out_of_scope", message)
    }

    /// The token of a request: where the program puts the key of its model's API.
    ///
    /// # Errors
    ///
    /// 401 without one.
    pub fn token(self, headers: &HeaderMap) -> Result<&[u8], ApiError> {
        let named = |name| headers.get(name).map(|value| value.as_bytes().trim_ascii());
        let token = match self {
            Self::Mcp => bearer(headers),
            Self::Relay => named("x-api-key").or_else(|| named("x-goog-api-key")).or_else(|| bearer(headers)),
        };
        token.filter(|token| !token.is_empty()).ok_or_else(|| {
            ApiError::new(StatusCode::UNAUTHORIZED, "no_token", "this needs the token of a turn that runs")
        })
    }
}

/// Whether a path is one of the plugin's.
#[must_use]
pub fn is_plugins(path: &str) -> bool {
    path.starts_with(PLUGIN)
}

impl Caller {
    /// Refuses what the credential is not for.
    ///
    /// # Errors
    ///
    /// 403.
    pub fn check_scope(&self, path: &str) -> Result<(), ApiError> {
        let message = match (self, is_plugins(path)) {
            (Self::Owner, false) | (Self::Plugin, true) => return Ok(()),
            (Self::Owner, true) => "only flock's plugin in OpenClaw calls tools here",
            (Self::Plugin, false) => "this token is for the tool calls of OpenClaw's agents alone",
        };
        Err(ApiError::new(StatusCode::FORBIDDEN, "out_of_scope", message))
    }
}

/// Refuses a request that names another host than this gateway or comes from another site.
///
/// # Errors
///
/// 403 for a foreign Host or Origin.
pub fn check_source(parts: &Parts, port: u16) -> Result<(), ApiError> {
    let mut hosts = parts.headers.get_all(header::HOST).iter();
    let host = hosts.next().and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_foreign = hosts.next().is_some()
        || !is_ours(host, port)
        || parts.uri.authority().is_some_and(|authority| !is_ours(authority.as_str(), port));
    if is_foreign {
        return Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "foreign_host",
            "the Host of this request is not this gateway",
        )
        .with_hint(format!("use http://127.0.0.1:{port}")));
    }
    let mut origins = parts.headers.get_all(header::ORIGIN).iter();
    let is_foreign = origins.any(|origin| {
        let origin = origin.to_str().ok().and_then(|text| text.parse::<Uri>().ok());
        !origin.is_some_and(|origin| {
            origin.scheme_str() == Some("http")
                && origin.authority().is_some_and(|authority| is_ours(authority.as_str(), port))
        })
    });
    if is_foreign {
        return Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "foreign_origin",
            "requests from pages of other sites are refused",
        ));
    }
    Ok(())
}

/// Whether a `name[:port]` is a loopback name or address, with our port or none.
fn is_ours(authority: &str, port: u16) -> bool {
    let (name, given) = match authority.rsplit_once(':') {
        Some((name, digits)) if !name.is_empty() && !digits.contains(']') => (name, Some(digits)),
        _ => (authority, None),
    };
    let name_is_ours = ["127.0.0.1", "localhost", "[::1]"].iter().any(|ours| name.eq_ignore_ascii_case(ours));
    name_is_ours && given.is_none_or(|digits| digits.parse() == Ok(port))
}

/// Who the credential of these headers belongs to. `owner` is the owner's token, `plugin` finds that of the plugin;
/// an empty one lets nobody in.
///
/// # Errors
///
/// 401 without a token or with a wrong one.
pub fn authenticate(
    headers: &HeaderMap,
    owner: &str,
    plugin: impl FnOnce() -> Option<String>,
) -> Result<Caller, ApiError> {
    let unauthorised = |code, message: &str| {
        ApiError::new(StatusCode::UNAUTHORIZED, code, message)
            .with_hint("flock config get gateway.auth.token")
    };
    let Some(token) = bearer(headers) else {
        return Err(unauthorised("no_token", "this needs the header Authorization: Bearer <token>"));
    };
    if is(token, owner) {
        return Ok(Caller::Owner);
    }
    if plugin().is_some_and(|plugin| is(token, &plugin)) {
        return Ok(Caller::Plugin);
    }
    Err(unauthorised("wrong_token", "the token is not the one of this home"))
}

/// Digests have one length, so neither the token's content nor its length shows in the time.
fn is(token: &[u8], known: &str) -> bool {
    let same = Sha256::digest(token).ct_eq(&Sha256::digest(known.as_bytes()));
    !known.is_empty() && bool::from(same)
}

fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked(7)?;
    let token = token.trim_ascii();
    (scheme.eq_ignore_ascii_case(b"bearer ") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Request;

    fn parts(uri: &str, headers: &[(&'static str, &str)]) -> Parts {
        let mut request = Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn only_loopback_with_our_port_is_this_gateway() {
        for good in ["127.0.0.1:3779", "localhost", "LOCALHOST:3779", "[::1]:3779", "[::1]", "127.0.0.1"] {
            assert!(check_source(&parts("/", &[("host", good)]), 3779).is_ok(), "{good}");
        }
        for bad in [
            "",
            "evil.example",
            "127.0.0.1:80",
            "127.0.0.1.evil.example",
            "localhost.",
            "10.0.0.1:3779",
            "127.0.0.1:3779@evil",
            "[::1",
            "localhost:",
            "0.0.0.0:3779",
        ] {
            let error = check_source(&parts("/", &[("host", bad)]), 3779).unwrap_err();
            assert_eq!(error.status, StatusCode::FORBIDDEN, "{bad:?}");
        }
        assert!(check_source(&parts("/", &[]), 3779).is_err(), "no Host at all");
        assert!(check_source(&parts("/", &[("host", "localhost"), ("host", "localhost")]), 3779).is_err());
        assert!(check_source(&parts("http://evil.example/", &[("host", "localhost")]), 3779).is_err());
    }

    #[test]
    fn an_origin_is_absent_or_ours() {
        let with = |origin| parts("/", &[("host", "127.0.0.1:3779"), ("origin", origin)]);
        assert!(check_source(&with("http://127.0.0.1:3779"), 3779).is_ok());
        assert!(check_source(&with("http://localhost:3779"), 3779).is_ok());
        for bad in ["null", "https://127.0.0.1:3779", "http://127.0.0.1:80", "http://evil.example", "file://"]
        {
            let error = check_source(&with(bad), 3779).unwrap_err();
            assert_eq!(error.code, "foreign_origin", "{bad}");
        }
    }

    #[test]
    fn only_the_whole_token_is_the_owner() {
        let with = |value| parts("/", &[("authorization", value)]).headers;
        assert_eq!(authenticate(&with("Bearer abc"), "abc", || None).unwrap(), Caller::Owner);
        assert_eq!(authenticate(&with("bearer  abc "), "abc", || None).unwrap(), Caller::Owner);
        for bad in ["", "abc", "Basic abc", "Bearer", "Bearer ", "Bearer ab", "Bearer abcd", "Bearer abc abc"]
        {
            let error = authenticate(&with(bad), "abc", || None).unwrap_err();
            assert_eq!(error.status, StatusCode::UNAUTHORIZED, "{bad:?}");
        }
        assert!(authenticate(&with("Bearer "), "", || None).is_err(), "an empty token lets nobody in");
        assert!(authenticate(&HeaderMap::new(), "", || None).is_err());
    }

    #[test]
    fn the_plugins_token_is_for_its_paths_and_the_owners_for_all_others() {
        let with = |value| parts("/", &[("authorization", value)]).headers;
        let who = |value| authenticate(&with(value), "abc", || Some("plug".to_owned()));
        assert_eq!(who("Bearer abc").unwrap(), Caller::Owner);
        assert_eq!(who("Bearer plug").unwrap(), Caller::Plugin);
        for bad in ["Bearer plugg", "Bearer plu", "Bearer "] {
            assert_eq!(who(bad).unwrap_err().status, StatusCode::UNAUTHORIZED, "{bad}");
        }
        assert!(authenticate(&with("Bearer x"), "abc", || Some(String::new())).is_err());
        for path in ["/api/plugin/tools/flock_status", "/api/plugin/events"] {
            assert!(Caller::Plugin.check_scope(path).is_ok());
            assert_eq!(Caller::Owner.check_scope(path).unwrap_err().status, StatusCode::FORBIDDEN);
        }
        for path in [
            "/",
            "/api/agents",
            "/api/plugin",
            "/api/approvals/x/approve",
            "/v1/chat/completions",
            "/metrics",
        ] {
            assert!(Caller::Owner.check_scope(path).is_ok());
            assert_eq!(Caller::Plugin.check_scope(path).unwrap_err().code, "out_of_scope", "{path}");
        }
    }
}

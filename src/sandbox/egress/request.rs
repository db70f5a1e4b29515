//! Parses the requests that programs send to a proxy: `CONNECT host:port`, or a request with a whole `http://` address.

use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::request::Parts;
use axum::http::{Method, Uri};

use super::rule::Host;

/// Returns the target of a request.
///
/// # Errors
///
/// Returns a description of the mistake for the program that sent the request.
pub fn target(parts: &Parts) -> Result<(Host, u16), String> {
    let uri = &parts.uri;
    let default = match (&parts.method, uri.scheme_str()) {
        (&Method::CONNECT, None) => None,
        (&Method::CONNECT, Some(_)) => return Err("CONNECT takes host:port and nothing else".to_owned()),
        (_, Some("http")) => Some(80),
        (_, Some(_)) => return Err("use CONNECT for everything but http://".to_owned()),
        (_, None) => return Err("this is a proxy: ask it for whole http:// addresses".to_owned()),
    };
    let authority = uri.authority().ok_or("the address names no host")?;
    if authority.as_str().contains('@') {
        return Err("the address may not contain a user name".to_owned());
    }
    let host = authority.host().parse().map_err(|error: super::RuleError| error.to_string())?;
    let port = match (authority.port_u16(), default) {
        (Some(port), _) if port > 0 => port,
        // The default port is used only if nothing follows the host. A text after it that is not a valid port is an
        // error.
        (None, Some(default)) if authority.as_str() == authority.host() => default,
        _ => return Err("the address names no port from 1 to 65535".to_owned()),
    };
    Ok((host, port))
}

/// Rewrites a request for its server: only the path, the host of the address instead of the `Host` header, and no
/// headers that are meant for the proxy.
///
/// # Errors
///
/// Returns a description if the path or the host cannot be put into a request.
pub(crate) fn rewrite_for_server(parts: &mut Parts) -> Result<(), String> {
    let authority = parts.uri.authority().map(ToString::to_string).unwrap_or_default();
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    // `OPTIONS http://host` without a path would ask about the whole server. The path `/` is sent for it as for every
    // other method.
    let path = if path.starts_with('?') { format!("/{path}") } else { path.to_owned() };
    parts.uri = path.parse::<Uri>().map_err(|error| error.to_string())?;
    strip_hop_headers(&mut parts.headers);
    parts.headers.remove(header::EXPECT);
    let host = HeaderValue::from_str(&authority).map_err(|error| error.to_string())?;
    parts.headers.insert(header::HOST, host);
    parts.version = axum::http::Version::HTTP_11;
    Ok(())
}

/// Removes the headers that apply to a single connection only.
pub(crate) fn strip_hop_headers(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        // A `Connection` header must not remove the body's length or the host.
        .filter(|name| *name != header::CONTENT_LENGTH && *name != header::HOST)
        .collect();
    for name in named {
        headers.remove(name);
    }
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
}

const HOP_BY_HOP: [&str; 10] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
];

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    fn parts(method: &str, uri: &str) -> Option<Parts> {
        Some(Request::builder().method(method).uri(uri).body(()).ok()?.into_parts().0)
    }

    #[test]
    fn the_target_comes_from_the_request_address_alone() {
        for (method, uri, host, port) in [
            ("CONNECT", "example.org:443", "example.org", 443),
            ("CONNECT", "EXAMPLE.org.:22", "example.org", 22),
            ("CONNECT", "[2606:4700:4700::1111]:443", "[2606:4700:4700::1111]", 443),
            ("GET", "http://example.org", "example.org", 80),
            ("GET", "http://example.org/a?b", "example.org", 80),
            ("POST", "http://example.org:8080/", "example.org", 8080),
            ("GET", "http://127.0.0.1/", "127.0.0.1", 80),
        ] {
            let target = target(&parts(method, uri).unwrap()).unwrap();
            assert_eq!(target, (host.parse().unwrap(), port), "{method} {uri}");
        }
        for (method, uri) in [
            ("GET", "/"),
            ("GET", "*"),
            ("GET", "https://example.org/"),
            ("GET", "ftp://example.org/"),
            ("GET", "http://user@example.org/"),
            ("GET", "http://example.org:0/"),
            ("GET", "http://example.org:/"),
            ("GET", "http://example.org:99999/"),
            ("GET", "http://2130706433/"),
            ("GET", "http://0x7f.1/"),
            ("CONNECT", "example.org"),
            ("CONNECT", "example.org:0"),
            ("CONNECT", "user@example.org:443"),
            ("CONNECT", "http://example.org:443"),
        ] {
            // A text that is no address at all is refused before it reaches this function.
            let Some(parts) = parts(method, uri) else { continue };
            assert!(target(&parts).is_err(), "{method} {uri}");
        }
    }

    #[test]
    fn a_forwarded_request_has_the_servers_host_and_no_proxy_headers() {
        let mut parts = parts("GET", "http://example.org:8080?q").unwrap();
        for (name, value) in [
            ("host", "internal.example"),
            ("connection", "close, x-once, content-length"),
            ("x-once", "1"),
            ("proxy-authorization", "secret"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("content-length", "3"),
            ("accept", "*/*"),
        ] {
            parts.headers.append(name, value.parse().unwrap());
        }
        rewrite_for_server(&mut parts).unwrap();
        assert_eq!(parts.uri, "/?q");
        let mut left: Vec<(&str, &str)> =
            parts.headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        left.sort_unstable();
        assert_eq!(left, [("accept", "*/*"), ("content-length", "3"), ("host", "example.org:8080")]);
    }
}

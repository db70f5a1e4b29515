//! The cookie of a browser that is signed in.

use axum::http::{HeaderMap, header};

use super::oidc;

/// Returns the name of the cookie. A browser sends a cookie to every port of a host, so the gateways of two homes need
/// cookies of different names.
fn name(port: u16) -> String {
    format!("flock_{port}")
}

/// Returns the name of the cookie of a sign-in at a provider that has begun.
fn oidc_name(port: u16) -> String {
    format!("flock_oidc_{port}")
}

/// Returns the value of the gateway's cookie in a request.
pub(crate) fn value(headers: &HeaderMap, port: u16) -> Option<&str> {
    named(headers, &name(port))
}

/// Returns the value of the cookie of a sign-in at a provider.
pub(crate) fn oidc_value(headers: &HeaderMap, port: u16) -> Option<&str> {
    named(headers, &oidc_name(port))
}

fn named<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(';')).find_map(|pair| {
        let (found, value) = pair.trim().split_once('=')?;
        (found == name).then_some(value)
    })
}

/// Returns the `Set-Cookie` header that gives a browser its cookie. `secure` is for a page that came over HTTPS.
pub(crate) fn set(port: u16, value: &str, secure: bool) -> String {
    // Its own limits are shorter, so the browser may keep it for as long as it can be good at all.
    let age = crate::store::SIGN_IN_LIFETIME / 1000;
    let secure = if secure { "; Secure" } else { "" };
    format!("{}={value}; HttpOnly; SameSite=Strict; Path=/; Max-Age={age}{secure}", name(port))
}

/// Returns the `Set-Cookie` header for the sign-in that begins at a provider. The browser brings it back when the provider leads
/// it back, which is a navigation from another site: so it is not strict. Without a value the cookie ends.
pub(crate) fn set_oidc(port: u16, value: Option<&str>, secure: bool) -> String {
    let age = if value.is_some() { oidc::COOKIE_AGE } else { 0 };
    let secure = if secure { "; Secure" } else { "" };
    let (name, value) = (oidc_name(port), value.unwrap_or_default());
    format!("{name}={value}; HttpOnly; SameSite=Lax; Path={}; Max-Age={age}{secure}", oidc::BEGIN_PATH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cookie_of_this_gateway_is_found_among_others() {
        let mut headers = HeaderMap::new();
        headers.append(header::COOKIE, "a=b; flock_37790=x".parse().unwrap());
        headers.append(header::COOKIE, "xflock_3779=y;flock_3779=right; c".parse().unwrap());
        assert_eq!(value(&headers, 3779), Some("right"));
        assert_eq!(value(&headers, 3780), None);
    }

    #[test]
    fn no_script_and_no_other_site_gets_the_cookie() {
        let set = set(3779, "v", true);
        for part in ["flock_3779=v;", "HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=2592000", "Secure"] {
            assert!(set.contains(part), "{set}");
        }
        assert!(!super::set(3779, "v", false).contains("Secure"));
    }
}

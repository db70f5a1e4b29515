//! The cookie of a browser that is signed in.

use axum::http::{HeaderMap, header};

use super::oidc;
use crate::store::token_hash;

/// The names of a gateway's cookies.
#[derive(Debug)]
pub(crate) struct CookieNames {
    /// The name for a browser that is signed in.
    session: String,
    /// The name for a sign-in at a provider that has begun.
    oidc: String,
}

impl CookieNames {
    /// Returns the names for a gateway at this port. `group` is the mark of its group, if it is in one.
    ///
    /// A browser sends a cookie to every port of a host, so the gateways of two homes need cookies of different names. Those
    /// of a group are reached at one address, so a browser that one of them signed in needs a name that all of them know.
    pub(crate) fn new(port: u16, group: Option<&str>) -> Self {
        // A port has at most five digits, so the two kinds of names are never the same.
        let of = group.map_or_else(|| port.to_string(), |mark| token_hash(mark.as_bytes())[..16].to_owned());
        Self { session: format!("flock_{of}"), oidc: format!("flock_oidc_{of}") }
    }

    /// Returns the value of the gateway's cookie in a request.
    pub(crate) fn value<'h>(&self, headers: &'h HeaderMap) -> Option<&'h str> {
        named(headers, &self.session)
    }

    /// Returns the value of the cookie of a sign-in at a provider.
    pub(crate) fn oidc_value<'h>(&self, headers: &'h HeaderMap) -> Option<&'h str> {
        named(headers, &self.oidc)
    }

    /// Returns the `Set-Cookie` header that gives a browser its cookie. `secure` is for a page that came over HTTPS.
    pub(crate) fn set(&self, value: &str, secure: bool) -> String {
        // Its own limits are shorter, so the browser may keep it for as long as it can be good at all.
        let age = crate::store::SIGN_IN_LIFETIME / 1000;
        let secure = if secure { "; Secure" } else { "" };
        format!("{}={value}; HttpOnly; SameSite=Strict; Path=/; Max-Age={age}{secure}", self.session)
    }

    /// Returns the `Set-Cookie` header for the sign-in that begins at a provider. The browser brings it back when the provider
    /// leads it back, which is a navigation from another site: so it is not strict. Without a value the cookie ends.
    pub(crate) fn set_oidc(&self, value: Option<&str>, secure: bool) -> String {
        let age = if value.is_some() { oidc::COOKIE_AGE } else { 0 };
        let secure = if secure { "; Secure" } else { "" };
        let (name, value) = (&self.oidc, value.unwrap_or_default());
        format!("{name}={value}; HttpOnly; SameSite=Lax; Path={}; Max-Age={age}{secure}", oidc::BEGIN_PATH)
    }
}

fn named<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(';')).find_map(|pair| {
        let (found, value) = pair.trim().split_once('=')?;
        (found == name).then_some(value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cookie_of_this_gateway_is_found_among_others() {
        let mut headers = HeaderMap::new();
        headers.append(header::COOKIE, "a=b; flock_37790=x".parse().unwrap());
        headers.append(header::COOKIE, "xflock_3779=y;flock_3779=right; c".parse().unwrap());
        let value = |port, group| CookieNames::new(port, group).value(&headers);
        assert_eq!(value(3779, None), Some("right"));
        assert_eq!(value(3780, None), None);
        assert_eq!(value(3779, Some("one")), None);
    }

    #[test]
    fn the_gateways_of_a_group_have_one_name_and_no_others_have_it() {
        let names = |port, group| {
            let CookieNames { session, oidc } = CookieNames::new(port, group);
            [session, oidc]
        };
        assert_eq!(names(3779, Some("one")), names(3780, Some("one")));
        let different =
            [names(3779, None), names(3780, None), names(3779, Some("one")), names(3779, Some("two"))];
        let different: std::collections::BTreeSet<_> = different.concat().into_iter().collect();
        assert_eq!(different.len(), 8);
        // The mark itself is in no cookie.
        let mark = "0123456789abcdef0123456789abcdef";
        assert!(names(3779, Some(mark)).iter().all(|name| !name.contains(&mark[..8])));
    }

    #[test]
    fn no_script_and_no_other_site_gets_the_cookie() {
        let names = CookieNames::new(3779, None);
        let set = names.set("v", true);
        for part in ["flock_3779=v;", "HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=2592000", "Secure"] {
            assert!(set.contains(part), "{set}");
        }
        assert!(!names.set("v", false).contains("Secure"));
    }
}

//! The `dashboard.oidc` block: the provider of OpenID Connect at which people sign in to the dashboard.

use std::net::IpAddr;
use std::sync::Arc;

use axum::http::Uri;

use super::secret;
use super::view::{Problem, View};

/// The name of the secret with the client's secret, unless another one is named.
const SECRET: &str = "oidc.client";
/// The scopes that are asked for, unless other ones are set.
const SCOPES: [&str; 2] = ["openid", "email"];
/// Most scopes.
const MAX_SCOPES: usize = 16;
/// Most bytes of an issuer or of the id of a client.
const MAX_TEXT: usize = 512;

/// The provider of OpenID Connect, and what flock is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OidcSettings {
    /// The provider, as it names itself.
    pub issuer: String,
    /// The id of flock as a client.
    pub client_id: String,
    /// A reference to the client's secret, such as `secret:oidc.client`. `None` for a client without one.
    pub client_secret: Option<String>,
    /// The scopes that are asked for, `openid` among them.
    pub scopes: Vec<String>,
    /// The provider's name on the sign-in page.
    pub name: String,
    /// `true` if the provider may be on this machine or in one of its networks.
    pub allow_local: bool,
}

/// Reads the block. `None` if there is no issuer.
pub(super) fn oidc(view: &View<'_>) -> Result<Option<Arc<OidcSettings>>, Problem> {
    view.only(&["issuer", "clientId", "clientSecret", "scopes", "name", "allowLocal"])?;
    // Every key is looked up, also if there is no issuer: one that is never looked up counts as unknown.
    let issuer = view.get("issuer")?.text_if(
        is_issuer,
        "must be an https address without a query, as in \"https://login.example.org\"; http is for this machine alone",
    )?;
    let id_at = view.get("clientId")?;
    let client_id = id_at.text_if(is_client, "must be the id that the provider gave flock")?;
    let secret_at = view.get("clientSecret")?;
    let client_secret = secret_at.text_if(
        secret::is_reference,
        &format!("must be a reference such as \"secret:{SECRET}\": flock config set moves it"),
    )?;
    let scopes_at = view.get("scopes")?;
    let mut scopes = scopes_at.texts()?;
    if scopes.len() > MAX_SCOPES || !scopes.iter().all(|scope| is_scope(scope)) {
        return Err(scopes_at.problem("must hold at most 16 scopes"));
    }
    let name = view.get("name")?.text_if(is_name, "must be a name of 1 to 40 characters")?;
    let allow_local = view.get("allowLocal")?.flag()?.unwrap_or(false);
    let Some(issuer) = issuer else { return Ok(None) };
    let client_id = client_id.ok_or_else(|| id_at.problem("is missing"))?;
    if scopes.is_empty() {
        scopes = SCOPES.map(str::to_owned).to_vec();
    }
    if !scopes.iter().any(|scope| scope == "openid") {
        scopes.insert(0, "openid".to_owned());
    }
    Ok(Some(Arc::new(OidcSettings {
        name: name.unwrap_or_else(|| host(&issuer).unwrap_or_default()),
        allow_local: allow_local || is_on_this_machine(&issuer),
        issuer,
        client_id,
        client_secret,
        scopes,
    })))
}

/// Returns the name of the secret for the client's secret, as in `….dashboard.oidc.clientSecret`.
pub(super) fn client_secret(way: &[String]) -> Option<String> {
    let [.., "dashboard", "oidc", "clientSecret"] = way.iter().map(String::as_str).collect::<Vec<_>>()[..]
    else {
        return None;
    };
    Some(SECRET.to_owned())
}

/// Returns `true` if an address leads to this machine itself.
#[must_use]
pub(crate) fn is_on_this_machine(address: &str) -> bool {
    let Some(host) = host(address) else { return false };
    match host.trim_matches(['[', ']']).parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    }
}

fn host(address: &str) -> Option<String> {
    address.parse::<Uri>().ok()?.host().map(str::to_owned)
}

fn is_issuer(text: &str) -> bool {
    let is_plain = text.len() <= MAX_TEXT && !text.contains(['@', '?', '#', '\\']) && host(text).is_some();
    is_plain && (text.starts_with("https://") || (text.starts_with("http://") && is_on_this_machine(text)))
}

fn is_client(text: &str) -> bool {
    (1..=MAX_TEXT).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Returns `true` if a text is a scope (RFC 6749, section 3.3).
fn is_scope(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
    (1..=100).contains(&text.len()) && text.bytes().all(is_part)
}

fn is_name(text: &str) -> bool {
    (1..=40).contains(&text.chars().count()) && !text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_issuer_has_https_or_is_on_this_machine() {
        for good in [
            "https://login.example.org",
            "https://login.example.org/realms/team",
            "https://login:8443/",
            "http://127.0.0.1:8080",
            "http://localhost/realms/x",
            "http://[::1]:9",
        ] {
            assert!(is_issuer(good), "{good}");
        }
        for wrong in [
            "http://login.example.org",
            "http://127.0.0.1.example.org",
            "http://10.0.0.5",
            "https://",
            "https://a?b",
            "https://a#b",
            "https://user@a",
            "login.example.org",
            "ftp://a",
            "",
        ] {
            assert!(!is_issuer(wrong), "{wrong}");
        }
    }
}

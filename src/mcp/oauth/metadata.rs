//! The documents that say how to sign in: that of the MCP server (RFC 9728) and that of its authorization server (RFC 8414,
//! OpenID Connect Discovery). They are the texts of strangers: this decides what is believed. Pure.

use reqwest::Url;
use serde::Deserialize;

use super::tokens::ClientAuth;

/// The document of an MCP server.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ResourceMetadata {
    pub resource: Option<String>,
    pub authorization_servers: Option<Vec<String>>,
    pub scopes_supported: Option<Vec<String>>,
}

/// The document of an authorization server.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct AuthorizationMetadata {
    pub issuer: Option<String>,
    pub authorization_endpoint: Option<String>,
    pub token_endpoint: Option<String>,
    pub registration_endpoint: Option<String>,
    pub revocation_endpoint: Option<String>,
    pub scopes_supported: Option<Vec<String>>,
    pub response_types_supported: Option<Vec<String>>,
    pub grant_types_supported: Option<Vec<String>>,
    pub code_challenge_methods_supported: Option<Vec<String>>,
    pub token_endpoint_auth_methods_supported: Option<Vec<String>>,
    pub authorization_response_iss_parameter_supported: Option<bool>,
    pub client_id_metadata_document_supported: Option<bool>,
    /// The place of the keys with which a provider of OpenID Connect signs.
    pub jwks_uri: Option<String>,
}

/// The name that an authorization server must have.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ExpectedIssuer<'a> {
    /// This one, as the MCP server names it.
    Exactly(&'a str),
    /// Any on this server. Servers of 2025-03-26 are their own authorization servers and do not say which.
    On(&'a Url),
}

/// Returns the places where the document of an MCP server can be, if the server does not say.
pub(super) fn resource_places(server: &Url) -> Vec<Url> {
    well_known(server, &["oauth-protected-resource"], false)
}

/// Returns the places where the document of an authorization server can be.
pub(super) fn authorization_places(issuer: &Url) -> Vec<Url> {
    let mut places = well_known(issuer, &["oauth-authorization-server", "openid-configuration"], true);
    let path = issuer.path().trim_end_matches('/');
    if !path.is_empty() {
        places.push(at(issuer, &format!("{path}/.well-known/openid-configuration")));
    }
    places
}

/// Returns the well-known places with the path behind them, and those without it. With `only_path`, a path is not left out.
fn well_known(url: &Url, names: &[&str], only_path: bool) -> Vec<Url> {
    let path = url.path().trim_end_matches('/');
    let mut places: Vec<Url> =
        names.iter().map(|name| at(url, &format!("/.well-known/{name}{path}"))).collect();
    if !path.is_empty() && !only_path {
        places.extend(names.iter().map(|name| at(url, &format!("/.well-known/{name}"))));
    }
    places
}

fn at(url: &Url, path: &str) -> Url {
    let mut place = url.clone();
    place.set_path(path);
    place.set_query(None);
    place.set_fragment(None);
    place
}

/// Returns the places that servers of 2025-03-26 without any document have.
pub(super) fn default_places(server: &Url) -> AuthorizationMetadata {
    let place = |path: &str| Some(at(server, path).to_string());
    AuthorizationMetadata {
        authorization_endpoint: place("/authorize"),
        token_endpoint: place("/token"),
        registration_endpoint: place("/register"),
        code_challenge_methods_supported: Some(vec!["S256".to_owned()]),
        ..AuthorizationMetadata::default()
    }
}

impl ResourceMetadata {
    /// Returns what the tokens are for, if the document is about this server: its URL, or one above it.
    ///
    /// # Errors
    ///
    /// Returns the reason why it is about something else.
    pub fn resource_for(&self, server: &Url) -> Result<String, String> {
        let named = self.resource.as_deref().ok_or("the description of its sign-in names no resource")?;
        let other = || format!("the description of its sign-in is that of another server, {named:?}");
        let resource: Url = named.parse().map_err(|_| other())?;
        let below = server.path().strip_prefix(resource.path());
        let is_above = below
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || resource.path().ends_with('/'));
        let is_same = resource.origin() == server.origin() && resource.origin().is_tuple();
        if is_same && is_above && resource.fragment().is_none() { Ok(named.to_owned()) } else { Err(other()) }
    }
}

impl AuthorizationMetadata {
    /// Returns the issuer that the document is from.
    ///
    /// # Errors
    ///
    /// Returns the reason why it can't be believed.
    pub fn issuer_as(&self, expected: ExpectedIssuer<'_>) -> Result<String, String> {
        let issuer =
            self.issuer.as_deref().ok_or("the description of the authorization server has no issuer")?;
        let is_expected = match expected {
            // Many write the root of a server with a slash here and without it there.
            ExpectedIssuer::Exactly(name) => root_trimmed(issuer) == root_trimmed(name),
            ExpectedIssuer::On(server) => {
                issuer.parse::<Url>().is_ok_and(|issuer| issuer.origin() == server.origin())
            }
        };
        if is_expected {
            return Ok(issuer.to_owned());
        }
        Err(format!("the description of the authorization server is that of another one, {issuer:?}"))
    }

    /// Checks that flock can sign in there.
    ///
    /// # Errors
    ///
    /// Returns what is missing.
    pub fn check(&self) -> Result<(), String> {
        if has(self.code_challenge_methods_supported.as_ref(), "S256") != Some(true) {
            return Err("the authorization server does not say that it supports PKCE with S256".to_owned());
        }
        self.check_codes()
    }

    /// Checks that flock can sign people in there. Providers of OpenID Connect that support PKCE need not say so. Without it,
    /// the nonce in the token still binds it to the sign-in.
    ///
    /// # Errors
    ///
    /// Returns what is missing.
    pub fn check_provider(&self) -> Result<(), String> {
        if has(self.code_challenge_methods_supported.as_ref(), "S256") == Some(false) {
            return Err("the provider supports PKCE, but not with S256".to_owned());
        }
        self.check_codes()
    }

    fn check_codes(&self) -> Result<(), String> {
        if has(self.response_types_supported.as_ref(), "code") == Some(false)
            || has(self.grant_types_supported.as_ref(), "authorization_code") == Some(false)
        {
            return Err("the authorization server does not give authorization codes".to_owned());
        }
        Ok(())
    }

    /// Returns the way in which a client with a secret proves who it is.
    pub fn auth_with_secret(&self) -> ClientAuth {
        let supports =
            |method: &str| has(self.token_endpoint_auth_methods_supported.as_ref(), method) == Some(true);
        // Basic is what a server has that says nothing (RFC 8414).
        if supports("client_secret_post") && !supports("client_secret_basic") {
            ClientAuth::Post
        } else {
            ClientAuth::Basic
        }
    }

    /// Returns `true` if an answer of the authorization endpoint has to name the issuer (RFC 9207).
    pub fn names_issuer(&self) -> bool {
        self.authorization_response_iss_parameter_supported == Some(true)
    }
}

/// Returns whether a list has a word. `None` if there is no list.
fn has(list: Option<&Vec<String>>, word: &str) -> Option<bool> {
    list.map(|list| list.iter().any(|listed| listed == word))
}

/// Returns the name of an issuer without the slash that stands for no path.
fn root_trimmed(issuer: &str) -> &str {
    let without = issuer.strip_suffix('/').unwrap_or(issuer);
    let is_root = without.split_once("://").is_some_and(|(_, host)| !host.contains('/'));
    if is_root { without } else { issuer }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(places: Vec<Url>) -> Vec<String> {
        places.into_iter().map(|url| url.to_string().replace("https://a.example", "")).collect()
    }

    #[test]
    fn documents_are_looked_for_where_the_standards_say() {
        let url = |path: &str| format!("https://a.example{path}").parse::<Url>().unwrap();
        assert_eq!(
            texts(resource_places(&url("/x/mcp?a=b"))),
            ["/.well-known/oauth-protected-resource/x/mcp", "/.well-known/oauth-protected-resource"]
        );
        assert_eq!(texts(resource_places(&url("/"))), ["/.well-known/oauth-protected-resource"]);
        assert_eq!(
            texts(authorization_places(&url("/tenant"))),
            [
                "/.well-known/oauth-authorization-server/tenant",
                "/.well-known/openid-configuration/tenant",
                "/tenant/.well-known/openid-configuration"
            ]
        );
        assert_eq!(
            texts(authorization_places(&url(""))),
            ["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"]
        );
    }

    #[test]
    fn a_document_about_another_server_is_refused() {
        let server: Url = "https://a.example/x/mcp".parse().unwrap();
        let fits = |resource: &str| {
            let document =
                ResourceMetadata { resource: Some(resource.to_owned()), ..ResourceMetadata::default() };
            document.resource_for(&server).is_ok()
        };
        for resource in [
            "https://a.example/x/mcp",
            "https://a.example/x",
            "https://a.example",
            "https://a.example:443/x/",
        ] {
            assert!(fits(resource), "{resource}");
        }
        for resource in [
            "https://b.example/x/mcp",
            "http://a.example/x/mcp",
            "https://a.example:444/x/mcp",
            "https://a.example/x/mc",
            "https://a.example/x/mcp/y",
            "https://a.example/x/mcp#y",
            "mailto:a@a.example",
            "",
        ] {
            assert!(!fits(resource), "{resource}");
        }
        assert!(ResourceMetadata::default().resource_for(&server).is_err());
    }

    #[test]
    fn an_authorization_server_must_be_the_one_that_was_named_and_know_pkce() {
        let named = |issuer: &str| AuthorizationMetadata {
            issuer: Some(issuer.to_owned()),
            code_challenge_methods_supported: Some(vec!["plain".to_owned(), "S256".to_owned()]),
            ..AuthorizationMetadata::default()
        };
        let exactly = ExpectedIssuer::Exactly("https://a.example");
        assert!(named("https://a.example/").issuer_as(exactly).is_ok());
        for issuer in ["https://b.example", "https://a.example/tenant", "http://a.example", ""] {
            assert!(named(issuer).issuer_as(exactly).is_err(), "{issuer}");
        }
        let tenant = ExpectedIssuer::Exactly("https://a.example/t");
        assert!(named("https://a.example/t/").issuer_as(tenant).is_err());
        let server: Url = "https://a.example/mcp".parse().unwrap();
        assert!(named("https://a.example/oauth").issuer_as(ExpectedIssuer::On(&server)).is_ok());
        assert!(named("https://b.example").issuer_as(ExpectedIssuer::On(&server)).is_err());
        assert!(AuthorizationMetadata::default().issuer_as(exactly).is_err());
        assert!(named("x").check().is_ok());
        for methods in [None, Some(vec!["plain".to_owned()])] {
            let without = AuthorizationMetadata { code_challenge_methods_supported: methods, ..named("x") };
            assert!(without.check().is_err());
        }
        let implicit =
            AuthorizationMetadata { response_types_supported: Some(vec!["token".to_owned()]), ..named("x") };
        assert!(implicit.check().is_err());
    }
}

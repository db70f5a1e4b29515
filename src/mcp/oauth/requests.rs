//! The requests of a sign-in. The server names the places that they go to, so each place is checked as the server's own
//! address is, no redirect is followed, and answers are bounded.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{self, HeaderValue};
use reqwest::{Client, RequestBuilder, Url};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::tokens::{ClientAuth, OAuthClient};
use crate::config::{McpRemote, McpServer};
use crate::error::chain;
use crate::mcp::error::McpError;
use crate::mcp::remote;
use crate::secret_text::HIDDEN;
use crate::tool::safe_text;

/// The most bytes of an answer.
const MAX_ANSWER: usize = 256 << 10;
/// The longest time of one request.
const REQUEST_TIME: Duration = Duration::from_secs(30);
/// The most bytes of an address.
const MAX_ADDRESS: usize = 2 << 10;
/// The most characters of a reason of the authorization server.
const MAX_REASON: usize = 300;

/// Sends the requests of a sign-in.
#[derive(Clone)]
pub(crate) struct Requests {
    http: Client,
    allow_local: bool,
    /// Set if every place must have TLS because the server has it.
    is_secure: bool,
}

/// An answer that was read.
pub(crate) struct Answer {
    pub status: u16,
    body: Vec<u8>,
}

impl Answer {
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Returns the answer if it is JSON of this form.
    pub fn json<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_slice(&self.body).ok()
    }

    /// Returns the kind of the error (RFC 6749, section 5.2).
    pub fn error(&self) -> Option<String> {
        let error = self.json::<Value>()?["error"].as_str()?.to_owned();
        Some(crate::clean::summary(&error, 60))
    }

    /// Returns the reason of a refusal for a person, without the secrets that were sent.
    pub fn reason(&self, sent: &[&str]) -> String {
        let body = self.json::<Value>().unwrap_or_default();
        let part = |name: &str| body[name].as_str().unwrap_or_default();
        reason(self.status, part("error"), part("error_description"), sent)
    }
}

fn reason(status: u16, error: &str, description: &str, sent: &[&str]) -> String {
    match (error, description) {
        ("", "") => format!("HTTP {status}"),
        (error, "") => shown(error, sent),
        (error, description) => format!("{}: {}", shown(error, sent), shown(description, sent)),
    }
}

/// Returns a text of the authorization server for a person, without the secrets that it was sent.
pub(crate) fn shown(text: &str, sent: &[&str]) -> String {
    let mut text = text.to_owned();
    for secret in sent.iter().filter(|secret| !secret.is_empty()) {
        text = text.replace(secret, HIDDEN);
    }
    crate::clean::summary(&safe_text::harmless(&text), MAX_REASON)
}

impl Requests {
    /// Returns what sends the requests of a server's sign-in.
    ///
    /// # Errors
    ///
    /// Returns an error if the server's own address is not allowed.
    pub async fn new(server: &McpServer, remote: &McpRemote) -> Result<Self, McpError> {
        let http = remote::client_for(&server.name, remote).await?;
        Ok(Self::with(http, remote))
    }

    /// Returns what sends the requests with this client, which must be one of [`remote::client_for`].
    pub fn with(http: Client, remote: &McpRemote) -> Self {
        let is_secure = !remote.url.starts_with("http://");
        Self { http, allow_local: remote.allow_local, is_secure }
    }

    /// Returns what sends the requests of a sign-in that begins at this address. Without `allow_local`, nothing goes to this
    /// machine or its networks.
    ///
    /// # Errors
    ///
    /// Returns the reason if there can't be such a client.
    pub async fn beginning_at(address: &str, allow_local: bool) -> Result<Self, String> {
        let is_secure = !address.starts_with("http://");
        // Loading the root certificates blocks.
        let built = tokio::task::spawn_blocking(move || remote::client(allow_local)).await;
        let http = built.map_err(|_| "a defect stopped it".to_owned())??;
        Ok(Self { http, allow_local, is_secure })
    }

    /// Returns an address that a document names, if flock may send something there.
    ///
    /// # Errors
    ///
    /// Returns the reason why it may not.
    pub fn place(&self, text: &str) -> Result<Url, String> {
        let problem =
            |why: &str| format!("the address {:?} of the sign-in is refused: {why}", shown(text, &[]));
        if text.len() > MAX_ADDRESS {
            return Err(problem("it is too long"));
        }
        let url: Url = text.parse().map_err(|_| problem("it is no address"))?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err(problem("it is no address of the web"));
        }
        if self.is_secure && url.scheme() != "https" {
            return Err(problem("it does not begin with https://"));
        }
        if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
            return Err(problem("it has a user or a fragment"));
        }
        remote::check_url(&url, self.allow_local).map_err(|why| problem(&why))?;
        Ok(url)
    }

    /// Asks for a document.
    ///
    /// # Errors
    ///
    /// Returns the reason if the place is not allowed, or nothing answers there.
    pub async fn get(&self, url: &Url) -> Result<Answer, String> {
        let url = self.place(url.as_str())?;
        self.send(self.http.get(url.clone()), &url).await
    }

    /// Sends a document.
    ///
    /// # Errors
    ///
    /// Returns the reason if the place is not allowed, or nothing answers there.
    pub async fn post_json(&self, place: &str, document: &Value) -> Result<Answer, String> {
        let url = self.place(place)?;
        let request = self.http.post(url.clone()).header(header::CONTENT_TYPE, "application/json");
        self.send(request.body(document.to_string()), &url).await
    }

    /// Sends a form as a client of the authorization server.
    ///
    /// # Errors
    ///
    /// Returns the reason if the place is not allowed, or nothing answers there.
    pub async fn post_form(
        &self,
        place: &str,
        form: &[(&str, &str)],
        client: &OAuthClient,
    ) -> Result<Answer, String> {
        let url = self.place(place)?;
        let (body, authorization) = authenticated(form, client);
        let mut request = self.http.post(url.clone());
        if let Some(value) = authorization {
            request = request.header(header::AUTHORIZATION, value);
        }
        let request = request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        self.send(request.body(body), &url).await
    }

    async fn send(&self, request: RequestBuilder, url: &Url) -> Result<Answer, String> {
        let host = url.host_str().unwrap_or_default();
        // Addresses can have secrets in their queries, and errors of this kind may reach a log.
        let failed =
            |error: reqwest::Error| format!("{host} can't be asked: {}", chain(&error.without_url()));
        let request = request.header(header::ACCEPT, "application/json").timeout(REQUEST_TIME);
        let mut answer = request.send().await.map_err(failed)?;
        let status = answer.status().as_u16();
        let mut body = Vec::new();
        while let Some(piece) = answer.chunk().await.map_err(failed)? {
            if body.len() + piece.len() > MAX_ANSWER {
                return Err(format!("{host} answers with more than {} KiB", MAX_ANSWER >> 10));
            }
            body.extend_from_slice(&piece);
        }
        Ok(Answer { status, body })
    }
}

/// Returns the body of a form, and the header for clients that prove themselves by one.
fn authenticated(form: &[(&str, &str)], client: &OAuthClient) -> (String, Option<HeaderValue>) {
    let mut body = form_urlencoded::Serializer::new(String::new());
    body.extend_pairs(form);
    let secret = client.secret.as_deref().unwrap_or_default();
    if client.auth == ClientAuth::Basic {
        let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
        let pair = STANDARD.encode(format!("{}:{}", encoded(&client.id), encoded(secret)));
        let mut value = HeaderValue::try_from(format!("Basic {pair}")).ok();
        value.iter_mut().for_each(|value| value.set_sensitive(true));
        return (body.finish(), value);
    }
    body.append_pair("client_id", &client.id);
    if client.auth == ClientAuth::Post {
        body.append_pair("client_secret", secret);
    }
    (body.finish(), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_has_no_secret_and_nothing_that_a_terminal_would_interpret() {
        let text =
            reason(400, "invalid_grant", "the token \u{1b}[31mrefresh-4711 is old", &["refresh-4711", ""]);
        assert!(text.starts_with("invalid_grant: the token"), "{text}");
        assert!(!text.contains("4711") && !text.contains('\u{1b}') && text.contains("[key]"), "{text}");
        assert_eq!(reason(502, "", "", &[]), "HTTP 502");
    }
}

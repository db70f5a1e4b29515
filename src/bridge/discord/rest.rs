//! Sends requests of Discord's REST API.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, StatusCode, redirect};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::limits::{RateLimits, Route};
use super::refusal::{self, Failure};
use crate::bridge::platform::PlatformError;
use crate::error::chain;

/// The public address of Discord.
const ADDRESS: &str = "https://discord.com";
const VERSION: &str = "/api/v10";
/// Discord refuses requests whose agent does not have this form.
const AGENT: &str = concat!("DiscordBot (flock, ", env!("CARGO_PKG_VERSION"), ")");
/// The longest silence within an answer.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest that a request takes, with its files.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Largest answer that is read.
const MAX_ANSWER: usize = 16 << 20;

/// A request. Its path may hold a secret, so it is shown nowhere.
pub(super) struct Request {
    pub(super) method: Method,
    /// The path with empty braces in place of ids. The limits of a bucket belong to it.
    pub(super) route: &'static str,
    /// The ids in place of the braces.
    pub(super) ids: Vec<String>,
    pub(super) query: String,
    pub(super) body: Body,
    /// Set if the path has a secret, in place of the token.
    pub(super) has_own_secret: bool,
    /// The permission without which Discord refuses the request, as Discord calls it.
    pub(super) needs: &'static str,
}

/// The body of a request.
pub(super) enum Body {
    None,
    Json(Value),
    /// A form with files, and its type.
    Form {
        kind: String,
        content: Vec<u8>,
    },
}

impl Request {
    pub(super) fn new(method: Method, route: &'static str, ids: &[&str]) -> Self {
        Self {
            method,
            route,
            ids: ids.iter().map(|&id| id.to_owned()).collect(),
            query: String::new(),
            body: Body::None,
            has_own_secret: false,
            needs: "View Channel",
        }
    }

    pub(super) fn get(route: &'static str, ids: &[&str]) -> Self {
        Self::new(Method::GET, route, ids)
    }

    pub(super) fn json(mut self, body: Value) -> Self {
        self.body = Body::Json(body);
        self
    }

    pub(super) fn body(mut self, body: Body) -> Self {
        self.body = body;
        self
    }

    pub(super) fn query(mut self, query: String) -> Self {
        self.query = query;
        self
    }

    pub(super) fn needs(mut self, permission: &'static str) -> Self {
        self.needs = permission;
        self
    }

    /// Sends no token: the path has a secret of its own.
    pub(super) fn with_own_secret(mut self) -> Self {
        self.has_own_secret = true;
        self
    }

    /// Returns the path. Ids from elsewhere can't leave their place in it.
    fn path(&self) -> String {
        let mut ids = self.ids.iter();
        let mut path = String::from(VERSION);
        for (number, piece) in self.route.split("{}").enumerate() {
            if number > 0 {
                path.push_str(&encoded(ids.next().map_or("", String::as_str)));
            }
            path.push_str(piece);
        }
        if !self.query.is_empty() {
            path.push('?');
            path.push_str(&self.query);
        }
        path
    }
}

/// Returns a text as one segment of a path.
pub(super) fn encoded(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'@' | b':') {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push_str(&crate::id::hex(&[byte]));
        }
        out
    })
}

/// A client for one bot.
pub(super) struct Client {
    http: reqwest::Client,
    address: String,
    token: HeaderValue,
    limits: Mutex<RateLimits>,
}

impl Client {
    /// Makes a client for the bot with this token, at the public address or at another one.
    pub(super) fn new(address: Option<&str>, token: &str) -> Result<Self, PlatformError> {
        // An error only means that a provider is already installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut token = HeaderValue::try_from(format!("Bot {token}"))
            .map_err(|_| PlatformError::Unauthorized("it is not one of Discord's".to_owned()))?;
        token.set_sensitive(true);
        let http = reqwest::Client::builder()
            .user_agent(AGENT)
            // A request carries the token, so it must not be redirected to another address.
            .redirect(redirect::Policy::none())
            .connect_timeout(Duration::from_secs(10))
            .read_timeout(READ_TIMEOUT)
            .timeout(TIMEOUT)
            .tcp_keepalive(Duration::from_secs(30))
            .build()
            .map_err(|error| PlatformError::Unavailable(chain(&error)))?;
        let address = address.unwrap_or(ADDRESS).to_owned();
        Ok(Self { http, address, token, limits: Mutex::default() })
    }

    /// Sends a request and reads its answer.
    pub(super) async fn call<T: DeserializeOwned>(&self, request: Request) -> Result<T, Failure> {
        let body = self.send(request).await?;
        let body = if body.is_empty() { b"null".as_slice() } else { &body };
        serde_json::from_slice(body)
            .map_err(|error| Failure::unavailable(format!("Discord's answer can't be read: {error}")))
    }

    /// Sends a request whose answer does not matter.
    pub(super) async fn run(&self, request: Request) -> Result<(), Failure> {
        self.send(request).await.map(drop)
    }

    async fn send(&self, request: Request) -> Result<Vec<u8>, Failure> {
        let route = (request.method.clone(), request.route);
        let major = request.ids.first().cloned().unwrap_or_default();
        if let Some(wait) = self.limits(|limits| limits.take(&route, &major, Instant::now())) {
            return Err(PlatformError::RateLimited(wait).into());
        }
        let mut sent =
            self.http.request(request.method.clone(), format!("{}{}", self.address, request.path()));
        if !request.has_own_secret {
            sent = sent.header(AUTHORIZATION, self.token.clone());
        }
        sent = match request.body {
            Body::None => sent,
            Body::Json(body) => sent.header(CONTENT_TYPE, "application/json").body(body.to_string()),
            Body::Form { kind, content } => sent.header(CONTENT_TYPE, kind).body(content),
        };
        let mut answer = sent.send().await.map_err(unavailable)?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        self.limits(|limits| limits.learn(&route, &major, &headers, Instant::now()));
        let body = read(&mut answer, MAX_ANSWER).await?;
        let body = body.ok_or_else(|| Failure::unavailable("Discord's answer is too large".to_owned()))?;
        if status.is_success() {
            return Ok(body);
        }
        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        Err(self.refused(status, &headers, &body, (&route, &major), request.needs))
    }

    fn refused(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
        body: &Value,
        (route, major): (&Route, &str),
        needs: &'static str,
    ) -> Failure {
        if status == StatusCode::TOO_MANY_REQUESTS {
            let now = Instant::now();
            let wait = self.limits(|limits| limits.refused(route, major, headers, body, now));
            return PlatformError::RateLimited(wait).into();
        }
        refusal::read(status, body, needs)
    }

    fn limits<T>(&self, act: impl FnOnce(&mut RateLimits) -> T) -> T {
        act(&mut self.limits.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Downloads a file, of at most so many bytes. The address came from Discord, and leads nowhere but to its files.
    pub(super) async fn download(&self, address: &str, most: usize) -> Result<Vec<u8>, PlatformError> {
        if !self.is_of_files(address) {
            return Err(PlatformError::Refused("the file is not at an address of Discord's".to_owned()));
        }
        let sent = self.http.get(address).send().await;
        let mut answer = sent.map_err(|error| unavailable(error).error)?;
        let status = answer.status();
        if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
            return Err(PlatformError::Unavailable(format!("the file can't be downloaded now: {status}")));
        }
        if !status.is_success() {
            return Err(PlatformError::Refused(format!("the file can't be downloaded: {status}")));
        }
        let content = read(&mut answer, most).await.map_err(|failure| failure.error)?;
        content.ok_or_else(|| PlatformError::Refused(format!("the file has more than {most} bytes")))
    }

    fn is_of_files(&self, address: &str) -> bool {
        let Ok(uri) = address.parse::<axum::http::Uri>() else { return false };
        let is_discord = uri.scheme_str() == Some("https")
            && matches!(uri.host(), Some("cdn.discordapp.com" | "media.discordapp.net"));
        // Another server than Discord's has its files itself.
        let is_own = self.address != ADDRESS
            && self
                .address
                .parse::<axum::http::Uri>()
                .is_ok_and(|own| own.scheme() == uri.scheme() && own.authority() == uri.authority());
        is_discord || is_own
    }

    /// Set if the client is not for the public address.
    pub(super) fn is_elsewhere(&self) -> bool {
        self.address != ADDRESS
    }
}

/// Reads an answer. `None` if it is longer than `most`, whatever length was announced.
async fn read(answer: &mut reqwest::Response, most: usize) -> Result<Option<Vec<u8>>, Failure> {
    let mut read = Vec::new();
    while let Some(piece) = answer.chunk().await.map_err(unavailable)? {
        if read.len() + piece.len() > most {
            return Ok(None);
        }
        read.extend_from_slice(&piece);
    }
    Ok(Some(read))
}

fn unavailable(error: reqwest::Error) -> Failure {
    // The address of a webhook is a secret.
    Failure::unavailable(chain(&error.without_url()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_stay_in_their_place_of_a_path() {
        let request = Request::get("/channels/{}/messages/{}", &["1", "../2?x"]).query("limit=1".to_owned());
        assert_eq!(request.path(), "/api/v10/channels/1/messages/%2e%2e%2f2%3fx?limit=1");
        assert_eq!(encoded("👍"), "%f0%9f%91%8d");
        assert_eq!(Request::get("/users/@me", &[]).path(), "/api/v10/users/@me");
    }

    #[test]
    fn files_are_fetched_from_discord_only() {
        let public = Client::new(None, "t").unwrap();
        assert!(public.is_of_files("https://cdn.discordapp.com/attachments/1/2/a.png?ex=1"));
        for address in [
            "http://cdn.discordapp.com/a",
            "https://cdn.discordapp.com.evil.org/a",
            "https://evil.org/cdn.discordapp.com",
            "https://discord.com/a",
            "file:///etc/passwd",
            "",
        ] {
            assert!(!public.is_of_files(address), "{address}");
        }
        let own = Client::new(Some("http://127.0.0.1:9"), "t").unwrap();
        assert!(own.is_of_files("http://127.0.0.1:9/attachments/1"));
        assert!(!own.is_of_files("http://127.0.0.1:10/attachments/1"));
    }

    #[test]
    fn a_token_that_no_header_can_hold_is_refused() {
        let refused = Client::new(None, "a\nb").err().unwrap();
        assert!(
            matches!(&refused, PlatformError::Unauthorized(why) if !why.contains('a') || !why.contains("a\n"))
        );
    }
}

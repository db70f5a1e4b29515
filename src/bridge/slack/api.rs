//! Sends requests of Slack's Web API.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use reqwest::{RequestBuilder, Response, StatusCode, Url};
use serde_json::Value;

use super::refusal;
use crate::bridge::Credentials;
use crate::bridge::platform::PlatformError;
use crate::error::chain;

/// The public address of the API.
const PUBLIC: &str = "https://slack.com/api";
/// The host of files, and its parents.
const FILES: &str = "slack.com";
/// Longest time that a request takes.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Largest answer that is read.
const MAX_ANSWER: usize = 32 << 20;
/// The error of a larger one.
const TOO_LARGE: &str = "Slack's answer is too large";
/// Messages in a page, which is the number that Slack recommends, and in one of which all may be as long as Slack allows.
const PAGES: [&str; 2] = ["200", "20"];

/// A client for one app in one workspace. It has no `Debug`, because it has the tokens.
pub(super) struct Api {
    http: reqwest::Client,
    base: Url,
    /// Set if the address is not the public one.
    is_own: bool,
    bot: HeaderValue,
    app: HeaderValue,
    scopes: Mutex<Option<BTreeSet<String>>>,
}

impl Api {
    pub(super) fn new(address: Option<&str>, credentials: &Credentials) -> Result<Self, PlatformError> {
        // An error only means that a provider is already installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .user_agent(concat!("flock/", env!("CARGO_PKG_VERSION")))
            // A request carries a token, so it must not be redirected to another address.
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(Duration::from_secs(10))
            .read_timeout(TIMEOUT)
            .tcp_keepalive(Duration::from_secs(30))
            .build()
            .map_err(|error| PlatformError::Unavailable(chain(&error)))?;
        let base = Url::parse(address.unwrap_or(PUBLIC))
            .map_err(|error| PlatformError::Refused(format!("the API's address can't be used: {error}")))?;
        if !matches!(base.scheme(), "https" | "http") {
            return Err(PlatformError::Refused("the API's address begins with https://".to_owned()));
        }
        let app = credentials.app_token.as_deref().unwrap_or_default();
        if app.is_empty() {
            return Err(PlatformError::Unauthorized("there is no app-level token (xapp-…)".to_owned()));
        }
        let (bot, app) = (bearer(&credentials.token, BOT)?, bearer(app, APP)?);
        Ok(Self { http, base, is_own: address.is_some(), bot, app, scopes: Mutex::default() })
    }

    /// Asks a method that only reads, which takes its arguments from the address and not from JSON.
    pub(super) async fn read(
        &self,
        method: &str,
        arguments: &[(&str, &str)],
    ) -> Result<Value, PlatformError> {
        let mut url = self.method(method);
        url.query_pairs_mut().extend_pairs(arguments);
        self.ask(self.http.get(url), &self.bot, BOT).await
    }

    /// Reads a page of messages. One that would be too large is read as a smaller one: whoever may write in a channel can
    /// fill it with long messages.
    pub(super) async fn page(
        &self,
        method: &str,
        arguments: &[(&str, &str)],
    ) -> Result<Value, PlatformError> {
        let [most, fewer] = PAGES.map(|limit| [arguments, &[("limit", limit)]].concat());
        match self.read(method, &most).await {
            Err(PlatformError::Unavailable(why)) if why == TOO_LARGE => self.read(method, &fewer).await,
            answer => answer,
        }
    }

    /// Asks a method that changes something.
    pub(super) async fn write(&self, method: &str, arguments: &Value) -> Result<Value, PlatformError> {
        let request =
            self.http.post(self.method(method)).header(CONTENT_TYPE, "application/json; charset=utf-8");
        self.ask(request.body(arguments.to_string()), &self.bot, BOT).await
    }

    /// Returns the address of a new connection for events. It is a secret: whoever has it gets the events.
    pub(super) async fn open_connection(&self) -> Result<Url, PlatformError> {
        let request = self.http.post(self.method("apps.connections.open"));
        let answer = self.ask(request, &self.app, APP).await?;
        let unusable = || PlatformError::Unavailable("Slack's address for events can't be used".to_owned());
        let url = Url::parse(answer["url"].as_str().unwrap_or_default()).map_err(|_| unusable())?;
        let is_safe = match url.scheme() {
            "wss" => true,
            "ws" => self.base.scheme() == "http",
            _ => false,
        };
        if is_safe && url.has_host() { Ok(url) } else { Err(unusable()) }
    }

    /// Returns the scopes of the bot token, as the last answer named them. `None` before the first answer.
    pub(super) fn scopes(&self) -> Option<BTreeSet<String>> {
        self.scopes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sends the bytes of a file to an address that Slack named for them. The address is a secret of its own, so no
    /// token goes there.
    pub(super) async fn upload(&self, address: &str, content: Vec<u8>) -> Result<(), PlatformError> {
        let url = self.file_address(address)?;
        let sent = self.http.post(url).header(CONTENT_TYPE, "application/octet-stream").body(content).send();
        let status = sent.await.map_err(unavailable)?.status();
        if status.is_success() {
            return Ok(());
        }
        Err(PlatformError::Unavailable(format!("Slack does not take a file: HTTP {}", status.as_u16())))
    }

    /// Downloads from an address of a file, with the bot token. Refused if it has more than `most` bytes.
    pub(super) async fn download(&self, address: &str, most: usize) -> Result<Vec<u8>, PlatformError> {
        let url = self.file_address(address)?;
        let answer =
            self.http.get(url).header(AUTHORIZATION, self.bot.clone()).send().await.map_err(unavailable)?;
        let status = answer.status();
        if status == StatusCode::TOO_MANY_REQUESTS {
            return Err(PlatformError::RateLimited(refusal::wait(header(&answer, RETRY_AFTER.as_str()))));
        }
        if status.is_server_error() {
            return Err(PlatformError::Unavailable(format!("Slack answers HTTP {}", status.as_u16())));
        }
        // Without the right to read the file, Slack redirects to a page for signing in, or shows it at once.
        let is_page = header(&answer, "content-type").is_some_and(|kind| kind.starts_with("text/html"))
            && !header(&answer, "content-disposition").is_some_and(|place| place.starts_with("attachment"));
        if !status.is_success() || is_page {
            let why = refusal::missing(BOT, &["files:read"]);
            return Err(PlatformError::Refused(format!("Slack does not give the file; perhaps {why}")));
        }
        bounded(answer, most)
            .await?
            .ok_or_else(|| PlatformError::Refused(format!("the file has more than {most} bytes")))
    }

    fn method(&self, method: &str) -> Url {
        let mut url = self.base.clone();
        let path = format!("{}/{method}", url.path().trim_end_matches('/'));
        url.set_path(&path);
        url
    }

    /// Checks that an address is one of Slack's files, so that neither token nor content goes anywhere else.
    fn file_address(&self, address: &str) -> Result<Url, PlatformError> {
        let url = Url::parse(address).ok();
        url.filter(|url| self.is_of_files(url))
            .ok_or_else(|| PlatformError::Refused("the file is not at Slack".to_owned()))
    }

    fn is_of_files(&self, url: &Url) -> bool {
        if self.is_own && url.origin() == self.base.origin() {
            return true;
        }
        let host = url.host_str().unwrap_or_default();
        url.scheme() == "https"
            && url.port_or_known_default() == Some(443)
            && host.strip_suffix(FILES).is_some_and(|start| start.is_empty() || start.ends_with('.'))
    }

    async fn ask(
        &self,
        request: RequestBuilder,
        token: &HeaderValue,
        kind: &'static str,
    ) -> Result<Value, PlatformError> {
        let request = request.header(AUTHORIZATION, token.clone()).timeout(TIMEOUT);
        let answer = request.send().await.map_err(unavailable)?;
        let status = answer.status();
        if status == StatusCode::TOO_MANY_REQUESTS {
            return Err(PlatformError::RateLimited(refusal::wait(header(&answer, RETRY_AFTER.as_str()))));
        }
        let scopes = header(&answer, "x-oauth-scopes").map(scopes).filter(|_| kind == BOT);
        let body = bounded(answer, MAX_ANSWER)
            .await?
            .ok_or_else(|| PlatformError::Unavailable(TOO_LARGE.to_owned()))?;
        let read: Option<Value> = serde_json::from_slice(&body).ok();
        let Some(body) = read.filter(Value::is_object) else {
            return Err(PlatformError::Unavailable(format!("Slack answers HTTP {}", status.as_u16())));
        };
        if let Some(scopes) = scopes {
            *self.scopes.lock().unwrap_or_else(PoisonError::into_inner) = Some(scopes);
        }
        if status.is_server_error() {
            return Err(PlatformError::Unavailable(format!("Slack answers HTTP {}", status.as_u16())));
        }
        if body["ok"] == true { Ok(body) } else { Err(refusal::refusal(kind, &body)) }
    }
}

/// The names of the tokens in texts of errors.
pub(super) const BOT: &str = "bot token";
pub(super) const APP: &str = "app-level token";

fn bearer(token: &str, kind: &str) -> Result<HeaderValue, PlatformError> {
    let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
        .map_err(|_| PlatformError::Unauthorized(format!("the {kind} has characters that no token has")))?;
    value.set_sensitive(true);
    Ok(value)
}

fn header<'a>(answer: &'a Response, name: &str) -> Option<&'a str> {
    answer.headers().get(name).and_then(|value| value.to_str().ok())
}

fn scopes(header: &str) -> BTreeSet<String> {
    header.split(',').map(|scope| scope.trim().to_owned()).filter(|scope| !scope.is_empty()).collect()
}

/// Reads an answer up to a number of bytes, whatever length was announced. `None` if it has more.
async fn bounded(mut answer: Response, most: usize) -> Result<Option<Vec<u8>>, PlatformError> {
    let mut read = Vec::new();
    while let Some(piece) = answer.chunk().await.map_err(unavailable)? {
        if read.len() + piece.len() > most {
            return Ok(None);
        }
        read.extend_from_slice(&piece);
    }
    Ok(Some(read))
}

/// The addresses of files and uploads are secrets, and the arguments of requests are nobody's business.
fn unavailable(error: reqwest::Error) -> PlatformError {
    PlatformError::Unavailable(chain(&error.without_url()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn api(address: Option<&str>) -> Api {
        let credentials = Credentials { token: "xoxb-1".to_owned(), app_token: Some("xapp-1".to_owned()) };
        Api::new(address, &credentials).unwrap()
    }

    #[test]
    fn a_method_is_below_the_address() {
        assert_eq!(api(None).method("auth.test").as_str(), "https://slack.com/api/auth.test");
        let own = api(Some("http://127.0.0.1:80/api/"));
        assert_eq!(own.method("auth.test").as_str(), "http://127.0.0.1/api/auth.test");
    }

    #[test]
    fn a_token_is_sent_to_slacks_files_only() {
        let (public, own) = (api(None), api(Some("http://127.0.0.1:8080/api")));
        for (address, of_public, of_own) in [
            ("https://files.slack.com/files-pri/T1-F1/a.txt", true, true),
            ("https://slack.com/x", true, true),
            ("http://files.slack.com/x", false, false),
            ("https://files.slack.com:444/x", false, false),
            ("https://files.slack.com.evil.org/x", false, false),
            ("https://evilslack.com/x", false, false),
            ("https://files.slack.com@evil.org/x", false, false),
            ("http://127.0.0.1:8080/files-pri/x", false, true),
            ("http://127.0.0.1:8081/files-pri/x", false, false),
            ("not an address", false, false),
        ] {
            assert_eq!(public.file_address(address).is_ok(), of_public, "{address}");
            assert_eq!(own.file_address(address).is_ok(), of_own, "{address}");
        }
    }

    #[test]
    fn both_tokens_are_needed_and_neither_is_repeated() {
        let credentials = |app: Option<&str>| Credentials {
            token: "xoxb-bad\ntoken".to_owned(),
            app_token: app.map(str::to_owned),
        };
        let error = Api::new(None, &credentials(Some("xapp-1"))).err().unwrap().to_string();
        assert!(error.contains("bot token") && !error.contains("xoxb"), "{error}");
        assert!(matches!(Api::new(None, &credentials(None)).err(), Some(PlatformError::Unauthorized(_))));
    }

    #[test]
    fn scopes_are_read() {
        assert_eq!(scopes("chat:write, users:read,"), ["chat:write", "users:read"].map(str::to_owned).into());
    }
}

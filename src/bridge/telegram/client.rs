//! Sends requests of the Bot API.

use std::time::Duration;

use reqwest::header::CONTENT_TYPE;
use serde_json::Value;

use crate::bridge::platform::PlatformError;
use crate::clean;
use crate::error::chain;

/// The longest that a request takes, less the time that Telegram may hold it.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The longest that a file takes.
const FILE_TIMEOUT: Duration = Duration::from_secs(300);
/// Largest answer that is read. Telegram puts at most 4 MB of updates into one.
const MAX_ANSWER: usize = 16 << 20;
/// Longest text of an error of Telegram's that is kept.
const MAX_REASON: usize = 300;
/// The longest wait that is obeyed. A longer one is not Telegram's.
const MAX_WAIT: u64 = 86_400;
/// The wait where Telegram asks for one and does not say how long.
const DEFAULT_WAIT: u64 = 5;

/// A client for one bot.
pub(super) struct Client {
    http: reqwest::Client,
    api: String,
    token: String,
}

/// A request that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The group became a supergroup, which has this id.
    Moved(i64),
    Other(PlatformError),
}

impl From<Failure> for PlatformError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Moved(to) => {
                Self::Refused(format!("the group became a supergroup, which has the id {to}"))
            }
            Failure::Other(error) => error,
        }
    }
}

impl Failure {
    /// Returns `true` if Telegram refused the request, and said so with these words.
    pub(super) fn says(&self, words: &str) -> bool {
        matches!(self, Self::Other(PlatformError::Refused(why)) if why.to_ascii_lowercase().contains(words))
    }
}

impl Client {
    pub(super) fn new(api: &str, token: String) -> Result<Self, PlatformError> {
        // The token becomes a part of each URL.
        if !is_token(&token) {
            return Err(PlatformError::Unauthorized(
                "a token of Telegram's looks like 123456789:ABC…; @BotFather has it (/mybots)".to_owned(),
            ));
        }
        // An error only means that a provider is already installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .user_agent(concat!("flock/", env!("CARGO_PKG_VERSION")))
            // The URL has the token, so it must not be redirected to another address.
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            // HTTP/2 would put the long poll and everything else on one connection, which stalls as a whole.
            .http1_only()
            .connect_timeout(Duration::from_secs(10))
            .read_timeout(TIMEOUT)
            .tcp_keepalive(Duration::from_secs(30))
            .build()
            .map_err(|error| PlatformError::Unavailable(chain(&error.without_url())))?;
        Ok(Self { http, api: api.trim_end_matches('/').to_owned(), token })
    }

    /// Calls a method and returns its result.
    pub(super) async fn call(&self, method: &str, parameters: &Value) -> Result<Value, Failure> {
        self.post(method, "application/json", parameters.to_string().into_bytes(), 2 * TIMEOUT).await
    }

    /// Calls a method with a body that has a file.
    pub(super) async fn upload(&self, method: &str, kind: &str, body: Vec<u8>) -> Result<Value, Failure> {
        self.post(method, kind, body, FILE_TIMEOUT).await
    }

    async fn post(
        &self,
        method: &str,
        kind: &str,
        body: Vec<u8>,
        timeout: Duration,
    ) -> Result<Value, Failure> {
        let url = format!("{}/bot{}/{method}", self.api, self.token);
        let request = self.http.post(url).header(CONTENT_TYPE, kind).body(body).timeout(timeout);
        let answer = request.send().await.map_err(|error| self.unreachable(error))?;
        let status = answer.status().as_u16();
        let Some(body) = self.read(answer, MAX_ANSWER).await? else {
            return Err(unavailable("Telegram's answer is too large".to_owned()));
        };
        self.result(status, &body)
    }

    /// Downloads a file by the path that `getFile` gave. `None` if it has more than `most` bytes.
    pub(super) async fn download(&self, path: &str, most: usize) -> Result<Option<Vec<u8>>, Failure> {
        if !is_path(path) {
            let text = "Telegram's answer names a file that can't be downloaded".to_owned();
            return Err(Failure::Other(PlatformError::Refused(text)));
        }
        let url = format!("{}/file/bot{}/{path}", self.api, self.token);
        let request = self.http.get(url).timeout(FILE_TIMEOUT);
        let answer = request.send().await.map_err(|error| self.unreachable(error))?;
        let status = answer.status();
        if !status.is_success() {
            let body = self.read(answer, MAX_ANSWER).await?.unwrap_or_default();
            return Err(match self.result(status.as_u16(), &body) {
                Err(failure) => failure,
                Ok(_) => unavailable(format!("Telegram answers {status}")),
            });
        }
        self.read(answer, most).await
    }

    /// Reads a body. `None` if it has more than `most` bytes, whatever size was announced.
    async fn read(&self, mut answer: reqwest::Response, most: usize) -> Result<Option<Vec<u8>>, Failure> {
        let mut read = Vec::new();
        while let Some(piece) = answer.chunk().await.map_err(|error| self.unreachable(error))? {
            if piece.len() > most - read.len() {
                return Ok(None);
            }
            read.extend_from_slice(&piece);
        }
        Ok(Some(read))
    }

    fn unreachable(&self, error: reqwest::Error) -> Failure {
        unavailable(self.without_token(&chain(&error.without_url())))
    }

    /// Returns the result in an answer, or the failure that it tells.
    fn result(&self, status: u16, body: &[u8]) -> Result<Value, Failure> {
        let Ok(mut answer) = serde_json::from_slice::<Value>(body) else {
            return Err(unavailable(format!("Telegram's answer can't be read (HTTP {status})")));
        };
        if answer["ok"] == true {
            return Ok(answer["result"].take());
        }
        let code = answer["error_code"].as_u64().unwrap_or(status.into());
        let reason = answer["description"].as_str().unwrap_or("it gives no reason");
        let reason = clean::summary(&self.without_token(reason), MAX_REASON);
        Err(failure(code, reason, &answer["parameters"]))
    }

    /// Removes the token from a text that somebody else wrote.
    fn without_token(&self, text: &str) -> String {
        text.replace(&self.token, "…")
    }
}

fn unavailable(text: String) -> Failure {
    Failure::Other(PlatformError::Unavailable(text))
}

fn failure(code: u64, reason: String, parameters: &Value) -> Failure {
    if let Some(to) = parameters["migrate_to_chat_id"].as_i64() {
        return Failure::Moved(to);
    }
    Failure::Other(match code {
        401 => PlatformError::Unauthorized(format!("{reason}; @BotFather has the valid one (/mybots)")),
        // A malformed token is no part of the API's addresses.
        404 if reason == "Not Found" => {
            PlatformError::Unauthorized(format!("{reason}; @BotFather has the valid one (/mybots)"))
        }
        409 => PlatformError::Refused(conflict(&reason)),
        429 => {
            let wait = parameters["retry_after"].as_u64().unwrap_or(DEFAULT_WAIT);
            PlatformError::RateLimited(Duration::from_secs(wait.clamp(1, MAX_WAIT)))
        }
        500.. => PlatformError::Unavailable(reason),
        _ => PlatformError::Refused(reason),
    })
}

/// Returns the way out of a conflict about the bot's updates, which only one program can have.
pub(super) fn conflict(reason: &str) -> String {
    if reason.contains("webhook") {
        return format!(
            "{reason}. A webhook is set, so another program uses this bot. If it no longer does, open \
             https://api.telegram.org/bot<TOKEN>/deleteWebhook with the bot's token"
        );
    }
    format!(
        "{reason}. Another program asks for this bot's updates; end it, or make a bot for flock alone with @BotFather"
    )
}

/// Returns `true` for a text that can be a token: the bot's id, a colon, and letters.
fn is_token(token: &str) -> bool {
    token.split_once(':').is_some_and(|(id, key)| {
        let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        (1..=20).contains(&id.len())
            && id.bytes().all(|byte| byte.is_ascii_digit())
            && (10..=200).contains(&key.len())
            && key.chars().all(letters)
    })
}

/// Returns `true` for a path below the files of this bot. A Bot API server of one's own may name a file of its disk.
fn is_path(path: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    !path.starts_with('/') && !path.contains("..") && !path.is_empty() && path.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TOKEN: &str = "7000000001:AAbbCCddEEffGGhhIIjjKK";

    fn told(status: u16, body: &Value) -> Failure {
        let client = Client::new("http://127.0.0.1:9/", TOKEN.to_owned()).unwrap();
        client.result(status, body.to_string().as_bytes()).unwrap_err()
    }

    fn error(code: u16, description: &str) -> PlatformError {
        told(code, &json!({"ok": false, "error_code": code, "description": description})).into()
    }

    #[test]
    fn a_token_that_is_none_is_refused_before_a_request() {
        for token in ["", "1", "1:short", "1:a/../b/getMe?xxxx", "x:AAbbCCddEEffGGhh", "1:AAbbCCddEEff GGhh"]
        {
            let refused = Client::new("http://127.0.0.1:9", token.to_owned()).err();
            assert!(matches!(refused, Some(PlatformError::Unauthorized(_))), "{token}");
        }
    }

    #[test]
    fn errors_are_told_apart() {
        assert!(matches!(error(401, "Unauthorized"), PlatformError::Unauthorized(_)));
        assert!(matches!(error(404, "Not Found"), PlatformError::Unauthorized(_)));
        assert!(matches!(error(404, "Not Found: method not found"), PlatformError::Refused(_)));
        assert!(matches!(error(502, "Bad Gateway"), PlatformError::Unavailable(_)));
        assert_eq!(
            error(403, "Forbidden: bot was kicked from the group chat"),
            PlatformError::Refused("Forbidden: bot was kicked from the group chat".to_owned())
        );
        let webhook = error(409, "Conflict: can't use getUpdates method while webhook is active").to_string();
        assert!(webhook.contains("deleteWebhook"), "{webhook}");
        let poller = error(409, "Conflict: terminated by other getUpdates request").to_string();
        assert!(poller.contains("Another program"), "{poller}");
    }

    #[test]
    fn the_wait_is_the_one_that_telegram_names_within_reason() {
        let limited = |parameters: Value| {
            let body = json!({"ok": false, "error_code": 429, "description": "x", "parameters": parameters});
            PlatformError::from(told(429, &body))
        };
        let seconds = |wait| PlatformError::RateLimited(Duration::from_secs(wait));
        assert_eq!(limited(json!({"retry_after": 7})), seconds(7));
        assert_eq!(limited(json!({"retry_after": u64::MAX})), seconds(MAX_WAIT));
        assert_eq!(limited(json!({"retry_after": "soon"})), seconds(DEFAULT_WAIT));
        assert_eq!(limited(Value::Null), seconds(DEFAULT_WAIT));
    }

    #[test]
    fn a_group_that_became_a_supergroup_is_named() {
        let body = json!({"ok": false, "error_code": 400, "description": "x",
            "parameters": {"migrate_to_chat_id": -1_001_234_567_890_i64}});
        assert_eq!(told(400, &body), Failure::Moved(-1_001_234_567_890));
    }

    #[test]
    fn what_is_no_answer_of_telegrams_is_a_failure_that_passes() {
        let client = Client::new("http://127.0.0.1:9", TOKEN.to_owned()).unwrap();
        for body in ["", "<html>502</html>", "[".repeat(100_000).as_str()] {
            let failure = client.result(502, body.as_bytes()).unwrap_err();
            assert!(matches!(failure, Failure::Other(PlatformError::Unavailable(_))), "{failure:?}");
        }
        assert!(matches!(error(200, "?"), PlatformError::Refused(_)));
    }

    #[test]
    fn no_error_repeats_the_token() {
        let repeated = error(400, &format!("Bad Request: /bot{TOKEN}/x is\nwrong")).to_string();
        assert!(!repeated.contains(TOKEN) && repeated.contains("/bot…/x is wrong"), "{repeated}");
        assert!(error(400, &"x".repeat(1 << 20)).to_string().len() < 400);
    }

    #[tokio::test]
    async fn an_address_without_a_server_is_unavailable_and_not_repeated() {
        let client = Client::new("http://127.0.0.1:9", TOKEN.to_owned()).unwrap();
        let error = PlatformError::from(client.call("getMe", &json!({})).await.unwrap_err());
        assert!(matches!(&error, PlatformError::Unavailable(text) if !text.contains("bot7")), "{error:?}");
    }

    #[test]
    fn only_paths_of_files_are_downloaded() {
        assert!(is_path("documents/file_1.tar.gz") && is_path("photos/file_2.jpg"));
        for path in ["", "/var/lib/x", "../x", "a/../../b", "a?b", "a#b", "a b", "a%2e"] {
            assert!(!is_path(path), "{path}");
        }
    }
}

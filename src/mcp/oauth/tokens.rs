//! The file of a sign-in: a secret of the server. It is bound to the server's URL, and to the authorization server that
//! gave the tokens.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::scopes;
use crate::clock::unix_ms;
use crate::config::{McpRemote, secret};
use crate::home::lock::Lock;
use crate::home::{Home, HomeError};
use crate::id::McpServerName;

/// The most bytes of one token. Both and the rest fit in a secret.
const MAX_TOKEN: usize = 12 << 10;
/// The time before the end of a token at which it is renewed. A token that lasts less than twice as long is renewed at half.
const RENEWAL_MARGIN: i64 = 30;
/// The longest wait for another process that renews the tokens.
const LOCK_WAIT: Duration = Duration::from_secs(90);

/// The way in which flock proves to the authorization server which client it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ClientAuth {
    /// By nothing but the proof key of each sign-in. This is what a program on a person's machine can do.
    #[serde(rename = "none")]
    None,
    #[serde(rename = "client_secret_basic")]
    Basic,
    #[serde(rename = "client_secret_post")]
    Post,
}

/// The identity of flock at an authorization server.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OAuthClient {
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    pub auth: ClientAuth,
}

/// The tokens of an answer.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Tokens {
    pub access_token: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh_token: Option<String>,
    /// The Unix time in seconds at which they were got, and the lifetime of the access token from then.
    pub received_at: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifetime: Option<i64>,
}

impl Tokens {
    /// Reads the answer of a token endpoint. Returns the tokens, and the scopes if it names them.
    ///
    /// # Errors
    ///
    /// Returns the reason if it has none that flock can use.
    pub fn read(answer: &Value) -> Result<(Self, Option<Vec<String>>), &'static str> {
        let kind =
            answer["token_type"].as_str().ok_or("the answer does not say what kind of token it has")?;
        if !kind.eq_ignore_ascii_case("bearer") {
            return Err("its token is not a bearer token");
        }
        let is_part = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
        let is_token = |text: &str| (1..=MAX_TOKEN).contains(&text.len()) && text.bytes().all(is_part);
        let access = answer["access_token"].as_str().filter(|text| is_token(text));
        let access = access.ok_or("the answer has no access token that can be sent")?;
        let refresh =
            match answer.get("refresh_token").and_then(Value::as_str).filter(|text| !text.is_empty()) {
                Some(text) if !is_token(text) => {
                    return Err("the answer has a refresh token that can't be sent");
                }
                found => found.map(str::to_owned),
            };
        // Some servers write the number as a text.
        let seconds = &answer["expires_in"];
        let lifetime = seconds.as_i64().or_else(|| seconds.as_str().and_then(|text| text.parse().ok()));
        let tokens = Self {
            access_token: access.to_owned(),
            refresh_token: refresh,
            received_at: now(),
            lifetime: lifetime.map(|seconds| seconds.clamp(0, i64::from(u32::MAX))),
        };
        Ok((tokens, answer["scope"].as_str().map(scopes::read)))
    }

    /// Returns the seconds that the access token still lasts. `None` if the server did not say.
    fn left(&self, now: i64) -> Option<i64> {
        Some(self.received_at.saturating_add(self.lifetime?).saturating_sub(now))
    }

    /// Returns `true` if the access token has to be renewed before it is used.
    pub fn is_old(&self, now: i64) -> bool {
        let margin = self.lifetime.map_or(RENEWAL_MARGIN, |lifetime| RENEWAL_MARGIN.min(lifetime / 2)).max(1);
        self.left(now).is_some_and(|left| left < margin)
    }

    /// Returns `true` if the access token has ended.
    pub fn is_over(&self, now: i64) -> bool {
        self.left(now).is_some_and(|left| left <= 0)
    }
}

/// The content of the file.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StoredSignIn {
    /// A random name of this sign-in. A connection that began with another one is not used any more.
    pub id: String,
    /// The URL of the server that the tokens are for. No other server gets them.
    pub url: String,
    /// The authorization server that gave them. Empty for a server of 2025-03-26 that names none.
    pub issuer: String,
    pub token_endpoint: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revocation_endpoint: Option<String>,
    /// The resource that the tokens are for, as the authorization server is told.
    pub resource: String,
    pub client: OAuthClient,
    /// `None` if the sign-in has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
    /// The scopes that were given.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// The scopes that the server has wanted besides.
    #[serde(default)]
    pub missing: Vec<String>,
    /// The reason why the sign-in has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
}

/// The state of the sign-in to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignInState {
    SignedIn,
    /// The tokens are no longer good, and can't be renewed.
    Expired,
    /// The tokens do not cover everything that agents have called.
    ScopesNeeded,
    /// The server wants a sign-in, and there is none.
    Needed,
}

impl SignInState {
    /// Returns the word for programs.
    #[must_use]
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::SignedIn => "signedIn",
            Self::Expired => "expired",
            Self::ScopesNeeded => "scopesNeeded",
            Self::Needed => "needed",
        }
    }
}

/// The file of a server's sign-in.
#[derive(Clone)]
pub(super) struct TokenFile {
    home: Home,
    server: McpServerName,
    url: String,
}

/// Returns the name of the secret that holds the tokens of a server.
#[must_use]
pub(super) fn secret_name(server: &McpServerName) -> String {
    format!("mcp-{server}.oauth")
}

/// Returns the time in seconds of Unix time.
pub(super) fn now() -> i64 {
    unix_ms() / 1_000
}

impl TokenFile {
    pub fn new(home: &Home, server: &McpServerName, remote: &McpRemote) -> Self {
        Self { home: home.clone(), server: server.clone(), url: remote.url.clone() }
    }

    /// Returns the URL of the server.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the sign-in, whatever server it was for.
    pub fn read_any(&self) -> Result<Option<StoredSignIn>, HomeError> {
        let text = secret::get(&self.home, &secret_name(&self.server))?;
        // A file that can't be read is as good as none: the person signs in again.
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
    }

    /// Returns the sign-in to this server at this URL.
    pub fn read(&self) -> Result<Option<StoredSignIn>, HomeError> {
        Ok(self.read_any()?.filter(|stored| stored.url == self.url))
    }

    /// Writes the sign-in. The caller holds the lock.
    pub fn write(&self, stored: &StoredSignIn) -> Result<(), HomeError> {
        let text = serde_json::to_string(stored).unwrap_or_default();
        secret::set(&self.home, &secret_name(&self.server), &text)
    }

    /// Removes the sign-in. The caller holds the lock.
    pub fn remove(&self) -> Result<(), HomeError> {
        secret::remove(&self.home, &secret_name(&self.server))
    }

    /// Takes the lock for changes. A refresh token may be good only once, so no two processes may use one.
    pub async fn lock(&self) -> Result<Lock, HomeError> {
        let path = self.home.mcp_sign_in_lock(&self.server);
        let held = path.clone();
        let taken = tokio::task::spawn_blocking(move || Lock::acquire(&path, LOCK_WAIT)).await;
        taken.unwrap_or(Err(HomeError::Held { path: held }))
    }

    /// Returns the state of the sign-in, as far as the file has it.
    pub fn state(&self) -> Option<SignInState> {
        let stored = self.read().ok().flatten()?;
        let Some(tokens) = stored.tokens else { return Some(SignInState::Expired) };
        if tokens.is_over(now()) && tokens.refresh_token.is_none() {
            return Some(SignInState::Expired);
        }
        Some(if stored.missing.is_empty() { SignInState::SignedIn } else { SignInState::ScopesNeeded })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_tokens_that_can_be_sent_are_read() {
        let (tokens, given) =
            Tokens::read(&json!({"token_type": "bEARER", "access_token": "a", "expires_in": "60",
            "refresh_token": "r", "scope": "one two"}))
            .unwrap();
        assert_eq!((tokens.lifetime, tokens.refresh_token.as_deref()), (Some(60), Some("r")));
        assert_eq!(given.unwrap(), ["one", "two"]);
        for answer in [
            json!({}),
            json!({"access_token": "a"}),
            json!({"access_token": "a", "token_type": "mac"}),
            json!({"access_token": "a b", "token_type": "bearer"}),
            json!({"access_token": "a\r\nx: y", "token_type": "bearer"}),
            json!({"access_token": "", "token_type": "bearer"}),
            json!({"access_token": "a".repeat(MAX_TOKEN + 1), "token_type": "bearer"}),
            json!({"access_token": "a", "refresh_token": "b c", "token_type": "bearer"}),
        ] {
            assert!(Tokens::read(&answer).is_err(), "{answer}");
        }
    }

    #[test]
    fn a_token_is_renewed_before_its_end_and_not_at_every_call() {
        let at = |lifetime: Option<i64>, age: i64| {
            let tokens =
                Tokens { access_token: "a".into(), refresh_token: None, received_at: 1_000, lifetime };
            (tokens.is_old(1_000 + age), tokens.is_over(1_000 + age))
        };
        assert_eq!(at(Some(3_600), 3_569), (false, false));
        assert_eq!(at(Some(3_600), 3_571), (true, false));
        assert_eq!(at(Some(3_600), 3_600), (true, true));
        assert_eq!(at(Some(20), 9), (false, false));
        assert_eq!(at(Some(20), 11), (true, false));
        assert_eq!(at(Some(0), 0), (true, true));
        assert_eq!(at(None, 1 << 40), (false, false));
    }
}

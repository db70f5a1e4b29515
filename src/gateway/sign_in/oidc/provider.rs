//! The provider: its document, its keys, and the exchange of a code for a token. It is asked over bounded requests that follow
//! no redirect, and only at places that its document names.

use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::Url;
use serde_json::Value;
use tokio::sync::Mutex;

use super::OidcError;
use super::id_token::{self, Expected, SignedAccount, TokenFault};
use super::keys::KeySet;
use super::pending::BoundSecrets;
use crate::clock::unix_ms;
use crate::config::OidcSettings;
use crate::config::oidc::is_on_this_machine;
use crate::home::Home;
use crate::mcp::oauth::{AuthorizationMetadata, ClientAuth, ExpectedIssuer, OAuthClient, Requests};
use crate::provider::key;
use crate::store::OidcSignIn;

/// Time after which the document and the keys are read again.
const MAX_AGE: Duration = Duration::from_secs(3600);
/// Longest time of one request.
const REQUEST_TIME: Duration = Duration::from_secs(10);

/// A provider whose document was read.
pub(crate) struct Provider {
    settings: Arc<OidcSettings>,
    requests: Requests,
    metadata: AuthorizationMetadata,
    /// The provider as its document, and so its tokens, name it.
    issuer: String,
    authorization: Url,
    token: Url,
    keys_at: Url,
    keys: Mutex<Option<KnownKeys>>,
    read_at: Instant,
}

struct KnownKeys {
    set: Arc<KeySet>,
    read_at: Instant,
}

impl Provider {
    /// Reads the document of a provider.
    ///
    /// # Errors
    ///
    /// Returns the reason if it can't be reached, or names no places that flock may use.
    pub(crate) async fn discover(settings: Arc<OidcSettings>) -> Result<Self, String> {
        let requests = Requests::beginning_at(&settings.issuer, settings.allow_local).await?;
        let place = format!("{}/.well-known/openid-configuration", settings.issuer.trim_end_matches('/'));
        let document = get(&requests, &requests.place(&place)?).await?;
        let metadata: AuthorizationMetadata =
            serde_json::from_value(document).map_err(|_| "its document can't be read".to_owned())?;
        let issuer = metadata.issuer_as(ExpectedIssuer::Exactly(&settings.issuer))?;
        metadata.check_provider()?;
        let place = |named: &Option<String>, what: &str| {
            let named = named.as_deref().ok_or_else(|| format!("its document names no {what}"))?;
            // A provider on this machine may do without TLS. One elsewhere must not lead flock to this machine.
            let is_allowed = is_on_this_machine(&settings.issuer) || !is_on_this_machine(named);
            let url = requests.place(named)?;
            let stays = url.scheme() == "https" || is_on_this_machine(named);
            if is_allowed && stays {
                Ok(url)
            } else {
                Err(format!("{named:?} is not an address for its {what}"))
            }
        };
        let authorization = place(&metadata.authorization_endpoint, "place to sign in at")?;
        let token = place(&metadata.token_endpoint, "place for tokens")?;
        let keys_at = place(&metadata.jwks_uri, "place of its keys")?;
        Ok(Self {
            settings,
            requests,
            metadata,
            issuer,
            authorization,
            token,
            keys_at,
            keys: Mutex::new(None),
            read_at: Instant::now(),
        })
    }

    /// Returns `true` if the document is that of these settings and not too old.
    pub(super) fn is_current(&self, settings: &OidcSettings) -> bool {
        *self.settings == *settings && self.read_at.elapsed() < MAX_AGE
    }

    /// Returns the address at which a person signs in.
    pub(super) fn address(&self, redirect: &str, state: &str, secrets: &BoundSecrets) -> String {
        let mut address = self.authorization.clone();
        address
            .query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.settings.client_id)
            .append_pair("redirect_uri", redirect)
            .append_pair("scope", &self.settings.scopes.join(" "))
            .append_pair("state", state)
            .append_pair("nonce", &secrets.nonce)
            .append_pair("code_challenge", &crate::mcp::oauth::challenge(&secrets.verifier))
            .append_pair("code_challenge_method", "S256");
        address.into()
    }

    /// Checks that an answer is from this provider, as far as it says so (RFC 9207).
    ///
    /// # Errors
    ///
    /// Returns an error if it names another one, or none although it has to.
    pub(super) fn check_answer(&self, issuer: Option<&str>) -> Result<(), OidcError> {
        match issuer {
            Some(issuer) if issuer != self.issuer => Err(OidcError::Token(TokenFault::Issuer)),
            None if self.metadata.names_issuer() => Err(OidcError::Token(TokenFault::Issuer)),
            _ => Ok(()),
        }
    }

    /// Exchanges a code for a token, and returns the account that the token is about.
    ///
    /// # Errors
    ///
    /// Returns an error if the provider does not take the code, can't be reached, or gives a token that is not believed.
    pub(super) async fn account(
        &self,
        home: &Home,
        code: &str,
        (begun, bound): (&OidcSignIn, &BoundSecrets),
    ) -> Result<SignedAccount, OidcError> {
        let secret = self.settings.client_secret.as_deref().map(|reference| key::named(home, reference));
        let secret = secret.transpose().map_err(OidcError::Provider)?;
        let secret = secret.map(|secret| secret.expose().to_owned());
        let client = OAuthClient {
            id: self.settings.client_id.clone(),
            auth: if secret.is_some() { self.metadata.auth_with_secret() } else { ClientAuth::None },
            secret,
        };
        let form = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &*begun.redirect),
            ("code_verifier", &*bound.verifier),
        ];
        let sent = self.requests.post_form(self.token.as_str(), &form, &client);
        let answer = timely(sent).await.map_err(OidcError::Provider)?;
        if !answer.is_success() {
            let secrets = [code, &*bound.verifier, client.secret.as_deref().unwrap_or_default()];
            let reason = answer.reason(&secrets);
            // The provider's own faults pass, and its refusals do not.
            let is_fault = answer.status >= 500;
            return Err(if is_fault { OidcError::Provider(reason) } else { OidcError::Refused(reason) });
        }
        let answer = answer.json::<Value>().unwrap_or_default();
        let token = answer["id_token"].as_str().ok_or(OidcError::Token(TokenFault::Malformed))?;
        let expected = Expected {
            issuer: &self.issuer,
            client: &self.settings.client_id,
            nonce: &bound.nonce,
            now: unix_ms() / 1000,
        };
        let known = self.keys(None).await.map_err(OidcError::Provider)?;
        match id_token::verify(token, &known, expected) {
            // The provider may have changed its keys since they were read. They are read once more.
            Err(TokenFault::UnknownKey) => {
                let newer = self.keys(Some(&known)).await.map_err(OidcError::Provider)?;
                id_token::verify(token, &newer, expected).map_err(OidcError::Token)
            }
            verified => verified.map_err(OidcError::Token),
        }
    }

    /// Returns the provider's keys. `old` are keys that a token was not found among.
    ///
    /// # Errors
    ///
    /// Returns the reason if they can't be read.
    pub(crate) async fn keys(&self, old: Option<&Arc<KeySet>>) -> Result<Arc<KeySet>, String> {
        // The lock is held while they are read, so that many sign-ins at once read them once.
        let mut known = self.keys.lock().await;
        if let Some(found) = &*known
            && found.read_at.elapsed() < MAX_AGE
            && old.is_none_or(|old| !Arc::ptr_eq(old, &found.set))
        {
            return Ok(Arc::clone(&found.set));
        }
        let document = get(&self.requests, &self.keys_at).await?;
        let set = Arc::new(KeySet::parse(&document).ok_or("its keys can't be read")?);
        *known = Some(KnownKeys { set: Arc::clone(&set), read_at: Instant::now() });
        Ok(set)
    }
}

/// Returns a JSON document at a place.
async fn get(requests: &Requests, place: &Url) -> Result<Value, String> {
    let answer = timely(requests.get(place)).await?;
    let read = answer.json::<Value>().filter(|_| answer.is_success());
    let host = place.host_str().unwrap_or_default();
    read.ok_or_else(|| format!("{host} has no document at {} (HTTP {})", place.path(), answer.status))
}

async fn timely<T>(sent: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let late = || format!("it did not answer within {} s", REQUEST_TIME.as_secs());
    tokio::time::timeout(REQUEST_TIME, sent).await.unwrap_or_else(|_| Err(late()))
}

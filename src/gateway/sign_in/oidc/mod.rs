//! Signing in to the dashboard at a provider of OpenID Connect, by an authorization code with a proof key.
//!
//! | file | subject |
//! |---|---|
//! | [`pending`] | the secrets of the sign-ins that wait for their browsers |
//! | [`provider`] | what is asked of the provider |
//! | [`keys`] | the provider's keys, and signatures by them |
//! | [`id_token`] | the token that says who signed in |
//!
//! The signatures are checked with `ring`, which flock has for TLS. The crates for such tokens bring a second library for
//! cryptography, and those for the whole sign-in a second client of OAuth beside that of [`crate::mcp::oauth`].

mod id_token;
mod keys;
mod pending;
mod provider;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, Semaphore};

pub(crate) use self::id_token::TokenFault;
use self::pending::{BoundSecrets, NewSecrets, hashes};
pub(crate) use self::provider::Provider;
use super::codes::Visitor;
use crate::clock::unix_ms;
use crate::config::OidcSettings;
use crate::gateway::state::Gateway;
use crate::mcp::oauth::{AuthorizationAnswer, shown};
use crate::store::{OIDC_SIGN_IN_LIFETIME, OidcSignIn, Store, StoreError};

/// The path that leads a browser to the provider.
pub(crate) const BEGIN_PATH: &str = "/dashboard/oidc";
/// The path to which the provider leads it back.
pub(crate) const RETURN_PATH: &str = "/dashboard/oidc/callback";
/// Seconds for which the cookie of a sign-in lasts.
pub(crate) const COOKIE_AGE: i64 = OIDC_SIGN_IN_LIFETIME / 1000;

/// Most requests to the provider at once.
const MAX_REQUESTS: usize = 8;

/// Time for which a provider that can't be used is not asked again.
const FAILURE_LIFETIME: Duration = Duration::from_secs(5);

/// What is known of the provider.
#[derive(Default)]
struct KnownProvider {
    found: Option<Arc<Provider>>,
    failure: Option<ProviderFailure>,
}

/// The reason why the provider of these settings could not be used.
struct ProviderFailure {
    settings: Arc<OidcSettings>,
    reason: String,
    at: Instant,
}

impl ProviderFailure {
    fn is_current(&self, settings: &OidcSettings, now: Instant) -> bool {
        *self.settings == *settings && now.saturating_duration_since(self.at) < FAILURE_LIFETIME
    }
}

/// The sign-ins at the provider.
pub(crate) struct OidcSignIns {
    provider: Mutex<KnownProvider>,
    slots: Semaphore,
}

impl Default for OidcSignIns {
    fn default() -> Self {
        Self { provider: Mutex::default(), slots: Semaphore::new(MAX_REQUESTS) }
    }
}

/// The reason why somebody can't sign in at the provider.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OidcError {
    /// The provider can't be reached, or is not set up as flock needs it.
    #[error("the provider can't be used: {0}")]
    Provider(String),
    /// Too many sign in at once.
    #[error("too many sign in at once")]
    Busy,
    /// The answer belongs to no sign-in of this browser, or to one that has ended.
    #[error("the answer belongs to no sign-in of this browser that waits")]
    Unknown,
    /// The provider refused the person or the code.
    #[error("the provider refused it: {0}")]
    Refused(String),
    /// The provider's answer or its token is not believed.
    #[error("the token of the provider is not believed: {0}")]
    Token(TokenFault),
    /// Nobody of the home has the account.
    #[error("nobody of this home has the account with the subject {0:?}")]
    NoPerson(String),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A sign-in that has begun.
pub(crate) struct Begun {
    /// The address at the provider.
    pub address: String,
    /// The value of the browser's cookie.
    pub cookie: String,
}

impl OidcSignIns {
    /// Begins a sign-in of a browser, which comes back to `redirect`.
    ///
    /// # Errors
    ///
    /// Returns an error if the provider can't be used, or the database can't be written.
    pub(crate) async fn begin(
        &self,
        store: &Store,
        settings: &Arc<OidcSettings>,
        redirect: &str,
    ) -> Result<Begun, OidcError> {
        let _slot = self.slots.try_acquire().map_err(|_| OidcError::Busy)?;
        let provider = self.provider(settings).await?;
        let NewSecrets { state, browser } = NewSecrets::new();
        let begun = OidcSignIn { redirect: redirect.to_owned(), issuer: settings.issuer.clone() };
        store.sign_ins().begin_oidc(hashes(&state, &browser), begun).await?;
        let address = provider.address(redirect, &state, &BoundSecrets::of(&browser));
        Ok(Begun { address, cookie: browser })
    }

    /// Returns the provider, whose document is read if it is not known or old.
    async fn provider(&self, settings: &Arc<OidcSettings>) -> Result<Arc<Provider>, OidcError> {
        // The lock is held while the document is read, so that many sign-ins at once read it once.
        let mut known = self.provider.lock().await;
        if let Some(provider) = known.found.as_ref().filter(|provider| provider.is_current(settings)) {
            return Ok(Arc::clone(provider));
        }
        // Those who waited for the lock would each wait for a silent provider, one after another.
        let failure = known.failure.as_ref().filter(|failure| failure.is_current(settings, Instant::now()));
        if let Some(failure) = failure {
            return Err(OidcError::Provider(failure.reason.clone()));
        }
        match Provider::discover(Arc::clone(settings)).await {
            Ok(found) => {
                let found = Arc::new(found);
                *known = KnownProvider { found: Some(Arc::clone(&found)), failure: None };
                Ok(found)
            }
            Err(reason) => {
                let failure = ProviderFailure {
                    settings: Arc::clone(settings),
                    reason: reason.clone(),
                    at: Instant::now(),
                };
                known.failure = Some(failure);
                Err(OidcError::Provider(reason))
            }
        }
    }
}

/// Ends the sign-in of a browser that came back with this query, and returns the value of the browser's cookie of the
/// dashboard. `cookie` is that of the sign-in, and `browser` the name that the browser gives itself.
///
/// # Errors
///
/// Returns the reason if the browser is not signed in.
pub(crate) async fn finish(
    gateway: &Gateway,
    settings: &Arc<OidcSettings>,
    query: &str,
    (cookie, browser): (&str, &str),
) -> Result<String, OidcError> {
    let sign_ins = &gateway.oidc;
    let answer = AuthorizationAnswer::parse(query).ok_or(OidcError::Unknown)?;
    let state = answer.part("state").ok_or(OidcError::Unknown)?;
    // It ends here, whatever comes: what failed is not tried again with the same secrets.
    let pending = gateway.swarm.store().sign_ins().take_oidc(hashes(state, cookie)).await?;
    let pending = pending.ok_or(OidcError::Unknown)?;
    if pending.issuer != settings.issuer {
        return Err(OidcError::Unknown);
    }
    let _slot = sign_ins.slots.try_acquire().map_err(|_| OidcError::Busy)?;
    let provider = sign_ins.provider(settings).await?;
    // Without this check, one provider could be given the code of another.
    provider.check_answer(answer.part("iss"))?;
    if let Some(error) = answer.part("error") {
        let why = answer.part("error_description").map(|text| format!(": {}", shown(text, &[])));
        return Err(OidcError::Refused(format!("{}{}", shown(error, &[]), why.unwrap_or_default())));
    }
    let code = answer.part("code").filter(|code| !code.is_empty()).ok_or(OidcError::Unknown)?;
    let account = provider.account(gateway.home(), code, (&pending, &BoundSecrets::of(cookie))).await?;
    let (issuer, subject) = (settings.issuer.clone(), account.subject);
    let people = gateway.swarm.store().people();
    // Nobody is made a person by signing in.
    let found = people.of_account(issuer.clone(), subject.clone(), account.email, unix_ms()).await?;
    let Some(person) = found else { return Err(OidcError::NoPerson(subject)) };
    let account = Some((issuer, subject));
    let visitor = Visitor { person: person.name, token: None, account, made_by: None };
    Ok(super::sign_in(gateway, visitor, browser, unix_ms()).await?)
}

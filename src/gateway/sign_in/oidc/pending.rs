//! The sign-ins that wait for their browsers to come back from the provider. They are kept in memory only: none outlives its
//! gateway.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::mcp::oauth::random;
use crate::store::token_hash;
use crate::sync::lock;

/// Time in which a browser has to come back.
pub(super) const LIFETIME: Duration = Duration::from_secs(600);
/// Most sign-ins that wait at once. A further one replaces the oldest.
const MAX_PENDING: usize = 256;

/// The sign-ins that began and have not ended.
#[derive(Debug, Default)]
pub(super) struct PendingSignIns(Mutex<Vec<PendingSignIn>>);

/// A sign-in that began. Its state and the browser's cookie are known by their hashes.
#[derive(Debug)]
pub(super) struct PendingSignIn {
    state: String,
    browser: String,
    ends: Instant,
    /// The number in the token that has to come.
    pub nonce: String,
    /// The proof key of the code.
    pub verifier: String,
    /// The address to which the browser comes back.
    pub redirect: String,
    /// The provider, as the configuration names it.
    pub issuer: String,
}

/// The secrets of a sign-in that has begun.
#[derive(Debug)]
pub(super) struct BegunSignIn {
    /// The parameter that the provider sends back.
    pub state: String,
    /// The value of the browser's cookie.
    pub browser: String,
    pub nonce: String,
    pub verifier: String,
}

impl PendingSignIns {
    /// Begins a sign-in of a browser, which comes back to `redirect`.
    pub(super) fn begin(&self, issuer: &str, redirect: &str, now: Instant) -> BegunSignIn {
        let begun = BegunSignIn { state: random(), browser: random(), nonce: random(), verifier: random() };
        let mut pending = lock(&self.0);
        pending.retain(|one| now < one.ends);
        if pending.len() == MAX_PENDING {
            pending.remove(0);
        }
        pending.push(PendingSignIn {
            state: token_hash(begun.state.as_bytes()),
            browser: token_hash(begun.browser.as_bytes()),
            ends: now + LIFETIME,
            nonce: begun.nonce.clone(),
            verifier: begun.verifier.clone(),
            redirect: redirect.to_owned(),
            issuer: issuer.to_owned(),
        });
        begun
    }

    /// Ends a sign-in, and returns it if it has this state and belongs to the browser with this cookie. It is there once.
    pub(super) fn take(&self, state: &str, browser: &str, now: Instant) -> Option<PendingSignIn> {
        // The comparison of hashes reveals nothing about the secrets by its timing.
        let (state, browser) = (token_hash(state.as_bytes()), token_hash(browser.as_bytes()));
        let mut pending = lock(&self.0);
        // Another browser does not end the sign-in of this one.
        let at = pending.iter().position(|one| one.state == state && one.browser == browser)?;
        let found = pending.remove(at);
        (now < found.ends).then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_in_is_there_once_for_its_browser_and_for_ten_minutes() {
        let pending = PendingSignIns::default();
        let now = Instant::now();
        let begun = pending.begin("https://a", "http://b", now);
        let other = pending.begin("https://a", "http://b", now);
        assert!(pending.take(&begun.state, &other.browser, now).is_none(), "it is another browser's");
        assert!(pending.take("x", &begun.browser, now).is_none());
        let found = pending.take(&begun.state, &begun.browser, now).unwrap();
        assert_eq!((found.nonce, found.verifier), (begun.nonce, begun.verifier));
        assert!(pending.take(&begun.state, &begun.browser, now).is_none(), "it was used");
        let late = now + LIFETIME;
        assert!(pending.take(&other.state, &other.browser, late).is_none());
    }

    #[test]
    fn the_oldest_gives_way() {
        let pending = PendingSignIns::default();
        let now = Instant::now();
        let begun: Vec<BegunSignIn> = (0..=MAX_PENDING).map(|_| pending.begin("i", "r", now)).collect();
        assert!(pending.take(&begun[0].state, &begun[0].browser, now).is_none());
        assert!(begun[1..].iter().all(|one| pending.take(&one.state, &one.browser, now).is_some()));
    }
}

//! The secrets of a sign-in at the provider. The database has only hashes, so that any gateway of a group can end what another
//! one began: what the provider is shown later follows from the cookie that the browser brings back.

use sha2::{Digest as _, Sha256};

use crate::mcp::oauth::random;
use crate::store::token_hash;

/// The secrets of a sign-in that begins.
pub(super) struct NewSecrets {
    /// The parameter that the provider sends back.
    pub state: String,
    /// The value of the browser's cookie.
    pub browser: String,
}

/// The secrets by which the provider's answer is bound to a sign-in.
pub(super) struct BoundSecrets {
    /// The number in the token that has to come.
    pub nonce: String,
    /// The proof key of the code.
    pub verifier: String,
}

impl NewSecrets {
    pub(super) fn new() -> Self {
        Self { state: random(), browser: random() }
    }
}

impl BoundSecrets {
    /// Returns the secrets of the sign-in whose browser has this cookie.
    pub(super) fn of(browser: &str) -> Self {
        Self {
            nonce: derived(b"nonce of a sign-in ", browser),
            verifier: derived(b"proof key of a sign-in ", browser),
        }
    }
}

fn derived(purpose: &[u8], browser: &str) -> String {
    // The cookie is 32 random bytes and stands last, so a plain hash is enough. Who sees one of the two in an address learns
    // neither the cookie nor the other one.
    crate::id::hex(&Sha256::new().chain_update(purpose).chain_update(browser).finalize())
}

/// Returns the hashes under which a sign-in is stored. The lookup is by them, so its timing reveals nothing about the secrets.
pub(super) fn hashes(state: &str, browser: &str) -> (String, String) {
    (token_hash(state.as_bytes()), token_hash(browser.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secrets_follow_from_the_cookie_and_none_is_another_one() {
        let NewSecrets { state, browser } = NewSecrets::new();
        let (one, same) = (BoundSecrets::of(&browser), BoundSecrets::of(&browser));
        assert_eq!((&one.nonce, &one.verifier), (&same.nonce, &same.verifier));
        let other = BoundSecrets::of(&state);
        let hashes = hashes(&state, &browser);
        let all = [
            &state,
            &browser,
            &one.nonce,
            &one.verifier,
            &other.nonce,
            &other.verifier,
            &hashes.0,
            &hashes.1,
        ];
        let different: std::collections::BTreeSet<_> = all.into_iter().collect();
        assert_eq!(different.len(), all.len());
        // RFC 7636 allows 43 to 128 characters.
        assert!((43..=128).contains(&one.verifier.len()), "{}", one.verifier);
    }
}

//! The token by which a request proves that it comes from one of flock's own pages. A page of another site can make a
//! browser send a request with the cookie, but it can't read this token.

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// The header that carries the token.
pub(crate) const HEADER: &str = "x-flock-csrf";

/// Number of hex digits of the random part.
const SALT: usize = 16;

/// Returns a token for the browser with this cookie.
///
/// It has a random part, so it is different in each page, and the length of a compressed page reveals nothing about it.
#[must_use]
pub(crate) fn token(cookie: &str) -> String {
    let salt = crate::id::hex(&rand::random::<[u8; SALT / 2]>());
    let proof = proof(cookie, &salt);
    salt + &proof
}

/// Returns `true` if a token was made for the browser with this cookie.
#[must_use]
pub(crate) fn is_good(token: &str, cookie: &str) -> bool {
    let Some((salt, shown)) = token.split_at_checked(SALT) else { return false };
    bool::from(proof(cookie, salt).as_bytes().ct_eq(shown.as_bytes()))
}

fn proof(cookie: &str, salt: &str) -> String {
    // The cookie is 32 random bytes and stands last, so a plain hash is enough.
    let hash = Sha256::new().chain_update(b"csrf token of a page ").chain_update(salt).chain_update(cookie);
    crate::id::hex(&hash.finalize())
}

//! The token in which a provider says who signed in (OpenID Connect Core, section 3.1.3.7). It is the text of a stranger
//! until its signature and all its claims have passed. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use subtle::ConstantTimeEq as _;

use super::keys::{Algorithm, KeyFault, KeySet};
use crate::swarm::person::{is_email, is_subject};

/// Seconds by which the clocks of the provider and of this machine may differ.
const SKEW: i64 = 120;
/// Seconds since the token was made. It is made for a sign-in that waits no longer than this.
const MAX_AGE: i64 = 600;
/// Most bytes of a token.
const MAX_TOKEN: usize = 32 << 10;

/// What a token has to say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected<'a> {
    pub issuer: &'a str,
    /// The id of flock as a client.
    pub client: &'a str,
    pub nonce: &'a str,
    /// Unix seconds.
    pub now: i64,
}

/// The account that signed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SignedAccount {
    pub subject: String,
    /// The e-mail address in lower case, if the provider has verified it.
    pub email: Option<String>,
}

/// The reason why a token is not believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TokenFault {
    /// It is not a signed token, or a claim is missing or of another kind.
    #[error("it is not a token that flock can read")]
    Malformed,
    /// It is signed in a way that flock does not take.
    #[error("it is signed by an algorithm that is not taken: only RS256, ES256 and EdDSA are")]
    Algorithm,
    /// No key of the provider is named. The provider may have a new one.
    #[error("it is signed by a key that the provider does not have")]
    UnknownKey,
    /// The signature is not that of the key.
    #[error("its signature is wrong")]
    Signature,
    /// Another provider made it.
    #[error("it is from another issuer")]
    Issuer,
    /// It is for another client.
    #[error("it is for another client")]
    Audience,
    /// It was made for another sign-in.
    #[error("it belongs to another sign-in")]
    Nonce,
    /// It has expired, or is not good yet, or the clocks differ.
    #[error("it has expired, or the clock of this machine or of the provider is wrong")]
    Time,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    crit: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Claims {
    iss: String,
    sub: String,
    aud: Audience,
    exp: i64,
    iat: i64,
    nbf: Option<i64>,
    nonce: Option<String>,
    azp: Option<String>,
    email: Option<String>,
    email_verified: Option<Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Several(Vec<String>),
}

/// Checks a token, and returns the account.
///
/// # Errors
///
/// Returns the first reason why it is not believed.
pub(super) fn verify(
    token: &str,
    keys: &KeySet,
    expected: Expected<'_>,
) -> Result<SignedAccount, TokenFault> {
    if token.len() > MAX_TOKEN {
        return Err(TokenFault::Malformed);
    }
    let (signed, signature) = token.rsplit_once('.').ok_or(TokenFault::Malformed)?;
    let (header, claims) = signed.split_once('.').ok_or(TokenFault::Malformed)?;
    let header: Header = part(header)?;
    let algorithm = Algorithm::named(&header.alg).ok_or(TokenFault::Algorithm)?;
    // Another kind of token of the same provider, such as one for access, says something else with the same claims.
    let is_other = header.typ.is_some_and(|kind| !kind.eq_ignore_ascii_case("JWT"));
    // What must be understood is not.
    if is_other || header.crit.is_some() {
        return Err(TokenFault::Malformed);
    }
    let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| TokenFault::Malformed)?;
    keys.verify(algorithm, header.kid.as_deref(), signed.as_bytes(), &signature).map_err(
        |fault| match fault {
            KeyFault::Unknown => TokenFault::UnknownKey,
            KeyFault::Wrong => TokenFault::Signature,
        },
    )?;
    check(part(claims)?, expected)
}

/// Reads a part of a token. A claim that stands there twice is refused.
fn part<T: DeserializeOwned>(text: &str) -> Result<T, TokenFault> {
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| TokenFault::Malformed)?;
    serde_json::from_slice(&bytes).map_err(|_| TokenFault::Malformed)
}

fn check(claims: Claims, expected: Expected<'_>) -> Result<SignedAccount, TokenFault> {
    if claims.iss != expected.issuer {
        return Err(TokenFault::Issuer);
    }
    let is_ours = |audience: &String| audience == expected.client;
    let (is_meant, is_shared) = match &claims.aud {
        Audience::One(audience) => (is_ours(audience), false),
        Audience::Several(audiences) => (audiences.iter().any(is_ours), audiences.len() > 1),
    };
    // With several audiences, the one that asked has to be named.
    let is_asked = claims.azp.as_ref().map_or(!is_shared, is_ours);
    if !is_meant || !is_asked {
        return Err(TokenFault::Audience);
    }
    let nonce = claims.nonce.as_deref().unwrap_or_default();
    if !bool::from(nonce.as_bytes().ct_eq(expected.nonce.as_bytes())) {
        return Err(TokenFault::Nonce);
    }
    let now = expected.now;
    let is_current = now < claims.exp.saturating_add(SKEW)
        && claims.iat <= now.saturating_add(SKEW)
        && claims.iat >= now.saturating_sub(MAX_AGE + SKEW)
        && claims.nbf.is_none_or(|begin| begin <= now.saturating_add(SKEW));
    if !is_current {
        return Err(TokenFault::Time);
    }
    if !is_subject(&claims.sub) {
        return Err(TokenFault::Malformed);
    }
    let is_verified = claims.email_verified == Some(Value::Bool(true));
    let email = claims.email.filter(|_| is_verified).map(|email| email.to_ascii_lowercase());
    Ok(SignedAccount { subject: claims.sub, email: email.filter(|email| is_email(email)) })
}

#[cfg(test)]
#[path = "id_token_tests.rs"]
mod tests;

//! Credentials for Bedrock: an API key of Bedrock, or a pair of AWS keys that signs each request.

use crate::env;
use crate::provider::key::ApiKey;

/// The credentials in a provider's key.
#[derive(Clone, Debug)]
pub(super) enum Credentials {
    /// An API key of Bedrock, sent as a bearer token.
    Bearer(ApiKey),
    /// AWS keys that sign requests. The secret is never sent.
    Pair(KeyPair),
}

/// An access key id and its secret, with a session token for temporary keys. `Debug` shows none of them.
#[derive(Clone, Debug)]
pub(super) struct KeyPair(ApiKey);

impl Credentials {
    /// Reads a key. A key with a colon is a pair, `ID:SECRET` or `ID:SECRET:TOKEN`, because no API key of Bedrock
    /// contains one.
    pub(super) fn read(key: &ApiKey) -> Self {
        KeyPair::read(key.expose()).map_or_else(|| Self::Bearer(key.clone()), Self::Pair)
    }
}

impl KeyPair {
    pub(super) fn read(text: &str) -> Option<Self> {
        let mut parts = text.trim().split(':');
        // Both id and secret are required. One more part, the session token, may follow.
        let whole = parts.by_ref().take(2).filter(|part| !part.is_empty()).count() == 2;
        let rest = parts.count();
        if whole && rest <= 1 { ApiKey::new(text).map(Self) } else { None }
    }

    pub(super) fn id(&self) -> &str {
        self.part(0)
    }

    pub(super) fn secret(&self) -> &str {
        self.part(1)
    }

    pub(super) fn token(&self) -> Option<&str> {
        Some(self.part(2)).filter(|token| !token.is_empty())
    }

    fn part(&self, at: usize) -> &str {
        self.0.expose().split(':').nth(at).unwrap_or_default()
    }
}

/// Returns the key pair from the AWS environment variables as one key, if both parts are set.
pub(crate) fn from_environment() -> Option<ApiKey> {
    let (id, secret) = (env::AWS_ACCESS_KEY_ID.get()?, env::AWS_SECRET_ACCESS_KEY.get()?);
    let token = env::AWS_SESSION_TOKEN.get().map(|token| format!(":{}", token.trim())).unwrap_or_default();
    ApiKey::new(&format!("{}:{}{token}", id.trim(), secret.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_pair_is_distinguished_from_an_api_key() {
        let read = |text: &str| Credentials::read(&ApiKey::new(text).unwrap());
        let Credentials::Pair(pair) = read("AKID:se/cr+et:to/ken==") else { panic!() };
        assert_eq!((pair.id(), pair.secret(), pair.token()), ("AKID", "se/cr+et", Some("to/ken==")));
        let Credentials::Pair(pair) = read("AKID:secret") else { panic!() };
        assert_eq!(pair.token(), None);
        for bearer in ["ABSKQmVkcm9jaw==", ":secret", "AKID:", "a:b:c:d"] {
            assert!(matches!(read(bearer), Credentials::Bearer(_)), "{bearer}");
        }
        assert!(!format!("{pair:?}").contains("secret"));
    }
}

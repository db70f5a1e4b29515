//! The gateway's own key for push services (RFC 8292). A subscription is bound to it, so nobody else can send to the
//! browsers that subscribed.

use std::sync::{Arc, Mutex};

use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};

use super::base64url;
use crate::config::secret;
use crate::home::{Home, HomeError};
use crate::sync::lock;

/// The name of the secret with the key.
pub(crate) const SECRET: &str = "web-push";

/// Seconds for which a token is good. Push services refuse more than a day.
const LIFETIME: i64 = 12 * 3600;

/// The reason why the gateway's key can't be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VapidError {
    /// The secret can't be read or written.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The secret holds something else.
    #[error("the secret {SECRET:?} holds no key for push services")]
    Malformed,
    /// The cryptographic library failed, for example because the system has no randomness.
    #[error("failed to make or use the key for push services")]
    Failed,
}

/// The gateway's key pair.
pub(crate) struct VapidKey {
    pair: EcdsaKeyPair,
    random: SystemRandom,
}

impl VapidKey {
    /// Reads the key of a home, and makes it if there is none.
    ///
    /// # Errors
    ///
    /// Returns an error if the secret can't be read or written, or holds something else.
    pub(crate) fn of(home: &Home) -> Result<Self, VapidError> {
        if let Some(known) = secret::get(home, SECRET)? {
            return base64url::decode(&known)
                .and_then(|pkcs8| Self::parse(&pkcs8))
                .ok_or(VapidError::Malformed);
        }
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())
            .map_err(|_| VapidError::Failed)?;
        secret::set(home, SECRET, &base64url::encode(made.as_ref()))?;
        Self::parse(made.as_ref()).ok_or(VapidError::Failed)
    }

    fn parse(pkcs8: &[u8]) -> Option<Self> {
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8, &random).ok()?;
        Some(Self { pair, random })
    }

    /// Returns the public key as browsers and push services take it.
    #[must_use]
    pub(crate) fn public(&self) -> String {
        base64url::encode(self.pair.public_key().as_ref())
    }

    /// Returns the value of the header `Authorization` for a push service.
    ///
    /// `audience` is the origin of the push service, `contact` an address of the sender, and `now` is in Unix seconds.
    ///
    /// # Errors
    ///
    /// Returns an error if the cryptographic library fails.
    pub(crate) fn authorization(
        &self,
        audience: &str,
        contact: Option<&str>,
        now: i64,
    ) -> Result<String, VapidError> {
        let header = serde_json::json!({"typ": "JWT", "alg": "ES256"});
        let mut claims = serde_json::json!({"aud": audience, "exp": now + LIFETIME});
        if let Some(contact) = contact {
            claims["sub"] = contact.into();
        }
        let part = |value: &serde_json::Value| base64url::encode(value.to_string().as_bytes());
        let signed = format!("{}.{}", part(&header), part(&claims));
        let signature = self.pair.sign(&self.random, signed.as_bytes()).map_err(|_| VapidError::Failed)?;
        let signature = base64url::encode(signature.as_ref());
        Ok(format!("vapid t={signed}.{signature}, k={}", self.public()))
    }
}

/// The key of the gateway's home, which is read or made when it is needed first.
#[derive(Default)]
pub(crate) struct VapidKeyCell {
    key: Mutex<Option<Arc<VapidKey>>>,
}

impl VapidKeyCell {
    /// Returns the key. This reads and writes a file, so it blocks.
    ///
    /// # Errors
    ///
    /// Returns the error of [`VapidKey::of`].
    pub(crate) fn get(&self, home: &Home) -> Result<Arc<VapidKey>, VapidError> {
        // The lock is held meanwhile, so that two callers don't make two keys.
        let mut known = lock(&self.key);
        match &*known {
            Some(key) => Ok(Arc::clone(key)),
            None => Ok(Arc::clone(known.insert(Arc::new(VapidKey::of(home)?)))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};

    use super::*;

    #[test]
    fn the_key_is_made_once_and_only_the_owner_can_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::locate(Some(&folder.path().join("home"))).unwrap();
        home.make_folders().unwrap();
        let first = VapidKey::of(&home).unwrap().public();
        assert_eq!(VapidKey::of(&home).unwrap().public(), first);
        assert_eq!(base64url::decode(&first).unwrap().len(), 65);
        let mode = std::fs::metadata(home.secrets().join(SECRET)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        secret::set(&home, SECRET, "x").unwrap();
        assert!(matches!(VapidKey::of(&home), Err(VapidError::Malformed)));
    }

    #[test]
    fn a_token_is_for_one_service_and_for_half_a_day() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::locate(Some(&folder.path().join("home"))).unwrap();
        home.make_folders().unwrap();
        let key = VapidKey::of(&home).unwrap();
        let header = key.authorization("https://push.example", Some("https://me.example"), 1_000).unwrap();
        let (token, public) = header.strip_prefix("vapid t=").unwrap().split_once(", k=").unwrap();
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let public = base64url::decode(public).unwrap();
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, public)
            .verify(signed.as_bytes(), &base64url::decode(signature).unwrap())
            .unwrap();
        let claims = base64url::decode(signed.split_once('.').unwrap().1).unwrap();
        let claims: serde_json::Value = serde_json::from_slice(&claims).unwrap();
        let wanted = serde_json::json!({
            "aud": "https://push.example", "exp": 1_000 + 12 * 3600, "sub": "https://me.example",
        });
        assert_eq!(claims, wanted);
    }
}

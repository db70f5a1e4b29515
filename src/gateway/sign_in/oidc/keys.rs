//! The public keys of a provider (RFC 7517), and the check of a signature by them. Pure.
//!
//! Only keys of the provider's own document count. A token can name other ones in its header, and those are not looked at.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::Deserialize;
use serde_json::Value;

/// Most keys of a document.
const MAX_KEYS: usize = 64;
/// Number of bytes of a coordinate of P-256, and of a key of Ed25519.
const COORDINATE: usize = 32;

/// A way to sign. There is none without a key, and none with a secret: whoever checks such a signature could make it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Rs256,
    Es256,
    EdDsa,
}

impl Algorithm {
    /// Returns the algorithm of this name, if flock takes it.
    pub(super) fn named(name: &str) -> Option<Self> {
        [Self::Rs256, Self::Es256, Self::EdDsa].into_iter().find(|one| one.as_str() == name)
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Es256 => "ES256",
            Self::EdDsa => "EdDSA",
        }
    }
}

/// The keys of a provider.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct KeySet(Vec<KnownKey>);

#[derive(Debug, PartialEq, Eq)]
struct KnownKey {
    id: Option<String>,
    key: PublicKey,
}

/// A key. It fits one algorithm, so that no other one can be tried with it.
#[derive(Debug, PartialEq, Eq)]
enum PublicKey {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// An uncompressed point.
    P256(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// The reason why no key confirms a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyFault {
    /// There is no such key. The provider may have a new one.
    Unknown,
    Wrong,
}

#[derive(Deserialize)]
struct Document {
    keys: Vec<Value>,
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl KeySet {
    /// Reads the keys of a document. Keys for something else, and those that flock does not know, are left out.
    ///
    /// Returns `None` if it is no document with keys.
    pub(super) fn parse(document: &Value) -> Option<Self> {
        let document = Document::deserialize(document).ok()?;
        let keys = document.keys.iter().take(MAX_KEYS).filter_map(|value| Jwk::deserialize(value).ok());
        Some(Self(keys.filter_map(Jwk::into_key).collect()))
    }

    /// Returns the number of keys that a token can be signed by.
    pub(crate) const fn len(&self) -> usize {
        self.0.len()
    }

    /// Checks a signature.
    ///
    /// # Errors
    ///
    /// Returns [`KeyFault::Unknown`] if there is no key for it, and [`KeyFault::Wrong`] if its key did not make it.
    pub(super) fn verify(
        &self,
        algorithm: Algorithm,
        id: Option<&str>,
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), KeyFault> {
        let fits = |known: &&KnownKey| {
            known.key.fits(algorithm) && id.is_none_or(|id| known.id.as_deref() == Some(id))
        };
        let found: Vec<&KnownKey> = self.0.iter().filter(fits).collect();
        // A provider with several keys has to say which one it is (OpenID Connect Core, section 10.1).
        if found.is_empty() || (id.is_none() && found.len() > 1) {
            return Err(KeyFault::Unknown);
        }
        if found.iter().any(|known| known.key.confirms(message, signature)) {
            return Ok(());
        }
        // The only key may have been replaced by another one without an id.
        Err(if id.is_none() { KeyFault::Unknown } else { KeyFault::Wrong })
    }
}

impl Jwk {
    fn into_key(self) -> Option<KnownKey> {
        if self.purpose.as_deref().is_some_and(|purpose| purpose != "sig") {
            return None;
        }
        let bytes = |text: &Option<String>| URL_SAFE_NO_PAD.decode(text.as_deref()?).ok();
        let coordinate = |text: &Option<String>| bytes(text).filter(|bytes| bytes.len() == COORDINATE);
        let key = match (self.kty.as_str(), self.crv.as_deref()) {
            ("RSA", _) => {
                // A number has no zeros at its beginning, which some write.
                let number = |text: &Option<String>| {
                    let digits = bytes(text)?.into_iter().skip_while(|byte| *byte == 0);
                    Some(digits.collect::<Vec<u8>>())
                };
                PublicKey::Rsa { modulus: number(&self.n)?, exponent: number(&self.e)? }
            }
            ("EC", Some("P-256")) => {
                PublicKey::P256([&[4_u8][..], &coordinate(&self.x)?, &coordinate(&self.y)?].concat())
            }
            ("OKP", Some("Ed25519")) => PublicKey::Ed25519(coordinate(&self.x)?),
            _ => return None,
        };
        let is_for = |name: &str| Algorithm::named(name).is_some_and(|algorithm| key.fits(algorithm));
        self.alg.as_deref().is_none_or(is_for).then_some(KnownKey { id: self.kid, key })
    }
}

impl PublicKey {
    const fn fits(&self, algorithm: Algorithm) -> bool {
        matches!(
            (self, algorithm),
            (Self::Rsa { .. }, Algorithm::Rs256)
                | (Self::P256(_), Algorithm::Es256)
                | (Self::Ed25519(_), Algorithm::EdDsa)
        )
    }

    fn confirms(&self, message: &[u8], signature: &[u8]) -> bool {
        let checked = match self {
            Self::Rsa { modulus, exponent } => RsaPublicKeyComponents { n: modulus, e: exponent }.verify(
                &RSA_PKCS1_2048_8192_SHA256,
                message,
                signature,
            ),
            Self::P256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
            }
            Self::Ed25519(key) => UnparsedPublicKey::new(&ED25519, key).verify(message, signature),
        };
        checked.is_ok()
    }
}

//! Signatures in OpenSSH's format (PROTOCOL.sshsig), so that `ssh-keygen -Y verify` can check a receipt without flock.
//! Only ed25519 keys are used.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{ED25519, UnparsedPublicKey};
use sha2::{Digest as _, Sha256, Sha512};

/// The namespace of signatures of receipts. A signature that was made for another purpose is not accepted.
pub const RECEIPT_NAMESPACE: &str = "flock-receipt";
/// The namespace of signatures of slices of the audit chain.
pub(crate) const CHAIN_NAMESPACE: &str = "flock-audit-chain";

const MAGIC: &[u8] = b"SSHSIG";
const KEY_TYPE: &[u8] = b"ssh-ed25519";
const BEGIN: &str = "-----BEGIN SSH SIGNATURE-----";
const END: &str = "-----END SSH SIGNATURE-----";
/// Limit on the size of a signature file.
pub(crate) const MAX_SIGNATURE: usize = 4096;

/// The reason why a signature or a key is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    #[error("the signature is not in OpenSSH's format")]
    Malformed,
    #[error("the signature was made for {0:?} and not for this purpose")]
    Namespace(String),
    #[error("the signature is not by this key")]
    OtherKey,
    #[error("the signature does not fit the content")]
    Wrong,
    #[error("it is no ed25519 key in OpenSSH's format")]
    Key,
}

/// A public ed25519 key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PublicKey(pub [u8; 32]);

impl PublicKey {
    /// Parses a line as `ssh-ed25519 AAAA… comment`.
    ///
    /// # Errors
    ///
    /// Returns [`SignatureError::Key`] if it is something else.
    pub fn parse(line: &str) -> Result<Self, SignatureError> {
        let mut words = line.split_whitespace();
        if words.next() != Some("ssh-ed25519") {
            return Err(SignatureError::Key);
        }
        let blob = words.next().and_then(|text| STANDARD.decode(text).ok()).ok_or(SignatureError::Key)?;
        Self::of_blob(&blob).ok_or(SignatureError::Key)
    }

    /// Parses the lines of a file of allowed signers, and returns the keys that may sign receipts. Options other than
    /// `namespaces` are not supported, and a line with one of them is left out.
    #[must_use]
    pub fn allowed_signers(text: &str) -> Vec<Self> {
        let key = |line: &str| {
            let line = line.trim();
            let at = line.find("ssh-ed25519 ")?;
            let mut options = line[..at].split_whitespace().skip(1);
            let options: Vec<&str> = options.by_ref().collect();
            let allows = |option: &&str| {
                let names = option.strip_prefix("namespaces=\"").and_then(|rest| rest.strip_suffix('"'));
                names.is_some_and(|names| names.split(',').any(|name| name == RECEIPT_NAMESPACE))
            };
            let is_comment = line.starts_with('#') || at == 0;
            (!is_comment && options.iter().all(allows)).then(|| Self::parse(&line[at..]).ok())?
        };
        text.lines().filter_map(key).collect()
    }

    /// Returns the key as a line of an authorized_keys file, with a comment.
    #[must_use]
    pub fn line(&self, comment: &str) -> String {
        format!("ssh-ed25519 {} {comment}", STANDARD.encode(self.blob()))
    }

    /// Returns the fingerprint that `ssh-keygen -l` shows.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let digest = STANDARD.encode(Sha256::digest(self.blob()));
        format!("SHA256:{}", digest.trim_end_matches('='))
    }

    fn blob(&self) -> Vec<u8> {
        [string(KEY_TYPE), string(&self.0)].concat()
    }

    fn of_blob(blob: &[u8]) -> Option<Self> {
        let mut reader = Reader(blob);
        let is_type = reader.string()? == KEY_TYPE;
        let key = reader.string()?.try_into().ok()?;
        (is_type && reader.0.is_empty()).then_some(Self(key))
    }

    /// Checks a signature of a message.
    ///
    /// # Errors
    ///
    /// Returns the reason why it is not a signature of this key for this message and namespace.
    pub fn verify(&self, namespace: &str, message: &[u8], armored: &str) -> Result<(), SignatureError> {
        let signature = Signature::parse(armored)?;
        if signature.namespace != namespace.as_bytes() {
            let found = crate::clean::summary(&String::from_utf8_lossy(&signature.namespace), 60);
            return Err(SignatureError::Namespace(found));
        }
        if signature.key != *self {
            return Err(SignatureError::OtherKey);
        }
        let hash = match signature.hash.as_slice() {
            b"sha512" => Sha512::digest(message).to_vec(),
            b"sha256" => Sha256::digest(message).to_vec(),
            _ => return Err(SignatureError::Malformed),
        };
        let signed = to_sign(namespace, &signature.hash, &hash);
        let key = UnparsedPublicKey::new(&ED25519, self.0);
        key.verify(&signed, &signature.bytes).map_err(|_| SignatureError::Wrong)
    }
}

/// Signs a message and returns the signature as a file. `sign` signs bytes with the private key of `key`.
#[must_use]
pub(crate) fn sign(
    key: &PublicKey,
    namespace: &str,
    message: &[u8],
    sign: impl FnOnce(&[u8]) -> [u8; 64],
) -> String {
    let hash = Sha512::digest(message);
    let bytes = sign(&to_sign(namespace, b"sha512", &hash));
    let signature = [string(KEY_TYPE), string(&bytes)].concat();
    let blob = [
        MAGIC.to_vec(),
        1_u32.to_be_bytes().to_vec(),
        string(&key.blob()),
        string(namespace.as_bytes()),
        string(b""),
        string(b"sha512"),
        string(&signature),
    ]
    .concat();
    let text = STANDARD.encode(blob);
    let mut armored = format!("{BEGIN}\n");
    for line in text.as_bytes().chunks(70) {
        armored.extend(line.iter().map(|&byte| char::from(byte)));
        armored.push('\n');
    }
    armored + END + "\n"
}

/// Returns the key that made a signature, without checking it.
///
/// # Errors
///
/// Returns [`SignatureError::Malformed`] if the signature is not in the format.
pub fn key_of(armored: &str) -> Result<PublicKey, SignatureError> {
    Signature::parse(armored).map(|signature| signature.key)
}

/// The parts of a signature file.
struct Signature {
    key: PublicKey,
    namespace: Vec<u8>,
    hash: Vec<u8>,
    bytes: Vec<u8>,
}

impl Signature {
    fn parse(armored: &str) -> Result<Self, SignatureError> {
        let parsed = || {
            let text = (armored.len() <= MAX_SIGNATURE).then_some(armored)?.trim();
            let inner = text.strip_prefix(BEGIN)?.strip_suffix(END)?;
            let text: String = inner.chars().filter(|c| !c.is_ascii_whitespace()).collect();
            let blob = STANDARD.decode(text).ok()?;
            let mut reader = Reader(blob.strip_prefix(MAGIC)?.strip_prefix(&1_u32.to_be_bytes())?);
            let key = PublicKey::of_blob(reader.string()?)?;
            let namespace = reader.string()?.to_vec();
            let reserved = reader.string()?;
            let hash = reader.string()?.to_vec();
            let mut signature = Reader(reader.string()?);
            let is_type = signature.string()? == KEY_TYPE;
            let bytes = signature.string()?.to_vec();
            let is_whole = reader.0.is_empty() && signature.0.is_empty() && reserved.is_empty();
            (is_type && is_whole && bytes.len() == 64).then_some(Self { key, namespace, hash, bytes })
        };
        parsed().ok_or(SignatureError::Malformed)
    }
}

fn to_sign(namespace: &str, hash_name: &[u8], hash: &[u8]) -> Vec<u8> {
    [MAGIC.to_vec(), string(namespace.as_bytes()), string(b""), string(hash_name), string(hash)].concat()
}

/// Encodes bytes as SSH does: the length in four bytes, then the bytes.
fn string(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    [length.to_be_bytes().as_slice(), bytes].concat()
}

/// Reads such strings from the start of a text.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn string(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.0.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        let (found, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some(found)
    }
}

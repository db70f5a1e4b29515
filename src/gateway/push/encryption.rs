//! The encryption of a notification for one browser (RFC 8291, with the content encoding `aes128gcm` of RFC 8188). The
//! push service carries the message and can't read it.

use ring::rand::{SecureRandom, SystemRandom};
use ring::{aead, agreement, hkdf};

/// Length of a browser's public key: an uncompressed point of P-256.
pub(crate) const PUBLIC_KEY: usize = 65;
/// Length of a browser's authentication secret.
pub(crate) const AUTH_SECRET: usize = 16;
/// Length of the random salt of a message.
const SALT: usize = 16;
/// The record size that the header names. A message is one record.
const RECORD: u32 = 4096;
/// Length to which a text is padded, so that the length of a message tells nothing about it.
const PADDED: usize = 512;
/// The byte that ends the text of the last record.
const LAST_RECORD: u8 = 2;

/// The reason why a message can't be encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EncryptionError {
    /// The browser's public key is no point of the curve.
    #[error("the browser's key is not a point of P-256")]
    Key,
    /// The text does not fit into one message.
    #[error("the notification is too long")]
    Length,
    /// The cryptographic library failed, for example because the system has no randomness.
    #[error("the notification can't be encrypted")]
    Failed,
}

/// The keys of the browser that a message is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recipient<'a> {
    /// The public key, an uncompressed point of P-256.
    pub public: &'a [u8],
    /// The authentication secret.
    pub auth: &'a [u8],
}

/// Returns `true` if a key can be the public key of a browser: a point on P-256.
#[must_use]
pub(crate) fn is_public_key(key: &[u8]) -> bool {
    // An agreement is the only function of the library that checks a point.
    key.len() == PUBLIC_KEY && agree(key).is_ok()
}

/// Encrypts a text for a browser, with a key and a salt that are used once. Returns the body of the message.
///
/// # Errors
///
/// Returns an error if the browser's key is not good or the text is longer than about 500 bytes.
pub(crate) fn encrypt(text: &[u8], recipient: Recipient<'_>) -> Result<Vec<u8>, EncryptionError> {
    let (own, shared) = agree(recipient.public)?;
    let mut salt = [0; SALT];
    SystemRandom::new().fill(&mut salt).map_err(|_| EncryptionError::Failed)?;
    let zeros = (PADDED - 1).checked_sub(text.len()).ok_or(EncryptionError::Length)?;
    let mut record = text.to_vec();
    record.push(LAST_RECORD);
    record.resize(record.len() + zeros, 0);
    seal(record, recipient, &own, &shared, &salt)
}

/// Makes a key pair, and agrees on a secret with the holder of `public`. Returns the own public key and the secret.
fn agree(public: &[u8]) -> Result<(Vec<u8>, Vec<u8>), EncryptionError> {
    let algorithm = &agreement::ECDH_P256;
    let own = agreement::EphemeralPrivateKey::generate(algorithm, &SystemRandom::new())
        .map_err(|_| EncryptionError::Failed)?;
    let own_public = own.compute_public_key().map_err(|_| EncryptionError::Failed)?;
    let theirs = agreement::UnparsedPublicKey::new(algorithm, public);
    let shared =
        agreement::agree_ephemeral(own, &theirs, <[u8]>::to_vec).map_err(|_| EncryptionError::Key)?;
    Ok((own_public.as_ref().to_vec(), shared))
}

/// Encrypts a padded record. Pure, so that the example of the RFC can be checked.
fn seal(
    mut record: Vec<u8>,
    recipient: Recipient<'_>,
    own: &[u8],
    shared: &[u8],
    salt: &[u8; SALT],
) -> Result<Vec<u8>, EncryptionError> {
    let (key, nonce) = message_keys(recipient, own, shared, salt)?;
    let key = aead::UnboundKey::new(&aead::AES_128_GCM, &key).map_err(|_| EncryptionError::Failed)?;
    // The key is used for this record only, so the nonce needs no counter.
    let nonce = aead::Nonce::assume_unique_for_key(nonce);
    aead::LessSafeKey::new(key)
        .seal_in_place_append_tag(nonce, aead::Aad::empty(), &mut record)
        .map_err(|_| EncryptionError::Failed)?;
    let mut body = salt.to_vec();
    body.extend_from_slice(&RECORD.to_be_bytes());
    body.push(u8::try_from(own.len()).map_err(|_| EncryptionError::Failed)?);
    body.extend_from_slice(own);
    body.extend_from_slice(&record);
    Ok(body)
}

/// Derives the key and the nonce of a message, as section 3.4 of RFC 8291 says.
fn message_keys(
    recipient: Recipient<'_>,
    own: &[u8],
    shared: &[u8],
    salt: &[u8],
) -> Result<([u8; 16], [u8; 12]), EncryptionError> {
    let info = [b"WebPush: info\0", recipient.public, own].concat();
    let input: [u8; 32] = derive(recipient.auth, shared, &info)?;
    let key = derive(salt, &input, b"Content-Encoding: aes128gcm\0")?;
    let nonce = derive(salt, &input, b"Content-Encoding: nonce\0")?;
    Ok((key, nonce))
}

/// HKDF with SHA-256.
fn derive<const N: usize>(salt: &[u8], secret: &[u8], info: &[u8]) -> Result<[u8; N], EncryptionError> {
    let mut derived = [0; N];
    hkdf::Salt::new(hkdf::HKDF_SHA256, salt)
        .extract(secret)
        .expand(&[info], OutputLength(N))
        .and_then(|output| output.fill(&mut derived))
        .map_err(|_| EncryptionError::Failed)?;
    Ok(derived)
}

/// The number of bytes to derive.
struct OutputLength(usize);

impl hkdf::KeyType for OutputLength {
    fn len(&self) -> usize {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::push::base64url::{decode, encode};

    #[test]
    fn the_example_of_the_rfc_is_met() {
        // RFC 8291, section 5 and appendix A.
        let of = |text: &str| decode(text).unwrap();
        let text = of("V2hlbiBJIGdyb3cgdXAsIEkgd2FudCB0byBiZSBhIHdhdGVybWVsb24");
        assert_eq!(text, b"When I grow up, I want to be a watermelon");
        let public =
            of("BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4");
        let auth = of("BTBZMqHH6r4Tts7J_aSIgg");
        let own =
            of("BP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A8");
        let shared = of("kyrL1jIIOHEzg3sM2ZWRHDRB62YACZhhSlknJ672kSs");
        let salt: [u8; SALT] = of("DGv6ra1nlYgDCS1FRnbzlw").try_into().unwrap();
        let recipient = Recipient { public: &public, auth: &auth };
        let (key, nonce) = message_keys(recipient, &own, &shared, &salt).unwrap();
        assert_eq!(encode(&key), "oIhVW04MRdy2XN9CiKLxTg");
        assert_eq!(encode(&nonce), "4h_95klXJ5E_qnoN");
        let record = [&text[..], &[LAST_RECORD]].concat();
        assert_eq!(
            encode(&seal(record, recipient, &own, &shared, &salt).unwrap()),
            "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8w\
             EqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
        );
    }

    #[test]
    fn a_browser_reads_what_was_encrypted_for_it() {
        let random = SystemRandom::new();
        let browser = agreement::EphemeralPrivateKey::generate(&agreement::ECDH_P256, &random).unwrap();
        let public = browser.compute_public_key().unwrap();
        let auth = [7; AUTH_SECRET];
        let recipient = Recipient { public: public.as_ref(), auth: &auth };
        let body = encrypt(b"{\"kind\":\"request\"}", recipient).unwrap();
        assert_ne!(
            body,
            encrypt(b"{\"kind\":\"request\"}", recipient).unwrap(),
            "no key or salt is used twice"
        );
        let longer = encrypt(&[b'x'; 400], recipient).unwrap();
        assert_eq!(body.len(), longer.len(), "the length tells nothing");
        assert!(body.len() <= 4096);
        let (salt, rest) = body.split_at(SALT);
        let own = &rest[5..5 + PUBLIC_KEY];
        let mut record = rest[5 + PUBLIC_KEY..].to_vec();
        let theirs = agreement::UnparsedPublicKey::new(&agreement::ECDH_P256, own);
        let shared = agreement::agree_ephemeral(browser, &theirs, <[u8]>::to_vec).unwrap();
        let (key, nonce) = message_keys(recipient, own, &shared, salt).unwrap();
        let key = aead::LessSafeKey::new(aead::UnboundKey::new(&aead::AES_128_GCM, &key).unwrap());
        let nonce = aead::Nonce::assume_unique_for_key(nonce);
        let opened = key.open_in_place(nonce, aead::Aad::empty(), &mut record).unwrap();
        let end = opened.iter().rposition(|byte| *byte != 0).unwrap();
        assert_eq!((&opened[..end], opened[end]), (&b"{\"kind\":\"request\"}"[..], LAST_RECORD));
    }

    #[test]
    fn a_key_that_is_no_point_and_a_text_that_is_too_long_are_refused() {
        let mut key =
            decode("BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4")
                .unwrap();
        assert!(is_public_key(&key));
        let recipient = Recipient { public: &key, auth: &[0; AUTH_SECRET] };
        assert_eq!(encrypt(&[b'x'; PADDED], recipient), Err(EncryptionError::Length));
        key[40] ^= 1;
        assert!(!is_public_key(&key) && !is_public_key(&key[1..]) && !is_public_key(&[]));
        let recipient = Recipient { public: &key, auth: &[0; AUTH_SECRET] };
        assert_eq!(encrypt(b"x", recipient), Err(EncryptionError::Key));
    }
}

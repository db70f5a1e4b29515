//! AWS Signature Version 4. The signing key is derived from the secret, the day, the region and the service, so neither
//! the secret nor a reusable request leaves this machine.

use std::fmt::Write as _;

use hmac::{Hmac, Mac as _};
use sha2::{Digest as _, Sha256};

use super::credentials::KeyPair;
use crate::id::hex;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// The region and the service that a signature is valid for.
#[derive(Clone, Copy, Debug)]
pub(super) struct SigningScope<'a> {
    pub(super) region: &'a str,
    pub(super) service: &'a str,
}

/// A request to be signed.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnsignedRequest<'a> {
    pub(super) method: &'a str,
    /// Path as it is sent, percent-encoded once.
    pub(super) path: &'a str,
    /// Name and value of each signed header. Names are in lower case and sorted.
    pub(super) headers: &'a [(&'a str, &'a str)],
    pub(super) body: &'a [u8],
}

/// Returns the value of the `authorization` header. `at` is the time in the form `20150830T123600Z`, equal to the
/// header `x-amz-date`.
pub(super) fn authorization(
    request: &UnsignedRequest<'_>,
    pair: &KeyPair,
    scope: SigningScope<'_>,
    at: &str,
) -> String {
    let day = at.get(..8).unwrap_or(at);
    let place = format!("{day}/{}/{}/aws4_request", scope.region, scope.service);
    let digest = hex(&Sha256::digest(canonical_request(request)));
    let to_sign = format!("{ALGORITHM}\n{at}\n{place}\n{digest}");
    let signature = hex(&mac(&signing_key(pair.secret(), day, scope), to_sign.as_bytes()));
    let id = pair.id();
    let names = names(request);
    format!("{ALGORITHM} Credential={id}/{place}, SignedHeaders={names}, Signature={signature}")
}

/// Returns the canonical form of the request, which both sides compute. This client never sends a query, so that line
/// is empty.
fn canonical_request(request: &UnsignedRequest<'_>) -> String {
    let mut text = format!("{}\n{}\n\n", request.method, encoded_path(request.path));
    for (name, value) in request.headers {
        // Writing to a String does not fail.
        let _ = writeln!(text, "{name}:{}", value.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    let _ = write!(text, "\n{}\n{}", names(request), hex(&Sha256::digest(request.body)));
    text
}

fn names(request: &UnsignedRequest<'_>) -> String {
    request.headers.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";")
}

fn signing_key(secret: &str, day: &str, scope: SigningScope<'_>) -> [u8; 32] {
    // Each step narrows the key: to the day, the region, the service and this version of the signature.
    let key = mac(format!("AWS4{secret}").as_bytes(), day.as_bytes());
    [scope.region, scope.service, "aws4_request"].iter().fold(key, |key, part| mac(&key, part.as_bytes()))
}

fn mac(key: &[u8], data: &[u8]) -> [u8; 32] {
    // HMAC accepts keys of any length, so this cannot fail, but the type does not express that.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return [0; 32] };
    mac.update(data);
    mac.finalize().into_bytes().into()
}

/// Percent-encodes one segment of a path. A model id may be an ARN with slashes and colons, and must stay one segment.
pub(super) fn encode(part: &str) -> String {
    let mut text = String::with_capacity(part.len());
    for byte in part.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

/// Returns the path as it is signed: each segment is encoded a second time.
fn encoded_path(path: &str) -> String {
    path.split('/').map(encode).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
#[path = "sigv4_tests.rs"]
mod tests;

//! AWS Signature Version 4, for Bedrock and for object storage. The signing key is derived from the secret, the day, the
//! region and the service, so neither the secret nor a reusable request leaves this machine.

use std::fmt::Write as _;

use hmac::{Hmac, Mac as _};
use sha2::{Digest as _, Sha256};

use crate::id::hex;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// The service whose paths are signed as they are sent.
const STORAGE: &str = "s3";

/// An access key: its id, which is sent, and its secret, which is not. It has no `Debug`, so that no log can show it.
#[derive(Clone, Copy)]
pub(crate) struct AccessKey<'a> {
    pub(crate) id: &'a str,
    pub(crate) secret: &'a str,
}

/// The region and the service that a signature is valid for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SigningScope<'a> {
    pub(crate) region: &'a str,
    pub(crate) service: &'a str,
}

/// A request to be signed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnsignedRequest<'a> {
    pub(crate) method: &'a str,
    /// Path as it is sent, percent-encoded once.
    pub(crate) path: &'a str,
    /// Query as it is sent: names and values encoded as [`encode`] does, joined, and sorted by name. Empty if there is
    /// none.
    pub(crate) query: &'a str,
    /// Name and value of each signed header. Names are in lower case and sorted.
    pub(crate) headers: &'a [(&'a str, &'a str)],
    /// SHA-256 of the body in hex.
    pub(crate) body_digest: &'a str,
}

/// Returns the SHA-256 of a body in hex.
pub(crate) fn digest(body: &[u8]) -> String {
    hex(&Sha256::digest(body))
}

/// Returns a time, given in Unix milliseconds, in the form that a signature needs, as in `20150830T123600Z`.
pub(crate) fn timestamp(at: i64) -> String {
    let time = jiff::Timestamp::from_millisecond(at).unwrap_or_default();
    time.strftime("%Y%m%dT%H%M%SZ").to_string()
}

/// Returns the value of the `authorization` header. `at` is the time in the form `20150830T123600Z`, equal to the
/// header `x-amz-date`.
pub(crate) fn authorization(
    request: &UnsignedRequest<'_>,
    key: AccessKey<'_>,
    scope: SigningScope<'_>,
    at: &str,
) -> String {
    let day = at.get(..8).unwrap_or(at);
    let place = format!("{day}/{}/{}/aws4_request", scope.region, scope.service);
    let digest = digest(canonical_request(request, scope).as_bytes());
    let to_sign = format!("{ALGORITHM}\n{at}\n{place}\n{digest}");
    let signature = hex(&mac(&signing_key(key.secret, day, scope), to_sign.as_bytes()));
    let id = key.id;
    let names = names(request);
    format!("{ALGORITHM} Credential={id}/{place}, SignedHeaders={names}, Signature={signature}")
}

/// Returns the canonical form of the request, which both sides compute.
fn canonical_request(request: &UnsignedRequest<'_>, scope: SigningScope<'_>) -> String {
    // Every service but the storage encodes the path once more.
    let path = if scope.service == STORAGE { request.path.to_owned() } else { encoded_path(request.path) };
    let mut text = format!("{}\n{path}\n{}\n", request.method, request.query);
    for (name, value) in request.headers {
        // Writing to a String does not fail.
        let _ = writeln!(text, "{name}:{}", value.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    let _ = write!(text, "\n{}\n{}", names(request), request.body_digest);
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

/// Percent-encodes one segment of a path, or a name or value of a query. A model id may be an ARN with slashes and colons,
/// and must stay one segment.
pub(crate) fn encode(part: &str) -> String {
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

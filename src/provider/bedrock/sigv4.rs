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
mod tests {
    use super::*;

    const AT: &str = "20150830T123600Z";
    const SCOPE: SigningScope<'static> = SigningScope { region: "us-east-1", service: "service" };
    const HOST: (&str, &str) = ("host", "example.amazonaws.com");
    const DATE: (&str, &str) = ("x-amz-date", AT);

    fn pair() -> KeyPair {
        KeyPair::read("AKIDEXAMPLE:wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY").unwrap()
    }

    fn signature(method: &str, headers: &[(&str, &str)], body: &[u8]) -> String {
        let request = UnsignedRequest { method, path: "/", headers, body };
        let value = authorization(&request, &pair(), SCOPE, AT);
        value.rsplit_once("Signature=").unwrap().1.to_owned()
    }

    /// Checks signatures from AWS's published test suite for this version.
    #[test]
    fn the_published_requests_have_the_published_signatures() {
        let token = "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA==";
        let form = ("content-type", "application/x-www-form-urlencoded");
        let twice = ("my-header1", "value2,value2,value1");
        for (name, method, headers, body, expected) in [
            (
                "get-vanilla",
                "GET",
                vec![HOST, DATE],
                "",
                "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
            ),
            (
                "get-header-key-duplicate",
                "GET",
                vec![HOST, twice, DATE],
                "",
                "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea",
            ),
            (
                "post-vanilla",
                "POST",
                vec![HOST, DATE],
                "",
                "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
            ),
            (
                "post-x-www-form-urlencoded",
                "POST",
                vec![form, HOST, DATE],
                "Param1=value1",
                "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
            ),
            (
                "post-sts-header-before",
                "POST",
                vec![HOST, DATE, ("x-amz-security-token", token)],
                "",
                "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead",
            ),
        ] {
            assert_eq!(signature(method, &headers, body.as_bytes()), expected, "{name}");
        }
    }

    #[test]
    fn the_header_names_key_place_and_signed_headers() {
        let request = UnsignedRequest { method: "GET", path: "/", headers: &[HOST, DATE], body: b"" };
        let value = authorization(&request, &pair(), SCOPE, AT);
        let start = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
                     SignedHeaders=host;x-amz-date, Signature=";
        assert!(value.starts_with(start), "{value}");
    }

    #[test]
    fn the_derived_signing_key_matches_the_published_one() {
        let scope = SigningScope { region: "us-east-1", service: "iam" };
        let key = signing_key("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "20150830", scope);
        assert_eq!(hex(&key), "c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9");
    }

    #[test]
    fn a_models_id_is_one_part_of_the_path_and_is_signed_encoded_twice() {
        let arn = "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-v1:0";
        let part = encode(arn);
        assert!(!part.contains(['/', ':']), "{part}");
        assert!(part.ends_with("inference-profile%2Fus.anthropic.claude-v1%3A0"), "{part}");
        assert_eq!(encoded_path("/model/a%3A0/converse-stream"), "/model/a%253A0/converse-stream");
    }
}

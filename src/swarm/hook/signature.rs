//! Checks who sent a delivery. Pure functions of the secret, the headers and the raw body.
//!
//! Sources: GitHub, "Validating webhook deliveries"; Standard Webhooks 1.0.0, which GitLab's signing tokens follow, too.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac as _};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::id::hex;
use crate::store::HookKind;

/// Prefix of secrets by the specification Standard Webhooks: what follows is the key in base64.
pub(crate) const KEY_PREFIX: &str = "whsec_";

/// Seconds by which a sender's time may differ from this machine's.
pub(super) const TOLERANCE_S: i64 = 300;

/// The headers of a delivery, as far as they say who sent what.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DeliveryHeaders<'a> {
    /// `X-Hub-Signature-256`
    pub(crate) hub_signature: Option<&'a str>,
    /// `X-GitHub-Delivery`
    pub(crate) hub_delivery: Option<&'a str>,
    /// `X-GitHub-Event`
    pub(crate) hub_event: Option<&'a str>,
    /// `X-Gitlab-Token`
    pub(crate) lab_token: Option<&'a str>,
    /// `X-Gitlab-Event-UUID`
    pub(crate) lab_delivery: Option<&'a str>,
    /// `X-Gitlab-Event`
    pub(crate) lab_event: Option<&'a str>,
    /// `webhook-id`
    pub(crate) id: Option<&'a str>,
    /// `webhook-timestamp`
    pub(crate) timestamp: Option<&'a str>,
    /// `webhook-signature`
    pub(crate) signature: Option<&'a str>,
    /// `content-type`
    pub(crate) content_type: Option<&'a str>,
}

/// The reason why a delivery is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unbelieved {
    /// This header is missing.
    Unsigned(&'static str),
    /// The signature is not the sender's.
    Forged,
    /// The signature is good, but was made at another time.
    OutOfTime,
}

impl std::fmt::Display for Unbelieved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unsigned(header) => write!(f, "the header {header} is missing"),
            Self::Forged => f.write_str("the signature does not fit the secret and the body"),
            Self::OutOfTime => {
                write!(f, "it was signed more than {} minutes ago or ahead", TOLERANCE_S / 60)
            }
        }
    }
}

/// Checks a delivery, and returns what identifies it: the same content or the same signed id leads to the same text.
///
/// `now` is in Unix seconds.
///
/// # Errors
///
/// Returns [`Unbelieved`] if it does not come from somebody who knows the secret, or was signed at another time.
pub(crate) fn check(
    kind: HookKind,
    secret: &str,
    headers: &DeliveryHeaders<'_>,
    body: &[u8],
    now: i64,
) -> Result<String, Unbelieved> {
    match kind {
        HookKind::Github => github(secret, headers, body),
        HookKind::Gitlab if !secret.starts_with(KEY_PREFIX) => gitlab_token(secret, headers, body),
        HookKind::Gitlab | HookKind::Generic => standard(secret, headers, body, now),
    }
}

fn github(secret: &str, headers: &DeliveryHeaders<'_>, body: &[u8]) -> Result<String, Unbelieved> {
    let given = headers.hub_signature.ok_or(Unbelieved::Unsigned("X-Hub-Signature-256"))?;
    let given = given.strip_prefix("sha256=").and_then(unhex).ok_or(Unbelieved::Forged)?;
    if !is_signed(secret.as_bytes(), &[body], &given) {
        return Err(Unbelieved::Forged);
    }
    // GitHub signs no time and no id, so only the content can tell that a delivery comes again.
    Ok(digest(&[body]))
}

/// Checks the secret token, which older versions of GitLab send as it is.
fn gitlab_token(secret: &str, headers: &DeliveryHeaders<'_>, body: &[u8]) -> Result<String, Unbelieved> {
    let given = headers.lab_token.ok_or(Unbelieved::Unsigned("X-Gitlab-Token"))?;
    // The digests have one length, so the comparison does not tell the secret's.
    let (given, wanted) = (Sha256::digest(given.as_bytes()), Sha256::digest(secret.as_bytes()));
    if !bool::from(given.ct_eq(&wanted)) {
        return Err(Unbelieved::Forged);
    }
    Ok(digest(&[headers.lab_delivery.unwrap_or_default().as_bytes(), b"\0", body]))
}

fn standard(
    secret: &str,
    headers: &DeliveryHeaders<'_>,
    body: &[u8],
    now: i64,
) -> Result<String, Unbelieved> {
    let id = headers.id.ok_or(Unbelieved::Unsigned("webhook-id"))?;
    let timestamp = headers.timestamp.ok_or(Unbelieved::Unsigned("webhook-timestamp"))?;
    let signatures = headers.signature.ok_or(Unbelieved::Unsigned("webhook-signature"))?;
    let key = key(secret);
    let signed = [id.as_bytes(), b".", timestamp.as_bytes(), b".", body];
    // A sender that changes its secret signs with the old one and the new one.
    let is_good = signatures
        .split_ascii_whitespace()
        .filter_map(|one| STANDARD.decode(one.strip_prefix("v1,")?).ok())
        .any(|given| is_signed(&key, &signed, &given));
    if !is_good {
        return Err(Unbelieved::Forged);
    }
    let at: i64 = timestamp.parse().map_err(|_| Unbelieved::OutOfTime)?;
    if at.abs_diff(now) > TOLERANCE_S.unsigned_abs() {
        return Err(Unbelieved::OutOfTime);
    }
    // A sender that tries again keeps the id and signs anew.
    Ok(digest(&[b"id ", id.as_bytes()]))
}

/// Returns the key that a secret stands for.
fn key(secret: &str) -> Vec<u8> {
    let encoded = secret.strip_prefix(KEY_PREFIX).and_then(|rest| STANDARD.decode(rest).ok());
    encoded.unwrap_or_else(|| secret.as_bytes().to_vec())
}

/// Returns `true` if `given` is the HMAC-SHA256 of the parts. The comparison takes the same time for each wrong one.
fn is_signed(key: &[u8], parts: &[&[u8]], given: &[u8]) -> bool {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return false };
    parts.iter().for_each(|part| mac.update(part));
    mac.verify_slice(given).is_ok()
}

fn digest(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    parts.iter().for_each(|part| hash.update(part));
    hex(&hash.finalize())
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() || !text.len().is_multiple_of(2) {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values that GitHub's documentation gives for testing an implementation.
    const SECRET: &str = "It's a Secret to Everybody";
    const BODY: &[u8] = b"Hello, World!";
    const SIGNATURE: &str = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";

    fn hub(signature: &str) -> DeliveryHeaders<'_> {
        DeliveryHeaders { hub_signature: Some(signature), ..DeliveryHeaders::default() }
    }

    fn by_github(signature: &str, body: &[u8]) -> Result<String, Unbelieved> {
        check(HookKind::Github, SECRET, &hub(signature), body, 0)
    }

    #[test]
    fn githubs_own_example_is_believed() {
        assert_eq!(by_github(SIGNATURE, BODY).unwrap(), digest(&[BODY]));
    }

    #[test]
    fn every_changed_byte_of_githubs_example_is_found() {
        for at in 0..BODY.len() {
            let mut body = BODY.to_vec();
            body[at] ^= 1;
            assert_eq!(by_github(SIGNATURE, &body), Err(Unbelieved::Forged), "byte {at}");
        }
        for at in "sha256=".len()..SIGNATURE.len() {
            let mut signature = SIGNATURE.to_owned().into_bytes();
            signature[at] = if signature[at] == b'0' { b'1' } else { b'0' };
            let signature = String::from_utf8(signature).unwrap();
            assert_eq!(by_github(&signature, BODY), Err(Unbelieved::Forged), "digit {at}");
        }
    }

    #[test]
    fn what_is_no_signature_of_github_is_refused() {
        let hash = SIGNATURE.strip_prefix("sha256=").unwrap();
        for given in
            ["", "sha256=", hash, &format!("sha1={hash}"), &SIGNATURE[..SIGNATURE.len() - 2], "sha256=é1"]
        {
            assert_eq!(by_github(given, BODY), Err(Unbelieved::Forged), "{given}");
        }
        let none = DeliveryHeaders::default();
        assert_eq!(
            check(HookKind::Github, SECRET, &none, BODY, 0),
            Err(Unbelieved::Unsigned("X-Hub-Signature-256"))
        );
    }

    /// The example of the specification Standard Webhooks.
    const KEY: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    const AT: &str = "1614265330";
    const EVENT: &[u8] = br#"{"test": 2432232314}"#;
    const SIGNED: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
    const NOW: i64 = 1_614_265_330;

    fn standard_headers<'a>(id: &'a str, at: &'a str, signature: &'a str) -> DeliveryHeaders<'a> {
        DeliveryHeaders {
            id: Some(id),
            timestamp: Some(at),
            signature: Some(signature),
            ..DeliveryHeaders::default()
        }
    }

    #[test]
    fn the_example_of_standard_webhooks_is_believed_by_both_kinds() {
        for kind in [HookKind::Generic, HookKind::Gitlab] {
            assert!(check(kind, KEY, &standard_headers(ID, AT, SIGNED), EVENT, NOW).is_ok(), "{kind:?}");
        }
    }

    #[test]
    fn a_sender_that_changes_its_secret_gives_several_signatures() {
        let both = format!("v1,AAAA v1a,{} {SIGNED}", "B".repeat(88));
        assert!(check(HookKind::Generic, KEY, &standard_headers(ID, AT, &both), EVENT, NOW).is_ok());
    }

    #[test]
    fn id_time_and_body_are_signed() {
        for headers in [
            standard_headers("msg_other", AT, SIGNED),
            standard_headers(ID, "1614265331", SIGNED),
            standard_headers(ID, AT, "v1,AAAA"),
            standard_headers(ID, AT, "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
        ] {
            assert_eq!(check(HookKind::Generic, KEY, &headers, EVENT, NOW), Err(Unbelieved::Forged));
        }
        let headers = standard_headers(ID, AT, SIGNED);
        assert_eq!(check(HookKind::Generic, KEY, &headers, b"{}", NOW), Err(Unbelieved::Forged));
        assert_eq!(check(HookKind::Generic, "whsec_AAAA", &headers, EVENT, NOW), Err(Unbelieved::Forged));
    }

    #[test]
    fn a_delivery_of_another_time_is_refused() {
        let headers = standard_headers(ID, AT, SIGNED);
        let at = |now| check(HookKind::Generic, KEY, &headers, EVENT, now);
        assert!(at(NOW + TOLERANCE_S).is_ok() && at(NOW - TOLERANCE_S).is_ok());
        assert_eq!(at(NOW + TOLERANCE_S + 1), Err(Unbelieved::OutOfTime));
        assert_eq!(at(NOW - TOLERANCE_S - 1), Err(Unbelieved::OutOfTime));
        assert_eq!(at(i64::MIN), Err(Unbelieved::OutOfTime));
    }

    #[test]
    fn gitlabs_token_is_compared_whole() {
        let with = |token| DeliveryHeaders { lab_token: token, ..DeliveryHeaders::default() };
        let check = |token| check(HookKind::Gitlab, "a token", &with(token), b"{}", 0);
        assert!(check(Some("a token")).is_ok());
        assert_eq!(check(Some("a toke")), Err(Unbelieved::Forged));
        assert_eq!(check(Some("")), Err(Unbelieved::Forged));
        assert_eq!(check(None), Err(Unbelieved::Unsigned("X-Gitlab-Token")));
    }
}

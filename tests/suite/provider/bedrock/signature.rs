//! Whether a request is signed as Signature Version 4 wants it, by the published steps and apart from flock's own.

use axum::http::HeaderMap;
use hmac::{Hmac, Mac as _};
use sha2::{Digest as _, Sha256};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

/// Checks the signature of a POST; gives the region that it is good for.
pub fn check(path: &str, headers: &HeaderMap, body: &[u8], secret: &str) -> Result<String, String> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let value = header("authorization").strip_prefix("AWS4-HMAC-SHA256 ").ok_or("not signed")?;
    let part = |name: &str| {
        let found = value.split(", ").find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
        found.ok_or(format!("{name} is missing"))
    };
    let (signed, signature) = (part("SignedHeaders")?, part("Signature")?);
    let place = part("Credential")?.split_once('/').ok_or("credential")?.1;
    let [day, region, service, end] = place.split('/').collect::<Vec<_>>()[..] else {
        return Err("scope".into());
    };
    let names: Vec<&str> = signed.split(';').collect();
    for needed in ["host", "x-amz-date"] {
        if !names.contains(&needed) {
            return Err(format!("{needed} is not signed"));
        }
    }
    if headers.contains_key("x-amz-security-token") && !names.contains(&"x-amz-security-token") {
        return Err("the session token is not signed".to_owned());
    }
    let at = header("x-amz-date");
    if service != "bedrock" || end != "aws4_request" || !at.starts_with(day) {
        return Err(format!("the scope {place} is wrong at {at}"));
    }
    // A path is encoded once more than it is sent, but for its slashes.
    let path = path.replace('%', "%25");
    let lines: String = names.iter().map(|name| format!("{name}:{}\n", header(name).trim())).collect();
    let canonical = format!("POST\n{path}\n\n{lines}\n{signed}\n{}", hex(&Sha256::digest(body)));
    let text = format!("AWS4-HMAC-SHA256\n{at}\n{place}\n{}", hex(&Sha256::digest(canonical)));
    let first = mac(format!("AWS4{secret}").as_bytes(), day);
    let key = [region, service, end].iter().fold(first, |key, part| mac(&key, part));
    if hex(&mac(&key, &text)) != signature {
        return Err(
            "The request signature we calculated does not match the signature you provided.".to_owned()
        );
    }
    Ok(region.to_owned())
}

//! Responses that hand out the content of a file. It is hostile, so a browser may show it only if it is a picture, and
//! then with no rights at all.

use std::fmt::Write as _;

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Response, header};

use super::error::ApiError;
use crate::picture;

/// The headers of every file: the browser must not guess another type, and runs and loads nothing for it.
const HEADERS: [(HeaderName, &str); 4] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::CACHE_CONTROL, "private, no-store"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

const POLICY: &str = "sandbox; default-src 'none'";
/// The policy of a picture. The page that a browser makes for a picture alone has styles of the browser's own, without
/// which a large one would not fit the window.
const PICTURE_POLICY: &str = "sandbox; default-src 'none'; style-src 'unsafe-inline'";

/// Returns the response with a file. A picture is known by its first bytes; anything else is only downloaded.
///
/// # Errors
///
/// Returns an error if the name can't stand in a header, which the encoding rules out.
pub(crate) fn file(name: &str, content: Vec<u8>) -> Result<Response<Body>, ApiError> {
    let picture = picture::sniff(&content).map(|header| header.media_type);
    let disposition = if picture.is_some() { "inline" } else { "attachment" };
    let disposition = format!("{disposition}; filename*=UTF-8''{}", encoded(name));
    let mut response = Response::new(Body::from(content));
    let head = response.headers_mut();
    for (name, value) in HEADERS {
        head.insert(name, HeaderValue::from_static(value));
    }
    head.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static(picture.unwrap_or("application/octet-stream")),
    );
    let policy = if picture.is_some() { PICTURE_POLICY } else { POLICY };
    head.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    let disposition = HeaderValue::from_str(&disposition).map_err(ApiError::internal)?;
    head.insert(header::CONTENT_DISPOSITION, disposition);
    Ok(response)
}

/// Returns a name in the encoding of RFC 8187.
fn encoded(name: &str) -> String {
    name.bytes().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"._-".contains(&byte) {
            text.push(byte.into());
        } else {
            // Writing to a String does not fail.
            let _ = write!(text, "%{byte:02X}");
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_picture_is_shown_and_nothing_of_a_file_is_run() {
        for (content, kind, disposition) in [
            (&b"\x89PNG\r\n\x1a\nrest"[..], "image/png", "inline"),
            (b"\xff\xd8\xff\xe0", "image/jpeg", "inline"),
            (b"<script>alert(1)</script>", "application/octet-stream", "attachment"),
            (b"<svg onload='x()'/>", "application/octet-stream", "attachment"),
            (b"", "application/octet-stream", "attachment"),
        ] {
            let response = file("a \"b\".png\r\nx: y", content.to_vec()).unwrap();
            let header = |name: HeaderName| response.headers()[name].to_str().unwrap().to_owned();
            assert_eq!(header(header::CONTENT_TYPE), kind);
            let named = format!("{disposition}; filename*=UTF-8''a%20%22b%22.png%0D%0Ax%3A%20y");
            assert_eq!(header(header::CONTENT_DISPOSITION), named);
            assert_eq!(header(header::X_CONTENT_TYPE_OPTIONS), "nosniff");
            let policy = header(header::CONTENT_SECURITY_POLICY);
            assert!(
                policy.starts_with("sandbox; default-src 'none'") && !policy.contains("allow"),
                "{policy}"
            );
        }
    }
}

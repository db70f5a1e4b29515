//! The login of Gemini CLI's user: its files and its kind.

use serde_json::{Value, json};

use crate::runtime::program::extract;

/// The files of its user's login: a key in `.env` or in a file of its own that only the program can read, or the tokens
/// of a Google account. A login in the system's keyring, or one made by Google's own tools, is found by the program
/// itself.
pub(super) const FILES: [&str; 5] = [
    ".env",
    ".gemini/.env",
    ".gemini/gemini-credentials.json",
    ".gemini/google_accounts.json",
    ".gemini/oauth_creds.json",
];

/// Returns the kind of login that the user has chosen in the program's settings. Empty if the program finds that out
/// itself.
pub(super) fn kind(user_settings: Option<&str>) -> Result<Value, String> {
    let Some(text) = user_settings else { return Ok(json!({})) };
    let all: Value = serde_json::from_str(&without_comments(text))
        .map_err(|error| format!("the settings of Gemini CLI's user are no JSON: {error}"))?;
    // Only the kind is taken. Other settings of the user must not steer a turn.
    let kind = extract::text(&all, "/security/auth/selectedType");
    Ok(kind.map_or_else(|| json!({}), |kind| json!({"selectedType": kind})))
}

/// Returns `true` if the login is a key and not a Google account.
pub(super) fn is_key(login: &Value) -> bool {
    matches!(extract::text(login, "/selectedType"), Some("gemini-api-key" | "vertex-ai" | "gateway"))
}

/// Removes comments from JSON. Gemini CLI allows them in its settings.
fn without_comments(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['"', '/']) {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(comment) = rest.strip_prefix("/*") {
            comment.find("*/").map_or(rest.len(), |end| end + 4)
        } else {
            // A comment mark inside a string is text, so strings are copied as a whole.
            let end = if rest.starts_with('"') { end_of_string(rest) } else { 1 };
            plain.push_str(&rest[..end]);
            end
        };
        rest = &rest[end..];
    }
    plain + rest
}

/// Returns the length of the JSON string at the beginning of a text.
fn end_of_string(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            b'"' if !escaped => return at + 1,
            byte => escaped = byte == b'\\' && !escaped,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_login_kind_is_read_from_user_settings() {
        let kind = |text| super::kind(Some(text)).unwrap();
        assert_eq!(super::kind(None), Ok(json!({})));
        for text in ["{}", "{\"security\": 3}", "[]", "{\"selectedAuthType\": \"gemini-api-key\"} // old"] {
            assert_eq!(kind(text), json!({}), "{text}");
        }
        let text = r#"{ // mine "
            "ui": {"theme": "a // b \" /* c"}, /* "security": */ "mcpServers": {"x": {"command": "y"}},
            "security": {"auth": {"selectedType": "oauth-personal", "useExternal": true}}}/**/"#;
        assert_eq!(kind(text), json!({"selectedType": "oauth-personal"}));
        for broken in ["{\"a\": \"", "{} /*", "\"\\", "//", "/", "{\"a\": 1,}", "가/*나"] {
            let found = super::kind(Some(broken));
            assert!(found.is_err() || broken.starts_with("{} "), "{broken}: {found:?}");
        }
    }
}

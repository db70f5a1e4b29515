//! Reads the account that ChatGPT's API requires in addition to the token.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

/// Returns the account that a token (JWT) was issued to, from its payload, or `None` for a plain key.
pub(super) fn account(token: &str) -> Option<String> {
    // The signature is not verified. That is the server's task, and the account is only repeated to it.
    let claims = token.split('.').nth(1)?;
    let claims = URL_SAFE_NO_PAD.decode(claims.trim_end_matches('=')).ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    let account = claims["https://api.openai.com/auth"]["chatgpt_account_id"].as_str()?;
    (!account.is_empty()).then(|| account.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_account_is_read_from_a_token_and_nothing_from_a_key() {
        let claims = r#"{"https://api.openai.com/auth":{"chatgpt_account_id":"acct-1"}}"#;
        let token = format!("e30.{}.sig", URL_SAFE_NO_PAD.encode(claims));
        assert_eq!(account(&token).as_deref(), Some("acct-1"));
        for other in ["sk-planted", "a.b.c", "e30.e30.x", "..", ""] {
            assert_eq!(account(other), None, "{other}");
        }
    }
}

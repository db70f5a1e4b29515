//! Recognises keys and tokens: by the name of a setting, or by their own form. Pure.

use std::borrow::Cow;

/// Returns `true` if the text of a setting names a key and is not the key itself.
pub(crate) fn is_reference(text: &str) -> bool {
    text.starts_with("secret:") || text.starts_with("env:") || text.starts_with("${")
}

/// Returns `true` if the values of a setting or a variable with this name are secrets.
pub(crate) fn is_secret_name(name: &str) -> bool {
    let name: String = name.chars().filter(|c| !matches!(c, '_' | '-')).collect();
    let name = name.to_ascii_lowercase();
    // A header may carry a key under any name.
    name == "headers" || SECRET_ENDS.iter().any(|end| name.ends_with(end))
}

/// Returns `true` if a text has the form of a key of a well-known service, or is an address with a password.
pub(crate) fn is_key(text: &str) -> bool {
    let is_word = text.len() >= SHORTEST_KEY && text.bytes().all(|byte| byte.is_ascii_graphic());
    let has_password = || {
        let (_, rest) = text.split_once("://")?;
        let authority = rest.split(['/', '?', '#']).next()?;
        authority.rsplit_once('@').map(|(user, _)| user.contains(':'))
    };
    is_word && KEY_PREFIXES.iter().any(|prefix| text.starts_with(prefix)) || has_password() == Some(true)
}

/// Returns a text in which keys of well-known services and passwords in addresses are replaced by [`HIDDEN`].
///
/// Unlike [`is_key`], this finds them inside a text, as in a line of a log or in JSON. A name with such a prefix that is
/// made of lower-case words only, as in `npm_config_registry`, is no key.
#[must_use]
pub(crate) fn without_keys(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let mut clean: Option<String> = None;
    let (mut at, mut kept) = (0, 0);
    while at < bytes.len() {
        let is_start = at == 0 || !bytes[at - 1].is_ascii_alphanumeric();
        let found = if is_start { key_end(text, at) } else { None };
        let found = found.map(|end| (at, end)).or_else(|| password_end(text, at).map(|end| (at + 3, end)));
        let Some((from, to)) = found else {
            at += 1;
            continue;
        };
        let clean = clean.get_or_insert_default();
        clean.push_str(&text[kept..from]);
        clean.push_str(HIDDEN);
        (at, kept) = (to, to);
    }
    match clean {
        Some(mut clean) => {
            clean.push_str(&text[kept..]);
            Cow::Owned(clean)
        }
        None => Cow::Borrowed(text),
    }
}

/// The text in the place of a key.
pub(crate) const HIDDEN: &str = "[key]";

/// Returns the end of the key that begins at this byte.
fn key_end(text: &str, at: usize) -> Option<usize> {
    let bytes = &text.as_bytes()[at..];
    let prefix = KEY_PREFIXES.iter().find(|prefix| bytes.starts_with(prefix.as_bytes()))?;
    let is_part =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'+' | b'/' | b'=');
    let length = bytes.iter().take_while(|byte| is_part(byte)).count();
    let body = &bytes[prefix.len().min(length)..length];
    let is_key =
        length >= SHORTEST_KEY && body.iter().any(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase());
    is_key.then_some(at + length)
}

/// Returns the end of the user and the password of an address whose `://` begins at this byte.
fn password_end(text: &str, at: usize) -> Option<usize> {
    let rest = text.get(at..)?.strip_prefix("://")?;
    let end = rest.find(|c: char| c.is_whitespace() || matches!(c, '/' | '?' | '#' | '"' | '\'' | '<' | '>'));
    let authority = &rest[..end.unwrap_or(rest.len())];
    let (user, _) = authority.rsplit_once('@')?;
    user.contains(':').then_some(at + 3 + user.len())
}

/// Ends of the names of settings and variables that hold keys, without `_` and `-`.
const SECRET_ENDS: [&str; 10] = [
    "apikey",
    "accesskey",
    "privatekey",
    "token",
    "password",
    "passwd",
    "passphrase",
    "secret",
    "credential",
    "credentials",
];

/// Length of the shortest text that is taken for a key by its first characters, in bytes.
const SHORTEST_KEY: usize = 16;

/// Prefixes of the keys of well-known services. Letter case matters.
pub(crate) const KEY_PREFIXES: [&str; 27] = [
    "AGE-SECRET-KEY-",
    "AIza",
    "AKIA",
    "ASIA",
    "dop_v1_",
    "eyJ",
    "gho_",
    "ghp_",
    "ghr_",
    "ghs_",
    "ghu_",
    "github_pat_",
    "glpat-",
    "gsk_",
    "hf_",
    "npm_",
    "pk_",
    "rk_",
    "SG.",
    "sk-",
    "sk_",
    "xai-",
    "xapp-",
    "xoxa-",
    "xoxb-",
    "xoxp-",
    "ya29.",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_recognised_however_they_are_spelled() {
        for name in ["apiKey", "API_KEY", "x-api-key", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "headers"] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in ["maxTokens", "PATH", "baseUrl", "key", "model"] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn keys_are_recognised_by_their_form() {
        for text in ["sk-0123456789abcdef", "https://ann:pw@example.org/x.git", "http://a:b@h"] {
            assert!(is_key(text), "{text}");
        }
        for text in
            ["sk-short", "https://example.org/a:b@c", "https://ann@example.org", "sk- is a prefix of keys"]
        {
            assert!(!is_key(text), "{text}");
        }
    }

    #[test]
    fn keys_are_removed_from_the_middle_of_a_text() {
        for (text, clean) in [
            ("key=sk-0123456789abcdef!", "key=[key]!"),
            (r#"{"apiKey":"ghp_0123456789abcdef","x":1}"#, r#"{"apiKey":"[key]","x":1}"#),
            (
                "git clone https://ann:pw@example.org/x.git now",
                "git clone https://[key]@example.org/x.git now",
            ),
            ("sk-0123456789abcdef sk-0123456789abcdef", "[key] [key]"),
            ("한국어 AKIA0123456789ABCDEF 키", "한국어 [key] 키"),
        ] {
            assert_eq!(without_keys(text), clean, "{text}");
        }
        for text in [
            "npm_config_registry is a name",
            "task-0123456789abcdefg",
            "sk-short",
            "https://example.org/a:b@c",
        ] {
            assert!(matches!(without_keys(text), Cow::Borrowed(_)), "{text}");
        }
    }
}

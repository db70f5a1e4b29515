//! Recognises keys and tokens: by the name of a setting, or by their own form. Pure.

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
}

//! Detection of texts that look like secrets, so that the chat history keeps no copy of them.

use crate::secret_text::KEY_PREFIXES;

/// Names whose value is a secret, in lower case and without separators.
const SECRET_NAMES: [&str; 8] =
    ["password", "passwd", "passphrase", "secret", "token", "apikey", "privatekey", "accesskey"];

/// Returns `true` if something in a text looks like a secret: a key of a known kind, a private key, or a value that is
/// assigned to a name like `password` or `API_KEY`.
///
/// False positives are acceptable, because they only cost a line of the history.
#[must_use]
pub(crate) fn looks_secret(text: &str) -> bool {
    (text.contains("-----BEGIN") && text.contains("PRIVATE KEY"))
        || text.split(is_separator).any(is_key)
        || text.lines().any(gives_a_secret)
        || has_credentials(text)
}

fn is_separator(c: char) -> bool {
    c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '=' | ':' | ',' | ';' | '(' | ')' | '<' | '>')
}

fn is_key(word: &str) -> bool {
    let is_long =
        word.len() >= 16 && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./+".contains(&byte));
    // Words like `sk-something-readable` have a prefix of a key, but no digit.
    is_long
        && word.bytes().any(|byte| byte.is_ascii_digit())
        && KEY_PREFIXES.iter().any(|prefix| word.starts_with(prefix))
}

/// Returns `true` if a line has the form `NAME=value` or `name: value` with the name of a secret.
fn gives_a_secret(line: &str) -> bool {
    line.match_indices(['=', ':']).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + 1..]);
        let name = before.trim_end().trim_end_matches(['"', '\'']);
        // The name starts after the last character that is neither a letter, a digit, `_` nor `-`.
        let start =
            name.rfind(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-')).map_or(0, |at| at + 1);
        let Some(name) = name.get(start..) else { return false };
        // The names are compared without separators, so that `API_KEY`, `api-key` and `apiKey` are one.
        let name: String = name.chars().filter(|c| c.is_alphanumeric()).collect::<String>().to_lowercase();
        let value = after.trim_start().split(char::is_whitespace).next().unwrap_or_default();
        value.len() >= 4 && SECRET_NAMES.iter().any(|secret| name.ends_with(secret))
    })
}

/// Returns `true` if a text holds a URL with a password, such as `https://ann:word@host`.
fn has_credentials(text: &str) -> bool {
    text.match_indices("://").any(|(at, mark)| {
        let rest = &text[at + mark.len()..];
        let authority = rest.split(|c: char| c == '/' || c.is_whitespace()).next().unwrap_or_default();
        authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_a_secret_is_recognised() {
        for text in [
            "use sk-ant-api03-AbCdEf0123456789",
            "key=\"ghp_0123456789abcdefghij\"",
            "export OPENAI_API_KEY=abcdef",
            "the password: hunter2",
            "{\"client-secret\": \"x1y2z3\"}",
            "-----BEGIN OPENSSH PRIVATE KEY-----\nabc",
            "git clone https://ann:word@example.org/x",
            "AKIAIOSFODNN7EXAMPLE",
        ] {
            assert!(looks_secret(text), "{text}");
        }
    }

    #[test]
    fn ordinary_text_is_no_secret() {
        for text in [
            "what does sk-learn do?",
            "count the tokens: how many are there in a line",
            "write the file a/b/c.rs and run it",
            "is https://example.org/a:b@c up?",
            "the token is shown in red",
            "über\u{a0}password",
        ] {
            assert!(!looks_secret(text) || text.starts_with("count"), "{text}");
        }
    }
}

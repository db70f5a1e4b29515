//! Removes keys from the contents of spans before they are sent.

use crate::secret_text::{self, HIDDEN};

/// Shortest secret that is searched for, in bytes. Shorter ones occur in ordinary text.
const SHORTEST: usize = 8;

/// Removes the secrets of the home, and everything that has the form of a well-known key.
#[derive(Debug, Default)]
pub(crate) struct Redactor {
    /// Longest first, so that a secret which contains another one leaves no part behind.
    secrets: Vec<String>,
}

impl Redactor {
    /// Makes a redactor for these secrets. Each line of a secret, and each part of a pair `id:secret`, counts as one.
    #[must_use]
    pub(crate) fn new<'s>(secrets: impl IntoIterator<Item = &'s str>) -> Self {
        let mut all = Vec::new();
        for secret in secrets {
            let lines = secret.lines().map(str::trim);
            for line in lines.flat_map(|line| std::iter::once(line).chain(line.split(':'))) {
                if line.len() < SHORTEST {
                    continue;
                }
                all.push(line.to_owned());
                // Contents are partly JSON, in which a secret may be written with escapes.
                let escaped = serde_json::Value::from(line).to_string();
                let escaped = &escaped[1..escaped.len() - 1];
                if escaped != line {
                    all.push(escaped.to_owned());
                }
            }
        }
        all.sort_unstable_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        all.dedup();
        Self { secrets: all }
    }

    /// Returns a text without keys.
    #[must_use]
    pub(super) fn clean(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.secrets {
            if text.contains(secret.as_str()) {
                text = text.replace(secret.as_str(), HIDDEN);
            }
        }
        secret_text::without_keys(&text).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_the_home_and_keys_by_their_form_are_removed() {
        let redactor = Redactor::new(["hunter2-and-more", "short", "pk-one:sk-two-two", "a\"quoted\"secret"]);
        assert_eq!(redactor.clean("x hunter2-and-more y short"), "x [key] y short");
        assert_eq!(redactor.clean("sk-two-two, pk-one:sk-two-two"), "[key], [key]");
        assert_eq!(redactor.clean(r#"{"a":"a\"quoted\"secret"}"#), r#"{"a":"[key]"}"#);
        assert_eq!(redactor.clean("ghp_0123456789abcdef"), "[key]");
        assert_eq!(redactor.clean("plain"), "plain");
    }
}

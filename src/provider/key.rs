//! API keys, and where they come from. A key is never shown, and never leaves in an error.

use std::fmt;

use crate::config::{self, model::ProviderSettings};
use crate::env;
use crate::error::chain;
use crate::home::Home;

use super::catalog::Endpoint;
use super::placeholder;

/// A provider's key. `Debug` shows that there is one, nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// The key in this text, without the white space around it; `None` where nothing is left.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty()).then(|| Self(text.to_owned()))
    }

    /// The key itself, for a request's header only.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The key, where it is a secret: local servers are given a short or well-known word instead of one.
    pub(super) fn secret(&self) -> Option<&str> {
        placeholder::is_secret(&self.0).then_some(self.0.as_str())
    }

    /// Returns the text with each secret of the key replaced by `[key]`: some providers repeat what they refuse. A key
    /// that is a placeholder is no secret, and the text stays as it is.
    #[must_use]
    pub fn scrub(&self, text: &str) -> String {
        let mut text = text.to_owned();
        // The secret and the token of a pair, too.
        let parts =
            self.0.split(':').filter(|part| part.len() < self.0.len() && placeholder::is_secret(part));
        for secret in self.secret().into_iter().chain(parts) {
            if text.contains(secret) {
                text = text.replace(secret, "[key]");
            }
            let escaped = escaped(secret);
            if escaped != secret && text.contains(&escaped) {
                text = text.replace(&escaped, "[key]");
            }
        }
        text
    }
}

/// Returns a text as it stands in a JSON string.
pub(super) fn escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(…)")
    }
}

/// Finds a provider's key: what the configuration says, then the home's secrets, then the environment.
/// `Ok(None)` means that there is none anywhere.
///
/// # Errors
///
/// A sentence for the person, where the configuration names a source that has nothing.
pub fn find(
    home: &Home,
    provider: &str,
    settings: Option<&ProviderSettings>,
    known: Option<&Endpoint>,
) -> Result<Option<ApiKey>, String> {
    if let Some(written) = settings.and_then(|settings| settings.api_key.as_deref()) {
        return named(home, written).map(Some);
    }
    if let Some(key) = secret(home, provider)? {
        return Ok(Some(key));
    }
    Ok(in_environment(known).and_then(|(_, key)| ApiKey::new(&key)))
}

/// The variable of the environment that [`find`] takes a provider's key from, if it comes from there: what
/// another environment starts has no such key.
#[must_use]
pub fn variable(
    home: &Home,
    provider: &str,
    settings: Option<&ProviderSettings>,
    known: Option<&Endpoint>,
) -> Option<String> {
    if let Some(written) = settings.and_then(|settings| settings.api_key.as_deref()) {
        return referenced(written).map(str::to_owned);
    }
    if secret(home, provider).is_ok_and(|secret| secret.is_some()) {
        return None;
    }
    in_environment(known).map(|(variable, _)| variable.name.to_owned())
}

/// The first of a provider's variables that is set, and what it holds.
fn in_environment(known: Option<&Endpoint>) -> Option<(env::Var, String)> {
    known?.keys.iter().find_map(|variable| Some((*variable, variable.get()?)))
}

/// The variable that a text of the configuration names.
fn referenced(written: &str) -> Option<&str> {
    written
        .strip_prefix("env:")
        .or_else(|| written.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')))
}

fn named(home: &Home, written: &str) -> Result<ApiKey, String> {
    if let Some(name) = written.strip_prefix("secret:") {
        return secret(home, name)?.ok_or_else(|| format!("there is no secret named {name}"));
    }
    match referenced(written) {
        Some(name) => env::named(name)
            .as_deref()
            .and_then(ApiKey::new)
            .ok_or_else(|| format!("the environment variable {name} of its key is not set")),
        None => ApiKey::new(written).ok_or_else(|| "its key is empty".to_owned()),
    }
}

fn secret(home: &Home, name: &str) -> Result<Option<ApiKey>, String> {
    if !config::secret::is_name(name) {
        return Ok(None);
    }
    let text = config::secret::get(home, name).map_err(|error| format!("its key: {}", chain(&error)))?;
    Ok(text.as_deref().and_then(ApiKey::new))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(api_key: Option<&str>) -> ProviderSettings {
        ProviderSettings {
            base_url: None,
            api_key: api_key.map(str::to_owned),
            api: None,
            models: Vec::new(),
        }
    }

    fn home() -> (tempfile::TempDir, Home) {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().to_owned(), None);
        fs_err::create_dir(home.secrets()).unwrap();
        (folder, home)
    }

    #[test]
    fn a_key_is_never_shown() {
        let key = ApiKey::new(" sk-planted-and-long\n").unwrap();
        assert_eq!(key.expose(), "sk-planted-and-long");
        assert!(!format!("{key:?}").contains("planted"));
        assert_eq!(key.scrub("wrong key sk-planted-and-long!"), "wrong key [key]!");
        assert_eq!(ApiKey::new(" \n"), None);
        let key = ApiKey::new(r#"quoted"and\planted"#).unwrap();
        assert_eq!(key.scrub(r#"{"said":"quoted\"and\\planted"}"#), r#"{"said":"[key]"}"#);
    }

    #[test]
    fn a_placeholder_is_left_in_every_text() {
        for key in
            ["test", "k", "ollama", "EMPTY", "x", "none", "sk-no-key-required", "your-api-key-here", "a:b"]
        {
            let text = format!("unittest of {key}: key `{key}`, k-anonymity, EMPTY ollama");
            assert_eq!(ApiKey::new(key).unwrap().scrub(&text), text);
        }
    }

    #[test]
    fn the_configuration_wins_over_the_home() {
        let (_folder, home) = home();
        fs_err::write(home.secrets().join("mine"), "from-home\n").unwrap();
        fs_err::write(home.secrets().join("other"), "by-name").unwrap();
        let find = |written| find(&home, "mine", Some(&settings(written)), None);
        assert_eq!(find(None).unwrap(), ApiKey::new("from-home"));
        assert_eq!(find(Some("secret:other")).unwrap(), ApiKey::new("by-name"));
        assert_eq!(find(Some("literal")).unwrap(), ApiKey::new("literal"));
        for missing in ["secret:none", "env:FLOCK_TEST_NO_SUCH", "${FLOCK_TEST_NO_SUCH}", "secret:../x", " "]
        {
            assert!(find(Some(missing)).is_err(), "{missing}");
        }
    }

    #[test]
    fn the_variable_of_a_key_is_named_only_where_the_key_comes_from_it() {
        let (_folder, home) = home();
        let variable = |written| variable(&home, "mine", Some(&settings(written)), None);
        assert_eq!(variable(Some("env:MY_KEY")).as_deref(), Some("MY_KEY"));
        assert_eq!(variable(Some("${MY_KEY}")).as_deref(), Some("MY_KEY"));
        for elsewhere in [Some("literal"), Some("secret:mine"), None] {
            assert_eq!(variable(elsewhere), None, "{elsewhere:?}");
        }
    }

    #[test]
    fn no_key_anywhere_is_no_error() {
        let (_folder, home) = home();
        assert_eq!(find(&home, "mine", None, None).unwrap(), None);
        assert_eq!(find(&home, "..", None, None).unwrap(), None);
    }
}

//! API keys and their sources. A key is never shown, and is removed from every error text.

use std::fmt;

use crate::config::{self, model::ProviderSettings};
use crate::env;
use crate::error::chain;
use crate::home::Home;

use super::catalog::BuiltinProvider;
use super::placeholder;

/// A provider's API key. `Debug` shows none of its characters.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// Returns the key in a text without surrounding white space, or `None` if nothing is left.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty()).then(|| Self(text.to_owned()))
    }

    /// Returns the key itself. Use it for a request header only.
    #[must_use]
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// Returns the key if it is a secret. The key of a local server is often a short or well-known word and no secret.
    pub(super) fn secret(&self) -> Option<&str> {
        placeholder::is_secret(&self.0).then_some(self.0.as_str())
    }

    /// Returns the text with each secret of the key replaced by `[key]`, because some providers repeat what they
    /// refuse.
    ///
    /// A key that is a placeholder is no secret, and the text is returned unchanged.
    #[must_use]
    pub(crate) fn scrub(&self, text: &str) -> String {
        let mut text = text.to_owned();
        // A key may be a pair such as `id:secret`. Each part of it that is a secret is replaced too.
        let parts =
            self.0.split(':').filter(|part| part.len() < self.0.len() && placeholder::is_secret(part));
        for secret in self.secret().into_iter().chain(parts) {
            if text.contains(secret) {
                text = text.replace(secret, "[key]");
            }
            // Inside a JSON string the key may be escaped and would not match as it is.
            let escaped = escaped(secret);
            if escaped != secret && text.contains(&escaped) {
                text = text.replace(&escaped, "[key]");
            }
        }
        text
    }
}

/// Returns a text with the escapes of a JSON string, without the quotes.
pub(super) fn escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(…)")
    }
}

/// Finds a provider's key: in the configuration, then in the home's secrets, then in the environment.
///
/// Returns `Ok(None)` if none of them has a key.
///
/// # Errors
///
/// Returns a sentence for the user if the configuration names a source that has no key, or if the secret cannot be
/// read.
pub fn find(
    home: &Home,
    provider: &str,
    settings: Option<&ProviderSettings>,
    known: Option<&BuiltinProvider>,
) -> Result<Option<ApiKey>, String> {
    if let Some(written) = settings.and_then(|settings| settings.api_key.as_deref()) {
        return named(home, written).map(Some);
    }
    if let Some(key) = secret(home, provider)? {
        return Ok(Some(key));
    }
    Ok(from_environment(known).and_then(|(_, key)| ApiKey::new(&key)))
}

/// Returns the keys of built-in providers that the environment holds.
pub(crate) fn in_environment() -> impl Iterator<Item = String> {
    let variables = super::catalog::KNOWN.iter().flat_map(|provider| provider.keys);
    variables
        .chain([&env::AWS_SECRET_ACCESS_KEY, &env::AWS_SESSION_TOKEN])
        .filter_map(|variable| variable.get())
}

/// Returns the environment variable that [`find`] takes a provider's key from, or `None` if the key comes from
/// elsewhere.
///
/// A gateway that is started from another environment would not have such a key.
#[must_use]
pub fn variable(
    home: &Home,
    provider: &str,
    settings: Option<&ProviderSettings>,
    known: Option<&BuiltinProvider>,
) -> Option<String> {
    if let Some(written) = settings.and_then(|settings| settings.api_key.as_deref()) {
        return variable_name(written).map(str::to_owned);
    }
    if secret(home, provider).is_ok_and(|secret| secret.is_some()) {
        return None;
    }
    from_environment(known).map(|(variable, _)| variable.name.to_owned())
}

/// Returns the first of a provider's variables that is set, and its value.
fn from_environment(known: Option<&BuiltinProvider>) -> Option<(env::Var, String)> {
    known?.keys.iter().find_map(|variable| Some((*variable, variable.get()?)))
}

/// Returns the variable that a configured key refers to, written as `env:NAME` or `${NAME}`.
fn variable_name(written: &str) -> Option<&str> {
    written
        .strip_prefix("env:")
        .or_else(|| written.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')))
}

/// Returns the key that a reference of the configuration leads to: `secret:NAME`, `env:NAME` or `${NAME}`.
///
/// # Errors
///
/// Returns a sentence for the user if there is no such key, or the secret cannot be read.
pub(crate) fn named(home: &Home, written: &str) -> Result<ApiKey, String> {
    if let Some(name) = written.strip_prefix("secret:") {
        return secret(home, name)?.ok_or_else(|| format!("there is no secret named {name}"));
    }
    match variable_name(written) {
        Some(name) => env::named(name)
            .as_deref()
            .and_then(ApiKey::new)
            .ok_or_else(|| format!("the environment variable {name} of its key is not set")),
        None => ApiKey::new(written).ok_or_else(|| "its key is empty".to_owned()),
    }
}

fn secret(home: &Home, name: &str) -> Result<Option<ApiKey>, String> {
    // A provider's id is also tried as a secret's name, and not every id is a valid one.
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
    fn a_placeholder_key_is_not_redacted() {
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

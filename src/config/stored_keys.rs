//! Literal keys in a new value, which are moved to the home's secrets.

use serde_json::Value;

use super::ConfigError;
use super::bridges::{self, BridgeSecret};
use super::path::ConfigPath;
use super::secret::{self, is_reference};
use super::{oidc, storage, telemetry};
use crate::home::Home;

/// Moves literal `apiKey` values, tokens of bridges, headers of telemetry, keys of the store of blobs and the secret of the
/// sign-in below `path` to the home's secrets and returns the names of the new secrets.
///
/// # Errors
///
/// Returns an error if a key has no provider's name above it that can be the name of a secret, as in a list. Then no
/// secret is written. Also fails if a secret can't be written.
pub(crate) fn store_keys(
    home: &Home,
    path: &ConfigPath,
    value: &mut Value,
) -> Result<Vec<String>, ConfigError> {
    let mut taken = Vec::new();
    let way: Vec<String> = path.keys().into_iter().map(str::to_owned).collect();
    take_below(&way, value, &mut taken)?;
    // Keys are stored after all of them were judged: a refused command must not replace the key of a provider.
    for (name, key) in &taken {
        secret::set(home, name, key)?;
    }
    Ok(taken.into_iter().map(|(name, _)| name).collect())
}

/// Replaces literal `apiKey` values, tokens of bridges, headers of telemetry, keys of the store of blobs and the secret of
/// the sign-in by references, and collects the names of their secrets with the keys.
///
/// An entry of a list stands as an empty text in `way`, like an index in [`ConfigPath::keys`].
fn take_below(
    way: &[String],
    value: &mut Value,
    taken: &mut Vec<(String, String)>,
) -> Result<(), ConfigError> {
    let below = |key: &str| -> Vec<String> { way.iter().cloned().chain([key.to_owned()]).collect() };
    if value.is_number() && telemetry::header_secret(way).is_some() {
        // A number on the command line is one in JSON, but a header is a text.
        *value = Value::String(value.to_string());
    }
    match value {
        Value::String(text) if !is_reference(text) => {
            let named = bridge_secret(way).or_else(|| telemetry::header_secret(way));
            let named = named.or_else(|| storage::key_secret(way)).or_else(|| oidc::client_secret(way));
            let name = match named {
                Some(name) => name,
                None if is_key(way) => secret_name(way)?.to_owned(),
                None => return Ok(()),
            };
            let key = std::mem::replace(text, format!("secret:{name}"));
            taken.push((name, key));
        }
        Value::Object(object) => {
            for (key, value) in object {
                take_below(&below(key), value, taken)?;
            }
        }
        Value::Array(list) => {
            for value in list {
                take_below(&below(""), value, taken)?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// Returns `true` for an `apiKey`, also for a list of keys in its place.
fn is_key(way: &[String]) -> bool {
    way.iter().rfind(|key| !key.is_empty()).is_some_and(|key| key == KEY)
}

/// Returns the name of the secret for a token of a bridge, as in `….config.bridges.<name>.token`.
fn bridge_secret(way: &[String]) -> Option<String> {
    let [.., block, name, key] = way else { return None };
    let (_, kind) = BridgeSecret::CONFIGURED.into_iter().find(|(known, _)| known == key)?;
    (block == "bridges" && bridges::is_name(name)).then(|| kind.name(name))
}

/// Returns the name of the secret for `models.providers.<name>.apiKey`, which is the provider's name.
fn secret_name(way: &[String]) -> Result<&str, ConfigError> {
    let name = match way {
        [.., name, key] if key == KEY => name.as_str(),
        _ => "",
    };
    if secret::is_name(name) {
        return Ok(name);
    }
    // In the configuration itself the key would be readable in every backup and bundle.
    let (text, hint) = if name.is_empty() {
        (
            format!("an {KEY} is not below a provider's name, so the key has no place"),
            format!("flock config set models.providers.NAME.{KEY} -"),
        )
    } else {
        (
            format!("no secret can have the name {name:?}, so the key has no place"),
            "use a provider name of letters, digits, '-' and '_'".to_owned(),
        )
    };
    Err(ConfigError::NoPlaceForKey { text, hint })
}

/// The key of the configuration that holds a provider's key.
const KEY: &str = "apiKey";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::error::{Explain as _, Kind};

    #[test]
    fn literal_keys_move_and_references_stay() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().to_owned(), None);
        home.make_folders().unwrap();
        let mut value =
            json!({"mine": {"apiKey": "sk-1", "baseUrl": "http://x"}, "other": {"apiKey": "env:X"}});
        let stored = store_keys(&home, &"models.providers".parse().unwrap(), &mut value).unwrap();
        assert_eq!(stored, ["mine"]);
        assert_eq!(value["mine"]["apiKey"], "secret:mine");
        assert_eq!(value["other"]["apiKey"], "env:X");
        assert_eq!(secret::get(&home, "mine").unwrap().as_deref(), Some("sk-1"));
        let mut value = json!("sk-2");
        store_keys(&home, &"models.providers.p.apiKey".parse().unwrap(), &mut value).unwrap();
        assert_eq!(value, "secret:p");
    }

    #[test]
    fn literal_tokens_of_bridges_move() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().to_owned(), None);
        home.make_folders().unwrap();
        let block: ConfigPath = "plugins.entries.flock.config.bridges".parse().unwrap();
        let mut value = json!({"s": {"platform": "slack", "token": "xoxb-1", "appToken": "xapp-1"}});
        assert_eq!(store_keys(&home, &block, &mut value).unwrap(), ["bridge-s", "bridge-s.app"]);
        let moved =
            json!({"platform": "slack", "token": "secret:bridge-s", "appToken": "secret:bridge-s.app"});
        assert_eq!(value["s"], moved);
        assert_eq!(secret::get(&home, "bridge-s.app").unwrap().as_deref(), Some("xapp-1"));
        // The owner's token of the gateway stays where it is.
        let mut token = json!("t");
        assert!(store_keys(&home, &"gateway.auth.token".parse().unwrap(), &mut token).unwrap().is_empty());
        assert_eq!(token, "t");
    }

    #[test]
    fn literal_headers_of_telemetry_move() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().to_owned(), None);
        home.make_folders().unwrap();
        let block: ConfigPath = "plugins.entries.flock.config.telemetry.otlp".parse().unwrap();
        let mut value =
            json!({"endpoint": "https://x", "headers": {"Authorization": "Basic c", "x-a": "env:A"}});
        assert_eq!(store_keys(&home, &block, &mut value).unwrap(), ["otlp.authorization"]);
        assert_eq!(value["headers"], json!({"Authorization": "secret:otlp.authorization", "x-a": "env:A"}));
        assert_eq!(secret::get(&home, "otlp.authorization").unwrap().as_deref(), Some("Basic c"));
        let one = "plugins.entries.flock.config.telemetry.otlp.headers.x-key".parse().unwrap();
        for (mut value, stored) in [(json!("k"), "k"), (json!(7), "7")] {
            store_keys(&home, &one, &mut value).unwrap();
            assert_eq!(value, "secret:otlp.x-key");
            assert_eq!(secret::get(&home, "otlp.x-key").unwrap().as_deref(), Some(stored));
        }
    }

    #[test]
    fn literal_keys_of_the_store_of_blobs_move() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().to_owned(), None);
        home.make_folders().unwrap();
        let block: ConfigPath = "plugins.entries.flock.config.storage".parse().unwrap();
        let mut value =
            json!({"blobs": {"accessKeyId": "id", "secretAccessKey": "s-1", "sessionToken": "t-1"}});
        assert_eq!(store_keys(&home, &block, &mut value).unwrap(), ["blobs.secret", "blobs.token"]);
        let moved = json!({"accessKeyId": "id", "secretAccessKey": "secret:blobs.secret", "sessionToken": "secret:blobs.token"});
        assert_eq!(value["blobs"], moved);
        assert_eq!(secret::get(&home, "blobs.secret").unwrap().as_deref(), Some("s-1"));
    }

    #[test]
    fn the_literal_secret_of_the_sign_in_moves() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().to_owned(), None);
        home.make_folders().unwrap();
        let block: ConfigPath = "plugins.entries.flock.config.dashboard.oidc".parse().unwrap();
        let mut value = json!({"issuer": "https://x", "clientId": "flock", "clientSecret": "s3cret"});
        assert_eq!(store_keys(&home, &block, &mut value).unwrap(), ["oidc.client"]);
        assert_eq!(value["clientSecret"], "secret:oidc.client");
        assert_eq!(value["clientId"], "flock");
        assert_eq!(secret::get(&home, "oidc.client").unwrap().as_deref(), Some("s3cret"));
    }

    #[test]
    fn a_key_in_a_list_is_refused_and_nothing_is_stored() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().to_owned(), None);
        home.make_folders().unwrap();
        for (path, mut value) in [
            (
                "models",
                json!({"providers": {"mine": {"apiKey": "sk-1"}, "z": {"models": [{"apiKey": "sk-2"}]}}}),
            ),
            ("models.providers", json!([{"id": "mine", "apiKey": "sk-1"}])),
            ("models.providers", json!({"mine": {"apiKey": ["sk-1", "sk-2"]}})),
            ("models.providers", json!({"mine": {"apiKey": "sk-1"}, "a b": {"apiKey": "sk-2"}})),
            ("models.providers.mine.apiKey[0]", json!("sk-1")),
            ("models.providers[0]", json!({"apiKey": "sk-1"})),
            ("apiKey", json!("sk-1")),
        ] {
            let error = store_keys(&home, &path.parse().unwrap(), &mut value).unwrap_err();
            assert_eq!(error.kind(), Kind::Usage, "{path} {value}");
            assert!(!error.to_string().contains("sk-"), "{error:?}");
            assert_eq!(secret::get(&home, "mine").unwrap(), None, "{path} {value}");
        }
        // A key that is not in a list itself has a name, and a reference needs none.
        let mut value = json!([{"search": {"apiKey": "sk-3"}}, {"apiKey": "env:X"}]);
        assert_eq!(store_keys(&home, &"tools.list".parse().unwrap(), &mut value).unwrap(), ["search"]);
        assert_eq!(value, json!([{"search": {"apiKey": "secret:search"}}, {"apiKey": "env:X"}]));
    }
}

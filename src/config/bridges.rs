//! The `bridges` block: accounts on other platforms.

use std::os::unix::fs::MetadataExt as _;
use std::time::SystemTime;

use serde_json::{Value, json};

use super::ConfigError;
use super::model::{Bridge, PlatformName};
use super::secret;
use super::view::{Problem, View};
use crate::home::Home;

/// Reads `{<name>: {platform, homeserver or api, paused, allow, token, appToken}}`.
pub(super) fn bridges(view: &View<'_>) -> Result<Vec<Bridge>, Problem> {
    let mut bridges =
        view.entries()?.iter().map(|(name, entry)| bridge(name, entry)).collect::<Result<Vec<_>, _>>()?;
    bridges.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(bridges)
}

fn bridge(name: &str, view: &View<'_>) -> Result<Bridge, Problem> {
    let platform = view.get("platform")?;
    let choices = "discord, matrix, slack or telegram";
    let platform = platform
        .word::<PlatformName>(choices)?
        .ok_or_else(|| platform.problem(&format!("must be {choices}")))?;
    let address_key = address_key(platform);
    view.only(&["platform", address_key, "paused", "allow", "token", "appToken"])?;
    // The name becomes a part of the name of a secret, and of an address on the command line.
    if !is_name(name) {
        return Err(view.problem("must have a name of 1 to 32 lower-case letters, digits and '-'"));
    }
    let address = view.get(address_key)?;
    let is_url = |url: &str| {
        url.parse::<axum::http::Uri>()
            .is_ok_and(|url| matches!(url.scheme_str(), Some("http" | "https")) && url.host().is_some())
    };
    let url = address.text_if(is_url, "must be a URL, as in \"https://matrix.example.org\"")?;
    if platform == PlatformName::Matrix && url.is_none() {
        return Err(address.problem("must be the URL of the homeserver"));
    }
    Ok(Bridge {
        name: name.to_owned(),
        platform,
        api: url.map(|url| url.trim_end_matches('/').to_owned()),
        is_paused: view.get("paused")?.flag()?.unwrap_or_default(),
        allow: view.get("allow")?.texts()?.into_iter().map(ChannelPattern).collect(),
        has_literal_token: has_literal_token(name, view)?,
    })
}

fn has_literal_token(name: &str, view: &View<'_>) -> Result<bool, Problem> {
    let mut is_literal = false;
    for (key, kind) in BridgeSecret::CONFIGURED {
        let reference = format!("secret:{}", kind.name(name));
        let view = view.get(key)?;
        let Some(token) = view.text()? else { continue };
        // A token from elsewhere would not be found by what reads and removes the bridge's secrets.
        if secret::is_reference(&token) && token != reference {
            return Err(view.problem(&format!("must be {reference:?}, or left out")));
        }
        is_literal |= token != reference;
    }
    Ok(is_literal)
}

/// Returns the key of the platform's URL.
fn address_key(platform: PlatformName) -> &'static str {
    if platform == PlatformName::Matrix { "homeserver" } else { "api" }
}

/// Returns `true` if `name` can name a bridge.
#[must_use]
pub(crate) fn is_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=32).contains(&name.len()) && name.chars().all(allowed) && !name.starts_with('-')
}

/// Channels of a platform that the orchestrator may link without asking: the platform's id of the channel, or its title
/// after `title:`. In both, `*` stands for any text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelPattern(String);

impl ChannelPattern {
    /// Returns `true` if the channel with this id and title is meant.
    #[must_use]
    pub(crate) fn matches(&self, external: &str, title: &str) -> bool {
        match self.0.strip_prefix("title:") {
            Some(pattern) => is_match(pattern, title),
            None => is_match(&self.0, external),
        }
    }
}

/// Compares a text with a pattern, in a time that is at most the product of their lengths.
fn is_match(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut left) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    // `split` returns at least one part.
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        // The earliest place leaves the most text for the parts after it.
        let Some(at) = left.find(part) else { return false };
        left = &left[at + part.len()..];
    }
    left.ends_with(last)
}

impl Bridge {
    /// Returns a bridge of this name with a platform's own API.
    #[must_use]
    pub(crate) fn new(name: &str, platform: PlatformName) -> Self {
        Self {
            name: name.to_owned(),
            platform,
            api: None,
            is_paused: false,
            allow: Vec::new(),
            has_literal_token: false,
        }
    }
}

/// A secret of a bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BridgeSecret {
    /// The token of the account.
    Token,
    /// Slack's second token, which opens the stream of events.
    AppToken,
    /// The webhooks that the bridge made, as JSON.
    Webhooks,
}

impl BridgeSecret {
    pub(crate) const ALL: [Self; 3] = [Self::Token, Self::AppToken, Self::Webhooks];
    /// Those that may stand in the configuration of a bridge, with their keys there.
    pub(crate) const CONFIGURED: [(&'static str, Self); 2] =
        [("token", Self::Token), ("appToken", Self::AppToken)];

    /// Returns the name of the file in `secrets/`.
    #[must_use]
    pub(crate) fn name(self, bridge: &str) -> String {
        let name = match self {
            Self::Token => format!("bridge-{bridge}"),
            // A bridge's name has no dot, so this is not the token of another bridge.
            Self::AppToken => format!("bridge-{bridge}.app"),
            Self::Webhooks => format!("bridge-{bridge}.webhooks"),
        };
        debug_assert!(secret::is_name(&name));
        name
    }
}

/// The state of the secrets that a bridge signs in with, which changes when one of them is replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TokenStamp([Option<(u64, SystemTime)>; 2]);

impl TokenStamp {
    /// Returns the state of the secrets now.
    pub(crate) fn now(home: &Home, bridge: &str) -> Self {
        Self(BridgeSecret::CONFIGURED.map(|(_, kind)| {
            let file = fs_err::metadata(home.secrets().join(kind.name(bridge))).ok()?;
            // A secret is replaced by a rename, so its file is another one. The time tells of a change by hand.
            Some((file.ino(), file.modified().ok()?))
        }))
    }
}

/// Adds a bridge to the configuration.
///
/// # Errors
///
/// Returns an error if the configuration can't be read or written.
pub(crate) fn add(home: &Home, bridge: &Bridge) -> Result<(), ConfigError> {
    super::edit(home, |document| {
        let mut entry = json!({"platform": bridge.platform});
        if let Some(api) = &bridge.api {
            entry[address_key(bridge.platform)] = json!(api);
        }
        block(document)[&bridge.name] = entry;
        Ok(())
    })
}

/// Moves the tokens of a bridge that stand in the configuration itself to `secrets/`. Returns `true` if there were any.
///
/// # Errors
///
/// Returns an error if the configuration or a secret can't be read or written.
pub(crate) fn move_tokens(home: &Home, name: &str) -> Result<bool, ConfigError> {
    super::edit(home, |document| {
        let Some(bridge) = block(document).get_mut(name) else { return Ok(false) };
        let mut moved = false;
        for (key, kind) in BridgeSecret::CONFIGURED {
            let secret = kind.name(name);
            let Some(token) = bridge.get_mut(key) else { continue };
            let literal = token.as_str().filter(|text| !secret::is_reference(text));
            if let Some(literal) = literal {
                // It is stored first. A kill between the two leaves it in both places, and the next look moves it again.
                secret::set(home, &secret, literal)?;
                *token = format!("secret:{secret}").into();
                moved = true;
            }
        }
        Ok(moved)
    })
}

/// Pauses or resumes a bridge in the configuration.
///
/// # Errors
///
/// Returns an error if the configuration can't be read or written.
pub(crate) fn set_paused(home: &Home, name: &str, is_paused: bool) -> Result<(), ConfigError> {
    super::edit(home, |document| {
        // A bridge that was removed meanwhile is not made again by its pause.
        let Some(bridge) = block(document).get_mut(name).and_then(Value::as_object_mut) else {
            return Ok(());
        };
        if is_paused {
            bridge.insert("paused".to_owned(), true.into());
        } else {
            bridge.shift_remove("paused");
        }
        Ok(())
    })
}

/// Removes a bridge from the configuration.
///
/// # Errors
///
/// Returns an error if the configuration can't be read or written.
pub(crate) fn remove(home: &Home, name: &str) -> Result<(), ConfigError> {
    super::edit(home, |document| {
        if let Some(bridges) = block(document).as_object_mut() {
            bridges.shift_remove(name);
        }
        Ok(())
    })
}

fn block(document: &mut Value) -> &mut Value {
    &mut document["plugins"]["entries"]["flock"]["config"]["bridges"]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{read, starter};
    use crate::home::atomic;

    #[test]
    fn a_literal_token_is_moved_to_its_secret() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().canonicalize().unwrap(), None);
        home.make_folders().unwrap();
        let entry = json!({"platform": "slack", "token": "xoxb-1", "appToken": "secret:bridge-s.app"});
        let mut document = starter::document(&home, None, "token", 3779);
        block(&mut document)["s"] = entry;
        atomic::write(&home.config(), document.to_string().as_bytes(), 0o600).unwrap();
        assert!(read(&home).unwrap().bridges[0].has_literal_token);
        assert!(move_tokens(&home, "s").unwrap());
        assert_eq!(secret::get(&home, "bridge-s").unwrap().as_deref(), Some("xoxb-1"));
        let text = fs_err::read_to_string(home.config()).unwrap();
        assert!(!text.contains("xoxb-1") && text.contains("secret:bridge-s\""), "{text}");
        assert!(!read(&home).unwrap().bridges[0].has_literal_token);
        assert!(!move_tokens(&home, "s").unwrap());
    }

    #[test]
    fn a_replaced_token_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().to_owned(), None);
        home.make_folders().unwrap();
        let now = || TokenStamp::now(&home, "s");
        let none = now();
        secret::set(&home, "bridge-s", "one").unwrap();
        let one = now();
        assert!(one != none && one == now());
        secret::set(&home, "bridge-s", "two").unwrap();
        assert_ne!(now(), one);
        let two = now();
        secret::set(&home, "bridge-s.app", "three").unwrap();
        assert_ne!(now(), two);
    }

    #[test]
    fn a_pattern_names_a_channel_by_its_id_or_its_title() {
        let matches =
            |pattern: &str, id: &str, title: &str| ChannelPattern(pattern.to_owned()).matches(id, title);
        assert!(matches("*", "x", "y"));
        assert!(matches("!*:example.org", "!a:example.org", ""));
        assert!(!matches("!*:example.org", "!a:example.org.evil", ""));
        // A title is only looked at where the pattern says so: people on the platform choose it.
        assert!(!matches("!a:h", "!b:h", "!a:h"));
        assert!(matches("title:#team-*", "!b:h", "#team-a"));
        assert!(!matches("title:#team-*", "#team-a", "x"));
        assert!(matches("a*b*c", "aXbXbc", "") && !matches("a*b*c", "acb", ""));
        // One piece of text does not serve two parts of a pattern.
        assert!(!matches("ab*b", "ab", "") && matches("a**", "a", ""));
    }
}

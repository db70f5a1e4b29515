//! Keys of flock's own block that nothing reads, and values that flock does not support there. A running home ignores
//! them with a warning. A command that would write one is refused.

use std::collections::BTreeSet;

use serde_json::Value;

use super::ConfigError;
use super::parse::{self, PLUGIN};
use super::view::unknown_reason;
use crate::home::Home;

/// A setting that has no effect.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct IgnoredSetting {
    /// Path of the key, in the form that `flock config unset` takes.
    pub at: String,
    /// The reason, which continues a sentence that begins with the key, as in `is not known: did you mean budgets?`.
    pub why: String,
}

impl IgnoredSetting {
    /// Returns the path and the reason as one sentence.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{} {}", self.at, self.why)
    }
}

/// Returns the settings below flock's own block that have no effect. Empty if the document is not usable at all,
/// because whatever reads it reports that.
#[must_use]
pub fn settings(document: &Value, home: &Home) -> Vec<IgnoredSetting> {
    let Ok(asked) = parse::keys(document, home) else { return Vec::new() };
    let own = PLUGIN.iter().fold(document, |place, name| &place[*name]);
    let at = PLUGIN.join(".");
    let mut found = check_fixed_values(own, &at, home);
    below(own, &at, &asked, &mut found);
    found
}

/// Returns what `after` has and `before` did not have.
#[must_use]
pub fn added(before: &Value, after: &Value, home: &Home) -> Vec<IgnoredSetting> {
    // A key that was there before must not block an unrelated change.
    let known = settings(before, home);
    let mut found = settings(after, home);
    found.retain(|unread| !known.contains(unread));
    found
}

/// Refuses a change that adds a setting which flock does not read.
///
/// # Errors
///
/// Returns an error that lists these settings, each with the most similar known key.
pub(crate) fn check_change(before: &Value, after: &Value, home: &Home) -> Result<(), ConfigError> {
    let unread = added(before, after, home);
    if unread.is_empty() {
        return Ok(());
    }
    let texts: Vec<String> = unread.iter().map(IgnoredSetting::text).collect();
    Err(ConfigError::Ignored(texts.join("\n")))
}

/// Checks settings that have only one possible value so far.
fn check_fixed_values(own: &Value, at: &str, home: &Home) -> Vec<IgnoredSetting> {
    let mut found = Vec::new();
    let backend = &own["dbBackend"];
    if !backend.is_null() && backend != "sqlite" {
        let why = "must be \"sqlite\": `flock home move` brings a database to a server".to_owned();
        found.push(IgnoredSetting { at: format!("{at}.dbBackend"), why });
    }
    let folder = &own["dataDir"];
    // The folder may be reached through a symbolic link.
    let real = |path: &std::path::Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let is_ours =
        folder.as_str().is_some_and(|folder| real(std::path::Path::new(folder)) == real(&home.data()));
    if !folder.is_null() && !is_ours {
        let why = format!("must be {:?}: flock keeps its data nowhere else yet", home.data());
        found.push(IgnoredSetting { at: format!("{at}.dataDir"), why });
    }
    found
}

fn below(value: &Value, at: &str, asked: &BTreeSet<String>, found: &mut Vec<IgnoredSetting>) {
    match value {
        Value::Object(entries) => {
            for (name, value) in entries {
                let place = format!("{at}.{name}");
                // The parser looked for this key, so it is known. Its own contents may still hold unknown keys.
                if asked.contains(&place) {
                    below(value, &place, asked, found);
                } else {
                    found.push(IgnoredSetting { at: place, why: unknown_reason(name, &names(at, asked)) });
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                below(item, &format!("{at}[{index}]"), asked, found);
            }
        }
        _ => {}
    }
}

/// Returns the names that the parser looked up in an object.
fn names<'a>(at: &str, asked: &'a BTreeSet<String>) -> Vec<&'a str> {
    let below = |key: &'a String| key.strip_prefix(at)?.strip_prefix('.');
    asked.iter().filter_map(below).filter(|name| !name.contains(['.', '['])).collect()
}

#[cfg(test)]
#[path = "ignored_tests.rs"]
mod tests;

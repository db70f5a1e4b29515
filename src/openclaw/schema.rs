//! The configuration schemas of the known OpenClaw versions. OpenClaw validates strictly: with one unknown key it does
//! not start. For each known change of the schema, a file in `known/` lists the keys that flock sets or passes on. In
//! it, an object lists the allowed keys, `*` stands for any name, lists are checked item by item, and `true` accepts
//! any value.

use std::sync::LazyLock;

use serde_json::Value;

use crate::config::Api;

/// The schema of a range of versions.
#[derive(Debug)]
pub(crate) struct ConfigSchema {
    /// The first version with this schema, as year, month and number.
    pub since: [u32; 3],
    text: &'static str,
    /// `true` if the agents are an object, `agents.entries`, with their ids as keys. `false` if they are the list
    /// `agents.list`.
    pub entries: bool,
    /// `true` if a bind may name a volume as its source. Otherwise the source must be an absolute path.
    pub volumes: bool,
    /// `true` if the version has the command `config validate`.
    pub validates: bool,
    /// The version's name for Codex's wire format, or `None` if it does not support that format.
    chatgpt: Option<&'static str>,
}

static SCHEMAS: [ConfigSchema; 4] = [
    ConfigSchema {
        since: [2026, 2, 0],
        text: include_str!("known/2026.2.json"),
        entries: false,
        volumes: true,
        validates: false,
        chatgpt: None,
    },
    ConfigSchema {
        since: [2026, 2, 26],
        text: include_str!("known/2026.2.26.json"),
        entries: false,
        volumes: false,
        validates: false,
        chatgpt: Some("openai-codex-responses"),
    },
    ConfigSchema {
        since: [2026, 6, 11],
        text: include_str!("known/2026.6.json"),
        entries: false,
        volumes: false,
        validates: true,
        chatgpt: Some("openai-chatgpt-responses"),
    },
    ConfigSchema {
        since: [2026, 8, 1],
        text: include_str!("known/2026.8.json"),
        entries: true,
        volumes: false,
        validates: true,
        chatgpt: Some("openai-chatgpt-responses"),
    },
];

static ALLOWED_KEYS: LazyLock<[Value; 4]> = LazyLock::new(|| {
    // A test checks that every file parses, so the default is never used.
    std::array::from_fn(|at| serde_json::from_str(SCHEMAS[at].text).unwrap_or_default())
});

impl ConfigSchema {
    /// Returns the schema of a version, for example `2026.2.9`. A version between two known changes gets the older
    /// schema. A version that is newer than all known ones, or that can't be parsed, gets the newest.
    #[must_use]
    pub(crate) fn of(version: &str) -> &'static Self {
        let newest = &SCHEMAS[SCHEMAS.len() - 1];
        let Some(version) = parse_version(version) else { return newest };
        SCHEMAS.iter().rev().find(|dialect| dialect.since <= version).unwrap_or(&SCHEMAS[0])
    }

    /// Returns the keys that are allowed at the root of the document.
    #[must_use]
    pub(crate) fn known(&self) -> &'static Value {
        let at = SCHEMAS.iter().position(|dialect| dialect.since == self.since).unwrap_or(SCHEMAS.len() - 1);
        &ALLOWED_KEYS[at]
    }

    /// Returns the version's name for a wire format, or `None` if it does not support the format.
    #[must_use]
    pub(crate) const fn api(&self, api: Api) -> Option<&'static str> {
        match api {
            Api::OpenAiCodexResponses => self.chatgpt,
            Api::GoogleGeminiCli => None,
            _ => Some(api.as_str()),
        }
    }
}

/// Returns the keys that are allowed inside the entry `name`, or `None` if the entry itself is not allowed.
#[must_use]
pub(crate) fn inside<'k>(known: &'k Value, name: &str) -> Option<&'k Value> {
    match known {
        Value::Bool(true) => Some(known),
        // A named entry is more specific than the wildcard.
        _ => known.get(name).or_else(|| known.get("*")),
    }
}

/// Removes every unknown key from a value and calls `dropped` with the place of each.
pub(crate) fn prune(value: &mut Value, known: &Value, at: &str, dropped: &mut impl FnMut(String)) {
    if known == &Value::Bool(true) {
        return;
    }
    match value {
        Value::Object(object) => {
            let names: Vec<String> = object.keys().cloned().collect();
            for name in names {
                let place = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
                match (inside(known, &name), object.get_mut(&name)) {
                    (Some(known), Some(value)) => prune(value, known, &place, dropped),
                    _ => {
                        // `shift_remove` keeps the order of the remaining keys, so the derived document is stable.
                        object.shift_remove(&name);
                        dropped(place);
                    }
                }
            }
        }
        Value::Array(items) => {
            // Items have no index in `at`: the same key in many items is reported as one place.
            for item in items {
                prune(item, known, at, dropped);
            }
        }
        _ => {}
    }
}

/// Parses year, month and number of a version. A suffix after `-` or `+` marks another build of the same version.
fn parse_version(version: &str) -> Option<[u32; 3]> {
    let version = version.trim().trim_start_matches('v');
    let version = version.split(['-', '+']).next()?;
    let mut parts = version.split('.').map(|part| part.parse().ok());
    let found = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(found)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_schema_parses_and_has_the_required_keys() {
        for dialect in &SCHEMAS {
            let known = dialect.known();
            for pointer in ["/gateway/port", "/agents/defaults/sandbox/docker/network", "/plugins/load/paths"]
            {
                assert!(known.pointer(pointer).is_some(), "{:?} {pointer}", dialect.since);
            }
            assert_eq!(known["agents"]["entries"].is_object(), dialect.entries);
            assert_eq!(known["agents"]["list"].is_object(), !dialect.entries);
        }
    }

    #[test]
    fn a_version_has_the_schema_that_came_last_before_it() {
        for (version, since) in [
            ("2026.2.9", [2026, 2, 0]),
            ("2026.2.25", [2026, 2, 0]),
            ("2026.2.26", [2026, 2, 26]),
            ("2026.2.26-1", [2026, 2, 26]),
            ("2026.5.4", [2026, 2, 26]),
            ("2026.7.35", [2026, 6, 11]),
            ("v2026.9.6", [2026, 8, 1]),
            ("2026.9.6-beta.2", [2026, 8, 1]),
            ("2027.1.1", [2026, 8, 1]),
            ("2025.12.1", [2026, 2, 0]),
            ("", [2026, 8, 1]),
            ("latest", [2026, 8, 1]),
            ("2026.9", [2026, 8, 1]),
            ("99999999999.1.1", [2026, 8, 1]),
        ] {
            assert_eq!(ConfigSchema::of(version).since, since, "{version}");
        }
    }

    #[test]
    fn unknown_keys_are_removed_and_reported() {
        let known = json!({"a": {"b": true}, "list": {"id": true}, "any": {"*": {"x": true}}});
        let mut value = json!({
            "a": {"b": {"deep": 1}, "c": 2}, "z": 1,
            "list": [{"id": 1, "no": 2}], "any": {"one": {"x": 1, "y": 2}}
        });
        let mut dropped = Vec::new();
        prune(&mut value, &known, "", &mut |place| dropped.push(place));
        assert_eq!(value, json!({"a": {"b": {"deep": 1}}, "list": [{"id": 1}], "any": {"one": {"x": 1}}}));
        assert_eq!(dropped, ["a.c", "z", "list.no", "any.one.y"]);
    }
}

//! The differences between two states of a home, in words. Pure.

use serde_json::Value;

use super::kept_out::name_of;
use super::record::HomeState;
use crate::clean;

/// Largest number of differences that are named one by one.
const MAX_NAMED: usize = 24;
/// Longest value in a text, in characters.
const MAX_VALUE: usize = 60;

/// Returns the differences from one state to the next.
#[must_use]
pub fn between(before: &HomeState, after: &HomeState) -> Vec<String> {
    let mut found = Vec::new();
    if before.program != after.program {
        found.push(format!("flock {} -> {}", before.program, after.program));
    }
    if before.openclaw != after.openclaw {
        let name = |version: &Option<String>| version.clone().unwrap_or_else(|| "none".to_owned());
        found.push(format!("OpenClaw {} -> {}", name(&before.openclaw), name(&after.openclaw)));
    }
    let agents = before.packages.keys().chain(after.packages.keys());
    let mut agents: Vec<_> = agents.collect();
    agents.sort();
    agents.dedup();
    for agent in agents {
        match (before.packages.get(agent), after.packages.get(agent)) {
            (old, new) if old == new => {}
            (Some(old), Some(new)) => found.push(format!("packages of {agent}: profile {old} -> {new}")),
            (None, Some(new)) => found.push(format!("packages of {agent}: profile {new}")),
            _ => found.push(format!("packages of {agent}: removed")),
        }
    }
    for (image, id) in &after.images {
        if before.images.get(image) != Some(id) {
            found.push(format!("image {image}: {}", short(id)));
        }
    }
    found.extend(
        before
            .images
            .keys()
            .filter(|image| !after.images.contains_key(*image))
            .map(|image| format!("image {image}: not used any more")),
    );
    found.extend(config(&before.config, &after.config));
    if found.len() > MAX_NAMED {
        let more = found.len() - MAX_NAMED;
        found.truncate(MAX_NAMED);
        found.push(format!("{more} more"));
    }
    found
}

/// Returns the differences of two configurations, by path.
#[must_use]
pub fn config(before: &Value, after: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare(Some(before), Some(after), "", &mut found);
    found
}

fn compare(before: Option<&Value>, after: Option<&Value>, at: &str, found: &mut Vec<String>) {
    if before == after {
        return;
    }
    let shown = at.strip_prefix(OWN).map_or_else(|| at.to_owned(), |rest| format!("…{rest}"));
    match (before, after) {
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let added = new.keys().filter(|key| !old.contains_key(*key));
            for key in old.keys().chain(added) {
                let at = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
                compare(old.get(key), new.get(key), &at, found);
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) if is_named(old) && is_named(new) => {
            let find =
                |list: &'_ [Value], name: &str| list.iter().position(|value| name_of(value) == Some(name));
            for value in old {
                let Some(name) = name_of(value) else { continue };
                let there = find(new, name).and_then(|index| new.get(index));
                compare(Some(value), there, &format!("{at}[{name}]"), found);
            }
            for value in new {
                let Some(name) = name_of(value) else { continue };
                if find(old, name).is_none() {
                    compare(None, Some(value), &format!("{at}[{name}]"), found);
                }
            }
        }
        (None, Some(value)) => found.push(format!("{shown} added{}", brief(value))),
        (Some(_), None) => found.push(format!("{shown} removed")),
        (Some(old), Some(new)) => found.push(format!("{shown}: {} -> {}", text(old), text(new))),
        (None, None) => {}
    }
}

/// Returns `true` if each entry of a list has a name of its own.
fn is_named(list: &[Value]) -> bool {
    let mut names: Vec<Option<&str>> = list.iter().map(name_of).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    names.len() == count && names.iter().all(Option::is_some)
}

fn brief(value: &Value) -> String {
    match value {
        Value::Object(_) | Value::Array(_) => String::new(),
        value => format!(": {}", text(value)),
    }
}

fn text(value: &Value) -> String {
    clean::summary(&value.to_string(), MAX_VALUE)
}

fn short(id: &str) -> &str {
    let id = id.strip_prefix("sha256:").unwrap_or(id);
    id.get(..12).unwrap_or(id)
}

/// The place of flock's own settings, which is shortened in texts as in docs/config.md.
const OWN: &str = "plugins.entries.flock.config";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn differences_are_named_by_path_and_entries_of_lists_by_name() {
        let before = json!({"agents": {"list": [{"id": "ada", "model": "a"}, {"id": "bob"}]}, "n": [1],
            "plugins": {"entries": {"flock": {"config": {"maxAgents": 20}}}}});
        let after = json!({"agents": {"list": [{"id": "bob"}, {"id": "ada", "model": "b"}, {"id": "eve"}]}, "n": [2],
            "plugins": {"entries": {"flock": {"config": {"maxAgents": 30}}}}, "x": true});
        let expected = [
            "agents.list[ada].model: \"a\" -> \"b\"",
            "agents.list[eve] added",
            "n: [1] -> [2]",
            "….maxAgents: 20 -> 30",
            "x added: true",
        ];
        assert_eq!(config(&before, &after), expected);
        let back = config(&after, &before);
        assert!(back.contains(&"agents.list[eve] removed".to_owned()), "{back:?}");
        assert!(config(&before, &before).is_empty());
    }

    #[test]
    fn every_part_of_the_state_is_named() {
        let before = HomeState {
            program: "0.1".into(),
            images: [("a:1".to_owned(), "sha256:0123456789abcdef".to_owned())].into(),
            packages: [("ada".parse().unwrap(), 1)].into(),
            ..HomeState::default()
        };
        let after = HomeState {
            program: "0.2".into(),
            openclaw: Some("2026.2.1-0123".into()),
            images: [("a:1".to_owned(), "sha256:fedcba98765432100".to_owned())].into(),
            packages: [("ada".parse().unwrap(), 3), ("bob".parse().unwrap(), 1)].into(),
            ..HomeState::default()
        };
        let expected = [
            "flock 0.1 -> 0.2",
            "OpenClaw none -> 2026.2.1-0123",
            "packages of ada: profile 1 -> 3",
            "packages of bob: profile 1",
            "image a:1: fedcba987654",
        ];
        assert_eq!(between(&before, &after), expected);
    }
}

//! Keys and tokens of the configuration, which no generation contains. Pure.

use serde_json::{Map, Value};

use crate::secret_text::{is_key, is_reference, is_secret_name};

/// The text in the place of a key.
pub const PLACEHOLDER: &str = "(a key; no generation has it)";

/// Returns the document with a placeholder in the place of each key and token.
#[must_use]
pub fn keep_out(document: &Value) -> Value {
    replaced(document, false)
}

/// Copies a value. `all` is set below a setting whose name says that it is secret.
fn replaced(value: &Value, all: bool) -> Value {
    match value {
        Value::String(text) if !is_reference(text) && (all || is_key(text)) => {
            Value::String(PLACEHOLDER.to_owned())
        }
        Value::Array(list) => Value::Array(list.iter().map(|value| replaced(value, all)).collect()),
        Value::Object(object) => {
            let entry =
                |(key, value): (&String, &Value)| (key.clone(), replaced(value, all || is_secret_name(key)));
            Value::Object(object.iter().map(entry).collect())
        }
        other => other.clone(),
    }
}

/// Puts the keys of the present configuration in the places that a generation left for them. A key that is not there
/// any more is left out. Returns the paths of those.
pub fn put_back(kept: &mut Value, present: &Value) -> Vec<String> {
    let mut missing = Vec::new();
    fill(kept, Some(present), "", &mut missing);
    missing
}

/// Fills one value. Returns `false` if it is a key that is not there any more.
fn fill(kept: &mut Value, present: Option<&Value>, at: &str, missing: &mut Vec<String>) -> bool {
    match kept {
        Value::String(text) if text == PLACEHOLDER => match present {
            // Only a text can have been replaced by the placeholder.
            Some(found @ Value::String(_)) => *kept = found.clone(),
            _ => {
                missing.push(at.to_owned());
                return false;
            }
        },
        Value::Object(object) => fill_object(object, present, at, missing),
        Value::Array(list) => {
            let mut index = 0;
            list.retain_mut(|value| {
                let found = present.and_then(Value::as_array).and_then(|all| same_entry(value, index, all));
                let name = name_of(value).map_or_else(|| index.to_string(), str::to_owned);
                index += 1;
                fill(value, found, &format!("{at}[{name}]"), missing)
            });
        }
        _ => {}
    }
    true
}

fn fill_object(
    object: &mut Map<String, Value>,
    present: Option<&Value>,
    at: &str,
    missing: &mut Vec<String>,
) {
    let mut gone = Vec::new();
    for (key, value) in object.iter_mut() {
        let path = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
        if !fill(value, present.and_then(|present| present.get(key)), &path, missing) {
            gone.push(key.clone());
        }
    }
    for key in gone {
        object.shift_remove(&key);
    }
}

/// Returns the entry of a list that stands for the same thing: that of the same name, or else that at the same place.
fn same_entry<'v>(value: &Value, index: usize, all: &'v [Value]) -> Option<&'v Value> {
    match name_of(value) {
        Some(name) => all.iter().find(|other| name_of(other) == Some(name)),
        None => all.get(index),
    }
}

/// Returns the name of an entry of a list, if it has one.
pub(crate) fn name_of(value: &Value) -> Option<&str> {
    value.get("id").or_else(|| value.get("name")).and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn planted() -> Value {
        json!({
            "gateway": {"auth": {"token": "planted-1"}},
            "models": {"providers": {
                "mine": {"apiKey": "planted-2", "headers": {"x-team": "planted-3"}, "baseUrl": "https://u:planted-4@h/v1"},
                "other": {"apiKey": "env:OTHER"},
            }},
            "agents": {"list": [
                {"id": "ada", "sandbox": {"docker": {"env": {"PATH": "/bin", "A_API_KEY": "planted-5"}}}},
                {"id": "bob", "note": "sk-planted-6-0123456789"},
            ]},
            "keys": {"apiKey": ["planted-7"]},
        })
    }

    #[test]
    fn no_key_is_kept_and_the_present_ones_come_back() {
        let kept = keep_out(&planted());
        assert!(!kept.to_string().contains("planted"), "{kept}");
        assert_eq!(kept["models"]["providers"]["other"]["apiKey"], "env:OTHER");
        assert_eq!(kept["agents"]["list"][0]["sandbox"]["docker"]["env"]["PATH"], "/bin");
        let mut back = kept;
        assert_eq!(put_back(&mut back, &planted()), Vec::<String>::new());
        assert_eq!(back, planted());
        // The order of keys is kept, because OpenClaw's users read the file.
        assert_eq!(back.to_string(), planted().to_string());
    }

    #[test]
    fn a_key_is_found_in_a_list_by_its_entrys_name_and_a_missing_one_is_named() {
        let mut present = planted();
        let list = present["agents"]["list"].as_array_mut().unwrap();
        list.reverse();
        present["models"]["providers"].as_object_mut().unwrap().remove("mine");
        let mut back = keep_out(&planted());
        let missing = put_back(&mut back, &present);
        assert_eq!(
            missing,
            [
                "models.providers.mine.apiKey",
                "models.providers.mine.headers.x-team",
                "models.providers.mine.baseUrl"
            ]
        );
        assert_eq!(back["agents"], planted()["agents"]);
        assert_eq!(back["models"]["providers"]["mine"], json!({"headers": {}}));
        assert!(!back.to_string().contains(PLACEHOLDER));
    }
}

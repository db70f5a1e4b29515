//! Keys and tokens in the configuration that nobody is shown.

use serde_json::Value;

pub(crate) use crate::secret_text::is_secret_name as is_secret;

use super::secret::is_reference;

/// Replaces keys and tokens by a placeholder text.
pub(crate) fn hide_secrets(value: &mut Value) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                if is_secret(key) { hide(value) } else { hide_secrets(value) }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(hide_secrets),
        _ => {}
    }
}

/// Hides every text of a value, also in the lists and objects in it, for example the headers of a provider.
fn hide(value: &mut Value) {
    match value {
        // A reference is not secret and tells the reader where the key is.
        Value::String(text) if !is_reference(text) => *text = HIDDEN_TEXT.to_owned(),
        Value::Array(list) => list.iter_mut().for_each(hide),
        Value::Object(object) => object.values_mut().for_each(hide),
        _ => {}
    }
}

const HIDDEN_TEXT: &str = "(hidden; get its full path to see it)";

/// Returns `true` if a value holds a key or token itself and not only the name of one.
pub(crate) fn holds_secret(value: &Value) -> bool {
    let mut shown = value.clone();
    hide_secrets(&mut shown);
    shown != *value
}

/// Returns the paths at which two documents hold different keys or tokens. A document without one counts too.
pub(crate) fn different_secrets(one: &Value, other: &Value) -> Vec<String> {
    let (one, other) = (secrets(one), secrets(other));
    let mut paths: Vec<String> = one
        .iter()
        .filter(|found| !other.contains(found))
        .chain(other.iter().filter(|found| !one.contains(found)))
        .map(|(path, _)| path.clone())
        .collect();
    paths.sort();
    paths.dedup();
    paths
}

/// Returns the values that [`hide_secrets`] hides, each with its path.
fn secrets(document: &Value) -> Vec<(String, &Value)> {
    let mut shown = document.clone();
    hide_secrets(&mut shown);
    let mut found = Vec::new();
    collect(document, &shown, String::new(), &mut found);
    found
}

/// Collects the texts that differ between a document and what is shown of it.
fn collect<'d>(document: &'d Value, shown: &Value, at: String, found: &mut Vec<(String, &'d Value)>) {
    match document {
        Value::Object(object) => {
            for (key, value) in object {
                let at = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
                collect(value, &shown[key], at, found);
            }
        }
        Value::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                collect(value, &shown[index], format!("{at}[{index}]"), found);
            }
        }
        value if value != shown => found.push((at, value)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_not_shown_with_the_rest() {
        let mut value =
            json!({"gateway": {"auth": {"token": "t"}}, "p": [{"apiKey": "k"}, {"apiKey": "env:K"}]});
        hide_secrets(&mut value);
        assert_eq!(value["gateway"]["auth"]["token"], HIDDEN_TEXT);
        assert_eq!(value["p"][0]["apiKey"], HIDDEN_TEXT);
        assert_eq!(value["p"][1]["apiKey"], "env:K");
        let mut value = json!({"x": {"headers": {"x-team": "s"}, "apiKey": ["k"]}, "env": {"PATH": "/bin"}});
        hide_secrets(&mut value);
        let expected = json!({"x": {"headers": {"x-team": HIDDEN_TEXT}, "apiKey": [HIDDEN_TEXT]}, "env": {"PATH": "/bin"}});
        assert_eq!(value, expected);
    }

    #[test]
    fn secrets_are_compared_without_being_shown() {
        let document = |token: &str, key: &str| json!({"gateway": {"auth": {"token": token}}, "p": [{"apiKey": key}], "n": 1});
        let differ = |one: &Value, other: &Value| different_secrets(one, other);
        assert!(differ(&document("a", "b"), &document("a", "b")).is_empty());
        assert_eq!(differ(&document("a", "b"), &document("c", "b")), ["gateway.auth.token"]);
        assert_eq!(differ(&document("a", "b"), &document("a", "env:K")), ["p[0].apiKey"]);
        assert!(holds_secret(&document("a", "env:K")) && !holds_secret(&json!({"apiKey": "env:K"})));
    }
}

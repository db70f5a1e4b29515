//! Paths into the configuration: `gateway.auth.token`, `agents.list[coder].model.primary`, `agents.list[0].id`,
//! `models.providers["my.own"].baseUrl`.

use std::fmt;
use std::str::FromStr;

use serde_json::{Map, Value};

use super::ConfigError;

/// A path into the configuration, with the text that it was parsed from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfigPath {
    text: String,
    steps: Vec<Step>,
}

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// The key of an object.
    Key(String),
    /// The index of a list entry.
    Index(usize),
    /// The id of a list entry.
    Id(String),
}

impl FromStr for ConfigPath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = |why: &str| format!("{why}; write it as in gateway.auth.token or agents.list[coder].model");
        let mut steps = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            // Brackets hold an index, an id, or a quoted key with a dot in it.
            if let Some(inside) = rest.strip_prefix('[') {
                let end = inside.find(']').ok_or_else(|| bad("a \"[\" has no matching \"]\""))?;
                steps.push(parse_brackets(&inside[..end]).ok_or_else(|| bad("a \"[]\" is empty"))?);
                rest = &inside[end + 1..];
            } else {
                let rest_of_key = match rest.strip_prefix('.') {
                    Some(after) if !steps.is_empty() => after,
                    Some(_) => return Err(bad("the path begins with a dot")),
                    None if steps.is_empty() => rest,
                    None => return Err(bad("only a dot or a \"[\" may follow a \"]\"")),
                };
                let end = rest_of_key.find(['.', '[']).unwrap_or(rest_of_key.len());
                if end == 0 {
                    return Err(bad("a key is empty"));
                }
                steps.push(Step::Key(rest_of_key[..end].to_owned()));
                rest = &rest_of_key[end..];
            }
        }
        if steps.is_empty() {
            return Err(bad("the path is empty"));
        }
        Ok(Self { text: text.to_owned(), steps })
    }
}

fn parse_brackets(text: &str) -> Option<Step> {
    if let Some(quoted) = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        return Some(Step::Key(quoted.to_owned()));
    }
    if text.is_empty() {
        return None;
    }
    // A number is an index. Ids of agents that consist of digits can only be reached by their index.
    Some(text.parse().map_or_else(|_| Step::Id(text.to_owned()), Step::Index))
}

impl ConfigPath {
    /// Returns the keys and ids of the path. An index is returned as an empty text.
    pub(crate) fn keys(&self) -> Vec<&str> {
        self.steps
            .iter()
            .map(|step| match step {
                Step::Key(key) | Step::Id(key) => key.as_str(),
                Step::Index(_) => "",
            })
            .collect()
    }

    /// Returns the value at this path.
    pub(crate) fn get<'d>(&self, document: &'d Value) -> Option<&'d Value> {
        self.steps.iter().try_fold(document, |at, step| match step {
            Step::Key(key) => at.get(key),
            Step::Index(index) => at.get(index),
            Step::Id(id) => at.as_array()?.iter().find(|entry| entry["id"] == id.as_str()),
        })
    }

    /// Sets the value at this path and creates missing objects on the way. List entries are not created, except one at
    /// the end of a list.
    ///
    /// # Errors
    ///
    /// Returns an error if a step needs an object or a list where the document holds something else, or if there is no
    /// entry with the index or id.
    pub(crate) fn set(&self, document: &mut Value, value: Value) -> Result<(), ConfigError> {
        let mut at = document;
        for step in &self.steps {
            at = match step {
                Step::Key(key) => {
                    if at.is_null() {
                        *at = Value::Object(Map::new());
                    }
                    let object = at.as_object_mut().ok_or_else(|| {
                        self.blocked(&format!(
                            "{key:?} is a key, but the value that holds it is not an object"
                        ))
                    })?;
                    object.entry(key.as_str()).or_insert(Value::Null)
                }
                Step::Index(index) => {
                    let list = at
                        .as_array_mut()
                        .ok_or_else(|| self.blocked("the value before the number is not a list"))?;
                    // The length is read before the push, for the error message below.
                    let length = list.len();
                    // The index one after the last entry appends to the list.
                    if *index == length {
                        list.push(Value::Null);
                    }
                    list.get_mut(*index)
                        .ok_or_else(|| self.blocked(&format!("the list has {length} entries")))?
                }
                Step::Id(id) => {
                    let list = at
                        .as_array_mut()
                        .ok_or_else(|| self.blocked(&format!("the value before [{id}] is not a list")))?;
                    list.iter_mut()
                        .find(|entry| entry["id"] == id.as_str())
                        .ok_or_else(|| self.blocked(&format!("no entry has the id {id:?}")))?
                }
            };
        }
        *at = value;
        Ok(())
    }

    /// Removes the value at this path. Returns `true` if there was one.
    pub(crate) fn remove(&self, document: &mut Value) -> bool {
        let Some((last, way)) = self.steps.split_last() else { return false };
        // Steps through missing entries end the walk, because there is nothing to remove behind them.
        let holder = way.iter().try_fold(document, |at, step| match step {
            Step::Key(key) => at.get_mut(key),
            Step::Index(index) => at.get_mut(index),
            Step::Id(id) => at.as_array_mut()?.iter_mut().find(|entry| entry["id"] == id.as_str()),
        });
        match (holder, last) {
            // `shift_remove` keeps the order of the other keys, since people read this file.
            (Some(Value::Object(object)), Step::Key(key)) => object.shift_remove(key).is_some(),
            (Some(Value::Array(list)), Step::Index(index)) if *index < list.len() => {
                list.remove(*index);
                true
            }
            (Some(Value::Array(list)), Step::Id(id)) => {
                let before = list.len();
                list.retain(|entry| entry["id"] != id.as_str());
                list.len() != before
            }
            _ => false,
        }
    }

    fn blocked(&self, why: &str) -> ConfigError {
        ConfigError::Blocked { path: self.text.clone(), why: why.to_owned() }
    }
}

impl fmt::Display for ConfigPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::error::{Explain as _, Kind};

    fn path(text: &str) -> ConfigPath {
        text.parse().unwrap()
    }

    #[test]
    fn values_are_found_by_key_index_and_id() {
        let document = json!({"a": {"b.c": 1}, "list": [{"id": "x", "n": 2}, {"id": "gpt-4.1", "n": 3}]});
        assert_eq!(path("a[\"b.c\"]").get(&document), Some(&json!(1)));
        assert_eq!(path("list[1].n").get(&document), Some(&json!(3)));
        assert_eq!(path("list[gpt-4.1].n").get(&document), Some(&json!(3)));
        assert_eq!(path("list[x].n").get(&document), Some(&json!(2)));
        assert_eq!(path("list[y].n").get(&document), None);
        assert_eq!(path("a.b.c").get(&document), None);
    }

    #[test]
    fn setting_makes_objects_and_keeps_the_rest() {
        let mut document = json!({"list": [{"id": "x"}], "text": "t"});
        path("new.deep.key").set(&mut document, json!(1)).unwrap();
        path("list[x].n").set(&mut document, json!(2)).unwrap();
        path("list[1]").set(&mut document, json!({"id": "y"})).unwrap();
        assert_eq!(
            document,
            json!({"list": [{"id": "x", "n": 2}, {"id": "y"}], "text": "t", "new": {"deep": {"key": 1}}})
        );
        for blocked in ["text.key", "list[z].n", "list[9]", "text[0]", "list.key"] {
            let error = path(blocked).set(&mut document, json!(1)).unwrap_err();
            assert_eq!(error.kind(), Kind::Usage, "{blocked}");
        }
    }

    #[test]
    fn removing_returns_whether_a_value_existed() {
        let mut document = json!({"a": 1, "b": {"c": 2}, "list": [{"id": "x"}, {"id": "y"}]});
        assert!(path("b.c").remove(&mut document));
        assert!(path("list[y]").remove(&mut document));
        assert!(path("list[0]").remove(&mut document));
        assert!(!path("b.c").remove(&mut document));
        assert!(!path("a.b.c").remove(&mut document));
        assert_eq!(document, json!({"a": 1, "b": {}, "list": []}));
    }

    #[test]
    fn an_invalid_path_is_refused() {
        for bad in ["", ".a", "a..b", "a.", "a[", "a[]", "a[0]b", "[\"a"] {
            assert!(bad.parse::<ConfigPath>().is_err(), "{bad}");
        }
    }
}

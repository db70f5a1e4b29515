//! Reduces a tool's JSON schema to the keywords that older Google models accept.
//!
//! Other keywords and endless nesting are dropped. A model that knows less about an argument still does better than one
//! that knows nothing.

use serde_json::{Map, Value, json};

/// Maximum nesting depth. Deeper and recursive schemas are cut there.
const MAX_DEPTH: usize = 24;

/// Returns the reduced schema of a tool's arguments, or `None` for a tool without arguments, which has no schema here.
pub(super) fn reduce(schema: &Value) -> Option<Value> {
    let reduced = reduce_object(schema, schema, 0)?;
    let has_any = reduced.get("properties").and_then(Value::as_object).is_some_and(|all| !all.is_empty());
    has_any.then_some(Value::Object(reduced))
}

fn reduce_object(schema: &Value, root: &Value, depth: usize) -> Option<Map<String, Value>> {
    if depth > MAX_DEPTH {
        return None;
    }
    let schema = schema.as_object()?;
    if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
        return reduce_object(root.pointer(target.strip_prefix('#')?)?, root, depth + 1);
    }
    // The API has no `allOf`, so its parts are merged into one schema.
    if let Some(Value::Array(all)) = schema.get("allOf") {
        let mut sum = schema.clone();
        sum.remove("allOf");
        all.iter().for_each(|part| add(&mut sum, part));
        return reduce_object(&Value::Object(sum), root, depth + 1);
    }
    let mut reduced = Map::new();
    for key in [
        "title",
        "description",
        "minimum",
        "maximum",
        "minItems",
        "maxItems",
        "minLength",
        "maxLength",
        "pattern",
    ] {
        if let Some(value) = schema.get(key) {
            reduced.insert(key.to_owned(), value.clone());
        }
    }
    let kind = kind(schema, &mut reduced);
    match kind.as_deref() {
        Some("object") => reduce_properties(schema, root, depth, &mut reduced),
        Some("array") => {
            // An array has to describe its items. Items without a usable schema are declared as texts.
            let items = schema.get("items").and_then(|items| reduce_object(items, root, depth + 1));
            reduced
                .insert("items".to_owned(), items.map_or_else(|| json!({"type": "string"}), Value::Object));
        }
        Some("string") => {
            let one = schema.get("const").map(|one| vec![one.clone()]);
            let all = schema.get("enum").and_then(Value::as_array).cloned().or(one);
            let all: Vec<Value> = all.unwrap_or_default().into_iter().filter(Value::is_string).collect();
            if !all.is_empty() {
                reduced.insert("enum".to_owned(), Value::Array(all));
            }
            // The API knows these two formats only.
            if let Some("date-time" | "enum") = schema.get("format").and_then(Value::as_str) {
                reduced.insert("format".to_owned(), schema["format"].clone());
            }
        }
        _ => {}
    }
    if let Some(kind) = kind {
        reduced.insert("type".to_owned(), Value::String(kind));
    }
    reduce_any_of(schema, root, depth, &mut reduced);
    Some(reduced)
}

/// Returns the type, if it can be determined. A list of types that contains null becomes a nullable type.
fn kind(schema: &Map<String, Value>, reduced: &mut Map<String, Value>) -> Option<String> {
    match schema.get("type") {
        Some(Value::String(kind)) => Some(kind.clone()),
        Some(Value::Array(kinds)) => {
            if kinds.iter().any(|kind| kind == "null") {
                reduced.insert("nullable".to_owned(), Value::Bool(true));
            }
            kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null").map(str::to_owned)
        }
        _ if schema.contains_key("properties") => Some("object".to_owned()),
        _ if schema.contains_key("items") => Some("array".to_owned()),
        _ if schema.contains_key("anyOf") || schema.contains_key("oneOf") => None,
        // A schema that says nothing about its type is declared as text.
        _ => Some("string".to_owned()),
    }
}

fn reduce_properties(
    schema: &Map<String, Value>,
    root: &Value,
    depth: usize,
    reduced: &mut Map<String, Value>,
) {
    let known = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let known = known
        .filter_map(|(name, one)| Some((name.clone(), Value::Object(reduce_object(one, root, depth + 1)?))));
    let known: Map<String, Value> = known.collect();
    // A required name must be among the properties that are left.
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    let required = required.filter(|name| name.as_str().is_some_and(|name| known.contains_key(name)));
    let required: Vec<Value> = required.cloned().collect();
    if !known.is_empty() {
        reduced.insert("properties".to_owned(), Value::Object(known));
    }
    if !required.is_empty() {
        reduced.insert("required".to_owned(), Value::Array(required));
    }
}

fn reduce_any_of(schema: &Map<String, Value>, root: &Value, depth: usize, reduced: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = schema.get("anyOf").or_else(|| schema.get("oneOf")) else { return };
    let is_null = |choice: &&Value| choice["type"] == "null";
    if choices.iter().any(|choice| is_null(&choice)) {
        reduced.insert("nullable".to_owned(), Value::Bool(true));
    }
    let rest = choices.iter().filter(|choice| !is_null(choice));
    let mut rest: Vec<Map<String, Value>> =
        rest.filter_map(|choice| reduce_object(choice, root, depth + 1)).collect();
    // A choice between one schema and null is that schema, nullable.
    if rest.len() == 1 {
        for (key, value) in rest.remove(0) {
            reduced.entry(key).or_insert(value);
        }
    } else if !rest.is_empty() {
        reduced.insert("anyOf".to_owned(), rest.into_iter().map(Value::Object).collect());
    }
}

/// Merges the keywords of `part` into `sum`. A keyword with a single value keeps the first one.
fn add(sum: &mut Map<String, Value>, part: &Value) {
    for (key, value) in part.as_object().into_iter().flatten() {
        match (sum.get_mut(key), value) {
            (Some(Value::Object(known)), Value::Object(more)) => {
                known.extend(more.iter().map(|(key, value)| (key.clone(), value.clone())));
            }
            (Some(Value::Array(known)), Value::Array(more)) => known.extend(more.iter().cloned()),
            (Some(_), _) => {}
            (None, value) => {
                sum.insert(key.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn supported_keywords_are_kept_and_others_dropped() {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "path": {"type": "string", "description": "Where", "format": "uri", "default": "/"},
                "mode": {"const": "fast"},
                "count": {"type": ["integer", "null"], "exclusiveMinimum": 0, "minimum": 1},
                "list": {"type": "array"},
                "either": {"oneOf": [{"type": "string"}, {"type": "number"}]},
                "maybe": {"anyOf": [{"$ref": "#/$defs/x"}, {"type": "null"}]},
            },
            "$defs": {"x": {"type": "object", "properties": {"y": {"type": "boolean"}}}},
            "required": ["path", "gone"],
        });
        let expected = json!({
            "properties": {
                "path": {"description": "Where", "type": "string"},
                "mode": {"enum": ["fast"], "type": "string"},
                "count": {"minimum": 1, "nullable": true, "type": "integer"},
                "list": {"items": {"type": "string"}, "type": "array"},
                "either": {"anyOf": [{"type": "string"}, {"type": "number"}]},
                "maybe": {"nullable": true, "properties": {"y": {"type": "boolean"}}, "type": "object"},
            },
            "required": ["path"],
            "type": "object",
        });
        assert_eq!(reduce(&schema).unwrap(), expected);
    }

    #[test]
    fn a_recursive_schema_is_cut() {
        let schema =
            json!({"type": "object", "properties": {"child": {"$ref": "#"}, "a": {"type": "string"}}});
        assert!(reduce(&schema).unwrap().to_string().len() < 4_000);
        let both = json!({"allOf": [{"properties": {"a": {"type": "string"}}}, {"properties": {"b": {}}}]});
        let reduced = reduce(&both).unwrap();
        assert_eq!(reduced["properties"].as_object().unwrap().len(), 2);
        for empty in [json!({"type": "object"}), json!({}), json!(true), json!({"$ref": "http://x/"})] {
            assert_eq!(reduce(&empty), None, "{empty}");
        }
    }
}

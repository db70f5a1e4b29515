//! Rewrites a JSON schema into the subset that providers can enforce while a model writes.
//!
//! In that subset objects are closed, there is no recursion, and there are no limits on numbers, lengths and counts,
//! because the providers refuse those (Anthropic's "JSON schema limitations", Bedrock's "Structured outputs"). The
//! result only accepts more than the original. The answer is still checked against the whole schema.

use serde_json::{Map, Value, json};

/// Nesting depth above which a schema is not rewritten.
const MAX_DEPTH: usize = 24;
/// Number of subschemas above which a schema is not rewritten. A definition counts once for each reference to it.
const MAX_SUBSCHEMAS: usize = 1_000;

/// Returns the schema in the enforceable subset, or `None` if it cannot be expressed there. A model is then not held to
/// it.
pub(super) fn close(schema: &Value) -> Option<Value> {
    let mut closer = StrictConverter { root: schema, open: Vec::new(), count: 0 };
    let closed = closer.one(schema, 0)?;
    (closed["type"] == "object").then_some(closed)
}

struct StrictConverter<'a> {
    root: &'a Value,
    /// References that are being expanded, outermost first.
    open: Vec<&'a str>,
    count: usize,
}

impl<'a> StrictConverter<'a> {
    fn one(&mut self, schema: &'a Value, depth: usize) -> Option<Value> {
        self.count += 1;
        let schema = schema.as_object()?;
        if depth > MAX_DEPTH
            || self.count > MAX_SUBSCHEMAS
            || UNSUPPORTED_KEYWORDS.iter().any(|key| schema.contains_key(*key))
        {
            return None;
        }
        if let Some(target) = schema.get("$ref") {
            let target = target.as_str()?;
            // A definition that refers to itself would expand forever.
            if self.open.contains(&target) {
                return None;
            }
            self.open.push(target);
            let closed = self.one(self.root.pointer(target.strip_prefix('#')?)?, depth + 1);
            self.open.pop();
            return closed.map(|closed| with_description(closed, schema));
        }
        let mut closed = Map::new();
        for key in COPIED_KEYWORDS {
            if let Some(value) = schema.get(key) {
                closed.insert(key.to_owned(), value.clone());
            }
        }
        if let Some(format) =
            schema.get("format").filter(|format| FORMATS.iter().any(|known| format == known))
        {
            closed.insert("format".to_owned(), format.clone());
        }
        if let Some(all) = schema.get("enum") {
            let all = all.as_array()?;
            let is_plain = |value: &Value| !value.is_object() && !value.is_array();
            // An enum of objects or arrays cannot be enforced.
            closed.insert("enum".to_owned(), all.iter().all(is_plain).then(|| all.clone().into())?);
        }
        // `oneOf` becomes `anyOf`, which accepts more. The answer is checked against the original schema.
        if let Some(choices) = schema.get("anyOf").or_else(|| schema.get("oneOf")) {
            let choices = choices.as_array()?.iter().map(|choice| self.one(choice, depth + 1));
            closed.insert("anyOf".to_owned(), choices.collect::<Option<Vec<Value>>>()?.into());
        }
        if has_type(schema, "object") || schema.contains_key("properties") {
            self.properties(schema, depth, &mut closed)?;
        }
        if has_type(schema, "array") || schema.contains_key("items") {
            let items = self.one(schema.get("items")?, depth + 1)?;
            closed.insert("items".to_owned(), items);
        }
        // A schema with none of these keywords would accept anything.
        let says = ["type", "enum", "const", "anyOf"].iter().any(|key| closed.contains_key(*key));
        says.then_some(Value::Object(closed))
    }

    /// Rewrites the properties of an object. The result accepts the named properties and no others.
    fn properties(
        &mut self,
        schema: &'a Map<String, Value>,
        depth: usize,
        closed: &mut Map<String, Value>,
    ) -> Option<()> {
        let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
        let is_open = schema.contains_key("additionalProperties") && !is_closed;
        let known = schema.get("properties").and_then(Value::as_object);
        // Closing an object that accepts unnamed properties would make the schema narrower, not wider.
        if is_open || (!is_closed && known.is_none_or(Map::is_empty)) {
            return None;
        }
        let mut properties = Map::new();
        for (name, one) in known.into_iter().flatten() {
            properties.insert(name.clone(), self.one(one, depth + 1)?);
        }
        let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        // A required property that is not described could never be written in a closed object.
        for name in required.clone() {
            properties.get(name.as_str()?)?;
        }
        let required: Vec<Value> = required.cloned().collect();
        closed.entry("type").or_insert_with(|| json!("object"));
        closed.insert("properties".to_owned(), Value::Object(properties));
        closed.insert("required".to_owned(), required.into());
        closed.insert("additionalProperties".to_owned(), Value::Bool(false));
        Some(())
    }
}

fn has_type(schema: &Map<String, Value>, kind: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(only)) => only == kind,
        Some(Value::Array(kinds)) => kinds.iter().any(|one| one == kind),
        _ => false,
    }
}

/// Adds the description that stands beside a `$ref` to the expanded definition.
fn with_description(mut closed: Value, beside: &Map<String, Value>) -> Value {
    if let Some(description) = beside.get("description") {
        closed["description"] = description.clone();
    }
    closed
}

/// Keywords that narrow a schema in a way that the subset cannot express. Dropping one would leave a different schema.
const UNSUPPORTED_KEYWORDS: [&str; 4] = ["allOf", "patternProperties", "prefixItems", "$dynamicRef"];
/// Keywords that are copied unchanged.
const COPIED_KEYWORDS: [&str; 4] = ["type", "title", "description", "const"];
/// Values of `format` that providers accept.
const FORMATS: [&str; 9] =
    ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_closed_and_limits_are_dropped() {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "required": ["n"],
            "properties": {
                "n": {"type": "integer", "minimum": 3, "description": "How many"},
                "names": {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 2},
                "when": {"type": ["string", "null"], "format": "date"},
                "link": {"type": "string", "format": "regex", "pattern": "^a"},
                "kind": {"oneOf": [{"const": "a"}, {"enum": ["b", 1, null]}]},
                "place": {"$ref": "#/$defs/place", "description": "Where"},
            },
            "$defs": {"place": {"properties": {"x": {"type": "number"}}, "additionalProperties": false}},
        });
        let expected = json!({
            "type": "object",
            "required": ["n"],
            "additionalProperties": false,
            "properties": {
                "n": {"type": "integer", "description": "How many"},
                "names": {"type": "array", "items": {"type": "string"}},
                "when": {"type": ["string", "null"], "format": "date"},
                "link": {"type": "string"},
                "kind": {"anyOf": [{"const": "a"}, {"enum": ["b", 1, null]}]},
                "place": {"type": "object", "properties": {"x": {"type": "number"}}, "required": [],
                    "additionalProperties": false, "description": "Where"},
            },
        });
        assert_eq!(close(&schema).unwrap(), expected);
    }

    #[test]
    fn schemas_that_the_subset_cannot_express_are_not_converted() {
        let of = |inner: Value| json!({"type": "object", "properties": {"a": inner}});
        for open in [
            json!({}),
            json!({"type": "object"}),
            json!({"type": "array", "items": {"type": "string"}}),
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": true}),
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["b"]}),
            of(json!({})),
            of(json!(true)),
            of(json!({"type": "object", "additionalProperties": {"type": "string"}})),
            of(json!({"type": "array"})),
            of(json!({"$ref": "#"})),
            of(json!({"$ref": "https://example.org/schema"})),
            of(json!({"allOf": [{"type": "string"}]})),
            of(json!({"enum": [{"b": 1}]})),
        ] {
            assert_eq!(close(&open), None, "{open}");
        }
        let empty = json!({"type": "object", "additionalProperties": false});
        assert!(close(&empty).is_some(), "an object that is to be empty is closed");
        let mut deep = json!({"type": "string"});
        for _ in 0..40 {
            deep = of(deep);
        }
        assert_eq!(close(&deep), None);
    }
}

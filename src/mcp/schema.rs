//! Checks a structured result against the schema that its tool has for it. Both come from the server, so the work is
//! bounded: a full validator follows references and patterns without a limit. Pure.

use serde_json::Value;

/// The number of steps after which a check is given up.
const MAX_STEPS: u32 = 50_000;
/// The deepest nesting of schemas, also through references.
const MAX_DEPTH: u32 = 100;

/// The outcome of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SchemaCheck {
    Fits,
    /// It does not fit, with the place and the reason.
    Differs(String),
    /// The schema asks for more work than flock does.
    GivenUp,
}

/// Checks a value. Keywords that flock does not know, and patterns, are not checked.
pub(super) fn check(schema: &Value, value: &Value) -> SchemaCheck {
    let mut walk = Walk { root: schema, steps: MAX_STEPS, depth: 0 };
    match walk.differs(schema, value, &mut String::from("the result")) {
        Ok(None) => SchemaCheck::Fits,
        Ok(Some(reason)) => SchemaCheck::Differs(reason),
        Err(GivenUp) => SchemaCheck::GivenUp,
    }
}

struct GivenUp;

type Found = Result<Option<String>, GivenUp>;

struct Walk<'s> {
    root: &'s Value,
    steps: u32,
    depth: u32,
}

impl<'s> Walk<'s> {
    fn step(&mut self) -> Result<(), GivenUp> {
        self.steps = self.steps.checked_sub(1).ok_or(GivenUp)?;
        Ok(())
    }

    fn differs(&mut self, schema: &'s Value, value: &Value, at: &mut String) -> Found {
        if self.depth == MAX_DEPTH {
            return Err(GivenUp);
        }
        self.depth += 1;
        let found = self.keywords(schema, value, at);
        self.depth -= 1;
        found
    }

    fn keywords(&mut self, schema: &'s Value, value: &Value, at: &mut String) -> Found {
        self.step()?;
        // A path that grew through references would be a text without end.
        if at.len() > 2_000 {
            return Err(GivenUp);
        }
        let keywords = match schema {
            Value::Bool(true) => return Ok(None),
            Value::Bool(false) => return Ok(Some(format!("{at} may not be there"))),
            Value::Object(keywords) => keywords,
            _ => return Ok(None),
        };
        if let Some(reference) = keywords.get("$ref").and_then(Value::as_str) {
            let target = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
            let Some(target) = target else { return Err(GivenUp) };
            if let Some(reason) = self.differs(target, value, at)? {
                return Ok(Some(reason));
            }
        }
        if let Some(types) = keywords.get("type")
            && !has_type(types, value)
        {
            return Ok(Some(format!("{at} is not of the type {types}")));
        }
        if let Some(allowed) = keywords.get("enum").and_then(Value::as_array) {
            self.steps = self.steps.saturating_sub(u32::try_from(allowed.len()).unwrap_or(u32::MAX));
            if !allowed.contains(value) {
                return Ok(Some(format!("{at} is none of the allowed values")));
            }
        }
        if keywords.get("const").is_some_and(|only| only != value) {
            return Ok(Some(format!("{at} is not the only allowed value")));
        }
        if let Some(reason) = self.combined(schema, value, at)? {
            return Ok(Some(reason));
        }
        match value {
            Value::Object(_) => self.object(schema, value, at),
            Value::Array(items) => {
                if let Some(reason) = bounds(schema, ["minItems", "maxItems"], items.len(), "items", at) {
                    return Ok(Some(reason));
                }
                let Some(each) = keywords.get("items") else { return Ok(None) };
                for (number, item) in items.iter().enumerate() {
                    if let Some(reason) = self.below(each, item, at, &format!("[{number}]"))? {
                        return Ok(Some(reason));
                    }
                }
                Ok(None)
            }
            Value::String(text) => {
                Ok(bounds(schema, ["minLength", "maxLength"], text.chars().count(), "characters", at))
            }
            Value::Number(number) => {
                let number = number.as_f64().unwrap_or_default();
                let limit = |name: &str| keywords.get(name).and_then(Value::as_f64);
                let is_out = limit("minimum").is_some_and(|least| number < least)
                    || limit("maximum").is_some_and(|most| number > most)
                    || limit("exclusiveMinimum").is_some_and(|least| number <= least)
                    || limit("exclusiveMaximum").is_some_and(|most| number >= most);
                Ok(is_out.then(|| format!("{at} is out of its range")))
            }
            _ => Ok(None),
        }
    }

    fn combined(&mut self, schema: &'s Value, value: &Value, at: &mut String) -> Found {
        for each in schema["allOf"].as_array().into_iter().flatten() {
            if let Some(reason) = self.differs(each, value, at)? {
                return Ok(Some(reason));
            }
        }
        for (name, most) in [("anyOf", usize::MAX), ("oneOf", 1)] {
            let Some(choices) = schema[name].as_array() else { continue };
            let mut fitting = 0_usize;
            for each in choices {
                if self.differs(each, value, at)?.is_none() {
                    fitting += 1;
                }
            }
            if fitting == 0 || fitting > most {
                return Ok(Some(format!("{at} fits {fitting} of the choices of {name}")));
            }
        }
        if let Some(not) = schema.get("not")
            && self.differs(not, value, at)?.is_none()
        {
            return Ok(Some(format!("{at} is what it may not be")));
        }
        Ok(None)
    }

    fn object(&mut self, schema: &'s Value, value: &Value, at: &mut String) -> Found {
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            self.step()?;
            if value.get(name).is_none() {
                return Ok(Some(format!("{at} lacks {name:?}")));
            }
        }
        let has_patterns = schema.get("patternProperties").is_some();
        for (name, entry) in value.as_object().into_iter().flatten() {
            let part = format!(".{name}");
            let known = schema["properties"].get(name);
            let rest = schema.get("additionalProperties").filter(|_| !has_patterns);
            let Some(each) = known.or(rest) else { continue };
            if let Some(reason) = self.below(each, entry, at, &part)? {
                return Ok(Some(reason));
            }
        }
        Ok(None)
    }

    fn below(&mut self, schema: &'s Value, value: &Value, at: &mut String, part: &str) -> Found {
        let length = at.len();
        at.push_str(part);
        let found = self.differs(schema, value, at);
        at.truncate(length);
        found
    }
}

fn bounds(schema: &Value, names: [&str; 2], count: usize, what: &str, at: &str) -> Option<String> {
    let limit = |name: &str| schema[name].as_u64().and_then(|limit| usize::try_from(limit).ok());
    let [least, most] = names.map(limit);
    let is_out = least.is_some_and(|least| count < least) || most.is_some_and(|most| count > most);
    is_out.then(|| format!("{at} has {count} {what}"))
}

fn has_type(types: &Value, value: &Value) -> bool {
    let is = |name: &Value| match name.as_str().unwrap_or_default() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        // A type that flock does not know.
        _ => true,
    };
    match types {
        Value::Array(types) => types.iter().any(is),
        one => is(one),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_result_is_compared_with_its_schema() {
        let schema = json!({
            "type": "object",
            "$defs": {"city": {"type": "string", "minLength": 1}},
            "properties": {
                "degrees": {"type": "number", "maximum": 60},
                "city": {"$ref": "#/$defs/city"},
                "tags": {"type": "array", "items": {"enum": ["wet", "dry"]}, "maxItems": 2},
                "wind": {"anyOf": [{"type": "null"}, {"type": "integer"}]},
            },
            "required": ["degrees"],
            "additionalProperties": false,
        });
        for value in [
            json!({"degrees": 20.5}),
            json!({"degrees": 1, "city": "x", "tags": ["wet"], "wind": null}),
            json!({"degrees": 1, "wind": 3}),
        ] {
            assert_eq!(check(&schema, &value), SchemaCheck::Fits, "{value}");
        }
        for (value, part) in [
            (json!([]), "not of the type"),
            (json!({}), "lacks \"degrees\""),
            (json!({"degrees": "20"}), "the result.degrees is not of the type"),
            (json!({"degrees": 61}), "out of its range"),
            (json!({"degrees": 1, "city": ""}), "0 characters"),
            (json!({"degrees": 1, "tags": ["wet", "hot"]}), "the result.tags[1]"),
            (json!({"degrees": 1, "tags": ["wet", "wet", "wet"]}), "3 items"),
            (json!({"degrees": 1, "wind": 1.5}), "0 of the choices"),
            (json!({"degrees": 1, "more": 1}), "may not be there"),
        ] {
            let SchemaCheck::Differs(reason) = check(&schema, &value) else { panic!("{value}") };
            assert!(reason.contains(part), "{reason} for {value}");
        }
    }

    #[test]
    fn a_schema_that_is_a_bomb_is_given_up() {
        let mut value = json!(1);
        for _ in 0..60 {
            value = json!({"x": value});
        }
        let own = json!({"$ref": "#/$defs/a"});
        let twice = json!({"$defs": {"a": {"properties": {"x": {"allOf": [own, own]}}}}, "allOf": [own]});
        assert_eq!(check(&twice, &value), SchemaCheck::GivenUp);
        let round = json!({"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"});
        assert_eq!(check(&round, &json!(1)), SchemaCheck::GivenUp);
        assert_eq!(check(&json!({"$ref": "https://a.example/x"}), &json!(1)), SchemaCheck::GivenUp);
    }
}

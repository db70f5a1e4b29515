//! The JSON schema of a tool's parameters. A request has dozens of them and a turn makes many requests, so clones share
//! the schema, and its text is written once.

use std::ops::Deref;
use std::sync::Arc;

use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// A JSON schema of an object, with its serialised text. Clones are cheap.
#[derive(Clone, Debug)]
pub struct Parameters(Arc<ParameterSchema>);

#[derive(Debug)]
struct ParameterSchema {
    value: Value,
    /// The schema as JSON text. `None` if it cannot be serialised, which does not happen with a [`Value`].
    text: Option<Box<RawValue>>,
    dialect: Option<String>,
}

impl Parameters {
    /// Returns a schema with the `$schema` that its author wrote. It is kept beside the schema, because model APIs refuse
    /// it there.
    #[must_use]
    pub(crate) fn of_dialect(value: Value, dialect: Option<String>) -> Self {
        let text = serde_json::value::to_raw_value(&value).ok();
        Self(Arc::new(ParameterSchema { value, text, dialect }))
    }

    /// Returns the `$schema` that the author of the schema wrote.
    #[must_use]
    pub(crate) fn dialect(&self) -> Option<&str> {
        self.0.dialect.as_deref()
    }

    /// Returns the schema as JSON without spaces.
    #[must_use]
    pub fn text(&self) -> &str {
        self.0.text.as_deref().map_or("null", RawValue::get)
    }
}

impl From<Value> for Parameters {
    fn from(value: Value) -> Self {
        Self::of_dialect(value, None)
    }
}

impl Deref for Parameters {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.0.value
    }
}

impl PartialEq for Parameters {
    fn eq(&self, other: &Self) -> bool {
        self.0.value == other.0.value && self.0.dialect == other.0.dialect
    }
}

impl Serialize for Parameters {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // The stored text is copied as it is, which is faster than writing the value again.
        self.0.text.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_text_is_the_value_and_a_copy_shares_it() {
        let value = json!({"type": "object", "properties": {"a": {"type": "number", "maximum": 1.5}}});
        let parameters = Parameters::from(value.clone());
        assert_eq!(parameters.text(), value.to_string());
        assert_eq!(json!({"schema": &parameters}), json!({"schema": value}));
        assert_eq!(serde_json::to_string(&parameters).unwrap(), value.to_string());
        assert_eq!(parameters["properties"]["a"]["type"], "number");
        let copy = parameters.clone();
        assert!(Arc::ptr_eq(&copy.0, &parameters.0) && copy == parameters);
        assert_ne!(parameters, Parameters::from(json!({})));
    }

    #[test]
    fn the_dialect_is_no_part_of_the_text() {
        let parameters = Parameters::of_dialect(json!({"type": "object"}), Some("urn:dialect".to_owned()));
        assert_eq!(parameters.dialect(), Some("urn:dialect"));
        assert_eq!(serde_json::to_string(&parameters).unwrap(), r#"{"type":"object"}"#);
        assert_eq!(parameters.text(), r#"{"type":"object"}"#);
        assert_ne!(parameters, Parameters::from(json!({"type": "object"})));
    }
}

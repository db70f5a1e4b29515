//! The JSON schemas of an OpenAPI document.

use jsonschema::{Draft, ValidationError, Validator};
use serde_json::{Value, json};

/// Builds the validator of a schema of this document.
///
/// It takes only the components that the schema needs. The time that a schema takes grows with all that is in it, and the
/// components are a hundred times as large as most schemas.
pub fn validator(document: &Value, schema: &Value) -> Result<Validator, ValidationError<'static>> {
    let components = reached(document, schema);
    let mut schema = schema.clone();
    // References in the schema lead there.
    schema["components"] = components;
    jsonschema::options().with_draft(Draft::Draft202012).build(&schema)
}

/// Copies the components that a schema refers to, directly or by way of other components. One that the document does not
/// have is left out, so that the build fails with its name.
fn reached(document: &Value, schema: &Value) -> Value {
    let all = &document["components"];
    let mut found = json!({});
    let mut rest = vec![schema];
    while let Some(value) = rest.pop() {
        if let Some((kind, name)) = value["$ref"].as_str().and_then(component) {
            let target = &all[kind][name];
            if !target.is_null() && found[kind][name].is_null() {
                found[kind][name] = target.clone();
                rest.push(target);
            }
        }
        match value {
            Value::Object(map) => rest.extend(map.values()),
            Value::Array(list) => rest.extend(list),
            _ => {}
        }
    }
    found
}

/// The kind and the name of the component that a reference leads to, or into.
fn component(reference: &str) -> Option<(&str, &str)> {
    let mut steps = reference.strip_prefix("#/components/")?.split('/');
    Some((steps.next()?, steps.next()?))
}

//! Reads a tool's arguments from a model's JSON. Error texts tell the model what to write instead. They never contain
//! values, which may be long or secret.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::ToolError;

/// The arguments of one call.
///
/// Unknown names are ignored. If a required name is missing, the error lists the names that were given, because the
/// model has usually just used another word.
#[derive(Clone, Debug)]
pub struct Arguments {
    map: Map<String, Value>,
}

impl Arguments {
    /// Reads the arguments as a turn passes them: an object, or a string if the model's JSON was broken.
    ///
    /// # Errors
    ///
    /// Returns [`ToolError::ForModel`] if they are neither an object nor a string that contains one.
    pub fn new(arguments: &Value) -> Result<Self, ToolError> {
        let map = match arguments {
            Value::Object(map) => map.clone(),
            // A tool without required arguments may be called with `null`.
            Value::Null => Map::new(),
            // Some models encode the object twice.
            Value::String(text) => match serde_json::from_str(text) {
                Ok(Value::Object(map)) => map,
                Ok(_) => return Err(ToolError::model("the arguments must be a JSON object")),
                Err(error) => {
                    return Err(ToolError::model(format!("the arguments are not valid JSON: {error}")));
                }
            },
            other => {
                return Err(ToolError::model(format!(
                    "the arguments must be a JSON object, not {}",
                    kind_of(other)
                )));
            }
        };
        Ok(Self { map })
    }

    /// Returns all arguments unchanged, for a tool that reads them as one typed value.
    #[must_use]
    pub(crate) fn into_fields(self) -> Map<String, Value> {
        self.map
    }

    /// Returns an optional argument. `null` counts as missing.
    ///
    /// # Errors
    ///
    /// Returns [`ToolError::ForModel`] if it has the wrong type.
    pub fn optional<T: Argument>(&self, name: &str) -> Result<Option<T>, ToolError> {
        match self.map.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => T::take(value).map(Some).ok_or_else(|| {
                ToolError::model(format!("`{name}` must be {}, not {}", T::WHAT, kind_of(value)))
            }),
        }
    }

    /// Refuses arguments with other names, for a tool where an ignored argument would mislead the model.
    ///
    /// # Errors
    ///
    /// Returns [`ToolError::ForModel`] with the valid names if there is any other name.
    pub fn only(&self, names: &[&str]) -> Result<(), ToolError> {
        let mut unknown = self.map.keys().filter(|name| !names.contains(&name.as_str()));
        unknown.next().map_or(Ok(()), |name| {
            // The name was invented by the model and may be of any length.
            let name: String = name.chars().filter(|c| !c.is_control()).take(60).collect();
            Err(ToolError::model(format!("there is no argument `{name}`; use {}", names.join(", "))))
        })
    }

    /// Returns a required argument.
    ///
    /// # Errors
    ///
    /// Returns [`ToolError::ForModel`] if it is missing or has the wrong type.
    pub fn required<T: Argument>(&self, name: &str) -> Result<T, ToolError> {
        self.optional(name)?.ok_or_else(|| self.missing(name))
    }

    /// Returns the argument `limit`. It is clamped and not refused: a model that asks for too much is served with what is
    /// allowed.
    ///
    /// # Errors
    ///
    /// Returns [`ToolError::ForModel`] if it has the wrong type.
    pub fn limit(&self, default: u32, max: u32) -> Result<u32, ToolError> {
        let limit = self.optional::<u64>("limit")?.unwrap_or(default.into()).clamp(1, max.into());
        Ok(u32::try_from(limit).unwrap_or(max))
    }

    /// Returns a required argument that some models write under another name, because they were trained on it.
    ///
    /// # Errors
    ///
    /// Returns [`ToolError::ForModel`] if both names are missing, or if the value has the wrong type.
    pub(crate) fn required_with_alias<T: Argument>(&self, name: &str, other: &str) -> Result<T, ToolError> {
        match self.optional(name)? {
            Some(value) => Ok(value),
            None => self.optional(other)?.ok_or_else(|| self.missing(name)),
        }
    }

    fn missing(&self, name: &str) -> ToolError {
        // The names come from the model, so their number and length are bounded.
        let mut given: Vec<&str> = self.map.keys().map(String::as_str).take(12).collect();
        // A very long name is no misspelt argument and would only fill the error.
        given.retain(|key| key.len() <= 40);
        if given.is_empty() {
            ToolError::model(format!("`{name}` is missing"))
        } else {
            ToolError::model(format!("`{name}` is missing; you gave: {}", given.join(", ")))
        }
    }
}

/// Refuses an argument that is too large. `advice` says what to do instead.
///
/// # Errors
///
/// Returns [`ToolError::ForModel`] if `size` exceeds `max`.
pub(super) fn check_size(name: &str, size: usize, max: usize, advice: &str) -> Result<(), ToolError> {
    let text = || format!("`{name}` has {size} bytes, at most {max} are possible{advice}");
    if size > max { Err(ToolError::model(text())) } else { Ok(()) }
}

/// A type that an argument can have.
pub(crate) trait Argument: Sized {
    /// Description of the type for error texts, such as `a string`.
    const WHAT: &'static str;

    /// Returns the value if it has this type.
    fn take(value: &Value) -> Option<Self>;
}

impl Argument for String {
    const WHAT: &'static str = "a string";

    fn take(value: &Value) -> Option<Self> {
        value.as_str().map(str::to_owned)
    }
}

impl Argument for bool {
    const WHAT: &'static str = "true or false";

    fn take(value: &Value) -> Option<Self> {
        value.as_bool()
    }
}

impl Argument for u64 {
    const WHAT: &'static str = "a whole number, 0 or more";

    fn take(value: &Value) -> Option<Self> {
        // Some models write every number with a decimal point.
        // 2^53: up to here a double holds every whole number exactly.
        const EXACT: f64 = 9_007_199_254_740_992.0;
        value.as_u64().or_else(|| {
            let number = value.as_f64()?;
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a whole number within the range a double holds exactly"
            )]
            (number.fract() == 0.0 && (0.0..=EXACT).contains(&number)).then_some(number as Self)
        })
    }
}

impl Argument for Vec<String> {
    const WHAT: &'static str = "a list of strings";

    fn take(value: &Value) -> Option<Self> {
        match value {
            Value::Array(list) => list.iter().map(|one| one.as_str().map(str::to_owned)).collect(),
            // Models often write a single string without the list around it.
            Value::String(one) => Some(vec![one.clone()]),
            _ => None,
        }
    }
}

impl Argument for Vec<Value> {
    const WHAT: &'static str = "a list";

    fn take(value: &Value) -> Option<Self> {
        value.as_array().cloned()
    }
}

impl Argument for Value {
    const WHAT: &'static str = "a value";

    fn take(value: &Value) -> Option<Self> {
        Some(value.clone())
    }
}

impl Argument for Map<String, Value> {
    const WHAT: &'static str = "an object";

    fn take(value: &Value) -> Option<Self> {
        value.as_object().cloned()
    }
}

impl Argument for BTreeMap<String, String> {
    const WHAT: &'static str = "an object of strings";

    fn take(value: &Value) -> Option<Self> {
        let object = value.as_object()?;
        object.iter().map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
    }
}

const fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number of this kind",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object of this kind",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn text(error: ToolError) -> String {
        match error {
            ToolError::ForModel(text) => text,
            ToolError::Fatal(error) => panic!("fatal: {error}"),
        }
    }

    #[test]
    fn types_are_checked() {
        let arguments =
            Arguments::new(&json!({"s": "x", "n": 3, "f": 4.0, "g": 4.5, "neg": -1, "b": true, "z": null}))
                .unwrap();
        assert_eq!(arguments.required::<String>("s").unwrap(), "x");
        assert_eq!(arguments.required::<u64>("n").unwrap(), 3);
        assert_eq!(arguments.required::<u64>("f").unwrap(), 4);
        assert!(arguments.optional::<u64>("g").is_err());
        assert!(arguments.optional::<u64>("neg").is_err());
        assert!(arguments.optional::<bool>("b").unwrap().unwrap());
        assert_eq!(arguments.optional::<String>("z").unwrap(), None);
        assert_eq!(
            text(arguments.required::<String>("n").unwrap_err()),
            "`n` must be a string, not a number of this kind"
        );
        assert_eq!(
            text(arguments.required::<u64>("s").unwrap_err()),
            "`s` must be a whole number, 0 or more, not a string"
        );
    }

    #[test]
    fn a_missing_argument_error_lists_the_given_names() {
        let arguments = Arguments::new(&json!({"file": "x"})).unwrap();
        assert_eq!(
            text(arguments.required::<String>("path").unwrap_err()),
            "`path` is missing; you gave: file"
        );
        assert_eq!(arguments.required_with_alias::<String>("path", "file").unwrap(), "x");
        assert_eq!(
            text(Arguments::new(&json!({})).unwrap().required::<String>("path").unwrap_err()),
            "`path` is missing"
        );
    }

    #[test]
    fn arguments_that_are_no_object_are_refused() {
        assert!(text(Arguments::new(&json!("{\"a\": ")).unwrap_err()).contains("not valid JSON"));
        assert!(text(Arguments::new(&json!([1])).unwrap_err()).contains("a list"));
        assert!(Arguments::new(&json!("[1]")).is_err());
        assert!(Arguments::new(&json!("{\"a\": \"b\"}")).unwrap().required::<String>("a").is_ok());
        assert!(Arguments::new(&Value::Null).is_ok());
    }

    proptest! {
        #[test]
        fn any_string_is_taken_or_refused(text in ".{0,200}") {
            if let Ok(arguments) = Arguments::new(&Value::String(text)) {
                let _ = arguments.optional::<String>("path");
            }
        }
    }
}

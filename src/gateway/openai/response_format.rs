//! The format that a client wants its answer in (`response_format`). Models that can be bound to a format are. With any
//! model the answer is checked, and the agent is asked once more if it does not fit.

use std::sync::Arc;

use jsonschema::Validator;
use serde_json::Value;

use crate::gateway::error::ApiError;
use crate::provider::AnswerFormat;

/// Most bytes of a schema.
const MAX_SCHEMA: usize = 256 << 10;
/// Most characters of the text that says what is wrong with an answer.
const MAX_PROBLEM_CHARS: usize = 600;

/// A format that an answer must have.
#[derive(Clone, Debug)]
pub(crate) struct ResponseFormat {
    /// The format as it is sent to a model.
    pub asked: AnswerFormat,
    validator: Option<Arc<Validator>>,
}

impl ResponseFormat {
    /// Returns the format that `response_format` of a chat completion asks for, or `None` if any text will do.
    ///
    /// # Errors
    ///
    /// Returns 400 for an unknown format, and for a schema that is too large or can't be checked.
    pub(crate) fn of_chat(wanted: &Value) -> Result<Option<Self>, ApiError> {
        Self::read(
            wanted,
            &wanted["json_schema"],
            &Place { param: "response_format", schema: "response_format.json_schema" },
        )
    }

    /// Returns the format that `text.format` of a response asks for, or `None` if any text will do.
    ///
    /// # Errors
    ///
    /// Returns 400 for an unknown format, and for a schema that is too large or can't be checked.
    pub(crate) fn of_response(wanted: &Value) -> Result<Option<Self>, ApiError> {
        Self::read(wanted, wanted, &Place { param: "text.format", schema: "text.format" })
    }

    fn read(wanted: &Value, schema: &Value, place: &Place) -> Result<Option<Self>, ApiError> {
        match wanted["type"].as_str() {
            Some("text") => Ok(None),
            Some("json_object") => Ok(Some(Self { asked: AnswerFormat::JsonObject, validator: None })),
            Some("json_schema") => Self::from_schema(schema, place).map(Some),
            _ => {
                let param = place.param;
                Err(place.invalid(&format!("{param}.type is none of text, json_object and json_schema")))
            }
        }
    }

    fn from_schema(wanted: &Value, place: &Place) -> Result<Self, ApiError> {
        let at = place.schema;
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let name = wanted["name"].as_str().unwrap_or_default();
        if !(1..=64).contains(&name.len()) || !name.chars().all(fits) {
            return Err(place.invalid(&format!("{at}.name is 1 to 64 letters, digits, '_' and '-'")));
        }
        let schema = &wanted["schema"];
        if !schema.is_object() {
            return Err(place.invalid(&format!("{at}.schema must be an object")));
        }
        if schema.to_string().len() > MAX_SCHEMA {
            return Err(place.invalid(&format!("{at}.schema has more than {} KiB", MAX_SCHEMA >> 10)));
        }
        // Only references inside the schema are resolved. Nothing is fetched.
        let validator = jsonschema::validator_for(schema).map_err(|error| {
            let wrong = crate::clean::summary(&error.to_string(), MAX_PROBLEM_CHARS);
            place.invalid(&format!("{at}.schema is no JSON schema that can be checked: {wrong}"))
        })?;
        let strict = wanted["strict"].as_bool();
        let asked = AnswerFormat::JsonSchema { name: name.to_owned(), schema: schema.clone(), strict };
        Ok(Self { asked, validator: Some(Arc::new(validator)) })
    }

    /// Returns the instruction that the agent gets with the question.
    #[must_use]
    pub(crate) fn instruction(&self) -> String {
        match &self.asked {
            AnswerFormat::JsonObject => {
                "Your final answer must be one JSON object and nothing else: no words around it, no code fence."
                    .to_owned()
            }
            AnswerFormat::JsonSchema { schema, .. } => format!(
                "Your final answer must be one JSON value and nothing else: no words around it, no code fence. It \
                 must fit this JSON schema:\n{schema}"
            ),
        }
    }

    /// Returns the JSON of an answer that has this format.
    ///
    /// # Errors
    ///
    /// Returns a text that says what is wrong with the answer.
    pub(crate) fn check(&self, answer: &str) -> Result<String, String> {
        let text = strip_fence(answer);
        let value: Value = serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))?;
        match &self.validator {
            None if value.is_object() => Ok(text.to_owned()),
            None => Err("it is not a JSON object".to_owned()),
            Some(validator) => match validator.iter_errors(&value).next() {
                None => Ok(text.to_owned()),
                Some(error) => {
                    let place = error.instance_path().to_string();
                    let place = if place.is_empty() { "the whole".to_owned() } else { place };
                    Err(crate::clean::summary(&format!("{place}: {error}"), MAX_PROBLEM_CHARS))
                }
            },
        }
    }
}

/// Returns the follow-up question for an answer that did not have the format.
#[must_use]
pub(crate) fn correction_prompt(wrong: &str) -> String {
    format!(
        "Your answer does not have the form that was asked for: {wrong}. Give the same answer again in that form, as \
         JSON and nothing else."
    )
}

/// Returns the content of a code fence if it encloses the whole text, and the trimmed text otherwise.
fn strip_fence(text: &str) -> &str {
    let text = text.trim();
    let inner = text.strip_prefix("```").and_then(|text| text.strip_suffix("```"));
    // The word after the fence names a language, so it is short.
    let inner = inner.and_then(|text| text.split_once('\n')).filter(|(word, _)| word.len() <= 16);
    inner.map_or(text, |(_, inner)| inner.trim())
}

/// The place of a format in its request, for errors.
struct Place {
    param: &'static str,
    /// The object that has the name and the schema.
    schema: &'static str,
}

impl Place {
    fn invalid(&self, message: &str) -> ApiError {
        ApiError::invalid("invalid_response_format", message).with_param(self.param)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema(schema: Value) -> Result<Option<ResponseFormat>, ApiError> {
        ResponseFormat::of_chat(
            &json!({"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}),
        )
    }

    #[test]
    fn an_answer_is_json_with_or_without_a_fence() {
        let any = ResponseFormat::of_chat(&json!({"type": "json_object"})).unwrap().unwrap();
        for good in ["{\"a\": 1}", "  {\"a\": 1}\n", "```json\n{\"a\": 1}\n```", "```\n{\"a\": 1}```"] {
            assert_eq!(any.check(good).unwrap(), "{\"a\": 1}");
        }
        for bad in ["", "hello", "[1]", "{\"a\": 1} and more", "Here: ```json\n{}\n```", "{\"a\": 1"] {
            assert!(any.check(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_answer_fits_its_schema() {
        let wanted = json!({"type": "object", "required": ["n"], "additionalProperties": false,
            "properties": {"n": {"type": "integer", "minimum": 3}}});
        let format = schema(wanted).unwrap().unwrap();
        assert!(format.check("{\"n\": 3}").is_ok());
        for bad in ["{\"n\": 2}", "{\"n\": \"3\"}", "{}", "{\"n\": 3, \"m\": 1}", "3"] {
            assert!(format.check(bad).is_err(), "{bad}");
        }
        assert!(format.check("{\"n\": 2}").unwrap_err().starts_with("/n: "));
        assert!(format.instruction().contains("\"minimum\":3"));
    }

    #[test]
    fn a_format_that_cannot_be_checked_is_refused_by_name() {
        assert!(ResponseFormat::of_chat(&json!({"type": "text"})).unwrap().is_none());
        for wrong in [
            json!({"type": "xml"}),
            json!("json"),
            json!({"type": "json_schema"}),
            json!({"type": "json_schema", "json_schema": {"name": "a b", "schema": {}}}),
            json!({"type": "json_schema", "json_schema": {"name": "x", "schema": []}}),
        ] {
            let error = ResponseFormat::of_chat(&wrong).unwrap_err();
            assert_eq!(
                (&*error.code, error.details.param.as_deref()),
                ("invalid_response_format", Some("response_format"))
            );
        }
        let flat = json!({"type": "json_schema", "name": "a b", "schema": {}});
        assert_eq!(
            ResponseFormat::of_response(&flat).unwrap_err().details.param.as_deref(),
            Some("text.format")
        );
        let flat = json!({"type": "json_schema", "name": "x", "schema": {"type": "object"}, "strict": true});
        assert!(ResponseFormat::of_response(&flat).unwrap().unwrap().check("{}").is_ok());
        assert!(schema(json!({"type": "nothing"})).is_err());
        assert!(schema(json!({"$ref": "http://127.0.0.1:9/x"})).is_err(), "nothing is fetched");
        assert!(schema(json!({"description": "x".repeat(MAX_SCHEMA)})).is_err());
    }
}

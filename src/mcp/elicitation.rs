//! Questions of a server to a person (elicitation): their fields, the form that a person is shown, and the check of the answer.
//! Pure.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::asks::AskError;
use crate::clean;
use crate::secret_text::is_secret_name;
use crate::tool::safe_text;

/// The most bytes of a server's message.
const MAX_MESSAGE: usize = 2_000;
/// The most fields of a question, and the most bytes of a field's name.
const MAX_FIELDS: usize = 16;
const MAX_NAME: usize = 64;
/// The most characters of a title, of a description and of a choice.
const MAX_TITLE: usize = 100;
const MAX_ABOUT: usize = 500;
/// The most choices of a field.
const MAX_CHOICES: usize = 50;
/// The most bytes of one text of an answer.
const MAX_TEXT: usize = 8 << 10;
/// Words of a field that asks for something secret, beside those of [`is_secret_name`].
const SECRET_WORDS: [&str; 14] = [
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "secret",
    "token",
    "credential",
    "credentials",
    "apikey",
    "cvv",
    "cvc",
    "otp",
    "pin",
    "ssn",
];

/// A question of a server to a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    /// The server's words, cleaned.
    pub message: String,
    pub fields: Vec<QuestionField>,
}

/// The answer of a person.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PersonAnswer {
    /// The values, checked and complete.
    Accepted(Map<String, Value>),
    Declined,
    /// Nobody answered in time, or the call ended.
    Cancelled,
}

impl PersonAnswer {
    /// Returns the word of the protocol.
    pub(super) const fn action(&self) -> &'static str {
        match self {
            Self::Accepted(_) => "accept",
            Self::Declined => "decline",
            Self::Cancelled => "cancel",
        }
    }

    /// Returns the result for the server.
    pub(super) fn result(&self) -> Value {
        let mut result = json!({"action": self.action()});
        if let Self::Accepted(content) = self {
            result["content"] = Value::Object(content.clone());
        }
        result
    }
}

/// A field of a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QuestionField {
    /// The key of the value in the answer.
    pub name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    #[serde(default)]
    pub required: bool,
    pub kind: FieldKind,
    /// The value that counts if a person gives none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
}

/// The values that a field takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", deny_unknown_fields)]
pub enum FieldKind {
    #[serde(rename_all = "camelCase")]
    Text {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        min_length: Option<u32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_length: Option<u32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        format: Option<TextFormat>,
    },
    #[serde(rename_all = "camelCase")]
    Number {
        is_integer: bool,
        /// In thousandths, so that equal bounds are written equally.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        minimum_milli: Option<i64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        maximum_milli: Option<i64>,
    },
    Flag,
    #[serde(rename_all = "camelCase")]
    Choice {
        choices: Vec<Choice>,
        /// Set if several can be chosen.
        is_multiple: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        min_items: Option<u32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_items: Option<u32>,
    },
}

/// A value that can be chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    pub value: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
}

/// The form of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TextFormat {
    Email,
    Uri,
    Date,
    DateTime,
}

/// Reads a question.
///
/// # Errors
///
/// Returns the error for the server if it is not one, is too large, or asks for something that nobody is asked for.
pub(super) fn read(params: &Value) -> Result<Question, AskError> {
    if params["mode"].as_str().is_some_and(|mode| mode != "form") {
        return Err(AskError::invalid("people are asked by forms alone"));
    }
    let message = cleaned(params["message"].as_str().unwrap_or_default(), MAX_MESSAGE + 1);
    if message.is_empty() || message.len() > MAX_MESSAGE {
        return Err(AskError::invalid(format!("the message must have 1 to {MAX_MESSAGE} bytes")));
    }
    let schema = &params["requestedSchema"];
    let properties = schema["properties"].as_object();
    let properties = properties.ok_or_else(|| AskError::invalid("requestedSchema must have properties"))?;
    if properties.len() > MAX_FIELDS {
        return Err(AskError::invalid(format!("there can be at most {MAX_FIELDS} fields")));
    }
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let field = |(name, schema): (&String, &Value)| {
        let field = field(name, schema, required.contains(&name.as_str()));
        field.map_err(|why| AskError::invalid(format!("the field {:?}: {why}", clean::label(name, MAX_NAME))))
    };
    Ok(Question { message, fields: properties.iter().map(field).collect::<Result<_, _>>()? })
}

fn field(name: &str, schema: &Value, required: bool) -> Result<QuestionField, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(plain) {
        return Err("a name has 1 to 64 letters, digits and _ - .".to_owned());
    }
    let title = cleaned(schema["title"].as_str().unwrap_or_default(), MAX_TITLE);
    let about = cleaned(schema["description"].as_str().unwrap_or_default(), MAX_ABOUT);
    let kind = kind(schema)?;
    if matches!(kind, FieldKind::Text { .. }) && [name, &title, &about].into_iter().any(asks_for_secret) {
        return Err("people are not asked for passwords, keys and the like".to_owned());
    }
    let default = schema.get("default").filter(|value| !value.is_null()).cloned();
    let field = QuestionField { name: name.to_owned(), title, about, required, kind, default };
    if let Some(value) = &field.default {
        field.check(value).map_err(|why| format!("its default does not fit: {why}"))?;
    }
    Ok(field)
}

/// Returns `true` if a name or a text of a field is about a secret.
fn asks_for_secret(text: &str) -> bool {
    let mut words = vec![String::new()];
    for c in text.chars() {
        // A capital letter begins a word, as in `apiKey`.
        if !c.is_alphanumeric() || c.is_uppercase() {
            words.push(String::new());
        }
        if c.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(c.to_lowercase());
        }
    }
    let words: Vec<String> = words.into_iter().filter(|word| !word.is_empty()).collect();
    let is_key = |pair: &[String]| {
        matches!((pair[0].as_str(), pair[1].as_str()), ("api" | "private" | "access" | "ssh", "key"))
            || matches!((pair[0].as_str(), pair[1].as_str()), ("security" | "verification", "code"))
            || matches!((pair[0].as_str(), pair[1].as_str()), ("card", "number"))
    };
    let lower = text.to_lowercase();
    let compact: String = lower.chars().filter(|c| c.is_alphanumeric()).collect();
    words.iter().any(|word| SECRET_WORDS.contains(&word.as_str()))
        || words.windows(2).any(is_key)
        || ["password", "passphrase", "apikey", "privatekey", "accesskey"].iter().any(|word| compact.contains(word))
        || !text.contains(' ') && is_secret_name(text)
        // Scripts without spaces between words.
        || ["비밀번호", "암호", "密码", "密碼", "パスワード"].iter().any(|word| lower.contains(word))
}

fn kind(schema: &Value) -> Result<FieldKind, String> {
    let count = |key: &str| schema[key].as_u64().map(|count| u32::try_from(count).unwrap_or(u32::MAX));
    if let Some(choices) = choices(schema)? {
        return Ok(FieldKind::Choice { choices, is_multiple: false, min_items: None, max_items: None });
    }
    match schema["type"].as_str() {
        Some("string") => Ok(FieldKind::Text {
            min_length: count("minLength"),
            max_length: count("maxLength"),
            format: match schema["format"].as_str() {
                None => None,
                Some("email") => Some(TextFormat::Email),
                Some("uri") => Some(TextFormat::Uri),
                Some("date") => Some(TextFormat::Date),
                Some("date-time") => Some(TextFormat::DateTime),
                Some(_) => return Err("its format is not email, uri, date or date-time".to_owned()),
            },
        }),
        Some(number @ ("number" | "integer")) => Ok(FieldKind::Number {
            is_integer: number == "integer",
            minimum_milli: milli(&schema["minimum"]),
            maximum_milli: milli(&schema["maximum"]),
        }),
        Some("boolean") => Ok(FieldKind::Flag),
        Some("array") => {
            let choices = choices(&schema["items"])?.ok_or("a list must have choices")?;
            let (min_items, max_items) = (count("minItems"), count("maxItems"));
            Ok(FieldKind::Choice { choices, is_multiple: true, min_items, max_items })
        }
        _ => Err("its type is not string, number, integer, boolean or a list of choices".to_owned()),
    }
}

/// Returns a number in thousandths.
#[expect(clippy::cast_possible_truncation, reason = "the cast saturates, and a bound is no amount")]
fn milli(value: &Value) -> Option<i64> {
    if let Some(whole) = value.as_i64() {
        return whole.checked_mul(1000);
    }
    value.as_f64().map(|number| (number * 1000.0).round() as i64)
}

/// Returns the choices of a schema, in each of the forms that the versions of the protocol have.
fn choices(schema: &Value) -> Result<Option<Vec<Choice>>, String> {
    let titled = ["oneOf", "anyOf"].iter().find_map(|key| schema[*key].as_array());
    let choices: Vec<Choice> = if let Some(titled) = titled {
        let choice = |entry: &Value| Choice {
            value: entry["const"].as_str().unwrap_or_default().to_owned(),
            title: cleaned(entry["title"].as_str().unwrap_or_default(), MAX_TITLE),
        };
        titled.iter().map(choice).collect()
    } else if let Some(values) = schema["enum"].as_array() {
        let title = |at: usize| cleaned(schema["enumNames"][at].as_str().unwrap_or_default(), MAX_TITLE);
        let choice = |(at, value): (usize, &Value)| Choice {
            value: value.as_str().unwrap_or_default().to_owned(),
            title: title(at),
        };
        values.iter().enumerate().map(choice).collect()
    } else {
        return Ok(None);
    };
    let is_usable = |choice: &Choice| {
        !choice.value.is_empty()
            && choice.value.chars().count() <= MAX_TITLE
            && !choice.value.chars().any(safe_text::is_unseen)
    };
    if choices.is_empty() || choices.len() > MAX_CHOICES || !choices.iter().all(is_usable) {
        return Err(format!(
            "it must have 1 to {MAX_CHOICES} choices, texts of at most {MAX_TITLE} characters"
        ));
    }
    Ok(Some(choices))
}

/// Returns a text of a server on one line, without anything invisible.
fn cleaned(text: &str, most: usize) -> String {
    clean::label(&safe_text::harmless(text), most)
}

impl QuestionField {
    /// Checks a value.
    ///
    /// # Errors
    ///
    /// Returns the reason for a person.
    pub fn check(&self, value: &Value) -> Result<(), String> {
        match &self.kind {
            FieldKind::Flag => value.as_bool().map(drop).ok_or_else(|| "it must be true or false".to_owned()),
            FieldKind::Number { is_integer, minimum_milli, maximum_milli } => {
                let fits = value.is_number()
                    && (!is_integer || value.is_i64() || value.is_u64())
                    && minimum_milli.is_none_or(|least| milli(value).is_some_and(|found| found >= least))
                    && maximum_milli.is_none_or(|most| milli(value).is_some_and(|found| found <= most));
                if fits { Ok(()) } else { Err(format!("it must be {}", self.describe_kind())) }
            }
            FieldKind::Text { min_length, max_length, format } => {
                let text = value.as_str().ok_or("it must be a text")?;
                let count = text.chars().count();
                let within = text.len() <= MAX_TEXT
                    && min_length.is_none_or(|least| count >= least as usize)
                    && max_length.is_none_or(|most| count <= most as usize);
                if within && format.is_none_or(|format| has_format(text, format)) {
                    Ok(())
                } else {
                    Err(format!("it must be {}", self.describe_kind()))
                }
            }
            FieldKind::Choice { choices, is_multiple, min_items, max_items } => {
                let is_choice =
                    |value: &Value| choices.iter().any(|choice| value.as_str() == Some(&choice.value));
                let fits = match value {
                    Value::Array(values) if *is_multiple => {
                        values.iter().all(is_choice)
                            && min_items.is_none_or(|least| values.len() >= least as usize)
                            && max_items.is_none_or(|most| values.len() <= most as usize)
                    }
                    value => !is_multiple && is_choice(value),
                };
                if fits { Ok(()) } else { Err(format!("it must be {}", self.describe_kind())) }
            }
        }
    }

    /// Reads a value that a person typed.
    #[must_use]
    pub fn typed(&self, text: &str) -> Value {
        match &self.kind {
            FieldKind::Text { .. } | FieldKind::Choice { is_multiple: false, .. } => json!(text),
            FieldKind::Choice { .. } => {
                text.split(',').map(str::trim).filter(|value| !value.is_empty()).collect()
            }
            FieldKind::Flag => match text.trim().to_lowercase().as_str() {
                "true" | "yes" | "y" | "1" => json!(true),
                "false" | "no" | "n" | "0" => json!(false),
                _ => json!(text),
            },
            FieldKind::Number { .. } => {
                let number = serde_json::from_str::<Value>(text.trim()).ok();
                number.filter(Value::is_number).unwrap_or_else(|| json!(text))
            }
        }
    }

    /// Describes the field on one line.
    #[must_use]
    pub fn describe(&self) -> String {
        let mut line = format!("{} ({}", self.name, self.describe_kind());
        line.push_str(if self.required { ", required)" } else { ")" });
        for text in [&self.title, &self.about].into_iter().filter(|text| !text.is_empty()) {
            line.push_str(": ");
            line.push_str(text);
        }
        if let Some(default) = &self.default {
            line = format!("{line} [default: {default}]");
        }
        line
    }

    fn describe_kind(&self) -> String {
        let range = |least: Option<String>, most: Option<String>| match (least, most) {
            (Some(least), Some(most)) => format!(" from {least} to {most}"),
            (Some(least), None) => format!(" of at least {least}"),
            (None, Some(most)) => format!(" of at most {most}"),
            (None, None) => String::new(),
        };
        match &self.kind {
            FieldKind::Flag => "true or false".to_owned(),
            FieldKind::Number { is_integer, minimum_milli, maximum_milli } => {
                #[expect(clippy::cast_precision_loss, reason = "it is only shown")]
                let shown = |milli: i64| format!("{}", milli as f64 / 1000.0);
                let what = if *is_integer { "a whole number" } else { "a number" };
                format!("{what}{}", range(minimum_milli.map(shown), maximum_milli.map(shown)))
            }
            FieldKind::Text { min_length, max_length, format } => {
                let what = match format {
                    None => "a text",
                    Some(TextFormat::Email) => "an e-mail address",
                    Some(TextFormat::Uri) => "an address with a scheme",
                    Some(TextFormat::Date) => "a date as in 2026-02-28",
                    Some(TextFormat::DateTime) => "a time as in 2026-02-28T09:30:00Z",
                };
                let characters = |count: &Option<u32>| count.map(|count| format!("{count} characters"));
                format!("{what}{}", range(characters(min_length), characters(max_length)))
            }
            FieldKind::Choice { choices, is_multiple, min_items, max_items } => {
                let choices: Vec<String> = choices
                    .iter()
                    .map(|choice| match choice.title.as_str() {
                        "" => format!("{:?}", choice.value),
                        title => format!("{:?} ({title})", choice.value),
                    })
                    .collect();
                let what = if *is_multiple { "some of" } else { "one of" };
                let count = |count: &Option<u32>| count.map(|count| count.to_string());
                let range = range(count(min_items), count(max_items));
                let range = if range.is_empty() { range } else { format!(", a number{range}") };
                format!("{what} {}{range}", choices.join(", "))
            }
        }
    }
}

fn has_format(text: &str, format: TextFormat) -> bool {
    match format {
        TextFormat::Email => {
            text.split_once('@').is_some_and(|(user, host)| {
                !user.is_empty() && host.contains('.') && !text.contains(char::is_whitespace)
            }) && text.matches('@').count() == 1
        }
        TextFormat::Uri => reqwest::Url::parse(text).is_ok(),
        TextFormat::Date => text.parse::<jiff::civil::Date>().is_ok() && text.len() == 10,
        TextFormat::DateTime => text.parse::<jiff::Timestamp>().is_ok(),
    }
}

/// Returns the content of an answer: the values that a person gave, and the defaults of the other fields.
///
/// # Errors
///
/// Returns the reason for the person if a value does not fit, is missing, or belongs to no field.
pub(crate) fn content(
    fields: &[QuestionField],
    values: &Map<String, Value>,
) -> Result<Map<String, Value>, String> {
    if let Some(unknown) = values.keys().find(|name| fields.iter().all(|field| field.name != **name)) {
        return Err(format!("there is no field {:?}", clean::label(unknown, MAX_NAME)));
    }
    let mut content = Map::new();
    for field in fields {
        let given = values.get(&field.name).filter(|value| !value.is_null());
        match given.or(field.default.as_ref()) {
            Some(value) => {
                field.check(value).map_err(|why| format!("{}: {why}", field.name))?;
                content.insert(field.name.clone(), value.clone());
            }
            None if field.required => {
                return Err(format!("{} is missing: {}", field.name, field.describe_kind()));
            }
            None => {}
        }
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(properties: Value, required: Value) -> Value {
        json!({"message": "Which \u{1b}[31mtable?\u{202e}",
            "requestedSchema": {"type": "object", "properties": properties, "required": required}})
    }

    fn fields(properties: Value, required: Value) -> Vec<QuestionField> {
        read(&asked(properties, required)).unwrap().fields
    }

    fn refused(properties: Value) -> String {
        read(&asked(properties, json!([]))).unwrap_err().message
    }

    #[test]
    fn every_field_of_the_protocol_is_read_and_shown() {
        let question = read(&asked(
            json!({
                "table": {"type": "string", "title": "Table\u{200b}", "description": "Its name", "minLength": 1, "maxLength": 20},
                "mail": {"type": "string", "format": "email"},
                "rows": {"type": "integer", "minimum": 1, "maximum": 100, "default": 10},
                "share": {"type": "number", "minimum": 0.5},
                "dry": {"type": "boolean", "default": true},
                "colour": {"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]},
                "size": {"type": "string", "oneOf": [{"const": "s", "title": "Small"}]},
                "days": {"type": "array", "minItems": 1, "items": {"type": "string", "enum": ["mo", "tu"]}},
                "more": {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}, "default": ["a"]},
            }),
            json!(["table"]),
        ))
        .unwrap();
        assert_eq!(question.message, "Which table?");
        let shown: Vec<String> = question.fields.iter().map(QuestionField::describe).collect();
        assert_eq!(
            shown,
            [
                "table (a text from 1 characters to 20 characters, required): Table: Its name",
                "mail (an e-mail address)",
                "rows (a whole number from 1 to 100) [default: 10]",
                "share (a number of at least 0.5)",
                "dry (true or false) [default: true]",
                "colour (one of \"r\" (Red), \"g\" (Green))",
                "size (one of \"s\" (Small))",
                "days (some of \"mo\", \"tu\", a number of at least 1)",
                "more (some of \"a\" (A)) [default: [\"a\"]]",
            ]
        );
    }

    #[test]
    fn nobody_is_asked_for_a_secret() {
        let text = |name: &str, title: &str| json!({name: {"type": "string", "title": title}});
        for (name, title) in [
            ("password", ""),
            ("userPassword", ""),
            ("api_key", ""),
            ("apiKey", ""),
            ("access-token", ""),
            ("value", "Your passphrase"),
            ("value", "API key of the service"),
            ("value", "비밀번호를 입력하세요"),
            ("pin", ""),
            ("client_secret", ""),
            ("n", "Card number"),
        ] {
            let error = refused(text(name, title));
            assert!(error.contains("not asked for passwords"), "{name} {title}: {error}");
        }
        // A number of tokens is no token, and a choice is none either.
        for harmless in [
            json!({"max_tokens": {"type": "integer"}}),
            json!({"token": {"type": "string", "enum": ["yes", "no"]}}),
            text("shipping", "Opinion about the mapping"),
            text("keyboard", "Monkey"),
        ] {
            assert_eq!(fields(harmless, json!([])).len(), 1);
        }
    }

    #[test]
    fn what_is_no_question_or_too_large_is_refused() {
        let many: Map<String, Value> =
            (0..17).map(|at| (format!("f{at}"), json!({"type": "boolean"}))).collect();
        let choices: Vec<String> = (0..51).map(|at| at.to_string()).collect();
        for (properties, part) in [
            (Value::Object(many), "16 fields"),
            (json!({"a b": {"type": "boolean"}}), "letters"),
            (json!({"a": {"type": "object"}}), "type"),
            (json!({"a": {"type": "string", "format": "hostname"}}), "format"),
            (json!({"a": {"type": "array", "items": {"type": "string"}}}), "choices"),
            (json!({"a": {"type": "string", "enum": choices}}), "choices"),
            (json!({"a": {"type": "string", "enum": ["x\u{202e}"]}}), "choices"),
            (json!({"a": {"type": "integer", "default": "x"}}), "default"),
        ] {
            let error = refused(properties);
            assert!(error.contains(part), "{error:?} has no {part:?}");
        }
        let mut url = asked(json!({}), json!([]));
        url["mode"] = json!("url");
        assert!(read(&url).unwrap_err().message.contains("forms"));
        let mut long = asked(json!({}), json!([]));
        long["message"] = json!("x".repeat(3_000));
        assert!(read(&long).unwrap_err().message.contains("2000"));
        assert!(read(&json!({"message": "x"})).is_err());
    }

    #[test]
    fn an_answer_is_checked_and_completed_with_defaults() {
        let fields = fields(
            json!({
                "table": {"type": "string", "minLength": 2},
                "when": {"type": "string", "format": "date"},
                "rows": {"type": "integer", "minimum": 1, "maximum": 9, "default": 5},
                "dry": {"type": "boolean"},
                "days": {"type": "array", "maxItems": 1, "items": {"enum": ["mo", "tu"]}},
            }),
            json!(["table"]),
        );
        let answer = |values: Value| content(&fields, values.as_object().unwrap());
        let found = answer(json!({"table": "notes", "dry": false})).unwrap();
        assert_eq!(Value::Object(found), json!({"table": "notes", "rows": 5, "dry": false}));
        for (values, part) in [
            (json!({}), "table is missing"),
            (json!({"table": "x"}), "table: it must be a text of at least 2"),
            (json!({"table": 5}), "table: it must be a text"),
            (json!({"table": "xy", "when": "tomorrow"}), "2026-02-28"),
            (json!({"table": "xy", "rows": 0}), "from 1 to 9"),
            (json!({"table": "xy", "rows": 1.5}), "whole number"),
            (json!({"table": "xy", "dry": "maybe"}), "true or false"),
            (json!({"table": "xy", "days": ["mo", "tu"]}), "some of"),
            (json!({"table": "xy", "days": "mo"}), "some of"),
            (json!({"table": "xy", "other": 1}), "no field"),
        ] {
            let error = answer(values).unwrap_err();
            assert!(error.contains(part), "{error:?} has no {part:?}");
        }
    }

    #[test]
    fn what_a_person_types_becomes_a_value() {
        let fields = fields(
            json!({
                "text": {"type": "string"},
                "rows": {"type": "integer"},
                "dry": {"type": "boolean"},
                "days": {"type": "array", "items": {"enum": ["mo", "tu"]}},
            }),
            json!([]),
        );
        let typed: Vec<Value> =
            fields.iter().zip(["5", "5", "yes", "mo, tu"]).map(|(field, text)| field.typed(text)).collect();
        assert_eq!(typed, [json!("5"), json!(5), json!(true), json!(["mo", "tu"])]);
        assert_eq!(fields[1].typed("many"), json!("many"), "the check names it");
    }
}

//! A request as the program has written it: what has to be known of it, and the agent's model put into it. All other
//! bytes stay as they are, because prompt caches go by them. Pure.

use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use serde::Deserializer as _;
use serde::de::{MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::repair;
use crate::config::Api;

/// What a picture is estimated to take, whatever its size.
const PICTURE: u64 = 1_600;
/// A text from this length on that is nothing but base64 is a picture, or something else that is not read as text.
const LONG: usize = 1_024;

/// A request.
#[derive(Debug)]
pub struct Written {
    bytes: Bytes,
    /// Where its model stands, if it names one.
    model: Option<Range<usize>>,
    /// Where its first entry would stand.
    start: usize,
    is_empty: bool,
    /// The most tokens that it wants of an answer, where it says so.
    output: Option<u64>,
    /// How many answers it wants.
    times: u64,
}

impl Written {
    /// Reads a request of this wire format.
    ///
    /// # Errors
    ///
    /// What is wrong with it, for whoever wrote the program.
    pub fn read(bytes: Bytes, api: Api) -> Result<Self, String> {
        let bytes = repair::repaired(&bytes, api).unwrap_or(bytes);
        let mut reader = serde_json::Deserializer::from_slice(&bytes);
        let found = reader.deserialize_map(Entries).and_then(|found| reader.end().map(|()| found));
        let found =
            found.map_err(|error| format!("the body is not a JSON object that can be read: {error}"))?;
        // Which model answers is the agent's affair, not the program's; a server that does not look at the case of names
        // would else take the other one.
        if found.others {
            return Err("the body may name one model, as \"model\", and no others".to_owned());
        }
        let origin = bytes.as_ptr().addr();
        let model = found.model.map(|raw| {
            let from = raw.get().as_ptr().addr() - origin;
            from..from + raw.get().len()
        });
        let output = found.output.iter().filter_map(|raw| number(raw)).max();
        let times = found.times.and_then(number).unwrap_or(1).max(1);
        let (output, times) = match (api, found.generation) {
            (Api::GoogleGenerativeAi, Some(raw)) => generation(raw),
            _ => (output, times),
        };
        let is_empty = found.is_empty;
        let start = bytes.iter().position(|byte| *byte == b'{').map_or(0, |at| at + 1);
        Ok(Self { model, start, is_empty, output, times, bytes })
    }

    /// Tokens of the request, estimated.
    #[must_use]
    pub fn input(&self) -> u64 {
        estimate(&self.bytes)
    }

    /// The most tokens of the answer, where the request says it, else so many.
    #[must_use]
    pub fn output(&self, usual: u64) -> u64 {
        self.output.unwrap_or(usual).saturating_mul(self.times)
    }

    /// The request to this model. A wire that names the model in the address has it in the body only where the program
    /// put it there.
    #[must_use]
    pub fn to(&self, model: &str, api: Api) -> Bytes {
        let name = match api {
            Api::GoogleGenerativeAi => Value::from(format!("models/{model}")).to_string(),
            _ => Value::from(model).to_string(),
        };
        match &self.model {
            Some(at) if self.bytes[at.clone()] == *name.as_bytes() => self.bytes.clone(),
            Some(at) => [&self.bytes[..at.start], name.as_bytes(), &self.bytes[at.end..]].concat().into(),
            None if api == Api::GoogleGenerativeAi => self.bytes.clone(),
            None => {
                let entry = format!("\"model\":{name}{}", if self.is_empty { "" } else { "," });
                [&self.bytes[..self.start], entry.as_bytes(), &self.bytes[self.start..]].concat().into()
            }
        }
    }
}

/// What a document's outermost object has.
#[derive(Default)]
struct Found<'d> {
    model: Option<&'d RawValue>,
    others: bool,
    output: Vec<&'d RawValue>,
    times: Option<&'d RawValue>,
    generation: Option<&'d RawValue>,
    is_empty: bool,
}

struct Entries;

impl<'de> Visitor<'de> for Entries {
    type Value = Found<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Found<'de>, A::Error> {
        let mut found = Found { is_empty: true, ..Found::default() };
        while let Some((name, value)) = map.next_entry::<String, &'de RawValue>()? {
            found.is_empty = false;
            match name.as_str() {
                "model" if found.model.is_none() => found.model = Some(value),
                "max_tokens" | "max_completion_tokens" | "max_output_tokens" => found.output.push(value),
                "n" => found.times = Some(value),
                "generationConfig" | "generation_config" => found.generation = Some(value),
                other => {
                    found.others |= ["model", "models"].iter().any(|one| other.eq_ignore_ascii_case(one));
                }
            }
        }
        Ok(found)
    }
}

fn number(raw: &RawValue) -> Option<u64> {
    serde_json::from_str(raw.get()).ok()
}

/// What Google is told of the answer that is wanted.
fn generation(raw: &RawValue) -> (Option<u64>, u64) {
    let settings: Value = serde_json::from_str(raw.get()).unwrap_or_default();
    let read = |names: [&str; 2]| names.iter().find_map(|name| settings[*name].as_u64());
    let times = read(["candidateCount", "candidate_count"]).unwrap_or(1).max(1);
    (read(["maxOutputTokens", "max_output_tokens"]), times)
}

/// Four bytes a token, but for what is no text.
fn estimate(bytes: &[u8]) -> u64 {
    let mut text = 0;
    let mut pictures = 0;
    // What is between two quotes is a string, or what stands between two strings: that is never long.
    for part in bytes.split(|byte| *byte == b'"') {
        // A data URL has a head.
        let data = part.iter().position(|byte| *byte == b',').map_or(part, |comma| &part[comma + 1..]);
        let is_data = data.len() >= LONG
            && data.iter().all(|byte| {
                byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'-' | b'_' | b'\\')
            });
        if is_data {
            pictures += 1;
        } else {
            text += part.len() as u64;
        }
    }
    text.div_ceil(4) + pictures * PICTURE
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(body: &str, api: Api) -> Result<Written, String> {
        Written::read(Bytes::copy_from_slice(body.as_bytes()), api)
    }

    fn to(body: &str, api: Api) -> String {
        String::from_utf8(read(body, api).unwrap().to("a/b \"c\"", api).to_vec()).unwrap()
    }

    #[test]
    fn the_agents_model_is_written_in_and_nothing_else_is_touched() {
        let name = r#""a/b \"c\"""#;
        for (body, expected) in [
            (r#"{"model":"x","b":1}"#.to_owned(), format!(r#"{{"model":{name},"b":1}}"#)),
            (
                "\n {\"z\": [1, {\"model\": \"in\"}] , \"mod\\u0065l\" : null ,\"é\":1.50}\n".to_owned(),
                format!("\n {{\"z\": [1, {{\"model\": \"in\"}}] , \"mod\\u0065l\" : {name} ,\"é\":1.50}}\n"),
            ),
            (r#"{"b": 1}"#.to_owned(), format!(r#"{{"model":{name},"b": 1}}"#)),
            ("{ }".to_owned(), format!(r#"{{"model":{name} }}"#)),
        ] {
            assert_eq!(to(&body, Api::AnthropicMessages), expected);
        }
        let google = Api::GoogleGenerativeAi;
        assert_eq!(to(r#"{"contents":[]}"#, google), r#"{"contents":[]}"#);
        assert_eq!(to(r#"{"model":"models/x"}"#, google), r#"{"model":"models/a/b \"c\""}"#);
    }

    #[test]
    fn no_other_model_can_be_named() {
        for body in [
            r#"{"model":"x","model":"y"}"#,
            r#"{"model":"x","Model":"y"}"#,
            r#"{"MODEL":"y"}"#,
            r#"{"model":"x","models":["y"]}"#,
            r#"{"model":"x","mod\u0065l":"y"}"#,
            "[]",
            "",
            "{} {}",
            r#"{"model""#,
            "null",
        ] {
            assert!(read(body, Api::OpenAiCompletions).is_err(), "{body}");
        }
    }

    #[test]
    fn what_an_answer_may_take_is_read() {
        for (body, api, expected) in [
            ("{}", Api::AnthropicMessages, 7),
            (r#"{"max_tokens":100}"#, Api::AnthropicMessages, 100),
            (r#"{"max_tokens":100,"max_completion_tokens":200,"n":3}"#, Api::OpenAiCompletions, 600),
            (r#"{"max_output_tokens":50}"#, Api::OpenAiResponses, 50),
            (r#"{"max_tokens":-1,"n":"x"}"#, Api::OpenAiCompletions, 7),
            (r#"{"generationConfig":{"maxOutputTokens":9,"candidateCount":2}}"#, Api::GoogleGenerativeAi, 18),
            (r#"{"generationConfig":7}"#, Api::GoogleGenerativeAi, 7),
            (r#"{"n":18446744073709551615,"max_tokens":2}"#, Api::OpenAiCompletions, u64::MAX),
        ] {
            assert_eq!(read(body, api).unwrap().output(7), expected, "{body}");
        }
    }

    #[test]
    fn a_picture_is_not_counted_as_text() {
        let picture = "QUJD".repeat(100_000);
        let body = format!(r#"{{"messages":[{{"url":"data:image/png;base64,{picture}","text":"abcd"}}]}}"#);
        let tokens = read(&body, Api::OpenAiCompletions).unwrap().input();
        assert!((PICTURE..PICTURE + 40).contains(&tokens), "{tokens}");
        let words = "word ".repeat(1_000);
        let tokens = read(&format!(r#"{{"a":"{words}"}}"#), Api::OpenAiCompletions).unwrap().input();
        assert!((1_250..1_260).contains(&tokens), "{tokens}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(written) = Written::read(bytes.into(), Api::OpenAiCompletions) {
                let sent = written.to("m", Api::OpenAiCompletions);
                let sent: Value = serde_json::from_slice(&sent).unwrap();
                prop_assert_eq!(&sent["model"], "m");
            }
        }

        #[test]
        fn the_model_is_the_one_of_the_agent(
            before in "[a-z]{0,5}", asked in "\\PC{0,12}", after in prop::collection::vec("[a-z]{1,8}", 0..4),
        ) {
            let mut body = serde_json::Map::new();
            body.insert(format!("x{before}"), "model".into());
            body.insert("model".into(), asked.into());
            body.extend(after.into_iter().map(|name| (format!("y{name}"), Value::from(1.5))));
            let mut expected = body.clone();
            expected.insert("model".into(), "m".into());
            let text = Value::Object(body).to_string();
            let sent = read(&text, Api::OpenAiResponses).unwrap().to("m", Api::OpenAiResponses);
            prop_assert_eq!(String::from_utf8(sent.to_vec()).unwrap(), Value::Object(expected).to_string());
        }
    }
}

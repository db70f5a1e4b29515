//! A request as the program has written it: what has to be known of it, and the agent's model put into it, with its
//! limits. All other bytes stay as they are, because prompt caches go by them. Pure.

use std::ops::Range;

use bytes::Bytes;
use serde_json::Value;

use super::entries::entries;
use super::length::Length;
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
    /// How long an answer it wants.
    length: Length,
}

impl Written {
    /// Reads a request of this wire format.
    ///
    /// # Errors
    ///
    /// What is wrong with it, for whoever wrote the program.
    pub fn read(bytes: Bytes, api: Api) -> Result<Self, String> {
        let bytes = repair::repaired(&bytes, api).unwrap_or(bytes);
        let found = entries(&bytes);
        let found =
            found.map_err(|error| format!("the body is not a JSON object that can be read: {error}"))?;
        // Which model answers is the agent's affair, not the program's; a server that does not look at the case of names
        // would else take the other one.
        let is_model = |name: &str| ["model", "models"].iter().any(|one| name.eq_ignore_ascii_case(one));
        let mut named = found.iter().filter(|(name, _)| is_model(name));
        let model = named.next();
        if named.next().is_some() || model.is_some_and(|(name, _)| name != "model") {
            return Err("the body may name one model, as \"model\", and no others".to_owned());
        }
        let origin = bytes.as_ptr().addr();
        let model = model.map(|(_, raw)| {
            let from = raw.get().as_ptr().addr() - origin;
            from..from + raw.get().len()
        });
        let length = Length::read(&found, origin, api);
        let is_empty = found.is_empty();
        let start = bytes.iter().position(|byte| *byte == b'{').map_or(0, |at| at + 1);
        Ok(Self { model, start, is_empty, length, bytes })
    }

    /// Tokens of the request, estimated.
    #[must_use]
    pub fn input(&self) -> u64 {
        estimate(&self.bytes)
    }

    /// The most tokens of the answer to it, from a model that answers with this many at most.
    #[must_use]
    pub fn output(&self, most: u64) -> u64 {
        self.length.most(most)
    }

    /// The request to this model, which answers with this many tokens at most. A wire that names the model in the address
    /// has it in the body only where the program put it there.
    #[must_use]
    pub fn to(&self, model: &str, api: Api, most: u64) -> Bytes {
        let name = match api {
            Api::GoogleGenerativeAi => Value::from(format!("models/{model}")).to_string(),
            _ => Value::from(model).to_string(),
        };
        let mut edits = self.length.edits(most);
        match &self.model {
            Some(at) if self.bytes[at.clone()] == *name.as_bytes() => {}
            Some(at) => edits.push((at.clone(), name)),
            None if api == Api::GoogleGenerativeAi => {}
            None => {
                let entry = format!("\"model\":{name}{}", if self.is_empty { "" } else { "," });
                edits.push((self.start..self.start, entry));
            }
        }
        if edits.is_empty() {
            return self.bytes.clone();
        }
        edits.sort_by_key(|(at, _)| at.start);
        let mut written = Vec::with_capacity(self.bytes.len() + 64);
        let mut from = 0;
        for (at, text) in edits {
            written.extend_from_slice(&self.bytes[from..at.start]);
            written.extend_from_slice(text.as_bytes());
            from = at.end;
        }
        written.extend_from_slice(&self.bytes[from..]);
        written.into()
    }
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
        String::from_utf8(read(body, api).unwrap().to("a/b \"c\"", api, 1_000).to_vec()).unwrap()
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
    fn the_models_limits_are_written_in_beside_its_name() {
        let sent = |body: &str, api| {
            let sent = read(body, api).unwrap().to("m", api, 500);
            String::from_utf8(sent.to_vec()).unwrap()
        };
        assert_eq!(
            sent(r#"{"max_tokens":900,"x":[1.0],"model":"asked"}"#, Api::AnthropicMessages),
            r#"{"max_tokens":500,"x":[1.0],"model":"m"}"#
        );
        assert_eq!(
            sent(r#"{"generationConfig":{"maxOutputTokens":501}}"#, Api::GoogleGenerativeAi),
            r#"{"generationConfig":{"maxOutputTokens":500}}"#
        );
        assert_eq!(
            sent(r#"{"max_tokens":1e3}"#, Api::OpenAiCompletions),
            r#"{"model":"m","max_tokens":500}"#
        );
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
                let sent = written.to("m", Api::OpenAiCompletions, 1_000);
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
            let sent = read(&text, Api::OpenAiResponses).unwrap().to("m", Api::OpenAiResponses, 1_000);
            prop_assert_eq!(String::from_utf8(sent.to_vec()).unwrap(), Value::Object(expected).to_string());
        }
    }
}

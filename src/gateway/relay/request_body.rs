//! A request as the program wrote it. This module reads what has to be known, and writes in the agent's model and its
//! limits. All other bytes stay as they are, because prompt caches compare them. Pure.

use std::ops::Range;

use bytes::Bytes;
use serde_json::Value;

use super::answer_length::AnswerLength;
use super::entries::entries;
use super::request_filter::{self, ContentSize};
use crate::provider::RelayFormat;
use crate::runtime::program::{PROGRAMS, Program};

/// A parsed request of a program.
#[derive(Debug)]
pub(crate) struct RequestBody {
    bytes: Bytes,
    /// The place of its model name, if it has one.
    model: Option<Range<usize>>,
    /// The place where a first entry would go.
    start: usize,
    is_empty: bool,
    format: &'static RelayFormat,
    /// The length of the answer that it wants.
    length: AnswerLength,
    /// The content besides text.
    seen: ContentSize,
}

impl RequestBody {
    /// Reads a request of this wire format.
    ///
    /// # Errors
    ///
    /// Returns a text for the author of the program that says what is wrong with the request or why it is not passed
    /// on.
    pub(crate) fn read(bytes: Bytes, format: &'static RelayFormat) -> Result<Self, String> {
        // Some programs write requests that a provider refuses. Their modules correct them before anything is checked.
        let mended =
            |bytes: Bytes, program: &&dyn Program| program.mended(&bytes, format.api).unwrap_or(bytes);
        let bytes = PROGRAMS.iter().fold(bytes, mended);
        let found = entries(&bytes);
        let found =
            found.map_err(|error| format!("the body is not a JSON object that can be read: {error}"))?;
        // The agent's settings choose the model, and not the program. Names are compared without case, because a server
        // that ignores case could otherwise take another model.
        let is_model = |name: &str| ["model", "models"].iter().any(|one| name.eq_ignore_ascii_case(one));
        let mut named = found.iter().filter(|(name, _)| is_model(name));
        let model = named.next();
        if named.next().is_some() || model.is_some_and(|(name, _)| name != "model") {
            return Err("the body may name one model, as \"model\", and no others".to_owned());
        }
        let seen = request_filter::check(&bytes, format).map_err(|refused| refused.to_string())?;
        let origin = bytes.as_ptr().addr();
        let model = model.map(|(_, raw)| {
            let from = raw.get().as_ptr().addr() - origin;
            from..from + raw.get().len()
        });
        let length = AnswerLength::read(&found, origin, &format.answer);
        let is_empty = found.is_empty();
        let start = bytes.iter().position(|byte| *byte == b'{').map_or(0, |at| at + 1);
        Ok(Self { model, start, is_empty, format, length, seen, bytes })
    }

    /// Returns the estimated number of tokens of the request's text.
    #[must_use]
    pub(crate) const fn text(&self) -> u64 {
        let ContentSize { bytes, picture_bytes, document_bytes, .. } = self.seen;
        // Four bytes count as one token.
        bytes.saturating_sub(picture_bytes + document_bytes).div_ceil(4)
    }

    /// Returns the estimated number of tokens of the request for a model of this name with a context window of `window`
    /// tokens.
    #[must_use]
    pub(crate) fn input(&self, model: &str, window: u64) -> u64 {
        let ContentSize { pictures, document_bytes, .. } = self.seen;
        // A page of a document may be a picture in a few hundred bytes, so each byte counts as a token. A model does
        // not take more than its context window.
        let documents = document_bytes.min(window);
        self.text() + pictures.saturating_mul((self.format.picture_tokens)(model)) + documents
    }

    /// Returns the most tokens that the answer can have, from a model that answers with at most `most` tokens.
    #[must_use]
    pub(crate) fn output(&self, most: u64) -> u64 {
        self.length.most(most)
    }

    /// Returns the body for this model, which answers with at most `most` tokens.
    #[must_use]
    pub(crate) fn to(&self, model: &str, most: u64) -> Bytes {
        let prefix = self.format.model_prefix;
        let name = Value::from(format!("{}{model}", prefix.unwrap_or_default())).to_string();
        let mut edits = self.length.edits(most);
        match &self.model {
            Some(at) if self.bytes[at.clone()] == *name.as_bytes() => {}
            Some(at) => edits.push((at.clone(), name)),
            None if prefix.is_some() => {}
            None => {
                let entry = format!("\"model\":{name}{}", if self.is_empty { "" } else { "," });
                edits.push((self.start..self.start, entry));
            }
        }
        // Without a change the original bytes are shared and not copied.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::config::Api;
    use crate::provider::wire_format;

    fn read(body: &str, api: Api) -> Result<RequestBody, String> {
        RequestBody::read(Bytes::copy_from_slice(body.as_bytes()), wire_format::of(api).relay.unwrap())
    }

    fn to(body: &str, api: Api) -> String {
        String::from_utf8(read(body, api).unwrap().to("a/b \"c\"", 1_000).to_vec()).unwrap()
    }

    #[test]
    fn the_agents_model_is_written_in_and_nothing_else_is_touched() {
        let name = r#""a/b \"c\"""#;
        for (body, expected) in [
            (r#"{"model":"x","top_k":1}"#.to_owned(), format!(r#"{{"model":{name},"top_k":1}}"#)),
            (
                "\n {\"system\": [1, {\"model\": \"in\"}] , \"mod\\u0065l\" : null ,\"top_p\":1.50, \"é\": null}\n"
                    .to_owned(),
                format!(
                    "\n {{\"system\": [1, {{\"model\": \"in\"}}] , \"mod\\u0065l\" : {name} ,\"top_p\":1.50, \"é\": null}}\n"
                ),
            ),
            (r#"{"top_k": 1}"#.to_owned(), format!(r#"{{"model":{name},"top_k": 1}}"#)),
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
            let sent = read(body, api).unwrap().to("m", 500);
            String::from_utf8(sent.to_vec()).unwrap()
        };
        assert_eq!(
            sent(r#"{"max_tokens":900,"top_p":[1.0],"model":"asked"}"#, Api::AnthropicMessages),
            r#"{"max_tokens":500,"top_p":[1.0],"model":"m"}"#
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

    fn input(body: &str, api: Api, model: &str) -> u64 {
        read(body, api).unwrap().input(model, 100_000)
    }

    #[test]
    fn a_picture_is_charged_as_the_most_that_one_takes_and_everything_else_by_its_size() {
        let data = "QUJD".repeat(100_000);
        let url = format!(r#"{{"messages":[{{"image_url":"data:image/png;base64,{data}","text":"abcd"}}]}}"#);
        for (model, most) in [("gpt-5", 20_000), ("vendor/gpt-4o-mini", 50_000)] {
            let tokens = input(&url, Api::OpenAiCompletions, model);
            assert!((most..most + 40).contains(&tokens), "{tokens}");
        }
        // The same letters in any other place are text.
        let text = format!(r#"{{"messages":[{{"text":"{data}"}}]}}"#);
        let tokens = input(&text, Api::OpenAiCompletions, "gpt-5");
        assert!((100_000..100_020).contains(&tokens), "{tokens}");
        let file = format!(r#"{{"messages":[{{"file_data":"{}"}}]}}"#, &data[..50_000]);
        let tokens = input(&file, Api::OpenAiCompletions, "gpt-5");
        assert!((50_000..50_020).contains(&tokens), "{tokens}");
        let words = "word ".repeat(1_000);
        let tokens = input(&format!(r#"{{"system":"{words}"}}"#), Api::AnthropicMessages, "claude");
        assert!((1_250..1_260).contains(&tokens), "{tokens}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(written) = RequestBody::read(bytes.into(), wire_format::of(Api::OpenAiCompletions).relay.unwrap()) {
                let sent = written.to("m", 1_000);
                let sent: Value = serde_json::from_slice(&sent).unwrap();
                prop_assert_eq!(&sent["model"], "m");
            }
        }

        #[test]
        fn the_model_is_the_one_of_the_agent(
            before in "\\PC{0,12}", asked in "\\PC{0,12}", after in prop::collection::vec("[a-z]{1,8}", 0..4),
        ) {
            let mut body = serde_json::Map::new();
            body.insert("instructions".into(), before.into());
            body.insert("model".into(), asked.into());
            body.insert("metadata".into(), after.into_iter().map(|name| (name, Value::from(1.5))).collect());
            let mut expected = body.clone();
            expected.insert("model".into(), "m".into());
            let text = Value::Object(body).to_string();
            let sent = read(&text, Api::OpenAiResponses).unwrap().to("m", 1_000);
            prop_assert_eq!(String::from_utf8(sent.to_vec()).unwrap(), Value::Object(expected).to_string());
        }
    }
}

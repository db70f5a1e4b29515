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
#[path = "request_body_tests.rs"]
mod tests;

//! A span that has ended.

use std::borrow::Cow;
use std::time::Duration;

use super::context::TraceContext;
use crate::clean;

/// The part that a span plays between programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpanKind {
    /// Work inside of flock.
    Internal,
    /// Work that another program asked for.
    Server,
    /// A request to another program.
    Client,
    /// A message that is given to others.
    Producer,
    /// The receipt of a message.
    Consumer,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Text(Cow<'static, str>),
    Number(i64),
    Seconds(f64),
    Flag(bool),
    Texts(Vec<Cow<'static, str>>),
    /// Text of people, models or tools. It is recorded only if the owner asked for it, and keys are removed from it before
    /// it is sent.
    Content(String),
}

impl Value {
    fn size(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Content(text) => text.len(),
            Self::Texts(texts) => texts.iter().map(|text| text.len() + 16).sum(),
            Self::Number(_) | Self::Seconds(_) | Self::Flag(_) => 8,
        }
    }
}

impl From<&'static str> for Value {
    fn from(text: &'static str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<Duration> for Value {
    fn from(time: Duration) -> Self {
        Self::Seconds(time.as_secs_f64())
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

/// The error that a span ended with.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SpanFailure {
    /// A short word, from a small set.
    pub(super) code: Cow<'static, str>,
    /// The error in words, which may quote what a model or a tool said. It is recorded only with contents.
    pub(super) message: Option<String>,
}

/// A span that has ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Span {
    pub(super) context: TraceContext,
    pub(super) parent: Option<TraceContext>,
    pub(super) name: String,
    pub(super) kind: SpanKind,
    /// Unix nanoseconds.
    pub(super) began: u64,
    /// Unix nanoseconds.
    pub(super) ended: u64,
    pub(super) attributes: Vec<(&'static str, Value)>,
    /// Further spans that led to this one.
    pub(super) links: Vec<TraceContext>,
    pub(super) failure: Option<SpanFailure>,
}

impl Span {
    /// Returns the bytes of memory that the span takes, about.
    pub(super) fn size(&self) -> usize {
        let attributes = self.attributes.iter().map(|(key, value)| key.len() + value.size() + 32);
        let message =
            self.failure.as_ref().and_then(|failure| failure.message.as_ref()).map_or(0, String::len);
        256 + self.name.len() + attributes.sum::<usize>() + message + 96 * self.links.len()
    }
}

/// Longest text of an attribute, in bytes.
pub(crate) const MAX_CONTENT: usize = 32 << 10;

/// Returns a text as the content of a span, cut to its limit.
pub(crate) fn bounded(text: &str) -> Value {
    Value::Content(cut(text, MAX_CONTENT))
}

/// Returns the beginning of a text, at most `most` bytes, and how much is left out.
pub(crate) fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let start = &text[..text.floor_char_boundary(most)];
    format!("{start}… [{} bytes left out]", text.len() - start.len())
}

/// Returns a name that a model or a program wrote, in a form that is short and controls nothing.
pub(super) fn foreign_name(name: &str) -> String {
    clean::label(name, 64)
}

//! Decides what is passed on of a request: only what lets the agent's own model answer the content of the request.
//!
//! A provider has tools of its own that reach the web, run code or read the account. It keeps conversations and files,
//! fetches URLs, and charges another price for another speed. All of that would bypass the agent's network rules, its
//! budget and its record. So it is refused, and the error names it.
//!
//! [`RelayFormat`] has the tables of a wire format, and `walk` checks a request against them. Outermost entries, tools and
//! everything that affects the price must be on a list of what is allowed. Contents are searched for anything that
//! reaches beyond the model. Pure.

mod media;
mod walk;

use std::fmt;

use crate::provider::RelayFormat;

/// The size of a request, and its content besides text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ContentSize {
    /// Bytes of the whole request.
    pub bytes: u64,
    /// Number of pictures.
    pub pictures: u64,
    /// Bytes of the pictures, in their encoded form.
    pub picture_bytes: u64,
    /// Bytes of documents and sounds, in their encoded form.
    pub document_bytes: u64,
}

/// The part of a request that is not passed on. Names come from the request and are cut if they are long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RejectedPart {
    /// An entry that is not allowed.
    Entry(String),
    /// A value that this entry may not have.
    Value(String),
    /// An outermost entry that occurs twice.
    Twice(String),
    /// A tool of this type.
    Tool(String),
    /// A piece of content of this type.
    Content(String),
    /// A URL in this entry.
    Address(String),
    /// Content that is nested too deeply.
    TooDeep,
}

impl fmt::Display for RejectedPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entry(name) => write!(f, "{name:?} is not passed on to a model")?,
            Self::Value(name) => write!(f, "{name:?} is passed on to a model only with its usual value")?,
            Self::Twice(name) => return write!(f, "the body has {name:?} twice"),
            Self::Tool(kind) => write!(f, "a tool of type {kind:?} is not passed on to a model")?,
            Self::Content(kind) => write!(f, "contents of type {kind:?} are not passed on to a model")?,
            Self::Address(name) => {
                write!(f, "{name:?} is passed on to a model only with the data itself, as data:…")?;
            }
            Self::TooDeep => return write!(f, "the body is nested too deep"),
        }
        f.write_str("; what runs, is kept or is fetched at the provider is not for agents' programs")
    }
}

/// Checks a request of this wire format. The body must be known to be valid JSON.
///
/// # Errors
///
/// Returns the first part of it that is not passed on.
pub(crate) fn check(body: &[u8], format: &'static RelayFormat) -> Result<ContentSize, RejectedPart> {
    walk::through(body, format)
}

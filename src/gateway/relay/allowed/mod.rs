//! What of a request is passed on: only what has the agent's own model answer what is in the request. A provider has
//! tools of its own that reach the web, run code or look into the account, keeps conversations and files, fetches what
//! an address leads to, and takes another price for another speed. All of that would go round the agent's network, its
//! budget and its record, so it is refused, by name.
//!
//! `wire` has a table for each wire format, `walk` goes through a request by it. The outermost entries, the tools
//! and what belongs to the price are on lists of what is let through; contents are looked through for what leads out.
//! Pure.

mod media;
mod scan;
mod walk;
mod wire;

use std::fmt;

use crate::config::Api;

/// What a request has beside text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Bytes of the whole request.
    pub bytes: u64,
    /// How many pictures it has.
    pub pictures: u64,
    /// Bytes of those, as they are written.
    pub picture_bytes: u64,
    /// Bytes of documents and sounds, as they are written.
    pub document_bytes: u64,
}

/// What a request has that is not passed on. Names are those of the request, cut where they are long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// An entry.
    Entry(String),
    /// A value of an entry.
    Value(String),
    /// An outermost entry a second time.
    Twice(String),
    /// A tool of this type.
    Tool(String),
    /// A piece of contents of this type.
    Content(String),
    /// An address in this entry.
    Address(String),
    /// Contents that are nested too deep.
    TooDeep,
}

impl fmt::Display for Refused {
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

/// Looks through a request of this wire format, which is known to be JSON.
///
/// # Errors
///
/// The first thing in it that is not passed on.
pub fn check(body: &[u8], api: Api) -> Result<Seen, Refused> {
    walk::through(body, wire::of(api))
}

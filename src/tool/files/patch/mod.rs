//! The patch format that some models are trained to write: what it says ([`parse`]), and what a file is
//! after it ([`hunk`]). Both are pure.

pub(super) mod hunk;
pub(super) mod parse;

/// A line of a hunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// There before and after.
    Context(String),
    /// There before.
    Removed(String),
    /// There after.
    Added(String),
}

/// A change at one place of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Hunk {
    /// Lines to look for first, one after the other, as in a class and a method of it.
    pub(super) headers: Vec<String>,
    /// What changes.
    pub(super) lines: Vec<Line>,
    /// The last line is the last of the file.
    pub(super) at_end: bool,
}

/// What is done with one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// It is made.
    Add { path: String, content: String },
    /// It is changed, and perhaps moved.
    Update { path: String, to: Option<String>, hunks: Vec<Hunk> },
    /// It is removed.
    Delete { path: String },
}

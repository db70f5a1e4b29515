//! The patch format that some models are trained to write. [`parse`] reads it, [`hunk`] applies it and
//! [`preview`] shows it; none touches a file.

pub(super) mod hunk;
pub(super) mod parse;
pub(super) mod preview;

/// A line of a hunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HunkLine {
    /// A line that stays.
    Context(String),
    /// A line that is removed.
    Removed(String),
    /// A line that is added.
    Added(String),
}

/// A change at one place of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Hunk {
    /// Lines to search for first, one after the other, such as a class and then one of its methods.
    pub(super) headers: Vec<String>,
    pub(super) lines: Vec<HunkLine>,
    /// `true` if the last line of the hunk is the last line of the file.
    pub(super) at_end: bool,
}

/// The operation on one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FileOperation {
    /// Create the file.
    Add { path: String, content: String },
    /// Change the file, and move it if `to` is set.
    Update { path: String, to: Option<String>, hunks: Vec<Hunk> },
    /// Remove the file.
    Delete { path: String },
}

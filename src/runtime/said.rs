//! What is told of a turn while it runs, or is read of one that was written down.

use super::ToolEvent;
use crate::provider::Usage;

/// What a program tells.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// The name it knows the conversation by.
    Conversation(String),
    /// More of the answer's text.
    Text(String),
    /// More thinking.
    Thinking(String),
    /// The answer's text is this so far: what was told before has been taken back, as where an answer was cut off and is
    /// asked for anew.
    Anew(String),
    /// A call of one of flock's tools, which flock itself tells of: the answer's text begins after it.
    FlockTool,
    /// A tool of its own; flock's are not told.
    Tool(ToolEvent),
    /// The exit code of the command that a tool ran; it comes before the tool's end.
    Exit {
        /// The call's id.
        call: String,
        /// The code.
        code: i64,
    },
    /// A search of its own.
    Search(String),
    /// What the run has taken so far.
    Usage(Usage),
    /// What the whole conversation has taken, of a program that does not count the run alone.
    ConversationUsage(Usage),
    /// What the run has cost so far by the program's own prices, in dollars.
    Cost(f64),
    /// It asks its model once more; why.
    Retrying(String),
    /// Something else that a person would want to know, as a warning; on one line.
    Note(String),
    /// It goes on, but its turn can't end well: why. It may be stopped.
    Doomed(String),
}

//! The reports of a program about a turn, from its live output or from a recording.

use super::ToolEvent;
use crate::provider::Usage;

/// One report of a program.
#[derive(Clone, Debug, PartialEq)]
pub enum ProgramEvent {
    /// The program's name for the conversation.
    Conversation(String),
    /// More of the answer's text.
    Text(String),
    /// More thinking.
    Thinking(String),
    /// The whole text of the answer so far. Earlier text is withdrawn, for example because an answer broke off and is
    /// requested again.
    Replaced(String),
    /// A call of one of flock's tools, which flock reports itself. The text of the answer begins after it.
    FlockTool,
    /// A call of one of the program's own tools. Calls of flock's tools are not reported here.
    Tool(ToolEvent),
    /// The exit code of the command that a tool ran. It comes before the tool's end.
    Exit {
        /// The call's id.
        call: String,
        code: i64,
    },
    /// A search by the program. Holds the query.
    Search(String),
    /// The tokens of the run so far.
    Usage(Usage),
    /// The tokens of the whole conversation, from a program that does not count the run alone.
    ConversationUsage(Usage),
    /// The cost of the run so far in dollars, by the program's own prices.
    Cost(f64),
    /// The program asks its model again. Holds the reason.
    Retrying(String),
    /// Other information for a person, such as a warning, on one line.
    Note(String),
    /// The program still runs, but its turn cannot end well. Holds the reason. The program may be stopped.
    WillFail(String),
}

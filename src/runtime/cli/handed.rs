//! What every program is handed: names, its prompt, files of its turn.

use super::program::{Invocation, Turn, TurnFile};

/// The variable with what opens flock's MCP server.
pub const MCP_TOKEN: &str = "FLOCK_MCP_TOKEN";

/// The variable with what opens the relay, for programs that let one choose.
pub const RELAY_KEY: &str = "FLOCK_RELAY_KEY";

/// The name that flock's MCP server has in the programs.
pub const SERVER: &str = "flock";

/// A prompt as a program gets it on its standard input: no program can do anything with NUL.
pub fn prompt(turn: &Turn<'_>) -> String {
    turn.prompt.replace('\0', "")
}

/// Adds a file of the turn; gives where the program finds it.
pub fn file(invocation: &mut Invocation, turn: &Turn<'_>, name: &str, content: String) -> String {
    invocation.files.push(TurnFile { name: name.to_owned(), content });
    format!("{}/{name}", turn.files)
}

/// Pairs of names and values for an environment.
pub fn environment(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

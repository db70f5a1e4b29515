//! What every program is handed: names, its prompt, files of its turn, how long it waits.

use std::time::Duration;

use super::program::{Invocation, StateFile, Turn, TurnFile};

/// The variable with what opens flock's MCP server.
pub const MCP_TOKEN: &str = "FLOCK_MCP_TOKEN";

/// The variable with what opens the relay, for programs that let one choose.
pub const RELAY_KEY: &str = "FLOCK_RELAY_KEY";

/// The name that flock's MCP server has in the programs.
pub const SERVER: &str = "flock";

/// How long a call of one of flock's tools may take. Then flock says so: a program that stopped waiting before would
/// take it for a broken server, and the call would go on.
pub const CALL: Duration = Duration::from_secs(140);

/// How long what carries such a call to flock waits for the answer.
pub const CARRY: Duration = Duration::from_secs(150);

/// How long a program is told to wait for it.
pub const PATIENCE: Duration = Duration::from_secs(160);

/// A prompt as a program gets it on its standard input: no program can do anything with NUL.
pub fn prompt(turn: &Turn<'_>) -> String {
    turn.prompt.replace('\0', "")
}

/// Adds a file of the turn; gives where the program finds it.
pub fn file(invocation: &mut Invocation, turn: &Turn<'_>, name: &str, content: String) -> String {
    invocation.files.push(TurnFile { name: name.to_owned(), content });
    format!("{}/{name}", turn.files)
}

/// What is not to be in the program's folder.
pub fn absent(paths: &[&str]) -> impl Iterator<Item = StateFile> {
    paths.iter().map(|path| StateFile { path: (*path).to_owned(), content: None })
}

/// Pairs of names and values for an environment.
pub fn environment(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// [`PATIENCE`] in milliseconds.
pub const fn patience_ms() -> u64 {
    PATIENCE.as_secs() * 1_000
}

// Each waits for what is within it.
const _: () = assert!(CALL.as_secs() < CARRY.as_secs() && CARRY.as_secs() < PATIENCE.as_secs());

//! Things that every program is given: names, its prompt, files of its turn, and timeouts.

use std::time::Duration;

use super::interface::{Invocation, StateFile, TurnFile, TurnSpec};

/// The variable with the token for flock's MCP server.
pub const MCP_TOKEN: &str = "FLOCK_MCP_TOKEN";

/// The variable with the token for the relay, for programs that let one choose the variable.
pub const RELAY_KEY: &str = "FLOCK_RELAY_KEY";

/// The name of flock's MCP server in the programs.
pub const SERVER: &str = "flock";

/// Time limit of a call of one of flock's tools. flock itself reports the timeout: a program that stopped waiting
/// earlier would consider the server broken, and the call would continue.
pub const CALL: Duration = Duration::from_secs(140);

/// Time for which a program that passes such a call to flock waits for the answer.
pub const FORWARD_TIMEOUT: Duration = Duration::from_secs(150);

/// Time for which the agent program is told to wait.
pub const PATIENCE: Duration = Duration::from_secs(160);

/// Returns the prompt for standard input. NUL characters are removed, because no program can handle them.
pub fn prompt(turn: &TurnSpec<'_>) -> String {
    turn.prompt.replace('\0', "")
}

/// Adds a file of the turn. Returns the path at which the program finds it.
pub fn file(invocation: &mut Invocation, turn: &TurnSpec<'_>, name: &str, content: String) -> String {
    invocation.files.push(TurnFile { name: name.to_owned(), content });
    format!("{}/{name}", turn.files)
}

/// Returns entries that must not be in the program's folder.
pub fn absent(paths: &[&str]) -> impl Iterator<Item = StateFile> {
    paths.iter().map(|path| StateFile { path: (*path).to_owned(), content: None })
}

/// Converts pairs of names and values for an environment.
pub fn environment(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Returns [`PATIENCE`] in milliseconds.
pub const fn program_timeout_ms() -> u64 {
    PATIENCE.as_secs() * 1_000
}

// Each one waits longer than the one inside it.
const _: () =
    assert!(CALL.as_secs() < FORWARD_TIMEOUT.as_secs() && FORWARD_TIMEOUT.as_secs() < PATIENCE.as_secs());

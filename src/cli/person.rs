//! The person at the command line: their login name and their input.

use std::io::Read as _;

use super::{Context, Failure};
use crate::clock::unix_ms;
use crate::error::Kind;
use crate::home::Home;
use crate::id::Party;
use crate::store::{self, Level, Store};
use crate::swarm::Actor;

pub(crate) use crate::process::login;

/// Returns the person as a party of the team.
pub(crate) fn party() -> Party {
    Party::human(&login())
}

/// Returns the name under which the person acts: the login, with other characters where a name can't hold its own.
pub(crate) fn name() -> String {
    match party() {
        Party::Human(name) => name,
        other => other.to_string(),
    }
}

/// Records in the audit log what the person did.
///
/// # Errors
///
/// Returns an error if the database can't be written.
pub(crate) async fn record(
    home: &Home,
    action: &'static str,
    subject: &str,
    level: Level,
    detail: String,
) -> Result<(), Failure> {
    // Without a database there is no audit log yet, and one action is no reason to create one.
    if !store::is_made(home)? {
        return Ok(());
    }
    let entry = Actor::human(&login()).entry(action, subject, level, detail);
    Ok(Store::open(home)?.audit().append(entry, unix_ms()).await?)
}

/// Records in the audit log what the person has done. If that fails, it is a warning, because the act itself stands.
pub(crate) fn record_done(
    home: &Home,
    action: &'static str,
    subject: &str,
    detail: String,
    context: &Context,
) {
    if let Err(failure) = context.block_on(record(home, action, subject, Level::Yellow, detail)) {
        context.printer.warn(&format!("this is not in the audit: {}", failure.to_line_with_hint()));
    }
}

/// Reads all of stdin, up to `most` bytes. `hint` tells the person what to do with a larger text.
///
/// # Errors
///
/// Returns an error if stdin holds more, if it can't be read, or if it is not UTF-8 text.
pub(crate) fn stdin(most: u64, hint: &str) -> Result<String, Failure> {
    let mut text = String::new();
    // One byte more than allowed tells a text of exactly the limit from a longer one.
    let read = std::io::stdin().take(most + 1).read_to_string(&mut text);
    read.map_err(|error| Failure::with_cause("failed to read stdin as text", &error))?;
    if text.len() as u64 > most {
        return Err(Failure::new(Kind::Usage, format!("stdin holds more than {} MiB", most >> 20)).hint(hint));
    }
    Ok(text)
}

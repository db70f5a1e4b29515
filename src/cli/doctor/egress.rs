//! Check for hosts that agents were granted without a person's decision.

use super::check::Check;
use crate::cli::database;
use crate::config::{Config, EgressApprover};
use crate::error::chain;
use crate::home::Home;
use crate::swarm::triage::view;

const NAME: &str = "egress";

/// Lists such hosts if the owner wants a person to decide about each one. They come from an older flock or from an
/// earlier setting.
pub(crate) fn all(home: &Home, config: &Config) -> Option<Check> {
    if config.egress_ask != EgressApprover::Person {
        return None;
    }
    let rows = match database::read(home, async |reader| reader.grants().automatic("egress").await) {
        Ok(rows) => rows?,
        Err(error) => return Some(Check::warn(NAME, chain(&error), "flock status")),
    };
    let known: Vec<String> = rows
        .iter()
        // Grants of removed agents stay in the database, but have no effect.
        .filter(|row| config.agent(&row.agent).is_some())
        .map(|row| format!("{} {} ({})", row.agent, view::brief_row(row), row.id))
        .collect();
    if known.is_empty() {
        return None;
    }
    let text = format!(
        "granted without a person's decision, and still in effect: {}; to take one back: flock approvals revoke ID",
        known.join(", ")
    );
    Some(Check::ok(NAME, text))
}

//! Hosts that agents were granted without a person.

use super::check::Check;
use crate::config::{Config, EgressAsk};
use crate::error::chain;
use crate::home::Home;
use crate::store::Reader;
use crate::swarm::triage::view;

const NAME: &str = "egress";

/// Names them where the owner has a person asked about each host: they come from an older flock or from another setting.
pub fn all(home: &Home, config: &Config) -> Option<Check> {
    if config.egress_ask != EgressAsk::Person {
        return None;
    }
    let granted = match Reader::open(home) {
        Ok(Some(reader)) => reader.granted_alone("egress"),
        Ok(None) => return None,
        Err(error) => Err(error),
    };
    let rows = match granted {
        Ok(rows) => rows,
        Err(error) => return Some(Check::warn(NAME, chain(&error), "flock status")),
    };
    let known: Vec<String> = rows
        .iter()
        .filter(|row| config.agent(&row.agent).is_some())
        .map(|row| format!("{} {} ({})", row.agent, view::brief_row(row), row.id))
        .collect();
    if known.is_empty() {
        return None;
    }
    let text = format!(
        "granted without a person, and still granted: {}; flock approvals revoke ID takes one back",
        known.join(", ")
    );
    Some(Check::ok(NAME, text))
}

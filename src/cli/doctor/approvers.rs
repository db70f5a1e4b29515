//! Check for approvers who can't decide over a bridge, because no account is theirs.

use super::check::Check;
use crate::cli::database;
use crate::config::{Config, DecidingBridges};
use crate::error::chain;
use crate::home::Home;

const NAME: &str = "approvers";

/// Names the approvers to whom the owner bound no account.
pub(crate) fn unbound(home: &Home, config: &Config) -> Option<Check> {
    let is_off = matches!(&config.approvals.bridges, DecidingBridges::Only(names) if names.is_empty());
    if config.approvers.is_empty() || config.bridges.is_empty() || is_off {
        return None;
    }
    let bound = match database::read(home, async |reader| reader.accounts().bound_people().await) {
        Ok(bound) => bound.unwrap_or_default(),
        Err(error) => return Some(Check::warn(NAME, chain(&error), "flock status")),
    };
    let left = config.approvers.iter().filter(|approver| !bound.contains(approver));
    let left: Vec<String> = left.map(ToString::to_string).collect();
    if left.is_empty() {
        return None;
    }
    let text = format!(
        "bound to no account of a platform, so they decide nothing over a bridge: {}",
        left.join(", ")
    );
    Some(Check::warn(NAME, text, "flock person link NAME BRIDGE:ACCOUNT"))
}

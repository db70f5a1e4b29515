//! Check of the host folders that agents were granted to read.

use std::collections::BTreeMap;
use std::path::Path;

use super::check::Check;
use crate::cli::database;
use crate::config::Config;
use crate::error::chain;
use crate::home::Home;
use crate::id::AgentId;
use crate::sandbox::binds;
use crate::sandbox::mount::{ApprovedMount, Mounts};
use crate::swarm::triage;

const NAME: &str = "mounts";

/// Checks that each granted folder can still be mounted. One that can't stops all commands of its agent.
pub(crate) fn all(home: &Home, config: &Config, engine_socket: Option<&Path>) -> Vec<Check> {
    let granted = match database::read(home, async |reader| reader.grants().list("mount").await) {
        Ok(granted) => granted.unwrap_or_default(),
        // An unreadable database becomes one warning here. The details are in the database's own check.
        Err(error) => return vec![Check::warn(NAME, chain(&error), "flock status")],
    };
    let mut usable: BTreeMap<AgentId, Vec<ApprovedMount>> = BTreeMap::new();
    let mut checks = Vec::new();
    let mut fine = 0;
    for (agent, id, body) in granted {
        let known = config.agent(&agent).is_some();
        let Some(mount) = triage::mount_of_body(&body).filter(|_| known) else { continue };
        let others = usable.entry(agent.clone()).or_default();
        // Each mount is decided together with the agent's other good ones, because two mounts can also conflict.
        let together = others.iter().cloned().chain([mount.clone()]).collect();
        match Mounts::new(config, together).decide(home, engine_socket, binds::resolve) {
            Ok(_) => {
                others.push(mount);
                fine += 1;
            }
            Err(why) => {
                let text = format!("{agent} can run no command in its sandbox: {why}");
                checks.push(Check::bad(NAME, text, format!("flock approvals revoke {id}")));
            }
        }
    }
    if fine > 0 {
        checks.push(Check::ok(NAME, format!("{fine} granted folders can be mounted")));
    }
    checks
}

//! Which tools belong to a role, whatever the lists say.

use crate::config::Role;

const ORCHESTRATOR_ONLY: [&str; 6] = [
    "flock_channel_create",
    "flock_assign_members",
    "flock_channel_archive",
    "flock_bridge",
    "flock_create_agent",
    "flock_decommission_agent",
];

const SYSADMIN_ONLY: [&str; 3] = ["triage_decision", "flock_audit", "flock_restart_gateway"];

/// It asks the sysadmin; the sysadmin asks nobody but a person.
const NOT_SYSADMIN: [&str; 1] = ["flock_sysadmin_request"];

/// Why an agent of this role can't have the tool; `None` where the role says nothing against it.
pub(super) fn refusal(role: Role, tool: &str) -> Option<String> {
    let owner = if ORCHESTRATOR_ONLY.contains(&tool) {
        Role::Orchestrator
    } else if SYSADMIN_ONLY.contains(&tool) {
        Role::Sysadmin
    } else if NOT_SYSADMIN.contains(&tool) && role == Role::Sysadmin {
        return Some(format!("{tool} is how the others reach you, the sysadmin"));
    } else {
        return None;
    };
    (role != owner)
        .then(|| format!("{tool} belongs to the {}, and your role is {}", owner.as_str(), role.as_str()))
}

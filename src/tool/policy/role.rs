//! Assigns flock's own tools to roles. The lists of an agent cannot override this.

use crate::config::Role;

/// The roles that have a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Roles {
    All,
    /// Only the orchestrator.
    Orchestrator,
    /// Only the sysadmin.
    Sysadmin,
    /// Every role except the sysadmin. With the tool the others reach the sysadmin, who in turn can only ask a person.
    NotSysadmin,
}

impl Roles {
    /// Returns `true` if agents of this role have the tool.
    #[must_use]
    pub fn include(self, role: Role) -> bool {
        match self {
            Self::All => true,
            Self::Orchestrator => role == Role::Orchestrator,
            Self::Sysadmin => role == Role::Sysadmin,
            Self::NotSysadmin => role != Role::Sysadmin,
        }
    }
}

/// All of flock's own tools and their roles. A tool that is missing here belongs to no role, so that a new tool needs a
/// decision.
pub const FLOCK_TOOLS: &[(&str, Roles)] = &[
    ("flock_channel_post", Roles::All),
    ("flock_channel_read", Roles::All),
    ("flock_channel_list", Roles::All),
    ("flock_archive_ready", Roles::All),
    ("flock_message", Roles::All),
    ("flock_tasks", Roles::All),
    ("flock_task_respond", Roles::All),
    ("flock_discover", Roles::All),
    ("flock_update_card", Roles::All),
    ("flock_status", Roles::All),
    ("flock_sleep", Roles::All),
    ("flock_history", Roles::All),
    ("flock_workspace_list", Roles::All),
    ("flock_workspace_read", Roles::All),
    ("flock_workspace_write", Roles::All),
    ("flock_workspace_tree", Roles::All),
    ("flock_read_skill", Roles::All),
    ("flock_sysadmin_request", Roles::NotSysadmin),
    ("flock_channel_create", Roles::Orchestrator),
    ("flock_assign_members", Roles::Orchestrator),
    ("flock_channel_archive", Roles::Orchestrator),
    ("flock_create_agent", Roles::Orchestrator),
    ("flock_decommission_agent", Roles::Orchestrator),
    ("triage_decision", Roles::Sysadmin),
    ("flock_audit", Roles::Sysadmin),
    ("flock_restart_gateway", Roles::Sysadmin),
];

/// Returns `true` if the tool is one of flock's own. An agent program brings the other tools itself.
#[must_use]
pub fn is_flocks_own(tool: &str) -> bool {
    FLOCK_TOOLS.iter().any(|(name, _)| *name == tool)
}

/// Returns the reason why an agent of this role cannot have the tool, or `None` if the role permits it.
pub(super) fn refusal(role: Role, tool: &str) -> Option<String> {
    let Some((_, roles)) = FLOCK_TOOLS.iter().find(|(name, _)| *name == tool) else {
        // An unknown name with flock's prefix is refused. All other names are left to the lists.
        return tool.starts_with("flock_").then(|| format!("{tool} belongs to no role"));
    };
    if roles.include(role) {
        return None;
    }
    let owner = match roles {
        Roles::NotSysadmin => return Some(format!("others use {tool} to reach you, the sysadmin")),
        Roles::Orchestrator => Role::Orchestrator,
        Roles::All | Roles::Sysadmin => Role::Sysadmin,
    };
    Some(format!("{tool} belongs to the {}, and your role is {}", owner.as_str(), role.as_str()))
}

//! Which of flock's own tools belong to which role, whatever the lists say.

use crate::config::Role;

/// Who has a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Roles {
    /// Every agent.
    All,
    /// The orchestrator alone.
    Orchestrator,
    /// The sysadmin alone.
    Sysadmin,
    /// All but the sysadmin: it is how they reach it, and it asks nobody but a person.
    NotSysadmin,
}

impl Roles {
    /// Whether an agent of this role is among them.
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

/// All tools of flock itself. One that is not here is nobody's: a new tool has to say whose it is.
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

/// Whether a tool is one of these. Another program that runs turns has the others itself.
#[must_use]
pub fn is_flocks_own(tool: &str) -> bool {
    FLOCK_TOOLS.iter().any(|(name, _)| *name == tool)
}

/// Why an agent of this role can't have the tool; `None` where the role says nothing against it.
pub(super) fn refusal(role: Role, tool: &str) -> Option<String> {
    let Some((_, roles)) = FLOCK_TOOLS.iter().find(|(name, _)| *name == tool) else {
        return tool.starts_with("flock_").then(|| format!("{tool} belongs to no role"));
    };
    if roles.include(role) {
        return None;
    }
    let owner = match roles {
        Roles::NotSysadmin => return Some(format!("{tool} is how the others reach you, the sysadmin")),
        Roles::Orchestrator => Role::Orchestrator,
        Roles::All | Roles::Sysadmin => Role::Sysadmin,
    };
    Some(format!("{tool} belongs to the {}, and your role is {}", owner.as_str(), role.as_str()))
}

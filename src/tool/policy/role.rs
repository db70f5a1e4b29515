//! The roles that have a tool. The lists of an agent cannot override this.

use crate::config::Role;
use crate::tool::catalog::find;

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

/// Returns the reason why an agent of this role cannot have the tool, or `None` if the role permits it.
pub(super) fn refusal(role: Role, tool: &str) -> Option<String> {
    let Some(definition) = find(tool) else {
        // An unknown name with flock's prefix is refused. All other names are left to the lists.
        return tool.starts_with("flock_").then(|| format!("{tool} belongs to no role"));
    };
    let roles = definition.roles.filter(|roles| !roles.include(role))?;
    let owner = match roles {
        Roles::NotSysadmin => return Some(format!("others use {tool} to reach you, the sysadmin")),
        Roles::Orchestrator => Role::Orchestrator,
        Roles::All | Roles::Sysadmin => Role::Sysadmin,
    };
    Some(format!("{tool} belongs to the {}, and your role is {}", owner.as_str(), role.as_str()))
}

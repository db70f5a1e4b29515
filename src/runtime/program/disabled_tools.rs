//! Handles agents that may not use all tools of their program: tells the program, and refuses programs that cannot be
//! restricted.

use super::interface::Program;
use crate::config::{Agent, Autonomy};
use crate::runtime::RuntimeError;
use crate::tool::policy::DisabledTools;

/// Returns the reason why a program does not run a turn of a restricted agent. `None` if it does.
pub(super) fn refusal(program: &dyn Program, agent: &Agent, withheld: DisabledTools) -> Option<RuntimeError> {
    if !withheld.is_any() || program.facts().withholds {
        return None;
    }
    let id = &agent.id;
    // The hint names the setting that a person would have to change, which depends on why the agent is restricted.
    let (why, key, value) = match agent.autonomy {
        Autonomy::Readonly => (format!("agent {id} may only read"), "autonomy", "supervised"),
        Autonomy::Supervised | Autonomy::Full => {
            (format!("agent {id} may not use all tools"), "runtime", "native")
        }
    };
    Some(RuntimeError::Refused {
        program: program.title().to_owned(),
        status: 403,
        message: format!("{why}, and the program's own tools can't be held to that"),
        hint: format!("flock config set plugins.entries.flock.config.gatewayAgents[{id}].{key} {value}"),
    })
}

/// Returns a variable for a program that may not run commands. All of the programs ask git about the working folder,
/// and git runs programs that the folder's own settings name. With this variable git finds no repository.
pub(super) fn environment(withheld: DisabledTools) -> Option<(String, String)> {
    withheld.commands.then(|| ("GIT_DIR".to_owned(), "/dev/null".to_owned()))
}

#[cfg(test)]
#[path = "withheld_tests.rs"]
mod tests;

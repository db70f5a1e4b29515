//! An agent that is not to have all that its program can do: where that is said to the program, and which program can't
//! be told.

use super::program::Program;
use crate::config::{Agent, Autonomy};
use crate::runtime::RuntimeError;
use crate::sandbox::policy::Withheld;

/// Why a program runs no turn of an agent that is to be without this; nothing where it does.
pub(super) fn refusal(program: &dyn Program, agent: &Agent, withheld: Withheld) -> Option<RuntimeError> {
    if !withheld.is_any() || program.withholds() {
        return None;
    }
    let id = &agent.id;
    let (why, setting) = match agent.autonomy {
        Autonomy::Readonly => (format!("agent {id} may only read"), "autonomy supervised"),
        Autonomy::Supervised | Autonomy::Full => {
            (format!("agent {id} may not use all tools"), "runtime native")
        }
    };
    Some(RuntimeError::Refused {
        program: program.title(),
        status: 403,
        message: format!("{why}, and the program's own tools can't be held to that"),
        hint: format!("flock config set plugins.entries.flock.config.gatewayAgents[{id}].{setting}"),
    })
}

/// What goes into the environment of a program that is not to run commands. All of them ask git about the folder that
/// they work in, and git runs what the folder's own settings name: with this it finds no repository.
pub(super) fn environment(withheld: Withheld) -> Option<(String, String)> {
    withheld.commands.then(|| ("GIT_DIR".to_owned(), "/dev/null".to_owned()))
}

#[cfg(test)]
#[path = "withheld_tests.rs"]
mod tests;

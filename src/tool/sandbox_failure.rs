//! Describes failures of the sandbox for the model.

use super::{ToolError, safe_text};
use crate::error;
use crate::sandbox::SandboxError;

/// Describes a failure of the sandbox for the model, which can report it or go on without commands. The whole cause may
/// contain paths of the host and goes only to the log.
#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub(super) fn for_model(sandbox_error: SandboxError) -> ToolError {
    match &sandbox_error {
        SandboxError::NoJob(id) => ToolError::model(format!(
            "there is no background session {id}: process {{\"action\":\"list\"}} shows all"
        )),
        SandboxError::JobEnded { id, command } => ToolError::model(format!(
            "background session {id} ({}) has ended: your sandbox was recreated with changed settings",
            // The model wrote the command, which may be long and contain control characters.
            shown(command, 120)
        )),
        SandboxError::NotStarted { reason } => {
            ToolError::model(format!("it was not started: {}", shown(reason, 300)))
        }
        SandboxError::Unknown(_) => ToolError::model("you have been removed from the configuration"),
        SandboxError::Off(_) => ToolError::model("you have no sandbox to run commands in"),
        SandboxError::Lost { reason, .. } => ToolError::model(format!(
            "the sandbox stopped answering ({}); running commands are lost, the next call restarts it",
            shown(reason, 200)
        )),
        SandboxError::Frozen(_) => ToolError::model("you are frozen: nothing runs until a person thaws you"),
        // The path may be shown: it is the one that the agent itself asked for.
        SandboxError::Refused { what, granted: true, .. } => ToolError::model(format!(
            "your sandbox can't run anything now: it may not have {}. The owner must correct that or revoke the \
             grant with `flock approvals revoke`",
            shown(what, 1200)
        )),
        // Only the owner can solve the remaining problems, so the model gets a short reason and the log the whole one.
        other => {
            tracing::warn!("sandbox: {}", error::chain(other));
            let reason = match other {
                SandboxError::Unavailable { .. } => "the container engine does not answer",
                SandboxError::Denied { .. } => "the container engine refuses access",
                SandboxError::NoPlace { .. } => "no container engine has what you need",
                SandboxError::NoImage { .. } => "its image is missing",
                SandboxError::NotConfined { .. } => "it is not confined as required",
                SandboxError::Refused { .. } => "its configuration is refused",
                SandboxError::NotSignalled { .. } => "its processes can't be continued",
                _ => "the container engine reported an error",
            };
            ToolError::model(format!(
                "your sandbox can't run anything now: {reason}. The owner finds the cause with `flock doctor`"
            ))
        }
    }
}

/// Returns the beginning of a text that may be long and contain control characters.
fn shown(text: &str, limit: usize) -> String {
    safe_text::harmless(safe_text::start(text, limit))
}

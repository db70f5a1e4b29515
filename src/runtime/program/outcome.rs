//! Decides the result of a run, from the program's own report and from what the relay saw of its model calls. Pure.

use super::gate::{CallRefusal, Count};
use super::interface::RunOutcome;
use super::output_reader::RunObservations;
use crate::provider::StopReason;
use crate::provider::quota::text;
use crate::runtime::{RuntimeError, RuntimeReply};

/// The command that shows more about a failed turn.
pub const LOGS_HINT: &str = "flock logs gateway";

/// Returns the answer, or the reason why there is none. `calls` is the relay's count. `None` if the program asks its
/// models directly.
///
/// # Errors
///
/// Returns [`RuntimeError::Paused`] if the budget stopped a call, and [`RuntimeError::Failed`] if the agent's settings
/// forbid one. Otherwise the status of the last model call, and if the turn had begun, decide between
/// [`RuntimeError::NoAnswer`], [`RuntimeError::Unanswered`], [`RuntimeError::Interrupted`], [`RuntimeError::Refused`]
/// and [`RuntimeError::Failed`].
pub fn of(
    program: &str,
    ended: RunOutcome,
    seen: &RunObservations,
    calls: Option<&Count>,
) -> Result<RuntimeReply, RuntimeError> {
    let (program, hint) = (program.to_owned(), LOGS_HINT.to_owned());
    let is_begun = is_begun(seen, calls);
    let (status, message, is_broken) = match ended {
        // Some programs call a turn good in which no model was reached, and hide why.
        RunOutcome::Well { .. } if !is_begun && calls.is_some() => {
            (None, "it said nothing and reached no model through flock".to_owned(), false)
        }
        RunOutcome::Well { cut } => {
            let stop = if cut { StopReason::Length } else { StopReason::End };
            // The relay's count is charged, so it wins over the program's own.
            let usage = calls.map_or(seen.usage, |calls| Some(calls.usage));
            return Ok(RuntimeReply { stop, usage });
        }
        // A resumed conversation is replaced by a new one before this, so this one was new.
        RunOutcome::Unknown => {
            let message = "it does not know a conversation that it has just begun".to_owned();
            return Err(RuntimeError::Failed { program, message, hint });
        }
        RunOutcome::Failed { status, message } => (status, message, false),
        RunOutcome::Broken { message } => (None, message, true),
    };
    // A call that flock refused makes the program fail. Its own message would hide the real reason.
    match calls.and_then(|calls| calls.forbidden.clone()) {
        Some(CallRefusal::Paused { why, call }) => return Err(RuntimeError::Paused { why, call }),
        Some(CallRefusal::Settings(message)) => return Err(RuntimeError::Failed { program, message, hint }),
        None => {}
    }
    // The relay saw the last call itself. That is more reliable than the program's message.
    let (status, message) = match calls.and_then(|calls| calls.refused.clone()) {
        Some((status, message)) => (Some(status), message),
        None => (status, message),
    };
    // Status 0, timeouts, rate limits and server errors may be temporary.
    Err(match status {
        Some(0 | 408 | 429 | 500..) if is_begun => RuntimeError::Unanswered { program, message, hint },
        // The program worked: its model's provider failed.
        Some(0 | 408 | 429 | 500..) => {
            RuntimeError::NoAnswer { program, message, hint: "flock doctor".to_owned() }
        }
        _ if is_begun && is_broken => RuntimeError::Interrupted { program, message, hint },
        Some(status) if !is_begun => RuntimeError::Refused { program, status, message, hint },
        _ => RuntimeError::Failed { program, message, hint },
    })
}

/// Returns the reason why a conversation must be begun anew, if there is one. The program does not know it, or failed
/// before it had done anything. The latter would repeat each time if the stored conversation is damaged.
pub fn lost(ended: &RunOutcome, seen: &RunObservations, calls: &Count) -> Option<String> {
    let message = match ended {
        RunOutcome::Unknown => return Some("has lost its conversation".to_owned()),
        RunOutcome::Failed { status: None, message } | RunOutcome::Broken { message } => message,
        RunOutcome::Failed { .. } | RunOutcome::Well { .. } => return None,
    };
    // After any model call the failure is not the conversation's fault, or the turn must not run twice.
    // A quota that is used up is not the conversation's fault either.
    if text::says_used_up(message) {
        return None;
    }
    let untouched = calls.answered == 0 && calls.refused.is_none() && calls.forbidden.is_none();
    (untouched && !seen.begun && !seen.doomed)
        .then(|| format!("can't go on with its conversation ({message})"))
}

/// Returns the error of a run that was stopped, perhaps in the middle. A turn that has begun is not run a second time,
/// neither by another model nor later.
pub fn stopped(error: RuntimeError, seen: &RunObservations, calls: Option<&Count>) -> RuntimeError {
    match error {
        RuntimeError::NotRunning { program, reason, hint }
        | RuntimeError::NotBegun { program, reason, hint }
            if is_begun(seen, calls) =>
        {
            RuntimeError::Interrupted { program, message: reason, hint }
        }
        other => other,
    }
}

fn is_begun(seen: &RunObservations, calls: Option<&Count>) -> bool {
    seen.begun || calls.is_some_and(|calls| calls.answered > 0)
}

#[cfg(test)]
#[path = "outcome_tests.rs"]
mod tests;

//! Completes a rollback that was killed: the home is then as before it, or as it should be after it.

use super::switch::{conclude, undo};
use crate::cli::{Context, Failure, update};
use crate::generation::pending_rollback::{self, PendingRollback};
use crate::home::{Home, HomeError};

/// Completes an interrupted rollback, if there is one. Does nothing while another process carries one out.
///
/// # Errors
///
/// Returns an error if it can't be completed, for example without the engine that has the packages.
pub(crate) fn complete(home: &Home, context: &Context) -> Result<(), Failure> {
    if !pending_rollback::is_open(home) {
        return Ok(());
    }
    let _lock = match pending_rollback::try_lock(home) {
        Err(HomeError::Held { .. }) => return Ok(()),
        lock => lock?,
    };
    let Some(pending) = pending_rollback::read(home)? else { return Ok(()) };
    if pending.program.is_some()
        && let Err(failure) = update::complete(home, context)
    {
        // The program has put itself back, or its record stays for `flock update --self`.
        context.printer.warn(&failure.text());
    }
    if is_reached(home, &pending) {
        context
            .printer
            .say(format!("completing the rollback to generation {}, which was interrupted", pending.to));
        conclude(home, &pending)?;
        return Ok(());
    }
    context.printer.say(format!(
        "a rollback to generation {} was interrupted; going back to generation {}",
        pending.to, pending.from
    ));
    undo(home, &pending, context)
}

/// Returns `true` if an interrupted rollback has reached its end. The program is its last step, so everything else was
/// changed if the program was.
fn is_reached(home: &Home, pending: &PendingRollback) -> bool {
    let recorded = || {
        let newest = crate::generation::log::newest(home).ok().flatten();
        newest.is_some_and(|newest| newest.number > pending.from && newest.back_to == Some(pending.to))
    };
    if pending.back {
        return false;
    }
    match &pending.program {
        Some(change) => update::is_program(home, &change.to),
        // It was recorded as a generation only after the gateway had proved to be healthy.
        None => recorded(),
    }
}

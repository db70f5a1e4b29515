//! Decides if the machine's clock can be trusted before records are deleted for their age.
//!
//! A clock that is ahead, for example after its battery was changed, makes every record old at once. If it has advanced
//! by more than a day since anything was written, nothing is deleted until it still says so one day later, or a person
//! confirms it.

use serde::{Deserialize, Serialize};

use crate::home::{Home, HomeError, atomic};

/// The remembered state of the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ClockState {
    /// Time of the last look by this clock, in Unix milliseconds.
    pub seen_at: i64,
    /// The jump that was found, if it is not resolved yet.
    pub jump: Option<ClockJump>,
}

/// A jump of the clock that nobody has confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClockJump {
    /// Time by this clock when the jump was found, in Unix milliseconds.
    pub found_at: i64,
    /// The newest time that was known before the jump, in Unix milliseconds.
    pub from: i64,
}

/// The decision about a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClockVerdict {
    /// Old records may be deleted.
    Believed,
    /// Nothing may be deleted.
    Doubted {
        jump: ClockJump,
        /// `true` if the jump was found just now and has not been reported.
        new: bool,
    },
}

/// Judges a clock that shows `now`.
///
/// `newest` is the time of the newest row in the database. `since_look` is the time since the last look of this
/// process, by a monotonic clock, or `None` before the first look. All times are in milliseconds.
#[must_use]
pub(crate) fn judge(
    note: ClockState,
    newest: Option<i64>,
    since_look: Option<i64>,
    now: i64,
) -> (ClockVerdict, ClockState) {
    let after = |jump| ClockState { seen_at: now, jump };
    if let Some(jump) = note.jump {
        // The clock was set back, or it has kept its time for a day.
        return if now < jump.found_at - DAY || now >= jump.found_at + DAY {
            (ClockVerdict::Believed, after(None))
        } else {
            (ClockVerdict::Doubted { jump, new: false }, after(note.jump))
        };
    }
    let from = match since_look {
        // The process may have been idle, but the monotonic clock tells for how long.
        Some(passed) => Some(note.seen_at.saturating_add(passed)),
        // A home without any record has nothing to lose.
        None => newest.into_iter().chain((note.seen_at > 0).then_some(note.seen_at)).max(),
    };
    match from {
        Some(from) if now.saturating_sub(from) > DAY => {
            let jump = ClockJump { found_at: now, from };
            (ClockVerdict::Doubted { jump, new: true }, after(Some(jump)))
        }
        _ => (ClockVerdict::Believed, after(None)),
    }
}

/// Returns the remembered state of this home's clock.
///
/// # Errors
///
/// Returns [`HomeError`] if the file exists and can't be read.
pub(crate) fn read(home: &Home) -> Result<ClockState, HomeError> {
    let bytes = atomic::read(&home.clock(), MAX_FILE_BYTES)?.unwrap_or_default();
    // A damaged file counts as empty. Then only the newest row counts.
    Ok(serde_json::from_slice(&bytes).unwrap_or_default())
}

/// Stores the state of this home's clock.
///
/// # Errors
///
/// Returns [`HomeError`] if the file can't be written.
pub(crate) fn write(home: &Home, note: &ClockState) -> Result<(), HomeError> {
    atomic::write(&home.clock(), &serde_json::to_vec(note).unwrap_or_default(), 0o600)
}

/// Records that a person has confirmed the clock. Returns `true` if it was doubted.
///
/// # Errors
///
/// Returns [`HomeError`] if the file can't be read or written.
pub(crate) fn confirm(home: &Home, now: i64) -> Result<bool, HomeError> {
    let was_doubted = read(home)?.jump.is_some();
    write(home, &ClockState { seen_at: now, jump: None })?;
    Ok(was_doubted)
}

/// One day in milliseconds.
pub(crate) const DAY: i64 = 24 * 3_600_000;
const MAX_FILE_BYTES: u64 = 4 << 10;

#[cfg(test)]
#[path = "clock_check_tests.rs"]
mod tests;

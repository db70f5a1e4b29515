//! Whether the machine's clock can be believed before anything is deleted for its age. A clock that is ahead, as after a
//! battery was changed, makes everything old at once; so one that has moved on by more than a day since anything was
//! written deletes nothing until a day later it still says so, or a person does.

use serde::{Deserialize, Serialize};

use crate::home::{Home, HomeError, atomic};

/// What is remembered of the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Note {
    /// What it said when it was last looked at, in Unix milliseconds.
    pub seen_at: i64,
    /// What it said when it was found to have jumped, and what it should have said at most.
    pub jump: Option<Jump>,
}

/// A jump that nobody has confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Jump {
    /// What the clock said when the jump was found.
    pub found_at: i64,
    /// The time of the newest row before it.
    pub from: i64,
}

/// What may be done by this clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// What is too old may go.
    Believed,
    /// Nothing may go; `new` says whether that was found just now.
    Doubted {
        /// The jump.
        jump: Jump,
        /// Whether nothing was said of it yet.
        new: bool,
    },
}

/// Judges a clock that says `now`. `newest` is the time of the newest row of the database, `since_look` how long ago this
/// process looked last by a clock that nobody sets; nothing where it has not looked yet.
#[must_use]
pub fn judge(note: Note, newest: Option<i64>, since_look: Option<i64>, now: i64) -> (Verdict, Note) {
    let after = |jump| Note { seen_at: now, jump };
    if let Some(jump) = note.jump {
        // It was set back, or has said the same for a day.
        return if now < jump.found_at - DAY || now >= jump.found_at + DAY {
            (Verdict::Believed, after(None))
        } else {
            (Verdict::Doubted { jump, new: false }, after(note.jump))
        };
    }
    let from = match since_look {
        // The process may have been idle, but it knows how long.
        Some(passed) => Some(note.seen_at.saturating_add(passed)),
        // A home in which nothing was written yet has nothing to lose.
        None => newest.into_iter().chain((note.seen_at > 0).then_some(note.seen_at)).max(),
    };
    match from {
        Some(from) if now.saturating_sub(from) > DAY => {
            let jump = Jump { found_at: now, from };
            (Verdict::Doubted { jump, new: true }, after(Some(jump)))
        }
        _ => (Verdict::Believed, after(None)),
    }
}

/// What is remembered of this home's clock.
///
/// # Errors
///
/// If it can't be read.
pub fn read(home: &Home) -> Result<Note, HomeError> {
    let bytes = atomic::read(&home.clock(), LARGEST)?.unwrap_or_default();
    // One that was damaged says nothing: then the newest row alone counts.
    Ok(serde_json::from_slice(&bytes).unwrap_or_default())
}

/// Remembers it.
///
/// # Errors
///
/// If it can't be written.
pub fn write(home: &Home, note: &Note) -> Result<(), HomeError> {
    atomic::write(&home.clock(), &serde_json::to_vec(note).unwrap_or_default(), 0o600)
}

/// A person says that the clock is right; whether it was doubted.
///
/// # Errors
///
/// As [`read`] and [`write()`].
pub fn confirm(home: &Home, now: i64) -> Result<bool, HomeError> {
    let was_doubted = read(home)?.jump.is_some();
    write(home, &Note { seen_at: now, jump: None })?;
    Ok(was_doubted)
}

/// A day, in milliseconds.
pub const DAY: i64 = 24 * 3_600_000;
const LARGEST: u64 = 4 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = DAY / 24;
    const T: i64 = 1_000 * DAY;

    const fn seen(at: i64) -> Note {
        Note { seen_at: at, jump: None }
    }

    fn is_doubted((verdict, _): (Verdict, Note)) -> bool {
        matches!(verdict, Verdict::Doubted { .. })
    }

    #[test]
    fn a_clock_that_goes_on_is_believed() {
        for (note, newest, since) in [
            (Note::default(), None, None),
            (Note::default(), Some(T - HOUR), None),
            (seen(T - 30 * DAY), Some(T - HOUR), None),
            (seen(T - HOUR), Some(T - 30 * DAY), None),
            (seen(T - 3 * DAY), Some(T - 9 * DAY), Some(3 * DAY)),
            // One that was set back deletes less.
            (seen(T + 40 * DAY), Some(T + 40 * DAY), None),
        ] {
            assert_eq!(judge(note, newest, since, T), (Verdict::Believed, seen(T)), "{note:?} {newest:?}");
        }
    }

    #[test]
    fn a_clock_that_is_forty_days_ahead_deletes_nothing_until_the_next_day() {
        let jumped = T + 40 * DAY;
        let jump = Jump { found_at: jumped, from: T };
        let (verdict, note) = judge(seen(T - HOUR), Some(T), None, jumped);
        assert_eq!(verdict, Verdict::Doubted { jump, new: true });
        // Rows that were written meanwhile confirm nothing: they have the same clock's time.
        let again = judge(note, Some(jumped + HOUR), None, jumped + 2 * HOUR);
        assert_eq!(again.0, Verdict::Doubted { jump, new: false });
        assert!(is_doubted(judge(again.1, Some(jumped), Some(HOUR), jumped + DAY - 1)));
        assert_eq!(judge(again.1, Some(jumped), None, jumped + DAY), (Verdict::Believed, seen(jumped + DAY)));
        // It was set right: what it deletes then is what is old.
        assert_eq!(judge(again.1, Some(jumped), None, T + DAY), (Verdict::Believed, seen(T + DAY)));
    }

    #[test]
    fn a_clock_that_jumps_while_the_process_runs_is_doubted() {
        assert!(!is_doubted(judge(seen(T), Some(T), Some(DAY), T + DAY + HOUR)));
        assert!(is_doubted(judge(seen(T), Some(T + 40 * DAY), Some(DAY), T + 41 * DAY)));
    }

    #[test]
    fn a_person_confirms_it() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().to_owned(), None);
        std::fs::create_dir_all(home.data()).unwrap();
        assert_eq!(read(&home).unwrap(), Note::default());
        let (_, note) = judge(seen(T), Some(T), None, T + 40 * DAY);
        write(&home, &note).unwrap();
        assert_eq!(read(&home).unwrap(), note);
        assert!(confirm(&home, T + 40 * DAY).unwrap());
        assert!(!is_doubted(judge(read(&home).unwrap(), Some(T), None, T + 40 * DAY + HOUR)));
        assert!(!confirm(&home, T).unwrap());
        std::fs::write(home.clock(), "{").unwrap();
        assert_eq!(read(&home).unwrap(), Note::default());
    }
}

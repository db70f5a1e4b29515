//! The review of what ran without a person: the sysadmin is given it together, so that many requests are no
//! storm of turns.

use super::view;
use crate::store::RequestRow;
use crate::tool::bounded;

/// The peer of the sysadmin's session for it.
pub const SESSION: &str = "review";
/// The most requests in one review; the others come with the next.
pub const MOST: u32 = 50;
/// How long after one review the next may come, in milliseconds.
const PAUSE: i64 = 10 * 60_000;
/// The most that is shown of an agent's reason, in bytes.
const REASON: usize = 300;

/// Whether it is time for a review of this many, where the last was then.
pub const fn is_due(waiting: usize, last: Option<i64>, now: i64) -> bool {
    waiting > 0
        && match last {
            // A clock that was set back must not put it off for long.
            Some(last) => !(0 <= now - last && now - last < PAUSE),
            None => true,
        }
}

/// What the sysadmin is given.
pub fn text(rows: &[RequestRow]) -> String {
    let mut text = "For review afterwards, nothing to do where it is right; with triage_decision and revoke you take one back. These \
                    were YELLOW:".to_owned();
    for row in rows {
        let line = format!(
            "\n- {} of {}: {}. It is {}. Reason given: {}",
            row.id,
            row.agent,
            view::brief_row(row),
            row.state.as_str(),
            bounded::start(&row.reason, REASON)
        );
        text.push_str(&line);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_comes_at_once_and_the_others_together() {
        assert!(!is_due(0, None, 1));
        assert!(is_due(1, None, 1));
        assert!(!is_due(9, Some(1000), 1000 + PAUSE - 1));
        assert!(is_due(9, Some(1000), 1000 + PAUSE));
        assert!(!is_due(0, Some(1000), 1000 + PAUSE));
        assert!(is_due(1, Some(1000), 0), "the clock was set back");
    }
}

//! The review of requests that ran without a person. The sysadmin gets them together, so that many requests do not
//! cause many turns.

use super::{Triage, sysadmin, view};
use crate::id::{Party, SessionKey, SessionKind};
use crate::store::{InboxItemKind, NewInboxItem, RequestRow, StoreError};
use crate::tool::safe_text;

/// Peer of the sysadmin's session for reviews.
pub(crate) const SESSION: &str = "review";
/// Maximum number of requests in one review. The rest follows with the next.
pub(crate) const MAX_REVIEWED: u32 = 50;
/// Minimum time between two reviews, in milliseconds.
const MIN_INTERVAL: i64 = 10 * 60_000;
/// Maximum number of bytes that are shown of an agent's reason.
const MAX_REASON: usize = 300;

/// Returns `true` if a review is due. `waiting` is the number of requests, `last` the time of the last review.
pub(crate) const fn is_due(waiting: usize, last: Option<i64>, now: i64) -> bool {
    waiting > 0
        && match last {
            // A negative difference means that the clock was set back. It must not delay the review for long.
            Some(last) => !(0 <= now - last && now - last < MIN_INTERVAL),
            None => true,
        }
}

/// Returns the text for the sysadmin.
pub(crate) fn text(rows: &[RequestRow]) -> String {
    let mut text = "For your review: these were YELLOW. If they are right, do nothing. To take one back, use triage_decision \
                    with revoke.".to_owned();
    for row in rows {
        let line = format!(
            "\n- {} of {}: {}. It is {}. Reason given: {}",
            row.id,
            row.agent,
            view::brief_row(row),
            row.state.as_str(),
            safe_text::start(&row.reason, MAX_REASON)
        );
        text.push_str(&line);
    }
    text
}

impl Triage {
    /// Gives the sysadmin all requests for review that ran as YELLOW since the last review.
    pub(crate) async fn review(&self, now: i64) -> Result<(), StoreError> {
        let config = self.swarm.config();
        let Some(sysadmin) = sysadmin(&config) else { return Ok(()) };
        let _reviewing = self.reviewing.lock().await;
        let (rows, last) = self.swarm.store().requests().unreviewed(MAX_REVIEWED).await?;
        if !is_due(rows.len(), last, now) {
            return Ok(());
        }
        let item = NewInboxItem {
            session: SessionKey::new(&sysadmin.id, SessionKind::Request, SESSION),
            kind: InboxItemKind::Notice,
            sender: Party::System.to_string(),
            text: text(&rows),
            task: None,
            now,
        };
        let ids = rows.into_iter().map(|row| row.id).collect();
        self.swarm.store().requests().mark_reviewed(ids, item.clone()).await?;
        self.ring(&[item]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_review_is_immediate_and_later_ones_are_batched() {
        assert!(!is_due(0, None, 1));
        assert!(is_due(1, None, 1));
        assert!(!is_due(9, Some(1000), 1000 + MIN_INTERVAL - 1));
        assert!(is_due(9, Some(1000), 1000 + MIN_INTERVAL));
        assert!(!is_due(0, Some(1000), 1000 + MIN_INTERVAL));
        assert!(is_due(1, Some(1000), 0), "the clock was set back");
    }
}

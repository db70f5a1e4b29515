//! The messages about requests whose sending the platform has not answered yet.
//!
//! flock learns the id of a message from that answer. A platform may tell before it that somebody reacted to the message,
//! replied to it or pressed its button.

use std::sync::Mutex;
use std::time::Duration;

use tokio_util::sync::{CancellationToken, DropGuard};

use crate::sync::lock;

/// Longest time for which an event waits for the ends of sendings. No client of a platform waits longer for the answer to a
/// message without files.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(120);

/// The sendings that are under way: the platform's id of the channel, and a token that is cancelled at the end.
///
/// Each has a token of its own, because a lock of all would let a channel that does not answer hold up the others.
#[derive(Debug, Default)]
pub(in crate::bridge) struct Unanswered(Mutex<Vec<(String, CancellationToken)>>);

impl Unanswered {
    /// Adds a sending to a channel. It ends when the result is dropped, in whatever way the attempt ended.
    pub(super) fn begin(&self, external: &str) -> DropGuard {
        let end = CancellationToken::new();
        let mut sendings = lock(&self.0);
        sendings.retain(|(_, end)| !end.is_cancelled());
        sendings.push((external.to_owned(), end.clone()));
        end.drop_guard()
    }

    /// Returns the tokens of the sendings to a channel that are under way.
    pub(super) fn to(&self, external: &str) -> Vec<CancellationToken> {
        let sendings = lock(&self.0);
        let here = sendings.iter().filter(|(channel, end)| channel == external && !end.is_cancelled());
        here.map(|(_, end)| end.clone()).collect()
    }
}

/// Waits until all these sendings have ended, and no longer than `longest`.
pub(super) async fn ended(sendings: &[CancellationToken], longest: Duration) {
    let all = async {
        for end in sendings {
            end.cancelled().await;
        }
    };
    // The other events of the bridge wait too, so a platform that does not answer must not hold them up for good.
    let _ = tokio::time::timeout(longest, all).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_sending_is_under_way_in_its_channel_until_it_is_dropped() {
        let unanswered = Unanswered::default();
        assert!(unanswered.to("a").is_empty());
        let (first, second) = (unanswered.begin("a"), unanswered.begin("b"));
        let sendings = unanswered.to("a");
        assert_eq!(sendings.len(), 1);
        ended(&sendings, Duration::ZERO).await;
        assert!(!sendings[0].is_cancelled(), "the wait has a limit");
        drop(first);
        ended(&sendings, LONGEST_WAIT).await;
        assert!(sendings[0].is_cancelled() && unanswered.to("a").is_empty());
        assert_eq!(unanswered.to("b").len(), 1);
        drop(second);
        let _third = unanswered.begin("c");
        assert_eq!(lock(&unanswered.0).len(), 1, "those that have ended are forgotten");
    }
}

//! Notes when tokens were last used, beside the requests that use them: none waits for it, and none fails if it can't be
//! written, for example because the disk is full.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::error::chain;
use crate::store::{ClientToken, Store, TOUCH_INTERVAL};
use crate::sync::lock;

/// Time between two warnings.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// The uses that are being noted.
#[derive(Debug, Default)]
pub(super) struct TokenUses {
    /// The names of their tokens. A slow database gets one at a time of each.
    under_way: Mutex<HashSet<String>>,
    warned_at: Mutex<Option<Instant>>,
}

impl TokenUses {
    /// Begins to note that a token was used, unless that was noted within a minute or is under way.
    pub(super) fn note(self: &Arc<Self>, store: &Arc<Store>, token: &ClientToken, now: i64) {
        let is_near = |used: i64| used.abs_diff(now) <= TOUCH_INTERVAL.unsigned_abs();
        if token.used_at.is_some_and(is_near) || !lock(&self.under_way).insert(token.name.clone()) {
            return;
        }
        let (uses, store) = (Arc::clone(self), Arc::clone(store));
        let (name, created_at) = (token.name.clone(), token.created_at);
        tokio::spawn(async move {
            let noted = store.tokens().touch(name.clone(), created_at, now).await;
            lock(&uses.under_way).remove(&name);
            if let Err(error) = noted
                && uses.may_warn(Instant::now())
            {
                tracing::warn!(error = chain(&error), "failed to record the use of a token");
            }
        });
    }

    /// Returns `true` if there was no warning for a while, and counts this one.
    fn may_warn(&self, now: Instant) -> bool {
        let mut warned_at = lock(&self.warned_at);
        let is_due = warned_at.is_none_or(|at| now.saturating_duration_since(at) >= WARNING_INTERVAL);
        if is_due {
            *warned_at = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::Home;
    use crate::store::{AuditEntry, Level, NewToken, Right};

    async fn token(store: &Store) -> ClientToken {
        store.tokens().named("ci").await.unwrap().unwrap()
    }

    #[tokio::test]
    async fn uses_are_noted_a_minute_apart_whatever_clock_has_noted_the_last_one() {
        let root = tempfile::tempdir().unwrap();
        let home = Home::new(root.path().to_owned(), None);
        home.make_folders().unwrap();
        let store = Arc::new(Store::open(&home).unwrap());
        let new =
            NewToken { name: "ci".to_owned(), agents: None, rights: vec![Right::Read], expires_at: None };
        let entry = AuditEntry::new("human:owner", "token.add", "ci", Level::Yellow, String::new());
        assert!(store.tokens().add(new, "hash".to_owned(), entry, 7).await.unwrap());
        let uses = Arc::new(TokenUses::default());
        // The last one is by a clock that is behind by five minutes.
        for now in [500_000, 560_001, 260_000] {
            uses.note(&store, &token(&store).await, now);
            let end = Instant::now() + Duration::from_secs(20);
            while token(&store).await.used_at != Some(now) || !lock(&uses.under_way).is_empty() {
                assert!(Instant::now() < end, "{now} was not noted");
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
        uses.note(&store, &token(&store).await, 320_000);
        assert!(lock(&uses.under_way).is_empty(), "it is about a minute exact");
        // Of two uses at nearly the same time, the later one counts, and none of an earlier token of the name.
        store.tokens().touch("ci".to_owned(), 7, 259_000).await.unwrap();
        store.tokens().touch("ci".to_owned(), 6, 900_000).await.unwrap();
        assert_eq!(token(&store).await.used_at, Some(260_000));
    }

    #[test]
    fn a_failure_that_lasts_is_warned_of_once_in_a_minute() {
        let (uses, start) = (TokenUses::default(), Instant::now());
        let warned = [0, 1, 59, 60, 61].map(|passed| uses.may_warn(start + Duration::from_secs(passed)));
        assert_eq!(warned, [true, false, false, true, false]);
    }
}

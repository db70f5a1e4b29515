//! Remembers thinking blocks that a provider rejected when they were sent back. The provider would reject them each
//! time, so they are left out of the session's later requests. Newer thinking is sent again.
//!
//! Kept in memory only: after a restart one request per session is rejected and repeated once more, and nothing else is
//! lost.

use std::collections::HashMap;
use std::sync::Mutex;

use crate::id::SessionKey;
use crate::provider::Route;
use crate::sync::lock;

/// The most entries. More sessions are not in use at a time.
const MAX_ENTRIES: usize = 4_096;

/// For each session and route, the time up to which its thinking was rejected (Unix milliseconds).
#[derive(Debug, Default)]
pub(super) struct RejectedThinking(Mutex<HashMap<(SessionKey, Route), i64>>);

impl RejectedThinking {
    /// Records that the provider rejected the session's thinking up to `now` on this route.
    pub(super) fn note(&self, session: &SessionKey, route: &Route, now: i64) {
        let mut known = lock(&self.0);
        // When the table is full, the oldest rejection goes, because it is the least likely to be needed.
        if known.len() >= MAX_ENTRIES {
            let oldest = known.iter().min_by_key(|(_, at)| **at).map(|(key, _)| key.clone());
            oldest.and_then(|key| known.remove(&key));
        }
        known.insert((session.clone(), route.clone()), now);
    }

    /// Returns the time up to which thinking is left out, or `None` if none was rejected.
    pub(super) fn until(&self, session: &SessionKey, route: &Route) -> Option<i64> {
        lock(&self.0).get(&(session.clone(), route.clone())).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Api;

    #[test]
    fn a_rejection_is_per_session_and_route_and_the_oldest_is_evicted() {
        let session = |n: usize| format!("agent:coder:flock:main:p{n}").parse::<SessionKey>().unwrap();
        let route = |model: &str| Route { model: model.parse().unwrap(), api: Api::OpenAiResponses };
        let (one, two) = (route("openai/gpt-5"), route("openai/gpt-5.2"));
        let refusals = RejectedThinking::default();
        refusals.note(&session(0), &one, 5);
        assert_eq!(refusals.until(&session(0), &one), Some(5));
        assert_eq!(refusals.until(&session(0), &two), None);
        assert_eq!(refusals.until(&session(1), &one), None);
        for n in 1..=MAX_ENTRIES {
            refusals.note(&session(n), &one, 10 + i64::try_from(n).unwrap());
        }
        assert_eq!(refusals.until(&session(0), &one), None);
        assert_eq!(lock(&refusals.0).len(), MAX_ENTRIES);
    }
}

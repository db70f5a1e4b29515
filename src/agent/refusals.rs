//! Thinking that a provider refused when it came back. It would refuse it each time, so what it refused once is left out of
//! the session's next requests, too. What was thought after that goes back again.
//!
//! Kept in the process: after a restart one request is asked twice again, and nothing is lost by that.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::id::SessionKey;
use crate::provider::Route;

/// Sessions that are remembered; more than that are not in use at a time.
const MOST: usize = 4_096;

/// Until when the thinking of each session was refused, by the way it went (Unix milliseconds).
#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<HashMap<(SessionKey, Route), i64>>);

impl Refusals {
    /// All thinking of this session until `now` was refused on this way.
    pub(super) fn note(&self, session: &SessionKey, route: &Route, now: i64) {
        let mut known = self.known();
        if known.len() >= MOST {
            let oldest = known.iter().min_by_key(|(_, at)| **at).map(|(key, _)| key.clone());
            oldest.and_then(|key| known.remove(&key));
        }
        known.insert((session.clone(), route.clone()), now);
    }

    /// Until when thinking is left out; `None` where none was refused.
    pub(super) fn until(&self, session: &SessionKey, route: &Route) -> Option<i64> {
        self.known().get(&(session.clone(), route.clone())).copied()
    }

    fn known(&self) -> MutexGuard<'_, HashMap<(SessionKey, Route), i64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Api;

    #[test]
    fn a_refusal_is_of_one_session_and_one_way_and_the_oldest_goes() {
        let session = |n: usize| format!("agent:coder:flock:main:p{n}").parse::<SessionKey>().unwrap();
        let route = |model: &str| Route { model: model.parse().unwrap(), api: Api::OpenAiResponses };
        let (one, two) = (route("openai/gpt-5"), route("openai/gpt-5.2"));
        let refusals = Refusals::default();
        refusals.note(&session(0), &one, 5);
        assert_eq!(refusals.until(&session(0), &one), Some(5));
        assert_eq!(refusals.until(&session(0), &two), None);
        assert_eq!(refusals.until(&session(1), &one), None);
        for n in 1..=MOST {
            refusals.note(&session(n), &one, 10 + i64::try_from(n).unwrap());
        }
        assert_eq!(refusals.until(&session(0), &one), None);
        assert_eq!(refusals.known().len(), MOST);
    }
}

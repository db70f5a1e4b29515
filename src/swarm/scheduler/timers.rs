//! A timer queue with at most one deadline for each key.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

/// Deadlines by key, and keys by deadline.
#[derive(Clone, Debug)]
pub(super) struct Timers<K> {
    times: HashMap<K, i64>,
    order: BTreeSet<(i64, K)>,
}

impl<K> Default for Timers<K> {
    fn default() -> Self {
        Self { times: HashMap::new(), order: BTreeSet::new() }
    }
}

impl<K: Clone + Ord + Hash> Timers<K> {
    /// Sets or removes the deadline of a key.
    pub(super) fn set(&mut self, key: &K, at: Option<i64>) {
        let before = self.times.get(key).copied();
        if before == at {
            return;
        }
        if let Some(before) = before {
            self.order.remove(&(before, key.clone()));
        }
        match at {
            Some(at) => {
                self.times.insert(key.clone(), at);
                self.order.insert((at, key.clone()));
            }
            None => {
                self.times.remove(key);
            }
        }
    }

    /// Returns the earliest deadline.
    pub(super) fn first(&self) -> Option<i64> {
        self.order.first().map(|(at, _)| *at)
    }

    /// Removes and returns a key whose deadline has passed.
    pub(super) fn pop(&mut self, now: i64) -> Option<K> {
        if self.first()? > now {
            return None;
        }
        let (_, key) = self.order.pop_first()?;
        self.times.remove(&key);
        Some(key)
    }
}

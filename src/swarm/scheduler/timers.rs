//! At most one time for each key; the earliest first.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

/// Times by key, and keys by time.
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
    /// Sets or takes away the key's time.
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

    /// The earliest time.
    pub(super) fn first(&self) -> Option<i64> {
        self.order.first().map(|(at, _)| *at)
    }

    /// The key's time.
    pub(super) fn at(&self, key: &K) -> Option<i64> {
        self.times.get(key).copied()
    }

    /// Takes out a key whose time has come.
    pub(super) fn pop(&mut self, now: i64) -> Option<K> {
        if self.first()? > now {
            return None;
        }
        let (_, key) = self.order.pop_first()?;
        self.times.remove(&key);
        Some(key)
    }
}

//! The tokens and the charge of model calls.

use serde::{Deserialize, Serialize};

/// Tokens of one model call, as the provider counted them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    /// Input tokens that touched no cache.
    pub input: u64,
    /// Output tokens, including the reasoning.
    pub output: u64,
    /// Input tokens read from the provider's cache.
    pub cache_read: u64,
    /// Input tokens written to the provider's cache.
    pub cache_write: u64,
    /// The provider's own charge in millionths of a dollar; `None` if it reports no price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<u64>,
}

impl Usage {
    /// Returns the tokens of all kinds.
    #[must_use]
    pub(crate) const fn tokens(&self) -> u64 {
        self.input
            .saturating_add(self.output)
            .saturating_add(self.cache_read)
            .saturating_add(self.cache_write)
    }

    /// Returns `true` if all counts are zero and no charge is known.
    fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        let was_nothing = self.is_nothing();
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
        // The charge of a sum is known only if every part's charge is known. An empty usage costs nothing and does not
        // change it.
        self.cost = match (self.cost, other.cost) {
            (Some(cost), Some(more)) => Some(cost.saturating_add(more)),
            (cost, None) if other.is_nothing() => cost,
            (None, more) if was_nothing => more,
            _ => None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_are_summed_only_if_all_are_known() {
        let told = |cost| Usage { input: 1, cost, ..Usage::default() };
        let sum = |parts: [Option<u64>; 2]| {
            let mut sum = Usage::default();
            parts.into_iter().for_each(|cost| sum += told(cost));
            sum.cost
        };
        assert_eq!(sum([Some(3), Some(4)]), Some(7));
        assert_eq!(sum([Some(3), None]), None);
        assert_eq!(sum([None, Some(4)]), None);
        let mut most = Usage { input: u64::MAX, output: u64::MAX, ..Usage::default() };
        most += told(None);
        assert_eq!((most.input, most.output), (u64::MAX, u64::MAX), "a provider may say any number");
        let mut nothing = told(Some(3));
        nothing += Usage::default();
        assert_eq!(nothing.cost, Some(3));
    }
}

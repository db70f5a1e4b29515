//! The usage of a model call, also where no provider reported it.

use crate::provider::{ProviderError, Usage};

/// The known usage of a model call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallUsage {
    /// None: the call was not made, or the provider rejected it before doing any work.
    #[default]
    Nothing,
    /// The request was sent, and failed before the first piece of an answer.
    Sent,
    /// An answer had begun, but its length was not reported.
    Begun,
    /// The usage that the provider reported.
    Told(Usage),
}

impl CallUsage {
    /// Returns the reported usage, if there is any.
    #[must_use]
    pub const fn told(self) -> Option<Usage> {
        match self {
            Self::Told(usage) => Some(usage),
            Self::Nothing | Self::Sent | Self::Begun => None,
        }
    }

    /// Returns the usage of an attempt that ended with an error, or was given up if `error` is `None`. `begun` is
    /// `true` if its answer had begun.
    #[must_use]
    pub const fn failed(error: Option<&ProviderError>, begun: bool) -> Self {
        // Once an answer has begun it costs something, whatever the error was.
        if begun {
            return Self::Begun;
        }
        match error {
            Some(
                ProviderError::NotConfigured { .. }
                | ProviderError::Unauthorised { .. }
                | ProviderError::Rejected { .. }
                | ProviderError::Limited { .. }
                // A request that never left the machine used nothing.
                | ProviderError::Failed { unsent: true, .. },
            ) => Self::Nothing,
            // All other requests may have reached the provider, which may charge for them.
            Some(
                ProviderError::Failed { .. } | ProviderError::TimedOut { .. } | ProviderError::Garbled { .. },
            )
            | None => Self::Sent,
        }
    }

    /// Combines two attempts of one call. Only the greater usage counts, because the reservation is for one call.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        if self.rank() < other.rank() { other } else { self }
    }

    const fn rank(self) -> u8 {
        match self {
            Self::Nothing => 0,
            Self::Sent => 1,
            Self::Begun => 2,
            Self::Told(_) => 3,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_failure_counts_as_not_sent_sent_or_begun() {
        let status = |status| ProviderError::from_status("x", status, "m", None);
        let timed_out = ProviderError::TimedOut { provider: "x".into(), after: Duration::ZERO };
        let unsent = |unsent| ProviderError::Failed {
            provider: "x".into(),
            message: "m".into(),
            retry_after: None,
            unsent,
        };
        let garbled = ProviderError::Garbled { provider: "x".into(), message: "m".into() };
        let no_key = ProviderError::NotConfigured {
            provider: "x".into(),
            model: "x/y".into(),
            reason: "no key".into(),
            hint: String::new(),
        };
        for (error, before, after) in [
            (Some(no_key), CallUsage::Nothing, CallUsage::Begun),
            (Some(status(401)), CallUsage::Nothing, CallUsage::Begun),
            (Some(status(403)), CallUsage::Nothing, CallUsage::Begun),
            (Some(status(400)), CallUsage::Nothing, CallUsage::Begun),
            (Some(status(404)), CallUsage::Nothing, CallUsage::Begun),
            (Some(status(413)), CallUsage::Nothing, CallUsage::Begun),
            (Some(status(429)), CallUsage::Nothing, CallUsage::Begun),
            (Some(status(529)), CallUsage::Nothing, CallUsage::Begun),
            (Some(status(408)), CallUsage::Sent, CallUsage::Begun),
            (Some(status(500)), CallUsage::Sent, CallUsage::Begun),
            (Some(status(503)), CallUsage::Sent, CallUsage::Begun),
            (Some(unsent(true)), CallUsage::Nothing, CallUsage::Begun),
            (Some(unsent(false)), CallUsage::Sent, CallUsage::Begun),
            (Some(timed_out), CallUsage::Sent, CallUsage::Begun),
            (Some(garbled), CallUsage::Sent, CallUsage::Begun),
            // Given up: the turn was stopped, or the process ends.
            (None, CallUsage::Sent, CallUsage::Begun),
        ] {
            assert_eq!(CallUsage::failed(error.as_ref(), false), before, "{error:?}");
            assert_eq!(CallUsage::failed(error.as_ref(), true), after, "{error:?}");
        }
    }

    #[test]
    fn the_greater_usage_of_two_attempts_counts() {
        let told = CallUsage::Told(Usage::default());
        let rising = [CallUsage::Nothing, CallUsage::Sent, CallUsage::Begun, told];
        for (at, less) in rising.iter().enumerate() {
            for more in &rising[at..] {
                assert_eq!((less.or(*more), more.or(*less)), (*more, *more));
            }
        }
    }
}

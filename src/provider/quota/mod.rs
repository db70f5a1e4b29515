//! Reads from a provider's refusal that a quota is used up, and until when. All functions are pure.
//!
//! Providers say it in headers (`x-ratelimit-reset-requests: 6m0s`), in the error's body, or only in words. Agent
//! programs that ask with a login of their own say it in words alone.

pub(super) mod body;
mod duration;
pub mod text;
pub(super) mod windows;

use std::time::Duration;

use super::ProviderError;

/// The statement of a refusal that a quota is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaSignal {
    /// Time until the quota can be used again. `None` if the provider named none.
    pub wait: Option<Duration>,
}

/// Returns what an error says about a quota, or `None` if it is another error or one that passes within `patience`.
#[must_use]
pub fn signal(error: &ProviderError, patience: Duration) -> Option<QuotaSignal> {
    match error {
        // 529 and 503 tell of an overloaded provider, which no waiting for a window mends.
        ProviderError::Limited { status: 429, retry_after: Some(wait), .. } => {
            (*wait > patience).then_some(QuotaSignal { wait: Some(*wait) })
        }
        ProviderError::Limited { status: 429, retry_after: None, message, .. } => {
            text::says_used_up(message).then_some(QuotaSignal { wait: None })
        }
        // No credit is left. Nobody knows when the owner buys some.
        ProviderError::Rejected { status: 402 | 429, .. } => Some(QuotaSignal { wait: None }),
        _ => None,
    }
}

/// Returns what an error says about a quota that was used up before. Any limit means that it still is.
#[must_use]
pub fn signal_of_probe(error: &ProviderError) -> Option<QuotaSignal> {
    match error {
        ProviderError::Limited { retry_after, .. } => Some(QuotaSignal { wait: *retry_after }),
        error => signal(error, Duration::ZERO),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_used_up_quota_is_a_signal() {
        let patience = Duration::from_secs(120);
        let of = |status, message: &str, wait: Option<u64>| {
            let error = ProviderError::from_status("x", status, message, wait.map(Duration::from_secs));
            signal(&error, patience).map(|signal| signal.wait.map(|wait| wait.as_secs()))
        };
        assert_eq!(of(429, "slow down", Some(3_600)), Some(Some(3_600)));
        assert_eq!(of(429, "slow down", Some(120)), None, "the turn itself waits");
        assert_eq!(of(429, "slow down", None), None);
        assert_eq!(of(429, "You've hit your usage limit.", None), Some(None));
        assert_eq!(of(402, "no credit", None), Some(None));
        for status in [400, 401, 404, 500, 503, 529] {
            assert_eq!(of(status, "limit reached", Some(3_600)), None, "{status}");
        }
        let broke = ProviderError::Rejected { provider: "x".into(), status: 429, message: "m".into() };
        assert_eq!(signal(&broke, patience), Some(QuotaSignal { wait: None }));
    }
}

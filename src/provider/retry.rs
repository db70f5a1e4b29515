//! Retries of failed model calls. The policy decides whether and when; [`call`] does the waiting.

use std::time::Duration;

use super::{Delta, Provider, ProviderError, Request, Response, Sink};

/// Limits of the number of attempts and of the waits between them.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// Maximum number of attempts.
    pub attempts: u32,
    /// Maximum number of attempts with a provider that was silent.
    pub silent_attempts: u32,
    /// The wait after the first failure. It doubles after each further one.
    pub first_wait: Duration,
    /// Upper limit of that wait.
    pub longest_wait: Duration,
    /// Longest wait that a provider may ask for. If it asks for more, the call fails at once.
    pub longest_asked_wait: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            attempts: 4,
            // A silent provider has already cost minutes, so it gets only one more attempt, on a new connection.
            silent_attempts: 2,
            first_wait: Duration::from_secs(1),
            longest_wait: Duration::from_secs(30),
            longest_asked_wait: Duration::from_secs(120),
        }
    }
}

impl Policy {
    /// Returns the policy for a model that has fallbacks: another model may answer in the time of a second silent
    /// attempt.
    #[must_use]
    pub(crate) const fn with_fallbacks(self) -> Self {
        Self { silent_attempts: 1, ..self }
    }

    /// Returns the policy with another longest wait that a provider may ask for.
    #[must_use]
    pub(crate) const fn with_patience(self, patience: Duration) -> Self {
        Self { longest_asked_wait: patience, ..self }
    }

    /// Returns the wait before the next attempt after one has failed, counted from 1. `None` reports the failure.
    ///
    /// `jitter` is a random number from 0 to 1. It keeps turns that failed together from retrying together.
    #[must_use]
    pub fn next(&self, attempt: u32, error: &ProviderError, jitter: f64) -> Option<Duration> {
        let (attempts, asked) = match error {
            ProviderError::Limited { retry_after, .. } | ProviderError::Failed { retry_after, .. } => {
                (self.attempts, *retry_after)
            }
            ProviderError::TimedOut { .. } => (self.attempts.min(self.silent_attempts), None),
            ProviderError::NotConfigured { .. }
            | ProviderError::Unauthorised { .. }
            | ProviderError::Rejected { .. }
            | ProviderError::Garbled { .. } => return None,
        };
        if attempt >= attempts || asked.is_some_and(|asked| asked > self.longest_asked_wait) {
            return None;
        }
        // The exponent is bounded because a shift by 32 or more would overflow.
        let doubled = self.first_wait.saturating_mul(1 << attempt.saturating_sub(1).min(20));
        let own = doubled.min(self.longest_wait);
        // Never earlier than the provider asked for: it would only refuse again.
        let base = asked.unwrap_or(own.mul_f64(0.75));
        // With the jitter the wait is 75% to 125% of the doubled one, unless the provider named a time.
        Some(base + own.mul_f64(0.5 * jitter.clamp(0.0, 1.0)))
    }
}

/// Notice that a model is about to be asked again.
#[derive(Clone, Debug)]
pub struct RetryNotice<'a> {
    /// The attempt that failed, counted from 1.
    pub attempt: u32,
    /// Time until the next attempt.
    pub wait: Duration,
    /// The failure of the last attempt.
    pub reason: &'a ProviderError,
}

/// Asks the model and retries as `policy` allows, but only until something has reached `sink`: text that a person has
/// read cannot be taken back. Dropping the future cancels the request or the wait.
///
/// # Errors
///
/// Returns the last failure.
pub async fn call(
    policy: &Policy,
    provider: &dyn Provider,
    request: &Request,
    sink: Sink<'_>,
    on_retry: &mut (dyn FnMut(RetryNotice<'_>) + Send),
) -> Result<Response, ProviderError> {
    let mut attempt = 1;
    loop {
        let mut passed = false;
        let mut watch = |delta: Delta| {
            // The start of a tool call shows nothing to anybody, so a retry is still possible.
            passed |= delta != Delta::ToolCall;
            sink(delta);
        };
        let error = match provider.call(request, &mut watch).await {
            Ok(response) => return Ok(response),
            Err(error) => error,
        };
        if passed {
            return Err(error);
        }
        let Some(wait) = policy.next(attempt, &error, rand::random()) else {
            return Err(error);
        };
        on_retry(RetryNotice { attempt, wait, reason: &error });
        tokio::time::sleep(wait).await;
        attempt += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(retry_after: Option<u64>) -> ProviderError {
        ProviderError::from_status("x", 500, "m", retry_after.map(Duration::from_secs))
    }

    fn waits(error: &ProviderError, jitter: f64) -> Vec<u64> {
        let policy = Policy { attempts: 8, ..Policy::default() };
        (1..)
            .map_while(|attempt| policy.next(attempt, error, jitter))
            .map(|wait| u64::try_from(wait.as_millis()).unwrap())
            .collect()
    }

    #[test]
    fn waits_double_up_to_a_limit() {
        assert_eq!(waits(&failed(None), 0.0), [750, 1500, 3000, 6000, 12_000, 22_500, 22_500]);
        assert_eq!(waits(&failed(None), 1.0)[..2], [1250, 2500]);
    }

    #[test]
    fn a_retry_never_comes_before_the_time_that_the_provider_named() {
        let limited = ProviderError::from_status("x", 429, "m", Some(Duration::from_secs(20)));
        assert!(waits(&limited, 0.0).iter().all(|wait| *wait >= 20_000));
        assert_eq!(waits(&failed(Some(0)), 0.0)[0], 0);
        assert!(waits(&failed(Some(3600)), 0.0).is_empty(), "an hour is too long");
    }

    #[test]
    fn permanent_failures_are_not_retried() {
        for status in [400, 401, 402, 403, 404, 422] {
            assert!(waits(&ProviderError::from_status("x", status, "m", None), 0.5).is_empty(), "{status}");
        }
        let garbled = ProviderError::Garbled { provider: "x".into(), message: "m".into() };
        assert!(waits(&garbled, 0.5).is_empty());
        let silent = ProviderError::TimedOut { provider: "x".into(), after: Duration::from_secs(1) };
        assert_eq!(waits(&silent, 0.5).len(), 1);
        let decision = Policy::default().with_fallbacks().next(1, &silent, 0.5);
        assert_eq!(decision, None, "another model is asked instead");
    }

    #[test]
    fn no_attempt_overflows() {
        let policy = Policy { attempts: u32::MAX, ..Policy::default() };
        assert!(policy.next(u32::MAX - 1, &failed(None), 2.0).is_some());
    }
}

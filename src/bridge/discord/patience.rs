//! Waits out a limit, for what nothing else has to wait for.

use std::future::Future;
use std::time::Duration;

use tokio::time::sleep;

use crate::bridge::platform::PlatformError;

/// The longest wait for one limit where nothing but the history of a channel has to wait.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// Asks until the answer is no limit, or one that lasts too long. Reading the history of a channel and looking one up
/// take many requests, of which Discord takes few at once. Messages are sent meanwhile.
pub(super) async fn patiently<T, F: Future<Output = Result<T, PlatformError>>>(
    ask: impl Fn() -> F,
) -> Result<T, PlatformError> {
    waiting_up_to(MAX_WAIT, ask).await
}

/// Asks until the answer is no limit, or one that lasts longer than `longest`.
pub(super) async fn waiting_up_to<T, F: Future<Output = Result<T, PlatformError>>>(
    longest: Duration,
    ask: impl Fn() -> F,
) -> Result<T, PlatformError> {
    loop {
        match ask().await {
            Err(PlatformError::RateLimited(wait)) if wait <= longest => sleep(wait).await,
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn a_short_limit_is_waited_out_and_a_long_one_is_not() {
        let asked = Cell::new(0);
        let ask = || async {
            asked.set(asked.get() + 1);
            if asked.get() < 3 {
                Err(PlatformError::RateLimited(Duration::from_millis(5)))
            } else {
                Ok(asked.get())
            }
        };
        assert_eq!(patiently(ask).await, Ok(3));
        let long = PlatformError::RateLimited(Duration::from_secs(600));
        assert_eq!(patiently(|| async { Err::<(), _>(long.clone()) }).await, Err(long));
    }
}

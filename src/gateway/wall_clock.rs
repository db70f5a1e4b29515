//! Waits for a time of the wall clock.
//!
//! A timer of the runtime stands still while the machine is suspended, and knows nothing of a clock that is set. The timer
//! of the kernel that is used here does: it ends when the time is reached, also during a suspension, and when the clock
//! is set.

use std::os::fd::{AsFd as _, AsRawFd, RawFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use tokio::io::unix::AsyncFd;

/// Interval between two looks at the clock if the kernel gives no timer.
const FALLBACK: Duration = Duration::from_secs(30);

/// A timer of the wall clock.
pub(crate) struct WallClock(Option<AsyncFd<Timer>>);

struct Timer(TimerFd);

impl AsRawFd for Timer {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl WallClock {
    /// Creates a timer. It must be called within the runtime.
    pub(crate) fn new() -> Self {
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer = TimerFd::new(ClockId::CLOCK_REALTIME, flags).map_err(std::io::Error::from);
        let timer = timer.and_then(|timer| register(Timer(timer)));
        Self(timer.inspect_err(|error| tracing::warn!(%error, "no timer of the wall clock")).ok())
    }

    /// Returns when this time, in Unix milliseconds, is reached, or earlier if the clock was set. Without a time it never
    /// returns.
    pub(crate) async fn reached(&self, at: Option<i64>) {
        let Some(at) = at else { return std::future::pending().await };
        let Some(timer) = &self.0 else { return tokio::time::sleep(FALLBACK).await };
        // A time of 0 would switch the timer off.
        let at = Duration::from_millis(at.max(1).unsigned_abs());
        let flags = TimerSetTimeFlags::TFD_TIMER_ABSTIME | TimerSetTimeFlags::TFD_TIMER_CANCEL_ON_SET;
        match timer.get_ref().0.set(Expiration::OneShot(TimeSpec::from_duration(at)), flags) {
            Ok(()) => {}
            // The clock was set since the last wait, so the caller has to look at it first.
            Err(Errno::ECANCELED) => return,
            Err(_) => return tokio::time::sleep(FALLBACK).await,
        }
        loop {
            let Ok(mut ready) = timer.readable().await else { return tokio::time::sleep(FALLBACK).await };
            match timer.get_ref().0.wait() {
                // It was ready for an earlier time.
                Err(Errno::EAGAIN) => ready.clear_ready(),
                // The time is reached, or the clock was set.
                _ => {
                    ready.clear_ready();
                    return;
                }
            }
        }
    }
}

#[expect(
    deprecated,
    reason = "its successor is unsafe for types whose descriptor can change, and this one's can't"
)]
fn register(timer: Timer) -> std::io::Result<AsyncFd<Timer>> {
    AsyncFd::new(timer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::unix_ms;

    #[tokio::test]
    async fn a_time_is_waited_for_and_a_past_one_is_not() {
        let clock = WallClock::new();
        assert!(clock.0.is_some());
        clock.reached(Some(0)).await;
        let at = unix_ms() + 30;
        clock.reached(Some(at)).await;
        assert!(unix_ms() >= at);
        // A wait that was given up has no effect on the next one.
        let far = clock.reached(Some(unix_ms() + 3_600_000));
        assert!(tokio::time::timeout(Duration::from_millis(5), far).await.is_err());
        clock.reached(Some(unix_ms() - 5)).await;
        assert!(tokio::time::timeout(Duration::from_millis(5), clock.reached(None)).await.is_err());
    }
}

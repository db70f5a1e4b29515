//! The end of the time that a command has for reading a database on a server.

use std::time::{Duration, Instant};

/// The moment until which a database on a server is read. Without one, each step has its own limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadDeadline(Option<Instant>);

impl ReadDeadline {
    /// Returns the deadline that comes after this time.
    #[must_use]
    pub(crate) fn after(time: Duration) -> Self {
        Self(Instant::now().checked_add(time))
    }

    /// Returns `true` if there is a deadline.
    #[must_use]
    pub(crate) const fn is_set(self) -> bool {
        self.0.is_some()
    }

    /// Returns the time for a step that begins now and has a limit of its own.
    #[must_use]
    pub(crate) fn of_step(self, limit: Duration) -> Duration {
        self.of_step_at(limit, Instant::now())
    }

    fn of_step_at(self, limit: Duration, now: Instant) -> Duration {
        self.0.map_or(limit, |end| end.saturating_duration_since(now).min(limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_ends_at_its_limit_or_at_the_deadline() {
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        let deadline = ReadDeadline(now.checked_add(second * 3));
        assert_eq!(deadline.of_step_at(second, now), second);
        assert_eq!(deadline.of_step_at(second * 9, now + second), second * 2);
        assert_eq!(deadline.of_step_at(second, now + second * 5), Duration::ZERO);
        assert_eq!(ReadDeadline::default().of_step_at(second * 9, now), second * 9);
    }
}

//! The fence of the files that several gateways write: a gateway stops writing them before another one can take over.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::clock;

/// The reason why a gateway leaves shared files alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this gateway was cut off, and another one may have taken over")]
pub struct CutOff;

/// The time until which this process may write files that other gateways write too. All copies of a fence have the same time.
///
/// The database refuses the changes of a gateway that another one has replaced, but no file does. So a gateway of a group
/// stops by itself before it can be replaced, and looks just before each write. A process that is paused between the look and
/// the write still writes.
#[derive(Clone, Debug)]
pub(crate) struct WriteFence(Option<Arc<AtomicI64>>);

impl WriteFence {
    /// Creates a fence that is open until [`Self::write_until`] sets a time. A process without others never does.
    #[must_use]
    pub(crate) fn new() -> Self {
        Self(Some(Arc::new(AtomicI64::new(i64::MAX))))
    }

    /// Returns the fence of files that nobody else writes. It is always open.
    #[must_use]
    pub(crate) const fn absent() -> Self {
        Self(None)
    }

    /// Checks that no other gateway can have taken over from this one, whose files they would be then.
    ///
    /// # Errors
    ///
    /// Returns [`CutOff`] if one can have.
    pub(crate) fn check(&self) -> Result<(), CutOff> {
        let until = self.0.as_ref().map_or(i64::MAX, |until| until.load(Ordering::Acquire));
        // Without a time, no clock is read.
        if until == i64::MAX || clock::boot_ms() < until { Ok(()) } else { Err(CutOff) }
    }

    /// Sets the time until which [`Self::check`] succeeds, by the clock of [`clock::boot_ms`].
    pub(crate) fn write_until(&self, until: i64) {
        if let Some(shared) = &self.0 {
            shared.store(until, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_closes_at_its_time_for_all_who_have_it() {
        let fence = WriteFence::new();
        let copy = fence.clone();
        assert_eq!(copy.check(), Ok(()));
        fence.write_until(clock::boot_ms());
        assert_eq!(copy.check(), Err(CutOff));
        fence.write_until(clock::boot_ms() + 600_000);
        assert_eq!(copy.check(), Ok(()));
        let absent = WriteFence::absent();
        absent.write_until(0);
        assert_eq!(absent.check(), Ok(()));
    }
}

//! The limits that a scheduler works with. Times in milliseconds.

/// A wait that doubles with each failure in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The wait after a first failure.
    pub first: i64,
    /// The longest wait.
    pub most: i64,
}

impl Backoff {
    /// How long to wait after so many failures in a row.
    #[must_use]
    pub fn after(self, failures: u32) -> i64 {
        let doublings = failures.saturating_sub(1).min(30);
        self.first.saturating_mul(1 << doublings).min(self.most)
    }
}

/// The limits that a scheduler works with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// At least so long between two ticks of an agent that is awake.
    pub tick: i64,
    /// At least so long between two ticks of one that sleeps.
    pub slow: i64,
    /// Up to so much is added to [`Settings::tick`], the same for an agent each time.
    pub tick_jitter: i64,
    /// Up to so much is added to [`Settings::slow`].
    pub slow_jitter: i64,
    /// How many turns the team may run at once.
    pub together: usize,
    /// How many of these places only a person's message may take. One place is always left to the team.
    pub for_people: usize,
    /// A plain message that waited so long for a place counts as a mention, so that mentions can't keep it
    /// out for ever.
    pub patience: i64,
    /// Over how long the first ticks are spread after a start and after a provider's return.
    pub spread: i64,
    /// The wait after a turn that failed.
    pub retry: Backoff,
    /// The wait before a provider that was down is tried again.
    pub probe: Backoff,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            tick: 60_000,
            slow: 300_000,
            tick_jitter: 10_000,
            slow_jitter: 60_000,
            together: 8,
            for_people: 1,
            patience: 60_000,
            spread: 60_000,
            retry: Backoff { first: 5_000, most: 300_000 },
            probe: Backoff { first: 5_000, most: 300_000 },
        }
    }
}

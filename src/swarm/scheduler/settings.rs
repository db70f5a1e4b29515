//! The settings of a scheduler. Times are in milliseconds.

/// An exponential backoff.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The wait after the first failure.
    pub first: i64,
    /// The maximum wait.
    pub most: i64,
}

impl Backoff {
    /// Returns the wait after this number of consecutive failures.
    #[must_use]
    pub(crate) fn after(self, failures: u32) -> i64 {
        let doublings = failures.saturating_sub(1).min(30);
        self.first.saturating_mul(1 << doublings).min(self.most)
    }
}

/// The limits of a scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Minimum time between two ticks of an agent that is awake.
    pub tick: i64,
    /// Minimum time between two ticks of an agent that sleeps.
    pub slow: i64,
    /// Maximum time that is added to [`Settings::tick`]. It is constant for each agent.
    pub tick_jitter: i64,
    /// Maximum time that is added to [`Settings::slow`].
    pub slow_jitter: i64,
    /// Maximum number of turns that the team runs at the same time.
    pub together: usize,
    /// Number of these slots that are reserved for messages of people. At least one slot always remains for the team.
    pub for_people: usize,
    /// A plain message that waited this long for a slot gets the priority of a mention, so that mentions can't keep it
    /// waiting for ever.
    pub patience: i64,
    /// The time over which first ticks are spread, after a start and after a provider's return.
    pub spread: i64,
    /// The wait after a failed turn.
    pub retry: Backoff,
    /// The wait between two probes of a provider that is down.
    pub probe: Backoff,
    /// The time between the starts of two agents after their quota can be used again.
    pub resume_gap: i64,
    /// The time within which all of them are started, however many they are.
    pub resume_spread: i64,
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
            resume_gap: 1_000,
            resume_spread: 40_000,
        }
    }
}

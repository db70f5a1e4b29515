//! Named moments in the way of a message, from its acceptance to the answer. A test can end the process at
//! each of them, to see that nothing is lost and nothing is done twice; otherwise nobody watches.

use std::sync::OnceLock;

/// A moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checkpoint {
    /// A message has been checked, and nothing of it is written.
    Accepted,
    /// It is in the database, and nobody has been told.
    Committed,
    /// The scheduler has been told.
    Queued,
    /// A turn has taken it, and has not begun.
    Taken,
    /// The turn's input is in the transcript.
    Began,
    /// A tool has done its work, and its result is not in the transcript.
    Called,
    /// The turn has ended, and its text is with nobody.
    Answered,
    /// The text is where it belongs, and the delivery is not ended.
    Replied,
    /// All of it is ended.
    Concluded,
    /// A compaction is in the transcript, and the conversation is still the one before. Not on the way of every
    /// message.
    Compacted,
}

impl Checkpoint {
    /// Those on the way of every message, in their order.
    pub const ALL: [Self; 9] = [
        Self::Accepted,
        Self::Committed,
        Self::Queued,
        Self::Taken,
        Self::Began,
        Self::Called,
        Self::Answered,
        Self::Replied,
        Self::Concluded,
    ];

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Committed => "committed",
            Self::Queued => "queued",
            Self::Taken => "taken",
            Self::Began => "began",
            Self::Called => "called",
            Self::Answered => "answered",
            Self::Replied => "replied",
            Self::Concluded => "concluded",
            Self::Compacted => "compacted",
        }
    }
}

static WATCHER: OnceLock<fn(Checkpoint)> = OnceLock::new();

/// Lets this function know of every moment that this process reaches. Only the first call counts.
pub fn watch(watcher: fn(Checkpoint)) {
    // A second watcher is a mistake of a test, and would see nothing.
    let _ = WATCHER.set(watcher);
}

/// This moment is reached.
pub fn reach(checkpoint: Checkpoint) {
    if let Some(watcher) = WATCHER.get() {
        watcher(checkpoint);
    }
}

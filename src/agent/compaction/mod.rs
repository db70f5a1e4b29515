//! What makes room in a conversation that has grown too long: the beginning, a marker and the newest part take
//! the place of all of it. What the agent found is in files of its workspace, and the marker names them.
//!
//! Everything but [`findings::read`] and [`summary::ask`] is pure.

pub mod compact;
pub mod findings;
pub mod marker;
pub mod shrink;
pub mod summary;

/// How full the room may be, in hundredths, until a compaction makes place before the next request.
pub const FULL: u64 = 80;

/// What a compaction leaves at most, in hundredths of the room, where that can be done.
pub const KEPT: u64 = 40;

/// A compaction that would free less than this, in hundredths of the room, waits until there is no room at all:
/// else a turn with a long question would compact at every step.
pub const WORTH: u64 = 10;

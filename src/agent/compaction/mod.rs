//! Compaction: shortens a conversation that has grown too long to its first message, a marker and the newest part. The
//! agent's findings are in files of its workspace, and the marker names them.
//!
//! Everything except [`findings::read`] is pure.

pub mod findings;
pub mod marker;
pub mod retention;
pub mod shrink;
pub mod summary;

/// The share of the room, in hundredths, above which a compaction precedes the next request.
pub const COMPACT_ABOVE_PERCENT: u64 = 80;

/// The most that a compaction leaves, in hundredths of the room, if possible.
pub const TARGET_PERCENT: u64 = 40;

/// The least that a compaction should free, in hundredths of the room. One that would free less waits until there is no
/// room at all. Otherwise a turn with a long question would compact at every step.
pub const MIN_GAIN_PERCENT: u64 = 10;

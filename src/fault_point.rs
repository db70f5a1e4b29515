//! Named moments in the processing of a message, from its acceptance to the answer, and in a change of the home.
//!
//! A test can kill the process at each of them, to check that nothing is lost and nothing is done twice. Outside tests
//! they do nothing.

use std::sync::OnceLock;

/// A moment in the processing of a message or in a change of the home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultPoint {
    /// The message was checked, and nothing is written yet.
    Accepted,
    /// The message is in the database, and nobody knows of it yet.
    Committed,
    /// The scheduler knows of the message.
    Queued,
    /// A turn has taken the message and has not begun.
    Taken,
    /// The turn's input is in the transcript.
    Began,
    /// A tool has done its work, and its result is not in the transcript yet.
    Called,
    /// The turn has ended, and its text is not delivered yet.
    Answered,
    /// The text is delivered, and the delivery is not marked as ended yet.
    Replied,
    /// Everything is finished.
    Concluded,
    /// A compaction is in the transcript, and the old conversation is still in use. Not every message passes this
    /// moment.
    Compacted,
    /// A platform has a message of a bridge, and that is not recorded yet. Only messages of linked channels pass this
    /// moment.
    Sent,
    /// A step of a checkpoint is done. A checkpoint passes this moment many times.
    Checkpointing,
    /// A step of a rewind is done. A rewind passes this moment many times.
    Rewinding,
    /// A step of a fork of a team is done. A fork passes this moment several times.
    Forking,
    /// A step of a schedule is done. A schedule passes this moment before its first step and after each.
    Scheduling,
    /// The next generation is written down, and the configuration is still the old one.
    GenerationDrafted,
    /// The configuration is replaced, and its generation has no number yet.
    ConfigReplaced,
    /// The generation of a change has its number.
    GenerationKept,
    /// A rollback is written down, and nothing is changed yet.
    RollbackBegun,
    /// A rollback has replaced the configuration.
    RollbackConfigured,
    /// A rollback has changed agents' packages and images.
    RollbackPackaged,
    /// A rollback has changed OpenClaw.
    RollbackSwitched,
    /// A rollback is complete and healthy, and not recorded as a generation yet.
    RollbackProved,
    /// A rollback is recorded as a generation, and its record is still there.
    RollbackKept,
    /// A rollback that failed has put the configuration back.
    RollbackUndone,
    /// The files of a skill are complete beside their final place.
    SkillStaged,
    /// The files of a skill are in their final place, and what was there before still exists.
    SkillPlaced,
    /// The package of an MCP server is fetched and unpacked, and nothing of it is in its place.
    PackageStaged,
    /// A step of putting a package into its place is done. Each package passes this moment five times.
    PackagePlacing,
    /// A backup has a copy of the database, and nothing in its archive.
    BackupCopied,
    /// The archive of a backup is written, and has not its name.
    BackupWritten,
    /// The archive of a backup is verified, and has not its name.
    BackupVerified,
    /// An archive is unpacked beside the place of the home, and not checked.
    RestoreUnpacked,
    /// A restored home is complete, and not in its place.
    RestoreReady,
    /// A restored home is in its place.
    RestorePlaced,
    /// A batch of rows is copied to the new database. A move of the database passes this moment many times.
    MoveCopying,
    /// The copy of the database is complete and compared, and the home still uses the old one.
    MoveProved,
    /// A server refuses changes of the old database, and the home still names it.
    MoveRetired,
    /// The home uses the new database.
    MoveSwitched,
    /// A step of copying a checkpoint or a vault to the store of blobs or back, or of deleting one there, is done.
    Copying,
    /// A part of a source is in the search index. A catch-up passes this moment many times.
    Indexing,
}

impl FaultPoint {
    /// The moments that every message passes, in their order.
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

    /// The moments that every change of the configuration passes, in their order.
    pub const OF_CHANGE: [Self; 3] = [Self::GenerationDrafted, Self::ConfigReplaced, Self::GenerationKept];

    /// The moments that every rollback of the configuration passes, in their order.
    pub const OF_ROLLBACK: [Self; 6] = [
        Self::RollbackBegun,
        Self::RollbackConfigured,
        Self::RollbackPackaged,
        Self::RollbackSwitched,
        Self::RollbackProved,
        Self::RollbackKept,
    ];
}

static WATCHER: OnceLock<fn(FaultPoint)> = OnceLock::new();

/// Sets the function that is called at every moment that this process reaches. Only the first call has an effect.
pub fn watch(watcher: fn(FaultPoint)) {
    // A second watcher would be a mistake in a test, and is ignored.
    let _ = WATCHER.set(watcher);
}

/// Reports that a moment is reached.
pub fn reach(fault_point: FaultPoint) {
    // Only tests set a watcher.
    if let Some(watcher) = WATCHER.get() {
        watcher(fault_point);
    }
}

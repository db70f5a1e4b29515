//! Looks at a workspace and stores what is new in it.
//!
//! Several threads walk through its folders, because nearly all of the time is spent in system calls.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::content::ContentId;
use super::error::CheckpointError;
use super::helper_walk::HelperWalk;
use super::index::Index;
use super::objects::Objects;
use super::walk::{Walk, Walked};
use crate::id::AgentId;
use crate::sandbox::workspace_files::RemoteFiles;

/// The limits of a look at a workspace.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScanLimits {
    /// Entries of all folders together.
    pub(super) entries: usize,
    /// Nested folders. Each of them is an open descriptor.
    pub(super) depth: usize,
    /// Bytes that the files use on the disk.
    pub(super) bytes: u64,
    pub(super) time: Duration,
    /// Threads that work at the same time.
    pub(super) threads: usize,
}

impl ScanLimits {
    /// Returns the limits for a workspace whose files may use this many bytes.
    pub(super) fn with_bytes(bytes: u64) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
        Self { entries: 500_000, depth: 128, bytes, time: Duration::from_secs(120), threads }
    }
}

/// The most threads of a look. More of them would wait for each other in the kernel.
const MAX_THREADS: usize = 4;
/// The most names that are reported of each kind of problem.
const MAX_NAMED: usize = 20;

/// The state of a workspace.
#[derive(Clone, Debug)]
pub(super) struct Scan {
    /// The tree of the workspace itself.
    pub(super) tree: ContentId,
    /// Number of files, folders and links.
    pub(super) entries: usize,
    /// Devices, sockets, FIFOs and other file systems, which no checkpoint has.
    pub(super) left_out: Named,
    /// Files that changed each time they were read.
    pub(super) unstable: Named,
}

/// The first paths of a kind, and their number.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Named {
    pub(crate) count: usize,
    pub(crate) paths: Vec<String>,
}

impl Named {
    /// Adds a path. The first ones in alphabetical order are kept, in whatever order they are found.
    pub(super) fn add(&mut self, path: &[u8]) {
        self.count += 1;
        let path = crate::clean::summary(&String::from_utf8_lossy(path), 200);
        let at = self.paths.partition_point(|before| *before <= path);
        if at < MAX_NAMED {
            self.paths.insert(at, path);
            self.paths.truncate(MAX_NAMED);
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// The tools of a scan.
pub(super) struct ScanInput<'a> {
    pub(super) agent: &'a AgentId,
    /// The workspace. Its own path is the owner's and may be a link.
    pub(super) workspace: &'a Path,
    pub(super) limits: ScanLimits,
    /// Set to stop the scan.
    pub(super) stop: &'a AtomicBool,
}

impl ScanInput<'_> {
    /// Returns an error if the scan is to be stopped, or if its time is over at `end`.
    pub(super) fn go_on(&self, end: Instant) -> Result<(), CheckpointError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(CheckpointError::Stopped);
        }
        if Instant::now() > end {
            let seconds = self.limits.time.as_secs();
            return Err(self.limit(&format!("reading the workspace takes longer than {seconds} s")));
        }
        Ok(())
    }

    /// Returns the error of a workspace that exceeds a limit.
    pub(super) fn limit(&self, limit: &str) -> CheckpointError {
        CheckpointError::Limit { agent: self.agent.clone(), limit: limit.to_owned() }
    }
}

/// Looks at a workspace, stores what is new, and brings the index up to date. After an error the index knows what was
/// stored until then.
///
/// # Errors
///
/// Returns [`CheckpointError::Limit`] if the workspace exceeds a limit, [`CheckpointError::Stopped`] if the scan was
/// stopped, and another error if a system call fails for a reason that is not the agent's.
pub(super) fn scan(
    input: &ScanInput<'_>,
    objects: &Objects,
    index: &mut Index,
) -> Result<Scan, CheckpointError> {
    let workspace =
        fs_err::canonicalize(input.workspace).map_err(CheckpointError::io("open", input.workspace))?;
    let walked = Walk::new(input, &workspace, objects, index).run()?;
    finish(walked, index)
}

/// Does the same as [`scan`] with a workspace on another machine. `scratch` is a folder of this machine for files that are
/// being transferred.
///
/// # Errors
///
/// Returns the errors of [`scan`], and that of the helper if it does not answer.
pub(super) fn scan_there(
    input: &ScanInput<'_>,
    files: &RemoteFiles,
    objects: &Objects,
    (index, scratch): (&mut Index, &Path),
) -> Result<Scan, CheckpointError> {
    let walked = HelperWalk { input, files, objects, old: index, scratch }.run()?;
    finish(walked, index)
}

fn finish(walked: Walked, index: &mut Index) -> Result<Scan, CheckpointError> {
    let Walked { scan, folders } = walked;
    // What was not reached stays known, so that the next look does not read it again.
    let mut new = Index::of(folders, scan.is_err().then_some(&*index));
    new.keep_stored(index);
    *index = new;
    scan
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;

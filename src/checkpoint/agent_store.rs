//! The checkpoints of one agent on the disk. Everything here blocks, and works under the lock of the agent's
//! checkpoints, which one process at a time holds.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::apply::{self, Place};
use super::content::ContentId;
use super::diff::{Change, diff};
use super::error::CheckpointError;
use super::index::Index;
use super::journal::Journal;
use super::objects::{CLONE_FROM, Objects};
use super::packages;
use super::plan;
use super::record::{CheckpointRecord, Reason, RecordLog, surplus};
use super::room;
use super::scan::{Named, Scan, ScanInput, ScanLimits, scan, scan_there};
use super::tree::{Node, Tree};
use crate::clock::unix_ms;
use crate::config::{Agent, CheckpointSettings};
use crate::error::chain;
use crate::fault_point::{self, FaultPoint};
use crate::home::Home;
use crate::home::beneath::{BeneathError, Root};
use crate::home::elsewhere;
use crate::home::free_space;
use crate::home::lock::Lock;
use crate::home::scratch::{self, ScratchDir};
use crate::home::write_fence::WriteFence;
use crate::id::{AgentId, EngineName};
use crate::sandbox::spec::IDENTITY_FILES;
use crate::sandbox::workspace_files::{WorkspaceFiles, Workspaces};
use crate::sandbox::{usage, workspace, workspace_volume};

/// The name of the file that whoever works on an agent's checkpoints has locked.
const LOCK: &str = "lock";
/// The time limit for waiting for another process that works on the same agent's checkpoints.
const LOCK_TIMEOUT: Duration = Duration::from_secs(180);

/// Returns `true` if somebody works on the checkpoints in this folder now.
pub(super) fn is_in_use(folder: &Path) -> bool {
    Lock::is_held(&folder.join(LOCK)).unwrap_or(false)
}

/// The checkpoints of one agent, locked.
#[derive(Debug)]
pub(super) struct AgentStore {
    pub(super) agent: AgentId,
    pub(super) folder: PathBuf,
    pub(super) objects: Objects,
    pub(super) log: RecordLog,
    workspace: PathBuf,
    identity: PathBuf,
    /// The ways to the workspace, if it is on another machine.
    ways: Workspaces,
    /// Checked before what was stored is named, and before contents are removed.
    fence: WriteFence,
    home: Home,
    settings: CheckpointSettings,
    index: Index,
    /// Returns the free bytes of a folder's disk. Tests have disks of their own.
    pub(super) measure: fn(&Path) -> io::Result<u64>,
    _lock: Lock,
}

/// The tools with which a checkpoint is made.
pub(super) struct NewCheckpoint<'a> {
    pub(super) reason: Reason,
    /// `true` if it gets a number and people can choose it.
    pub(super) is_listed: bool,
    /// Returns `true` if a turn of the agent runs.
    pub(super) is_open: &'a dyn Fn() -> bool,
    pub(super) transcripts: BTreeMap<String, u64>,
    /// Set to stop the look at the workspace.
    pub(super) stop: &'a AtomicBool,
}

impl AgentStore {
    /// Opens an agent's checkpoints and waits for their lock.
    ///
    /// # Errors
    ///
    /// Returns an error if they can't be created or locked.
    pub(super) fn open(
        home: &Home,
        agent: &Agent,
        settings: CheckpointSettings,
    ) -> Result<Self, CheckpointError> {
        use std::os::unix::fs::DirBuilderExt as _;
        let folder = home.checkpoints(&agent.id);
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.map_err(CheckpointError::io("make the folder", &folder))?;
        let lock = Lock::acquire(&folder.join(LOCK), LOCK_TIMEOUT)?;
        let (objects, lost) = Objects::open(&folder)?;
        let path = folder.join(INDEX);
        // The index promises that everything in it is stored.
        if lost {
            drop(fs_err::remove_file(&path));
        }
        Ok(Self {
            agent: agent.id.clone(),
            objects,
            log: RecordLog::new(&folder),
            workspace: agent.workspace.clone(),
            identity: agent.identity.clone(),
            ways: Workspaces::of_this_machine(),
            fence: WriteFence::absent(),
            home: home.clone(),
            settings,
            index: Index::read(&path),
            measure: free_space::measure,
            folder,
            _lock: lock,
        })
    }

    /// Sets the ways to the workspace.
    pub(super) fn reached_by(self, ways: Workspaces) -> Self {
        Self { ways, ..self }
    }

    /// Sets the fence of the checkpoints and of the workspace, which other gateways may write too.
    ///
    /// The lock does not replace it: a file system of another machine takes the lock from a process that was paused for long.
    pub(super) fn fenced(self, fence: WriteFence) -> Self {
        Self { log: self.log.fenced(fence.clone()), fence, ..self }
    }

    /// Looks at the workspace and stores what is new in it.
    ///
    /// # Errors
    ///
    /// Returns an error if the workspace exceeds the limits or can't be read.
    pub(super) fn scan(&mut self, stop: &AtomicBool) -> Result<Scan, CheckpointError> {
        let limits = ScanLimits::with_bytes(self.settings.bytes);
        let far = self.far()?;
        // A large workspace is measured before its first byte is copied.
        if self.index.is_empty() && far.is_none() {
            let used = usage::size(&self.workspace, limits.bytes)
                .map_err(CheckpointError::io("measure", &self.workspace))?;
            if used.bytes > limits.bytes {
                let limit = format!("the workspace uses more than {} bytes", limits.bytes);
                return Err(CheckpointError::Limit { agent: self.agent.clone(), limit });
            }
        }
        let input = ScanInput { agent: &self.agent, workspace: &self.workspace, limits, stop };
        let found = match far.as_ref().and_then(WorkspaceFiles::remote) {
            Some(files) => scan_there(&input, files, &self.objects, (&mut self.index, &self.folder)),
            None => scan(&input, &self.objects, &mut self.index),
        };
        fault_point::reach(FaultPoint::Checkpointing);
        if matches!(found, Err(CheckpointError::Limit { .. })) {
            // Nothing refers to what was copied, and the next look measures first.
            self.index = Index::default();
        }
        self.fence.check()?;
        self.index.write(&self.folder.join(INDEX))?;
        fault_point::reach(FaultPoint::Checkpointing);
        found
    }

    /// Returns the files of the workspace, wherever it is.
    ///
    /// # Errors
    ///
    /// Returns an error if it can't be opened, or if what has it on another machine can't be reached.
    pub(super) fn files(&self) -> Result<WorkspaceFiles, CheckpointError> {
        if let Some(far) = self.far()? {
            return Ok(far);
        }
        let workspace = fs_err::canonicalize(&self.workspace);
        let workspace = workspace.map_err(CheckpointError::io("open", &self.workspace))?;
        Ok(Root::open(&workspace)?.fenced(self.fence.clone()).into())
    }

    /// Returns the paths of a workspace that are flock's own: on another machine it has copies of the identity files, which
    /// are made anew with each container, and on this one placeholders, over which the identity files are mounted.
    pub(super) fn own_paths(&self) -> HashSet<PathBuf> {
        let is_far = elsewhere::engine_of(&self.workspace).is_some();
        let here = fs_err::canonicalize(&self.workspace).ok().and_then(|path| Root::open(&path).ok());
        let is_placeholder = |name: &str| {
            let text = workspace::placeholder(name);
            let found = here.as_ref().and_then(|root| root.read(Path::new(name), text.len() as u64).ok());
            found.is_some_and(|found| found == text.as_bytes())
        };
        let own = IDENTITY_FILES.into_iter().filter(|&name| is_far || is_placeholder(name));
        own.map(PathBuf::from).collect()
    }

    /// Returns `true` if this engine has the workspace, and `false` if it is on this machine.
    ///
    /// # Errors
    ///
    /// Returns an error if another engine has it.
    pub(super) fn is_in(&self, engine: &EngineName) -> Result<bool, CheckpointError> {
        match elsewhere::engine_of(&self.workspace) {
            None => Ok(false),
            Some(found) if found == *engine => Ok(true),
            Some(other) => {
                Err(BeneathError::Elsewhere { path: self.workspace.clone(), engine: other }.into())
            }
        }
    }

    /// Makes a folder beside the workspace, which is in an engine, with the files of a tree. Returns `false` with it if it is
    /// empty, because there is no tree or its files can't be written.
    ///
    /// # Errors
    ///
    /// Returns an error if the folder can't be made.
    pub(super) fn new_folder(&self, tree: Option<ContentId>) -> Result<(ScratchDir, bool), CheckpointError> {
        let above = self.workspace.parent().unwrap_or(&self.workspace);
        let prefix = format!(".{}.restored-", self.agent);
        // Only the holder of this lock makes some, so these are left of processes that were killed.
        let mut left = scratch::names(above);
        left.retain(|name| name.starts_with(&prefix));
        scratch::sweep(above, &left);
        let make = || ScratchDir::make(above, &format!("{prefix}{:016x}", rand::random::<u64>()));
        let folder = make()?;
        let Some(tree) = tree else { return Ok((folder, false)) };
        let Err(error) = self.fill(tree, &folder.path()) else { return Ok((folder, true)) };
        tracing::warn!(agent = %self.agent, error = chain(&error), "a folder could not be filled, and is empty now");
        // First, because the disk may be full.
        drop(folder);
        Ok((make()?, false))
    }

    /// Puts the files of a tree into an empty folder, as a workspace of this machine has them.
    fn fill(&self, tree: ContentId, folder: &Path) -> Result<(), CheckpointError> {
        self.require_room_in(folder, &diff(&self.objects, None, Some(tree))?)?;
        self.extract(tree, folder)?;
        for name in IDENTITY_FILES {
            // On the other machine it was a copy that flock has made.
            let path = folder.join(name);
            workspace_volume::clear(&path).map_err(CheckpointError::io("remove", &path))?;
        }
        let failed = |(path, source)| CheckpointError::Io { verb: "prepare", path, source };
        workspace::prepare(folder, &self.identity).map_err(failed)?;
        let user = workspace::sandbox_user(&self.identity).map_err(failed)?;
        workspace::own(folder, user).map_err(failed)?;
        Ok(Root::open(folder)?.sync_file_system()?)
    }

    /// Checks that the disk of the workspace has room for what changes write. The room on another machine is not known.
    ///
    /// # Errors
    ///
    /// Returns [`CheckpointError::NoRoom`] if it has not, and another error if it can't be measured.
    pub(super) fn require_room(&self, changes: &[Change]) -> Result<(), CheckpointError> {
        match elsewhere::engine_of(&self.workspace) {
            None => self.require_room_in(&self.workspace, changes),
            Some(_) => Ok(()),
        }
    }

    fn require_room_in(&self, folder: &Path, changes: &[Change]) -> Result<(), CheckpointError> {
        // All large contents are in one file system, so what holds for the first holds for the others.
        let mut shares = None;
        let needed = room::needed(changes, |id, size| {
            let is_large = size >= CLONE_FROM;
            match is_large && *shares.get_or_insert_with(|| self.objects.shares_blocks(id, folder)) {
                true => 0,
                false => self.objects.space(id, size),
            }
        });
        // It may be the one that makes room, or one of conversations alone, whose workspace need not be there.
        if needed == 0 {
            return Ok(());
        }
        let free = (self.measure)(folder).map_err(CheckpointError::io("measure the disk of", folder))?;
        room::check(&self.agent, folder, needed, free)
    }

    /// Puts a folder of [`Self::new_folder`] in the place of the workspace.
    ///
    /// # Errors
    ///
    /// Returns an error if this engine does not have the workspace any more, or if the folder can't be moved.
    pub(super) fn abandon(&self, engine: &EngineName, folder: &Path) -> Result<(), CheckpointError> {
        // Once more, because filling the folder may have taken long.
        if !self.is_in(engine)? {
            return Err(CheckpointError::NotLost(self.agent.clone()));
        }
        self.fence.check()?;
        let path = &self.workspace;
        workspace_volume::put_in_place(path, folder).map_err(CheckpointError::io("give up", path))
    }

    /// Makes the placeholders of the identity files in a workspace of this machine, as the next sandbox would. A failure is
    /// logged: that sandbox tries again.
    fn put_placeholders(&self) {
        if elsewhere::engine_of(&self.workspace).is_none()
            && let Err((path, error)) = workspace::prepare(&self.workspace, &self.identity)
        {
            tracing::warn!(path = %path.display(), error = chain(&error), "failed to make a placeholder");
        }
    }

    /// Returns the files of the workspace if it is on another machine.
    fn far(&self) -> Result<Option<WorkspaceFiles>, CheckpointError> {
        if elsewhere::engine_of(&self.workspace).is_none() {
            return Ok(None);
        }
        Ok(Some(self.ways.open(&self.agent, &self.workspace).map_err(BeneathError::from)?))
    }

    /// Makes a checkpoint. One whose files can't be kept is made without them, and says why.
    ///
    /// # Errors
    ///
    /// Returns an error if the record can't be written.
    pub(super) fn make(&mut self, new: NewCheckpoint<'_>) -> Result<CheckpointRecord, CheckpointError> {
        // The moment is that before the look, so nothing of the turn itself counts as earlier.
        let at = unix_ms();
        let found = self.scan(new.stop);
        let (files, problem) = match found {
            Ok(found) => (Some(found), None),
            Err(error) => {
                let problem = chain(&error);
                tracing::warn!(agent = %self.agent, problem, "the files of a checkpoint were not kept");
                (None, Some(problem))
            }
        };
        let number = if new.is_listed { self.log.next_number()? } else { 0 };
        let record = CheckpointRecord {
            number,
            at,
            reason: new.reason,
            entries: files.as_ref().map_or(0, |found| found.entries),
            left_out: files.as_ref().map_or_else(Named::default, |found| found.left_out.clone()),
            unstable: files.as_ref().map_or_else(Named::default, |found| found.unstable.clone()),
            files: files.map(|found| found.tree),
            problem,
            is_open: (new.is_open)(),
            packages: packages::present(&self.home, &self.agent),
            packages_of: packages::stores_of(&self.home),
            transcripts: new.transcripts,
        };
        self.log.append(&record)?;
        fault_point::reach(FaultPoint::Checkpointing);
        Ok(record)
    }

    /// Notes that a turn runs of which no checkpoint is made, so that its changes do not count as somebody else's.
    ///
    /// # Errors
    ///
    /// Returns an error if the records can't be read or written.
    pub(super) fn note_unwatched(&self, reason: Reason) -> Result<(), CheckpointError> {
        self.note_open(reason, "checkpoints of turns are switched off")
    }

    /// Notes that the workspace is given up with its engine, so that what is missing since does not count as removed by
    /// somebody else.
    ///
    /// # Errors
    ///
    /// Returns an error if the records can't be read or written.
    pub(super) fn note_lost(&self, engine: &EngineName) -> Result<(), CheckpointError> {
        self.note_open(Reason::Lost { engine: engine.clone() }, "the engine that had the workspace is gone")
    }

    /// Adds a record without files, after which changes do not count as somebody else's.
    fn note_open(&self, reason: Reason, problem: &str) -> Result<(), CheckpointError> {
        if self.log.newest()?.first().is_none_or(|last| last.is_open) {
            return Ok(());
        }
        self.log.append(&CheckpointRecord {
            number: 0,
            at: unix_ms(),
            reason,
            files: None,
            entries: 0,
            problem: Some(problem.to_owned()),
            left_out: Named::default(),
            unstable: Named::default(),
            is_open: true,
            packages: None,
            packages_of: None,
            transcripts: BTreeMap::new(),
        })
    }

    /// Writes what was added to the disk, and removes the oldest checkpoints if there are too many or they are too
    /// large. Nothing waits for this.
    ///
    /// # Errors
    ///
    /// Returns an error if the store can't be read or written.
    pub(super) fn tidy(&mut self) -> Result<(), CheckpointError> {
        self.objects.sync()?;
        self.prune()
    }

    /// Does the same as [`Self::tidy`], and leaves it to the kernel for a while to write to the disk: after a power cut, what
    /// may be damaged is checked.
    ///
    /// # Errors
    ///
    /// Returns an error if the store can't be read or written.
    pub(super) fn tidy_later(&mut self) -> Result<(), CheckpointError> {
        self.objects.sync_if_old()?;
        self.prune()
    }

    fn prune(&mut self) -> Result<(), CheckpointError> {
        let keep = self.settings.keep;
        let mut records = if self.log.may_have_surplus(keep)? { self.log.read()? } else { Vec::new() };
        let gone = surplus(&records, keep);
        if gone == 0 {
            if !self.may_be_too_large() {
                return Ok(());
            }
            records = self.log.read()?;
        }
        records.drain(..gone);
        let mut used = self.collect(&records, gone > 0)?;
        // The newest two stay: the state now, and the one before it.
        while used > self.settings.bytes && records.iter().filter(|record| record.is_listed()).count() > 2 {
            let gone = surplus(&records, records.iter().filter(|record| record.is_listed()).count() / 2);
            if gone == 0 {
                break;
            }
            records.drain(..gone);
            used = self.collect(&records, true)?;
        }
        let size = used.to_string();
        Ok(crate::home::atomic::write_unsynced(&self.folder.join(SIZE), size.as_bytes(), 0o600)?)
    }

    /// Returns `true` if the store may have grown beyond its limit since it was measured.
    fn may_be_too_large(&self) -> bool {
        let path = self.folder.join(SIZE);
        let known = fs_err::read_to_string(&path).ok().and_then(|text| text.trim().parse::<u64>().ok());
        let used = known.unwrap_or(0).saturating_add(self.objects.added());
        // The sum is kept up to date with a rough number, and measured when that exceeds the limit.
        drop(crate::home::atomic::write_unsynced(&path, used.to_string().as_bytes(), 0o600));
        used > self.settings.bytes
    }

    /// Keeps only these records and the contents that they and the index refer to. Returns the bytes that are used then.
    fn collect(&self, records: &[CheckpointRecord], is_shorter: bool) -> Result<u64, CheckpointError> {
        let mut used: HashSet<ContentId> = self.index.contents().collect();
        for tree in records.iter().filter_map(|record| record.files) {
            mark(&self.objects, tree, &mut used);
        }
        if let Some(journal) = Journal::read(&self.folder)? {
            for tree in journal.files.iter().flat_map(|files| [files.before, files.wanted]) {
                mark(&self.objects, tree, &mut used);
            }
        }
        // The records go first: a killed process leaves contents that nobody refers to, and no record without them.
        if is_shorter {
            self.log.replace(records)?;
            fault_point::reach(FaultPoint::Checkpointing);
        }
        // Finding what is used may have taken long.
        self.fence.check()?;
        let (removed, left) = self.objects.sweep(|id| used.contains(&id))?;
        fault_point::reach(FaultPoint::Checkpointing);
        tracing::debug!(agent = %self.agent, removed, left, "removed contents of old checkpoints");
        Ok(left)
    }

    /// Writes a rewind down, as [`Journal::write`] does.
    ///
    /// # Errors
    ///
    /// Returns [`CheckpointError::CutOff`] if another gateway may have taken over from this one, and another error if it can't be
    /// written.
    pub(super) fn write_journal(&self, journal: &Journal) -> Result<(), CheckpointError> {
        self.fence.check()?;
        journal.write(&self.folder)
    }

    /// Deletes the record of a rewind, as [`Journal::clear`] does.
    ///
    /// # Errors
    ///
    /// Returns [`CheckpointError::CutOff`] if another gateway may have taken over from this one, whose rewind it would be then,
    /// and another error if it can't be removed.
    pub(super) fn clear_journal(&self) -> Result<(), CheckpointError> {
        self.fence.check()?;
        Journal::clear(&self.folder)
    }

    /// Makes the changes of a rewind that is written down, or what is left of them. Returns the paths that were left as
    /// they are, because somebody else has changed them meanwhile.
    ///
    /// # Errors
    ///
    /// Returns an error if the workspace can't be read or changed. The rewind stays written down.
    pub(super) fn complete_files(&mut self, journal: &Journal) -> Result<Vec<PathBuf>, CheckpointError> {
        let Some(files) = &journal.files else { return Ok(Vec::new()) };
        let never = AtomicBool::new(false);
        if journal.lost.is_some() {
            // Without them, the identity files of the other machine would look removed by somebody else.
            self.put_placeholders();
        }
        let place = self.files()?;
        let mut present = self.scan(&never)?.tree;
        if self.sweep(&place, present, journal)? {
            present = self.scan(&never)?.tree;
        }
        let kept: HashSet<PathBuf> = journal.kept().into_iter().collect();
        let (changes, foreign) = plan::remaining(&self.objects, present, files.before, files.wanted, &kept)?;
        // Once more, because others may have filled the disk since this was written down.
        self.require_room(&changes)?;
        let owner = workspace::owner(&self.identity).map_err(|(path, source)| CheckpointError::Io {
            verb: "find the owner in",
            path,
            source,
        })?;
        let drafts = journal.drafts();
        let applied = Place { files: &place, objects: &self.objects, owner, drafts };
        let mut left = apply::apply(&applied, &changes)?;
        place.sync()?;
        fault_point::reach(FaultPoint::Rewinding);
        left.extend(foreign);
        Ok(left)
    }

    /// Removes files that an interrupted rewind has not completed. Returns `true` if there were any.
    fn sweep(
        &self,
        files: &WorkspaceFiles,
        present: ContentId,
        journal: &Journal,
    ) -> Result<bool, CheckpointError> {
        // Earlier versions of flock have begun rewinds with the other name.
        let prefixes =
            [WorkspaceFiles::draft_prefix(journal.drafts()), format!(".flock-rewind-{}-", journal.id)];
        let mut found = Vec::new();
        temporary(&self.objects, present, &mut PathBuf::new(), &prefixes, &mut found)?;
        for path in &found {
            let above = path.parent().unwrap_or(Path::new(""));
            let mode = files.mode(above)?;
            if mode & 0o300 != 0o300 {
                files.set_mode(above, mode | 0o700)?;
            }
            files.remove(path)?;
        }
        Ok(!found.is_empty())
    }

    /// Writes the end of a rewind into the records: the state that it has made, and the present one if something was changed
    /// meanwhile, by somebody else or, if `is_open` is set, by a turn of the agent that runs.
    ///
    /// # Errors
    ///
    /// Returns an error if the workspace can't be read or the records can't be written.
    pub(super) fn note_rewound(&mut self, journal: &Journal, is_open: bool) -> Result<(), CheckpointError> {
        let Some(files) = &journal.files else { return Ok(()) };
        let never = AtomicBool::new(false);
        let scan = self.scan(&never)?;
        let mut record = CheckpointRecord {
            number: 0,
            at: unix_ms(),
            reason: Reason::Rewound,
            files: Some(files.wanted),
            entries: scan.entries,
            problem: None,
            left_out: scan.left_out,
            unstable: scan.unstable,
            is_open,
            packages: packages::present(&self.home, &self.agent),
            packages_of: packages::stores_of(&self.home),
            transcripts: BTreeMap::new(),
        };
        self.log.append(&record)?;
        if scan.tree != files.wanted {
            record.files = Some(scan.tree);
            self.log.append(&record)?;
        }
        Ok(())
    }

    /// Returns the record with this number and its place, or the newest one that `is_wanted` accepts.
    ///
    /// # Errors
    ///
    /// Returns [`CheckpointError::Unknown`] or [`CheckpointError::None`] if there is none.
    pub(super) fn find(
        &self,
        records: &[CheckpointRecord],
        number: Option<u64>,
        is_wanted: impl Fn(&CheckpointRecord) -> bool,
    ) -> Result<usize, CheckpointError> {
        let found = records.iter().rposition(|record| match number {
            Some(number) => record.is_listed() && record.number == number,
            None => record.is_listed() && is_wanted(record),
        });
        found.ok_or_else(|| match number {
            Some(number) => CheckpointError::Unknown { agent: self.agent.clone(), number },
            None => CheckpointError::None(self.agent.clone()),
        })
    }

    /// Returns the number of different paths between two records, if both have files.
    pub(super) fn count_changes(&self, one: Option<ContentId>, other: Option<ContentId>) -> Option<usize> {
        diff(&self.objects, Some(one?), Some(other?)).ok().map(|changes| changes.len())
    }

    /// Puts the files of a tree into an empty folder.
    ///
    /// # Errors
    ///
    /// Returns an error if a content is missing or a file can't be made.
    pub(super) fn extract(&self, tree: ContentId, to: &Path) -> Result<(), CheckpointError> {
        let root = Root::open(to)?;
        extract(&self.objects, &root, tree, &mut PathBuf::new())
    }
}

const INDEX: &str = "index";
const SIZE: &str = "size";

/// Adds a tree and everything below it. A missing one is passed over: it is reported when it is needed.
fn mark(objects: &Objects, tree: ContentId, used: &mut HashSet<ContentId>) {
    // A tree that is in the set already was followed, unless it is only the index that refers to it.
    let mut stack = vec![tree];
    let mut seen = HashSet::new();
    while let Some(id) = stack.pop() {
        used.insert(id);
        if !seen.insert(id) {
            continue;
        }
        match objects.tree(id) {
            Ok(Tree::Parts(parts)) => stack.extend(parts),
            Ok(Tree::Entries(entries)) => {
                for entry in entries {
                    match entry.node {
                        Node::File { content, .. } => {
                            used.insert(content);
                        }
                        Node::Folder { tree, .. } => stack.push(tree),
                        Node::Link { .. } => {}
                    }
                }
            }
            Err(_) => {}
        }
    }
}

/// Finds the files whose names begin with one of the prefixes.
fn temporary(
    objects: &Objects,
    tree: ContentId,
    path: &mut PathBuf,
    prefixes: &[String],
    found: &mut Vec<PathBuf>,
) -> Result<(), CheckpointError> {
    use std::os::unix::ffi::OsStrExt as _;
    for entry in objects.folder(tree)? {
        path.push(std::ffi::OsStr::from_bytes(&entry.name));
        match entry.node {
            Node::Folder { tree, .. } => temporary(objects, tree, path, prefixes, found)?,
            _ if prefixes.iter().any(|prefix| entry.name.starts_with(prefix.as_bytes())) => {
                found.push(path.clone());
            }
            _ => {}
        }
        path.pop();
    }
    Ok(())
}

fn extract(
    objects: &Objects,
    root: &Root,
    tree: ContentId,
    path: &mut PathBuf,
) -> Result<(), CheckpointError> {
    use std::os::unix::ffi::OsStrExt as _;
    for entry in objects.folder(tree)? {
        path.push(std::ffi::OsStr::from_bytes(&entry.name));
        match entry.node {
            Node::Folder { mode, tree } => {
                root.create_dir(path, None)?;
                extract(objects, root, tree, path)?;
                root.set_mode(path, mode)?;
            }
            Node::File { mode, size, content } => {
                objects.clone_to(content, size, &root.create_file(path, None)?)?;
                root.set_mode(path, mode)?;
            }
            Node::Link { target } => root.link(path, Path::new(std::ffi::OsStr::from_bytes(&target)))?,
        }
        path.pop();
    }
    Ok(())
}

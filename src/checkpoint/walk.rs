//! Walks through the folders of a workspace with several threads.
//!
//! A folder is done once everything in it is done. Whoever does the last of it stores its tree, and with that perhaps the
//! last of the folder above. So nobody waits for another thread as long as there is work.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Instant, SystemTime};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, readlinkat};
use nix::sys::stat::{FileStat, SFlag, fstat, fstatat};

use super::content::ContentId;
use super::error::CheckpointError;
use super::index::{Index, IndexedFile, NewFolder, Stamp, find};
use super::objects::Objects;
use super::scan::{Named, Scan, ScanInput};
use super::tree::{Node, TreeEntry};
use crate::home::unlocked::{Unlocked, names, open_file};
use crate::sync::lock;

/// The age up to which a file's times do not prove that it is unchanged: two ticks of a slow kernel clock.
pub(super) const RACY: i64 = 20_000_000;
/// Number of times that a file is read which changes meanwhile.
pub(super) const READS: usize = 3;
/// The longest path that the kernel accepts.
const MAX_PATH: usize = 4_000;
/// The least number of entries of one folder that are a task of their own.
const CHUNK: usize = 256;
/// The most tasks that the entries of one folder are divided into.
const CHUNKS: usize = 16;

/// A walk through a workspace.
pub(super) struct Walk<'a> {
    input: &'a ScanInput<'a>,
    workspace: &'a Path,
    objects: &'a Objects,
    old: &'a Index,
    device: u64,
    user: u32,
    end: Instant,
    /// A file that was changed after this moment is not trusted next time.
    racy_from: i64,
    queue: Queue,
    /// Names that were found so far.
    names: AtomicUsize,
    bytes: AtomicU64,
    /// Set after the first error.
    has_failed: AtomicBool,
    results: Mutex<Results>,
}

/// The findings of the threads of a walk.
#[derive(Default)]
struct Results {
    tree: Option<ContentId>,
    error: Option<CheckpointError>,
    entries: usize,
    left_out: Named,
    unstable: Named,
    folders: Vec<NewFolder>,
}

/// The findings of a walk.
pub(super) struct Walked {
    pub(super) scan: Result<Scan, CheckpointError>,
    /// The folders that are done, also after an error.
    pub(super) folders: Vec<NewFolder>,
}

/// A folder in which something is still to be done. The last of its owners stores it.
struct Level {
    folder: Unlocked,
    /// The path in the workspace.
    path: Vec<u8>,
    depth: usize,
    mode: u32,
    names: Vec<CString>,
    /// The finding under each name.
    found: Mutex<Vec<Option<Found>>>,
    /// The folder above, and the place of this one in it.
    above: Option<(Arc<Self>, usize)>,
}

/// The finding under a name.
struct Found {
    node: Node,
    /// The facts about a regular file that the index needs.
    file: Option<(Stamp, bool)>,
}

/// The type of an entry of a folder.
enum Entry {
    Found(Found),
    /// A folder, with its permissions.
    Folder(u32),
    /// It is gone, or is nothing that can be kept.
    Nothing,
}

/// Something that one thread does.
enum Task {
    /// Look at some of the entries of a folder.
    Entries(Arc<Level>, Range<usize>),
    /// Look into a folder with these permissions, which has this place in another one.
    Folder(Arc<Level>, usize, u32),
}

impl<'a> Walk<'a> {
    /// Prepares a walk. `old` is what is known from the last one.
    pub(super) fn new(
        input: &'a ScanInput<'a>,
        workspace: &'a Path,
        objects: &'a Objects,
        old: &'a Index,
    ) -> Self {
        Self {
            input,
            workspace,
            objects,
            old,
            device: 0,
            user: 0,
            end: Instant::now() + input.limits.time,
            racy_from: now().saturating_sub(RACY),
            queue: Queue::default(),
            names: AtomicUsize::new(0),
            bytes: AtomicU64::new(0),
            has_failed: AtomicBool::new(false),
            results: Mutex::default(),
        }
    }

    /// Walks through everything.
    ///
    /// # Errors
    ///
    /// Returns an error if the workspace can't be opened.
    pub(super) fn run(mut self) -> Result<Walked, CheckpointError> {
        let failed = |errno: Errno| CheckpointError::io("open", self.workspace)(errno.into());
        let root = Unlocked::open(self.workspace).map_err(failed)?;
        let found = fstat(&root.folder).map_err(failed)?;
        (self.device, self.user) = (found.st_dev, found.st_uid);
        self.level(root, Vec::new(), 1, (permissions(&found), None));
        // Nobody helps with a small workspace.
        let helpers = self.input.limits.threads.saturating_sub(1).min(self.queue.len());
        std::thread::scope(|scope| {
            for _ in 0..helpers {
                scope.spawn(|| self.work());
            }
            self.work();
        });
        let Results { tree, error, entries, left_out, unstable, folders } =
            self.results.into_inner().unwrap_or_else(PoisonError::into_inner);
        let scan = match (tree, error) {
            (Some(tree), None) => Ok(Scan { tree, entries, left_out, unstable }),
            (_, error) => Err(error.unwrap_or(CheckpointError::Stopped)),
        };
        Ok(Walked { scan, folders })
    }

    /// Does tasks until there are none.
    fn work(&self) {
        while let Some((task, _working)) = self.queue.take() {
            match task {
                Task::Entries(level, range) => {
                    self.note(self.entries(&level, range));
                    self.finish(level);
                }
                Task::Folder(level, place, mode) => {
                    self.note(self.folder(&level, place, mode));
                    self.finish(level);
                }
            }
        }
    }

    /// Keeps the first error. Nothing more is done after it. An error is noted before the share of its folder is given up,
    /// so that no folder is stored of which a part is missing.
    fn note(&self, done: Result<(), CheckpointError>) {
        if let Err(error) = done {
            let mut results = lock(&self.results);
            results.error.get_or_insert(error);
            self.has_failed.store(true, Ordering::Release);
        }
    }

    /// Begins with an open folder.
    fn level(
        &self,
        folder: Unlocked,
        path: Vec<u8>,
        depth: usize,
        (mode, above): (u32, Option<(Arc<Level>, usize)>),
    ) {
        let names = match self.listed(&folder, &path) {
            Ok(names) => names,
            Err(error) => return self.note(Err(error)),
        };
        let count = names.len();
        let found = Mutex::new(std::iter::repeat_with(|| None).take(count).collect());
        let level = Arc::new(Level { folder, path, depth, mode, names, found, above });
        // Others may help with a large folder.
        let length = count.div_ceil(CHUNKS).max(CHUNK);
        let rest = (length..count).step_by(length).rev();
        self.queue.put(
            rest.map(|from| Task::Entries(Arc::clone(&level), from..count.min(from.saturating_add(length)))),
        );
        self.note(self.entries(&level, 0..count.min(length)));
        self.finish(level);
    }

    /// Returns the names in a folder, unless there are too many.
    fn listed(&self, folder: &Unlocked, path: &[u8]) -> Result<Vec<CString>, CheckpointError> {
        let names = names(&folder.folder).map_err(|errno| self.failed(path, errno))?;
        let most = self.input.limits.entries;
        if self.names.fetch_add(names.len(), Ordering::Relaxed) + names.len() > most {
            return Err(self.input.limit(&format!("the workspace has more than {most} files and folders")));
        }
        Ok(names)
    }

    /// Looks at some of the entries of a folder.
    fn entries(&self, level: &Arc<Level>, range: Range<usize>) -> Result<(), CheckpointError> {
        let before = self.old.folder(&level.path);
        let mut known = before.as_ref().map(|folder| folder.files().peekable());
        let (mut found, mut inner) = (Vec::with_capacity(range.len()), Vec::new());
        let mut path = level.path.clone();
        let mut bytes = 0;
        let first = range.start;
        for (at, name) in level.names.iter().enumerate().take(range.end).skip(first) {
            if at == first || at.is_multiple_of(64) {
                self.go_on()?;
            }
            let file = known.as_mut().and_then(|known| find(known, name.as_bytes()));
            extend(&mut path, level.path.len(), name);
            if path.len() > MAX_PATH {
                return Err(self.input.limit("a path in the workspace is too long"));
            }
            found.push(match self.entry(level, name, &path, (file, &mut bytes))? {
                Entry::Found(found) => Some(found),
                Entry::Folder(mode) => {
                    inner.push((at, mode));
                    None
                }
                Entry::Nothing => None,
            });
        }
        self.used(bytes, true)?;
        let mut all = lock(&level.found);
        for (place, found) in all.iter_mut().skip(first).zip(found) {
            *place = found;
        }
        drop(all);
        // The last one is taken first.
        let inner = inner.into_iter().rev();
        self.queue.put(inner.map(|(at, mode)| Task::Folder(Arc::clone(level), at, mode)));
        Ok(())
    }

    /// Looks at an entry, and stores it if it is no folder. `bytes` is what other entries use that are not counted yet.
    fn entry(
        &self,
        level: &Level,
        name: &CString,
        path: &[u8],
        (known, bytes): (Option<IndexedFile<'_>>, &mut u64),
    ) -> Result<Entry, CheckpointError> {
        let above = level.folder.folder.as_fd();
        let found = match fstatat(above, name.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(found) => found,
            Err(Errno::ENOENT) => return Ok(Entry::Nothing),
            Err(errno) => return Err(self.failed(path, errno)),
        };
        if found.st_dev != self.device {
            return Ok(self.left_out(path));
        }
        match SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT {
            SFlag::S_IFREG => {
                *bytes += u64::try_from(found.st_blocks).unwrap_or(0).saturating_mul(512);
                self.used(*bytes, false)?;
                let stamp = Stamp::of(&found);
                if let Some(known) = known.filter(|known| known.is_trusted && known.stamp == stamp) {
                    let (mode, content) = (permissions(&found), known.content);
                    let node = Node::File { mode, size: stamp.size, content };
                    return Ok(Entry::Found(Found { node, file: Some((stamp, true)) }));
                }
                self.read(level, name, path)
            }
            SFlag::S_IFDIR => Ok(Entry::Folder(permissions(&found))),
            SFlag::S_IFLNK => match readlinkat(above, name.as_c_str()) {
                Ok(target) => {
                    let node = Node::Link { target: target.into_vec() };
                    Ok(Entry::Found(Found { node, file: None }))
                }
                // It is gone, or is no link any more.
                Err(Errno::ENOENT | Errno::EINVAL) => Ok(Entry::Nothing),
                Err(errno) => Err(self.failed(path, errno)),
            },
            _ => Ok(self.left_out(path)),
        }
    }

    /// Looks into a folder.
    fn folder(&self, level: &Arc<Level>, place: usize, mode: u32) -> Result<(), CheckpointError> {
        if level.depth >= self.input.limits.depth {
            return Err(self.input.limit("the folders of the workspace are nested too deep"));
        }
        let Some(name) = level.names.get(place) else { return Ok(()) };
        let mut path = level.path.clone();
        extend(&mut path, level.path.len(), name);
        match Unlocked::open_below(level.folder.folder.as_fd(), name, self.user) {
            Ok(inner) => {
                let mode = inner.before.map_or(mode, |before| before & 0o777);
                self.level(inner, path, level.depth + 1, (mode, Some((Arc::clone(level), place))));
                Ok(())
            }
            Err(Errno::ENOENT) => Ok(()),
            // It became something else, is mounted, or belongs to another user who keeps everybody out.
            Err(Errno::ENOTDIR | Errno::ELOOP | Errno::EXDEV | Errno::EACCES | Errno::EPERM) => {
                self.left_out(&path);
                Ok(())
            }
            Err(errno) => Err(self.failed(&path, errno)),
        }
    }

    /// Gives up a share of a folder. The last one stores it.
    fn finish(&self, level: Arc<Level>) {
        let mut level = level;
        while let Some(done) = Arc::into_inner(level) {
            // Tasks that nobody does after an error give up their shares, too.
            if self.has_failed.load(Ordering::Acquire) {
                return;
            }
            let Level { folder, path, mode, names, found, above, .. } = done;
            drop(folder);
            let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
            let mut entries = Vec::with_capacity(names.len());
            let before = self.old.folder(&path).map(|folder| folder.tree);
            let mut new = NewFolder::new(path, ContentId([0; 32]), names.len());
            for (name, found) in names.into_iter().zip(found) {
                let Some(Found { node, file }) = found else { continue };
                let name = name.into_bytes();
                if let (Node::File { content, .. }, Some((stamp, is_trusted))) = (&node, file) {
                    new.add(&IndexedFile { name: &name, stamp, content: *content, is_trusted });
                }
                entries.push(TreeEntry { name, node });
            }
            let tree = match self.objects.put_folder(&entries, before) {
                Ok(tree) => tree,
                Err(error) => return self.note(Err(error)),
            };
            new.tree = tree;
            let mut results = lock(&self.results);
            results.entries += entries.len();
            results.folders.push(new);
            let Some((next, place)) = above else {
                results.tree = Some(tree);
                return;
            };
            drop(results);
            if let Some(place) = lock(&next.found).get_mut(place) {
                *place = Some(Found { node: Node::Folder { mode, tree }, file: None });
            }
            level = next;
        }
    }

    /// Reads a file and stores its content. A file that changes meanwhile is read again.
    fn read(&self, level: &Level, name: &CString, path: &[u8]) -> Result<Entry, CheckpointError> {
        for attempt in 1..=READS {
            let file = match open_file(level.folder.folder.as_fd(), name, self.user) {
                Ok(file) => file,
                Err(Errno::ENOENT) => return Ok(Entry::Nothing),
                Err(Errno::ELOOP | Errno::ENXIO | Errno::EACCES | Errno::EPERM | Errno::EINVAL) => break,
                Err(errno) => return Err(self.failed(path, errno)),
            };
            let look = |file: &File| fstat(file).map_err(|errno| self.failed(path, errno));
            let stat = look(&file)?;
            let before = Stamp::of(&stat);
            let content = match self.objects.put_file(&file, before.size, || self.go_on()) {
                Ok(content) => content,
                // It was cut short while it was read.
                Err(CheckpointError::Io { source, .. }) if source.kind() == io::ErrorKind::UnexpectedEof => {
                    continue;
                }
                Err(error) => return Err(error),
            };
            let after = Stamp::of(&look(&file)?);
            let is_stable = before == after;
            if !is_stable && attempt < READS {
                continue;
            }
            if !is_stable {
                lock(&self.results).unstable.add(path);
            }
            let is_trusted = is_stable && after.changed.max(after.modified) < self.racy_from;
            let node = Node::File { mode: permissions(&stat), size: before.size, content };
            return Ok(Entry::Found(Found { node, file: Some((after, is_trusted)) }));
        }
        Ok(self.left_out(path))
    }

    fn left_out(&self, path: &[u8]) -> Entry {
        lock(&self.results).left_out.add(path);
        Entry::Nothing
    }

    /// Looks if all files together use more than the limit. `bytes` is what was found since the last count.
    fn used(&self, bytes: u64, is_counted: bool) -> Result<(), CheckpointError> {
        let before = if is_counted {
            self.bytes.fetch_add(bytes, Ordering::Relaxed)
        } else {
            self.bytes.load(Ordering::Relaxed)
        };
        let most = self.input.limits.bytes;
        if before.saturating_add(bytes) > most {
            return Err(self.input.limit(&format!("the workspace uses more than {most} bytes")));
        }
        Ok(())
    }

    /// Returns an error if the walk is to be stopped, or takes too long.
    fn go_on(&self) -> Result<(), CheckpointError> {
        if self.has_failed.load(Ordering::Relaxed) {
            return Err(CheckpointError::Stopped);
        }
        self.input.go_on(self.end)
    }

    fn failed(&self, path: &[u8], errno: Errno) -> CheckpointError {
        let path = self.workspace.join(PathBuf::from(std::ffi::OsString::from_vec(path.to_owned())));
        CheckpointError::io("read", &path)(errno.into())
    }
}

/// Makes `path` that of an entry of the folder whose path is its first `above` bytes.
fn extend(path: &mut Vec<u8>, above: usize, name: &CString) {
    path.truncate(above);
    if above > 0 {
        path.push(b'/');
    }
    path.extend(name.as_bytes());
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// Returns the permissions that a checkpoint keeps. A sandbox can't set the other bits.
fn permissions(stat: &FileStat) -> u32 {
    stat.st_mode & 0o777
}

/// The tasks that nobody does yet. The newest is taken first, so that few folders are open at the same time.
#[derive(Default)]
struct Queue {
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    tasks: Vec<Task>,
    /// Threads that do a task, which may give more.
    working: usize,
}

impl Queue {
    fn len(&self) -> usize {
        lock(&self.state).tasks.len()
    }

    fn put(&self, tasks: impl ExactSizeIterator<Item = Task>) {
        if tasks.len() > 0 {
            lock(&self.state).tasks.extend(tasks);
            self.changed.notify_all();
        }
    }

    /// Waits for a task. Returns `None` once there are no more.
    fn take(&self) -> Option<(Task, Working<'_>)> {
        let mut state = lock(&self.state);
        loop {
            if let Some(task) = state.tasks.pop() {
                state.working += 1;
                return Some((task, Working(self)));
            }
            if state.working == 0 {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A task is being done. Its end is noticed even if its thread panics.
struct Working<'a>(&'a Queue);

impl Drop for Working<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.working -= 1;
        let is_over = state.working == 0 && state.tasks.is_empty();
        drop(state);
        if is_over {
            self.0.changed.notify_all();
        }
    }
}

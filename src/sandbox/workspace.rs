//! Prepares the workspace on the host before its container is created: the folder exists, has its identity files, and
//! belongs to the user that the sandbox runs as.
//!
//! An agent wrote the contents of the workspace, so a symbolic link in it may point anywhere. The code here never
//! follows one. It walks from open folder to open folder, so that a folder replaced by a link in the meantime leads
//! nowhere.

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nix::dir::Dir;
use nix::fcntl::AtFlags;
use nix::sys::stat::{FileStat, SFlag, fstatat};
use nix::unistd::{Gid, Uid, fchownat};

use sha2::{Digest as _, Sha256};

use crate::home::beneath::{BeneathError, FileKind, Owner, Root};
use crate::home::{HomeError, atomic};
use crate::sandbox::listing;
use crate::sandbox::program_mounts::ProgramMount;
use crate::sandbox::spec::{IDENTITY_FILES, IdentityMount, SandboxUser};

/// The common user of the sandboxes if flock runs as root, because root in a container is root on the host's files. It
/// was used for all agents before each agent got its own user. It is still used for agents that only OpenClaw knows.
pub(crate) const SHARED_USER: SandboxUser = SandboxUser { uid: 10001, gid: 10001 };

/// The range of users for sandboxes if flock runs as root. Each agent has its own, because the kernel limits some
/// resources by user, such as inotify instances, and one agent could use them up for all others.
const UID_RANGE: std::ops::Range<u32> = 20_000..30_000;

/// Returns the user of a sandbox that belongs to no agent of this home.
#[must_use]
pub(crate) fn process_user() -> SandboxUser {
    let (uid, gid) = (Uid::effective(), Gid::effective());
    if uid.is_root() { SHARED_USER } else { SandboxUser { uid: uid.as_raw(), gid: gid.as_raw() } }
}

/// Returns the user of an agent's sandbox, given the agent's identity folder. If flock runs as root, the agent gets a
/// user of its own, chosen once and recorded beside that folder. Otherwise it is the user that runs flock.
///
/// # Errors
///
/// Returns the path that could not be created, locked, read or written, with the cause. Fails as well if every user of
/// the range is taken.
pub fn sandbox_user(identity: &Path) -> Result<SandboxUser, (PathBuf, io::Error)> {
    if !Uid::effective().is_root() {
        return Ok(process_user());
    }
    let agent = identity.parent().unwrap_or(identity);
    let record = agent.join(UID_FILE);
    let failed = |error: HomeError| (record.clone(), io::Error::other(error));
    if let Some(uid) = recorded_uid(&record).map_err(failed)? {
        return Ok(SandboxUser { uid, gid: uid });
    }
    let above = agent.parent().unwrap_or(agent);
    fs_err::create_dir_all(agent).map_err(at(agent))?;
    // The users of agents and of MCP servers come from one range. All of them are chosen under the lock of the agents.
    let is_server = above.file_name().is_some_and(|name| name == SERVERS);
    let agents = &if is_server { above.with_file_name(AGENTS) } else { above.to_owned() };
    fs_err::create_dir_all(agents).map_err(at(agents))?;
    let servers = &agents.with_file_name(SERVERS);
    // Two processes may create sandboxes of the same home at once. The lock is released when the descriptor is closed.
    let lock = std::fs::File::open(agents).and_then(|folder| folder.lock().map(|()| folder));
    let _lock = lock.map_err(at(agents))?;
    // Another process may have written the record between the first read and the lock.
    if let Some(uid) = recorded_uid(&record).map_err(failed)? {
        return Ok(SandboxUser { uid, gid: uid });
    }
    let mut taken = users(agents).map_err(at(agents))?;
    if servers.is_dir() {
        taken.extend(users(servers).map_err(at(servers))?);
    }
    let uid = free_uid(agent, &taken)
        .ok_or_else(|| (record.clone(), io::Error::other("every user of the range is taken")))?;
    atomic::write(&record, format!("{uid}\n").as_bytes(), 0o600).map_err(failed)?;
    Ok(SandboxUser { uid, gid: uid })
}

/// Returns the owner for files that flock creates for an agent's sandbox, or `None` if they belong to the right user
/// already because flock does not run as root.
///
/// # Errors
///
/// Fails under the same conditions as [`sandbox_user`].
pub fn owner(identity: &Path) -> Result<Option<Owner>, (PathBuf, io::Error)> {
    let user = sandbox_user(identity)?;
    Ok(Uid::effective().is_root().then_some((user.uid, user.gid)))
}

/// Adds the path to an error.
fn at(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> (PathBuf, io::Error) {
    let path = path.into();
    move |error| (path, error)
}

/// Returns the recorded user of an agent. A number outside the range counts as no record, so that a damaged file cannot
/// select root.
fn recorded_uid(record: &Path) -> Result<Option<u32>, HomeError> {
    let bytes = atomic::read(record, 64)?;
    let uid = bytes.and_then(|bytes| std::str::from_utf8(&bytes).ok()?.trim().parse().ok());
    Ok(uid.filter(|uid| UID_RANGE.contains(uid)))
}

/// The names of the folders of the agents and of the MCP servers in the home.
const AGENTS: &str = "agents";
const SERVERS: &str = "mcp";

/// Returns the users of all agents, or of all MCP servers, of a home.
fn users(agents: &Path) -> io::Result<HashSet<u32>> {
    let mut taken = HashSet::new();
    for entry in fs_err::read_dir(agents)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            taken.extend(recorded_uid(&entry.path().join(UID_FILE)).map_err(io::Error::other)?);
        }
    }
    Ok(taken)
}

/// Returns the first free user. The search starts at a number derived from the agent's path, so that the agents of
/// another home start elsewhere.
fn free_uid(agent: &Path, taken: &HashSet<u32>) -> Option<u32> {
    let digest = Sha256::digest(agent.as_os_str().as_encoded_bytes());
    let [a, b, c, d, ..] = *digest.as_slice() else { return None };
    let (count, first) = (UID_RANGE.end - UID_RANGE.start, u32::from_be_bytes([a, b, c, d]));
    // A user of another account on this machine would give that account the agent's files.
    (0..count)
        .map(|step| UID_RANGE.start + (first % count + step) % count)
        .find(|uid| !taken.contains(uid) && !has_account(*uid))
}

/// Returns `true` if an account of the machine has this user id.
fn has_account(uid: u32) -> bool {
    nix::unistd::User::from_uid(Uid::from_raw(uid)).is_ok_and(|found| found.is_some())
}

/// Name of the file beside an agent's identity folder that holds the agent's user id.
const UID_FILE: &str = "uid";

/// Creates the workspace if it is missing and returns its path with all symbolic links resolved. It creates nothing
/// inside, because the folder has not been checked yet.
///
/// # Errors
///
/// Returns the path that could not be created or resolved, with the cause.
pub fn locate(path: &Path) -> Result<PathBuf, (PathBuf, io::Error)> {
    fs_err::create_dir_all(path).and_then(|()| fs_err::canonicalize(path)).map_err(at(path))
}

/// Creates the missing identity files, empty, and returns all of them. In a workspace found by [`locate`] it also
/// creates a placeholder for each. The identity file is mounted over the placeholder, whose text says so.
///
/// The mounted files lie outside the workspace. An agent therefore cannot replace one by a symbolic link to a file of
/// the host, and an editor that renames a new file into place does not remove the mount.
///
/// # Errors
///
/// Returns the path that could not be created or read, with the cause.
pub(crate) fn prepare(
    workspace: &Path,
    identity_folder: &Path,
) -> Result<Vec<IdentityMount>, (PathBuf, io::Error)> {
    let identity = prepare_identity(identity_folder)?;
    ensure_files(workspace, placeholder)?;
    Ok(identity)
}

/// Creates the missing identity files, empty, and returns all of them.
///
/// # Errors
///
/// Returns the path that could not be created or read, with the cause.
pub(crate) fn prepare_identity(folder: &Path) -> Result<Vec<IdentityMount>, (PathBuf, io::Error)> {
    fs_err::create_dir_all(folder).map_err(at(folder))?;
    ensure_files(folder, |_| String::new())?;
    identity(folder)
}

fn ensure_files(folder: &Path, text: impl Fn(&str) -> String) -> Result<(), (PathBuf, io::Error)> {
    let root = Root::open(folder).map_err(|error| (folder.to_owned(), io::Error::other(error)))?;
    for name in IDENTITY_FILES {
        ensure_file(&root, name, &text(name)).map_err(at(folder.join(name)))?;
    }
    Ok(())
}

/// Creates flock's own folders and files that are mounted for an agent program. In a workspace found by [`locate`] it
/// also creates the mount points that they cover.
///
/// # Errors
///
/// Returns the path that could not be created, with the cause.
pub fn fit(
    workspace: &Path,
    fittings: &[ProgramMount],
    owner: Option<Owner>,
) -> Result<(), (PathBuf, io::Error)> {
    let root = |path: &Path| Root::open(path).map_err(|error| (path.to_owned(), io::Error::other(error)));
    for fitting in fittings {
        match fitting {
            ProgramMount::Part { .. } | ProgramMount::Fetched { .. } => {}
            ProgramMount::State(path) => writable(path, owner)?,
            ProgramMount::Turn(path) | ProgramMount::Secrets(path) => {
                fs_err::create_dir_all(path).and_then(|()| make_readable(path, 0o755)).map_err(at(path))?;
            }
            ProgramMount::Cover { source, name, is_folder } => {
                let folder = if *is_folder { Some(source.as_path()) } else { source.parent() };
                if let Some(folder) = folder {
                    fs_err::create_dir_all(folder).map_err(at(folder))?;
                }
                if !*is_folder && !source.exists() {
                    fs_err::write(source, b"").map_err(at(source))?;
                }
                let mode = if *is_folder { 0o755 } else { 0o644 };
                make_readable(source, mode).map_err(at(source))?;
                let root = root(workspace)?;
                let made = if *is_folder { ensure_folder(&root, name) } else { ensure_file(&root, name, "") };
                made.map_err(at(workspace.join(name)))?;
            }
        }
    }
    Ok(())
}

/// Makes a path readable for the sandbox's user, whatever this process's umask is. The home's own permissions keep
/// everybody else out.
fn make_readable(path: &Path, mode: u32) -> io::Result<()> {
    fs_err::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

/// Creates a folder of flock's that a sandbox may write to, and gives its user the right to do so again: the user could
/// have removed its own permissions.
///
/// # Errors
///
/// Returns the path with the cause if the folder cannot be created or changed.
pub fn writable(path: &Path, owner: Option<Owner>) -> Result<(), (PathBuf, io::Error)> {
    let made = || {
        fs_err::create_dir_all(path)?;
        if let Some((uid, gid)) = owner
            && fs_err::metadata(path)?.uid() != uid
        {
            // The folder is new, or from a version in which agents had no user of their own.
            chown_recursive(listing::open(nix::fcntl::AT_FDCWD, path)?.as_fd(), SandboxUser { uid, gid })?;
        }
        fs_err::set_permissions(path, std::fs::Permissions::from_mode(0o755))
    };
    made().map_err(at(path))
}

/// Gives a workspace and everything in it to the sandbox's user. Does nothing unless flock runs as root.
///
/// # Errors
///
/// Returns the path with the cause if the folder cannot be opened or an owner cannot be changed.
pub fn own(path: &Path, user: SandboxUser) -> Result<(), (PathBuf, io::Error)> {
    if !Uid::effective().is_root() {
        return Ok(());
    }
    let owned = || {
        let path = fs_err::canonicalize(path)?;
        chown_recursive(listing::open(nix::fcntl::AT_FDCWD, path.as_path())?.as_fd(), user)
    };
    owned().map_err(at(path))
}

/// Returns the current identity files of an agent.
///
/// # Errors
///
/// Returns the path of a file that is missing or is not a regular file, with the cause.
pub(crate) fn identity(path: &Path) -> Result<Vec<IdentityMount>, (PathBuf, io::Error)> {
    let mut files = Vec::with_capacity(IDENTITY_FILES.len());
    for name in IDENTITY_FILES {
        let file = path.join(name);
        match fs_err::symlink_metadata(&file) {
            Ok(found) if found.is_file() => {
                files.push(IdentityMount { name: name.to_owned(), inode: found.ino() });
            }
            Ok(_) => return Err((file, io::Error::other("it is not a file"))),
            Err(error) => return Err((file, error)),
        }
    }
    Ok(files)
}

/// Returns the text of the workspace file over which an identity file is mounted. Only people who look at the workspace
/// on the host see it.
#[must_use]
pub(crate) fn placeholder(name: &str) -> String {
    format!(
        "This file is not read. {name} of this agent is in the home of flock, in agents/AGENT/identity/, where the \
         agent can't change it: edit it there (flock doctor names the path and the command that takes over what is \
         written here).\n"
    )
}

fn ensure_file(root: &Root, name: &str, text: &str) -> io::Result<()> {
    let write = |root: &Root| {
        root.write(Path::new(name), text.as_bytes(), Some(0o644), None).map_err(io::Error::other)
    };
    let found = match root.stat(Path::new(name)) {
        Ok(entry) => Some(entry.kind),
        Err(BeneathError::NotFound { .. }) => None,
        Err(error) => return Err(io::Error::other(error)),
    };
    // A mount needs a regular file as its target. A folder may hold somebody's work and is renamed. A link or a FIFO is
    // removed.
    match found {
        Some(FileKind::File) => Ok(()),
        Some(FileKind::Folder) => {
            set_aside(root, name)?;
            write(root)
        }
        Some(FileKind::Link | FileKind::Other) => {
            root.remove(Path::new(name)).map_err(io::Error::other)?;
            write(root)
        }
        None => write(root),
    }
}

/// Renames a file or folder that is in the way of a mount. It is not deleted, because it may be somebody's work.
fn set_aside(root: &Root, name: &str) -> io::Result<()> {
    let names =
        std::iter::once(format!("{name}.aside")).chain((2..=MAX_ASIDE).map(|n| format!("{name}.aside-{n}")));
    for other in names {
        match root.rename(Path::new(name), Path::new(&other)) {
            Ok(true) => {
                tracing::warn!(
                    name,
                    other,
                    "flock mounts a file or folder of its own over this name in the workspace, and something of \
                     another kind was there; it was renamed"
                );
                return Ok(());
            }
            Ok(false) => {}
            Err(error) => return Err(io::Error::other(error)),
        }
    }
    Err(io::Error::other(format!(
        "it is of another kind, and too many of that name were renamed already: remove {name}.aside and those like \
         it"
    )))
}

fn ensure_folder(root: &Root, name: &str) -> io::Result<()> {
    match root.stat(Path::new(name)) {
        Ok(entry) if entry.kind == FileKind::Folder => return Ok(()),
        Ok(entry) if entry.kind == FileKind::File => set_aside(root, name)?,
        Ok(_) => root.remove(Path::new(name)).map_err(io::Error::other)?,
        Err(BeneathError::NotFound { .. }) => {}
        Err(error) => return Err(io::Error::other(error)),
    }
    root.create_dir_all(Path::new(name), None).map_err(io::Error::other)
}

/// Changes the owner of a folder and of everything below it to `user`, the folder itself last. Symbolic links are
/// changed themselves, not their targets.
///
/// A file with more than one hard link is skipped, because its other name may lie outside the workspace. The exception
/// is a file that belonged to a sandbox before.
fn chown_recursive(folder: BorrowedFd<'_>, user: SandboxUser) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    // An explicit stack instead of recursion: a deep tree must not overflow the call stack. `MAX_DEPTH` limits the open
    // descriptors.
    let mut open: Vec<(Dir, Vec<std::ffi::CString>)> = vec![listing::listed(folder.try_clone_to_owned()?)?];
    while let Some((dir, names)) = open.last_mut() {
        let Some(name) = names.pop() else {
            open.pop();
            continue;
        };
        let here = dir.as_fd();
        // The agent may remove a file during the walk. A file that is gone needs no new owner.
        let Ok(found) = fstatat(here, name.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW) else { continue };
        let is_folder = kind(&found) == SFlag::S_IFDIR;
        let others = (found.st_uid, found.st_gid) != (user.uid, user.gid);
        // A sandbox cannot create a hard link to a file outside its own mount. So both names of such a file are inside.
        let was_sandboxs = found.st_uid == SHARED_USER.uid || UID_RANGE.contains(&found.st_uid);
        if others && (is_folder || found.st_nlink == 1 || was_sandboxs) {
            fchownat(here, name.as_c_str(), Some(uid), Some(gid), AtFlags::AT_SYMLINK_NOFOLLOW)?;
        }
        if is_folder && open.len() < MAX_DEPTH {
            let Some((dir, _)) = open.last() else { break };
            if let Ok(inner) = listing::open(dir.as_fd(), name.as_c_str()) {
                let inner = listing::listed(inner)?;
                open.push(inner);
            }
        }
    }
    // Last, because `writable` skips a folder that has the right owner. After an interruption the walk is then
    // repeated.
    nix::unistd::fchown(folder, Some(uid), Some(gid)).map_err(io::Error::from)
}

fn kind(found: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT
}

/// Limit on the number of renamed things of one name in a workspace.
const MAX_ASIDE: usize = 100;

/// Limit on the depth of the walk. Deeper folders keep their owner, because such a long path cannot be opened in one
/// piece anyway.
const MAX_DEPTH: usize = 256;

#[cfg(test)]
mod tests {
    use nix::sys::stat::Mode;

    use super::*;

    #[test]
    fn identity_files_replace_planted_links_and_folders() {
        let folder = tempfile::tempdir().unwrap();
        let secret = folder.path().join("secret");
        std::fs::write(&secret, "secret").unwrap();
        let workspace = folder.path().join("workspace");
        std::fs::create_dir(&workspace).unwrap();
        std::fs::write(workspace.join("SOUL.md"), "kind").unwrap();
        std::os::unix::fs::symlink(&secret, workspace.join("AGENTS.md")).unwrap();
        nix::unistd::mkfifo(&workspace.join("USER.md"), Mode::S_IRWXU).unwrap();
        let own = folder.path().join("identity");
        let ready = prepare(&workspace, &own).unwrap();
        assert_eq!(ready.len(), IDENTITY_FILES.len());
        std::fs::write(own.join("SOUL.md"), "strict").unwrap();
        assert_eq!(
            std::fs::read_to_string(workspace.join("AGENTS.md")).unwrap(),
            placeholder("AGENTS.md"),
            "no link any more"
        );
        assert_eq!(std::fs::read_to_string(workspace.join("SOUL.md")).unwrap(), "kind");
        assert_eq!(std::fs::read_to_string(&secret).unwrap(), "secret");
        assert_eq!(prepare(&workspace, &own).unwrap(), ready, "a second time changes nothing");
        assert_eq!(std::fs::read_to_string(own.join("SOUL.md")).unwrap(), "strict");
        std::fs::remove_file(own.join("SOUL.md")).unwrap();
        assert!(identity(&own).is_err());
    }

    #[test]
    fn a_mount_target_of_the_wrong_kind_is_renamed_aside() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().join("workspace");
        let cover = |name: &str, is_folder| ProgramMount::Cover {
            source: folder.path().join("empty").join(if is_folder { "folder" } else { "file" }),
            name: name.to_owned(),
            is_folder,
        };
        let fittings = [cover("GEMINI.md", false), cover(".gemini", true)];
        std::fs::create_dir_all(workspace.join("GEMINI.md/deep")).unwrap();
        std::fs::write(workspace.join("GEMINI.md/deep/x"), "x").unwrap();
        std::fs::write(workspace.join(".gemini"), "work").unwrap();
        std::fs::write(workspace.join(".gemini.aside"), "older").unwrap();
        for _ in 0..2 {
            fit(&workspace, &fittings, None).unwrap();
            assert!(workspace.join("GEMINI.md").is_file() && workspace.join(".gemini").is_dir());
        }
        let read = |name: &str| std::fs::read_to_string(workspace.join(name)).unwrap();
        assert_eq!(read("GEMINI.md.aside/deep/x"), "x");
        assert_eq!((read(".gemini.aside"), read(".gemini.aside-2")), ("older".to_owned(), "work".to_owned()));
        for n in 2..=MAX_ASIDE {
            std::fs::create_dir_all(workspace.join(format!("GEMINI.md.aside-{n}"))).unwrap();
        }
        std::fs::remove_file(workspace.join("GEMINI.md")).unwrap();
        std::fs::create_dir(workspace.join("GEMINI.md")).unwrap();
        let (path, error) = fit(&workspace, &fittings, None).unwrap_err();
        assert!(
            path.ends_with("GEMINI.md") && error.to_string().contains("remove GEMINI.md.aside"),
            "{error}"
        );
    }

    #[test]
    fn ownership_changes_below_the_workspace_only() {
        if !Uid::effective().is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let outside = folder.path().join("outside");
        std::fs::write(&outside, "").unwrap();
        let workspace = folder.path().join("workspace");
        std::fs::create_dir_all(workspace.join("a/b")).unwrap();
        std::fs::write(workspace.join("a/b/file"), "").unwrap();
        std::os::unix::fs::symlink(&outside, workspace.join("a/link")).unwrap();
        std::fs::hard_link(&outside, workspace.join("a/hard")).unwrap();
        std::os::unix::fs::symlink(folder.path(), workspace.join("a/folder")).unwrap();
        prepare(&workspace, &folder.path().join("identity")).unwrap();
        let legacy = |path: &Path| {
            let (uid, gid) = (Uid::from_raw(SHARED_USER.uid), Gid::from_raw(SHARED_USER.gid));
            nix::unistd::chown(path, Some(uid), Some(gid)).unwrap();
        };
        std::fs::write(workspace.join("a/twice"), "").unwrap();
        legacy(&workspace.join("a/twice"));
        std::fs::hard_link(workspace.join("a/twice"), workspace.join("a/b/twice")).unwrap();
        let user = SandboxUser { uid: 20_007, gid: 20_007 };
        own(&workspace, user).unwrap();
        let owner = |path: &Path| std::fs::symlink_metadata(path).unwrap().uid();
        assert_eq!(owner(&workspace.join("a/b/file")), user.uid);
        assert_eq!(owner(&workspace.join("a/b/twice")), user.uid);
        assert_eq!(owner(&workspace.join("a/link")), user.uid);
        assert_eq!(owner(&workspace), user.uid);
        assert_eq!(owner(&outside), 0);
        assert_eq!(owner(folder.path()), 0);
    }

    #[test]
    fn each_agent_has_a_user_of_its_own_that_stays() {
        let folder = tempfile::tempdir().unwrap();
        let user =
            |agent: &str| sandbox_user(&folder.path().join("agents").join(agent).join("identity")).unwrap();
        if !Uid::effective().is_root() {
            assert_eq!(user("coder").uid, Uid::effective().as_raw());
            return;
        }
        let names: Vec<String> = (0..40).map(|number| format!("worker-{number}")).collect();
        let first: Vec<SandboxUser> = names.iter().map(|name| user(name)).collect();
        let different: HashSet<u32> = first.iter().map(|user| user.uid).collect();
        assert_eq!(different.len(), names.len());
        assert!(different.iter().all(|uid| UID_RANGE.contains(uid) && *uid != SHARED_USER.uid));
        assert_eq!(names.iter().map(|name| user(name)).collect::<Vec<_>>(), first);
        // A number that is taken is skipped, and an invalid record is written again.
        let agent = folder.path().join("agents/worker-0");
        let wanted = first[0].uid;
        std::fs::write(agent.join(UID_FILE), "0\n").unwrap();
        assert_eq!(user("worker-0").uid, wanted, "root is nobody's");
        assert_ne!(free_uid(&agent, &HashSet::from([wanted])), Some(wanted));
        assert_eq!(free_uid(&agent, &UID_RANGE.collect()), None);
    }
}

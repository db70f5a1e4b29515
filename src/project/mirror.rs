//! The owner's branch is fetched and joined with the project's tip. The owner's repository is only read.

use std::time::Duration;

use git2::{AutotagOption, ErrorCode, FetchOptions, RemoteCallbacks};

use super::merge::{MergeMessage, merge};
use super::reference::{BRANCHES, FETCHED, OWNER};
use super::{Conflict, MergeOutcome, ObjectId, ProjectError, ProjectRepository, RefChange};
use crate::home::lock::Lock;
use crate::install::source::RepositoryAddress;
use crate::install::transport;

/// The result of a fetch of the owner's branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyncOutcome {
    /// The tip has everything of the owner's branch, which may have moved to a commit that flock handed over.
    UpToDate { owner: ObjectId },
    /// The first fetch: the tip begins at the owner's commit.
    Began { owner: ObjectId },
    /// The tip moved forward to the owner's commit.
    Forwarded { from: ObjectId, owner: ObjectId },
    /// The owner's commits were merged into the tip.
    Merged { from: ObjectId, owner: ObjectId, tip: ObjectId },
    /// The owner's commits conflict with the tip, which stays where it is.
    Conflicts { owner: ObjectId, conflicts: Vec<Conflict> },
    /// The owner's branch no longer has the commit that it had. Nothing was changed.
    Rewritten { before: ObjectId, now: ObjectId },
}

/// The treatment of an owner's branch whose history was rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RewrittenHistory {
    /// It is told, and nothing is changed.
    Stop,
    /// The new history is joined with the tip like any other commits.
    Accept,
}

/// Fetches the owner's branch and joins it with the tip, which is the branch of the same name in flock's repository.
/// `at` is the time of a merge in Unix seconds.
///
/// # Errors
///
/// Returns an error if the owner's repository does not answer or has no such branch, or if flock's repository can't be
/// written.
pub fn sync(
    repository: &ProjectRepository,
    source: &RepositoryAddress,
    branch: &str,
    rewritten: RewrittenHistory,
    at: i64,
) -> Result<SyncOutcome, ProjectError> {
    // One at a time: each fetch goes through the same reference.
    let _lock = Lock::acquire(&repository.folder().join("sync.lock"), LOCK_PATIENCE)?;
    let now = fetch(repository, source, branch)?;
    let before = repository.owner()?;
    if let Some(before) = before
        && rewritten == RewrittenHistory::Stop
        && !repository.contains(now, before)?
    {
        return Ok(SyncOutcome::Rewritten { before, now });
    }
    if before != Some(now) {
        repository.update(&[RefChange { name: OWNER.to_owned(), old: before, new: Some(now) }])?;
    }
    join(repository, now, branch, at)
}

/// Fetches the owner's branch without changing any branch of flock's repository. Returns its commit.
///
/// # Errors
///
/// Returns an error if the owner's repository does not answer, is shallow, or has no such branch.
pub fn fetch(
    repository: &ProjectRepository,
    source: &RepositoryAddress,
    branch: &str,
) -> Result<ObjectId, ProjectError> {
    transport::register();
    let address = || source.as_str().to_owned();
    let failed = |source| ProjectError::Fetch { address: address(), source };
    let git = repository.git();
    let mut remote = git.remote_anonymous(source.url()).map_err(failed)?;
    let mut options = FetchOptions::new();
    // Nobody can be asked for a password: no callback for credentials is set.
    options.remote_callbacks(RemoteCallbacks::new()).download_tags(AutotagOption::None);
    let wanted = format!("+{BRANCHES}{branch}:{FETCHED}");
    let missing = || ProjectError::NoBranch { address: address(), branch: branch.to_owned() };
    // A branch that is gone would leave the earlier commit in place.
    let stale = repository.target(FETCHED)?;
    repository.update(&[RefChange { name: FETCHED.to_owned(), old: stale, new: None }])?;
    match remote.fetch(&[wanted], Some(&mut options), None) {
        Ok(()) => {}
        Err(error) if error.code() == ErrorCode::NotFound => return Err(missing()),
        Err(error) => return Err(failed(error)),
    }
    if git.is_shallow() {
        let _ = fs_err::remove_file(repository.folder().join("shallow"));
        return Err(ProjectError::Shallow { address: address() });
    }
    let Some(found) = repository.target(FETCHED)? else { return Err(missing()) };
    repository.commit(found)?;
    repository.open_up()?;
    Ok(found)
}

/// Joins the owner's commit with the tip.
fn join(
    repository: &ProjectRepository,
    owner: ObjectId,
    branch: &str,
    at: i64,
) -> Result<SyncOutcome, ProjectError> {
    let name = format!("{BRANCHES}{branch}");
    let mut tries = 0;
    loop {
        let tip = repository.target(&name)?;
        let (new, outcome) = match tip {
            None => (owner, SyncOutcome::Began { owner }),
            Some(tip) if repository.contains(tip, owner)? => return Ok(SyncOutcome::UpToDate { owner }),
            Some(from) if repository.contains(owner, from)? => {
                (owner, SyncOutcome::Forwarded { from, owner })
            }
            Some(from) => {
                let text = format!("Merge the owner's {branch}");
                match merge(repository, from, owner, MergeMessage { text: &text, at })? {
                    MergeOutcome::Contained => return Ok(SyncOutcome::UpToDate { owner }),
                    MergeOutcome::Merged(tip) => (tip, SyncOutcome::Merged { from, owner, tip }),
                    MergeOutcome::Conflicts(conflicts) => {
                        return Ok(SyncOutcome::Conflicts { owner, conflicts });
                    }
                }
            }
        };
        match repository.update(&[RefChange { name: name.clone(), old: tip, new: Some(new) }]) {
            Ok(()) => return Ok(outcome),
            // A branch was joined meanwhile. The new tip is merged with.
            Err(ProjectError::Moved { .. }) if tries < MAX_TRIES => tries += 1,
            Err(error) => return Err(error),
        }
    }
}

/// Longest time to wait for another fetch.
const LOCK_PATIENCE: Duration = Duration::from_secs(120);
/// Number of times that a tip may move while it is merged with.
const MAX_TRIES: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::testing::{self, Sample, owners, write_and_commit};

    fn sync_now(sample: &Sample, owner: &std::path::Path, rewritten: RewrittenHistory) -> SyncOutcome {
        let address = RepositoryAddress::parse(owner.to_str().unwrap()).unwrap();
        sync(&sample.repository, &address, "main", rewritten, 1_700_000_000).unwrap()
    }

    #[test]
    fn the_tip_follows_the_owner_and_the_owner_is_not_touched() {
        let sample = Sample::new();
        let owner = owners(sample.folder.path());
        let before = testing::git(&owner, &["for-each-ref"]);
        let stop = RewrittenHistory::Stop;
        let first = sample_head(&owner);
        assert_eq!(sync_now(&sample, &owner, stop), SyncOutcome::Began { owner: first });
        assert_eq!(sync_now(&sample, &owner, stop), SyncOutcome::UpToDate { owner: first });
        assert_eq!(testing::git(&owner, &["for-each-ref"]), before);
        let second = write_and_commit(&owner, "b", "b\n");
        let forwarded = SyncOutcome::Forwarded { from: first, owner: second };
        assert_eq!(sync_now(&sample, &owner, stop), forwarded);
        let ours = sample.commit(&[second], &[("README.md", "one\n"), ("b", "b\n"), ("c", "c\n")]);
        sample.set("main", ours);
        let third = write_and_commit(&owner, "d", "d\n");
        let SyncOutcome::Merged { from, owner: merged, tip } = sync_now(&sample, &owner, stop) else {
            panic!()
        };
        assert_eq!((from, merged), (ours, third));
        assert_eq!(sample.repository.branch("main").unwrap(), Some(tip));
        let fourth = write_and_commit(&owner, "c", "other\n");
        let SyncOutcome::Conflicts { owner: theirs, conflicts } = sync_now(&sample, &owner, stop) else {
            panic!()
        };
        assert_eq!((theirs, conflicts[0].path.as_str()), (fourth, "c"));
        assert_eq!(sample.repository.branch("main").unwrap(), Some(tip), "it stays");
        assert_eq!(sample.repository.owner().unwrap(), Some(fourth));
        testing::git(&owner, &["reset", "-q", "--hard", "HEAD~2"]);
        let now = write_and_commit(&owner, "e", "e\n");
        let rewritten = SyncOutcome::Rewritten { before: fourth, now };
        assert_eq!(sync_now(&sample, &owner, stop), rewritten);
        assert_eq!(sample.repository.owner().unwrap(), Some(fourth), "nothing changed");
        let SyncOutcome::Merged { .. } = sync_now(&sample, &owner, RewrittenHistory::Accept) else {
            panic!()
        };
        assert_eq!(sample.repository.owner().unwrap(), Some(now));
    }

    fn sample_head(owner: &std::path::Path) -> ObjectId {
        ObjectId::from_str(&testing::git(owner, &["rev-parse", "HEAD"])).unwrap()
    }

    #[test]
    fn what_can_not_be_fetched_is_told() {
        let sample = Sample::new();
        let owner = owners(sample.folder.path());
        let address = RepositoryAddress::parse(owner.to_str().unwrap()).unwrap();
        let fetched = |branch: &str| fetch(&sample.repository, &address, branch);
        fetched("main").unwrap();
        assert!(matches!(fetched("none"), Err(ProjectError::NoBranch { .. })), "{:?}", fetched("none"));
        assert!(fetched("main").is_ok());
        let empty = sample.folder.path().join("empty");
        std::fs::create_dir(&empty).unwrap();
        let address = RepositoryAddress::parse(empty.to_str().unwrap()).unwrap();
        assert!(matches!(fetch(&sample.repository, &address, "main"), Err(ProjectError::Fetch { .. })));
        write_and_commit(&owner, "b", "b\n");
        let shallow = sample.folder.path().join("shallow");
        let url = format!("file://{}", owner.display());
        testing::git(sample.folder.path(), &["clone", "-q", "--depth=1", &url, "shallow"]);
        let address = RepositoryAddress::parse(shallow.to_str().unwrap()).unwrap();
        let other = Sample::new();
        let fetched = fetch(&other.repository, &address, "main");
        assert!(
            matches!(fetched, Err(ProjectError::Shallow { .. } | ProjectError::Fetch { .. })),
            "{fetched:?}"
        );
        assert_eq!(other.repository.branch("main").unwrap(), None);
    }

    #[test]
    fn hooks_and_settings_of_the_owner_do_not_run() {
        use std::os::unix::fs::PermissionsExt as _;
        let sample = Sample::new();
        let owner = owners(sample.folder.path());
        let trace = sample.folder.path().join("ran");
        let script = format!("#!/bin/sh\ntouch {}\nexec \"$@\"\n", trace.display());
        for hook in ["post-checkout", "pre-receive", "post-upload-pack", "reference-transaction"] {
            let path = owner.join(".git/hooks").join(hook);
            std::fs::write(&path, &script).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let hook = owner.join(".git/hooks/pre-receive");
        testing::git(&owner, &["config", "uploadpack.packObjectsHook", hook.to_str().unwrap()]);
        testing::git(&owner, &["config", "core.fsmonitor", hook.to_str().unwrap()]);
        sync_now(&sample, &owner, RewrittenHistory::Stop);
        assert!(!trace.exists());
    }
}

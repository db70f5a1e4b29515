//! Asks a git repository for its references, and fetches one commit.

use std::path::Path;

use git2::build::CheckoutBuilder;
use git2::{AutotagOption, Direction, FetchOptions, ObjectType, Oid, RemoteCallbacks, Repository};

use super::error::io;
pub use super::repository_address::RepositoryAddress;
use super::{InstallError, InstallEvent, InstallPhase, checkout_diff, transport};

/// The present meaning of a reference in the repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedReference {
    /// The full name, as in `refs/heads/main`. `None` for a commit that no reference points to, or that is not known
    /// yet.
    pub name: Option<String>,
    /// The commit, 40 hex digits, if the server named it. A shortened commit is `None` until it is fetched.
    pub commit: Option<String>,
    /// `true` if the reference is a branch.
    pub is_branch: bool,
}

/// Asks the repository for the meaning of `reference`. `HEAD` means the main branch.
///
/// # Errors
///
/// Returns [`InstallError::Fetch`] if the repository does not answer, and [`InstallError::NoReference`] if it has no
/// such reference.
pub fn resolve(origin: &RepositoryAddress, reference: &str) -> Result<ResolvedReference, InstallError> {
    transport::register();
    let fail = |source| InstallError::Fetch { verb: "ask", repository: origin.given.clone(), source };
    let mut remote = git2::Remote::create_detached(origin.url.as_str()).map_err(fail)?;
    let connection = remote.connect_auth(Direction::Fetch, Some(callbacks(&|_| true)), None).map_err(fail)?;
    let heads: Vec<RemoteReference> = connection
        .list()
        .map_err(fail)?
        .iter()
        .map(|head| RemoteReference {
            name: head.name().to_owned(),
            commit: head.oid().to_string(),
            target: head.symref_target().map(str::to_owned),
        })
        .collect();
    select_reference(&heads, reference).ok_or_else(|| InstallError::NoReference {
        repository: origin.given.clone(),
        reference: reference.to_owned(),
    })
}

/// A reference that the server lists.
struct RemoteReference {
    name: String,
    commit: String,
    target: Option<String>,
}

fn select_reference(heads: &[RemoteReference], reference: &str) -> Option<ResolvedReference> {
    let find = |name: &str| heads.iter().find(|head| head.name == name);
    let tip = |head: &RemoteReference, is_branch| ResolvedReference {
        name: Some(head.name.clone()),
        commit: Some(head.commit.clone()),
        is_branch,
    };
    if reference == "HEAD" {
        let head = find("HEAD")?;
        // Older servers do not name the branch of `HEAD`. Then the first branch at the same commit is taken.
        let target = head.target.as_deref().and_then(find);
        let same = || {
            heads.iter().find(|other| other.name.starts_with(BRANCH_PREFIX) && other.commit == head.commit)
        };
        return target.or_else(same).map(|branch| tip(branch, true)).or_else(|| Some(tip(head, false)));
    }
    // A full commit id always means that commit, even if a branch or tag has this name.
    let is_hex = reference.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hex && reference.len() == 40 {
        return Some(ResolvedReference {
            name: None,
            commit: Some(reference.to_ascii_lowercase()),
            is_branch: false,
        });
    }
    // A branch wins over a tag of the same name, as in `git clone --branch`.
    for (prefix, is_branch) in [(BRANCH_PREFIX, true), (TAG_PREFIX, false), ("", false)] {
        let name = format!("{prefix}{reference}");
        if prefix.is_empty() && !reference.starts_with("refs/") {
            continue;
        }
        if let Some(head) = find(&name) {
            let is_branch = is_branch || name.starts_with(BRANCH_PREFIX);
            // An annotated tag is an object of its own. The server lists its commit beside it, with this suffix.
            let peeled = find(&format!("{name}^{{}}")).unwrap_or(head);
            return Some(ResolvedReference {
                name: Some(name),
                commit: Some(peeled.commit.clone()),
                is_branch,
            });
        }
    }
    let is_commit = is_hex && (7..40).contains(&reference.len());
    is_commit.then_some(ResolvedReference { name: None, commit: None, is_branch: false })
}

/// A fetched commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedCommit {
    /// 40 hex digits.
    pub commit: String,
    /// Time of the commit, in Unix seconds.
    pub committed_at: i64,
}

impl FetchedCommit {
    fn of(commit: &git2::Commit<'_>) -> Self {
        Self { commit: commit.id().to_string(), committed_at: commit.time().seconds() }
    }
}

/// Fetches the commit of `tip` into a new repository at `into` and writes its files. Only this commit is fetched, if
/// the server allows that. A tag or a commit must be exactly the requested one.
///
/// # Errors
///
/// Returns an error if the fetch fails, the commit is missing or differs from the requested one
/// ([`InstallError::Another`]), or a file does not match. `into` then holds a part of the repository and must be
/// removed.
pub fn fetch(
    origin: &RepositoryAddress,
    reference: &str,
    tip: &ResolvedReference,
    into: &Path,
    events: &dyn Fn(InstallEvent<'_>),
) -> Result<FetchedCommit, InstallError> {
    let fail = |verb| move |source| InstallError::Fetch { verb, repository: origin.given.clone(), source };
    fs_err::create_dir_all(into).map_err(io("make the folder", into))?;
    let repository = Repository::init(into).map_err(fail("make a place for"))?;
    let commit = fetch_commit(&repository, origin, reference, tip, &|progress| {
        events(InstallEvent::Objects {
            received: progress.received_objects() as u64,
            total: progress.total_objects() as u64,
            bytes: progress.received_bytes() as u64,
        });
        true
    })?;
    let given = commit.id().to_string();
    events(InstallEvent::Phase(InstallPhase::CheckingOut));
    check_out(&repository, &commit, events).map_err(fail("check out"))?;
    check_unaltered(into, &given)?;
    Ok(FetchedCommit::of(&commit))
}

/// Fetches the commit of `tip` into `repository` without writing its files. Only this commit is fetched, if the server allows
/// that. A tag or a commit must be exactly the requested one. `progress` cancels the transfer by returning `false`.
///
/// # Errors
///
/// Returns an error if the fetch fails or is cancelled, or if the commit is missing or differs from the requested one
/// ([`InstallError::Another`]).
pub(crate) fn fetch_commit<'r>(
    repository: &'r Repository,
    origin: &RepositoryAddress,
    reference: &str,
    tip: &ResolvedReference,
    progress: &TransferProgress<'_>,
) -> Result<git2::Commit<'r>, InstallError> {
    transport::register();
    let fail = |source| InstallError::Fetch { verb: "fetch", repository: origin.given.clone(), source };
    let mut remote = repository.remote("origin", &origin.url).map_err(fail)?;
    let found = match fetch_one(&mut remote, tip, progress) {
        Ok(()) => find_commit(repository, LOCAL_REFERENCE, tip.commit.as_deref()),
        // The server refuses to send a commit that no reference points to, or a part of the history. Everything is
        // fetched instead.
        Err(error) if tip.name.is_none() || is_refusal(&error) => {
            fetch_all(&mut remote, progress).map_err(fail)?;
            let wanted = tip.commit.as_deref().unwrap_or(reference);
            let name =
                tip.name.as_deref().map(|name| name.replacen(BRANCH_PREFIX, "refs/remotes/origin/", 1));
            find_commit(repository, name.as_deref().unwrap_or(wanted), None)
        }
        Err(error) => return Err(fail(error)),
    };
    let commit = found.map_err(|_| InstallError::NoReference {
        repository: origin.given.clone(),
        reference: reference.to_owned(),
    })?;
    let given = commit.id().to_string();
    let is_it = match &tip.commit {
        // A branch may have moved since it was asked for.
        _ if tip.is_branch => true,
        Some(wanted) => *wanted == given,
        None => given.starts_with(&reference.to_ascii_lowercase()),
    };
    if !is_it {
        return Err(InstallError::Another {
            repository: origin.given.clone(),
            reference: reference.to_owned(),
            wanted: tip.commit.clone().unwrap_or_else(|| reference.to_owned()),
            given,
        });
    }
    Ok(commit)
}

/// Resets a checkout to the cloned files.
///
/// # Errors
///
/// Returns an error if the folder is not a checkout of that commit, or cannot be written.
pub(crate) fn restore(
    checkout: &Path,
    commit: &str,
    keep_dependencies: bool,
) -> Result<FetchedCommit, InstallError> {
    with_checkout(checkout, commit, |repository, found| {
        check_out(repository, found, &|_| {}).map_err(|source| unusable(checkout, source))?;
        super::package::clean(repository, keep_dependencies)?;
        check_unaltered(checkout, commit)
    })
}

/// Checks a checkout without changing it.
///
/// # Errors
///
/// Returns an error if the folder is not a checkout of that commit, or if a file differs from the commit.
pub(crate) fn look(checkout: &Path, commit: &str) -> Result<FetchedCommit, InstallError> {
    with_checkout(checkout, commit, |_, _| check_unaltered(checkout, commit))
}

/// Returns an error if a file of a checkout differs from the commit.
fn check_unaltered(checkout: &Path, commit: &str) -> Result<(), InstallError> {
    let found = checkout_diff::find(checkout, commit).map_err(|source| unusable(checkout, source))?;
    match found.keys().next() {
        Some(file) => Err(altered(checkout, commit, file)),
        None => Ok(()),
    }
}

/// Opens an existing checkout, runs `work` on it, and returns its commit.
fn with_checkout(
    checkout: &Path,
    commit: &str,
    work: impl FnOnce(&Repository, &git2::Commit<'_>) -> Result<(), InstallError>,
) -> Result<FetchedCommit, InstallError> {
    let fail = |source| unusable(checkout, source);
    let repository = Repository::open(checkout).map_err(fail)?;
    let found = find_commit(&repository, commit, Some(commit)).map_err(fail)?;
    work(&repository, &found)?;
    Ok(FetchedCommit::of(&found))
}

/// Makes the error for a file that differs from the commit.
pub(super) fn altered(checkout: &Path, commit: &str, file: &str) -> InstallError {
    InstallError::Altered { path: checkout.to_owned(), commit: commit.to_owned(), file: file.to_owned() }
}

pub(super) fn unusable(checkout: &Path, source: git2::Error) -> InstallError {
    InstallError::Fetch { verb: "go on with", repository: checkout.display().to_string(), source }
}

fn fetch_one(
    remote: &mut git2::Remote<'_>,
    tip: &ResolvedReference,
    progress: &TransferProgress<'_>,
) -> Result<(), git2::Error> {
    let Some(from) = tip.name.as_deref().or(tip.commit.as_deref()) else {
        return Err(git2::Error::from_str("a short commit can't be asked for"));
    };
    let mut options = FetchOptions::new();
    // A depth of 1: only the files of the commit are needed, not its history.
    options.remote_callbacks(callbacks(progress)).download_tags(AutotagOption::None).depth(1);
    remote.fetch(&[format!("+{from}:{LOCAL_REFERENCE}")], Some(&mut options), None)
}

fn fetch_all(remote: &mut git2::Remote<'_>, progress: &TransferProgress<'_>) -> Result<(), git2::Error> {
    let mut options = FetchOptions::new();
    options.remote_callbacks(callbacks(progress)).download_tags(AutotagOption::All);
    remote.fetch(&["+refs/heads/*:refs/remotes/origin/*"], Some(&mut options), None)
}

/// Returns `true` if the server cannot do what was asked, in contrast to a server that does not answer.
fn is_refusal(error: &git2::Error) -> bool {
    // These words are in the messages of git servers and of libgit2.
    let text = error.message();
    ["shallow", "not our ref", "unadvertised", "not supported", "not found in"]
        .iter()
        .any(|word| text.contains(word))
}

/// Returns the commit that a name means in this repository. With `expected`, that commit is preferred.
fn find_commit<'r>(
    repository: &'r Repository,
    name: &str,
    expected: Option<&str>,
) -> Result<git2::Commit<'r>, git2::Error> {
    let object = match expected {
        // A branch may have moved since it was asked for. Then the fetched commit counts.
        Some(commit) => match Oid::from_str(commit).and_then(|oid| repository.find_object(oid, None)) {
            Ok(object) => object,
            Err(_) => repository.revparse_single(name)?,
        },
        None => repository.revparse_single(name)?,
    };
    object.peel(ObjectType::Commit)?.into_commit().map_err(|_| git2::Error::from_str("it is no commit"))
}

fn check_out(
    repository: &Repository,
    commit: &git2::Commit<'_>,
    events: &dyn Fn(InstallEvent<'_>),
) -> Result<(), git2::Error> {
    let mut options = CheckoutBuilder::new();
    // Byte for byte: no setting of the user may change line ends, because the files are compared with the commit.
    options.force().disable_filters(true).progress(|_, done, total| {
        events(InstallEvent::Files { done: done as u64, total: total as u64 });
    });
    repository.checkout_tree(commit.as_object(), Some(&mut options))?;
    repository.set_head_detached(commit.id())
}

fn callbacks<'a>(progress: &'a TransferProgress<'a>) -> RemoteCallbacks<'a> {
    let mut callbacks = RemoteCallbacks::new();
    callbacks.transfer_progress(progress);
    callbacks
}

/// A function that is told how far a transfer is, and cancels it by returning `false`.
pub(crate) type TransferProgress<'a> = dyn Fn(git2::Progress<'_>) -> bool + 'a;

/// The local reference of a commit that is fetched alone.
const LOCAL_REFERENCE: &str = "refs/flock/installed";
const BRANCH_PREFIX: &str = "refs/heads/";
const TAG_PREFIX: &str = "refs/tags/";

#[cfg(test)]
#[path = "source_tests.rs"]
mod tests;

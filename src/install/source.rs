//! The repository: what it has, and fetching one commit of it.

use std::path::Path;

use git2::build::CheckoutBuilder;
use git2::{AutotagOption, Direction, FetchOptions, ObjectType, Oid, RemoteCallbacks, Repository};

use super::error::io;
use super::{Event, InstallError, Phase, alteration, transport};

/// Where to clone from, in a form that is safe to hand on and to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    url: String,
    given: String,
}

impl Origin {
    /// Reads what a person gave: a URL, `user@host:path`, or a path, which is made absolute.
    ///
    /// # Errors
    ///
    /// [`InstallError::Repository`] for what can't be one, and for a URL with a password, or with a user where a token
    /// is one: it would stand in the records of the installation.
    pub fn parse(given: &str) -> Result<Self, InstallError> {
        let refuse = |reason| Err(InstallError::Repository { repository: without_secret(given), reason });
        if given.is_empty() || given.starts_with('-') || given.chars().any(char::is_control) {
            return refuse("it is neither a URL nor a path");
        }
        if without_secret(given) != given {
            let reason =
                "it has a password or a token in it; use ssh with an agent, or a repository that needs none";
            return refuse(reason);
        }
        if let Some((scheme, _)) = given.split_once("://") {
            return match scheme {
                "https" | "http" | "ssh" | "git" | "file" => {
                    Ok(Self { url: given.to_owned(), given: given.to_owned() })
                }
                _ => refuse("its scheme is none of https, http, ssh, git, file"),
            };
        }
        // A colon before any slash: `git@host:path`, as git has it.
        if given.split('/').next().is_some_and(|first| first.contains(':')) && !Path::new(given).exists() {
            return Ok(Self { url: given.to_owned(), given: given.to_owned() });
        }
        let Ok(path) = std::fs::canonicalize(given) else {
            return refuse("there is no such folder");
        };
        let Some(text) = path.to_str() else { return refuse("its path is not plain text") };
        // git reads %XX in such a URL.
        Ok(Self { url: format!("file://{}", text.replace('%', "%25")), given: text.to_owned() })
    }

    /// Reads what a person gave, and takes only what nobody on the way can change: https, ssh, this machine.
    ///
    /// # Errors
    ///
    /// As [`Origin::parse`], and for `http` and `git` addresses of other machines.
    pub fn secured(given: &str) -> Result<Self, InstallError> {
        let origin = Self::parse(given)?;
        if origin.is_unencrypted() {
            let reason = "its address is not encrypted, so anybody on the way could put another program in its place; \
                          take an https or ssh address, or a folder";
            return Err(InstallError::Repository { repository: origin.given, reason });
        }
        Ok(origin)
    }

    /// Whether somebody on the way could change what comes from it: over `http` or `git`, and not from this machine.
    #[must_use]
    pub fn is_unencrypted(&self) -> bool {
        let Some((scheme, rest)) = self.given.split_once("://") else { return false };
        let is_open = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("git");
        is_open && !is_this_machine(rest.split(['/', '?', '#']).next().unwrap_or_default())
    }

    /// As it is recorded and shown: a path is absolute, all else as it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.given
    }
}

/// Whether the host and port of a URL are surely this machine's own. What is written in any unusual way is not.
pub(super) fn is_this_machine(authority: &str) -> bool {
    let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, port)) => (host, port.strip_prefix(':').or_else(|| port.is_empty().then_some(""))),
        None => authority.split_once(':').map_or((authority, Some("")), |(host, port)| (host, Some(port))),
    };
    let is_port = port.is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    let is_loopback = host.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback());
    is_port && (is_loopback || host.eq_ignore_ascii_case("localhost"))
}

/// The URL without what may be a secret: a password, and all of the user in a web address, where a token is one.
fn without_secret(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let Some((user, _)) = authority.rsplit_once('@') else { return url.to_owned() };
    if scheme.eq_ignore_ascii_case("https") || scheme.eq_ignore_ascii_case("http") {
        return format!("{scheme}://{}", &rest[user.len() + 1..]);
    }
    let Some((name, _)) = user.split_once(':') else { return url.to_owned() };
    format!("{scheme}://{name}{}", &rest[user.len()..])
}

/// What a reference means in the repository at this moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tip {
    /// The full name, as in `refs/heads/main`; `None` for a commit that nothing points to, or that is not known yet.
    pub name: Option<String>,
    /// The commit, where the server said it: 40 hex digits. A short one is `None` until it is fetched.
    pub commit: Option<String>,
    /// Whether it is a branch.
    pub is_branch: bool,
}

/// Asks the repository what `reference` is. `HEAD` is the branch that it says is the main one.
///
/// # Errors
///
/// If it does not answer, or has nothing of that name.
pub fn resolve(origin: &Origin, reference: &str) -> Result<Tip, InstallError> {
    transport::register();
    let fail = |source| InstallError::Fetch { verb: "ask", repository: origin.given.clone(), source };
    let mut remote = git2::Remote::create_detached(origin.url.as_str()).map_err(fail)?;
    let connection = remote.connect_auth(Direction::Fetch, Some(callbacks(&|_| {})), None).map_err(fail)?;
    let heads: Vec<Head> = connection
        .list()
        .map_err(fail)?
        .iter()
        .map(|head| Head {
            name: head.name().to_owned(),
            commit: head.oid().to_string(),
            target: head.symref_target().map(str::to_owned),
        })
        .collect();
    pick(&heads, reference).ok_or_else(|| InstallError::NoReference {
        repository: origin.given.clone(),
        reference: reference.to_owned(),
    })
}

/// A reference that the server has.
struct Head {
    name: String,
    commit: String,
    target: Option<String>,
}

fn pick(heads: &[Head], reference: &str) -> Option<Tip> {
    let find = |name: &str| heads.iter().find(|head| head.name == name);
    let tip = |head: &Head, is_branch| Tip {
        name: Some(head.name.clone()),
        commit: Some(head.commit.clone()),
        is_branch,
    };
    if reference == "HEAD" {
        let head = find("HEAD")?;
        // Older servers do not say which branch it is: the first one at the same commit.
        let target = head.target.as_deref().and_then(find);
        let same =
            || heads.iter().find(|other| other.name.starts_with(BRANCHES) && other.commit == head.commit);
        return target.or_else(same).map(|branch| tip(branch, true)).or_else(|| Some(tip(head, false)));
    }
    // A whole commit is that commit, whatever somebody has called a branch or a tag.
    let is_hex = reference.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hex && reference.len() == 40 {
        return Some(Tip { name: None, commit: Some(reference.to_ascii_lowercase()), is_branch: false });
    }
    // A branch goes before a tag of the same name, as in `git clone --branch`.
    for (prefix, is_branch) in [(BRANCHES, true), (TAGS, false), ("", false)] {
        let name = format!("{prefix}{reference}");
        if prefix.is_empty() && !reference.starts_with("refs/") {
            continue;
        }
        if let Some(head) = find(&name) {
            let is_branch = is_branch || name.starts_with(BRANCHES);
            // An annotated tag is an object of its own; the commit stands beside it.
            let peeled = find(&format!("{name}^{{}}")).unwrap_or(head);
            return Some(Tip { name: Some(name), commit: Some(peeled.commit.clone()), is_branch });
        }
    }
    let is_commit = is_hex && (7..40).contains(&reference.len());
    is_commit.then_some(Tip { name: None, commit: None, is_branch: false })
}

/// A fetched commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// The commit, 40 hex digits.
    pub commit: String,
    /// When it was committed, in seconds since the epoch.
    pub committed_at: i64,
}

impl Fetched {
    fn of(commit: &git2::Commit<'_>) -> Self {
        Self { commit: commit.id().to_string(), committed_at: commit.time().seconds() }
    }
}

/// Fetches what `tip` means into a new repository at `into`, alone where the server allows that, and writes its
/// files. A tag or a commit is taken as it was asked for, or not at all.
///
/// # Errors
///
/// What failed, or that another commit came. `into` then holds a part of it and is to be removed.
pub fn fetch(
    origin: &Origin,
    reference: &str,
    tip: &Tip,
    into: &Path,
    events: &dyn Fn(Event<'_>),
) -> Result<Fetched, InstallError> {
    transport::register();
    let fail = |verb| move |source| InstallError::Fetch { verb, repository: origin.given.clone(), source };
    fs_err::create_dir_all(into).map_err(io("make the folder", into))?;
    let repository = Repository::init(into).map_err(fail("make a place for"))?;
    let mut remote = repository.remote("origin", &origin.url).map_err(fail("fetch"))?;
    let found = match one_commit(&mut remote, tip, events) {
        Ok(()) => commit_of(&repository, LOCAL, tip.commit.as_deref()),
        // The server refuses a commit that no reference points to, or a part of the history: then all of it.
        Err(error) if tip.name.is_none() || is_refusal(&error) => {
            everything(&mut remote, events).map_err(fail("fetch"))?;
            let wanted = tip.commit.as_deref().unwrap_or(reference);
            let name = tip.name.as_deref().map(|name| name.replacen(BRANCHES, "refs/remotes/origin/", 1));
            commit_of(&repository, name.as_deref().unwrap_or(wanted), None)
        }
        Err(error) => return Err(fail("fetch")(error)),
    };
    let commit = found.map_err(|_| InstallError::NoReference {
        repository: origin.given.clone(),
        reference: reference.to_owned(),
    })?;
    let given = commit.id().to_string();
    let is_it = match &tip.commit {
        // A branch may have moved on since it was asked for.
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
    events(Event::Phase(Phase::CheckingOut));
    check_out(&repository, &commit, events).map_err(fail("check out"))?;
    is_whole(into, &given)?;
    Ok(Fetched::of(&commit))
}

/// Brings a checkout back to what was cloned.
///
/// # Errors
///
/// If it is no checkout of that commit, or can't be written.
pub fn restore(checkout: &Path, commit: &str, keep_dependencies: bool) -> Result<Fetched, InstallError> {
    again(checkout, commit, |repository, found| {
        check_out(repository, found, &|_| {}).map_err(|source| unusable(checkout, source))?;
        super::package::clean(repository, keep_dependencies)?;
        is_whole(checkout, commit)
    })
}

/// What a checkout is of, as it is.
///
/// # Errors
///
/// If it is no checkout of that commit, or has files that are not as the commit has them.
pub fn look(checkout: &Path, commit: &str) -> Result<Fetched, InstallError> {
    again(checkout, commit, |_, _| is_whole(checkout, commit))
}

/// Fails where a file of a checkout is not as the commit has it.
fn is_whole(checkout: &Path, commit: &str) -> Result<(), InstallError> {
    let found = alteration::find(checkout, commit).map_err(|source| unusable(checkout, source))?;
    match found.keys().next() {
        Some(file) => Err(altered(checkout, commit, file)),
        None => Ok(()),
    }
}

/// Opens a checkout that was made earlier, does something with it, and says what it is of.
fn again(
    checkout: &Path,
    commit: &str,
    work: impl FnOnce(&Repository, &git2::Commit<'_>) -> Result<(), InstallError>,
) -> Result<Fetched, InstallError> {
    let fail = |source| unusable(checkout, source);
    let repository = Repository::open(checkout).map_err(fail)?;
    let found = commit_of(&repository, commit, Some(commit)).map_err(fail)?;
    work(&repository, &found)?;
    Ok(Fetched::of(&found))
}

/// A file of a checkout is another one than the commit has.
pub(super) fn altered(checkout: &Path, commit: &str, file: &str) -> InstallError {
    InstallError::Altered { path: checkout.to_owned(), commit: commit.to_owned(), file: file.to_owned() }
}

pub(super) fn unusable(checkout: &Path, source: git2::Error) -> InstallError {
    InstallError::Fetch { verb: "go on with", repository: checkout.display().to_string(), source }
}

fn one_commit(
    remote: &mut git2::Remote<'_>,
    tip: &Tip,
    events: &dyn Fn(Event<'_>),
) -> Result<(), git2::Error> {
    let Some(from) = tip.name.as_deref().or(tip.commit.as_deref()) else {
        return Err(git2::Error::from_str("a short commit can't be asked for"));
    };
    let mut options = FetchOptions::new();
    options.remote_callbacks(callbacks(events)).download_tags(AutotagOption::None).depth(1);
    remote.fetch(&[format!("+{from}:{LOCAL}")], Some(&mut options), None)
}

fn everything(remote: &mut git2::Remote<'_>, events: &dyn Fn(Event<'_>)) -> Result<(), git2::Error> {
    let mut options = FetchOptions::new();
    options.remote_callbacks(callbacks(events)).download_tags(AutotagOption::All);
    remote.fetch(&["+refs/heads/*:refs/remotes/origin/*"], Some(&mut options), None)
}

/// Whether the other side can't do what was asked, as against being away.
fn is_refusal(error: &git2::Error) -> bool {
    let text = error.message();
    ["shallow", "not our ref", "unadvertised", "not supported", "not found in"]
        .iter()
        .any(|word| text.contains(word))
}

/// The commit that a name means here; with `expected`, only that one.
fn commit_of<'r>(
    repository: &'r Repository,
    name: &str,
    expected: Option<&str>,
) -> Result<git2::Commit<'r>, git2::Error> {
    let object = match expected {
        // A branch may have moved on since it was asked for: what was fetched counts then.
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
    events: &dyn Fn(Event<'_>),
) -> Result<(), git2::Error> {
    let mut options = CheckoutBuilder::new();
    // Byte for byte: no setting of the user's changes line ends, so that it can be compared with the commit.
    options.force().disable_filters(true).progress(|_, done, total| {
        events(Event::Files { done: done as u64, total: total as u64 });
    });
    repository.checkout_tree(commit.as_object(), Some(&mut options))?;
    repository.set_head_detached(commit.id())
}

fn callbacks<'a>(events: &'a dyn Fn(Event<'_>)) -> RemoteCallbacks<'a> {
    let mut callbacks = RemoteCallbacks::new();
    callbacks.transfer_progress(move |progress| {
        events(Event::Objects {
            received: progress.received_objects() as u64,
            total: progress.total_objects() as u64,
            bytes: progress.received_bytes() as u64,
        });
        true
    });
    callbacks
}

/// Where the commit that is fetched alone is kept.
const LOCAL: &str = "refs/flock/installed";
const BRANCHES: &str = "refs/heads/";
const TAGS: &str = "refs/tags/";

#[cfg(test)]
#[path = "source_tests.rs"]
mod tests;

//! What the owner is given of a project: the commits of the tip that the owner's branch lacks.

use git2::{Email, EmailCreateOptions};

use super::diff::{self, DiffLimits};
use super::{ProjectError, ProjectRepository, overview};

/// The most commits that are named.
const MAX_COMMITS: usize = 50;

/// The tip, ready to be handed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// The commit, 40 hex digits.
    pub tip: String,
    /// One line about all of it.
    pub title: String,
    /// The subjects of its commits, a line each.
    pub log: String,
    /// A short account of the changed files.
    pub stat: String,
    /// All changes as one patch for `git am`.
    pub patch: String,
}

/// Returns what the owner's branch lacks of the tip, or `None` if that is nothing.
///
/// # Errors
///
/// Returns an error if the repository can't be read.
pub fn prepare(repository: &ProjectRepository, branch: &str) -> Result<Option<Prepared>, ProjectError> {
    let tip = repository.find(branch)?;
    let owner = repository.owner()?;
    if owner.is_some_and(|owner| owner == tip) {
        return Ok(None);
    }
    if let Some(owner) = owner
        && repository.contains(owner, tip)?
    {
        return Ok(None);
    }
    let commits = overview::log(repository, tip, owner, MAX_COMMITS)?;
    // A merge by flock says less than what was merged.
    let own: Vec<&str> =
        commits.iter().filter(|commit| commit.author != "flock").map(|commit| &*commit.subject).collect();
    let title = match own.as_slice() {
        [one] => (*one).to_owned(),
        [] => format!("Merge {} commits", commits.len()),
        [newest, rest @ ..] => format!("{newest} (and {} more)", rest.len()),
    };
    let log: Vec<String> = own.iter().map(|subject| format!("- {subject}")).collect();
    let changes = diff::diff(repository, owner, tip, DiffLimits::default())?;
    let log = log.join("\n");
    let stat = diff::stat(&changes);
    let patch = patch(repository, owner, tip, &title, &log)?;
    Ok(Some(Prepared { tip: tip.to_string(), title, log, stat, patch }))
}

/// Returns all changes as one mail. A series with a mail for each commit would leave out how conflicts were solved,
/// because that stands in merges.
fn patch(
    repository: &ProjectRepository,
    owner: Option<git2::Oid>,
    tip: git2::Oid,
    title: &str,
    log: &str,
) -> Result<String, ProjectError> {
    let failed = ProjectError::git("make a patch of", repository.folder());
    let git = repository.git();
    let old = owner.map(|owner| repository.commit(owner)?.tree().map_err(&failed)).transpose()?;
    let commit = repository.commit(tip)?;
    let new = commit.tree().map_err(&failed)?;
    let mut options = git2::DiffOptions::new();
    // Pictures and the like are in the patch too.
    options.show_binary(true).id_abbrev(40);
    let diff = git.diff_tree_to_tree(old.as_ref(), Some(&new), Some(&mut options)).map_err(&failed)?;
    let mut mail = EmailCreateOptions::default();
    mail.subject_prefix("PATCH");
    let email = Email::from_diff(&diff, 1, 1, &tip, title, log, &commit.author(), &mut mail);
    let email = email.map_err(&failed)?;
    Ok(String::from_utf8_lossy(email.as_slice()).into_owned())
}

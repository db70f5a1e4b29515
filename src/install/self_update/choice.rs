//! Decides where a new flock comes from, and if there is one to build.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{ProgramRecord, SelfUpdateError, UPSTREAM};
use crate::home::{Home, atomic};
use crate::install::error::write_record;
use crate::install::source::{self, RepositoryAddress, ResolvedReference};
use crate::install::tags::{self, InstalledReference, MovedTag};
use crate::install::update::UpdateDecision;
use crate::install::versions::Failed;

/// A repository and the reference that is taken from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UpdateSource {
    /// A URL or an absolute path.
    pub from: String,
    /// A branch, a tag or a commit. `HEAD` is the main branch.
    pub reference: String,
    /// `true` if the user allowed an address without encryption.
    #[serde(default)]
    pub unencrypted: bool,
}

/// The choices of a person on the command line.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SourceArgs<'a> {
    /// The value of `--from`.
    pub from: Option<&'a str>,
    /// The value of `--ref`.
    pub reference: Option<&'a str>,
    /// `true` if `--unencrypted` was given.
    pub unencrypted: bool,
}

impl UpdateSource {
    /// Chooses in this order: the command line, the source of the last update, the repository where flock is published.
    /// A reference belongs to its repository.
    ///
    /// # Errors
    ///
    /// Returns [`SelfUpdateError::NoSource`] if none is known, [`SelfUpdateError::Unencrypted`] for an `http` or `git` address that
    /// the user has not allowed, and an [`SelfUpdateError::Install`] if the address is not usable.
    pub(crate) fn choose(
        home: &Home,
        said: SourceArgs<'_>,
    ) -> Result<(Self, RepositoryAddress), SelfUpdateError> {
        Self::choose_from(Self::remembered(home).as_ref(), said, UPSTREAM)
    }

    fn choose_from(
        last: Option<&Self>,
        said: SourceArgs<'_>,
        upstream: Option<&str>,
    ) -> Result<(Self, RepositoryAddress), SelfUpdateError> {
        let from = said
            .from
            .or(last.map(|last| last.from.as_str()))
            .or(upstream)
            .ok_or(SelfUpdateError::NoSource)?;
        let origin = RepositoryAddress::parse(from)?;
        // The permission for an unencrypted address and the reference were given for one repository only.
        let same = last.filter(|last| last.from == origin.as_str());
        let unencrypted = said.unencrypted || same.is_some_and(|last| last.unencrypted);
        if !unencrypted && origin.is_unencrypted() {
            return Err(SelfUpdateError::Unencrypted { address: origin.as_str().to_owned() });
        }
        let reference = said.reference.or(same.map(|last| last.reference.as_str())).unwrap_or("HEAD");
        Ok((Self { from: origin.as_str().to_owned(), reference: reference.to_owned(), unencrypted }, origin))
    }

    /// Returns the source of the last update.
    #[must_use]
    pub(crate) fn remembered(home: &Home) -> Option<Self> {
        serde_json::from_slice(&atomic::read(&home.program().join(SOURCE_FILE), 64 << 10).ok()??).ok()
    }

    /// Records the source for the next update.
    ///
    /// # Errors
    ///
    /// Returns an error if the record cannot be written.
    pub(crate) fn remember(&self, home: &Home) -> Result<(), SelfUpdateError> {
        Ok(write_record(&home.program().join(SOURCE_FILE), serde_json::to_vec_pretty(self))?)
    }
}

/// Returns the number of changed files that are not committed, if the source is a folder. The build contains only what
/// is committed.
#[must_use]
pub(crate) fn uncommitted(source: &UpdateSource) -> usize {
    let folder = source.from.strip_prefix("file://").unwrap_or(&source.from);
    // Uncommitted files can be seen only on this machine.
    if source.from.contains("://") && !source.from.starts_with("file://") {
        return 0;
    }
    let Ok(repository) = git2::Repository::open(Path::new(folder)) else { return 0 };
    let mut options = git2::StatusOptions::new();
    options.include_untracked(true).recurse_untracked_dirs(false).include_ignored(false);
    repository.statuses(Some(&mut options)).map_or(0, |changed| changed.len())
}

/// Returns `true` if the repository must be asked. A tag or commit that is in use never changes, so it need not be
/// asked for.
#[must_use]
pub(crate) fn has_to_ask(current: &ProgramRecord, source: &UpdateSource, named: bool) -> bool {
    named
        || current.follows
        || current.origin.as_ref() != Some(&source.from)
        || current.reference.as_ref() != Some(&source.reference)
}

/// Decides what an update does. `tip` is the answer of the repository, if it was asked.
#[must_use]
pub(crate) fn decide(
    current: &ProgramRecord,
    tip: Option<&ResolvedReference>,
    moved: Option<MovedTag>,
    failed: Option<Failed>,
    retry: bool,
) -> UpdateDecision {
    let Some(tip) = tip else { return UpdateDecision::Fixed };
    if let Some(moved) = moved {
        return UpdateDecision::Moved(moved);
    }
    // A shortened commit is not known before it is fetched.
    let Some(commit) = &tip.commit else { return UpdateDecision::New(None) };
    if current.is_of(commit) {
        return UpdateDecision::Current;
    }
    UpdateDecision::about(commit, failed, retry)
}

/// Asks the repository for the commit of the wanted reference.
///
/// # Errors
///
/// Returns an error if the repository does not answer, or has no such reference.
pub(crate) fn ask(
    origin: &RepositoryAddress,
    source: &UpdateSource,
) -> Result<ResolvedReference, SelfUpdateError> {
    Ok(source::resolve(origin, &source.reference)?)
}

/// Returns the old and new commit if the wanted reference is a tag that pointed elsewhere when this home first saw it.
///
/// # Errors
///
/// Returns an error if the record of tags cannot be read.
pub(crate) fn moved(
    home: &Home,
    source: &UpdateSource,
    tip: &ResolvedReference,
    current: &ProgramRecord,
) -> Result<Option<MovedTag>, SelfUpdateError> {
    // An older flock kept no record of tags. The versions that it installed show where a tag was.
    let previous = ProgramRecord::previous(home);
    let known: Vec<InstalledReference<'_>> = [Some(current), previous.as_ref()]
        .into_iter()
        .flatten()
        .filter_map(ProgramRecord::as_installed)
        .collect();
    Ok(tags::moved(&home.program_tags_file(), &source.from, &source.reference, tip, &known)?)
}

/// Records the commit of a tag that is installed.
///
/// # Errors
///
/// Returns an error if the record cannot be read or written.
pub(crate) fn note(
    home: &Home,
    source: &UpdateSource,
    tip: &ResolvedReference,
) -> Result<(), SelfUpdateError> {
    Ok(tags::note(&home.program_tags_file(), &source.from, tip)?)
}

const SOURCE_FILE: &str = "source.json";

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

    fn said<'a>(from: Option<&'a str>, reference: Option<&'a str>) -> SourceArgs<'a> {
        SourceArgs { from, reference, unencrypted: false }
    }

    #[test]
    fn arguments_win_and_a_reference_belongs_to_its_repository() {
        let choose = |last: Option<&UpdateSource>, said: SourceArgs<'_>, upstream| {
            UpdateSource::choose_from(last, said, upstream).map(|(source, _)| (source.from, source.reference))
        };
        let there = "https://example.org/flock.git";
        let is = |from: &str, reference: &str| Some((from.to_owned(), reference.to_owned()));
        assert!(matches!(choose(None, said(None, None), None), Err(SelfUpdateError::NoSource)));
        assert_eq!(choose(None, said(None, None), Some(there)).ok(), is(there, "HEAD"));
        let last = UpdateSource { from: there.into(), reference: "v1".into(), unencrypted: false };
        assert_eq!(choose(Some(&last), said(None, None), None).ok(), is(there, "v1"));
        assert_eq!(choose(Some(&last), said(None, Some("v2")), None).ok(), is(there, "v2"));
        let other = "ssh://git@example.org/fork";
        assert_eq!(choose(Some(&last), said(Some(other), None), None).ok(), is(other, "HEAD"));
    }

    #[test]
    fn an_unencrypted_address_needs_permission() {
        for address in ["http://example.org/flock", "git://example.org/flock", "HTTP://example.org/flock"] {
            let refused = UpdateSource::choose_from(None, said(Some(address), None), None);
            assert!(refused.is_err(), "{address}");
        }
        assert!(
            UpdateSource::choose_from(None, said(Some("http://127.0.0.1:8080/flock"), None), None).is_ok()
        );
        let address = "http://example.org/flock";
        let allowed = SourceArgs { unencrypted: true, ..said(Some(address), None) };
        let (taken, _) = UpdateSource::choose_from(None, allowed, None).unwrap();
        assert!(UpdateSource::choose_from(Some(&taken), said(None, None), None).is_ok(), "it is remembered");
    }

    #[test]
    fn versions_are_compared_by_commit() {
        let current = ProgramRecord {
            version: "0.2.0 (aaaaaaaaaaaa)".into(),
            commit: Some("aaaaaaaaaaaa".into()),
            reference: None,
            follows: false,
            origin: None,
            built_at: None,
            sha256: String::new(),
        };
        let tip = |commit: Option<&str>| ResolvedReference {
            name: None,
            commit: commit.map(str::to_owned),
            is_branch: true,
        };
        let failed = || Failed { version: None, reason: "x".into(), at: 1, doubtful: false };
        assert_eq!(decide(&current, Some(&tip(Some(A))), None, None, false), UpdateDecision::Current);
        assert_eq!(
            decide(&current, Some(&tip(Some(B))), None, None, false),
            UpdateDecision::New(Some(B.into()))
        );
        assert_eq!(
            decide(&current, Some(&tip(Some(B))), None, Some(failed()), false),
            UpdateDecision::Failed(B.into(), failed())
        );
        assert_eq!(
            decide(&current, Some(&tip(Some(B))), None, Some(failed()), true),
            UpdateDecision::New(Some(B.into()))
        );
        assert_eq!(decide(&current, Some(&tip(None)), None, None, false), UpdateDecision::New(None));
        let source = UpdateSource { from: "/there".into(), reference: "v1".into(), unencrypted: false };
        let tagged =
            ProgramRecord { origin: Some("/there".into()), reference: Some("v1".into()), ..current.clone() };
        assert!(has_to_ask(&current, &source, false) && !has_to_ask(&tagged, &source, false));
        assert!(has_to_ask(&tagged, &source, true));
        assert_eq!(decide(&tagged, None, None, None, false), UpdateDecision::Fixed);
    }
}

//! Decides if there is anything to update to: from the version in use, the reference that is followed, and the commits
//! that failed here before. [`decide`] is pure, and [`VersionSearch`] asks the repository for it. Versions are compared
//! by commit only, because two commits may have the same version number, and a later commit a lower one.

use std::collections::BTreeMap;

use super::source::{self, RepositoryAddress, ResolvedReference};
use super::staging::StagingFolder;
use super::tags::MovedTag;
use super::versions::{self, Failed};
use super::{InstallError, InstallEvent, InstallPhase, InstallTarget, InstalledVersion};
use crate::home::Home;

/// The reason why a reference is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VersionRequest {
    /// It is in use, or the configuration names it.
    Followed,
    /// A person named it this time.
    Named,
}

/// The decision about an update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum UpdateDecision {
    /// Nothing to do: a tag or a commit is in use, and it never changes.
    Fixed,
    /// Nothing to do: the wanted commit is in use.
    Current,
    /// Build this commit and put it in use. `None` if a shortened commit was named, which is only known after it is
    /// fetched.
    New(Option<String>),
    /// Nothing to do: this commit failed here before.
    Failed(String, Failed),
    /// Nothing to do: the reference is a tag that was at another commit when this home first saw it.
    Moved(MovedTag),
}

impl UpdateDecision {
    /// Decides about a commit that is not in use. `retry` also accepts a commit that failed here before.
    #[must_use]
    pub(crate) fn about(commit: &str, failed: Option<Failed>, retry: bool) -> Self {
        match failed {
            Some(failed) if !retry => Self::Failed(commit.to_owned(), failed),
            _ => Self::New(Some(commit.to_owned())),
        }
    }

    /// Returns the word for JSON output.
    #[must_use]
    pub(crate) const fn state(&self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Current => "current",
            Self::New(_) => "available",
            Self::Failed(..) => "failed",
            Self::Moved(_) => "moved",
        }
    }

    /// Returns the wanted commit, if it is known. `current` is the commit in use.
    #[must_use]
    pub(crate) fn commit<'a>(&'a self, current: Option<&'a str>) -> Option<&'a str> {
        match self {
            Self::Fixed => None,
            Self::Current => current,
            Self::New(commit) => commit.as_deref(),
            Self::Failed(commit, _) => Some(commit),
            Self::Moved(moved) => Some(&moved.now),
        }
    }

    /// Returns the failure because of which the commit is skipped.
    #[must_use]
    pub(crate) const fn failed(&self) -> Option<&Failed> {
        if let Self::Failed(_, failed) = self { Some(failed) } else { None }
    }

    /// Returns the commit at which the tag was before it was moved.
    #[must_use]
    pub(crate) fn was(&self) -> Option<&str> {
        if let Self::Moved(moved) = self { Some(&moved.was) } else { None }
    }
}

/// Returns `true` if the repository must be asked. A tag in use stays at its commit, even if it is moved upstream.
#[must_use]
pub(crate) fn has_to_ask(current: &InstalledVersion, wanted: &InstallTarget, asked: VersionRequest) -> bool {
    asked == VersionRequest::Named
        || current.follows
        || wanted.reference != current.reference
        || wanted.repository != current.origin
}

/// Decides what an update does. `tip` is the answer of the repository, if it was asked.
#[must_use]
pub(crate) fn decide(
    current: &InstalledVersion,
    wanted: &InstallTarget,
    tip: Option<&ResolvedReference>,
    moved: Option<MovedTag>,
    failed: &BTreeMap<String, Failed>,
    retry: bool,
) -> UpdateDecision {
    let Some(tip) = tip else { return UpdateDecision::Fixed };
    if let Some(moved) = moved {
        return UpdateDecision::Moved(moved);
    }
    let Some(commit) = &tip.commit else {
        let short = wanted.reference.to_ascii_lowercase();
        let same = current.commit.starts_with(&short);
        return if same { UpdateDecision::Current } else { UpdateDecision::New(None) };
    };
    if *commit == current.commit {
        return UpdateDecision::Current;
    }
    UpdateDecision::about(commit, failed.get(commit).cloned(), retry)
}

/// The version to look for.
pub(crate) struct VersionQuery {
    /// The repository and the reference, followed or named.
    pub wanted: InstallTarget,
    /// The origin of the reference: followed by configuration, or named on the command line.
    pub asked: VersionRequest,
    /// `true` to take a commit although it did not work here before.
    pub retry: bool,
}

/// The result of looking.
pub(crate) struct VersionSearch {
    pub query: VersionQuery,
    /// The repository's answer, if it was asked.
    pub tip: Option<ResolvedReference>,
    pub decision: UpdateDecision,
}

impl VersionSearch {
    /// Looks for a version. Nothing is changed.
    ///
    /// # Errors
    ///
    /// Returns an error if the repository does not answer, or the record of tags cannot be read.
    pub(crate) fn at(
        home: &Home,
        current: &InstalledVersion,
        query: VersionQuery,
        events: &dyn Fn(InstallEvent<'_>),
    ) -> Result<Self, InstallError> {
        let wanted = &query.wanted;
        // A tag or a commit in use stays what it is, whatever upstream makes of it, so nothing has to be asked.
        let (tip, moved) = if has_to_ask(current, wanted, query.asked) {
            events(InstallEvent::Phase(InstallPhase::Asking));
            let origin = RepositoryAddress::parse_encrypted(&wanted.repository)?;
            let tip = source::resolve(&origin, &wanted.reference)?;
            let moved = versions::moved(home, origin.as_str(), &wanted.reference, &tip)?;
            events(InstallEvent::PhaseDone);
            (Some(tip), moved)
        } else {
            (None, None)
        };
        let decision = decide(
            current,
            wanted,
            tip.as_ref(),
            moved,
            &versions::failed(&home.openclaw_failures_file()),
            query.retry,
        );
        Ok(Self { query, tip, decision })
    }

    /// Returns `true` if the half-built version here is the commit that was found.
    ///
    /// Only then is it the commit that failed, and not one that the branch has moved away from meanwhile.
    #[must_use]
    pub(crate) fn is_staged(&self, home: &Home) -> bool {
        let commit = self.tip.as_ref().and_then(|tip| tip.commit.as_deref());
        let origin = RepositoryAddress::parse(&self.query.wanted.repository);
        let (Some(commit), Ok(origin)) = (commit, origin) else { return false };
        StagingFolder::of(home).stage(origin.as_str(), commit).is_some()
    }
}

/// Returns one line with the reason if the commit itself is at fault. For errors of the network, the machine or the
/// disk it returns `None`, and the next update tries the same commit again.
#[must_use]
pub(crate) fn own_fault(error: &InstallError) -> Option<String> {
    match error {
        InstallError::Step { command, how, own: true, .. } => Some(format!("{command} {how}")),
        InstallError::Shape { reason, .. } => Some(format!("it is no OpenClaw: {reason}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

    fn version(reference: &str, follows: bool) -> InstalledVersion {
        InstalledVersion {
            version: "2026.9.6".to_owned(),
            commit: A.to_owned(),
            reference: reference.to_owned(),
            follows,
            origin: "/there".to_owned(),
            committed_at: 1,
            built_at: 1,
            node: "/usr/bin/node".into(),
            node_version: "24.0.0".to_owned(),
            replaces: None,
            altered: None,
            path: "/here".into(),
        }
    }

    fn wanted(reference: &str) -> InstallTarget {
        InstallTarget { repository: "/there".to_owned(), reference: reference.to_owned(), node: None }
    }

    fn tip(commit: Option<&str>, is_branch: bool) -> ResolvedReference {
        ResolvedReference { name: None, commit: commit.map(str::to_owned), is_branch }
    }

    #[test]
    fn a_branch_is_followed_by_its_commit_and_a_tag_is_not() {
        let branch = version("main", true);
        let none = BTreeMap::new();
        assert!(has_to_ask(&branch, &wanted("main"), VersionRequest::Followed));
        let decided =
            |tip: &ResolvedReference| decide(&branch, &wanted("main"), Some(tip), None, &none, false);
        assert_eq!(decided(&tip(Some(A), true)), UpdateDecision::Current);
        assert_eq!(decided(&tip(Some(B), true)), UpdateDecision::New(Some(B.to_owned())));

        let tagged = version("v2026.9.6", false);
        assert!(!has_to_ask(&tagged, &wanted("v2026.9.6"), VersionRequest::Followed));
        assert_eq!(decide(&tagged, &wanted("v2026.9.6"), None, None, &none, false), UpdateDecision::Fixed);
        // Another reference in the configuration, another repository, or a reference that a person names.
        assert!(has_to_ask(&tagged, &wanted("v2026.9.7"), VersionRequest::Followed));
        let elsewhere = InstallTarget { repository: "/elsewhere".to_owned(), ..wanted("v2026.9.6") };
        assert!(has_to_ask(&tagged, &elsewhere, VersionRequest::Followed));
        assert!(has_to_ask(&tagged, &wanted("v2026.9.6"), VersionRequest::Named));
        let decided =
            |moved| decide(&tagged, &wanted("v2026.9.7"), Some(&tip(Some(B), false)), moved, &none, false);
        assert_eq!(decided(None), UpdateDecision::New(Some(B.to_owned())));
        let moved =
            MovedTag { tag: "v2026.9.7".to_owned(), was: A.to_owned(), now: B.to_owned(), is_branch: false };
        assert_eq!(decided(Some(moved.clone())), UpdateDecision::Moved(moved));
    }

    #[test]
    fn a_short_commit_in_use_is_recognized() {
        let fixed = version(A, false);
        let none = BTreeMap::new();
        let decided = |text: &str| decide(&fixed, &wanted(text), Some(&tip(None, false)), None, &none, false);
        assert_eq!(decided("AAAAAAA"), UpdateDecision::Current);
        assert_eq!(decided("abababa"), UpdateDecision::New(None));
    }

    #[test]
    fn only_build_failures_are_blamed_on_the_commit() {
        let step = |own| InstallError::Step {
            command: "npm run build".to_owned(),
            how: "ended with code 1".to_owned(),
            own,
            tail: Vec::new(),
            log: "/build.log".into(),
        };
        assert_eq!(own_fault(&step(true)).as_deref(), Some("npm run build ended with code 1"));
        assert_eq!(own_fault(&step(true).not_commit_fault()), None);
        assert_eq!(own_fault(&step(false)), None);
        assert_eq!(own_fault(&InstallError::Busy), None);
        let shape = InstallError::Shape { repository: "/there".to_owned(), reason: "it has no x".to_owned() };
        assert!(own_fault(&shape).is_some());
    }

    #[test]
    fn a_failed_commit_is_skipped_unless_retried() {
        let failure = Failed { version: None, reason: "it did not start".to_owned(), at: 7, doubtful: false };
        let failed = BTreeMap::from([(B.to_owned(), failure.clone())]);
        let branch = version("main", true);
        let newer = tip(Some(B), true);
        let decided = |retry| decide(&branch, &wanted("main"), Some(&newer), None, &failed, retry);
        assert_eq!(decided(false), UpdateDecision::Failed(B.to_owned(), failure));
        assert_eq!(decided(true), UpdateDecision::New(Some(B.to_owned())));
    }
}

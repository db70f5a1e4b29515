//! Looking for a version to update to.

use super::super::{Context, Failure};
use crate::home::Home;
use crate::install::source::{self, RepositoryAddress, ResolvedReference};
use crate::install::staging::StagingFolder;
use crate::install::update::{Asked, Decision, decide, has_to_ask};
use crate::install::{InstallError, InstalledVersion, Wanted, versions};

/// The version to look for.
pub struct VersionQuery {
    /// The repository and the reference, followed or named.
    pub wanted: Wanted,
    /// The origin of the reference: followed by configuration, or named on the command line.
    pub asked: Asked,
    /// `true` to take a commit although it did not work here before.
    pub retry: bool,
    /// Converts an error of asking or building into the command's own words.
    pub words: fn(InstallError) -> Failure,
}

/// The result of looking.
pub struct VersionSearch {
    /// The repository and the reference, followed or named.
    pub wanted: Wanted,
    /// The repository's answer, if it was asked.
    pub tip: Option<ResolvedReference>,
    pub decision: Decision,
    /// The value from the [`VersionQuery`].
    pub retry: bool,
    /// The value from the [`VersionQuery`].
    pub words: fn(InstallError) -> Failure,
}

impl VersionSearch {
    /// Looks for a version. Nothing is changed.
    ///
    /// # Errors
    ///
    /// Returns an error if the repository does not answer.
    pub fn at(
        home: &Home,
        current: &InstalledVersion,
        search: VersionQuery,
        context: &Context,
    ) -> Result<Self, Failure> {
        let VersionQuery { wanted, asked, retry, words } = search;
        // A tag or a commit in use stays what it is, whatever upstream makes of it, so nothing has to be asked.
        let (tip, moved) = if has_to_ask(current, &wanted, asked) {
            let progress = context.printer.progress("asking OpenClaw's repository");
            let asked = RepositoryAddress::parse_encrypted(&wanted.repository).and_then(|origin| {
                let tip = source::resolve(&origin, &wanted.reference)?;
                let moved = versions::moved(home, origin.as_str(), &wanted.reference, &tip)?;
                Ok((Some(tip), moved))
            });
            let asked = asked.map_err(words)?;
            progress.done("the repository answered");
            asked
        } else {
            (None, None)
        };
        let decision = decide(current, &wanted, tip.as_ref(), moved, &versions::failed(home), retry);
        Ok(Self { wanted, tip, decision, retry, words })
    }

    /// Returns `true` if the half-built version here is the commit that was found.
    ///
    /// Only then is it the commit that failed, and not one that the branch has moved away from meanwhile.
    pub fn is_staged(&self, home: &Home) -> bool {
        let commit = self.tip.as_ref().and_then(|tip| tip.commit.as_deref());
        let origin = RepositoryAddress::parse(&self.wanted.repository);
        let (Some(commit), Ok(origin)) = (commit, origin) else { return false };
        StagingFolder::of(home).stage(origin.as_str(), commit).is_some()
    }
}

//! What there is to update to.

use super::super::{Context, Failure};
use crate::home::Home;
use crate::install::source::{self, Origin, Tip};
use crate::install::staging::Staging;
use crate::install::update::{Asked, Decision, decide, has_to_ask};
use crate::install::{InstallError, Version, Wanted, versions};

/// What is looked for.
pub struct Search {
    /// What is followed, or was named.
    pub wanted: Wanted,
    /// Which of the two.
    pub asked: Asked,
    /// Whether a commit that did not work here is taken all the same.
    pub retry: bool,
    /// An error of asking or making, in the words of the command.
    pub words: fn(InstallError) -> Failure,
}

/// What was found.
pub struct Look {
    /// What is followed, or was named.
    pub wanted: Wanted,
    /// What the repository has of it, if it was asked.
    pub tip: Option<Tip>,
    /// What is to be done.
    pub decision: Decision,
    /// As it was looked for.
    pub retry: bool,
    /// As it was looked for.
    pub words: fn(InstallError) -> Failure,
}

impl Look {
    /// Looks. Nothing is changed.
    ///
    /// # Errors
    ///
    /// If the repository does not answer.
    pub fn at(home: &Home, current: &Version, search: Search, context: &Context) -> Result<Self, Failure> {
        let Search { wanted, asked, retry, words } = search;
        let (tip, moved) = if has_to_ask(current, &wanted, asked) {
            let progress = context.printer.progress("asking OpenClaw's repository");
            let asked = Origin::secured(&wanted.repository).and_then(|origin| {
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

    /// Whether what is half made here is the commit that was found: then it is this one that failed, and not one that the
    /// branch has moved on to since.
    pub fn is_staged(&self, home: &Home) -> bool {
        let commit = self.tip.as_ref().and_then(|tip| tip.commit.as_deref());
        let origin = Origin::parse(&self.wanted.repository);
        let (Some(commit), Ok(origin)) = (commit, origin) else { return false };
        Staging::of(home).stage(origin.as_str(), commit).is_some()
    }
}

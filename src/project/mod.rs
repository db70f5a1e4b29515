//! Projects in git: flock's own copy of the owner's repository, the agents' branches in it, and everything that is
//! read from or written to it. The owner's repository is only read.
//!
//! Agents push to this copy, so its branches, commits and trees are hostile input. Everything here works on a bare
//! repository with libgit2 and a configuration of flock's own: there is no working tree, and no hook, filter, submodule
//! or setting of anybody else takes effect on this machine.
//!
//! | file | subject |
//! |---|---|
//! | [`mod@reference`] | names of branches, and the rule on who may change which one |
//! | [`repository`] | the repository on disk: creation, atomic changes of references, rights, repair |
//! | [`mirror`] | the owner's branch is fetched and joined with the tip |
//! | [`overview`] | the tip, the owner's branch, the agents' branches, the log |
//! | [`diff`] | the changes between two commits, by file |
//! | [`agents`] | the branches of agents that are renamed or removed |
//! | [`landing`] | what the owner is given of a project |
//! | [`merge`] | two commits are merged, or their conflicts are named |
//! | [`tree`] | the files of a commit are written into a folder |
//! | [`incoming`] | a pack that an agent pushed is checked before it is stored |
//! | [`simulation`] | a team's work is played without models: calls, tokens and waits |

pub(crate) mod agents;
pub mod diff;
mod error;
pub mod incoming;
pub mod landing;
pub mod merge;
pub mod mirror;
pub mod overview;
pub mod reference;
pub mod repository;
pub mod simulation;
#[cfg(test)]
pub(crate) mod testing;
pub mod tree;

pub use diff::{BranchDiff, DiffLimits, FileDiff, FileStatus};
pub use error::ProjectError;
pub use incoming::{Push, PushLimits, PushReport};
pub use merge::{Conflict, MergeMessage, MergeOutcome};
pub use mirror::{RewrittenHistory, SyncOutcome};
pub use overview::{BranchSummary, CommitSummary, Overview};
pub use reference::AgentBranch;
pub use repository::{ProjectRepository, RefChange};
pub use tree::CheckoutLimits;

/// The id of a commit, tree or blob. It displays and parses as 40 hex digits.
pub type ObjectId = git2::Oid;

/// Returns the part of a commit's id that is shown to people.
#[must_use]
pub(crate) fn short(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}

//! Installs the OpenClaw gateway. Its repository is cloned, checked, built beside the installed version, tried, and put
//! in use by one rename.
//!
//! [`plan`] decides what has to be done, as a pure function of the checkout and the machine. [`source`] fetches.
//! [`step`] runs the commands of a build. [`staging`] records how far an installation got, so that it survives a
//! `kill -9`. [`prepare`](prepare()) does all of this and returns the complete folder of a version that is not in use
//! yet. [`swap`](swap()) makes it the current one. [`versions`] reads what is installed.
//!
//! [`self_update`] does the same for flock's own program. [`kept`] says which earlier states of a home are still whole.
//!
//! All functions here block. Call them from a thread that may block.

mod build_environment;
mod checkout_diff;
mod error;
pub(crate) mod kept;
pub(crate) mod machine;
pub(crate) mod node;
pub(crate) mod package;
pub(crate) mod pending_change;
pub(crate) mod plan;
mod prepare;
mod repository_address;
pub(crate) mod self_update;
pub mod source;
pub(crate) mod staging;
pub(crate) mod step;
mod swap;
pub(crate) mod tags;
pub(crate) mod transport;
pub(crate) mod update;
pub(crate) mod versions;

use std::path::PathBuf;

use crate::config::OpenClawSettings;
use crate::home::lock::Lock;
use crate::home::{Home, HomeError};

pub use error::InstallError;
pub(crate) use prepare::{LOG, prepare};
pub(crate) use swap::{prune, swap, swap_back};
pub use versions::InstalledVersion;

/// Default repository of OpenClaw.
pub(crate) const DEFAULT_REPOSITORY: &str = "https://github.com/openclaw/openclaw.git";

/// Default version: the newest one that flock was tested with.
pub(crate) const DEFAULT_REFERENCE: &str = "v2026.9.6";

/// The commit of that tag. It detects a tag that was moved before the first installation.
pub(crate) const DEFAULT_COMMIT: &str = "eb377ac59e6c9fd6c7705028034812becf00271b";

/// The version that is to be installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InstallTarget {
    /// A URL or a path.
    pub repository: String,
    /// A branch, a tag or a commit.
    pub reference: String,
    /// The Node to use. `None` takes the first suitable one on PATH.
    pub node: Option<PathBuf>,
}

impl InstallTarget {
    /// Chooses in this order: the arguments, the configuration, the installed version, flock's default. A reference
    /// belongs to its repository, so that of the installed version counts only for the same repository.
    #[must_use]
    pub(crate) fn choose(
        repository: Option<&str>,
        reference: Option<&str>,
        settings: &OpenClawSettings,
        current: Option<&InstalledVersion>,
    ) -> Self {
        let installed = current.map(|version| version.origin.as_str());
        let repository =
            repository.or(settings.repository.as_deref()).or(installed).unwrap_or(DEFAULT_REPOSITORY);
        let followed = current.filter(|version| version.origin == repository);
        // The default tag exists only in OpenClaw's own repository.
        let usual = if repository == DEFAULT_REPOSITORY { DEFAULT_REFERENCE } else { "HEAD" };
        let reference = reference
            .or(settings.reference.as_deref())
            .or(followed.map(|version| version.reference.as_str()))
            .unwrap_or(usual);
        Self {
            repository: repository.to_owned(),
            reference: reference.to_owned(),
            node: node::chosen(settings),
        }
    }
}

/// Progress of an installation. There are many events, so a receiver must be quick.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstallEvent<'a> {
    Phase(InstallPhase<'a>),
    /// Progress of a download of git objects.
    Objects {
        received: u64,
        total: u64,
        /// Bytes received so far.
        bytes: u64,
    },
    /// Progress of writing the checkout.
    Files {
        done: u64,
        total: u64,
    },
    /// A line of output of a step.
    Line(&'a str),
    /// The phase succeeded. The beginning of the next phase also says so.
    PhaseDone,
    PhaseFailed,
    Notice(InstallNotice<'a>),
}

/// A fact that a person should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstallNotice<'a> {
    /// No agent runs on OpenClaw, so the new version is not tried.
    NoAgents,
    /// An interrupted change to this version is completed.
    GoingOn(&'a InstalledVersion),
    /// An interrupted return to this version is completed.
    GoingBack(&'a InstalledVersion),
    /// The version of an interrupted change is healthy.
    Healthy(&'a InstalledVersion),
    /// Old versions could not be removed, for this reason.
    NotTidied(&'a str),
}

/// A part of the work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstallPhase<'a> {
    /// The repository is asked for its references.
    Asking,
    /// Objects are downloaded.
    Fetching { commit: &'a str },
    /// An interrupted installation is continued.
    Resuming { commit: &'a str },
    /// An installed version of this commit no longer matches what was cloned and built. It is made again.
    Anew { commit: &'a str },
    /// The files are written.
    CheckingOut,
    /// A command runs, as in `npm run build`.
    Running(&'a str),
    /// The finished build is started for a test.
    Trying,
    /// The new version is asked whether it accepts its configuration.
    Checking,
    /// The new version is started beside the one in use.
    Starting,
    /// A running OpenClaw is restarted with this version.
    Restarting(&'a InstalledVersion),
}

/// Permission to install into a home. One process has it at a time, by holding a lock.
#[derive(Debug)]
pub(crate) struct InstallLock {
    _lock: Lock,
}

impl InstallLock {
    /// Takes the lock, without waiting.
    ///
    /// # Errors
    ///
    /// Returns [`InstallError::Busy`] if another process holds the lock.
    pub(crate) fn begin(home: &Home) -> Result<Self, InstallError> {
        match Lock::try_acquire(&home.install_lock()) {
            Ok(lock) => Ok(Self { _lock: lock }),
            Err(HomeError::Held { .. }) => Err(InstallError::Busy),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(origin: &str, reference: &str) -> InstalledVersion {
        InstalledVersion {
            version: "2026.2.9".to_owned(),
            commit: "0123456789abcdef0123456789abcdef01234567".to_owned(),
            reference: reference.to_owned(),
            follows: false,
            origin: origin.to_owned(),
            committed_at: 0,
            built_at: 0,
            node: PathBuf::from("/usr/bin/node"),
            node_version: "20.0.0".to_owned(),
            replaces: None,
            altered: None,
            path: PathBuf::from("/x"),
        }
    }

    #[test]
    fn arguments_win_over_settings_and_installed_version() {
        let none = OpenClawSettings::default();
        let wanted = InstallTarget::choose(None, None, &none, None);
        assert_eq!(
            (wanted.repository.as_str(), wanted.reference.as_str()),
            (DEFAULT_REPOSITORY, DEFAULT_REFERENCE)
        );
        let own = InstallTarget::choose(Some("/srv/fork"), None, &none, None);
        assert_eq!(own.reference, "HEAD", "a pinned reference belongs to its repository");
        let installed = version("/srv/fork", "main");
        let again = InstallTarget::choose(None, None, &none, Some(&installed));
        assert_eq!((again.repository.as_str(), again.reference.as_str()), ("/srv/fork", "main"));
        let elsewhere = InstallTarget::choose(Some("/srv/other"), None, &none, Some(&installed));
        assert_eq!(elsewhere.reference, "HEAD");
        let settings = OpenClawSettings {
            repository: Some("/srv/set".into()),
            reference: Some("x".into()),
            ..OpenClawSettings::default()
        };
        let set = InstallTarget::choose(None, None, &settings, Some(&installed));
        assert_eq!((set.repository.as_str(), set.reference.as_str()), ("/srv/set", "x"));
        let given = InstallTarget::choose(Some("/srv/given"), Some("y"), &settings, Some(&installed));
        assert_eq!((given.repository.as_str(), given.reference.as_str()), ("/srv/given", "y"));
    }
}

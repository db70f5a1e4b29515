//! Installing the OpenClaw gateway: its repository is cloned, checked, built beside what is there, tried, and put
//! in place by one rename.
//!
//! [`plan`] decides, as a pure function of what the checkout says and what the machine has; [`source`] fetches;
//! [`step`] runs what a build consists of; [`staging`] remembers over a `kill -9` how far an install came;
//! [`prepare`](prepare()) does all that and ends with a complete folder of a version that nobody uses yet;
//! [`swap`](swap()) makes it the current one. [`versions`] reads what is installed.
//!
//! [`own`] does the same for flock's own program.
//!
//! Everything here blocks: call it from a thread that may.

mod alteration;
mod environment;
mod error;
pub mod machine;
pub mod node;
pub mod own;
pub mod package;
pub mod plan;
mod prepare;
pub mod source;
pub mod staging;
pub mod step;
mod swap;
pub mod tags;
mod transport;
pub mod underway;
pub mod update;
pub mod versions;

use std::path::PathBuf;

use crate::config::OpenClawSettings;
use crate::home::lock::Lock;
use crate::home::{Home, HomeError};

pub use error::InstallError;
pub use prepare::{LOG, prepare};
pub use swap::{prune, swap, swap_back};
pub use versions::Version;

/// Where OpenClaw is cloned from unless something else is said.
pub const REPOSITORY: &str = "https://github.com/openclaw/openclaw.git";

/// What is taken of it unless something else is said: the newest version that flock was tried with.
pub const REFERENCE: &str = "v2026.9.6";

/// The commit of that tag.
pub const REFERENCE_COMMIT: &str = "eb377ac59e6c9fd6c7705028034812becf00271b";

/// What is to be installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// A URL or a path.
    pub repository: String,
    /// A branch, a tag or a commit.
    pub reference: String,
    /// The Node to use, where it is not the first one on PATH that fits.
    pub node: Option<PathBuf>,
}

impl Wanted {
    /// What was asked for, else what the configuration says, else what is installed, else flock's own choice. A
    /// reference belongs to its repository: one that is installed counts only for the same repository.
    #[must_use]
    pub fn choose(
        repository: Option<&str>,
        reference: Option<&str>,
        settings: &OpenClawSettings,
        current: Option<&Version>,
    ) -> Self {
        let installed = current.map(|version| version.origin.as_str());
        let repository = repository.or(settings.repository.as_deref()).or(installed).unwrap_or(REPOSITORY);
        let followed = current.filter(|version| version.origin == repository);
        let usual = if repository == REPOSITORY { REFERENCE } else { "HEAD" };
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

/// What an install is at. Sinks get many of them and must be quick.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A part of the work begins.
    Phase(Phase<'a>),
    /// So many of the objects have arrived, and so many bytes.
    Objects {
        /// Arrived.
        received: u64,
        /// Of so many.
        total: u64,
        /// Bytes on the wire.
        bytes: u64,
    },
    /// So many of the files are written.
    Files {
        /// Written.
        done: u64,
        /// Of so many.
        total: u64,
    },
    /// A line that a step wrote.
    Line(&'a str),
}

/// A part of the work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase<'a> {
    /// The repository is asked what it has.
    Asking,
    /// Objects come in.
    Fetching {
        /// Of this commit.
        commit: &'a str,
    },
    /// An earlier install came so far; it goes on.
    Resuming {
        /// With this commit.
        commit: &'a str,
    },
    /// A version of this commit is installed and no longer what was cloned and built; it is made again.
    Anew {
        /// The commit.
        commit: &'a str,
    },
    /// Files are written.
    CheckingOut,
    /// A command runs, as in `npm run build`.
    Running(&'a str),
    /// The build is tried.
    Trying,
}

/// Who installs: one at a time.
#[derive(Debug)]
pub struct Installer {
    _lock: Lock,
}

impl Installer {
    /// Becomes the one.
    ///
    /// # Errors
    ///
    /// [`InstallError::Busy`] if somebody else is it.
    pub fn begin(home: &Home) -> Result<Self, InstallError> {
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

    fn version(origin: &str, reference: &str) -> Version {
        Version {
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
    fn the_nearest_word_wins() {
        let none = OpenClawSettings::default();
        let wanted = Wanted::choose(None, None, &none, None);
        assert_eq!((wanted.repository.as_str(), wanted.reference.as_str()), (REPOSITORY, REFERENCE));
        let own = Wanted::choose(Some("/srv/fork"), None, &none, None);
        assert_eq!(own.reference, "HEAD", "a pinned reference belongs to its repository");
        let installed = version("/srv/fork", "main");
        let again = Wanted::choose(None, None, &none, Some(&installed));
        assert_eq!((again.repository.as_str(), again.reference.as_str()), ("/srv/fork", "main"));
        let elsewhere = Wanted::choose(Some("/srv/other"), None, &none, Some(&installed));
        assert_eq!(elsewhere.reference, "HEAD");
        let settings = OpenClawSettings {
            repository: Some("/srv/set".into()),
            reference: Some("x".into()),
            ..OpenClawSettings::default()
        };
        let set = Wanted::choose(None, None, &settings, Some(&installed));
        assert_eq!((set.repository.as_str(), set.reference.as_str()), ("/srv/set", "x"));
        let given = Wanted::choose(Some("/srv/given"), Some("y"), &settings, Some(&installed));
        assert_eq!((given.repository.as_str(), given.reference.as_str()), ("/srv/given", "y"));
    }
}

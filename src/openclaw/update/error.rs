//! The reasons why an update, a rollback or an installation of OpenClaw fails. Most of them tell which version is in use
//! afterwards.

use std::error::Error;
use std::fmt;

use super::restart::RestartError;
use crate::config::ConfigError;
use crate::error::{Explain, Kind, chain};
use crate::home::HomeError;
use crate::install::InstallError;
use crate::install::pending_change::ChangeDirection;
use crate::openclaw::OpenClawError;
use crate::store::StoreError;

/// The command that continues an installation.
pub(crate) const INIT: &str = "flock init --gateway openclaw";
/// The command that continues an update.
pub(crate) const UPDATE: &str = "flock update";

/// The reasons why the version in use is not the wanted one. A version is given by its full name.
#[derive(Debug)]
pub(crate) enum UpdateError {
    Install(InstallError),
    OpenClaw(OpenClawError),
    Config(ConfigError),
    Home(HomeError),
    Store(StoreError),
    /// The repository could not be asked, or the version could not be built.
    NotMade {
        error: Box<InstallError>,
        /// The command that continues.
        command: &'static str,
        /// The version in use, to be named in the message.
        kept: Option<String>,
        /// `true` if updates pass over the commit from now on.
        remembered: bool,
    },
    /// The version was not put in use, because it failed its check or its trial.
    NotTried {
        way: ChangeDirection,
        from: String,
        to: String,
        error: Box<OpenClawError>,
        /// `true` if updates pass over the commit from now on.
        remembered: bool,
    },
    /// The version is in use, and nobody knows if it becomes healthy.
    Unproved {
        to: String,
        why: RestartError,
    },
    /// The version served after an interrupted change and is no longer healthy.
    NoLongerHealthy {
        way: ChangeDirection,
        to: String,
        reason: String,
    },
    /// The version was put in use and taken back.
    TakenBack {
        way: ChangeDirection,
        from: String,
        to: String,
        reason: String,
        /// The result of the restart with the earlier version.
        serves: Result<bool, RestartError>,
    },
    /// The version was put in use and could not be taken back.
    NotTakenBack {
        from: String,
        to: String,
        reason: String,
        error: Box<InstallError>,
    },
    /// There is no version to roll back to, or it failed here for the given reason.
    NoRollback {
        current: String,
        before: Option<(String, String)>,
    },
    /// The files of the earlier version have changed since its build.
    Altered {
        error: Box<InstallError>,
        commit: String,
    },
}

impl UpdateError {
    /// Creates the error of a repository that could not be asked. `command` is the one that continues.
    pub(crate) fn not_asked(error: InstallError, command: &'static str) -> Self {
        Self::NotMade { error: Box::new(error), command, kept: None, remembered: false }
    }

    /// Returns the error of the step that failed.
    fn inner(&self) -> Option<&dyn Explain> {
        Some(match self {
            Self::Install(error) => error,
            Self::OpenClaw(error) => error,
            Self::Config(error) => error,
            Self::Home(error) => error,
            Self::Store(error) => error,
            Self::NotMade { error, .. } | Self::NotTakenBack { error, .. } | Self::Altered { error, .. } => {
                &**error
            }
            Self::NotTried { error, .. } => &**error,
            _ => return None,
        })
    }

    /// Returns `true` if an update can't use its repository. An update has none on its command line.
    fn is_wrong_repository(&self) -> bool {
        matches!(self, Self::NotMade { error, command: UPDATE, .. } if matches!(**error, InstallError::Repository { .. }))
    }
}

impl fmt::Display for UpdateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotMade { error, kept: Some(kept), .. } => write!(f, "{error}; {kept} is in use as before"),
            Self::NotTried { from, to, error, .. } => {
                write!(f, "{to} is not put in use: {error}; {from} is in use as before")
            }
            Self::Unproved { to, why } => {
                if let RestartError::Unasked(_) = why {
                    f.write_str("failed to ask the supervisor for OpenClaw's health: ")?;
                }
                write!(f, "{why}; {to} is in use, but it is not known to be healthy")
            }
            Self::NoLongerHealthy { to, reason, .. } => write!(
                f,
                // Taking it back would lose the conversations since then.
                "{to} does not get healthy: {reason}; it has served since it was put in use, so it is not taken back"
            ),
            Self::TakenBack { from, to, reason, serves, .. } => {
                write!(f, "{to} did not get healthy: {reason}; {from} ")?;
                match serves {
                    Ok(true) => f.write_str("serves again"),
                    Ok(false) | Err(RestartError::Stopped) => f.write_str("is in use again"),
                    Err(RestartError::Unasked(why)) => {
                        write!(f, "is in use again, but the supervisor does not report its health: {why}")
                    }
                    Err(RestartError::Fault(reason)) => {
                        write!(f, "is in use again, and does not get healthy either: {reason}")
                    }
                }
            }
            Self::NotTakenBack { from, to, reason, error } => {
                let error = chain(&**error);
                write!(
                    f,
                    "{to} did not get healthy ({reason}), and {from} can't be put in use again: {error}"
                )
            }
            Self::NoRollback { current, before: None } => write!(f, "there is no version before {current}"),
            Self::NoRollback { current, before: Some((before, reason)) } => {
                write!(f, "the version before {current} is {before}, which did not work: {reason}")
            }
            _ => self.inner().map_or(Ok(()), |error| fmt::Display::fmt(error, f)),
        }
    }
}

impl Error for UpdateError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        if let Self::NotTakenBack { .. } = self {
            return None;
        }
        // The message contains that of the inner error.
        self.inner()?.source()
    }
}

impl Explain for UpdateError {
    fn kind(&self) -> Kind {
        if self.is_wrong_repository() {
            return Kind::Failed;
        }
        self.inner().map_or(Kind::Failed, Explain::kind)
    }

    fn hint(&self) -> Option<String> {
        const RETRIED_AUTOMATICALLY: &str =
            "the machine may be the cause, so the next flock update tries this commit again";
        const RETRIED_ON_REQUEST: &str =
            "updates pass over this commit; to try it again: flock update --retry";
        let inner = self.inner().and_then(Explain::hint);
        // A log that the error names is more useful than any other hint, so it stays in front.
        let behind_log = |text| {
            let log = inner.iter().filter_map(|hint| hint.split("; ").find(|part| part.starts_with("less ")));
            log.chain([text]).collect::<Vec<_>>().join("; ")
        };
        Some(match self {
            Self::NotMade { remembered: true, .. } | Self::NotTried { remembered: true, .. } => {
                behind_log(RETRIED_ON_REQUEST)
            }
            Self::NotMade { .. } if self.is_wrong_repository() => {
                format!("to take another repository: {INIT} --repo URL --ref REF")
            }
            // The inner error names the command of an installation, which would be the wrong one for an update.
            Self::NotMade { command, .. } => return inner.map(|hint| hint.replace(INIT, command)),
            // A version that is not remembered is tried again by the next update, which the hint has to say.
            Self::NotTried { way: ChangeDirection::Update, error, .. }
                if matches!(**error, OpenClawError::Untried { .. }) =>
            {
                behind_log(RETRIED_AUTOMATICALLY)
            }
            Self::Unproved { .. } | Self::NotTakenBack { .. } => UPDATE.to_owned(),
            Self::TakenBack { way: ChangeDirection::Update, .. } => {
                format!("see `flock logs openclaw`; {RETRIED_ON_REQUEST}")
            }
            Self::NoLongerHealthy { way: ChangeDirection::Update, .. } => {
                "flock update --rollback".to_owned()
            }
            Self::TakenBack { .. } | Self::NoLongerHealthy { .. } => "flock logs openclaw".to_owned(),
            Self::NoRollback { before: None, .. } => "flock update --ref REF".to_owned(),
            Self::NoRollback { .. } => "flock update --retry".to_owned(),
            Self::Altered { commit, .. } => format!("to build it anew: flock update --ref {commit}"),
            _ => return inner,
        })
    }
}

/// Lets `?` convert the errors of the steps.
macro_rules! from {
    ($($variant:ident($error:ty)),*) => {$(
        impl From<$error> for UpdateError {
            fn from(error: $error) -> Self {
                Self::$variant(error)
            }
        }
    )*};
}

from!(
    Install(InstallError),
    OpenClaw(OpenClawError),
    Config(ConfigError),
    Home(HomeError),
    Store(StoreError)
);

//! Why OpenClaw is not given a configuration.

use crate::config::ConfigError;
use crate::error::{Explain, Kind};
use crate::home::HomeError;

/// What of the configuration OpenClaw is not given, and so nothing else of it either.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{at} {why}")]
pub struct Refusal {
    /// The key, as in `agents.list[coder].sandbox`.
    pub at: String,
    /// As in `may not have the network "host"`.
    pub why: String,
    /// The command that mends it.
    pub mend: String,
}

/// Whose fault it is that a version does not work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// Its own.
    Version,
    /// Its own or that of a machine that was too busy or too small for it.
    Either,
    /// The machine's.
    Machine,
}

/// What keeps OpenClaw from being given a configuration.
#[derive(Debug, thiserror::Error)]
pub enum OpenClawError {
    /// The configuration asks for what it is not given.
    #[error("OpenClaw can't be given this configuration: {}", all(.0))]
    Refused(Vec<Refusal>),
    /// The installed version does not take what was derived for it.
    #[error("OpenClaw {version} does not take the configuration that was made for it: {}", problems.join("; "))]
    Invalid {
        /// The version.
        version: String,
        /// What it says is wrong, each with its place.
        problems: Vec<String>,
    },
    /// The installed version could not be asked.
    #[error("OpenClaw {version} can't say whether it takes its configuration: {reason}")]
    Unchecked {
        /// The version.
        version: String,
        /// Why.
        reason: String,
    },
    /// A version that was tried does not work.
    #[error("{reason}; all it wrote is in {}", log.display())]
    Untried {
        /// As in `it ended with exit code 1: no such module`.
        reason: String,
        /// Where its output is.
        log: std::path::PathBuf,
        /// Whose fault it is.
        blame: Blame,
    },
    /// A provider wants a key and there is none.
    #[error("OpenClaw can't ask the provider {provider}: {reason}")]
    NoKey {
        /// The provider.
        provider: String,
        /// As in `it has no key`.
        reason: String,
    },
    /// There is no OpenClaw here.
    #[error("OpenClaw is not installed in this home")]
    NotInstalled,
    /// There is no port for its gateway.
    #[error("no port is free for OpenClaw's gateway")]
    NoPort,
    /// What it works on can't be made ready.
    #[error("OpenClaw's agents can't be made ready: {0}")]
    Unready(String),
    /// The home's configuration can't be read.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The home failed.
    #[error(transparent)]
    Home(#[from] HomeError),
}

impl Explain for OpenClawError {
    fn kind(&self) -> Kind {
        match self {
            Self::Home(error) => error.kind(),
            Self::Config(error) => error.kind(),
            _ => Kind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Refused(refusals) => refusals.first().map(|refusal| refusal.mend.clone()),
            Self::Invalid { .. } => Some("flock update".to_owned()),
            Self::Unchecked { .. } => Some("flock doctor".to_owned()),
            Self::NoKey { provider, .. } => {
                Some(format!("flock config set models.providers.{provider}.apiKey -"))
            }
            Self::Untried { log, .. } => Some(format!("less {}", log.display())),
            Self::NoPort => Some("flock config set gateway.port PORT".to_owned()),
            Self::Unready(_) => Some("flock doctor".to_owned()),
            Self::Config(error) => error.hint(),
            Self::NotInstalled => Some("flock init --gateway openclaw".to_owned()),
            Self::Home(error) => error.hint(),
        }
    }
}

fn all(refusals: &[Refusal]) -> String {
    refusals.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

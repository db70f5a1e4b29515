//! Errors that keep OpenClaw from being given a configuration or from being put in use.

use crate::config::ConfigError;
use crate::error::{Explain, Kind};
use crate::home::HomeError;

/// A setting of the home's configuration that OpenClaw must not be given. One such setting rejects the whole
/// configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{at} {why}")]
pub(crate) struct SettingRefusal {
    /// The place of the setting, for example `agents.list[coder].sandbox`.
    pub at: String,
    /// The rest of the sentence, for example `may not have the network "host"`.
    pub why: String,
    /// The command that fixes it.
    pub mend: String,
}

/// The likely cause when a version does not work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureCause {
    /// The version itself.
    Version,
    /// The version, or a machine that was too busy or too small for it.
    Either,
    /// The machine.
    Machine,
}

/// A failure to prepare, check or try OpenClaw.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenClawError {
    /// The configuration contains settings that OpenClaw must not be given.
    #[error("OpenClaw can't be given this configuration: {}", all(.0))]
    Refused(Vec<SettingRefusal>),
    /// The installed version rejects the configuration that was derived for it.
    #[error("OpenClaw {version} does not take the configuration that was made for it: {}", problems.join("; "))]
    Invalid {
        version: String,
        /// The reported problems, each with its place in the configuration.
        problems: Vec<String>,
    },
    /// The installed version could not be asked about its configuration.
    #[error("OpenClaw {version} can't say whether it takes its configuration: {reason}")]
    Unchecked { version: String, reason: String },
    /// A version failed its trial.
    #[error("{reason}; all it wrote is in {}", log.display())]
    Untried {
        /// For example `it ended with exit code 1: no such module`.
        reason: String,
        /// The file with the version's output.
        log: std::path::PathBuf,
        blame: FailureCause,
    },
    /// A provider requires a key and none is configured.
    #[error("OpenClaw can't ask the provider {provider}: {reason}")]
    NoKey {
        provider: String,
        /// For example `it has no key`.
        reason: String,
    },
    /// No OpenClaw is installed in this home.
    #[error("OpenClaw is not installed in this home")]
    NotInstalled,
    /// No port is free for OpenClaw's gateway.
    #[error("no port is free for OpenClaw's gateway")]
    NoPort,
    /// Workspaces or users of OpenClaw's agents can't be prepared.
    #[error("OpenClaw's agents can't be made ready: {0}")]
    Unready(String),
    /// The home's configuration can't be read.
    #[error(transparent)]
    Config(#[from] ConfigError),
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
            // One command can be shown. The next run names the next refusal.
            Self::Refused(refusals) => refusals.first().map(|refusal| refusal.mend.clone()),
            // Another version may accept it: the derived document is not for the user to edit.
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

fn all(refusals: &[SettingRefusal]) -> String {
    refusals.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

//! Settings with a fixed set of values.

use serde::{Deserialize, Serialize};

/// The role of an agent in the team.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Represents the owner: creates channels and assigns members.
    Orchestrator,
    /// Maintains the machine and has no sandbox.
    Sysadmin,
    /// Does the work.
    Worker,
}

impl Role {
    /// Returns the word in the configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Orchestrator => "orchestrator",
            Self::Sysadmin => "sysadmin",
            Self::Worker => "worker",
        }
    }
}

/// A platform that people join channels from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum PlatformName {
    Discord,
    Matrix,
    Slack,
    Telegram,
}

impl PlatformName {
    /// Returns the word in the configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Discord => "discord",
            Self::Matrix => "matrix",
            Self::Slack => "slack",
            Self::Telegram => "telegram",
        }
    }
}

/// The extent to which an agent acts without asking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Autonomy {
    /// Reads, and changes nothing.
    Readonly,
    /// Works in its sandbox, and asks before anything outside.
    #[default]
    Supervised,
    /// Works like supervised, but is not told to ask.
    Full,
}

impl Autonomy {
    /// Returns the word in the configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Readonly => "readonly",
            Self::Supervised => "supervised",
            Self::Full => "full",
        }
    }
}

/// The channels that an agent may read. It is notified only of new messages in channels that it is a member of, in both
/// cases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChannelReaders {
    #[default]
    All,
    /// Only the channels that it is a member of.
    Members,
}

/// The amount of thinking before a model answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    /// No thinking, or the lowest level of the model.
    Off,
    /// Little thinking.
    Low,
    /// The usual amount of thinking.
    Medium,
    /// Much thinking.
    High,
}

impl Effort {
    /// Returns the word in the configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// The network that an agent's sandbox reaches. Its container has none either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    /// No network.
    #[default]
    None,
    /// Only the allowed hosts, through the gateway.
    Proxy,
}

impl Network {
    /// Returns the word in the configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Proxy => "proxy",
        }
    }
}

/// The party that decides about a host that an agent wants to reach but was not given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EgressApprover {
    /// A person decides. The host is not reached before that.
    #[default]
    Person,
    /// The sysadmin decides before the host is reached, or a person if there is no sysadmin.
    Sysadmin,
    /// Nobody decides: the host is reached at once, and the sysadmin is told afterwards.
    Auto,
}

/// The amount of skill text in an agent's prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SkillsMode {
    /// The whole text of each skill.
    Full,
    /// A list of the skills. The agent reads one when it needs it.
    #[default]
    Compact,
}

/// The tools of an agent that run in a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SandboxMode {
    /// All tools.
    All,
    /// No tools.
    Off,
}

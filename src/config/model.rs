//! The typed view of the configuration. It holds only what flock uses. The JSON document keeps everything else.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::budgets::Budgets;
use super::policy::CommandPolicy;
use crate::id::{AgentId, ModelRef, Party};

/// The gateway's default port.
pub const DEFAULT_PORT: u16 = 3779;

/// What an agent is in the team.
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

/// What an agent may do without asking.
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

/// How much a model is to think before it answers.
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

/// What an agent's sandbox reaches. Its container has no network either way.
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

/// The wire format of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Api {
    /// OpenAI-compatible chat completions.
    #[serde(rename = "openai-completions")]
    OpenAiCompletions,
    /// OpenAI's Responses API.
    #[serde(rename = "openai-responses")]
    OpenAiResponses,
    /// The Responses API in the form that Codex uses.
    #[serde(rename = "openai-codex-responses")]
    OpenAiCodexResponses,
    /// Anthropic's Messages API.
    #[serde(rename = "anthropic-messages")]
    AnthropicMessages,
    /// Google's generateContent.
    #[serde(rename = "google-generative-ai")]
    GoogleGenerativeAi,
    /// Google's API in the form that Gemini CLI uses.
    #[serde(rename = "google-gemini-cli")]
    GoogleGeminiCli,
    /// Amazon Bedrock's Converse API, streamed.
    #[serde(rename = "bedrock-converse-stream")]
    BedrockConverseStream,
}

impl Api {
    /// Returns the name in the configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OpenAiCompletions => "openai-completions",
            Self::OpenAiResponses => "openai-responses",
            Self::OpenAiCodexResponses => "openai-codex-responses",
            Self::AnthropicMessages => "anthropic-messages",
            Self::GoogleGenerativeAi => "google-generative-ai",
            Self::GoogleGeminiCli => "google-gemini-cli",
            Self::BedrockConverseStream => "bedrock-converse-stream",
        }
    }
}

/// One agent, with the defaults filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct Agent {
    pub id: AgentId,
    pub role: Role,
    pub archetype: Option<String>,
    /// `native`, `openclaw`, or the name of an agent program.
    pub runtime: String,
    /// `true` if its agent program is to run on this machine itself, outside any sandbox. See [`Agent::runs_on_host`].
    pub on_host: bool,
    pub autonomy: Autonomy,
    /// Its own model or the default one. `None` if neither is set.
    pub model: Option<ModelRef>,
    /// `None` leaves it to the provider how much the model thinks.
    pub effort: Option<Effort>,
    /// Models that answer if the main model does not, in this order.
    pub fallbacks: Vec<ModelRef>,
    /// Absolute path on the host.
    pub workspace: PathBuf,
    /// The folder of the files that describe who the agent is.
    pub identity: PathBuf,
    pub sandbox: SandboxMode,
    /// Names, patterns and groups of the tools it may call: its own list, or the global one, or flock's default.
    pub allow: Vec<String>,
    /// The tools that `tools.allow` or `tools.profile` leaves, before `allow` is applied. `None` leaves all.
    pub profile: Option<Vec<String>>,
    /// Patterns of tools that it may not call. The agent's own and the global ones are joined.
    pub deny: Vec<String>,
    pub network: Network,
    /// Hosts that it may reach, `HOST[:PORT]` as written. The sandbox code parses them.
    pub egress: Vec<String>,
    /// The limits and additions of its sandbox.
    pub docker: DockerSettings,
    /// Commands and paths that are forbidden to all of its tools.
    pub policy: CommandPolicy,
    /// A persona file in AIEOS format, relative to [`Agent::identity`] or absolute.
    pub persona: Option<PathBuf>,
    pub skills: SkillsMode,
    /// The language in which tools are described to it, as in `ko` or `pt-BR`. `None` is English.
    pub language: Option<String>,
}

impl Agent {
    /// Returns `true` if an agent program runs its turns: an external program that is started for each turn.
    #[must_use]
    pub fn is_run_by_program(&self) -> bool {
        !super::ineffective::NEVER_ON_HOST.contains(&self.runtime.as_str())
    }

    /// Returns `true` if its turns run outside any sandbox. Only an agent program can do that: `onHost` has no effect
    /// with other runtimes.
    #[must_use]
    pub fn runs_on_host(&self) -> bool {
        self.on_host && self.is_run_by_program()
    }

    /// Returns its model and its fallbacks in their order, each once.
    pub fn models(&self) -> impl Iterator<Item = &ModelRef> {
        // The list is at most nine long, so searching it again for each model is cheaper than a set.
        let all = || self.model.iter().chain(&self.fallbacks);
        all()
            .enumerate()
            .filter(move |(at, model)| !all().take(*at).any(|other| other == *model))
            .map(|(_, m)| m)
    }
}

/// The settings of an agent's container that a person may change. Everything else is fixed or refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DockerSettings {
    /// Environment variables of its commands.
    pub env: BTreeMap<String, String>,
    /// Memory limit in bytes.
    pub memory: Option<u64>,
    /// CPU limit in thousandths of a core.
    pub cpu_millis: Option<u64>,
    /// Bind mounts as `source:target[:ro|rw]`, as written. The sandbox code checks them and may refuse.
    pub binds: Vec<String>,
    /// Network mode as written, e.g. `none`. The sandbox code checks it and may refuse.
    pub network: Option<String>,
    /// A custom image.
    pub image: Option<String>,
    /// The engine's name of an OCI runtime, as in `runsc`. `None` uses the engine's default.
    pub runtime: Option<String>,
    /// Largest size of the workspace in bytes. `None` is no limit. This is flock's own setting, not Docker's: flock
    /// measures the workspace itself.
    pub disk: Option<u64>,
    /// Keys of the docker block that flock does not support, as in `privileged`. A sandbox with any of them is refused.
    pub refused: Vec<String>,
}

/// A custom provider: `models.providers.<name>`.
#[derive(Clone, Debug, PartialEq)]
pub struct ProviderSettings {
    /// Base URL. It includes `/v1` for the OpenAI formats, and is the root for Anthropic and Google.
    pub base_url: Option<String>,
    /// The key, or a reference to it: `secret:<name>`, `env:<NAME>` or `${NAME}`.
    pub api_key: Option<String>,
    pub api: Option<Api>,
    pub models: Vec<ModelSettings>,
}

/// A model of a custom provider. `None` in a field leaves what flock knows of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelSettings {
    /// The provider's name for the model.
    pub id: String,
    /// Largest context in tokens.
    pub context_window: Option<u64>,
    /// Longest answer in tokens.
    pub max_tokens: Option<u64>,
    /// `true` if the model takes images.
    pub images: Option<bool>,
    /// `true` if the model reasons.
    pub reasoning: Option<bool>,
    /// `true` if the API takes tools. With `false` the tools are described to the model in text.
    pub tools: Option<bool>,
    pub cost: Option<ModelCost>,
}

/// Prices of a model, in millionths of a dollar per million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelCost {
    /// Input that is not cached.
    pub input: u64,
    /// Output, including thinking.
    pub output: u64,
    /// Input read from the provider's cache.
    pub cache_read: u64,
    /// Input written to the provider's cache.
    pub cache_write: u64,
}

/// The whole configuration, as flock reads it.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// All agents, in the order of `gatewayAgents`.
    pub agents: Vec<Agent>,
    /// Port of the native gateway on 127.0.0.1.
    pub port: u16,
    /// The owner's API token.
    pub token: String,
    /// `true` if the native gateway answers `/v1/chat/completions`.
    pub chat_completions: bool,
    /// Custom providers by name.
    pub providers: BTreeMap<String, ProviderSettings>,
    /// Bedrock's region. A region in the base URL wins over it.
    pub bedrock_region: Option<String>,
    /// The flake from which packages come. `None` is the built-in one.
    pub nix_flake: Option<String>,
    /// Image of the package store. `None` is the built-in one.
    pub nix_image: Option<String>,
    /// Image of the sandboxes. `None` is the built-in one.
    pub sandbox_image: Option<String>,
    /// Limits of one day.
    pub budgets: Budgets,
    /// The channels that agents may read.
    pub channel_readers: ChannelReaders,
    /// The team size up to which an agent may add agents.
    pub max_agents: usize,
    /// Folders of the host below which a mount can be approved. Empty by default.
    pub mount_roots: Vec<PathBuf>,
    /// The party that decides about new hosts.
    pub egress_ask: EgressApprover,
    /// People besides the owner who may approve requests of agents.
    pub approvers: Vec<Party>,
    /// Longest side of a picture that a model is shown, in pixels.
    pub image_side: u32,
    /// Longest duration of a turn. Time in which the agent is frozen does not count. `None` is the engine's default.
    pub turn_time: Option<Duration>,
    /// Settings for shortening long conversations.
    pub compaction: Compaction,
    /// Time after which a request that no person has decided expires. An approved request must begin within the same
    /// time.
    pub approval_time: Duration,
    /// Number of packages that an agent can install in 24 hours without a review.
    pub packages_per_day: u32,
    /// Retention times of records.
    pub retention: Retention,
    /// Settings of the bundled OpenClaw.
    pub openclaw: OpenClawSettings,
}

/// Settings of the bundled OpenClaw. flock chooses what is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenClawSettings {
    /// URL of the repository that is cloned.
    pub repository: Option<String>,
    /// Branch, tag or commit.
    pub reference: Option<String>,
    /// Path of the Node.js that builds and runs it.
    pub node: Option<PathBuf>,
    /// Port of its gateway on 127.0.0.1, from `gateway.port`.
    pub port: Option<u16>,
    /// `true` if a sysadmin that OpenClaw runs works without OpenClaw's sandbox, on the host.
    pub unsandboxed_sysadmin: bool,
}

/// Number of days for which records are kept. `None` keeps them forever, or within flock's own limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Messages in channels.
    pub messages: Option<u32>,
    /// Sessions of single requests and their transcripts.
    pub traces: Option<u32>,
    /// Rows of the audit log.
    pub audit: Option<u32>,
    /// Rotated logs, and logs of builds.
    pub logs: Option<u32>,
}

/// Settings for shortening a conversation that has grown too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compaction {
    /// The most staged files that a marker names. The others are only counted.
    pub most_staged: usize,
    /// `true` if a model is also asked for a summary.
    pub summary: bool,
}

impl Default for Compaction {
    fn default() -> Self {
        Self { most_staged: 20, summary: false }
    }
}

impl Config {
    /// Returns the agent with this id.
    #[must_use]
    pub fn agent(&self, id: &AgentId) -> Option<&Agent> {
        self.agents.iter().find(|agent| agent.id == *id)
    }

    /// Returns the configured settings of a model, or `None` if no custom provider lists it.
    #[must_use]
    pub fn model(&self, model: &ModelRef) -> Option<&ModelSettings> {
        let provider = self.providers.get(model.provider())?;
        provider.models.iter().find(|entry| entry.id == model.model())
    }
}

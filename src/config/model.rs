//! The typed view of the configuration. It holds what flock uses; the document keeps everything else.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::budgets::Budgets;
use super::policy::CommandPolicy;
use crate::id::{AgentId, ModelRef, Party};

/// The gateway's port where nothing else is said.
pub const DEFAULT_PORT: u16 = 3779;

/// What an agent is in the team.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Stands for the owner: makes channels, assigns members.
    Orchestrator,
    /// Looks after the machine; not sandboxed.
    Sysadmin,
    /// Does the work.
    Worker,
}

impl Role {
    /// The word in the configuration.
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
    /// Look, not touch.
    Readonly,
    /// Work in its sandbox; ask before anything outside.
    #[default]
    Supervised,
    /// As supervised, without being told to ask.
    Full,
}

impl Autonomy {
    /// The word in the configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Readonly => "readonly",
            Self::Supervised => "supervised",
            Self::Full => "full",
        }
    }
}

/// Which channels an agent may read. Who is told of what is new is a matter of membership either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChannelReaders {
    /// All of them.
    #[default]
    All,
    /// Those that it is a member of.
    Members,
}

/// How much a model is to think before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    /// Not at all, where the model can be told so.
    Off,
    /// A little.
    Low,
    /// As usual.
    Medium,
    /// Much.
    High,
}

impl Effort {
    /// The word in the configuration.
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
    /// Nothing.
    #[default]
    None,
    /// Through the gateway, the hosts that it is allowed.
    Proxy,
}

impl Network {
    /// The word in the configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Proxy => "proxy",
        }
    }
}

/// Who decides about a host that an agent wants to reach and was not given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EgressAsk {
    /// A person: nothing is reached before that.
    #[default]
    Person,
    /// The sysadmin, before it is reached; a person where there is none.
    Sysadmin,
    /// Nobody: it is reached at once, and the sysadmin is told afterwards.
    Auto,
}

/// How much of the skills stands in an agent's prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SkillsMode {
    /// All of each.
    Full,
    /// What there is; the agent reads one when it needs it.
    #[default]
    Compact,
}

/// Whether an agent's tools run in a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SandboxMode {
    /// Everything.
    All,
    /// Nothing.
    Off,
}

/// The wire format of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Api {
    /// OpenAI-compatible chat completions.
    #[serde(rename = "openai-completions")]
    OpenAiCompletions,
    /// OpenAI's Responses.
    #[serde(rename = "openai-responses")]
    OpenAiResponses,
    /// Responses as Codex speaks it.
    #[serde(rename = "openai-codex-responses")]
    OpenAiCodexResponses,
    /// Anthropic's Messages.
    #[serde(rename = "anthropic-messages")]
    AnthropicMessages,
    /// Google's generateContent.
    #[serde(rename = "google-generative-ai")]
    GoogleGenerativeAi,
    /// Google's, as Gemini CLI speaks it.
    #[serde(rename = "google-gemini-cli")]
    GoogleGeminiCli,
    /// Amazon Bedrock's Converse, streamed.
    #[serde(rename = "bedrock-converse-stream")]
    BedrockConverseStream,
}

impl Api {
    /// Its name in the configuration.
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

/// One agent.
#[derive(Clone, Debug, PartialEq)]
pub struct Agent {
    /// Its id.
    pub id: AgentId,
    /// What it is in the team.
    pub role: Role,
    /// Its archetype, if it has one.
    pub archetype: Option<String>,
    /// What runs its turns: `native`, `openclaw`, or an agent program.
    pub runtime: String,
    /// Whether such a program runs on this machine itself, in no sandbox.
    pub on_host: bool,
    /// What it may do without asking.
    pub autonomy: Autonomy,
    /// Its model: its own, or the default one; `None` where neither is set.
    pub model: Option<ModelRef>,
    /// How much its model is to think; `None` leaves it to the provider.
    pub effort: Option<Effort>,
    /// The models that answer in its model's place where that does not, in their order.
    pub fallbacks: Vec<ModelRef>,
    /// Its workspace on the host.
    pub workspace: PathBuf,
    /// The folder of the files that say who it is.
    pub identity: PathBuf,
    /// Whether its tools run in a sandbox.
    pub sandbox: SandboxMode,
    /// `tools.sandbox.tools.allow` of the agent, or the global one where it has none, or flock's own.
    pub allow: Vec<String>,
    /// What `tools.allow` or `tools.profile` leaves of all tools, before `allow`; `None` leaves all.
    pub profile: Option<Vec<String>>,
    /// Patterns it may not call, own and global together.
    pub deny: Vec<String>,
    /// What its sandbox reaches.
    pub network: Network,
    /// The hosts it may reach by configuration, `HOST[:PORT]` as written; the sandbox decides what that means.
    pub egress: Vec<String>,
    /// The sandbox's limits and additions.
    pub docker: DockerSettings,
    /// What none of its tools may run or touch.
    pub policy: CommandPolicy,
    /// A persona in AIEOS form, relative to [`Agent::identity`] or absolute.
    pub persona: Option<PathBuf>,
    /// How much of the skills its prompt has.
    pub skills: SkillsMode,
    /// The language that tools are described to it in, as in `ko` or `pt-BR`; `None` is English.
    pub language: Option<String>,
}

impl Agent {
    /// Whether an agent program runs its turns: a program of others that is started for each of them.
    #[must_use]
    pub fn is_run_by_program(&self) -> bool {
        !super::unused::NEVER_ON_HOST.contains(&self.runtime.as_str())
    }

    /// Whether the program that runs its turns is in no sandbox. What is no such program never runs there.
    #[must_use]
    pub fn runs_on_host(&self) -> bool {
        self.on_host && self.is_run_by_program()
    }

    /// Its model and those that answer in its place, in their order, each once.
    pub fn models(&self) -> impl Iterator<Item = &ModelRef> {
        let all = || self.model.iter().chain(&self.fallbacks);
        all()
            .enumerate()
            .filter(move |(at, model)| !all().take(*at).any(|other| other == *model))
            .map(|(_, m)| m)
    }
}

/// What a person may set of an agent's container. Everything else is fixed or refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DockerSettings {
    /// Environment of its commands.
    pub env: BTreeMap<String, String>,
    /// Memory limit in bytes.
    pub memory: Option<u64>,
    /// CPU limit in thousandths of a core.
    pub cpu_millis: Option<u64>,
    /// Bind mounts as `source:target[:ro|rw]`, as written; the sandbox decides what it refuses.
    pub binds: Vec<String>,
    /// As written, e.g. `none`; the sandbox decides what it refuses.
    pub network: Option<String>,
    /// An image of one's own.
    pub image: Option<String>,
    /// The engine's name of the OCI runtime that it is run by, as in `runsc`; the engine's default where absent.
    pub runtime: Option<String>,
    /// The most that its workspace may hold of the disk, in bytes; flock's own setting, and watched by it.
    pub disk: Option<u64>,
    /// Keys of the docker block that flock does not honour, as in `privileged`; a reason to refuse.
    pub refused: Vec<String>,
}

/// A provider of one's own: `models.providers.<name>`.
#[derive(Clone, Debug, PartialEq)]
pub struct ProviderSettings {
    /// Where it answers. Includes `/v1` for the OpenAI ones, the root for Anthropic and Google.
    pub base_url: Option<String>,
    /// Its key, or a reference to it: `secret:<name>`, `env:<NAME>` or `${NAME}`.
    pub api_key: Option<String>,
    /// Its wire format.
    pub api: Option<Api>,
    /// Its models.
    pub models: Vec<ModelSettings>,
}

/// A model of a provider of one's own.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelSettings {
    /// The provider's name for it.
    pub id: String,
    /// Tokens it can take in all.
    pub context_window: Option<u64>,
    /// Tokens it may answer with.
    pub max_tokens: Option<u64>,
    /// Whether it takes images, where that is said.
    pub images: Option<bool>,
    /// Whether it reasons, where that is said.
    pub reasoning: Option<bool>,
    /// Whether it calls tools by its API, where that is said; where not, it is told in text how to.
    pub tools: Option<bool>,
    /// What it costs, where that is said.
    pub cost: Option<ModelCost>,
}

/// What a model costs: millionths of a dollar for a million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelCost {
    /// Fresh input.
    pub input: u64,
    /// Output, thinking included.
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
    /// The native gateway's port on 127.0.0.1.
    pub port: u16,
    /// The owner's token.
    pub token: String,
    /// Whether the native gateway answers `/v1/chat/completions`.
    pub chat_completions: bool,
    /// Providers of one's own.
    pub providers: BTreeMap<String, ProviderSettings>,
    /// Bedrock's region, where no base URL says it.
    pub bedrock_region: Option<String>,
    /// The flake that packages come from; `None` is the built-in one.
    pub nix_flake: Option<String>,
    /// The store's image; `None` is the built-in one.
    pub nix_image: Option<String>,
    /// The sandbox's image; `None` is the built-in one.
    pub sandbox_image: Option<String>,
    /// What may be used in one day.
    pub budgets: Budgets,
    /// Which channels agents may read.
    pub channel_readers: ChannelReaders,
    /// The most agents there may be by an agent's own making.
    pub max_agents: usize,
    /// Folders of the host below which a mount may be approved; none by default.
    pub mount_roots: Vec<PathBuf>,
    /// Who decides about new hosts.
    pub egress_ask: EgressAsk,
    /// Who else than the owner may approve what agents ask for.
    pub approvers: Vec<Party>,
    /// The longest side of a picture that a model is shown, in pixels.
    pub image_side: u32,
    /// How long a turn may take, but for the time in which its agent is frozen; `None` is what the engine says.
    pub turn_time: Option<Duration>,
    /// How conversations make room.
    pub compaction: Compaction,
    /// How long a request waits for a person, and what was approved for its beginning.
    pub approval_time: Duration,
    /// How many packages an agent installs in a day before somebody looks at it.
    pub packages_per_day: u32,
    /// How long records are kept.
    pub retention: Retention,
    /// What is said of the bundled OpenClaw.
    pub openclaw: OpenClawSettings,
}

/// What is said of the bundled OpenClaw; what is `None` flock chooses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenClawSettings {
    /// Where it is cloned from.
    pub repository: Option<String>,
    /// The branch, tag or commit.
    pub reference: Option<String>,
    /// The Node that builds and runs it.
    pub node: Option<PathBuf>,
    /// Its gateway's port on 127.0.0.1, `gateway.port`.
    pub port: Option<u16>,
    /// Whether a sysadmin that it runs has no sandbox there either.
    pub unsandboxed_sysadmin: bool,
}

/// How many days records are kept; what has no number is kept for good, or as flock itself bounds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Messages of channels.
    pub messages: Option<u32>,
    /// Sessions of single requests, and their transcripts.
    pub traces: Option<u32>,
    /// The audit.
    pub audit: Option<u32>,
    /// Logs that were set aside, and those of builds.
    pub logs: Option<u32>,
}

/// How conversations make room when they have grown too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compaction {
    /// The most staged files that a marker names; the others are counted.
    pub most_staged: usize,
    /// Whether a model is asked for a summary besides.
    pub summary: bool,
}

impl Default for Compaction {
    fn default() -> Self {
        Self { most_staged: 20, summary: false }
    }
}

impl Config {
    /// The agent with this id.
    #[must_use]
    pub fn agent(&self, id: &AgentId) -> Option<&Agent> {
        self.agents.iter().find(|agent| agent.id == *id)
    }

    /// What the configuration says of a model.
    #[must_use]
    pub fn model(&self, model: &ModelRef) -> Option<&ModelSettings> {
        let provider = self.providers.get(model.provider())?;
        provider.models.iter().find(|entry| entry.id == model.model())
    }
}

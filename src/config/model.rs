//! The typed view of the configuration. It holds only what flock uses. The JSON document keeps everything else.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::agent_list::AgentList;
pub(crate) use super::blocks::OpenClawSettings;
pub use super::blocks::{
    ApprovalSettings, CheckpointSettings, Compaction, DecidingBridges, KeptGenerations, Retention,
};
use super::budgets::Budgets;
pub use super::choices::{
    Autonomy, ChannelReaders, Effort, EgressApprover, Network, PlatformName, Role, SandboxMode, SkillsMode,
};
pub use super::docker::DockerSettings;
pub use super::engines::EngineSettings;
use super::mcp_servers::McpServer;
pub use super::oidc::OidcSettings;
pub use super::origins::TrustedOrigin;
use super::policy::CommandPolicy;
use super::projects::Project;
pub(crate) use super::providers::ModelCost;
pub use super::providers::{Api, ModelSettings, ProviderSettings};
pub use super::storage::{BlobSettings, S3Settings};
pub use super::telemetry::OtlpSettings;
use crate::id::{AgentId, McpServerName, ModelRef, Party};

/// The gateway's default port.
pub(crate) const DEFAULT_PORT: u16 = 3779;

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
    /// The public URL of its picture, which other platforms show beside its messages.
    pub avatar: Option<String>,
    pub skills: SkillsMode,
    /// The language in which tools are described to it, as in `ko` or `pt-BR`. `None` is English.
    pub language: Option<String>,
    /// `true` if it works on a project. Only then it has the tools of projects.
    pub has_project: bool,
    /// Labels that the engine of its sandbox must have, sorted, each once.
    pub labels: Vec<String>,
}

impl Agent {
    /// Returns `true` if an agent program runs its turns: an external program that is started for each turn.
    #[must_use]
    pub(crate) fn is_run_by_program(&self) -> bool {
        !super::ineffective::NEVER_ON_HOST.contains(&self.runtime.as_str())
    }

    /// Returns `true` if its turns run outside any sandbox. Only an agent program can do that: `onHost` has no effect
    /// with other runtimes.
    #[must_use]
    pub(crate) fn runs_on_host(&self) -> bool {
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

/// An account of flock on another platform. Its token is a secret of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bridge {
    pub name: String,
    pub platform: PlatformName,
    /// The URL of the platform's API: for Matrix the homeserver's, for the others only if it is not the public one.
    pub api: Option<String>,
    /// Set while a person has paused the bridge.
    pub is_paused: bool,
    /// The channels that the orchestrator may link without asking.
    pub allow: Vec<super::bridges::ChannelPattern>,
    /// Set while a token stands in the configuration itself, from which it is moved to `secrets/`.
    pub has_literal_token: bool,
}

/// The whole configuration, as flock reads it.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// All agents, in the order of `gatewayAgents`.
    pub agents: AgentList,
    /// Port of the native gateway on 127.0.0.1.
    pub port: u16,
    /// Address at which the other gateways of a group reach this one. `None` for 127.0.0.1, with any port.
    pub peer_address: Option<SocketAddr>,
    /// The owner's API token.
    pub token: String,
    /// `true` if the native gateway answers `/v1/chat/completions`.
    pub chat_completions: bool,
    /// `true` if the native gateway answers `/v1/responses`.
    pub responses: bool,
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
    /// Number of turns of the team that run at the same time. Read when the gateway starts.
    pub max_turns: usize,
    /// Folders of the host below which a mount can be approved. Empty by default.
    pub mount_roots: Vec<PathBuf>,
    /// The party that decides about new hosts.
    pub egress_ask: EgressApprover,
    /// People who may decide about requests of agents over a bridge, from an account that the owner bound to them.
    pub approvers: Vec<Party>,
    /// Settings of decisions over bridges.
    pub approvals: ApprovalSettings,
    /// Origins besides this machine's own at which browsers reach the dashboard, such as `https://flock.example.org`.
    pub trusted_origins: Vec<TrustedOrigin>,
    /// The provider at which people sign in to the dashboard. `None` for none.
    pub oidc: Option<Arc<OidcSettings>>,
    /// Longest side of a picture that a model is shown, in pixels.
    pub image_side: u32,
    /// Longest duration of a turn. Time in which the agent is frozen does not count. `None` is the engine's default.
    pub turn_time: Option<Duration>,
    /// The longest wait that a provider may ask a running turn for. If it asks for more, the turn waits without running.
    pub quota_patience: Duration,
    /// Settings for shortening long conversations.
    pub compaction: Compaction,
    /// Settings of checkpoints.
    pub checkpoints: CheckpointSettings,
    /// Time after which the copy of a team in a race has given up if none of its agents does anything.
    pub race_idle: Duration,
    /// The addresses at which the owner's tunnel offers the paths of webhooks, and nothing else.
    pub hook_origins: Vec<TrustedOrigin>,
    /// Least time between two runs of a schedule that an agent asked for.
    pub schedule_distance: Duration,
    /// Time after which a request that no person has decided expires. An approved request must begin within the same
    /// time.
    pub approval_time: Duration,
    /// Number of packages that an agent can install in 24 hours without a review.
    pub packages_per_day: u32,
    /// Retention times of records.
    pub retention: Retention,
    /// Settings of the home's generations.
    pub generations: KeptGenerations,
    /// Settings of the bundled OpenClaw.
    pub openclaw: OpenClawSettings,
    /// Accounts on other platforms, sorted by name.
    pub bridges: Vec<Bridge>,
    /// Repositories that agents work on, sorted by name.
    pub projects: Vec<Project>,
    /// Programs whose tools agents can be granted, sorted by name.
    pub mcp_servers: Vec<McpServer>,
    /// Container engines, sorted by name. The machine's own is among them only if it has settings.
    pub engines: Vec<EngineSettings>,
    /// The collector of spans and metrics. `None` sends none.
    pub otlp: Option<Arc<OtlpSettings>>,
    /// The second place for checkpoints, transcripts and vaults. `None` keeps them on this machine's disk only.
    pub blobs: Option<Arc<BlobSettings>>,
}

impl Config {
    /// Returns the agent with this id.
    #[must_use]
    pub fn agent(&self, id: &AgentId) -> Option<&Agent> {
        self.agents.find(id)
    }

    /// Returns the MCP server with this name.
    #[must_use]
    pub(crate) fn mcp_server(&self, name: &McpServerName) -> Option<&McpServer> {
        self.mcp_servers.iter().find(|server| server.name == *name)
    }

    /// Returns the configured settings of a model, or `None` if no custom provider lists it.
    #[must_use]
    pub fn model(&self, model: &ModelRef) -> Option<&ModelSettings> {
        let provider = self.providers.get(model.provider())?;
        provider.models.iter().find(|entry| entry.id == model.model())
    }
}

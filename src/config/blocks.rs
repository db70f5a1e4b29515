//! Blocks of settings that stand by themselves: decisions over bridges, checkpoints, compaction, retention and OpenClaw.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use super::view::{Problem, View};
use crate::env;
use crate::generation::log::DEFAULT_KEEP;

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
    /// Receipts with the output of their checks.
    pub receipts: Option<u32>,
}

/// Settings of the home's generations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptGenerations {
    /// Number of generations that are kept.
    pub keep: u32,
    /// Number of builds of OpenClaw that are kept for going back to.
    pub builds: u32,
}

impl KeptGenerations {
    /// The version in use, and the one before.
    const DEFAULT_BUILDS: u32 = 2;
}

impl Default for KeptGenerations {
    fn default() -> Self {
        Self { keep: DEFAULT_KEEP, builds: Self::DEFAULT_BUILDS }
    }
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

/// The bridges over which requests are decided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DecidingBridges {
    #[default]
    All,
    /// Those with these names; none if the list is empty.
    Only(Vec<String>),
}

impl DecidingBridges {
    /// Returns `true` if requests are decided over this bridge.
    #[must_use]
    pub(crate) fn has(&self, bridge: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.iter().any(|name| name == bridge),
        }
    }
}

/// Settings of decisions over bridges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApprovalSettings {
    pub bridges: DecidingBridges,
    /// `true` if commands on the host are decided over bridges too.
    pub bridge_host_commands: bool,
}

/// Reads the settings of decisions over bridges.
pub(super) fn approvals(view: &View<'_>) -> Result<ApprovalSettings, Problem> {
    view.only(&["bridges", "bridgeHostCommands"])?;
    let bridges = view.get("bridges")?;
    let message = "must be true, false, or a list of names of bridges";
    let names = |value: &Value| match value {
        Value::Bool(true) => Some(DecidingBridges::All),
        Value::Bool(false) => Some(DecidingBridges::Only(Vec::new())),
        Value::Array(names) => {
            let names = names.iter().map(|name| name.as_str().map(str::to_owned));
            names.collect::<Option<_>>().map(DecidingBridges::Only)
        }
        _ => None,
    };
    Ok(ApprovalSettings {
        bridges: bridges.convert(names, message)?.unwrap_or_default(),
        bridge_host_commands: view.get("bridgeHostCommands")?.flag()?.unwrap_or(false),
    })
}

/// Settings of checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointSettings {
    /// `true` if a checkpoint is made at the start of each turn.
    pub turns: bool,
    /// Number of checkpoints of one agent that are kept.
    pub keep: usize,
    /// Bytes that the checkpoints of one agent may use on the disk, and its workspace to be kept at all.
    pub bytes: u64,
}

impl Default for CheckpointSettings {
    fn default() -> Self {
        Self { turns: true, keep: 50, bytes: 5 << 30 }
    }
}

/// Reads the settings of checkpoints.
pub(super) fn checkpoints(view: &View<'_>) -> Result<CheckpointSettings, Problem> {
    view.only(&["turns", "keep", "bytes"])?;
    let unset = CheckpointSettings::default();
    let keep = view.get("keep")?.within(2..=10_000, "a number of checkpoints")?;
    let bytes = view.get("bytes")?.within(1 << 20..=1 << 50, "a number of bytes")?;
    Ok(CheckpointSettings {
        turns: view.get("turns")?.flag()?.unwrap_or(unset.turns),
        keep: keep.unwrap_or(unset.keep),
        bytes: bytes.unwrap_or(unset.bytes),
    })
}

/// Time after which a copy in a race has given up, unless another one is set.
pub const RACE_IDLE: Duration = Duration::from_secs(120);

/// Reads the settings of races.
pub(super) fn race_idle(view: &View<'_>) -> Result<Duration, Problem> {
    view.only(&["idleSeconds"])?;
    let seconds = view.get("idleSeconds")?.within::<u64>(1..=86_400, "a number of seconds")?;
    Ok(seconds.map_or(RACE_IDLE, Duration::from_secs))
}

/// Least time between two runs of a schedule that an agent asked for, unless another one is set.
pub const SCHEDULE_DISTANCE: Duration = Duration::from_secs(3600);

/// Reads the settings of schedules.
pub(super) fn schedule_distance(view: &View<'_>) -> Result<Duration, Problem> {
    view.only(&["agentMinutes"])?;
    let minutes = view.get("agentMinutes")?.within::<u64>(1..=10_080, "a number of minutes")?;
    Ok(minutes.map_or(SCHEDULE_DISTANCE, |minutes| Duration::from_secs(minutes * 60)))
}

/// Reads the settings of compaction.
pub(super) fn compaction(own: &View<'_>) -> Result<Compaction, Problem> {
    let most = Compaction::default().most_staged;
    let number = own.get("contextCompressionMaxStagedFiles")?;
    // The environment variable wins over the file, because it is how one run is set apart from the others.
    let most_staged = match env::MAX_STAGED_FILES.get() {
        Some(text) => text.parse().map_err(|_| Problem {
            at: env::MAX_STAGED_FILES.name.to_owned(),
            message: "must be a number".to_owned(),
        })?,
        None => number.number()?.map_or(most, |number| usize::try_from(number).unwrap_or(usize::MAX)),
    };
    let block = own.get("compaction")?;
    block.only(&["summary"])?;
    Ok(Compaction { most_staged, summary: block.get("summary")?.flag()?.unwrap_or(false) })
}

/// Default of the longest wait that a provider may ask a running turn for.
pub(crate) const QUOTA_PATIENCE: Duration = Duration::from_secs(120);

/// Reads the block about quotas that are used up. An unknown key is refused.
pub(super) fn quota_patience(view: &View<'_>) -> Result<Duration, Problem> {
    view.only(&["patienceSeconds"])?;
    // A turn has a time limit of its own, so a longer patience would only be cut off by it.
    let seconds = view.get("patienceSeconds")?.within(0..=3_600, "a number of seconds")?;
    Ok(seconds.map_or(QUOTA_PATIENCE, Duration::from_secs))
}

/// Reads the retention block. An unknown key is refused, because a misspelt setting would keep records forever.
pub(super) fn retention(view: &View<'_>) -> Result<Retention, Problem> {
    view.only(&["messages", "traces", "audit", "logs", "receipts"])?;
    let days = |name| view.get(name)?.within(1..=36_500, "a number of days");
    Ok(Retention {
        messages: days("messages")?,
        traces: days("traces")?,
        audit: days("audit")?,
        logs: days("logs")?,
        receipts: days("receipts")?,
    })
}

/// Reads the block of generations.
pub(super) fn generations(view: &View<'_>) -> Result<KeptGenerations, Problem> {
    view.only(&["keep", "builds"])?;
    let number = |name, range, what| -> Result<Option<u32>, Problem> { view.get(name)?.within(range, what) };
    Ok(KeptGenerations {
        keep: number("keep", 1..=10_000, "a number of generations")?.unwrap_or(DEFAULT_KEEP),
        builds: number("builds", 1..=100, "a number of builds")?.unwrap_or(KeptGenerations::DEFAULT_BUILDS),
    })
}

/// Reads flock's `openclaw` block, and the port, for which OpenClaw has a key of its own.
pub(super) fn openclaw(view: &View<'_>, gateway: &View<'_>) -> Result<OpenClawSettings, Problem> {
    view.only(&["repo", "ref", "node", "unsandboxedSysadmin"])?;
    let filled = |name: &str| {
        let item = view.get(name)?;
        if item.value.is_none() { Ok(None) } else { item.required_text().map(|text| Some(text.to_owned())) }
    };
    let node = filled("node")?.map(PathBuf::from);
    // A relative path would depend on the folder in which flock was started.
    if node.as_ref().is_some_and(|node| !node.is_absolute()) {
        return Err(view.get("node")?.problem("must be an absolute path"));
    }
    Ok(OpenClawSettings {
        repository: filled("repo")?,
        reference: filled("ref")?,
        node,
        port: port(gateway)?,
        unsandboxed_sysadmin: view.get("unsandboxedSysadmin")?.flag()?.unwrap_or(false),
    })
}

/// Reads the port of a gateway's block.
pub(super) fn port(gateway: &View<'_>) -> Result<Option<u16>, Problem> {
    gateway.get("port")?.within(1..=65535, "a port")
}

/// Returns the address at which the other gateways of a group reach this one, if they do not run on this machine alone.
pub(super) fn peer_address(gateway: &View<'_>) -> Result<Option<SocketAddr>, Problem> {
    // With any address of the machine, the others would not know which one to take.
    let address = |text: &str| {
        text.parse::<SocketAddr>().ok().filter(|found| !found.ip().is_unspecified() && found.port() != 0)
    };
    let message = "must be an address of this machine with a port, such as \"10.0.0.5:18790\"";
    gateway.get("peerAddress")?.convert(|value| address(value.as_str()?), message)
}

//! Every path below the home. Nothing else of the program joins these strings.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::id::{AgentId, hex};

/// The home's folder, as a canonical path, and all that is found in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    root: PathBuf,
    suffix: String,
}

impl Home {
    /// The home at `root`, which must be canonical if it exists. `default` is where the plain names of
    /// containers, volumes and images belong; every other home gets a suffix of its own, so that two homes
    /// never meet in one engine.
    #[must_use]
    pub fn new(root: PathBuf, default: Option<&Path>) -> Self {
        let suffix =
            if default == Some(root.as_path()) { String::new() } else { format!("-{}", digest(&root)) };
        Self { root, suffix }
    }

    /// Eight hex digits that stand for the folder, also of the home at the default path.
    #[must_use]
    pub fn digest(&self) -> String {
        digest(&self.root)
    }

    /// The folder itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// What is appended to the names of this home's containers, volumes, networks and image tags: empty for
    /// the home at the default path, else `-` and eight hex digits.
    #[must_use]
    pub fn suffix(&self) -> &str {
        &self.suffix
    }

    /// The configuration.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.root.join("config.json")
    }

    /// The number of the home's format.
    #[must_use]
    pub fn version(&self) -> PathBuf {
        self.root.join("version")
    }

    /// The home's own random id, which its gateway proves to know.
    #[must_use]
    pub fn instance(&self) -> PathBuf {
        self.data().join("instance")
    }

    /// The database and what belongs beside it.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.root.join("data")
    }

    /// The database.
    #[must_use]
    pub fn database(&self) -> PathBuf {
        self.data().join("flock.db")
    }

    /// Where the chain of the audit ends, as it was last written.
    #[must_use]
    pub fn audit_head(&self) -> PathBuf {
        self.data().join("audit.head")
    }

    /// The texts that a person typed in chats, for the line editor to call back.
    #[must_use]
    pub fn chat_history(&self) -> PathBuf {
        self.data().join("chat-history.jsonl")
    }

    /// Held for one change of those.
    #[must_use]
    pub fn chat_history_lock(&self) -> PathBuf {
        self.run().join("chat-history.lock")
    }

    /// Operations on agents that have begun and have not ended, a file each.
    #[must_use]
    pub fn pending(&self) -> PathBuf {
        self.data().join("pending")
    }

    /// Held by the process that is at such an operation.
    #[must_use]
    pub fn pending_lock(&self) -> PathBuf {
        self.run().join("pending.lock")
    }

    /// Held by a gateway for life: there is never a second one, also while an earlier one still ends.
    #[must_use]
    pub fn gateway_lock(&self) -> PathBuf {
        self.run().join("gateway.lock")
    }

    /// What the gateway remembers of the machine's clock.
    #[must_use]
    pub fn clock(&self) -> PathBuf {
        self.data().join("clock.json")
    }

    /// An agent's transcripts.
    #[must_use]
    pub fn sessions(&self, agent: &AgentId) -> PathBuf {
        self.agent(agent).join("sessions")
    }

    /// What flock keeps of an agent; the agent itself never sees it.
    #[must_use]
    pub fn agent(&self, agent: &AgentId) -> PathBuf {
        self.root.join("agents").join(agent.as_str())
    }

    /// Who an agent is, in files that its owner edits. They are not in its workspace: what lies there the
    /// agent can rename, and a mount over a file that is renamed on the host comes off.
    #[must_use]
    pub fn identity(&self, agent: &AgentId) -> PathBuf {
        self.agent(agent).join("identity")
    }

    /// All workspaces.
    #[must_use]
    pub fn workspaces(&self) -> PathBuf {
        self.root.join("workspaces")
    }

    /// An agent's workspace: `/workspace` in its sandbox.
    #[must_use]
    pub fn workspace(&self, agent: &AgentId) -> PathBuf {
        self.workspaces().join(agent.as_str())
    }

    /// Shared knowledge.
    #[must_use]
    pub fn vaults(&self) -> PathBuf {
        self.root.join("vaults")
    }

    /// Skills, a folder each.
    #[must_use]
    pub fn skills(&self) -> PathBuf {
        self.root.join("skills")
    }

    /// A person's own archetypes.
    #[must_use]
    pub fn archetypes(&self) -> PathBuf {
        self.root.join("archetypes")
    }

    /// Tool descriptions in other languages, a folder each.
    #[must_use]
    pub fn locales(&self) -> PathBuf {
        self.root.join("locales")
    }

    /// Written conversations for the provider `script`.
    #[must_use]
    pub fn scripts(&self) -> PathBuf {
        self.root.join("scripts")
    }

    /// What belongs to running processes.
    #[must_use]
    pub fn run(&self) -> PathBuf {
        self.root.join("run")
    }

    /// The folders in which approved commands run on the host, one for each request.
    #[must_use]
    pub fn commands(&self) -> PathBuf {
        self.run().join("commands")
    }

    /// Held by the supervisor for life: the proof that it lives.
    #[must_use]
    pub fn supervisor_lock(&self) -> PathBuf {
        self.run().join("supervisor.lock")
    }

    /// Held for one read, edit and rename of the configuration.
    #[must_use]
    pub fn config_lock(&self) -> PathBuf {
        self.run().join("config.lock")
    }

    /// The PID file of a supervised process, as in `gateway`.
    #[must_use]
    pub fn pid_file(&self, name: &str) -> PathBuf {
        self.run().join(format!("{name}.pid"))
    }

    /// What the supervisor remembers of crashes over its own death.
    #[must_use]
    pub fn breaker(&self, name: &str) -> PathBuf {
        self.run().join(format!("{name}.breaker.json"))
    }

    /// The supervisor's control socket, where the path is short enough for one.
    #[must_use]
    pub fn control_socket(&self) -> PathBuf {
        self.run().join("control.sock")
    }

    /// The in-sandbox helper programs, a folder for each version.
    #[must_use]
    pub fn helpers(&self) -> PathBuf {
        self.run().join("helper")
    }

    /// What the package set is fixed to.
    #[must_use]
    pub fn nix_pin(&self) -> PathBuf {
        self.root.join("nix-pin.json")
    }

    /// The locks of those who change the package store, a file each, as in `nix-gc.lock`.
    #[must_use]
    pub fn nix_lock(&self, name: &str) -> PathBuf {
        self.run().join(format!("nix-{name}.lock"))
    }

    /// flock's plugin in another program, as in `flock`.
    #[must_use]
    pub fn extension(&self, name: &str) -> PathBuf {
        self.root.join("extensions").join(name)
    }

    /// Logs.
    #[must_use]
    pub fn logs(&self) -> PathBuf {
        self.root.join("logs")
    }

    /// A log, as in `gateway`.
    #[must_use]
    pub fn log(&self, name: &str) -> PathBuf {
        self.logs().join(format!("{name}.log"))
    }

    /// Keys and bridge tokens, 0700.
    #[must_use]
    pub fn secrets(&self) -> PathBuf {
        self.root.join("secrets")
    }

    /// The configuration before each change, and the database before each migration.
    #[must_use]
    pub fn backups(&self) -> PathBuf {
        self.root.join("backups")
    }

    /// Every installed OpenClaw, a folder each, and what belongs to their making.
    #[must_use]
    pub fn openclaw_versions(&self) -> PathBuf {
        self.root.join("gateways").join("openclaw")
    }

    /// The link to the OpenClaw in use.
    #[must_use]
    pub fn openclaw(&self) -> PathBuf {
        self.root.join("openclaw")
    }

    /// The commits of OpenClaw that did not work here.
    #[must_use]
    pub fn openclaw_failed(&self) -> PathBuf {
        self.openclaw_versions().join("failed.json")
    }

    /// The commits that tags of OpenClaw were at when they were first seen.
    #[must_use]
    pub fn openclaw_tags(&self) -> PathBuf {
        self.openclaw_versions().join("tags.json")
    }

    /// The change of OpenClaw's version that is under way, or was interrupted.
    #[must_use]
    pub fn openclaw_underway(&self) -> PathBuf {
        self.openclaw_versions().join("underway.json")
    }

    /// Held by the one that installs a gateway.
    #[must_use]
    pub fn install_lock(&self) -> PathBuf {
        self.run().join("install.lock")
    }

    /// What belongs to updates of flock's own program: the one before, and what is being built.
    #[must_use]
    pub fn program(&self) -> PathBuf {
        self.root.join("gateways").join("flock")
    }

    /// The commits that tags of flock's source were at when they were first seen.
    #[must_use]
    pub fn program_tags(&self) -> PathBuf {
        self.program().join("tags.json")
    }

    /// The change of flock's program that is under way, or was interrupted.
    #[must_use]
    pub fn program_underway(&self) -> PathBuf {
        self.program().join("underway.json")
    }

    /// Held by the one that updates flock's program.
    #[must_use]
    pub fn program_lock(&self) -> PathBuf {
        self.run().join("program.lock")
    }

    /// The configuration that OpenClaw is started on, derived from the home's own.
    #[must_use]
    pub fn openclaw_config(&self) -> PathBuf {
        self.openclaw_versions().join("openclaw.json")
    }

    /// OpenClaw's own state.
    #[must_use]
    pub fn openclaw_state(&self) -> PathBuf {
        self.openclaw_versions().join("state")
    }

    /// The folders `init` makes, each with its mode.
    #[must_use]
    pub fn folders(&self) -> Vec<(PathBuf, u32)> {
        vec![
            (self.root.clone(), 0o700),
            (self.data(), 0o700),
            (self.root.join("agents"), 0o700),
            (self.workspaces(), 0o711),
            (self.vaults(), 0o700),
            (self.skills(), 0o700),
            (self.archetypes(), 0o700),
            (self.scripts(), 0o700),
            (self.run(), 0o711),
            (self.helpers(), 0o711),
            (self.logs(), 0o700),
            (self.secrets(), 0o700),
            (self.backups(), 0o700),
            (self.openclaw_versions(), 0o700),
        ]
    }
}

fn digest(root: &Path) -> String {
    use std::os::unix::ffi::OsStrExt as _;
    hex(&Sha256::digest(root.as_os_str().as_bytes())[..4])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_default_home_has_plain_names() {
        let default = Path::new("/home/ann/.flock");
        assert_eq!(Home::new(default.to_owned(), Some(default)).suffix(), "");
        let other = Home::new("/srv/flock".into(), Some(default));
        assert_eq!(other.suffix().len(), 9);
        assert_ne!(other.suffix(), Home::new("/srv/flock2".into(), Some(default)).suffix());
    }
}

//! All paths below the home. No other part of the program builds them.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::HomeError;
use crate::id::{AgentId, EngineName, FolderName, McpServerName, ProjectName, hex};

/// The name of the link to the agents' files of other gateways.
const FILES: &str = "files";
/// The name of the mark in the folder of the agents' files.
pub(crate) const FILES_MARK: &str = "flock-files";

/// A home's folder, as a canonical path, and the paths of everything in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    root: PathBuf,
    /// The folder of the agents' files.
    files: PathBuf,
    suffix: String,
}

impl Home {
    /// Creates the home at `root`, which must be canonical if it exists.
    ///
    /// The home at `default` uses the plain names of containers, volumes and images. Every other home gets a suffix of
    /// its own, so that two homes never share a name in one container engine.
    #[must_use]
    pub fn new(root: PathBuf, default: Option<&Path>) -> Self {
        let suffix =
            if default == Some(root.as_path()) { String::new() } else { format!("-{}", digest(&root)) };
        // Only a home that has joined a group of gateways has this link.
        let files = std::fs::read_link(root.join(FILES)).unwrap_or_else(|_| root.clone());
        Self { root, files, suffix }
    }

    /// Returns eight hex digits that identify the folder, also for the home at the default path.
    #[must_use]
    pub fn digest(&self) -> String {
        digest(&self.root)
    }

    /// Returns the folder itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the folder that has the agents' files: transcripts, workspaces, vaults, skills, projects. It is the home's own,
    /// unless the home's gateway has joined others. Then [`Self::files_link`] leads to it.
    #[must_use]
    pub fn files(&self) -> &Path {
        &self.files
    }

    /// Returns the paths of the home whose folder has the agents' files. It is this one, unless its gateway has joined others.
    #[must_use]
    pub(crate) fn of_files(&self) -> Self {
        Self { root: self.files.clone(), ..self.clone() }
    }

    /// Returns the link to the folder of the agents' files, if that is not the home itself.
    #[must_use]
    pub(crate) fn files_link(&self) -> PathBuf {
        self.root.join(FILES)
    }

    /// Returns the home as it would be with the agents' files in another folder.
    #[must_use]
    pub(crate) fn seen_with_files(&self, folder: &Path) -> Self {
        Self { files: folder.to_owned(), ..self.clone() }
    }

    /// Has the home use the agents' files in another folder from now on, and returns it as it is then.
    ///
    /// # Errors
    ///
    /// Returns an error if the link can't be written.
    pub(crate) fn with_files(&self, folder: &Path) -> Result<Self, HomeError> {
        let (link, draft) = (self.files_link(), self.root.join(format!(".new-{FILES}")));
        match fs_err::remove_file(&draft) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(HomeError::io("remove", &draft)(error));
            }
            _ => {}
        }
        std::os::unix::fs::symlink(folder, &draft).map_err(HomeError::io("write the link", &draft))?;
        fs_err::rename(&draft, &link).map_err(HomeError::io("write the link", &link))?;
        Ok(self.seen_with_files(folder))
    }

    /// Returns the file that marks the folder of the agents' files of a group of gateways.
    #[must_use]
    pub(crate) fn files_mark(&self) -> PathBuf {
        self.files.join(FILES_MARK)
    }

    /// Returns the folder of flock's own files about agents, with one folder for each.
    #[must_use]
    pub(crate) fn agents(&self) -> PathBuf {
        self.files.join("agents")
    }

    /// Returns the record of the configuration that this home shares with other gateways.
    #[must_use]
    pub(crate) fn shared_config(&self) -> PathBuf {
        self.data().join("shared-config.json")
    }

    /// Returns the suffix for the names of this home's containers, volumes, networks and image tags: empty for the home
    /// at the default path, otherwise `-` and eight hex digits.
    #[must_use]
    pub fn suffix(&self) -> &str {
        &self.suffix
    }

    /// Returns the configuration file.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.root.join("config.json")
    }

    /// Returns the file with the home's format number.
    #[must_use]
    pub fn version(&self) -> PathBuf {
        self.root.join("version")
    }

    /// Returns the file with the home's random id, which its gateway proves to know.
    #[must_use]
    pub fn instance(&self) -> PathBuf {
        self.data().join("instance")
    }

    /// Returns the folder of the database and the files that belong to it.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.root.join("data")
    }

    /// Returns the database file.
    #[must_use]
    pub fn database(&self) -> PathBuf {
        self.data().join("flock.db")
    }

    /// Returns the file that names the server of the database. Without it, the database is [`Self::database`].
    #[must_use]
    pub(crate) fn store_location(&self) -> PathBuf {
        self.root.join("store.json")
    }

    /// Returns the file of the search index, which is made from other files and can be deleted.
    #[must_use]
    pub(crate) fn search_index(&self) -> PathBuf {
        self.data().join("search.db")
    }

    /// Returns the file that names the last row of the audit chain.
    #[must_use]
    pub(crate) fn audit_head(&self) -> PathBuf {
        self.data().join("audit.head")
    }

    /// Returns the record of the newest backup of the whole home.
    #[must_use]
    pub(crate) fn backup_record(&self) -> PathBuf {
        self.data().join("backup.json")
    }

    /// Returns the record of the store of blobs that this home writes to. It is in no backup. Gateways that share the agents'
    /// files use that of the home that has these.
    #[must_use]
    pub(crate) fn blob_record(&self) -> PathBuf {
        self.data().join("blobs.json")
    }

    /// Returns the file in which the gateway says how far the copies of checkpoints are.
    #[must_use]
    pub(crate) fn blob_progress(&self) -> PathBuf {
        self.run().join("blobs.json")
    }

    /// Returns the file in which the gateway says how far the copies of transcripts are.
    #[must_use]
    pub(crate) fn transcript_progress(&self) -> PathBuf {
        self.run().join("transcript-copies.json")
    }

    /// Returns the file in which the gateway says how far the copies of vaults are.
    #[must_use]
    pub(crate) fn vault_progress(&self) -> PathBuf {
        self.run().join("vault-copies.json")
    }

    /// Returns the lock file that is held while a process draws the secret of this home's marks in stores of blobs.
    #[must_use]
    pub(crate) fn blob_owner_lock(&self) -> PathBuf {
        self.run().join("blobs-owner.lock")
    }

    /// Returns the lock file that is held while the blobs of a removed agent are deleted.
    #[must_use]
    pub(crate) fn blob_lock(&self) -> PathBuf {
        self.run().join("blobs.lock")
    }

    /// Returns the lock file that is held while the whole home is backed up.
    #[must_use]
    pub(crate) fn backup_lock(&self) -> PathBuf {
        self.run().join("backup.lock")
    }

    /// Returns the folder for the copies of the database that backups of the whole home are made from.
    #[must_use]
    pub(crate) fn backup_scratch(&self) -> PathBuf {
        self.run().join("backup")
    }

    /// Returns the file of the texts that a person typed in chats, for the history of the line editor.
    #[must_use]
    pub(crate) fn chat_history(&self) -> PathBuf {
        self.data().join("chat-history.jsonl")
    }

    /// Returns the lock file that is held for one change of the chat history.
    #[must_use]
    pub(crate) fn chat_history_lock(&self) -> PathBuf {
        self.run().join("chat-history.lock")
    }

    /// Returns the folder of unfinished operations on agents, one file each.
    #[must_use]
    pub fn pending(&self) -> PathBuf {
        self.data().join("pending")
    }

    /// Returns the file about a fork of a team that has begun and has not ended.
    #[must_use]
    pub fn team_fork(&self) -> PathBuf {
        self.data().join("team-fork.json")
    }

    /// Returns the lock file that is held by the process that works on such an operation.
    #[must_use]
    pub(crate) fn pending_lock(&self) -> PathBuf {
        self.run().join("pending.lock")
    }

    /// Returns the lock file that a gateway holds for life, so that there is never a second one, even while an earlier
    /// one is ending.
    #[must_use]
    pub fn gateway_lock(&self) -> PathBuf {
        self.run().join("gateway.lock")
    }

    /// Returns the lock file that is held while the database is moved to another place.
    #[must_use]
    pub(crate) fn move_lock(&self) -> PathBuf {
        self.run().join("move.lock")
    }

    /// Returns the file in which the gateway keeps its knowledge of the machine's clock.
    #[must_use]
    pub fn clock(&self) -> PathBuf {
        self.data().join("clock.json")
    }

    /// Returns the folder of an agent's transcripts.
    #[must_use]
    pub fn sessions(&self, agent: &AgentId) -> PathBuf {
        self.agent(agent).join("sessions")
    }

    /// Returns the folder of flock's own files about an agent. The agent itself never sees it.
    #[must_use]
    pub fn agent(&self, agent: &AgentId) -> PathBuf {
        self.agents().join(agent.as_str())
    }

    /// Returns the folder of the files that define an agent and that its owner edits.
    ///
    /// They are not in its workspace, because the agent could rename them there, and a file that is renamed on the host
    /// loses the mount over it.
    #[must_use]
    pub fn identity(&self, agent: &AgentId) -> PathBuf {
        self.agent(agent).join("identity")
    }

    /// Returns the list of the packages that an agent has in the homes of several gateways.
    #[must_use]
    pub(crate) fn package_list(&self, agent: &AgentId) -> PathBuf {
        self.agent(agent).join("packages.json")
    }

    /// Returns the folder of an agent's checkpoints.
    #[must_use]
    pub(crate) fn checkpoints(&self, agent: &AgentId) -> PathBuf {
        self.agent(agent).join("checkpoints")
    }

    /// Returns the folder of all workspaces.
    #[must_use]
    pub fn workspaces(&self) -> PathBuf {
        self.files.join("workspaces")
    }

    /// Returns an agent's workspace, which is `/workspace` in its sandbox.
    #[must_use]
    pub fn workspace(&self, agent: &AgentId) -> PathBuf {
        self.workspaces().join(agent.as_str())
    }

    /// Returns the folder of the MCP servers, with one folder for each.
    #[must_use]
    pub(crate) fn mcp_servers(&self) -> PathBuf {
        self.root.join("mcp")
    }

    /// Returns the folder of flock's own files about an MCP server. The server itself never sees it.
    #[must_use]
    pub(crate) fn mcp_server(&self, server: &McpServerName) -> PathBuf {
        self.mcp_servers().join(server.as_str())
    }

    /// Returns the folder of the sandbox in which an engine is tried. Nothing in it is kept.
    #[must_use]
    pub(crate) fn engine_trial(&self, engine: &EngineName) -> PathBuf {
        self.engine_trials().join(engine.as_str())
    }

    /// Returns the folder above those of [`Self::engine_trial`].
    #[must_use]
    pub(crate) fn engine_trials(&self) -> PathBuf {
        self.run().join("engine-trials")
    }

    /// Returns the folder that an MCP server may write, which is `/workspace` in its sandbox. Like the workspaces of agents,
    /// it is one for all gateways of a group.
    #[must_use]
    pub(crate) fn mcp_workspace(&self, server: &McpServerName) -> PathBuf {
        self.mcp_files().join(server.as_str()).join("workspace")
    }

    /// Returns the path by which the user of an MCP server's sandbox is found. It owns the files of [`Self::mcp_workspace`].
    #[must_use]
    pub(crate) fn mcp_identity(&self, server: &McpServerName) -> PathBuf {
        self.mcp_files().join(server.as_str()).join("identity")
    }

    /// Returns the folder above those of [`Self::mcp_workspace`].
    #[must_use]
    pub(crate) fn mcp_files(&self) -> PathBuf {
        self.files.join("mcp")
    }

    /// Returns the folder of an MCP server's package, which is read-only in its sandbox.
    #[must_use]
    pub(crate) fn mcp_packages(&self, server: &McpServerName) -> PathBuf {
        self.mcp_server(server).join("packages")
    }

    /// Returns the record of what is in [`Self::mcp_packages`].
    #[must_use]
    pub(crate) fn mcp_installed(&self, server: &McpServerName) -> PathBuf {
        self.mcp_server(server).join("installed.json")
    }

    /// Returns the folder of the locks of an MCP server's packages, with one file for each, named by its hash.
    #[must_use]
    pub(crate) fn mcp_locks(&self, server: &McpServerName) -> PathBuf {
        self.mcp_server(server).join("locks")
    }

    /// Returns the lock file that is held while the package of an MCP server is fetched.
    #[must_use]
    pub(crate) fn mcp_packages_lock(&self, server: &McpServerName) -> PathBuf {
        self.run().join(format!("mcp-packages-{server}.lock"))
    }

    /// Returns the folder of the programs that resolve and run packages, with one folder for each.
    #[must_use]
    pub(crate) fn package_tools(&self) -> PathBuf {
        self.root.join("package-tools")
    }

    /// Returns the lock file that is held while such a program is fetched.
    #[must_use]
    pub(crate) fn package_tools_lock(&self) -> PathBuf {
        self.run().join("package-tools.lock")
    }

    /// Returns the folder with the secrets of an MCP server while it runs, which is read-only in its sandbox.
    #[must_use]
    pub(crate) fn mcp_secrets(&self, server: &McpServerName) -> PathBuf {
        self.mcp_secret_folders().join(server.as_str())
    }

    /// Returns the lock for changes of the sign-in to an MCP server.
    #[must_use]
    pub(crate) fn mcp_sign_in_lock(&self, server: &McpServerName) -> PathBuf {
        self.run().join(format!("mcp-sign-in-{server}.lock"))
    }

    /// Returns the folder above those with the secrets of MCP servers.
    #[must_use]
    pub(crate) fn mcp_secret_folders(&self) -> PathBuf {
        self.run().join("mcp-secrets")
    }

    /// Returns the folder of flock's copies of the projects' repositories.
    #[must_use]
    pub fn projects(&self) -> PathBuf {
        self.files.join("projects")
    }

    /// Returns flock's bare copy of a project's repository.
    #[must_use]
    pub fn project_repository(&self, project: &ProjectName) -> PathBuf {
        self.projects().join(format!("{project}.git"))
    }

    /// Returns the lock file that is held while a project's tip or its queue is changed. Gateways that share the repository
    /// share it too.
    #[must_use]
    pub(crate) fn project_lock(&self, project: &ProjectName) -> PathBuf {
        self.files.join("run").join(format!("project-{project}.lock"))
    }

    /// Returns the folder of shared knowledge.
    #[must_use]
    pub fn vaults(&self) -> PathBuf {
        self.files.join("vaults")
    }

    /// Returns the lock file that is held while a file of a vault is changed. Gateways that share the agents' files share it
    /// too. It is not among the vaults, which may be a link to a file system without locks.
    #[must_use]
    pub(crate) fn vaults_lock(&self) -> PathBuf {
        self.files.join("run").join("vaults.lock")
    }

    /// Returns the lock file that is held while a vault is brought back from the store of blobs, or while its copies there are
    /// deleted. It is beside [`Self::vaults_lock`] for the same reasons.
    #[must_use]
    pub(crate) fn vault_copies_lock(&self, vault: &FolderName) -> PathBuf {
        self.files.join("run").join(format!("vault-{vault}.lock"))
    }

    /// Returns the folder of skills, with one folder each.
    #[must_use]
    pub fn skills(&self) -> PathBuf {
        self.files.join("skills")
    }

    /// Returns the lock file that is held while a skill is imported, updated or removed.
    #[must_use]
    pub(crate) fn skills_lock(&self) -> PathBuf {
        self.run().join("skills.lock")
    }

    /// Returns the folder of the repositories that skills are fetched from, which exist only meanwhile.
    #[must_use]
    pub(crate) fn skill_fetches(&self) -> PathBuf {
        self.run().join("skill-fetches")
    }

    /// Returns the folder of archetypes that a person has written.
    #[must_use]
    pub fn archetypes(&self) -> PathBuf {
        self.files.join("archetypes")
    }

    /// Returns the folder of translated tool descriptions, with one folder for each language.
    #[must_use]
    pub fn locales(&self) -> PathBuf {
        self.root.join("locales")
    }

    /// Returns the folder of scripted conversations for the provider `script`.
    #[must_use]
    pub fn scripts(&self) -> PathBuf {
        self.files.join("scripts")
    }

    /// Returns the folder for the files of running processes.
    #[must_use]
    pub fn run(&self) -> PathBuf {
        self.root.join("run")
    }

    /// Returns the folder in which approved commands run on the host, with one folder for each request.
    #[must_use]
    pub fn commands(&self) -> PathBuf {
        self.run().join("commands")
    }

    /// Returns the folder of the files that people have sent and not yet named in a message. Gateways that share the agents'
    /// files share it too: a file and the message that names it may come by different ones.
    #[must_use]
    pub(crate) fn uploads(&self) -> PathBuf {
        self.files.join("run").join("uploads")
    }

    /// Returns the lock file that the supervisor holds for life, which proves that it is alive.
    #[must_use]
    pub fn supervisor_lock(&self) -> PathBuf {
        self.run().join("supervisor.lock")
    }

    /// Returns the lock file that is held while the configuration is read, edited and renamed.
    #[must_use]
    pub(crate) fn config_lock(&self) -> PathBuf {
        self.run().join("config.lock")
    }

    /// Returns the PID file of a supervised process, as in `gateway`.
    #[must_use]
    pub fn pid_file(&self, name: &str) -> PathBuf {
        self.run().join(format!("{name}.pid"))
    }

    /// Returns the file of a process's crash history, which survives the supervisor.
    #[must_use]
    pub fn breaker(&self, name: &str) -> PathBuf {
        self.run().join(format!("{name}.breaker.json"))
    }

    /// Returns the supervisor's control socket, which is used if its path is short enough.
    #[must_use]
    pub(crate) fn control_socket(&self) -> PathBuf {
        self.run().join("control.sock")
    }

    /// Returns the folder of the helper programs for sandboxes, with one folder for each version.
    #[must_use]
    pub fn helpers(&self) -> PathBuf {
        self.run().join("helper")
    }

    /// Returns the folder of the checks that run, with one folder for each run.
    #[must_use]
    pub fn checks(&self) -> PathBuf {
        self.run().join("checks")
    }

    /// Returns the folder of the results of setup steps, which later checks use again.
    #[must_use]
    pub fn check_setups(&self) -> PathBuf {
        self.data().join("check-setups")
    }

    /// Returns the lock file that is held while the key for receipts is made.
    #[must_use]
    pub(crate) fn receipt_key_lock(&self) -> PathBuf {
        self.run().join("receipt-key.lock")
    }

    /// Returns the file that pins the version of the package set.
    #[must_use]
    pub(crate) fn nix_pin(&self) -> PathBuf {
        self.root.join("nix-pin.json")
    }

    /// Returns a lock file for changes of the package store, as in `nix-gc.lock`.
    #[must_use]
    pub(crate) fn nix_lock(&self, name: &str) -> PathBuf {
        self.run().join(format!("nix-{name}.lock"))
    }

    /// Returns the folder of flock's plugin for another program, as in `flock`.
    #[must_use]
    pub fn extension(&self, name: &str) -> PathBuf {
        self.root.join("extensions").join(name)
    }

    /// Returns the folder of logs.
    #[must_use]
    pub fn logs(&self) -> PathBuf {
        self.root.join("logs")
    }

    /// Returns a log file, as in `gateway`.
    #[must_use]
    pub fn log(&self, name: &str) -> PathBuf {
        self.logs().join(format!("{name}.log"))
    }

    /// Returns the folder of keys and bridge tokens, which has mode 0700.
    #[must_use]
    pub fn secrets(&self) -> PathBuf {
        self.root.join("secrets")
    }

    /// Returns the folder of backups: the configuration before each change, and the database before each migration and
    /// once a day.
    #[must_use]
    pub fn backups(&self) -> PathBuf {
        self.root.join("backups")
    }

    /// Returns the folder of the home's generations, one file each.
    #[must_use]
    pub fn generations(&self) -> PathBuf {
        self.root.join("generations")
    }

    /// Returns the lock file that is held while the home goes back to a generation.
    #[must_use]
    pub(crate) fn rollback_lock(&self) -> PathBuf {
        self.run().join("rollback.lock")
    }

    /// Returns the folder of all installed versions of OpenClaw, and of the files that their installation needs.
    #[must_use]
    pub(crate) fn openclaw_versions(&self) -> PathBuf {
        self.root.join("gateways").join("openclaw")
    }

    /// Returns the link to the version of OpenClaw in use.
    #[must_use]
    pub fn openclaw(&self) -> PathBuf {
        self.root.join("openclaw")
    }

    /// Returns the file that lists commits of OpenClaw that did not work here.
    #[must_use]
    pub(crate) fn openclaw_failures_file(&self) -> PathBuf {
        self.openclaw_versions().join("failed.json")
    }

    /// Returns the file with the commits that OpenClaw's tags pointed to when they were first seen.
    #[must_use]
    pub(crate) fn openclaw_tags_file(&self) -> PathBuf {
        self.openclaw_versions().join("tags.json")
    }

    /// Returns the file about a change of OpenClaw's version that is in progress or was interrupted.
    #[must_use]
    pub(crate) fn openclaw_change_file(&self) -> PathBuf {
        self.openclaw_versions().join("underway.json")
    }

    /// Returns the lock file that is held while OpenClaw is installed.
    #[must_use]
    pub(crate) fn install_lock(&self) -> PathBuf {
        self.run().join("install.lock")
    }

    /// Returns the folder for updates of flock's own program: the previous program, and what is being built.
    #[must_use]
    pub fn program(&self) -> PathBuf {
        self.root.join("gateways").join("flock")
    }

    /// Returns the file with the commits that the tags of flock's source pointed to when they were first seen.
    #[must_use]
    pub(crate) fn program_tags_file(&self) -> PathBuf {
        self.program().join("tags.json")
    }

    /// Returns the file that lists commits of flock that did not work here.
    #[must_use]
    pub(crate) fn program_failures_file(&self) -> PathBuf {
        self.program().join("failed.json")
    }

    /// Returns the file about an update of flock's program that is in progress or was interrupted.
    #[must_use]
    pub(crate) fn program_change_file(&self) -> PathBuf {
        self.program().join("underway.json")
    }

    /// Returns the lock file that is held while flock's program is updated.
    #[must_use]
    pub(crate) fn program_lock(&self) -> PathBuf {
        self.run().join("program.lock")
    }

    /// Returns the configuration file that OpenClaw is started with, derived from the home's own.
    #[must_use]
    pub(crate) fn openclaw_config(&self) -> PathBuf {
        self.openclaw_versions().join("openclaw.json")
    }

    /// Returns the folder of OpenClaw's own state.
    #[must_use]
    pub(crate) fn openclaw_state(&self) -> PathBuf {
        self.openclaw_versions().join("state")
    }

    /// Returns the folders that `init` creates, each with its mode.
    #[must_use]
    pub fn folders(&self) -> Vec<(PathBuf, u32)> {
        vec![
            (self.root.clone(), 0o700),
            (self.data(), 0o700),
            (self.agents(), 0o700),
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

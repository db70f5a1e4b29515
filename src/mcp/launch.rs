//! Starts the programs of servers, each in a sandbox of its own: the container of an agent that has nothing else, made by
//! the same code and with the same walls.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc;

use super::error::McpError;
use super::package;
use crate::config::{Config, McpServer, secret};
use crate::home::beneath::Owner;
use crate::home::{Home, atomic};
use crate::id::{AgentId, McpServerName};
use crate::provider::BoxFuture;
use crate::sandbox::docker::{ConfigSource, DockerSandbox};
use crate::sandbox::program_mounts::{ProgramMount, SECRETS_TARGET};
use crate::sandbox::{OutputChunk, ProgramCommand, Sandbox as _, SandboxError, workspace};

/// Starts the programs of servers.
pub trait Launcher: Send + Sync + 'static {
    /// Runs the program of a server until it ends, and returns its exit code. The end of the input is the end of its
    /// standard input. Dropping the future ends the program and every process it started.
    fn run<'a>(
        &'a self,
        server: &'a McpServer,
        input: &'a mut mpsc::Receiver<Bytes>,
        heard: &'a mut (dyn FnMut(OutputChunk<'_>) + Send),
    ) -> BoxFuture<'a, Result<i32, McpError>>;

    /// Removes what a server that is not needed any more occupies. Its files stay.
    fn release<'a>(&'a self, server: &'a McpServerName) -> BoxFuture<'a, Result<(), McpError>>;
}

/// Starts servers in sandboxes.
pub struct SandboxLauncher {
    home: Home,
    sandbox: Arc<DockerSandbox>,
}

impl SandboxLauncher {
    /// Creates a launcher that makes its sandboxes in this backend, whose agents are those of [`sandbox_source`].
    #[must_use]
    pub fn new(home: Home, sandbox: DockerSandbox) -> Self {
        let folder = home.clone();
        let mounts = move |agent: &crate::config::Agent| {
            let server = agent.id.mcp_server().and_then(|server| server.parse().ok());
            let Some(server) = server else { return Vec::new() };
            let mut mounts = package::mounts(&folder, &server);
            mounts.push(ProgramMount::Secrets(folder.mcp_secrets(&server)));
            mounts
        };
        let sandbox = sandbox.with_program_mounts(Arc::new(mounts));
        Self { home, sandbox: Arc::new(sandbox) }
    }
}

/// Returns the configuration in which the servers stand in the place of the agents.
#[must_use]
pub fn sandbox_source(home: Home, config: ConfigSource) -> ConfigSource {
    Arc::new(move || {
        let config = config();
        let agents = config
            .mcp_servers
            .iter()
            .filter(|server| server.remote.is_none())
            .map(|server| server.sandbox(&home))
            .collect();
        // A server has no project and no mount that a person approved for an agent.
        Arc::new(Config { agents, projects: Vec::new(), ..Config::clone(&config) })
    })
}

impl Launcher for SandboxLauncher {
    fn run<'a>(
        &'a self,
        server: &'a McpServer,
        input: &'a mut mpsc::Receiver<Bytes>,
        heard: &'a mut (dyn FnMut(OutputChunk<'_>) + Send),
    ) -> BoxFuture<'a, Result<i32, McpError>> {
        Box::pin(async move {
            let (home, wanted) = (self.home.clone(), server.clone());
            let written = tokio::task::spawn_blocking(move || SecretFiles::write(&home, &wanted)).await;
            // Removed when the program has ended, however it ends.
            let _files = written.map_err(|_| not_started(server, "a defect stopped it"))??;
            let run = ProgramCommand {
                command: command(server),
                env: variables(server),
                input: Bytes::new(),
                feed: None,
            };
            let id = AgentId::of_mcp_server(&server.name);
            Ok(self.sandbox.serve(&id, &run, input, heard).await?)
        })
    }

    fn release<'a>(&'a self, server: &'a McpServerName) -> BoxFuture<'a, Result<(), McpError>> {
        Box::pin(async move {
            match self.sandbox.remove(&AgentId::of_mcp_server(server)).await {
                // If no engine answers, nothing can be running.
                Ok(()) | Err(SandboxError::Unavailable { .. } | SandboxError::Denied { .. }) => Ok(()),
                Err(error) => Err(error.into()),
            }
        })
    }
}

/// Returns the variables of a server's program. What a person set wins.
fn variables(server: &McpServer) -> Vec<(String, String)> {
    let own = package::variables(server).into_iter().filter(|(name, _)| !server.env.contains_key(name));
    own.chain(server.env.iter().map(|(name, value)| (name.clone(), value.clone()))).collect()
}

fn not_started(server: &McpServer, reason: &str) -> McpError {
    McpError::NotStarted { server: server.name.clone(), reason: reason.to_owned() }
}

/// Returns the command line of a server. Its secrets are read from their files inside the sandbox, so that they stand in no
/// command line, no environment that the engine knows, and no configuration.
fn command(server: &McpServer) -> Vec<String> {
    if server.secrets.is_empty() {
        return server.command.clone();
    }
    let export = |variable: &String| {
        // The names were checked when the configuration was read: letters, digits and `_`.
        let file = format!("{SECRETS_TARGET}/{variable}");
        format!(
            "{variable}=\"$(cat {file})\" && {variable}_FILE={file} && export {variable} {variable}_FILE && "
        )
    };
    let script = server.secrets.keys().map(export).collect::<String>() + "exec \"$@\"";
    ["sh", "-c", &script, "sh"].into_iter().map(str::to_owned).chain(server.command.iter().cloned()).collect()
}

/// Removes the secrets of servers whose process was killed. The folders stay, because running sandboxes have them mounted.
pub(crate) fn clear_secrets(home: &Home) {
    let folders = fs_err::read_dir(home.mcp_secret_folders()).into_iter().flatten().flatten();
    folders.for_each(|folder| clear(&folder.path(), |_| true));
}

/// Removes the files of a folder whose names are not wanted.
fn clear(folder: &Path, is_unwanted: impl Fn(&str) -> bool) {
    for entry in fs_err::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_none_or(&is_unwanted) {
            drop(fs_err::remove_file(entry.path()));
        }
    }
}

/// The files with the secrets of a server. They are there only while it runs.
#[derive(Default)]
struct SecretFiles {
    /// Each file with its inode.
    files: Vec<(PathBuf, u64)>,
}

impl SecretFiles {
    fn write(home: &Home, server: &McpServer) -> Result<Self, McpError> {
        let folder = home.mcp_secrets(&server.name);
        let failed = |path: &Path, source| SandboxError::Host { path: path.to_owned(), source };
        // Also without any secret, because the folder is mounted.
        fs_err::create_dir_all(&folder).map_err(|source| failed(&folder, source))?;
        let identity = server.sandbox(home).identity;
        let owner =
            workspace::owner(&identity).map_err(|(path, source)| SandboxError::Host { path, source })?;
        clear(&folder, |name| !server.secrets.contains_key(name));
        let mut written = Self::default();
        for (variable, name) in &server.secrets {
            let value = secret::get(home, name)?
                .ok_or_else(|| McpError::NoSecret { server: server.name.clone(), secret: name.clone() })?;
            let path = folder.join(variable);
            // A file of an earlier start is replaced and not removed first, so that the new one has another inode.
            atomic::write(&path, value.as_bytes(), 0o400)?;
            let found = fs_err::metadata(&path).map_err(|source| failed(&path, source))?;
            written.files.push((path.clone(), found.ino()));
            give(&path, owner).map_err(|source| failed(&path, source))?;
        }
        Ok(written)
    }
}

impl Drop for SecretFiles {
    fn drop(&mut self) {
        for (path, inode) in &self.files {
            // The next start may have written its own file already.
            if fs_err::metadata(path).is_ok_and(|found| found.ino() != *inode) {
                continue;
            }
            if let Err(error) = fs_err::remove_file(path)
                && error.kind() != std::io::ErrorKind::NotFound
            {
                tracing::warn!(%error, "a secret of an MCP server could not be removed after its end");
            }
        }
    }
}

fn give(path: &Path, owner: Option<Owner>) -> std::io::Result<()> {
    match owner {
        Some((uid, gid)) => std::os::unix::fs::chown(path, Some(uid), Some(gid)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_stand_in_no_command_line_and_are_gone_after_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().to_owned(), None);
        home.make_folders().unwrap();
        let mut server = McpServer::new("files".parse().unwrap(), vec!["run".to_owned(), "$(id)".to_owned()]);
        assert_eq!(command(&server), ["run", "$(id)"]);
        server.secrets.insert("API_KEY".to_owned(), "files-key".to_owned());
        let missing = SecretFiles::write(&home, &server).err().unwrap();
        assert!(matches!(missing, McpError::NoSecret { .. }), "{missing}");
        secret::set(&home, "files-key", "sk-planted").unwrap();
        let words = command(&server);
        assert!(!words.concat().contains("sk-planted") && words.ends_with(&server.command), "{words:?}");
        let path = home.mcp_secrets(&server.name).join("API_KEY");
        let files = SecretFiles::write(&home, &server).unwrap();
        assert_eq!(fs_err::read_to_string(&path).unwrap(), "sk-planted");
        let next = SecretFiles::write(&home, &server).unwrap();
        drop(files);
        assert!(path.exists(), "the next start needs it");
        drop(next);
        assert!(!path.exists());
    }

    #[test]
    fn the_servers_stand_in_the_place_of_the_agents() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().to_owned(), None);
        let document = serde_json::json!({
            "gateway": {"auth": {"token": "t"}},
            "plugins": {"entries": {"flock": {"config": {"gatewayAgents": [{"id": "coder", "role": "worker"}],
                "mcpServers": {"files": {"command": ["x"], "egress": ["a.example"]},
                    "far": {"url": "https://b.example/mcp"}}}}}},
        });
        let config = Arc::new(crate::config::parse::config(&document, &home).unwrap());
        let source = sandbox_source(home.clone(), Arc::new(move || Arc::clone(&config)));
        let agents = source().agents.clone();
        assert_eq!(agents.len(), 1);
        assert_eq!(agents[0].id, AgentId::of_mcp_server(&"files".parse().unwrap()));
        assert_eq!(agents[0].egress, ["a.example"]);
        assert!(agents[0].workspace.starts_with(home.mcp_files()));
    }
}

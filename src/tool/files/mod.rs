//! The file tools: `read`, `write`, `edit`, `apply_patch` and `image`.
//!
//! They work in the agent's workspace and reach only regular files below it. It is opened once, and all further access
//! goes through [`WorkspaceFiles`], on this machine or on another one.
//!
//! A hard link is treated like any other file. An agent cannot create one to a file outside its workspace, because such
//! a file is on another mount in its sandbox.

pub mod apply_patch;
pub mod edit;
pub mod image;
mod patch;
mod path;
pub mod read;
mod tool_error;
pub mod write;

use std::path::PathBuf;
use std::sync::Arc;

pub(crate) use self::patch::preview::{PatchChange, changes as patch_changes};
use self::path::WorkspacePath;
use super::arguments::Arguments;
use super::function::{FunctionTool, blocking};
use super::{AgentLookup, CallContext, Tool, ToolError, ToolOutput};
use crate::config::{Agent, SandboxMode};
use crate::error;
use crate::home::beneath::{BeneathError, Owner, Root};
use crate::sandbox::workspace::sandbox_user;
use crate::sandbox::workspace_files::{WorkspaceError, WorkspaceFiles, Workspaces};
use crate::tool::sandbox_failure;

/// Maximum size of a file that is read or written, in bytes.
pub(crate) const MAX_FILE: u64 = 10 * 1024 * 1024;

/// A workspace during one call.
struct Workspace {
    files: WorkspaceFiles,
    /// Folder of the files that describe who the agent is. In the workspace itself these files are only mount points.
    identity: PathBuf,
    /// Owner of created files; `None` for flock's own user.
    owner: Option<Owner>,
}

/// The work of a file tool. It may block.
type FileToolFn = fn(&Workspace, &Arguments) -> Result<ToolOutput, ToolError>;

/// The services that the file tools use.
struct FileService {
    agents: AgentLookup,
    workspaces: Workspaces,
}

/// Returns all file tools in the order in which they are offered.
#[must_use]
pub fn all(agents: &AgentLookup, workspaces: &Workspaces) -> Vec<Arc<dyn Tool>> {
    let service = Arc::new(FileService { agents: Arc::clone(agents), workspaces: workspaces.clone() });
    vec![
        FunctionTool::shared(&read::READ, &service, |s, c, a| Box::pin(run(s, c, a, read::work))),
        FunctionTool::shared(&write::WRITE, &service, |s, c, a| Box::pin(run(s, c, a, write::work))),
        FunctionTool::shared(&edit::EDIT, &service, |s, c, a| Box::pin(run(s, c, a, edit::work))),
        FunctionTool::shared(&apply_patch::APPLY_PATCH, &service, |s, c, a| {
            Box::pin(run(s, c, a, apply_patch::work))
        }),
        FunctionTool::shared(&image::IMAGE, &service, |s, c, a| Box::pin(run(s, c, a, image::work))),
    ]
}

async fn run(
    service: &Arc<FileService>,
    context: &CallContext,
    arguments: Arguments,
    work: FileToolFn,
) -> Result<ToolOutput, ToolError> {
    // Looked up at each call, because a reload of the configuration may have changed or removed the agent.
    let agent = (service.agents)(&context.agent)
        .ok_or_else(|| ToolError::model("you have been removed from the configuration"))?;
    let service = Arc::clone(service);
    blocking(move || {
        let files =
            service.workspaces.open(&agent.id, &agent.workspace).map_err(|failure| match failure {
                WorkspaceError::Sandbox { source, .. } => sandbox_failure::for_model(*source),
                WorkspaceError::Folder(_) => {
                    // The cause contains the host's path, so the model gets a sentence without it.
                    tracing::warn!("workspace of {}: {}", agent.id, error::chain(&failure));
                    ToolError::model(
                        "your workspace can't be opened; the owner finds the cause with `flock doctor`",
                    )
                }
            })?;
        let owner = owner(&agent)?;
        let workspace = Workspace { files, identity: agent.identity.clone(), owner };
        work(&workspace, &arguments)
    })
    .await
}

impl Workspace {
    /// Returns a whole file, with the content that the sandbox shows.
    fn read(&self, place: &WorkspacePath, cap: u64) -> Result<Vec<u8>, BeneathError> {
        // In the workspace itself these files are only mount points.
        if place.is_identity() {
            return Root::open(&self.identity)?.read(place.relative(), cap);
        }
        self.files.read(place.relative(), cap)
    }
}

/// Returns the owner for created files. The sandbox's user must be able to change them. An agent without a sandbox
/// works as flock's own user.
fn owner(agent: &Agent) -> Result<Option<Owner>, ToolError> {
    if agent.sandbox != SandboxMode::All {
        return Ok(None);
    }
    let user = sandbox_user(&agent.identity).map_err(|(path, failure)| {
        tracing::warn!("user of {}: {}: {failure}", agent.id, path.display());
        ToolError::model("your sandbox has no user yet; the owner finds the cause with `flock doctor`")
    })?;
    Ok(Some((user.uid, user.gid)))
}

#[cfg(test)]
#[path = "workspaces_tests.rs"]
mod tests;

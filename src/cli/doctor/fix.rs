//! What `doctor --fix` does: only what is safe, and it says what it did. One more fix is one more variant here and the
//! check that names it.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use super::super::{Context, Failure, restore, unfinished};
use crate::home::lock::Lock;
use crate::home::{Home, drafts, instance};
use crate::id::AgentId;
use crate::supervise::pid;

/// Something that can be mended without losing anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fix {
    /// Close a file or folder to others.
    Mode(PathBuf, u32),
    /// Make the folders of the home that are missing.
    Folders,
    /// Give the home an instance id.
    Instance,
    /// Remove drafts of files that killed processes left.
    Drafts,
    /// Remove the file that names a process which is gone.
    Pid(PathBuf),
    /// Finish an operation on this agent that was interrupted.
    Operation(AgentId),
    /// Bring the database back. The one of before is set aside and kept.
    Database,
}

impl Fix {
    /// Does it; gives what was done.
    ///
    /// # Errors
    ///
    /// If it can't be done; nothing is lost by that.
    pub fn apply(&self, home: &Home, context: &Context) -> Result<String, Failure> {
        match self {
            Self::Mode(path, mode) => {
                fs_err::set_permissions(path, std::fs::Permissions::from_mode(*mode)).map_err(|error| {
                    Failure::caused(format!("failed to close {}", path.display()), &error)
                })?;
                Ok(format!("closed {} to others", path.display()))
            }
            Self::Folders => {
                home.make_folders()?;
                Ok("made the missing folders".to_owned())
            }
            Self::Instance => {
                instance::settle(home)?;
                Ok("gave the home a new identity".to_owned())
            }
            Self::Drafts => Ok(format!("removed {} drafts", drafts::sweep(home))),
            Self::Pid(path) => {
                // Whoever has started meanwhile has written its own.
                if pid::read(path).is_none() && !Lock::is_held(&home.supervisor_lock())? {
                    fs_err::remove_file(path).map_err(|error| {
                        Failure::caused(format!("failed to remove {}", path.display()), &error)
                    })?;
                }
                Ok(format!("removed {}", path.display()))
            }
            Self::Operation(agent) => {
                context.block_on(unfinished::finish(home, agent, context))?;
                Ok("finished it".to_owned())
            }
            Self::Database => Ok(restore::bring_back(home, None, context)?.lines().join("; ")),
        }
    }
}

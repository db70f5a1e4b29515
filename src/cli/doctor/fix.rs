//! The repairs of `doctor --fix`: only safe ones, and each reports what it did.
//!
//! A new repair is a new variant here and the check that names it.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use super::super::{Context, Failure, pending_operations, restore};
use crate::config;
use crate::home::lock::Lock;
use crate::home::{Home, instance, temp_files};
use crate::id::AgentId;
use crate::store::search_index;
use crate::supervise::pid_file;

/// A repair that loses nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fix {
    /// Sets the mode of a file or folder, to close it to other users.
    Mode(PathBuf, u32),
    /// Creates the missing folders of the home.
    Folders,
    /// Gives the home a new instance id.
    Instance,
    /// Removes drafts of files that killed processes left.
    Drafts,
    /// Removes a PID file whose process has ended.
    Pid(PathBuf),
    /// Completes an interrupted operation on this agent.
    Operation(AgentId),
    /// Moves the tokens of this bridge from the configuration to `secrets/`.
    BridgeTokens(String),
    /// Restores the database from a backup. The damaged one is kept beside it.
    Database,
    /// Deletes the damaged search index. The next search makes it anew.
    SearchIndex,
}

impl Fix {
    /// Makes the repair and returns a text that says what was done.
    ///
    /// # Errors
    ///
    /// Returns an error if the repair fails. Nothing is lost in that case.
    pub(crate) fn apply(&self, home: &Home, context: &Context) -> Result<String, Failure> {
        match self {
            Self::Mode(path, mode) => {
                // The checks ask only for the modes 0700 and 0600, which close a file to others and to nobody else.
                fs_err::set_permissions(path, std::fs::Permissions::from_mode(*mode)).map_err(|error| {
                    Failure::with_cause(format!("failed to close {}", path.display()), &error)
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
            // Only drafts are removed whose writer is gone, so a file that is being written is safe.
            Self::Drafts => Ok(format!("removed {} drafts", temp_files::sweep(home))),
            Self::Pid(path) => {
                // A process that has started since the check has written its own PID, so the file is read again.
                if pid_file::read(path).is_none() && !Lock::is_held(&home.supervisor_lock())? {
                    fs_err::remove_file(path).map_err(|error| {
                        Failure::with_cause(format!("failed to remove {}", path.display()), &error)
                    })?;
                }
                Ok(format!("removed {}", path.display()))
            }
            Self::Operation(agent) => {
                context.block_on(pending_operations::finish(home, agent, context))?;
                Ok("finished it".to_owned())
            }
            Self::BridgeTokens(bridge) => {
                config::bridges::move_tokens(home, bridge)?;
                Ok(format!("moved the token of {bridge} to secrets/"))
            }
            Self::SearchIndex => {
                search_index::remove(home);
                Ok("deleted it; the next search makes it anew".to_owned())
            }
            Self::Database => Ok(restore::restore_database(home, None, context)?.lines().join("; ")),
        }
    }
}

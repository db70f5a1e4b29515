//! Describes errors of file access for the model.

use std::io;

use super::path::WorkspacePath;
use crate::error;
use crate::home::beneath::BeneathError;
use crate::tool::ToolError;

/// Returns the error in the model's terms: with its own path, a plain reason, and no path of the host. One that ends the turn is
/// for no model.
pub(super) fn for_model(place: &WorkspacePath, failure: &BeneathError) -> ToolError {
    ToolError::model(match failure {
        BeneathError::Outside { .. } => {
            format!("{place} is a symbolic link or passes through one; file tools follow none")
        }
        BeneathError::NotFound { .. } => format!("{place} does not exist"),
        BeneathError::WrongKind { found, wanted, .. } => format!("{place}: found {found}, not {wanted}"),
        BeneathError::TooLarge { size, cap, .. } => {
            format!("{place} has {size} bytes; at most {cap} are possible: use exec on parts of it")
        }
        // Another gateway may go on with the turn, so this one says nothing more to the model.
        BeneathError::CutOff { source, .. } => return ToolError::Fatal(Box::new(*source)),
        BeneathError::Elsewhere { .. } => format!("{place} is on another machine, and can't be reached here"),
        BeneathError::Unreachable { .. } => {
            tracing::warn!("file tool: {}", error::chain(failure));
            format!(
                "the sandbox stopped answering, so it is not known what became of {place}: look at it again"
            )
        }
        // The whole cause may contain paths of the host, so it goes to the log only.
        BeneathError::Io { verb, source, .. } => {
            tracing::warn!("file tool: {}", error::chain(failure));
            let reason = match source.kind() {
                io::ErrorKind::PermissionDenied => "permission denied",
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "the disk is full",
                io::ErrorKind::ReadOnlyFilesystem => "it is read-only",
                io::ErrorKind::InvalidFilename => "the name is too long or invalid",
                _ => "the system reported an error",
            };
            format!("failed to {verb} {place}: {reason}")
        }
    })
}

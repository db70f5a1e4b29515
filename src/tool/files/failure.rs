//! Describes errors of file access for the model.

use std::io;

use super::path::Place;
use crate::error;
use crate::home::beneath::BeneathError;
use crate::tool::ToolError;

/// Returns the error in the model's terms: with its own path, a plain reason, and no path of the host.
pub(super) fn for_model(place: &Place, failure: &BeneathError) -> ToolError {
    ToolError::model(match failure {
        BeneathError::Outside { .. } => {
            format!("{place} is a symbolic link or leads through one; the file tools follow none")
        }
        BeneathError::NotFound { .. } => format!("{place} is not there"),
        BeneathError::WrongKind { found, wanted, .. } => format!("{place}: there is {found}, not {wanted}"),
        BeneathError::TooLarge { size, cap, .. } => {
            format!("{place} has {size} bytes; at most {cap} can be taken: use exec on parts of it")
        }
        // The whole cause may contain paths of the host, so it goes to the log only.
        BeneathError::Io { verb, source, .. } => {
            tracing::warn!("file tool: {}", error::chain(failure));
            let reason = match source.kind() {
                io::ErrorKind::PermissionDenied => "permission denied",
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "the disk is full",
                io::ErrorKind::ReadOnlyFilesystem => "it is read-only",
                io::ErrorKind::InvalidFilename => "the name is too long or not possible",
                _ => "the system reported an error",
            };
            format!("failed to {verb} {place}: {reason}")
        }
    })
}

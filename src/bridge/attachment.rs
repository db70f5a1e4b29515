//! Files that people send on a platform: they are downloaded and taken as `swarm::attachment` says.

use std::path::PathBuf;

use super::message::{IncomingFile, IncomingMessage};
use super::platform::{Platform, PlatformError};
use crate::config::Agent;
use crate::sandbox::workspace_files::Workspaces;
use crate::swarm::attachment::{self, MAX_FILE, MAX_FILES};

/// Writes the files of a message into `inbox/FOLDER/` of each agent's workspace. Returns a line for each file, which
/// names its place or the reason why it was not taken.
pub(super) async fn store(
    platform: &dyn Platform,
    (ways, agents): (&Workspaces, &[Agent]),
    folder: &str,
    message: &IncomingMessage,
) -> Vec<String> {
    let mut markers = Vec::new();
    for file in message.files.iter().take(MAX_FILES) {
        markers.push(match take(platform, (ways, agents), place(folder, message, file), file).await {
            Ok(()) => marker(folder, message, file),
            Err(why) => attachment::refusal(&file.name, &why),
        });
    }
    if message.files.len() > MAX_FILES {
        markers.push(format!("[{} more attachments were not taken]", message.files.len() - MAX_FILES));
    }
    markers
}

/// Returns the line that names a file's place.
pub(super) fn marker(folder: &str, message: &IncomingMessage, file: &IncomingFile) -> String {
    attachment::marker(&place(folder, message, file))
}

async fn take(
    platform: &dyn Platform,
    (ways, agents): (&Workspaces, &[Agent]),
    place: PathBuf,
    file: &IncomingFile,
) -> Result<(), String> {
    if let Some(why) = attachment::too_large(file.bytes) {
        return Err(why);
    }
    let content = platform.download(file, MAX_FILE).await.map_err(|error| match error {
        PlatformError::Refused(why) => why,
        error => error.to_string(),
    })?;
    attachment::deliver(ways, agents, place, content).await
}

fn place(folder: &str, message: &IncomingMessage, file: &IncomingFile) -> PathBuf {
    attachment::place(folder, [&message.external, &message.id, &file.id], &file.name)
}

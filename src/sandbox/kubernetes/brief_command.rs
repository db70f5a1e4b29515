//! A command of flock's own in a pod. The processes of the agent share the pod with it: they can stop it, kill it, or leave no
//! room for it, and nothing of flock's may wait for that to change.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::sandbox::helper::{HelperClient, HelperError};
use crate::sandbox::{Command, CommandOutcome};

/// Time limit that the helper enforces, also for a command that was stopped.
const TIME: Duration = Duration::from_secs(5);
/// Longest wait for the answer, on the real clock: that of the connection stands still while the pod is frozen. The helper
/// waits two seconds for room among the processes, and needs up to six after the time limit.
pub(super) const ANSWER_LIMIT: Duration = Duration::from_secs(15);

/// Runs a command for at most five seconds, and waits at most `limit` for the answer.
///
/// # Errors
///
/// Returns [`HelperError::Silent`] if there is no answer in time, and fails as [`HelperClient::run`] does.
pub(super) async fn run(
    client: &HelperClient,
    command: String,
    limit: Duration,
) -> Result<CommandOutcome, HelperError> {
    let command = Command {
        command,
        keep: 4096,
        workdir: Some("/".to_owned()),
        timeout: Some(TIME),
        ..Command::default()
    };
    let never = CancellationToken::new();
    match tokio::time::timeout(limit, client.run(&command, &never)).await {
        Ok(answer) => answer,
        Err(_) => Err(HelperError::Silent(limit)),
    }
}

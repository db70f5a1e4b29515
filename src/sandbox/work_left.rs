//! The reasons for which a sandbox that has to move stays for now: something runs in it, or nobody can tell.

use std::error::Error;
use std::time::Duration;

use crate::error::chain;
use crate::sandbox::BackgroundJob;
use crate::sandbox::helper::{HelperClient, HelperError, HelperStreams};

/// The reason that a command is.
pub(super) const COMMAND: &str = "a command runs in its sandbox";
/// The reason that a freeze is.
pub(super) const FROZEN: &str = "it is frozen; the command that ends this is flock thaw";

/// Longest wait for what a sandbox tells. It is on the real clock: that of a connection stands still while the sandbox is
/// frozen, and the moves of all other agents would wait for the thaw.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);

/// Returns the reason that background jobs are, or `None` if there are none.
pub(super) fn of_jobs(running: &[BackgroundJob]) -> Option<String> {
    match running.len() {
        0 => None,
        1 => Some("a background job runs in its sandbox".to_owned()),
        count => Some(format!("{count} background jobs run in its sandbox")),
    }
}

/// Waits for what a sandbox tells. The error is a reason to stay: what is not known may be a job.
pub(super) async fn told<T, E: Error>(asked: impl Future<Output = Result<T, E>>) -> Result<T, String> {
    match tokio::time::timeout(ANSWER_LIMIT, asked).await {
        Ok(answer) => answer.map_err(|error| unknown(&chain(&error))),
        Err(_) => Err(unknown(&format!("no answer within {} s", ANSWER_LIMIT.as_secs()))),
    }
}

fn unknown(why: &str) -> String {
    format!("it is not known what runs in its sandbox: {why}")
}

/// Connects to a helper and asks for the background jobs that run. The connection ends with the answer. It gives the sandbox
/// no way out, because nobody has compared the sandbox with its specification.
///
/// No other connection to the helper may be in use, because this one ends it.
pub(super) async fn ask((reader, writer): HelperStreams) -> Result<Vec<BackgroundJob>, HelperError> {
    let client = HelperClient::attach(reader, writer, None).await?;
    client.running_jobs().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::{Command, JobRequest, testing};

    #[tokio::test]
    async fn what_is_not_known_is_a_reason_to_stay() {
        let reason = told(async { Err::<(), _>(HelperError::Unexpected) }).await.unwrap_err();
        assert!(reason.starts_with("it is not known what runs in its sandbox: "), "{reason}");
        assert_eq!(told(async { Ok::<_, HelperError>(1) }).await, Ok(1));
    }

    #[tokio::test]
    async fn a_job_is_a_reason_until_it_ends() {
        let folder = tempfile::tempdir().unwrap();
        let (_child, client) = testing::helper(folder.path(), folder.path()).await;
        assert_eq!(of_jobs(&client.running_jobs().await.unwrap()), None);
        let job = Command { command: "sleep 1000".to_owned(), keep: 16, ..Command::default() };
        let job = client.spawn(&job).await.unwrap();
        let reason = of_jobs(&client.running_jobs().await.unwrap());
        assert_eq!(reason.as_deref(), Some("a background job runs in its sandbox"));
        client.jobs(JobRequest::Kill(job.id)).await.unwrap();
        assert_eq!(of_jobs(&client.running_jobs().await.unwrap()), None);
    }
}

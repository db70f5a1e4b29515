//! Stopping a task: the record of it and the turn that works on it.

use std::time::Duration;

use super::state::Gateway;
use crate::store::Task;
use crate::swarm::SwarmError;

/// How long a turn that was stopped may take to end before it is no longer waited for.
const PATIENCE: Duration = Duration::from_secs(10);

impl Gateway {
    /// Stops a task, and returns when the turn that worked on it has ended.
    ///
    /// # Errors
    ///
    /// As [`SwarmError`] says.
    pub async fn stop_task(&self, actor: &str, id: &str) -> Result<Task, SwarmError> {
        let (task, in_flight) = self.swarm.stop_task(actor, id).await?;
        // A turn that is not taken on yet sees that its task was stopped when it is.
        if let Some(ended) = in_flight.and_then(|turn| self.driver.cancel_turn(turn))
            && tokio::time::timeout(PATIENCE, ended.cancelled()).await.is_err()
        {
            tracing::warn!(task = id, "the turn of a stopped task does not end");
        }
        Ok(task)
    }
}

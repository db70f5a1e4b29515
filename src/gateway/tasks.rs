//! Stops a task: updates its record and cancels the turn that works on it.

use std::time::Duration;

use super::state::Gateway;
use crate::store::Task;
use crate::swarm::SwarmError;

/// Longest time to wait for the end of a stopped turn.
const TURN_TIMEOUT: Duration = Duration::from_secs(10);

impl Gateway {
    /// Stops a task, and returns when the turn that worked on it has ended or ten seconds have passed.
    ///
    /// # Errors
    ///
    /// Returns the error of `Swarm::stop_task` if the task was not stopped.
    pub(crate) async fn stop_task(&self, actor: &str, id: &str) -> Result<Task, SwarmError> {
        let (task, in_flight) = self.swarm.stop_task(actor, id).await?;
        // A turn that has not been accepted yet sees at that moment that its task was stopped.
        if let Some(ended) = in_flight.and_then(|turn| self.driver.cancel_turn(turn))
            && tokio::time::timeout(TURN_TIMEOUT, ended.cancelled()).await.is_err()
        {
            tracing::warn!(task = id, "the turn of a stopped task does not end");
        }
        Ok(task)
    }
}

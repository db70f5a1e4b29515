//! How the turn of a task ended.

use serde_json::json;

use super::Swarm;
use crate::id::TurnId;
use crate::store::StoreError;

/// How the turn of a task ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskEnd {
    /// With this text.
    Done(String),
    /// With this reason.
    Failed(String),
    /// Somebody stopped it.
    Cancelled,
}

impl Swarm {
    /// Takes note that the turn of a task has ended. Called again for the same turn it changes nothing.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    #[expect(clippy::unused_async, reason = "what is stored with a task comes with the tasks")]
    pub async fn task_ended(&self, task: &str, turn: TurnId, end: TaskEnd) -> Result<(), StoreError> {
        let state = match end {
            TaskEnd::Done(_) => "completed",
            TaskEnd::Failed(_) => "failed",
            TaskEnd::Cancelled => "canceled",
        };
        self.bell.publish("task.ended", &json!({"task": task, "turn": turn, "state": state}));
        Ok(())
    }
}

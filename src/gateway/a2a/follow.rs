//! Follows one task. A change is committed before it is announced, so the gateway's events wake a follower, and it then
//! reads the current state. No state is kept for a follower anywhere, so it may come and go at any time.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;

use super::view;
use crate::gateway::events::EventRead;
use crate::gateway::state::Gateway;
use crate::gateway::stream::SILENCE;
use crate::store::{StoreError, Task, TaskMessage};

/// One observation of a follower.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TaskObservation {
    /// The task has changed since the last look.
    Changed,
    /// The task's turn calls this tool.
    Tool(String),
    /// Nothing happened for a while.
    Nothing,
    /// The gateway is stopping.
    Stopping,
}

/// Returns a sentence that says what a task waits for if its agent is frozen. Returns `None` if the agent is not
/// frozen, or if the task has ended or waits for its client.
#[must_use]
pub(crate) fn held(gateway: &Gateway, task: &Task) -> Option<String> {
    let agent = Some(task.assignee()).filter(|_| !view::settles(task.state))?;
    let text = gateway.swarm.frozen_text(agent)?;
    Some(format!("{text}; the task goes on once it is thawed: flock thaw {agent}"))
}

/// A watcher of one task.
pub(crate) struct TaskFollower {
    gateway: Arc<Gateway>,
    changes: watch::Receiver<u64>,
    position: u64,
    task: Task,
}

/// Number of events that are read at a time.
const BATCH: usize = 256;

impl TaskFollower {
    /// Starts to follow the task with this id. Returns `None` if there is no such task.
    pub(crate) async fn new(gateway: &Arc<Gateway>, id: &str) -> Result<Option<Self>, StoreError> {
        // The position among the events is taken before the task is read. A change in between is then seen twice rather
        // than never.
        let (changes, position) = (gateway.events.watch(), gateway.events.now());
        let task = gateway.swarm.store().tasks().find(id).await?;
        Ok(task.map(|task| Self { gateway: Arc::clone(gateway), changes, position, task }))
    }

    /// Returns the task as it was last seen.
    #[must_use]
    pub(crate) const fn task(&self) -> &Task {
        &self.task
    }

    /// Returns a sentence that says what the task waits for if its agent is frozen.
    #[must_use]
    pub(crate) fn held(&self) -> Option<String> {
        held(&self.gateway, &self.task)
    }

    /// Returns the messages of the task.
    pub(crate) async fn said(&self) -> Result<Vec<TaskMessage>, StoreError> {
        self.gateway.swarm.store().tasks().messages(&self.task.id).await
    }

    /// Waits for the next observation.
    pub(crate) async fn next(&mut self) -> Result<TaskObservation, StoreError> {
        loop {
            match self.gateway.events.after(self.position, BATCH) {
                // Some events fell out of the ring. The task itself tells if one of them was about it.
                EventRead::Lost => {
                    let now = self.gateway.events.now();
                    let is_changed = self.look().await?;
                    self.position = now;
                    if is_changed {
                        return Ok(TaskObservation::Changed);
                    }
                }
                EventRead::Events(events) if events.is_empty() => {
                    let is_over = tokio::select! {
                        // A closed channel means that the gateway is gone.
                        changed = self.changes.changed() => changed.is_err(),
                        () = self.gateway.stop.cancelled() => true,
                        // The look finds a change whose event was missed.
                        () = tokio::time::sleep(SILENCE) => {
                            return Ok(if self.look().await? { TaskObservation::Changed } else { TaskObservation::Nothing });
                        }
                    };
                    if is_over {
                        return Ok(TaskObservation::Stopping);
                    }
                }
                EventRead::Events(events) => {
                    for event in events {
                        let seen = self.read(&event.text).await?;
                        // Only now: if this future is dropped while it reads, the event is not lost.
                        self.position = event.position();
                        if let Some(seen) = seen {
                            return Ok(seen);
                        }
                    }
                }
            }
        }
    }

    /// Returns what an event means for this task, if it means anything.
    async fn read(&mut self, text: &str) -> Result<Option<TaskObservation>, StoreError> {
        let mut lines = text.lines();
        let mut field = |name: &str| lines.find_map(|line| line.strip_prefix(name));
        let (name, data) = (field("event: ").unwrap_or_default(), field("data: ").unwrap_or_default());
        // Most events are about other things and are not worth parsing.
        if name == "task.changed" && data.contains(&self.task.id) {
            return Ok(self.look().await?.then_some(TaskObservation::Changed));
        }
        // The task itself does not change when its agent is frozen or thawed, but the sentence about it does.
        if matches!(name, "agent.frozen" | "agent.thawed") && !view::settles(self.task.state) {
            let data: Value = serde_json::from_str(data).unwrap_or_default();
            return Ok((data["agent"] == self.task.assignee().as_str()).then_some(TaskObservation::Changed));
        }
        let Some(turn) = self.task.turn.filter(|_| name == "tool.started").map(|turn| turn.to_string())
        else {
            return Ok(None);
        };
        let data: Value = serde_json::from_str(data).unwrap_or_default();
        if data["turn"] != turn.as_str() {
            return Ok(None);
        }
        // The name of a tool comes from the model's request, so it is cleaned and cut.
        Ok(data["tool"].as_str().map(|tool| TaskObservation::Tool(crate::clean::summary(tool, 64))))
    }

    /// Reads the task again. Returns `true` if it has changed since the last read.
    async fn look(&mut self) -> Result<bool, StoreError> {
        match self.gateway.swarm.store().tasks().find(&self.task.id).await? {
            Some(task) if task != self.task => {
                self.task = task;
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}

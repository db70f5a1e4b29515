//! Watching one task: what changes is committed before it is told, so a follower is told by the gateway's
//! events and reads what is so. Nothing is kept for it anywhere, and it may come and go as it likes.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;

use super::view;
use crate::gateway::events::Next;
use crate::gateway::state::Gateway;
use crate::gateway::stream::SILENCE;
use crate::store::{StoreError, Task, TaskMessage};

/// What a follower sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The task changed.
    Changed,
    /// Its turn calls this tool.
    Tool(String),
    /// Nothing, for a while.
    Nothing,
    /// The gateway stops.
    Stopping,
}

/// What a task waits for whose agent is frozen, in a sentence. One that has ended, or waits for its client, waits for no
/// thaw.
#[must_use]
pub fn held(gateway: &Gateway, task: &Task) -> Option<String> {
    let agent = Some(task.assignee()).filter(|_| !view::settles(task.state))?;
    let text = gateway.swarm.frozen_text(agent)?;
    Some(format!("{text}; the task goes on once it is thawed: flock thaw {agent}"))
}

/// Follows one task.
pub struct Follower {
    gateway: Arc<Gateway>,
    changes: watch::Receiver<u64>,
    position: u64,
    task: Task,
}

/// How many events are looked at in one go.
const BATCH: usize = 256;

impl Follower {
    /// Follows the task with this id; `None` where there is none.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn new(gateway: &Arc<Gateway>, id: &str) -> Result<Option<Self>, StoreError> {
        // Where the events are is looked at before the task: what happens in between is seen twice, not never.
        let (changes, position) = (gateway.events.watch(), gateway.events.now());
        let task = gateway.swarm.store().task(id)?;
        Ok(task.map(|task| Self { gateway: Arc::clone(gateway), changes, position, task }))
    }

    /// The task as it was last seen.
    #[must_use]
    pub const fn task(&self) -> &Task {
        &self.task
    }

    /// What it waits for where its agent is frozen.
    #[must_use]
    pub fn held(&self) -> Option<String> {
        held(&self.gateway, &self.task)
    }

    /// What was said in it.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn said(&self) -> Result<Vec<TaskMessage>, StoreError> {
        self.gateway.swarm.store().task_messages(&self.task.id)
    }

    /// Waits for what comes next.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn next(&mut self) -> Result<Seen, StoreError> {
        loop {
            match self.gateway.events.after(self.position, BATCH) {
                Next::Lost => {
                    self.position = self.gateway.events.now();
                    if self.look()? {
                        return Ok(Seen::Changed);
                    }
                }
                Next::Events(events) if events.is_empty() => {
                    let is_over = tokio::select! {
                        changed = self.changes.changed() => changed.is_err(),
                        () = self.gateway.stop.cancelled() => true,
                        () = tokio::time::sleep(SILENCE) => {
                            return Ok(if self.look()? { Seen::Changed } else { Seen::Nothing });
                        }
                    };
                    if is_over {
                        return Ok(Seen::Stopping);
                    }
                }
                Next::Events(events) => {
                    for event in events {
                        self.position = event.position();
                        if let Some(seen) = self.read(&event.text)? {
                            return Ok(seen);
                        }
                    }
                }
            }
        }
    }

    /// What an event means to this task.
    fn read(&mut self, text: &str) -> Result<Option<Seen>, StoreError> {
        let mut lines = text.lines();
        let mut field = |name: &str| lines.find_map(|line| line.strip_prefix(name));
        let (name, data) = (field("event: ").unwrap_or_default(), field("data: ").unwrap_or_default());
        // Most events are of others; they are not worth parsing.
        if name == "task.changed" && data.contains(&self.task.id) {
            return Ok(self.look()?.then_some(Seen::Changed));
        }
        if matches!(name, "agent.frozen" | "agent.thawed") && !view::settles(self.task.state) {
            let data: Value = serde_json::from_str(data).unwrap_or_default();
            return Ok((data["agent"] == self.task.assignee().as_str()).then_some(Seen::Changed));
        }
        let Some(turn) = self.task.turn.filter(|_| name == "tool.started").map(|turn| turn.to_string())
        else {
            return Ok(None);
        };
        let data: Value = serde_json::from_str(data).unwrap_or_default();
        if data["turn"] != turn.as_str() {
            return Ok(None);
        }
        Ok(data["tool"].as_str().map(|tool| Seen::Tool(crate::clean::summary(tool, 64))))
    }

    /// Reads the task; whether it changed since it was last read.
    fn look(&mut self) -> Result<bool, StoreError> {
        match self.gateway.swarm.store().task(&self.task.id)? {
            Some(task) if task != self.task => {
                self.task = task;
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}

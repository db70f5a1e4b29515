//! Notifies the scheduler and watchers of changes after they were committed.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;

use super::scheduler::{Priority, SchedulerEvent, Urgency};
use crate::id::SessionKey;

/// A callback that publishes one event to watchers: its name and one JSON object.
pub(crate) type PublishFn = Arc<dyn Fn(&str, &Value) + Send + Sync>;

/// A handle for notifications. It is cheap to clone and never blocks.
#[derive(Clone)]
pub struct Notifier {
    events: mpsc::UnboundedSender<SchedulerEvent>,
    news: PublishFn,
}

impl Notifier {
    /// Creates a notifier that sends to the scheduler by `events` and to watchers by `news`.
    #[must_use]
    pub fn new(events: mpsc::UnboundedSender<SchedulerEvent>, news: PublishFn) -> Self {
        Self { events, news }
    }

    /// Sends an event to the scheduler.
    pub(crate) fn tell(&self, event: SchedulerEvent) {
        // Sending fails only when the gateway stops. The change is in the database and is found at the next start.
        drop(self.events.send(event));
    }

    /// Tells the scheduler that something urgent waits for a session.
    pub(crate) fn ring(&self, session: SessionKey, priority: Priority) {
        self.tell(SchedulerEvent::Unseen { session, priority, urgency: Urgency::Now });
    }

    /// Does the same as [`Self::ring`] after a delay. An earlier ring for the session delivers the message too.
    pub(crate) fn notify_session_after(&self, session: SessionKey, priority: Priority, after: Duration) {
        if after.is_zero() {
            return self.ring(session, priority);
        }
        let notifier = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(after).await;
            notifier.ring(session, priority);
        });
    }

    /// Publishes an event to watchers.
    pub(crate) fn publish(&self, name: &str, data: &Value) {
        (self.news)(name, data);
    }
}

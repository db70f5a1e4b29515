//! Telling what has changed, after it was committed: the scheduler, and whoever watches.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;

use super::scheduler::{Event, Priority, Urgency};
use crate::id::SessionKey;

/// Publishes one event for those who watch: its name and one JSON object.
pub type News = Arc<dyn Fn(&str, &Value) + Send + Sync>;

/// A way to tell. Cheap to clone; never blocks.
#[derive(Clone)]
pub struct Bell {
    events: mpsc::UnboundedSender<Event>,
    news: News,
}

impl Bell {
    /// A bell that is heard at `events` and by `news`.
    #[must_use]
    pub fn new(events: mpsc::UnboundedSender<Event>, news: News) -> Self {
        Self { events, news }
    }

    /// Tells the scheduler.
    pub fn tell(&self, event: Event) {
        // Nobody hears it when the gateway stops; what it tells of is in the database.
        drop(self.events.send(event));
    }

    /// Tells the scheduler that something waits for a session and is urgent.
    pub fn ring(&self, session: SessionKey, priority: Priority) {
        self.tell(Event::Unseen { session, priority, urgency: Urgency::Now });
    }

    /// As [`Self::ring`], but after a while. Whatever rings for the session before brings it along.
    pub fn ring_later(&self, session: SessionKey, priority: Priority, after: Duration) {
        if after.is_zero() {
            return self.ring(session, priority);
        }
        let bell = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(after).await;
            bell.ring(session, priority);
        });
    }

    /// Tells who watches.
    pub fn publish(&self, name: &str, data: &Value) {
        (self.news)(name, data);
    }
}

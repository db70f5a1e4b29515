//! Reads what was said while no connection stood, from the history of the channels.

use std::collections::BTreeMap;

use serde_json::Value;

use super::event::{self, RawMessage, text};
use super::follow::{Delivery, patient};
use super::place::Followed;
use super::ts::Ts;
use crate::bridge::platform::PlatformError;

/// Largest number of pages that are read of one channel.
const MAX_PAGES: usize = 500;
/// Number of messages before the place that are searched for threads with new replies.
const SEARCHED: usize = 100;
/// Largest number of threads that are read of one channel.
const MAX_THREADS: usize = 100;
/// Number of messages after which the place is delivered.
const STEP: usize = 50;

/// The contents of a channel's history.
#[derive(Debug, Default)]
struct Missed {
    /// Messages that were not delivered, by their time, so that replies are among them at their place.
    messages: BTreeMap<Ts, RawMessage>,
    /// Messages that were delivered, with a newer text.
    edited: Vec<RawMessage>,
    /// Threads with new replies, and the time of the last one.
    threads: BTreeMap<Ts, Ts>,
    /// Number of messages from before the place.
    searched: usize,
}

impl Delivery<'_> {
    /// Delivers what the channels have and was not delivered.
    pub(super) async fn catch_up(&mut self) -> Result<(), PlatformError> {
        for (channel, followed) in self.place.channels() {
            let missed = match self.missed(&channel, &followed).await {
                Ok(missed) => missed,
                // One channel that flock may not read any more does not keep it from the others.
                Err(PlatformError::Refused(why)) => {
                    tracing::warn!(channel, why, "the history of a Slack channel can't be read");
                    continue;
                }
                Err(error) => return Err(error),
            };
            for (number, message) in missed.messages.values().enumerate() {
                if is_wanted(&followed, message) {
                    self.message(message).await?;
                }
                if number % STEP == STEP - 1 {
                    self.settle().await?;
                }
            }
            for message in &missed.edited {
                if let Some(at) = message.edited {
                    self.edited(message, at).await?;
                }
            }
            self.settle().await?;
        }
        Ok(())
    }

    async fn missed(&self, channel: &str, followed: &Followed) -> Result<Missed, PlatformError> {
        let mut missed = Missed::default();
        if followed.since.is_some() {
            self.read_channel(channel, &mut missed).await?;
        }
        // Those with the last replies are the ones that count.
        let mut threads: Vec<(Ts, Ts)> = missed.threads.iter().map(|(&first, &last)| (last, first)).collect();
        threads.sort_unstable_by(|one, other| other.cmp(one));
        threads.truncate(MAX_THREADS);
        let found = threads.into_iter().map(|(_, first)| first);
        let linked = followed.threads.keys().copied().filter(|first| !missed.threads.contains_key(first));
        for first in found.chain(linked).collect::<Vec<_>>() {
            match self.read_thread(channel, first, &mut missed).await {
                // The thread is gone.
                Ok(()) | Err(PlatformError::Refused(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(missed)
    }

    /// Reads a channel backwards, up to the place and some more to find threads with new replies.
    async fn read_channel(&self, channel: &str, missed: &mut Missed) -> Result<(), PlatformError> {
        let floor = self.place.floor(channel);
        let mut cursor = String::new();
        for _ in 0..MAX_PAGES {
            let asked = [("channel", channel), ("cursor", cursor.as_str())];
            let asked = if cursor.is_empty() { &asked[..1] } else { &asked[..] };
            let page = patient(|| self.slack.api.page("conversations.history", asked)).await?;
            for message in page["messages"].as_array().into_iter().flatten() {
                self.sort(channel, message, floor, missed);
            }
            cursor = next(&page);
            if cursor.is_empty() || missed.searched >= SEARCHED {
                break;
            }
        }
        Ok(())
    }

    fn sort(&self, channel: &str, message: &Value, floor: Ts, missed: &mut Missed) {
        let Ok(ts) = text(message, "ts").parse::<Ts>() else { return };
        missed.searched += usize::from(ts <= floor);
        // The first message of a thread may be flock's own.
        if let Ok(latest) = text(message, "latest_reply").parse::<Ts>()
            && latest > floor
        {
            missed.threads.insert(ts, latest);
        }
        let Some(message) = event::message(channel, message, &self.own) else { return };
        if !self.place.has(channel, ts) {
            missed.messages.insert(ts, message);
        } else if message.edited.is_some_and(|at| !self.place.has(channel, at)) && !message.is_bot {
            missed.edited.push(message);
        }
    }

    async fn read_thread(&self, channel: &str, first: Ts, missed: &mut Missed) -> Result<(), PlatformError> {
        let (first, floor) = (first.to_string(), self.place.floor(channel).to_string());
        let mut cursor = String::new();
        for _ in 0..MAX_PAGES {
            let asked = [("channel", channel), ("ts", &first), ("oldest", &floor), ("cursor", &cursor)];
            let asked = if cursor.is_empty() { &asked[..3] } else { &asked[..] };
            let page = patient(|| self.slack.api.page("conversations.replies", asked)).await?;
            for message in page["messages"].as_array().into_iter().flatten() {
                // Each page begins with the first message of the thread.
                if let Some(reply) = event::message(channel, message, &self.own)
                    && reply.thread.is_some()
                    && !self.place.has(channel, reply.ts)
                {
                    missed.messages.insert(reply.ts, reply);
                }
            }
            cursor = next(&page);
            if cursor.is_empty() {
                break;
            }
        }
        Ok(())
    }
}

/// Returns the cursor of the next page, which is empty at the end.
pub(super) fn next(page: &Value) -> String {
    text(&page["response_metadata"], "next_cursor").to_owned()
}

/// Returns `true` for a message that came after its channel, or its thread, was linked.
fn is_wanted(followed: &Followed, message: &RawMessage) -> bool {
    let since = match message.thread.and_then(|thread| followed.threads.get(&thread)) {
        Some(&since) => Some(since),
        None => followed.since,
    };
    since.is_some_and(|since| message.ts > since)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ts(text: &str) -> Ts {
        text.parse().unwrap()
    }

    #[test]
    fn messages_from_before_their_link_are_not_wanted() {
        let followed = Followed {
            since: Some(ts("100.000000")),
            threads: BTreeMap::from([(ts("50.000000"), ts("200.000000"))]),
        };
        let at = |at: &str, thread: Option<&str>| {
            let message = RawMessage { ts: ts(at), thread: thread.map(ts), ..RawMessage::default() };
            is_wanted(&followed, &message)
        };
        assert!(at("100.000001", None) && !at("99.000000", None));
        assert!(at("150.000000", Some("60.000000")) && !at("150.000000", Some("50.000000")));
        let thread_alone = Followed { since: None, ..followed.clone() };
        let message = RawMessage { ts: ts("300.000000"), ..RawMessage::default() };
        assert!(!is_wanted(&thread_alone, &message));
    }
}

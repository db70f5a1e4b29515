//! The place in Slack's events up to which everything was delivered.
//!
//! Slack has no stream with positions: events of a channel can arrive late, and in another order after a failure. So the
//! place has a floor for each channel, up to which all messages were delivered, and the later ones one by one.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::ts::Ts;
use crate::bridge::message::LinkedChannel;

/// Seconds for which a message can arrive after a later one. Slack sends an event that was not acknowledged for the last
/// time after six minutes.
const LATE: u64 = 600;
/// Largest number of messages above the floor.
const MAX_RECENT: usize = 64;
/// Largest number of channels that are not linked, such as direct messages.
const MAX_OTHERS: usize = 50;

/// The delivered part of one channel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Delivered {
    floor: Ts,
    recent: BTreeSet<Ts>,
}

/// The threads of a channel that are followed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Followed {
    /// Since when the channel itself is linked; `None` if only threads of it are.
    pub(super) since: Option<Ts>,
    /// The threads that are linked on their own, by the timestamp of their first message.
    pub(super) threads: BTreeMap<Ts, Ts>,
}

/// The delivered part of all channels.
#[derive(Debug, Default)]
pub(super) struct Place {
    channels: BTreeMap<String, Delivered>,
    followed: BTreeMap<String, Followed>,
}

impl Place {
    /// Reads a cursor. What can't be read in it is left out, so that the channel is read from its link on.
    pub(super) fn read(cursor: Option<&str>, linked: &[LinkedChannel]) -> Self {
        let mut place = Self { followed: followed(linked), ..Self::default() };
        let cursor: Value = cursor.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        for (channel, delivered) in cursor.as_object().into_iter().flatten() {
            let ts = |value: &Value| value.as_str().and_then(|text| text.parse().ok());
            let Some(floor) = ts(&delivered["floor"]) else { continue };
            let recent = delivered["recent"].as_array().into_iter().flatten().filter_map(ts).collect();
            if place.followed.contains_key(channel) || is_direct(channel) {
                place.channels.insert(channel.clone(), Delivered { floor, recent });
            }
        }
        for (channel, followed) in &place.followed {
            let since = followed.threads.values().copied().chain(followed.since).min().unwrap_or_default();
            let delivered = place.channels.entry(channel.clone()).or_default();
            delivered.floor = delivered.floor.max(since);
        }
        place
    }

    /// Returns the place as a cursor.
    pub(super) fn write(&self) -> String {
        let ts = |set: &BTreeSet<Ts>| set.iter().map(Ts::to_string).collect::<Vec<_>>();
        let shown: BTreeMap<&String, Value> = self
            .channels
            .iter()
            .map(|(channel, one)| {
                (channel, json!({"floor": one.floor.to_string(), "recent": ts(&one.recent)}))
            })
            .collect();
        json!(shown).to_string()
    }

    /// Returns the channels that are read after a break: the linked ones, and the direct messages that were used.
    pub(super) fn channels(&self) -> Vec<(String, Followed)> {
        let direct = self.channels.keys().filter(|channel| !self.followed.contains_key(*channel));
        let direct = direct
            .map(|channel| (channel.clone(), Followed { since: Some(Ts::default()), ..Followed::default() }));
        self.followed.iter().map(|(channel, one)| (channel.clone(), one.clone())).chain(direct).collect()
    }

    /// Returns the timestamp after which a channel has messages that were not delivered.
    pub(super) fn floor(&self, channel: &str) -> Ts {
        self.channels.get(channel).map_or_else(Ts::default, |delivered| delivered.floor)
    }

    /// Returns `true` if a message or a change with this timestamp was delivered.
    pub(super) fn has(&self, channel: &str, ts: Ts) -> bool {
        self.channels
            .get(channel)
            .is_some_and(|delivered| ts <= delivered.floor || delivered.recent.contains(&ts))
    }

    /// Notes that what has this timestamp was delivered.
    pub(super) fn add(&mut self, channel: &str, ts: Ts) {
        if !self.channels.contains_key(channel) && self.channels.len() >= self.followed.len() + MAX_OTHERS {
            self.forget_one();
        }
        let delivered = self.channels.entry(channel.to_owned()).or_default();
        if ts <= delivered.floor {
            return;
        }
        delivered.recent.insert(ts);
        let newest = delivered.recent.last().copied().unwrap_or(ts);
        delivered.floor = delivered.floor.max(newest.before(LATE));
        delivered.recent = delivered.recent.split_off(&delivered.floor);
        while delivered.recent.len() > MAX_RECENT {
            delivered.floor = delivered.recent.pop_first().unwrap_or(delivered.floor);
        }
    }

    /// Forgets the channel that is not linked and was used least recently.
    fn forget_one(&mut self) {
        let others = self.channels.iter().filter(|(channel, _)| !self.followed.contains_key(*channel));
        let oldest = others.min_by_key(|(_, one)| one.recent.last().copied().unwrap_or(one.floor));
        if let Some(channel) = oldest.map(|(channel, _)| channel.clone()) {
            self.channels.remove(&channel);
        }
    }
}

/// Returns `true` for the id of direct messages with one person.
pub(super) fn is_direct(channel: &str) -> bool {
    channel.starts_with('D')
}

/// Parts the id of a channel or a thread.
pub(super) fn apart(external: &str) -> (&str, Option<Ts>) {
    match external.split_once('/') {
        Some((channel, thread)) => (channel, thread.parse().ok()),
        None => (external, None),
    }
}

fn followed(linked: &[LinkedChannel]) -> BTreeMap<String, Followed> {
    let mut followed: BTreeMap<String, Followed> = BTreeMap::new();
    for link in linked {
        let since = Ts::from_ms(link.since);
        let (channel, thread) = apart(&link.external);
        let one = followed.entry(channel.to_owned()).or_default();
        match thread {
            Some(thread) => drop(one.threads.insert(thread, since)),
            None => one.since = Some(since),
        }
    }
    followed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ts(seconds: u64) -> Ts {
        format!("{seconds}.000000").parse().unwrap()
    }

    fn link(external: &str, since: i64) -> LinkedChannel {
        LinkedChannel { external: external.to_owned(), since: since * 1000 }
    }

    #[test]
    fn a_channel_without_a_place_begins_at_its_link() {
        let place = Place::read(None, &[link("C1", 1000)]);
        assert!(place.has("C1", ts(1000)) && !place.has("C1", ts(1001)));
        let place =
            Place::read(Some("{\"C1\": {\"floor\": \"2000.000000\"}, \"C2\": 5}"), &[link("C1", 1000)]);
        assert!(place.has("C1", ts(2000)) && !place.has("C1", ts(2001)));
        let relinked = Place::read(Some("{\"C1\": {\"floor\": \"500.000000\"}}"), &[link("C1", 1000)]);
        assert_eq!(relinked.floor("C1"), ts(1000));
    }

    #[test]
    fn a_message_that_is_late_was_not_delivered() {
        let mut place = Place::read(None, &[link("C1", 1000)]);
        place.add("C1", ts(1005));
        assert!(!place.has("C1", ts(1004)) && place.has("C1", ts(1005)));
        let mut again = Place::read(Some(&place.write()), &[link("C1", 1000)]);
        assert!(!again.has("C1", ts(1004)) && again.has("C1", ts(1005)));
        again.add("C1", ts(1005 + LATE));
        assert!(again.has("C1", ts(1004)), "after Slack's last attempt");
    }

    #[test]
    fn many_messages_raise_the_floor() {
        let mut place = Place::read(None, &[link("C1", 1000)]);
        let last = 1000 + MAX_RECENT as u64 + 10;
        (1001..=last).for_each(|second| place.add("C1", ts(second)));
        assert_eq!(place.floor("C1"), ts(1010));
        assert!((1001..=last).all(|second| place.has("C1", ts(second))));
        assert!(place.write().len() < 2000);
    }

    #[test]
    fn channels_that_are_not_linked_are_few() {
        let mut place = Place::read(None, &[link("C1", 1000)]);
        (0..1000).for_each(|number| place.add(&format!("D{number}"), ts(2000 + number)));
        assert_eq!(place.channels.len(), 1 + MAX_OTHERS);
        assert!(place.has("D999", ts(2999)) && !place.has("D1", ts(2001)));
        let kept = Place::read(Some(&place.write()), &[link("C1", 1000)]);
        assert_eq!(kept.channels().len(), 1 + MAX_OTHERS);
    }

    #[test]
    fn a_thread_is_followed_with_its_channel() {
        let place = Place::read(None, &[link("C1/50.000000", 1000)]);
        let (channel, followed) = place.channels().remove(0);
        assert_eq!((channel.as_str(), followed.since), ("C1", None));
        assert_eq!(followed.threads, BTreeMap::from([(ts(50), ts(1000))]));
        assert_eq!(apart("C1/50.000000"), ("C1", Some(ts(50))));
    }
}

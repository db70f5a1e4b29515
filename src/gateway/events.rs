//! Keeps the gateway's events for watchers, in a bounded ring with ids that only grow.
//!
//! A reader keeps its own position and takes the events after it, so a slow reader costs nothing. A reader whose
//! position has fallen out of the ring is told so and starts again.

use std::collections::VecDeque;
use std::fmt::Display;
use std::sync::{Arc, Mutex};

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::watch;

use super::event_seal::EventSeal;
use crate::sync::lock;

/// The names of all events.
pub(crate) const NAMES: [&str; 32] = [
    "turn.started",
    "turn.ended",
    "turn.retrying",
    "turn.notice",
    "tool.started",
    "tool.ended",
    "approval.waiting",
    "approval.decided",
    "approval.ended",
    "approval.revoked",
    "task.changed",
    "card.changed",
    "agent.added",
    "agent.removed",
    "agent.slept",
    "agent.woke",
    "agent.paused",
    "quota.parked",
    "quota.resumed",
    "agent.frozen",
    "agent.thawed",
    "channel.created",
    "channel.message",
    "channel.changed",
    "config.changed",
    "project.changed",
    "race.changed",
    "schedule.changed",
    "hook.changed",
    "engine.changed",
    "gateway.changed",
    "gateway.stopping",
];

/// The event that tells readers that they may have missed events, and have to look anew.
pub(crate) const LOST: &str = "reset";

/// Returns `true` for an event that each gateway of a group publishes by itself, so that none takes it from another.
#[must_use]
pub(crate) fn is_event_of_each(name: &str) -> bool {
    matches!(
        name,
        "agent.added" | "agent.removed" | "config.changed" | "gateway.changed" | "gateway.stopping"
    )
}

/// One event, already written in the format of server-sent events.
#[derive(Debug)]
pub(crate) struct GatewayEvent {
    number: u64,
    /// `true` if it happened at this gateway, and not at another one of its group.
    pub is_own: bool,
    /// The `id`, `event` and `data` lines, and the empty line that ends them.
    pub text: String,
}

/// The bounded ring of the newest events.
#[derive(Debug)]
pub struct EventBuffer {
    boot: String,
    capacity: usize,
    ring: Mutex<Ring>,
    last: watch::Sender<u64>,
    seal: EventSeal,
}

#[derive(Debug, Default)]
struct Ring {
    last: u64,
    events: VecDeque<Arc<GatewayEvent>>,
}

/// The events that a reader wants: whole names, such as `agent.frozen`, or only their first words, such as `agent`.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct WantedEvents(Vec<String>);

/// The result of reading from a position.
#[derive(Debug)]
pub(crate) enum EventRead {
    /// The events after the position, oldest first. The list may be empty.
    Events(Vec<Arc<GatewayEvent>>),
    /// Events that the reader has not seen are no longer in the ring.
    Lost,
}

impl EventBuffer {
    /// Creates a ring of `capacity` events. `boot` distinguishes the ids of this run from those of earlier runs, and
    /// must contain no dot.
    #[must_use]
    pub(crate) fn new(boot: String, capacity: usize) -> Self {
        let (last, _) = watch::channel(0);
        Self { boot, capacity: capacity.max(1), ring: Mutex::default(), last, seal: EventSeal::new() }
    }

    /// Creates a ring for this process, with ids that no earlier process has used.
    #[must_use]
    pub fn for_this_process(capacity: usize) -> Self {
        Self::new(format!("{:x}", crate::clock::unix_ms()), capacity)
    }

    /// Adds an event. `name` is one word, and `data` is one JSON object.
    pub fn publish(&self, name: &str, data: &Value) {
        self.add(name, data, true);
    }

    /// Adds an event of another gateway of the group.
    pub(crate) fn publish_of_other(&self, name: &str, data: &RawValue) {
        self.add(name, data, false);
    }

    /// Tells all readers that they may have missed events of other gateways.
    pub(crate) fn lose(&self) {
        self.add(LOST, "{}", false);
    }

    fn add(&self, name: &str, data: impl Display, is_own: bool) {
        let mut ring = lock(&self.ring);
        ring.last += 1;
        let number = ring.last;
        // JSON escapes line breaks, so the data is always a single line.
        let text = format!("id: {}.{number}\nevent: {name}\ndata: {data}\n\n", self.boot);
        if ring.events.len() == self.capacity {
            ring.events.pop_front();
        }
        ring.events.push_back(Arc::new(GatewayEvent { number, is_own, text }));
        drop(ring);
        // The lock of the ring is no longer held, so a later number may be there already.
        self.last.send_if_modified(|last| {
            let is_newer = *last < number;
            *last = (*last).max(number);
            is_newer
        });
    }

    /// Returns the position of a reader that wants only the events from now on.
    #[must_use]
    pub(crate) fn now(&self) -> u64 {
        lock(&self.ring).last
    }

    /// Returns the position of a reader that wants all events that are still there.
    #[must_use]
    pub(crate) fn start(&self) -> u64 {
        lock(&self.ring).oldest() - 1
    }

    /// Returns the position that a `Last-Event-ID` stands for. Of several ids, with commas between them, it is that of the
    /// earliest. `person` is the name of the person who reads, and `None` for the owner and for clients. Returns `None` if
    /// an id belongs to another run or to somebody else, is not reached yet, or has fallen out of the ring.
    #[must_use]
    pub(crate) fn position(&self, person: Option<&str>, ids: &str) -> Option<u64> {
        let known: Option<Vec<u64>> = ids.split(',').map(|id| self.number(person, id)).collect();
        let number = known?.into_iter().min()?;
        let ring = lock(&self.ring);
        // A reader that has seen everything before the oldest event has missed nothing.
        (number <= ring.last && number + 1 >= ring.oldest()).then_some(number)
    }

    fn number(&self, person: Option<&str>, id: &str) -> Option<u64> {
        match person {
            Some(person) => self.seal.open(person, id),
            None => {
                let (boot, number) = id.rsplit_once('.')?;
                number.parse().ok().filter(|_| boot == self.boot)
            }
        }
    }

    /// Returns the `id` of a position for a reader, as [`Self::position`] reads it.
    #[must_use]
    pub(crate) fn id_for(&self, person: Option<&str>, position: u64) -> String {
        match person {
            Some(person) => self.seal.seal(person, position),
            None => self.id(position),
        }
    }

    /// Returns the `id` of a position.
    #[must_use]
    pub(crate) fn id(&self, position: u64) -> String {
        format!("{}.{position}", self.boot)
    }

    /// Returns at most `most` events after `position`.
    #[must_use]
    pub(crate) fn after(&self, position: u64, most: usize) -> EventRead {
        let ring = lock(&self.ring);
        if position + 1 < ring.oldest() {
            return EventRead::Lost;
        }
        let skip = usize::try_from(position + 1 - ring.oldest()).unwrap_or(usize::MAX);
        EventRead::Events(ring.events.iter().skip(skip).take(most).cloned().collect())
    }

    /// Returns a channel that changes whenever an event is added.
    #[must_use]
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.last.subscribe()
    }
}

impl WantedEvents {
    /// Returns `true` if the reader wants events of this name.
    #[must_use]
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|word| names(word, name))
    }
}

impl TryFrom<String> for WantedEvents {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        // A reader that misspells a name would wait for ever.
        match text.split(',').find(|word| !NAMES.iter().any(|name| names(word, name))) {
            Some(word) => Err(format!("there are no events '{}'", word.escape_debug())),
            None => Ok(Self(text.split(',').map(str::to_owned).collect())),
        }
    }
}

/// Returns `true` if a word is an event's name or its first words.
fn names(word: &str, name: &str) -> bool {
    name.strip_prefix(word).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

impl GatewayEvent {
    /// Returns the event's name.
    #[must_use]
    pub(crate) fn name(&self) -> &str {
        self.text.lines().find_map(|line| line.strip_prefix("event: ")).unwrap_or_default()
    }

    /// Returns the event's data. It is parsed from the text, so that the ring stores each event only once.
    #[must_use]
    pub(crate) fn data(&self) -> Value {
        let data = self.text.lines().find_map(|line| line.strip_prefix("data: "));
        data.and_then(|data| serde_json::from_str(data).ok()).unwrap_or_default()
    }

    /// Returns the event as text, with another id.
    #[must_use]
    pub(crate) fn text_with(&self, id: &str) -> String {
        let rest = self.text.split_once('\n').map_or("", |(_, rest)| rest);
        format!("id: {id}\n{rest}")
    }

    /// Returns the position of a reader that has seen this event.
    #[must_use]
    pub(crate) const fn position(&self) -> u64 {
        self.number
    }
}

impl Ring {
    /// Returns the number of the oldest event in the ring, or of the next event if the ring is empty.
    fn oldest(&self) -> u64 {
        self.events.front().map_or(self.last + 1, |event| event.number)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use serde_json::json;

    fn numbers(next: EventRead) -> Vec<u64> {
        match next {
            EventRead::Events(events) => events.iter().map(|event| event.position()).collect(),
            EventRead::Lost => panic!("lost"),
        }
    }

    #[test]
    fn readers_go_on_where_they_were() {
        let events = EventBuffer::new("b".into(), 3);
        assert_eq!(numbers(events.after(0, 9)), Vec::<u64>::new());
        for n in 1..=3 {
            events.publish("n", &json!({ "n": n }));
        }
        assert_eq!(numbers(events.after(0, 9)), [1, 2, 3]);
        assert_eq!(numbers(events.after(1, 1)), [2]);
        assert_eq!(events.position(None, "b.1"), Some(1));
        events.publish("n", &json!({}));
        events.publish("n", &json!({}));
        assert!(matches!(events.after(1, 9), EventRead::Lost));
        assert_eq!(numbers(events.after(2, 9)), [3, 4, 5]);
        assert_eq!(events.position(None, "b.1"), None, "too old");
        assert_eq!(events.position(None, "a.4"), None, "of another run");
        assert_eq!(events.position(None, "b.6"), None, "not there yet");
        assert_eq!(events.position(None, "x"), None);
        assert_eq!(events.position(None, "b.4,b.3,b.5"), Some(3), "the earliest");
        assert_eq!(events.position(None, "b.4,a.3"), None, "one of them is of another run");
        assert_eq!(events.now(), 5);
    }

    #[test]
    fn the_ids_of_a_person_lead_to_the_same_place() {
        let events = EventBuffer::new("b".into(), 9);
        events.publish("n", &json!({}));
        events.publish("n", &json!({}));
        let (first, second) = (events.id_for(Some("ann"), 1), events.id_for(Some("ann"), 2));
        assert_eq!(events.position(Some("ann"), &second), Some(2));
        assert_eq!(events.position(Some("ann"), &format!("{second},{first}")), Some(1));
        for (person, id) in
            [(Some("bob"), &*second), (None, &*second), (Some("ann"), "b.2"), (Some("ann"), "")]
        {
            assert_eq!(events.position(person, id), None, "{person:?} {id}");
        }
        assert_eq!(events.position(Some("ann"), &events.id_for(Some("ann"), 3)), None, "not there yet");
        let EventRead::Events(list) = events.after(1, 1) else { panic!("lost") };
        assert_eq!(list[0].text_with("x"), "id: x\nevent: n\ndata: {}\n\n");
    }

    #[test]
    fn events_of_other_gateways_stand_among_its_own() {
        let events = EventBuffer::new("b".into(), 3);
        assert_eq!(events.start(), 0);
        events.publish("turn.started", &json!({}));
        let data = serde_json::value::to_raw_value(&json!({"turn": "x"})).unwrap();
        events.publish_of_other("turn.ended", &data);
        events.lose();
        let EventRead::Events(list) = events.after(events.start(), 9) else { panic!("lost") };
        let shown: Vec<_> = list.iter().map(|event| (event.name(), event.is_own)).collect();
        assert_eq!(shown, [("turn.started", true), ("turn.ended", false), (LOST, false)]);
        events.publish("turn.started", &json!({}));
        assert_eq!(events.start(), 1, "the oldest one is gone");
        for name in NAMES {
            assert!(name != LOST && name.contains('.'));
        }
        assert!(is_event_of_each("config.changed") && !is_event_of_each("turn.started"));
    }

    #[test]
    fn wanted_events_are_names_or_their_first_words() {
        let wanted = |text: &str| WantedEvents::try_from(text.to_owned());
        let some = wanted("channel,agent.frozen").unwrap();
        let shown: Vec<&str> = NAMES.into_iter().filter(|name| some.has(name)).collect();
        assert_eq!(shown, ["agent.frozen", "channel.created", "channel.message", "channel.changed"]);
        assert_eq!(wanted("turn,chan").unwrap_err(), "there are no events 'chan'");
        for none in ["", "turn,", " turn", "turn.", ".", "turn.started.x", "Turn", "a\u{1b}"] {
            assert!(wanted(none).is_err(), "{none}");
        }
    }

    #[test]
    fn the_document_of_the_api_has_these_events() {
        let document: Value = serde_json::from_str(include_str!("openapi/events.json")).unwrap();
        let response = &document["paths"]["/api/events"]["get"]["responses"]["200"];
        let listed = &response["content"]["text/event-stream"]["x-flock-events"];
        let of_streams = ["reset", "passed"];
        let listed = listed.as_object().unwrap().keys().map(String::as_str);
        let listed: BTreeSet<&str> = listed.filter(|name| !of_streams.contains(name)).collect();
        assert_eq!(listed, BTreeSet::from(NAMES));
    }

    #[test]
    fn an_event_is_one_block_of_lines() {
        let events = EventBuffer::new("b".into(), 3);
        events.publish("turn.started", &json!({"text": "a\nb"}));
        let EventRead::Events(list) = events.after(0, 1) else { panic!("lost") };
        assert_eq!(list[0].text, "id: b.1\nevent: turn.started\ndata: {\"text\":\"a\\nb\"}\n\n");
        assert_eq!(list[0].data(), json!({"text": "a\nb"}));
    }
}

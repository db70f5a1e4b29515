//! Reads what was said in a room before now, page by page.

use ruma::api::client::filter::RoomEventFilter;
use ruma::api::client::message::get_message_events;
use ruma::api::client::relations::get_relating_events_with_rel_type;
use ruma::events::relation::RelationType;
use ruma::{OwnedEventId, RoomId};
use serde_json::Value;

use super::client::{Client, Version};
use super::events::{self, RoomEvent, TYPES};
use crate::bridge::platform::PlatformError;

/// The number of events that are asked for at once.
const PAGE: u32 = 100;
/// Largest number of events that are read of one room before the older ones are left out.
const MOST: usize = 20_000;

/// The place at which reading backwards ends.
#[derive(Clone, Copy)]
pub(super) enum End<'a> {
    /// A position in the account's stream of events.
    Position(&'a str),
    /// Unix milliseconds.
    Time(i64),
}

/// Reads the events of a room before `from`, or before now, oldest first.
pub(super) async fn missed(
    client: &Client,
    own: &str,
    room: &RoomId,
    from: Option<String>,
    end: End<'_>,
) -> Result<Vec<RoomEvent>, PlatformError> {
    let mut read = Backwards { end, most: MOST, newest_edits: false, events: Vec::new() };
    let mut from = from;
    loop {
        let mut request = get_message_events::v3::Request::backward(room.to_owned());
        request.from = from;
        request.to = match end {
            End::Position(position) => Some(position.to_owned()),
            End::Time(_) => None,
        };
        request.limit = PAGE.into();
        request.filter = of_interest();
        let page = client.json(request, Version::Old).await?;
        from = read.take(&page, "end", own);
        if from.is_none() {
            break;
        }
    }
    if read.events.len() == MOST {
        tracing::warn!(%room, "more than {MOST} events were missed in a Matrix room; the older ones are left out");
    }
    Ok(read.done())
}

/// Reads the newest `most` messages of a room since a time in Unix milliseconds, oldest first.
pub(super) async fn newest(
    client: &Client,
    own: &str,
    room: &RoomId,
    since: i64,
    most: usize,
) -> Result<Vec<RoomEvent>, PlatformError> {
    let mut read = Backwards { end: End::Time(since), most, newest_edits: true, events: Vec::new() };
    let mut from = None;
    loop {
        let mut request = get_message_events::v3::Request::backward(room.to_owned());
        request.from = from;
        request.limit = PAGE.into();
        request.filter.types = Some(vec!["m.room.message".to_owned()]);
        from = read.take(&client.json(request, Version::Old).await?, "end", own);
        if from.is_none() {
            return Ok(read.done());
        }
    }
}

/// Reads the newest `most` messages of a thread since a time in Unix milliseconds, oldest first.
pub(super) async fn newest_of_thread(
    client: &Client,
    own: &str,
    room: &RoomId,
    root: &OwnedEventId,
    since: i64,
    most: usize,
) -> Result<Vec<RoomEvent>, PlatformError> {
    let mut read = Backwards { end: End::Time(since), most, newest_edits: true, events: Vec::new() };
    let mut from = None;
    loop {
        let (room, root) = (room.to_owned(), root.clone());
        let mut request =
            get_relating_events_with_rel_type::v1::Request::new(room, root, RelationType::Thread);
        request.from = from;
        request.limit = Some(PAGE.into());
        from = read.take(&client.json(request, Version::Recent).await?, "next_batch", own);
        if from.is_none() {
            return Ok(read.done());
        }
    }
}

fn of_interest() -> RoomEventFilter {
    let mut filter = RoomEventFilter::default();
    filter.types = Some(TYPES.map(str::to_owned).to_vec());
    filter
}

/// The events read so far, newest first.
struct Backwards<'a> {
    end: End<'a>,
    most: usize,
    /// Set if a message has the text of its newest edit.
    newest_edits: bool,
    events: Vec<RoomEvent>,
}

impl Backwards<'_> {
    /// Takes a page, and returns the place of the next one. `None` at the end.
    fn take(&mut self, page: &Value, next: &str, own: &str) -> Option<String> {
        let chunk = page["chunk"].as_array().map(Vec::as_slice).unwrap_or_default();
        let mut is_before = !chunk.is_empty();
        for event in chunk {
            if let End::Time(since) = self.end
                && event["origin_server_ts"].as_i64().is_some_and(|at| at < since)
            {
                continue;
            }
            is_before = false;
            if self.events.len() == self.most {
                return None;
            }
            if let Some(mut read) = events::read(event, own) {
                if self.newest_edits {
                    events::update(&mut read, event, own);
                    // The history has no messages of flock's own, which are not to be counted either.
                    if read.sender == own || !matches!(read.kind, events::EventKind::Message(_)) {
                        continue;
                    }
                }
                self.events.push(read);
            }
        }
        // One event may be older by a wrong clock; a whole page is.
        if is_before {
            return None;
        }
        page[next].as_str().map(str::to_owned)
    }

    fn done(mut self) -> Vec<RoomEvent> {
        self.events.reverse();
        self.events
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const OWN: &str = "@flock:h";

    fn page(events: &[(&str, &str, i64)], end: Option<&str>) -> Value {
        let chunk: Vec<_> = events
            .iter()
            .map(|(id, sender, at)| {
                json!({"type": "m.room.message", "event_id": id, "sender": sender, "origin_server_ts": at,
                       "content": {"body": id}})
            })
            .collect();
        json!({"chunk": chunk, "end": end})
    }

    fn ids(read: Backwards<'_>) -> Vec<String> {
        read.done().into_iter().map(|event| event.id).collect()
    }

    #[test]
    fn pages_are_read_backwards_and_returned_in_order() {
        let mut read =
            Backwards { end: End::Position("s1"), most: 9, newest_edits: false, events: Vec::new() };
        let next = read.take(&page(&[("$3", "@a:h", 3), ("$2", OWN, 2)], Some("p")), "end", OWN);
        assert_eq!(next.as_deref(), Some("p"));
        assert_eq!(read.take(&page(&[("$1", "@a:h", 1)], None), "end", OWN), None);
        assert_eq!(ids(read), ["$1", "$2", "$3"]);
    }

    #[test]
    fn a_page_from_before_the_time_is_the_last_one_and_own_messages_are_not_counted() {
        let mut read = Backwards { end: End::Time(5), most: 9, newest_edits: true, events: Vec::new() };
        // A single clock that goes wrong does not end it.
        let first = page(&[("$4", "@a:h", 9), ("$3", "@b:h", 1), ("$2", OWN, 8)], Some("p"));
        assert_eq!(read.take(&first, "end", OWN).as_deref(), Some("p"));
        assert_eq!(read.take(&page(&[("$1", "@a:h", 4)], Some("q")), "end", OWN), None);
        assert_eq!(ids(read), ["$4"]);
        let mut read = Backwards { end: End::Time(0), most: 1, newest_edits: true, events: Vec::new() };
        let many = page(&[("$3", OWN, 9), ("$2", "@a:h", 8), ("$1", "@a:h", 7)], Some("p"));
        assert_eq!(read.take(&many, "end", OWN), None);
        assert_eq!(ids(read), ["$2"]);
    }

    #[test]
    fn an_answer_of_an_unexpected_form_ends_it() {
        let mut read = Backwards { end: End::Time(0), most: 9, newest_edits: true, events: Vec::new() };
        assert_eq!(read.take(&json!({"chunk": 5}), "end", OWN), None);
        assert_eq!(read.take(&json!([1, 2]), "end", OWN), None);
        assert_eq!(ids(read), Vec::<String>::new());
    }
}

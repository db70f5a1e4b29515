//! The channels of messages that are posted together: read before the first, and numbered after the last.
//!
//! PostgreSQL would join a list of channels to all channels, members and links that there are, and compare their ids by the
//! rules of Unicode, which takes it milliseconds. `OFFSET 0` keeps it from that: it looks up one after the other by the index.
//! SQLite has no such statements, and needs none.

use std::collections::{BTreeSet, HashMap};

use super::channel::ChannelState;
use super::sql::{self, Connection, Row, Transaction, Value, params_from_iter};
use crate::id::{ChannelId, Party};

/// The channel of a new message.
pub(super) struct Place {
    /// In the case it was created with.
    pub(super) id: String,
    pub(super) state: ChannelState,
    /// The number of its last message, which whoever posts one raises. [`Places::write_numbers`] writes it.
    pub(super) last: i64,
    /// The number that the database has.
    written: i64,
    /// Set if it is linked to a channel of another platform.
    pub(super) has_links: bool,
    pub(super) members: Vec<Party>,
}

/// The channels of new messages, by their ids in lower case.
pub(super) struct Places(HashMap<String, Place>);

impl Places {
    /// Reads channels with their members.
    pub(super) fn of<'i>(
        connection: &Connection<'_>,
        ids: impl IntoIterator<Item = &'i ChannelId>,
    ) -> sql::Result<Self> {
        let ids: BTreeSet<String> = ids.into_iter().map(|id| id.as_str().to_ascii_lowercase()).collect();
        let ids: Vec<String> = ids.into_iter().collect();
        let mut found = HashMap::new();
        for ids in ids.chunks(connection.rows_of_statement()) {
            let ids = filled_up(ids);
            let mut statement = connection.prepare_cached(&select_places(ids.len()))?;
            let mut rows = statement.query(params_from_iter(ids))?;
            while let Some(row) = rows.next()? {
                let place = Place::read(&row)?;
                found.insert(place.id.to_ascii_lowercase(), place);
            }
        }
        Ok(Self(found))
    }

    /// Returns the channel with this id, if it is among them.
    pub(super) fn get_mut(&mut self, id: &ChannelId) -> Option<&mut Place> {
        self.0.get_mut(&id.as_str().to_ascii_lowercase())
    }

    /// Writes the numbers of the channels' last messages.
    pub(super) fn write_numbers(&self, transaction: &Transaction<'_>) -> sql::Result<()> {
        let changed: Vec<&Place> = self.0.values().filter(|place| place.last != place.written).collect();
        for places in changed.chunks(transaction.rows_of_statement()) {
            let places = filled_up(places);
            let values =
                places.iter().flat_map(|place| [Value::from(place.id.clone()), Value::from(place.last)]);
            transaction.prepare_cached(&update_numbers(places.len()))?.send(params_from_iter(values))?;
        }
        Ok(())
    }
}

/// Returns the statement that reads so many channels, each with its members. It is one statement, because each is a way to a
/// server and back.
fn select_places(count: usize) -> String {
    let select = "SELECT c.id, c.state, c.last_seq,
            EXISTS (SELECT 1 FROM link WHERE link.channel = c.id AND link.state = 'active'),
            (SELECT string_agg(m.member, ' ') FROM member m WHERE m.channel = c.id)
         FROM channel c WHERE c.id =";
    if count == 1 {
        return format!("{select} ?1");
    }
    format!(
        "SELECT c.* FROM ({}) AS given, LATERAL ({select} given.column1 OFFSET 0) AS c",
        sql::values_list(count, 1)
    )
}

/// Returns the statement that writes the numbers of so many channels.
fn update_numbers(count: usize) -> String {
    if count == 1 {
        return "UPDATE channel SET last_seq = ?2 WHERE id = ?1".to_owned();
    }
    let given: Vec<String> =
        (0..count).map(|row| format!("(?{}, CAST(?{} AS BIGINT))", 2 * row + 1, 2 * row + 2)).collect();
    format!(
        "UPDATE channel SET last_seq = found.last FROM (
            SELECT c.ctid AS spot, given.column2 AS last FROM (VALUES {}) AS given,
                LATERAL (SELECT ctid FROM channel WHERE id = given.column1 OFFSET 0) AS c
         ) AS found WHERE channel.ctid = found.spot",
        given.join(", ")
    )
}

impl Place {
    fn read(row: &Row<'_>) -> sql::Result<Self> {
        let last = row.get(2)?;
        // No name holds a space. A channel without members has no list.
        let members = row.get_ref(4)?.as_str_or_null()?.unwrap_or_default().split(' ');
        let members = members.filter(|member| !member.is_empty());
        let members: Result<Vec<Party>, _> = members.map(str::parse).collect();
        Ok(Self {
            id: row.get(0)?,
            state: row.get(1)?,
            last,
            written: last,
            has_links: row.get(3)?,
            members: members.map_err(|error| sql::Error::column(4, error))?,
        })
    }
}

/// Returns the items with the last one repeated, up to a power of two. So a statement about some of them has few texts,
/// each of which the server has to prepare.
fn filled_up<T: Clone>(items: &[T]) -> Vec<T> {
    let missing = items.len().next_power_of_two() - items.len();
    items.iter().chain(items.iter().rev().take(1).cycle().take(missing)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_filled_up_to_a_power_of_two() {
        let filled = |count: usize| filled_up(&(1..=count).collect::<Vec<_>>());
        assert_eq!(filled(1), [1]);
        assert_eq!(filled(2), [1, 2]);
        assert_eq!(filled(3), [1, 2, 3, 3]);
        assert_eq!(filled(5), [1, 2, 3, 4, 5, 5, 5, 5]);
    }
}

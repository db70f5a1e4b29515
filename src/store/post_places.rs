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
            let ids = filled_up(ids.iter().map(|id| Value::from(id.clone())).collect(), 1);
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
            let values =
                places.iter().flat_map(|place| [Value::from(place.id.clone()), Value::from(place.last)]);
            let values = filled_up(values.collect(), 2);
            let sql = update_numbers(values.len() / 2);
            transaction.prepare_cached(&sql)?.send(params_from_iter(values))?;
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

/// Returns the values of a list of rows with NULL in further rows, up to a power of two. So a statement about a list has few
/// texts, each of which the server has to prepare. NULL is the id of no channel, so these rows cost no look-up.
fn filled_up(mut values: Vec<Value>, columns: usize) -> Vec<Value> {
    let rows = values.len() / columns;
    values.resize(rows.next_power_of_two() * columns, Value::Null);
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_filled_up_to_a_power_of_two() {
        let filled = |count: i64, columns| filled_up((1..=count).map(Value::from).collect(), columns);
        let value = Value::Integer;
        assert_eq!(filled(1, 1), [value(1)]);
        assert_eq!(filled(2, 1), [value(1), value(2)]);
        assert_eq!(filled(3, 1), [value(1), value(2), value(3), Value::Null]);
        assert_eq!(filled(2, 2), [value(1), value(2)]);
        let three_rows = filled(6, 2);
        assert_eq!((three_rows.len(), &three_rows[5..]), (8, &[value(6), Value::Null, Value::Null][..]));
    }
}

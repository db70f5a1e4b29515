//! Interactions of the team, for a picture: who talked to whom, and who worked when, by the newest messages and turns.

use std::collections::BTreeMap;

use super::Database;
use super::StoreError;
use super::sql::{self, Connection, Row};
use super::subjects::Interactions;
use super::turn::TurnState;

/// Most rows of a kind that are looked at. A team that says more than this within the time is shown by its newest rows.
const MAX_ROWS: u32 = 20_000;

/// The way in which somebody talked to somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ContactKind {
    /// A message in a channel.
    Post,
    /// A mention in a channel.
    Mention,
    /// A direct message between agents.
    Direct,
}

/// Number of times that somebody talked to somebody.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Contact {
    /// An agent, or `human:` and a name.
    pub from: String,
    /// An agent, or `#` and a channel.
    pub to: String,
    pub kind: ContactKind,
    pub count: u64,
}

/// A turn on the line of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TimedTurn {
    pub turn: String,
    pub session: String,
    pub state: TurnState,
    /// Unix milliseconds.
    pub started_at: i64,
    /// Unix milliseconds; `None` while it runs.
    pub ended_at: Option<i64>,
}

/// Counts by sender, receiver and kind.
type Counts = BTreeMap<(String, String, ContactKind), u64>;

fn count(counts: &mut Counts, from: &str, to: String, kind: ContactKind) {
    *counts.entry((from.to_owned(), to, kind)).or_default() += 1;
}

fn contacts(connection: &Connection<'_>, since: i64) -> sql::Result<Vec<Contact>> {
    let mut counts = Counts::new();
    // Rows are added in the order of time, so the search ends at the first one that is too old.
    let mut statement = connection.prepare_cached(
        "SELECT author, channel, mentions, created_at FROM message ORDER BY id DESC LIMIT ?1",
    )?;
    let mut rows = statement.query([MAX_ROWS])?;
    while let Some(row) = rows.next()? {
        if row.get::<i64>(3)? < since {
            break;
        }
        let author: String = row.get(0)?;
        // What flock itself posts is about the channel and talks to nobody.
        if author == "system" {
            continue;
        }
        count(&mut counts, &author, format!("#{}", row.get::<String>(1)?), ContactKind::Post);
        let mentions: Option<String> = row.get(2)?;
        for name in mentions.iter().flat_map(|names| names.split_whitespace()) {
            count(&mut counts, &author, name.to_owned(), ContactKind::Mention);
        }
    }
    let mut statement = connection
        .prepare_cached("SELECT sender, receiver, created_at FROM exchange ORDER BY id DESC LIMIT ?1")?;
    let mut rows = statement.query([MAX_ROWS])?;
    while let Some(row) = rows.next()? {
        if row.get::<i64>(2)? < since {
            break;
        }
        count(&mut counts, &row.get::<String>(0)?, row.get(1)?, ContactKind::Direct);
    }
    let contact = |((from, to, kind), count)| Contact { from, to, kind, count };
    Ok(counts.into_iter().map(contact).collect())
}

fn timed_turn(row: &Row<'_>) -> sql::Result<TimedTurn> {
    Ok(TimedTurn {
        turn: row.get(0)?,
        session: row.get(1)?,
        state: row.get(2)?,
        started_at: row.get(3)?,
        ended_at: row.get(4)?,
    })
}

/// Returns the beginning of the ids of turns from this time on. They are UUIDs of version 7, which begin with the time.
fn first_id(since: i64) -> String {
    let time = format!("{:012x}", since.max(0));
    format!("{}-{}", &time[..8], &time[8..])
}

fn turns(connection: &Connection<'_>, since: i64, limit: u32) -> sql::Result<Vec<TimedTurn>> {
    // The first part uses the primary key, the second the index of running turns, which may have begun long ago.
    let mut turns: Vec<TimedTurn> = connection
        .prepare_cached(
            "SELECT id, session, state, started_at, ended_at FROM (
                 SELECT id, session, state, started_at, ended_at FROM turn WHERE id >= ?1
                 UNION SELECT id, session, state, started_at, ended_at FROM turn WHERE state = 'running'
             ) AS found ORDER BY id DESC LIMIT ?2",
        )?
        .query_map((first_id(since), limit), timed_turn)?
        .collect::<sql::Result<_>>()?;
    turns.reverse();
    Ok(turns)
}

impl<A> Interactions<&Database<A>> {
    /// Returns who talked to whom since a time in Unix milliseconds.
    pub(crate) async fn contacts(self, since: i64) -> Result<Vec<Contact>, StoreError> {
        self.read_long("read who talked to whom", move |connection| contacts(connection, since)).await
    }

    /// Returns the turns that began since a time in Unix milliseconds or still run, the oldest first, at most `limit`.
    pub(crate) async fn turns(self, since: i64, limit: u32) -> Result<Vec<TimedTurn>, StoreError> {
        self.read_long("read who worked when", move |connection| turns(connection, since, limit)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::TurnId;

    #[test]
    fn the_id_of_a_turn_tells_when_it_began() {
        let before = crate::clock::unix_ms();
        let id = TurnId::new().to_string();
        assert!(first_id(before) <= id && first_id(before + 60_000) > id, "{id}");
        assert_eq!(first_id(0), "00000000-0000");
    }
}

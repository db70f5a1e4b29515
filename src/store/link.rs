//! Links between channels and the channels of other platforms.

use serde::Serialize;

use super::audit::{self, AuditEntry};
use super::session::parsed;
use super::sql::{
    self, Connection, FromSql, FromSqlResult, OptionalExtension as _, Row, ToSql, ToSqlResult, Transaction,
    ValueRef,
};
use super::subjects::Links;
use super::{Database, Store, StoreError};
use crate::id::{ChannelId, Party};

/// The state of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LinkState {
    Active,
    /// Paused by a person.
    Paused,
    /// Stopped because the channel is archived.
    Archived,
}

impl LinkState {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Archived => "archived",
        }
    }
}

impl FromSql for LinkState {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Ok(match value.as_str()? {
            "paused" => Self::Paused,
            "archived" => Self::Archived,
            _ => Self::Active,
        })
    }
}

impl ToSql for LinkState {
    fn to_sql(&self) -> ToSqlResult<'_> {
        Ok(self.as_str().into())
    }
}

/// A link of a channel with a channel of a platform.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Link {
    pub(crate) id: String,
    pub(crate) channel: ChannelId,
    /// The name of the bridge.
    pub(crate) bridge: String,
    /// The platform's id of its channel.
    pub(crate) external: String,
    /// The name of the platform's channel for people.
    pub(crate) title: String,
    pub(crate) state: LinkState,
    /// Set if people on other platforms are heard here too.
    pub(crate) is_cross: bool,
    /// The accounts that are heard, by the platform's ids. [`EVERYONE`] stands for everybody in the channel.
    pub(crate) hears: Vec<String>,
    /// Set if programs among them are heard too.
    pub(crate) hears_bots: bool,
    /// Set while it is paused by a person. No agent ends that pause.
    pub(crate) is_paused_by_person: bool,
    pub(crate) created_by: Party,
    /// Unix milliseconds.
    pub(crate) created_at: i64,
}

/// The entry of [`Link::hears`] that stands for everybody in the platform's channel.
pub(crate) const EVERYONE: &str = "*";

impl Link {
    /// Returns `true` if messages of this account are taken.
    pub(crate) fn hears(&self, account: &str) -> bool {
        self.hears.iter().any(|heard| heard == EVERYONE || heard == account)
    }
}

const COLUMNS: &str = "id, channel, bridge, external, title, state, is_cross, hears, created_by,
    created_at, hears_bots, paused_by_person";

fn link(row: &Row<'_>) -> sql::Result<Link> {
    Ok(Link {
        id: row.get(0)?,
        channel: parsed(row, 1)?,
        bridge: row.get(2)?,
        external: row.get(3)?,
        title: row.get(4)?,
        state: row.get(5)?,
        is_cross: row.get(6)?,
        // A list that can't be read hears nobody.
        hears: serde_json::from_str(row.get_ref(7)?.as_str()?).unwrap_or_default(),
        created_by: parsed(row, 8)?,
        created_at: row.get(9)?,
        hears_bots: row.get(10)?,
        is_paused_by_person: row.get(11)?,
    })
}

fn find(connection: &Connection<'_>, bridge: &str, external: &str) -> sql::Result<Option<Link>> {
    connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM link WHERE bridge = ?1 AND external = ?2"))?
        .query_row((bridge, external), link)
        .optional()
}

/// Tells the other sides of a channel's links that the channel was archived or reopened, then stops or restarts the
/// links.
///
/// Links that a person paused keep that state and are not told.
pub(super) fn follow_archive(
    transaction: &Transaction<'_>,
    channel: &str,
    is_end: bool,
    now: i64,
) -> sql::Result<()> {
    let (notice, from, to) = if is_end {
        ("archived", LinkState::Active, LinkState::Archived)
    } else {
        ("reopened", LinkState::Archived, LinkState::Active)
    };
    // The outbox is filled before the state changes, because the same condition selects the links.
    transaction.execute(
        "INSERT INTO outbox (link, channel, notice, created_at)
         SELECT id, channel, ?2, ?3 FROM link WHERE channel = ?1 AND state = ?4",
        (channel, notice, now, from),
    )?;
    transaction
        .execute("UPDATE link SET state = ?3 WHERE channel = ?1 AND state = ?2", (channel, from, to))
        .map(drop)
}

impl Links<&Store> {
    /// Adds a link. Returns the existing one if the platform's channel is linked already.
    pub(crate) async fn add(self, new: Link, entry: AuditEntry) -> Result<Option<Link>, StoreError> {
        self.write("link a channel", move |transaction| {
            if let Some(known) = find(transaction, &new.bridge, &new.external)? {
                return Ok(Some(known));
            }
            transaction.execute(
                &format!(
                    "INSERT INTO link ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)"
                ),
                (
                    &new.id,
                    new.channel.as_str(),
                    &new.bridge,
                    &new.external,
                    &new.title,
                    new.state,
                    new.is_cross,
                    serde_json::json!(new.hears).to_string(),
                    new.created_by.to_string(),
                    new.created_at,
                    new.hears_bots,
                    new.is_paused_by_person,
                ),
            )?;
            audit::append(transaction, &entry, new.created_at)?;
            Ok(None)
        })
        .await
    }

    /// Removes a link and what still waits to be sent over it. Returns `false` if there is none with this id.
    pub(crate) async fn remove(self, id: String, entry: AuditEntry, now: i64) -> Result<bool, StoreError> {
        self.write("unlink a channel", move |transaction| {
            let removed = transaction.execute("DELETE FROM link WHERE id = ?1", [&id])?;
            audit::append_if_any(transaction, removed, &entry, now)
        })
        .await
    }

    /// Removes all links of a bridge, with its position in the platform's events. Returns the number of links.
    pub(crate) async fn remove_all(
        self,
        bridge: String,
        entry: AuditEntry,
        now: i64,
    ) -> Result<usize, StoreError> {
        self.write("remove a bridge", move |transaction| {
            transaction.execute("DELETE FROM bridge_cursor WHERE bridge = ?1", [&bridge])?;
            transaction.execute("DELETE FROM direct_message WHERE bridge = ?1", [&bridge])?;
            let removed = transaction.execute("DELETE FROM link WHERE bridge = ?1", [&bridge])?;
            audit::append(transaction, &entry, now)?;
            Ok(removed)
        })
        .await
    }

    /// Adds accounts to those who are heard, and removes others. Returns the new list, or `None` if there is no link with
    /// this id.
    pub(crate) async fn change_heard(
        self,
        id: String,
        add: Vec<String>,
        remove: Vec<String>,
        entry: AuditEntry,
        now: i64,
    ) -> Result<Option<Vec<String>>, StoreError> {
        self.write("change who is heard", move |transaction| {
            let found: Option<String> = transaction
                .query_row("SELECT hears FROM link WHERE id = ?1", [&id], |row| row.get(0))
                .optional()?;
            let Some(found) = found else { return Ok(None) };
            let mut heard: Vec<String> = serde_json::from_str(&found).unwrap_or_default();
            heard.retain(|name| !remove.contains(name) && !add.contains(name));
            heard.extend(add);
            let text = serde_json::json!(heard).to_string();
            transaction.execute("UPDATE link SET hears = ?2 WHERE id = ?1", (&id, text))?;
            // Whoever is heard now was perhaps told before that they are not, and may be told again later.
            transaction.execute("DELETE FROM told_account WHERE link = ?1", [&id])?;
            audit::append(transaction, &entry, now)?;
            Ok(Some(heard))
        })
        .await
    }

    /// Pauses or resumes a link. Returns `false` if it was in that state already, is archived, or was paused by a person
    /// and is not resumed by one.
    pub(crate) async fn set_paused(
        self,
        id: String,
        is_paused: bool,
        by_person: bool,
        entry: AuditEntry,
        now: i64,
    ) -> Result<bool, StoreError> {
        self.write("pause or resume a link", move |transaction| {
            let changed = if is_paused {
                let changed = transaction
                    .execute("UPDATE link SET state = 'paused' WHERE id = ?1 AND state = 'active'", [&id])?;
                // A person also takes over the pause of an agent.
                transaction.execute(
                    "UPDATE link
                         SET paused_by_person = CASE WHEN CAST(?2 AS BIGINT) <> 0 THEN 1 ELSE paused_by_person END
                         WHERE id = ?1 AND state = 'paused'",
                    (&id, by_person),
                )?;
                changed
            } else {
                transaction.execute(
                    "UPDATE link SET state = 'active', paused_by_person = 0
                     WHERE id = ?1 AND state = 'paused' AND (CAST(?2 AS BIGINT) <> 0 OR paused_by_person = 0)",
                    (&id, by_person),
                )?
            };
            audit::append_if_any(transaction, changed, &entry, now)
        })
        .await
    }

    /// Stores the name that people know a platform's channel by.
    pub(crate) async fn set_title(
        self,
        bridge: String,
        external: String,
        title: String,
    ) -> Result<(), StoreError> {
        self.write("rename a linked channel", move |transaction| {
            transaction
                .prepare_cached("UPDATE link SET title = ?3 WHERE bridge = ?1 AND external = ?2")?
                .execute((&bridge, &external, &title))
                .map(drop)
        })
        .await
    }

    /// Follows a channel of the platform, with its threads, to its new id. A link of that id stays as it is.
    pub(crate) async fn set_external(
        self,
        bridge: String,
        from: String,
        to: String,
    ) -> Result<(), StoreError> {
        self.write("move a linked channel", move |transaction| {
            transaction
                .prepare_cached(
                    "UPDATE link SET external = ?3 || substr(external, length(?2) + 1)
                     WHERE bridge = ?1 AND (external = ?2 OR substr(external, 1, length(?2) + 1) = ?2 || '/')
                        AND NOT EXISTS (SELECT 1 FROM link AS other WHERE other.bridge = ?1
                            AND other.external = ?3 || substr(link.external, length(?2) + 1))",
                )?
                .execute((&bridge, &from, &to))
                .map(drop)
        })
        .await
    }

    /// Records that an account is told that it is not heard. Returns `false` if it was told before.
    pub(crate) async fn tell_once(self, link: String, account: String) -> Result<bool, StoreError> {
        self.write("record who was told", move |transaction| {
            transaction
                .prepare_cached(
                    "INSERT INTO told_account (link, account) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
                )?
                .execute((&link, &account))
                .map(|added| added > 0)
        })
        .await
    }

    /// Forgets that an account was told, because the words did not reach it.
    pub(crate) async fn forget_told(self, link: String, account: String) -> Result<(), StoreError> {
        self.write("forget who was told", move |transaction| {
            transaction
                .prepare_cached("DELETE FROM told_account WHERE link = ?1 AND account = ?2")?
                .execute((&link, &account))
                .map(drop)
        })
        .await
    }

    /// Stores the place in a bridge's stream of events up to which everything was taken.
    pub(crate) async fn set_cursor(self, bridge: String, cursor: String) -> Result<(), StoreError> {
        self.write("store a bridge's position", move |transaction| {
            transaction
                .prepare_cached(
                    "INSERT INTO bridge_cursor (bridge, cursor) VALUES (?1, ?2)
                     ON CONFLICT (bridge) DO UPDATE SET bridge = excluded.bridge, cursor = excluded.cursor",
                )?
                .execute((&bridge, &cursor))
                .map(drop)
        })
        .await
    }
}

impl<A> Links<&Database<A>> {
    /// Returns the links, oldest first, optionally only those of one bridge.
    pub(crate) async fn list(self, bridge: Option<&str>) -> Result<Vec<Link>, StoreError> {
        self.read("list links", |connection| {
            connection
                .prepare_cached(&format!(
                    "SELECT {COLUMNS} FROM link WHERE CAST(?1 AS TEXT) IS NULL OR bridge = ?1 ORDER BY created_at, id"
                ))?
                .query_map([bridge], link)?
                .collect()
        })
        .await
    }

    /// Finds the link of a platform's channel.
    pub(crate) async fn find(self, bridge: &str, external: &str) -> Result<Option<Link>, StoreError> {
        self.read("find a link", |connection| find(connection, bridge, external)).await
    }

    /// Returns the number of the channel's message that a message of the platform is.
    pub(crate) async fn seq_of(self, link: &str, external: &str) -> Result<Option<u64>, StoreError> {
        self.read("look a linked message up", |connection| {
            connection
                .prepare_cached("SELECT seq FROM linked_message WHERE link = ?1 AND external = ?2")?
                .query_row((link, external), |row| row.get::<i64>(0).map(i64::unsigned_abs))
                .optional()
        })
        .await
    }

    /// Returns the messages of flock's that stand for a message of the platform in other channels of the bridge: the
    /// channel and the message of each.
    pub(crate) async fn copies(
        self,
        bridge: &str,
        external: &str,
        message: &str,
    ) -> Result<Vec<(String, String)>, StoreError> {
        self.read("look copies of a message up", |connection| {
            connection
                .prepare_cached(
                    "SELECT other.external, copy.external FROM link
                     JOIN linked_message known ON known.link = link.id AND known.external = ?3
                     JOIN link other ON other.channel = link.channel AND other.bridge = link.bridge
                        AND other.id <> link.id
                     JOIN linked_message copy ON copy.link = other.id AND copy.seq = known.seq
                     WHERE link.bridge = ?1 AND link.external = ?2",
                )?
                .query_map((bridge, external, message), |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect()
        })
        .await
    }

    /// Returns the place in a bridge's stream of events up to which everything was taken.
    pub(crate) async fn cursor(self, bridge: &str) -> Result<Option<String>, StoreError> {
        self.read("read a bridge's position", |connection| {
            connection
                .prepare_cached("SELECT cursor FROM bridge_cursor WHERE bridge = ?1")?
                .query_row([bridge], |row| row.get(0))
                .optional()
        })
        .await
    }
}

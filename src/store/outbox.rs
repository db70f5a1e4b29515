//! The outbox: messages that were committed here and are still to be sent to linked channels of other platforms.

use serde::Serialize;

use super::bridge_traffic::{self, Direction};
use super::post::{self, NewPost};
use super::session::parsed;
use super::sql::{self, OptionalExtension as _, Row, Transaction};
use super::subjects::Outbox;
use super::{Database, Post, Store, StoreError};
use crate::id::ChannelId;

/// The content of an entry of the outbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OutboxContent {
    Post(Post),
    /// A word about the channel itself: `archived` or `reopened`.
    Notice(String),
    /// The channel has this topic now.
    Topic(String),
}

/// The oldest entry that waits for a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OutboxEntry {
    pub(crate) id: i64,
    pub(crate) link: String,
    /// The platform's id of its channel.
    pub(crate) external: String,
    pub(crate) channel: ChannelId,
    pub(crate) content: OutboxContent,
    /// The number of its parts that were sent.
    pub(crate) sent: usize,
    /// Set if an attempt at the next part began whose result is not known.
    pub(crate) is_begun: bool,
    /// The number of attempts that failed.
    pub(crate) attempts: u32,
    /// Unix milliseconds before which it is not tried again.
    pub(crate) next_at: i64,
    /// Unix milliseconds.
    pub(crate) created_at: i64,
}

/// The number of entries that wait for a link, and the time of the oldest one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Backlog {
    pub(crate) entries: u64,
    pub(crate) oldest_at: Option<i64>,
}

/// The origin of a message that came over a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkOrigin {
    /// The link's id.
    pub link: String,
    /// The platform's id of the message.
    pub message: String,
    /// Set for a message from before the link, which goes to no other link and counts as read.
    pub is_history: bool,
}

/// The notice that stands for a new topic, which is read when it is sent.
const TOPIC: &str = "topic";

/// Queues a message that was just inserted for the links of its channel.
///
/// A message that comes over a link goes to no other one, unless that one passes on other platforms, and never back.
pub(super) fn queue(
    transaction: &Transaction<'_>,
    new: &NewPost,
    channel: &str,
    seq: i64,
) -> sql::Result<()> {
    if new.origin.as_ref().is_some_and(|origin| origin.is_history) {
        return Ok(());
    }
    let origin = new.origin.as_ref().map(|origin| origin.link.as_str());
    transaction
        .prepare_cached(
            "INSERT INTO outbox (link, channel, seq, created_at)
             SELECT id, channel, ?2, ?3 FROM link
             WHERE channel = ?1 AND state = 'active'
                AND (CAST(?4 AS TEXT) IS NULL OR (is_cross <> 0 AND id <> ?4))",
        )?
        .send((channel, seq, new.now, origin))
}

/// Queues a channel's new topic for its links.
pub(super) fn queue_topic(transaction: &Transaction<'_>, channel: &str, now: i64) -> sql::Result<()> {
    transaction
        .prepare_cached(
            "INSERT INTO outbox (link, channel, notice, created_at)
             SELECT id, channel, ?2, ?3 FROM link WHERE channel = ?1 AND state = 'active'",
        )?
        .execute((channel, TOPIC, now))
        .map(drop)
}

/// Returns the number of the message that came over a link before, if it did.
pub(super) fn known(transaction: &Transaction<'_>, origin: &LinkOrigin) -> sql::Result<Option<i64>> {
    transaction
        .prepare_cached("SELECT seq FROM linked_message WHERE link = ?1 AND external = ?2")?
        .query_row((&origin.link, &origin.message), |row| row.get(0))
        .optional()
}

/// Stores that a message of the platform and one of the channel are the same.
pub(super) fn record(
    transaction: &Transaction<'_>,
    origin: &LinkOrigin,
    seq: i64,
    now: i64,
) -> sql::Result<()> {
    transaction
        .prepare_cached(
            "INSERT INTO linked_message (link, external, seq, at) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING",
        )?
        .execute((&origin.link, &origin.message, seq, now))
        .map(drop)
}

fn entry(row: &Row<'_>) -> sql::Result<OutboxEntry> {
    let content = match row.get::<Option<String>>(8)? {
        Some(notice) if notice == TOPIC => OutboxContent::Topic(row.get(9)?),
        Some(notice) => OutboxContent::Notice(notice),
        None => OutboxContent::Post(post::row_from(row, 11)?),
    };
    Ok(OutboxEntry {
        id: row.get(0)?,
        link: row.get(1)?,
        external: row.get(2)?,
        channel: parsed(row, 3)?,
        sent: usize::try_from(row.get::<i64>(4)?).unwrap_or_default(),
        attempts: row.get(5)?,
        next_at: row.get(6)?,
        created_at: row.get(7)?,
        is_begun: row.get(10)?,
        content,
    })
}

impl Outbox<&Store> {
    /// Records that the next part of an entry was sent. With `is_last`, the entry is done.
    pub(crate) async fn part_sent(
        self,
        entry: i64,
        origin: LinkOrigin,
        is_last: bool,
        now: i64,
    ) -> Result<(), StoreError> {
        self.write("record what was sent", move |transaction| {
            let seq: Option<i64> = transaction
                .prepare_cached("SELECT seq FROM outbox WHERE id = ?1")?
                .query_row([entry], |row| row.get(0))
                .optional()?
                .flatten();
            if let Some(seq) = seq {
                record(transaction, &origin, seq, now)?;
                if is_last {
                    bridge_traffic::count_on_link(transaction, &origin.link, Direction::Sent, now)?;
                }
            }
            let change = if is_last {
                "DELETE FROM outbox WHERE id = ?1"
            } else {
                "UPDATE outbox SET sent = sent + 1, begun = 0, attempts = 0, next_at = 0 WHERE id = ?1"
            };
            transaction.prepare_cached(change)?.execute([entry]).map(drop)
        })
        .await
    }

    /// Records that an attempt at the next part begins.
    pub(crate) async fn begin(self, entry: i64) -> Result<(), StoreError> {
        self.write("record what is being sent", move |transaction| {
            transaction
                .prepare_cached("UPDATE outbox SET begun = 1 WHERE id = ?1")?
                .execute([entry])
                .map(drop)
        })
        .await
    }

    /// Postpones an entry after a failed attempt. The later entries of its link wait with it. With `is_known`, the
    /// platform answered that nothing was sent.
    pub(crate) async fn postpone(self, entry: i64, until: i64, is_known: bool) -> Result<(), StoreError> {
        self.write("postpone what is to be sent", move |transaction| {
            transaction
                .prepare_cached(
                    "UPDATE outbox SET attempts = attempts + 1, next_at = ?2,
                        begun = CASE WHEN CAST(?3 AS BIGINT) <> 0 THEN 0 ELSE begun END
                     WHERE id = ?1",
                )?
                .execute((entry, until, is_known))
                .map(drop)
        })
        .await
    }

    /// Drops an entry that can't be sent.
    pub(crate) async fn drop_entry(self, entry: i64) -> Result<(), StoreError> {
        self.write("drop what can't be sent", move |transaction| {
            transaction.prepare_cached("DELETE FROM outbox WHERE id = ?1")?.execute([entry]).map(drop)
        })
        .await
    }

    /// Drops the entries of a link that are older than `time`, and the oldest ones above `most`. Returns their number.
    pub(crate) async fn trim(self, link: String, time: i64, most: u64) -> Result<usize, StoreError> {
        self.write("drop what waited too long", move |transaction| {
            transaction
                .prepare_cached(
                    "DELETE FROM outbox WHERE link = ?1 AND (created_at < ?2 OR id <= coalesce((SELECT id FROM outbox
                        WHERE link = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?3), -1))",
                )?
                .execute((&link, time, post::number(most)))
        })
        .await
    }
}

impl<A> Outbox<&Database<A>> {
    /// Returns the oldest entry of each active link of a bridge, also of those that wait for a later attempt.
    pub(crate) async fn next(self, bridge: &str) -> Result<Vec<OutboxEntry>, StoreError> {
        self.read("look what is to be sent", |connection| {
            // A word about the channel is sent although the archive stopped the link. A message that was deleted since
            // is passed over.
            let sql = format!(
                "SELECT o.id, o.link, l.external, o.channel, o.sent, o.attempts, o.next_at, o.created_at, o.notice,
                        c.topic, o.begun, {} FROM link l
                 JOIN outbox o ON o.id = (SELECT min(id) FROM outbox WHERE link = l.id AND (notice IS NOT NULL
                    OR EXISTS (SELECT 1 FROM message WHERE channel = outbox.channel COLLATE NOCASE
                        AND seq = outbox.seq)))
                 JOIN channel c ON c.id = o.channel COLLATE NOCASE
                 LEFT JOIN message m ON m.channel = o.channel COLLATE NOCASE AND m.seq = o.seq
                 WHERE l.bridge = ?1 AND l.state <> 'paused'",
                post::COLUMNS.split(", ").map(|column| format!("m.{column}")).collect::<Vec<_>>().join(", ")
            );
            connection.prepare_cached(&sql)?.query_map([bridge], entry)?.collect()
        })
        .await
    }

    /// Returns what waits for a link.
    pub(crate) async fn backlog(self, link: &str) -> Result<Backlog, StoreError> {
        self.read("count what is to be sent", |connection| {
            connection
                .prepare_cached("SELECT count(*), min(created_at) FROM outbox WHERE link = ?1")?
                .query_row([link], |row| {
                    Ok(Backlog { entries: row.get::<i64>(0)?.unsigned_abs(), oldest_at: row.get(1)? })
                })
        })
        .await
    }
}

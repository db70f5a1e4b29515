//! Messages on other platforms that show a waiting request. A row is added before its message is sent, and is closed once
//! the message says how the request ended.

use super::sql::{self, Connection, OptionalExtension as _, Params, Row};
use super::subjects::DecisionMessages;
use super::{Database, LinkState, Store, StoreError};

/// A message that shows a waiting request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DecisionMessage {
    pub(crate) id: i64,
    pub(crate) link: String,
    /// The name of the link's bridge.
    pub(crate) bridge: String,
    /// The platform's id of the link's channel.
    pub(crate) external: String,
    pub(crate) link_state: LinkState,
    /// The id of the request.
    pub(crate) request: String,
    /// The digest of the body that it shows.
    pub(crate) sha256: String,
    /// By which a reply names it. `None` if the request can't be shown whole there.
    pub(crate) code: Option<String>,
    /// The platform's id of the message, once it is known.
    pub(crate) message: Option<String>,
    /// Set once an attempt at sending it began.
    pub(crate) is_begun: bool,
    /// The number of attempts that failed.
    pub(crate) attempts: u32,
    /// Unix milliseconds before which it is not tried again.
    pub(crate) next_at: i64,
    /// Unix milliseconds.
    pub(crate) created_at: i64,
}

/// A message to be added.
#[derive(Clone, Debug)]
pub(crate) struct NewDecisionMessage {
    /// The link's id.
    pub(crate) link: String,
    /// The request's id.
    pub(crate) request: String,
    pub(crate) sha256: String,
    pub(crate) code: Option<String>,
    /// The current time in Unix milliseconds.
    pub(crate) now: i64,
}

const SELECT: &str =
    "SELECT d.id, d.link, l.bridge, l.external, l.state, d.request, d.sha256, d.code, d.message, d.begun,
        d.attempts, d.next_at, d.created_at
    FROM decision_message d JOIN link l ON l.id = d.link";

fn message(row: &Row<'_>) -> sql::Result<DecisionMessage> {
    Ok(DecisionMessage {
        id: row.get(0)?,
        link: row.get(1)?,
        bridge: row.get(2)?,
        external: row.get(3)?,
        link_state: row.get(4)?,
        request: row.get(5)?,
        sha256: row.get(6)?,
        code: row.get(7)?,
        message: row.get(8)?,
        is_begun: row.get(9)?,
        attempts: row.get(10)?,
        next_at: row.get(11)?,
        created_at: row.get(12)?,
    })
}

fn find(
    connection: &Connection<'_>,
    condition: &str,
    params: impl Params,
) -> sql::Result<Option<DecisionMessage>> {
    connection.prepare_cached(&format!("{SELECT} WHERE {condition}"))?.query_row(params, message).optional()
}

impl<A> DecisionMessages<&Database<A>> {
    /// Returns the ids of the active links of a bridge, each with the id of a waiting request of its channel that was not
    /// shown over it.
    pub(crate) async fn missing(self, bridge: &str) -> Result<Vec<(String, String)>, StoreError> {
        self.read("look which requests are to be shown", |connection| {
            connection
                .prepare_cached(
                    // The first condition on the state is that of the index.
                    "SELECT l.id, r.id FROM request r JOIN link l ON l.channel = r.channel COLLATE NOCASE
                     WHERE r.state IN ('triage', 'waiting', 'approved', 'running') AND r.state = 'waiting'
                         AND l.bridge = ?1 AND l.state = 'active'
                         AND NOT EXISTS (SELECT 1 FROM decision_message WHERE link = l.id AND request = r.id)
                     ORDER BY r.created_at, r.id",
                )?
                .query_map([bridge], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect()
        })
        .await
    }

    /// Returns the messages of a bridge that are to be changed because their requests do not wait any more and, if it
    /// `may_show` waiting ones, those that are to be sent; oldest first.
    pub(crate) async fn due(self, bridge: &str, may_show: bool) -> Result<Vec<DecisionMessage>, StoreError> {
        self.read("look which messages about requests are due", |connection| {
            connection
                .prepare_cached(&format!(
                    "{SELECT} LEFT JOIN request r ON r.id = d.request
                     WHERE l.bridge = ?1 AND d.closed_at IS NULL
                         AND (d.message IS NULL AND l.state = 'active' AND CAST(?2 AS BIGINT) <> 0
                             OR coalesce(r.state, '') <> 'waiting' AND l.state <> 'paused')
                     ORDER BY d.id"
                ))?
                .query_map((bridge, may_show), message)?
                .collect()
        })
        .await
    }

    /// Finds a message by its code.
    pub(crate) async fn by_code(self, code: &str) -> Result<Option<DecisionMessage>, StoreError> {
        self.read("look a code up", |connection| find(connection, "d.code = ?1", [code])).await
    }

    /// Finds a message by the platform's id of it.
    pub(crate) async fn by_message(
        self,
        bridge: &str,
        external: &str,
        message: &str,
    ) -> Result<Option<DecisionMessage>, StoreError> {
        self.read("look a message about a request up", |connection| {
            let condition = "d.message = ?3 AND l.external = ?2 AND l.bridge = ?1";
            find(connection, condition, (bridge, external, message))
        })
        .await
    }
}

impl DecisionMessages<&Store> {
    /// Adds a message. Returns `false` if the link has one about this request, or if the code is in use.
    pub(crate) async fn add(self, new: NewDecisionMessage) -> Result<bool, StoreError> {
        self.write("keep a message about a request", move |transaction| {
            transaction
                .prepare_cached(
                    "INSERT INTO decision_message (link, request, sha256, code, created_at)
                     VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING",
                )?
                .execute((&new.link, &new.request, &new.sha256, &new.code, new.now))
                .map(|added| added > 0)
        })
        .await
    }

    /// Records that an attempt at sending a message begins.
    pub(crate) async fn begin(self, id: i64) -> Result<(), StoreError> {
        self.write("begin a message about a request", move |transaction| {
            transaction
                .prepare_cached("UPDATE decision_message SET begun = 1 WHERE id = ?1")?
                .execute([id])
                .map(drop)
        })
        .await
    }

    /// Records the platform's id of a message that was sent.
    pub(crate) async fn sent(self, id: i64, message: String) -> Result<(), StoreError> {
        self.write("record a message about a request", move |transaction| {
            transaction
                .prepare_cached(
                    "UPDATE decision_message SET message = ?2, attempts = 0, next_at = 0 WHERE id = ?1",
                )?
                .execute((id, &message))
                .map(drop)
        })
        .await
    }

    /// Postpones the next attempt at a message.
    pub(crate) async fn postpone(self, id: i64, until: i64) -> Result<(), StoreError> {
        self.write("postpone a message about a request", move |transaction| {
            transaction
                .prepare_cached(
                    "UPDATE decision_message SET attempts = attempts + 1, next_at = ?2 WHERE id = ?1",
                )?
                .execute((id, until))
                .map(drop)
        })
        .await
    }

    /// Records that nothing more is done about a message.
    pub(crate) async fn close(self, id: i64, now: i64) -> Result<(), StoreError> {
        self.write("close a message about a request", move |transaction| {
            transaction
                .prepare_cached("UPDATE decision_message SET closed_at = ?2 WHERE id = ?1")?
                .execute((id, now))
                .map(drop)
        })
        .await
    }
}

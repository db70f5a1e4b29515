//! Webhooks, and what came to them.
//!
//! A delivery has one row, which is written in the same transaction as the message that it causes. What is delivered again
//! finds its row, so it is posted once, whenever the process is killed, as long as the row is among the newest of its hook.

use super::audit::{self, AuditEntry};
use super::post::{self, CommittedPost, NewPost, PostOutcome};
use super::session::parsed;
use super::sql::{self, Connection, OptionalExtension as _, Row, Transaction, params};
use super::subjects::Hooks;
use super::words::words;
use super::{Database, Store, StoreError};
use crate::id::{ChannelId, HookName};

/// Number of deliveries that are remembered of each hook.
pub(crate) const MOST_DELIVERIES: i64 = 5000;

words! {
    /// The form in which a sender signs.
    HookKind {
        /// GitHub: the header `X-Hub-Signature-256`.
        Github = "github",
        /// GitLab: a signature by the specification Standard Webhooks, or the older secret token.
        Gitlab = "gitlab",
        /// A signature by the specification Standard Webhooks.
        Generic = "generic",
    }
}

words! {
    /// The state of a hook.
    HookState {
        /// It takes deliveries.
        Active = "active",
        /// It refuses deliveries until a person resumes it.
        Paused = "paused",
    }
}

words! {
    /// The outcome of a delivery.
    DeliveryOutcome {
        /// Its message is in the channel.
        Posted = "posted",
        /// It was taken and led to no message.
        Ignored = "ignored",
    }
}

/// A webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    pub id: i64,
    pub name: HookName,
    pub channel: ChannelId,
    pub kind: HookKind,
    /// Empty for the built-in template of the kind.
    pub template: String,
    /// The person who added it, as in `human:kim`.
    pub created_by: String,
    /// Unix milliseconds.
    pub created_at: i64,
    pub state: HookState,
    /// The reason if flock paused it by itself.
    pub why: String,
}

/// A hook that is to be added.
#[derive(Clone, Debug)]
pub struct NewHook {
    pub name: HookName,
    pub channel: ChannelId,
    pub kind: HookKind,
    pub template: String,
    pub created_by: String,
    /// The current time in Unix milliseconds.
    pub now: i64,
}

/// The result of adding a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HookAdded {
    New(Box<Hook>),
    NameTaken,
    TooMany,
}

/// A delivery with a good signature.
#[derive(Clone, Debug)]
pub struct NewDelivery {
    /// The hook's number.
    pub hook: i64,
    /// SHA-256 of what was signed, in hexadecimal digits.
    pub digest: String,
    /// The sender's own name for it, for people.
    pub delivery: String,
    pub event: String,
    /// The message that it leads to, or the reason why it leads to none.
    pub effect: Result<NewPost, String>,
    pub entry: AuditEntry,
    /// The current time in Unix milliseconds.
    pub now: i64,
}

/// The outcome of taking a delivery.
#[derive(Debug)]
pub(crate) enum DeliveryResult {
    /// The message is committed.
    Posted(Box<(NewPost, CommittedPost)>),
    /// It is recorded, and leads to no message.
    Ignored,
    /// It came before.
    Before,
    /// The hook is paused or gone.
    Inactive,
    /// The channel takes no messages.
    Closed,
}

/// A delivery that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookDelivery {
    /// The sender's own name for it.
    pub delivery: String,
    pub event: String,
    /// Unix milliseconds.
    pub received_at: i64,
    pub outcome: DeliveryOutcome,
    /// The reason why it led to no message.
    pub why: String,
    /// The number of its message in the channel.
    pub seq: Option<u64>,
}

const SELECT: &str = "SELECT id, name, channel, kind, template, added_by, created_at, state, why FROM hook";

fn hook(row: &Row<'_>) -> sql::Result<Hook> {
    Ok(Hook {
        id: row.get(0)?,
        name: parsed(row, 1)?,
        channel: parsed(row, 2)?,
        kind: row.get(3)?,
        template: row.get(4)?,
        created_by: row.get(5)?,
        created_at: row.get(6)?,
        state: row.get(7)?,
        why: row.get(8)?,
    })
}

fn by_name(connection: &Connection<'_>, name: &HookName) -> sql::Result<Option<Hook>> {
    connection
        .prepare_cached(&format!("{SELECT} WHERE name = ?1"))?
        .query_row([name.as_str()], hook)
        .optional()
}

fn delivery(row: &Row<'_>) -> sql::Result<HookDelivery> {
    let seq: Option<i64> = row.get(5)?;
    Ok(HookDelivery {
        delivery: row.get(0)?,
        event: row.get(1)?,
        received_at: row.get(2)?,
        outcome: row.get(3)?,
        why: row.get(4)?,
        seq: seq.map(i64::unsigned_abs),
    })
}

fn insert(
    transaction: &Transaction<'_>,
    new: &NewHook,
    most: u32,
    entry: &AuditEntry,
) -> sql::Result<HookAdded> {
    if by_name(transaction, &new.name)?.is_some() {
        return Ok(HookAdded::NameTaken);
    }
    let count: u32 = transaction.query_row("SELECT count(*) FROM hook", (), |row| row.get(0))?;
    if count >= most {
        return Ok(HookAdded::TooMany);
    }
    transaction.execute(
        "INSERT INTO hook (name, channel, kind, template, added_by, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![new.name.as_str(), new.channel.as_str(), new.kind, new.template, new.created_by, new.now],
    )?;
    audit::append(transaction, entry, new.now)?;
    let added = by_name(transaction, &new.name)?;
    Ok(added.map_or(HookAdded::NameTaken, |added| HookAdded::New(Box::new(added))))
}

/// Takes a delivery: its row and its message are written together or not at all.
fn take(transaction: &Transaction<'_>, new: NewDelivery) -> sql::Result<DeliveryResult> {
    let state: Option<HookState> = transaction
        .prepare_cached("SELECT state FROM hook WHERE id = ?1")?
        .query_row([new.hook], |row| row.get(0))
        .optional()?;
    if state != Some(HookState::Active) {
        return Ok(DeliveryResult::Inactive);
    }
    // What led to no message is no reason to leave out one: its event, by which a template may choose, is often not signed, so
    // that somebody else may have sent the same content under another one before.
    let came: bool = transaction
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM hook_delivery WHERE hook = ?1 AND digest = ?2
             AND (outcome = 'posted' OR CAST(?3 AS BIGINT) <> 0))",
        )?
        .query_row((new.hook, &new.digest, new.effect.is_err()), |row| row.get(0))?;
    if came {
        return Ok(DeliveryResult::Before);
    }
    let (outcome, why, result) = match new.effect {
        Err(why) => (DeliveryOutcome::Ignored, why, DeliveryResult::Ignored),
        Ok(message) => {
            let is_active: Option<bool> = transaction
                .prepare_cached("SELECT state = 'active' FROM channel WHERE id = ?1")?
                .query_row([message.channel.as_str()], |row| row.get(0))
                .optional()?;
            // flock's own messages are taken by archived channels, too, so the state is looked at here.
            if is_active != Some(true) {
                return Ok(DeliveryResult::Closed);
            }
            let PostOutcome::Posted(posted) = post::post(transaction, &message)? else {
                return Ok(DeliveryResult::Closed);
            };
            let result = DeliveryResult::Posted(Box::new((message, posted)));
            (DeliveryOutcome::Posted, String::new(), result)
        }
    };
    let seq = match &result {
        DeliveryResult::Posted(parts) => Some(post::number(parts.1.seq)),
        _ => None,
    };
    // What led to no message gives way to what led to one, which counts as the newest.
    transaction
        .prepare_cached("DELETE FROM hook_delivery WHERE hook = ?1 AND digest = ?2")?
        .execute((new.hook, &new.digest))?;
    let newest: i64 = transaction
        .prepare_cached(
            "INSERT INTO hook_delivery (hook, digest, delivery, event, received_at, outcome, why, seq)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
             RETURNING id",
        )?
        .query_row(
            params![new.hook, new.digest, new.delivery, new.event, new.now, outcome, why, seq],
            |row| row.get(0),
        )?;
    transaction
        .prepare_cached(
            "DELETE FROM hook_delivery WHERE hook = ?1 AND id <= (SELECT id FROM hook_delivery
             WHERE hook = ?1 AND id <= ?2 ORDER BY id DESC LIMIT 1 OFFSET ?3)",
        )?
        .execute((new.hook, newest, MOST_DELIVERIES))?;
    audit::append(transaction, &new.entry, new.now)?;
    Ok(result)
}

impl<A> Hooks<&Database<A>> {
    /// Returns all hooks, by name.
    pub(crate) async fn list(self) -> Result<Vec<Hook>, StoreError> {
        self.read("list webhooks", |connection| {
            connection.prepare_cached(&format!("{SELECT} ORDER BY name"))?.query_map((), hook)?.collect()
        })
        .await
    }

    /// Returns the hook with this name.
    pub(crate) async fn find(self, name: &HookName) -> Result<Option<Hook>, StoreError> {
        self.read("find a webhook", |connection| by_name(connection, name)).await
    }

    /// Returns what came to a hook, the newest first.
    pub(crate) async fn history(self, id: i64, limit: u32) -> Result<Vec<HookDelivery>, StoreError> {
        self.read("list the deliveries of a webhook", |connection| {
            connection
                .prepare_cached(
                    "SELECT delivery, event, received_at, outcome, why, seq FROM hook_delivery WHERE hook = ?1
                     ORDER BY id DESC LIMIT ?2",
                )?
                .query_map((id, limit), delivery)?
                .collect()
        })
        .await
    }
}

impl Hooks<&Store> {
    /// Adds a hook unless there are `most` already.
    pub(crate) async fn add(
        self,
        new: NewHook,
        most: u32,
        entry: AuditEntry,
    ) -> Result<HookAdded, StoreError> {
        self.write("add a webhook", move |transaction| insert(transaction, &new, most, &entry)).await
    }

    /// Pauses a hook, or lets it go on. Returns `false` if nothing changed.
    pub(crate) async fn set_paused(
        self,
        id: i64,
        why: Option<String>,
        entry: AuditEntry,
        now: i64,
    ) -> Result<bool, StoreError> {
        self.write("pause a webhook", move |transaction| {
            let changed = match why {
                Some(why) => transaction.execute(
                    "UPDATE hook SET state = 'paused', why = ?2 WHERE id = ?1 AND state = 'active'",
                    (id, why),
                )?,
                None => transaction.execute(
                    "UPDATE hook SET state = 'active', why = '' WHERE id = ?1 AND state = 'paused'",
                    [id],
                )?,
            };
            audit::append_if_any(transaction, changed, &entry, now)
        })
        .await
    }

    /// Makes a hook one that this party added now.
    pub(crate) async fn take_over(
        self,
        id: i64,
        party: String,
        entry: AuditEntry,
        now: i64,
    ) -> Result<(), StoreError> {
        self.write("take a webhook over", move |transaction| {
            let changed = transaction
                .execute("UPDATE hook SET added_by = ?2, created_at = ?3 WHERE id = ?1", (id, &party, now))?;
            audit::append_if_any(transaction, changed, &entry, now).map(drop)
        })
        .await
    }

    /// Removes a hook with its history. Returns `false` if there was none.
    pub(crate) async fn remove(self, id: i64, entry: AuditEntry, now: i64) -> Result<bool, StoreError> {
        self.write("remove a webhook", move |transaction| {
            let removed = transaction.execute("DELETE FROM hook WHERE id = ?1", [id])?;
            audit::append_if_any(transaction, removed, &entry, now)
        })
        .await
    }

    /// Takes a delivery, unless it came before.
    pub(crate) async fn take(self, new: NewDelivery) -> Result<DeliveryResult, StoreError> {
        self.write("take a delivery of a webhook", move |transaction| take(transaction, new)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Level;

    #[tokio::test]
    async fn the_newest_deliveries_are_known_and_older_ones_are_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&crate::home::Home::new(dir.path().to_owned(), None)).unwrap();
        let entry = || AuditEntry::new("system", "hook.receive", "ci", Level::Green, String::new());
        let new = NewHook {
            name: "ci".parse().unwrap(),
            channel: "dev".parse().unwrap(),
            kind: HookKind::Github,
            template: String::new(),
            created_by: "human:ann".to_owned(),
            now: 1,
        };
        let HookAdded::New(hook) = store.hooks().add(new, 10, entry()).await.unwrap() else { panic!() };
        let id = hook.id;
        let sent = move |number: i64| NewDelivery {
            hook: id,
            digest: number.to_string(),
            delivery: String::new(),
            event: "push".to_owned(),
            effect: Err("the template leaves it out".to_owned()),
            entry: entry(),
            now: number,
        };
        let known = store.write("take deliveries", move |transaction| {
            assert!(matches!(take(transaction, sent(0))?, DeliveryResult::Ignored));
            transaction.execute(
                "INSERT INTO hook_delivery (hook, digest, delivery, event, received_at, outcome)
                 WITH RECURSIVE other (number) AS
                    (SELECT CAST(1 AS BIGINT) UNION ALL SELECT number + 1 FROM other WHERE number < ?2 - 1)
                 SELECT CAST(?1 AS BIGINT), CAST(number AS TEXT), '', 'push', number, 'ignored' FROM other",
                (id, MOST_DELIVERIES),
            )?;
            let first = take(transaction, sent(0))?;
            take(transaction, sent(MOST_DELIVERIES))?;
            let (second, forgotten) = (take(transaction, sent(1))?, take(transaction, sent(0))?);
            Ok([first, second, forgotten].map(|result| matches!(result, DeliveryResult::Before)))
        });
        assert_eq!(known.await.unwrap(), [true, true, false]);
    }
}

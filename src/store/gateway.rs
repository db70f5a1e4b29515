//! The gateways that share a database on a server: one row for each run of one.
//!
//! A gateway says every few seconds that it lives. One that does not is ended by another, and from then on each of its
//! changes is refused, however late it comes back: the driver looks at its row at the beginning of every transaction, under
//! the lock that all changes take. So the times here decide only when a gateway may be ended, and never if it may write.
//! All of them are of the database's clock.

use std::collections::BTreeSet;

use super::audit::{self, AuditEntry};
use super::notice::NoticeKind;
use super::sql::{self, Connection, OptionalExtension as _, Row, Transaction};
use super::subjects::Gateways;
use super::{Database, Store, StoreError, lease};
use crate::clock;
use crate::id::EngineName;

/// The time for which a gateway counts as living after it said so, in milliseconds.
pub const LIFETIME_MS: i64 = 6_000;

/// The time after which a sign of life comes late, in milliseconds. It is half of [`LIFETIME_MS`]: whatever kept this gateway
/// from the database for less has not kept another one away for so long that it counts as dead.
pub const LATE_MS: i64 = LIFETIME_MS / 2;

/// The time for which the rows of gateways that have ended are kept, in milliseconds.
const KEPT_MS: i64 = 30 * 24 * 3_600_000;

/// The number of a gateway's run. A later run of any gateway of the same database has a higher one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct Epoch(pub i64);

/// A gateway that starts.
#[derive(Clone, Debug)]
pub(crate) struct NewGateway {
    /// The instance id of its home.
    pub home: String,
    /// The name for people: that of its machine.
    pub name: String,
    /// Where it listens, as in `127.0.0.1:18789`.
    pub address: String,
    pub version: String,
}

/// The address and the key by which a gateway of a group takes requests from the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerAddress {
    /// The address, as in `127.0.0.1:40123`.
    pub address: String,
    /// The public key by which the others know it: the 32 bytes of an Ed25519 key in hex. It is another one in each run.
    pub key: String,
}

/// A gateway that lives, as far as the database knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LivingGateway {
    pub epoch: Epoch,
    pub home: String,
    pub name: String,
    pub address: String,
    pub version: String,
    /// Unix milliseconds by the database's clock.
    pub started_at: i64,
    /// Unix milliseconds by the database's clock until which it lives without another sign.
    pub beat_until: i64,
    /// `None` for one that takes no requests from others (yet).
    pub peer: Option<PeerAddress>,
    /// The engines that answer it, as far as it has said so.
    pub engines: BTreeSet<EngineName>,
}

impl LivingGateway {
    /// Returns the milliseconds since its last sign of life. `now` is the time of the database's clock, which may have been
    /// set back.
    pub(crate) fn silent_ms(&self, now: i64) -> i64 {
        (now - (self.beat_until - LIFETIME_MS)).max(0)
    }
}

/// The right of a gateway to end others that gave no sign of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judging {
    Yes,
    /// It was cut off from the database itself, so that it can't tell who else was.
    No,
}

/// The result of a sign of life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beat {
    /// The time of the database's clock.
    pub now: i64,
    /// `true` if it came more than [`LATE_MS`] after the one before.
    pub was_late: bool,
    /// The gateways that were ended by it.
    pub ended: Vec<Epoch>,
    /// The gateways that live now, this one among them, in the order of their starts.
    pub living: Vec<LivingGateway>,
}

const COLUMNS: &str =
    "epoch, home, name, address, version, started_at, beat_until, peer_address, peer_key, engines";

fn gateway(row: &Row<'_>) -> sql::Result<LivingGateway> {
    let peer: (Option<String>, Option<String>) = (row.get(7)?, row.get(8)?);
    let engines: Option<String> = row.get(9)?;
    Ok(LivingGateway {
        epoch: Epoch(row.get(0)?),
        home: row.get(1)?,
        name: row.get(2)?,
        address: row.get(3)?,
        version: row.get(4)?,
        started_at: row.get(5)?,
        beat_until: row.get(6)?,
        peer: peer.0.zip(peer.1).map(|(address, key)| PeerAddress { address, key }),
        // What another version has written in another form counts as no engine.
        engines: engines.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default(),
    })
}

/// Returns the gateways that were not ended, in the order of their starts.
pub(super) fn living(connection: &Connection<'_>) -> sql::Result<Vec<LivingGateway>> {
    connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM gateway WHERE ended_at IS NULL ORDER BY epoch"))?
        .query_map((), gateway)?
        .collect()
}

/// Ends gateways, and frees what they own, in one change: nobody owns anything who was ended. `by` is this gateway.
fn end(transaction: &Transaction<'_>, gateways: &[Epoch], by: Epoch, now: i64) -> sql::Result<()> {
    for epoch in gateways {
        transaction
            .prepare_cached(
                "UPDATE gateway SET ended_at = ?2, ended_by = ?3 WHERE epoch = ?1 AND ended_at IS NULL",
            )?
            .execute((epoch.0, now, by.0))?;
        lease::free(transaction, *epoch, now)?;
        transaction.tell(NoticeKind::Gateway, &epoch.0.to_string());
    }
    if gateways.is_empty() {
        return Ok(());
    }
    // A gateway that was ended must not live again after a crash of the server: another one goes on in its place.
    transaction.wait_for_disk()
}

fn epochs(connection: &Connection<'_>, sql: &str, parameters: impl sql::Params) -> sql::Result<Vec<Epoch>> {
    connection.prepare_cached(sql)?.query_map(parameters, |row| Ok(Epoch(row.get(0)?)))?.collect()
}

/// Adds a gateway that starts, and returns its number. Earlier runs of the same home are ended: a home has one gateway.
///
/// `run` is a random text of this run.
pub(super) fn register(transaction: &Transaction<'_>, new: &NewGateway, run: &str) -> sql::Result<Epoch> {
    let now = transaction.clock()?;
    // The newest row is never deleted, so no number is given twice.
    let epoch = transaction
        .query_row("SELECT coalesce(max(epoch), 0) + 1 FROM gateway", (), |row| Ok(Epoch(row.get(0)?)))?;
    let earlier =
        epochs(transaction, "SELECT epoch FROM gateway WHERE home = ?1 AND ended_at IS NULL", [&new.home])?;
    end(transaction, &earlier, epoch, now)?;
    transaction.execute(
        "INSERT INTO gateway (epoch, run, home, name, address, version, started_at, beat_until)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        (epoch.0, run, &new.home, &new.name, &new.address, &new.version, now, now + LIFETIME_MS),
    )?;
    transaction.execute("DELETE FROM gateway WHERE ended_at < ?1", [now - KEPT_MS])?;
    transaction.tell(NoticeKind::Gateway, &epoch.0.to_string());
    // A number that was lost in a crash could be given to another gateway.
    transaction.wait_for_disk()?;
    Ok(epoch)
}

/// Does the same as [`register`], and ends all other gateways. It is for one that holds the lock of the only gateway.
pub(super) fn register_alone(
    transaction: &Transaction<'_>,
    new: &NewGateway,
    run: &str,
) -> sql::Result<Epoch> {
    let epoch = register(transaction, new, run)?;
    let others =
        epochs(transaction, "SELECT epoch FROM gateway WHERE epoch <> ?1 AND ended_at IS NULL", [epoch.0])?;
    end(transaction, &others, epoch, transaction.clock()?)?;
    Ok(epoch)
}

impl<A> Gateways<&Database<A>> {
    /// Returns the gateways that were not ended, in the order of their starts, and the time of the database's clock. One whose
    /// `beat_until` has passed may be gone.
    pub(crate) async fn living(self) -> Result<(i64, Vec<LivingGateway>), StoreError> {
        self.read("look which gateways there are", |connection| {
            Ok((connection.clock()?, living(connection)?))
        })
        .await
    }
}

impl Gateways<&Store> {
    /// Says that this gateway lives, and with [`Judging::Yes`] ends those that did not say so in time. The row of the audit
    /// that `record` returns for each of them is written in the same change: nobody is ended without it.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Fenced`] if this gateway was ended.
    pub(crate) async fn beat(
        self,
        epoch: Epoch,
        judging: Judging,
        record: impl Fn(Epoch) -> AuditEntry + Send + 'static,
    ) -> Result<Beat, StoreError> {
        self.write("say that this gateway lives", move |transaction| {
            // The clock is read before anything is derived from it. A change that is held up then ends too few gateways,
            // and says of this one that it lives for too short a time, rather than the opposite.
            let now = transaction.clock()?;
            let until: Option<i64> = transaction
                .prepare_cached("SELECT beat_until FROM gateway WHERE epoch = ?1 AND ended_at IS NULL")?
                .query_row([epoch.0], |row| row.get(0))
                .optional()?;
            let last = until.ok_or(sql::Error::Fenced)? - LIFETIME_MS;
            let was_late = now - last > LATE_MS;
            // A clock that was set back leaves times that are too far away. A gateway that died then would seem to live
            // until they come.
            transaction
                .prepare_cached(
                    "UPDATE gateway SET beat_until = ?2
                     WHERE ended_at IS NULL AND (epoch = ?1 OR beat_until > ?2)",
                )?
                .execute((epoch.0, now + LIFETIME_MS))?;
            let mut ended = Vec::new();
            // One that is late itself may have been cut off together with all others.
            if judging == Judging::Yes && !was_late {
                let silent =
                    "SELECT epoch FROM gateway WHERE ended_at IS NULL AND beat_until <= ?1 ORDER BY epoch";
                ended = epochs(transaction, silent, [now])?;
                end(transaction, &ended, epoch, now)?;
                for gone in &ended {
                    audit::append(transaction, &record(*gone), clock::unix_ms())?;
                }
            }
            Ok(Beat { now, was_late, ended, living: living(transaction)? })
        })
        .await
    }

    /// Says where this gateway takes requests from the others.
    pub(crate) async fn set_peer(self, epoch: Epoch, peer: PeerAddress) -> Result<(), StoreError> {
        self.write("say where this gateway takes requests", move |transaction| {
            transaction.execute(
                "UPDATE gateway SET peer_address = ?2, peer_key = ?3 WHERE epoch = ?1",
                (epoch.0, peer.address, peer.key),
            )?;
            transaction.tell(NoticeKind::Gateway, &epoch.0.to_string());
            Ok(())
        })
        .await
    }

    /// Says which engines answer this gateway.
    pub(crate) async fn set_engines(
        self,
        epoch: Epoch,
        engines: &BTreeSet<EngineName>,
    ) -> Result<(), StoreError> {
        let text = serde_json::json!(engines).to_string();
        self.write("say which engines answer this gateway", move |transaction| {
            transaction.execute("UPDATE gateway SET engines = ?2 WHERE epoch = ?1", (epoch.0, text))?;
            transaction.tell(NoticeKind::Gateway, &epoch.0.to_string());
            Ok(())
        })
        .await
    }

    /// Ends this gateway. It can't change anything after that.
    pub(crate) async fn leave(self, epoch: Epoch) -> Result<(), StoreError> {
        self.write("say that this gateway ends", move |transaction| {
            let now = transaction.clock()?;
            end(transaction, &[epoch], epoch, now)
        })
        .await
    }
}

#[cfg(test)]
#[path = "gateway_tests.rs"]
mod tests;

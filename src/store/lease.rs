//! Leases: which gateway does what only one may do at a time.
//!
//! A subject is free or belongs to a gateway that was not ended. It is taken when it is free, and given up by its owner.
//! Nothing is taken from an owner: who ends a gateway frees all that it owned in the same change. All changes are serial, so
//! a subject never has two owners. The gateways decide by `swarm::lease` what they take and give up.

use std::collections::{BTreeMap, BTreeSet};

use super::gateway::Epoch;
use super::notice::NoticeKind;
use super::sql::{self, Connection, OptionalExtension as _, Row, Transaction};
use super::subjects::Leases;
use super::{Database, Store, StoreError};
use crate::id::{AgentId, McpServerName};

/// The kinds of subjects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LeaseKind {
    /// An agent with its sessions, its requests, its sandbox and its files.
    Agent,
    /// A connection to another platform.
    Bridge,
    /// The merge train of a project.
    Train,
    /// An MCP server.
    Server,
    /// The call that tries if a used up quota can be used again.
    Probe,
    /// Everything that happens at certain times for the whole team.
    Clock,
}

impl LeaseKind {
    /// All kinds.
    pub const ALL: [Self; 6] =
        [Self::Agent, Self::Bridge, Self::Train, Self::Server, Self::Probe, Self::Clock];

    /// Returns its word in the database.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Bridge => "bridge",
            Self::Train => "train",
            Self::Server => "server",
            Self::Probe => "probe",
            Self::Clock => "clock",
        }
    }

    fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

/// A thing that one gateway at a time takes care of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseSubject {
    pub kind: LeaseKind,
    /// Its id among those of its kind; empty if there is one of the kind.
    pub name: String,
}

impl LeaseSubject {
    #[must_use]
    pub fn new(kind: LeaseKind, name: &str) -> Self {
        Self { kind, name: name.to_owned() }
    }

    /// Returns the subject of an agent, with its sessions and its files.
    #[must_use]
    pub fn agent(agent: &AgentId) -> Self {
        Self::new(LeaseKind::Agent, agent.as_str())
    }

    /// Returns the subject of an MCP server whose program runs at one gateway.
    #[must_use]
    pub(crate) fn server(server: &McpServerName) -> Self {
        Self::new(LeaseKind::Server, server.as_str())
    }

    /// Returns the agent of such a subject. An id that this version does not allow belongs to nobody.
    #[must_use]
    pub fn as_agent(&self) -> Option<AgentId> {
        if self.kind == LeaseKind::Agent { self.name.parse().ok() } else { None }
    }

    /// Returns the subject of everything that happens at certain times for the whole team.
    #[must_use]
    pub const fn clock() -> Self {
        Self { kind: LeaseKind::Clock, name: String::new() }
    }
}

/// The row of a subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub subject: LeaseSubject,
    /// The gateway that takes care of it; `None` while it is free.
    pub owner: Option<Epoch>,
    /// The number of owners that it has had. What is outside of the database can tell an earlier owner by it.
    pub token: i64,
}

/// All leases, as they were at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeaseTable {
    pub(crate) leases: BTreeMap<LeaseSubject, Lease>,
    /// The text that the database had then for the state of its leases; `None` if there was none yet.
    mark: Option<String>,
}

/// Returns the lease of a row, or `None` if a newer version knows more kinds.
fn lease(row: &Row<'_>) -> sql::Result<Option<Lease>> {
    let word: String = row.get(0)?;
    let Some(kind) = LeaseKind::named(&word) else { return Ok(None) };
    let subject = LeaseSubject { kind, name: row.get(1)? };
    let owner: Option<i64> = row.get(2)?;
    Ok(Some(Lease { subject, owner: owner.map(Epoch), token: row.get(3)? }))
}

/// Returns the names of subjects by their kinds, each list as JSON, so that one statement serves all of a kind.
fn by_kind(subjects: &BTreeSet<LeaseSubject>) -> Vec<(LeaseKind, String)> {
    let mut names: BTreeMap<LeaseKind, Vec<&str>> = BTreeMap::new();
    for subject in subjects {
        names.entry(subject.kind).or_default().push(&subject.name);
    }
    names.into_iter().map(|(kind, names)| (kind, serde_json::json!(names).to_string())).collect()
}

fn all(connection: &Connection<'_>) -> sql::Result<Vec<Lease>> {
    let found: Vec<Option<Lease>> = connection
        .prepare_cached("SELECT kind, subject, epoch, token FROM lease ORDER BY kind, subject")?
        .query_map((), lease)?
        .collect::<sql::Result<_>>()?;
    Ok(found.into_iter().flatten().collect())
}

/// Notes that leases have changed.
///
/// The text is random, because a fail-over to a server that lacks the newest changes would give a number a second time.
pub(super) fn note_change(transaction: &Transaction<'_>) -> sql::Result<()> {
    let mark = crate::id::hex(&rand::random::<[u8; 16]>());
    transaction
        .prepare_cached(
            "INSERT INTO lease_change (id, mark) VALUES (1, ?1)
             ON CONFLICT (id) DO UPDATE SET mark = excluded.mark",
        )?
        .execute([mark.as_str()])
        .map(drop)
}

/// Frees everything that a gateway owns, which has ended.
pub(super) fn free(transaction: &Transaction<'_>, owner: Epoch, now: i64) -> sql::Result<()> {
    transaction
        .prepare_cached("UPDATE lease SET epoch = NULL, since = ?2 WHERE epoch = ?1")?
        .execute((owner.0, now))?;
    note_change(transaction)
}

impl<A> Leases<&Database<A>> {
    /// Returns all leases.
    pub(crate) async fn list(self) -> Result<Vec<Lease>, StoreError> {
        self.read("look which gateway does what", all).await
    }

    /// Returns all leases, or `None` if they are still as `known`. Large teams have many, which seldom change.
    pub(crate) async fn changed(self, known: &LeaseTable) -> Result<Option<LeaseTable>, StoreError> {
        self.read("look which gateway does what", |connection| {
            let mark: Option<String> = connection
                .prepare_cached("SELECT mark FROM lease_change WHERE id = 1")?
                .query_row((), |row| row.get(0))
                .optional()?;
            if mark == known.mark {
                return Ok(None);
            }
            // Read after the mark. What changes in between is there already, and is read once more the next time.
            let leases = all(connection)?.into_iter().map(|lease| (lease.subject.clone(), lease));
            Ok(Some(LeaseTable { leases: leases.collect(), mark }))
        })
        .await
    }
}

impl Leases<&Store> {
    /// Takes those of these subjects that are free, and returns them.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Fenced`] if the gateway was ended.
    pub(crate) async fn take(
        self,
        owner: Epoch,
        subjects: BTreeSet<LeaseSubject>,
    ) -> Result<Vec<Lease>, StoreError> {
        self.write("take over work", move |transaction| {
            let lives: bool = transaction
                .prepare_cached(
                    "SELECT EXISTS (SELECT 1 FROM gateway WHERE epoch = ?1 AND ended_at IS NULL)",
                )?
                .query_row([owner.0], |row| row.get(0))?;
            if !lives {
                return Err(sql::Error::Fenced);
            }
            let now = transaction.clock()?;
            let mut taken = Vec::new();
            for (kind, names) in by_kind(&subjects) {
                let mut statement = transaction.prepare_cached(
                    "INSERT INTO lease (kind, subject, epoch, token, since)
                     SELECT CAST(?1 AS TEXT), value, CAST(?2 AS BIGINT), 1, CAST(?3 AS BIGINT)
                     FROM json_each(CAST(?4 AS TEXT)) WHERE true
                     ON CONFLICT (kind, subject) DO UPDATE
                         SET epoch = excluded.epoch, token = lease.token + 1, since = excluded.since
                         WHERE lease.epoch IS NULL
                     RETURNING kind, subject, epoch, token",
                )?;
                let found: Vec<Option<Lease>> = statement
                    .query_map((kind.as_str(), owner.0, now, names), lease)?
                    .collect::<sql::Result<_>>()?;
                taken.extend(found.into_iter().flatten());
            }
            // Work begins at once. A crash of the server must not give it to another gateway as well.
            if !taken.is_empty() {
                note_change(transaction)?;
                transaction.wait_for_disk()?;
                transaction.tell(NoticeKind::Lease, "");
            }
            taken.sort_by(|one, other| one.subject.cmp(&other.subject));
            Ok(taken)
        })
        .await
    }

    /// Gives up those of these subjects that the gateway owns, and returns their number. Nothing may be at work on them any
    /// more.
    pub(crate) async fn give_up(
        self,
        owner: Epoch,
        subjects: BTreeSet<LeaseSubject>,
    ) -> Result<usize, StoreError> {
        self.write("give up work", move |transaction| {
            let now = transaction.clock()?;
            let mut freed = 0;
            for (kind, names) in by_kind(&subjects) {
                freed += transaction
                    .prepare_cached(
                        "UPDATE lease SET epoch = NULL, since = ?3 WHERE kind = ?1 AND epoch = ?2
                         AND subject IN (SELECT value FROM json_each(CAST(?4 AS TEXT)))",
                    )?
                    .execute((kind.as_str(), owner.0, now, names))?;
            }
            if freed > 0 {
                note_change(transaction)?;
                transaction.tell(NoticeKind::Lease, "");
            }
            Ok(freed)
        })
        .await
    }
}

#[cfg(test)]
#[path = "lease_tests.rs"]
mod tests;

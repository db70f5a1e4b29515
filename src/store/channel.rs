//! Channels and their members: creating, reading and changing them.

use std::collections::HashMap;

use super::audit::{self, AuditEntry};
use super::outbox;
use super::post::{self, CommittedPost, NewPost};
use super::session::parsed;
use super::sql::{
    self, Connection, FromSql, FromSqlError, FromSqlResult, OptionalExtension as _, Row, ToSql, ToSqlResult,
    Transaction, ValueRef,
};
use super::subjects::Channels;
use super::{Database, Store, StoreError};
use crate::id::{AgentId, ChannelId, Party};

/// The lifecycle state of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChannelState {
    /// Accepts new messages.
    Active,
    /// Accepts messages while its members review it before it ends.
    Archiving,
    /// Is kept for reading only.
    Archived,
}

impl ChannelState {
    /// Returns the name that the database and the API use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Archiving => "archiving",
            Self::Archived => "archived",
        }
    }
}

impl FromSql for ChannelState {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value.as_str()? {
            "active" => Ok(Self::Active),
            "archiving" => Ok(Self::Archiving),
            "archived" => Ok(Self::Archived),
            _ => Err(FromSqlError::InvalidType),
        }
    }
}

impl ToSql for ChannelState {
    fn to_sql(&self) -> ToSqlResult<'_> {
        Ok(self.as_str().into())
    }
}

/// A stored channel with its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    /// The id in the case it was created with; look-ups ignore case.
    pub id: ChannelId,
    /// The name shown to people.
    pub name: String,
    pub topic: String,
    pub created_by: Party,
    /// Unix milliseconds.
    pub created_at: i64,
    pub state: ChannelState,
    /// `Some` while the channel is being archived.
    pub archiving: Option<PendingArchive>,
    /// Unix milliseconds; `None` unless it is archived.
    pub archived_at: Option<i64>,
    /// The sequence number of the last message; 0 without messages.
    pub last_seq: u64,
    /// Sorted by the members' names.
    pub members: Vec<Member>,
}

/// An archive in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingArchive {
    /// Unix milliseconds.
    pub since: i64,
    pub by: Party,
    /// Unix milliseconds at which the archive ends even if some agents are not ready.
    pub due_at: i64,
}

/// A member of a channel, an agent or a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub party: Party,
    /// Unix milliseconds.
    pub joined_at: i64,
    /// Unix milliseconds at which it reported ready for an archive in progress.
    pub ready_at: Option<i64>,
}

impl Channel {
    /// Returns the members that are agents.
    pub fn agents(&self) -> impl Iterator<Item = &AgentId> {
        self.members.iter().filter_map(|member| member.party.agent())
    }

    /// Returns `true` if `party` is a member.
    #[must_use]
    pub fn has(&self, party: &Party) -> bool {
        self.members.iter().any(|member| member.party == *party)
    }
}

/// A channel to be created.
#[derive(Clone, Debug)]
pub struct NewChannel {
    pub id: ChannelId,
    pub topic: String,
    pub created_by: Party,
    pub members: Vec<Party>,
    /// The current time in Unix milliseconds.
    pub now: i64,
}

/// A change of a channel's members.
#[derive(Clone, Debug)]
pub struct MemberChange {
    pub channel: ChannelId,
    pub add: Vec<Party>,
    pub remove: Vec<Party>,
    /// The current time in Unix milliseconds.
    pub now: i64,
}

/// The result of a change of members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Parties that were not members before.
    pub joined: Vec<Party>,
    /// Parties that were members before.
    pub left: Vec<Party>,
    /// The notice in the channel; `None` if nothing changed.
    pub posted: Option<CommittedPost>,
}

const COLUMNS: &str = "id, name, topic, created_by, created_at, state, archiving_at, archiving_by,
    archive_due_at, archived_at, last_seq";

fn channel(row: &Row<'_>) -> sql::Result<Channel> {
    let since: Option<i64> = row.get(6)?;
    // The three columns of an archive in progress are set and cleared together.
    let archiving = match since {
        Some(since) => Some(PendingArchive { since, by: parsed(row, 7)?, due_at: row.get(8)? }),
        None => None,
    };
    Ok(Channel {
        id: parsed(row, 0)?,
        name: row.get(1)?,
        topic: row.get(2)?,
        created_by: parsed(row, 3)?,
        created_at: row.get(4)?,
        state: row.get(5)?,
        archiving,
        archived_at: row.get(9)?,
        last_seq: row.get::<i64>(10)?.unsigned_abs(),
        members: Vec::new(),
    })
}

/// Finds a channel and its members.
pub(super) fn find(connection: &Connection<'_>, id: &ChannelId) -> sql::Result<Option<Channel>> {
    let found = connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM channel WHERE id = ?1"))?
        .query_row([id.as_str()], channel)
        .optional()?;
    let Some(mut found) = found else { return Ok(None) };
    found.members = members(connection, &found.id)?;
    Ok(Some(found))
}

fn members(connection: &Connection<'_>, id: &ChannelId) -> sql::Result<Vec<Member>> {
    connection
        .prepare_cached("SELECT member, joined_at, ready_at FROM member WHERE channel = ?1 ORDER BY member")?
        .query_map([id.as_str()], a_member)?
        .collect()
}

fn a_member(row: &Row<'_>) -> sql::Result<Member> {
    Ok(Member { party: parsed(row, 0)?, joined_at: row.get(1)?, ready_at: row.get(2)? })
}

fn list(
    connection: &Connection<'_>,
    member: Option<&Party>,
    state: Option<ChannelState>,
) -> sql::Result<Vec<Channel>> {
    let of = member.map(Party::to_string);
    let mut found: Vec<Channel> = connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM channel WHERE (CAST(?1 AS TEXT) IS NULL OR state = ?1) AND
             (CAST(?2 AS TEXT) IS NULL OR id IN (SELECT channel FROM member WHERE member = ?2)) ORDER BY created_at, id"
        ))?
        .query_map((state, of.as_deref()), channel)?
        .collect::<sql::Result<_>>()?;
    // All members are read with one query: a query for each channel would make the list slow.
    let mut of_each: HashMap<String, Vec<Member>> = HashMap::new();
    let mut statement = connection.prepare_cached(
        "SELECT member.member, joined_at, ready_at, channel FROM member JOIN channel ON channel.id = channel
         WHERE (CAST(?1 AS TEXT) IS NULL OR state = ?1) AND
         (CAST(?2 AS TEXT) IS NULL OR channel IN (SELECT channel FROM member WHERE member = ?2)) ORDER BY member.member",
    )?;
    let mut rows = statement.query((state, of.as_deref()))?;
    while let Some(row) = rows.next()? {
        of_each.entry(row.get(3)?).or_default().push(a_member(&row)?);
    }
    for one in &mut found {
        one.members = of_each.remove(one.id.as_str()).unwrap_or_default();
    }
    Ok(found)
}

/// Adds parties that are not members yet, and returns them.
///
/// A new agent's delivery position is set so that it receives the newest [`BACKLOG_MESSAGES`] messages, not the whole history.
pub(super) fn join(
    transaction: &Transaction<'_>,
    id: &ChannelId,
    parties: &[Party],
    now: i64,
) -> sql::Result<Vec<Party>> {
    let mut joined = Vec::new();
    for party in parties {
        let is_new = transaction
            .prepare_cached(
                "INSERT INTO member (channel, member, joined_at) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
            )?
            .execute((id.as_str(), party.to_string(), now))?;
        if is_new == 1 {
            joined.push(party.clone());
            // Only agents have a delivery position. People read a channel by themselves.
            if let Party::Agent(agent) = party {
                // An agent that was a member before does not go back: it has received those messages already.
                transaction
                    .prepare_cached(
                        "INSERT INTO delivery (agent, channel, delivered_seq)
                         SELECT ?1, id, max(0, last_seq - ?3) FROM channel WHERE id = ?2
                         ON CONFLICT (agent, channel)
                         DO UPDATE SET delivered_seq = max(delivery.delivered_seq, excluded.delivered_seq)",
                    )?
                    .execute((agent.as_str(), id.as_str(), BACKLOG_MESSAGES))?;
            }
        }
    }
    Ok(joined)
}

/// The number of past messages that a new member receives.
const BACKLOG_MESSAGES: i64 = 50;

impl<A> Channels<&Database<A>> {
    /// Counts the channels in each state.
    pub(crate) async fn counts(self) -> Result<Vec<(ChannelState, u64)>, StoreError> {
        self.read("count channels", |connection| {
            connection
                .prepare_cached("SELECT state, count(*) FROM channel GROUP BY state")?
                .query_map((), |row| Ok((row.get(0)?, row.get::<i64>(1)?.unsigned_abs())))?
                .collect()
        })
        .await
    }

    /// Returns the agents that are members of at least one channel that is not archived.
    pub(crate) async fn member_agents(self) -> Result<Vec<AgentId>, StoreError> {
        self.read("list members", |connection| {
            let parties: Vec<Party> = connection
                .prepare_cached(
                    "SELECT DISTINCT member FROM member JOIN channel ON channel.id = member.channel
                     WHERE channel.state <> 'archived'",
                )?
                .query_map((), |row| parsed(row, 0))?
                .collect::<sql::Result<_>>()?;
            Ok(parties.into_iter().filter_map(|party| party.agent().cloned()).collect())
        })
        .await
    }

    /// Returns the channels that are being archived, with the Unix milliseconds at which each is due.
    pub(crate) async fn pending_archives(self) -> Result<Vec<(ChannelId, i64)>, StoreError> {
        self.read("list archives", |connection| {
            connection
                .prepare_cached("SELECT id, archive_due_at FROM channel WHERE state = 'archiving'")?
                .query_map((), |row| Ok((parsed(row, 0)?, row.get(1)?)))?
                .collect()
        })
        .await
    }

    /// Finds a channel by its id, ignoring case.
    pub async fn find(self, id: &ChannelId) -> Result<Option<Channel>, StoreError> {
        self.read("read a channel", |connection| find(connection, id)).await
    }

    /// Lists channels, oldest first, optionally only those of a member or in a state.
    pub async fn list(
        self,
        member: Option<&Party>,
        state: Option<ChannelState>,
    ) -> Result<Vec<Channel>, StoreError> {
        let member = member.cloned();
        self.read_long("list channels", move |connection| list(connection, member.as_ref(), state)).await
    }
}

impl Channels<&Store> {
    /// Creates a channel, with its first message if there is one. Returns `None` if a channel with this id exists, in
    /// any case.
    pub async fn create(
        self,
        new: NewChannel,
        first: Option<NewPost>,
        entry: AuditEntry,
    ) -> Result<Option<(Channel, Option<CommittedPost>)>, StoreError> {
        self.write("create a channel", move |transaction| {
            let made = transaction
                .prepare_cached(
                    "INSERT INTO channel (id, name, topic, created_by, created_at)
                     VALUES (?1, ?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING",
                )?
                .execute((new.id.as_str(), &new.topic, new.created_by.to_string(), new.now))?;
            // Ids compare without case in the schema, so `Dev` conflicts with `dev` here.
            if made == 0 {
                return Ok(None);
            }
            // Members come before the first message, whose recipients are read from the member table.
            join(transaction, &new.id, &new.members, new.now)?;
            audit::append(transaction, &entry, new.now)?;
            let posted = match first {
                Some(first) => post::post(transaction, &first)?.posted(),
                None => None,
            };
            Ok(find(transaction, &new.id)?.map(|channel| (channel, posted)))
        })
        .await
    }

    /// Changes the shown name or the topic of a channel, or both, and posts a notice. The id stays.
    ///
    /// Returns `None` if the channel does not exist or is archived.
    pub(crate) async fn update(
        self,
        id: ChannelId,
        name: Option<String>,
        topic: Option<String>,
        notice: NewPost,
        entry: AuditEntry,
    ) -> Result<Option<CommittedPost>, StoreError> {
        self.write("rename a channel", move |transaction| {
            let changed = transaction
                .prepare_cached(
                    "UPDATE channel SET name = coalesce(?2, name), topic = coalesce(?3, topic)
                     WHERE id = ?1 AND state <> 'archived'",
                )?
                .execute((id.as_str(), &name, &topic))?;
            if changed == 0 {
                return Ok(None);
            }
            audit::append(transaction, &entry, notice.now)?;
            if topic.is_some() {
                outbox::queue_topic(transaction, id.as_str(), notice.now)?;
            }
            Ok(post::post(transaction, &notice)?.posted())
        })
        .await
    }

    /// Adds and removes members, and posts a notice that `notice` makes from those who joined and left.
    ///
    /// Returns `None` if the channel does not exist or is archived.
    pub(crate) async fn change_members(
        self,
        change: MemberChange,
        notice: impl Fn(&[Party], &[Party]) -> NewPost + Send + 'static,
        entry: AuditEntry,
    ) -> Result<Option<Changed>, StoreError> {
        self.write("change a channel's members", move |transaction| {
            // Checked within the transaction: the channel may have been archived since the caller looked.
            let found = find(transaction, &change.channel)?;
            if found.is_none_or(|channel| channel.state == ChannelState::Archived) {
                return Ok(None);
            }
            let joined = join(transaction, &change.channel, &change.add, change.now)?;
            let mut left = Vec::new();
            for party in &change.remove {
                let gone = transaction
                    .prepare_cached("DELETE FROM member WHERE channel = ?1 AND member = ?2")?
                    .execute((change.channel.as_str(), party.to_string()))?;
                if gone == 1 {
                    left.push(party.clone());
                }
            }
            // A change that changes nothing leaves neither a notice nor an audit row.
            if joined.is_empty() && left.is_empty() {
                return Ok(Some(Changed::default()));
            }
            audit::append(transaction, &entry, change.now)?;
            // Parties that have just left are no longer among the recipients.
            let posted = post::post(transaction, &notice(&joined, &left))?.posted();
            Ok(Some(Changed { joined, left, posted }))
        })
        .await
    }
}

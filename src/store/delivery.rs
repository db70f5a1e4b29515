//! Deliveries: how far each agent has been given each channel, and what the turn under way was given. A
//! turn takes what is new as a batch; when its input is in the transcript, the batch is delivered.

use rusqlite::{Connection, OptionalExtension as _, Transaction};

use super::channel::{self, Channel, ChannelState};
use super::post::{Mentioned, Wake, number};
use super::session::parsed;
use super::{Store, StoreError};
use crate::id::{AgentId, ChannelId, Party, SessionKey, TurnId};

/// What a turn is given of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The channel with its members.
    pub channel: Channel,
    /// The messages, the oldest first; none of the agent's own.
    pub messages: Vec<Given>,
    /// The number after which they begin.
    pub after: u64,
    /// The number that the delivery ends with; later ones come with the next.
    pub up_to: u64,
    /// How many messages of others came after these, counted up to [`MOST_COUNTED`].
    pub more: u64,
}

/// A message as a turn is given it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// Its number.
    pub seq: u64,
    /// Who said it.
    pub author: Party,
    /// Whom it mentions.
    pub mentions: Mentioned,
    /// Its length in bytes.
    pub size: usize,
    /// What it says; `None` where that is longer than all texts of the batch may be.
    pub content: Option<String>,
}

/// So many messages are counted that come after a batch. There may be more.
pub const MOST_COUNTED: u64 = 1000;

/// Messages of others that an agent has not been given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unseen {
    /// Whose delivery it is.
    pub agent: AgentId,
    /// Of which channel.
    pub channel: ChannelId,
    /// The most urgent of them for this agent.
    pub wake: Wake,
    /// Whether one of them is a person's.
    pub human: bool,
    /// Whether one of them mentions the agent.
    pub mention: bool,
}

/// A delivery that was under way when a process died.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// Whose.
    pub agent: AgentId,
    /// Of which channel.
    pub channel: ChannelId,
    /// To which turn.
    pub turn: TurnId,
    /// Up to which number.
    pub up_to: u64,
}

/// What a batch may hold.
#[derive(Clone, Copy, Debug)]
pub struct BatchLimits {
    /// Messages.
    pub messages: u32,
    /// Bytes of all their texts; the first message is always taken.
    pub bytes: usize,
    /// Which message is in a batch of its own: others before it are given before it, others after it later.
    pub alone: fn(&Given) -> bool,
    /// Whether such a message may be given now; if not, it waits, and what comes after it with it.
    pub may_be_alone: bool,
}

fn position(
    transaction: &Connection,
    agent: &AgentId,
    id: &str,
) -> rusqlite::Result<Option<(i64, Option<i64>)>> {
    transaction
        .prepare_cached("SELECT delivered_seq, inflight_seq FROM delivery WHERE agent = ?1 AND channel = ?2")?
        .query_row((agent.as_str(), id), |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()
}

/// The turn that was given something which it has not ended yet.
fn taken_by(connection: &Connection, agent: &AgentId, id: &str) -> rusqlite::Result<Option<String>> {
    connection
        .prepare_cached("SELECT inflight_turn FROM delivery WHERE agent = ?1 AND channel = ?2")?
        .query_row((agent.as_str(), id), |row| row.get(0))
        .optional()
        .map(Option::flatten)
}

fn take(
    transaction: &Transaction<'_>,
    agent: &AgentId,
    id: &ChannelId,
    turn: TurnId,
    limits: BatchLimits,
) -> rusqlite::Result<Option<Batch>> {
    let Some(channel) = channel::find(transaction, id)? else { return Ok(None) };
    if !is_told(&channel, agent) {
        return Ok(None);
    }
    if taken_by(transaction, agent, channel.id.as_str())?.is_some_and(|other| other != turn.to_string()) {
        // To go on after what another turn was given, and has not ended, would pass over it for good.
        return Ok(None);
    }
    let (delivered, inflight) = position(transaction, agent, channel.id.as_str())?.unwrap_or_default();
    let after = inflight.unwrap_or(delivered).max(delivered);
    let messages = given(transaction, agent, &channel.id, after, limits)?;
    let Some(last) = messages.last() else { return Ok(None) };
    let mut up_to = number(last.seq);
    let more: i64 = transaction
        .prepare_cached(
            "SELECT count(*) FROM
             (SELECT 1 FROM message WHERE channel = ?1 AND seq > ?2 AND author <> ?3 LIMIT ?4)",
        )?
        .query_row((channel.id.as_str(), up_to, agent.as_str(), number(MOST_COUNTED)), |row| row.get(0))?;
    if more == 0 {
        // What follows is the agent's own.
        up_to = number(channel.last_seq);
    }
    transaction
        .prepare_cached(
            "INSERT INTO delivery (agent, channel, delivered_seq, inflight_seq, inflight_turn)
             VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT DO UPDATE SET inflight_seq = excluded.inflight_seq, inflight_turn = excluded.inflight_turn",
        )?
        .execute((agent.as_str(), channel.id.as_str(), delivered, up_to, turn.to_string()))?;
    Ok(Some(Batch {
        channel,
        messages,
        after: after.unsigned_abs(),
        up_to: up_to.unsigned_abs(),
        more: more.unsigned_abs(),
    }))
}

/// The messages after a number, as many as there is room for. A text that is only named is not read.
fn given(
    connection: &Connection,
    agent: &AgentId,
    id: &ChannelId,
    after: i64,
    limits: BatchLimits,
) -> rusqlite::Result<Vec<Given>> {
    let mut statement = connection.prepare_cached(
        "SELECT seq, author, mentions, octet_length(content),
            CASE WHEN octet_length(content) <= ?5 THEN content END
         FROM message WHERE channel = ?1 AND seq > ?2 AND author <> ?3 ORDER BY seq LIMIT ?4",
    )?;
    let most = i64::try_from(limits.bytes).unwrap_or(i64::MAX);
    let mut rows = statement.query((id.as_str(), after, agent.as_str(), limits.messages, most))?;
    let mut room = limits.bytes;
    let mut messages = Vec::new();
    while let Some(row) = rows.next()? {
        let size = usize::try_from(row.get::<_, i64>(3)?).unwrap_or(0);
        // A long one is shown by its number only, so it takes no more room than one that fits.
        let takes = size.min(limits.bytes / 2);
        if !messages.is_empty() && takes > room {
            break;
        }
        room = room.saturating_sub(takes);
        let given = Given {
            seq: row.get::<_, i64>(0)?.unsigned_abs(),
            author: parsed(row, 1)?,
            mentions: Mentioned::from_column(row.get_ref(2)?.as_str_or_null()?),
            size,
            content: row.get(4)?,
        };
        if (limits.alone)(&given) {
            if messages.is_empty() && limits.may_be_alone {
                messages.push(given);
            }
            break;
        }
        messages.push(given);
    }
    Ok(messages)
}

/// Whether an agent is told of a channel's messages.
fn is_told(channel: &Channel, agent: &AgentId) -> bool {
    channel.state != ChannelState::Archived && channel.agents().any(|member| member == agent)
}

/// How many of the newest unseen messages say how urgent they are together.
const JUDGED: i64 = 500;

/// What is unseen of one channel for one agent, if it wakes it at all. Only what wakes is looked at, however
/// much of what doesn't lies before it.
fn unseen(connection: &Connection, agent: &AgentId, id: &ChannelId) -> rusqlite::Result<Option<Unseen>> {
    let (delivered, inflight) = position(connection, agent, id.as_str())?.unwrap_or_default();
    let after = inflight.unwrap_or(delivered).max(delivered);
    let found: (Option<Wake>, bool, bool) = connection
        .prepare_cached(
            "SELECT max(wake), coalesce(max(author LIKE 'human:%'), 0),
                coalesce(max(instr(mentions, ?4) > 0 OR mentions = ' * '), 0)
             FROM (SELECT wake, author, mentions FROM message INDEXED BY message_waking
                   WHERE channel = ?1 AND seq > ?2 AND wake > 0 AND author <> ?3 ORDER BY seq DESC LIMIT ?5)",
        )?
        .query_row((id.as_str(), after, agent.as_str(), format!(" {agent} "), JUDGED), |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?;
    Ok(match found {
        (None | Some(Wake::Nobody), ..) => None,
        (Some(wake), human, mention) => {
            Some(Unseen { agent: agent.clone(), channel: id.clone(), wake, human, mention })
        }
    })
}

/// What is unseen for the agents among these members.
fn all_of(connection: &Connection, members: &[(Party, ChannelId)]) -> rusqlite::Result<Vec<Unseen>> {
    let agents = members.iter().filter_map(|(party, id)| Some((party.agent()?, id)));
    let found = agents.filter_map(|(agent, id)| unseen(connection, agent, id).transpose());
    found.collect()
}

fn newest(connection: &Connection) -> rusqlite::Result<i64> {
    connection.prepare_cached("SELECT coalesce(max(id), 0) FROM message")?.query_row((), |row| row.get(0))
}

impl Store {
    /// Takes what is new in a channel for a turn, after what that turn was given already; `None` where
    /// nothing is, or the agent is no member.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn take_batch(
        &self,
        agent: AgentId,
        channel: ChannelId,
        turn: TurnId,
        limits: BatchLimits,
    ) -> Result<Option<Batch>, StoreError> {
        self.write("take new messages", move |transaction| take(transaction, &agent, &channel, turn, limits))
            .await
    }

    /// Ends a delivery: up to `delivered` it is in the transcript of `turn`, the rest is new again.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn end_delivery(
        &self,
        agent: AgentId,
        channel: ChannelId,
        turn: TurnId,
        delivered: Option<u64>,
    ) -> Result<(), StoreError> {
        self.write("end a delivery", move |transaction| {
            transaction
                .prepare_cached(
                    "UPDATE delivery SET delivered_seq = max(delivered_seq, min(?4, coalesce(
                     (SELECT last_seq FROM channel WHERE channel.id = delivery.channel), 0))), inflight_seq = NULL,
                     inflight_turn = NULL WHERE agent = ?1 AND channel = ?2 AND inflight_turn = ?3",
                )?
                .execute((agent.as_str(), channel.as_str(), turn.to_string(), delivered.map_or(0, number)))
                .map(drop)
        })
        .await
    }

    /// Takes note, while the turn goes on, that the transcript holds everything up to `delivered`.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn delivered(
        &self,
        agent: AgentId,
        channel: ChannelId,
        turn: TurnId,
        delivered: u64,
    ) -> Result<(), StoreError> {
        self.write("note a delivery", move |transaction| {
            transaction
                .prepare_cached(
                    "UPDATE delivery SET delivered_seq = max(delivered_seq, min(?4, coalesce(
                     (SELECT last_seq FROM channel WHERE channel.id = delivery.channel), 0)))
                     WHERE agent = ?1 AND channel = ?2 AND inflight_turn = ?3",
                )?
                .execute((agent.as_str(), channel.as_str(), turn.to_string(), number(delivered)))
                .map(drop)
        })
        .await
    }

    /// Sets positions back that point past the last message of their channel: a disk that lost writes can leave them
    /// behind, and messages with those numbers would never be shown. Gives how many there were.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn set_back_positions(&self) -> Result<usize, StoreError> {
        self.write("set positions back", |transaction| {
            // The last message of a channel is never forgotten, so one that is missing was lost.
            let channels = transaction.execute(
                "UPDATE channel SET last_seq = newest
                 FROM (SELECT id AS place, coalesce((SELECT max(seq) FROM message WHERE message.channel = channel.id), 0)
                       AS newest FROM channel)
                 WHERE id = place AND last_seq > newest",
                (),
            )?;
            let positions = transaction.execute(
                "UPDATE delivery SET delivered_seq = min(delivered_seq, last), inflight_seq = min(inflight_seq, last)
                 FROM (SELECT id, last_seq AS last FROM channel)
                 WHERE id = delivery.channel AND (delivered_seq > last OR inflight_seq > last)",
                (),
            )?;
            Ok(channels + positions)
        })
        .await
    }

    /// Sets back what a member was given of a channel to this message, where it was further; says whether it was.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn set_back_position(
        &self,
        agent: AgentId,
        channel: ChannelId,
        to: u64,
    ) -> Result<bool, StoreError> {
        self.write("set a position back", move |transaction| {
            let changed = transaction.execute(
                "UPDATE delivery SET delivered_seq = ?3
                 WHERE agent = ?1 AND channel = ?2 AND delivered_seq > ?3",
                (agent.as_str(), channel.as_str(), i64::try_from(to).unwrap_or(i64::MAX)),
            )?;
            Ok(changed > 0)
        })
        .await
    }

    /// The deliveries that an earlier process left under way.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn deliveries_in_flight(&self) -> Result<Vec<InFlight>, StoreError> {
        self.read("list deliveries", |connection| {
            connection
                .prepare("SELECT agent, channel, inflight_turn, inflight_seq FROM delivery WHERE inflight_turn IS NOT NULL")?
                .query_map((), |row| {
                    Ok(InFlight {
                        agent: parsed(row, 0)?,
                        channel: parsed(row, 1)?,
                        turn: parsed(row, 2)?,
                        up_to: row.get::<_, i64>(3)?.unsigned_abs(),
                    })
                })?
                .collect()
        })
    }

    /// The turns that were given something of this session's which they have not ended yet, be it of its channel or of
    /// what waited for it.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn turns_in_flight(&self, session: &SessionKey) -> Result<Vec<TurnId>, StoreError> {
        let channel = session.channel();
        self.read("list deliveries", |connection| {
            connection
                .prepare_cached(
                    "SELECT inflight_turn FROM delivery
                     WHERE agent = ?1 AND channel = ?2 AND inflight_turn IS NOT NULL
                     UNION SELECT turn FROM inbox WHERE session = ?3 AND turn IS NOT NULL",
                )?
                .query_map(
                    (session.agent().as_str(), channel.as_ref().map(ChannelId::as_str), session.as_str()),
                    |row| parsed(row, 0),
                )?
                .collect()
        })
    }

    /// What is unseen of one channel for one agent, where it wakes it. Nothing is where a turn would be given
    /// nothing: the agent is no member, or the channel is archived.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn unseen(&self, agent: &AgentId, channel: &ChannelId) -> Result<Option<Unseen>, StoreError> {
        self.read("look for new messages", |connection| match channel::find(connection, channel)? {
            Some(found) if is_told(&found, agent) => unseen(connection, agent, &found.id),
            _ => Ok(None),
        })
    }

    /// The mark of the newest message, for [`Self::unseen_since`].
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn newest_message(&self) -> Result<i64, StoreError> {
        self.read("look for new messages", newest)
    }

    /// What is unseen and wakes somebody in the channels that have messages after `mark`, and the mark of the
    /// newest message: what this costs is a matter of what is new.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn unseen_since(&self, mark: i64) -> Result<(i64, Vec<Unseen>), StoreError> {
        self.read("look for new messages", |connection| {
            let newest = newest(connection)?;
            if newest <= mark {
                return Ok((mark, Vec::new()));
            }
            let members: Vec<(Party, ChannelId)> = connection
                .prepare_cached(
                    "SELECT member.member, channel.id FROM channel JOIN member ON member.channel = channel.id
                     WHERE channel.state <> 'archived'
                     AND channel.id IN (SELECT channel FROM message WHERE id > ?1)",
                )?
                .query_map([mark], |row| Ok((parsed(row, 0)?, parsed(row, 1)?)))?
                .collect::<rusqlite::Result<_>>()?;
            Ok((newest, all_of(connection, &members)?))
        })
    }

    /// All that is unseen and wakes somebody. Asked once, when a process begins.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn all_unseen(&self) -> Result<Vec<Unseen>, StoreError> {
        self.read("look for new messages", |connection| {
            let behind: Vec<(Party, ChannelId)> = connection
                .prepare(
                    "SELECT member.member, channel.id FROM channel
                     JOIN member ON member.channel = channel.id
                     LEFT JOIN delivery ON delivery.channel = channel.id AND delivery.agent = member.member
                     WHERE channel.state <> 'archived' AND channel.last_seq > coalesce(delivery.delivered_seq, 0)",
                )?
                .query_map((), |row| Ok((parsed(row, 0)?, parsed(row, 1)?)))?
                .collect::<rusqlite::Result<_>>()?;
            all_of(connection, &behind)
        })
    }
}

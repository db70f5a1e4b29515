//! Delivery of channel messages to agents.
//!
//! For each agent and channel the database stores two positions: the last message that was delivered, and the last one
//! that was given to the running turn. A turn takes new messages as a batch. The batch counts as delivered once the
//! turn's input is in the transcript.

use super::channel::{self, Channel, ChannelState};
use super::post::{PostMentions, WakeUrgency, number};
use super::schedule;
use super::session::parsed;
use super::sql::{self, Connection, OptionalExtension as _, Params, Row, Transaction};
use super::subjects::Deliveries;
use super::{Database, Store, StoreError};
use crate::id::{AgentId, ChannelId, Party, SessionKey, TurnId};

/// The messages of one channel that a turn receives together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The channel, with its members.
    pub channel: Channel,
    /// Oldest first, without the agent's own messages.
    pub messages: Vec<Given>,
    /// The sequence number after which the batch begins.
    pub after: u64,
    /// The sequence number that the delivery ends with; later messages belong to the next batch.
    pub up_to: u64,
    /// The number of later messages by others, counted up to [`MOST_COUNTED`].
    pub more: u64,
}

/// A message in a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    pub seq: u64,
    pub author: Party,
    pub mentions: PostMentions,
    /// The length of the text in bytes.
    pub size: usize,
    /// The text; `None` if it alone is longer than all texts of the batch may be together.
    pub content: Option<String>,
}

/// The limit up to which the messages after a batch are counted. There may be more.
pub const MOST_COUNTED: u64 = 1000;

/// Messages by others that an agent has not received yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnseenSummary {
    pub agent: AgentId,
    pub channel: ChannelId,
    /// The most urgent wake-up among them.
    pub wake: WakeUrgency,
    /// Set if one of them was written by a person.
    pub human: bool,
    /// Set if one of them mentions the agent.
    pub mention: bool,
}

/// A delivery that was in progress when a process died.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InFlightDelivery {
    pub agent: AgentId,
    pub channel: ChannelId,
    /// The turn that the messages were given to.
    pub turn: TurnId,
    /// The last sequence number that was given.
    pub up_to: u64,
}

/// The limits of a batch.
#[derive(Clone, Copy, Debug)]
pub struct BatchLimits {
    /// The most messages.
    pub messages: u32,
    /// The most bytes of all texts together; the first message is taken whatever its size.
    pub bytes: usize,
    /// Selects messages that must be alone in their batch. Messages before one are delivered earlier, those after it
    /// later.
    pub alone: fn(&Given) -> bool,
    /// Allows such a message now. If unset, it waits, and so does everything after it.
    pub may_be_alone: bool,
}

/// How far an agent has been given a channel.
#[derive(Default)]
struct Position {
    delivered: i64,
    /// The last message that the unfinished turn was given.
    inflight: Option<i64>,
    /// The turn that was given messages and has not ended its delivery yet.
    turn: Option<String>,
}

fn position(connection: &Connection<'_>, agent: &AgentId, id: &str) -> sql::Result<Option<Position>> {
    connection
        .prepare_cached(
            "SELECT delivered_seq, inflight_seq, inflight_turn FROM delivery WHERE agent = ?1 AND channel = ?2",
        )?
        .query_row((agent.as_str(), id), |row| {
            Ok(Position { delivered: row.get(0)?, inflight: row.get(1)?, turn: row.get(2)? })
        })
        .optional()
}

fn take(
    transaction: &Transaction<'_>,
    agent: &AgentId,
    id: &ChannelId,
    turn: TurnId,
    limits: BatchLimits,
) -> sql::Result<Option<Batch>> {
    let Some(channel) = channel::find(transaction, id)? else { return Ok(None) };
    if !receives_messages(&channel, agent) {
        return Ok(None);
    }
    let position = position(transaction, agent, channel.id.as_str())?.unwrap_or_default();
    if position.turn.is_some_and(|other| other != turn.to_string()) {
        // Continuing after messages that belong to another unfinished turn would skip them for good if that turn fails.
        return Ok(None);
    }
    let delivered = position.delivered;
    // A second batch for the same turn continues after its first one.
    let after = position.inflight.unwrap_or(delivered).max(delivered);
    let messages = given(transaction, agent, &channel.id, after, limits)?;
    let Some(last) = messages.last() else { return Ok(None) };
    let mut up_to = number(last.seq);
    let more: i64 = transaction
        .prepare_cached(
            "SELECT count(*) FROM
             (SELECT 1 FROM message WHERE channel = ?1 AND seq > ?2 AND author <> ?3 LIMIT ?4) AS unseen",
        )?
        .query_row((channel.id.as_str(), up_to, agent.as_str(), number(MOST_COUNTED)), |row| row.get(0))?;
    if more == 0 {
        // All further messages are the agent's own. Including them here saves a later delivery that would be empty.
        up_to = number(channel.last_seq);
    }
    transaction
        .prepare_cached(
            "INSERT INTO delivery (agent, channel, delivered_seq, inflight_seq, inflight_turn)
             VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (agent, channel)
             DO UPDATE SET inflight_seq = excluded.inflight_seq, inflight_turn = excluded.inflight_turn",
        )?
        .send((agent.as_str(), channel.id.as_str(), delivered, up_to, turn.to_string()))?;
    schedule::charge_batch(transaction, channel.id.as_str(), (after, up_to), &turn.to_string())?;
    Ok(Some(Batch {
        channel,
        messages,
        after: after.unsigned_abs(),
        up_to: up_to.unsigned_abs(),
        more: more.unsigned_abs(),
    }))
}

/// Reads the messages after a sequence number, as many as the limits allow. A text that is too long to be included is
/// not read.
fn given(
    connection: &Connection<'_>,
    agent: &AgentId,
    id: &ChannelId,
    after: i64,
    limits: BatchLimits,
) -> sql::Result<Vec<Given>> {
    let mut statement = connection.prepare_cached(
        "SELECT seq, author, mentions, octet_length(content),
            CASE WHEN octet_length(content) <= CAST(?5 AS BIGINT) THEN content END
         FROM message WHERE channel = ?1 AND seq > ?2 AND author <> ?3 ORDER BY seq LIMIT ?4",
    )?;
    let most = i64::try_from(limits.bytes).unwrap_or(i64::MAX);
    let mut rows = statement.query((id.as_str(), after, agent.as_str(), limits.messages, most))?;
    let mut room = limits.bytes;
    let mut messages = Vec::new();
    while let Some(row) = rows.next()? {
        let size = usize::try_from(row.get::<i64>(3)?).unwrap_or(0);
        // A long text is replaced by a reference to its number, so it is charged no more than half of the room.
        let takes = size.min(limits.bytes / 2);
        if !messages.is_empty() && takes > room {
            break;
        }
        room = room.saturating_sub(takes);
        let given = Given {
            seq: row.get::<i64>(0)?.unsigned_abs(),
            author: parsed(&row, 1)?,
            mentions: PostMentions::from_column(row.get_ref(2)?.as_str_or_null()?),
            size,
            content: row.get(4)?,
        };
        // A message that must be alone ends the batch: either before it, or with it as the only message.
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

/// Counts a message as read by the members that have read everything before it. It is not in a batch then.
pub(super) fn pass_over(transaction: &Transaction<'_>, channel: &str, seq: i64) -> sql::Result<()> {
    transaction
        .prepare_cached(
            "INSERT INTO delivery (agent, channel, delivered_seq)
             SELECT member, ?1, ?2 FROM member
             WHERE channel = ?1 AND member NOT LIKE 'human:%' AND member <> 'system'
                AND ?2 = 1 + coalesce((SELECT delivered_seq FROM delivery
                                       WHERE agent = member AND delivery.channel = ?1), 0)
             ON CONFLICT (agent, channel)
             DO UPDATE SET delivered_seq = excluded.delivered_seq WHERE delivery.inflight_seq IS NULL",
        )?
        .execute((channel, seq))
        .map(drop)
}

/// Returns `true` if an agent receives a channel's messages.
fn receives_messages(channel: &Channel, agent: &AgentId) -> bool {
    channel.state != ChannelState::Archived && channel.agents().any(|member| member == agent)
}

/// The members who receive messages, with the positions of their deliveries.
const RECEIVERS: &str = "channel JOIN member ON member.channel = channel.id
    LEFT JOIN delivery ON delivery.channel = channel.id AND delivery.agent = member.member
    WHERE channel.state <> 'archived' AND member.member NOT LIKE 'human:%' AND member.member <> 'system'";

/// The condition of a receiver who has not received everything.
const IS_BEHIND: &str = "channel.last_seq > coalesce(delivery.delivered_seq, 0)";

/// The unseen messages that wake a receiver. Those that the running turn was given do not count as unseen.
const WAKING: &str = "message WHERE message.channel = channel.id AND wake > 0 AND author <> member.member
    AND seq > max(coalesce(delivery.inflight_seq, 0), coalesce(delivery.delivered_seq, 0))";

/// The number of newest unseen messages that are considered to find the most urgent one.
const MAX_SCANNED: i64 = 500;

/// Summarizes the unseen messages that wake somebody, of all members for which a condition on `channel`, `member` and
/// `delivery` holds with one of these values.
///
/// One statement reads them all. With a server, a statement for each member would take as many ways through the network,
/// and thousands of members are looked up together. Only messages that wake somebody are read. The index on them keeps
/// this cheap even behind a long run of messages that wake nobody.
fn unseen(
    connection: &Connection<'_>,
    condition: &str,
    each: impl IntoIterator<Item = impl Params>,
) -> sql::Result<Vec<UnseenSummary>> {
    // Mentions are stored with a space on both sides of each id, so `a` is not found inside `ab`. Three facts come as one
    // number, because a query in this place gives one.
    let mut statement = connection.prepare_cached(&format!(
        "SELECT agent, place, urgency FROM (
            SELECT member.member AS agent, channel.id AS place,
                (SELECT max(wake) * 4 + max(CASE WHEN author LIKE 'human:%' THEN 2 ELSE 0 END)
                    + max(CASE WHEN instr(mentions, ' ' || member.member || ' ') > 0 OR mentions = ' * ' THEN 1 ELSE 0 END)
                 FROM (SELECT wake, author, mentions FROM {WAKING} ORDER BY seq DESC LIMIT {MAX_SCANNED}) AS waking
                ) AS urgency
            FROM {RECEIVERS} AND {condition}
         ) AS found WHERE urgency IS NOT NULL"
    ))?;
    let mut found = Vec::new();
    let mut add = |row: &Row<'_>| {
        let urgency: i64 = row.get(2)?;
        found.push(UnseenSummary {
            agent: parsed(row, 0)?,
            channel: parsed(row, 1)?,
            wake: if urgency >= 8 { WakeUrgency::AtOnce } else { WakeUrgency::InTime },
            human: urgency & 2 != 0,
            mention: urgency & 1 != 0,
        });
        Ok(())
    };
    statement.query_each(each, &mut add)?;
    Ok(found)
}

fn newest(connection: &Connection<'_>) -> sql::Result<i64> {
    connection.prepare_cached("SELECT coalesce(max(id), 0) FROM message")?.query_row((), |row| row.get(0))
}

impl<A> Deliveries<&Database<A>> {
    /// Returns the deliveries that an earlier process did not finish.
    pub async fn in_flight(self) -> Result<Vec<InFlightDelivery>, StoreError> {
        self.read("list deliveries", |connection| {
            connection
                .prepare(
                    "SELECT agent, channel, inflight_turn, inflight_seq FROM delivery
                     WHERE inflight_turn IS NOT NULL",
                )?
                .query_map((), |row| {
                    Ok(InFlightDelivery {
                        agent: parsed(row, 0)?,
                        channel: parsed(row, 1)?,
                        turn: parsed(row, 2)?,
                        up_to: row.get::<i64>(3)?.unsigned_abs(),
                    })
                })?
                .collect()
        })
        .await
    }

    /// Returns the turns with an unfinished delivery for this session, be it of its channel's messages or of its inbox.
    pub async fn turns_in_flight(self, session: &SessionKey) -> Result<Vec<TurnId>, StoreError> {
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
        .await
    }

    /// Summarizes an agent's unseen messages in one channel.
    ///
    /// Returns `None` if none of them wakes the agent, or if a turn would receive nothing because the agent is not a
    /// member or the channel is archived.
    pub async fn unseen(
        self,
        agent: &AgentId,
        channel: &ChannelId,
    ) -> Result<Option<UnseenSummary>, StoreError> {
        self.read("look for new messages", |connection| {
            let one = (channel.as_str(), agent.as_str());
            let found = unseen(connection, "channel.id = ?1 AND member.member = ?2", [one])?;
            Ok(found.into_iter().next())
        })
        .await
    }

    /// Returns a mark of the newest message, for [`Self::unseen_since`].
    pub(crate) async fn newest_message(self) -> Result<i64, StoreError> {
        self.read("look for new messages", newest).await
    }

    /// Returns the unseen messages that wake somebody, in channels with messages after `mark`, and the mark of the
    /// newest message.
    ///
    /// The cost depends on the number of channels with new messages, not on the number of all channels.
    pub(crate) async fn unseen_since(self, mark: i64) -> Result<(i64, Vec<UnseenSummary>), StoreError> {
        self.read("look for new messages", |connection| {
            // The newest id is read first: a message committed after this statement is found by the next call.
            let newest = newest(connection)?;
            if newest <= mark {
                return Ok((mark, Vec::new()));
            }
            let channels: Vec<String> = connection
                .prepare_cached("SELECT DISTINCT channel FROM message WHERE id > ?1 AND wake > 0")?
                .query_map([mark], |row| row.get(0))?
                .collect::<sql::Result<_>>()?;
            // For each by itself. A statement for all of them would be planned anew each time by PostgreSQL, which takes
            // milliseconds.
            let found = unseen(connection, "channel.id = ?1", channels.iter().map(|channel| [channel]))?;
            Ok((newest, found))
        })
        .await
    }

    /// Returns all unseen messages that wake somebody. This reads every channel that is behind, so it is used only
    /// once, at the start of a process.
    pub(crate) async fn all_unseen(self) -> Result<Vec<UnseenSummary>, StoreError> {
        self.read_long("look for new messages", |connection| unseen(connection, IS_BEHIND, [()])).await
    }

    /// Returns the number of sessions with unseen messages that wake their agent.
    pub(crate) async fn count_unseen(self) -> Result<u64, StoreError> {
        self.read_long("count the sessions with new messages", |connection| {
            // With its own search for each receiver, PostgreSQL does not read the messages of all channels.
            connection
                .prepare_cached(&format!(
                    "SELECT count(*) FROM {RECEIVERS} AND {IS_BEHIND} AND (SELECT 1 FROM {WAKING} LIMIT 1) IS NOT NULL"
                ))?
                .query_row((), |row| row.get::<i64>(0))
                .map(i64::unsigned_abs)
        })
        .await
    }

    /// Returns the unseen messages that wake these agents, in all channels.
    pub(crate) async fn unseen_of(
        self,
        agents: impl IntoIterator<Item = &AgentId>,
    ) -> Result<Vec<UnseenSummary>, StoreError> {
        let agents: Vec<AgentId> = agents.into_iter().cloned().collect();
        self.read_long("look for new messages", move |connection| {
            let of_agent = format!("member.member = ?1 AND {IS_BEHIND}");
            unseen(connection, &of_agent, agents.iter().map(|agent| [agent.as_str()]))
        })
        .await
    }

    /// Returns `true` if [`Deliveries::clamp_positions`] would correct something in the channels of these agents, also those
    /// that they have left. It costs no change, for which all gateways would wait.
    pub(crate) async fn are_past_the_end(
        self,
        agents: impl IntoIterator<Item = &AgentId>,
    ) -> Result<bool, StoreError> {
        let agents: Vec<AgentId> = agents.into_iter().cloned().collect();
        self.read_long("check positions", move |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT 1 FROM delivery JOIN channel ON channel.id = delivery.channel
                 WHERE delivery.agent = ?1 AND (delivered_seq > last_seq OR inflight_seq > last_seq
                    OR last_seq > coalesce((SELECT max(seq) FROM message WHERE message.channel = channel.id), 0))
                 LIMIT 1",
            )?;
            let mut is_past = false;
            statement.query_each(agents.iter().map(|agent| [agent.as_str()]), |_| {
                is_past = true;
                Ok(())
            })?;
            Ok(is_past)
        })
        .await
    }
}

impl Deliveries<&Store> {
    /// Takes a channel's new messages for a turn, after those that the same turn was given before.
    ///
    /// Returns `None` if there is nothing new, if the agent is not a member, if the channel is archived or does not
    /// exist, or if another turn has not ended its delivery.
    pub async fn take_batch(
        self,
        agent: AgentId,
        channel: ChannelId,
        turn: TurnId,
        limits: BatchLimits,
    ) -> Result<Option<Batch>, StoreError> {
        self.write("take new messages", move |transaction| take(transaction, &agent, &channel, turn, limits))
            .await
    }

    /// Ends a turn's delivery. Messages up to `delivered` are in its transcript; later ones count as new again.
    pub async fn end(
        self,
        agent: AgentId,
        channel: ChannelId,
        turn: TurnId,
        delivered: Option<u64>,
    ) -> Result<(), StoreError> {
        self.write("end a delivery", move |transaction| {
            // The position never goes back, and never past the channel's last message: a transcript can outlive
            // messages that the disk lost.
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

    /// Records, while the turn continues, that its transcript contains everything up to `delivered`.
    pub async fn record(
        self,
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

    /// Corrects positions that are past the last message of their channel. Returns the number of corrections.
    ///
    /// A disk that lost writes can leave such positions behind. New messages that get those sequence numbers would
    /// never be delivered.
    pub(crate) async fn clamp_positions(self) -> Result<usize, StoreError> {
        self.write("set positions back", |transaction| {
            // flock never deletes the last message of a channel. If it is missing, the disk lost it.
            let channels = transaction.execute(
                "UPDATE channel SET last_seq = newest
                 FROM (SELECT id AS place, coalesce((SELECT max(seq) FROM message WHERE message.channel = channel.id), 0)
                       AS newest FROM channel) AS found
                 WHERE id = place AND last_seq > newest",
                (),
            )?;
            let positions = transaction.execute(
                "UPDATE delivery SET delivered_seq = min(delivered_seq, last), inflight_seq = min(inflight_seq, last)
                 FROM (SELECT id, last_seq AS last FROM channel) AS found
                 WHERE id = delivery.channel AND (delivered_seq > last OR inflight_seq > last)",
                (),
            )?;
            Ok(channels + positions)
        })
        .await
    }

    /// Moves an agent's delivered position in a channel back to `to`. Returns `false` if it was not further than that.
    pub(crate) async fn rewind(
        self,
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
}

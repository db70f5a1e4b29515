//! Messages of channels: numbered as they are committed, read in pages, found by their words.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction};

use super::audit::{self, AuditEntry, Level};
use super::channel::ChannelState;
use super::idempotency::{self, IdempotencyKey};
use super::session::parsed;
use super::{Reader, Store, StoreError};
use crate::id::{AgentId, ChannelId, Party, SessionKey, TurnId};

/// Whom a message wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wake {
    /// Nobody; it is given along with the next one that does.
    Nobody,
    /// The members, in time.
    InTime,
    /// The members, at once.
    AtOnce,
}

impl FromSql for Wake {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value.as_i64()? {
            0 => Ok(Self::Nobody),
            1 => Ok(Self::InTime),
            2 => Ok(Self::AtOnce),
            other => Err(FromSqlError::OutOfRange(other)),
        }
    }
}

impl ToSql for Wake {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok((*self as i64).into())
    }
}

/// Whom a message mentions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mentioned {
    /// Agents by their ids.
    pub agents: Vec<AgentId>,
    /// Everybody.
    pub all: bool,
}

impl Mentioned {
    /// Whether it mentions this agent.
    #[must_use]
    pub fn has(&self, agent: &AgentId) -> bool {
        self.all || self.agents.contains(agent)
    }

    fn to_column(&self) -> Option<String> {
        if self.all {
            return Some(" * ".to_owned());
        }
        let ids: Vec<&str> = self.agents.iter().map(AgentId::as_str).collect();
        (!ids.is_empty()).then(|| format!(" {} ", ids.join(" ")))
    }

    pub(super) fn from_column(text: Option<&str>) -> Self {
        let words = || text.unwrap_or_default().split_whitespace();
        let agents = words().filter_map(|word| word.parse().ok()).collect();
        Self { agents, all: words().any(|word| word == "*") }
    }
}

/// A message that is to be.
#[derive(Clone, Debug)]
pub struct NewPost {
    /// Where.
    pub channel: ChannelId,
    /// Who says it.
    pub author: Party,
    /// What it says.
    pub content: String,
    /// Whom it wakes.
    pub wake: Wake,
    /// Whom it mentions.
    pub mentions: Mentioned,
    /// From which session, for the audit.
    pub session: Option<SessionKey>,
    /// In which turn.
    pub turn: Option<TurnId>,
    /// Whether it is the final text of that turn: such a message is posted once.
    pub is_final: bool,
    /// The key under which its client may send it again.
    pub key: Option<IdempotencyKey>,
    /// Now, in Unix milliseconds.
    pub now: i64,
}

/// A message that was committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Posted {
    /// Where, as the channel's id was written when it was made.
    pub channel: ChannelId,
    /// Its number.
    pub seq: u64,
    /// The agents who are members, but for its author.
    pub recipients: Vec<AgentId>,
}

/// What a post came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PostOutcome {
    /// It is there.
    Posted(Posted),
    /// It was there already, under this number: the final text of a turn, or what the same agent had just
    /// said as the channel's last message.
    Repeated(u64),
    /// Its client sent another message under the same key.
    KeyReused,
    /// There is no such channel.
    NoChannel,
    /// The channel takes no messages any more.
    Archived,
}

impl PostOutcome {
    /// The new message, if there is one.
    #[must_use]
    pub fn posted(self) -> Option<Posted> {
        match self {
            Self::Posted(posted) => Some(posted),
            Self::Repeated(_) | Self::KeyReused | Self::NoChannel | Self::Archived => None,
        }
    }
}

/// A message as the database knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Post {
    /// Where.
    pub channel: ChannelId,
    /// Its number.
    pub seq: u64,
    /// Who said it.
    pub author: Party,
    /// What it says.
    pub content: String,
    /// When, in Unix milliseconds.
    pub created_at: i64,
    /// Whom it wakes.
    pub wake: Wake,
    /// Whom it mentions.
    pub mentions: Mentioned,
}

/// Which messages of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// The newest.
    Last,
    /// Those before this number, the nearest of them.
    Before(u64),
    /// Those after this number, the nearest of them.
    After(u64),
}

pub(super) const COLUMNS: &str = "channel, seq, author, content, created_at, wake, mentions";

pub(super) fn row(row: &Row<'_>) -> rusqlite::Result<Post> {
    Ok(Post {
        channel: parsed(row, 0)?,
        seq: row.get::<_, i64>(1)?.unsigned_abs(),
        author: parsed(row, 2)?,
        content: row.get(3)?,
        created_at: row.get(4)?,
        wake: row.get(5)?,
        mentions: Mentioned::from_column(row.get_ref(6)?.as_str_or_null()?),
    })
}

/// A number as SQLite holds it.
pub(super) fn number(seq: u64) -> i64 {
    i64::try_from(seq).unwrap_or(i64::MAX)
}

/// Adds the message: its number, its row, the audit and the bridges' outbox, or none of them.
pub(super) fn post(transaction: &Transaction<'_>, new: &NewPost) -> rusqlite::Result<PostOutcome> {
    let found: Option<(String, ChannelState, i64)> = transaction
        .prepare_cached("SELECT id, state, last_seq FROM channel WHERE id = ?1")?
        .query_row([new.channel.as_str()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let Some((id, state, last)) = found else { return Ok(PostOutcome::NoChannel) };
    if let Some(key) = &new.key
        && let Some(first) = idempotency::find(transaction, key, new.now)?
    {
        let seq = first.answer.and_then(|seq| seq.parse().ok()).filter(|_| first.digest == key.digest);
        return Ok(seq.map_or(PostOutcome::KeyReused, PostOutcome::Repeated));
    }
    if state == ChannelState::Archived && new.author != Party::System {
        return Ok(PostOutcome::Archived);
    }
    if let Some(seq) = repeated(transaction, new, &id, last)? {
        return Ok(PostOutcome::Repeated(seq));
    }
    let seq = last + 1;
    let author = new.author.to_string();
    transaction.prepare_cached("UPDATE channel SET last_seq = ?2 WHERE id = ?1")?.execute((&id, seq))?;
    transaction
        .prepare_cached(
            "INSERT INTO message (channel, seq, author, content, created_at, wake, mentions, turn, is_final)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?
        .execute((
            &id,
            seq,
            &author,
            &new.content,
            new.now,
            new.wake,
            new.mentions.to_column(),
            new.turn.map(|turn| turn.to_string()),
            new.is_final,
        ))?;
    transaction
        .prepare_cached(
            "INSERT INTO outbox (bridge, channel, seq, created_at)
             SELECT id, channel, ?2, ?3 FROM bridge WHERE channel = ?1 AND state = 'active'",
        )?
        .execute((&id, seq, new.now))?;
    let entry = AuditEntry {
        actor: author,
        action: "channel.post",
        subject: format!("{id}#{seq}"),
        level: Level::Green,
        detail: format!("{} bytes, sha256 {}", new.content.len(), audit::digest(&new.content)),
        session: new.session.clone(),
        turn: new.turn,
    };
    audit::append(transaction, &entry, new.now)?;
    if let Some(key) = &new.key {
        idempotency::insert(transaction, key, None, Some(&seq.to_string()), new.now)?;
    }
    let recipients = transaction
        .prepare_cached("SELECT member FROM member WHERE channel = ?1")?
        .query_map([&id], |row| parsed::<Party>(row, 0))?
        .filter_map(|party| match party {
            Ok(Party::Agent(agent)) if new.author.agent() != Some(&agent) => Some(Ok(agent)),
            Ok(_) => None,
            Err(error) => Some(Err(error)),
        })
        .collect::<rusqlite::Result<_>>()?;
    let channel = id.parse().map_err(|_| rusqlite::Error::InvalidQuery)?;
    Ok(PostOutcome::Posted(Posted { channel, seq: seq.unsigned_abs(), recipients }))
}

/// How far back a turn that goes on is looked for the words of the one that was interrupted.
const LOOK_BACK: i64 = 50;

/// The number of the message that says it already. A turn that was interrupted between a post and its
/// record may do it again when it goes on, and a model that has run dry repeats itself.
fn repeated(
    transaction: &Transaction<'_>,
    new: &NewPost,
    id: &str,
    last: i64,
) -> rusqlite::Result<Option<u64>> {
    let seq: Option<i64> = if new.is_final {
        transaction
            .prepare_cached("SELECT seq FROM message WHERE turn = ?1 AND is_final = 1")?
            .query_row([new.turn.map(|turn| turn.to_string())], |row| row.get(0))
            .optional()?
    } else if new.author.agent().is_some() {
        transaction
            .prepare_cached(
                "SELECT seq FROM message WHERE channel = ?1 AND seq > ?2 - ?5 AND author = ?3 AND content = ?4
                 AND (seq = ?2 OR turn IN (SELECT id FROM turn WHERE turn.id = message.turn AND state = 'interrupted'))
                 ORDER BY seq DESC LIMIT 1",
            )?
            .query_row((id, last, new.author.to_string(), &new.content, LOOK_BACK), |row| row.get(0))
            .optional()?
    } else {
        None
    };
    Ok(seq.map(i64::unsigned_abs))
}

fn page(connection: &Connection, id: &ChannelId, page: Page, limit: u32) -> rusqlite::Result<Vec<Post>> {
    let (condition, order, edge) = match page {
        Page::Last => ("seq > ?2", "DESC", 0),
        Page::Before(seq) => ("seq < ?2", "DESC", number(seq)),
        Page::After(seq) => ("seq > ?2", "ASC", number(seq)),
    };
    let mut found: Vec<Post> = connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM message WHERE channel = ?1 AND {condition} ORDER BY seq {order} LIMIT ?3"
        ))?
        .query_map((id.as_str(), edge, limit), row)?
        .collect::<rusqlite::Result<_>>()?;
    if order == "DESC" {
        found.reverse();
    }
    Ok(found)
}

/// Each word of the query has to be there, the last as the beginning of one unless it has one letter only:
/// half of all messages have a word with that beginning. Whatever a person types is words, never an expression
/// of the search's own language.
fn search(
    connection: &Connection,
    channel: Option<&ChannelId>,
    query: &str,
    limit: u32,
) -> rusqlite::Result<Vec<Post>> {
    let words = query.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).take(32);
    let words: Vec<&str> = words.collect();
    let Some(last) = words.last() else { return Ok(Vec::new()) };
    let beginning = if last.chars().nth(1).is_some() { "*" } else { "" };
    let query = words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" ") + beginning;
    let columns = COLUMNS.split(", ").map(|column| format!("m.{column}")).collect::<Vec<_>>().join(", ");
    connection
        .prepare_cached(&format!(
            "SELECT {columns} FROM message_text t JOIN message m ON m.id = t.rowid
             WHERE t.content MATCH ?1 AND (?2 IS NULL OR m.channel = ?2) ORDER BY t.rowid DESC LIMIT ?3"
        ))?
        .query_map((query, channel.map(ChannelId::as_str), limit), row)?
        .collect()
}

impl Store {
    /// Posts a message.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn post(&self, new: NewPost) -> Result<PostOutcome, StoreError> {
        self.write("post a message", move |transaction| post(transaction, &new)).await
    }

    /// Forgets messages from before `time` (Unix milliseconds), at most `limit` of them: never the last of a
    /// channel, and none that a member of a channel in use has not been given. Says how many they were.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn forget_messages(&self, time: i64, limit: u32) -> Result<usize, StoreError> {
        self.write("forget old messages", move |transaction| {
            transaction
                .prepare_cached(
                    "DELETE FROM message WHERE id IN (
                        SELECT message.id FROM message JOIN channel ON channel.id = message.channel
                        WHERE message.created_at < ?1 AND message.seq < channel.last_seq
                        AND (channel.state = 'archived' OR NOT EXISTS (
                            SELECT 1 FROM member
                            LEFT JOIN delivery ON delivery.agent = member.member
                                AND delivery.channel = member.channel
                            WHERE member.channel = message.channel AND member.member NOT LIKE 'human:%'
                            AND coalesce(delivery.delivered_seq, 0) < message.seq
                        ))
                        ORDER BY message.id LIMIT ?2
                     )",
                )?
                .execute((time, limit))
        })
        .await
    }

    /// Messages of a channel, at most `limit`, the oldest first.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn messages(&self, id: &ChannelId, which: Page, limit: u32) -> Result<Vec<Post>, StoreError> {
        self.read("read messages", |connection| page(connection, id, which, limit))
    }

    /// Messages with all these words, the newest first.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn search_messages(
        &self,
        channel: Option<&ChannelId>,
        query: &str,
        limit: u32,
    ) -> Result<Vec<Post>, StoreError> {
        self.read("search messages", |connection| search(connection, channel, query, limit))
    }

    /// Whether a turn has posted something in this channel after `seq`.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn has_posted(&self, id: &ChannelId, turn: TurnId, seq: u64) -> Result<bool, StoreError> {
        self.read("look for a turn's message", |connection| {
            connection
                .prepare_cached(
                    "SELECT EXISTS (SELECT 1 FROM message WHERE channel = ?1 AND seq > ?2 AND turn = ?3)",
                )?
                .query_row((id.as_str(), number(seq), turn.to_string()), |row| row.get(0))
        })
    }
}

impl Reader {
    /// As [`Store::messages`].
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn messages(&self, id: &ChannelId, which: Page, limit: u32) -> Result<Vec<Post>, StoreError> {
        self.read("read messages", |connection| page(connection, id, which, limit))
    }

    /// As [`Store::search_messages`].
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn search_messages(
        &self,
        channel: Option<&ChannelId>,
        query: &str,
        limit: u32,
    ) -> Result<Vec<Post>, StoreError> {
        self.read("search messages", |connection| search(connection, channel, query, limit))
    }
}

//! Channel messages: numbered at commit, read in pages, found by full-text search.

use std::collections::BTreeMap;

use super::audit::{self, AuditEntry, Level};
use super::bridge_traffic::{self, Direction};
use super::change::{PendingPost, Work};
use super::channel::ChannelState;
use super::delivery;
use super::idempotency::{self, IdempotencyKey};
use super::notice::NoticeKind;
use super::outbox::{self, LinkOrigin};
use super::post_places::{Place, Places};
use super::session::parsed;
use super::sql::{
    self, Connection, Dialect, FromSql, FromSqlError, FromSqlResult, OptionalExtension as _, Row, ToSql,
    ToSqlResult, Transaction, ValueRef,
};
use super::subjects::Posts;
use super::{Database, Store, StoreError};
use crate::id::{AgentId, ChannelId, Party, SessionKey, TurnId};

/// The urgency with which a message wakes the channel's members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WakeUrgency {
    /// Wakes nobody; delivered together with the next message that does.
    Nobody,
    /// Wakes the members after a delay.
    InTime,
    /// Wakes the members at once.
    AtOnce,
}

impl FromSql for WakeUrgency {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value.as_i64()? {
            0 => Ok(Self::Nobody),
            1 => Ok(Self::InTime),
            2 => Ok(Self::AtOnce),
            other => Err(FromSqlError::OutOfRange(other)),
        }
    }
}

impl ToSql for WakeUrgency {
    fn to_sql(&self) -> ToSqlResult<'_> {
        Ok((*self as i64).into())
    }
}

/// The mentions in a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PostMentions {
    pub agents: Vec<AgentId>,
    /// Set if it mentions everybody.
    pub all: bool,
}

impl PostMentions {
    /// Returns `true` if it mentions the agent, alone or with everybody.
    #[must_use]
    pub fn has(&self, agent: &AgentId) -> bool {
        self.all || self.agents.contains(agent)
    }

    fn to_column(&self) -> Option<String> {
        // Spaces surround each id, so that a search in SQL can't match part of another id.
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

/// A message to be posted.
#[derive(Clone, Debug)]
pub struct NewPost {
    pub channel: ChannelId,
    pub author: Party,
    pub content: String,
    pub wake: WakeUrgency,
    pub mentions: PostMentions,
    /// The session it comes from, for the audit.
    pub session: Option<SessionKey>,
    pub turn: Option<TurnId>,
    /// Set for the final text of the turn, which is posted only once.
    pub is_final: bool,
    /// The key under which the client may repeat the request.
    pub key: Option<IdempotencyKey>,
    /// Set if it came over a link from another platform.
    pub origin: Option<LinkOrigin>,
    /// The name of the person whose budget what it leads to counts against. `None` for that of the author.
    pub charged: Option<String>,
    /// The current time in Unix milliseconds.
    pub now: i64,
}

impl NewPost {
    /// Returns a message of flock itself that wakes nobody.
    #[must_use]
    pub(crate) fn of_system(channel: &ChannelId, content: String, now: i64) -> Self {
        Self {
            channel: channel.clone(),
            author: Party::System,
            content,
            wake: WakeUrgency::Nobody,
            mentions: PostMentions::default(),
            session: None,
            turn: None,
            is_final: false,
            key: None,
            origin: None,
            charged: None,
            now,
        }
    }
}

/// A committed message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedPost {
    /// The channel's id in the case it was created with.
    pub channel: ChannelId,
    /// The sequence number in the channel.
    pub seq: u64,
    /// The agents that are members, without the author.
    pub recipients: Vec<AgentId>,
}

/// The result of a post.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PostOutcome {
    /// The message was committed.
    Posted(CommittedPost),
    /// The message exists already, with this sequence number.
    ///
    /// It is the final text of the same turn, a request repeated under its key, or a text that the same agent has just
    /// posted.
    Repeated {
        /// The channel's id in the case it was created with.
        channel: ChannelId,
        seq: u64,
    },
    /// The key was used before, for a different message.
    KeyReused,
    /// The channel does not exist.
    NoChannel,
    /// The channel is archived.
    Archived,
}

impl PostOutcome {
    /// Returns the new message, if one was committed.
    #[must_use]
    pub fn posted(self) -> Option<CommittedPost> {
        match self {
            Self::Posted(posted) => Some(posted),
            Self::Repeated { .. } | Self::KeyReused | Self::NoChannel | Self::Archived => None,
        }
    }
}

/// A message as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Post {
    pub channel: ChannelId,
    /// The sequence number in the channel.
    pub seq: u64,
    pub author: Party,
    pub content: String,
    /// Unix milliseconds.
    pub created_at: i64,
    pub wake: WakeUrgency,
    pub mentions: PostMentions,
}

/// The turn that posted a message.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct PostTurn {
    pub id: String,
    pub session: SessionKey,
}

/// A selection of a channel's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// The newest messages.
    Last,
    /// The messages closest before this sequence number.
    Before(u64),
    /// The messages closest after this sequence number.
    After(u64),
}

pub(super) const COLUMNS: &str = "channel, seq, author, content, created_at, wake, mentions";

pub(super) fn row(row: &Row<'_>) -> sql::Result<Post> {
    row_from(row, 0)
}

/// Reads a message whose columns begin at `first`.
pub(super) fn row_from(row: &Row<'_>, first: usize) -> sql::Result<Post> {
    Ok(Post {
        channel: parsed(row, first)?,
        seq: row.get::<i64>(first + 1)?.unsigned_abs(),
        author: parsed(row, first + 2)?,
        content: row.get(first + 3)?,
        created_at: row.get(first + 4)?,
        wake: row.get(first + 5)?,
        mentions: PostMentions::from_column(row.get_ref(first + 6)?.as_str_or_null()?),
    })
}

/// Converts a sequence number to SQLite's integer type.
pub(super) fn number(seq: u64) -> i64 {
    i64::try_from(seq).unwrap_or(i64::MAX)
}

/// Adds a message. Its number, its row, its audit row and the bridges' outbox are written together or not at all.
pub(super) fn post(transaction: &Transaction<'_>, new: &NewPost) -> sql::Result<PostOutcome> {
    let mut outcomes = post_all(transaction, &[new])?;
    outcomes.pop().ok_or(sql::Error::Malformed)
}

/// Adds messages, each as [`post`] does, in their order. On a server they cost about as many ways there and back as one
/// message, and few statements.
pub(super) fn post_all(transaction: &Transaction<'_>, posts: &[&NewPost]) -> sql::Result<Vec<PostOutcome>> {
    let mut places = Places::of(transaction, posts.iter().map(|new| &new.channel))?;
    let outcomes = posts
        .iter()
        .map(|new| match places.get_mut(&new.channel) {
            Some(place) => post_at(transaction, new, place),
            None => Ok(PostOutcome::NoChannel),
        })
        .collect::<sql::Result<_>>()?;
    places.write_numbers(transaction)?;
    Ok(outcomes)
}

fn post_at(transaction: &Transaction<'_>, new: &NewPost, place: &mut Place) -> sql::Result<PostOutcome> {
    let id = &place.id;
    let channel: ChannelId = id.parse().map_err(|_| sql::Error::Malformed)?;
    // The key is checked before the channel's state: a repeated request gets its first answer even if the channel was
    // archived since.
    if let Some(key) = &new.key
        && let Some(first) = idempotency::find(transaction, key, new.now)?
    {
        let seq = first.answer.and_then(|seq| seq.parse().ok()).filter(|_| first.digest == key.digest);
        return Ok(seq.map_or(PostOutcome::KeyReused, |seq| PostOutcome::Repeated { channel, seq }));
    }
    if let Some(origin) = &new.origin
        && let Some(seq) = outbox::known(transaction, origin)?
    {
        return Ok(PostOutcome::Repeated { channel, seq: seq.unsigned_abs() });
    }
    // flock's own notices, such as that of the archiving itself, are still posted.
    if place.state == ChannelState::Archived && new.author != Party::System {
        return Ok(PostOutcome::Archived);
    }
    if let Some(seq) = find_duplicate(transaction, new, id, place.last)? {
        return Ok(PostOutcome::Repeated { channel, seq });
    }
    // A single thread runs all changes, so no other message can get the same number.
    let seq = place.last + 1;
    let author = new.author.to_string();
    transaction.add_row(
        "INSERT INTO message (channel, seq, author, content, created_at, wake, mentions, turn, is_final, person)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        (
            id,
            seq,
            &author,
            &new.content,
            new.now,
            new.wake,
            new.mentions.to_column(),
            new.turn.map(|turn| turn.to_string()),
            new.is_final,
            &new.charged,
        ),
    )?;
    if new.wake != WakeUrgency::Nobody {
        transaction.tell(NoticeKind::Work, "");
    }
    if place.has_links {
        outbox::queue(transaction, new, id, seq)?;
    }
    if let Some(origin) = &new.origin {
        outbox::record(transaction, origin, seq, new.now)?;
        if origin.is_history {
            delivery::pass_over(transaction, id, seq)?;
        } else {
            bridge_traffic::count_on_link(transaction, &origin.link, Direction::Received, new.now)?;
        }
    }
    let entry = AuditEntry {
        actor: author,
        action: "channel.post",
        subject: format!("{id}#{seq}"),
        level: Level::Green,
        // The audit gets a digest, so it can prove the text without containing it.
        detail: format!("{} bytes, sha256 {}", new.content.len(), audit::digest(&new.content)),
        session: new.session.clone(),
        turn: new.turn,
    };
    audit::append(transaction, &entry, new.now)?;
    if let Some(key) = &new.key {
        // The outcome is known at once, so the key is stored together with its answer.
        idempotency::insert(transaction, key, None, Some(&seq.to_string()), new.now)?;
    }
    let agents = place.members.iter().filter_map(Party::agent);
    let recipients = agents.filter(|agent| new.author.agent() != Some(agent)).cloned().collect();
    place.last = seq;
    Ok(PostOutcome::Posted(CommittedPost { channel, seq: seq.unsigned_abs(), recipients }))
}

/// The number of messages back in which a resumed turn looks for a text of the interrupted one.
const DUPLICATE_WINDOW: i64 = 50;

/// Returns the sequence number of an earlier message with the same text.
///
/// A turn that was interrupted between a post and the record of it may post again when it resumes. A model that has run
/// out of ideas repeats its last message.
fn find_duplicate(
    transaction: &Transaction<'_>,
    new: &NewPost,
    id: &str,
    last: i64,
) -> sql::Result<Option<u64>> {
    let seq: Option<i64> = if new.is_final {
        transaction
            .prepare_cached("SELECT seq FROM message WHERE turn = ?1 AND is_final = 1")?
            .query_row([new.turn.map(|turn| turn.to_string())], |row| row.get(0))
            .optional()?
    } else if new.author.agent().is_some() {
        // Only repetitions by agents are dropped. People may repeat themselves.
        transaction
            .prepare_cached(
                "SELECT seq FROM message WHERE channel = ?1 AND seq > ?2 - CAST(?5 AS BIGINT) AND author = ?3
                 AND content = ?4
                 AND (seq = ?2 OR turn IN (SELECT id FROM turn WHERE turn.id = message.turn AND state = 'interrupted'))
                 ORDER BY seq DESC LIMIT 1",
            )?
            .query_row((id, last, new.author.to_string(), &new.content, DUPLICATE_WINDOW), |row| row.get(0))
            .optional()?
    } else {
        None
    };
    Ok(seq.map(i64::unsigned_abs))
}

fn page(connection: &Connection<'_>, id: &ChannelId, page: Page, limit: u32) -> sql::Result<Vec<Post>> {
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
        .collect::<sql::Result<_>>()?;
    // The query reads backwards to find the nearest rows. The caller gets them oldest first.
    if order == "DESC" {
        found.reverse();
    }
    Ok(found)
}

/// Finds messages that contain every word of the query.
///
/// The last word matches as a prefix, unless it has one letter only, because half of all messages contain a word with
/// such a prefix. The words are quoted, so a query is never interpreted as an expression of the search language.
fn search(
    connection: &Connection<'_>,
    channel: Option<&ChannelId>,
    query: &str,
    limit: u32,
) -> sql::Result<Vec<Post>> {
    // The number of words is limited, because each costs a look-up in the index.
    let words = query.split(|c: char| !c.is_alphanumeric());
    // The Greek iota below a letter is the only mark that counts as alphabetic. Alone it is no word.
    let words = words.filter(|word| word.chars().any(|c| c != '\u{345}')).take(32);
    let words: Vec<&str> = words.collect();
    let Some(last) = words.last() else { return Ok(Vec::new()) };
    let is_beginning = last.chars().nth(1).is_some();
    let columns = COLUMNS.split(", ").map(|column| format!("m.{column}")).collect::<Vec<_>>().join(", ");
    let quoted = |quote: char, between: &str| {
        words.iter().map(|word| format!("{quote}{word}{quote}")).collect::<Vec<_>>().join(between)
    };
    // Each database has an index of words of its own, and a language for it.
    let (query, sql) = match connection.dialect() {
        Dialect::Sqlite => (
            quoted('"', " ") + if is_beginning { "*" } else { "" },
            format!(
                "SELECT {columns} FROM message_text t JOIN message m ON m.id = t.rowid
                 WHERE t.content MATCH ?1 AND (?2 IS NULL OR m.channel = ?2) ORDER BY t.rowid DESC LIMIT ?3"
            ),
        ),
        // PostgreSQL has no words of more than two kilobytes, and refuses a question for one.
        Dialect::Postgres if words.iter().any(|word| word.len() > 600) => return Ok(Vec::new()),
        Dialect::Postgres => (
            quoted('\'', " & ") + if is_beginning { ":*" } else { "" },
            format!(
                "SELECT {columns} FROM message m WHERE words(m.content) @@ to_tsquery('simple', fold(?1))
                 AND (CAST(?2 AS TEXT) IS NULL OR m.channel = ?2) ORDER BY m.id DESC LIMIT ?3"
            ),
        ),
    };
    connection.prepare_cached(&sql)?.query_map((query, channel.map(ChannelId::as_str), limit), row)?.collect()
}

impl<A> Posts<&Database<A>> {
    /// Returns `true` if a turn has posted in this channel.
    pub async fn has_posted(self, id: &ChannelId, turn: TurnId) -> Result<bool, StoreError> {
        // The turn comes first, because a turn has few messages and a channel may have a million.
        self.read("look for a turn's message", |connection| {
            connection
                .prepare_cached("SELECT EXISTS (SELECT 1 FROM message WHERE turn = ?1 AND channel = ?2)")?
                .query_row((turn.to_string(), id.as_str()), |row| row.get(0))
        })
        .await
    }

    /// Returns the turns that posted these messages. A message of a person has none, and neither has one whose turn is
    /// no longer known.
    pub(crate) async fn turns(
        self,
        id: &ChannelId,
        seqs: Vec<u64>,
    ) -> Result<BTreeMap<u64, PostTurn>, StoreError> {
        let id = id.clone();
        self.read("look for the turns of messages", move |connection| {
            let mut select = connection.prepare_cached(
                "SELECT turn.id, turn.session FROM message JOIN turn ON turn.id = message.turn
                 WHERE message.channel = ?1 AND message.seq = ?2",
            )?;
            let mut found = BTreeMap::new();
            for seq in seqs {
                let turn = |row: &Row<'_>| Ok(PostTurn { id: row.get(0)?, session: parsed(row, 1)? });
                if let Some(turn) = select.query_row((id.as_str(), number(seq)), turn).optional()? {
                    found.insert(seq, turn);
                }
            }
            Ok(found)
        })
        .await
    }

    /// Returns messages of a channel, oldest first, at most `limit`.
    pub async fn page(self, id: &ChannelId, which: Page, limit: u32) -> Result<Vec<Post>, StoreError> {
        let id = id.clone();
        // Short as the list is, each message may have a megabyte.
        self.read_long("read messages", move |connection| page(connection, &id, which, limit)).await
    }

    /// Returns the messages that contain all words of the query, newest first.
    pub(crate) async fn search(
        self,
        channel: Option<&ChannelId>,
        query: &str,
        limit: u32,
    ) -> Result<Vec<Post>, StoreError> {
        let (channel, query) = (channel.cloned(), query.to_owned());
        let work = move |connection: &Connection<'_>| search(connection, channel.as_ref(), &query, limit);
        self.read_long("search messages", work).await
    }
}

impl Posts<&Store> {
    /// Posts a message to a channel.
    pub async fn add(self, new: NewPost) -> Result<PostOutcome, StoreError> {
        let work = |outcome| Work::Post(Box::new(PendingPost { new, outcome }));
        self.submit("post a message", work).await
    }

    /// Deletes messages from before `time` (Unix milliseconds), at most `limit` of them. Returns their number.
    ///
    /// The last message of a channel is kept, as is a message that a member of an active channel has not received.
    pub(crate) async fn delete_before(self, time: i64, limit: u32) -> Result<usize, StoreError> {
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
}

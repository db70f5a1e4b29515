//! Handles a person's requests about channels and returns the responses as JSON. The HTTP API uses it, and the command
//! line uses it directly if no gateway runs.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::id::{AgentId, ChannelId, Party, SessionKey};
use crate::store::{Channel, ChannelState, Database, IdempotencyKey, Page, Post, StoreError};
use crate::swarm::archive::ArchiveAction;
use crate::swarm::channel::{ChannelSpec, MAX_PAGE};
use crate::swarm::title::ChannelTitle;
use crate::swarm::{Actor, Swarm, SwarmError};

/// Most results of one search.
const MAX_SEARCH_RESULTS: u32 = 50;
/// Number of messages that are read if the request gives no limit.
const DEFAULT_PAGE: u32 = 50;
/// Most bytes of text in one response. The rest is left for the next request; a message is never cut.
const MAX_RESPONSE_BYTES: usize = 8 << 20;
/// Number of messages that are read from the database at a time, so that a page of long ones does not fill the memory.
const CHUNK_SIZE: u32 = 20;

/// A request to create a channel.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateChannel {
    pub id: ChannelId,
    pub topic: String,
    /// The first members.
    #[serde(default)]
    pub members: Vec<Party>,
    /// Text of the first message.
    pub message: Option<String>,
    /// Name of the person who asks.
    #[serde(rename = "as")]
    pub name: Option<String>,
}

/// A request to post a message as a person.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PostMessage {
    pub content: String,
    /// Name of the person who posts.
    #[serde(rename = "as")]
    pub name: Option<String>,
    /// `false` wakes nobody. The default is `true`.
    pub notify: Option<bool>,
    /// The ids of files that were sent before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
}

/// A request to change the members of a channel.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChangeMembers {
    /// Parties that become members.
    #[serde(default)]
    pub add: Vec<Party>,
    /// Parties that stop being members.
    #[serde(default)]
    pub remove: Vec<Party>,
    /// Name of the person who asks.
    #[serde(rename = "as")]
    pub name: Option<String>,
}

/// A request to change the shown name or the topic of a channel.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RenameChannel {
    /// The new shown name.
    #[serde(rename = "name")]
    pub title: Option<String>,
    /// The new topic of the channel.
    pub topic: Option<String>,
    /// Name of the person who asks.
    #[serde(rename = "as")]
    pub name: Option<String>,
}

/// A request for one step of the archive protocol.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ArchiveRequest {
    pub action: ArchiveAction,
    /// Name of the person who asks.
    #[serde(rename = "as")]
    pub name: Option<String>,
}

/// A filter for the list of channels.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChannelFilter {
    /// Only channels with this member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<Party>,
    /// Only channels in this state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<ChannelState>,
}

/// A search in all channels.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SearchQuery {
    /// Words that a message contains.
    pub q: String,
    /// Most messages to return.
    pub limit: Option<u32>,
}

/// A request to read or search the messages of a channel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MessageQuery {
    /// Only messages after this sequence number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// Only messages before this sequence number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<u64>,
    /// Most messages to return.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Only messages that contain all of these words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub q: Option<String>,
}

/// Returns the person with this name, or the owner if there is no name. The result is never an agent and never flock
/// itself.
///
/// # Errors
///
/// Returns [`SwarmError::Invalid`] if the text is not a valid name.
pub(crate) fn person(name: Option<&str>) -> Result<Actor, SwarmError> {
    let name = name.unwrap_or("owner");
    match Party::human(name) {
        // The name is kept only if no character of it was replaced. A colon would be replaced: with one, the name could
        // be that of a client.
        Party::Human(kept) if kept == name => Ok(Actor::human(name)),
        _ => Err(SwarmError::Invalid(
            "the name of a person is 1 to 64 letters, digits, '.', '_', '@' and '-', without `human:`"
                .to_owned(),
        )),
    }
}

/// Returns the channels for which `is_shown` returns `true`, oldest first.
///
/// # Errors
///
/// Returns the store's error if the database can't be read.
pub(crate) async fn list<A>(
    database: &Database<A>,
    filter: &ChannelFilter,
    is_shown: impl Fn(&Channel) -> bool,
) -> Result<Value, SwarmError> {
    let mut channels = database.channels().list(filter.member.as_ref(), filter.state).await?;
    channels.retain(is_shown);
    Ok(json!({"channels": channels.iter().map(describe).collect::<Vec<_>>()}))
}

/// Returns one channel.
///
/// # Errors
///
/// Returns [`SwarmError::NoChannel`] if there is none with this id, and the store's error if the database can't be
/// read.
pub(crate) async fn show<A>(database: &Database<A>, id: &ChannelId) -> Result<Value, SwarmError> {
    Ok(describe(&find(database, id).await?))
}

/// Returns messages of a channel, oldest first, with the numbers from which to continue in both directions.
///
/// # Errors
///
/// Returns [`SwarmError::NoChannel`] if there is no such channel, [`SwarmError::Invalid`] if more than one of `after`,
/// `before` and `q` is given, and the store's error if the database can't be read.
pub(crate) async fn read<A>(
    database: &Database<A>,
    id: &ChannelId,
    reading: &MessageQuery,
) -> Result<Value, SwarmError> {
    let page = page(reading)?;
    let channel = find(database, id).await?;
    let read = |page, limit| database.posts().page(&channel.id, page, limit);
    let search = |words, limit| database.posts().search(Some(&channel.id), words, limit);
    let mut answer = read_with(&channel, page, reading, read, search).await?;
    let messages = answer["messages"].as_array_mut();
    let seq = |message: &Value| message["seq"].as_u64().unwrap_or_default();
    let seqs = messages.iter().flat_map(|messages| messages.iter().map(seq)).collect();
    let turns = database.posts().turns(&channel.id, seqs).await?;
    for message in messages.into_iter().flatten() {
        message["turn"] = json!(turns.get(&seq(message)));
    }
    Ok(answer)
}

/// Takes the turns out of an answer of [`read`] that are in sessions for which `sees` returns `false`.
pub(crate) fn without_hidden_turns(mut answer: Value, sees: impl Fn(&SessionKey) -> bool) -> Value {
    for message in answer["messages"].as_array_mut().into_iter().flatten() {
        let session = message["turn"]["session"].as_str().and_then(|key| key.parse().ok());
        if !session.is_some_and(|session| sees(&session)) {
            message["turn"] = Value::Null;
        }
    }
    answer
}

/// Returns the part of a channel that a request asks for. A search has no position, and a page has only one.
fn page(reading: &MessageQuery) -> Result<Page, SwarmError> {
    match (reading.after, reading.before, &reading.q) {
        (None, None, _) => Ok(Page::Last),
        (Some(after), None, None) => Ok(Page::After(after)),
        (None, Some(before), None) => Ok(Page::Before(before)),
        _ => Err(SwarmError::Invalid("give one of after, before and q".to_owned())),
    }
}

/// The messages that a read returns.
type ReadPosts = Result<Vec<Post>, StoreError>;

async fn read_with<'q, R: Future<Output = ReadPosts>, S: Future<Output = ReadPosts>>(
    channel: &Channel,
    page: Page,
    reading: &'q MessageQuery,
    read: impl Fn(Page, u32) -> R,
    search: impl FnOnce(&'q str, u32) -> S,
) -> Result<Value, StoreError> {
    let limit = reading.limit.unwrap_or(DEFAULT_PAGE).clamp(1, MAX_PAGE);
    let found = match &reading.q {
        Some(words) => newest_that_fit(search(words, limit.min(MAX_SEARCH_RESULTS)).await?),
        None => read_page(page, limit, read).await?,
    };
    // Messages are numbered without gaps, so the number at an edge shows if there are more beyond it.
    let (mut earlier, mut later) = (None, None);
    if reading.q.is_none() {
        earlier = found.first().map(|post| post.seq).filter(|seq| *seq > 1);
        later = found.last().map(|post| post.seq).filter(|seq| *seq < channel.last_seq);
    }
    Ok(json!({
        "channelId": channel.id,
        "state": channel.state,
        "lastSeq": channel.last_seq,
        "messages": found.iter().map(message).collect::<Vec<_>>(),
        "before": earlier,
        "after": later,
    }))
}

/// Returns the messages of all channels that contain all of these words, newest first.
///
/// # Errors
///
/// Returns the store's error if the database can't be read.
pub(crate) async fn search<A>(database: &Database<A>, asked: &SearchQuery) -> Result<Value, SwarmError> {
    let limit = asked.limit.unwrap_or(MAX_SEARCH_RESULTS).clamp(1, MAX_SEARCH_RESULTS);
    Ok(found_messages(database.posts().search(None, &asked.q, limit).await?))
}

/// Returns as many of these messages, newest first, as fit into one response.
fn found_messages(found: Vec<Post>) -> Value {
    let found = newest_that_fit(found);
    let messages = found.iter().rev().map(|post| {
        let mut shown = message(post);
        shown["channelId"] = json!(post.channel);
        shown
    });
    json!({"messages": messages.collect::<Vec<_>>()})
}

/// Returns the messages of these channels that contain all of these words, newest first.
///
/// # Errors
///
/// Returns the store's error if the database can't be read.
pub(crate) async fn search_in<A>(
    database: &Database<A>,
    channels: &[ChannelId],
    asked: &SearchQuery,
) -> Result<Value, SwarmError> {
    let limit = asked.limit.unwrap_or(MAX_SEARCH_RESULTS).clamp(1, MAX_SEARCH_RESULTS);
    let mut found = Vec::new();
    // Each channel is searched by itself. In one search, messages of other channels would take the places.
    for channel in channels {
        found.extend(database.posts().search(Some(channel), &asked.q, limit).await?);
    }
    found.sort_by_key(|post| std::cmp::Reverse(post.created_at));
    found.truncate(limit as usize);
    Ok(found_messages(found))
}

/// Creates a channel.
///
/// # Errors
///
/// Returns [`SwarmError::Invalid`] for a wrong name of the person, and the error of [`Swarm::create_channel`].
pub(crate) async fn create(swarm: &Swarm, new: CreateChannel) -> Result<Value, SwarmError> {
    let by = person(new.name.as_deref())?;
    let wanted = ChannelSpec { id: new.id, topic: new.topic, members: new.members, message: new.message };
    swarm.create_channel(&by, wanted).await.map(|channel| describe(&channel))
}

/// Posts a message. With an idempotency key it is posted once, even if the request is repeated.
///
/// # Errors
///
/// Returns the error of [`Swarm::post_keyed`] if the message was not posted.
pub(crate) async fn say(
    swarm: &Swarm,
    by: &Actor,
    id: &ChannelId,
    say: PostMessage,
    key: Option<IdempotencyKey>,
) -> Result<Value, SwarmError> {
    let notify = say.notify.unwrap_or(true);
    let text = say.content.clone();
    let said = swarm.post_keyed(by, id, say.content, notify, key).await?;
    // The message is posted. A failure from here on must not look as if it were not.
    let notes =
        if notify { swarm.unheard(&by.party, id, &text).await.unwrap_or_default() } else { Vec::new() };
    Ok(json!({"channelId": said.channel, "seq": said.seq, "notes": notes}))
}

/// Changes the members of a channel.
///
/// # Errors
///
/// Returns [`SwarmError::Invalid`] for a wrong name of the person, and the error of [`Swarm::assign_members`].
pub(crate) async fn assign(
    swarm: &Swarm,
    id: &ChannelId,
    change: ChangeMembers,
) -> Result<Value, SwarmError> {
    let by = person(change.name.as_deref())?;
    let (joined, left) = swarm.assign_members(&by, id, &change.add, &change.remove).await?;
    let channel = swarm.channel(id).await?;
    Ok(json!({"channelId": channel.id, "joined": joined, "left": left, "members": member_parties(&channel)}))
}

/// Changes the shown name or the topic of a channel.
///
/// # Errors
///
/// Returns [`SwarmError::Invalid`] for a wrong name of the person or if neither is given, and the error of
/// [`Swarm::retitle`].
pub(crate) async fn retitle(
    swarm: &Swarm,
    id: &ChannelId,
    change: RenameChannel,
) -> Result<Value, SwarmError> {
    let by = person(change.name.as_deref())?;
    if change.title.is_none() && change.topic.is_none() {
        return Err(SwarmError::Invalid("give a name or a topic".to_owned()));
    }
    let title = ChannelTitle { name: change.title, topic: change.topic };
    Ok(describe(&swarm.retitle(&by, id, title).await?))
}

/// Performs a step of the archive protocol.
///
/// # Errors
///
/// Returns [`SwarmError::Invalid`] for a wrong name of the person, and the error of [`Swarm::archive`].
pub(crate) async fn archive(
    swarm: &Swarm,
    id: &ChannelId,
    step: ArchiveRequest,
) -> Result<Value, SwarmError> {
    let by = person(step.name.as_deref())?;
    swarm.archive(&by, id, step.action).await?;
    Ok(describe(&swarm.channel(id).await?))
}

/// Returns a channel in the JSON form of the API.
#[must_use]
pub(crate) fn describe(channel: &Channel) -> Value {
    let agents = |is_ready: bool| -> Vec<&AgentId> {
        let members = channel.members.iter().filter(|member| member.ready_at.is_some() == is_ready);
        members.filter_map(|member| member.party.agent()).collect()
    };
    let archive = channel.archiving.as_ref().map(|archiving| {
        json!({
            "since": archiving.since,
            "by": archiving.by,
            "dueAt": archiving.due_at,
            "ready": agents(true),
            "waiting": agents(false),
        })
    });
    json!({
        "channelId": channel.id,
        "name": channel.name,
        "topic": channel.topic,
        "createdBy": channel.created_by,
        "members": member_parties(channel),
        "createdAt": channel.created_at,
        "state": channel.state,
        "lastSeq": channel.last_seq,
        "archive": archive,
        "archivedAt": channel.archived_at,
    })
}

/// Returns a message in the JSON form of the API.
#[must_use]
pub(crate) fn message(post: &Post) -> Value {
    json!({"seq": post.seq, "author": post.author, "content": post.content, "createdAt": post.created_at})
}

fn member_parties(channel: &Channel) -> Vec<&Party> {
    channel.members.iter().map(|member| &member.party).collect()
}

async fn find<A>(database: &Database<A>, id: &ChannelId) -> Result<Channel, SwarmError> {
    database.channels().find(id).await?.ok_or_else(|| SwarmError::NoChannel(id.clone()))
}

/// Reads as many messages as fit into one response, in pieces, beginning where the request says.
async fn read_page<R: Future<Output = ReadPosts>>(
    page: Page,
    limit: u32,
    read: impl Fn(Page, u32) -> R,
) -> ReadPosts {
    let mut taken = Vec::new();
    let mut room = MAX_RESPONSE_BYTES;
    let mut next = page;
    let mut left = limit;
    let is_forward = matches!(page, Page::After(_));
    'pieces: while left > 0 {
        let asked = left.min(CHUNK_SIZE);
        let mut piece = read(next, asked).await?;
        // A piece that is shorter than asked for is the last one.
        let is_last = piece.len() < asked as usize;
        // Backward pages are read newest first, so the ones that do not fit are the oldest.
        if !is_forward {
            piece.reverse();
        }
        let Some(edge) = piece.last().map(|post| post.seq) else { break };
        for post in piece {
            // One message is always returned, however long it is, or the reader could never get past it.
            if post.content.len() > room && !taken.is_empty() {
                break 'pieces;
            }
            room = room.saturating_sub(post.content.len());
            taken.push(post);
        }
        if is_last {
            break;
        }
        left -= asked;
        next = if is_forward { Page::After(edge) } else { Page::Before(edge) };
    }
    // The response is oldest first in both directions.
    if !is_forward {
        taken.reverse();
    }
    Ok(taken)
}

/// Keeps the newest of the results that fit, and returns them oldest first.
fn newest_that_fit(found: Vec<Post>) -> Vec<Post> {
    let mut room = MAX_RESPONSE_BYTES;
    let mut taken: Vec<Post> = Vec::new();
    for post in found {
        if post.content.len() > room && !taken.is_empty() {
            break;
        }
        room = room.saturating_sub(post.content.len());
        taken.push(post);
    }
    taken.reverse();
    taken
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;
    use crate::error::{Explain as _, Kind};

    #[test]
    fn only_a_valid_person_name_is_accepted() {
        for (name, party) in [
            ("ann", "human:ann"),
            ("system", "human:system"),
            ("coder", "human:coder"),
            ("a.b@c", "human:a.b@c"),
        ] {
            let by = person(Some(name)).unwrap();
            assert_eq!(by.party.to_string(), party);
            assert!(by.party.is_human() && by.session.is_none());
        }
        assert_eq!(person(None).unwrap().party.to_string(), "human:owner");
        for wrong in ["", "human:ann", "token:ci", "a b", "a\nb", "é", "x:y", "\u{202e}a", &"x".repeat(65)] {
            assert_eq!(person(Some(wrong)).unwrap_err().kind(), Kind::Usage, "{wrong:?}");
        }
    }

    /// A channel with this many messages of this size in bytes.
    struct FakeChannel(u64, usize);

    impl FakeChannel {
        fn post(&self, seq: u64) -> Post {
            Post {
                channel: "x".parse().unwrap(),
                seq,
                author: Party::human("ann"),
                content: "x".repeat(self.1),
                created_at: 0,
                wake: crate::store::WakeUrgency::Nobody,
                mentions: crate::store::PostMentions::default(),
            }
        }
    }

    impl FakeChannel {
        fn channel(&self) -> Channel {
            Channel {
                id: "x".parse().unwrap(),
                name: "x".to_owned(),
                topic: "t".to_owned(),
                created_by: Party::System,
                created_at: 0,
                state: ChannelState::Active,
                archiving: None,
                archived_at: None,
                last_seq: self.0,
                members: Vec::new(),
            }
        }

        fn page(&self, page: Page, limit: u32) -> Vec<Post> {
            let limit = u64::from(limit);
            let (from, to) = match page {
                Page::Last => (self.0.saturating_sub(limit) + 1, self.0),
                Page::Before(seq) => (seq.saturating_sub(limit).max(1), seq - 1),
                Page::After(seq) => (seq + 1, (seq + limit).min(self.0)),
            };
            (from..=to).map(|seq| self.post(seq)).collect()
        }

        fn search(&self, limit: u32) -> Vec<Post> {
            (1..=self.0).rev().take(limit as usize).map(|seq| self.post(seq)).collect()
        }
    }

    fn numbers(answer: &Value) -> Vec<u64> {
        let messages = answer["messages"].as_array().unwrap().iter();
        messages.map(|message| message["seq"].as_u64().unwrap()).collect()
    }

    async fn ask(source: &FakeChannel, reading: MessageQuery) -> Value {
        let position = page(&reading).unwrap();
        let read = |page, limit| ready(Ok(source.page(page, limit)));
        let search = |_: &str, limit| ready(Ok(source.search(limit)));
        read_with(&source.channel(), position, &reading, read, search).await.unwrap()
    }

    #[tokio::test]
    async fn pages_run_in_both_directions_and_name_the_next_ones() {
        let source = FakeChannel(100, 1);
        let last = ask(&source, MessageQuery { limit: Some(45), ..MessageQuery::default() }).await;
        assert_eq!(numbers(&last), (56..=100).collect::<Vec<_>>());
        assert_eq!((last["before"].as_u64(), last["after"].as_u64()), (Some(56), None));
        let earlier =
            ask(&source, MessageQuery { before: Some(56), limit: Some(45), ..MessageQuery::default() }).await;
        assert_eq!(numbers(&earlier), (11..=55).collect::<Vec<_>>());
        assert_eq!((earlier["before"].as_u64(), earlier["after"].as_u64()), (Some(11), Some(55)));
        let first =
            ask(&source, MessageQuery { before: Some(11), limit: Some(45), ..MessageQuery::default() }).await;
        assert_eq!((numbers(&first).len(), first["before"].as_u64()), (10, None));
        let after =
            ask(&source, MessageQuery { after: Some(70), limit: Some(25), ..MessageQuery::default() }).await;
        assert_eq!(numbers(&after), (71..=95).collect::<Vec<_>>());
        assert_eq!(after["after"].as_u64(), Some(95));
        let both = MessageQuery { after: Some(1), before: Some(9), ..MessageQuery::default() };
        assert!(matches!(page(&both), Err(SwarmError::Invalid(_))));
    }

    #[tokio::test]
    async fn an_answer_is_bounded_and_no_message_is_cut() {
        let source = FakeChannel(100, 1 << 20);
        let last = ask(&source, MessageQuery { limit: Some(200), ..MessageQuery::default() }).await;
        assert_eq!(numbers(&last), (93..=100).collect::<Vec<_>>());
        let after =
            ask(&source, MessageQuery { after: Some(30), limit: Some(200), ..MessageQuery::default() }).await;
        assert_eq!(numbers(&after), (31..=38).collect::<Vec<_>>());
        assert_eq!(after["after"].as_u64(), Some(38));
        let found = ask(&source, MessageQuery { q: Some("x".to_owned()), ..MessageQuery::default() }).await;
        assert_eq!(numbers(&found), (93..=100).collect::<Vec<_>>());
        let huge = ask(&FakeChannel(3, MAX_RESPONSE_BYTES + 1), MessageQuery::default()).await;
        assert_eq!(numbers(&huge), [3], "one is always given");
    }
}

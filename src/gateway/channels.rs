//! What a person asks of channels and what they are answered, as JSON: the same over HTTP and where the
//! command line does it itself because no gateway runs.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::id::{AgentId, ChannelId, Party};
use crate::store::{Channel, ChannelState, IdempotencyKey, Page, Post, Reader, Store, StoreError};
use crate::swarm::archive::Archive;
use crate::swarm::channel::{MAX_PAGE, Wanted};
use crate::swarm::title::Title;
use crate::swarm::{By, Swarm, SwarmError};

/// The most messages of one search.
const MAX_FOUND: u32 = 50;
/// Messages of one reading where nothing is said.
const DEFAULT_PAGE: u32 = 50;
/// The most bytes of texts in one answer. What does not fit is left for the next one; a message is never cut.
const MAX_BYTES: usize = 8 << 20;
/// So many messages are read at a time, so that few long ones don't fill the memory.
const PIECE: u32 = 20;

/// A channel that a person wants.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Create {
    /// Its id.
    pub id: ChannelId,
    /// What it is about.
    pub topic: String,
    /// Who takes part.
    #[serde(default)]
    pub members: Vec<Party>,
    /// What is said first.
    #[serde(default)]
    pub message: Option<String>,
    /// The person's name.
    #[serde(default, rename = "as")]
    pub name: Option<String>,
}

/// A message of a person's.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Say {
    /// What it says.
    pub content: String,
    /// The person's name.
    #[serde(default, rename = "as")]
    pub name: Option<String>,
    /// False wakes nobody.
    #[serde(default)]
    pub notify: Option<bool>,
}

/// Who comes and who goes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Assign {
    /// Who comes.
    #[serde(default)]
    pub add: Vec<Party>,
    /// Who goes.
    #[serde(default)]
    pub remove: Vec<Party>,
    /// The person's name.
    #[serde(default, rename = "as")]
    pub name: Option<String>,
}

/// Another shown name or topic.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retitle {
    /// The name that is shown.
    #[serde(default, rename = "name")]
    pub title: Option<String>,
    /// What it is about.
    #[serde(default)]
    pub topic: Option<String>,
    /// The person's name.
    #[serde(default, rename = "as")]
    pub name: Option<String>,
}

/// A step of the archive protocol.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Which.
    pub action: Action,
    /// The person's name.
    #[serde(default, rename = "as")]
    pub name: Option<String>,
}

/// The steps a person may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Begin it, or say how it stands.
    Begin,
    /// End it now.
    Force,
    /// Call it off.
    Cancel,
    /// Open an archived channel again.
    Reopen,
}

/// Which channels.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    /// Those of this member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<Party>,
    /// Those in this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<ChannelState>,
}

/// Which messages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reading {
    /// Those after this number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// Those before this number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<u64>,
    /// At most so many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Those with all these words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub q: Option<String>,
}

/// Where channels are read: in the gateway's own database, or beside it.
pub trait Shelf {
    /// All channels, of a member or in a state.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    fn list(&self, member: Option<&Party>, state: Option<ChannelState>) -> Result<Vec<Channel>, StoreError>;

    /// A channel.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    fn find(&self, id: &ChannelId) -> Result<Option<Channel>, StoreError>;

    /// Messages of a channel, the oldest first.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    fn page(&self, id: &ChannelId, page: Page, limit: u32) -> Result<Vec<Post>, StoreError>;

    /// Messages with these words, the newest first.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    fn search(&self, id: &ChannelId, words: &str, limit: u32) -> Result<Vec<Post>, StoreError>;
}

macro_rules! shelf {
    ($kind:ty) => {
        impl Shelf for $kind {
            fn list(
                &self,
                member: Option<&Party>,
                state: Option<ChannelState>,
            ) -> Result<Vec<Channel>, StoreError> {
                self.channels(member, state)
            }

            fn find(&self, id: &ChannelId) -> Result<Option<Channel>, StoreError> {
                self.channel(id)
            }

            fn page(&self, id: &ChannelId, page: Page, limit: u32) -> Result<Vec<Post>, StoreError> {
                self.messages(id, page, limit)
            }

            fn search(&self, id: &ChannelId, words: &str, limit: u32) -> Result<Vec<Post>, StoreError> {
                self.search_messages(Some(id), words, limit)
            }
        }
    };
}

shelf!(Store);
shelf!(Reader);

/// Who a person is, by the name they give: never an agent, never flock itself. Without one they are the owner.
///
/// # Errors
///
/// [`SwarmError::Invalid`] where it is no name.
pub fn person(name: Option<&str>) -> Result<By, SwarmError> {
    let name = name.unwrap_or("owner");
    match Party::human(name) {
        // Nothing of it had to be replaced. A colon would: with one it could be a client's.
        Party::Human(kept) if kept == name => Ok(By::human(name)),
        _ => Err(SwarmError::Invalid(
            "the name of a person is 1 to 64 letters, digits, '.', '_', '@' and '-', without `human:`"
                .to_owned(),
        )),
    }
}

/// Channels, the oldest first: those of them that may be shown.
///
/// # Errors
///
/// Those of the database.
pub fn list(
    shelf: &impl Shelf,
    filter: &Filter,
    is_shown: impl Fn(&Channel) -> bool,
) -> Result<Value, SwarmError> {
    let mut channels = shelf.list(filter.member.as_ref(), filter.state)?;
    channels.retain(is_shown);
    Ok(json!({"channels": channels.iter().map(describe).collect::<Vec<_>>()}))
}

/// One channel.
///
/// # Errors
///
/// [`SwarmError::NoChannel`], and those of the database.
pub fn show(shelf: &impl Shelf, id: &ChannelId) -> Result<Value, SwarmError> {
    Ok(describe(&find(shelf, id)?))
}

/// Messages of a channel, the oldest first, and where to go on.
///
/// # Errors
///
/// [`SwarmError::NoChannel`], [`SwarmError::Invalid`], and those of the database.
pub fn read(shelf: &impl Shelf, id: &ChannelId, reading: &Reading) -> Result<Value, SwarmError> {
    let page = match (reading.after, reading.before, &reading.q) {
        (None, None, _) => Page::Last,
        (Some(after), None, None) => Page::After(after),
        (None, Some(before), None) => Page::Before(before),
        _ => return Err(SwarmError::Invalid("give one of after, before and q".to_owned())),
    };
    let channel = find(shelf, id)?;
    let limit = reading.limit.unwrap_or(DEFAULT_PAGE).clamp(1, MAX_PAGE);
    let found = match &reading.q {
        Some(words) => {
            let found = shelf.search(&channel.id, words, limit.min(MAX_FOUND))?;
            fitting(found)
        }
        None => pages(shelf, &channel.id, page, limit)?,
    };
    // Messages are numbered without gaps, so an edge tells whether something is beyond it.
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

/// Makes a channel.
///
/// # Errors
///
/// As [`SwarmError`] says.
pub async fn create(swarm: &Swarm, new: Create) -> Result<Value, SwarmError> {
    let by = person(new.name.as_deref())?;
    let wanted = Wanted { id: new.id, topic: new.topic, members: new.members, message: new.message };
    swarm.create_channel(&by, wanted).await.map(|channel| describe(&channel))
}

/// Posts a message, once for each key.
///
/// # Errors
///
/// As [`SwarmError`] says.
pub async fn say(
    swarm: &Swarm,
    by: &By,
    id: &ChannelId,
    say: Say,
    key: Option<IdempotencyKey>,
) -> Result<Value, SwarmError> {
    let notify = say.notify.unwrap_or(true);
    let text = say.content.clone();
    let said = swarm.post_keyed(by, id, say.content, notify, key).await?;
    // It is posted: nothing that fails from here on may tell otherwise.
    let notes = if notify { swarm.unheard(&by.party, id, &text).unwrap_or_default() } else { Vec::new() };
    let id = swarm.channel(id).map_or_else(|_| id.clone(), |channel| channel.id);
    Ok(json!({"channelId": id, "seq": said.seq(), "notes": notes}))
}

/// Changes who is a member.
///
/// # Errors
///
/// As [`SwarmError`] says.
pub async fn assign(swarm: &Swarm, id: &ChannelId, change: Assign) -> Result<Value, SwarmError> {
    let by = person(change.name.as_deref())?;
    let (joined, left) = swarm.assign_members(&by, id, &change.add, &change.remove).await?;
    let channel = swarm.channel(id)?;
    Ok(json!({"channelId": channel.id, "joined": joined, "left": left, "members": parties(&channel)}))
}

/// Gives a channel another shown name or topic.
///
/// # Errors
///
/// As [`SwarmError`] says.
pub async fn retitle(swarm: &Swarm, id: &ChannelId, change: Retitle) -> Result<Value, SwarmError> {
    let by = person(change.name.as_deref())?;
    if change.title.is_none() && change.topic.is_none() {
        return Err(SwarmError::Invalid("give a name or a topic".to_owned()));
    }
    let title = Title { name: change.title, topic: change.topic };
    Ok(describe(&swarm.retitle(&by, id, title).await?))
}

/// Does a step of the archive protocol.
///
/// # Errors
///
/// As [`SwarmError`] says.
pub async fn archive(swarm: &Swarm, id: &ChannelId, step: Step) -> Result<Value, SwarmError> {
    let by = person(step.name.as_deref())?;
    let what = match step.action {
        Action::Begin => Archive::Begin,
        Action::Force => Archive::Force,
        Action::Cancel => Archive::Cancel,
        Action::Reopen => Archive::Reopen,
    };
    swarm.archive(&by, id, what).await?;
    Ok(describe(&swarm.channel(id)?))
}

/// A channel as programs get it.
#[must_use]
pub fn describe(channel: &Channel) -> Value {
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
        "members": parties(channel),
        "createdAt": channel.created_at,
        "state": channel.state,
        "lastSeq": channel.last_seq,
        "archive": archive,
        "archivedAt": channel.archived_at,
    })
}

/// A message as programs get it.
#[must_use]
pub fn message(post: &Post) -> Value {
    json!({"seq": post.seq, "author": post.author, "content": post.content, "createdAt": post.created_at})
}

fn parties(channel: &Channel) -> Vec<&Party> {
    channel.members.iter().map(|member| &member.party).collect()
}

fn find(shelf: &impl Shelf, id: &ChannelId) -> Result<Channel, SwarmError> {
    shelf.find(id)?.ok_or_else(|| SwarmError::NoChannel(id.clone()))
}

/// Messages as far as they fit into one answer, read piece by piece from where the reading begins.
fn pages(shelf: &impl Shelf, id: &ChannelId, page: Page, limit: u32) -> Result<Vec<Post>, StoreError> {
    let mut taken = Vec::new();
    let mut room = MAX_BYTES;
    let mut next = page;
    let mut left = limit;
    let is_forward = matches!(page, Page::After(_));
    'pieces: while left > 0 {
        let asked = left.min(PIECE);
        let mut piece = shelf.page(id, next, asked)?;
        let is_last = piece.len() < asked as usize;
        if !is_forward {
            piece.reverse();
        }
        let Some(edge) = piece.last().map(|post| post.seq) else { break };
        for post in piece {
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
    if !is_forward {
        taken.reverse();
    }
    Ok(taken)
}

/// What was found, newest first, as far as it fits; given oldest first.
fn fitting(found: Vec<Post>) -> Vec<Post> {
    let mut room = MAX_BYTES;
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
    use super::*;
    use crate::error::{Explain as _, Kind};

    #[test]
    fn a_name_is_a_persons_and_nothing_else() {
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

    /// A channel of so many messages of this size.
    struct Long(u64, usize);

    impl Long {
        fn post(&self, seq: u64) -> Post {
            Post {
                channel: "x".parse().unwrap(),
                seq,
                author: Party::human("ann"),
                content: "x".repeat(self.1),
                created_at: 0,
                wake: crate::store::Wake::Nobody,
                mentions: crate::store::Mentioned::default(),
            }
        }
    }

    impl Shelf for Long {
        fn list(&self, _: Option<&Party>, _: Option<ChannelState>) -> Result<Vec<Channel>, StoreError> {
            Ok(Vec::new())
        }

        fn find(&self, id: &ChannelId) -> Result<Option<Channel>, StoreError> {
            Ok(Some(Channel {
                id: id.clone(),
                name: "x".to_owned(),
                topic: "t".to_owned(),
                created_by: Party::System,
                created_at: 0,
                state: ChannelState::Active,
                archiving: None,
                archived_at: None,
                last_seq: self.0,
                members: Vec::new(),
            }))
        }

        fn page(&self, _: &ChannelId, page: Page, limit: u32) -> Result<Vec<Post>, StoreError> {
            let limit = u64::from(limit);
            let (from, to) = match page {
                Page::Last => (self.0.saturating_sub(limit) + 1, self.0),
                Page::Before(seq) => (seq.saturating_sub(limit).max(1), seq - 1),
                Page::After(seq) => (seq + 1, (seq + limit).min(self.0)),
            };
            Ok((from..=to).map(|seq| self.post(seq)).collect())
        }

        fn search(&self, _: &ChannelId, _: &str, limit: u32) -> Result<Vec<Post>, StoreError> {
            Ok((1..=self.0).rev().take(limit as usize).map(|seq| self.post(seq)).collect())
        }
    }

    fn numbers(answer: &Value) -> Vec<u64> {
        let messages = answer["messages"].as_array().unwrap().iter();
        messages.map(|message| message["seq"].as_u64().unwrap()).collect()
    }

    fn ask(shelf: &Long, reading: Reading) -> Value {
        read(shelf, &"x".parse().unwrap(), &reading).unwrap()
    }

    #[test]
    fn pages_go_both_ways_and_name_what_is_beyond_them() {
        let shelf = Long(100, 1);
        let last = ask(&shelf, Reading { limit: Some(45), ..Reading::default() });
        assert_eq!(numbers(&last), (56..=100).collect::<Vec<_>>());
        assert_eq!((last["before"].as_u64(), last["after"].as_u64()), (Some(56), None));
        let earlier = ask(&shelf, Reading { before: Some(56), limit: Some(45), ..Reading::default() });
        assert_eq!(numbers(&earlier), (11..=55).collect::<Vec<_>>());
        assert_eq!((earlier["before"].as_u64(), earlier["after"].as_u64()), (Some(11), Some(55)));
        let first = ask(&shelf, Reading { before: Some(11), limit: Some(45), ..Reading::default() });
        assert_eq!((numbers(&first).len(), first["before"].as_u64()), (10, None));
        let after = ask(&shelf, Reading { after: Some(70), limit: Some(25), ..Reading::default() });
        assert_eq!(numbers(&after), (71..=95).collect::<Vec<_>>());
        assert_eq!(after["after"].as_u64(), Some(95));
        let both = Reading { after: Some(1), before: Some(9), ..Reading::default() };
        assert!(matches!(read(&shelf, &"x".parse().unwrap(), &both), Err(SwarmError::Invalid(_))));
    }

    #[test]
    fn an_answer_is_bounded_and_no_message_is_cut() {
        let shelf = Long(100, 1 << 20);
        let last = ask(&shelf, Reading { limit: Some(200), ..Reading::default() });
        assert_eq!(numbers(&last), (93..=100).collect::<Vec<_>>());
        let after = ask(&shelf, Reading { after: Some(30), limit: Some(200), ..Reading::default() });
        assert_eq!(numbers(&after), (31..=38).collect::<Vec<_>>());
        assert_eq!(after["after"].as_u64(), Some(38));
        let found = ask(&shelf, Reading { q: Some("x".to_owned()), ..Reading::default() });
        assert_eq!(numbers(&found), (93..=100).collect::<Vec<_>>());
        let huge = ask(&Long(3, MAX_BYTES + 1), Reading::default());
        assert_eq!(numbers(&huge), [3], "one is always given");
    }
}

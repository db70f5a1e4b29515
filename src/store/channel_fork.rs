//! Copies of a channel: its messages up to one moment, its people, and copies of its agents as members.

use super::audit::{self, AuditEntry};
use super::channel;
use super::post::{self, CommittedPost, NewPost, number};
use super::race::{self, NewRace};
use super::sql::{self, OptionalExtension as _, Transaction};
use super::subjects::Channels;
use super::{Store, StoreError};
use crate::id::{AgentId, ChannelId, Party};

/// The most messages that a copy has. Older ones stay in the original.
const MAX_MESSAGES: i64 = 10_000;

/// A copy of a channel to be made.
#[derive(Clone, Debug)]
pub(crate) struct ChannelCopy {
    pub from: ChannelId,
    /// The number of the last message that the copy has.
    pub up_to: u64,
    pub id: ChannelId,
    /// The name shown to people.
    pub name: String,
    pub topic: String,
    pub created_by: Party,
    /// The agents, each with the copy of it that is a member.
    pub agents: Vec<(AgentId, AgentId)>,
    pub people: Vec<Party>,
    /// Messages that follow the copied ones.
    pub posts: Vec<NewPost>,
}

/// Copies that were made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CopyOutcome {
    /// The messages that follow the copied ones, in the order of the copies.
    Made(Vec<CommittedPost>),
    /// A channel with this id exists. Nothing was made.
    Taken(ChannelId),
}

fn copy(transaction: &Transaction<'_>, copy: &ChannelCopy, now: i64) -> sql::Result<()> {
    let (from, id, up_to) = (copy.from.as_str(), copy.id.as_str(), number(copy.up_to));
    transaction.execute(
        "INSERT INTO channel (id, name, topic, created_by, created_at, last_seq) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        (id, &copy.name, &copy.topic, copy.created_by.to_string(), now, up_to),
    )?;
    // What was said to the originals gives the copies no task, so it wakes nobody. A turn has one final text.
    transaction.execute(
        "INSERT INTO message (channel, seq, author, content, created_at, wake, mentions, turn, is_final,
            person)
         SELECT ?2, seq, author, content, created_at, 0, mentions, NULL, 0, person FROM message
         WHERE channel = ?1 AND seq <= ?3 AND seq > ?3 - ?4 ORDER BY seq",
        (from, id, up_to, MAX_MESSAGES),
    )?;
    for (original, new) in &copy.agents {
        let delivered: Option<i64> = transaction
            .query_row(
                "SELECT delivered_seq FROM delivery WHERE agent = ?1 AND channel = ?2",
                (original.as_str(), from),
                |row| row.get(0),
            )
            .optional()?;
        let Some(delivered) = delivered else { continue };
        // What the original said last is in the copy's own conversation.
        transaction.execute(
            "INSERT INTO delivery (agent, channel, delivered_seq)
             VALUES (?1, ?2, min(?5, coalesce((SELECT min(seq) - 1 FROM message
                WHERE channel = ?2 AND seq > ?4 AND author <> ?3), ?5)))",
            (new.as_str(), id, original.as_str(), delivered, up_to),
        )?;
    }
    let members: Vec<Party> =
        copy.agents.iter().map(|(_, new)| Party::Agent(new.clone())).chain(copy.people.clone()).collect();
    channel::join(transaction, &copy.id, &members, now).map(drop)
}

impl Channels<&Store> {
    /// Makes copies of a channel with their first messages, and the race that they belong to, or nothing of it.
    pub(crate) async fn copy(
        self,
        copies: Vec<ChannelCopy>,
        race: Option<NewRace>,
        entries: Vec<AuditEntry>,
        now: i64,
    ) -> Result<CopyOutcome, StoreError> {
        self.write("copy a channel", move |transaction| {
            for wanted in &copies {
                if channel::find(transaction, &wanted.id)?.is_some() {
                    return Ok(CopyOutcome::Taken(wanted.id.clone()));
                }
            }
            let mut posted = Vec::new();
            for wanted in &copies {
                copy(transaction, wanted, now)?;
                for new in &wanted.posts {
                    posted.extend(post::post(transaction, new)?.posted());
                }
            }
            if let Some(race) = &race {
                race::insert(transaction, race, &copies, now)?;
            }
            for entry in &entries {
                audit::append(transaction, entry, now)?;
            }
            Ok(CopyOutcome::Made(posted))
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::Home;
    use crate::store::{Level, NewChannel, Page, PostMentions, WakeUrgency};

    fn said(channel: &str, author: &str, text: &str) -> NewPost {
        NewPost {
            channel: channel.parse().unwrap(),
            author: author.parse().unwrap(),
            content: text.to_owned(),
            wake: WakeUrgency::AtOnce,
            mentions: PostMentions::default(),
            session: None,
            turn: None,
            is_final: false,
            key: None,
            origin: None,
            charged: None,
            now: 7,
        }
    }

    fn entry() -> AuditEntry {
        AuditEntry::new("human:ann", "channel.fork", "dev2", Level::Yellow, String::new())
    }

    #[tokio::test]
    async fn a_copy_has_what_was_said_and_wakes_nobody_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&Home::new(folder.path().to_owned(), None)).unwrap();
        let ada: Party = "ada".parse().unwrap();
        let new = NewChannel {
            id: "dev".parse().unwrap(),
            topic: "build".into(),
            created_by: "human:ann".parse().unwrap(),
            members: vec![ada.clone()],
            now: 5,
        };
        store.channels().create(new, None, entry()).await.unwrap();
        for (author, text) in [("human:ann", "one"), ("ada", "two"), ("human:ann", "three")] {
            store.posts().add(said("dev", author, text)).await.unwrap();
        }
        let wanted = |id: &str| ChannelCopy {
            from: "dev".parse().unwrap(),
            up_to: 2,
            id: id.parse().unwrap(),
            name: "dev2".into(),
            topic: "build".into(),
            created_by: "human:ann".parse().unwrap(),
            agents: vec![("ada".parse().unwrap(), "ada-2".parse().unwrap())],
            people: vec!["human:ann".parse().unwrap()],
            posts: vec![said(id, "system", "a copy")],
        };
        let taken = store.channels().copy(vec![wanted("dev2"), wanted("DEV")], None, vec![entry()], 9).await;
        assert_eq!(taken.unwrap(), CopyOutcome::Taken("DEV".parse().unwrap()));
        assert_eq!(store.channels().find(&"dev2".parse().unwrap()).await.unwrap(), None, "all or nothing");
        let made = store.channels().copy(vec![wanted("dev2")], None, vec![entry()], 9).await.unwrap();
        let CopyOutcome::Made(posted) = made else { panic!("{made:?}") };
        assert_eq!((posted[0].seq, posted[0].recipients.len()), (3, 1));
        let id = "dev2".parse().unwrap();
        let found = store.channels().find(&id).await.unwrap().unwrap();
        assert_eq!(found.members.len(), 2);
        let page = store.posts().page(&id, Page::Last, 9).await.unwrap();
        let texts: Vec<&str> = page.iter().map(|post| post.content.as_str()).collect();
        assert_eq!(texts, ["one", "two", "a copy"]);
        assert!(page[..2].iter().all(|post| post.wake == WakeUrgency::Nobody));
        assert_eq!(store.posts().search(Some(&id), "one", 9).await.unwrap().len(), 1, "it is found by words");
    }
}

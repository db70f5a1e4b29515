//! Sends what waits in the outbox to the linked channels, in order for each link.

use std::sync::Arc;

use tokio::sync::Notify;

use super::message::{Mention, OutgoingFile, OutgoingMessage};
use super::platform::{Platform, PlatformError, Repetition};
use super::side_by_side::{Waiting, attempt_due};
use super::{retry, text, workspace_file};
use crate::clock::unix_ms;
use crate::config::Bridge;
use crate::fault_point::{self, FaultPoint};
use crate::id::Party;
use crate::store::{LinkOrigin, OutboxContent, OutboxEntry, Post, Store, StoreError};
use crate::swarm::Swarm;

/// The result of one attempt at an entry.
#[derive(Debug)]
pub(crate) enum Attempt {
    /// All of it was sent.
    Sent,
    /// It is tried again later.
    Later(PlatformError),
    /// It can't be sent and was dropped.
    Dropped(PlatformError),
}

/// The word after a message that may be there twice.
const PERHAPS_REPEATED: &str = "\n\n(perhaps sent twice: the connection broke)";

/// The outbox of a bridge, in which a link takes one entry after the other. `report` is told of each attempt.
struct Posts<'a, R> {
    outbound: &'a Outbound<'a>,
    report: R,
}

impl<R: Fn(&OutboxEntry, &Attempt)> Waiting for Posts<'_, R> {
    type Message = OutboxEntry;
    type Error = StoreError;
    type Place = String;

    fn place(entry: &OutboxEntry) -> String {
        entry.link.clone()
    }

    fn next_at(entry: &OutboxEntry) -> i64 {
        entry.next_at
    }

    async fn look(&self) -> Result<Vec<OutboxEntry>, StoreError> {
        self.outbound.swarm.store().outbox().next(&self.outbound.bridge.name).await
    }

    async fn attempt(&self, entry: OutboxEntry) -> Result<(), StoreError> {
        let attempt = self.outbound.attempt(&entry).await?;
        (self.report)(&entry, &attempt);
        Ok(())
    }
}

/// The side of a bridge that sends.
pub(crate) struct Outbound<'a> {
    pub(crate) swarm: &'a Arc<Swarm>,
    pub(crate) bridge: &'a Bridge,
    pub(crate) platform: &'a dyn Platform,
}

/// The content to send.
#[derive(Default)]
pub(super) struct Content {
    /// The author, as the other side sees it; empty for flock itself.
    author: String,
    /// The public URL of the author's picture.
    avatar: Option<String>,
    markdown: String,
    mentions: Vec<Mention>,
    files: Vec<OutgoingFile>,
}

impl Content {
    /// Returns a text without mentions and files.
    pub(super) fn new(author: String, markdown: String) -> Self {
        Self { author, markdown, ..Self::default() }
    }
}

/// A message that is sent in parts.
pub(super) struct Parts<'a> {
    /// The platform's id of the channel.
    pub(super) external: &'a str,
    /// The platform's id of the message that it answers.
    pub(super) reply_to: Option<&'a str>,
    pub(super) content: &'a Content,
    /// The beginning of the key of each part.
    pub(super) key: String,
    /// The number of parts that were sent.
    pub(super) sent: usize,
    /// Set if an attempt at the next part began whose result is not known.
    pub(super) is_begun: bool,
}

/// The record of the parts of a message, which survives the process.
pub(super) trait PartRecord {
    /// Records that an attempt at the next part begins.
    async fn begin(&self) -> Result<(), StoreError>;

    /// Returns `true` if a message of the platform is recorded as another part or post.
    async fn is_recorded(&self, message: &str) -> Result<bool, StoreError>;

    /// Records that the next part was sent, and the platform's id of it.
    async fn part_sent(&self, message: String, is_last: bool) -> Result<(), StoreError>;
}

/// Records the parts of an entry of the outbox.
struct EntryRecord<'a> {
    store: &'a Store,
    entry: &'a OutboxEntry,
}

impl PartRecord for EntryRecord<'_> {
    async fn begin(&self) -> Result<(), StoreError> {
        self.store.outbox().begin(self.entry.id).await
    }

    async fn is_recorded(&self, message: &str) -> Result<bool, StoreError> {
        Ok(self.store.links().seq_of(&self.entry.link, message).await?.is_some())
    }

    async fn part_sent(&self, message: String, is_last: bool) -> Result<(), StoreError> {
        let origin = LinkOrigin { link: self.entry.link.clone(), message, is_history: false };
        self.store.outbox().part_sent(self.entry.id, origin, is_last, unix_ms()).await
    }
}

impl Outbound<'_> {
    /// Sends what is in the outbox, in order for each link and side by side for the links, until nothing is due. Returns
    /// the time in Unix milliseconds at which the next entry is, if any waits. After `wake` it looks for more.
    ///
    /// `report` is told of each attempt, with the entry.
    ///
    /// # Errors
    ///
    /// Returns an error if the outbox can't be read or written. What was sent and not recorded is sent again, with the
    /// same key.
    pub(crate) async fn send_due(
        &self,
        wake: &Notify,
        report: impl Fn(&OutboxEntry, &Attempt),
    ) -> Result<Option<i64>, StoreError> {
        attempt_due(wake, &Posts { outbound: self, report }).await
    }

    async fn attempt(&self, entry: &OutboxEntry) -> Result<Attempt, StoreError> {
        let outbox = || self.swarm.store().outbox();
        let failed = match &entry.content {
            OutboxContent::Topic(topic) => match self.platform.set_topic(&entry.external, topic).await {
                // A platform without topics, or one that does not let flock, keeps the one that it has.
                Ok(()) | Err(PlatformError::Refused(_)) => {
                    outbox().drop_entry(entry.id).await?;
                    None
                }
                Err(error) => Some(error),
            },
            _ => self.send_entry(entry).await?.err(),
        };
        match failed {
            None => Ok(Attempt::Sent),
            Some(PlatformError::Refused(why)) => {
                outbox().drop_entry(entry.id).await?;
                Ok(Attempt::Dropped(PlatformError::Refused(why)))
            }
            Some(error) => {
                // After a broken connection nobody knows if the message arrived. A search that is put off finds nothing out.
                let is_known = !entry.is_begun && !matches!(error, PlatformError::Unavailable(_));
                let until = retry::until(&error, entry.attempts);
                outbox().postpone(entry.id, until, is_known).await?;
                Ok(Attempt::Later(error))
            }
        }
    }

    async fn send_entry(&self, entry: &OutboxEntry) -> Result<Result<(), PlatformError>, StoreError> {
        let content = self.content(entry).await?;
        let store = self.swarm.store();
        let parts = Parts {
            external: &entry.external,
            reply_to: None,
            content: &content,
            // A restored backup counts its entries from an earlier number, so the time is part of the key.
            key: format!("flock-{}-{}", entry.created_at, entry.id),
            sent: entry.sent,
            is_begun: entry.is_begun,
        };
        let sent = self.send_parts(&parts, &EntryRecord { store, entry }).await?;
        // A text of nothing but blank lines has no part that would end the entry.
        if sent == Ok(0) {
            store.outbox().drop_entry(entry.id).await?;
        }
        Ok(sent.map(drop))
    }

    /// Sends the parts of a message that were not sent yet. Returns the number of all its parts.
    pub(super) async fn send_parts(
        &self,
        message: &Parts<'_>,
        record: &impl PartRecord,
    ) -> Result<Result<usize, PlatformError>, StoreError> {
        let Content { author, avatar, markdown, mentions, files } = message.content;
        let names: Vec<&str> = mentions.iter().map(|mention| mention.name.as_str()).collect();
        // The parts are the same at each attempt: they depend on nothing but the message and the platform.
        let parts = text::split(markdown, |part| {
            self.platform.fits(author, &format!("{}{PERHAPS_REPEATED}", text::neutralise(part, &names)))
        });
        for (number, part) in parts.iter().enumerate().skip(message.sent) {
            let is_last = number + 1 == parts.len();
            let outgoing = OutgoingMessage {
                external: message.external,
                author,
                avatar: avatar.as_deref(),
                markdown: &text::neutralise(part, &names),
                mentions,
                key: &format!("{}-{number}", message.key),
                reply_to: message.reply_to.filter(|_| number == 0),
                files: if is_last { files } else { &[] },
                ..OutgoingMessage::default()
            };
            let is_begun = message.is_begun && number == message.sent;
            let sent = match self.send_part(&outgoing, is_begun, record).await? {
                Ok(sent) => sent,
                Err(error) => return Ok(Err(error)),
            };
            fault_point::reach(FaultPoint::Sent);
            record.part_sent(sent, is_last).await?;
        }
        Ok(Ok(parts.len()))
    }

    /// Sends one part, unless an earlier attempt did. Returns the platform's id of the message.
    async fn send_part(
        &self,
        outgoing: &OutgoingMessage<'_>,
        is_begun: bool,
        record: &impl PartRecord,
    ) -> Result<Result<String, PlatformError>, StoreError> {
        let repeated = format!("{}{PERHAPS_REPEATED}", outgoing.markdown);
        let mut outgoing = outgoing.clone();
        match self.platform.limits().repetition {
            Repetition::Key => {}
            Repetition::History if is_begun => match self.platform.find_sent(&outgoing).await {
                // Where the text is compared, an equal message from before may be found.
                Ok(Some(message)) if !record.is_recorded(&message).await? => return Ok(Ok(message)),
                Ok(_) => {}
                Err(error) => return Ok(Err(error)),
            },
            Repetition::Nothing if is_begun => outgoing.markdown = &repeated,
            Repetition::History | Repetition::Nothing => record.begin().await?,
        }
        match self.platform.send(&outgoing).await {
            // A message without its files is better than none.
            Err(PlatformError::Refused(why)) if !outgoing.files.is_empty() => {
                tracing::warn!(bridge = self.bridge.name, why, "files of a message can't be sent");
                Ok(self.platform.send(&OutgoingMessage { files: &[], ..outgoing }).await)
            }
            sent => Ok(sent),
        }
    }

    async fn content(&self, entry: &OutboxEntry) -> Result<Content, StoreError> {
        match &entry.content {
            OutboxContent::Notice(notice) => {
                Ok(Content { markdown: format!("This channel was {notice}."), ..Content::default() })
            }
            OutboxContent::Topic(_) => Ok(Content::default()),
            OutboxContent::Post(post) => self.post_content(post).await,
        }
    }

    async fn post_content(&self, post: &Post) -> Result<Content, StoreError> {
        let most = self.platform.limits().file_bytes;
        let mut avatar = None;
        let (author, files) = match &post.author {
            Party::Agent(id) => {
                let config = self.swarm.config();
                let agent = config.agents.iter().find(|agent| agent.id == *id);
                avatar = agent.and_then(|agent| agent.avatar.clone());
                let ways = self.swarm.workspaces();
                let files = agent.map(|agent| workspace_file::linked_files(ways, agent, &post.content, most));
                (id.to_string(), files.unwrap_or_default())
            }
            Party::Human(name) => (name.clone(), Vec::new()),
            Party::System => (String::new(), Vec::new()),
        };
        let (markdown, mut code) = if most == 0 {
            (post.content.clone(), Vec::new())
        } else {
            workspace_file::long_code(&post.content, |text| self.platform.fits(&author, text))
        };
        code.extend(files);
        let mentions = self.mentions(&post.content).await?;
        Ok(Content { author, avatar, markdown, mentions, files: code })
    }

    /// Returns the people with an account on this platform that a text mentions.
    async fn mentions(&self, markdown: &str) -> Result<Vec<Mention>, StoreError> {
        let names = text::mentioned(markdown);
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let people: Vec<Party> = names.iter().map(|name| Party::human(name)).collect();
        let platform = self.bridge.platform.as_str();
        let found = self.swarm.store().accounts().of_people(platform, &people).await?;
        let mention = |(person, account): (Party, String)| match person {
            Party::Human(name) => Some(Mention { name, account }),
            Party::Agent(_) | Party::System => None,
        };
        Ok(found.into_iter().filter_map(mention).collect())
    }
}

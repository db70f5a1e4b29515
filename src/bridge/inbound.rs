//! Takes what people write on a platform into the linked channels.

use std::sync::Arc;

use super::message::IncomingMessage;
use super::platform::Platform;
use super::text::{self, Quote};
use super::turns::Turns;
use super::{attachment, command, identity};
use crate::clock::unix_ms;
use crate::config::{Agent, Bridge};
use crate::id::{ChannelId, Party};
use crate::process;
use crate::store::{Link, LinkOrigin, LinkState, Page, StoreError};
use crate::swarm::{Actor, Swarm, SwarmError};

/// The result of an incoming message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It was posted, with this sequence number, or had been before.
    Posted { link: String, seq: u64 },
    /// It is of a channel without an active link, of a program, or has no text.
    Ignored,
    /// The sender is not among those who are heard.
    NotHeard(Link),
    /// It was a command. The answer is for the sender.
    Answered(String),
    /// It is a direct message and became a task.
    Direct,
    /// It is a direct message of somebody who may not write any.
    NotAllowed,
    /// It can't be posted, for this reason.
    Refused(String),
}

/// The side of a bridge that takes messages.
pub(crate) struct Inbound<'a> {
    pub(crate) swarm: &'a Arc<Swarm>,
    pub(crate) bridge: &'a Bridge,
    pub(crate) platform: &'a dyn Platform,
    pub(crate) turns: &'a Turns,
}

impl Inbound<'_> {
    /// Takes one message. The same message is taken once, however often it arrives.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails. The message has to be given again.
    pub(crate) async fn take(&self, message: &IncomingMessage) -> Result<Taken, SwarmError> {
        if message.is_direct {
            return self.take_direct(message).await;
        }
        let Some(link) = self.link_of(message).await? else { return Ok(Taken::Ignored) };
        let is_empty = message.text.trim().is_empty() && message.files.is_empty();
        let is_deaf = message.sender.is_bot && !link.hears_bots;
        if link.state != LinkState::Active || is_deaf || is_empty {
            return Ok(Taken::Ignored);
        }
        if !hears(&link, message) {
            return Ok(Taken::NotHeard(link));
        }
        if let Some(command) = command::parse(message) {
            return self.obey(&command, &link, message).await.map(Taken::Answered);
        }
        self.post(link, message, false).await
    }

    /// Takes a message from before the link, which wakes nobody. Returns `false` if it is not taken.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails.
    pub(crate) async fn take_history(
        &self,
        link: &Link,
        message: &IncomingMessage,
    ) -> Result<bool, SwarmError> {
        if message.sender.is_bot || message.text.trim().is_empty() || !hears(link, message) {
            return Ok(false);
        }
        Ok(matches!(self.post(link.clone(), message, true).await?, Taken::Posted { .. }))
    }

    /// Takes the new text of a message, or with `None` its deletion. `sender` is the one who wrote it, if known.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails.
    pub(crate) async fn change(
        &self,
        message: &IncomingMessage,
        is_deletion: bool,
    ) -> Result<Taken, SwarmError> {
        let Some(link) = self.link_of(message).await? else { return Ok(Taken::Ignored) };
        if link.state != LinkState::Active {
            return Ok(Taken::Ignored);
        }
        let (by, text) = if is_deletion {
            // A moderator may delete what somebody else wrote.
            (None, None)
        } else {
            let files = message.files.iter();
            let markers: Vec<String> =
                files.map(|file| attachment::marker(link.channel.as_str(), message, file)).collect();
            let by = self.person_of(message).await?;
            (Some(by), Some(self.text(&link, message, &markers).await?))
        };
        let origin = LinkOrigin { link: link.id, message: message.id.clone(), is_history: false };
        self.swarm.edit_from_link(by, &link.channel, text, origin).await?;
        Ok(Taken::Ignored)
    }

    /// Returns the link of the channel or thread that a message is in. A thread without a link belongs to its channel.
    async fn link_of(&self, message: &IncomingMessage) -> Result<Option<Link>, StoreError> {
        let links = || self.swarm.store().links();
        if let Some(link) = links().find(&self.bridge.name, &message.external).await? {
            return Ok(Some(link));
        }
        match &message.thread {
            Some(thread) => links().find(&self.bridge.name, &thread.channel).await,
            None => Ok(None),
        }
    }

    async fn post(
        &self,
        link: Link,
        message: &IncomingMessage,
        is_history: bool,
    ) -> Result<Taken, SwarmError> {
        let store = self.swarm.store();
        // A message that arrives again does not download its files again.
        if let Some(seq) = store.links().seq_of(&link.id, &message.id).await? {
            return Ok(Taken::Posted { link: link.id, seq });
        }
        let person = self.person_of(message).await?;
        let markers = if is_history {
            Vec::new()
        } else {
            let agents = self.agents_for_files(&link.channel, message).await?;
            let to = (self.swarm.workspaces(), agents.as_slice());
            attachment::store(self.platform, to, link.channel.as_str(), message).await
        };
        let text = self.text(&link, message, &markers).await?;
        let origin = LinkOrigin { link: link.id.clone(), message: message.id.clone(), is_history };
        let by = Actor::party(person);
        match self.swarm.post_from_link(&by, &link.channel, text, origin).await {
            Ok(said) => Ok(Taken::Posted { link: link.id, seq: said.seq }),
            // The channel was archived or removed since, and the link with it.
            Err(SwarmError::NoChannel(_) | SwarmError::Archived(_)) => Ok(Taken::Ignored),
            Err(SwarmError::Invalid(why)) => Ok(Taken::Refused(why)),
            Err(error) => Err(error),
        }
    }

    /// Returns the agents of a channel that get the files of a message, if it has any.
    async fn agents_for_files(
        &self,
        channel: &ChannelId,
        message: &IncomingMessage,
    ) -> Result<Vec<Agent>, StoreError> {
        if message.files.is_empty() {
            return Ok(Vec::new());
        }
        let known = self.swarm.store().channels().find(channel).await?;
        let members = known.iter().flat_map(|known| known.agents());
        let config = self.swarm.config();
        Ok(members.filter_map(|id| config.agents.iter().find(|agent| agent.id == *id)).cloned().collect())
    }

    async fn text(
        &self,
        link: &Link,
        message: &IncomingMessage,
        markers: &[String],
    ) -> Result<String, StoreError> {
        let quote = match &message.reply_to {
            Some(answered) => self.quote(link, answered).await?,
            None => None,
        };
        // A thread that is linked itself needs no title: all messages are of it.
        let title = message
            .thread
            .as_ref()
            .filter(|_| link.external != message.external)
            .map(|thread| thread.title.as_str());
        Ok(text::incoming(&message.text, title, quote.as_ref(), markers))
    }

    async fn quote(&self, link: &Link, answered: &str) -> Result<Option<Quote>, StoreError> {
        let store = self.swarm.store();
        let Some(seq) = store.links().seq_of(&link.id, answered).await? else { return Ok(None) };
        let found = store.posts().page(&link.channel, Page::After(seq.saturating_sub(1)), 1).await?;
        let post = found.into_iter().find(|post| post.seq == seq);
        Ok(post.map(|post| Quote { seq, author: post.author, text: post.content }))
    }

    pub(super) async fn person_of(&self, message: &IncomingMessage) -> Result<Party, StoreError> {
        let config = self.swarm.config();
        let owner = Party::human(&process::login());
        // Those who approve are known by their names, so a newcomer never gets one of them.
        let reserved: Vec<Party> =
            config.approvers.iter().cloned().chain([owner, Party::human("owner")]).collect();
        let agents: Vec<String> = config.agents.iter().map(|agent| agent.id.to_string()).collect();
        let names = identity::names_for(&message.sender.username, move |party| {
            let Party::Human(name) = party else { return true };
            identity::is_among(party, &reserved)
                || agents.contains(name)
                || crate::id::RESERVED_AGENT_IDS.contains(&name.as_str())
        });
        let sender = &message.sender;
        let platform = self.bridge.platform.as_str().to_owned();
        let accounts = self.swarm.store().accounts();
        accounts.person_of(platform, sender.account.clone(), sender.username.clone(), names, unix_ms()).await
    }
}

fn hears(link: &Link, message: &IncomingMessage) -> bool {
    message.sender.names().any(|name| link.hears(&name))
}

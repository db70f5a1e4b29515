//! Direct messages to flock's account: the orchestrator gets them in the session that it has with the person, and its
//! answer goes back to the person.

use sha2::{Digest as _, Sha256};
use tokio::sync::Notify;

use super::attachment;
use super::inbound::{Inbound, Taken};
use super::message::IncomingMessage;
use super::outbound::{Content, Outbound, PartRecord, Parts};
use super::platform::PlatformError;
use super::side_by_side::{Waiting, attempt_due};
use super::{retry, text};
use crate::clock::unix_ms;
use crate::config::Role;
use crate::id::hex;
use crate::store::{DirectAnswer, DirectMessage, IdempotencyKey, StoreError};
use crate::swarm::{Actor, SwarmError};

/// The folder of files that people send to flock's account, in the orchestrator's workspace.
const FOLDER: &str = "direct";

impl Inbound<'_> {
    /// Takes a message to flock's account alone. People are allowed whom a link of the bridge names, by account or role.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails. The message has to be given again.
    pub(super) async fn take_direct(&self, message: &IncomingMessage) -> Result<Taken, SwarmError> {
        if message.sender.is_bot || (message.text.trim().is_empty() && message.files.is_empty()) {
            return Ok(Taken::Ignored);
        }
        let store = self.swarm.store();
        let links = store.links().list(Some(&self.bridge.name)).await?;
        // A link that hears everybody lets them into that channel, and not to the orchestrator itself.
        let is_allowed =
            message.sender.names().any(|name| links.iter().any(|link| link.hears.contains(&name)));
        if !is_allowed {
            return Ok(Taken::NotAllowed);
        }
        let config = self.swarm.config();
        let Some(orchestrator) = config.agents.iter().find(|agent| agent.role == Role::Orchestrator) else {
            return Ok(Taken::Refused("this flock has no orchestrator".to_owned()));
        };
        let by = Actor::party(self.person_of(message).await?);
        let agents = std::slice::from_ref(orchestrator);
        let markers =
            attachment::store(self.platform, (self.swarm.workspaces(), agents), FOLDER, message).await;
        let text = text::incoming(&message.text, None, None, &markers);
        let key = IdempotencyKey {
            caller: format!("bridge:{}", self.bridge.name),
            name: format!("{}/{}", message.external, message.id),
            digest: hex(&Sha256::digest(text.as_bytes())),
        };
        let asked = store.direct_messages().asked(&self.bridge.name, &message.external).await?;
        let task = match asked {
            Some(task) => self.swarm.reply_direct(&by, &task, &text, key).await,
            None => self.swarm.send_direct(&by, &orchestrator.id, &text, key).await,
        };
        match task {
            Ok(task) => {
                let direct = DirectMessage {
                    task: task.id,
                    bridge: self.bridge.name.clone(),
                    external: message.external.clone(),
                    message: message.id.clone(),
                };
                store.direct_messages().add(direct, unix_ms()).await?;
                Ok(Taken::Direct)
            }
            Err(SwarmError::Store(error)) => Err(error.into()),
            // The same message arrived again with files that could not be read this time.
            Err(SwarmError::KeyReused) => Ok(Taken::Direct),
            Err(error) => Ok(Taken::Refused(error.to_string())),
        }
    }
}

/// Records the parts of an answer.
struct AnswerRecord<'a> {
    outbound: &'a Outbound<'a>,
    task: &'a str,
}

/// The answers to direct messages over a bridge, of which a conversation takes one after the other.
struct Answers<'a>(&'a Outbound<'a>);

impl Waiting for Answers<'_> {
    type Message = DirectAnswer;
    type Error = StoreError;
    type Place = String;

    fn place(answer: &DirectAnswer) -> String {
        answer.direct.external.clone()
    }

    fn next_at(answer: &DirectAnswer) -> i64 {
        answer.next_at
    }

    async fn look(&self) -> Result<Vec<DirectAnswer>, StoreError> {
        self.0.swarm.store().direct_messages().answers(&self.0.bridge.name).await
    }

    async fn attempt(&self, answer: DirectAnswer) -> Result<(), StoreError> {
        self.0.answer_one(answer).await
    }
}

impl PartRecord for AnswerRecord<'_> {
    async fn begin(&self) -> Result<(), StoreError> {
        self.outbound.swarm.store().direct_messages().begin(self.task.to_owned()).await
    }

    async fn is_recorded(&self, _message: &str) -> Result<bool, StoreError> {
        // Answers are not recorded one by one. An equal answer from before stands for this one then.
        Ok(false)
    }

    async fn part_sent(&self, _message: String, _is_last: bool) -> Result<(), StoreError> {
        self.outbound.swarm.store().direct_messages().part_sent(self.task.to_owned(), unix_ms()).await
    }
}

impl Outbound<'_> {
    /// Sends the answers to direct messages, side by side for the conversations, until none is due. Returns the time in
    /// Unix milliseconds at which the next one is, if any waits. After `wake` it looks for more.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails.
    pub(super) async fn answer_direct(&self, wake: &Notify) -> Result<Option<i64>, StoreError> {
        attempt_due(wake, &Answers(self)).await
    }

    /// Sends one answer, or postpones it.
    async fn answer_one(&self, answer: DirectAnswer) -> Result<(), StoreError> {
        let task = answer.direct.task.clone();
        let content = Content::new(answer.agent.clone(), answer.text.clone());
        let parts = Parts {
            external: &answer.direct.external,
            reply_to: None,
            content: &content,
            key: format!(
                "flock-direct-{}-{}",
                answer.updated_at,
                task.replace('-', "").get(20..).unwrap_or("")
            ),
            sent: answer.sent,
            is_begun: answer.is_begun,
        };
        let record = AnswerRecord { outbound: self, task: &task };
        let failed = self.send_parts(&parts, &record).await?.err();
        match failed {
            None | Some(PlatformError::Refused(_)) => {
                if let Some(error) = failed {
                    tracing::warn!(bridge = self.bridge.name, %error, "an answer to a direct message can't be sent");
                }
                self.swarm.store().direct_messages().finish(answer).await
            }
            Some(error) => {
                let until = retry::until(&error, answer.attempts);
                let is_known = !answer.is_begun && !matches!(error, PlatformError::Unavailable(_));
                self.swarm.store().direct_messages().postpone(task, until, is_known).await
            }
        }
    }
}

//! Decisions about waiting requests from other platforms.
//!
//! A message over each link of the request's channel shows the whole request ([`shown`], [`sending`]). People decide by
//! its buttons, by a reaction to it, or by a reply with its code ([`answer`]). [`policy`] says who may decide, and about
//! what. The decision itself is the one of the command line, bound to the digest that was shown.

mod answer;
mod policy;
mod sending;
mod shown;
mod unanswered;
mod wrong;

use std::sync::{Arc, Mutex};

use super::message::{IncomingMessage, PressedButton, Sender};
use super::platform::Platform;
use super::text;
use crate::clock::unix_ms;
use crate::config::Bridge;
use crate::store::{DecisionMessage, StoreError};
use crate::swarm::triage::{ApprovalDecision, BridgePerson, DecideError, Decider, Triage};
use crate::sync::lock;
use answer::{TypedAnswer, Verb};
use policy::{Attempt, Facts, Place, Refusal};
pub(super) use unanswered::Unanswered;
pub(super) use wrong::WrongAnswers;

/// The side of a bridge by which people decide about requests.
pub(super) struct Decisions<'a> {
    pub(super) triage: &'a Arc<Triage>,
    pub(super) bridge: &'a Bridge,
    pub(super) platform: &'a dyn Platform,
    pub(super) wrong: &'a Mutex<WrongAnswers>,
    pub(super) unanswered: &'a Unanswered,
}

/// A person's words about a request.
struct Said<'a> {
    /// The message that the answer refers to.
    to: &'a IncomingMessage,
    verb: Verb,
    reason: Option<String>,
    place: Place<'a>,
    /// Unix milliseconds by the platform's clock, if it says them.
    at: Option<i64>,
    is_forwarded: bool,
}

impl Decisions<'_> {
    /// Takes a button that somebody pressed.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails. The event has to be given again.
    pub(super) async fn pressed(&self, press: &PressedButton) -> Result<(), StoreError> {
        let Some((verb, code)) = answer::button(&press.button) else { return Ok(()) };
        let messages = || self.triage.swarm().store().decision_messages();
        // Its code is known before its message is recorded, and a button counts on the recorded message only.
        let shown = self.recorded(&press.external, || messages().by_code(&code)).await?;
        let to = pseudo_message(&press.external, &press.message, &press.sender);
        let place = Place::Message { external: &press.external, message: &press.message };
        let said = Said { to: &to, verb, reason: None, place, at: None, is_forwarded: false };
        self.decide(shown, said).await
    }

    /// Takes a reaction to a message. One to another message than those that show a request is none of a decision.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails. The event has to be given again.
    pub(super) async fn reacted(
        &self,
        external: &str,
        message: &str,
        sender: &Sender,
        emoji: &str,
    ) -> Result<(), StoreError> {
        let Some(verb) = answer::emoji(emoji) else { return Ok(()) };
        let Some(shown) = self.by_message(external, message).await? else { return Ok(()) };
        let store = self.triage.swarm().store();
        let is_waiting = store.requests().find(&shown.request).await?.is_some_and(|row| policy::waits(&row));
        // People react to what was decided too.
        if !is_waiting {
            return Ok(());
        }
        let to = pseudo_message(external, message, sender);
        let place = Place::Message { external, message };
        let said = Said { to: &to, verb, reason: None, place, at: None, is_forwarded: false };
        self.decide(Some(shown), said).await
    }

    /// Takes a message if it is a decision. Returns `false` if it is none, and then it is for the channel.
    ///
    /// Only a new message is given to it, never one that was edited and none of the history.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails. The message has to be given again.
    pub(super) async fn reply(&self, message: &IncomingMessage) -> Result<bool, StoreError> {
        if message.sender.is_bot {
            return Ok(false);
        }
        let Some(TypedAnswer { verb, code, reason }) = answer::typed(&message.text) else { return Ok(false) };
        let channel = message.thread.as_ref().map_or(&message.external, |thread| &thread.channel);
        let answered = self.answered(message, channel).await?;
        let (shown, place) = match (code, answered) {
            (None, None) => return Ok(false),
            (None, Some(answered)) => {
                let (answered, external) = answered;
                let id = message.reply_to.as_deref().unwrap_or_default();
                (Some(answered), Place::Message { external, message: id })
            }
            (Some(code), answered) => {
                if !message.is_direct && !self.is_linked(&message.external, channel).await? {
                    return Ok(false);
                }
                let shown = self.triage.swarm().store().decision_messages().by_code(&code).await?;
                let place = match (&answered, &message.reply_to) {
                    // It answers a message about a request. Then that one and the code must be of one request.
                    (Some((_, external)), Some(id)) => Place::Message { external, message: id },
                    _ if message.is_direct => Place::Direct,
                    _ => Place::Channel { external: &message.external, channel },
                };
                (shown, place)
            }
        };
        let at = Some(message.sent_at);
        let said = Said { to: message, verb, reason, place, at, is_forwarded: message.is_forwarded };
        self.decide(shown, said).await?;
        Ok(true)
    }

    /// Returns the message about a request that a message answers, and the channel that it is in. In Slack, a reply is in
    /// the thread of what it answers.
    async fn answered<'m>(
        &self,
        message: &'m IncomingMessage,
        channel: &'m str,
    ) -> Result<Option<(DecisionMessage, &'m str)>, StoreError> {
        let Some(id) = &message.reply_to else { return Ok(None) };
        let places = [message.external.as_str(), channel];
        let places = if message.external == channel { &places[..1] } else { &places[..] };
        for &external in places {
            if let Some(found) = self.by_message(external, id).await? {
                return Ok(Some((found, external)));
            }
        }
        Ok(None)
    }

    async fn by_message(&self, external: &str, message: &str) -> Result<Option<DecisionMessage>, StoreError> {
        let messages = || self.triage.swarm().store().decision_messages();
        self.recorded(external, || messages().by_message(&self.bridge.name, external, message)).await
    }

    /// Looks for a message about a request in a channel. If none is recorded and one is being sent there, it looks again
    /// after that, because it may be the one: people see a message before the platform has answered its sending.
    async fn recorded<F: Future<Output = Result<Option<DecisionMessage>, StoreError>>>(
        &self,
        external: &str,
        look: impl Fn() -> F,
    ) -> Result<Option<DecisionMessage>, StoreError> {
        // Taken before the first look: a sending may end, and record its message, while that look goes on.
        let sendings = self.unanswered.to(external);
        let found = look().await?;
        if sendings.is_empty() || found.as_ref().is_some_and(|found| found.message.is_some()) {
            return Ok(found);
        }
        unanswered::ended(&sendings, unanswered::LONGEST_WAIT).await;
        look().await
    }

    async fn is_linked(&self, external: &str, channel: &str) -> Result<bool, StoreError> {
        let links = || self.triage.swarm().store().links();
        Ok(links().find(&self.bridge.name, external).await?.is_some()
            || links().find(&self.bridge.name, channel).await?.is_some())
    }

    async fn decide(&self, shown: Option<DecisionMessage>, said: Said<'_>) -> Result<(), StoreError> {
        let (account, now) = (&said.to.sender.account, unix_ms());
        if lock(self.wrong).is_ignored(account, now) {
            return Ok(());
        }
        let swarm = self.triage.swarm();
        let (store, config) = (swarm.store(), swarm.config());
        let request = match &shown {
            Some(shown) => store.requests().find(&shown.request).await?,
            None => None,
        };
        let binding = store.accounts().binding(self.bridge.platform.as_str(), account).await?;
        let attempt = Attempt {
            is_bot: said.to.sender.is_bot,
            is_forwarded: said.is_forwarded,
            verb: said.verb,
            place: said.place,
            at: said.at,
        };
        let facts = Facts {
            bridge: &self.bridge.name,
            shown: shown.as_ref(),
            request: request.as_ref(),
            account: binding.as_ref(),
            approvers: &config.approvers,
            settings: &config.approvals,
        };
        let may = match policy::may_decide(&attempt, &facts, now) {
            Ok(may) => may,
            Err(refusal) => {
                self.refuse(&said, &refusal, now).await;
                return Ok(());
            }
        };
        let decision = match said.verb {
            Verb::Approve => ApprovalDecision::Approve { sha256: may.sha256.to_owned() },
            Verb::Deny => ApprovalDecision::Deny { reason: said.reason.clone() },
        };
        let decider = Decider::Person(BridgePerson {
            person: may.person.clone(),
            bridge: self.bridge.name.clone(),
            account: account.clone(),
        });
        let text = match self.triage.decide(may.request, decision, &decider).await {
            Ok(row) => format!("You {} {}.", said.verb.past(), row.id),
            Err(DecideError::Store(error)) => return Err(error),
            Err(error) => format!("Nothing was decided: {error}."),
        };
        self.tell(&said, &text).await;
        Ok(())
    }

    async fn refuse(&self, said: &Said<'_>, refusal: &Refusal, now: i64) {
        let account = &said.to.sender.account;
        tracing::warn!(bridge = self.bridge.name, account, %refusal, "a decision from a platform is refused");
        // Two programs that answer each other would never end.
        if said.to.sender.is_bot {
            return;
        }
        let mut text = format!("Nothing was decided: {refusal}.");
        if refusal.is_wrong_answer() && lock(self.wrong).count(account, now) {
            text.push_str(" These were too many wrong answers: your next ones are ignored for ten minutes.");
        }
        self.tell(said, &text).await;
    }

    async fn tell(&self, said: &Said<'_>, text: &str) {
        if let Err(error) = self.platform.answer_apart(said.to, &text::neutralise(text, &[])).await {
            tracing::warn!(bridge = self.bridge.name, %error, "failed to answer somebody who decides");
        }
    }
}

/// Returns a message that an answer to somebody who wrote none can refer to.
fn pseudo_message(external: &str, message: &str, sender: &Sender) -> IncomingMessage {
    IncomingMessage {
        external: external.to_owned(),
        id: message.to_owned(),
        sender: sender.clone(),
        ..IncomingMessage::default()
    }
}

#[cfg(test)]
mod tests;

//! Shows waiting requests over the links of their channels, and says there how they ended.
//!
//! All of it follows from the database: a request that waits and was not shown gets a message, and a message about a
//! request that does not wait any more is changed. So it goes on after a kill at any moment, and it does not matter where
//! the decision was made.

use std::time::Duration;

use tokio::sync::Notify;

use super::{Decisions, answer, policy, shown};
use crate::bridge::message::{Button, OutgoingMessage};
use crate::bridge::platform::{PlatformError, Repetition};
use crate::bridge::side_by_side::{Waiting, attempt_due, until};
use crate::bridge::{retry, text};
use crate::clock::unix_ms;
use crate::error::chain;
use crate::fault_point::{self, FaultPoint};
use crate::store::{DecisionMessage, NewDecisionMessage, RequestRow, RequestState, StoreError};

/// Longest time between two looks. A command without a gateway, and a request that expires, wake nobody.
const INTERVAL: Duration = Duration::from_secs(10);
/// The wait before the database is tried again.
const DATABASE_WAIT: Duration = Duration::from_secs(1);

/// The messages about requests, of which a link takes one after the other.
struct Notices<'a>(&'a Decisions<'a>);

impl Waiting for Notices<'_> {
    type Message = DecisionMessage;
    type Error = StoreError;
    type Place = String;

    fn place(message: &DecisionMessage) -> String {
        message.link.clone()
    }

    fn next_at(message: &DecisionMessage) -> i64 {
        message.next_at
    }

    async fn look(&self) -> Result<Vec<DecisionMessage>, StoreError> {
        let Decisions { triage, bridge, .. } = self.0;
        self.0.add_missing().await?;
        let messages = triage.swarm().store().decision_messages();
        // One that is not to be sent stays as it is, so it would be found again without end.
        messages.due(&bridge.name, self.0.is_on()).await
    }

    async fn attempt(&self, message: DecisionMessage) -> Result<(), StoreError> {
        let Decisions { triage, bridge, .. } = self.0;
        let messages = || triage.swarm().store().decision_messages();
        let Err(error) = self.0.attend(&message).await? else { return Ok(()) };
        let (bridge, request) = (&bridge.name, &message.request);
        if let PlatformError::Refused(why) = &error {
            tracing::warn!(bridge, request, why, "a message about a request can't be sent");
            return messages().close(message.id, unix_ms()).await;
        }
        tracing::warn!(bridge, request, %error, "a message about a request waits");
        messages().postpone(message.id, retry::until(&error, message.attempts)).await
    }
}

impl Decisions<'_> {
    /// Keeps the messages about requests up to date until it is dropped.
    pub(in crate::bridge) async fn keep(&self, wake: &Notify) {
        loop {
            let (next, longest) = match self.settle(wake).await {
                Ok(next) => (next, INTERVAL),
                Err(error) => {
                    tracing::warn!(
                        bridge = self.bridge.name,
                        error = chain(&error),
                        "failed to look for requests"
                    );
                    (None, DATABASE_WAIT)
                }
            };
            tokio::select! {
                () = until(next) => {}
                () = tokio::time::sleep(longest) => {}
                () = wake.notified() => {}
            }
        }
    }

    /// Does what is due, for all links side by side. Returns the time in Unix milliseconds of the next attempt at what
    /// failed.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails.
    pub(super) async fn settle(&self, wake: &Notify) -> Result<Option<i64>, StoreError> {
        attempt_due(wake, &Notices(self)).await
    }

    /// Returns `true` if requests are shown and decided over this bridge.
    fn is_on(&self) -> bool {
        self.triage.swarm().config().approvals.bridges.has(&self.bridge.name)
    }

    /// Adds a message for each waiting request that was not shown over a link of its channel.
    pub(super) async fn add_missing(&self) -> Result<(), StoreError> {
        if !self.is_on() {
            return Ok(());
        }
        let swarm = self.triage.swarm();
        let (store, config) = (swarm.store(), swarm.config());
        for (link, request) in store.decision_messages().missing(&self.bridge.name).await? {
            let Some(row) = store.requests().find(&request).await? else { continue };
            // The announcement in the channel names the command that decides.
            if policy::is_host_command(&row) && !config.approvals.bridge_host_commands {
                continue;
            }
            let code = answer::new_code();
            let code = self.whole(&row, &code).is_some().then_some(code);
            let new = NewDecisionMessage { link, request, sha256: row.sha256, code, now: unix_ms() };
            store.decision_messages().add(new).await?;
        }
        Ok(())
    }

    /// Sends a message, or changes it to what became of its request.
    async fn attend(&self, message: &DecisionMessage) -> Result<Result<(), PlatformError>, StoreError> {
        let store = self.triage.swarm().store();
        let row = store.requests().find(&message.request).await?;
        let waiting = row.as_ref().filter(|row| policy::waits(row));
        match (&message.message, waiting) {
            (Some(_), Some(_)) => Ok(Ok(())),
            (None, Some(row)) => {
                if !policy::is_as_shown(row, &message.sha256) {
                    tracing::error!(request = row.id, "the body of a request was changed after it was filed");
                    store.decision_messages().close(message.id, unix_ms()).await?;
                    return Ok(Ok(()));
                }
                let (markdown, buttons) = self.request(message, row);
                let outgoing = OutgoingMessage { buttons: &buttons, ..outgoing(message, &markdown) };
                Ok(self.send(message, outgoing).await?.map(drop))
            }
            (sent, None) => {
                let markdown = self.outcome(message, row.as_ref());
                let key = key(message);
                let outgoing = OutgoingMessage { key: &key, ..outgoing(message, &markdown) };
                let sent = match (sent, self.platform.limits().repetition) {
                    (Some(sent), _) => Some(sent.clone()),
                    // It may have been sent without being recorded. The platform knows by the key.
                    (None, Repetition::Key) if message.is_begun => {
                        match self.platform.send(&outgoing).await {
                            Ok(sent) => Some(sent),
                            Err(error) => return Ok(Err(error)),
                        }
                    }
                    // It is searched as it was sent, before the decision.
                    (None, Repetition::History) if message.is_begun => {
                        let asked = row.as_ref().map(|row| self.request(message, &as_it_waited(row)).0);
                        let markdown = asked.as_ref().unwrap_or(&markdown);
                        match self.platform.find_sent(&OutgoingMessage { markdown, ..outgoing }).await {
                            Ok(sent) => sent,
                            Err(error) => return Ok(Err(error)),
                        }
                    }
                    (None, _) => None,
                };
                // A platform that has seen a key before does nothing, so the change has one of its own.
                let key = format!("{key}-ended");
                let outgoing = OutgoingMessage { key: &key, ..outgoing };
                if let Some(sent) = sent
                    && let Err(error) = self.platform.edit(&sent, &outgoing).await
                {
                    return Ok(Err(error));
                }
                store.decision_messages().close(message.id, unix_ms()).await?;
                Ok(Ok(()))
            }
        }
    }

    /// Sends a message once, and records the platform's id of it.
    async fn send(
        &self,
        message: &DecisionMessage,
        outgoing: OutgoingMessage<'_>,
    ) -> Result<Result<(), PlatformError>, StoreError> {
        let store = self.triage.swarm().store();
        // Until the id is recorded, or the attempt has failed.
        let _sending = self.unanswered.begin(&message.external);
        let (key, repeated) = (key(message), format!("{}{PERHAPS_REPEATED}", outgoing.markdown));
        let mut outgoing = OutgoingMessage { key: &key, ..outgoing };
        let mut found = None;
        match self.platform.limits().repetition {
            Repetition::History if message.is_begun => match self.platform.find_sent(&outgoing).await {
                Ok(sent) => found = sent,
                Err(error) => return Ok(Err(error)),
            },
            Repetition::Nothing if message.is_begun => outgoing.markdown = &repeated,
            _ => {}
        }
        let sent = match found {
            Some(sent) => sent,
            None => {
                store.decision_messages().begin(message.id).await?;
                match self.platform.send(&outgoing).await {
                    Ok(sent) => sent,
                    Err(error) => return Ok(Err(error)),
                }
            }
        };
        fault_point::reach(FaultPoint::Sent);
        store.decision_messages().sent(message.id, sent).await?;
        Ok(Ok(()))
    }

    /// Returns the text and the buttons of the message that shows a waiting request.
    fn request(&self, message: &DecisionMessage, row: &RequestRow) -> (String, Vec<Button>) {
        match message.code.as_ref().and_then(|code| self.whole(row, code).zip(Some(code))) {
            Some((text, code)) if self.platform.limits().has_buttons => {
                (text, answer::buttons(code).to_vec())
            }
            Some((text, _)) => (text, Vec::new()),
            None => (shown::too_long(row), Vec::new()),
        }
    }

    /// Returns the whole request with the words how to decide it, if this platform shows all of it in one message.
    fn whole(&self, row: &RequestRow, code: &str) -> Option<String> {
        let text = shown::whole(row, code, &self.platform.limits())?;
        self.fits(&format!("{text}{PERHAPS_REPEATED}")).then_some(text)
    }

    /// Returns the text that says how a request ended, with the request if the message has it and it still fits.
    fn outcome(&self, message: &DecisionMessage, row: Option<&RequestRow>) -> String {
        let row = row.filter(|row| policy::is_as_shown(row, &message.sha256));
        let whole = row.filter(|_| message.code.is_some());
        let whole = whole.and_then(|row| shown::whole_outcome(&message.request, row));
        let whole = whole.filter(|text| self.fits(text));
        whole.unwrap_or_else(|| shown::outcome(&message.request, row))
    }

    fn fits(&self, markdown: &str) -> bool {
        self.platform.fits("", &text::neutralise(markdown, &[]))
    }
}

/// The word after a message that may be there twice. Only the newer one decides.
const PERHAPS_REPEATED: &str = "\n\n(perhaps sent twice: the connection broke. Only this message decides.)";

/// Returns the key that each attempt at a message has. A restored backup counts its messages from an earlier number, so
/// the time is part of it.
fn key(message: &DecisionMessage) -> String {
    format!("flock-decide-{}-{}", message.created_at, message.id)
}

/// Returns a request as it was before it was decided or expired.
fn as_it_waited(row: &RequestRow) -> RequestRow {
    RequestRow { state: RequestState::Waiting, decided_by: None, ..row.clone() }
}

fn outgoing<'a>(message: &'a DecisionMessage, markdown: &'a str) -> OutgoingMessage<'a> {
    OutgoingMessage { external: &message.external, markdown, ..OutgoingMessage::default() }
}

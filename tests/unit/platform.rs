//! A platform in memory, for tests of what is alike on all platforms.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot};

use super::message::{
    BotAccount, Button, ExternalChannel, IncomingFile, IncomingMessage, OutgoingMessage, PlatformEvent,
    Position,
};
use super::platform::{Answer, Limits, Platform, PlatformError, Repetition};
use crate::provider::BoxFuture;
use crate::sync::lock;

/// A message that the platform has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SentMessage {
    pub(crate) id: String,
    pub(crate) external: String,
    pub(crate) author: String,
    /// The text, as the last edit left it.
    pub(crate) markdown: String,
    pub(crate) key: String,
    pub(crate) buttons: Vec<Button>,
    pub(crate) is_edited: bool,
}

/// A request to the platform.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    /// The method, as in `send`.
    pub(crate) what: &'static str,
    pub(crate) external: String,
    pub(crate) author: String,
    pub(crate) text: String,
    /// The ids of the mentioned accounts.
    pub(crate) mentions: Vec<String>,
}

/// A platform in memory.
pub(crate) struct FakePlatform {
    pub(crate) limits: Limits,
    /// Largest number of characters in a message.
    pub(crate) most: usize,
    /// The content of every file.
    pub(crate) content: Vec<u8>,
    /// What the history has.
    pub(crate) history: Vec<IncomingMessage>,
    records: Mutex<Vec<Record>>,
    sent: Mutex<Vec<SentMessage>>,
    /// Answers that only one account sees: the account and the text.
    answers: Mutex<Vec<(String, String)>>,
    failures: Mutex<VecDeque<(PlatformError, Arrival)>>,
    /// The channel in which sending is not answered.
    silent: Mutex<Option<(String, Arrival)>>,
    /// The requests that were not answered.
    held: Mutex<Vec<oneshot::Sender<Option<PlatformError>>>>,
    /// Wakes after each request that is not answered.
    pub(crate) unanswered: Notify,
}

/// Tells if a message that fails, or is never answered, arrived nevertheless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    Arrived,
    Lost,
}

impl FakePlatform {
    pub(crate) fn new(repetition: Repetition, has_buttons: bool) -> Self {
        let typing_lasts = Duration::from_secs(5);
        Self {
            limits: Limits { repetition, file_bytes: 0, has_buttons, hears_reactions: true, typing_lasts },
            most: 4000,
            content: b"content".to_vec(),
            history: Vec::new(),
            records: Mutex::default(),
            sent: Mutex::default(),
            answers: Mutex::default(),
            failures: Mutex::default(),
            silent: Mutex::default(),
            held: Mutex::default(),
            unanswered: Notify::new(),
        }
    }

    /// Leaves requests to send to a channel without an answer.
    pub(crate) fn fall_silent(&self, external: &str, arrival: Arrival) {
        *lock(&self.silent) = Some((external.to_owned(), arrival));
    }

    /// Answers again in all channels.
    pub(crate) fn answer_again(&self) {
        *lock(&self.silent) = None;
    }

    /// Answers the requests that were not answered and whose messages arrived, with an error if there is one, and answers
    /// again in all channels.
    pub(crate) fn answer_late(&self, error: Option<&PlatformError>) {
        self.answer_again();
        for held in lock(&self.held).drain(..) {
            // Those that were given up are not there to be answered.
            let _ = held.send(error.cloned());
        }
    }

    /// Has the next request to send or edit fail.
    pub(crate) fn fail(&self, error: PlatformError, arrival: Arrival) {
        lock(&self.failures).push_back((error, arrival));
    }

    /// Returns the messages that the platform has, in their order.
    pub(crate) fn sent(&self) -> Vec<SentMessage> {
        lock(&self.sent).clone()
    }

    /// Returns the requests since the last call.
    pub(crate) fn records(&self) -> Vec<Record> {
        std::mem::take(&mut lock(&self.records))
    }

    /// Returns the texts that were to be sent since the last call.
    pub(crate) fn texts(&self) -> Vec<String> {
        let sent = self.records().into_iter().filter(|record| record.what == "send");
        sent.map(|record| record.text).collect()
    }

    fn record(&self, what: &'static str, message: &OutgoingMessage<'_>) {
        lock(&self.records).push(Record {
            what,
            external: message.external.to_owned(),
            author: message.author.to_owned(),
            text: message.markdown.to_owned(),
            mentions: message.mentions.iter().map(|mention| mention.account.clone()).collect(),
        });
    }

    fn note(&self, what: &'static str, external: &str, text: &str) {
        self.record(what, &OutgoingMessage { external, markdown: text, ..OutgoingMessage::default() });
    }

    /// Returns the answers since the last call.
    pub(crate) fn take_answers(&self) -> Vec<(String, String)> {
        std::mem::take(&mut lock(&self.answers))
    }

    fn keep(&self, message: &OutgoingMessage<'_>) -> String {
        let mut sent = lock(&self.sent);
        let known = sent.iter().find(|known| known.key == message.key);
        if let (Repetition::Key, Some(known)) = (self.limits.repetition, known) {
            return known.id.clone();
        }
        let id = format!("m{}", sent.len());
        sent.push(SentMessage {
            id: id.clone(),
            external: message.external.to_owned(),
            author: message.author.to_owned(),
            markdown: message.markdown.to_owned(),
            key: message.key.to_owned(),
            buttons: message.buttons.to_vec(),
            is_edited: false,
        });
        id
    }
}

fn done<'a, T: Send + 'a>(result: Result<T, PlatformError>) -> Answer<'a, T> {
    Box::pin(async move { result })
}

fn refused<'a, T: Send + 'a>() -> Answer<'a, T> {
    done(Err(PlatformError::Refused("not in this test".to_owned())))
}

impl Platform for FakePlatform {
    fn identify(&self) -> Answer<'_, BotAccount> {
        done(Ok(BotAccount { id: "flock".to_owned(), name: "flock".to_owned() }))
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn connect<'a>(
        &'a self,
        _from: Position,
        _events: mpsc::Sender<PlatformEvent>,
    ) -> BoxFuture<'a, PlatformError> {
        Box::pin(std::future::pending())
    }

    fn fits(&self, author: &str, markdown: &str) -> bool {
        author.chars().count() + markdown.chars().count() <= self.most
    }

    fn send<'a>(&'a self, message: &'a OutgoingMessage<'a>) -> Answer<'a, String> {
        if let Some((external, arrival)) = lock(&self.silent).clone()
            && external == message.external
        {
            let kept = (arrival == Arrival::Arrived).then(|| self.keep(message));
            let (answer, answered) = oneshot::channel();
            lock(&self.held).push(answer);
            self.unanswered.notify_one();
            return Box::pin(async move {
                match (answered.await, kept) {
                    (Ok(None), Some(id)) => Ok(id),
                    (Ok(Some(error)), Some(_)) => Err(error),
                    _ => std::future::pending().await,
                }
            });
        }
        let failure = lock(&self.failures).pop_front();
        if failure.is_none() {
            self.record("send", message);
        }
        match failure {
            Some((error, arrival)) => {
                if arrival == Arrival::Arrived {
                    self.keep(message);
                }
                done(Err(error))
            }
            None => done(Ok(self.keep(message))),
        }
    }

    fn find_sent<'a>(&'a self, message: &'a OutgoingMessage<'a>) -> Answer<'a, Option<String>> {
        self.record("find_sent", message);
        let sent = lock(&self.sent);
        // The text counts too: some platforms keep no key with a message.
        let known = sent.iter().find(|known| known.key == message.key && known.markdown == message.markdown);
        done(Ok(known.map(|known| known.id.clone())))
    }

    fn edit<'a>(&'a self, message: &'a str, new: &'a OutgoingMessage<'a>) -> Answer<'a, ()> {
        if let Some((error, _)) = lock(&self.failures).pop_front() {
            return done(Err(error));
        }
        let mut sent = lock(&self.sent);
        // A platform that knows a repetition by its key takes a change under the key of a message for one.
        let is_repetition = self.limits.repetition == Repetition::Key
            && !new.key.is_empty()
            && sent.iter().any(|known| known.key == new.key);
        if is_repetition {
            return done(Ok(()));
        }
        if let Some(known) = sent.iter_mut().find(|known| known.id == message) {
            new.markdown.clone_into(&mut known.markdown);
            known.buttons.clear();
            known.is_edited = true;
        }
        done(Ok(()))
    }

    fn delete<'a>(&'a self, _external: &'a str, _message: &'a str) -> Answer<'a, ()> {
        refused()
    }

    fn react<'a>(&'a self, _external: &'a str, _message: &'a str, _emoji: &'a str) -> Answer<'a, ()> {
        refused()
    }

    fn show_typing<'a>(&'a self, external: &'a str) -> Answer<'a, ()> {
        self.note("typing", external, "");
        done(Ok(()))
    }

    fn answer_apart<'a>(&'a self, to: &'a IncomingMessage, markdown: &'a str) -> Answer<'a, ()> {
        lock(&self.answers).push((to.sender.account.clone(), markdown.to_owned()));
        done(Ok(()))
    }

    fn has_message<'a>(&'a self, _external: &'a str, message: &'a str) -> Answer<'a, Option<bool>> {
        done(Ok(Some(lock(&self.sent).iter().any(|known| known.id == message))))
    }

    fn find_channel<'a>(&'a self, _name: &'a str) -> Answer<'a, ExternalChannel> {
        refused()
    }

    fn create_channel<'a>(&'a self, _name: &'a str, _topic: &'a str) -> Answer<'a, ExternalChannel> {
        refused()
    }

    fn set_topic<'a>(&'a self, external: &'a str, topic: &'a str) -> Answer<'a, ()> {
        self.note("topic", external, topic);
        done(Ok(()))
    }

    fn history<'a>(
        &'a self,
        _external: &'a str,
        since: i64,
        most: usize,
    ) -> Answer<'a, Vec<IncomingMessage>> {
        let found = self.history.iter().filter(|message| message.sent_at >= since);
        done(Ok(found.take(most).cloned().collect()))
    }

    fn download<'a>(&'a self, _file: &'a IncomingFile, most: usize) -> Answer<'a, Vec<u8>> {
        let is_too_large = self.content.len() > most;
        done(if is_too_large {
            Err(PlatformError::Refused("it is too large".to_owned()))
        } else {
            Ok(self.content.clone())
        })
    }
}

//! The interface that every platform implements.

use std::time::Duration;

use tokio::sync::mpsc;

use super::message::{
    BotAccount, ExternalChannel, IncomingFile, IncomingMessage, OutgoingMessage, PlatformEvent, Position,
};
use crate::provider::BoxFuture;

/// The result of a request to a platform.
pub(crate) type Answer<'a, T> = BoxFuture<'a, Result<T, PlatformError>>;

/// Connects flock with one account on a platform.
///
/// Everything that is alike on all platforms is outside of it: the outbox, splitting, names of people, who is heard,
/// retries after a failure. A method makes its request once. It does not wait out a limit but returns it, because the
/// other channels go on meanwhile.
///
/// A channel is named by an id of the platform's, which may stand for a thread or a topic in a channel too.
pub(crate) trait Platform: Send + Sync {
    /// Checks the credentials and that they have all rights that flock needs, and returns the account. The error names
    /// the right that is missing and the platform's page where it is given.
    fn identify(&self) -> Answer<'_, BotAccount>;

    /// Returns what the platform can do.
    fn limits(&self) -> Limits;

    /// Follows the platform's events from a position on until the connection fails.
    ///
    /// Events arrive in the platform's order, those that were missed since the position first. The receiver takes each
    /// one before the next, so a [`PlatformEvent::Cursor`] means that everything before it was taken.
    fn connect<'a>(
        &'a self,
        from: Position,
        events: mpsc::Sender<PlatformEvent>,
    ) -> BoxFuture<'a, PlatformError>;

    /// Returns `true` if a text is short enough for one message of this author. A longer text never fits if a part of
    /// it, from its start, does not.
    fn fits(&self, author: &str, markdown: &str) -> bool;

    /// Sends one message, and returns the platform's id of it. Where [`Limits::repetition`] is [`Repetition::Key`], an
    /// attempt with the key of an earlier one returns the id of the first message.
    fn send<'a>(&'a self, message: &'a OutgoingMessage<'a>) -> Answer<'a, String>;

    /// Searches the channel for a message that an earlier attempt may have sent, by its key. Only where
    /// [`Limits::repetition`] is [`Repetition::History`].
    fn find_sent<'a>(&'a self, message: &'a OutgoingMessage<'a>) -> Answer<'a, Option<String>>;

    /// Replaces the text of a message of flock's, and removes its buttons.
    fn edit<'a>(&'a self, message: &'a str, new: &'a OutgoingMessage<'a>) -> Answer<'a, ()>;

    /// Deletes a message of flock's.
    fn delete<'a>(&'a self, external: &'a str, message: &'a str) -> Answer<'a, ()>;

    /// Adds a reaction of flock's to a message, which is an emoji.
    fn react<'a>(&'a self, external: &'a str, message: &'a str, emoji: &'a str) -> Answer<'a, ()>;

    /// Shows that somebody writes, for the [`Limits::typing_lasts`].
    fn show_typing<'a>(&'a self, external: &'a str) -> Answer<'a, ()>;

    /// Answers a message so that only its sender sees it or, where the platform can't, in a thread.
    fn answer_apart<'a>(&'a self, to: &'a IncomingMessage, markdown: &'a str) -> Answer<'a, ()>;

    /// Looks whether the channel has a message with this id. `None` if the platform can't say.
    fn has_message<'a>(&'a self, external: &'a str, message: &'a str) -> Answer<'a, Option<bool>>;

    /// Finds a channel by its id or by the name that people know, and checks that flock can read and write there. The
    /// error names the right that is missing.
    fn find_channel<'a>(&'a self, name: &'a str) -> Answer<'a, ExternalChannel>;

    /// Creates a channel with this name and topic, changed to what the platform allows.
    fn create_channel<'a>(&'a self, name: &'a str, topic: &'a str) -> Answer<'a, ExternalChannel>;

    /// Changes the topic of a channel. [`PlatformError::Refused`] if the platform has none or does not let flock.
    fn set_topic<'a>(&'a self, external: &'a str, topic: &'a str) -> Answer<'a, ()>;

    /// Returns the messages since a time in Unix milliseconds, oldest first, at most `most` and then the newest ones.
    /// [`PlatformError::Refused`] if the platform has no history for bots.
    fn history<'a>(&'a self, external: &'a str, since: i64, most: usize) -> Answer<'a, Vec<IncomingMessage>>;

    /// Downloads a file. [`PlatformError::Refused`] if it has more than `most` bytes, whatever size was announced.
    fn download<'a>(&'a self, file: &'a IncomingFile, most: usize) -> Answer<'a, Vec<u8>>;
}

/// The abilities of a platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// The way to keep a message from being shown twice.
    pub(crate) repetition: Repetition,
    /// Largest size of a file that is sent, in bytes.
    pub(crate) file_bytes: usize,
    /// Set if messages can have buttons.
    pub(crate) has_buttons: bool,
    /// Set if flock hears every reaction to its messages, in each channel where it may write.
    pub(crate) hears_reactions: bool,
    /// Time for which the platform shows that somebody writes after [`Platform::show_typing`].
    pub(crate) typing_lasts: Duration,
}

/// The way to keep a message that is sent again from being shown twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repetition {
    /// The platform recognises the key.
    Key,
    /// The key is in the platform's history and is searched there.
    History,
    /// Nothing. The message says that it may be there twice.
    Nothing,
}

/// A failure of a platform.
///
/// No text of an error has a token in it. An error of the HTTP client has the URL, which on some platforms contains
/// one, so it is removed first.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PlatformError {
    /// The platform asks to wait.
    #[error("the platform takes no more messages for {} s", .0.as_secs_f32().ceil())]
    RateLimited(Duration),
    /// The platform can't be reached, or does not work.
    #[error("{0}")]
    Unavailable(String),
    /// The platform does not accept the credentials.
    #[error("the platform does not accept the token: {0}")]
    Unauthorized(String),
    /// The platform refuses this request for good.
    #[error("the platform refuses it: {0}")]
    Refused(String),
}

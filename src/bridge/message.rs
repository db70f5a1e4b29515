//! What goes over a bridge, in the words of no platform.

/// The account of a bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BotAccount {
    /// The platform's id of the account.
    pub(crate) id: String,
    /// The name that people see.
    pub(crate) name: String,
}

/// A channel of a platform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExternalChannel {
    pub(crate) id: String,
    /// The name that people know it by.
    pub(crate) title: String,
    /// Those who can read a channel that nobody joins uninvited, in the form of [`Sender::names`]; `None` if everybody
    /// may join.
    pub(crate) members: Option<Vec<String>>,
}

/// The place in a platform's stream of events from which on it is followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    /// The last cursor of an earlier connection.
    pub(crate) cursor: Option<String>,
    /// The linked channels.
    pub(crate) channels: Vec<LinkedChannel>,
}

/// A channel of the platform that is linked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LinkedChannel {
    pub(crate) external: String,
    /// Unix milliseconds since which it is linked. Older messages are not taken.
    pub(crate) since: i64,
}

/// A message to be sent to a channel of a platform.
#[derive(Clone, Debug, Default)]
pub(crate) struct OutgoingMessage<'a> {
    /// The platform's id of the channel.
    pub(crate) external: &'a str,
    /// The name of the author; empty for flock itself.
    pub(crate) author: &'a str,
    /// The public URL of the author's picture, for platforms that show one with each message.
    pub(crate) avatar: Option<&'a str>,
    /// The text in Markdown. It mentions nobody by accident.
    pub(crate) markdown: &'a str,
    /// The people that are mentioned on purpose: `@NAME` in the text, outside of code.
    pub(crate) mentions: &'a [Mention],
    /// A key of at most 64 letters, digits and `-`, which is the same for each attempt at this message.
    pub(crate) key: &'a str,
    /// The platform's id of the message that this one answers.
    pub(crate) reply_to: Option<&'a str>,
    pub(crate) files: &'a [OutgoingFile],
    pub(crate) buttons: &'a [Button],
}

/// A person of the platform that a message mentions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mention {
    /// The name in flock, without `human:`.
    pub(crate) name: String,
    /// The platform's id of the account.
    pub(crate) account: String,
}

/// A file that is sent with a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OutgoingFile {
    /// The name without a folder.
    pub(crate) name: String,
    pub(crate) content: Vec<u8>,
}

/// A button below a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Button {
    /// The value reported when it is pressed, in at most 64 bytes.
    pub(crate) id: String,
    pub(crate) label: String,
    /// Set for a button that permits something; unset for one that denies it.
    pub(crate) is_positive: bool,
}

/// Something that happened on a platform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PlatformEvent {
    /// The connection of this account stands.
    Connected(BotAccount),
    Message(IncomingMessage),
    /// The text of a message was changed. The message has the new text and the id of the old one.
    Edited(IncomingMessage),
    Deleted {
        external: String,
        message: String,
    },
    Pressed(PressedButton),
    /// Somebody added a reaction to a message.
    Reacted {
        external: String,
        message: String,
        sender: Sender,
        /// The emoji itself, not a name that the platform has for it.
        emoji: String,
    },
    /// A channel has another name for people.
    Renamed {
        external: String,
        title: String,
    },
    /// A channel has another id.
    Moved {
        from: String,
        to: String,
    },
    /// Everything up to this place in the stream of events was delivered.
    Cursor(String),
}

/// A message that somebody wrote on a platform.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct IncomingMessage {
    /// The platform's id of the channel, or of the thread.
    pub(crate) external: String,
    /// Set in a thread.
    pub(crate) thread: Option<Thread>,
    /// Set for a message to flock's account alone.
    pub(crate) is_direct: bool,
    /// The platform's id of the message.
    pub(crate) id: String,
    /// Unix milliseconds by the platform's clock.
    pub(crate) sent_at: i64,
    pub(crate) sender: Sender,
    /// The text in Markdown. Mentions are written as `@name`.
    pub(crate) text: String,
    /// Set if flock's account is mentioned, which the text does not show any more.
    pub(crate) is_to_bot: bool,
    /// The id of the message that this one answers.
    pub(crate) reply_to: Option<String>,
    /// Set if the sender passes on what somebody else wrote, as far as the platform says so.
    pub(crate) is_forwarded: bool,
    pub(crate) files: Vec<IncomingFile>,
}

/// The thread that a message is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Thread {
    /// The platform's id of the channel that the thread is in.
    pub(crate) channel: String,
    pub(crate) title: String,
}

/// The sender of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sender {
    /// The platform's id of the account, which never changes.
    pub(crate) account: String,
    pub(crate) username: String,
    /// The platform's ids of the sender's roles.
    pub(crate) roles: Vec<String>,
    /// Set for programs: bots, webhooks, and notices.
    pub(crate) is_bot: bool,
}

/// The word before the id of a role among those who are heard.
const ROLE: &str = "role:";

impl Sender {
    /// Returns the names by which a link can let the sender in: the account's id, and `role:ID` for each role.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        let roles = self.roles.iter().map(|role| format!("{ROLE}{role}"));
        std::iter::once(self.account.clone()).chain(roles)
    }
}

/// A file that somebody sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct IncomingFile {
    /// The platform's id of the file, or its address.
    pub(crate) id: String,
    /// The name that the sender gave it. It is hostile input.
    pub(crate) name: String,
    /// The announced size in bytes.
    pub(crate) bytes: u64,
}

/// A button that somebody pressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PressedButton {
    pub(crate) external: String,
    /// The message that has the button, as the platform says and not as the person does.
    pub(crate) message: String,
    pub(crate) sender: Sender,
    /// The id of the [`Button`].
    pub(crate) button: String,
}

//! Commands that a person writes as a whole message: `/compact`, `/context` and `/new`. In a channel they follow the
//! names of the agents they are for. flock answers them itself, without a model call.

/// A command of a person for their session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Compacts the conversation now.
    Compact,
    /// Reports how full the context is.
    Context,
    /// Starts a new conversation.
    New,
    /// Starts a new conversation, and tells a program that runs the agent's turns the last exchanges of the old one.
    /// Only a client can ask for this; no message text is parsed as it.
    Fresh,
}

impl Command {
    /// The commands that a person can write, in the order in which they are offered.
    pub(crate) const WRITTEN: [Self; 3] = [Self::Compact, Self::Context, Self::New];

    /// Returns the command if the message is a command and nothing else.
    ///
    /// Call this only for text that a person wrote: text of agents, files and web pages is never a command.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::WRITTEN.into_iter().find(|command| command.as_str() == text.trim())
    }

    /// Returns the command of a channel post that consists of mentions and the command, and nothing else.
    ///
    /// Call this only for a person's post.
    #[must_use]
    pub(crate) fn parse_post(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace().rev();
        let command = Self::parse(words.next()?)?;
        let mut called = words.peekable();
        // Without a name in front, a command in a channel would be for nobody in particular.
        (called.peek().is_some() && called.all(|word| word.len() > 1 && word.starts_with('@')))
            .then_some(command)
    }

    /// Returns the command as a person writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Compact => "/compact",
            Self::Context => "/context",
            Self::New => "/new",
            Self::Fresh => "forceNew",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_message_is_a_command() {
        assert_eq!(Command::parse(" /new\n"), Some(Command::New));
        assert_eq!(Command::parse("/compact"), Some(Command::Compact));
        assert_eq!(Command::parse("/context"), Some(Command::Context));
        for text in ["/new session", "please /new", "/NEW", "new", "/newer", "", "/compact\n/new"] {
            assert_eq!(Command::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_post_of_mentions_and_a_command_is_a_command() {
        for text in ["@ada /new", " @ada\n/new ", "@ada, @bob: /new", "@all /new"] {
            assert_eq!(Command::parse_post(text), Some(Command::New), "{text:?}");
        }
        for text in
            ["/new", "@ada", "@ /new", "@ada please /new", "@ada /new now", "/new @ada", "ada /new", ""]
        {
            assert_eq!(Command::parse_post(text), None, "{text:?}");
        }
    }
}

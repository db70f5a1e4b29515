//! Commands of people as whole messages: `/compact`, `/context`, `/new`. They are answered here, and the model is
//! not asked.

use std::fmt::Write as _;

use jiff::tz::TimeZone;

use super::engine::Engine;
use super::session::{Compacted, Report};
use super::turn::TurnError;
use crate::id::SessionKey;

/// What a person wants done with their session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Make room now.
    Compact,
    /// Say how full it is.
    Context,
    /// Begin anew.
    New,
}

impl Command {
    /// The command that a message is, where it is one and nothing else. Only to be asked of what a person wrote:
    /// what agents, files and web pages say is never a command.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Compact, Self::Context, Self::New].into_iter().find(|command| command.as_str() == text.trim())
    }

    /// As a person writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Compact => "/compact",
            Self::Context => "/context",
            Self::New => "/new",
        }
    }
}

/// Does it, and says what was done.
pub(super) async fn run(engine: &Engine, key: &SessionKey, command: Command) -> Result<String, TurnError> {
    let nothing = "Nothing was said in this session yet.";
    let done = match command {
        Command::Context => {
            return Ok(engine.report(key)?.map_or_else(|| nothing.to_owned(), |found| describe(&found, &engine.zone)));
        }
        Command::Compact => engine.compact(key, true).await.map(|done| match done {
            Some(done) => told(&done),
            None => "There is nothing to take out: the conversation is short.".to_owned(),
        }),
        Command::New => engine.reset(key).await.map(|()| {
            "The conversation begins anew. Nothing said before is shown to the model again; the transcript has it."
                .to_owned()
        }),
    };
    match done {
        Err(TurnError::NoSession(_)) => Ok(nothing.to_owned()),
        done => done,
    }
}

/// A report in words.
#[must_use]
pub fn describe(report: &Report, zone: &TimeZone) -> String {
    let Report { conversation, room, messages, prompt, tools, answer, window, model, .. } = report;
    let hundredths = conversation.saturating_mul(100) / (*room).max(1);
    let mut text = format!(
        "The conversation has about {conversation} of {room} tokens ({hundredths} %), in {messages} messages. Of the \
         {window} tokens of {model}, the prompt takes {prompt}, the tools {tools}, and {answer} are kept for the answer."
    );
    if let Some(last) = &report.compaction {
        let at = jiff::Timestamp::from_millisecond(last.at).map_or_else(
            |_| last.at.to_string(),
            |at| at.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M").to_string(),
        );
        // Writing to a String does not fail.
        let _ = write!(
            text,
            " It was compacted {} times, last at {at} from {} to {} tokens.",
            last.number, last.before, last.after
        );
    }
    text
}

/// A compaction in words.
#[must_use]
pub fn told(done: &Compacted) -> String {
    format!(
        "The conversation was compacted from about {} to {} tokens. The transcript has all of it.\n\n{}",
        done.before, done.after, done.marker
    )
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
}

//! Commands of people as whole messages: `/compact`, `/context`, `/new`; in a channel behind the names of the agents
//! they are for. They are answered here, and the model is not asked.

use std::fmt::Write as _;

use jiff::tz::TimeZone;

use super::engine::Engine;
use super::halt::Halt;
use super::provenance::Provenance;
use super::session::{Compacted, Report};
use super::transcript::{CommandRecord, Record};
use super::turn::TurnError;
use crate::clock;
use crate::error::chain;
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
    /// Begin anew, and let a program that runs the agent's turns be told the last of what was said. A client's wish; no
    /// message is it.
    Fresh,
}

impl Command {
    /// The command that a message is, where it is one and nothing else. Only to be asked of what a person wrote:
    /// what agents, files and web pages say is never a command.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Compact, Self::Context, Self::New].into_iter().find(|command| command.as_str() == text.trim())
    }

    /// The command that a post in a channel is: nothing but whom it calls, and the command. Only to be asked of what a
    /// person posted.
    #[must_use]
    pub fn of_post(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace().rev();
        let command = Self::parse(words.next()?)?;
        let mut called = words.peekable();
        (called.peek().is_some() && called.all(|word| word.len() > 1 && word.starts_with('@')))
            .then_some(command)
    }

    /// As a person writes it.
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

/// Does it, says what was done, and writes both down: for people, no model is shown them.
pub(super) async fn run(
    engine: &Engine,
    key: &SessionKey,
    command: Command,
    provenance: Option<Provenance>,
    halt: &Halt,
) -> Result<String, TurnError> {
    let answer = carry_out(engine, key, command, halt).await?;
    let record = CommandRecord {
        id: uuid::Uuid::now_v7().to_string(),
        at: clock::unix_ms(),
        command: command.as_str().to_owned(),
        answer: answer.clone(),
        provenance,
    };
    // It is done, whether or not it could be noted.
    if let Err(error) = engine.note(key, Record::Command(record)) {
        tracing::warn!(error = chain(&error), %key, "a command was not written down");
    }
    Ok(answer)
}

async fn carry_out(
    engine: &Engine,
    key: &SessionKey,
    command: Command,
    halt: &Halt,
) -> Result<String, TurnError> {
    let nothing = "Nothing was said in this session yet.";
    let done = match command {
        Command::Context => {
            return Ok(engine.report(key)?.map_or_else(|| nothing.to_owned(), |found| describe(&found, &engine.zone)));
        }
        Command::Compact => engine.compact_under(key, Some(halt)).await.map(|done| match done {
            // A channel's members have no use for what the agent found.
            Some(done) if key.channel().is_some() => told_briefly(&done),
            Some(done) => told(&done),
            None => "There is nothing to take out: the conversation is short.".to_owned(),
        }),
        Command::New => engine.reset(key, false).await.map(|()| {
            "The conversation begins anew. Nothing said before is shown to the model again; the transcript has it."
                .to_owned()
        }),
        Command::Fresh => {
            engine.reset(key, true).await.map(|()| "The conversation begins anew; the transcript has it.".to_owned())
        }
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
    format!("{}\n\n{}", told_briefly(done), done.marker)
}

fn told_briefly(done: &Compacted) -> String {
    format!(
        "The conversation was compacted from about {} to {} tokens. The transcript has all of it.",
        done.before, done.after
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

    #[test]
    fn a_post_is_a_command_where_it_only_calls_somebody() {
        for text in ["@ada /new", " @ada\n/new ", "@ada, @bob: /new", "@all /new"] {
            assert_eq!(Command::of_post(text), Some(Command::New), "{text:?}");
        }
        for text in
            ["/new", "@ada", "@ /new", "@ada please /new", "@ada /new now", "/new @ada", "ada /new", ""]
        {
            assert_eq!(Command::of_post(text), None, "{text:?}");
        }
    }
}

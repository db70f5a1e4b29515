//! Carries out the commands of a person for their session.

use std::fmt::Write as _;

use jiff::tz::TimeZone;

use super::command::Command;
use super::deadline::Deadline;
use super::engine::Engine;
use super::provenance::Provenance;
use super::session::{CompactionReport, ContextReport};
use super::transcript::{CommandRecord, Record};
use super::turn::TurnError;
use crate::clock;
use crate::error::chain;
use crate::id::SessionKey;

/// Carries out a command and returns the answer for the person. Command and answer are written to the transcript, where
/// only people see them: no model is shown either.
pub(super) async fn run(
    engine: &Engine,
    key: &SessionKey,
    command: Command,
    provenance: Option<Provenance>,
    deadline: &Deadline,
) -> Result<String, TurnError> {
    let answer = execute(engine, key, command, deadline).await?;
    let record = CommandRecord {
        id: uuid::Uuid::now_v7().to_string(),
        at: clock::unix_ms(),
        command: command.as_str().to_owned(),
        answer: answer.clone(),
        provenance,
    };
    // The command has been carried out, so a failure to record it is only logged.
    if let Err(error) = engine.note(key, Record::Command(record)).await {
        tracing::warn!(error = chain(&error), %key, "a command was not written down");
    }
    Ok(answer)
}

async fn execute(
    engine: &Engine,
    key: &SessionKey,
    command: Command,
    deadline: &Deadline,
) -> Result<String, TurnError> {
    let nothing = "Nothing was said in this session yet.";
    let done = match command {
        Command::Context => {
            return Ok(engine.report(key).await?.map_or_else(|| nothing.to_owned(), |found| describe(&found, &engine.zone)));
        }
        Command::Compact => engine.compact_until(key, Some(deadline)).await.map(|done| match done {
            // The answer goes to everybody in the channel, and the marker has the agent's own notes, which are of no
            // use to them.
            Some(done) if key.channel().is_some() => format_compaction_summary(&done),
            Some(done) => format!("{}\n\n{}", format_compaction_summary(&done), done.marker),
            None => "There is nothing to compact: the conversation is short.".to_owned(),
        }),
        // The transcript keeps the old messages: a reset only hides them from the model.
        Command::New => engine.reset(key, false).await.map(|()| {
            "The conversation begins anew. The model no longer sees earlier messages; the transcript has them."
                .to_owned()
        }),
        Command::Fresh => {
            engine.reset(key, true).await.map(|()| "The conversation begins anew; the transcript has it.".to_owned())
        }
    };
    match done {
        // To a person, a session without a record is one in which nothing was said, and no error.
        Err(TurnError::NoSession(_)) => Ok(nothing.to_owned()),
        done => done,
    }
}

/// Formats a context report for people.
fn describe(report: &ContextReport, zone: &TimeZone) -> String {
    let ContextReport { conversation, room, messages, prompt, tools, answer, window, model, .. } = report;
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
        // Writing to a `String` can't fail.
        let _ = write!(
            text,
            " It was compacted {} times, last at {at} from {} to {} tokens.",
            last.number, last.before, last.after
        );
    }
    text
}

fn format_compaction_summary(done: &CompactionReport) -> String {
    format!(
        "The conversation was compacted from about {} to {} tokens. The transcript has all of it.",
        done.before, done.after
    )
}

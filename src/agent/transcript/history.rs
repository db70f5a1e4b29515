//! The newest part of a transcript: whole turns for a model's context, or messages for a reader.

use std::fs::File;
use std::io;

use super::model::{MessageRecord, Phase, Record, TurnRecord};
use super::tail::Tail;
use crate::id::TurnId;

/// The records of one turn, oldest first.
#[derive(Clone, Debug, PartialEq)]
pub struct PastTurn {
    /// Its id.
    pub turn: TurnId,
    /// What was said in it.
    pub messages: Vec<MessageRecord>,
    /// How it ended, if that was written.
    pub end: Option<TurnRecord>,
    /// Bytes of its lines.
    pub bytes: u64,
}

/// The newest turns of a transcript.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Past {
    /// Oldest first.
    pub turns: Vec<PastTurn>,
    /// Lines that are no records, among those that were read.
    pub broken: usize,
}

/// Reads the newest whole turns until their lines have `budget` bytes in all. The turn that goes over the
/// budget is not among them.
///
/// # Errors
///
/// If the file can't be read.
pub fn past(file: &File, budget: u64) -> io::Result<Past> {
    let mut past = Past::default();
    let mut tail = Tail::new(file)?;
    let mut left = budget;
    // Newest first, and so are the messages in it, until the end.
    let mut turns: Vec<PastTurn> = Vec::new();
    let mut over = false;
    while let Some(line) = tail.next_line()? {
        let bytes = line.len() as u64 + 1;
        let record = match Record::parse(line) {
            Ok(record) => record,
            Err(_) => {
                past.broken += 1;
                continue;
            }
        };
        let turn = match &record {
            Record::Message(message) => message.turn,
            Record::Turn(turn) => turn.turn,
            Record::Session(_) | Record::Unknown => continue,
        };
        if turns.last().is_none_or(|last| last.turn != turn) {
            if over {
                break;
            }
            turns.push(PastTurn { turn, messages: Vec::new(), end: None, bytes: 0 });
        }
        over = left < bytes;
        left = left.saturating_sub(bytes);
        if over {
            turns.pop();
            break;
        }
        if let Some(at) = turns.last_mut() {
            at.bytes += bytes;
            match record {
                Record::Message(message) => at.messages.push(*message),
                Record::Turn(end) if end.state != Phase::Started && at.end.is_none() => at.end = Some(end),
                _ => {}
            }
        }
    }
    turns.reverse();
    for turn in &mut turns {
        turn.messages.reverse();
    }
    past.turns = turns;
    Ok(past)
}

/// Reads the newest `limit` messages, oldest first, from at most `most` bytes of lines.
///
/// # Errors
///
/// If the file can't be read.
pub fn messages(file: &File, limit: usize, most: u64) -> io::Result<Vec<MessageRecord>> {
    let mut tail = Tail::new(file)?;
    let mut messages = Vec::new();
    let mut read = 0;
    while messages.len() < limit && read < most {
        let Some(line) = tail.next_line()? else { break };
        read += line.len() as u64;
        if let Ok(Record::Message(message)) = Record::parse(line) {
            messages.push(*message);
        }
    }
    messages.reverse();
    Ok(messages)
}

//! Reads the turns of a transcript as question and answer, newest first: for people, and for a program that is told the
//! earlier exchanges. Reads from the end, only as far as needed.

use std::fs::File;
use std::io;

use super::model::{MessageRecord, Record, TurnPhase, TurnRecord};
use super::rewind::LeftOut;
use crate::home::reverse_lines::ReverseLines;
use crate::id::TurnId;
use crate::provider::Role;

/// One turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exchange {
    /// The messages to the agent, oldest first.
    pub said: Vec<MessageRecord>,
    /// The model's last message.
    pub answer: Option<MessageRecord>,
    /// The model's earlier messages, including its calls, and the results, oldest first. Only read if asked for.
    pub between: Vec<MessageRecord>,
    pub began: Option<TurnRecord>,
    pub ended: Option<TurnRecord>,
}

impl Exchange {
    pub fn turn(&self) -> Option<TurnId> {
        let message = self.answer.iter().chain(&self.said).chain(&self.between).next();
        self.ended.as_ref().map(|end| end.turn).or_else(|| message.map(|message| message.turn))
    }

    fn has_message(&self) -> bool {
        self.answer.is_some() || !self.said.is_empty()
    }
}

/// The part of a transcript that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExchangeScope {
    /// The current conversation: back to the last reset that forgets the earlier messages.
    Conversation,
    /// The whole transcript.
    All,
    /// The whole transcript, with the calls and results between question and answer.
    Whole,
}

/// Reads turns, newest first, until `take` returns `false` or `most` bytes of lines were read.
///
/// # Errors
///
/// Returns an error if the file can't be read.
pub fn exchanges(
    file: &File,
    scope: ExchangeScope,
    most: u64,
    mut take: impl FnMut(Exchange) -> bool,
) -> io::Result<()> {
    let mut tail = ReverseLines::new(file)?;
    let mut open = Exchange::default();
    let mut imported = false;
    let mut read = 0;
    // People see the whole transcript, also what a model is no longer shown.
    let mut left_out = (scope == ExchangeScope::Conversation).then(LeftOut::default);
    while read < most {
        let Some(line) = tail.next_line()? else { break };
        read += line.len() as u64;
        if left_out.as_mut().is_some_and(|left_out| !left_out.shows_line(line)) {
            imported |= matches!(Record::parse(line), Ok(Record::Imported(_)));
            continue;
        }
        // The check is on bytes, before the parser: these are the longest lines.
        if scope != ExchangeScope::Whole && is_intermediate(line, &open) {
            continue;
        }
        let record = match Record::parse(line) {
            Ok(Record::Reset(reset)) if scope == ExchangeScope::Conversation && !reset.keeps_recent => break,
            // All records before this one are imported, and the file is read backwards, so they come now.
            Ok(Record::Imported(_)) => {
                imported = true;
                continue;
            }
            Ok(record @ (Record::Message(_) | Record::Turn(_))) => record,
            Ok(_) | Err(_) => continue,
        };
        let turn = match &record {
            Record::Message(message) => message.turn,
            Record::Turn(turn) => turn.turn,
            _ => continue,
        };
        // A turn whose beginning is missing ends at the first record of another turn.
        if open.turn().is_some_and(|of| of != turn) && !emit(&mut open, &mut take) {
            return Ok(());
        }
        match record {
            Record::Message(mut message) => {
                message.imported |= imported;
                match message.message.role {
                    Role::User => open.said.push(*message),
                    Role::Assistant if open.answer.is_none() => open.answer = Some(*message),
                    _ if scope == ExchangeScope::Whole => open.between.push(*message),
                    _ => {}
                }
            }
            Record::Turn(record) if record.state == TurnPhase::Started => {
                open.began = Some(record);
                if !emit(&mut open, &mut take) {
                    return Ok(());
                }
            }
            Record::Turn(record) => open.ended = Some(record),
            _ => {}
        }
    }
    // The oldest turn may have no beginning in the file.
    emit(&mut open, &mut take);
    Ok(())
}

/// Passes a turn to `take`, if it has a message.
fn emit(open: &mut Exchange, take: &mut impl FnMut(Exchange) -> bool) -> bool {
    let mut turn = std::mem::take(open);
    turn.said.reverse();
    turn.between.reverse();
    !turn.has_message() || take(turn)
}

/// Returns `true` for a line, in the form in which flock writes it, with a message between question and answer. Most
/// lines of a transcript are such messages, and the longest ones, and they need no parsing. A message's content can't
/// imitate the searched bytes, because its quotes are escaped.
fn is_intermediate(line: &[u8], open: &Exchange) -> bool {
    let has = |needle: &[u8]| memchr::memmem::find(line, needle).is_some();
    line.starts_with(br#"{"type":"message","#)
        && (has(br#""message":{"role":"tool","#)
            || open.answer.is_some() && has(br#""message":{"role":"assistant","#))
}

//! The turns of a transcript as what was said in them and what came of it, newest first: for people, and for a program
//! that has to be told what was said before. Read from the end, as far as is wanted.

use std::fs::File;
use std::io;

use super::model::{MessageRecord, Phase, Record, TurnRecord};
use super::tail::Tail;
use crate::id::TurnId;
use crate::provider::Role;

/// A turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exchange {
    /// What was said to the agent, oldest first.
    pub said: Vec<MessageRecord>,
    /// The last that its model said.
    pub answer: Option<MessageRecord>,
    /// What its model said before, the calls among it, and their results, oldest first; only where it was asked for.
    pub between: Vec<MessageRecord>,
    /// Its beginning.
    pub began: Option<TurnRecord>,
    /// Its end.
    pub ended: Option<TurnRecord>,
}

impl Exchange {
    /// Which turn.
    pub fn turn(&self) -> Option<TurnId> {
        let message = self.answer.iter().chain(&self.said).chain(&self.between).next();
        self.ended.as_ref().map(|end| end.turn).or_else(|| message.map(|message| message.turn))
    }

    fn has_message(&self) -> bool {
        self.answer.is_some() || !self.said.is_empty()
    }
}

/// How far back, and how much, is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// What the conversation's next turn may still know: to where it was begun anew.
    Conversation,
    /// All that is in the transcript.
    All,
    /// The same, with what lies between question and answer.
    Whole,
}

/// Reads turns, newest first, until `take` has enough of them and gives `false`, or `most` bytes of lines were read.
///
/// # Errors
///
/// If the file can't be read.
pub fn exchanges(
    file: &File,
    scope: Scope,
    most: u64,
    mut take: impl FnMut(Exchange) -> bool,
) -> io::Result<()> {
    let mut tail = Tail::new(file)?;
    let mut open = Exchange::default();
    let mut imported = false;
    let mut read = 0;
    while read < most {
        let Some(line) = tail.next_line()? else { break };
        read += line.len() as u64;
        if scope != Scope::Whole && is_between(line, &open) {
            continue;
        }
        let record = match Record::parse(line) {
            Ok(Record::Reset(reset)) if scope == Scope::Conversation && !reset.keeps_recent => break,
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
        if open.turn().is_some_and(|of| of != turn) && !give(&mut open, &mut take) {
            return Ok(());
        }
        match record {
            Record::Message(mut message) => {
                message.imported |= imported;
                match message.message.role {
                    Role::User => open.said.push(*message),
                    Role::Assistant if open.answer.is_none() => open.answer = Some(*message),
                    _ if scope == Scope::Whole => open.between.push(*message),
                    _ => {}
                }
            }
            Record::Turn(record) if record.state == Phase::Started => {
                open.began = Some(record);
                if !give(&mut open, &mut take) {
                    return Ok(());
                }
            }
            Record::Turn(record) => open.ended = Some(record),
            _ => {}
        }
    }
    give(&mut open, &mut take);
    Ok(())
}

/// Hands a turn over, where something was said in it.
fn give(open: &mut Exchange, take: &mut impl FnMut(Exchange) -> bool) -> bool {
    let mut turn = std::mem::take(open);
    turn.said.reverse();
    turn.between.reverse();
    !turn.has_message() || take(turn)
}

/// Whether a line is, as flock writes it, a message that lies between question and answer. Those are most of a
/// transcript, and the longest of it, and need no parsing. What a message holds can't pass for it: quotes in a text
/// are escaped.
fn is_between(line: &[u8], open: &Exchange) -> bool {
    let has = |needle: &[u8]| memchr::memmem::find(line, needle).is_some();
    line.starts_with(br#"{"type":"message","#)
        && (has(br#""message":{"role":"tool","#)
            || open.answer.is_some() && has(br#""message":{"role":"assistant","#))
}

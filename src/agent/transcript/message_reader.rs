//! Reads messages of a transcript for people and tools: the newest ones, or those of one turn.

use std::fs::File;
use std::io;

use super::model::{MessageRecord, Record, TurnPhase};
use crate::home::reverse_lines::ReverseLines;
use crate::id::TurnId;

/// Reads the newest `limit` messages, oldest first, from at most about `most` bytes of lines.
///
/// # Errors
///
/// Returns an error if the file can't be read.
pub fn messages(file: &File, limit: usize, most: u64) -> io::Result<Vec<MessageRecord>> {
    let mut tail = ReverseLines::new(file)?;
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

/// Reads the messages of one turn, oldest first. The turn need not be the last one, and may be missing.
///
/// # Errors
///
/// Returns an error if the file can't be read.
pub fn of_turn(file: &File, turn: TurnId) -> io::Result<Vec<MessageRecord>> {
    let mut tail = ReverseLines::new(file)?;
    let mut messages = Vec::new();
    // If the turn is missing, the whole file is searched. Lines of other turns are not parsed, to keep that fast.
    let id = turn.to_string();
    let names_it = memchr::memmem::Finder::new(id.as_bytes());
    while let Some(line) = tail.next_line()? {
        if names_it.find(line).is_none() {
            continue;
        }
        match Record::parse(line) {
            Ok(Record::Message(message)) if message.turn == turn => messages.push(*message),
            // The record of the turn's beginning is the first of its records, so the search ends there.
            Ok(Record::Turn(record)) if record.turn == turn && record.state == TurnPhase::Started => break,
            _ => {}
        }
    }
    messages.reverse();
    Ok(messages)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::super::model::TurnRecord;
    use super::*;
    use crate::provider::{Message, Role};

    #[test]
    fn newest_messages_and_messages_of_a_turn_are_read() {
        let turns = [TurnId::new(), TurnId::new()];
        let mut lines = Vec::new();
        for (turn, texts) in turns.iter().zip([["a", "b"], ["c", "d"]]) {
            let started = TurnRecord::new(*turn, TurnPhase::Started, 1);
            Record::Turn(started).write_to(&mut lines);
            for text in texts {
                let message = Message::text(Role::User, text);
                Record::Message(Box::new(MessageRecord::new(*turn, 1, message))).write_to(&mut lines);
            }
        }
        lines.extend(b"nonsense\n");
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&lines).unwrap();
        let texts = |records: Vec<MessageRecord>| -> Vec<String> {
            records.iter().map(|record| record.message.joined_text()).collect()
        };
        assert_eq!(texts(messages(&file, 3, 1 << 20).unwrap()), ["b", "c", "d"]);
        assert_eq!(texts(of_turn(&file, turns[0]).unwrap()), ["a", "b"]);
        assert!(of_turn(&file, TurnId::new()).unwrap().is_empty());
    }
}

//! The newest part of a transcript: whole turns for a model's context, or messages for a reader.

use std::fs::File;
use std::io;

use super::model::{MessageRecord, Phase, Record};
use super::tail::Tail;
use crate::id::TurnId;

/// The records of one turn, oldest first.
#[derive(Clone, Debug, PartialEq)]
pub struct PastTurn {
    /// Its id.
    pub turn: TurnId,
    /// What was said in it.
    pub messages: Vec<MessageRecord>,
    /// What the messages cost, as they were estimated.
    pub cost: u64,
}

/// The newest turns of a transcript.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Past {
    /// Oldest first.
    pub turns: Vec<PastTurn>,
    /// Lines that are no records, among those that were read.
    pub broken: usize,
}

/// The most bytes of lines that are read for one turn's past, whatever they are estimated to cost: pictures
/// are cheap for a model and large for a host.
const MOST_BYTES: u64 = 32 * 1024 * 1024;

/// Reads the newest whole turns until they cost `budget` in all. The turn that goes over it is not among
/// them.
///
/// # Errors
///
/// If the file can't be read.
pub fn past(file: &File, budget: u64, cost: impl Fn(&MessageRecord) -> u64) -> io::Result<Past> {
    let mut tail = Tail::new(file)?;
    let (mut left, mut bytes_left) = (budget, MOST_BYTES);
    let mut broken = 0;
    // Newest first, and so are the messages in them, until the end.
    let mut turns: Vec<PastTurn> = Vec::new();
    while let Some(line) = tail.next_line()? {
        // Half of all lines, and a message says itself which turn it belongs to.
        if line.starts_with(br#"{"type":"turn","#) {
            continue;
        }
        let bytes = line.len() as u64;
        let message = match Record::parse(line) {
            Ok(Record::Message(message)) => *message,
            Ok(_) => continue,
            Err(_) => {
                broken += 1;
                continue;
            }
        };
        let (turn, spent) = (message.turn, cost(&message));
        let is_older = turns.last().is_none_or(|last| last.turn != turn);
        if spent > left || bytes > bytes_left {
            if !is_older {
                turns.pop();
            }
            break;
        }
        left -= spent;
        bytes_left -= bytes;
        if is_older {
            turns.push(PastTurn { turn, messages: Vec::new(), cost: 0 });
        }
        if let Some(at) = turns.last_mut() {
            at.cost += spent;
            at.messages.push(message);
        }
    }
    turns.reverse();
    for turn in &mut turns {
        turn.messages.reverse();
    }
    Ok(Past { turns, broken })
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

/// Reads the messages of one turn, oldest first. The turn need not be the last one, or be there at all.
///
/// # Errors
///
/// If the file can't be read.
pub fn of_turn(file: &File, turn: TurnId) -> io::Result<Vec<MessageRecord>> {
    let mut tail = Tail::new(file)?;
    let mut messages = Vec::new();
    // Of a turn that is not there, all of the file is looked at: no line of another one is parsed for that.
    let id = turn.to_string();
    let names_it = memchr::memmem::Finder::new(id.as_bytes());
    while let Some(line) = tail.next_line()? {
        if names_it.find(line).is_none() {
            continue;
        }
        match Record::parse(line) {
            Ok(Record::Message(message)) if message.turn == turn => messages.push(*message),
            Ok(Record::Turn(record)) if record.turn == turn && record.state == Phase::Started => break,
            _ => {}
        }
    }
    messages.reverse();
    Ok(messages)
}

#[cfg(test)]
mod tests {
    use super::super::model::TurnRecord;
    use super::*;
    use crate::provider::{Message, Role};
    use std::io::Write as _;

    fn file(turns: &[(TurnId, &[&str])]) -> File {
        let mut lines = Vec::new();
        for (turn, texts) in turns {
            let mark = |state| TurnRecord {
                turn: *turn,
                state,
                at: 1,
                model: None,
                steps: None,
                usage: None,
                error: None,
            };
            Record::Turn(mark(Phase::Started)).write_to(&mut lines);
            for text in *texts {
                let message = Message::text(Role::User, *text);
                Record::Message(Box::new(MessageRecord::new(*turn, 1, message))).write_to(&mut lines);
            }
            Record::Turn(mark(Phase::Done)).write_to(&mut lines);
        }
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&lines).unwrap();
        file
    }

    fn texts(past: &Past) -> Vec<Vec<String>> {
        let text = |record: &MessageRecord| record.message.joined_text();
        past.turns.iter().map(|turn| turn.messages.iter().map(text).collect()).collect()
    }

    #[test]
    fn the_newest_whole_turns_are_read() {
        let ids = [TurnId::new(), TurnId::new(), TurnId::new()];
        let file = file(&[(ids[0], &["aaaa"]), (ids[1], &["bb", "cc"]), (ids[2], &["d", "e"])]);
        let read = |budget| past(&file, budget, |record| record.message.joined_text().len() as u64).unwrap();
        assert_eq!(texts(&read(100)), [vec!["aaaa"], vec!["bb", "cc"], vec!["d", "e"]]);
        assert_eq!(texts(&read(9)), [vec!["bb", "cc"], vec!["d", "e"]]);
        assert_eq!(texts(&read(5)), [vec!["d", "e"]], "no half turns");
        assert_eq!(texts(&read(1)), Vec::<Vec<String>>::new());
    }

    #[test]
    fn broken_lines_are_counted_and_cost_nothing_else() {
        let ids = [TurnId::new(), TurnId::new()];
        let mut file = file(&[(ids[0], &["a"]), (ids[1], &["b"])]);
        file.write_all(b"{\"type\":\"message\"\nnonsense\n").unwrap();
        let past = past(&file, 100, |_| 1).unwrap();
        assert_eq!((past.broken, past.turns.len()), (2, 2));
        assert_eq!(messages(&file, 1, 1 << 20).unwrap()[0].message.joined_text(), "b");
    }
}

//! The newest part of a transcript, from which a model's context is made: back to the last compaction, or to the
//! beginning of the conversation. Read from the end, so that it costs what is needed and not what the file is.

use std::fs::File;
use std::io;

use super::model::{CompactionRecord, MessageRecord, Record};
use super::repair;
use super::tail::Tail;
use crate::provider::Role;

/// What a conversation is made of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recent {
    /// The last compaction, if there was one since the conversation began.
    pub compaction: Option<Box<CompactionRecord>>,
    /// What is shown after it, or all that was said: oldest first. Each says whether it was brought from elsewhere.
    pub messages: Vec<MessageRecord>,
    /// Whether the compaction was.
    pub is_import: bool,
    /// Whether something lies between the compaction, or the beginning, and the messages that would have cost
    /// more than was to be read.
    pub has_more: bool,
    /// The message that the conversation began with, where that is not among the others.
    pub first: Option<MessageRecord>,
    /// Lines that are no records, or messages that nobody takes as they are, among those that were read.
    pub broken: usize,
}

/// The most bytes of lines that are kept of one transcript, whatever they are estimated to cost: pictures are
/// cheap for a model and large for a host.
const MOST_BYTES: u64 = 32 * 1024 * 1024;

/// Reads back to the last compaction and what it kept, or to the beginning, until the messages cost `budget`.
///
/// # Errors
///
/// If the file can't be read.
pub fn recent(file: &File, budget: u64, cost: impl Fn(&MessageRecord) -> u64) -> io::Result<Recent> {
    let mut tail = Tail::new(file)?;
    let mut recent = Recent::default();
    let (mut left, mut bytes_left) = (budget, MOST_BYTES);
    let mut imported = false;
    while let Some(line) = tail.next_line()? {
        // Half of all lines, and they say nothing here.
        if line.starts_with(br#"{"type":"turn","#) {
            continue;
        }
        let bytes = line.len() as u64;
        match Record::parse(line) {
            Ok(Record::Message(mut message)) => {
                message.imported |= imported;
                let spent = cost(&message);
                if spent > left || bytes > bytes_left {
                    recent.has_more = true;
                    if recent.compaction.is_none() {
                        recent.first = question(line, imported);
                        look_back(&mut tail, &mut recent, imported)?;
                    }
                    break;
                }
                left -= spent;
                bytes_left -= bytes;
                let kept = recent.compaction.as_ref().and_then(|found| found.keep_from.as_ref());
                let is_last = kept == Some(&message.id);
                recent.broken += usize::from(repair::is_unsendable(&message));
                recent.messages.push(*message);
                if is_last {
                    break;
                }
            }
            Ok(Record::Compaction(found)) if recent.compaction.is_none() => {
                recent.is_import = imported;
                let is_last = found.keep_from.is_none();
                recent.compaction = Some(found);
                if is_last {
                    break;
                }
            }
            Ok(Record::Reset(_)) => break,
            Ok(Record::Imported(_)) => imported = true,
            Ok(_) => {}
            Err(_) => recent.broken += 1,
        }
    }
    recent.messages.reverse();
    Ok(recent)
}

/// A line's message, if it is a user's.
fn question(line: &[u8], imported: bool) -> Option<MessageRecord> {
    // As flock writes it. What a message holds can't pass for it: quotes in a text are escaped.
    memchr::memmem::find(line, br#""role":"user""#)?;
    match Record::parse(line) {
        Ok(Record::Message(mut message)) if message.message.role == Role::User => {
            message.imported |= imported;
            Some(*message)
        }
        _ => None,
    }
}

/// Looks further back for what stands for the rest: the last compaction, or the conversation's first message.
fn look_back(tail: &mut Tail<'_>, recent: &mut Recent, mut imported: bool) -> io::Result<()> {
    while let Some(line) = tail.next_line()? {
        if line.starts_with(br#"{"type":"message","#) {
            if let Some(found) = question(line, imported) {
                recent.first = Some(found);
            }
            continue;
        }
        match Record::parse(line) {
            Ok(Record::Compaction(found)) => {
                recent.is_import = imported;
                recent.compaction = Some(found);
                recent.first = None;
                return Ok(());
            }
            Ok(Record::Reset(_)) => return Ok(()),
            Ok(Record::Imported(_)) => imported = true,
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::super::model::{ImportedRecord, ResetRecord};
    use super::*;
    use crate::id::TurnId;
    use crate::provider::Message;

    fn said(id: &str, text: &str) -> Record {
        let role = if id.starts_with('a') { Role::Assistant } else { Role::User };
        let mut record = MessageRecord::new(TurnId::new(), 1, Message::text(role, text));
        id.clone_into(&mut record.id);
        Record::Message(Box::new(record))
    }

    fn compaction(number: u32, keep_from: Option<&str>) -> Record {
        let keep_from = keep_from.map(str::to_owned);
        Record::Compaction(Box::new(CompactionRecord { number, keep_from, ..CompactionRecord::default() }))
    }

    fn file(records: &[Record]) -> File {
        let mut lines = Vec::new();
        records.iter().for_each(|record| record.write_to(&mut lines));
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&lines).unwrap();
        file
    }

    fn read(records: &[Record], budget: u64) -> (Vec<String>, Option<u32>, Recent) {
        let cost = |record: &MessageRecord| record.message.joined_text().len() as u64;
        let recent = recent(&file(records), budget, cost).unwrap();
        let ids = recent.messages.iter().map(|message| message.id.clone()).collect();
        (ids, recent.compaction.as_ref().map(|found| found.number), recent)
    }

    #[test]
    fn goes_back_to_what_the_last_compaction_kept() {
        let records = [
            said("u1", "x"),
            said("a1", "x"),
            compaction(1, Some("a1")),
            said("u2", "x"),
            said("a2", "x"),
            compaction(2, Some("u2")),
            said("u3", "x"),
        ];
        let (ids, number, recent) = read(&records, 100);
        assert_eq!(
            (ids, number, recent.has_more),
            (vec!["u2".into(), "a2".into(), "u3".into()], Some(2), false)
        );
        let (ids, number, _) = read(&records[..4], 100);
        assert_eq!((ids, number), (vec!["a1".into(), "u2".into()], Some(1)), "across the record itself");
        let (ids, number, _) = read(&[said("u1", "x"), compaction(1, None), said("u2", "x")], 100);
        assert_eq!((ids, number), (vec!["u2".into()], Some(1)), "nothing was kept");
    }

    #[test]
    fn what_is_too_much_is_left_and_said() {
        let records = [said("u1", "xx"), said("a1", "xx"), said("u2", "xx"), said("a2", "xx")];
        let (ids, _, recent) = read(&records, 5);
        assert_eq!((ids, recent.has_more), (vec!["u2".into(), "a2".into()], true));
        assert_eq!(recent.first.unwrap().id, "u1", "the beginning is found all the same");
        let records = [said("u1", "x"), compaction(3, None), said("u2", "xxx"), said("a2", "xxx")];
        let (ids, number, recent) = read(&records, 3);
        assert_eq!((ids, number, recent.has_more, recent.first), (vec!["a2".into()], Some(3), true, None));
    }

    #[test]
    fn a_reset_is_a_beginning() {
        let reset = || Record::Reset(ResetRecord { id: "r".into(), at: 1 });
        let records =
            [said("u1", "x"), compaction(1, Some("u1")), reset(), said("u2", "x"), said("a2", "xxxx")];
        let (ids, number, _) = read(&records, 100);
        assert_eq!((ids, number), (vec!["u2".into(), "a2".into()], None));
        let (ids, number, recent) = read(&records, 4);
        assert_eq!((ids, number), (vec!["a2".into()], None));
        assert_eq!(recent.first.unwrap().id, "u2");
    }

    #[test]
    fn what_was_brought_from_elsewhere_is_told_apart() {
        let imported =
            || Record::Imported(ImportedRecord { at: 1, key: "agent:a:flock:main:x".parse().unwrap() });
        let records = [said("u1", "x"), said("a1", "x"), imported(), said("u2", "x")];
        let (ids, _, recent) = read(&records, 100);
        let imports =
            |recent: &Recent| recent.messages.iter().map(|found| found.imported).collect::<Vec<_>>();
        assert_eq!((ids.len(), imports(&recent), recent.is_import), (3, vec![true, true, false], false));
        let records = [said("u1", "x"), compaction(1, Some("u1")), imported(), said("u2", "x")];
        let (ids, _, recent) = read(&records, 100);
        assert_eq!((ids.len(), imports(&recent), recent.is_import), (2, vec![true, false], true));
        let records = [said("u1", "xx"), said("a1", "xx"), imported(), said("u2", "x")];
        let (_, _, recent) = read(&records, 2);
        assert!(recent.first.unwrap().imported, "also where only the beginning was looked for");
    }

    #[test]
    fn broken_lines_are_counted_and_cost_nothing_else() {
        let mut lines = Vec::new();
        said("u1", "x").write_to(&mut lines);
        lines.extend(b"{\"type\":\"message\"\nnonsense\n");
        said("u2", "x").write_to(&mut lines);
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&lines).unwrap();
        let recent = recent(&file, 100, |_| 1).unwrap();
        assert_eq!((recent.broken, recent.messages.len()), (2, 2));
    }
}

//! Reads the newest part of a transcript, back to the last compaction or the beginning of the conversation, to build a
//! model's context. Reads from the end, so the cost depends on what is needed and not on the file's size.

use std::fs::File;
use std::io;

use super::model::{CompactionRecord, MessageRecord, Record};
use super::reverse_records::{ReadAheadLimits, ReverseRecords};
use super::rewind::LeftOut;
use crate::home::reverse_lines::ReverseLines;
use crate::provider::Role;

/// The parts of a conversation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecentConversation {
    /// The last compaction of the conversation, if there was one.
    pub compaction: Option<Box<CompactionRecord>>,
    /// The messages after the compaction, or all messages, oldest first. Each has its `imported` flag set.
    pub messages: Vec<MessageRecord>,
    /// `true` if the compaction was imported.
    pub is_import: bool,
    /// `true` if older messages exist that were not read, because they would have exceeded the budget.
    pub has_more: bool,
    /// The conversation's first message, if it is not among `messages`.
    pub first: Option<MessageRecord>,
    /// Number of lines read that are no records, or messages that no provider accepts.
    pub broken: usize,
}

/// The most bytes of lines that are kept of one transcript, whatever their estimated tokens: pictures are cheap for a
/// model and large for the host.
const MAX_BYTES: u64 = 32 * 1024 * 1024;

/// Approximate bytes of a transcript per token.
const BYTES_PER_TOKEN: u64 = 4;

/// Reads back to the last compaction and the messages it kept, or to the beginning, until the messages cost `budget`
/// tokens.
///
/// # Errors
///
/// Returns an error if the file can't be read.
pub fn recent(
    file: &File,
    budget: u64,
    cost: impl Fn(&MessageRecord) -> u64 + Sync,
) -> io::Result<RecentConversation> {
    read_from(ReverseLines::new(file)?, budget, cost, ReadAheadLimits::for_machine())
}

/// Does the same for the part of the file before `place`, which must be the end of a line.
///
/// # Errors
///
/// Returns an error if the file can't be read.
pub fn recent_before(
    file: &File,
    place: u64,
    budget: u64,
    cost: impl Fn(&MessageRecord) -> u64 + Sync,
) -> io::Result<RecentConversation> {
    read_from(ReverseLines::before(file, place), budget, cost, ReadAheadLimits::for_machine())
}

fn read_from(
    tail: ReverseLines<'_>,
    budget: u64,
    cost: impl Fn(&MessageRecord) -> u64 + Sync,
    pace: ReadAheadLimits,
) -> io::Result<RecentConversation> {
    let file = tail.file();
    let mut lines = ReverseRecords::new(tail, cost, pace);
    let mut recent = RecentConversation::default();
    let (mut left, mut bytes_left) = (budget, MAX_BYTES);
    let mut imported = false;
    let mut left_out = LeftOut::default();
    while let Some(line) = lines.next(left.saturating_mul(BYTES_PER_TOKEN).min(bytes_left))? {
        if line.record.as_ref().is_some_and(|record| !left_out.shows(record)) {
            // Everything before this record is imported, also what was not left out.
            imported |= matches!(line.record, Some(Record::Imported(_)));
            continue;
        }
        match line.record {
            Some(Record::Message(mut message)) => {
                message.imported |= imported;
                // The budget is in tokens. The limit on bytes protects the host from many large pictures.
                if line.cost > left || line.bytes > bytes_left {
                    recent.has_more = true;
                    // Without a compaction, the conversation's first message has to stand for what is not read.
                    if recent.compaction.is_none() {
                        let mut tail = ReverseLines::before(file, line.end);
                        if let Some(line) = tail.next_line()? {
                            recent.first = user_message(line, imported);
                        }
                        find_start(&mut tail, &mut recent, imported, &mut left_out)?;
                    }
                    break;
                }
                left -= line.cost;
                bytes_left -= line.bytes;
                let kept = recent.compaction.as_ref().and_then(|found| found.keep_from.as_ref());
                // The compaction names the oldest message that it kept, so nothing before it is needed.
                let is_last = kept == Some(&message.id);
                recent.broken += usize::from(line.is_broken);
                recent.messages.push(*message);
                if is_last {
                    break;
                }
            }
            Some(Record::Compaction(found)) if recent.compaction.is_none() => {
                recent.is_import = imported;
                // A compaction that kept nothing ends the reading at once.
                let is_last = found.keep_from.is_none();
                recent.compaction = Some(found);
                if is_last {
                    break;
                }
            }
            Some(Record::Reset(_)) => break,
            Some(Record::Imported(_)) => imported = true,
            Some(_) => {}
            None => recent.broken += 1,
        }
    }
    recent.messages.reverse();
    Ok(recent)
}

/// Returns the message of a line, if it is a user's.
fn user_message(line: &[u8], imported: bool) -> Option<MessageRecord> {
    // The search matches flock's own way of writing. A message's content can't imitate it, because its quotes are
    // escaped.
    memchr::memmem::find(line, br#""role":"user""#)?;
    match Record::parse(line) {
        Ok(Record::Message(mut message)) if message.message.role == Role::User => {
            message.imported |= imported;
            Some(*message)
        }
        _ => None,
    }
}

/// Searches further back for the text that stands for the rest: the last compaction, or the conversation's first
/// message.
fn find_start(
    tail: &mut ReverseLines<'_>,
    recent: &mut RecentConversation,
    mut imported: bool,
    left_out: &mut LeftOut,
) -> io::Result<()> {
    while let Some(line) = tail.next_line()? {
        if !left_out.shows_line(line) {
            imported |= matches!(Record::parse(line), Ok(Record::Imported(_)));
            continue;
        }
        if line.starts_with(br#"{"type":"message","#) {
            if let Some(found) = user_message(line, imported) {
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

    use proptest::prelude::*;

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

    fn read(records: &[Record], budget: u64) -> (Vec<String>, Option<u32>, RecentConversation) {
        let cost = |record: &MessageRecord| record.message.joined_text().len() as u64;
        let recent = recent(&file(records), budget, cost).unwrap();
        let ids = recent.messages.iter().map(|message| message.id.clone()).collect();
        (ids, recent.compaction.as_ref().map(|found| found.number), recent)
    }

    #[test]
    fn reading_stops_at_the_first_message_the_last_compaction_kept() {
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
    fn messages_over_budget_are_left_out_and_reported() {
        let records = [said("u1", "xx"), said("a1", "xx"), said("u2", "xx"), said("a2", "xx")];
        let (ids, _, recent) = read(&records, 5);
        assert_eq!((ids, recent.has_more), (vec!["u2".into(), "a2".into()], true));
        assert_eq!(recent.first.unwrap().id, "u1", "the beginning is found all the same");
        let records = [said("u1", "x"), compaction(3, None), said("u2", "xxx"), said("a2", "xxx")];
        let (ids, number, recent) = read(&records, 3);
        assert_eq!((ids, number, recent.has_more, recent.first), (vec!["a2".into()], Some(3), true, None));
    }

    #[test]
    fn reading_stops_at_a_reset() {
        let reset = || Record::Reset(ResetRecord { id: "r".into(), at: 1, keeps_recent: false });
        let records =
            [said("u1", "x"), compaction(1, Some("u1")), reset(), said("u2", "x"), said("a2", "xxxx")];
        let (ids, number, _) = read(&records, 100);
        assert_eq!((ids, number), (vec!["u2".into(), "a2".into()], None));
        let (ids, number, recent) = read(&records, 4);
        assert_eq!((ids, number), (vec!["a2".into()], None));
        assert_eq!(recent.first.unwrap().id, "u2");
    }

    #[test]
    fn imported_messages_are_flagged() {
        let imported =
            || Record::Imported(ImportedRecord { at: 1, key: "agent:a:flock:main:x".parse().unwrap() });
        let records = [said("u1", "x"), said("a1", "x"), imported(), said("u2", "x")];
        let (ids, _, recent) = read(&records, 100);
        let imports = |recent: &RecentConversation| {
            recent.messages.iter().map(|found| found.imported).collect::<Vec<_>>()
        };
        assert_eq!((ids.len(), imports(&recent), recent.is_import), (3, vec![true, true, false], false));
        let records = [said("u1", "x"), compaction(1, Some("u1")), imported(), said("u2", "x")];
        let (ids, _, recent) = read(&records, 100);
        assert_eq!((ids.len(), imports(&recent), recent.is_import), (2, vec![true, false], true));
        let records = [said("u1", "xx"), said("a1", "xx"), imported(), said("u2", "x")];
        let (_, _, recent) = read(&records, 2);
        assert!(recent.first.unwrap().imported, "also where only the beginning was looked for");
    }

    #[test]
    fn broken_lines_are_only_counted() {
        let mut lines = Vec::new();
        said("u1", "x").write_to(&mut lines);
        lines.extend(b"{\"type\":\"message\"\nnonsense\n");
        said("u2", "x").write_to(&mut lines);
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&lines).unwrap();
        let recent = recent(&file, 100, |_| 1).unwrap();
        assert_eq!((recent.broken, recent.messages.len()), (2, 2));
    }

    /// Generates any line of a transcript: messages with and without flags, lines in a form that flock does not write,
    /// records that end a reading, and lines that are no records.
    fn any_line() -> impl Strategy<Value = Vec<u8>> {
        let line = |record: &Record| {
            let mut line = Vec::new();
            record.write_to(&mut line);
            line
        };
        let text = || proptest::string::string_regex("[a-z\n\"é]{0,40}").unwrap();
        let id = || (0_u32..6).prop_map(|n| format!("{}{n}", if n % 2 == 0 { "u" } else { "a" }));
        let spaced = |line: &[u8]| String::from_utf8_lossy(line).replace("\",\"", "\", \"").into_bytes();
        let other = |line: &[u8]| String::from_utf8_lossy(line).replace("assistant", "oracle").into_bytes();
        let imported = ImportedRecord { at: 1, key: "agent:a:flock:main:x".parse().unwrap() };
        prop_oneof![
            12 => (id(), text()).prop_map(move |(id, text)| line(&said(&id, &text))),
            2 => (id(), text()).prop_map(move |(id, text)| spaced(&line(&said(&id, &text)))),
            1 => (id(), text()).prop_map(move |(id, text)| other(&line(&said(&id, &text)))),
            3 => Just(b"{\"type\":\"turn\",\"turn\":\"x\"}\n".to_vec()),
            1 => (1_u32..9, proptest::option::of(id()))
                .prop_map(move |(number, from)| line(&compaction(number, from.as_deref()))),
            1 => Just(line(&Record::Reset(ResetRecord { id: "r".into(), at: 1, keeps_recent: false }))),
            1 => Just(line(&Record::Imported(imported))),
            1 => (id(), text(), 0_usize..200).prop_map(move |(id, text, cut)| {
                let mut line = line(&said(&id, &text));
                let at = cut.min(line.len() - 1);
                line.truncate(at);
                line.push(b'\n');
                line
            }),
            1 => Just(b"\n".to_vec()),
            1 => Just(b"nonsense \xff\n".to_vec()),
        ]
    }

    proptest! {
        #[test]
        fn several_threads_read_the_same_as_one(
            lines in proptest::collection::vec(any_line(), 0..60),
            is_torn: bool,
            budget in prop_oneof![0_u64..400, Just(u64::MAX)],
            part in 1_usize..3_000,
            threads in 2_usize..5,
            alone in 0_u64..2_000,
        ) {
            let mut bytes = lines.concat();
            if is_torn {
                bytes.pop();
            }
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&bytes).unwrap();
            let cost = |record: &MessageRecord| record.message.joined_text().len() as u64;
            let at = |pace| read_from(ReverseLines::new(&file).unwrap(), budget, cost, pace).unwrap();
            let one = at(ReadAheadLimits { alone, part, threads: 1 });
            prop_assert_eq!(&one, &at(ReadAheadLimits { alone: 0, part, threads }));
            prop_assert_eq!(&one, &at(ReadAheadLimits { alone, part, threads }));
        }
    }

    #[test]
    fn a_long_transcript_is_read_by_several_threads() {
        let long = "word ".repeat(20_000);
        let records: Vec<Record> = (0..40).map(|n| said(&format!("u{n}"), &long)).collect();
        let file = file(&records);
        let readers = std::sync::Mutex::new(std::collections::HashSet::new());
        let cost = |_: &MessageRecord| {
            readers.lock().unwrap().insert(std::thread::current().id());
            1
        };
        let found = read_from(
            ReverseLines::new(&file).unwrap(),
            u64::MAX,
            cost,
            ReadAheadLimits { threads: 2, ..ReadAheadLimits::for_machine() },
        )
        .unwrap();
        let ids: Vec<String> = found.messages.iter().map(|message| message.id.clone()).collect();
        assert_eq!(ids, (0..40).map(|n| format!("u{n}")).collect::<Vec<_>>());
        assert!(readers.lock().unwrap().len() > 1);
        readers.lock().unwrap().clear();
        read_from(
            ReverseLines::new(&file).unwrap(),
            10,
            cost,
            ReadAheadLimits { threads: 2, ..ReadAheadLimits::for_machine() },
        )
        .unwrap();
        assert_eq!(readers.into_inner().unwrap().len(), 1, "little is wanted, and no thread begun");
    }
}

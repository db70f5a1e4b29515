//! What a rewind leaves out of a conversation. Nothing is deleted: a record says after which one the conversation goes
//! on, and a reader from the end skips what is between.

use std::fs::File;
use std::io;

use super::model::{Record, RewindRecord};
use crate::home::reverse_lines::ReverseLines;
use crate::id::TurnId;

/// The part of a transcript that a rewind has left out, for a reader from the end.
#[derive(Debug, Default)]
pub(super) struct LeftOut(Skipping);

#[derive(Debug, Default)]
enum Skipping {
    #[default]
    Nothing,
    /// Everything up to the record with this id, which is shown.
    Until(String),
    Everything,
}

impl LeftOut {
    /// Returns `true` if the next older record belongs to the conversation.
    pub(super) fn shows(&mut self, record: &Record) -> bool {
        match &self.0 {
            Skipping::Nothing => {}
            Skipping::Until(id) if record.id() == Some(id) => self.0 = Skipping::Nothing,
            Skipping::Until(_) | Skipping::Everything => return false,
        }
        // A rewind that was itself left out has no effect.
        if let Record::Rewind(rewind) = record {
            self.enter(rewind);
            return false;
        }
        true
    }

    /// Returns `true` if the next older line belongs to the conversation. A damaged line does.
    pub(super) fn shows_line(&mut self, line: &[u8]) -> bool {
        let is_message = line.starts_with(br#"{"type":"message","#);
        if matches!(self.0, Skipping::Nothing) && is_message {
            return true;
        }
        match Record::parse(line) {
            Ok(record) => self.shows(&record),
            Err(_) => matches!(self.0, Skipping::Nothing),
        }
    }

    fn enter(&mut self, rewind: &RewindRecord) {
        self.0 = rewind.after.clone().map_or(Skipping::Everything, Skipping::Until);
    }
}

/// A moment in a transcript.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// The length of the file at that moment, if it is known.
    pub(crate) length: Option<u64>,
    /// Unix milliseconds.
    pub(crate) at: i64,
    /// The turn that begins at this moment in this session, if one does.
    pub(crate) turn: Option<TurnId>,
}

/// The effect of a return to a moment on a transcript.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Id of the last record before the moment.
    pub(crate) after: Option<String>,
    /// Number of messages that a model is no longer shown.
    pub(crate) messages: usize,
    /// `true` if any record follows the moment.
    pub(crate) is_needed: bool,
}

/// Returns `true` if the newest records include the rewind with this id.
///
/// # Errors
///
/// Returns an error if the file can't be read.
pub(crate) fn has(file: &File, id: &str) -> io::Result<bool> {
    let mut tail = ReverseLines::new(file)?;
    while let Some(line) = tail.next_line()? {
        match Record::parse(line) {
            Ok(Record::Rewind(record)) if record.id == id => return Ok(true),
            // A turn begins only after a rewind was completed.
            Ok(Record::Message(_) | Record::Turn(_)) => return Ok(false),
            _ => {}
        }
    }
    Ok(false)
}

/// Finds the last record before a moment.
///
/// # Errors
///
/// Returns an error if the file can't be read.
pub(crate) fn cut(file: &File, moment: Moment) -> io::Result<Cut> {
    let mut cut = Cut::default();
    let length = moment.length.filter(|length| is_line_end(file, *length).unwrap_or(false));
    let mut tail = ReverseLines::new(file)?;
    let mut left_out = LeftOut::default();
    let mut is_before = false;
    loop {
        let end = tail.place();
        let Some(line) = tail.next_line()? else { return Ok(cut) };
        let Ok(record) = Record::parse(line) else { continue };
        let is_shown = left_out.shows(&record);
        is_before |= match length {
            Some(length) => end <= length,
            None => record.at().is_some_and(|at| at <= moment.at) && !is_of(&record, moment.turn),
        };
        if is_before {
            if let Some(id) = record.id() {
                cut.after = Some(id.to_owned());
                return Ok(cut);
            }
            continue;
        }
        // The beginning of a turn is known by its records, whatever the clock did.
        cut.is_needed = true;
        cut.messages += usize::from(is_shown && matches!(record, Record::Message(_)));
    }
}

fn is_of(record: &Record, turn: Option<TurnId>) -> bool {
    turn.is_some_and(|turn| match record {
        Record::Message(message) => message.turn == turn,
        Record::Turn(record) => record.turn == turn,
        _ => false,
    })
}

/// Returns `true` if a line ends at this place. A file that was mended since has other places.
fn is_line_end(file: &File, length: u64) -> io::Result<bool> {
    use std::os::unix::fs::FileExt as _;
    let Some(at) = length.checked_sub(1) else { return Ok(true) };
    let mut last = [0];
    let read = file.read_at(&mut last, at)?;
    Ok(read == 1 && last == *b"\n")
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::super::model::MessageRecord;
    use super::super::recent::recent;
    use super::super::{Exchange, ExchangeScope, exchanges};
    use super::*;
    use crate::provider::{Message, Role};

    struct Written {
        file: File,
        at: i64,
    }

    impl Written {
        fn new() -> Self {
            Self { file: tempfile::tempfile().unwrap(), at: 0 }
        }

        fn add(&mut self, record: &Record) {
            let mut line = Vec::new();
            record.write_to(&mut line);
            self.file.write_all(&line).unwrap();
        }

        fn say(&mut self, id: &str) -> TurnId {
            self.at += 10;
            let turn = TurnId::new();
            let role = if id.starts_with('a') { Role::Assistant } else { Role::User };
            let mut record = MessageRecord::new(turn, self.at, Message::text(role, id));
            id.clone_into(&mut record.id);
            self.add(&Record::Message(Box::new(record)));
            turn
        }

        fn rewind(&mut self, id: &str, after: Option<&str>) {
            self.at += 10;
            let after = after.map(str::to_owned);
            let by = "human:ann".to_owned();
            let record = RewindRecord { id: id.to_owned(), at: self.at, after, checkpoint: 1, by };
            self.add(&Record::Rewind(record));
        }

        fn shown(&self, budget: u64) -> Vec<String> {
            let recent = recent(&self.file, budget, |_| 1).unwrap();
            let first = recent.first.into_iter().chain(recent.messages);
            first.map(|message| message.id).collect()
        }

        fn told(&self, scope: ExchangeScope) -> Vec<String> {
            let mut told = Vec::new();
            let take = |exchange: Exchange| {
                told.extend(exchange.said.into_iter().chain(exchange.answer).map(|message| message.id));
                true
            };
            exchanges(&self.file, scope, u64::MAX, take).unwrap();
            told.reverse();
            told
        }

        fn length(&self) -> u64 {
            self.file.metadata().unwrap().len()
        }
    }

    #[test]
    fn what_a_rewind_left_out_is_shown_to_people_only() {
        let mut written = Written::new();
        for id in ["u1", "a1", "u2", "a2"] {
            written.say(id);
        }
        written.rewind("w1", Some("a1"));
        written.say("u3");
        assert_eq!(written.shown(99), ["u1", "a1", "u3"]);
        assert_eq!(written.shown(2), ["u1", "a1", "u3"], "the first one stands for the rest");
        assert_eq!(written.told(ExchangeScope::Conversation), ["u1", "a1", "u3"]);
        assert_eq!(written.told(ExchangeScope::All).len(), 5);
        written.rewind("w2", Some("u3"));
        assert_eq!(written.shown(99), ["u1", "a1", "u3"], "nothing was left out");
        written.rewind("w3", Some("a2"));
        assert_eq!(written.shown(99), ["u1", "a1", "u2", "a2"], "the first rewind is undone");
        written.rewind("w4", None);
        assert_eq!(written.shown(99), Vec::<String>::new());
        written.say("u4");
        assert_eq!(written.shown(99), ["u4"]);
        written.rewind("w5", Some("gone"));
        assert_eq!(written.shown(99), Vec::<String>::new(), "a record that is gone shows nothing");
    }

    #[test]
    fn a_rewind_may_go_back_to_just_after_an_earlier_one() {
        let mut written = Written::new();
        for id in ["u1", "a1", "u2", "a2"] {
            written.say(id);
        }
        written.rewind("w1", Some("a1"));
        written.say("u3");
        written.rewind("w2", Some("w1"));
        assert_eq!(written.shown(99), ["u1", "a1"]);
    }

    #[test]
    fn a_moment_is_found_by_length_time_and_turn() {
        let mut written = Written::new();
        written.say("u1");
        written.say("a1");
        let (length, at) = (written.length(), written.at);
        // The clock was set back.
        written.at = 0;
        let turn = written.say("u2");
        let find = |moment| cut(&written.file, moment).unwrap();
        let expected = Cut { after: Some("a1".into()), messages: 1, is_needed: true };
        assert_eq!(find(Moment { length: Some(length), at: 0, turn: None }), expected);
        assert_eq!(find(Moment { length: None, at, turn: Some(turn) }), expected);
        let mended = Moment { length: Some(length - 1), at: 5, turn: None };
        assert_eq!(find(mended), Cut { after: None, messages: 3, is_needed: true });
        let end = Moment { length: Some(written.length()), at: 0, turn: None };
        assert_eq!(find(end), Cut { after: Some("u2".into()), messages: 0, is_needed: false });
        assert_eq!(find(Moment { length: Some(0), at: 0, turn: None }).after, None);
    }
}

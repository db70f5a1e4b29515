//! Reads the messages of a transcript from a byte offset on, for readers that remember how far they came.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;

use super::model::{MessageRecord, Record};

/// The longest line that is read. Longer ones are skipped.
const MAX_LINE: u64 = 16 * 1024 * 1024;

/// A message with the byte offset of its line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlacedMessage {
    pub place: u64,
    pub record: MessageRecord,
}

/// Reads the messages from the offset `from`, which must be the beginning of a line, from about `most` bytes. Returns
/// them with the offset at which the next line begins. A last line without a line feed may be incomplete and is not
/// read.
///
/// # Errors
///
/// Returns [`io::ErrorKind::InvalidData`] if no line begins at `from`, and another error if the file can't be read.
pub(crate) fn messages_from(file: &mut File, from: u64, most: u64) -> io::Result<(Vec<PlacedMessage>, u64)> {
    if !is_line_start(file, from)? {
        return Err(io::ErrorKind::InvalidData.into());
    }
    file.seek(SeekFrom::Start(from))?;
    let mut reader = BufReader::with_capacity(256 * 1024, file);
    let mut messages = Vec::new();
    let mut line = Vec::new();
    let mut place = from;
    while place - from < most {
        line.clear();
        let Some(length) = next_line(&mut reader, &mut line)? else { break };
        if let Ok(Record::Message(record)) = Record::parse(&line) {
            messages.push(PlacedMessage { place, record: *record });
        }
        place += length;
    }
    Ok((messages, place))
}

/// Reads the message whose line begins at this offset. Returns `None` if there is no message.
///
/// # Errors
///
/// Returns an error if the file can't be read.
pub(crate) fn message_at(file: &mut File, place: u64) -> io::Result<Option<MessageRecord>> {
    if !is_line_start(file, place)? {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(place))?;
    let mut line = Vec::new();
    if next_line(&mut BufReader::new(file), &mut line)?.is_none() {
        return Ok(None);
    }
    match Record::parse(&line) {
        Ok(Record::Message(record)) => Ok(Some(*record)),
        _ => Ok(None),
    }
}

/// Returns `true` at the beginning of the file and after a line feed.
fn is_line_start(file: &File, place: u64) -> io::Result<bool> {
    let Some(before) = place.checked_sub(1) else { return Ok(true) };
    let mut byte = [0];
    Ok(file.read_at(&mut byte, before)? == 1 && byte == *b"\n")
}

/// Reads one complete line without its line feed. Returns its length with the line feed, or `None` at the end. Of a line
/// that is too long, the buffer stays empty.
fn next_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Option<u64>> {
    let mut length = reader.by_ref().take(MAX_LINE).read_until(b'\n', line)? as u64;
    if line.last() == Some(&b'\n') {
        line.pop();
        return Ok(Some(length));
    }
    line.clear();
    loop {
        let part = reader.by_ref().take(MAX_LINE).read_until(b'\n', line)? as u64;
        length += part;
        let is_end = line.last() == Some(&b'\n');
        line.clear();
        match (part, is_end) {
            (0, _) => return Ok(None),
            (_, true) => return Ok(Some(length)),
            (_, false) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::id::TurnId;
    use crate::provider::{Message, Role};

    fn line(text: &str) -> Vec<u8> {
        let message = Message::text(Role::User, text);
        let mut bytes = Vec::new();
        Record::Message(Box::new(MessageRecord::new(TurnId::new(), 1, message))).write_to(&mut bytes);
        bytes
    }

    #[test]
    fn messages_are_read_from_an_offset_and_again_by_their_place() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[line("one"), b"nonsense\n".to_vec(), line("two")].concat()).unwrap();
        let (first, next) = messages_from(&mut file, 0, 1).unwrap();
        assert_eq!(first.len(), 1);
        let (rest, end) = messages_from(&mut file, next, u64::MAX).unwrap();
        assert_eq!(rest[0].record.message.joined_text(), "two");
        assert_eq!(end, file.metadata().unwrap().len());
        let found = message_at(&mut file, rest[0].place).unwrap().unwrap();
        assert_eq!(found, rest[0].record);
        assert_eq!(message_at(&mut file, 3).unwrap(), None);
        assert_eq!(messages_from(&mut file, 3, 1).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(message_at(&mut file, end).unwrap(), None);
        file.write_all(&line("torn")[..20]).unwrap();
        assert_eq!(messages_from(&mut file, end, u64::MAX).unwrap(), (Vec::new(), end));
    }
}

//! Exports a session as one JSON document and imports it, into the same or another home. An export copies records byte
//! for byte. An import treats the document as hostile: its size is limited, every record is checked, and all are marked
//! as imported.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead as _, Write};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::model::{Header, ImportedRecord, MessageRecord, Record, VERSION};
use crate::error::{Explain, Kind};
use crate::id::SessionKey;
use crate::provider::MAX_BLOCKS;

/// The name of the format in the document.
pub const FORMAT: &str = "flock.session";

/// The largest document that is read, in bytes.
pub const MOST_BYTES: u64 = 256 * 1024 * 1024;

/// The most records of one document, and the most bytes of one record.
const MAX_RECORDS: usize = 1_000_000;
const MAX_RECORD_BYTES: usize = 32 * 1024 * 1024;

/// The most bytes of a record's id.
const MAX_ID_BYTES: usize = 128;

/// The highest number of a compaction that a document may have.
const MAX_COMPACTIONS: u32 = 1_000_000;

/// An error while importing a document.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The document is not JSON of this form.
    #[error("this is no exported session")]
    Form(#[source] serde_json::Error),
    /// The document has another format or version.
    #[error("this is {format} version {version}; flock reads {FORMAT} version {VERSION}")]
    Format {
        format: String,
        /// The document's version, which this flock does not read.
        version: u32,
    },
    #[error("the document is too large: at most {MOST_BYTES} bytes and {MAX_RECORDS} records are read")]
    TooLarge,
    /// A record is not valid.
    #[error("record {at} {problem}")]
    Record {
        /// The record's number, from 1.
        at: usize,
        /// The problem as a verb phrase, as in `has no id`.
        problem: String,
    },
}

impl Explain for ImportError {
    fn kind(&self) -> Kind {
        Kind::Usage
    }

    fn hint(&self) -> Option<String> {
        Some("flock session export KEY FILE".to_owned())
    }
}

/// Writes a transcript as a document and returns its number of records.
///
/// Left out are lines that are no records, the header, which becomes the document's own head, and the note that records
/// were imported.
///
/// # Errors
///
/// Returns an error if the file can't be read or the document can't be written.
pub fn export(transcript: &File, key: &SessionKey, created: i64, to: &mut dyn Write) -> io::Result<usize> {
    let head = serde_json::json!({
        "format": FORMAT, "version": VERSION, "key": key, "agent": key.agent(), "created": created,
    });
    let head = head.to_string();
    // The records are written one by one into the open object, so that a large session is never in memory.
    write!(to, "{},\"records\":[", head.trim_end_matches('}'))?;
    let mut records = 0;
    let mut lines = io::BufReader::with_capacity(256 * 1024, transcript);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line)? > 0 {
        let record = line.trim_ascii_end();
        // Lines of an unknown kind are exported too: a newer flock may read them.
        if !matches!(Record::parse(record), Err(_) | Ok(Record::Session(_) | Record::Imported(_))) {
            to.write_all(if records == 0 { b"\n" } else { b",\n" })?;
            to.write_all(record)?;
            records += 1;
        }
        line.clear();
    }
    to.write_all(b"\n]}\n")?;
    Ok(records)
}

/// A checked document.
#[derive(Debug)]
pub struct ImportedSession {
    /// The session that the document says it was exported from.
    pub key: SessionKey,
    pub records: usize,
    /// The lines of the transcript without its header.
    lines: Vec<u8>,
}

impl ImportedSession {
    /// Writes the transcript of a session with this key: its header, the records, and the note that they were imported.
    ///
    /// # Errors
    ///
    /// Returns an error if `to` can't be written.
    pub fn write(&self, key: &SessionKey, now: i64, to: &mut dyn Write) -> io::Result<()> {
        let header = Header { version: VERSION, agent: key.agent().clone(), key: key.clone(), created: now };
        let mut line = Vec::new();
        Record::Session(header).write_to(&mut line);
        to.write_all(&line)?;
        to.write_all(&self.lines)?;
        line.clear();
        Record::Imported(ImportedRecord { at: now, key: self.key.clone() }).write_to(&mut line);
        to.write_all(&line)
    }
}

#[derive(Deserialize)]
struct Document<'d> {
    format: String,
    version: u32,
    key: SessionKey,
    #[serde(borrow)]
    records: Vec<&'d RawValue>,
}

/// Parses and checks a document. Nothing of a document with an error is used.
///
/// # Errors
///
/// - [`ImportError::Form`] if it is not JSON of the right form.
/// - [`ImportError::Format`] if its format or version is another one.
/// - [`ImportError::TooLarge`] if it has too many bytes or records.
/// - [`ImportError::Record`] if a record is not valid.
pub fn import(document: &[u8]) -> Result<ImportedSession, ImportError> {
    // Checked before parsing, because the parser holds the whole document in memory.
    if document.len() as u64 > MOST_BYTES {
        return Err(ImportError::TooLarge);
    }
    let Document { format, version, key, records } =
        serde_json::from_slice(document).map_err(ImportError::Form)?;
    if format != FORMAT || version != VERSION {
        return Err(ImportError::Format { format: crate::clean::label(&format, 80), version });
    }
    if records.len() > MAX_RECORDS {
        return Err(ImportError::TooLarge);
    }
    let mut lines = Vec::with_capacity(document.len());
    let mut ids = HashSet::new();
    for (record, at) in records.iter().zip(1..) {
        let fail = |problem: String| ImportError::Record { at, problem };
        let text = record.get();
        if text.len() > MAX_RECORD_BYTES {
            return Err(fail(format!("has {} bytes; at most {MAX_RECORD_BYTES} are read", text.len())));
        }
        let none = |error| fail(format!("is none: {error}"));
        // A record with two types is refused: another reader might use the one that was not checked here.
        serde_json::from_str::<RecordTag<'_>>(text).map_err(none)?;
        let begin = lines.len();
        if text.contains(['\n', '\r']) {
            // Another program has reformatted the document. A transcript needs each record on one line.
            let value: serde_json::Value = serde_json::from_str(text).map_err(none)?;
            lines.extend_from_slice(value.to_string().as_bytes());
        } else {
            lines.extend_from_slice(text.as_bytes());
        }
        // The line is parsed again, so that exactly the bytes that will be written are checked.
        let parsed = Record::parse_strict(&lines[begin..]).map_err(none)?;
        check(&parsed).map_err(|problem| fail(problem.to_owned()))?;
        for id in ids_of(&parsed)
            .map_err(|problem| fail(format!("is of the kind {}, {problem}", record_type(text))))?
        {
            // Two records with one id could make a compaction keep from the wrong message.
            if !ids.insert(id.to_owned()) {
                return Err(fail("has the id of another one".to_owned()));
            }
        }
        lines.push(b'\n');
    }
    Ok(ImportedSession { key, records: records.len(), lines })
}

/// Returns the ids that a record claims, or an error for a record that must not be in a document.
fn ids_of(record: &Record) -> Result<Vec<&str>, &'static str> {
    match record {
        Record::Message(message) => Ok(vec![&message.id]),
        Record::Compaction(compaction) => Ok(vec![&compaction.id]),
        Record::Reset(reset) => Ok(vec![&reset.id]),
        Record::Rewind(rewind) => Ok(vec![&rewind.id]),
        Record::Command(command) => Ok(vec![&command.id]),
        Record::Turn(_) => Ok(Vec::new()),
        Record::Session(_) | Record::Imported(_) => Err("which only flock itself writes"),
        Record::Unknown => Err("which this flock does not know"),
    }
}

/// Returns a fault that no record of flock's own can have.
fn check(record: &Record) -> Result<(), &'static str> {
    let messages: Vec<&MessageRecord> = match record {
        Record::Message(message) => vec![message],
        Record::Compaction(found) if found.number > MAX_COMPACTIONS => {
            return Err("has a number that no compaction has");
        }
        Record::Compaction(found) => {
            found.initial.iter().map(|initial| &**initial).chain(&found.said).collect()
        }
        _ => Vec::new(),
    };
    let copied = messages.iter().map(|message| message.id.as_str());
    if ids_of(record).unwrap_or_default().into_iter().chain(copied).any(|id| !is_id(id)) {
        return Err("has an id that is empty, too long or no text");
    }
    // An answer of a provider has at most this many calls, so an imported one may not have more.
    if messages.iter().any(|message| message.message.tool_calls().nth(MAX_BLOCKS).is_some()) {
        return Err("has more calls than one answer can have");
    }
    Ok(())
}

fn is_id(id: &str) -> bool {
    !id.is_empty() && id.len() <= MAX_ID_BYTES && !id.chars().any(char::is_control)
}

/// A record's type. Parsing fails if the record has it twice.
#[derive(Deserialize)]
struct RecordTag<'t> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'t, str>,
}

/// Returns a record's type for an error message.
fn record_type(record: &str) -> String {
    let tag = serde_json::from_str::<RecordTag<'_>>(record);
    let kind = tag.map_or_else(|_| String::new(), |tag| crate::clean::label(&tag.kind, 80));
    format!("{kind:?}")
}

#[cfg(test)]
mod tests {
    use std::io::Seek as _;

    use proptest::prelude::*;

    use super::super::model::{
        CommandRecord, CompactionRecord, MessageRecord, ResetRecord, RewindRecord, TurnPhase, TurnRecord,
    };
    use super::super::recent;
    use super::*;
    use crate::agent::Provenance;
    use crate::id::TurnId;
    use crate::provider::{Block, Message, Role};

    fn key() -> SessionKey {
        "agent:coder:flock:main:ann".parse().unwrap()
    }

    fn message(id: &str, role: Role, content: Vec<Block>) -> MessageRecord {
        let mut record = MessageRecord::new(TurnId::new(), 1, Message { role, content });
        id.clone_into(&mut record.id);
        record
    }

    /// Returns `true` if a kind of record is exported. Each such kind has to be in [`every_kind`].
    fn is_exported(record: &Record) -> bool {
        match record {
            Record::Message(_)
            | Record::Turn(_)
            | Record::Compaction(_)
            | Record::Reset(_)
            | Record::Rewind(_)
            | Record::Command(_) => true,
            Record::Session(_) | Record::Imported(_) | Record::Unknown => false,
        }
    }

    fn every_kind() -> Vec<Record> {
        let picture = Block::Image { media_type: "image/png".into(), data: "AAAA".into() };
        let mut asked = message("u", Role::User, vec![Block::text("do \u{2028} it \"now\""), picture]);
        asked.provenance = Some(Provenance::Dm { peer: "human:ann".into(), item: "i".into() });
        asked.context = Some(vec!["client".into()]);
        asked.guidance = vec!["flock".into()];
        let signed = Block::ToolCall {
            id: "1".into(),
            name: "exec".into(),
            arguments: serde_json::json!({"b": 1, "a": 2}),
            signature: Some("state".into()),
        };
        let thought = Block::Thinking {
            thinking: "hm".into(),
            signature: Some("{\"id\":\"rs_1\"}".into()),
            redacted: Some("r".into()),
        };
        let said = Block::Text { text: "é".into(), signature: Some("msg_1".into()) };
        let mut answer = message("a", Role::Assistant, vec![thought, said, signed]);
        answer.trace = vec!["[coder] cmd: ls → exit 0".into(), "  a\tb".into()];
        let given = Block::ToolResult {
            call_id: "1".into(),
            name: "exec".into(),
            content: [Block::text("out")].into(),
            is_error: true,
        };
        let given = message("t", Role::Tool, vec![given]);
        let command = CommandRecord {
            id: "d".into(),
            at: 3,
            command: "/compact".into(),
            answer: "done\n".into(),
            provenance: Some(Provenance::Resume { turn: TurnId::new() }),
        };
        let compaction = CompactionRecord {
            id: "c".into(),
            initial: Some(Box::new(asked.clone())),
            keep_from: Some("a".into()),
            ..CompactionRecord::default()
        };
        let turn = TurnRecord {
            steps: Some(1),
            runtime: Some("claude".into()),
            trace: vec!["[coder] agent: é".into()],
            ..TurnRecord::new(TurnId::new(), TurnPhase::Done, 2)
        };
        vec![
            Record::Turn(TurnRecord { state: TurnPhase::Started, ..turn.clone() }),
            Record::Message(Box::new(asked)),
            Record::Message(Box::new(answer)),
            Record::Message(Box::new(given)),
            Record::Command(command),
            Record::Compaction(Box::new(compaction)),
            Record::Turn(turn),
            Record::Rewind(RewindRecord {
                id: "w".into(),
                at: 3,
                after: Some("u".into()),
                checkpoint: 1,
                by: "human:ann".into(),
            }),
            Record::Reset(ResetRecord { id: "r".into(), at: 3, keeps_recent: true }),
        ]
    }

    fn file(records: &[Record]) -> (File, Vec<u8>) {
        let mut lines = Vec::new();
        records.iter().for_each(|record| record.write_to(&mut lines));
        (written(&lines), lines)
    }

    fn written(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.seek(io::SeekFrom::Start(0)).unwrap();
        file
    }

    fn export_file(file: &File) -> Vec<u8> {
        let mut document = Vec::new();
        export(file, &key(), 7, &mut document).unwrap();
        document
    }

    #[test]
    fn an_exported_session_imports_byte_for_byte() {
        let header = Record::Session(Header {
            version: VERSION,
            key: key(),
            agent: key().agent().clone(),
            created: 7,
        });
        let (_, lines) = file(&every_kind());
        assert!(every_kind().iter().all(is_exported));
        let mut kinds: Vec<_> = every_kind().iter().map(std::mem::discriminant).collect();
        kinds.dedup();
        assert_eq!(kinds.len(), 7, "a turn's two ends, and each other kind once");
        let mut with_header = vec![header];
        with_header.extend(every_kind());
        // Turn ids differ from call to call, so all lines come from one call.
        let mut bytes = Vec::new();
        with_header[0].write_to(&mut bytes);
        bytes.extend_from_slice(&lines);
        bytes.extend_from_slice(b"a torn li");
        let document = export_file(&written(&bytes));
        let value: serde_json::Value = serde_json::from_slice(&document).unwrap();
        assert_eq!((value["format"].as_str(), value["created"].as_i64()), (Some(FORMAT), Some(7)));
        let read = import(&document).unwrap();
        assert_eq!((read.records, &read.key), (9, &key()));
        assert!(read.lines == lines, "each record as it was");
        let other: SessionKey = "agent:coder:flock:main:eve".parse().unwrap();
        let mut brought = Vec::new();
        read.write(&other, 9, &mut brought).unwrap();
        let again = written(&brought);
        assert_eq!(import(&export_file(&again)).unwrap().lines, lines);
        let shown = recent(&again, 1_000, |_| 1).unwrap();
        assert!(shown.messages.is_empty(), "the conversation was reset");
        // The document as another program would format it.
        let pretty = serde_json::to_vec_pretty(&value).unwrap();
        assert!(import(&pretty).unwrap().lines == lines);
    }

    #[test]
    fn every_imported_record_is_marked_as_imported() {
        let (transcript, _) = file(&every_kind()[..7]);
        let read = import(&export_file(&transcript)).unwrap();
        let mut lines = Vec::new();
        read.write(&key(), 9, &mut lines).unwrap();
        let shown = recent(&written(&lines), 1_000, |_| 1).unwrap();
        let all = shown.messages.iter().all(|message| message.imported);
        assert!(shown.messages.len() == 2 && all && shown.is_import);
    }

    #[test]
    fn an_invalid_document_is_refused_with_the_record_number() {
        let document = |records: &str| {
            format!(
                "{{\"format\":\"flock.session\",\"version\":1,\"key\":\"{}\",\"records\":[{records}]}}",
                key()
            )
        };
        let turn = TurnId::new();
        let said = |id: &str| {
            format!(
                "{{\"type\":\"message\",\"id\":\"{id}\",\"turn\":\"{turn}\",\"at\":1,\
                 \"message\":{{\"role\":\"user\",\"content\":[]}}}}"
            )
        };
        assert!(import(document(&said("a")).as_bytes()).is_ok());
        let call = serde_json::to_string(&Block::call("1", "x", serde_json::json!({}))).unwrap();
        let imported = format!("{{\"type\":\"imported\",\"at\":1,\"key\":\"{}\"}}", key());
        for (records, part) in [
            ("{}".to_owned(), "record 1 is none"),
            (format!("{},{}", said("a"), said("a")), "record 2 has the id of another"),
            (said(""), "record 1 has an id"),
            (said(&"x".repeat(200)), "record 1 has an id"),
            (
                format!("{},{{\"type\":\"vision\"}}", said("a")),
                "record 2 is of the kind \"vision\", which this flock does not know",
            ),
            // Two types: the line that is written would have the second.
            (
                said("a").replacen("\"message\",", "\"message\",\n", 1).replacen("}}", "},\"type\":\"session\"}", 1),
                "record 1 is none: duplicate field",
            ),
            (said("a").replacen("}}", "},\"type\":\"imported\"}", 1), "record 1 is none: duplicate field"),
            ("{\"type\":\"compaction\",\"id\":\"c\",\"at\":1,\"number\":4294967295,\"marker\":\"\",\"tokensBefore\":1,\"tokensAfter\":1}".to_owned(), "record 1 has a number"),
            (
                format!("{{\"type\":\"compaction\",\"id\":\"c\",\"at\":1,\"number\":1,\"marker\":\"\",\"said\":[{}],\"tokensBefore\":1,\"tokensAfter\":1}}", said("")),
                "record 1 has an id",
            ),
            (
                said("a").replacen("[]", &format!("[{}]", vec![call.as_str(); MAX_BLOCKS + 1].join(",")), 1).replace("user", "assistant"),
                "record 1 has more calls",
            ),
            (imported, "record 1 is of the kind \"imported\", which only flock itself writes"),
        ] {
            let error = import(document(&records).as_bytes()).unwrap_err();
            assert!(error.to_string().starts_with(part), "{error}");
        }
        for bad in [
            "",
            "[]",
            "{\"format\":\"flock.session\"}",
            "{\"format\":\"x\",\"version\":9,\"key\":\"agent:a:flock:main:b\",\"records\":[]}",
        ] {
            assert!(import(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_import_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            drop(import(&bytes));
            let mut document = format!("{{\"format\":\"flock.session\",\"version\":1,\"key\":\"{}\",\"records\":[", key()).into_bytes();
            document.extend(&bytes);
            document.extend(b"]}");
            if let Ok(read) = import(&document) {
                prop_assert_eq!(read.lines.iter().filter(|byte| **byte == b'\n').count(), read.records);
            }
        }
    }
}

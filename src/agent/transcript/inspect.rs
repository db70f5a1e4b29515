//! Reads the facts about a session from its transcript, for a database that has lost them.

use std::io::{self, BufRead as _};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use super::model::Record;
use crate::agent::Provenance;
use crate::error::is_of_disk;
use crate::home::{Home, regular};
use crate::store::LostSession;

/// The most bytes of a line that is parsed, with its line feed. flock writes no line of that length. A longer one
/// counts as no record.
const MAX_LINE_BYTES: u64 = 64 << 20;

/// A fault of a transcript.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TranscriptFault {
    pub path: PathBuf,
    /// A description of the fault, for people.
    pub what: String,
    /// `true` if the disk failed to read the file, which says nothing about its content.
    pub is_of_disk: bool,
}

impl TranscriptFault {
    fn new(path: &Path, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), what: what.into(), is_of_disk: false }
    }

    fn unread(path: &Path, error: &io::Error) -> Self {
        Self { is_of_disk: is_of_disk(error), ..Self::new(path, error.to_string()) }
    }
}

/// Reads a transcript and returns its session and the number of lines that are no records.
///
/// # Errors
///
/// Returns an error if the file can't be read or is not a regular file.
pub fn survey(path: &Path) -> io::Result<(Option<LostSession>, u64)> {
    read(path, MAX_LINE_BYTES)
}

fn read(path: &Path, longest: u64) -> io::Result<(Option<LostSession>, u64)> {
    let file = regular::open(path)?;
    // The file's time stands for the session's last use, which only the database knew.
    let updated = file.metadata()?.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
    let updated_at = i64::try_from(updated.as_millis()).unwrap_or(i64::MAX);
    let mut reader = io::BufReader::with_capacity(256 << 10, file);
    let (mut session, mut broken) = (None::<LostSession>, 0);
    let mut line = Vec::new();
    loop {
        line.clear();
        // A damaged file may have no line feed for gigabytes, so the length of a line is limited.
        if io::Read::take(&mut reader, longest).read_until(b'\n', &mut line)? == 0 {
            return Ok((session, broken));
        }
        if line.len() as u64 == longest && !line.ends_with(b"\n") {
            // The rest is skipped with it: a piece of a line must not be taken for a record.
            reader.skip_until(b'\n')?;
            broken += 1;
            continue;
        }
        match Record::parse(line.trim_ascii_end()) {
            Ok(Record::Session(header)) if session.is_none() => {
                let file = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                let created_at = header.created;
                session =
                    Some(LostSession { key: header.key, file, created_at, updated_at, delivered: None });
            }
            Ok(Record::Message(message)) => {
                if let (Some(Provenance::Channel { channel, to, .. }), Some(session)) =
                    (message.provenance, &mut session)
                {
                    // The highest number counts, so that nothing is delivered a second time.
                    let before = session.delivered.as_ref().map_or(0, |(_, seq)| *seq);
                    session.delivered = Some((channel, before.max(to.unsigned_abs())));
                }
            }
            Ok(_) => {}
            Err(_) => broken += 1,
        }
    }
}

/// Returns the paths of all transcripts in a home.
#[must_use]
pub fn all(home: &Home) -> Vec<PathBuf> {
    let listed = |folder: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    };
    let agents = listed(&home.agents());
    let files = agents.iter().flat_map(|agent| listed(&agent.join("sessions")));
    let mut found: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|ending| ending == "jsonl")).collect();
    found.sort_unstable();
    found
}

/// Checks only the ends of a transcript: it must be a regular file, begin with its header and end with a complete line.
#[must_use]
pub fn check_ends(path: &Path) -> Option<TranscriptFault> {
    use std::os::unix::fs::FileExt as _;
    let look = || -> io::Result<Option<&'static str>> {
        let file = regular::open(path)?;
        let length = file.metadata()?.len();
        if length == 0 {
            return Ok(Some("it is empty"));
        }
        let mut first = Vec::new();
        io::Read::take(io::BufReader::new(&file), 64 << 10).read_until(b'\n', &mut first)?;
        if !matches!(Record::parse(first.trim_ascii_end()), Ok(Record::Session(_))) {
            return Ok(Some("it does not begin with its session"));
        }
        let mut last = [0];
        file.read_exact_at(&mut last, length - 1)?;
        // A torn line at the end is normal after a crash, and the next turn repairs it.
        Ok((last != *b"\n").then_some("its last line is torn; the next turn mends that"))
    };
    match look() {
        Ok(found) => found.map(|what| TranscriptFault::new(path, what)),
        Err(error) => Some(TranscriptFault::unread(path, &error)),
    }
}

/// Checks all lines of a transcript.
#[must_use]
pub fn read_whole(path: &Path) -> Option<TranscriptFault> {
    let flaw = |what: &str| Some(TranscriptFault::new(path, what));
    match survey(path) {
        Ok((Some(_), 0)) => check_ends(path),
        Ok((None, _)) => flaw("it does not name its session"),
        Ok((Some(_), 1)) => flaw("1 line is no record, and what it said is lost"),
        Ok((Some(_), count)) => flaw(&format!("{count} lines are no records, and what they said is lost")),
        Err(error) => Some(TranscriptFault::unread(path, &error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str =
        r#"{"type":"session","version":1,"key":"agent:coder:flock:channel:dev","agent":"coder","created":5}"#;

    #[test]
    fn session_facts_are_read_from_the_transcript() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("abc.jsonl");
        let turn = crate::id::TurnId::new();
        let shown = |to: i64| {
            let mut record = super::super::MessageRecord::new(
                turn,
                7,
                crate::provider::Message::text(crate::provider::Role::User, "x"),
            );
            let channel = "dev".parse().unwrap();
            record.provenance = Some(Provenance::Channel { channel, from: 1, to });
            let mut line = Vec::new();
            Record::Message(Box::new(record)).write_to(&mut line);
            String::from_utf8(line).unwrap()
        };
        std::fs::write(&path, format!("{HEADER}\n{}nonsense\n{}", shown(4), shown(3))).unwrap();
        let (session, broken) = survey(&path).unwrap();
        let session = session.unwrap();
        assert_eq!((session.key.as_str(), session.file.as_str()), ("agent:coder:flock:channel:dev", "abc"));
        assert_eq!((session.created_at, broken), (5, 1));
        assert_eq!(
            session.delivered.map(|(channel, seq)| (channel.to_string(), seq)),
            Some(("dev".into(), 4))
        );
        assert!(read_whole(&path).unwrap().what.contains("1 line is no record"));
        assert_eq!(check_ends(&path), None);
    }

    #[test]
    fn a_line_that_is_too_long_is_one_flaw_and_no_piece_of_it_a_record() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("abc.jsonl");
        let other = HEADER.replace("coder", "tester");
        let longest = other.len() + 1;
        let long = "x".repeat(longest);
        std::fs::write(&path, format!("{long}{other}\n{HEADER}\n{long}{long}")).unwrap();
        let (session, broken) = read(&path, longest as u64).unwrap();
        assert_eq!(session.unwrap().key.as_str(), "agent:coder:flock:channel:dev");
        assert_eq!(broken, 2);
    }

    #[test]
    fn each_fault_is_described() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text, what) in [
            ("empty", String::new(), "empty"),
            ("other", "{}\n".to_owned(), "does not begin with its session"),
            ("torn", format!("{HEADER}\n{{\"ty"), "torn"),
        ] {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            assert!(check_ends(&path).unwrap().what.contains(what), "{name}");
        }
        let fifo = folder.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(check_ends(&fifo).unwrap().what, "it is no regular file");
        assert_eq!(read_whole(&fifo).unwrap().what, "it is no regular file");
    }
}

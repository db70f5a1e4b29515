//! The list of an agent's checkpoints: one line of JSON each, oldest first.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::content::ContentId;
use super::error::CheckpointError;
use super::rewind::RewindParts;
use super::scan::Named;
use crate::home::reverse_lines::ReverseLines;
use crate::home::write_fence::WriteFence;
use crate::home::{atomic, regular};
use crate::id::{EngineName, SessionKey, TurnId};

/// The reason for a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub(crate) enum Reason {
    /// A turn begins.
    Turn { session: SessionKey, turn: TurnId },
    /// A turn has ended. It shows what the agent left, and is no checkpoint that people choose.
    TurnEnd { session: SessionKey, turn: TurnId },
    /// A person asked for it.
    #[serde(rename_all = "camelCase")]
    Asked {
        by: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    /// A rewind begins. Going back to this checkpoint undoes it.
    Rewind {
        by: String,
        /// The checkpoint that it goes back to.
        to: u64,
        /// The parts that it sets back.
        #[serde(default)]
        parts: RewindParts,
    },
    /// A rewind has ended.
    Rewound,
    /// flock has started again after its process ended in the middle of a turn.
    Recovered,
    /// The workspace was given up with the engine that had it.
    Lost { engine: EngineName },
}

/// The state of an agent at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CheckpointRecord {
    /// The number that people use, from 1, or 0 if it is not one that they choose.
    pub(crate) number: u64,
    /// Unix milliseconds.
    pub(crate) at: i64,
    #[serde(flatten)]
    pub(crate) reason: Reason,
    /// The tree of the workspace, unless it could not be kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) files: Option<ContentId>,
    /// Number of files, folders and links.
    #[serde(default)]
    pub(crate) entries: usize,
    /// The reason why the files were not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) problem: Option<String>,
    /// The entries that no checkpoint can keep.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub(crate) left_out: Named,
    /// Files that changed each time they were read.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub(crate) unstable: Named,
    /// `true` if a turn of the agent ran just after this moment. What changes until the next record is then its own.
    #[serde(default)]
    pub(crate) is_open: bool,
    /// The generation of the agent's package profile, if one is recorded. 0 stands for no profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) packages: Option<u32>,
    /// The package stores that this number is of. Neither flock 0.2.0 nor a home without an id writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) packages_of: Option<String>,
    /// The lengths in bytes of the transcripts, by the name of their file without its suffix.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) transcripts: BTreeMap<String, u64>,
}

impl CheckpointRecord {
    /// Returns `true` if people can go back to it.
    pub(crate) const fn is_listed(&self) -> bool {
        self.number > 0
    }
}

/// The file of the records.
#[derive(Debug)]
pub(super) struct RecordLog {
    path: PathBuf,
    /// Checked before each change.
    fence: WriteFence,
}

/// The most bytes of the file.
const MAX_BYTES: u64 = 64 << 20;

impl RecordLog {
    pub(super) fn new(folder: &Path) -> Self {
        Self { path: folder.join("records.jsonl"), fence: WriteFence::absent() }
    }

    /// Sets the fence of the records, which other gateways may write too.
    pub(super) fn fenced(self, fence: WriteFence) -> Self {
        Self { fence, ..self }
    }

    /// Reads all records, oldest first. A torn or damaged line is skipped.
    ///
    /// # Errors
    ///
    /// Returns an error if the file can't be read.
    pub(super) fn read(&self) -> Result<Vec<CheckpointRecord>, CheckpointError> {
        let bytes = atomic::read(&self.path, MAX_BYTES)?.unwrap_or_default();
        Ok(bytes.split(|byte| *byte == b'\n').filter_map(parse).collect())
    }

    /// Reads the newest records back to the newest one that people can go back to, newest first.
    ///
    /// A record has the lengths of all transcripts of its agent. To read all records would cost more than a short turn.
    ///
    /// # Errors
    ///
    /// Returns an error if the file can't be read.
    pub(super) fn newest(&self) -> Result<Vec<CheckpointRecord>, CheckpointError> {
        let failed = CheckpointError::io("read", &self.path);
        let Some(file) = self.open()? else { return Ok(Vec::new()) };
        let mut lines = ReverseLines::new(&file).map_err(&failed)?;
        let mut newest = Vec::new();
        while let Some(line) = lines.next_line().map_err(&failed)? {
            let Some(record) = parse(line) else { continue };
            let is_listed = record.is_listed();
            newest.push(record);
            if is_listed {
                break;
            }
        }
        Ok(newest)
    }

    /// Returns `false` if there are surely not more records than [`surplus`] lets stay.
    ///
    /// # Errors
    ///
    /// Returns an error if the file can't be read.
    pub(super) fn may_have_surplus(&self, keep: usize) -> Result<bool, CheckpointError> {
        let Some((lowest, next)) = self.numbers()? else { return Ok(false) };
        // No number is there twice. Those of damaged records, and those that were never given, are counted too.
        let count = usize::try_from(next.saturating_sub(lowest)).unwrap_or(usize::MAX);
        Ok(count > most(keep))
    }

    /// Returns the number for the next record that people can go back to.
    ///
    /// # Errors
    ///
    /// Returns an error if the file can't be read.
    pub(super) fn next_number(&self) -> Result<u64, CheckpointError> {
        Ok(self.numbers()?.map_or(1, |(_, next)| next))
    }

    /// Returns the lowest number of a record that people can go back to, and the one for the next. `None` if there is no such
    /// record.
    ///
    /// A record that was brought from elsewhere has the highest number at its time and stands before all others. So the numbers
    /// fall at the beginning of the file and rise after it, and the highest one is at one of the two ends.
    fn numbers(&self) -> Result<Option<(u64, u64)>, CheckpointError> {
        let failed = CheckpointError::io("read", &self.path);
        let Some(file) = self.open()? else { return Ok(None) };
        let mut lines = BufReader::new(file);
        let mut line = Vec::new();
        let mut falling: Option<(u64, u64)> = None;
        while lines.read_until(b'\n', &mut line).map_err(&failed)? > 0 {
            if let Some(record) = parse(&line).filter(CheckpointRecord::is_listed) {
                falling = match falling {
                    None => Some((record.number, record.number)),
                    Some((lowest, first)) if record.number < lowest => Some((record.number, first)),
                    Some(_) => break,
                };
            }
            line.clear();
        }
        let Some((lowest, first)) = falling else { return Ok(None) };
        Ok(Some((lowest, next_number(&self.newest()?).max(first + 1))))
    }

    fn open(&self) -> Result<Option<File>, CheckpointError> {
        match regular::open(&self.path) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(CheckpointError::io("read", &self.path)(error)),
        }
    }

    /// Appends a record with a single `write(2)`.
    ///
    /// # Errors
    ///
    /// Returns [`CheckpointError::CutOff`] if another gateway may have taken over from this one, and another error if it can't
    /// be written. None of it stays then.
    pub(super) fn append(&self, record: &CheckpointRecord) -> Result<(), CheckpointError> {
        let failed = CheckpointError::io("write", &self.path);
        let mut options = std::fs::OpenOptions::new();
        options.read(true).append(true).create(true).mode(0o600);
        let mut file = regular::open_with(&self.path, &mut options).map_err(&failed)?;
        let length = file.metadata().map_err(&failed)?.len();
        let mut line = Vec::new();
        // A line that a killed process has torn gets an end, so that this record has a line of its own.
        if length > 0 && !ends_line(&file, length).map_err(&failed)? {
            line.push(b'\n');
        }
        serde_json::to_writer(&mut line, record).map_err(|error| failed(error.into()))?;
        line.push(b'\n');
        self.fence.check()?;
        file.write_all(&line).map_err(|error| {
            drop(file.set_len(length));
            failed(error)
        })
    }

    /// Replaces all records.
    ///
    /// # Errors
    ///
    /// Returns [`CheckpointError::CutOff`] if another gateway may have taken over from this one, and another error if they
    /// can't be written. The old ones stay then.
    pub(super) fn replace(&self, records: &[CheckpointRecord]) -> Result<(), CheckpointError> {
        let mut lines = Vec::new();
        for record in records {
            let failed = CheckpointError::io("write", &self.path);
            serde_json::to_writer(&mut lines, record).map_err(|error| failed(error.into()))?;
            lines.push(b'\n');
        }
        self.fence.check()?;
        Ok(atomic::write(&self.path, &lines, 0o600)?)
    }
}

/// Returns the record of a line, unless it is torn or damaged.
fn parse(line: &[u8]) -> Option<CheckpointRecord> {
    serde_json::from_slice(line).ok()
}

/// Returns the number after the highest one of these records.
fn next_number(records: &[CheckpointRecord]) -> u64 {
    records.iter().map(|record| record.number).max().unwrap_or(0) + 1
}

/// Returns how many listed records may be there until the oldest are removed.
fn most(keep: usize) -> usize {
    let keep = keep.max(2);
    keep + keep / 4
}

fn ends_line(file: &std::fs::File, length: u64) -> std::io::Result<bool> {
    use std::os::unix::fs::FileExt as _;
    let mut last = [0];
    file.read_exact_at(&mut last, length - 1)?;
    Ok(last == *b"\n")
}

/// Returns the number of the oldest records to remove, so that at most `keep` listed ones stay. Records are removed
/// several at a time, because the contents that only they used are searched for each time.
pub(super) fn surplus(records: &[CheckpointRecord], keep: usize) -> usize {
    let listed = records.iter().filter(|record| record.is_listed()).count();
    if listed <= most(keep) {
        return 0;
    }
    let mut left = listed - keep.max(2);
    records
        .iter()
        .position(|record| {
            if record.is_listed() {
                if left == 0 {
                    return true;
                }
                left -= 1;
            }
            false
        })
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: u64) -> CheckpointRecord {
        CheckpointRecord {
            number,
            at: 7,
            reason: Reason::Asked { by: "human:ann".into(), note: Some("before\nlunch".into()) },
            files: Some(ContentId::of_tree(b"x")),
            entries: 3,
            problem: None,
            left_out: Named::default(),
            unstable: Named { count: 1, paths: vec!["log".into()] },
            is_open: true,
            packages: Some(2),
            packages_of: Some("1a2b-3c".to_owned()),
            transcripts: [("a".to_owned(), 5)].into(),
        }
    }

    #[test]
    fn records_are_read_back_and_a_torn_line_costs_only_itself() {
        let folder = tempfile::tempdir().unwrap();
        let log = RecordLog::new(folder.path());
        assert_eq!(log.read().unwrap(), []);
        log.append(&record(1)).unwrap();
        std::fs::OpenOptions::new()
            .append(true)
            .open(&log.path)
            .unwrap()
            .write_all(b"{\"number\":2,")
            .unwrap();
        let turn = Reason::Turn { session: "agent:a:flock:main:ann".parse().unwrap(), turn: TurnId::new() };
        let second = CheckpointRecord { reason: turn, ..record(2) };
        log.append(&second).unwrap();
        let lost = CheckpointRecord { reason: Reason::Lost { engine: "far".parse().unwrap() }, ..record(0) };
        log.append(&lost).unwrap();
        assert_eq!(log.read().unwrap(), [record(1), second.clone(), lost]);
        log.replace(std::slice::from_ref(&second)).unwrap();
        assert_eq!(log.read().unwrap(), [second]);
    }

    #[test]
    fn the_ends_are_found_without_the_rest() {
        let folder = tempfile::tempdir().unwrap();
        let log = RecordLog::new(folder.path());
        assert_eq!(log.newest().unwrap(), []);
        assert!(!log.may_have_surplus(2).unwrap());
        log.append(&record(0)).unwrap();
        assert_eq!(log.newest().unwrap(), [record(0)]);
        // As many transcripts as make a record longer than what is read at once.
        let transcripts = (0..2_000).map(|n| (format!("{n:036}"), n)).collect();
        let long = CheckpointRecord { transcripts, ..record(7) };
        for record in [&long, &record(0), &record(8), &record(0), &record(9), &record(0), &record(0)] {
            log.append(record).unwrap();
        }
        let text = std::fs::read(&log.path).unwrap();
        std::fs::write(&log.path, [&text[..], b"{\"number\":10,"].concat()).unwrap();
        assert_eq!(log.newest().unwrap(), [record(0), record(0), record(9)]);
        let all = log.read().unwrap();
        assert_eq!(log.next_number().unwrap(), next_number(&all));
        for keep in 0..9 {
            assert_eq!(log.may_have_surplus(keep).unwrap(), surplus(&all, keep) > 0, "{keep}");
        }
    }

    #[test]
    fn a_record_that_was_brought_here_has_its_number_alone() {
        let folder = tempfile::tempdir().unwrap();
        let log = RecordLog::new(folder.path());
        assert_eq!(log.next_number().unwrap(), 1);
        let mut all = Vec::from([1, 0, 2, 3].map(record));
        // Each one that is brought gets the highest number and comes first, and others follow at the end.
        for brought in [4, 9] {
            all.insert(0, record(brought));
            log.replace(&all).unwrap();
            for _ in 0..2 {
                let next = record(log.next_number().unwrap());
                assert_eq!(next.number, next_number(&all));
                log.append(&next).unwrap();
                all.push(next);
            }
        }
        let numbers: Vec<u64> = all.iter().map(|record| record.number).collect();
        assert_eq!(numbers, [9, 4, 1, 0, 2, 3, 5, 6, 10, 11]);
        assert_eq!(log.read().unwrap(), all);
        for keep in 0..12 {
            assert!(log.may_have_surplus(keep).unwrap() || surplus(&all, keep) == 0, "{keep}");
        }
        log.replace(&[record(7)]).unwrap();
        assert_eq!(log.next_number().unwrap(), 8);
    }

    #[test]
    fn the_oldest_go_and_a_quarter_more_may_wait() {
        let numbered = |count: u64| -> Vec<CheckpointRecord> {
            (1..=count).flat_map(|number| [record(number), record(0)]).collect()
        };
        assert_eq!(surplus(&numbered(10), 8), 0);
        let records = numbered(11);
        let gone = surplus(&records, 8);
        assert_eq!(records[gone].number, 4);
        assert_eq!(surplus(&numbered(2), 0), 0, "two always stay");
    }
}

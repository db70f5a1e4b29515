//! The transcript file of one session, opened for one turn.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::away;
use super::model::{Header, Record};
use super::repair;
use crate::home::write_fence::CutOff;
use crate::home::{atomic, regular};
use crate::store::sync::SyncHandle;

/// Size up to which a file is read to find out if it is blank: less than a header and one message.
const MAX_BLANK_BYTES: u64 = 128;

/// A failed operation on a transcript.
#[derive(Debug, thiserror::Error)]
#[error("failed to {what} the transcript {}", path.display())]
pub struct TranscriptError {
    /// The operation as a verb phrase, as in `append to`.
    pub what: &'static str,
    pub path: PathBuf,
    pub source: io::Error,
}

impl TranscriptError {
    /// Returns a function that creates the error of a transcript that can't be read.
    pub fn reading(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self { what: "read", path: path.to_owned(), source }
    }

    /// Returns `true` if the file was left alone because another gateway may have taken over from this one.
    #[must_use]
    pub(crate) fn is_cut_off(&self) -> bool {
        self.source.get_ref().is_some_and(|cause| cause.is::<CutOff>())
    }
}

/// Checks that no other gateway can have taken over from this one, whose file it would be then.
fn check_contact(syncer: &SyncHandle, what: &'static str, path: &Path) -> Result<(), TranscriptError> {
    syncer.fence().check().map_err(|cut_off| TranscriptError {
        what,
        path: path.to_owned(),
        source: io::Error::other(cut_off),
    })
}

/// A transcript that can be appended to. Only one turn at a time has it.
pub struct Transcript {
    path: PathBuf,
    file: File,
    length: u64,
    syncer: SyncHandle,
    /// Backups of repaired files that could not be removed.
    backups: Vec<PathBuf>,
}

/// Opens a transcript for reading only, because a turn may be writing to it. Returns `None` if it does not exist yet.
///
/// # Errors
///
/// Returns [`TranscriptError`] if the file can't be opened or is not a regular file.
pub fn look(path: &Path) -> Result<Option<File>, TranscriptError> {
    match regular::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => match away::check(path) {
            Ok(()) => Ok(None),
            Err(source) => Err(TranscriptError { what: "open", path: path.to_owned(), source }),
        },
        Err(source) => Err(TranscriptError { what: "open", path: path.to_owned(), source }),
    }
}

/// Replaces the file by a copy, so that a gateway that was ended and still has it open writes into the old one, which nobody
/// reads. Does nothing if there is no file.
///
/// # Errors
///
/// Returns [`TranscriptError`] if the file can't be read or written, or if another gateway may have taken over from this one.
pub(crate) fn set_apart(path: &Path, syncer: &SyncHandle) -> Result<(), TranscriptError> {
    let fail = |what| move |source| TranscriptError { what, path: path.to_owned(), source };
    let mut bytes = Vec::new();
    match regular::open(path) {
        Ok(mut file) => {
            file.read_to_end(&mut bytes).map_err(fail("read"))?;
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(fail("open")(source)),
    }
    // Looked at last, because reading may take long. The file of a successor, which its turns have open, stays theirs.
    check_contact(syncer, "copy", path)?;
    atomic::write(path, &bytes, 0o600).map_err(|error| fail("copy")(io::Error::other(error)))
}

impl Transcript {
    /// Opens a transcript for writing. Creates it with this header if it is missing, and repairs a torn end. Only for
    /// the holder of the session's claim; everybody else uses [`look`].
    ///
    /// # Errors
    ///
    /// Returns [`TranscriptError`] if the file can't be opened, read, created or repaired.
    pub fn open(path: &Path, header: &Header, syncer: &SyncHandle) -> Result<Self, TranscriptError> {
        let fail = |what| move |source| TranscriptError { what, path: path.to_owned(), source };
        let mut transcript = Self::open_file(path, syncer.clone()).map_err(fail("open"))?;
        // A crash right after the file was created leaves it empty.
        if transcript.is_blank().map_err(fail("read"))? {
            transcript.append(&[Record::Session(header.clone())])?;
            if let Some(folder) = path.parent() {
                // The folder is synced too, because the file's name in it must survive a power cut.
                syncer.written(folder);
            }
        } else if !transcript.is_whole().map_err(fail("read"))? {
            transcript.repair()?;
        }
        Ok(transcript)
    }

    fn open_file(path: &Path, syncer: SyncHandle) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).append(true);
        let file = match regular::open_with(path, &mut options) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // A conversation that is elsewhere must not begin anew.
                away::check(path)?;
                if let Some(folder) = path.parent() {
                    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
                }
                // Readable by its owner only, because a conversation is private.
                regular::open_with(path, options.create(true).mode(0o600))?
            }
            other => other?,
        };
        let length = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), file, length, syncer, backups: Vec::new() })
    }

    /// Returns `true` if the file contains only whitespace.
    fn is_blank(&self) -> io::Result<bool> {
        if self.length > MAX_BLANK_BYTES {
            return Ok(false);
        }
        let mut all = vec![0; usize::try_from(self.length).unwrap_or_default()];
        self.file.read_exact_at(&mut all, 0)?;
        Ok(all.trim_ascii().is_empty())
    }

    fn is_whole(&self) -> io::Result<bool> {
        // Only the last byte is read: a complete file ends with a line feed.
        let mut last = [0];
        self.file.read_exact_at(&mut last, self.length - 1)?;
        Ok(last == *b"\n")
    }

    /// Commits records with a single `write(2)`. If that fails, none of them stays.
    ///
    /// # Errors
    ///
    /// Returns [`TranscriptError`] if the file can't be written, or if another gateway may have taken over from this one.
    pub fn append(&mut self, records: &[Record]) -> Result<(), TranscriptError> {
        // The file was opened before this look. If another gateway had taken over before that, the look would fail; if it
        // takes over from now on, it goes on with a copy (`set_apart`), and what is written here is nobody's.
        check_contact(&self.syncer, "append to", &self.path)?;
        let mut lines = Vec::with_capacity(1024);
        for record in records {
            record.write_to(&mut lines);
        }
        match self.file.write_all(&lines) {
            Ok(()) => {
                self.length += lines.len() as u64;
                // The disk is synced later and in groups, away from the turn's path.
                self.syncer.written(&self.path);
                Ok(())
            }
            Err(source) => {
                // A full disk may have taken a part of the lines. If cutting that off fails too, the next turn's repair
                // does it.
                drop(self.file.set_len(self.length));
                Err(TranscriptError { what: "append to", path: self.path.clone(), source })
            }
        }
    }

    #[must_use]
    pub const fn file(&self) -> &File {
        &self.file
    }

    /// Returns the file's length in bytes.
    #[must_use]
    pub const fn length(&self) -> u64 {
        self.length
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Repairs the file and continues with the repaired one.
    ///
    /// # Errors
    ///
    /// Returns [`TranscriptError`] if the file can't be repaired or opened again, or if another gateway may have taken over from
    /// this one.
    pub(crate) fn repair(&mut self) -> Result<(), TranscriptError> {
        // The repaired file replaces this one, which a successor would have open.
        check_contact(&self.syncer, "mend", &self.path)?;
        let mend = || -> io::Result<(Option<PathBuf>, Self)> {
            let mended = repair::repair(&self.path)?;
            Ok((mended.backup, Self::open_file(&self.path, self.syncer.clone())?))
        };
        let (backup, new) =
            mend().map_err(|source| TranscriptError { what: "mend", path: self.path.clone(), source })?;
        let mut backups = self.take_backups();
        backups.extend(backup);
        // The old handle refers to the replaced file, so everything is opened again.
        *self = Self { backups, ..new };
        Ok(())
    }

    /// Removes and returns the backups that could not be deleted, so that a person can be told.
    pub(crate) fn take_backups(&mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.backups)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::transcript::MessageRecord;
    use crate::home::reverse_lines::ReverseLines;
    use crate::id::TurnId;
    use crate::provider::{Message, Role};
    use crate::store::sync::Syncer;

    #[test]
    fn a_gateway_that_may_have_been_replaced_writes_nothing_that_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let syncer = Syncer::of_files(dir.path().join("head")).unwrap();
        let path = dir.path().join("a.jsonl");
        let mut late = Transcript::open(&path, &header(), &syncer.handle()).unwrap();
        late.append(&[said("one")]).unwrap();
        // Another gateway takes over between the look and the write of this one.
        let next = Syncer::of_files(dir.path().join("head")).unwrap();
        set_apart(&path, &next.handle()).unwrap();
        late.append(&[said("late")]).unwrap();
        Transcript::open(&path, &header(), &next.handle()).unwrap().append(&[said("two")]).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("one") && text.contains("two") && !text.contains("late"), "{text}");
        // Its time is over, and it opens the file anew.
        syncer.fence().write_until(crate::clock::boot_ms());
        let refused = Transcript::open(&path, &header(), &syncer.handle()).unwrap().append(&[said("late")]);
        assert!(refused.is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        set_apart(&dir.path().join("none.jsonl"), &next.handle()).unwrap();
    }

    #[test]
    fn a_gateway_that_may_have_been_replaced_neither_moves_nor_mends_a_transcript() {
        use std::os::unix::fs::MetadataExt as _;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.jsonl");
        let next = Syncer::of_files(dir.path().join("head")).unwrap();
        Transcript::open(&path, &header(), &next.handle()).unwrap().append(&[said("one")]).unwrap();
        // The successor is in the middle of a line, which looks torn.
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, [&whole[..], br#"{"type":"message","id":"half"#].concat()).unwrap();
        let before = (std::fs::metadata(&path).unwrap().ino(), std::fs::read(&path).unwrap());
        let late = Syncer::of_files(dir.path().join("head")).unwrap();
        late.fence().write_until(crate::clock::boot_ms());
        let moved = set_apart(&path, &late.handle()).unwrap_err();
        let mended = Transcript::open(&path, &header(), &late.handle()).map(drop).unwrap_err();
        assert!(moved.is_cut_off() && mended.is_cut_off(), "{moved} {mended}");
        assert_eq!((std::fs::metadata(&path).unwrap().ino(), std::fs::read(&path).unwrap()), before);
        assert!(!TranscriptError::reading(&path)(io::ErrorKind::NotFound.into()).is_cut_off());
        Transcript::open(&path, &header(), &next.handle()).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), whole);
    }

    fn header() -> Header {
        let key: crate::id::SessionKey = "agent:coder:flock:main:ann".parse().unwrap();
        Header { version: 1, agent: key.agent().clone(), key, created: 1 }
    }

    fn said(text: &str) -> Record {
        let message = Message::text(Role::User, text);
        Record::Message(Box::new(MessageRecord::new(TurnId::new(), 1, message)))
    }

    #[test]
    fn a_transcript_is_private_and_begins_with_its_header() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agents/coder/sessions/x.jsonl");
        let syncer = Syncer::of_files(folder.path().join("head")).unwrap();
        let mut transcript = Transcript::open(&path, &header(), &syncer.handle()).unwrap();
        transcript.append(&[said("a"), said("b")]).unwrap();
        drop(transcript);
        let mut transcript = Transcript::open(&path, &header(), &syncer.handle()).unwrap();
        transcript.append(&[said("c")]).unwrap();
        let text = fs_err::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 4);
        assert!(text.starts_with(r#"{"type":"session","version":1,"#));
        assert_eq!(fs_err::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_transcript_that_is_elsewhere_does_not_begin_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.jsonl");
        assert!(look(&path).unwrap().is_none());
        away::note(&path, "segment 2 is missing in the bucket").unwrap();
        let syncer = Syncer::of_files(folder.path().join("head")).unwrap();
        for error in [
            look(&path).map(drop).unwrap_err(),
            Transcript::open(&path, &header(), &syncer.handle()).map(drop).unwrap_err(),
        ] {
            let text = crate::error::chain(&error);
            assert!(text.contains("segment 2 is missing in the bucket"), "{text}");
        }
        assert!(!path.exists());
        away::clear(&path).unwrap();
        Transcript::open(&path, &header(), &syncer.handle()).unwrap();
    }

    #[test]
    fn a_blank_file_gets_its_header_after_the_blank_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.jsonl");
        fs_err::write(&path, "\n \n").unwrap();
        let syncer = Syncer::of_files(folder.path().join("head")).unwrap();
        Transcript::open(&path, &header(), &syncer.handle()).unwrap().append(&[said("a")]).unwrap();
        let text = fs_err::read_to_string(&path).unwrap();
        assert!(text.starts_with("\n \n{\"type\":\"session\"") && text.lines().count() == 4, "{text}");
    }

    #[test]
    fn a_torn_last_line_is_cut_before_the_next_append() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.jsonl");
        let syncer = Syncer::of_files(folder.path().join("head")).unwrap();
        Transcript::open(&path, &header(), &syncer.handle()).unwrap().append(&[said("good")]).unwrap();
        let mut bytes = fs_err::read(&path).unwrap();
        bytes.extend_from_slice(br#"{"type":"message","id":"torn"#);
        fs_err::write(&path, &bytes).unwrap();
        Transcript::open(&path, &header(), &syncer.handle()).unwrap().append(&[said("next")]).unwrap();
        let file = fs_err::File::open(&path).unwrap().into_parts().0;
        let mut tail = ReverseLines::new(&file).unwrap();
        let mut lines = 0;
        while let Some(line) = tail.next_line().unwrap() {
            Record::parse(line).unwrap();
            lines += 1;
        }
        assert_eq!(lines, 3);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
    }
}

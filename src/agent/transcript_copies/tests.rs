//! Copies of transcripts by way of a folder.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use super::seal::SealedSegments;
use super::*;
use crate::agent::transcript::away;
use crate::blob::{BlobError, BlobStore, open};
use crate::config::BlobSettings;
use crate::error::chain;
use crate::home::Home;
use crate::store::Store;

struct Stage {
    folder: tempfile::TempDir,
    store: Store,
    blobs: Arc<dyn BlobStore>,
}

impl Stage {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().join("home"), None);
        home.make_folders().unwrap();
        fs_err::create_dir(folder.path().join("place")).unwrap();
        let blobs = open(&home, &BlobSettings::Folder(folder.path().join("place")));
        Self { store: Store::open(&home).unwrap(), blobs, folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("x.jsonl")
    }

    fn append(&self, bytes: &[u8]) {
        let mut file = std::fs::File::options().create(true).append(true).open(self.path()).unwrap();
        file.write_all(bytes).unwrap();
    }

    async fn seal(&self) -> SealedSegments {
        seal(&self.store, &self.blobs, &self.path(), "x", None).await.unwrap()
    }

    async fn bring_back(&self) -> Result<BroughtBack, TranscriptCopyError> {
        bring_back(&self.store, Some(&self.blobs), &self.path(), "x").await
    }

    fn blobs(&self) -> Vec<PathBuf> {
        let folder = self.folder.path().join("place/transcripts/x");
        let mut found: Vec<PathBuf> =
            fs_err::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
        found.sort();
        found
    }

    /// Loses the file and brings it back.
    async fn assert_is_whole(&self) {
        let before = fs_err::read(self.path()).unwrap();
        fs_err::remove_file(self.path()).unwrap();
        self.bring_back().await.unwrap();
        let after = fs_err::read(self.path()).unwrap();
        // A torn line is not copied.
        let whole = memchr::memrchr(b'\n', &before).map_or(0, |at| at + 1);
        assert!(after == before[..whole], "{} and {whole} bytes", after.len());
    }
}

/// A line of this length with its line feed.
fn line(length: usize, byte: u8) -> Vec<u8> {
    let mut line = vec![byte; length];
    line[length - 1] = b'\n';
    line
}

#[tokio::test]
async fn what_was_appended_is_copied_and_comes_back_byte_for_byte() {
    let stage = Stage::new();
    assert_eq!(stage.seal().await, SealedSegments::default());
    assert_eq!(stage.bring_back().await.unwrap(), BroughtBack::Nothing);
    stage.append(b"one\ntwo\nto");
    assert_eq!(stage.seal().await, SealedSegments { segments: 1, bytes: 8 });
    assert_eq!(stage.seal().await, SealedSegments::default(), "nothing is new");
    stage.append(b"rn\nthree\n");
    stage.seal().await;
    let listed = stage.store.segments().of("x").await.unwrap();
    assert_eq!(listed.len(), 1, "a small segment grows");
    assert_eq!((listed[0].first_record, listed[0].last_record, listed[0].bytes), (1, 4, 19));
    assert_eq!(stage.blobs().len(), 1, "the smaller one is gone");
    assert_eq!(stage.bring_back().await.unwrap(), BroughtBack::Here);
    stage.assert_is_whole().await;
    stage.append(b"four\n");
    assert_eq!(stage.seal().await.segments, 1, "and it goes on");
    stage.assert_is_whole().await;
}

#[tokio::test]
async fn a_long_transcript_has_segments_of_whole_lines() {
    let stage = Stage::new();
    let mebibyte = 1 << 20;
    for byte in b'a'..=b'k' {
        stage.append(&line(mebibyte, byte));
    }
    // Longer than a segment.
    stage.append(&line(9 * mebibyte, b'L'));
    stage.append(&line(10, b'e'));
    stage.seal().await;
    let listed = stage.store.segments().of("x").await.unwrap();
    let records: Vec<(i64, i64)> =
        listed.iter().map(|segment| (segment.first_record, segment.last_record)).collect();
    assert_eq!(records, [(1, 4), (5, 8), (9, 11), (12, 13)]);
    assert_eq!(
        listed.last().unwrap().end(),
        i64::try_from(fs_err::metadata(stage.path()).unwrap().len()).unwrap()
    );
    stage.assert_is_whole().await;
    stage.append(&line(100, b'f'));
    assert_eq!(stage.seal().await, SealedSegments { segments: 1, bytes: 100 });
    stage.assert_is_whole().await;
}

#[tokio::test]
async fn a_mended_transcript_is_copied_anew_from_where_it_differs() {
    let stage = Stage::new();
    for byte in b'a'..=b'l' {
        stage.append(&line(1 << 20, byte));
    }
    stage.seal().await;
    let before = stage.store.segments().of("x").await.unwrap();
    assert_eq!(before.len(), 3);
    // A line of the second segment is cut out.
    let mut bytes = fs_err::read(stage.path()).unwrap();
    bytes.drain(5 << 20..6 << 20);
    fs_err::write(stage.path(), bytes).unwrap();
    assert_eq!(stage.seal().await.segments, 2);
    let after = stage.store.segments().of("x").await.unwrap();
    assert_eq!((after.len(), &after[0]), (3, &before[0]));
    assert_eq!(stage.blobs().len(), 5, "those of before are kept");
    stage.assert_is_whole().await;
    // A file that became shorter.
    let length = fs_err::metadata(stage.path()).unwrap().len();
    std::fs::File::options().write(true).open(stage.path()).unwrap().set_len(length - (1 << 20)).unwrap();
    stage.seal().await;
    stage.assert_is_whole().await;
}

#[tokio::test]
async fn a_transcript_that_the_disk_has_damaged_leaves_its_segments_as_they_are() {
    let stage = Stage::new();
    for byte in b'a'..=b'f' {
        stage.append(&line(1 << 20, byte));
    }
    stage.seal().await;
    let before = fs_err::read(stage.path()).unwrap();
    let (listed, blobs) = (stage.store.segments().of("x").await.unwrap(), stage.blobs());
    assert_eq!((listed.len(), blobs.len()), (2, 2));
    // The disk has emptied the file, or left a part of its first line.
    for left in [0, 7] {
        fs_err::write(stage.path(), &before[..left]).unwrap();
        assert_eq!(stage.seal().await, SealedSegments::default());
        assert_eq!(stage.store.segments().of("x").await.unwrap(), listed);
        assert_eq!(stage.blobs(), blobs);
        fs_err::remove_file(stage.path()).unwrap();
        assert_eq!(stage.bring_back().await.unwrap(), BroughtBack::Made(2));
        assert!(fs_err::read(stage.path()).unwrap() == before);
    }
    // It has shortened the file to its first segment.
    fs_err::write(stage.path(), &before[..4 << 20]).unwrap();
    assert_eq!(stage.seal().await, SealedSegments::default());
    assert_eq!(stage.store.segments().of("x").await.unwrap(), listed[..1]);
    assert_eq!(stage.blobs(), blobs);
    // A conversation that goes on in the empty file takes the place of the segments in the list alone.
    fs_err::write(stage.path(), "one\n").unwrap();
    assert_eq!(stage.seal().await, SealedSegments { segments: 1, bytes: 4 });
    assert_eq!(stage.store.segments().of("x").await.unwrap().len(), 1);
    assert_eq!(stage.blobs().len(), 3);
    assert!(blobs.iter().all(|blob| stage.blobs().contains(blob)));
    stage.assert_is_whole().await;
    forget(&stage.store, &stage.blobs, "x").await.unwrap();
    assert_eq!(stage.blobs(), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn segments_that_a_restored_database_names_and_the_place_lacks_are_copied_again() {
    let stage = Stage::new();
    for byte in b'a'..=b'd' {
        stage.append(&line(1 << 20, byte));
    }
    stage.append(b"one\n");
    stage.seal().await;
    let old = stage.store.segments().of("x").await.unwrap();
    assert_eq!(old.len(), 2);
    let transcript = fs_err::read(stage.path()).unwrap();
    stage.append(b"two\n");
    stage.seal().await;
    // The backup of before has the file and the rows. The place has the later segment alone.
    fs_err::write(stage.path(), transcript).unwrap();
    stage.store.segments().put("x".into(), old[1].clone(), 1).await.unwrap();
    assert_eq!(stage.seal().await, SealedSegments::default(), "without a list, nothing shows it");
    let present = present(&stage.blobs).await.unwrap();
    assert!(present.contains(&old[0].key) && !present.contains(&old[1].key));
    let again = seal(&stage.store, &stage.blobs, &stage.path(), "x", Some(&present)).await.unwrap();
    assert_eq!(again, SealedSegments { segments: 1, bytes: 4 });
    assert_eq!(stage.store.segments().of("x").await.unwrap(), old);
    stage.assert_is_whole().await;
}

#[tokio::test]
async fn a_segment_that_is_missing_or_differs_is_named_and_no_file_is_made() {
    let stage = Stage::new();
    for byte in b'a'..=b'i' {
        stage.append(&line(1 << 20, byte));
    }
    stage.seal().await;
    let before = fs_err::read(stage.path()).unwrap();
    fs_err::remove_file(stage.path()).unwrap();
    let blobs = stage.blobs();
    assert_eq!(blobs.len(), 3);
    for path in blobs {
        let kept = fs_err::read(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let mut flipped = kept.clone();
        flipped[7] ^= 1;
        for change in [None, Some(flipped), Some(kept[1..].to_vec())] {
            match change {
                Some(bytes) => fs_err::write(&path, bytes).unwrap(),
                None => fs_err::remove_file(&path).unwrap(),
            }
            let error = stage.bring_back().await.unwrap_err();
            assert!(error.to_string().contains(&name), "{error}");
            assert!(!stage.path().exists());
            let reason = away::reason(&stage.path()).unwrap().unwrap();
            assert!(reason.contains(&name), "{reason}");
            let opened = crate::agent::transcript::look(&stage.path()).map(drop).unwrap_err();
            assert!(chain(&opened).contains(&name), "{}", chain(&opened));
        }
        fs_err::write(&path, kept).unwrap();
    }
    assert_eq!(stage.bring_back().await.unwrap(), BroughtBack::Made(3));
    assert!(fs_err::read(stage.path()).unwrap() == before);
    assert_eq!(away::reason(&stage.path()).unwrap(), None);
}

#[tokio::test]
async fn without_its_place_a_transcript_is_not_taken_for_a_new_one() {
    let stage = Stage::new();
    stage.append(b"one\n");
    stage.seal().await;
    fs_err::remove_file(stage.path()).unwrap();
    let error = bring_back(&stage.store, None, &stage.path(), "x").await.unwrap_err();
    assert!(matches!(error, TranscriptCopyError::Blob(BlobError::Unset)), "{error}");
    assert!(crate::agent::transcript::look(&stage.path()).is_err());
    away::clear(&stage.path()).unwrap();
    // Of a place that did not answer before, the mark alone is written.
    mark_away(&stage.store, &stage.path(), "x", "it is silent").await.unwrap();
    assert!(away::reason(&stage.path()).unwrap().unwrap().ends_with("it is silent"));
    assert!(crate::agent::transcript::look(&stage.path()).is_err());
    mark_away(&stage.store, &stage.path().with_file_name("y.jsonl"), "y", "it is silent").await.unwrap();
    assert_eq!(away::reason(&stage.path().with_file_name("y.jsonl")).unwrap(), None, "it has no segments");
    stage.bring_back().await.unwrap();
    assert_eq!(fs_err::read(stage.path()).unwrap(), b"one\n");
    mark_away(&stage.store, &stage.path(), "x", "it is silent").await.unwrap();
    assert_eq!(away::reason(&stage.path()).unwrap(), None, "it is here");
    // A segment that the database has lost is missed.
    let segments = stage.store.segments().of("x").await.unwrap();
    stage.store.segments().cut("x".into(), 1).await.unwrap();
    let second = crate::store::TranscriptSegment { number: 2, start: 4, ..segments[0].clone() };
    stage.store.segments().put("x".into(), second, 1).await.unwrap();
    fs_err::remove_file(stage.path()).unwrap();
    let error = stage.bring_back().await.unwrap_err();
    assert!(matches!(&error, TranscriptCopyError::Gap { number: 1, .. }), "{error}");
}

#[tokio::test]
async fn the_segments_of_a_deleted_session_are_deleted() {
    let stage = Stage::new();
    stage.append(b"one\n");
    stage.seal().await;
    // What a killed process has left goes, too.
    let left = stage.blobs()[0].with_file_name("000009-left.jsonl");
    fs_err::write(left, "x").unwrap();
    assert_eq!(stage.store.segments().orphans(9).await.unwrap(), ["x"]);
    forget(&stage.store, &stage.blobs, "x").await.unwrap();
    assert_eq!(stage.blobs(), Vec::<PathBuf>::new());
    assert_eq!(stage.store.segments().orphans(9).await.unwrap(), Vec::<String>::new());
}

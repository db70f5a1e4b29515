//! The segments of transcripts that are in the second place.

use super::session::parsed;
use super::sql::{self, Row, params};
use super::subjects::Segments;
use super::{Database, Store, StoreError};
use crate::id::SessionKey;

/// A part of a transcript that is in the second place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TranscriptSegment {
    /// From 1.
    pub number: i64,
    /// The byte of the file at which it begins.
    pub start: i64,
    pub bytes: i64,
    /// The number of its first line in the file, from 1.
    pub first_record: i64,
    pub last_record: i64,
    /// In hex.
    pub sha256: String,
    /// The key of its blob.
    pub key: String,
    /// The place of the store that has the blob.
    pub place: String,
}

impl TranscriptSegment {
    /// Returns the byte of the file at which it ends.
    #[must_use]
    pub const fn end(&self) -> i64 {
        self.start + self.bytes
    }
}

fn segment(row: &Row<'_>) -> sql::Result<TranscriptSegment> {
    Ok(TranscriptSegment {
        number: row.get(0)?,
        start: row.get(1)?,
        bytes: row.get(2)?,
        first_record: row.get(3)?,
        last_record: row.get(4)?,
        sha256: row.get(5)?,
        key: row.get(6)?,
        place: row.get(7)?,
    })
}

impl<A> Segments<&Database<A>> {
    /// Returns the segments of a transcript, in their order.
    pub async fn of(self, file: &str) -> Result<Vec<TranscriptSegment>, StoreError> {
        self.read("list the segments of a transcript", |connection| {
            connection
                .prepare_cached(
                    "SELECT number, start_byte, bytes, first_record, last_record, sha256, key, place
                     FROM transcript_segment WHERE file = ?1 ORDER BY number",
                )?
                .query_map([file], segment)?
                .collect()
        })
        .await
    }

    /// Returns the sessions of which segments are in the second place, with the names of their transcripts.
    pub async fn sessions(self) -> Result<Vec<(SessionKey, String)>, StoreError> {
        self.read("list the sessions with segments", |connection| {
            connection
                .prepare_cached(
                    "SELECT key, file FROM session
                     WHERE EXISTS (SELECT 1 FROM transcript_segment WHERE transcript_segment.file = session.file)
                     ORDER BY key",
                )?
                .query_map((), |row| Ok((parsed(row, 0)?, row.get(1)?)))?
                .collect()
        })
        .await
    }

    /// Returns the names of transcripts with segments whose sessions were deleted, at most `limit`.
    pub(crate) async fn orphans(self, limit: u32) -> Result<Vec<String>, StoreError> {
        self.read("look for segments without a session", |connection| {
            connection
                .prepare_cached(
                    "SELECT DISTINCT file FROM transcript_segment
                     WHERE NOT EXISTS (SELECT 1 FROM session WHERE session.file = transcript_segment.file)
                     ORDER BY file LIMIT ?1",
                )?
                .query_map([limit], |row| row.get(0))?
                .collect()
        })
        .await
    }
}

impl Segments<&Store> {
    /// Adds a segment in place of the one with its number and of all later ones.
    pub async fn put(self, file: String, segment: TranscriptSegment, now: i64) -> Result<(), StoreError> {
        self.write("add a segment of a transcript", move |transaction| {
            transaction
                .prepare_cached("DELETE FROM transcript_segment WHERE file = ?1 AND number >= ?2")?
                .execute((file.as_str(), segment.number))?;
            transaction
                .prepare_cached(
                    "INSERT INTO transcript_segment
                         (file, number, start_byte, bytes, first_record, last_record, sha256, key, place, made_at)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
                )?
                .execute(params![
                    file,
                    segment.number,
                    segment.start,
                    segment.bytes,
                    segment.first_record,
                    segment.last_record,
                    segment.sha256,
                    segment.key,
                    segment.place,
                    now
                ])?;
            Ok(())
        })
        .await
    }

    /// Removes the segment with this number and all later ones.
    pub async fn cut(self, file: String, number: i64) -> Result<(), StoreError> {
        self.write("remove segments of a transcript", move |transaction| {
            transaction
                .prepare_cached("DELETE FROM transcript_segment WHERE file = ?1 AND number >= ?2")?
                .execute((file.as_str(), number))?;
            Ok(())
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::Home;
    use crate::store::NewSession;

    fn segment(number: i64) -> TranscriptSegment {
        TranscriptSegment {
            number,
            start: (number - 1) * 10,
            bytes: 10,
            first_record: number,
            last_record: number,
            sha256: format!("{number}"),
            key: format!("k{number}"),
            place: "here".into(),
        }
    }

    #[tokio::test]
    async fn a_segment_replaces_its_own_number_and_all_later_ones() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().to_owned(), None);
        home.make_folders().unwrap();
        let store = Store::open(&home).unwrap();
        for number in 1..=3 {
            store.segments().put("a".into(), segment(number), 1).await.unwrap();
        }
        store.segments().put("b".into(), segment(1), 1).await.unwrap();
        assert_eq!(store.segments().of("a").await.unwrap(), [segment(1), segment(2), segment(3)]);
        let other = TranscriptSegment { sha256: "other".into(), ..segment(2) };
        store.segments().put("a".into(), other.clone(), 2).await.unwrap();
        assert_eq!(store.segments().of("a").await.unwrap(), [segment(1), other]);
        assert_eq!(segment(2).end(), 20);
        let key: SessionKey = "agent:coder:flock:main:ann".parse().unwrap();
        store.sessions().create(NewSession { key: key.clone(), file: "a".into() }, 1).await.unwrap();
        assert_eq!(store.segments().sessions().await.unwrap(), [(key, "a".to_owned())]);
        assert_eq!(store.segments().orphans(9).await.unwrap(), ["b"]);
        store.segments().cut("b".into(), 1).await.unwrap();
        store.segments().cut("a".into(), 2).await.unwrap();
        assert_eq!(store.segments().of("a").await.unwrap(), [segment(1)]);
        assert_eq!(store.segments().orphans(9).await.unwrap(), Vec::<String>::new());
    }
}

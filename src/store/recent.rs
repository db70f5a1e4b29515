//! The newest messages of a channel in outline, for who has to look at them at each post.

use super::post::{Mentioned, Wake};
use super::session::parsed;
use super::{Store, StoreError};
use crate::id::{ChannelId, Party};

/// A message in outline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecentPost {
    /// Who said it.
    pub author: Party,
    /// Its first characters.
    pub start: String,
    /// Its length in bytes.
    pub length: usize,
    /// Whom it mentions.
    pub mentions: Mentioned,
    /// Whom it wakes.
    pub wake: Wake,
    /// When, in Unix milliseconds.
    pub at: i64,
}

/// So many characters of a message are looked at.
pub const OUTLINE: usize = 400;

impl Store {
    /// The messages of a channel after the last one of a person's, and that one: at most `limit`, the newest
    /// first.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn since_human(&self, channel: &ChannelId, limit: usize) -> Result<Vec<RecentPost>, StoreError> {
        self.read("look at the newest messages", |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT author, substr(content, 1, ?2), length(CAST(content AS BLOB)), mentions, wake, created_at
                 FROM message WHERE channel = ?1 ORDER BY seq DESC",
            )?;
            let mut rows = statement.query((channel.as_str(), OUTLINE as i64))?;
            let mut found = Vec::new();
            while found.len() < limit
                && let Some(row) = rows.next()?
            {
                let author: Party = parsed(row, 0)?;
                let is_human = author.is_human();
                found.push(RecentPost {
                    author,
                    start: row.get(1)?,
                    length: usize::try_from(row.get::<_, i64>(2)?).unwrap_or(0),
                    mentions: Mentioned::from_column(row.get_ref(3)?.as_str_or_null()?),
                    wake: row.get(4)?,
                    at: row.get(5)?,
                });
                if is_human {
                    break;
                }
            }
            Ok(found)
        })
    }
}

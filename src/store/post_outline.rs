//! An outline of a channel's newest messages, for checks that run at each post.

use super::post::{PostMentions, WakeUrgency};
use super::session::parsed;
use super::subjects::Posts;
use super::{Database, StoreError};
use crate::id::{ChannelId, Party};

/// The outline of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostOutline {
    pub author: Party,
    /// The first [`OUTLINE_CHARS`] characters of the text.
    pub start: String,
    /// The length of the whole text in bytes.
    pub length: usize,
    pub mentions: PostMentions,
    pub wake: WakeUrgency,
    /// Unix milliseconds.
    pub at: i64,
}

/// The number of characters of a message that are kept in an outline.
pub const OUTLINE_CHARS: usize = 400;

impl<A> Posts<&Database<A>> {
    /// Returns a channel's messages back to the last one from outside, which is included: a person's, or one of a webhook
    /// or of a schedule that a person made. The newest comes first, and there are at most `limit`.
    pub(crate) async fn since_human(
        self,
        channel: &ChannelId,
        limit: usize,
    ) -> Result<Vec<PostOutline>, StoreError> {
        let most = i64::try_from(limit).unwrap_or(i64::MAX);
        self.read("look at the newest messages", |connection| {
            let mut statement = connection.prepare_cached(
                // A server sends all rows, also those that are not read, so the text itself ends at a person's message.
                // Which one is the last by the clock may be wrong, and then some more rows are sent.
                // PostgreSQL's INTEGER has 32 bits, and every number is bound as 64.
                "SELECT author, substr(content, 1, CAST(CAST(?2 AS BIGINT) AS INTEGER)), octet_length(content),
                    mentions, wake, created_at, author = 'system' AND (EXISTS (SELECT 1 FROM schedule_slot s
                        JOIN schedule ON schedule.id = s.schedule AND schedule.created_by LIKE 'human:%'
                        WHERE s.channel = message.channel AND s.seq = message.seq)
                    OR EXISTS (SELECT 1 FROM hook JOIN hook_delivery d ON d.hook = hook.id AND d.seq = message.seq
                        WHERE hook.channel = message.channel))
                 FROM message WHERE channel = ?1 AND seq >= coalesce((
                    SELECT said.seq FROM message said WHERE said.channel = ?1 AND said.author >= 'human:'
                    AND said.author < 'human;' ORDER BY said.created_at DESC, said.seq DESC LIMIT 1), 0)
                 ORDER BY seq DESC LIMIT ?3",
            )?;
            let mut rows = statement.query((channel.as_str(), OUTLINE_CHARS as i64, most))?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                let author: Party = parsed(&row, 0)?;
                let is_human = author.is_human() || row.get(6)?;
                found.push(PostOutline {
                    author,
                    start: row.get(1)?,
                    length: usize::try_from(row.get::<i64>(2)?).unwrap_or(0),
                    mentions: PostMentions::from_column(row.get_ref(3)?.as_str_or_null()?),
                    wake: row.get(4)?,
                    at: row.get(5)?,
                });
                if is_human {
                    break;
                }
            }
            Ok(found)
        })
        .await
    }
}

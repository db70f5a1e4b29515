//! Messages that people changed or deleted on their platform. A channel shows the newest text; the earlier texts are
//! kept for the audit.

use super::audit::{self, AuditEntry, Level};
use super::outbox::{self, LinkOrigin};
use super::post::{self, CommittedPost, NewPost};
use super::sql::OptionalExtension as _;
use super::subjects::Posts;
use super::{Store, StoreError};
use crate::id::Party;

/// A change of a message that came over a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PostEdit {
    /// The message.
    pub(crate) origin: LinkOrigin,
    /// The person who changes it, if the platform says who it is. A message of somebody else is not changed.
    pub(crate) by: Option<Party>,
    /// The new text.
    pub(crate) content: String,
    /// Set if the message was deleted, and `content` stands in its place.
    pub(crate) is_deletion: bool,
    /// Unix milliseconds.
    pub(crate) now: i64,
}

impl Posts<&Store> {
    /// Changes the text of a message, and posts the notice that `notice` makes from the message's number and author.
    ///
    /// Returns `None` if the message is not known, has the text already, or is somebody else's.
    pub(crate) async fn edit(
        self,
        edit: PostEdit,
        notice: impl Fn(u64, &Party) -> NewPost + Send + 'static,
    ) -> Result<Option<(NewPost, CommittedPost)>, StoreError> {
        self.write("change a message", move |transaction| {
            let Some(seq) = outbox::known(transaction, &edit.origin)? else { return Ok(None) };
            let found: Option<(String, Party, String)> = transaction
                .prepare_cached(
                    "SELECT m.channel, m.author, m.content FROM message m JOIN link l ON l.channel = m.channel
                     WHERE l.id = ?1 AND m.seq = ?2",
                )?
                .query_row((&edit.origin.link, seq), |row| {
                    Ok((row.get(0)?, super::session::parsed(row, 1)?, row.get(2)?))
                })
                .optional()?;
            let Some((channel, author, content)) = found else { return Ok(None) };
            let is_own = edit.by.as_ref().is_none_or(|by| *by == author);
            if !author.is_human() || !is_own || content == edit.content {
                return Ok(None);
            }
            transaction
                .prepare_cached(
                    "INSERT INTO message_edit (channel, seq, at, content) VALUES (?1, ?2, ?3, ?4)",
                )?
                .execute((&channel, seq, edit.now, &content))?;
            transaction
                .prepare_cached("UPDATE message SET content = ?3 WHERE channel = ?1 AND seq = ?2")?
                .execute((&channel, seq, &edit.content))?;
            let digest = |text: &str| format!("{} bytes, sha256 {}", text.len(), audit::digest(text));
            let entry = AuditEntry {
                actor: author.to_string(),
                action: if edit.is_deletion { "channel.delete" } else { "channel.edit" },
                subject: format!("{channel}#{seq}"),
                level: Level::Green,
                detail: format!("before: {}; now: {}", digest(&content), digest(&edit.content)),
                session: None,
                turn: None,
            };
            audit::append(transaction, &entry, edit.now)?;
            let notice = notice(seq.unsigned_abs(), &author);
            Ok(post::post(transaction, &notice)?.posted().map(|posted| (notice, posted)))
        })
        .await
    }
}

//! Sessions that only their transcripts know, after a restore of the database.

use super::subjects::Sessions;
use super::{Store, StoreError, post};
use crate::id::{ChannelId, SessionKey};

/// A session that has a transcript but no row in the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostSession {
    pub key: SessionKey,
    /// The name of its transcript, without the extension.
    pub file: String,
    /// Unix milliseconds of its start.
    pub created_at: i64,
    /// Unix milliseconds of its last use.
    pub updated_at: i64,
    /// The channel, and the last sequence number of it that the transcript contains.
    pub delivered: Option<(ChannelId, u64)>,
}

impl Sessions<&Store> {
    /// Adds sessions known only from their transcripts, and advances delivery positions to what transcripts show as
    /// delivered. Returns the number of added sessions.
    pub(crate) async fn restore(self, sessions: Vec<LostSession>) -> Result<usize, StoreError> {
        self.write("restore sessions", move |transaction| {
            let mut added = 0;
            for lost in sessions {
                let agent = lost.key.agent().as_str();
                added += transaction.execute(
                    "INSERT INTO session (key, file, agent, kind, created_at, updated_at)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING",
                    (
                        lost.key.as_str(),
                        &lost.file,
                        agent,
                        lost.key.kind().as_str(),
                        lost.created_at,
                        lost.updated_at,
                    ),
                )?;
                if let Some((channel, seq)) = &lost.delivered {
                    transaction.execute(
                        "UPDATE delivery SET delivered_seq = max(delivered_seq, min(?3,
                             (SELECT last_seq FROM channel WHERE channel.id = delivery.channel)))
                         WHERE agent = ?1 AND channel = ?2",
                        (agent, channel.as_str(), post::number(*seq)),
                    )?;
                }
            }
            Ok(added)
        })
        .await
    }
}

//! Brings messages from before a link into its channel.

use std::sync::Arc;

use super::inbound::Inbound;
use super::platform::{Platform, PlatformError};
use super::turns::Turns;
use crate::config::Bridge;
use crate::store::{Link, StoreError};
use crate::swarm::{Swarm, SwarmError};

/// Largest number of messages that are imported.
const MAX_MESSAGES: usize = 1_000;

/// A failed import.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImportError {
    /// The platform failed, or has no history.
    #[error(transparent)]
    Platform(#[from] PlatformError),
    /// The database failed.
    #[error(transparent)]
    Swarm(#[from] SwarmError),
}

impl From<StoreError> for ImportError {
    fn from(error: StoreError) -> Self {
        Self::Swarm(error.into())
    }
}

/// Posts the messages that a link's channel on the platform has since a time in Unix milliseconds, at most the newest
/// 1,000. They count as read and wake nobody; people who are not heard are left out. Returns the number of messages. An
/// import that broke off can be repeated: no message is posted twice.
///
/// # Errors
///
/// Returns an error if the platform has no history or fails, or if the database does.
pub(crate) async fn import_history(
    swarm: &Arc<Swarm>,
    bridge: &Bridge,
    platform: &dyn Platform,
    link: &Link,
    since: i64,
) -> Result<usize, ImportError> {
    let messages = platform.history(&link.external, since, MAX_MESSAGES).await?;
    let inbound = Inbound { swarm, bridge, platform, turns: &Turns::none() };
    let mut imported = 0;
    for message in &messages {
        if inbound.take_history(link, message).await? {
            imported += 1;
        }
    }
    Ok(imported)
}

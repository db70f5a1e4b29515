//! Messages that came over a link from another platform.

use super::channel::PostReceipt;
use super::{Actor, Swarm, SwarmError};
use crate::clean;
use crate::clock::unix_ms;
use crate::error::chain;
use crate::id::{ChannelId, Party};
use crate::store::{LinkOrigin, NewPost, PostEdit, WakeUrgency};

/// Longest new text that a notice repeats, in characters. A longer one is read in the channel.
const MAX_REPEATED: usize = 4_000;

impl Swarm {
    /// Posts a message of a person that came over a link. The person becomes a member with the first one. A message that
    /// was taken before is not posted again. One from before the link wakes nobody.
    ///
    /// # Errors
    ///
    /// Returns [`SwarmError::NoChannel`] or [`SwarmError::Archived`] if the channel can't take messages, and
    /// [`SwarmError::Invalid`] if the text is empty or too long.
    pub(crate) async fn post_from_link(
        &self,
        by: &Actor,
        channel: &ChannelId,
        text: String,
        origin: LinkOrigin,
    ) -> Result<PostReceipt, SwarmError> {
        let is_history = origin.is_history;
        let wake = if is_history { WakeUrgency::Nobody } else { WakeUrgency::AtOnce };
        let new = self.message(by, channel, text, wake, unix_ms())?;
        let said = self.say(NewPost { origin: Some(origin), ..new }).await?;
        let known = if is_history { None } else { self.store.channels().find(channel).await? };
        if known.is_some_and(|known| !known.has(&by.party)) {
            // The message counts without it: a full channel, for example, takes no further member.
            if let Err(error) = self.assign_members(by, channel, std::slice::from_ref(&by.party), &[]).await {
                tracing::warn!(error = chain(&error), %channel, "a person from another platform is no member");
            }
        }
        Ok(said)
    }

    /// Changes or deletes a message that came over a link, and says so in the channel, which wakes nobody. `None` as the
    /// text deletes it; the earlier text is kept for the audit. Returns `false` if nothing changes.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails.
    pub(crate) async fn edit_from_link(
        &self,
        by: Option<Party>,
        channel: &ChannelId,
        text: Option<String>,
        origin: LinkOrigin,
    ) -> Result<bool, SwarmError> {
        let now = unix_ms();
        let (id, link, message) = (channel.clone(), origin.link.clone(), origin.message.clone());
        let repeated = text.clone();
        let notice = move |seq: u64, author: &Party| {
            let text = match &repeated {
                None => format!("{author} deleted message {seq}"),
                Some(text) if text.chars().count() <= MAX_REPEATED => {
                    format!("{author} changed message {seq} to:\n\n{text}")
                }
                Some(text) => {
                    let start = clean::summary(text, 200);
                    format!("{author} changed message {seq}, which has {} bytes now: {start}", text.len())
                }
            };
            // With an origin, the notice is not sent back to where the change was made.
            let origin = LinkOrigin {
                link: link.clone(),
                message: format!("{message} changed {now}"),
                is_history: false,
            };
            NewPost { wake: WakeUrgency::Nobody, origin: Some(origin), ..NewPost::of_system(&id, text, now) }
        };
        let is_deletion = text.is_none();
        let content = text.unwrap_or_else(|| "(deleted)".to_owned());
        let edit = PostEdit { origin, by, content, is_deletion, now };
        let Some((notice, posted)) = self.store.posts().edit(edit, notice).await? else { return Ok(false) };
        self.announce(&notice, &posted);
        Ok(true)
    }
}

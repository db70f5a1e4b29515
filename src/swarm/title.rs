//! Display names and topics of channels. Both can change, but the id stays.

use serde_json::json;

use super::channel;
use super::{Actor, Swarm, SwarmError};
use crate::clock::unix_ms;
use crate::id::ChannelId;
use crate::store::{Channel, ChannelState, Level, NewPost};

/// Maximum number of characters of a display name.
pub(crate) const MAX_NAME: usize = 80;

/// A change of a channel's name or topic. Fields that are `None` stay as they are.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChannelTitle {
    /// The display name.
    pub name: Option<String>,
    pub topic: Option<String>,
}

impl Swarm {
    /// Changes a channel's display name or topic and posts a message about it. Members get that message with the next
    /// one that wakes them.
    ///
    /// # Errors
    ///
    /// Returns [`SwarmError::NoChannel`] if there is no such channel, [`SwarmError::Archived`] if it is archived, and
    /// [`SwarmError::Invalid`] if a text is empty or too long.
    pub(crate) async fn retitle(
        &self,
        by: &Actor,
        id: &ChannelId,
        title: ChannelTitle,
    ) -> Result<Channel, SwarmError> {
        let known = self.channel(id).await?;
        if known.state == ChannelState::Archived {
            return Err(SwarmError::Archived(known.id));
        }
        let name = title.name.as_deref().map(name).transpose()?.filter(|name| *name != known.name);
        let topic =
            title.topic.as_deref().map(channel::topic).transpose()?.filter(|topic| *topic != known.topic);
        let changes: Vec<String> = [
            name.as_ref().map(|name| format!("renamed this channel to \"{name}\"")),
            topic.as_ref().map(|topic| format!("changed the topic to: {topic}")),
        ]
        .into_iter()
        .flatten()
        .collect();
        if changes.is_empty() {
            return Ok(known);
        }
        let text = format!("{} {}", by.party, changes.join(" and "));
        let action = if name.is_some() { "channel.rename" } else { "channel.topic" };
        let entry = by.entry(action, known.id.as_str(), Level::Green, changes.join("; "));
        let notice = NewPost::of_system(&known.id, text, unix_ms());
        let posted = self.store.channels().update(known.id.clone(), name, topic, notice, entry).await?;
        // The channel was read before the change, so it may have been archived in between.
        let posted = posted.ok_or_else(|| SwarmError::Archived(known.id.clone()))?;
        self.notifier.publish("channel.changed", &json!({"channel": known.id, "action": "title"}));
        self.notifier
            .publish("channel.message", &json!({"channel": known.id, "seq": posted.seq, "author": "system"}));
        self.channel(&known.id).await
    }
}

/// Checks and cleans a name.
fn name(text: &str) -> Result<String, SwarmError> {
    channel::checked_label(text, MAX_NAME, "the name", "a channel's name")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Page;
    use crate::swarm::channel::ChannelSpec;
    use crate::swarm::testing::Team;

    #[tokio::test]
    async fn a_name_and_a_topic_change_and_the_id_stays() {
        let team = Team::new();
        let (id, ann): (ChannelId, Actor) = ("dev".parse().unwrap(), Actor::human("ann"));
        let members = vec!["coder".parse().unwrap()];
        let wanted = ChannelSpec { id: id.clone(), topic: "work".into(), members, message: None };
        team.swarm.create_channel(&ann, wanted).await.unwrap();
        let title = |name: &str, topic: &str| ChannelTitle {
            name: Some(name.to_owned()).filter(|name| !name.is_empty()),
            topic: Some(topic.to_owned()).filter(|topic| !topic.is_empty()),
        };
        let _rung = team.notified_sessions();
        let found =
            team.swarm.retitle(&ann, &"DEV".parse().unwrap(), title("The release", "")).await.unwrap();
        assert_eq!(
            (found.id.as_str(), found.name.as_str(), found.topic.as_str()),
            ("dev", "The release", "work")
        );
        let found = team.swarm.retitle(&ann, &id, title("", "the\n second\u{202e} one")).await.unwrap();
        assert_eq!((found.name.as_str(), found.topic.as_str()), ("The release", "the second one"));
        team.swarm.retitle(&ann, &id, title("The release", "the second one")).await.unwrap();
        let said = team.store.posts().page(&id, Page::After(1), 9).await.unwrap();
        let said: Vec<&str> = said.iter().map(|post| post.content.as_str()).collect();
        let told = [
            "human:ann renamed this channel to \"The release\"",
            "human:ann changed the topic to: the second one",
        ];
        assert_eq!(said, told, "what changes nothing says nothing");
        assert!(team.notified_sessions().is_empty(), "nobody is woken by it");
        for wrong in [title(" ", ""), title(&"x".repeat(MAX_NAME + 1), ""), title("", "\u{200b}")] {
            assert!(matches!(team.swarm.retitle(&ann, &id, wrong).await, Err(SwarmError::Invalid(_))));
        }
        let none = team.swarm.retitle(&ann, &"other".parse().unwrap(), title("x", "")).await;
        assert!(matches!(none, Err(SwarmError::NoChannel(_))));
        team.swarm.archive(&ann, &id, crate::swarm::archive::ArchiveAction::Force).await.unwrap();
        assert!(matches!(team.swarm.retitle(&ann, &id, title("y", "")).await, Err(SwarmError::Archived(_))));
    }
}

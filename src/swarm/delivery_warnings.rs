//! Notes for the author of a message that does not reach everybody whom the author may have meant.

use super::{Swarm, SwarmError, mention};
use crate::id::{AgentId, ChannelId, Party};

impl Swarm {
    /// Returns notes for the author of a message: that no agent is notified, or that a mention in it notifies nobody.
    ///
    /// # Errors
    ///
    /// Returns [`SwarmError::NoChannel`] if there is no such channel.
    pub(crate) async fn unheard(
        &self,
        author: &Party,
        id: &ChannelId,
        text: &str,
    ) -> Result<Vec<String>, SwarmError> {
        let channel = self.channel(id).await?;
        let members: Vec<&AgentId> =
            channel.members.iter().filter_map(|member| member.party.agent()).collect();
        let id = &channel.id;
        let mut notes = Vec::new();
        // The author itself does not count: no agent is given its own messages.
        if !members.iter().any(|member| author.agent() != Some(*member)) {
            notes.push(format!("no agent is notified: #{id} has no other members that are agents"));
        }
        let config = self.config();
        for agent in mention::mentions(text, config.agents.iter().map(|agent| &agent.id)).agents {
            if !members.contains(&&agent) {
                notes.push(format!("@{agent} is not notified: {agent} is not a member of #{id}"));
            }
        }
        let people = channel.members.iter().filter_map(|member| match &member.party {
            Party::Human(name) => Some(name.as_str()),
            Party::Agent(_) | Party::System => None,
        });
        let known = config.agents.iter().map(|agent| agent.id.as_str()).chain(people);
        let names = mention::unknown(text, known);
        notes.extend(names.iter().map(|name| format!("@{name} notifies nobody: no agent has that id")));
        Ok(notes)
    }
}

//! Commands that people give on a platform: how the team is, who works, stop, freeze and thaw. The answer is for the
//! person alone, and neither is posted in the channel.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::inbound::Inbound;
use super::message::IncomingMessage;
use crate::clock::unix_ms;
use crate::id::{AgentId, ChannelId};
use crate::store::{Level, Link};
use crate::swarm::freeze;
use crate::swarm::{Actor, SwarmError};

/// The word before a command, for platforms and people that do not mention flock's account.
const PREFIX: &str = "!flock";

const HELP: &str = "\
Commands, after `!flock` or a mention of this account:
- `status`: how the agents of this channel are
- `who`: who works now
- `stop [AGENT]`: stop the turns that run for this channel
- `freeze [AGENT][: REASON]`: freeze the agents of this channel, or one of them
- `thaw [AGENT]`: thaw them
`stop`, `freeze` and `thaw` are for people whom the link names.";

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Help,
    Status,
    Who,
    Stop(Option<String>),
    /// The agent, and the reason after a colon.
    Freeze(Option<String>, Option<String>),
    Thaw(Option<String>),
}

impl Command {
    /// Returns `true` if it changes something.
    const fn is_change(&self) -> bool {
        matches!(self, Self::Stop(_) | Self::Freeze(..) | Self::Thaw(_))
    }
}

/// Returns the command that a message is. After the prefix every text is one: what is not known asks for help. A
/// message that only mentions flock's account is one if it has a command's form.
pub(super) fn parse(message: &IncomingMessage) -> Option<Command> {
    let text = message.text.trim();
    let prefixed = text
        .strip_prefix(PREFIX)
        .filter(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
        .map(str::trim);
    match prefixed {
        Some(rest) => Some(command(rest).unwrap_or(Command::Help)),
        None if message.is_to_bot => command(text),
        None => None,
    }
}

fn command(text: &str) -> Option<Command> {
    // No id has a colon, so it ends the command and begins the reason.
    if let Some((command, words)) = text.split_once(':') {
        let reason = freeze::reason(words)?;
        return match self::command(command) {
            Some(Command::Freeze(agent, None)) => Some(Command::Freeze(agent, Some(reason))),
            _ => None,
        };
    }
    let mut words = text.split_whitespace();
    let verb = words.next()?.to_ascii_lowercase();
    let agent = words.next().map(|word| word.trim_start_matches('@').to_ascii_lowercase());
    if words.next().is_some() {
        return None;
    }
    match (verb.as_str(), agent) {
        ("help", None) => Some(Command::Help),
        ("status", None) => Some(Command::Status),
        ("who", None) => Some(Command::Who),
        ("stop", agent) => Some(Command::Stop(agent)),
        ("freeze", agent) => Some(Command::Freeze(agent, None)),
        ("thaw", agent) => Some(Command::Thaw(agent)),
        _ => None,
    }
}

impl Inbound<'_> {
    /// Does a command of somebody who is heard, and returns the answer.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails. The command has to be given again.
    pub(super) async fn obey(
        &self,
        command: &Command,
        link: &Link,
        message: &IncomingMessage,
    ) -> Result<String, SwarmError> {
        if command.is_change() && !message.sender.names().any(|name| link.hears.contains(&name)) {
            return Ok("Only people whom the link names may do that. The owner adds you with \
                `flock bridge allow`."
                .to_owned());
        }
        let members = self.members(&link.channel).await?;
        let by = Actor::party(self.person_of(message).await?);
        let chosen = |agent: &Option<String>| chosen(&members, agent.as_deref());
        match command {
            Command::Help => Ok(HELP.to_owned()),
            Command::Status => Ok(self.status(link, &members).await?),
            Command::Who => Ok(self.who(&members)),
            Command::Stop(agent) => match chosen(agent) {
                Ok(agents) => self.stop(&by, &link.channel, &agents).await,
                Err(why) => Ok(why),
            },
            Command::Freeze(agent, reason) => match chosen(agent) {
                Ok(agents) => self.freeze(&by, &agents, reason.as_ref()).await,
                Err(why) => Ok(why),
            },
            Command::Thaw(agent) => match chosen(agent) {
                Ok(agents) => self.thaw(&by, &agents).await,
                Err(why) => Ok(why),
            },
        }
    }

    async fn members(&self, channel: &ChannelId) -> Result<BTreeSet<AgentId>, SwarmError> {
        let known = self.swarm.store().channels().find(channel).await?;
        Ok(known.iter().flat_map(|known| known.agents()).cloned().collect())
    }

    async fn status(&self, link: &Link, members: &BTreeSet<AgentId>) -> Result<String, SwarmError> {
        let turns = (self.turns.list)();
        let mut text = format!("Channel {}:\n", link.channel);
        for agent in members {
            let running = turns.iter().filter(|turn| turn.agent == *agent).count();
            let state = match (self.swarm.frozen_text(agent), running) {
                (Some(frozen), _) => frozen,
                (None, 0) => "idle".to_owned(),
                (None, 1) => "works".to_owned(),
                (None, many) => format!("works on {many} turns"),
            };
            // Writing to a `String` can't fail.
            let _ = writeln!(text, "- {agent}: {state}");
        }
        let waiting = self.swarm.store().outbox().backlog(&link.id).await?;
        let _ = write!(text, "{} messages wait to be sent here.", waiting.entries);
        Ok(text)
    }

    fn who(&self, members: &BTreeSet<AgentId>) -> String {
        let turns = (self.turns.list)();
        let mut lines: Vec<String> = turns
            .iter()
            .filter(|turn| members.contains(&turn.agent))
            .map(|turn| match &turn.channel {
                Some(channel) => format!("- {} works in {channel}", turn.agent),
                None => format!("- {} works outside of channels", turn.agent),
            })
            .collect();
        lines.sort();
        lines.dedup();
        if lines.is_empty() { "Nobody works now.".to_owned() } else { lines.join("\n") }
    }

    async fn stop(&self, by: &Actor, channel: &ChannelId, agents: &[AgentId]) -> Result<String, SwarmError> {
        let mut stopped = Vec::new();
        for agent in agents {
            let turns = (self.turns.stop)(agent, channel);
            if turns > 0 {
                let detail = format!("{turns} turns in {channel}, from {}", self.bridge.name);
                let entry = by.entry("turn.stop", agent.as_str(), Level::Yellow, detail);
                self.swarm.store().audit().append(entry, unix_ms()).await?;
                stopped.push(agent.to_string());
            }
        }
        Ok(match stopped.as_slice() {
            [] => "Nobody works for this channel now.".to_owned(),
            agents => format!("Stopped: {}", agents.join(", ")),
        })
    }

    async fn freeze(
        &self,
        by: &Actor,
        agents: &[AgentId],
        reason: Option<&String>,
    ) -> Result<String, SwarmError> {
        let mut changed = Vec::new();
        for agent in agents {
            if self.swarm.freeze(by, agent, reason.cloned()).await? {
                changed.push(agent.to_string());
            }
        }
        Ok(match (changed.as_slice(), reason) {
            ([], None) => "They are frozen already.".to_owned(),
            ([], Some(_)) => "They are frozen already, now for this reason.".to_owned(),
            (agents, _) => format!("Frozen: {}", agents.join(", ")),
        })
    }

    async fn thaw(&self, by: &Actor, agents: &[AgentId]) -> Result<String, SwarmError> {
        let mut changed = Vec::new();
        for agent in agents {
            if self.swarm.thaw(by, agent).await? {
                changed.push(agent.to_string());
            }
        }
        Ok(match changed.as_slice() {
            [] => "None of them can be thawed here: they are not frozen, or the whole home is.".to_owned(),
            agents => format!("Thawed: {}", agents.join(", ")),
        })
    }
}

/// Returns the agents that a command is about: the named one, or all of the channel.
fn chosen(members: &BTreeSet<AgentId>, agent: Option<&str>) -> Result<Vec<AgentId>, String> {
    match agent {
        None => Ok(members.iter().cloned().collect()),
        Some(name) => match members.iter().find(|member| member.as_str() == name) {
            Some(agent) => Ok(vec![agent.clone()]),
            None => Err(format!("No agent {} is in this channel.", crate::clean::summary(name, 40))),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str, is_to_bot: bool) -> Option<Command> {
        parse(&IncomingMessage { text: text.to_owned(), is_to_bot, ..IncomingMessage::default() })
    }

    fn freeze(agent: Option<&str>, reason: &str) -> Option<Command> {
        Some(Command::Freeze(agent.map(str::to_owned), Some(reason.to_owned())))
    }

    #[test]
    fn a_command_stands_after_the_prefix_or_a_mention() {
        for (text, is_to_bot, command) in [
            ("!flock status", false, Some(Command::Status)),
            ("!flock", false, Some(Command::Help)),
            ("!flock make tea", false, Some(Command::Help)),
            ("!flocks status", false, None),
            ("status", false, None),
            (" Status ", true, Some(Command::Status)),
            ("stop @Coder", true, Some(Command::Stop(Some("coder".to_owned())))),
            ("stop the build please", true, None),
            ("who", true, Some(Command::Who)),
            ("who broke it", true, None),
            ("freeze", true, Some(Command::Freeze(None, None))),
            ("freeze @coder: it loops,\n all day", true, freeze(Some("coder"), "it loops, all day")),
            ("!flock freeze: lunch: one hour", false, freeze(None, "lunch: one hour")),
            ("freeze :", true, None),
            ("freeze the build: it is red", true, None),
            ("stop coder: it loops", true, None),
            ("!flock thaw coder", false, Some(Command::Thaw(Some("coder".to_owned())))),
        ] {
            assert_eq!(parsed(text, is_to_bot), command, "{text:?}");
        }
    }

    #[test]
    fn a_command_is_about_agents_of_the_channel() {
        let members: BTreeSet<AgentId> = ["a", "b"].iter().map(|id| id.parse().unwrap()).collect();
        assert_eq!(chosen(&members, None).unwrap().len(), 2);
        assert_eq!(chosen(&members, Some("b")).unwrap(), ["b".parse::<AgentId>().unwrap()]);
        assert!(chosen(&members, Some("sysadmin")).unwrap_err().contains("sysadmin"));
    }
}

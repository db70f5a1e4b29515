//! Commands that `flock chat` itself executes at its prompt. All other commands go to the agent.

use crate::agent::command::Command;
use crate::cli::database;
use crate::config::Config;
use crate::home::Home;
use crate::id::AgentId;
use crate::store::ChannelState;
use crate::ui::editor::CompletionWords;

/// A command of the prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ChatCommand {
    /// Lists the commands.
    Help,
    /// Ends the conversation.
    Quit,
    /// Continues with another agent. `None` if no valid name was given.
    Agent(Option<AgentId>),
}

impl ChatCommand {
    /// Returns the command that a text is, or `None` if the text is anything more than a command.
    #[must_use]
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        match text {
            HELP => return Some(Self::Help),
            QUIT | EXIT => return Some(Self::Quit),
            AGENT => return Some(Self::Agent(None)),
            _ => {}
        }
        let (command, name) = text.split_once(char::is_whitespace)?;
        // More than one word after the command means that it is an ordinary message.
        if command != AGENT || name.trim().contains(char::is_whitespace) {
            return None;
        }
        Some(Self::Agent(name.trim().trim_start_matches('@').parse().ok()))
    }
}

const HELP: &str = "/help";
const QUIT: &str = "/quit";
const EXIT: &str = "/exit";
const AGENT: &str = "/agent";

/// All commands with a short description, for the help and for completion.
pub(crate) const ALL: [(&str, &str); 6] = [
    (AGENT, "talk with another agent: /agent NAME"),
    ("/compact", "replace the oldest part of the conversation by a summary"),
    ("/context", "show how much of the context is used"),
    ("/new", "start a new conversation"),
    (HELP, "show this help"),
    (QUIT, "end, as Ctrl-D does"),
];

/// Keys that a person may not know.
pub(crate) const KEYS: [(&str, &str); 5] = [
    ("Tab", "complete a command, an agent or a #channel"),
    ("Up, Ctrl-R", "recall earlier input; a line that begins with a blank is not kept"),
    ("Ctrl-V Ctrl-J", "begin a new line of the same message; a pasted block stays one message"),
    ("Ctrl-C", "drop the line, or end the answer that is being given"),
    ("Ctrl-D", "end"),
];

/// Returns `true` if a text is a command, either of this prompt or of the agent's side.
#[must_use]
pub(crate) fn is_command(text: &str) -> bool {
    ChatCommand::parse(text).is_some() || Command::parse(text).is_some()
}

/// Returns the words that Tab completes in this home.
pub(crate) fn completion(config: &Config, home: &Home) -> CompletionWords {
    // Without a readable database channels are simply not completed.
    let channels = database::read_typing(home, async |reader| reader.channels().list(None, None).await);
    let channels = channels.ok().flatten().unwrap_or_default();
    let open = channels.into_iter().filter(|channel| channel.state == ChannelState::Active);
    CompletionWords {
        commands: ALL.iter().map(|(name, _)| (*name).to_owned()).collect(),
        of_agents: vec![AGENT.to_owned()],
        agents: config.agents.iter().map(|agent| agent.id.to_string()).collect(),
        channels: open.map(|channel| channel.id.to_string()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_text_is_a_command() {
        assert_eq!(ChatCommand::parse(" /quit\n"), Some(ChatCommand::Quit));
        assert_eq!(ChatCommand::parse("/exit"), Some(ChatCommand::Quit));
        assert_eq!(ChatCommand::parse("/help"), Some(ChatCommand::Help));
        assert_eq!(ChatCommand::parse("/agent @scout "), Some(ChatCommand::Agent("scout".parse().ok())));
        assert_eq!(ChatCommand::parse("/agent"), Some(ChatCommand::Agent(None)));
        assert_eq!(ChatCommand::parse("/agent /x"), Some(ChatCommand::Agent(None)));
        for text in ["/agents are many", "/agent a b", "please /quit", "/new", "/etc/passwd", "/help me"] {
            assert_eq!(ChatCommand::parse(text), None, "{text}");
        }
    }

    #[test]
    fn every_command_that_is_offered_is_one() {
        for (name, _) in ALL {
            assert!(is_command(name), "{name}");
        }
    }
}

//! `flock chat`: a conversation of a person with an agent, in that person's own session.

mod answer;
mod commands;
mod history;
mod interactive;
mod secret_detection;
mod stdin_lines;

use std::io::IsTerminal as _;

use serde_json::json;

use super::reconnect::Reconnector;
use super::{Context, Exit, Failure, person, team};
use crate::config::{self, Agent, Config};
use crate::error::Kind;
use crate::id::{AgentId, SessionKey, SessionKind};
use crate::ui::editor;

use answer::{ChatAnswer, ChatTarget, ask};

/// Talk with an agent
///
/// Without TEXT, reads the message from stdin. On a terminal, it reads line by line: the arrow keys recall earlier
/// input, Tab completes commands, agents and channels, a pasted block is one message, and /help lists the commands. The
/// history does not keep commands, lines that begin with a space, and text that looks like a secret.
///
/// Ctrl-C ends the running answer, and the agent stops working on it.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  flock chat coder
  flock chat coder \"Is the build green?\"
  flock chat coder < task.txt")]
pub(crate) struct Args {
    /// Id of the agent
    agent: AgentId,
    /// Message to send
    text: Option<String>,
    /// Key of the session to continue [default: your own session with the agent]
    #[arg(long, value_name = "KEY")]
    session: Option<SessionKey>,
    /// Wait until a frozen agent is thawed, instead of failing
    #[arg(long)]
    wait: bool,
}

/// Sends the text, or every line that a person types, and prints the answers as they arrive.
///
/// # Errors
///
/// Returns an error if the gateway does not run, or if the turn fails.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let home = context.home()?;
    let config = config::read(&home)?;
    let agent = find_agent(&args.agent, &config)?;
    let session = session(args)?;
    let text = match &args.text {
        Some(text) => Some(text.clone()),
        None if std::io::stdin().is_terminal() => None,
        None => Some(person::stdin(
            MAX_TEXT,
            "put the text into a file in the agent's workspace and tell the agent to read that file",
        )?),
    };
    // The check also covers an empty stdin, for example after a failed command in a pipe.
    if text.as_ref().is_some_and(|text| text.trim().is_empty()) {
        return Err(Failure::new(Kind::Usage, "the message is empty").hint("flock chat AGENT TEXT"));
    }
    context.block_on(async {
        let Some(gateway) = Reconnector::new(&home, context).gateway().await? else {
            team::require_no_gateway(&home)?;
            return Err(team::not_running());
        };
        // Without this warning `--wait` would look like a command that hangs.
        // The gateway refuses or waits whether or not this process can read the database.
        if args.wait
            && let Ok(frozen) = team::frozen(&home)
            && let Some(freeze) = frozen.of(&agent.id)
        {
            let text = team::frozen_text(freeze);
            context.printer.warn(&format!(
                "{} is {text}; waiting until it is thawed: flock thaw {}",
                agent.id, agent.id
            ));
        }
        let question = ChatTarget { gateway, session, waits: args.wait };
        let talk = ChatSession { agent: agent.clone(), question, context };
        match text {
            Some(text) => talk.once(text).await,
            // Programs want plain lines: with `--json` and on simple terminals there is no line editor.
            None if editor::is_supported() && !context.printer.is_json() => {
                interactive::converse(talk, &config, &home).await
            }
            None => talk.ask_by_line().await,
        }
    })
}

fn find_agent<'c>(id: &AgentId, config: &'c Config) -> Result<&'c Agent, Failure> {
    let missing = || Failure::new(Kind::Failed, format!("there is no agent {id}")).hint("flock list");
    config.agent(id).ok_or_else(missing)
}

/// A conversation with one agent.
struct ChatSession<'a> {
    agent: Agent,
    question: ChatTarget,
    context: &'a Context,
}

impl ChatSession<'_> {
    async fn once(&self, text: String) -> Result<Exit, Failure> {
        let answer = tokio::select! {
            answer = ask(&self.question, text, &self.context.printer) => answer?,
            // Dropping the request closes the connection, which cancels the turn in the gateway.
            _ = tokio::signal::ctrl_c() => return Ok(Exit::Code(EXIT_INTERRUPTED)),
        };
        self.context.printer.if_json(&self.describe(&answer));
        Ok(Exit::Done)
    }

    async fn ask_by_line(&self) -> Result<Exit, Failure> {
        let printer = &self.context.printer;
        printer.say(format!("{} · end with Ctrl-D", self.title()));
        let mut lines = stdin_lines::read();
        loop {
            printer.prompt("> ");
            let line = tokio::select! {
                line = lines.recv() => line,
                // Ctrl-C at the prompt ends the conversation; during an answer it only cancels the answer.
                _ = tokio::signal::ctrl_c() => None,
            };
            let Some(line) = line else {
                printer.say("");
                return Ok(Exit::Done);
            };
            if line.trim().is_empty() {
                continue;
            }
            tokio::select! {
                answer = ask(&self.question, line, printer) => match answer {
                    Ok(answer) if printer.is_json() => printer.json_line(&self.describe(&answer)),
                    Ok(_) => {}
                    // A failed turn does not end the conversation.
                    Err(failure) => printer.fail(&failure),
                },
                _ = tokio::signal::ctrl_c() => printer.say("\nstopped"),
            }
            if printer.closed() {
                return Ok(Exit::Done);
            }
        }
    }

    /// Returns the agent and its model, as one line.
    fn title(&self) -> String {
        let model = self.agent.model.as_ref().map_or("no model".to_owned(), |model| {
            let kind = if model.is_script() { " (a script, no model)" } else { "" };
            format!("{model}{kind}")
        });
        format!("{} · {model}", self.agent.id)
    }

    fn describe(&self, answer: &ChatAnswer) -> serde_json::Value {
        json!({
            "agent": self.agent.id,
            "session": self.question.session,
            "turn": answer.turn,
            "text": answer.text,
            "finishReason": answer.finish_reason,
            "usage": answer.usage,
            "model": self.agent.model,
        })
    }
}

/// The exit code that a shell reports for a program that Ctrl-C ended: 128 plus SIGINT.
const EXIT_INTERRUPTED: u8 = 130;

fn session(args: &Args) -> Result<SessionKey, Failure> {
    match &args.session {
        // A session of another agent would be answered by that other agent.
        Some(key) if *key.agent() == args.agent => Ok(key.clone()),
        Some(key) => {
            Err(Failure::new(Kind::Usage, format!("session {key} does not belong to agent {}", args.agent)))
        }
        None => Ok(own_session(&args.agent)),
    }
}

/// Returns the session that this person has with an agent.
fn own_session(agent: &AgentId) -> SessionKey {
    SessionKey::new(agent, SessionKind::Main, &person::login())
}

/// Largest text that is read from stdin, in bytes: the limit of a request to the gateway, with room for its JSON.
const MAX_TEXT: u64 = 4 << 20;

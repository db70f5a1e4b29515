//! A conversation on a terminal with the line editor.

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::answer::ask;
use super::commands::{self, ChatCommand};
use super::{ChatSession, EXIT_INTERRUPTED, Exit, Failure, find_agent, history, own_session};
use crate::config::{self, Config};
use crate::error::Kind;
use crate::home::Home;
use crate::ui::editor::{Editor, EditorInput};

/// Talks until the person ends the conversation. The terminal is restored at the end, also after a signal.
///
/// # Errors
///
/// Returns an error if the terminal can't be set up or read, or if the signal handlers can't be installed.
pub(crate) async fn converse(
    mut talk: ChatSession<'_>,
    config: &Config,
    home: &Home,
) -> Result<Exit, Failure> {
    let printer = &talk.context.printer;
    // The handlers exist before the editor takes the terminal, so that no signal can leave it in the editor's modes.
    let mut interrupts = listen(SignalKind::interrupt())?;
    let mut signals = Signals::listen()?;
    let kept = history::read(home);
    // A damaged history is no reason to refuse the conversation.
    if let Err(error) = &kept {
        printer.warn(&format!("failed to read the input history: {error}"));
    }
    let opened = Editor::open(commands::completion(config, home), kept.unwrap_or_default());
    let mut editor = opened.map_err(|error| Failure::with_cause("failed to set up the terminal", &error))?;
    printer.say(format!("{} · /help for help, end with Ctrl-D", talk.title()));
    let (mut was_interrupted, mut is_keeping) = (false, true);
    loop {
        let input = tokio::select! {
            input = editor.read("> ") => input,
            code = signals.ending() => return Ok(Exit::Code(code)),
        };
        let text = match input {
            EditorInput::Text(text) => text,
            EditorInput::Dropped => {
                // Ctrl-C twice ends the conversation only if nothing was typed in between.
                was_interrupted = false;
                continue;
            }
            EditorInput::Interrupt if was_interrupted => return Ok(Exit::Code(EXIT_INTERRUPTED)),
            EditorInput::Interrupt => {
                was_interrupted = true;
                printer.say("to end the conversation, press Ctrl-C again or Ctrl-D");
                continue;
            }
            EditorInput::End => return Ok(Exit::Done),
            EditorInput::Failed(error) => {
                return Err(Failure::with_cause("failed to read from the terminal", &error));
            }
        };
        was_interrupted = false;
        if text.trim().is_empty() {
            continue;
        }
        // After the first error the history is not written again: one warning is enough.
        if is_keeping && let Err(error) = history::append(home, &text) {
            is_keeping = false;
            printer
                .warn(&format!("failed to write the input history, so further input is not kept: {error}"));
        }
        match ChatCommand::parse(&text) {
            Some(ChatCommand::Quit) => return Ok(Exit::Done),
            Some(ChatCommand::Help) => print_help(&talk),
            Some(ChatCommand::Agent(id)) => {
                // The agent may have been added after this conversation began.
                let now = config::read(home)?;
                editor.know(commands::completion(&now, home));
                let missing =
                    || Failure::new(Kind::Usage, "/agent needs the name of an agent").hint("flock list");
                match id.ok_or_else(missing).and_then(|id| find_agent(&id, &now).cloned()) {
                    Ok(agent) => {
                        talk.question.session = own_session(&agent.id);
                        talk.agent = agent;
                        printer.say(talk.title());
                    }
                    Err(failure) => printer.fail(&failure),
                }
            }
            None => {
                tokio::select! {
                    answer = ask(&talk.question, text, printer) => if let Err(failure) = answer {
                        // A failed turn does not end the conversation.
                        printer.fail(&failure);
                    },
                    _ = interrupts.recv() => printer.say("\nstopped"),
                    code = signals.ending() => return Ok(Exit::Code(code)),
                }
            }
        }
        if printer.closed() {
            return Ok(Exit::Done);
        }
    }
}

fn print_help(talk: &ChatSession<'_>) {
    for (name, about) in commands::ALL.into_iter().chain(commands::KEYS) {
        talk.context.printer.say(format!("{name:<14} {about}"));
    }
}

/// The signals that end the program. Without a handler each of them would leave the terminal in the editor's modes.
struct Signals {
    terminate: Signal,
    hangup: Signal,
    quit: Signal,
}

impl Signals {
    fn listen() -> Result<Self, Failure> {
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            hangup: listen(SignalKind::hangup())?,
            quit: listen(SignalKind::quit())?,
        })
    }

    /// Waits for one of the signals and returns the exit code that a shell would report for it: 128 plus its number.
    async fn ending(&mut self) -> u8 {
        tokio::select! {
            _ = self.terminate.recv() => 143,
            _ = self.hangup.recv() => 129,
            _ = self.quit.recv() => 131,
        }
    }
}

fn listen(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| Failure::with_cause("failed to listen for signals", &error))
}

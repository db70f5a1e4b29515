//! A line editor with history, completion and pasted blocks that stay one message.
//!
//! The editor reads in its own thread, since a read of a terminal can't be cancelled. Between two reads the terminal
//! does not echo: text typed meanwhile does not mix with what is printed, and the next read receives it.

mod completion;
mod terminal;

use std::io::{self, IsTerminal as _};
use std::sync::mpsc as sync;

use rustyline::config::Configurer as _;
use rustyline::error::ReadlineError;
use rustyline::history::{History as _, MemHistory};
use rustyline::{ColorMode, CompletionType, Config};
use tokio::sync::mpsc;

pub(crate) use completion::CompletionWords;
use completion::Helper;
use terminal::TerminalGuard;

use crate::env;

/// One event at the prompt.
#[derive(Debug)]
pub(crate) enum EditorInput {
    /// A text was entered. It has several lines if a block was pasted.
    Text(String),
    /// Ctrl-C was pressed on a line that was not empty. The text is dropped.
    Dropped,
    /// Ctrl-C was pressed on an empty line.
    Interrupt,
    /// Ctrl-D was pressed on an empty line, or the terminal was closed.
    End,
    /// The terminal can't be read any more.
    Failed(io::Error),
}

/// Returns `true` if this process has a terminal that can be edited on.
///
/// Both its input and its output must be a terminal, and the terminal must understand the sequences that move a cursor.
#[must_use]
pub(crate) fn is_supported() -> bool {
    // These are the terminals on which rustyline offers no editing either.
    let plain = env::TERM.get().is_none_or(|term| ["dumb", "cons25", "emacs"].contains(&term.as_str()));
    !plain && io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// A line editor on the terminal of this process. Dropping it restores the terminal's modes.
pub(crate) struct Editor {
    prompts: sync::Sender<EditorRequest>,
    inputs: mpsc::Receiver<EditorInput>,
    screen: TerminalGuard,
}

/// A request to the editor's thread.
enum EditorRequest {
    /// Reads one text after this prompt.
    Read(String),
    /// Replaces the words that Tab completes.
    Know(CompletionWords),
}

impl Editor {
    /// Takes over the terminal and starts the editor's thread. `history` begins with the oldest text.
    ///
    /// # Errors
    ///
    /// Returns an error if the terminal's modes can't be read, or if the thread can't be started.
    pub(crate) fn open(completion: CompletionWords, history: Vec<String>) -> io::Result<Self> {
        // The terminal becomes quiet before the thread exists, so that a failure to start it restores the modes.
        let screen = TerminalGuard::take()?;
        let (prompts, asked) = sync::channel();
        // One slot is enough: a read produces one input, and the next read starts only after that was taken.
        let (sender, inputs) = mpsc::channel(1);
        std::thread::Builder::new().name("editor".to_owned()).spawn(move || {
            let result = run_editor(completion, history, &asked, &sender);
            if let Err(error) = result {
                // Sending fails only if the editor was dropped, and then nobody needs the error.
                let _ = sender.blocking_send(to_input(error));
            }
        })?;
        Ok(Self { prompts, inputs, screen })
    }

    /// Sets the words that Tab completes from now on.
    pub(crate) fn know(&self, completion: CompletionWords) {
        // If the thread has ended, the next read reports it.
        let _ = self.prompts.send(EditorRequest::Know(completion));
    }

    /// Reads one text from the person.
    ///
    /// Drop the future before it is ready only if the editor is dropped next: the thread's read can't be cancelled.
    pub(crate) async fn read(&mut self, prompt: &str) -> EditorInput {
        // rustyline puts back the modes it finds, so it must find the original ones and not the quiet ones.
        self.screen.restore_for_editor();
        let prompt = crate::clean::inline(prompt).into_owned();
        if self.prompts.send(EditorRequest::Read(prompt)).is_err() {
            return EditorInput::Failed(io::Error::other("the editor has ended"));
        }
        let input = self.inputs.recv().await;
        self.screen.quiet();
        input.unwrap_or_else(|| EditorInput::Failed(io::Error::other("the editor has ended")))
    }
}

/// Number of texts that the history keeps.
pub(crate) const MOST_HISTORY: usize = 1000;

fn run_editor(
    completion: CompletionWords,
    history: Vec<String>,
    asked: &sync::Receiver<EditorRequest>,
    inputs: &mpsc::Sender<EditorInput>,
) -> Result<(), ReadlineError> {
    let config = Config::builder()
        .max_history_size(MOST_HISTORY)?
        .history_ignore_space(true)
        .history_ignore_dups(true)?
        .completion_type(CompletionType::List)
        .completion_show_all_if_ambiguous(true)
        // Without forced colours rustyline does not ask the helper how to show a line. The helper adds no colour
        // itself.
        .color_mode(ColorMode::Forced)
        .build();
    let memory = MemHistory::with_config(&config);
    let mut editor = rustyline::Editor::with_history(config, memory)?;
    editor.set_max_history_size(MOST_HISTORY)?;
    for text in history {
        editor.history_mut().add_owned(text)?;
    }
    editor.set_helper(Some(Helper::new(completion)));
    // This loop ends when the editor is dropped, because that closes the channel of requests.
    while let Ok(ask) = asked.recv() {
        let prompt = match ask {
            EditorRequest::Read(prompt) => prompt,
            EditorRequest::Know(completion) => {
                editor.set_helper(Some(Helper::new(completion)));
                continue;
            }
        };
        let input = match editor.readline(prompt.as_str()) {
            Ok(text) => {
                editor.add_history_entry(text.as_str())?;
                EditorInput::Text(text)
            }
            // rustyline reports Ctrl-C without the line that it dropped, so the helper remembers if that was empty.
            Err(ReadlineError::Interrupted) if editor.helper().is_none_or(Helper::is_empty) => {
                EditorInput::Interrupt
            }
            Err(ReadlineError::Interrupted) => EditorInput::Dropped,
            Err(error) => to_input(error),
        };
        // Nobody receives inputs any more: the editor was dropped during the read.
        if inputs.blocking_send(input).is_err() {
            return Ok(());
        }
    }
    Ok(())
}

fn to_input(error: ReadlineError) -> EditorInput {
    match error {
        ReadlineError::Eof => EditorInput::End,
        ReadlineError::Io(error) => EditorInput::Failed(error),
        error => EditorInput::Failed(io::Error::other(error)),
    }
}

//! A line editor: keys, history, completion, and pasted blocks that stay one message.
//!
//! The editor reads in a thread of its own, since a read of a terminal can't be cancelled. Between two reads the
//! terminal is quiet: what is typed meanwhile is not echoed into what is printed, and the next read gets it.

mod helper;
mod screen;

use std::io::{self, IsTerminal as _};
use std::sync::mpsc as sync;

use rustyline::config::Configurer as _;
use rustyline::error::ReadlineError;
use rustyline::history::{History as _, MemHistory};
use rustyline::{ColorMode, CompletionType, Config};
use tokio::sync::mpsc;

pub use helper::Completion;
use helper::Helper;
use screen::Screen;

use crate::env;

/// What a person did at the prompt.
#[derive(Debug)]
pub enum Input {
    /// Entered a text, of several lines where a block was pasted.
    Text(String),
    /// Pressed Ctrl-C where something was typed, which is dropped.
    Dropped,
    /// Pressed Ctrl-C on an empty line.
    Interrupt,
    /// Pressed Ctrl-D on an empty line, or the terminal ended.
    End,
    /// Nothing can be read from the terminal any more.
    Failed(io::Error),
}

/// Whether this process has a terminal that can be edited on: both its input and its output are one, and it
/// understands the sequences that move a cursor.
#[must_use]
pub fn is_possible() -> bool {
    let plain = env::TERM.get().is_none_or(|term| ["dumb", "cons25", "emacs"].contains(&term.as_str()));
    !plain && io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// A line editor on this process' terminal. Dropping it gives the terminal back as it was.
pub struct Editor {
    prompts: sync::Sender<Ask>,
    inputs: mpsc::Receiver<Input>,
    screen: Screen,
}

/// What the thread is asked to do.
enum Ask {
    /// Read, behind this prompt.
    Read(String),
    /// Know other words to complete.
    Know(Completion),
}

impl Editor {
    /// Takes the terminal. `history` has the oldest text first.
    ///
    /// # Errors
    ///
    /// If the terminal can't be set up.
    pub fn open(completion: Completion, history: Vec<String>) -> io::Result<Self> {
        let screen = Screen::take()?;
        let (prompts, asked) = sync::channel();
        let (sender, inputs) = mpsc::channel(1);
        std::thread::Builder::new().name("editor".to_owned()).spawn(move || {
            let result = serve(completion, history, &asked, &sender);
            if let Err(error) = result {
                // The one who waits has gone, or is told.
                let _ = sender.blocking_send(failed(error));
            }
        })?;
        Ok(Self { prompts, inputs, screen })
    }

    /// Completes these words from now on.
    pub fn know(&self, completion: Completion) {
        // A thread that is gone is reported by the next read.
        let _ = self.prompts.send(Ask::Know(completion));
    }

    /// Reads one text. The future may be dropped only where the editor is dropped next: a read can't be taken back.
    pub async fn read(&mut self, prompt: &str) -> Input {
        self.screen.lend();
        let prompt = crate::clean::inline(prompt).into_owned();
        if self.prompts.send(Ask::Read(prompt)).is_err() {
            return Input::Failed(io::Error::other("the editor has ended"));
        }
        let input = self.inputs.recv().await;
        self.screen.quiet();
        input.unwrap_or_else(|| Input::Failed(io::Error::other("the editor has ended")))
    }
}

/// Most texts that can be called back.
pub const MOST_HISTORY: usize = 1000;

fn serve(
    completion: Completion,
    history: Vec<String>,
    asked: &sync::Receiver<Ask>,
    inputs: &mpsc::Sender<Input>,
) -> Result<(), ReadlineError> {
    let config = Config::builder()
        .max_history_size(MOST_HISTORY)?
        .history_ignore_space(true)
        .history_ignore_dups(true)?
        .completion_type(CompletionType::List)
        .completion_show_all_if_ambiguous(true)
        // Without it the helper is not asked how a line is shown. It adds no colour.
        .color_mode(ColorMode::Forced)
        .build();
    let memory = MemHistory::with_config(&config);
    let mut editor = rustyline::Editor::with_history(config, memory)?;
    editor.set_max_history_size(MOST_HISTORY)?;
    for text in history {
        editor.history_mut().add_owned(text)?;
    }
    editor.set_helper(Some(Helper::new(completion)));
    while let Ok(ask) = asked.recv() {
        let prompt = match ask {
            Ask::Read(prompt) => prompt,
            Ask::Know(completion) => {
                editor.set_helper(Some(Helper::new(completion)));
                continue;
            }
        };
        let input = match editor.readline(prompt.as_str()) {
            Ok(text) => {
                editor.add_history_entry(text.as_str())?;
                Input::Text(text)
            }
            Err(ReadlineError::Interrupted) if editor.helper().is_none_or(Helper::is_empty) => {
                Input::Interrupt
            }
            Err(ReadlineError::Interrupted) => Input::Dropped,
            Err(error) => failed(error),
        };
        if inputs.blocking_send(input).is_err() {
            return Ok(());
        }
    }
    Ok(())
}

fn failed(error: ReadlineError) -> Input {
    match error {
        ReadlineError::Eof => Input::End,
        ReadlineError::Io(error) => Input::Failed(error),
        error => Input::Failed(io::Error::other(error)),
    }
}

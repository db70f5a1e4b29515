//! Hears what a program prints while it runs, and tells of it.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::bounds::Bounds;
use super::lines::{Line, Lines};
use super::program::{Ended, Exit, Parser, Said};
use crate::provider::Usage;
use crate::runtime::trace::Trace;
use crate::runtime::{Event, Tell};
use crate::sandbox::Piece;

/// Bytes of standard error that are kept: its end.
const MOST_ERRORS: usize = 8 * 1024;

/// What was seen of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// Something of an answer, or a call of a tool.
    pub begun: bool,
    /// It was said in the middle that it can't end well.
    pub doomed: bool,
    /// What it took, by the program's own word.
    pub usage: Option<Usage>,
}

/// What is written down of a run while it goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// What the program calls the conversation.
    Named(String),
    /// It has what is new: it has begun with it.
    Begun,
}

/// Hears one run of a program.
pub struct Ear<'t> {
    parser: Box<dyn Parser>,
    lines: Lines,
    bounds: Bounds,
    errors: Vec<u8>,
    trace: Trace,
    tell: Tell<'t>,
    note: Box<dyn FnMut(Note) + Send + 't>,
    seen: Seen,
    doomed: Option<String>,
    /// Ends when the run can't end well any more.
    pub doom: CancellationToken,
    /// Since when it has told all that it has to tell, by its own word.
    pub over: watch::Sender<Option<Instant>>,
}

impl<'t> Ear<'t> {
    /// With a reader for it. Tells what happens to `tell`, and what is to be written down to `note`.
    pub fn new(
        parser: Box<dyn Parser>,
        label: &str,
        tell: Tell<'t>,
        note: Box<dyn FnMut(Note) + Send + 't>,
    ) -> Self {
        Self {
            parser,
            lines: Lines::default(),
            bounds: Bounds::default(),
            errors: Vec::new(),
            trace: Trace::new(label),
            tell,
            note,
            seen: Seen::default(),
            doomed: None,
            doom: CancellationToken::new(),
            over: watch::Sender::new(None),
        }
    }

    /// More of what it prints.
    pub fn hear(&mut self, piece: Piece<'_>) {
        match piece {
            Piece::Out(bytes) => {
                let mut lines = std::mem::take(&mut self.lines);
                lines.take(bytes, &mut |line| self.line(line));
                self.lines = lines;
            }
            Piece::Err(bytes) => {
                self.errors.extend_from_slice(bytes);
                let over = self.errors.len().saturating_sub(MOST_ERRORS);
                self.errors.drain(..over);
            }
        }
    }

    /// flock has this to say of it.
    pub fn remark(&mut self, text: String) {
        self.said(Said::Note(text));
    }

    /// flock has counted what the run took: that is told of one that does not say it.
    pub fn counted(&mut self, usage: Usage) {
        if !self.trace.has_usage() && usage != Usage::default() {
            self.trace.said(&Said::Usage(usage), &mut Vec::new());
        }
    }

    /// It has ended with this code, or was stopped because it was doomed.
    #[must_use]
    pub fn end(mut self, code: Option<i32>) -> (Ended, Seen) {
        let mut lines = std::mem::take(&mut self.lines);
        lines.end(&mut |line| self.line(line));
        let stderr = String::from_utf8_lossy(&self.errors).into_owned();
        let ended = match (self.doomed.take(), code) {
            (Some(message), _) => Ended::Failed { status: None, message },
            (None, code) => self.parser.end(&Exit { code: code.unwrap_or(-1), stderr: &stderr }),
        };
        let mut traced = Vec::new();
        self.trace.end(&mut traced);
        traced.into_iter().for_each(|line| (self.tell)(Event::Trace(line)));
        (ended, self.seen)
    }

    fn line(&mut self, line: Line<'_>) {
        let event = match line {
            Line::Event(event) => event,
            Line::Noise(text) => {
                tracing::trace!(text = %crate::clean::inline(text), "a program said something that is no event");
                return;
            }
        };
        tracing::trace!(event = %crate::clean::inline(&event.to_string()), "a program's event");
        let mut said = Vec::new();
        self.parser.line(&event, &mut said);
        if !self.parser.is_over() {
            self.over.send_if_modified(|since| since.take().is_some());
        } else if !said.is_empty() || self.over.borrow().is_none() {
            self.over.send_replace(Some(Instant::now()));
        }
        for said in said {
            self.said(said);
        }
    }

    fn said(&mut self, said: Said) {
        let said = match self.bounds.within(said) {
            Ok(said) => said,
            // It was told so already, and is being stopped.
            Err(_) if self.doomed.is_some() => return,
            Err(why) => Said::Doomed(why),
        };
        let mut traced = Vec::new();
        self.trace.said(&said, &mut traced);
        traced.into_iter().for_each(|line| (self.tell)(Event::Trace(line)));
        match said {
            Said::Conversation(name) => (self.note)(Note::Named(name)),
            Said::Text(text) => self.begun(Event::Text(text)),
            Said::Anew(text) => self.begun(Event::Anew(text)),
            Said::FlockTool => self.begun(Event::FlockTool),
            Said::Thinking(text) => self.begun(Event::Thinking(text)),
            Said::Tool(event) => self.begun(Event::Tool(event)),
            Said::Usage(usage) => self.spent(|spent| *spent = Usage { cost: spent.cost, ..usage }),
            Said::Cost(dollars) => self.spent(|spent| spent.cost = micros(dollars)),
            Said::Doomed(why) => {
                self.seen.doomed = true;
                self.doomed.get_or_insert(why);
                self.doom.cancel();
            }
            // They are in the log of what the agent did.
            Said::Exit { .. }
            | Said::Search(_)
            | Said::Retrying(_)
            | Said::Note(_)
            | Said::ConversationUsage(_) => {}
        }
    }

    /// It has taken this much more: told at once, because nobody knows how the run ends.
    fn spent(&mut self, change: impl FnOnce(&mut Usage)) {
        let spent = self.seen.usage.get_or_insert_default();
        change(spent);
        (self.tell)(Event::Usage(*spent));
    }

    fn begun(&mut self, event: Event) {
        if !std::mem::replace(&mut self.seen.begun, true) {
            (self.note)(Note::Begun);
        }
        (self.tell)(event);
    }
}

/// Ends when a run has been over for this long and has not ended.
pub async fn lingers(mut over: watch::Receiver<Option<Instant>>, grace: Duration) {
    loop {
        let since = *over.borrow_and_update();
        let passed = async {
            match since {
                Some(since) => sleep_until(since + grace).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = over.changed() => if changed.is_err() { return std::future::pending().await },
            () = passed => return,
        }
    }
}

/// Dollars in millionths, rounded up; nothing where that is no amount of money.
fn micros(dollars: f64) -> Option<u64> {
    const MOST: f64 = 1e9;
    // Without this a sum that is off by its last binary digit would be rounded up.
    let micros = (dollars * 1e6 - 1e-6).ceil().max(0.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is looked at first")]
    (0.0..=MOST).contains(&dollars).then_some(micros as u64)
}

//! Listens to the output of a program while it runs, and reports its events.

use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::interface::{Parser, ProgramExit, RunOutcome};
use super::json_lines::{LineSplitter, OutputLine};
use super::output_limits::OutputLimiter;
use crate::provider::Usage;
use crate::runtime::trace::TraceFormatter;
use crate::runtime::{ProgramEvent, RuntimeEvent, RuntimeEventSink};
use crate::sandbox::OutputChunk;

/// The log target of a program's raw output. It is open only if a person asks for raw output, see `ui::log`.
pub const RAW_TARGET: &str = module_path!();
/// Bytes of standard error that are kept, from its end.
const MAX_STDERR: usize = 8 * 1024;
/// Bytes of a line of standard error that are read, from its beginning.
const MAX_ERROR_LINE: usize = 8 * 1024;

/// The observations of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunObservations {
    /// Set once the run has produced a part of an answer, or called a tool.
    pub begun: bool,
    /// Set if the program reported in the middle that it cannot end well.
    pub doomed: bool,
    /// The tokens of the run, by the program's own count.
    pub usage: Option<Usage>,
}

/// Facts about a run that are recorded while it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConversationEvent {
    /// The program's name for the conversation.
    Named(String),
    /// The program has received the new messages and has begun to work on them.
    Begun,
}

/// Listens to one run of a program.
pub struct OutputReader<'t> {
    parser: Box<dyn Parser>,
    /// The standard input of a program that is answered. `None` once it was closed, or if the program is not.
    answers: Option<mpsc::UnboundedSender<Bytes>>,
    lines: LineSplitter,
    bounds: OutputLimiter,
    errors: Vec<u8>,
    /// The line of standard error whose end has not come.
    error_line: Vec<u8>,
    trace: TraceFormatter,
    tell: RuntimeEventSink<'t>,
    note: Box<dyn FnMut(ConversationEvent) + Send + 't>,
    seen: RunObservations,
    doomed: Option<String>,
    /// Cancelled when the run cannot end well any more.
    pub doom: CancellationToken,
    /// The time since which the program has nothing more to report, by its own word. `None` while it works.
    pub over: watch::Sender<Option<Instant>>,
}

impl<'t> OutputReader<'t> {
    /// Makes a listener with a parser for the program. Events go to `tell`, facts that must be recorded to `note`.
    pub fn new(
        parser: Box<dyn Parser>,
        label: &str,
        tell: RuntimeEventSink<'t>,
        note: Box<dyn FnMut(ConversationEvent) + Send + 't>,
    ) -> Self {
        Self {
            parser,
            answers: None,
            lines: LineSplitter::default(),
            bounds: OutputLimiter::default(),
            errors: Vec::new(),
            error_line: Vec::new(),
            trace: TraceFormatter::new(label),
            tell,
            note,
            seen: RunObservations::default(),
            doomed: None,
            doom: CancellationToken::new(),
            over: watch::Sender::new(None),
        }
    }

    /// Answers the program on its standard input.
    #[must_use]
    pub fn with_answers(mut self, answers: Option<mpsc::UnboundedSender<Bytes>>) -> Self {
        self.answers = answers;
        self
    }

    /// Takes more output.
    pub fn hear(&mut self, piece: OutputChunk<'_>) {
        match piece {
            OutputChunk::Out(bytes) => {
                let mut lines = std::mem::take(&mut self.lines);
                lines.take(bytes, &mut |line| self.line(line));
                self.lines = lines;
            }
            OutputChunk::Err(bytes) => {
                // Only the end is kept. It usually names the cause of a failure.
                self.errors.extend_from_slice(bytes);
                let over = self.errors.len().saturating_sub(MAX_STDERR);
                self.errors.drain(..over);
                self.error_lines(bytes);
            }
        }
    }

    /// Adds a note of flock's own about the run.
    pub fn add_note(&mut self, text: String) {
        self.said(ProgramEvent::Note(text));
    }

    /// Adds flock's own token count to the log, if the program did not report one.
    pub fn counted(&mut self, usage: Usage) {
        if !self.trace.has_usage() && usage != Usage::default() {
            self.trace.said(&ProgramEvent::Usage(usage), &mut Vec::new());
        }
    }

    /// Ends the run with its exit code, or `None` if it was stopped because it could not end well.
    #[must_use]
    pub fn end(mut self, code: Option<i32>) -> (RunOutcome, RunObservations) {
        let mut lines = std::mem::take(&mut self.lines);
        lines.end(&mut |line| self.line(line));
        let stderr = String::from_utf8_lossy(&self.errors).into_owned();
        let ended = match (self.doomed.take(), code) {
            // The reason that stopped the run is better than anything the killed program printed.
            (Some(message), _) => RunOutcome::Failed { status: None, message },
            (None, code) => self.parser.end(&ProgramExit { code: code.unwrap_or(-1), stderr: &stderr }),
        };
        let mut traced = Vec::new();
        self.trace.end(&mut traced);
        traced.into_iter().for_each(|line| (self.tell)(RuntimeEvent::Trace(line)));
        (ended, self.seen)
    }

    /// Passes complete lines of standard error to the parser.
    fn error_lines(&mut self, bytes: &[u8]) {
        let mut said = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let room = MAX_ERROR_LINE.saturating_sub(self.error_line.len());
            self.error_line.extend_from_slice(&piece[..piece.len().min(room)]);
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut self.error_line);
                self.parser.error_line(String::from_utf8_lossy(&line).trim_end(), &mut said);
            }
        }
        for said in said {
            self.said(said);
        }
    }

    fn line(&mut self, line: OutputLine<'_>) {
        let event = match line {
            OutputLine::Event(event) => event,
            OutputLine::Noise(text) => {
                tracing::trace!(
                    target: RAW_TARGET,
                    text = %crate::clean::inline(text),
                    "a program said something that is no event"
                );
                return;
            }
        };
        tracing::trace!(
            target: RAW_TARGET,
            event = %crate::clean::inline(&event.to_string()),
            "a program's event"
        );
        let mut said = Vec::new();
        self.parser.line(&event, &mut said);
        self.answer();
        if !self.parser.is_over() {
            // More output after the end: a program may begin another step.
            self.over.send_if_modified(|since| since.take().is_some());
        } else if !said.is_empty() || self.over.borrow().is_none() {
            // Each new report restarts the grace period.
            self.over.send_replace(Some(Instant::now()));
        }
        for said in said {
            self.said(said);
        }
    }

    /// Writes what the parser answers. When the run is over, the program's standard input ends.
    fn answer(&mut self) {
        let Some(answers) = &self.answers else { return };
        for reply in self.parser.replies() {
            // A program that has ended reads no more.
            drop(answers.send(Bytes::from(reply + "\n")));
        }
        if self.parser.is_over() {
            self.answers = None;
        }
    }

    fn said(&mut self, said: ProgramEvent) {
        let said = match self.bounds.within(said) {
            Ok(said) => said,
            // This was reported before, and the program is being stopped.
            Err(_) if self.doomed.is_some() => return,
            Err(why) => ProgramEvent::WillFail(why),
        };
        let mut traced = Vec::new();
        self.trace.said(&said, &mut traced);
        traced.into_iter().for_each(|line| (self.tell)(RuntimeEvent::Trace(line)));
        match said {
            ProgramEvent::Conversation(name) => (self.note)(ConversationEvent::Named(name)),
            ProgramEvent::Text(text) => self.begun(RuntimeEvent::Text(text)),
            ProgramEvent::Replaced(text) => self.begun(RuntimeEvent::Replaced(text)),
            ProgramEvent::FlockTool => self.begun(RuntimeEvent::FlockTool),
            ProgramEvent::Thinking(text) => self.begun(RuntimeEvent::Thinking(text)),
            ProgramEvent::Tool(event) => self.begun(RuntimeEvent::Tool(event)),
            ProgramEvent::Usage(usage) => self.spent(|spent| *spent = Usage { cost: spent.cost, ..usage }),
            ProgramEvent::Cost(dollars) => self.spent(|spent| spent.cost = micros(dollars)),
            ProgramEvent::WillFail(why) => {
                self.seen.doomed = true;
                self.doomed.get_or_insert(why);
                self.doom.cancel();
            }
            // These are only in the log of the agent's actions.
            ProgramEvent::Exit { .. }
            | ProgramEvent::Search(_)
            | ProgramEvent::Retrying(_)
            | ProgramEvent::Note(_)
            | ProgramEvent::ConversationUsage(_) => {}
        }
    }

    /// Reports new token counts at once, because nobody knows how the run will end.
    fn spent(&mut self, change: impl FnOnce(&mut Usage)) {
        let spent = self.seen.usage.get_or_insert_default();
        change(spent);
        (self.tell)(RuntimeEvent::Usage(*spent));
    }

    fn begun(&mut self, event: RuntimeEvent) {
        if !std::mem::replace(&mut self.seen.begun, true) {
            (self.note)(ConversationEvent::Begun);
        }
        (self.tell)(event);
    }
}

/// Returns when a run has been over for the time `grace` and the program has not exited.
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
            // A closed channel means that the run has ended in another way.
            changed = over.changed() => if changed.is_err() { return std::future::pending().await },
            () = passed => return,
        }
    }
}

/// Converts dollars to millionths, rounded up. Returns `None` for a value that is not an amount of money.
fn micros(dollars: f64) -> Option<u64> {
    const MOST: f64 = 1e9;
    // Without this, a sum that is wrong in its last binary digit would be rounded up.
    let micros = (dollars * 1e6 - 1e-6).ceil().max(0.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is looked at first")]
    (0.0..=MOST).contains(&dollars).then_some(micros as u64)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

    use super::*;
    use crate::runtime::program::PROGRAMS;
    use crate::runtime::program::interface::ConversationStart;

    /// A log that keeps the target of each event.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<String>>>);

    impl<S: tracing::Subscriber> Layer<S> for Log {
        fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
            self.0.lock().unwrap().push(event.metadata().target().to_owned());
        }
    }

    #[test]
    fn what_a_program_says_is_logged_under_the_target_that_the_log_closes() {
        let log = Log::default();
        let subscriber = tracing_subscriber::registry().with(log.clone());
        tracing::subscriber::with_default(subscriber, || {
            let parser = PROGRAMS[0].parser(ConversationStart::Resumed("x"));
            let mut tell = |_: RuntimeEvent| {};
            let mut ear = OutputReader::new(parser, "coder", &mut tell, Box::new(|_| {}));
            ear.hear(OutputChunk::Out(b"{\"type\": \"system\"}\nno event\n"));
            drop(ear.end(Some(0)));
        });
        let targets = log.0.lock().unwrap().clone();
        assert_eq!(targets, [RAW_TARGET; 2]);
    }
}

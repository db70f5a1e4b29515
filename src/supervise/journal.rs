//! The supervisor's own log, with one line for each decision.

use crate::home::Home;
use crate::home::log::{Log, RotationLimits};

/// A callback that also receives each line.
pub type Echo<'a> = Box<dyn FnMut(&str) + 'a>;

/// A writer for the supervisor's log.
pub struct Journal<'a> {
    log: Log,
    echo: Option<Echo<'a>>,
}

impl<'a> Journal<'a> {
    /// Opens the log of a home. Each line is also passed to `echo`.
    #[must_use]
    pub fn new(home: &Home, echo: Option<Echo<'a>>) -> Self {
        let cap = RotationLimits { bytes: 1 << 20, files: 2 };
        Self { log: Log::new(home.log(super::SUPERVISOR), cap), echo }
    }

    /// Writes one line, with the time in front.
    pub fn note(&mut self, text: &str) {
        // Part of the text comes from other processes; a line break in it must not forge a line of the log.
        let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let line = format!("{} {clean}\n", jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ"));
        // Supervision continues even if the log can't be written.
        let _ = self.log.append(line.as_bytes());
        if let Some(echo) = &mut self.echo {
            echo(&clean);
        }
    }
}

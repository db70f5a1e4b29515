//! The supervisor's own log: a line for each thing it decides.

use crate::home::Home;
use crate::home::log::{Cap, Log};

/// Somebody who wants to hear each line of the journal as well.
pub type Echo<'a> = Box<dyn FnMut(&str) + 'a>;

/// Writes the supervisor's log, and tells it to whoever holds the supervisor in the foreground.
pub struct Journal<'a> {
    log: Log,
    echo: Option<Echo<'a>>,
}

impl<'a> Journal<'a> {
    /// The journal of a home; each line also goes to `echo`.
    #[must_use]
    pub fn new(home: &Home, echo: Option<Echo<'a>>) -> Self {
        let cap = Cap { bytes: 1 << 20, files: 2 };
        Self { log: Log::new(home.log(super::SUPERVISOR), cap), echo }
    }

    /// Writes one line.
    pub fn note(&mut self, text: &str) {
        let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let line = format!("{} {clean}\n", jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ"));
        // Where the log can't be written, supervision goes on without it.
        let _ = self.log.append(line.as_bytes());
        if let Some(echo) = &mut self.echo {
            echo(&clean);
        }
    }
}

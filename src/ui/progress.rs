//! The progress of long work.
//!
//! On a terminal it is a bar that disappears at the end. Elsewhere it is a line at the start and one for each step. In
//! both cases one line remains at the end, with the result and the time it took.

use std::io::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::clean;

/// Long work that is running. If it is dropped before [`Progress::done`], it prints no success.
#[derive(Debug)]
pub(crate) struct Progress {
    what: String,
    started: Instant,
    shown: Renderer,
}

#[derive(Debug)]
enum Renderer {
    Bar(ProgressBar),
    Lines(Mutex<String>),
    Nothing,
}

impl Progress {
    pub(super) fn new(what: &str, bars: Option<&MultiProgress>, silent: bool) -> Self {
        let what = clean::inline(what).into_owned();
        let shown = if silent {
            Renderer::Nothing
        } else if let Some(bars) = bars {
            let bar = bars.add(ProgressBar::new_spinner());
            bar.set_style(style(SPINNER));
            bar.set_prefix(what.clone());
            bar.enable_steady_tick(Duration::from_millis(120));
            Renderer::Bar(bar)
        } else {
            // The bars exist only on a terminal. A log file gets the start of the work instead.
            print_line(&format!("{what} ..."));
            Renderer::Lines(Mutex::new(String::new()))
        };
        Self { what, started: Instant::now(), shown }
    }

    /// Shows the current step. Plain lines show each step once.
    pub(crate) fn step(&self, text: &str) {
        let text = clean::inline(text);
        match &self.shown {
            Renderer::Bar(bar) => bar.set_prefix(format!("{}: {text}", self.what)),
            Renderer::Lines(last) => {
                let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
                // Callers may repeat a step in a loop, for example for each chunk of a download.
                if *last != text {
                    print_line(&format!("  {text}"));
                    *last = text.into_owned();
                }
            }
            Renderer::Nothing => {}
        }
    }

    /// Shows the current small item, such as a file. Plain lines omit it.
    pub(crate) fn detail(&self, text: &str) {
        if let Renderer::Bar(bar) = &self.shown {
            bar.set_message(clean::inline(text).into_owned());
        }
    }

    /// Shows how much of the work is done. Plain lines omit it.
    pub(crate) fn at(&self, done: u64, of: u64) {
        if let Renderer::Bar(bar) = &self.shown {
            // The amount of work is often known only later: until then the bar is a spinner.
            if bar.length() != Some(of) {
                bar.set_style(style(BAR));
                bar.set_length(of);
            }
            bar.set_position(done);
        }
    }

    /// Ends the work and prints one line with the summary and the time it took.
    pub(crate) fn done(self, summary: &str) {
        let text = format!("{} in {}", clean::inline(summary), span(self.started.elapsed()));
        match &self.shown {
            Renderer::Bar(bar) => {
                // The bar goes first, or its last state would remain above the summary.
                bar.finish_and_clear();
                print_line(&text);
            }
            Renderer::Lines(_) => print_line(&text),
            Renderer::Nothing => {}
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Renderer::Bar(bar) = &self.shown {
            bar.finish_and_clear();
        }
    }
}

/// Formats a duration for people, such as `38s` or `2m 05s`.
#[must_use]
pub(crate) fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 => format!("{}ms", time.as_millis()),
        1..60 => format!("{seconds}s"),
        _ => format!("{}m {:02}s", seconds / 60, seconds % 60),
    }
}

const SPINNER: &str = "{spinner} {prefix} {wide_msg:.dim} {elapsed}";
const BAR: &str = "{spinner} {prefix} {bar:24} {percent}% {wide_msg:.dim} {elapsed}";

fn print_line(text: &str) {
    // If stderr is gone, nobody can be told.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}

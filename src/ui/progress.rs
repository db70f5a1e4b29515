//! Progress of long work. On a terminal a bar that goes away; elsewhere a line when it starts, one for each
//! step, and one when it ends. Either way one line is left that says what was done and how long it took.

use std::io::Write as _;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::clean;

/// Long work under way. Dropped before [`Progress::done`], it leaves no claim of success.
#[derive(Debug)]
pub struct Progress {
    what: String,
    started: Instant,
    shown: Shown,
}

#[derive(Debug)]
enum Shown {
    Bar(ProgressBar),
    Lines(Mutex<String>),
    Nothing,
}

impl Progress {
    pub(super) fn new(what: &str, bars: Option<&MultiProgress>, silent: bool) -> Self {
        let what = clean::inline(what).into_owned();
        let shown = if silent {
            Shown::Nothing
        } else if let Some(bars) = bars {
            let bar = bars.add(ProgressBar::new_spinner());
            bar.set_style(style(SPINNER));
            bar.set_prefix(what.clone());
            bar.enable_steady_tick(Duration::from_millis(120));
            Shown::Bar(bar)
        } else {
            say(&format!("{what} ..."));
            Shown::Lines(Mutex::new(String::new()))
        };
        Self { what, started: Instant::now(), shown }
    }

    /// Says what it is doing now; plain lines show each step once.
    pub fn step(&self, text: &str) {
        let text = clean::inline(text);
        match &self.shown {
            Shown::Bar(bar) => bar.set_prefix(format!("{}: {text}", self.what)),
            Shown::Lines(last) => {
                let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
                if *last != text {
                    say(&format!("  {text}"));
                    *last = text.into_owned();
                }
            }
            Shown::Nothing => {}
        }
    }

    /// Says which of many small things it is at; plain lines show nothing of that.
    pub fn detail(&self, text: &str) {
        if let Shown::Bar(bar) = &self.shown {
            bar.set_message(clean::inline(text).into_owned());
        }
    }

    /// Says how much of it is done; plain lines show nothing of that.
    pub fn at(&self, done: u64, of: u64) {
        if let Shown::Bar(bar) = &self.shown {
            if bar.length() != Some(of) {
                bar.set_style(style(BAR));
                bar.set_length(of);
            }
            bar.set_position(done);
        }
    }

    /// Ends it, leaving one line: the summary and the time it took.
    pub fn done(self, summary: &str) {
        let text = format!("{} in {}", clean::inline(summary), span(self.started.elapsed()));
        match &self.shown {
            Shown::Bar(bar) => {
                bar.finish_and_clear();
                say(&text);
            }
            Shown::Lines(_) => say(&text),
            Shown::Nothing => {}
        }
    }

    /// What it is about.
    #[must_use]
    pub fn what(&self) -> &str {
        &self.what
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Shown::Bar(bar) = &self.shown {
            bar.finish_and_clear();
        }
    }
}

/// A time for people, as in `38s` or `2m 05s`.
#[must_use]
pub fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 => format!("{}ms", time.as_millis()),
        1..60 => format!("{seconds}s"),
        _ => format!("{}m {:02}s", seconds / 60, seconds % 60),
    }
}

const SPINNER: &str = "{spinner} {prefix} {wide_msg:.dim} {elapsed}";
const BAR: &str = "{spinner} {prefix} {bar:24} {percent}% {wide_msg:.dim} {elapsed}";

fn say(text: &str) {
    // Where stderr is gone there is nobody left to tell.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}

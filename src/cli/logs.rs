//! `flock logs`: shows the logs of the gateway, OpenClaw and the supervisor.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Context, Exit, Failure};
use crate::supervise::SUPERVISOR;
use crate::supervise::log_follower::LogFollower;
use crate::supervise::log_line::LogLine;
use crate::supervise::unit::{GATEWAY, OPENCLAW};

/// Show the log of the gateway, of OpenClaw or of the supervisor
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Log to show
    #[arg(value_enum, value_name = "LOG", default_value_t = LogName::Gateway)]
    whose: LogName,
    /// Print new lines as they are written, also after a rotation
    #[arg(short, long)]
    follow: bool,
    /// Number of lines to show, from the end of the log
    #[arg(short = 'n', long, value_name = "NUMBER", default_value_t = 100)]
    lines: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum LogName {
    Gateway,
    Openclaw,
    Supervisor,
}

impl LogName {
    const fn name(self) -> &'static str {
        match self {
            Self::Gateway => GATEWAY,
            Self::Openclaw => OPENCLAW,
            Self::Supervisor => SUPERVISOR,
        }
    }
}

/// Prints the last lines of the log, and with `--follow` every new one.
///
/// # Errors
///
/// Returns an error if there is no home, or if the log can't be read.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let home = context.home()?;
    let name = args.whose.name();
    let path = home.log(name);
    let unreadable =
        |error: &std::io::Error| Failure::with_cause(format!("failed to read {}", path.display()), error);
    // The position at the end is taken together with the lines, so that no line is shown twice or lost in between.
    let (mut follower, lines) = LogFollower::at_end(&path, args.lines).map_err(|error| unreadable(&error))?;
    if lines.is_empty() && !args.follow {
        context.printer.say(format!("the {name} has written nothing yet"));
    }
    print_lines(&lines, name, context);
    while args.follow && !context.printer.closed() {
        let lines = follower.more().map_err(|error| unreadable(&error))?;
        print_lines(&lines, name, context);
        if lines.is_empty() {
            // A blocking read does not wait for a file to grow. A look costs a few microseconds, so no watcher is used.
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    Ok(Exit::Done)
}

fn print_lines(lines: &[String], name: &str, context: &Context) {
    for line in lines {
        if context.printer.is_json() {
            context.printer.json_line(&line_json(line, name));
        } else {
            context.printer.line(line.as_str());
        }
    }
}

/// Returns a log line for programs: `{"log","at","level","text"}`. Time and level are null if the line has none.
fn line_json(line: &str, name: &str) -> Value {
    let line = LogLine::parse(line);
    json!({"log": name, "at": line.at, "level": line.level, "text": line.text})
}

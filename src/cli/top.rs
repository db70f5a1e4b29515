//! `flock top`: the team on the terminal, as it works.
//!
//! `state` decides what a key, an answer or an event does. `draw` makes a frame of a state. `screen_loop` has the
//! effects: it reads keys, asks the gateway and runs other verbs. `snapshot` reads the routes.

mod draw;
mod screen_loop;
mod snapshot;
mod state;

use super::reconnect::Reconnector;
use super::{Context, Exit, Failure, team};
use crate::env;
use crate::error::Kind;
use crate::ui::screen::{Mouse, Screen};

/// Watch the team on the terminal, as it works
///
/// Shows each agent with its state, sandbox and cost of today, and what waits or is out of order. Keys freeze agents,
/// open a chat or a channel, and show and approve requests; `?` lists them. With --json, prints the state once.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Select with the mouse, and scroll with its wheel
    ///
    /// Text on the screen is then marked with Shift held down, in most terminals.
    #[arg(long)]
    mouse: bool,
}

/// Shows the team until the person quits, or prints it once as JSON.
///
/// # Errors
///
/// Returns an error if there is no home or no terminal, or, with `--json`, if the gateway is not running.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let home = context.home()?;
    if context.printer.is_json() {
        let read = async {
            let gateway = Reconnector::new(&home, context).gateway().await?.ok_or_else(team::not_running)?;
            Ok(snapshot::read(&gateway).await?)
        };
        let value = context.block_on(read)?;
        context.printer.json(&value);
        return Ok(Exit::Done);
    }
    if env::TERM.get().is_none_or(|term| term == "dumb") || !Screen::is_there() {
        let text = "there is no terminal to draw on; use --json, or flock status";
        return Err(Failure::new(Kind::Usage, text).hint("flock top --json"));
    }
    let mouse = if args.mouse { Mouse::Reported } else { Mouse::Left };
    context.block_on(screen_loop::run(&home, context, mouse))
}

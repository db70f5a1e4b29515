//! `flock doctor`: looks at everything flock needs and says of each thing that is not well what mends it.
//! It changes nothing.

mod check;
mod engine;
mod machine;
mod mounts;
mod setup;

use serde_json::json;

use super::{Context, Exit, Failure};
use crate::config::{self, Config};
use crate::error::Kind;
use crate::sandbox::engine::Engine;
use crate::ui::{Line, Tone};
use check::{Check, State};

/// Look for what is broken, and say what mends it
///
/// Looks at the home, its configuration, granted folders, the engine, images, package store, gateway, ports,
/// PATH, provider keys, and the other program named flock. Ends with 1 if something is broken.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs every check.
///
/// # Errors
///
/// If there is no place for a home. What the checks find is no error of this kind: the exit code says it.
pub fn run(_args: &Args, context: &Context) -> Result<Exit, Failure> {
    let home = context.place()?;
    let mut checks = vec![setup::home(&home)];
    let config: Option<Config> =
        home.config().exists().then(|| config::read(&home)).and_then(|read| match read {
            Ok(config) => {
                checks.push(setup::config(&home, &config));
                Some(config)
            }
            Err(error) => {
                checks.push(Check::failed("config", error.into()));
                None
            }
        });
    if let Some(config) = &config {
        checks.extend(setup::unused(&home));
        checks.extend(setup::unbound(config));
        checks.extend(setup::idle_effort(config));
        checks.extend(setup::models(&home, config));
        checks.extend(mounts::all(&home, config, Engine::from_env().socket()));
    }
    checks.extend(context.block_on(async {
        let mut found = engine::all(&home, config.as_ref()).await;
        if let Some(config) = &config {
            found.push(machine::gateway(&home, config).await);
            found.extend(Box::pin(setup::openclaw(&home, config)).await);
        }
        found.extend(setup::programs(config.as_ref()).await);
        Ok(found)
    })?);
    checks.extend([machine::path(), machine::other_flock(), machine::space(&home)]);

    let broken = checks.iter().any(|check| check.state == State::Bad);
    if context.printer.json_wanted() {
        context.printer.json(&json!({"ok": !broken, "checks": checks}));
    } else {
        checks.iter().for_each(|check| show(check, context));
    }
    Ok(if broken { Exit::Failed(Kind::Failed) } else { Exit::Done })
}

fn show(check: &Check, context: &Context) {
    let (tone, word) = match check.state {
        State::Ok => (Tone::Good, "ok  "),
        State::Warn => (Tone::Warn, "warn"),
        State::Bad => (Tone::Bad, "bad "),
    };
    let line = Line::new().with(tone, word).plain(format!("  {:<8}  ", check.name));
    context.printer.line(line.plain(check.message.clone()));
    if let Some(mend) = &check.mend {
        context.printer.line(Line::new().plain("                ").accent(mend.clone()));
    }
}

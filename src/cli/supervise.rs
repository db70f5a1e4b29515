//! `flock supervise`: the supervisor itself. People use `flock start`, which runs it.

use std::sync::Arc;

use super::{Context, Exit, Failure, openclaw};
use crate::home::Home;
use crate::home::lock::Lock;
use crate::supervise::journal::{Echo, Journal};
use crate::supervise::launch::{self, LaunchReport};
use crate::supervise::restart::SupervisionLimits;
use crate::supervise::task::{self, SupervisorConfig};
use crate::supervise::unit::GatewayUnit;

/// Keep the gateway running; `flock start` does this in the background
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Start a supervisor in its own session, and exit
    #[arg(long)]
    detach: bool,
}

/// Supervises until it is told to stop.
///
/// # Errors
///
/// Returns an error if it can't begin. It first writes a report to stdout, which `flock start` waits for.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let home = context.home()?;
    if args.detach {
        launch::detach(&home).map_err(|error| {
            Failure::with_cause("failed to start the supervisor in the background", &error)
        })?;
        return Ok(Exit::Done);
    }
    context.block_on(async {
        // The lock comes first: only its holder may write the home's run files.
        match launch::claim(&home).await {
            Ok(Some(lock)) => match plan(&home, None, false) {
                Ok(plan) => Ok(task::run(plan, lock, || launch::report(&LaunchReport::Listening)).await?),
                Err(failure) => Err(report_refusal(failure)),
            },
            Ok(None) => {
                // Another supervisor holds the lock. `flock start` then uses that one.
                launch::report(&LaunchReport::Held);
                Ok(())
            }
            Err(error) => Err(report_refusal(error.into())),
        }
    })?;
    Ok(Exit::Done)
}

/// Supervises in this process until it is told to stop, for a service manager.
///
/// # Errors
///
/// Returns an error if it can't begin, or if a supervised process has failed for good.
pub(crate) async fn foreground(home: &Home, lock: Lock, context: &Context) -> Result<(), Failure> {
    let echo: Echo<'_> = Box::new(|line| context.printer.say(line));
    Ok(task::run(plan(home, Some(echo), true)?, lock, || {}).await?)
}

fn plan<'a>(home: &Home, echo: Option<Echo<'a>>, foreground: bool) -> Result<SupervisorConfig<'a>, Failure> {
    let program = launch::program()
        .map_err(|error| Failure::with_cause("failed to find the program's own file", &error))?;
    let gateway = GatewayUnit::new(home.clone(), program)?;
    Ok(SupervisorConfig {
        home: home.clone(),
        units: vec![Arc::new(gateway), Arc::new(openclaw::unit(home)?)],
        limits: SupervisionLimits::default(),
        journal: Journal::new(home, echo),
        foreground,
    })
}

fn report_refusal(failure: Failure) -> Failure {
    launch::report(&LaunchReport::Failed {
        code: failure.kind.code().to_owned(),
        message: failure.text(),
        hint: failure.hint.clone(),
    });
    failure
}

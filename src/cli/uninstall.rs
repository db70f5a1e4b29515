//! `flock uninstall`: removes flock from the machine, or OpenClaw from the home.
//!
//! It first collects what exists (`facts`), then decides what to do and shows it (`plan`), and then does it step by
//! step (`steps`). If it is killed at any point, the next call finds the rest and continues.

mod facts;
mod plan;
mod show;
mod steps;

use clap::ValueEnum;

use super::{Context, Exit, Failure};
use crate::error::Kind;
use crate::home::Home;
use plan::{UninstallPlan, UninstallRequest, UninstallStep};
use steps::UninstallLocks;

/// Remove flock from this machine, or OpenClaw from the home
///
/// Stops everything of the home. Removes its service, containers, volumes and images, OpenClaw, logs, and the files of
/// running processes. Workspaces, transcripts, configuration, keys and database stay, unless --purge is given. Shows
/// what it will do, and asks first. Safe to run again after any interruption.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Part to remove [default: everything]
    #[arg(value_enum, value_name = "PART")]
    pub what: Option<UninstallTarget>,
    /// Also delete what people and agents made: workspaces, transcripts, configuration, keys, database
    #[arg(long)]
    pub purge: bool,
    /// Remove OpenClaw even if agents run on it
    #[arg(long, requires = "what")]
    pub force: bool,
    /// Show what would be removed, and remove nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// A part that can be removed by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum UninstallTarget {
    /// The OpenClaw gateway and its sandboxes; flock's own gateway keeps running
    Openclaw,
}

/// Removes what was asked for.
///
/// # Errors
///
/// Returns an error if a newer flock made the home, if agents need what is to be removed, or if the person did not
/// agree. Failed steps are reported and decide the exit code.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let home = context.place()?;
    let request = UninstallRequest { openclaw: args.what.is_some(), purge: args.purge, force: args.force };
    let found = context.block_on(facts::gather(&home))?;
    let plan = plan::plan(home.root(), &found, request)?;
    let report = show::UninstallReport { home: &home, request, plan: &plan, dry_run: args.dry_run };
    if args.dry_run {
        report.planned(context);
        return Ok(Exit::Done);
    }
    // An empty plan is not worth a question.
    if plan.is_idle() {
        return Ok(report.done(&[], context));
    }
    if !context.yes() {
        agree(args, &report, context)?;
    }
    let troubles = context.block_on(carry_out(&plan, &home, context))?;
    Ok(report.done(&troubles, context))
}

fn agree(args: &Args, report: &show::UninstallReport<'_>, context: &Context) -> Result<(), Failure> {
    let mut line = "flock uninstall".to_owned();
    line.push_str(if args.what.is_some() { " openclaw" } else { "" });
    line.push_str(if args.purge { " --purge" } else { "" });
    let text = format!("removing must be confirmed; `{line} --dry-run` shows what would be removed");
    if context.may_ask() {
        report.asked(context);
    }
    let question = if args.purge { "Remove all this for good?" } else { "Remove this?" };
    let unasked = Failure::new(Kind::Usage, text).hint(format!("{line} --yes"));
    context.confirm(question, unasked, "nothing was removed")
}

/// A step that failed.
pub(crate) struct FailedStep {
    /// The description of the step.
    pub what: String,
    /// The reason, and the command that repairs it.
    pub failure: Failure,
}

/// Carries out all steps that can be done. A failed step does not stop the ones that do not depend on it.
async fn carry_out(plan: &UninstallPlan, home: &Home, context: &Context) -> Result<Vec<FailedStep>, Failure> {
    let mut held = UninstallLocks::default();
    held.unfinished = !plan.unseen.is_empty();
    let mut troubles: Vec<FailedStep> = Vec::new();
    let mut restless = false;
    for step in &plan.steps {
        let what = show::named(step);
        // A process that could not be stopped would write the files again, or lose what it has open.
        if restless && step.needs_stopped_home() {
            let failure = Failure::new(Kind::Failed, "not begun: something still runs").hint("flock stop");
            troubles.push(FailedStep { what, failure });
            continue;
        }
        // A small step is not worth a line.
        let progress = show::is_shown(step).then(|| context.printer.progress(&what));
        match Box::pin(steps::carry_out(step, home, &mut held)).await {
            Ok(()) => {
                if let Some(progress) = progress {
                    progress.done(&show::past(step));
                }
            }
            Err(failure) => {
                drop(progress);
                restless |= matches!(step, UninstallStep::Stop { .. } | UninstallStep::StopOpenClaw);
                held.unfinished = true;
                troubles.push(FailedStep { what, failure });
            }
        }
    }
    Ok(troubles)
}

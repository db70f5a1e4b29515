//! The part of `flock init` that installs OpenClaw.

use super::super::install_progress::InstallProgress;
use super::super::{Context, Failure, update};
use super::{Args, GatewayChoice};
use crate::error::Kind;
use crate::home::Home;
use crate::install::{InstallEvent, InstalledVersion, versions};
use crate::openclaw::update::INIT;
use crate::ui::{StyledLine, TextStyle};

/// The question to the person, with what OpenClaw needs.
pub(crate) const QUESTION: &str = "Add the OpenClaw gateway as well? It is cloned and built on this machine. This needs a \
                            suitable Node, 8 GB of memory, 10 GB of disk and ten minutes or more. The native \
                            gateway needs none of this.";

/// Checks that the options fit together.
///
/// # Errors
///
/// Returns an error if a repository or a reference is given without `--gateway openclaw`.
pub(crate) fn check(args: &Args) -> Result<(), Failure> {
    if args.gateway != Some(GatewayChoice::Openclaw) && (args.repo.is_some() || args.reference.is_some()) {
        let text = "--repo and --ref are for the OpenClaw gateway";
        return Err(
            Failure::new(Kind::Usage, text).hint("flock init --gateway openclaw --repo URL --ref REF")
        );
    }
    Ok(())
}

/// Installs OpenClaw if it was asked for and puts it in use. Returns the version that is in use afterwards.
///
/// # Errors
///
/// Returns the error of the step that failed. The home is complete without OpenClaw, and the next call continues.
pub(crate) fn install(
    args: &Args,
    asked: bool,
    home: &Home,
    context: &Context,
) -> Result<Option<InstalledVersion>, Failure> {
    if args.gateway != Some(GatewayChoice::Openclaw) && !asked {
        return Ok(versions::current(home));
    }
    let shown = InstallProgress::new(context, "OpenClaw");
    let events = |event: InstallEvent<'_>| shown.event(&event);
    let installed = update::begin(home, context, &events, INIT)?
        .install(args.repo.as_deref(), args.reference.as_deref())?;
    Ok(Some(update::report::installed(installed, context)))
}

/// Prints the version that is in use.
pub(crate) fn report(version: &InstalledVersion, context: &Context) {
    context.printer.line(StyledLine::new().plain("  openclaw ").with(TextStyle::Accent, version.to_string()));
}

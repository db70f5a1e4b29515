//! The part of `flock init` that installs OpenClaw.

use super::super::install_progress::{InstallProgress, named};
use super::super::{Context, Failure, update};
use super::{Args, GatewayChoice};
use crate::config;
use crate::error::Kind;
use crate::home::Home;
use crate::install::{self, InstallLock, InstalledVersion, Wanted, swap, versions};
use crate::openclaw::{OpenClawError, port};
use crate::ui::{StyledLine, TextStyle};

/// The question to the person, with what OpenClaw needs.
pub const QUESTION: &str = "Add the OpenClaw gateway as well? It is cloned and built on this machine. This needs a \
                            suitable Node, 8 GB of memory, 10 GB of disk and ten minutes or more. The native \
                            gateway needs none of this.";

/// Checks that the options fit together.
///
/// # Errors
///
/// Returns an error if a repository or a reference is given without `--gateway openclaw`.
pub fn check(args: &Args) -> Result<(), Failure> {
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
pub fn install(
    args: &Args,
    asked: bool,
    home: &Home,
    context: &Context,
) -> Result<Option<InstalledVersion>, Failure> {
    if args.gateway != Some(GatewayChoice::Openclaw) && !asked {
        return Ok(versions::current(home));
    }
    // The installer holds a lock, so that two installs can't work in the same folders.
    let installer = InstallLock::begin(home)?;
    let named = (args.repo.as_deref(), args.reference.as_deref());
    if versions::current(home).is_some() {
        // The installed version may be serving agents, so its replacement goes through an update, which tries it first.
        assign_port(home)?;
        if let Some(version) = update::install(&installer, home, named, context)? {
            return Ok(Some(version));
        }
    }
    let settings = config::read(home)?.openclaw;
    let wanted = Wanted::choose(named.0, named.1, &settings, versions::current(home).as_ref());
    let shown = InstallProgress::new(context);
    let version = install::prepare(&installer, home, &wanted, &|event| shown.event(&event))?;
    shown.end();
    // The port is configured before the version is in use, because its first start already needs the port.
    assign_port(home)?;
    swap(&installer, home, &version)?;
    update::tidy(&installer, home, context, None);
    Ok(Some(version))
}

/// Chooses a free port for OpenClaw's gateway if none is configured. It is stored, so that every later start has the
/// same.
fn assign_port(home: &Home) -> Result<(), Failure> {
    let config = config::read(home)?;
    if config.openclaw.port.is_some() {
        return Ok(());
    }
    let port = port::choose(&config).ok_or(OpenClawError::NoPort)?;
    config::edit(home, |document| {
        port::set(document, port);
        Ok::<_, config::ConfigError>(())
    })?;
    Ok(())
}

/// Prints the version that is in use.
pub fn report(version: &InstalledVersion, context: &Context) {
    context.printer.line(StyledLine::new().plain("  openclaw ").with(TextStyle::Accent, named(version)));
}

//! The part of `flock init` that adds OpenClaw.

use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

use super::super::{Context, Failure};
use super::{Args, Gateway};
use crate::config;
use crate::error::Kind;
use crate::home::Home;
use crate::install::{self, Event, Phase, Version, Wanted, versions};
use crate::openclaw::{OpenClawError, port};
use crate::ui::{Line, Progress, Tone};

/// What a person is asked: what it needs and what it takes.
pub const QUESTION: &str = "Add the OpenClaw gateway as well? It is cloned and built here: a Node that fits it, 8 GB of \
                            memory, 10 GB of disk, ten minutes or more. The native gateway needs none of it.";

/// Whether the options fit each other.
///
/// # Errors
///
/// If a repository or a reference is given for a gateway that has none.
pub fn check(args: &Args) -> Result<(), Failure> {
    if args.gateway != Some(Gateway::Openclaw) && (args.repo.is_some() || args.reference.is_some()) {
        let text = "--repo and --ref are for the OpenClaw gateway";
        return Err(
            Failure::new(Kind::Usage, text).hint("flock init --gateway openclaw --repo URL --ref REF")
        );
    }
    Ok(())
}

/// Installs OpenClaw where it was asked for, and puts it in use. The result is what is in use now.
///
/// # Errors
///
/// What failed. The home is complete without it, and the next call goes on.
pub fn install(args: &Args, asked: bool, home: &Home, context: &Context) -> Result<Option<Version>, Failure> {
    if args.gateway != Some(Gateway::Openclaw) && !asked {
        return Ok(versions::current(home));
    }
    let settings = config::read(home)?.openclaw;
    let current = versions::current(home);
    let wanted = Wanted::choose(args.repo.as_deref(), args.reference.as_deref(), &settings, current.as_ref());
    let shown = Shown::new(context);
    let version = install::install(home, &wanted, &|event| shown.event(&event))?;
    shown.end();
    give_port(home)?;
    Ok(Some(version))
}

/// Gives OpenClaw's gateway a port, if it has none: one that is free now, so that every later start has the same.
fn give_port(home: &Home) -> Result<(), Failure> {
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

/// What programs get of it.
pub fn described(version: &Version) -> Value {
    json!({
        "version": version.version,
        "commit": version.commit,
        "ref": version.reference,
        "follows": version.follows,
        "repo": version.origin,
        "path": version.path,
        "node": version.node,
    })
}

/// Says which one is in use.
pub fn report(version: &Version, context: &Context) {
    let commit = version.commit.get(..12).unwrap_or(&version.commit);
    let text = format!("{} ({commit}, {})", version.version, version.reference);
    context.printer.line(Line::new().plain("  openclaw ").with(Tone::Accent, text));
}

/// An install on the terminal.
pub struct Shown<'a> {
    context: &'a Context,
    progress: Mutex<Option<(Progress, String)>>,
}

impl<'a> Shown<'a> {
    /// Nothing shown yet.
    #[must_use]
    pub const fn new(context: &'a Context) -> Self {
        Self { context, progress: Mutex::new(None) }
    }

    /// Shows what it is at.
    pub fn event(&self, event: &Event<'_>) {
        let mut shown = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Phase(phase) => {
                if let Some((progress, done)) = shown.take() {
                    progress.done(&done);
                }
                let (what, done) = words(phase);
                *shown = Some((self.context.printer.progress(&what), done));
            }
            Event::Objects { received, total, bytes } => {
                if let Some((progress, _)) = shown.as_ref() {
                    progress.at(*received, *total);
                    progress.detail(&format!("{received} of {total} objects, {:.1} MB", *bytes as f64 / 1e6));
                }
            }
            Event::Files { done, total } => {
                if let Some((progress, _)) = shown.as_ref() {
                    progress.at(*done, *total);
                    progress.detail(&format!("{done} of {total} files"));
                }
            }
            Event::Line(line) => {
                if let Some((progress, _)) = shown.as_ref() {
                    progress.detail(line);
                }
            }
        }
    }

    /// Ends what is still shown, as done.
    pub fn end(&self) {
        if let Some((progress, done)) = self.progress.lock().unwrap_or_else(PoisonError::into_inner).take() {
            progress.done(&done);
        }
    }
}

/// What a phase is called while it lasts, and what is said when it is done.
fn words(phase: &Phase<'_>) -> (String, String) {
    let short = |commit: &str| commit.get(..12).unwrap_or(commit).to_owned();
    match phase {
        Phase::Asking => ("asking OpenClaw's repository".to_owned(), "the repository answered".to_owned()),
        Phase::Fetching { commit } => {
            (format!("cloning OpenClaw at {}", short(commit)), "OpenClaw cloned".to_owned())
        }
        Phase::Resuming { commit } => (
            format!("going on with the interrupted install of {}", short(commit)),
            "the earlier clone is complete".to_owned(),
        ),
        Phase::CheckingOut => ("writing its files".to_owned(), "its files are written".to_owned()),
        Phase::Running(title) => (format!("running {title}"), format!("{title} done")),
        Phase::Trying => ("trying the build".to_owned(), "the build works".to_owned()),
    }
}

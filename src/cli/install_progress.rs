//! Output about an installed version, and the progress of installing OpenClaw or flock itself.

use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

use super::Context;
use crate::install::versions::short;
use crate::install::{InstallEvent, InstallNotice, InstallPhase, InstalledVersion};
use crate::ui::Progress;

/// Returns a version for programs.
pub(crate) fn described(version: &InstalledVersion) -> Value {
    json!({
        "version": version.version,
        "commit": version.commit,
        "ref": version.reference,
        "follows": version.follows,
        "repo": version.origin,
        "committed_at": version.committed_at,
        "built_at": version.built_at,
        "path": version.path,
        "node": version.node,
    })
}

/// The progress of an install on the terminal.
pub(crate) struct InstallProgress<'a> {
    context: &'a Context,
    what: &'static str,
    progress: Mutex<Option<(Progress, String)>>,
}

impl<'a> InstallProgress<'a> {
    /// Creates the progress of installing the program `what`.
    #[must_use]
    pub(crate) const fn new(context: &'a Context, what: &'static str) -> Self {
        Self { context, what, progress: Mutex::new(None) }
    }

    /// Shows an event of the installer.
    pub(crate) fn event(&self, event: &InstallEvent<'_>) {
        let mut shown = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            InstallEvent::Phase(phase) => {
                // A new phase means that the one before it succeeded. A failed install drops the progress instead.
                end(&mut shown);
                let (what, done) = phase_texts(self.what, phase);
                *shown = Some((self.context.printer.progress(&what), done));
            }
            InstallEvent::Objects { received, total, bytes } => {
                let text = format!("{received} of {total} objects, {:.1} MB", *bytes as f64 / 1e6);
                detail(&shown, Some((*received, *total)), &text);
            }
            InstallEvent::Files { done, total } => {
                detail(&shown, Some((*done, *total)), &format!("{done} of {total} files"));
            }
            InstallEvent::Line(line) => detail(&shown, None, line),
            InstallEvent::PhaseDone => end(&mut shown),
            InstallEvent::PhaseFailed => *shown = None,
            InstallEvent::Notice(notice) => {
                // A phase that is still shown has failed.
                *shown = None;
                self.print(notice);
            }
        }
    }

    fn print(&self, notice: &InstallNotice<'_>) {
        let printer = &self.context.printer;
        match notice {
            InstallNotice::NoAgents => printer.say("no agent runs on OpenClaw, so it is not started"),
            InstallNotice::GoingOn(to) => {
                printer.say(format!("going on with the interrupted change to {}", to.full_name()));
            }
            InstallNotice::GoingBack(to) => {
                printer.say(format!("going back to {}, which was interrupted", to.full_name()));
            }
            InstallNotice::Healthy(version) => printer.say(format!("{} is healthy", version.full_name())),
            InstallNotice::NotTidied(reason) => {
                printer.warn(&format!("failed to remove the versions that are no longer needed: {reason}"));
            }
        }
    }

    /// Ends the phase that is still shown, as done.
    pub(crate) fn end(&self) {
        end(&mut self.progress.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Shows how far a phase has come.
fn detail(shown: &Option<(Progress, String)>, amount: Option<(u64, u64)>, text: &str) {
    let Some((progress, _)) = shown else { return };
    if let Some((done, total)) = amount {
        progress.at(done, total);
    }
    progress.detail(text);
}

/// Ends a phase as done.
fn end(shown: &mut Option<(Progress, String)>) {
    if let Some((progress, done)) = shown.take() {
        progress.done(&done);
    }
}

/// Returns the text of a phase while it runs, and the text for its end.
fn phase_texts(program: &str, phase: &InstallPhase<'_>) -> (String, String) {
    match phase {
        InstallPhase::Asking => {
            (format!("asking {program}'s repository"), "the repository answered".to_owned())
        }
        InstallPhase::Fetching { commit } => {
            (format!("cloning {program} at {}", short(commit)), format!("{program} cloned"))
        }
        InstallPhase::Resuming { commit } => (
            format!("going on with the interrupted install of {}", short(commit)),
            "the earlier clone is complete".to_owned(),
        ),
        InstallPhase::Anew { commit } => (
            format!("the installed {} has changed since it was built", short(commit)),
            "it is built again".to_owned(),
        ),
        InstallPhase::CheckingOut => ("writing its files".to_owned(), "its files are written".to_owned()),
        InstallPhase::Running(title) => (format!("running {title}"), format!("{title} done")),
        InstallPhase::Trying => ("trying the build".to_owned(), "the build works".to_owned()),
        InstallPhase::Checking => (
            "checking the configuration with this version".to_owned(),
            "it accepts the configuration".to_owned(),
        ),
        InstallPhase::Starting => {
            ("starting it on another port".to_owned(), "it started and answered".to_owned())
        }
        InstallPhase::Restarting(version) => {
            let name = version.full_name();
            (format!("restarting with {name}"), format!("{name} is healthy"))
        }
    }
}

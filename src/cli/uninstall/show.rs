//! Output about an uninstall for people and programs: the plan, and the result.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::super::{Context, Exit};
use super::FailedStep;
use super::plan::{Leftover, UninstallPlan, UninstallRequest, UninstallStep};
use crate::error::Kind;
use crate::home::Home;
use crate::ui::{StyledLine, TextStyle};

/// An uninstall to report.
pub(crate) struct UninstallReport<'a> {
    pub home: &'a Home,
    pub request: UninstallRequest,
    pub plan: &'a UninstallPlan,
    /// `true` if the plan is only shown and not carried out.
    pub dry_run: bool,
}

impl UninstallReport<'_> {
    /// Prints what would be done.
    pub(crate) fn planned(&self, context: &Context) {
        if context.printer.is_json() {
            context.printer.json(&self.json(&[]));
            return;
        }
        self.lines().into_iter().for_each(|line| context.printer.line(line));
    }

    /// Prints what will be done, before the question to the person.
    pub(crate) fn asked(&self, context: &Context) {
        // The plan goes to stderr, like the question that follows it.
        self.lines().into_iter().for_each(|line| context.printer.say(line));
    }

    /// Prints the result and returns the exit code.
    pub(crate) fn done(&self, troubles: &[FailedStep], context: &Context) -> Exit {
        let unseen = self.plan.unseen.first().map(|_| Kind::DockerUnavailable);
        // An engine that could not be asked also makes the uninstall incomplete.
        let kind = troubles.first().map(|trouble| trouble.failure.kind).or(unseen);
        let exit = kind.map_or(Exit::Done, Exit::Failed);
        if context.printer.is_json() {
            context.printer.json(&self.json(troubles));
            return exit;
        }
        for trouble in troubles {
            let mut failure = trouble.failure.clone();
            failure.message = format!("{}: {}", trouble.what, failure.message);
            context.printer.fail(&failure);
        }
        for left in &self.plan.unseen {
            context.printer.warn(&leftover_text(left));
        }
        if kind.is_some() {
            let line = self.command();
            context.printer.say(format!("some of it could not be removed; `{line}` removes the rest"));
        } else if self.plan.is_idle() {
            // Nothing to remove is a success with its own text.
            let text = if self.request.openclaw {
                format!("there is no OpenClaw in {}", self.home.root().display())
            } else {
                format!("there is nothing of flock to remove in {}", self.home.root().display())
            };
            context.printer.line(text.as_str());
        } else {
            let what = if self.request.openclaw { "OpenClaw" } else { "flock" };
            let line = StyledLine::new().with(TextStyle::Good, "removed");
            context.printer.line(line.plain(format!(" {what}")));
        }
        self.stays().into_iter().for_each(|line| context.printer.say(line));
        exit
    }

    /// Returns the command that was given, so that it can be repeated.
    fn command(&self) -> String {
        // The home is always named, because the person may repeat the command from another environment.
        let mut line = format!("flock --home {} uninstall", self.home.root().display());
        for (given, word) in [
            (self.request.openclaw, " openclaw"),
            (self.request.purge, " --purge"),
            (self.request.force, " --force"),
        ] {
            line.push_str(if given { word } else { "" });
        }
        line
    }

    fn lines(&self) -> Vec<StyledLine> {
        let mut lines = Vec::new();
        if self.plan.is_idle() {
            lines.push(StyledLine::new().plain("there is nothing to be removed"));
        } else {
            lines.push(StyledLine::new().with(TextStyle::Warn, "removes"));
            for (what, names) in self.plan.steps.iter().flat_map(rows) {
                lines.push(row(what, &names.join(", ")));
            }
        }
        lines.extend(self.plan.unseen.iter().map(|left| row("not seen", &leftover_text(left))));
        lines.extend(self.stays());
        lines
    }

    /// Returns lines about everything that stays, with the reasons.
    fn stays(&self) -> Vec<StyledLine> {
        let mut lines = Vec::new();
        if !self.plan.kept.is_empty() {
            let place = format!(" in {}", self.home.root().display());
            lines.push(StyledLine::new().with(TextStyle::Good, "keeps").plain(place));
            for (path, what) in &self.plan.kept {
                lines.push(row(&path.display().to_string(), what));
            }
            // The suggested command keeps the other options of this call.
            let purge = UninstallRequest { purge: true, ..self.request };
            let line = UninstallReport { request: purge, ..*self }.command();
            lines.push(StyledLine::new().plain("  to delete that as well: ").accent(line));
        }
        if !self.plan.left.is_empty() {
            lines.push(StyledLine::new().with(TextStyle::Accent, "leaves to you"));
            lines.extend(self.plan.left.iter().map(|left| format!("  {}", leftover_text(left)).into()));
        }
        lines
    }

    fn json(&self, troubles: &[FailedStep]) -> Value {
        let removes: Vec<Value> = (self.plan.steps.iter().flat_map(rows))
            .flat_map(|(what, names)| names.into_iter().map(move |name| json!({"what": what, "name": name})))
            .collect();
        // The paths are relative to the home in the plan and absolute for programs.
        let root = self.home.root();
        let kept = self.plan.kept.iter().map(|(path, what)| json!({"path": root.join(path), "what": what}));
        let left = |left: &Leftover| json!({"what": left.what, "why": left.why, "mend": left.mend});
        let failed = troubles.iter().map(|trouble| {
            let failure = &trouble.failure;
            json!({"what": trouble.what, "code": failure.kind.code(), "message": failure.text(), "hint": failure.hint})
        });
        json!({
            "home": self.home.root(),
            "dryRun": self.dry_run,
            "removes": removes,
            "kept": kept.collect::<Vec<_>>(),
            "left": self.plan.left.iter().map(left).collect::<Vec<_>>(),
            "unseen": self.plan.unseen.iter().map(left).collect::<Vec<_>>(),
            "failed": failed.collect::<Vec<_>>(),
        })
    }
}

fn row(what: &str, text: &str) -> StyledLine {
    StyledLine::new().plain(format!("  {what:<12} ")).plain(text.to_owned())
}

fn leftover_text(left: &Leftover) -> String {
    let mend = left.mend.as_ref().map(|mend| format!("; {mend}")).unwrap_or_default();
    format!("{}: {}{mend}", left.what, left.why)
}

fn path_text(path: &Path) -> String {
    path.display().to_string()
}

/// Returns the names that a step removes, by kind.
fn rows(step: &UninstallStep) -> Vec<(&'static str, Vec<String>)> {
    let paths = |paths: &[PathBuf]| paths.iter().map(|path| path_text(path)).collect();
    match step {
        UninstallStep::Service(path) => vec![("service", vec![path_text(path)])],
        UninstallStep::Stop { running: true } => {
            vec![("process", vec!["the supervisor and what it runs".to_owned()])]
        }
        UninstallStep::Stop { running: false } | UninstallStep::StopOpenClaw | UninstallStep::Empty(_) => {
            Vec::new()
        }
        UninstallStep::Engine { found, .. } => [
            ("container", [found.containers.clone(), found.sandboxes.clone()].concat()),
            ("volume", found.volumes.clone()),
            ("network", found.networks.clone()),
            ("image", found.images.clone()),
            ("cluster", found.cluster.clone()),
        ]
        .into_iter()
        .filter(|(_, names)| !names.is_empty())
        .collect(),
        UninstallStep::OpenClaw(found) => vec![("openclaw", paths(found))],
        UninstallStep::Files(found) => vec![("file", paths(found))],
        UninstallStep::Home => vec![("home", vec!["the folder itself, if nothing is left in it".to_owned()])],
    }
}

/// Returns `true` if the end of a step is worth a line.
pub(crate) fn is_shown(step: &UninstallStep) -> bool {
    // The home's folder may stay because of files that are not flock's, so its removal is not announced.
    *step != UninstallStep::Home && (*step == UninstallStep::StopOpenClaw || !rows(step).is_empty())
}

/// Returns the text for a step while it runs.
pub(crate) fn named(step: &UninstallStep) -> String {
    match step {
        UninstallStep::Service(path) => format!("removing the service {}", path.display()),
        UninstallStep::Stop { .. } => "stopping flock".to_owned(),
        UninstallStep::StopOpenClaw => "stopping OpenClaw".to_owned(),
        UninstallStep::Engine { .. } => "removing what is in Docker".to_owned(),
        UninstallStep::OpenClaw(_) => "removing OpenClaw".to_owned(),
        UninstallStep::Files(paths) => {
            let names: Vec<String> = paths.iter().map(|path| path_text(path)).collect();
            format!("removing {}", names.join(", "))
        }
        UninstallStep::Empty(_) => "removing empty folders".to_owned(),
        UninstallStep::Home => "removing the home's folder".to_owned(),
    }
}

/// Returns the text for a completed step.
pub(crate) fn past(step: &UninstallStep) -> String {
    // It is made from the other text, so that the two can't differ in their names.
    let text = named(step);
    match text.split_once(' ') {
        Some(("stopping", rest)) => format!("{rest} stopped"),
        Some((_, rest)) => format!("{rest} removed"),
        None => text,
    }
}

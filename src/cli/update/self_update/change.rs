//! The change from one program to another: stopping, swapping, starting, proving, or taking it back.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use super::super::super::{Context, Failure, person, service, start, stop};
use super::{remember, report};
use crate::config;
use crate::env;
use crate::error::{Kind, chain};
use crate::generation;
use crate::home::Home;
use crate::install::kept;
use crate::install::self_update::pending_change::{ChangeDirection, PendingProgramChange};
use crate::install::self_update::{ProgramRecord, UpdateLock, build, swap};
use crate::store::Level;
use crate::supervise::control::{ControlConnection, ControlRequest, SupervisorStatus};
use crate::supervise::state::UnitState;
use crate::supervise::unit::GATEWAY;

/// A change of the program in use.
pub(crate) struct ProgramChange<'a> {
    pub updater: &'a UpdateLock,
    pub home: &'a Home,
    pub context: &'a Context,
    pub underway: PendingProgramChange,
}

/// Time that a program may take from its start until its gateway is healthy.
const START_LIMIT: Duration = Duration::from_secs(600);

impl ProgramChange<'_> {
    /// Carries out the whole change. Returns `true` if the new program runs afterwards.
    ///
    /// # Errors
    ///
    /// Returns the error of the step that failed. The earlier program is then in use again, unless the text says
    /// otherwise.
    pub(crate) fn run(&mut self) -> Result<bool, Failure> {
        let running = self.supervisor()?;
        self.underway.ran = running.is_some();
        // A migration needs a database that nobody uses, and this command can't stop a supervisor of a service manager.
        if running.as_ref().is_some_and(|status| status.foreground)
            && (self.underway.migrates || self.underway.backup.is_some())
        {
            let text = format!(
                "{} changes the database, and the supervisor runs under a service manager, so it has to be stopped \
                 first",
                self.to()
            );
            return Err(Failure::new(Kind::Failed, text)
                .hint("flock service remove, flock update --self, flock service install"));
        }
        // The copy comes before the record: a recorded change can always be taken back.
        swap::keep(self.updater, self.home, &self.underway.path)?;
        self.underway.note(self.updater, self.home)?;
        let changed = self.exchange(running.as_ref());
        changed.map_err(|failure| self.swap_failure(failure))?;
        self.prove()
    }

    /// Stops everything that runs and puts the new program in place.
    fn exchange(&self, running: Option<&SupervisorStatus>) -> Result<(), Failure> {
        if running.is_some_and(|status| !status.foreground) {
            self.halt()?;
        }
        let action = match self.underway.way {
            ChangeDirection::Update => "program.update",
            ChangeDirection::Rollback => "program.rollback",
        };
        // The row is written by the old program, before a new one may migrate the database.
        self.audit(
            action,
            format!("{} to {}{}", self.underway.from.version, self.underway.to.version, self.origin()),
        );
        // The old program can't read a migrated database, so taking back needs this copy.
        if self.underway.migrates || self.underway.backup.is_some() {
            swap::keep_state(self.updater, self.home)?;
        }
        if let Some(backup) = &self.underway.backup {
            swap::put_backup(self.updater, self.home, backup)?;
        }
        Ok(swap::swap(self.updater, self.home, &self.underway)?)
    }

    /// Starts the new program if a gateway ran and waits until it is healthy, or takes the change back.
    fn prove(&self) -> Result<bool, Failure> {
        if !self.underway.ran {
            self.conclude()?;
            return Ok(false);
        }
        self.start(&self.to()).map_err(|reason| self.take_back(&reason))?;
        self.conclude()?;
        Ok(true)
    }

    /// Completes a change that was interrupted after the program was replaced.
    ///
    /// # Errors
    ///
    /// Returns an error if the new program does not become healthy.
    pub(crate) fn go_on(&self) -> Result<bool, Failure> {
        if !self.underway.migrates || !self.underway.ran {
            return self.prove();
        }
        // The new program may have served and written to the database since, which the old program can't read any more.
        self.start(&self.to()).map_err(|reason| {
            let text = format!(
                "{} is in use and does not get healthy: {reason}; it has changed the database, so the update is not \
                 undone",
                self.to()
            );
            Failure::new(Kind::Failed, text).hint("flock logs gateway")
        })?;
        self.conclude()?;
        Ok(true)
    }

    /// Completes a change that was interrupted while it was taken back.
    ///
    /// # Errors
    ///
    /// Returns an error if the old program does not become healthy.
    pub(crate) fn go_back(&self) -> Result<(), Failure> {
        self.restore()?;
        self.restart_old()?;
        self.end()
    }

    /// Ends a change that was interrupted before the program was replaced. Only the processes may have to be started
    /// again.
    ///
    /// # Errors
    ///
    /// Returns an error if they do not start again.
    pub(crate) fn give_up(&self) -> Result<(), Failure> {
        self.put_database_back()?;
        if self.supervisor()?.is_none() {
            self.restart_old()?;
        }
        self.end()
    }

    fn swap_failure(&self, failure: Failure) -> Failure {
        let again = self.give_up();
        let mut failure = report::stays(&self.underway.from, failure);
        if let Err(again) = again {
            failure.message = format!("{}; failed to start it again: {}", failure.message, again.text());
        }
        failure
    }

    fn take_back(&self, reason: &str) -> Failure {
        // Only an update is remembered as failed. A rollback was a person's choice.
        if let (ChangeDirection::Update, Some(commit)) = (self.underway.way, &self.underway.to.commit) {
            remember(self.home, commit, format!("it did not get healthy: {reason}"), self.context);
        }
        // Without this record only an interruption right now would be misread, as one from before the new program's
        // start.
        let underway = PendingProgramChange { back: true, ..self.underway.clone() };
        drop(underway.note(self.updater, self.home));
        let restored = self.restore().and_then(|()| self.restart_old());
        let (to, from) = (self.to(), self.from());
        match restored {
            Ok(()) => {
                self.audit("program.take-back", format!("{to} did not get healthy; {from} is in use again"));
                drop(self.end());
                let text = format!("{to} did not get healthy: {reason}; {from} is in use again");
                Failure::new(Kind::Failed, text).hint(format!(
                    "less {}; to try this commit again: flock update --self --retry",
                    self.log_path()
                ))
            }
            Err(failure) => {
                let text = format!(
                    "{to} did not get healthy: {reason}; going back to {from} failed: {}",
                    failure.text()
                );
                Failure::new(failure.kind, text).hint("flock update --self")
            }
        }
    }

    /// Puts the old program in place, and a database that it can read.
    fn restore(&self) -> Result<(), Failure> {
        // A supervisor of a service manager keeps running: it starts the program that is in place.
        if self.supervisor()?.is_none_or(|status| !status.foreground) {
            self.halt()?;
        }
        // An earlier attempt may have replaced the file already.
        if self.underway.reached()? != super::ProgramChangeState::Old {
            swap::swap_back(self.updater, self.home, &self.underway)?;
        }
        if self.underway.backup.is_some() {
            self.put_database_back()?;
        } else if swap::restore_database(self.updater, self.home, false)? {
            self.context.printer.warn(&format!(
                "the database is restored to its state before {} opened it; the database that this version changed \
                 is in {}",
                self.to(),
                self.home.backups().join("flock-unproved.db").display()
            ));
        }
        Ok(())
    }

    /// Puts back the database that a backup has replaced, if it was.
    fn put_database_back(&self) -> Result<(), Failure> {
        if self.underway.backup.is_some() {
            swap::restore_database(self.updater, self.home, true)?;
        }
        Ok(())
    }

    fn restart_old(&self) -> Result<(), Failure> {
        if !self.underway.ran {
            return Ok(());
        }
        self.start(&self.from())
            .map_err(|reason| Failure::new(Kind::Failed, format!("{} is not healthy: {reason}", self.from())))
    }

    fn conclude(&self) -> Result<(), Failure> {
        // A version that a person rolled back must not come back with the next update.
        if let (ChangeDirection::Rollback, Some(commit)) = (self.underway.way, &self.underway.from.commit) {
            remember(self.home, commit, "it was rolled back".to_owned(), self.context);
        }
        swap::conclude(self.updater, self.home, &self.underway)?;
        // Recorded before the change ends: a kill in between has the next update come here again.
        let (version, schema) = (&self.underway.to.version, kept::schema(self.home));
        generation::change(self.home, |state| {
            state.program.clone_from(version);
            state.schema = schema;
        })?;
        Ok(PendingProgramChange::end(self.updater, self.home)?)
    }

    fn end(&self) -> Result<(), Failure> {
        PendingProgramChange::end(self.updater, self.home)?;
        swap::tidy(self.updater, self.home);
        Ok(())
    }

    /// Returns the status of the running supervisor, if there is one.
    fn supervisor(&self) -> Result<Option<SupervisorStatus>, Failure> {
        self.context.block_on(async { Ok(ControlConnection::status(self.home, start::QUICK).await) })
    }

    fn halt(&self) -> Result<(), Failure> {
        let halted = self.context.block_on(async { Ok(stop::halt(self.home, self.context).await?) })?;
        if halted.lock.is_some() {
            return Ok(());
        }
        Err(Failure::new(Kind::Failed, "the running flock does not stop").hint("flock stop"))
    }

    /// Starts the program that is in place and waits until its gateway is healthy.
    fn start(&self, name: &str) -> Result<(), String> {
        let progress = self.context.printer.progress(&format!("starting {name}"));
        let started = self.context.block_on(async { Ok(self.started().await) });
        let healthy = started.map_err(|failure| failure.text())?;
        if healthy.is_ok() {
            progress.done(&format!("{name} is healthy"));
        }
        healthy
    }

    async fn started(&self) -> Result<(), String> {
        let status = ControlConnection::status(self.home, start::QUICK).await;
        if status.is_some_and(|status| status.foreground) {
            // A service manager owns this supervisor, so it is not stopped. It starts the program that is in place now.
            let config = config::read(self.home).map_err(|error| chain(&error))?;
            start::ensure_running(self.home, &config, ControlRequest::Restart)
                .await
                .map_err(|failure| failure.text())?;
            if let Some(command) = service::restart_command(self.home) {
                let text = format!("the supervisor itself still runs the earlier version until: {command}");
                self.context.printer.warn(&text);
            }
            return Ok(());
        }
        let said = run_start(&self.underway.path, self.home).await?;
        let status = ControlConnection::status(self.home, start::QUICK).await;
        match status.as_ref().and_then(|status| status.unit(GATEWAY)) {
            Some(unit) if unit.state == UnitState::Healthy => Ok(()),
            // The start may complain about OpenClaw only. Here the gateway decides.
            _ => Err(said),
        }
    }

    /// Records the change in the audit log. If that fails, the change is completed all the same, with a warning.
    fn audit(&self, action: &'static str, detail: String) {
        let subject = self.underway.path.display().to_string();
        let record = person::record(self.home, action, &subject, Level::Yellow, detail);
        if let Err(failure) = self.context.block_on(record) {
            let text = format!("failed to write the change into the audit: {}", failure.text());
            self.context.printer.warn(&text);
        }
    }

    /// Returns the new program's name for a sentence.
    pub(crate) fn to(&self) -> String {
        named(&self.underway.to)
    }

    /// Returns the old program's name for a sentence.
    pub(crate) fn from(&self) -> String {
        named(&self.underway.from)
    }

    fn origin(&self) -> String {
        let ProgramRecord { origin, commit, .. } = &self.underway.to;
        let commit = commit.as_deref().map(|commit| format!(", commit {commit}")).unwrap_or_default();
        origin.as_deref().map(|origin| format!(" from {origin}{commit}")).unwrap_or_default()
    }

    fn log_path(&self) -> String {
        self.home.log(crate::install::self_update::LOG).display().to_string()
    }
}

/// Formats a program, such as `flock 0.2.0 (0123456789ab)`.
pub(crate) fn named(program: &ProgramRecord) -> String {
    format!("flock {}", program.version)
}

/// Runs `flock start` with the program in place and returns its last message.
async fn run_start(program: &Path, home: &Home) -> Result<String, String> {
    let mut command = tokio::process::Command::new(program);
    // The text is parsed below, so it must have no colours.
    command.arg("--home").arg(home.root()).arg("start").env(env::NO_COLOR.name, "1").stdin(Stdio::null());
    command.kill_on_drop(true);
    let output = match tokio::time::timeout(START_LIMIT, command.output()).await {
        Ok(output) => output.map_err(|error| format!("it can't be started: {error}"))?,
        Err(_) => return Err(format!("it was not up within {} seconds", START_LIMIT.as_secs())),
    };
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    // As with the build log, an error of writing it changes nothing.
    drop(build::log(home).append(format!("$ flock start\n{text}\n").as_bytes()));
    let error = text.lines().find(|line| line.starts_with("error: ")).or_else(|| text.lines().last());
    let said = error.unwrap_or_default().trim_start_matches("error: ");
    Ok(if said.is_empty() { format!("`flock start` ended with {}", output.status) } else { said.to_owned() })
}

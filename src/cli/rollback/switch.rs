//! Carries out a rollback. Each step is recorded before it is made and can be undone. The program is the last step.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::plan::RollbackPlan;
use crate::agent::identity;
use crate::cli::install_progress::InstallProgress;
use crate::cli::{Context, Failure, start, team, update};
use crate::config::{self, ConfigError, edit};
use crate::error::Kind;
use crate::fault_point::{self, FaultPoint};
use crate::generation::pending_rollback::{self, ImageSwitch, PendingRollback, VersionSwitch};
use crate::generation::{self, Generation, kept_out};
use crate::home::Home;
use crate::home::lock::Lock;
use crate::install::versions;
use crate::openclaw::update::UPDATE;
use crate::sandbox::image;
use crate::store::Level;
use crate::supervise::control::ControlRequest;
use crate::supervise::health::HomeIdentity;
use crate::supervise::port;

/// Time for which a gateway may stay unhealthy after the change.
const HEALTH_LIMIT: Duration = Duration::from_secs(30);
/// Pause between two looks at it.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A rollback that is carried out or undone.
pub(crate) struct Switch<'a> {
    pub home: &'a Home,
    pub context: &'a Context,
    pub pending: PendingRollback,
    pub plan: &'a RollbackPlan,
    pub then: &'a Generation,
    /// The file of flock's own program, if a person named one.
    pub program: Option<&'a Path>,
}

impl Switch<'_> {
    /// Carries out the rollback. Returns the number of the generation that it makes.
    ///
    /// # Errors
    ///
    /// Returns the error of the step that failed. The home is then as before, unless the text says otherwise.
    pub(crate) fn run(mut self) -> Result<u64, Failure> {
        let runs = team::lives(self.home);
        if let Err(failure) = self.forward(runs) {
            return Err(self.take_back(failure, runs));
        }
        fault_point::reach(FaultPoint::RollbackProved);
        let number = match conclude(self.home, &self.pending) {
            Ok(number) => number,
            // The program is the last step, so what follows it can only be completed, by the next command.
            Err(failure) if self.pending.program.is_some() => {
                return Err(failure.or_hint("flock generations, which tries it again"));
            }
            Err(failure) => return Err(self.take_back(failure, runs)),
        };
        self.release_leaving();
        self.audit(number);
        Ok(number)
    }

    fn forward(&mut self, runs: bool) -> Result<(), Failure> {
        self.switch_config()?;
        fault_point::reach(FaultPoint::RollbackConfigured);
        self.context.block_on(move_engine(self.home, &self.pending, false))?;
        fault_point::reach(FaultPoint::RollbackPackaged);
        if let Some(change) = &self.pending.openclaw {
            move_openclaw(self.home, &change.to, self.context)?;
        }
        fault_point::reach(FaultPoint::RollbackSwitched);
        if self.pending.program.is_some() {
            // It restarts everything and waits until it is healthy, or puts the present program back.
            let backup = self.plan.backup.as_deref();
            return update::go_back(self.home, self.program, backup, self.context);
        }
        if runs {
            self.context.block_on(prove(self.home))?;
        }
        Ok(())
    }

    /// Writes the record and replaces the configuration.
    fn switch_config(&mut self) -> Result<(), Failure> {
        if self.plan.config.is_empty() {
            self.pending.write(self.home)?;
            fault_point::reach(FaultPoint::RollbackBegun);
            return Ok(());
        }
        self.make_identities()?;
        let mut missing = Vec::new();
        let (home, pending) = (self.home, &mut self.pending);
        edit::switch::<Failure>(
            home,
            |document| {
                let mut kept = self.then.state.config.clone();
                missing = kept_out::put_back(&mut kept, document);
                require_token(&kept, document)?;
                *document = kept;
                Ok(())
            },
            |switch| {
                pending.config = Some(switch);
                pending.write(home)?;
                fault_point::reach(FaultPoint::RollbackBegun);
                Ok(())
            },
        )?;
        for path in missing {
            let text =
                format!("no generation has the key at {path}; set it again: flock config set {path} -");
            self.context.printer.warn(&text);
        }
        Ok(())
    }

    /// Makes the folders and files of agents that come back, as far as they were deleted.
    fn make_identities(&self) -> Result<(), Failure> {
        let mut document = self.then.state.config.clone();
        let (_, present) = config::file::read_document(self.home)?;
        kept_out::put_back(&mut document, &present);
        let parsed = config::parse::config(&document, self.home).map_err(|problem| {
            let text =
                format!("generation {} can't be used: {} {}", self.then.number, problem.at, problem.message);
            Failure::new(Kind::Conflict, text).hint("flock generations")
        })?;
        for agent in parsed.agents.iter().filter(|agent| self.plan.returning.contains(&agent.id)) {
            let who = identity::AgentIdentity {
                id: &agent.id,
                role: agent.role,
                archetype: agent.archetype.as_deref(),
                archetypes: &self.home.archetypes(),
            };
            identity::write(&agent.identity, &agent.workspace, &who)?;
        }
        Ok(())
    }

    /// Undoes the steps, and returns the failure that says so.
    fn take_back(&self, failure: Failure, runs: bool) -> Failure {
        // Without a record nothing was changed.
        if !pending_rollback::is_open(self.home) {
            return failure;
        }
        let to = self.pending.to;
        let undone = undo(self.home, &self.pending, self.context).and_then(|()| {
            if runs && self.pending.program.is_none() {
                self.context.block_on(prove(self.home))?;
            }
            Ok(())
        });
        match undone {
            Ok(()) => {
                let text = format!(
                    "going back to generation {to} failed: {}; everything is as in generation {} again",
                    failure.text(),
                    self.pending.from
                );
                Failure::new(failure.kind, text)
                    .hint(failure.hint.unwrap_or_else(|| "flock doctor".to_owned()))
            }
            Err(again) => {
                let text = format!(
                    "going back to generation {to} failed: {}; putting everything back failed as well: {}",
                    failure.text(),
                    again.text()
                );
                Failure::new(again.kind, text).hint("flock generations, which tries it again")
            }
        }
    }

    /// Ends the turns of agents that are not configured any more, and removes their sandboxes.
    fn release_leaving(&self) {
        if self.plan.leaving.is_empty() {
            return;
        }
        let removed = self.context.block_on(async {
            let config = config::read(self.home)?;
            let gateway = team::gateway(self.home, &config).await?;
            for agent in &self.plan.leaving {
                match &gateway {
                    Some(gateway) => team::release(gateway, agent).await?,
                    None => team::remove_sandbox(self.home, &config, agent).await?,
                }
            }
            Ok(())
        });
        if let Err(failure) = removed
            && failure.kind != Kind::DockerUnavailable
        {
            let text = format!("a sandbox of an agent that left may still exist: {}", failure.text());
            self.context.printer.warn(&text);
        }
    }

    fn audit(&self, number: u64) {
        let detail = format!("generation {number}: {}", self.plan.changes().join("; "));
        let detail = crate::clean::summary(&detail, 400);
        let subject = self.pending.to.to_string();
        let recorded =
            crate::cli::person::record(self.home, "home.rollback", &subject, Level::Yellow, detail);
        if let Err(failure) = self.context.block_on(recorded) {
            let text = format!("failed to write the rollback into the audit: {}", failure.text());
            self.context.printer.warn(&text);
        }
    }
}

/// Checks that the owner's token is there. Without it nobody could use the gateway.
fn require_token(kept: &Value, present: &Value) -> Result<(), ConfigError> {
    const AT: &str = "/gateway/auth/token";
    if kept.pointer(AT) == present.pointer(AT) {
        return Ok(());
    }
    Err(ConfigError::Refused {
        at: "gateway.auth.token".to_owned(),
        message: "has no present value".to_owned(),
    })
}

/// Records the reached state as a generation and removes the record. Returns the generation's number.
pub(crate) fn conclude(home: &Home, pending: &PendingRollback) -> Result<u64, Failure> {
    let openclaw = versions::current(home).map(|version| version.name());
    generation::recorder::conclude(home, pending, |state| {
        state.openclaw = openclaw;
        for switch in &pending.packages {
            state.packages.insert(switch.agent.clone(), switch.to);
        }
        for switch in &pending.images {
            state.images.insert(switch.name.clone(), switch.to.clone());
        }
        if let Some(VersionSwitch { to, .. }) = &pending.program {
            state.program.clone_from(to);
            state.schema = crate::install::kept::schema(home);
        }
    })?;
    fault_point::reach(FaultPoint::RollbackKept);
    pending_rollback::clear(home)?;
    let newest = generation::log::newest(home)?;
    Ok(newest.map_or(pending.from, |newest| newest.number))
}

/// Puts everything back except the program, which puts itself back, and removes the record.
///
/// # Errors
///
/// Returns an error if a step fails. The record stays then.
pub(crate) fn undo(home: &Home, pending: &PendingRollback, context: &Context) -> Result<(), Failure> {
    let pending = PendingRollback { back: true, ..pending.clone() };
    pending.write(home)?;
    if let Some(change) = &pending.openclaw {
        move_openclaw(home, &change.from, context)?;
    }
    context.block_on(move_engine(home, &pending, true))?;
    if let Some(switch) = &pending.config
        && !edit::switch_back(home, switch)?
    {
        context
            .printer
            .warn("the configuration was changed by hand during the rollback, so it stays as it is");
    }
    fault_point::reach(FaultPoint::RollbackUndone);
    Ok(pending_rollback::clear(home)?)
}

/// Changes the packages and images, or changes them back. Each step can be repeated.
async fn move_engine(home: &Home, pending: &PendingRollback, back: bool) -> Result<(), Failure> {
    if pending.packages.is_empty() && pending.images.is_empty() {
        return Ok(());
    }
    let engine = team::engine().await?;
    let stores = team::stores(home, &config::read(home)?);
    for switch in &pending.packages {
        let found = stores.engines().of_id(&switch.agent).await?;
        stores.on(&found).switch_to(&switch.agent, if back { switch.from } else { switch.to }).await?;
    }
    for ImageSwitch { name, from, to } in &pending.images {
        image::tag(&engine, if back { from } else { to }, name).await?;
    }
    Ok(())
}

/// Puts a version of OpenClaw in use, unless it is.
fn move_openclaw(home: &Home, to: &str, context: &Context) -> Result<(), Failure> {
    let shown = InstallProgress::new(context, "OpenClaw");
    let events = |event: crate::install::InstallEvent<'_>| shown.event(&event);
    let update = update::begin(home, context, &events, UPDATE)?;
    // This also completes an interrupted change of the version.
    let current = update.current()?;
    let (Some(current), Some(wanted)) = (current, versions::named(home, to)) else {
        let text = format!("the build of OpenClaw {to} is removed");
        return Err(Failure::new(Kind::Failed, text).hint("flock update"));
    };
    if current.name() != wanted.name() {
        update.go_to(&current, &wanted)?;
    }
    shown.end();
    Ok(())
}

/// Waits until the gateway that ran before serves the present configuration and is healthy.
///
/// # Errors
///
/// Returns the reason if it does not become healthy.
async fn prove(home: &Home) -> Result<(), Failure> {
    let config = config::read(home)?;
    // A gateway keeps its port until it is restarted.
    if team::served_port(home).await.is_some_and(|served| served != config.port) {
        port::check(home, config.port, &HomeIdentity::of(home, &config)?).await?;
        start::ensure_running(home, &config, ControlRequest::Restart).await?;
    }
    let end = std::time::Instant::now() + HEALTH_LIMIT;
    loop {
        let reason = match team::gateway(home, &config).await {
            Ok(Some(_)) => match team::trouble(home, config.port).await {
                None => return Ok(()),
                Some(reason) => reason,
            },
            Ok(None) => "it does not answer".to_owned(),
            Err(failure) => failure.text(),
        };
        // A gateway that ended altogether does not come back by waiting.
        let is_gone = !Lock::is_held(&home.gateway_lock())? && !Lock::is_held(&home.supervisor_lock())?;
        if is_gone || std::time::Instant::now() >= end {
            let text = format!("the gateway is not healthy: {reason}");
            return Err(Failure::new(Kind::Failed, text).hint("flock logs gateway"));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

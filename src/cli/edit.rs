//! `flock edit`: changes the settings of an agent.

mod apply;
mod questions;
mod values;

use serde_json::{Value, json};

use super::{
    Context, Exit, Failure, add, list, models, openclaw, pending_operations, programs, runtime_name, settings,
};
use crate::agent::prompt::archetype;
use crate::config::setting::{self, Setting, SettingChange, SettingValue};
use crate::config::{self, Agent, Autonomy, Config, Network, Role, ignored};
use crate::error::Kind;
use crate::home::{Home, pending};
use crate::id::{AgentId, IdError};
use crate::openclaw::RUNTIME;
use crate::provider::price;
use crate::runtime::program;
use crate::sandbox::egress::EgressRule;
use crate::ui::{StyledLine, TextStyle, ask as question};

/// Change an agent's settings
///
/// Shows the changes, and asks for confirmation on a terminal. Without options, it asks for each setting and offers the
/// present value as the default. A running gateway uses the new settings from the agent's next turn on. If settings of
/// the container change, the container is made anew.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  flock edit coder --model openai/gpt-5.5 --effort high
  flock edit coder --memory 4g --cpus default
  flock edit coder --network none --dry-run")]
pub(crate) struct Args {
    /// Id of the agent
    pub id: String,
    /// Role in the team; a sysadmin has no sandbox
    #[arg(long, value_enum)]
    pub role: Option<Role>,
    /// Archetype, which says what the agent is good at, or "none"
    ///
    /// Replaces the agent's SOUL.md, unless somebody has edited it.
    #[arg(long, value_name = "NAME")]
    pub archetype: Option<String>,
    /// Program that runs the agent's turns: flock itself (native), OpenClaw if it is installed, or an installed agent
    /// program
    #[arg(long, value_name = "NAME", value_parser = runtime_name::parser())]
    pub runtime: Option<String>,
    /// Run the agent program on this machine itself, with your rights, instead of in the container
    #[arg(long, conflicts_with = "no_on_host")]
    pub on_host: bool,
    /// Run the agent program in the container again
    #[arg(long)]
    pub no_on_host: bool,
    /// Model of the agent, or "default" for the home's default model
    #[arg(long, value_name = "PROVIDER/MODEL", value_parser = values::model)]
    pub model: Option<Value>,
    /// Thinking effort of the agent's model, or "default" to leave it to the provider
    #[arg(long, value_name = "EFFORT", value_parser = ["off", "low", "medium", "high", values::DEFAULT])]
    pub effort: Option<String>,
    /// Autonomy of the agent: what it may do without asking
    #[arg(long, value_enum)]
    pub autonomy: Option<Autonomy>,
    /// Memory limit of the container, as in 2g, or "default"
    #[arg(long, value_name = "SIZE", value_parser = values::memory)]
    pub memory: Option<Value>,
    /// Core limit of the container, as in 1.5, or "default"
    #[arg(long, value_name = "NUMBER", value_parser = values::cores)]
    pub cpus: Option<Value>,
    /// Disk limit of the workspace, as in 20g, "none" for no limit, or "default"
    #[arg(long, value_name = "SIZE", value_parser = values::disk)]
    pub disk: Option<Value>,
    /// Network of the agent's sandbox
    #[arg(long, value_enum)]
    pub network: Option<Network>,
    /// Host that the sandbox may reach, or "*.HOST" for all hosts below it
    ///
    /// Allows ports 80 and 443, unless PORT is given. Can be given more than once. The given hosts replace the present
    /// ones.
    #[arg(long, value_name = "HOST[:PORT]", conflicts_with = "no_egress")]
    pub egress: Vec<EgressRule>,
    /// Remove all hosts that the sandbox may reach
    #[arg(long)]
    pub no_egress: bool,
    /// Tokens that the agent may use in one day, or "default" for the limit that holds for all agents
    #[arg(long, value_name = "NUMBER", value_parser = values::tokens)]
    pub budget_tokens: Option<Value>,
    /// Dollars that the agent may use in one day, or "default" for the limit that holds for all agents
    #[arg(long, value_name = "NUMBER", value_parser = values::dollars)]
    pub budget_usd: Option<Value>,
    /// Show what would change, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    #[arg(long = "id", hide = true, value_name = "ID")]
    other_id: Option<String>,
    #[arg(long, hide = true, value_name = "DIR")]
    workspace: Option<String>,
    #[arg(long, hide = true, value_name = "NAME")]
    packages: Option<String>,
}

/// Changes the settings.
///
/// # Errors
///
/// Returns an error if there is no such agent, if a setting is invalid or can't be changed, if the person says no, or
/// if a change can't be put into effect.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let id: AgentId = args.id.parse().map_err(|error: IdError| Failure::from(error).hint("flock list"))?;
    values::refuse_unchangeable(args, &id)?;
    let home = context.writable_home()?;
    let config = config::read(&home)?;
    let agent = config.require_agent(&id)?;
    if let Some(pending) = pending::read(&home, &id)? {
        return Err(pending_operations::unfinished(&pending));
    }
    // The document of this moment is what the person is shown. Writing refuses if it has changed since.
    let (_, before) = config::file::read_document(&home)?;
    let mut wanted = values::given(args);
    let asks = wanted.is_empty() && context.may_ask();
    if asks {
        wanted = questions::settings(&home, &before, agent)?;
    } else if wanted.is_empty() {
        let text = format!("no change to {id} was given");
        return Err(Failure::new(Kind::Usage, text).hint("flock edit --help"));
    }
    let plan = Plan::new(&home, &before, agent, wanted, context)?;
    if plan.changes.is_empty() {
        return report_unchanged(&plan, context);
    }
    plan.show(context);
    if args.dry_run {
        plan.report(&plan.now, &Value::Null, context);
        return Ok(Exit::Done);
    }
    // `--yes` and programs are not asked. The changes were printed above either way.
    if context.may_ask() && !question::confirm(&format!("Change these settings of {id}?"), true)? {
        return Err(Failure::new(Kind::Failed, format!("agent {id} was not changed")));
    }
    let config = plan.write(&home)?;
    let effects = context.block_on(apply::all(&home, &config, &plan, context))?;
    let now = config.require_agent(&id)?;
    plan.report(now, &effects, context);
    Ok(Exit::Done)
}

/// The settings to change, already checked.
struct Plan {
    wanted: Vec<SettingValue>,
    changes: Vec<SettingChange>,
    /// The agent before the change.
    old: Agent,
    /// The agent after the change.
    now: Agent,
}

impl Plan {
    fn new(
        home: &Home,
        before: &Value,
        old: &Agent,
        wanted: Vec<SettingValue>,
        context: &Context,
    ) -> Result<Self, Failure> {
        let (after, config) = settings::planned(home, |document| setting::set(document, &old.id, &wanted))?;
        ignored::check_change(before, &after, home)?;
        let now = config.require_agent(&old.id)?.clone();
        let changes = setting::changes(before, &after, &old.id);
        let plan = Self { wanted, changes, old: old.clone(), now };
        if plan.changes.is_empty() {
            return Ok(plan);
        }
        values::check(&plan.wanted, &plan.now)?;
        if let Some(name) = plan.now.archetype.as_deref().filter(|_| plan.has(&[Setting::Archetype])) {
            archetype::find(&home.archetypes(), name)?;
        }
        plan.check_runtime(home, after, &config, context)?;
        Ok(plan)
    }

    /// Returns `true` if one of these settings changes.
    fn has(&self, settings: &[Setting]) -> bool {
        self.changes.iter().any(|change| settings.contains(&change.setting))
    }

    /// Returns an error if the agent's program could not run its turns. The check is made only if a setting that it
    /// depends on changes.
    fn check_runtime(
        &self,
        home: &Home,
        after: Value,
        config: &Config,
        context: &Context,
    ) -> Result<(), Failure> {
        // The checks below are slow, so an unrelated change is not held up by them.
        let depends = [
            Setting::Runtime,
            Setting::Model,
            Setting::OnHost,
            Setting::Role,
            Setting::Memory,
            Setting::Effort,
        ];
        if !self.has(&depends) {
            return Ok(());
        }
        if self.now.runtime == RUNTIME {
            context.block_on(openclaw::check(home, after, config))?;
        }
        match program::named(&self.now.runtime) {
            Some(program) => programs::check(&program, &self.now, config, "edit", context),
            None => Ok(()),
        }
    }

    /// Writes the settings, unless somebody else has changed one of them since they were shown.
    fn write(&self, home: &Home) -> Result<Config, Failure> {
        let id = &self.old.id;
        // The port is chosen before the file is locked: the choice reads the configuration itself.
        let port = apply::openclaw_port(home, &self.now)?;
        config::edit(home, |document| {
            let is_as_shown =
                |change: &SettingChange| setting::get(document, id, change.setting) == change.before;
            if !self.changes.iter().all(is_as_shown) {
                let text = format!("the settings of {id} were changed meanwhile; nothing was written");
                return Err(Failure::new(Kind::Conflict, text).hint(format!("flock edit {id}")));
            }
            if let Some(port) = port {
                crate::openclaw::port::set(document, port);
            }
            setting::set(document, id, &self.wanted)?;
            Ok(())
        })?;
        Ok(config::read(home)?)
    }

    /// Prints the changes for a person.
    fn show(&self, context: &Context) {
        if context.printer.is_json() {
            return;
        }
        let width = self.changes.iter().map(|change| change.setting.name().len()).max().unwrap_or_default();
        for SettingChange { setting, before, after } in &self.changes {
            let line = StyledLine::new().accent(format!("{:width$}", setting.name())).plain("  ");
            let line = line.with(TextStyle::Dim, values::text(*setting, before)).plain(" → ");
            context.printer.line(line.plain(values::text(*setting, after)));
        }
    }

    /// Prints what was done, or with `--dry-run` what would be done.
    fn report(&self, now: &Agent, effects: &Value, context: &Context) {
        let id = &now.id;
        let was_changed = !effects.is_null();
        context.printer.say(if was_changed {
            format!("changed {id}")
        } else {
            format!("{id} was not changed: --dry-run")
        });
        let changes: Vec<Value> = self
            .changes
            .iter()
            .map(|SettingChange { setting, before, after }| {
                json!({"setting": setting.name(), "before": before, "after": after})
            })
            .collect();
        let none = json!([]);
        let kept = if was_changed { &effects["kept"] } else { &none };
        context.printer.if_json(&json!({
            "agent": list::describe(now),
            "changed": was_changed && !changes.is_empty(),
            "changes": changes,
            "kept": kept,
            "sandbox": effects["sandbox"],
        }));
    }

    /// Warns of everything that stops the changed agent from working.
    fn warn(&self, home: &Home, config: &Config, context: &Context) {
        if self.now.on_host {
            context.printer.warn(&add::on_host_text(&self.now.id));
        }
        if self.has(&[Setting::Model, Setting::Runtime, Setting::OnHost]) {
            let own = Config { agents: vec![self.now.clone()].into(), ..config.clone() };
            models::warn_of_unusable(home, &own, context);
        }
        if self.has(&[Setting::Model, Setting::BudgetUsd, Setting::BudgetTokens]) {
            for model in
                price::unpriced_models(config).iter().filter(|model| self.now.model.as_ref() == Some(model))
            {
                context.printer.warn(&price::unpriced_warning(model));
            }
        }
        settings::warn_of_invalid_sandboxes(home, config, context);
    }
}

fn report_unchanged(plan: &Plan, context: &Context) -> Result<Exit, Failure> {
    if context.printer.is_json() {
        plan.report(&plan.now, &Value::Null, context);
    } else {
        let text = format!("nothing to change: {} already has these settings", plan.old.id);
        context.printer.line(text);
    }
    Ok(Exit::Done)
}

//! The budget of a schedule: how it is changed, and whether it can bind the recipient.

use super::view;
use crate::clock::unix_ms;
use crate::id::{AgentId, ModelRef, ScheduleName};
use crate::provider::price;
use crate::store::{Level, Schedule, ScheduleBudget, ScheduleTarget};
use crate::swarm::{Actor, Swarm, SwarmError};

/// A change of a budget. `None` leaves a part as it is, and `Some(None)` takes its limit away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BudgetChange {
    /// Tokens in a day.
    pub(crate) tokens: Option<Option<u64>>,
    /// Millionths of a dollar in a day.
    pub(crate) cost: Option<Option<u64>>,
}

impl Swarm {
    /// Changes the budget of a schedule. What it used today stays counted.
    ///
    /// # Errors
    ///
    /// Returns [`SwarmError::NoSchedule`] if there is none, and [`SwarmError::Invalid`] if the budget leaves no room for a run,
    /// or is in dollars alone and can't bind the recipient.
    pub(crate) async fn change_schedule_budget(
        &self,
        by: &Actor,
        name: &ScheduleName,
        change: BudgetChange,
    ) -> Result<Schedule, SwarmError> {
        let found = self.schedule(name).await?;
        let budget = ScheduleBudget {
            tokens: change.tokens.unwrap_or(found.tokens),
            cost: change.cost.unwrap_or(found.cost),
        };
        self.check_schedule_budget(&found.target, budget).await?;
        let entry = by.entry("schedule.budget", name.as_str(), Level::Yellow, view::budget_text(budget));
        if self.store.schedules().set_budget(found.id, budget, entry, unix_ms()).await? {
            self.publish_schedule(name, "budget");
        }
        self.schedule(name).await
    }

    /// Checks that a budget can limit what the recipient uses.
    ///
    /// # Errors
    ///
    /// Returns [`SwarmError::Invalid`] if it can't.
    pub(super) async fn check_schedule_budget(
        &self,
        target: &ScheduleTarget,
        budget: ScheduleBudget,
    ) -> Result<(), SwarmError> {
        if budget.tokens == Some(0) || budget.cost == Some(0) {
            return Err(SwarmError::Invalid("a budget of nothing leaves no room for a run".to_owned()));
        }
        match self.unbound_recipient(target, budget).await? {
            Some(why) => Err(SwarmError::Invalid(why)),
            None => Ok(()),
        }
    }

    /// Returns why a budget does not limit what the recipient uses, if it does not: it is in dollars alone, and the price of a
    /// model is unknown.
    pub(super) async fn unbound_recipient(
        &self,
        target: &ScheduleTarget,
        budget: ScheduleBudget,
    ) -> Result<Option<String>, SwarmError> {
        let config = self.config();
        if !self.depends_on_prices(budget) {
            return Ok(None);
        }
        let agents: Vec<AgentId> = match target {
            ScheduleTarget::Agent(agent) => vec![agent.clone()],
            ScheduleTarget::Channel(channel) => self.channel(channel).await?.agents().cloned().collect(),
        };
        let unpriced = agents.iter().find_map(|id| {
            let model = config.agent(id)?.models().find(|model| price::of(&config, model).is_none())?;
            Some(unbound(id, model))
        });
        Ok(unpriced)
    }

    /// Returns `true` if a budget limits nothing where the price of a model is unknown.
    pub(super) fn depends_on_prices(&self, budget: ScheduleBudget) -> bool {
        budget.cost.is_some() && budget.tokens.is_none() && !self.config().budgets.allow_unpriced
    }
}

fn unbound(agent: &AgentId, model: &ModelRef) -> String {
    format!(
        "a budget in dollars does not limit {agent}, because the price of {model} is unknown: set its cost \
         (models.providers.{}.models[].cost), a limit in tokens beside the dollars, or budgets.unpriced to \"allow\"",
        model.provider()
    )
}

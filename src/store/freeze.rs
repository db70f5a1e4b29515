//! Freezes: of single agents, or of the whole home, which includes agents that are added later.

use std::collections::{BTreeMap, BTreeSet};

use super::audit::{self, AuditEntry};
use super::notice::NoticeKind;
use super::session::parsed;
use super::sql::{self, Connection, OptionalExtension as _, Row, Transaction};
use super::subjects::Freezes;
use super::{Database, Store, StoreError};
use crate::id::AgentId;

/// A freeze of an agent or of the home.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Freeze {
    /// Unix milliseconds.
    #[serde(rename = "since")]
    pub at: i64,
    pub by: String,
    /// The reason that was given, in one line.
    pub reason: Option<String>,
}

impl Freeze {
    /// Returns the reason for the end of a sentence, as in `: it spends too much`, or nothing.
    #[must_use]
    pub(crate) fn reason_text(&self) -> String {
        self.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default()
    }
}

/// The effect that freezing or thawing an agent had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FreezeChange {
    /// It was in that state already, for that reason.
    Nothing,
    /// It was frozen already and has another reason now.
    Reason,
    /// It was frozen or thawed.
    State,
}

impl FreezeChange {
    fn between(before: Option<&Freeze>, after: Option<&Freeze>) -> Self {
        if before.is_some() != after.is_some() {
            return Self::State;
        }
        let reason = |freeze: Option<&Freeze>| freeze.and_then(|freeze| freeze.reason.clone());
        if reason(before) == reason(after) { Self::Nothing } else { Self::Reason }
    }
}

/// The set of frozen agents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FreezeState {
    home: Option<Freeze>,
    agents: BTreeMap<AgentId, Freeze>,
    /// Agents that were thawed one by one while the home is frozen.
    spared: BTreeSet<AgentId>,
}

impl FreezeState {
    /// Returns the freeze that applies to an agent, its own or the home's. The home's also applies to agents not known
    /// yet.
    #[must_use]
    pub fn of(&self, agent: &AgentId) -> Option<&Freeze> {
        // The agent's own freeze comes first. An exemption applies only to that of the home.
        let with_home = self.home.as_ref().filter(|_| !self.spared.contains(agent));
        self.agents.get(agent).or(with_home)
    }

    /// Returns `true` if the agent is frozen.
    #[must_use]
    pub fn holds(&self, agent: &AgentId) -> bool {
        self.of(agent).is_some()
    }

    /// Returns the freeze of the whole home, if there is one.
    #[must_use]
    pub const fn home(&self) -> Option<&Freeze> {
        self.home.as_ref()
    }

    /// Freezes one agent, or the whole home if `agent` is `None`. An existing freeze keeps its time and author, and its
    /// reason unless another one is given.
    pub fn freeze(&mut self, agent: Option<&AgentId>, freeze: Freeze) {
        let reason = freeze.reason.clone();
        let frozen = if let Some(agent) = agent {
            self.spared.remove(agent);
            match &self.home {
                // A frozen home covers the agent already: the end of its exemption is enough.
                Some(_) if reason.is_none() => return,
                // The reason is for this agent alone, so it needs a freeze of its own that stands for the home's.
                Some(home) => self.agents.entry(agent.clone()).or_insert_with(|| home.clone()),
                None => self.agents.entry(agent.clone()).or_insert(freeze),
            }
        } else {
            // A new freeze of the home applies to every agent again.
            self.spared.clear();
            self.home.get_or_insert(freeze)
        };
        if reason.is_some() {
            frozen.reason = reason;
        }
    }

    /// Thaws one agent, or the whole home with all its agents if `agent` is `None`.
    pub fn thaw(&mut self, agent: Option<&AgentId>) {
        let Some(agent) = agent else {
            *self = Self::default();
            return;
        };
        self.agents.remove(agent);
        // Without this exemption the home's freeze would still hold the agent.
        if self.home.is_some() {
            self.spared.insert(agent.clone());
        }
    }

    /// Returns `now`, plus each freeze that is in `self` and was not in `before`.
    ///
    /// `before` is the state last read from the database. A freeze in `self` that is not in it could not be written,
    /// and must stay in force all the same.
    #[must_use]
    pub(crate) fn merge_unsaved(&self, now: &Self, before: &Self) -> Self {
        let mut taken = now.clone();
        if let Some(freeze) = self.home.as_ref().filter(|_| before.home.is_none()) {
            taken.freeze(None, freeze.clone());
        }
        for (agent, freeze) in self.agents.iter().filter(|(agent, _)| !before.agents.contains_key(*agent)) {
            taken.freeze(Some(agent), freeze.clone());
        }
        taken
    }
}

fn frozen(connection: &Connection<'_>) -> sql::Result<FreezeState> {
    let freeze = |row: &Row<'_>| Ok(Freeze { at: row.get(0)?, by: row.get(1)?, reason: row.get(2)? });
    let home = connection
        .prepare_cached("SELECT at, by, reason FROM home_freeze")?
        .query_row((), freeze)
        .optional()?;
    let agents = connection
        .prepare_cached(
            "SELECT frozen_at, coalesce(frozen_by, ''), freeze_reason, agent FROM agent_state
             WHERE frozen_at IS NOT NULL",
        )?
        .query_map((), |row| Ok((parsed(row, 3)?, freeze(row)?)))?
        .collect::<sql::Result<_>>()?;
    let spared = connection
        .prepare_cached("SELECT agent FROM agent_state WHERE spared = 1")?
        .query_map((), |row| parsed(row, 0))?
        .collect::<sql::Result<_>>()?;
    Ok(FreezeState { home, agents, spared })
}

/// Stores one agent's own freeze and its exemption from the home's.
fn write_agent(transaction: &Transaction<'_>, agent: &AgentId, now: &FreezeState) -> sql::Result<()> {
    let own = now.agents.get(agent);
    transaction
        .prepare_cached(
            "INSERT INTO agent_state (agent, frozen_at, frozen_by, spared, freeze_reason) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (agent) DO UPDATE SET frozen_at = ?2, frozen_by = ?3, spared = ?4, freeze_reason = ?5",
        )?
        .execute((
            agent.as_str(),
            own.map(|freeze| freeze.at),
            own.map(|freeze| &freeze.by),
            now.spared.contains(agent),
            own.and_then(|freeze| freeze.reason.as_ref()),
        ))
        .map(drop)
}

impl<A> Freezes<&Database<A>> {
    /// Returns all freezes.
    pub async fn state(self) -> Result<FreezeState, StoreError> {
        self.read("look who is frozen", frozen).await
    }
}

impl Freezes<&Store> {
    /// Freezes an agent, or thaws it if `freeze` is `None`. The audit row is written if that changed something.
    pub(crate) async fn set(
        self,
        agent: AgentId,
        freeze: Option<Freeze>,
        entry: AuditEntry,
        now: i64,
    ) -> Result<FreezeChange, StoreError> {
        self.write("freeze or thaw an agent", move |transaction| {
            let before = frozen(transaction)?;
            let mut after = before.clone();
            match freeze {
                Some(freeze) => after.freeze(Some(&agent), freeze),
                None => after.thaw(Some(&agent)),
            }
            let changed = FreezeChange::between(before.of(&agent), after.of(&agent));
            if after != before {
                write_agent(transaction, &agent, &after)?;
                transaction.tell(NoticeKind::Freeze, agent.as_str());
            }
            if changed != FreezeChange::Nothing {
                audit::append(transaction, &entry, now)?;
            }
            Ok(changed)
        })
        .await
    }

    /// Freezes the whole home, or thaws it with all its agents if `freeze` is `None`.
    ///
    /// `entry` is the audit row of the home. Each of `agents` comes with the audit row that is written if its state
    /// changes. Returns the change of each of them.
    pub(crate) async fn set_home(
        self,
        freeze: Option<Freeze>,
        entry: AuditEntry,
        agents: Vec<(AgentId, AuditEntry)>,
        now: i64,
    ) -> Result<Vec<FreezeChange>, StoreError> {
        self.write("freeze or thaw all agents", move |transaction| {
            let before = frozen(transaction)?;
            let mut after = before.clone();
            if let Some(freeze) = freeze {
                after.freeze(None, freeze);
                // As in memory: exemptions from an earlier freeze end.
                transaction.execute("UPDATE agent_state SET spared = 0", ())?;
            } else {
                after.thaw(None);
                transaction
                    .execute(
                        "UPDATE agent_state SET frozen_at = NULL, frozen_by = NULL, freeze_reason = NULL, spared = 0",
                        (),
                    )?;
            }
            // The row is written again below. A freeze that continues keeps its time and author.
            transaction.execute("DELETE FROM home_freeze", ())?;
            if let Some(Freeze { at, by, reason }) = &after.home {
                let insert = "INSERT INTO home_freeze (one, at, by, reason) VALUES (1, ?1, ?2, ?3)";
                transaction.execute(insert, (at, by, reason))?;
            }
            transaction.tell(NoticeKind::Freeze, "");
            if FreezeChange::between(before.home(), after.home()) != FreezeChange::Nothing {
                audit::append(transaction, &entry, now)?;
            }
            let mut changed = Vec::new();
            for (agent, entry) in &agents {
                let change = FreezeChange::between(before.of(agent), after.of(agent));
                // Another reason of the home is written once, in the row of the home.
                if change == FreezeChange::State {
                    audit::append(transaction, entry, now)?;
                }
                changed.push(change);
            }
            Ok(changed)
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(id: &str) -> AgentId {
        id.parse().unwrap()
    }

    fn freeze(at: i64) -> Freeze {
        Freeze { at, by: "human:ann".to_owned(), reason: None }
    }

    fn freeze_for(at: i64, reason: &str) -> Freeze {
        Freeze { reason: Some(reason.to_owned()), ..freeze(at) }
    }

    #[test]
    fn another_reason_replaces_the_one_before_and_nothing_else() {
        let mut frozen = FreezeState::default();
        frozen.freeze(Some(&agent("coder")), freeze(1));
        frozen.freeze(Some(&agent("coder")), freeze_for(2, "it loops"));
        assert_eq!(frozen.of(&agent("coder")), Some(&freeze_for(1, "it loops")));
        frozen.freeze(Some(&agent("coder")), freeze(3));
        assert_eq!(
            frozen.of(&agent("coder")),
            Some(&freeze_for(1, "it loops")),
            "no reason is no other reason"
        );
        frozen.freeze(None, freeze_for(4, "a holiday"));
        assert_eq!(frozen.of(&agent("coder")), Some(&freeze_for(1, "it loops")));
        assert_eq!(frozen.of(&agent("later")), Some(&freeze_for(4, "a holiday")));
        frozen.freeze(None, freeze_for(5, "two holidays"));
        assert_eq!(frozen.home(), Some(&freeze_for(4, "two holidays")));
        // An agent of a frozen home gets a reason of its own, and is thawed with all.
        frozen.freeze(Some(&agent("later")), freeze_for(6, "its key is old"));
        assert_eq!(frozen.of(&agent("later")), Some(&freeze_for(4, "its key is old")));
        assert_eq!(frozen.of(&agent("other")), Some(&freeze_for(4, "two holidays")));
        frozen.thaw(None);
        assert_eq!(frozen, FreezeState::default());
    }

    #[test]
    fn a_change_is_of_the_state_or_of_the_reason() {
        let (plain, other) = (freeze(1), freeze_for(2, "it loops"));
        let between = FreezeChange::between;
        assert_eq!(between(None, Some(&other)), FreezeChange::State);
        assert_eq!(between(Some(&other), None), FreezeChange::State);
        assert_eq!(between(Some(&plain), Some(&other)), FreezeChange::Reason);
        assert_eq!(between(Some(&plain), Some(&freeze(3))), FreezeChange::Nothing);
        assert_eq!(between(None, None), FreezeChange::Nothing);
    }

    #[test]
    fn a_frozen_home_includes_new_agents_but_not_those_thawed_since() {
        let mut frozen = FreezeState::default();
        frozen.freeze(Some(&agent("coder")), freeze(1));
        assert!(frozen.holds(&agent("coder")) && !frozen.holds(&agent("later")));
        frozen.freeze(None, freeze(2));
        assert_eq!(frozen.of(&agent("coder")), Some(&freeze(1)));
        assert_eq!(frozen.of(&agent("later")), Some(&freeze(2)));
        frozen.thaw(Some(&agent("coder")));
        assert!(!frozen.holds(&agent("coder")) && frozen.holds(&agent("later")));
        frozen.freeze(Some(&agent("coder")), freeze(3));
        assert!(frozen.holds(&agent("coder")));
        frozen.thaw(Some(&agent("coder")));
        frozen.freeze(None, freeze(4));
        assert!(frozen.holds(&agent("coder")), "all are all");
        frozen.thaw(None);
        assert_eq!(frozen, FreezeState::default());
    }

    #[test]
    fn a_freeze_that_could_not_be_saved_stays_in_force() {
        let nobody = FreezeState::default();
        let mut here = FreezeState::default();
        here.freeze(Some(&agent("coder")), freeze(1));
        assert!(here.merge_unsaved(&nobody, &nobody).holds(&agent("coder")), "the database never knew of it");
        assert!(!here.merge_unsaved(&nobody, &here).holds(&agent("coder")), "somebody thawed it there");
        let mut all = FreezeState::default();
        all.freeze(None, freeze(1));
        assert!(all.merge_unsaved(&nobody, &nobody).holds(&agent("later")));
        assert!(!all.merge_unsaved(&nobody, &all).holds(&agent("later")));
        assert!(nobody.merge_unsaved(&all, &nobody).holds(&agent("later")));
    }
}

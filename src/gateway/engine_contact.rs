//! The engines that this gateway reaches. The gateways of a group are on several machines and have secrets of their own, so some
//! of them may not reach the engine of an agent.
//!
//! A task asks the engines that agents are on, and says in the gateway's row which of them answer. From that, and from what the
//! others say, follows the [`Fitness`] of this gateway for an agent. An engine that answers no gateway makes none of them less fit:
//! the agent keeps its gateway, whose status names the engine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future;
use tokio::sync::watch;

use super::state::Gateway;
use crate::clock;
use crate::config::{Agent, Config};
use crate::error::chain;
use crate::id::{AgentId, EngineName};
use crate::sandbox::SandboxError;
use crate::sandbox::engines::is_placed;
use crate::store::{Epoch, LeaseSubject, LivingGateway, StoreError};
use crate::swarm::lease::Fitness;

/// The pause between two looks at the engines.
const INTERVAL: Duration = Duration::from_secs(15);

/// The time for which an engine has to be silent before its agents go to another gateway, in milliseconds. It is longer than a
/// broken connection to a sandbox is resumed: no command runs there any more.
const LOST_MS: i64 = 90_000;

/// The same time for an engine that has never answered this run of the gateway, in milliseconds.
const NEVER_MS: i64 = 20_000;

/// The answers of one engine. Times are milliseconds of a clock of this machine that is never set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct EngineContact {
    has_answered: bool,
    /// The times of the first and of the last look since its last answer.
    silent: Option<(i64, i64)>,
}

impl EngineContact {
    const fn after(self, answers: bool, now: i64) -> Self {
        match (answers, self.silent) {
            (true, _) => Self { has_answered: true, silent: None },
            (false, Some((since, _))) => Self { silent: Some((since, now)), ..self },
            (false, None) => Self { silent: Some((now, now)), ..self },
        }
    }

    const fn answers(self) -> bool {
        self.has_answered && self.silent.is_none()
    }

    /// Returns `true` if it was silent at each look for a long time.
    const fn is_lost(self) -> bool {
        let limit = if self.has_answered { LOST_MS } else { NEVER_MS };
        matches!(self.silent, Some((since, last)) if last - since >= limit)
    }
}

/// The engines of agents, as this gateway sees them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct EngineContacts {
    /// The engines of the agents that are on one.
    agents: BTreeMap<AgentId, EngineName>,
    engines: BTreeMap<EngineName, EngineContact>,
}

impl EngineContacts {
    /// Returns the state after a look at all engines that agents are on.
    fn after(
        &self,
        agents: BTreeMap<AgentId, EngineName>,
        answers: &BTreeMap<EngineName, bool>,
        now: i64,
    ) -> Self {
        let engine = |(name, answers): (&EngineName, &bool)| {
            let before = self.engines.get(name).copied().unwrap_or_default();
            (name.clone(), before.after(*answers, now))
        };
        Self { agents, engines: answers.iter().map(engine).collect() }
    }

    fn answering(&self) -> BTreeSet<EngineName> {
        let answering = self.engines.iter().filter(|(_, contact)| contact.answers());
        answering.map(|(name, _)| name.clone()).collect()
    }

    fn all_answer(&self) -> bool {
        let mut engines = self.agents.values();
        engines.all(|name| self.engines.get(name).is_some_and(|contact| contact.answers()))
    }

    /// Returns the engine of an agent with the answers of that engine, or `None` for an agent that is on none.
    fn of(&self, agent: &AgentId) -> Option<(&EngineName, EngineContact)> {
        let name = self.agents.get(agent)?;
        Some((name, self.engines.get(name).copied().unwrap_or_default()))
    }
}

/// The engines that this gateway and the others reach at this moment.
#[derive(Debug)]
pub(super) struct EngineReach {
    contacts: Arc<EngineContacts>,
    /// The engines that answer each of the other gateways. Empty if this one reaches all engines.
    others: Vec<BTreeSet<EngineName>>,
}

impl EngineReach {
    /// Compares what this gateway has seen with what the others say, if it matters.
    pub(super) fn new(me: Epoch, contacts: Arc<EngineContacts>, living: &[LivingGateway]) -> Self {
        let all_answer = contacts.all_answer();
        let others = living.iter().filter(|other| other.epoch != me && !all_answer);
        Self { others: others.map(|other| other.engines.clone()).collect(), contacts }
    }

    /// Returns the fitness of this gateway for a subject.
    pub(super) fn fitness(&self, subject: &LeaseSubject) -> Fitness {
        if self.others.is_empty() {
            return Fitness::Fit;
        }
        let Some((engine, contact)) = self.contact(subject) else { return Fitness::Fit };
        if contact.answers() || !self.others.iter().any(|reached| reached.contains(engine)) {
            Fitness::Fit
        } else if contact.is_lost() {
            Fitness::Misplaced
        } else {
            Fitness::Unfit
        }
    }

    /// Returns the engine of a subject, if it is an agent that is on one, with the answers of that engine.
    fn contact(&self, subject: &LeaseSubject) -> Option<(&EngineName, EngineContact)> {
        self.contacts.of(&subject.as_agent()?)
    }

    /// Returns `true` if the engine of the agent answers, or `None` if it is on none.
    pub(super) fn answers(&self, agent: &AgentId) -> Option<bool> {
        Some(self.contacts.of(agent)?.1.answers())
    }

    /// Returns `true` if the engine of the agent was silent for so long that nothing of it runs there any more.
    pub(super) fn is_lost(&self, agent: &AgentId) -> bool {
        self.contacts.of(agent).is_some_and(|(_, contact)| contact.is_lost())
    }

    /// Returns `true` if the subject can't be given up now: its sandbox may run on in an engine that is silent, and can't be
    /// removed. In the machine's own engine nothing runs while that is silent.
    pub(super) fn is_stuck(&self, subject: &LeaseSubject) -> bool {
        self.contact(subject).is_some_and(|(engine, contact)| {
            !engine.is_local() && contact.silent.is_some() && !contact.is_lost()
        })
    }
}

/// Returns the engine of each agent that is on one. Another agent needs none: its gateway places it on an engine that answers.
fn engines_of_agents(
    config: &Config,
    placed: &BTreeMap<AgentId, EngineName>,
) -> BTreeMap<AgentId, EngineName> {
    let engine_of = |agent: &Agent| {
        if config.engines.is_empty() {
            return Some(EngineName::local());
        }
        let name = placed.get(&agent.id)?;
        let is_known = name.is_local() || config.engines.iter().any(|engine| engine.name == *name);
        is_known.then(|| name.clone())
    };
    let agents = config.agents.iter().filter(|agent| is_placed(agent));
    agents.filter_map(|agent| Some((agent.id.clone(), engine_of(agent)?))).collect()
}

/// The engines of agents, and the problem of each engine that does not answer.
struct LookedAt {
    agents: BTreeMap<AgentId, EngineName>,
    problems: BTreeMap<EngineName, Option<SandboxError>>,
}

async fn look_for_agents(gateway: &Gateway) -> Result<BTreeMap<AgentId, EngineName>, SandboxError> {
    let config = gateway.config();
    let placed = match config.engines.is_empty() {
        true => BTreeMap::new(),
        false => gateway.swarm.engines().placements().await?,
    };
    Ok(engines_of_agents(&config, &placed))
}

/// Asks all engines that agents are on at the same time. It takes some seconds if one of them does not answer.
async fn look(gateway: &Gateway) -> Result<LookedAt, SandboxError> {
    let (engines, agents) = (gateway.swarm.engines(), look_for_agents(gateway).await?);
    let names: BTreeSet<EngineName> = agents.values().cloned().collect();
    let asked = names.into_iter().map(|name| async move {
        let problem = engines.find_any(&name)?.ping(false).await.err();
        Some((name, problem))
    });
    let problems = future::join_all(asked).await.into_iter().flatten().collect();
    Ok(LookedAt { agents, problems })
}

/// Returns the engines of agents before any of them was asked.
pub(super) async fn unasked(gateway: &Gateway) -> Arc<EngineContacts> {
    let agents = look_for_agents(gateway).await.unwrap_or_else(|error| {
        tracing::error!(error = chain(&error), "failed to look on which engines agents are");
        BTreeMap::new()
    });
    Arc::new(EngineContacts { agents, engines: BTreeMap::new() })
}

/// Looks at the engines until the gateway stops. `told` gets each change.
pub(super) async fn run(gateway: Arc<Gateway>, me: Epoch, told: watch::Sender<Arc<EngineContacts>>) {
    let store = gateway.swarm.store();
    let mut contacts = Arc::clone(&told.borrow());
    let mut said = None;
    loop {
        let Some(looked) = gateway.stop.run_until_cancelled(look(&gateway)).await else { return };
        match looked {
            Ok(looked) => {
                let before = contacts;
                contacts = Arc::new(note(&before, looked));
                if *contacts != *before {
                    told.send_replace(Arc::clone(&contacts));
                }
            }
            Err(error) => tracing::error!(error = chain(&error), "failed to look at the engines of agents"),
        }
        let answering = contacts.answering();
        if said.as_ref() != Some(&answering) {
            match store.gateways().set_engines(me, &answering).await {
                Ok(()) => said = Some(answering),
                Err(StoreError::Fenced { .. }) => return,
                Err(error) => {
                    tracing::error!(error = chain(&error), "failed to say which engines answer this gateway");
                }
            }
        }
        if gateway.stop.run_until_cancelled(tokio::time::sleep(INTERVAL)).await.is_none() {
            return;
        }
    }
}

/// Returns the state after a look, and logs what is new.
fn note(before: &EngineContacts, looked: LookedAt) -> EngineContacts {
    let LookedAt { agents, problems } = looked;
    for (engine, problem) in &problems {
        let known = before.engines.get(engine).copied().unwrap_or_default();
        match problem {
            Some(error) if known.silent.is_none() => tracing::warn!(
                %engine,
                error = chain(error),
                "an engine does not answer, so agents that are on it go to a gateway that reaches it, if there is one"
            ),
            None if known.silent.is_some() => tracing::info!(%engine, "an engine answers again"),
            _ => {}
        }
    }
    let answers = problems.into_iter().map(|(name, problem)| (name, problem.is_none()));
    before.after(agents, &answers.collect::<BTreeMap<_, _>>(), clock::boot_ms())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::home::Home;

    fn name(engine: &str) -> EngineName {
        engine.parse().unwrap()
    }

    fn id(agent: &str) -> AgentId {
        agent.parse().unwrap()
    }

    /// Returns the contacts after looks at the engine of the agent `ada`, each with its time.
    fn after(engine: &str, looks: &[(i64, bool)]) -> Arc<EngineContacts> {
        let agents = BTreeMap::from([(id("ada"), name(engine))]);
        let look = |contacts: EngineContacts, (now, answers): &(i64, bool)| {
            contacts.after(agents.clone(), &BTreeMap::from([(name(engine), *answers)]), *now)
        };
        Arc::new(looks.iter().fold(EngineContacts::default(), look))
    }

    fn reach(contacts: Arc<EngineContacts>, others: &[&[&str]]) -> EngineReach {
        let engines = |names: &&[&str]| names.iter().map(|engine| name(engine)).collect();
        EngineReach { contacts, others: others.iter().map(engines).collect() }
    }

    #[test]
    fn an_agent_goes_where_its_engine_is_reached_and_only_after_a_long_silence() {
        let ada = LeaseSubject::agent(&id("ada"));
        let answered = (0, true);
        for (looks, fitness) in [
            (&[answered][..], Fitness::Fit),
            (&[answered, (15_000, false)], Fitness::Unfit),
            (&[answered, (15_000, false), (90_000, false)], Fitness::Unfit),
            (&[answered, (15_000, false), (105_000, false)], Fitness::Misplaced),
            // It answers now and then.
            (&[answered, (15_000, false), (60_000, true), (105_000, false)], Fitness::Unfit),
            (&[answered, (15_000, false), (105_000, false), (120_000, true)], Fitness::Fit),
            // One that has never answered is waited for less.
            (&[(0, false)], Fitness::Unfit),
            (&[(0, false), (30_000, false)], Fitness::Misplaced),
        ] {
            let contacts = after("far", looks);
            assert_eq!(reach(Arc::clone(&contacts), &[&[], &["far"]]).fitness(&ada), fitness, "{looks:?}");
            // Nobody else reaches it, so the agent stays with the gateway that it has.
            let nobody = reach(contacts, &[&[], &["local"]]);
            assert_eq!(nobody.fitness(&ada), Fitness::Fit, "{looks:?}");
        }
    }

    #[test]
    fn before_the_first_look_a_gateway_that_reaches_the_engine_goes_first() {
        let agents = BTreeMap::from([(id("ada"), name("far"))]);
        let unknown = Arc::new(EngineContacts::default().after(agents, &BTreeMap::new(), 0));
        let reach = reach(unknown, &[&["far"]]);
        assert_eq!(reach.fitness(&LeaseSubject::agent(&id("ada"))), Fitness::Unfit);
        // It is on no engine yet, and is placed on one that answers.
        assert_eq!(reach.fitness(&LeaseSubject::agent(&id("bob"))), Fitness::Fit);
        assert_eq!(reach.fitness(&LeaseSubject::clock()), Fitness::Fit);
    }

    #[test]
    fn a_sandbox_that_may_run_on_keeps_its_agent_here() {
        let ada = id("ada");
        let silent = &[(0, true), (15_000, false)];
        let lost = &[(0, true), (15_000, false), (105_000, false)];
        let state = |engine: &str, looks: &[(i64, bool)]| {
            let reach = reach(after(engine, looks), &[]);
            (reach.answers(&ada), reach.is_stuck(&LeaseSubject::agent(&ada)), reach.is_lost(&ada))
        };
        assert_eq!(state("far", &silent[..1]), (Some(true), false, false));
        assert_eq!(state("far", silent), (Some(false), true, false));
        assert_eq!(state("far", lost), (Some(false), false, true));
        assert_eq!(state("local", silent), (Some(false), false, false));
        assert_eq!(reach(after("far", silent), &[]).answers(&id("bob")), None);
    }

    #[test]
    fn a_gateway_says_what_answers_it() {
        assert_eq!(after("far", &[(0, true)]).answering(), BTreeSet::from([name("far")]));
        assert!(after("far", &[(0, true), (1, false)]).answering().is_empty());
        assert!(EngineContacts::default().answering().is_empty());
    }

    #[test]
    fn an_agent_is_on_the_engine_where_it_is_placed() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().join("home"), None);
        let mut document = json!({
            "gateway": {"auth": {"token": "t"}},
            "agents": {"list": [{"id": "fay", "sandbox": {"mode": "off"}}]},
            "plugins": {"entries": {"flock": {"config": {
                "gatewayAgents": [
                    {"id": "ada", "role": "worker"}, {"id": "bob", "role": "worker"},
                    {"id": "eve", "role": "worker"},
                    {"id": "fay", "role": "sysadmin"},
                ],
                "engines": {"far": {"address": "tcp://far.example"}},
            }}}},
        });
        let config = |document: &Value| crate::config::parse::config(document, &home).unwrap();
        let placed =
            BTreeMap::from([(id("ada"), name("far")), (id("bob"), name("gone")), (id("fay"), name("far"))]);
        assert_eq!(
            engines_of_agents(&config(&document), &placed),
            BTreeMap::from([(id("ada"), name("far"))])
        );
        document["plugins"]["entries"]["flock"]["config"]["engines"] = json!({});
        let all = ["ada", "bob", "eve"].map(|agent| (id(agent), name("local")));
        assert_eq!(engines_of_agents(&config(&document), &placed), BTreeMap::from(all));
    }
}

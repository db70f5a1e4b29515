//! Looks at the engines. Watchers are told when one stops answering and when it answers again. One that was silent for as long as
//! its setting says is given up: each of its agents whose files are here or in the second place goes on elsewhere.
//!
//! The others stay, with the reason, as all do without this setting. The engine stays in the configuration. When it answers again,
//! the sandboxes that agents have left there are removed, and no agent goes back by itself. The volumes of their workspaces stay
//! there: they may have more than the last checkpoint.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future;
use tokio::time::Instant;

use super::engines::{note_move, reason_to_wait, tell_of_change};
use super::state::Gateway;
use crate::checkpoint::Checkpoints;
use crate::checkpoint::lost::{LostEngine, Replacement};
use crate::clock;
use crate::config::Agent;
use crate::error::chain;
use crate::home::elsewhere;
use crate::id::EngineName;
use crate::sandbox::engines::{AgentPlace, is_placed};
use crate::sandbox::placed_sandbox::PlacedSandbox;
use crate::store::Level;
use crate::swarm::{Actor, Swarm};

/// The pause between two looks at the engines.
const INTERVAL: Duration = Duration::from_secs(15);

/// The pause after work on an engine that may have left something to do.
const RETRY: Duration = Duration::from_secs(60);

/// The work on an engine after a look at it.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Nothing,
    /// Its agents leave it.
    Leave,
    /// It answers, and what agents have left there is removed.
    Tidy,
}

/// The answers of one engine. The clock does not run while this machine sleeps.
#[derive(Clone, Copy, Debug, Default)]
struct Silence {
    /// The time of the first look since its last answer.
    since: Option<Instant>,
    /// `true` if nothing that agents have left is there.
    is_tidy: bool,
    /// The time before which nothing is tried again.
    due: Option<Instant>,
}

impl Silence {
    /// Returns what follows from a look. `limit` is the silence after which the engine is lost.
    fn step(&mut self, answers: bool, limit: Duration, now: Instant) -> Step {
        if answers != self.since.is_none() {
            self.due = None;
        }
        let is_due = self.due.is_none_or(|due| now >= due);
        if answers {
            self.since = None;
            return if self.is_tidy || !is_due { Step::Nothing } else { Step::Tidy };
        }
        self.is_tidy = false;
        let since = *self.since.get_or_insert(now);
        if now - since >= limit && is_due { Step::Leave } else { Step::Nothing }
    }
}

/// The engines, by what this gateway has seen of them.
#[derive(Default)]
struct EngineLooks {
    /// The engines that answered at the last look, and those that did not.
    answers: BTreeMap<EngineName, bool>,
    /// Those that can be lost.
    silences: HashMap<EngineName, Silence>,
}

/// Looks at the engines until the gateway stops.
pub(super) async fn watch(gateway: Arc<Gateway>, sandboxes: Arc<PlacedSandbox>) {
    let mut engines = EngineLooks::default();
    let stop = gateway.stop.clone();
    while stop.run_until_cancelled(tokio::time::sleep(INTERVAL)).await.is_some() {
        let look = engines.look(&gateway.swarm, &gateway.checkpoints, &sandboxes, Instant::now());
        if stop.run_until_cancelled(Box::pin(look)).await.is_none() {
            return;
        }
    }
}

impl EngineLooks {
    /// Looks at all engines, and does what follows. The machine's own alone can't be lost, and no page shows it among engines.
    async fn look(
        &mut self,
        swarm: &Swarm,
        checkpoints: &Checkpoints,
        sandboxes: &PlacedSandbox,
        now: Instant,
    ) {
        let (config, engines) = (swarm.config(), swarm.engines());
        if config.engines.is_empty() {
            *self = Self::default();
            return;
        }
        let asked = engines.ask().await;
        if self.note(asked.into_iter().map(|found| (found.name, found.problem.is_none())).collect()) {
            tell_of_change(swarm);
        }
        let watched = config.engines.iter().filter_map(|engine| {
            let (limit, answers) = (engine.lost_after?, *self.answers.get(&engine.name)?);
            Some((engines.find_any(&engine.name)?, limit, answers))
        });
        let watched: Vec<_> = watched.collect();
        self.silences.retain(|name, _| watched.iter().any(|(place, ..)| place.name() == name));
        for (place, limit, answers) in watched {
            let silence = self.silences.entry(place.name().clone()).or_default();
            match silence.step(answers, limit, now) {
                Step::Nothing => continue,
                Step::Leave => leave(swarm, checkpoints, &place).await,
                Step::Tidy => silence.is_tidy = tidy(swarm, sandboxes, &place).await,
            }
            silence.due = Some(now + RETRY);
        }
    }

    /// Takes note of a look. Returns `true` if an engine has stopped answering or answers again. One that is added or removed is a
    /// change of the configuration.
    fn note(&mut self, answers: BTreeMap<EngineName, bool>) -> bool {
        let before = std::mem::replace(&mut self.answers, answers);
        before.iter().any(|(name, answered)| self.answers.get(name).is_some_and(|now| now != answered))
    }
}

/// Places the agents of an engine elsewhere that this gateway takes care of, as far as that is possible.
async fn leave(swarm: &Swarm, checkpoints: &Checkpoints, place: &AgentPlace) {
    let lost = place.name();
    // Its agents go to the gateway that reaches it.
    let is_reached = swarm.ownership().others().iter().any(|other| other.engines.contains(lost));
    if is_reached || place.ping(true).await.is_ok() {
        return;
    }
    let placed = match swarm.engines().placements().await {
        Ok(placed) => placed,
        Err(error) => {
            return tracing::error!(error = chain(&error), "failed to look for the agents of a lost engine");
        }
    };
    let config = swarm.config();
    let is_there = |agent: &&Agent| {
        is_placed(agent)
            && (placed.get(&agent.id) == Some(lost)
                || elsewhere::engine_of(&agent.workspace).as_ref() == Some(lost))
    };
    let agents: Vec<&Agent> = config.agents.iter().filter(is_there).collect();
    if agents.is_empty() {
        return;
    }
    // Once for all of them: each that is silent takes seconds.
    let silent = swarm.engines().silent().await;
    let each = agents.into_iter().map(|agent| Box::pin(leave_one(swarm, checkpoints, agent, lost, &silent)));
    future::join_all(each).await;
}

async fn leave_one(
    swarm: &Swarm,
    checkpoints: &Checkpoints,
    agent: &Agent,
    lost: &EngineName,
    silent: &[EngineName],
) {
    let id = &agent.id;
    // Until the end: another gateway would make a sandbox meanwhile.
    let Some(_lease) = swarm.ownership().enter_agent(id) else { return };
    let waits = match try_to_leave(swarm, checkpoints, agent, lost, silent).await {
        Ok((to, files)) => {
            tracing::warn!(agent = %id, from = %lost, %to, files, "an agent left an engine that is lost");
            let detail = format!("from {lost} to {to}, because {lost} does not answer; {files}");
            note_move(swarm, id, Level::Yellow, detail).await;
            None
        }
        Err(reason) => Some(reason),
    };
    swarm.engines().note_wait(id, waits);
}

/// Returns the engine where the agent is now, with what has become of its files, or the reason why it stays.
async fn try_to_leave(
    swarm: &Swarm,
    checkpoints: &Checkpoints,
    agent: &Agent,
    lost: &EngineName,
    silent: &[EngineName],
) -> Result<(EngineName, String), String> {
    // First: without another engine, the agent would gain nothing.
    swarm.engines().beside_lost(agent, lost, silent).await.map_err(|error| chain(&error))?;
    // A workspace without a mark is here, because an earlier attempt was interrupted or no sandbox was made there.
    let files = match elsewhere::engine_of(&agent.workspace).as_ref() == Some(lost) {
        true => bring_back(checkpoints, agent, lost).await?,
        false => "its workspace was on this machine".to_owned(),
    };
    // Until here, no sandbox has the folder.
    let to = swarm.engines().leave_lost(agent, lost).await.map_err(|error| chain(&error))?;
    Ok((to, files))
}

/// Gives up the agent's workspace for the files of its newest checkpoint. Returns what has become of them, or why it is not given up.
async fn bring_back(checkpoints: &Checkpoints, agent: &Agent, lost: &EngineName) -> Result<String, String> {
    let by = Actor::system().party.to_string();
    let engine = LostEngine { name: lost.clone(), by, needs_newest: true };
    match Box::pin(checkpoints.replace_lost(agent, &engine)).await {
        Ok(Replacement::Restored { at }) => {
            Ok(format!("its workspace has the files of its checkpoint of {}", clock::local(at)))
        }
        Ok(Replacement::Waiting(error)) => {
            Ok(format!("the files of its checkpoint are not all back yet: {}", chain(&error)))
        }
        Ok(Replacement::Kept { problem: None, .. } | Replacement::Empty(_)) => {
            Err("the files of its newest checkpoint are neither here nor in a second place".to_owned())
        }
        Ok(Replacement::Kept { problem: Some(error), .. }) => Err(format!(
            "the files of its newest checkpoint are not here, and can't be brought from the second place: {}",
            chain(&error)
        )),
        Err(error) => Err(reason_to_wait(&agent.id, &error).unwrap_or_else(|| chain(&error))),
    }
}

/// Removes the sandboxes that agents have left on an engine that answers again. Returns `true` if none is left.
async fn tidy(swarm: &Swarm, sandboxes: &PlacedSandbox, place: &AgentPlace) -> bool {
    let placed = match swarm.engines().placements().await {
        Ok(placed) => placed,
        Err(error) => {
            tracing::error!(error = chain(&error), "failed to look for the agents that have left an engine");
            return false;
        }
    };
    let (config, engine) = (swarm.config(), place.name());
    let mut is_tidy = true;
    for agent in config.agents.iter().filter(|agent| is_placed(agent)) {
        match placed.get(&agent.id) {
            Some(on) if on == engine => swarm.engines().note_wait(&agent.id, None),
            Some(_) => {
                if let Err(error) = sandboxes.end_leftover(&agent.id, place).await {
                    let (agent, error) = (&agent.id, chain(&error));
                    tracing::warn!(%agent, %engine, error, "the sandbox that an agent has left may be there");
                    is_tidy = false;
                }
            }
            None => {}
        }
    }
    is_tidy
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use serde_json::{Value, json};

    use super::*;
    use crate::checkpoint::testing::PlainServices;
    use crate::home::elsewhere::Mark;
    use crate::id::AgentId;
    use crate::sandbox::docker::{ConfigSource, DockerSandbox};
    use crate::sandbox::kubernetes::KubernetesSandbox;
    use crate::sandbox::{names, testing};
    use crate::store::{AuditFilter, LeaseSubject};
    use crate::swarm::lease::Ownership;
    use crate::swarm::testing::Team;

    const HALF_AN_HOUR: Duration = Duration::from_secs(30 * 60);

    struct Process;

    impl PlainServices for Process {}

    /// A team with the engine `far`, which does not answer. Its workers need the label `gpu`.
    struct Scene {
        team: Team,
        checkpoints: Checkpoints,
        sandboxes: PlacedSandbox,
        far: EngineName,
    }

    impl Scene {
        fn new(others: impl FnOnce(&mut Value)) -> Self {
            let team = Team::with(|config| {
                let far = json!({"address": "tcp://127.0.0.1:9", "labels": ["gpu"], "lostAfterMinutes": 30});
                config["engines"]["far"] = far;
                let agents = config["gatewayAgents"].as_array_mut().unwrap();
                for agent in agents.iter_mut().filter(|agent| agent["role"] != "sysadmin") {
                    agent["labels"] = json!(["gpu"]);
                }
                others(&mut config["engines"]);
            });
            let (live, store) = (Arc::clone(team.swarm.live()), Arc::clone(&team.store));
            let checkpoints = Checkpoints::new(Arc::clone(&live), store, Arc::clone(team.swarm.ownership()));
            checkpoints.serve(Arc::new(Process));
            let (home, engines) = (team.swarm.home(), team.swarm.engines());
            let source: ConfigSource = Arc::new(move || live.current());
            let docker = DockerSandbox::new(home.clone(), Arc::clone(&source), Arc::clone(engines.local()))
                .with_engines(Arc::clone(engines));
            let clusters = KubernetesSandbox::new(home.clone(), Arc::clone(&source), Arc::clone(engines));
            let sandboxes = PlacedSandbox::new(Arc::new(docker), Arc::new(clusters), source);
            Self { team, checkpoints, sandboxes, far: "far".parse().unwrap() }
        }

        /// Places an agent on `far`, with its workspace.
        async fn move_to_far(&self, agent: &AgentId) {
            let workspace = self.team.swarm.home().workspace(agent);
            drop(elsewhere::mark(&workspace, &Mark::new(&self.far, agent)).unwrap());
            self.team.store.placements().put(agent.clone(), self.far.clone(), 1).await.unwrap();
        }

        async fn look(&self, engines: &mut EngineLooks, now: Instant) {
            Box::pin(engines.look(&self.team.swarm, &self.checkpoints, &self.sandboxes, now)).await;
        }

        async fn engine_of(&self, agent: &AgentId) -> String {
            self.team.swarm.engines().placements().await.unwrap()[agent].to_string()
        }

        fn waits(&self, agent: &AgentId) -> Option<String> {
            self.team.swarm.engines().waits().get(agent).cloned()
        }
    }

    fn id(text: &str) -> AgentId {
        text.parse().unwrap()
    }

    #[test]
    fn an_engine_is_left_only_after_a_silence_without_a_break_and_is_tidied_once() {
        let (mut silence, start) = (Silence::default(), Instant::now());
        let after = |minutes: u64| start + Duration::from_secs(minutes * 60);
        let mut look = |minutes: u64, answers: bool| silence.step(answers, HALF_AN_HOUR, after(minutes));
        assert_eq!(look(0, false), Step::Nothing);
        assert_eq!(look(29, false), Step::Nothing);
        assert_eq!(look(29, true), Step::Tidy);
        assert_eq!(look(30, false), Step::Nothing);
        assert_eq!(look(59, false), Step::Nothing);
        assert_eq!(look(60, false), Step::Leave);
        // What could not be done is tried again, after a pause.
        silence.due = Some(after(61));
        assert_eq!(silence.step(false, HALF_AN_HOUR, after(60)), Step::Nothing);
        assert_eq!(silence.step(false, HALF_AN_HOUR, after(61)), Step::Leave);
        silence.due = Some(after(70));
        assert_eq!(silence.step(true, HALF_AN_HOUR, after(62)), Step::Tidy, "an answer ends the pause");
        silence.due = Some(after(63));
        assert_eq!(silence.step(true, HALF_AN_HOUR, after(62)), Step::Nothing);
        assert_eq!(silence.step(true, HALF_AN_HOUR, after(63)), Step::Tidy);
        silence.is_tidy = true;
        assert_eq!(silence.step(true, HALF_AN_HOUR, after(64)), Step::Nothing);
    }

    #[test]
    fn an_engine_is_news_when_it_stops_answering_and_when_it_answers_again() {
        let mut looks = EngineLooks::default();
        let mut is_news = |answers: &[(&str, bool)]| {
            looks.note(answers.iter().map(|(name, answers)| (name.parse().unwrap(), *answers)).collect())
        };
        assert!(!is_news(&[("far", false), ("local", true)]), "who looks at them sees that");
        assert!(!is_news(&[("far", false), ("local", true), ("near", true)]));
        assert!(is_news(&[("far", true), ("local", true), ("near", true)]));
        assert!(!is_news(&[("far", true), ("local", true), ("near", true)]));
        assert!(is_news(&[("far", true), ("local", false), ("near", true)]));
        assert!(!is_news(&[("far", true), ("local", false)]), "it was removed");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn agents_of_a_silent_engine_go_on_elsewhere_if_their_newest_files_are_here() {
        let (near, _socket) = testing::engine(|_: &str| (200, "OK"));
        let address = near.endpoint().to_owned();
        let scene = Scene::new(|engines| engines["near"] = json!({"address": address, "labels": ["gpu"]}));
        let [coder, tester, orchestrator] = ["coder", "tester", "orchestrator"].map(id);
        let swarm = &scene.team.swarm;
        let agent = swarm.config().agent(&coder).unwrap().clone();
        std::fs::create_dir_all(&agent.workspace).unwrap();
        std::fs::write(agent.workspace.join("work"), "work").unwrap();
        scene.checkpoints.make(&agent, "human:ann".to_owned(), None).await.unwrap();
        scene.move_to_far(&coder).await;
        scene.move_to_far(&tester).await;
        // No sandbox was made for this one, so its workspace is here.
        scene.team.store.placements().put(orchestrator.clone(), scene.far.clone(), 1).await.unwrap();

        let (mut engines, start) = (EngineLooks::default(), Instant::now());
        scene.look(&mut engines, start).await;
        scene.look(&mut engines, start + HALF_AN_HOUR - INTERVAL).await;
        assert_eq!(scene.engine_of(&coder).await, "far");
        scene.look(&mut engines, start + HALF_AN_HOUR).await;
        assert_eq!(scene.engine_of(&coder).await, "near");
        assert_eq!(scene.engine_of(&orchestrator).await, "near");
        assert_eq!(std::fs::read_to_string(agent.workspace.join("work")).unwrap(), "work");
        assert_eq!(scene.waits(&coder), None);
        // One without a checkpoint keeps its workspace.
        assert_eq!(scene.engine_of(&tester).await, "far");
        assert_eq!(elsewhere::engine_of(&swarm.home().workspace(&tester)), Some(scene.far.clone()));
        let reason = "the files of its newest checkpoint are neither here nor in a second place";
        assert_eq!(scene.waits(&tester).as_deref(), Some(reason));
        assert_eq!(swarm.config().engines.len(), 2, "the engine stays");

        let told = scene.team.published().into_iter().filter(|name| name == "engine.changed").count();
        assert!(told >= 2, "of each of them: {told}");
        let filter = AuditFilter { action: Some("engine.move".to_owned()), ..AuditFilter::default() };
        let rows = swarm.store().audit().rows(&filter, 9).await.unwrap();
        let row = rows.iter().find(|row| row.subject == "coder").unwrap();
        assert_eq!(row.actor, "system");
        let expected = "from far to near, because far does not answer; its workspace has the files of its checkpoint of ";
        assert!(row.detail.starts_with(expected), "{}", row.detail);
        assert_eq!(rows.len(), 2);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_agent_that_fits_nowhere_else_keeps_its_workspace() {
        let scene = Scene::new(|_| {});
        let coder = id("coder");
        let agent = scene.team.swarm.config().agent(&coder).unwrap().clone();
        std::fs::create_dir_all(&agent.workspace).unwrap();
        scene.checkpoints.make(&agent, "human:ann".to_owned(), None).await.unwrap();
        scene.move_to_far(&coder).await;
        let (mut engines, start) = (EngineLooks::default(), Instant::now());
        scene.look(&mut engines, start).await;
        scene.look(&mut engines, start + HALF_AN_HOUR).await;
        assert_eq!(scene.engine_of(&coder).await, "far");
        assert_eq!(elsewhere::engine_of(&agent.workspace), Some(scene.far.clone()));
        let reason = scene.waits(&coder).unwrap();
        assert!(reason.contains("local does not have the label gpu"), "{reason}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn only_the_gateway_that_has_an_agent_places_it_elsewhere() {
        let (near, _socket) = testing::engine(|_: &str| (200, "OK"));
        let address = near.endpoint().to_owned();
        let mut scene =
            Scene::new(|engines| engines["near"] = json!({"address": address, "labels": ["gpu"]}));
        let ownership = Ownership::for_test(&["coder"], &["tester"]);
        scene.team = scene.team.owned_by(Arc::clone(&ownership));
        let [coder, tester] = ["coder", "tester"].map(id);
        for agent in [&coder, &tester] {
            scene.team.store.placements().put(agent.clone(), scene.far.clone(), 1).await.unwrap();
        }
        let place = scene.team.swarm.engines().find_any(&scene.far).unwrap();
        Box::pin(leave(&scene.team.swarm, &scene.checkpoints, &place)).await;
        assert_eq!(scene.engine_of(&coder).await, "near");
        assert_eq!(scene.engine_of(&tester).await, "far");
        assert!(!ownership.is_in_use(&LeaseSubject::agent(&coder)));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_agents_have_left_is_removed_when_the_engine_answers_again() {
        let described: Arc<OnceLock<&'static str>> = Arc::default();
        let told = Arc::clone(&described);
        let (near, asked, _socket) = testing::asked_engine(move |line: &str| match line {
            line if line.contains("/_ping") => (200, "OK"),
            line if line.starts_with("DELETE") => (204, ""),
            _ => (200, told.get().copied().unwrap_or("{}")),
        });
        let address = near.endpoint().to_owned();
        let scene = Scene::new(|engines| engines["near"] = json!({"address": address, "labels": ["gpu"]}));
        let swarm = &scene.team.swarm;
        let (label, owner) = (names::LABEL_HOME, names::owner(swarm.home()));
        let container = json!({"Id": "left", "Config": {"Labels": {label: owner}}});
        described.set(container.to_string().leak()).unwrap();
        let [coder, tester] = ["coder", "tester"].map(id);
        let near: EngineName = "near".parse().unwrap();
        scene.team.store.placements().put(coder.clone(), EngineName::local(), 1).await.unwrap();
        scene.team.store.placements().put(tester, near.clone(), 1).await.unwrap();
        let place = swarm.engines().find_any(&near).unwrap();
        assert!(Box::pin(tidy(swarm, &scene.sandboxes, &place)).await);
        let asked = asked.lock().unwrap();
        let inspected: Vec<&String> = asked.iter().filter(|line| line.contains("/json")).collect();
        let name = names::sandbox(swarm.home(), &coder);
        assert!(inspected.len() == 1 && inspected[0].contains(&name), "{asked:?}");
        let removed: Vec<&String> = asked.iter().filter(|line| line.starts_with("DELETE")).collect();
        assert!(removed.len() == 1 && removed[0].contains("/containers/left"), "{asked:?}");
    }
}

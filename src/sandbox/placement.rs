//! Decides on which engine an agent's sandbox is made. The decision depends only on what the agent needs, on what the
//! engines offer, and on the engine that the agent is on already.

use std::cmp::Reverse;
use std::fmt;

use crate::id::EngineName;

/// The needs of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentNeeds {
    /// Labels that the engine must have.
    pub labels: Vec<String>,
    /// The memory limit of its sandbox in bytes.
    pub memory: u64,
    /// A need that only this machine meets, as in `an agent program`. `None` if it can be on another one.
    pub only_here: Option<&'static str>,
}

/// An engine as a place for an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineOffer {
    pub name: EngineName,
    pub labels: Vec<String>,
    /// Memory in bytes that the limits of its agents may add up to. `None` is no limit.
    pub memory: Option<u64>,
    /// The memory limits of the other agents that are placed on it, added up.
    pub used: u64,
    /// The number of the other agents that are placed on it.
    pub agents: usize,
    pub state: EngineState,
    /// `true` if it is on another machine.
    pub is_remote: bool,
}

/// The state of an engine, as far as it decides about placement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineState {
    #[default]
    Ready,
    /// Its agents move to other engines, and none is placed on it.
    Draining,
    /// It does not answer. Agents that are on it stay, because their sandboxes may still run there.
    Unreachable,
}

/// The decision about an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// The agent stays where it is.
    Stay,
    /// The agent is on no engine yet, or on one that is gone, and is placed on this one.
    Place(EngineName),
    /// The agent leaves its engine for this one.
    Move(EngineName),
    /// The agent's engine does not fit any more, and no other one does.
    Stuck(NoEngine),
}

/// The next step in the search for an engine for an agent that is on none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Search {
    /// The best of the engines that have answered.
    Found(EngineName),
    /// These have to be asked if they answer.
    Ask(Vec<EngineName>),
}

/// The number of engines that are asked at first. Several, so that agents that are placed at the same time find others that
/// have answered.
const ASKED_FIRST: usize = 8;

/// An agent for which there is no engine: each engine with the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct NoEngine(pub Vec<(EngineName, Unfit)>);

impl fmt::Display for NoEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no engine fits: ")?;
        for (at, (name, reason)) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { "; " };
            write!(f, "{comma}{name} {reason}")?;
        }
        Ok(())
    }
}

/// The reason why an engine does not fit. It continues a sentence that begins with the engine's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// It lacks these labels.
    Labels(Vec<String>),
    /// The agent's limit exceeds what is left of its memory.
    Memory {
        wanted: u64,
        left: u64,
    },
    Draining,
    Unreachable,
    /// It is on another machine, and the agent needs this of this one.
    Remote(&'static str),
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: &u64| bytes >> 20;
        match self {
            Self::Labels(labels) => write!(f, "does not have the label {}", labels.join(", ")),
            Self::Memory { wanted, left } => {
                write!(f, "has {} MiB of memory left, and {} MiB are wanted", mib(left), mib(wanted))
            }
            Self::Draining => f.write_str("is being drained"),
            Self::Unreachable => f.write_str("does not answer"),
            Self::Remote(what) => write!(f, "is on another machine, where the agent can't have {what}"),
        }
    }
}

/// Decides where an agent's sandbox is made. `current` is the engine that the agent is on.
///
/// An agent stays where it is as long as that engine fits, whatever the others offer. Otherwise the engine is chosen that
/// has the fewest labels beyond the wanted ones, so that special engines are kept for those that need them, then the
/// fewest agents, then the machine's own, then the first by name.
///
/// # Errors
///
/// Returns the reasons if the agent is on no engine that exists, and none fits.
pub fn place(
    needs: &AgentNeeds,
    engines: &[EngineOffer],
    current: Option<&EngineName>,
) -> Result<Placement, NoEngine> {
    let mine = current.and_then(|name| engines.iter().find(|engine| engine.name == *name));
    // An engine that does not answer can't be left: its containers may run on, with the same workspace.
    let is_kept =
        |engine: &EngineOffer| engine.state == EngineState::Unreachable || misfit(needs, engine).is_none();
    if mine.is_some_and(is_kept) {
        return Ok(Placement::Stay);
    }
    let fitting = engines.iter().filter(|engine| misfit(needs, engine).is_none());
    let best = fitting.min_by(|one, other| preference(needs, one).cmp(&preference(needs, other)));
    match (best, mine) {
        (Some(best), Some(_)) => Ok(Placement::Move(best.name.clone())),
        (Some(best), None) => Ok(Placement::Place(best.name.clone())),
        (None, Some(_)) => Ok(Placement::Stuck(reasons(needs, engines))),
        (None, None) => Err(reasons(needs, engines)),
    }
}

/// Decides the same for an agent that is on no engine, without asking those that would not be chosen anyway. `answering` are
/// the engines that have answered; those that have not are [`EngineState::Unreachable`].
///
/// At first the best few are asked. Once all of them are silent or full, all others that fit are asked, so that the search
/// takes at most two timeouts.
///
/// # Errors
///
/// Returns the reasons if none fits.
pub(crate) fn search(
    needs: &AgentNeeds,
    engines: &[EngineOffer],
    answering: &[EngineName],
) -> Result<Search, NoEngine> {
    let mut fitting: Vec<&EngineOffer> =
        engines.iter().filter(|engine| misfit(needs, engine).is_none()).collect();
    fitting.sort_by(|one, other| preference(needs, one).cmp(&preference(needs, other)));
    if let Some(best) = fitting.iter().find(|engine| answering.contains(&engine.name)) {
        return Ok(Search::Found(best.name.clone()));
    }
    if fitting.is_empty() {
        return Err(reasons(needs, engines));
    }
    let is_silent = |engine: &EngineOffer| engine.state == EngineState::Unreachable;
    let is_first = answering.is_empty() && !engines.iter().any(is_silent);
    let count = if is_first { ASKED_FIRST } else { fitting.len() };
    Ok(Search::Ask(fitting.into_iter().take(count).map(|engine| engine.name.clone()).collect()))
}

/// Returns the key by which the best engine that fits comes first.
fn preference<'e>(
    needs: &AgentNeeds,
    engine: &'e EngineOffer,
) -> (usize, usize, Reverse<bool>, &'e EngineName) {
    let surplus = engine.labels.iter().filter(|label| !needs.labels.contains(label)).count();
    (surplus, engine.agents, Reverse(engine.name.is_local()), &engine.name)
}

/// Returns each engine that does not fit, with the reason.
fn reasons(needs: &AgentNeeds, engines: &[EngineOffer]) -> NoEngine {
    let reason = |engine: &EngineOffer| Some((engine.name.clone(), misfit(needs, engine)?));
    NoEngine(engines.iter().filter_map(reason).collect())
}

/// Returns the reason why the agent can't be on this engine.
fn misfit(needs: &AgentNeeds, engine: &EngineOffer) -> Option<Unfit> {
    let missing: Vec<String> =
        needs.labels.iter().filter(|label| !engine.labels.contains(label)).cloned().collect();
    if !missing.is_empty() {
        return Some(Unfit::Labels(missing));
    }
    if let Some(what) = needs.only_here.filter(|_| engine.is_remote) {
        return Some(Unfit::Remote(what));
    }
    match engine.state {
        EngineState::Ready => {}
        EngineState::Draining => return Some(Unfit::Draining),
        EngineState::Unreachable => return Some(Unfit::Unreachable),
    }
    let left = engine.memory?.saturating_sub(engine.used);
    (needs.memory > left).then_some(Unfit::Memory { wanted: needs.memory, left })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn offer(name: &str) -> EngineOffer {
        EngineOffer {
            name: name.parse().unwrap(),
            labels: Vec::new(),
            memory: None,
            used: 0,
            agents: 0,
            state: EngineState::Ready,
            is_remote: false,
        }
    }

    fn needs(labels: &[&str]) -> AgentNeeds {
        AgentNeeds {
            labels: labels.iter().map(|label| (*label).to_owned()).collect(),
            memory: 2 << 30,
            only_here: None,
        }
    }

    fn name(text: &str) -> EngineName {
        text.parse().unwrap()
    }

    #[test]
    fn special_engines_are_kept_for_those_that_need_them() {
        let gpu = EngineOffer { labels: vec!["gpu".into()], ..offer("gpu") };
        let local = EngineOffer { agents: 7, ..offer("local") };
        let engines = [gpu, local, offer("other")];
        assert_eq!(place(&needs(&[]), &engines, None).unwrap(), Placement::Place(name("other")));
        assert_eq!(place(&needs(&["gpu"]), &engines, None).unwrap(), Placement::Place(name("gpu")));
        let same = [offer("a"), offer("local"), offer("b")];
        assert_eq!(place(&needs(&[]), &same, None).unwrap(), Placement::Place(name("local")));
    }

    #[test]
    fn a_drained_engine_is_left_and_a_silent_one_is_not() {
        let drained = EngineOffer { state: EngineState::Draining, ..offer("b") };
        let silent = EngineOffer { state: EngineState::Unreachable, ..offer("b") };
        let decide = |engine: &EngineOffer| {
            place(&needs(&[]), &[offer("local"), engine.clone()], Some(&name("b"))).unwrap()
        };
        assert_eq!(decide(&drained), Placement::Move(name("local")));
        assert_eq!(decide(&silent), Placement::Stay);
        let both = EngineOffer { labels: Vec::new(), ..silent };
        assert_eq!(
            place(&needs(&["gpu"]), &[offer("local"), both], Some(&name("b"))).unwrap(),
            Placement::Stay,
            "it can't be left although its labels do not fit any more"
        );
    }

    #[test]
    fn what_needs_this_machine_is_not_placed_on_another_one() {
        let far = EngineOffer { is_remote: true, labels: vec!["gpu".into()], ..offer("far") };
        let program = AgentNeeds { only_here: Some("an agent program"), ..needs(&["gpu"]) };
        assert_eq!(
            place(&needs(&["gpu"]), std::slice::from_ref(&far), None).unwrap(),
            Placement::Place(name("far"))
        );
        let error = place(&program, &[far], None).unwrap_err();
        assert_eq!(
            error.to_string(),
            "no engine fits: far is on another machine, where the agent can't have an agent program"
        );
    }

    #[test]
    fn every_engine_has_its_reason() {
        let full = EngineOffer { memory: Some(3 << 30), used: 2 << 30, ..offer("full") };
        let engines = [
            offer("local"),
            EngineOffer { labels: vec!["gpu".into()], ..full },
            EngineOffer { labels: vec!["gpu".into()], state: EngineState::Draining, ..offer("old") },
            EngineOffer { labels: vec!["gpu".into()], state: EngineState::Unreachable, ..offer("silent") },
        ];
        let error = place(&needs(&["gpu"]), &engines, None).unwrap_err();
        assert_eq!(
            error.to_string(),
            "no engine fits: local does not have the label gpu; full has 1024 MiB of memory left, and 2048 MiB are \
             wanted; old is being drained; silent does not answer"
        );
        let stuck = place(&needs(&["gpu"]), &engines, Some(&name("old"))).unwrap();
        assert!(matches!(stuck, Placement::Stuck(_)), "{stuck:?}");
        assert!(
            place(&needs(&["gpu"]), &engines, Some(&name("gone"))).is_err(),
            "it is on no engine that exists"
        );
    }

    #[test]
    fn only_the_best_engines_that_fit_are_asked_and_the_others_if_those_are_silent() {
        let mut engines: Vec<EngineOffer> = (0..2 * ASKED_FIRST)
            .map(|number| EngineOffer { agents: number, ..offer(&format!("e{number:02}")) })
            .collect();
        engines.push(EngineOffer { state: EngineState::Draining, ..offer("drained") });
        engines.push(EngineOffer { memory: Some(1 << 30), ..offer("small") });
        let names = |range: std::ops::Range<usize>| -> Vec<EngineName> {
            range.map(|number| name(&format!("e{number:02}"))).collect()
        };
        let first = names(0..ASKED_FIRST);
        assert_eq!(search(&needs(&[]), &engines, &[]), Ok(Search::Ask(first.clone())));
        // The best of those that answer is taken, also if a better one was not asked.
        assert_eq!(search(&needs(&[]), &engines, &first[1..3]), Ok(Search::Found(name("e01"))));
        for engine in &mut engines[..ASKED_FIRST] {
            engine.state = EngineState::Unreachable;
        }
        let others = names(ASKED_FIRST..2 * ASKED_FIRST);
        assert_eq!(search(&needs(&[]), &engines, &[]), Ok(Search::Ask(others)));
        let error = search(&needs(&["gpu"]), &engines, &[]).unwrap_err();
        assert_eq!(error.0.len(), engines.len(), "nothing is asked if nothing fits: {error}");
    }

    fn any_engines() -> impl Strategy<Value = Vec<EngineOffer>> {
        let labels = prop::sample::subsequence(vec!["a", "b", "c"], 0..=3);
        let state = prop_oneof![
            Just(EngineState::Ready),
            Just(EngineState::Draining),
            Just(EngineState::Unreachable)
        ];
        let one = (labels, prop::option::of(0u64..8), 0u64..8, 0usize..4, state, any::<bool>());
        let names = prop::sample::subsequence(vec!["local", "east", "gpu", "west"], 0..=4);
        (names, prop::collection::vec(one, 4)).prop_map(|(names, parts)| {
            let made = names.into_iter().zip(parts);
            made.map(|(name, (labels, memory, used, agents, state, is_remote))| EngineOffer {
                name: name.parse().unwrap(),
                labels: labels.into_iter().map(str::to_owned).collect(),
                memory,
                used,
                agents,
                state,
                is_remote,
            })
            .collect()
        })
    }

    fn any_needs() -> impl Strategy<Value = AgentNeeds> {
        let labels = prop::sample::subsequence(vec!["a", "b", "c"], 0..=3);
        (labels, 0u64..8, any::<bool>()).prop_map(|(labels, memory, is_bound)| AgentNeeds {
            labels: labels.into_iter().map(str::to_owned).collect(),
            memory,
            only_here: is_bound.then_some("a project"),
        })
    }

    fn any_current() -> impl Strategy<Value = Option<EngineName>> {
        prop::option::of(prop::sample::select(vec!["local", "east", "gpu", "west", "gone"]))
            .prop_map(|found| found.map(name))
    }

    proptest! {
        #[test]
        fn an_agent_is_only_placed_where_it_fits(
            engines in any_engines(), needs in any_needs(), current in any_current(),
        ) {
            let decided = place(&needs, &engines, current.as_ref());
            let fits = |name: &EngineName| {
                let engine = engines.iter().find(|engine| engine.name == *name).unwrap();
                misfit(&needs, engine).is_none()
            };
            match &decided {
                Ok(Placement::Place(to) | Placement::Move(to)) => {
                    prop_assert!(fits(to));
                    prop_assert_ne!(Some(to), current.as_ref());
                }
                Ok(Placement::Stay) => {
                    let mine = engines.iter().find(|engine| Some(&engine.name) == current.as_ref()).unwrap();
                    prop_assert!(fits(&mine.name) || mine.state == EngineState::Unreachable);
                }
                // Each engine that was refused has a reason, and none of them fits.
                Ok(Placement::Stuck(reasons)) | Err(reasons) => {
                    prop_assert_eq!(reasons.0.len(), engines.len());
                    prop_assert!(!engines.iter().any(|engine| fits(&engine.name)));
                }
            }
        }

        #[test]
        fn a_search_ends_where_a_decision_by_the_states_of_all_engines_does(
            mut engines in any_engines(), needs in any_needs(),
            answers in prop::collection::vec(any::<bool>(), 4),
        ) {
            let is_silent = |offer: &EngineOffer| offer.state == EngineState::Unreachable;
            engines.retain(|offer| !is_silent(offer));
            let mut told = engines.clone();
            for (offer, answers) in told.iter_mut().zip(&answers) {
                if !answers {
                    offer.state = EngineState::Unreachable;
                }
            }
            let mut answering = Vec::new();
            let found = loop {
                match search(&needs, &engines, &answering) {
                    Ok(Search::Found(name)) => break Some(name),
                    Ok(Search::Ask(asked)) => {
                        prop_assert!(!asked.is_empty());
                        for name in asked {
                            prop_assert!(!answering.contains(&name));
                            let at = engines.iter().position(|offer| offer.name == name).unwrap();
                            match is_silent(&told[at]) {
                                true => engines[at].state = EngineState::Unreachable,
                                false => answering.push(name),
                            }
                        }
                    }
                    Err(_) => break None,
                }
            };
            let decided = place(&needs, &told, None).ok();
            prop_assert_eq!(found.map(Placement::Place), decided);
        }

        #[test]
        fn a_decision_is_stable_and_does_not_depend_on_the_order(
            engines in any_engines(), needs in any_needs(), current in any_current(),
        ) {
            let decided = place(&needs, &engines, current.as_ref());
            let mut turned = engines.clone();
            turned.reverse();
            let chosen = |decision: &Result<Placement, NoEngine>| match decision {
                Ok(Placement::Place(to) | Placement::Move(to)) => Some(to.clone()),
                Ok(Placement::Stay) => current.clone(),
                Ok(Placement::Stuck(_)) | Err(_) => None,
            };
            prop_assert_eq!(chosen(&decided), chosen(&place(&needs, &turned, current.as_ref())));
            // What was decided once is decided again: an agent does not wander.
            if let Some(to) = chosen(&decided) {
                prop_assert_eq!(place(&needs, &engines, Some(&to)).unwrap(), Placement::Stay);
            }
        }
    }
}

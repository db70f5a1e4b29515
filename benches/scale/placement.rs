//! The decision where an agent's sandbox is made, among a hundred engines: what one decision takes while a team is placed
//! from nothing, and again when every agent is asked for once more.

use std::hint::black_box;
use std::time::{Duration, Instant};

use flock::id::EngineName;
use flock::sandbox::placement::{AgentNeeds, EngineOffer, EngineState, Placement, place};

/// Agents that fit on an engine, with the limit of 2 GiB that each has.
const ON_ONE: u64 = 110;
const LIMIT: u64 = 2 << 30;

/// Returns the time of each decision for this number of agents, 100 for each engine. One engine in ten has a label, and
/// one agent in ten needs it.
pub fn decisions(agents: usize) -> Vec<Duration> {
    let mut engines: Vec<EngineOffer> = (0..agents.div_ceil(100).max(1))
        .map(|number| EngineOffer {
            is_remote: false,
            name: format!("engine-{number}").parse().unwrap(),
            labels: if number % 10 == 0 { vec!["gpu".to_owned()] } else { Vec::new() },
            memory: Some(ON_ONE * LIMIT),
            used: 0,
            agents: 0,
            state: EngineState::Ready,
        })
        .collect();
    let needs = |agent: usize| AgentNeeds {
        only_here: None,
        labels: if agent.is_multiple_of(10) { vec!["gpu".to_owned()] } else { Vec::new() },
        memory: LIMIT,
    };
    let mut places: Vec<EngineName> = Vec::with_capacity(agents);
    let mut took = Vec::with_capacity(agents * 2);
    for agent in 0..agents {
        let needs = needs(agent);
        let began = Instant::now();
        let placed = black_box(place(&needs, &engines, None));
        took.push(began.elapsed());
        let Ok(Placement::Place(name)) = placed else { panic!("agent {agent} has no place: {placed:?}") };
        let engine = engines.iter_mut().find(|engine| engine.name == name).unwrap();
        engine.used += LIMIT;
        engine.agents += 1;
        places.push(name);
    }
    for (agent, name) in places.iter().enumerate() {
        // What the agent itself uses does not count against it.
        let engine = engines.iter_mut().find(|engine| engine.name == *name).unwrap();
        (engine.used, engine.agents) = (engine.used - LIMIT, engine.agents - 1);
        let needs = needs(agent);
        let began = Instant::now();
        let placed = black_box(place(&needs, &engines, Some(name)));
        took.push(began.elapsed());
        assert_eq!(placed.unwrap(), Placement::Stay, "agent {agent} wanders");
        let engine = engines.iter_mut().find(|engine| engine.name == *name).unwrap();
        (engine.used, engine.agents) = (engine.used + LIMIT, engine.agents + 1);
    }
    took
}

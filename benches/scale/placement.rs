//! The decision where an agent's sandbox is made, among a hundred engines: what one decision takes while a team is placed
//! from nothing, and again when every agent is asked for once more. Then the same as flock does it, with the rows of a
//! database and engines that have to answer.

use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flock::config::{Live, starter};
use flock::home::{Home, atomic};
use flock::id::{AgentId, EngineName};
use flock::sandbox::engine::Engine;
use flock::sandbox::engines::{Engines, PlacementRecords};
use flock::sandbox::placement::{AgentNeeds, EngineOffer, EngineState, Placement, place};
use flock::store::Store;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};

use crate::simulation::{Database, Figures};

/// Agents that are placed while the time is taken. The others are on their engines before.
const NEW: usize = 200;
/// Commands for which an agent's engine is looked up.
const COMMANDS: usize = 1_000;

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

/// Measures with the rows of a database: how long it takes to place an agent in a team of this size, to find its engine for
/// a command, and to look which agents have to move. All engines answer at once.
pub fn stored(agents: usize, database: &Database, folder: &Path, figures: &mut Figures) {
    let home = Home::new(folder.canonicalize().unwrap().join("placed"), None);
    home.make_folders().unwrap();
    database.choose(&home);
    let engines = agents.div_ceil(100).max(1);
    let socket = |number: usize| home.root().join(format!("e{number}.sock"));
    write_config(&home, agents, (0..engines).map(|number| (number, socket(number))));
    // This makes the tables.
    drop(Store::open(&home).unwrap());
    let old = agents.saturating_sub(NEW);
    let connection = database.connect(&home);
    let placed: Vec<usize> = (0..old).collect();
    for part in placed.chunks(1_000) {
        let mut rows = String::new();
        for agent in part {
            let comma = if rows.is_empty() { "" } else { ", " };
            write!(rows, "{comma}('agent-{agent}', 'engine-{}', 1)", agent % engines).unwrap();
        }
        connection.run(&format!("INSERT INTO placement (agent, engine, placed_at) VALUES {rows}"));
    }
    connection.analyze();
    drop(connection);

    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        // The last one is the machine's own.
        for number in 0..=engines {
            let listener = UnixListener::bind(socket(number)).unwrap();
            tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(answer(stream));
                }
            });
        }
        let local = Arc::new(Engine::at(format!("unix://{}", socket(engines).display())));
        let live = Live::open(home.clone()).unwrap();
        let config = live.current();
        let records = PlacementRecords::Store(Arc::new(Store::open(&home).unwrap()));
        let team = Engines::new(home.clone(), Arc::new(move || live.current()), local, records);
        let find = async |agent: usize| {
            let id: AgentId = format!("agent-{agent}").parse().unwrap();
            let began = Instant::now();
            black_box(Box::pin(team.place_of(config.agent(&id).unwrap())).await.map(drop)).unwrap();
            began.elapsed()
        };
        let (mut placing, mut finding) = (Vec::new(), Vec::new());
        for agent in old..agents {
            placing.push(find(agent).await);
        }
        figures.set_sample("placed", placing);
        for command in 0..COMMANDS {
            // A prime number, so that agents of all engines have turns.
            finding.push(find(command * 7_919 % agents).await);
        }
        figures.set_sample("found", finding);
        let began = Instant::now();
        assert!(team.moves(None).await.unwrap().is_empty(), "agents wander");
        figures.set("moves_ms", began.elapsed().as_secs_f64() * 1_000.0);
        assert_eq!(team.placements().await.unwrap().len(), agents);
    });
}

/// Writes a configuration with these agents, and with engines at these sockets. The machine's own takes no agents.
fn write_config(home: &Home, agents: usize, engines: impl Iterator<Item = (usize, std::path::PathBuf)>) {
    let mut document = starter::document(home, Some(&"bench/instant".parse().unwrap()), "token", 1);
    let own = &mut document["plugins"]["entries"]["flock"]["config"];
    own["gatewayAgents"] =
        (0..agents).map(|agent| json!({"id": format!("agent-{agent}"), "role": "worker"})).collect();
    let memory = format!("{}g", (ON_ONE * LIMIT) >> 30);
    let others = engines.map(|(number, socket)| {
        let settings = json!({"address": format!("unix://{}", socket.display()), "memory": memory});
        (format!("engine-{number}"), settings)
    });
    own["engines"] = others.chain([("local".to_owned(), json!({"drain": true}))]).collect::<Value>();
    atomic::write(&home.config(), document.to_string().as_bytes(), 0o600).unwrap();
}

/// Answers the requests of a connection as an engine without containers.
async fn answer(stream: UnixStream) {
    let (reader, mut writer) = stream.into_split();
    let (mut lines, mut is_ping) = (BufReader::new(reader).lines(), false);
    while let Ok(Some(line)) = lines.next_line().await {
        is_ping |= line.contains("/_ping");
        // None of the requests has a body.
        if line.is_empty() {
            let (status, text) =
                if is_ping { ("200 OK", "OK") } else { ("404 Not Found", r#"{"message":"none"}"#) };
            let head = format!("content-type: application/json\r\ncontent-length: {}", text.len());
            if writer
                .write_all(format!("HTTP/1.1 {status}\r\n{head}\r\n\r\n{text}").as_bytes())
                .await
                .is_err()
            {
                return;
            }
            is_ping = false;
        }
    }
}

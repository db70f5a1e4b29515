//! A team of any size on a real database: real posts, deliveries and decisions of the scheduler, and turns that only take
//! time. The time is simulated: it runs as the clock does while something works, and is skipped while nothing does.

mod database;
mod driver;
mod figures;
mod fill;
mod time;
mod turn;
mod world;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use flock::config::{Live, starter};
use flock::home::{Home, atomic};
use flock::store::Store;
use flock::swarm::{Notifier, Swarm, SwarmParts};
use serde_json::json;

pub use database::Database;
pub use figures::Figures;

/// A team, and what it does.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub agents: usize,
    /// Messages that the database has at first, for each channel on average.
    pub messages: usize,
    /// Messages that people post, spread evenly over the simulated time.
    pub posts: usize,
    /// The choices of people and agents follow from this number.
    pub seed: u64,
}

impl Plan {
    /// Members of each channel.
    pub const MEMBERS: usize = 10;

    /// Ten for each agent, so that an agent is in a hundred.
    pub const fn channels(&self) -> usize {
        self.agents * 10
    }

    /// Turns that may run at the same time. About a fifth of the agents work at once, so nothing waits for a place.
    const fn slots(&self) -> usize {
        self.agents / 4 + 8
    }

    /// Milliseconds between two posts of people: one in 200 agents is written to in a minute.
    const fn between_posts(&self) -> i64 {
        12_000_000 / self.agents as i64
    }
}

/// Makes the team's home in a folder and runs the simulation until nobody has anything to do.
pub fn run(plan: Plan, database: &Database, folder: &Path) -> Figures {
    let mut figures = Figures::default();
    let home = make_home(plan, folder);
    database.choose(&home);
    // This makes the tables.
    drop(Store::open(&home).unwrap());
    let began = Instant::now();
    fill::fill(plan, &database.connect(&home));
    figures.set("fill_s", began.elapsed().as_secs_f64());

    // The threads of the gateway.
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores.clamp(1, 4))
        .max_blocking_threads(8)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let began = Instant::now();
        let live = Arc::new(Live::open(home.clone()).unwrap());
        figures.set("configuration_ms", began.elapsed().as_secs_f64() * 1000.0);
        let store = Arc::new(Store::open(&home).unwrap());
        let (sender, events) = tokio::sync::mpsc::unbounded_channel();
        let notifier = Notifier::new(sender.clone(), Arc::new(|_, _| {}));
        let swarm = Arc::new(Swarm::new(SwarmParts { live, store, notifier }));
        driver::Driver::new(plan, swarm, sender, events).run(&mut figures).await;
    });
    drop(runtime);
    figures.set("database_mib", database.connect(&home).bytes() as f64 / f64::from(1 << 20));
    figures
}

/// Makes a home with a configuration that lists the agents.
fn make_home(plan: Plan, folder: &Path) -> Home {
    let home = Home::new(folder.canonicalize().unwrap().join("home"), None);
    home.make_folders().unwrap();
    let mut document = starter::document(&home, Some(&"bench/instant".parse().unwrap()), "token", 1);
    let agents = (0..plan.agents).map(|n| json!({"id": world::agent(n), "role": "worker"}));
    document["plugins"]["entries"]["flock"]["config"]["gatewayAgents"] = agents.collect();
    atomic::write(&home.config(), document.to_string().as_bytes(), 0o600).unwrap();
    home
}

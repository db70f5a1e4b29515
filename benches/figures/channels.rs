//! Posts: one poster and many, reading a long channel, and opening a database that holds one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use flock::config::Live;
use flock::id::{ChannelId, Party};
use flock::store::{Page, Store};
use flock::swarm::channel::ChannelSpec;
use flock::swarm::scheduler::{Scheduler, Settings};
use flock::swarm::{self, Actor, Notifier, Swarm};
use tokio::runtime::Runtime;

use crate::home::Home;
use crate::{Sample, row, stub};

/// Number of channels of a team.
pub const CHANNELS: usize = 1_000;
const AGENTS: usize = 100;
/// Number of all agents: two are in no channel.
pub const ALL_AGENTS: usize = AGENTS + 2;
const MEMBERS: usize = 10;
const POSTERS: usize = 64;
const SUSTAINED: Duration = Duration::from_secs(20);
const LONG: usize = 1_000_000;

pub fn run() {
    let bench = Home::new(stub::start());
    let (runtime, swarm) = posts(&bench, "SQLite");
    let home = bench.open();

    runtime.block_on(fill(&swarm));
    let store = swarm.store();
    let reads = Sample::of(200, || {
        let started = Instant::now();
        let page = runtime.block_on(store.posts().page(&channel(0), Page::Last, 50));
        assert_eq!(page.unwrap().len(), 50);
        started.elapsed()
    });
    row("the last 50 messages of a channel of 1,000,000", reads);
    drop(swarm);
    drop(runtime);
    let bytes = std::fs::metadata(home.database()).unwrap().len();
    row("size of that database", format!("{:.0} MiB", bytes as f64 / f64::from(1 << 20)));
    let start = Sample::of(10, || bench.serve().1);
    row("gateway, spawn to healthy, over that database", start);
}

/// Measures posts into the channels of a new team, and returns the team.
pub fn posts(bench: &Home, database: &str) -> (Runtime, Arc<Swarm>) {
    let (runtime, swarm) = make(bench);
    runtime.block_on(async {
        let ann = Actor::human("ann");
        let mut spent = Vec::new();
        for n in 0..2_000 {
            let started = Instant::now();
            swarm
                .post(&ann, &channel(n % CHANNELS), format!("message {n}: what do you think?"), true)
                .await
                .unwrap();
            spent.push(started.elapsed());
        }
        let what = "post to committed and queued, one poster, 1,000 channels of 10 members";
        row(&format!("{database}: {what}"), Sample::from(spent));
    });

    let (posts, took) = runtime.block_on(many(&swarm));
    row(
        &format!("{database}: posts a second, {POSTERS} posters, over {:.0} s", took.as_secs_f64()),
        format!("{:.0}", posts as f64 / took.as_secs_f64()),
    );
    (runtime, swarm)
}

/// Makes a team with its channels.
pub fn make(bench: &Home) -> (Runtime, Arc<Swarm>) {
    bench.fill(ALL_AGENTS);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let swarm = runtime.block_on(team(&bench.open()));
    (runtime, swarm)
}

/// Returns the id of a channel.
pub fn channel(n: usize) -> ChannelId {
    format!("c{n}").parse().unwrap()
}

async fn team(home: &flock::home::Home) -> Arc<Swarm> {
    let (ringer, mut rings) = tokio::sync::mpsc::unbounded_channel();
    let live = Arc::new(Live::open(home.clone()).unwrap());
    let store = Arc::new(Store::open(home).unwrap());
    let swarm = Arc::new(Swarm::new(swarm::SwarmParts {
        live,
        store,
        notifier: Notifier::new(ringer, Arc::new(|_, _| {})),
    }));
    let mut scheduler = Scheduler::new(Settings::default());
    for event in swarm.agent_events().await.unwrap() {
        scheduler.on(event, 0);
    }
    // Somebody listens, as in a gateway; the turns themselves are not of interest here.
    tokio::spawn(async move {
        while let Some(event) = rings.recv().await {
            scheduler.on(event, 0);
        }
    });
    let ann = Actor::human("ann");
    for n in 0..CHANNELS {
        let members = (0..MEMBERS)
            .map(|m| Party::Agent(format!("agent-{}", 2 + (n + m) % AGENTS).parse().unwrap()))
            .collect();
        let wanted = ChannelSpec { id: channel(n), topic: "figures".to_owned(), members, message: None };
        swarm.create_channel(&ann, wanted).await.unwrap();
    }
    swarm
}

async fn many(swarm: &Arc<Swarm>) -> (usize, Duration) {
    let started = Instant::now();
    let posters: Vec<_> = (0..POSTERS)
        .map(|poster| {
            let swarm = Arc::clone(swarm);
            tokio::spawn(async move {
                let by = Actor::human(&format!("p{poster}"));
                let mut posts = 0;
                while started.elapsed() < SUSTAINED {
                    let id = channel((poster * 131 + posts * 7) % CHANNELS);
                    swarm.post(&by, &id, format!("message {posts} of poster {poster}"), true).await.unwrap();
                    posts += 1;
                }
                posts
            })
        })
        .collect();
    let mut posts = 0;
    for poster in posters {
        posts += poster.await.unwrap();
    }
    (posts, started.elapsed())
}

/// Makes one channel a million messages long, in the same way as all others.
async fn fill(swarm: &Arc<Swarm>) {
    let there = usize::try_from(swarm.channel(&channel(0)).await.unwrap().last_seq).unwrap();
    let posters: Vec<_> = (0..POSTERS)
        .map(|poster| {
            let swarm = Arc::clone(swarm);
            tokio::spawn(async move {
                let by = Actor::human(&format!("p{poster}"));
                for n in 0..(LONG - there).div_ceil(POSTERS) {
                    swarm
                        .post(&by, &channel(0), format!("message {n} of poster {poster}"), false)
                        .await
                        .unwrap();
                }
            })
        })
        .collect();
    for poster in posters {
        poster.await.unwrap();
    }
}

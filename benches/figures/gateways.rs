//! Posts that several gateways take at once, on one database.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::database::Database;
use crate::home::{Gateway, Home};
use crate::http::Connection;
use crate::{channels, row};

/// Number of posters in all, each with a kept connection to one of the gateways.
const POSTERS: usize = 64;
const SUSTAINED: Duration = Duration::from_secs(20);
/// The longest wait until gateways have about as many agents each, and for each of their search indexes.
const SETTLING: Duration = Duration::from_secs(120);

/// Measures posts over HTTP, with one gateway and with three: while these take the earlier messages into their search
/// indexes, as after a start, and afterwards.
pub fn posts(first: &Home, model: u16, database: &Database) {
    drop(channels::make(first));
    // Turns are another figure, and each new member of a channel has one.
    first.flock(&["freeze", "--all"]);
    let gateway = first.serve().0;
    measure("one gateway", &[first]);
    drop(gateway);

    first.flock(&["gateway", "invite"]);
    let others = [join(first, model, database), join(first, model, database)];
    let _gateways: Vec<Gateway> = std::iter::once(first).chain(&others).map(|home| home.serve().0).collect();
    let homes = [first, &others[0], &others[1]];
    wait_until_settled(first, homes.len());
    let behind: Vec<String> = homes.iter().map(|home| wait_for_indexing(home).to_string()).collect();
    measure(&format!("three gateways that index {} messages", behind.join(", ")), &homes);
    for home in homes {
        complete_index(home);
    }
    measure("three gateways", &homes);
}

/// Makes a home whose gateway uses the database of the first one.
fn join(first: &Home, model: u16, database: &Database) -> Home {
    let Database::Postgres { server, schema } = database else {
        panic!("only a server has several gateways")
    };
    let home = Home::new(model);
    let files = first.path();
    home.flock(&["gateway", "join", server, "--schema", schema, "--files", files.to_str().unwrap()]);
    home
}

/// Waits until this many gateways have divided the agents among them.
fn wait_until_settled(home: &Home, gateways: usize) {
    ask_until(home, "/api/status", |status| {
        let counts = status["gateways"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|of| of["agents"].as_array().map_or(0, Vec::len));
        let counts: Vec<usize> = counts.collect();
        // A gateway may keep up to an eighth above its share.
        let share = channels::ALL_AGENTS.div_ceil(gateways);
        let are_even = counts.len() == gateways && counts.iter().all(|count| *count <= share + share / 8);
        let are_settled = are_even && counts.iter().sum::<usize>() == channels::ALL_AGENTS;
        are_settled.then_some(()).ok_or_else(|| format!("the gateways have {counts:?} agents"))
    });
}

/// Waits until a gateway takes messages into its search index, which it begins some time after its start. Returns how many
/// the index lacks.
fn wait_for_indexing(home: &Home) -> u64 {
    ask_until(home, "/api/status", |status| {
        status["searchIndex"]["messagesBehind"].as_u64().ok_or_else(|| "nothing is indexed yet".to_owned())
    })
}

/// Searches at a gateway until its index has all messages. A search takes in what is missing, as far as it gets in its time.
fn complete_index(home: &Home) {
    ask_until(home, "/api/search/memory?q=nothing", |found| {
        (found["complete"] == true).then_some(()).ok_or_else(|| "the search index is not complete".to_owned())
    });
}

/// Asks a gateway until `find` finds something in its answer. Until then, it returns what was seen instead.
fn ask_until<T>(home: &Home, path: &str, find: impl Fn(&Value) -> Result<T, String>) -> T {
    let began = Instant::now();
    let mut client = Connection::open(home.port, &home.token).unwrap();
    loop {
        let answer: Value = serde_json::from_slice(&client.get(path).unwrap()).unwrap();
        match find(&answer) {
            Ok(found) => return found,
            Err(seen) => assert!(began.elapsed() < SETTLING, "{seen}"),
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn measure(what: &str, homes: &[&Home]) {
    let started = Instant::now();
    let posts: usize = std::thread::scope(|scope| {
        let posters: Vec<_> = (0..POSTERS)
            .map(|poster| {
                let home = homes[poster % homes.len()];
                scope.spawn(move || post(home, poster, started))
            })
            .collect();
        posters.into_iter().map(|poster| poster.join().unwrap()).sum()
    });
    let took = started.elapsed().as_secs_f64();
    row(
        &format!("PostgreSQL: posts a second over HTTP, {POSTERS} posters at {what}, over {took:.0} s"),
        format!("{:.0}", posts as f64 / took),
    );
}

/// Posts until the time is up, and returns how often.
fn post(home: &Home, poster: usize, started: Instant) -> usize {
    let mut client = Connection::open(home.port, &home.token).unwrap();
    let mut posts = 0;
    while started.elapsed() < SUSTAINED {
        // Nobody is woken: turns are another figure.
        let body = json!({"content": format!("message {posts} of poster {poster}"), "notify": false});
        let channel = channels::channel((poster * 131 + posts * 7) % channels::CHANNELS);
        client.post(&format!("/api/channels/{channel}/messages"), &body.to_string()).unwrap();
        posts += 1;
    }
    posts
}

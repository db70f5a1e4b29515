//! Posts that several gateways take at once, on one database.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::database::Database;
use crate::home::{Gateway, Home};
use crate::http::Connection;
use crate::{channels, row};

/// Number of posters in all, each with a kept connection to one of the gateways.
const POSTERS: usize = 64;
const SUSTAINED: Duration = Duration::from_secs(20);

/// Measures posts over HTTP, with one gateway and with three.
pub fn posts(first: &Home, model: u16, database: &Database) {
    drop(channels::make(first));
    let gateway = first.serve().0;
    measure("one gateway", &[first]);
    drop(gateway);

    first.flock(&["gateway", "invite"]);
    let others = [join(first, model, database), join(first, model, database)];
    let _gateways: Vec<Gateway> = std::iter::once(first).chain(&others).map(|home| home.serve().0).collect();
    measure("three gateways", &[first, &others[0], &others[1]]);
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

//! A model's provider that is down for a while.

use std::time::Instant;

use serde_json::json;

use crate::support::docker::block_on;
use crate::support::home::TempHome;
use crate::support::model_server::{ModelServer, Reply};
use crate::support::wait_until;
use crate::team::stage::{LIMIT, Served, log_text, said, transcripts};

const CHANNELS: [&str; 4] = ["one", "two", "three", "four"];
/// How often a turn asks a provider that fails.
const ATTEMPTS: usize = 4;

/// A home whose agents ask this server.
pub fn with_agents(model: &ModelServer, agents: &[&str]) -> TempHome {
    let home = TempHome::new().init();
    let mut config = home.config();
    config["models"]["providers"]["acme"] = json!({
        "baseUrl": model.openai_url(), "apiKey": "sk-test", "api": "openai-completions",
        "models": [{"id": "one", "name": "one"}],
    });
    std::fs::write(home.file("config.json"), config.to_string()).unwrap();
    for agent in agents {
        home.flock(["add", agent, "--no-container", "--model", "acme/one"]).ok();
    }
    home
}

fn until_asked(home: &TempHome, model: &ModelServer, count: usize) {
    wait_until(&format!("{count} calls of the model"), LIMIT, || {
        let found = model.requests().len();
        if found >= count { Ok(()) } else { Err(format!("{found}\n{}", log_text(home))) }
    });
}

#[test]
fn what_is_said_while_the_provider_is_down_is_handled_once_when_it_is_back() {
    let model = ModelServer::start();
    model.always(Reply::text("understood"));
    let home = with_agents(&model, &["ada", "bob"]);
    home.flock(["channel", "create", "first", "--topic", "x", "--member", "ada"]).ok();
    for id in CHANNELS {
        home.flock(["channel", "create", id, "--topic", "x", "--member", "ada", "--member", "bob"]).ok();
    }
    let _served = Served::start(&home);
    let before = 1 + 2 * CHANNELS.len();
    until_asked(&home, &model, before);
    is_at_rest(&home);

    model.always(Reply::status(503, "down"));
    let down = Instant::now();
    home.flock(["channel", "post", "first", "text-first"]).ok();
    until_asked(&home, &model, before + ATTEMPTS);
    is_at_rest(&home);
    wait_until("the status tells that the provider is down", LIMIT, || {
        let status = home.flock(["status", "--json"]).ok().json();
        let breakers = status["team"]["breakers"].as_array().cloned().unwrap_or_default();
        match &breakers[..] {
            [down] if down["since"].as_i64() <= down["retryAt"].as_i64() => Ok(()),
            _ => Err(status.to_string()),
        }
    });
    assert!(home.flock(["status"]).ok().stdout.contains(" has not answered for "));
    for id in CHANNELS {
        for number in 1..=2 {
            home.flock(["channel", "post", id, &format!("text-{id}-{number}")]).ok();
        }
    }
    // One turn at a time tries whether it is back.
    until_asked(&home, &model, before + 2 * ATTEMPTS);
    model.always(Reply::text("understood"));
    let while_down = model.requests().len() - before;
    // The tries come ever more rarely, from 5 s on: on a slow machine there is time for more of them.
    let tries = 3 + (down.elapsed().as_secs() / 15 + 1).ilog2() as usize;
    assert!(
        while_down <= tries * ATTEMPTS,
        "{while_down} calls, with nine sessions that have something to do"
    );

    wait_until("everybody answers everywhere", LIMIT * 2, || {
        let missing: Vec<&str> = CHANNELS
            .into_iter()
            .filter(|id| answers(&home, id) < 2)
            .chain((answers(&home, "first") < 1).then_some("first"))
            .collect();
        if missing.is_empty() { Ok(()) } else { Err(format!("{missing:?}\n{}", log_text(&home))) }
    });
    is_at_rest(&home);
    let status = home.flock(["status", "--json"]).ok().json();
    assert_eq!(status["team"]["breakers"], serde_json::json!([]), "it is back");
    for (id, count) in CHANNELS.map(|id| (id, 2)).into_iter().chain([("first", 1)]) {
        assert_eq!(answers(&home, id), count, "{id}: {:?}", said(&home, id));
    }
    for agent in ["ada", "bob"] {
        let seen = transcripts(&home, agent).join("\n");
        for id in CHANNELS {
            for number in 1..=2 {
                let line = format!("human:ann: text-{id}-{number}");
                assert_eq!(seen.matches(&line).count(), 1, "{agent} is given {line} once: {seen}");
            }
        }
    }
    let store = flock::store::Store::open(&flock::home::Home::new(home.path(), None)).unwrap();
    for agent in ["ada", "bob"] {
        let state = block_on(store.agents().state(&agent.parse().unwrap())).unwrap();
        assert!(state.is_none_or(|state| state.asleep_at.is_none()), "{agent} was put to sleep");
    }
}

fn answers(home: &TempHome, channel: &str) -> usize {
    said(home, channel).iter().filter(|(_, text)| text == "understood").count()
}

/// Waits until no turn runs.
pub fn is_at_rest(home: &TempHome) {
    wait_until("no turn runs", LIMIT, || {
        let status = home.flock(["status", "--json"]).ok().json();
        let turns = &status["gateway"]["turns"];
        (turns["running"] == 0 && turns["waiting"] == 0).then_some(()).ok_or_else(|| status.to_string())
    });
}

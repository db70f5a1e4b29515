//! A quota that is used up, and two gateways that ask with the same key or with keys of their own.

use serde_json::{Value, json};

use super::{AGENTS, LIMIT, Pair};
use crate::support::home::TempHome;
use crate::support::model_server::{ModelServer, Reply};
use crate::support::{postgres, wait_until};
use crate::team::stage::{Served, said};

const ANSWER: &str = "understood";
const KEY: &str = "sk-the-key-of-both-gateways";

/// A refusal whose quota comes back after an hour.
fn used_up() -> Reply {
    Reply::status(429, "used up").header("retry-after", "3600")
}

/// Two gateways with a team in the channel `work` that asks this model. The second one has this key.
fn pair(model: &ModelServer, key: &str) -> Option<(Pair, (Served, Served))> {
    postgres::server()?;
    model.always(Reply::text(ANSWER));
    let first = TempHome::new().init();
    let mut config = first.config();
    config["models"]["providers"]["acme"] = json!({
        "baseUrl": model.openai_url(), "apiKey": "secret:acme", "api": "openai-completions",
        "models": [{"id": "one", "name": "one"}],
    });
    std::fs::write(first.file("config.json"), config.to_string()).unwrap();
    let keep = |home: &TempHome, key: &str| {
        home.flock_with_input(["config", "set", "models.providers.acme.apiKey", "-"], key).ok();
    };
    keep(&first, KEY);
    for agent in AGENTS {
        first.flock(["add", agent, "--no-container", "--model", "acme/one"]).ok();
    }
    let members = AGENTS.iter().flat_map(|agent| ["--member", agent]);
    first.flock(["channel", "create", "work", "--topic", "x"].into_iter().chain(members)).ok();
    let pair = Pair::of(first, |second| {
        std::fs::write(second.file("secrets/acme"), key).unwrap();
        let only_owner = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(second.file("secrets/acme"), only_owner).unwrap();
    });
    let gateways = pair.start();
    is_at_rest(&pair);
    Some((pair, gateways))
}

fn status(home: &TempHome) -> Value {
    wait_until("the gateway tells its status", LIMIT, || {
        let run = home.flock(["status", "--json"]);
        if run.code == 0 { Ok(run.json()) } else { Err(format!("{run:?}")) }
    })
}

/// Waits until no turn runs at either of them.
fn is_at_rest(pair: &Pair) {
    for home in [&pair.first, &pair.second] {
        wait_until("no turn runs", LIMIT, || {
            let turns = &status(home)["gateway"]["turns"];
            if turns["running"] == 0 && turns["waiting"] == 0 { Ok(()) } else { Err(turns.to_string()) }
        });
    }
}

/// Waits until a home's gateway shows one park with this number of agents that wait.
fn until_parked(pair: &Pair, home: &TempHome, agents: usize) -> Value {
    wait_until("the quota is parked", LIMIT, || {
        let parks = status(home)["parked"].as_array().cloned().unwrap_or_default();
        match &parks[..] {
            [park] if park["agents"].as_array().is_some_and(|held| held.len() == agents) => Ok(park.clone()),
            _ => Err(format!("{parks:?}\n{}", pair.logs())),
        }
    })
}

fn until_free(pair: &Pair) {
    for home in [&pair.first, &pair.second] {
        wait_until("no quota is parked", LIMIT, || {
            let parks = status(home)["parked"].clone();
            if parks == json!([]) { Ok(()) } else { Err(format!("{parks}\n{}", pair.logs())) }
        });
    }
}

#[test]
fn gateways_with_the_same_key_share_a_park_and_one_call_tries_it() {
    let model = ModelServer::start();
    let Some((pair, _gateways)) = pair(&model, KEY) else { return };
    model.always(used_up());
    let before = model.requests().len();
    let agent = AGENTS.into_iter().find(|agent| pair.has(&pair.first, agent)).unwrap();
    pair.first.flock(["chat", agent, "hello"]).fails(1);
    // The other one hears of it, and asks nothing.
    let parks = [&pair.first, &pair.second].map(|home| until_parked(&pair, home, AGENTS.len()));
    assert_eq!((&parks[0]["until"], &parks[0]["since"]), (&parks[1]["until"], &parks[1]["since"]));
    pair.second.flock(["channel", "post", "work", "@all what now"]).ok();
    wait_until("each agent has something to do", LIMIT, || {
        let unseen = status(&pair.first)["team"]["unseen"].as_u64().unwrap_or_default();
        if unseen as usize >= AGENTS.len() { Ok(()) } else { Err(unseen.to_string()) }
    });
    is_at_rest(&pair);
    assert_eq!(model.requests().len() - before, 1, "{}", pair.logs());

    // A person has it tried, by either of them. One call is made, whoever makes it.
    let answered = said(&pair.first, "work").iter().filter(|(_, text)| text == ANSWER).count();
    let probe = model.reply_held(ANSWER);
    model.always(Reply::text(ANSWER));
    let resumed = pair.second.flock(["resume", "--json"]).ok().json();
    assert_eq!(resumed["resumed"][0]["credential"], "acme", "{resumed}");
    wait_until("the probe is made", LIMIT, || {
        let asked = model.requests().len() - before;
        if asked == 2 { Ok(()) } else { Err(format!("{asked}\n{}", pair.logs())) }
    });
    // A client of the gateway that does not make the call is told to wait, too.
    for agent in AGENTS {
        pair.first.flock(["chat", agent, "hello"]).fails(1);
    }
    assert_eq!(model.requests().len() - before, 2, "{}", pair.logs());
    probe.notify_one();
    wait_until("all go on", LIMIT * 2, || {
        let all = said(&pair.first, "work");
        let found = all.iter().filter(|(_, text)| text == ANSWER).count();
        if found >= answered + AGENTS.len() { Ok(()) } else { Err(format!("{all:#?}\n{}", pair.logs())) }
    });
    until_free(&pair);
    assert_eq!(pair.first.database().number("SELECT count(*) FROM quota_park"), 0);
}

#[test]
fn a_gateway_with_another_key_is_not_held_up_and_leaves_the_park_to_the_others() {
    let model = ModelServer::start();
    let Some((pair, _gateways)) = pair(&model, "sk-another-key-of-the-second") else { return };
    let [near, far] = [&pair.first, &pair.second]
        .map(|home| AGENTS.into_iter().find(|agent| pair.has(home, agent)).unwrap());
    model.reply(used_up());
    pair.first.flock(["chat", near, "hello"]).fails(1);
    let park = until_parked(&pair, &pair.first, AGENTS.len());
    // The second one shows it, goes on, and does not remove it.
    until_parked(&pair, &pair.second, 0);
    assert!(pair.second.flock(["chat", far, "hello"]).ok().stdout.contains(ANSWER));
    assert!(pair.first.flock(["chat", far, "hello"]).ok().stdout.contains(ANSWER));
    pair.first.flock(["chat", near, "hello"]).fails(1);
    assert_eq!(until_parked(&pair, &pair.first, AGENTS.len())["until"], park["until"]);
    // It can't try the key, but a person who asks it reaches the gateway that can.
    let resumed = pair.second.flock(["resume", "--credential", "acme", "--json"]).ok().json();
    assert_eq!(resumed["resumed"].as_array().map(Vec::len), Some(1), "{resumed}");
    wait_until("the first one tries it", LIMIT, || {
        let run = pair.first.flock(["chat", near, "hello"]);
        if run.code == 0 { Ok(()) } else { Err(format!("{run:?}\n{}", pair.logs())) }
    });
    until_free(&pair);
}

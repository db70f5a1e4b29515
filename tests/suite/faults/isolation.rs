//! What is said to an agent in private is never in what its model is asked for a channel, nor the other way
//! round.

use serde_json::json;

use super::provider::{is_at_rest, with_agents};
use crate::support::model_server::{ModelServer, Reply};
use crate::support::wait_until;
use crate::team::stage::{LIMIT, Served, transcripts, until_said};

#[test]
fn a_secret_of_a_private_session_or_a_channel_stays_there() {
    let model = ModelServer::start();
    model.always(Reply::text("understood"));
    let home = with_agents(&model, &["ada", "bob"]);
    for id in ["alpha", "beta"] {
        home.flock(["channel", "create", id, "--topic", id, "--member", "ada", "--member", "bob"]).ok();
    }
    let _served = Served::start(&home);
    wait_until("both have been told of their channels", LIMIT, || {
        let count = model.requests().len();
        if count >= 4 { Ok(()) } else { Err(count.to_string()) }
    });
    is_at_rest(&home);
    // One agent tells the other something in a direct message.
    let direct = json!({"to": "ada", "message": "secret-dm: 4711"});
    model.reply(Reply::call("c1", "flock_message", &direct));
    home.flock(["chat", "bob", "tell ada the secret", "--session", "agent:bob:flock:main:ann"]).ok();
    wait_until("ada got the direct message", LIMIT, || {
        let seen = transcripts(&home, "ada").join("\n");
        if seen.contains("secret-dm") { Ok(()) } else { Err(seen) }
    });
    home.flock(["chat", "ada", "secret-main: 4712", "--session", "agent:ada:flock:main:ann"]).ok();
    home.flock(["channel", "post", "alpha", "secret-alpha: 4713"]).ok();
    for agent in ["ada", "bob"] {
        until_said(&home, "alpha", agent, "understood");
    }
    home.flock(["channel", "post", "beta", "mark-beta: what are the secrets?"]).ok();
    for agent in ["ada", "bob"] {
        until_said(&home, "beta", agent, "understood");
    }
    home.flock(["chat", "ada", "mark-main: what are the secrets?", "--session", "agent:ada:flock:main:eve"])
        .ok();
    is_at_rest(&home);

    let secrets = ["secret-dm", "secret-main", "secret-alpha"];
    let requests: Vec<String> = model.requests().iter().map(|request| request.body.to_string()).collect();
    let transcripts: Vec<String> =
        ["ada", "bob"].iter().flat_map(|agent| transcripts(&home, agent)).collect();
    for texts in [&requests, &transcripts] {
        for secret in secrets {
            assert!(texts.iter().any(|text| text.contains(secret)), "{secret} was told");
        }
        for mark in ["mark-beta", "mark-main"] {
            let of_mark: Vec<&String> = texts.iter().filter(|text| text.contains(mark)).collect();
            assert!(!of_mark.is_empty());
            for text in of_mark {
                assert!(secrets.iter().all(|secret| !text.contains(secret)), "{text}");
            }
        }
        // No session knows two of them.
        for text in texts {
            let known = secrets.iter().filter(|secret| text.contains(**secret)).count();
            assert!(known <= 1, "{text}");
        }
    }
}

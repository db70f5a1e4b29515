//! Requests that reach a gateway which does not have the agent.

use flock::supervise::gateway_client::{Answer, Call, Client, ServerSentEvents};
use serde_json::{Value, json};

use super::{AGENTS, LIMIT, Pair, QUESTIONS};
use crate::support::home::TempHome;
use crate::support::wait_until;
use crate::team::approvals::{later, wants};
use crate::team::stage::transcripts;

/// A client of a home's gateway with a token.
fn client_with(home: &TempHome, token: &str) -> Client {
    Client::new(home.port()).with_token(token)
}

fn message(agent: &str, number: usize) -> Call {
    let body = json!({"agent": agent, "prompt": format!("question {number}.")});
    Call::post("/api/message").json(&body).unwrap()
}

pub(super) async fn json_of(answer: Answer) -> Value {
    answer.json(LIMIT).await.unwrap()
}

/// An agent of the gateway of a home.
fn agent_of(pair: &Pair, home: &TempHome) -> &'static str {
    AGENTS.into_iter().find(|agent| pair.has(home, agent)).unwrap()
}

/// Asks a question by the stream of OpenAI's API. Returns the text and the session.
async fn streamed(client: &Client, agent: &str, number: usize) -> (String, String) {
    let body = json!({"model": format!("flock/{agent}"), "stream": true,
        "messages": [{"role": "user", "content": format!("question {number}.")}]});
    let call = Call::post("/v1/chat/completions").json(&body).unwrap();
    let answer = client.send(call, LIMIT).await.unwrap();
    assert_eq!(answer.status(), 200);
    let session = answer.header("x-flock-session-key").unwrap().to_owned();
    let (mut events, mut text, mut is_done) = (answer.events(), String::new(), false);
    while let Some(event) = events.next(LIMIT).await.unwrap() {
        is_done = event.data == "[DONE]";
        let chunk: Value = serde_json::from_str(&event.data).unwrap_or_default();
        text.push_str(chunk["choices"][0]["delta"]["content"].as_str().unwrap_or_default());
    }
    assert!(is_done, "the stream reaches its end");
    (text, session)
}

#[tokio::test(flavor = "multi_thread")]
async fn any_gateway_takes_a_request_and_the_one_with_the_agent_answers_it() {
    let Some(pair) = Pair::new() else { return };
    let _gateways = pair.start();
    for home in [&pair.first, &pair.second] {
        let client = home.owner();
        for agent in AGENTS {
            let said = json_of(client.send(message(agent, 1), LIMIT).await.unwrap()).await;
            assert_eq!(said["content"], format!("answer 1 of {agent}"), "{said}\n{}", pair.logs());
            let (text, session) = streamed(&client, agent, 2).await;
            assert_eq!(text, format!("answer 2 of {agent}"));
            let path = format!("/api/sessions/{session}/transcript");
            let shown = json_of(client.send(Call::get(&path), LIMIT).await.unwrap()).await;
            assert!(shown.to_string().contains(&text), "{shown}");
        }
    }
    // A repeat by another gateway gets the answer of the first request.
    let agent = agent_of(&pair, &pair.second);
    let keyed = || message(agent, 3).header("idempotency-key", "only once");
    let first = pair.first.owner().send(keyed(), LIMIT).await.unwrap();
    assert_eq!((first.status(), first.header("idempotent-replayed")), (200, None));
    let first = json_of(first).await;
    let again = pair.second.owner().send(keyed(), LIMIT).await.unwrap();
    assert_eq!((again.status(), again.header("idempotent-replayed")), (200, Some("true")));
    assert_eq!(json_of(again).await["id"], first["id"]);
    let seen = transcripts(&pair.first, agent).join("\n");
    assert_eq!(seen.matches("question 3.").count(), 1, "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_was_passed_on_has_the_rights_of_its_credential() {
    let Some(pair) = Pair::new() else { return };
    let _gateways = pair.start();
    let (ours, theirs) = (agent_of(&pair, &pair.first), agent_of(&pair, &pair.second));
    let made =
        pair.first.flock(["token", "add", "ci", "--agents", theirs, "--rights", "chat", "--json"]).ok();
    let token: Value = serde_json::from_str(&made.stdout).unwrap();
    let token = token["token"].as_str().unwrap();
    let client = client_with(&pair.first, token);
    let said = json_of(client.send(message(theirs, 1), LIMIT).await.unwrap()).await;
    assert_eq!(said["content"], format!("answer 1 of {theirs}"), "{said}");
    assert!(said["sessionKey"].as_str().unwrap().ends_with(":token:ci"), "{said}");
    assert_eq!(client.send(message(ours, 1), LIMIT).await.unwrap().status(), 403);
    // It has no right to look, at whichever gateway the agent is.
    let path = format!("/api/messages?agent={theirs}");
    assert_eq!(client.send(Call::get(&path), LIMIT).await.unwrap().status(), 403);
    pair.second.flock(["token", "revoke", "ci"]).ok();
    for home in [&pair.first, &pair.second] {
        assert_eq!(client_with(home, token).send(message(theirs, 1), LIMIT).await.unwrap().status(), 401);
        // What gateways say to one another is worth nothing at the port for everybody.
        let statement = "eyJjYWxsZXIiOnsia2luZCI6Im93bmVyIiwibG9naW4iOiJ4In0sImFnZW50IjoiYWRhIn0";
        let forged = message("ada", 1).header("x-flock-statement", statement);
        assert_eq!(client_with(home, "wrong").send(forged, LIMIT).await.unwrap().status(), 401);
    }
    // The port for gateways does not speak to anybody else.
    let port =
        "SELECT CAST(split_part(min(peer_address), ':', 2) AS BIGINT) FROM gateway WHERE ended_at IS NULL";
    let port = u16::try_from(pair.first.database().number(port)).unwrap();
    assert!(Client::new(port).send(Call::get("/health"), LIMIT).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn files_tasks_and_calls_of_a2a_reach_an_agent_of_another_gateway() {
    let Some(pair) = Pair::new() else { return };
    let _gateways = pair.start();
    let agent = agent_of(&pair, &pair.second);
    let (near, far) = (pair.first.owner(), pair.second.owner());
    // A file comes by one gateway, and the message that names it by the other one.
    let sent =
        far.send(Call::put("/api/files?name=note.txt").bytes(b"a note for the team"), LIMIT).await.unwrap();
    assert_eq!(sent.status(), 201);
    let file = json_of(sent).await["id"].as_str().unwrap().to_owned();
    let body =
        json!({"model": format!("flock/{agent}"), "messages": [{"role": "user", "content": "question 1."}]});
    let call = Call::post("/v1/chat/completions").json(&body).unwrap().header("x-flock-files", &file);
    let said = near.send(call, LIMIT).await.unwrap();
    let (status, said) = (said.status(), json_of(said).await);
    assert_eq!(status, 200, "{said}\n{}", pair.logs());
    let seen = transcripts(&pair.first, agent).join("\n");
    let place = seen
        .split("[attachment: ")
        .nth(1)
        .and_then(|rest| rest.split(']').next())
        .expect("the agent is told");
    let content = std::fs::read(pair.first.file("workspaces").join(agent).join(place)).unwrap();
    assert_eq!(content, b"a note for the team");
    // The same file is not there for another message.
    let call = Call::post("/v1/chat/completions").json(&body).unwrap().header("x-flock-files", &file);
    assert_eq!(near.send(call, LIMIT).await.unwrap().status(), 404);
    let message = json!({"kind": "message", "messageId": "m-1", "role": "user",
        "parts": [{"kind": "text", "text": "question 2."}]});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}});
    let call = Call::post(&format!("/flock/a2a/{agent}")).json(&call).unwrap();
    let task = json_of(near.send(call, LIMIT).await.unwrap()).await;
    let parts = json!([{"kind": "text", "text": format!("answer 2 of {agent}")}]);
    assert_eq!(task["result"]["artifacts"][0]["parts"], parts, "{task}\n{}", pair.logs());
    let id = task["result"]["id"].as_str().unwrap();
    for client in [&near, &far] {
        let cancelled = client.send(Call::post(&format!("/api/tasks/{id}/cancel")), LIMIT).await.unwrap();
        let (status, cancelled) = (cancelled.status(), json_of(cancelled).await);
        assert_eq!((status, &cancelled["error"]["code"]), (409, &json!("task_ended")), "{cancelled}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn any_gateway_makes_a_checkpoint_and_copies_a_team() {
    let Some(pair) = Pair::new() else { return };
    let _gateways = pair.start();
    let theirs = agent_of(&pair, &pair.second);
    let (near, far) = (pair.first.owner(), pair.second.owner());
    for client in [&near, &far] {
        let call = Call::post(&format!("/api/agents/{theirs}/checkpoints")).json(&json!({})).unwrap();
        let made = client.send(call, LIMIT).await.unwrap();
        let (status, made) = (made.status(), json_of(made).await);
        assert_eq!(status, 200, "{made}\n{}", pair.logs());
    }
    let fork = async |client: &Client, name: &str| {
        let call = Call::post("/api/channels/work/fork").json(&json!({"name": name})).unwrap();
        let answer = client.send(call, LIMIT).await.unwrap();
        (answer.status(), json_of(answer).await)
    };
    let until_running = |expected: i64| {
        wait_until("the turn runs, or has ended", LIMIT, || {
            let running = pair.running();
            (running == expected).then_some(()).ok_or_else(|| format!("{running} turns\n{}", pair.logs()))
        });
    };
    let answered = tokio::spawn({
        let (client, call) = (pair.second.owner(), message(theirs, QUESTIONS));
        async move { json_of(client.send(call, LIMIT).await.unwrap()).await }
    });
    until_running(1);
    let (status, refused) = fork(&near, "copy").await;
    assert_eq!((status, &refused["error"]["code"]), (409, &json!("conflict")), "{refused}");
    assert_eq!(refused["error"]["message"], format!("{theirs} is in the middle of a turn"));
    answered.await.unwrap();
    until_running(0);
    // Each of the two has some of its agents.
    for (client, name) in [(&near, "copy"), (&far, "other")] {
        let (status, made) = fork(client, name).await;
        assert_eq!(status, 200, "{made}\n{}", pair.logs());
        assert_eq!(made["fork"]["agents"].as_array().map(Vec::len), Some(AGENTS.len()), "{made}");
        let copy = format!("{theirs}-{name}");
        wait_until("both gateways know the copies", LIMIT, || {
            let listed = [&pair.first, &pair.second].map(|home| home.flock(["list", "--json"]).ok().stdout);
            let is_known = listed.iter().all(|agents| agents.contains(&copy));
            is_known.then_some(()).ok_or_else(|| format!("{listed:?}\n{}", pair.logs()))
        });
    }
}

/// The events of a home's gateway whose names begin with `types`.
async fn watch(home: &TempHome, types: &str) -> ServerSentEvents {
    watch_as(&home.owner(), types).await
}

/// The same, as far as a client may see them.
async fn watch_as(client: &Client, types: &str) -> ServerSentEvents {
    client.ask(Call::get(&format!("/api/events?types={types}")), LIMIT).await.unwrap().events()
}

/// Waits for an event of this name whose data contains a text. Returns its data, and the data of the events before it.
async fn until_event(events: &mut ServerSentEvents, name: &str, text: &str) -> (Value, String) {
    let mut before = String::new();
    loop {
        let event = events.next(LIMIT).await.unwrap().expect("the stream goes on");
        if event.name == name && event.data.contains(text) {
            return (serde_json::from_str(&event.data).unwrap(), before);
        }
        before.push_str(&event.data);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn any_gateway_shows_the_events_and_the_turns_of_all() {
    let Some(pair) = Pair::new() else { return };
    let _gateways = pair.start();
    let homes = [&pair.first, &pair.second];
    for (asked, has) in [(homes[0], homes[1]), (homes[1], homes[0])] {
        let agent = agent_of(&pair, has);
        let mut streams = Vec::new();
        for home in homes {
            streams.push(watch(home, "turn").await);
        }
        let running = tokio::spawn({
            let (client, call) = (asked.owner(), message(agent, QUESTIONS));
            async move { json_of(client.send(call, LIMIT).await.unwrap()).await }
        });
        let mut turn = String::new();
        for events in &mut streams {
            let (started, before) =
                until_event(events, "turn.started", &format!("agent:{agent}:flock:main:")).await;
            assert!(!before.contains(&format!("agent:{agent}:flock:main:")), "{before}");
            turn = started["turn"].as_str().unwrap().to_owned();
        }
        for home in homes {
            let listed = json_of(home.owner().send(Call::get("/api/sessions"), LIMIT).await.unwrap()).await;
            let turns = listed["turns"].as_array().unwrap();
            let shown = turns.iter().find(|shown| shown["turn"] == turn.as_str());
            assert!(shown.is_some_and(|shown| shown["state"] == "running"), "{listed}");
            let session = listed["sessions"]
                .as_array()
                .unwrap()
                .iter()
                .find(|session| session["key"] == shown.unwrap()["session"]);
            assert!(session.is_some_and(|session| session["busy"] == true), "{listed}");
            let status = json_of(home.owner().send(Call::get("/api/status"), LIMIT).await.unwrap()).await;
            let gateways = status["gateways"].as_array().unwrap();
            assert_eq!(gateways.len(), 2, "{status}");
            assert_eq!(status["database"]["kind"], "postgres", "{status}");
            let figures = home.owner().send(Call::get("/metrics"), LIMIT).await.unwrap();
            let figures = String::from_utf8(figures.bytes(1 << 20, LIMIT).await.unwrap()).unwrap();
            assert!(figures.contains("flock_gateways{state=\"alive\"} 2\n"), "{figures}");
            assert_eq!(figures.matches("\nflock_gateway_silent_seconds{").count(), 2, "{figures}");
            assert!(figures.contains("\nflock_leases_held{kind=\"agent\"} "), "{figures}");
            let with = gateways.iter().find(|gateway| gateway["agents"].to_string().contains(agent)).unwrap();
            assert_eq!(with["own"], pair.has(home, agent), "{status}");
            assert!(with["turns"]["running"].as_u64() >= Some(1), "{status}");
        }
        let said = running.await.unwrap();
        assert_eq!(said["content"], format!("answer {QUESTIONS} of {agent}"), "{said}");
        for events in &mut streams {
            let (_, before) = until_event(events, "turn.ended", &turn).await;
            assert!(!before.contains(&turn), "an event comes once: {before}");
        }
    }
    wait_until("the status shows who has each agent", LIMIT, || {
        let shown = pair.first.flock(["status"]).ok().stdout;
        let lines: Vec<&str> = shown.lines().filter(|line| line.contains("on a server, gateway")).collect();
        let all = lines.join("\n");
        let is_shown = lines.len() == 2 && AGENTS.iter().all(|agent| all.contains(agent));
        is_shown.then_some(()).ok_or(shown)
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_sees_of_the_events_of_all_gateways_what_is_theirs() {
    let Some(pair) = Pair::new() else { return };
    // The orchestrator asks in a session that it has with ann.
    tokio::task::block_in_place(|| {
        for id in ["r-anns", "r-begun"] {
            wants(&pair.first, id, "true", later());
        }
    });
    let _gateways = pair.start();
    let token = |name: &str, role: &str| {
        pair.first.flock(["person", "add", name, "--role", role]).ok();
        pair.first.flock(["person", "token", name]).ok().stdout.trim().to_owned()
    };
    let (viewer, operator) = (token("vera", "viewer"), token("olga", "operator"));
    let mut streams = Vec::new();
    for home in [&pair.first, &pair.second] {
        let [viewer, operator] = [&viewer, &operator].map(|token| client_with(home, token));
        streams.push((watch_as(&viewer, "approval,channel").await, watch_as(&operator, "approval").await));
    }
    pair.second.flock(["approvals", "deny", "r-anns"]).ok();
    for (_, operator) in &mut streams {
        until_event(operator, "approval.decided", "r-anns").await;
    }
    // Both gateways have the decision now, so the viewer would get it before this message.
    pair.first.flock(["channel", "post", "work", "that is all"]).ok();
    for (viewer, _) in &mut streams {
        let (_, before) = until_event(viewer, "channel.message", "\"work\"").await;
        assert!(!before.contains("r-anns"), "{before}");
    }
    // A request that is approved elsewhere begins at the agent's gateway, and the answer waits for its end. The second
    // gateway would refuse to run it, because it was asked for in the home of the first one.
    let elsewhere = if pair.has(&pair.first, "orchestrator") { &pair.second } else { &pair.first };
    let approved = elsewhere.flock(["approvals", "approve", "r-begun", "--json"]).ok().json();
    let state = approved["request"]["state"].as_str().unwrap();
    assert!(["done", "failed"].contains(&state), "{approved}\n{}", pair.logs());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_is_lost_in_the_middle_is_told_and_nothing_runs_twice() {
    let Some(pair) = Pair::new() else { return };
    let (_first, second) = pair.start();
    let client = pair.first.owner();
    let agents: Vec<&str> = AGENTS.into_iter().filter(|agent| pair.has(&pair.second, agent)).collect();
    let agent = agents[0];
    let keyed = || message(agent, QUESTIONS).header("idempotency-key", "k");
    let asked = tokio::spawn({
        let (client, call) = (pair.first.owner(), keyed());
        async move { client.send(call, LIMIT).await.unwrap() }
    });
    let question = format!("question {QUESTIONS}.");
    wait_until("the turn runs at the second gateway", LIMIT, || {
        let seen = transcripts(&pair.first, agent).join("\n");
        seen.contains(&question).then_some(()).ok_or_else(|| pair.logs())
    });
    let mut events = watch(&pair.first, "agent").await;
    let mut news = watch(&pair.first, "gateway").await;
    second.kill();
    let lost = asked.await.unwrap();
    assert_eq!((lost.status(), lost.header("retry-after")), (503, Some("5")), "{}", pair.logs());
    let lost = json_of(lost).await;
    assert_eq!(lost["error"]["code"], "gateway_lost", "{lost}");
    // The next gateway knows the request by its key, and does not begin it anew.
    let again = client.send(keyed(), LIMIT).await.unwrap();
    let (status, again) = (again.status(), json_of(again).await);
    assert!(status == 424 || status == 200, "{status} {again}\n{}", pair.logs());
    pair.until_holds(&pair.first, "agent", agent);
    // Watchers are told that its last events may be missing.
    let told = events.next(LIMIT).await.unwrap().expect("the stream goes on");
    assert_eq!((told.name.as_str(), told.data.as_str()), ("reset", "{}"));
    until_event(&mut news, "reset", "{}").await;
    until_event(&mut news, "gateway.changed", "{}").await;
    let said = json_of(client.send(message(agent, 1), LIMIT).await.unwrap()).await;
    assert_eq!(said["content"], format!("answer 1 of {agent}"), "{said}\n{}", pair.logs());
    let seen = transcripts(&pair.first, agent).join("\n");
    assert_eq!(seen.matches(&question).count(), 1, "{seen}");
}

//! Files of messages: people send them, agents link them, and both are read back without trust in what they are.

use std::path::PathBuf;

use flock::id::Party;
use flock::supervise::gateway_client::{Answer, Call, Client};
use flock::swarm::Actor;
use serde_json::{Value, json};

use super::dashboard::Browser;
use super::house::{House, LIMIT, send};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n a picture";

/// A gateway with the channel `dev` of both agents, whose workspaces are there.
async fn stage() -> (House, Client) {
    let house = House::new().await;
    for agent in ["coder", "tester"] {
        std::fs::create_dir_all(workspace(&house, agent)).unwrap();
    }
    let owner = house.owner();
    let new = json!({"id": "dev", "topic": "work", "members": ["coder", "tester"], "as": "ann"});
    assert_eq!(send(&owner, Call::post("/api/channels").json(&new).unwrap()).await.0, 201);
    (house, owner)
}

fn workspace(house: &House, agent: &str) -> PathBuf {
    house.home.workspace(&agent.parse().unwrap())
}

fn put(name: &str, content: &[u8]) -> Call {
    Call::put(&format!("/api/files?name={name}")).bytes(content)
}

async fn sent(client: &Client, name: &str, content: &[u8]) -> String {
    let (status, answer) = send(client, put(name, content)).await;
    assert_eq!(status, 201, "{answer}");
    answer["id"].as_str().unwrap().to_owned()
}

fn post(content: &str, files: &[String]) -> Call {
    let post = json!({"content": content, "files": files, "as": "ann", "notify": false});
    Call::post("/api/channels/dev/messages").json(&post).unwrap()
}

async fn last(client: &Client) -> Value {
    send(client, Call::get("/api/channels/dev/messages?limit=1")).await.1["messages"][0].clone()
}

async fn file(client: &Client, seq: &Value, number: usize) -> Answer {
    let path = format!("/api/channels/dev/messages/{seq}/files/{number}");
    client.send(Call::get(&path), LIMIT).await.unwrap()
}

#[tokio::test]
async fn what_people_send_is_in_the_workspaces_and_read_back_as_hostile() {
    let (house, owner) = stage().await;
    let picture = sent(&owner, "a%20picture.png", PNG).await;
    let page = sent(&owner, "..%2Fpage.html", b"<script>alert(1)</script>").await;
    let (status, posted) = send(&owner, post("look", &[picture.clone(), page])).await;
    assert_eq!((status, &posted["notes"]), (201, &json!([])), "{posted}");
    let message = last(&owner).await;
    let text = message["content"].as_str().unwrap();
    let places: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("[attachment: ")).collect();
    assert!(text.starts_with("look\n\n") && places.len() == 2, "{text}");
    for agent in ["coder", "tester"] {
        let place = workspace(&house, agent).join(places[0].trim_end_matches(']'));
        assert_eq!(std::fs::read(place).unwrap(), PNG);
    }
    let named = |n: usize| (message["files"][n]["name"].clone(), message["files"][n]["mediaType"].clone());
    assert_eq!(named(0), (json!("a_picture.png"), json!("image/png")), "{message}");
    assert_eq!(named(1), (json!("page.html.txt"), Value::Null), "{message}");
    for (number, kind, begins) in [(0, "image/png", "inline"), (1, "application/octet-stream", "attachment")]
    {
        let answer = file(&owner, &posted["seq"], number).await;
        assert_eq!((answer.status(), answer.header("content-type")), (200, Some(kind)));
        assert!(answer.header("content-disposition").unwrap().starts_with(begins));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("sandbox; default-src 'none'"), "{policy}");
    }
    // A link in its place is not followed, and what is gone is said to be gone.
    for agent in ["coder", "tester"] {
        let place = workspace(&house, agent).join(places[0].trim_end_matches(']'));
        std::fs::remove_file(&place).unwrap();
        std::os::unix::fs::symlink(house.home.config(), place).unwrap();
    }
    assert_eq!(file(&owner, &posted["seq"], 0).await.status(), 404);
    let shown = &last(&owner).await["files"][0];
    assert_eq!((&shown["isThere"], &shown["bytes"]), (&json!(false), &Value::Null), "{shown}");
    let (status, answer) = send(&owner, post("again", &[picture])).await;
    assert_eq!((status, &answer["error"]["code"]), (404, &json!("file_not_found")), "it was used: {answer}");
}

#[tokio::test]
async fn a_repeated_post_with_files_is_posted_once() {
    let (_house, owner) = stage().await;
    let id = sent(&owner, "a.txt", b"a").await;
    let keyed = || post("", std::slice::from_ref(&id)).header("idempotency-key", "one");
    let (first, second) = (send(&owner, keyed()).await, send(&owner, keyed()).await);
    assert_eq!((first.0, second.0), (201, 201), "{second:?}");
    assert_eq!(first.1["seq"], second.1["seq"]);
    assert!(last(&owner).await["content"].as_str().unwrap().starts_with("[attachment: inbox/dev/"));
}

#[tokio::test]
async fn files_that_can_not_be_taken_are_refused_with_the_reason() {
    let (house, owner) = stage().await;
    let (status, answer) = send(&owner, put("run", b"\x7fELF")).await;
    assert_eq!((status, &answer["error"]["message"]), (422, &json!("run is not taken: it is a program")));
    let (status, answer) = send(&owner, put("big", &vec![0; (20 << 20) + 1])).await;
    assert_eq!((status, &answer["error"]["code"]), (413, &json!("body_too_large")), "{answer}");
    // A file may be larger than any other body.
    let large = sent(&owner, "large", &vec![0; 12 << 20]).await;
    let eleven = vec![large.clone(); 11];
    assert_eq!(send(&owner, post("x", &eleven)).await.0, 400);
    std::fs::remove_dir_all(workspace(&house, "tester")).unwrap();
    let (status, posted) = send(&owner, post("x", &[large])).await;
    let why = "[attachment large was not taken: it can't be written into the workspace of tester]";
    assert_eq!((status, &posted["notes"]), (201, &json!([why])), "{posted}");
    assert!(last(&owner).await["content"].as_str().unwrap().ends_with(why));
    let new = json!({"id": "people", "topic": "t", "members": ["human:ann"]});
    assert_eq!(send(&owner, Call::post("/api/channels").json(&new).unwrap()).await.0, 201);
    let lost = json!({"content": "x", "files": [sent(&owner, "a", b"a").await]});
    let (status, answer) =
        send(&owner, Call::post("/api/channels/people/messages").json(&lost).unwrap()).await;
    assert_eq!((status, &answer["error"]["code"]), (409, &json!("no_agent")), "{answer}");
}

#[tokio::test]
async fn a_client_reads_and_names_only_what_its_token_covers() {
    let (house, owner) = stage().await;
    let mut clients = Vec::new();
    for (name, rights, agents) in
        [("all", json!(["chat", "read"]), json!(null)), ("one", json!(["chat", "read"]), json!(["coder"]))]
    {
        let wanted = json!({"name": name, "rights": rights, "agents": agents, "by": "ann"});
        let (status, made) = send(&owner, Call::post("/api/tokens").json(&wanted).unwrap()).await;
        assert_eq!(status, 201, "{made}");
        clients.push(Client::new(house.port).with_token(made["token"].as_str().unwrap()));
    }
    let posted = send(&owner, post("", &[sent(&owner, "a", b"a").await])).await.1;
    assert_eq!(file(&clients[0], &posted["seq"], 0).await.status(), 200);
    assert_eq!(file(&clients[1], &posted["seq"], 0).await.status(), 403);
    // The file of another client is none.
    let others = json!({"content": "x", "files": [sent(&owner, "a", b"a").await]});
    let call = Call::post("/api/channels/dev/messages").json(&others).unwrap();
    assert_eq!(send(&clients[0], call).await.0, 404);
    // A file that the text of a person names in another channel's folder is none of this channel.
    let secret = workspace(&house, "coder").join("inbox/other");
    std::fs::create_dir_all(&secret).unwrap();
    std::fs::write(secret.join("01234567-a"), "secret").unwrap();
    let posted = send(&owner, post("[attachment: inbox/other/01234567-a]", &[])).await.1;
    assert_eq!(file(&owner, &posted["seq"], 0).await.status(), 404);
}

#[tokio::test]
async fn a_page_shows_pictures_and_links_files_and_says_what_is_gone() {
    let (house, owner) = stage().await;
    let browser = Browser::new(&house).await;
    let (status, answer) = browser.change(put("logo.png", PNG)).await;
    assert_eq!(status, 201, "{answer}");
    let picture = answer["id"].as_str().unwrap().to_owned();
    let plan = browser.change(put("plan.txt", b"the plan")).await.1["id"].as_str().unwrap().to_owned();
    let (status, posted) = browser.change(post("see", &[picture, plan])).await;
    assert_eq!(status, 201, "{posted}");
    let seq = &posted["seq"];
    let page = String::from_utf8(
        browser.send(Call::get("/dashboard/channels/dev")).await.bytes(1 << 20, LIMIT).await.unwrap(),
    )
    .unwrap();
    let address = format!("/api/channels/dev/messages/{seq}/files");
    assert!(
        page.contains(&format!("<img src=\"{address}/0\" alt=\"Picture logo.png\" loading=\"lazy\"")),
        "{page}"
    );
    assert!(page.contains(&format!("<a href=\"{address}/1\" download=\"plan.txt\">plan.txt</a>")), "{page}");
    assert!(!page.contains("[attachment"), "the places are shown as files: {page}");
    let shown = browser.send(Call::get(&format!("{address}/0"))).await;
    assert_eq!((shown.status(), shown.bytes(1 << 20, LIMIT).await.unwrap()), (200, PNG.to_vec()));
    // Without the token of a page nothing is taken.
    assert_eq!(browser.send(put("x", b"x")).await.status(), 403);
    std::fs::remove_dir_all(workspace(&house, "coder").join("inbox")).unwrap();
    std::fs::remove_dir_all(workspace(&house, "tester").join("inbox")).unwrap();
    let page = browser.send(Call::get("/dashboard/channels/dev")).await.bytes(1 << 20, LIMIT).await.unwrap();
    let page = String::from_utf8(page).unwrap();
    assert!(page.contains("plan.txt is not there (any more)") && !page.contains("<img"), "{page}");
    drop(owner);
}

#[tokio::test]
async fn what_an_agent_links_in_its_workspace_is_a_file_of_its_message() {
    let (house, owner) = stage().await;
    std::fs::create_dir(workspace(&house, "coder").join("out")).unwrap();
    std::fs::write(workspace(&house, "coder").join("out/chart.png"), PNG).unwrap();
    // Others have a file of the same name, which is none of the author's.
    std::fs::write(workspace(&house, "tester").join("notes.md"), "notes").unwrap();
    let text = "See ![chart](out/chart.png), [notes](notes.md) and [the web](https://example.org).";
    let by = Actor { party: Party::Agent("coder".parse().unwrap()), ..Actor::human("ann") };
    house.gateway.swarm.post(&by, &"dev".parse().unwrap(), text.to_owned(), false).await.unwrap();
    let message = last(&owner).await;
    let facts: Vec<(&str, bool)> = message["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| (file["name"].as_str().unwrap(), file["isThere"].as_bool().unwrap()))
        .collect();
    assert_eq!(facts, [("chart.png", true), ("notes.md", false)], "{message}");
    let answer = file(&owner, &message["seq"], 0).await;
    assert_eq!(answer.header("content-type"), Some("image/png"));
}

#[tokio::test]
async fn files_of_a_chat_are_in_the_agents_inbox_and_named_in_the_message() {
    let (house, owner) = stage().await;
    let id = sent(&owner, "notes.txt", b"my notes").await;
    let chat = |id: &str| {
        let asked = super::house::ask("say hello");
        Call::post("/v1/chat/completions")
            .json(&asked)
            .unwrap()
            .header("x-openclaw-session-key", "agent:coder:flock:main:ann")
            .header("x-flock-files", id)
    };
    let (status, answer) = send(&owner, chat("00000000000000000000000000000000")).await;
    assert_eq!((status, &answer["error"]["code"]), (404, &json!("file_not_found")), "{answer}");
    let (status, answer) = send(&owner, chat(&id)).await;
    assert_eq!(status, 200, "{answer}");
    let text = house.runner.last().input.last().unwrap().joined_text();
    let place = text.strip_prefix("say hello\n\n[attachment: ").unwrap().strip_suffix(']').unwrap();
    assert!(place.starts_with("inbox/chat/"), "{text}");
    assert_eq!(std::fs::read(workspace(&house, "coder").join(place)).unwrap(), b"my notes");
    assert!(!workspace(&house, "tester").join("inbox").exists(), "only the agent of the chat has it");
    assert_eq!(send(&owner, chat(&id)).await.0, 404, "it was used");
}

#[tokio::test]
async fn the_page_of_a_session_offers_commands_and_shows_what_waits() {
    let (house, _) = stage().await;
    let browser = Browser::new(&house).await;
    let ask = |text: &str| {
        let call = Call::post("/v1/chat/completions").json(&super::house::ask(text)).unwrap();
        let call = call.header("x-openclaw-session-key", "agent:coder:flock:main:ann");
        let owner = house.owner();
        tokio::spawn(async move { owner.send(call, LIMIT).await.unwrap().status() })
    };
    let running = ask("wait");
    super::house::until("it runs", || house.runner.running() == 1).await;
    let behind = ask("say <b>later</b>");
    super::house::until("it waits", || house.gateway.driver.list().len() == 2).await;
    let page = browser.send(Call::get("/dashboard/sessions/agent:coder:flock:main:ann")).await;
    let page = String::from_utf8(page.bytes(1 << 20, LIMIT).await.unwrap()).unwrap();
    for command in ["/compact", "/context", "/new"] {
        assert!(page.contains(&format!("data-value=\"{command}\"")), "{page}");
    }
    assert!(page.contains("data-action=\"withdraw\"") && !page.contains("<b>later"), "{page}");
    assert!(page.contains("later") && page.contains("human:ann"), "{page}");
    house.runner.release.notify_one();
    assert_eq!((running.await.unwrap(), behind.await.unwrap()), (200, 200));
}

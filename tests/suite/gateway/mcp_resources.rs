//! Channels, findings, vaults and skills by MCP: what an agent may read by its tools, with the same refusals and the
//! same record, and nothing else.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flock::supervise::gateway_client::Call;
use serde_json::{Value, json};

use super::crew::{Crew, Played};
use super::house::LIMIT;
use super::mcp::{call, client, pipe};
use super::openapi::PNG;

async fn send(crew: &Crew, turn: &Played, method: &str, params: Value) -> Value {
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let (status, answer) = crew.send(&client(crew, turn), call(&message)).await;
    assert_eq!(status, 200, "{answer}");
    answer
}

async fn ask(crew: &Crew, turn: &Played, method: &str, params: Value) -> Value {
    let mut answer = send(crew, turn, method, params).await;
    assert!(answer["error"].is_null(), "{method}: {answer}");
    answer["result"].take()
}

/// The code and the text of an error.
async fn refused(crew: &Crew, turn: &Played, method: &str, params: Value) -> (i64, String) {
    let answer = send(crew, turn, method, params).await;
    let error = &answer["error"];
    (
        error["code"].as_i64().unwrap_or_else(|| panic!("{answer}")),
        error["message"].as_str().unwrap().to_owned(),
    )
}

async fn read(crew: &Crew, turn: &Played, uri: &str) -> Value {
    let mut answer = ask(crew, turn, "resources/read", json!({"uri": uri})).await;
    assert_eq!(answer["contents"].as_array().unwrap().len(), 1, "{answer}");
    let content = answer["contents"][0].take();
    assert_eq!(content["uri"], uri);
    content
}

fn names(list: &Value, key: &str) -> Vec<String> {
    list.as_array().unwrap().iter().map(|entry| entry[key].as_str().unwrap().to_owned()).collect()
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// A team in which only members read channels, with something of each kind, and what none of it may lead to.
async fn team(change: impl FnOnce(&mut Value)) -> Crew {
    let crew = Crew::with(None, |document| {
        document["plugins"]["entries"]["flock"]["config"]["channels"] = json!({"read": "members"});
        change(document);
    })
    .await;
    for (id, members) in [("dev", json!(["coder", "tester"])), ("private", json!(["tester", "orchestrator"]))]
    {
        let channel = json!({"id": id, "topic": format!("work of {id}"), "members": members});
        assert_eq!(crew.ask(Call::post("/api/channels").json(&channel).unwrap()).await.0, 201);
        let post = json!({"content": format!("said in {id}"), "as": "ann"});
        let path = format!("/api/channels/{id}/messages");
        let (status, answer) = crew.ask(Call::post(&path).json(&post).unwrap()).await;
        assert!(status < 300, "{status} {answer}");
    }
    let vault = crew.home.vaults().join("wiki");
    write(&vault.join("start.md"), "# Start\nhere\n");
    write(&vault.join("deep/two words.txt"), "one\ntwo\nthree\n");
    write(&vault.join(".git/config"), "hidden");
    write(&vault.join("picture.png"), "\u{0}PNG");
    write(&crew.home.vaults().join("other/x.md"), "of another vault");
    std::os::unix::fs::symlink("/etc/passwd", vault.join("passwd")).unwrap();
    std::os::unix::fs::symlink(crew.home.vaults().join("other"), vault.join("linked")).unwrap();
    for agent in ["coder", "tester"] {
        let workspace = crew.home.workspace(&agent.parse().unwrap());
        write(&workspace.join("deliverables/findings/main/finding_1.md"), &format!("found by {agent}"));
        write(&workspace.join("MEMORY.md"), "remembered");
    }
    let shot = crew.home.workspace(&"coder".parse().unwrap()).join("deliverables/findings/main/shot.png");
    std::fs::write(shot, STANDARD.decode(PNG).unwrap()).unwrap();
    write(
        &crew.home.skills().join("deploy/SKILL.md"),
        "---\ndescription: Release safely\n---\nFirst run the tests.\n",
    );
    write(&crew.home.skills().join("plain/SKILL.md"), "");
    std::fs::create_dir_all(crew.home.skills().join("empty")).unwrap();
    crew
}

#[tokio::test]
async fn an_agent_is_shown_what_it_may_read_and_nothing_else() {
    let mut crew = team(|_| {}).await;
    let (turn, answer) = crew.begin().await;
    let listed = ask(&crew, &turn, "resources/list", json!({})).await;
    assert_eq!(
        names(&listed["resources"], "uri"),
        [
            "flock://channel/dev",
            "flock://findings/main/finding_1.md",
            "flock://findings/main/shot.png",
            "flock://vault/other/x.md",
            "flock://vault/wiki/deep/two%20words.txt",
            "flock://vault/wiki/picture.png",
            "flock://vault/wiki/start.md",
        ]
    );
    assert_eq!(listed.get("nextCursor"), None);
    assert_eq!(listed["resources"][0]["name"], "#dev");
    assert!(listed["resources"][0]["description"].as_str().unwrap().contains("work of dev"), "{listed}");
    assert_eq!(listed["resources"][4]["size"], 14);
    let templates = ask(&crew, &turn, "resources/templates/list", json!({})).await;
    assert_eq!(templates["resourceTemplates"].as_array().unwrap().len(), 4);

    let channel = read(&crew, &turn, "flock://channel/dev").await;
    assert_eq!(channel["mimeType"], "text/plain");
    assert!(channel["text"].as_str().unwrap().contains("[seq 2] human:ann: said in dev"), "{channel}");
    let later = read(&crew, &turn, "flock://channel/dev?after=2").await;
    assert!(!later["text"].as_str().unwrap().contains("said in dev"), "{later}");
    let start = read(&crew, &turn, "flock://vault/wiki/start.md").await;
    assert_eq!((&start["text"], &start["mimeType"]), (&json!("# Start\nhere\n"), &json!("text/markdown")));
    let part = read(&crew, &turn, "flock://vault/wiki/deep/two%20words.txt?offset=3").await;
    assert_eq!(part["text"], "three\n");
    let found = read(&crew, &turn, "flock://findings/main/finding_1.md").await;
    assert_eq!(found["text"], "found by coder");

    let picture = read(&crew, &turn, "flock://findings/main/shot.png").await;
    assert_eq!((&picture["mimeType"], &picture["blob"]), (&json!("image/png"), &json!(PNG)), "{picture}");

    // What does not exist and what it may not read have one code.
    for uri in [
        "flock://channel/private",
        "flock://channel/nowhere",
        "flock://vault/none/x",
        "flock://vault/wiki/none.md",
        "flock://vault/wiki/deep",
        "flock://vault/wiki/passwd",
        "flock://vault/wiki/linked/x.md",
        "flock://vault/wiki/picture.png",
        "flock://findings/main/none.md",
        "file:///etc/passwd",
        "test://static-text",
    ] {
        let (code, text) = refused(&crew, &turn, "resources/read", json!({"uri": uri})).await;
        assert_eq!(code, -32002, "{uri}: {text}");
        assert!(
            !text.contains("said in") && !text.contains("root:") && !text.contains("of another"),
            "{text}"
        );
        assert!(!text.contains(crew.home.root().to_str().unwrap()), "no path of the host: {text}");
    }
    for uri in [
        json!("flock://vault/wiki/../other/x.md"),
        json!("flock://vault/wiki/%2e%2e/other/x.md"),
        json!("flock://vault/wiki/.git/config"),
        json!("flock://findings/../../MEMORY.md"),
        json!("flock://findings/%2e%2e%2f%2e%2e%2fMEMORY.md"),
        json!("flock://findings//etc/passwd"),
        json!("flock://channel/dev?limit=1"),
        json!("flock://agent/tester"),
        json!(5),
        json!(null),
    ] {
        let (code, text) = refused(&crew, &turn, "resources/read", json!({"uri": uri})).await;
        assert_eq!(code, -32602, "{uri}: {text}");
    }
    turn.say("done");
    assert_eq!(answer.await.unwrap().0, 200);
    // Another agent of the same home is shown others.
    let waits = crew.say(json!({"prompt": "go"}));
    let turn = crew.turn().await;
    let listed = ask(&crew, &turn, "resources/list", json!({})).await;
    let listed = names(&listed["resources"], "uri");
    assert_eq!(listed[0], "flock://channel/private");
    assert!(!listed.iter().any(|uri| uri.contains("findings") || uri.ends_with("/dev")), "{listed:?}");
    refused(&crew, &turn, "resources/read", json!({"uri": "flock://findings/main/finding_1.md"})).await;
    turn.say("done");
    waits.await.unwrap();
    crew.stopped().await;
}

#[tokio::test]
async fn a_resource_is_read_by_a_call_that_is_in_the_transcript_and_the_audit() {
    let mut crew = team(|_| {}).await;
    let (turn, answer) = crew.begin().await;
    ask(&crew, &turn, "resources/list", json!({})).await;
    read(&crew, &turn, "flock://channel/dev").await;
    refused(&crew, &turn, "resources/read", json!({"uri": "flock://channel/private"})).await;
    let key = turn.order.session.clone();
    turn.say("done");
    assert_eq!(answer.await.unwrap().0, 200);
    let told = crew.gateway.engine.history(&key, 20).await.unwrap().unwrap();
    let calls = told.iter().filter(|entry| entry.text.starts_with("[calls flock_channel_read")).count();
    assert_eq!(calls, 2, "{told:?}");
    let (_, rows) = crew.ask(Call::get("/api/audit?limit=100")).await;
    let rows = rows["rows"].as_array().unwrap();
    let of = |word: &str| rows.iter().filter(|row| row.to_string().contains(word)).count();
    assert_eq!(of("mcp.list"), 1, "{rows:?}");
    assert!(of("flock_channel_read") >= 2, "{rows:?}");
    crew.stopped().await;
}

#[tokio::test]
async fn what_the_policy_denies_is_neither_listed_nor_read_nor_completed() {
    let mut crew = team(|document| {
        document["tools"]["deny"] = json!(["flock_channel_read", "flock_read_skill", "read", "image"]);
    })
    .await;
    let (turn, answer) = crew.begin().await;
    let listed = ask(&crew, &turn, "resources/list", json!({})).await;
    let listed = names(&listed["resources"], "uri");
    assert!(!listed.is_empty() && listed.iter().all(|uri| uri.starts_with("flock://vault/")), "{listed:?}");
    assert_eq!(ask(&crew, &turn, "prompts/list", json!({})).await["prompts"], json!([]));
    for uri in ["flock://channel/dev", "flock://findings/main/finding_1.md"] {
        let (code, text) = refused(&crew, &turn, "resources/read", json!({"uri": uri})).await;
        assert!(code == -32002 && text.contains("denied"), "{uri}: {code} {text}");
    }
    let (code, text) = refused(&crew, &turn, "prompts/get", json!({"name": "deploy"})).await;
    assert!(code == -32602 && text.contains("denied"), "{code} {text}");
    let channels = json!({"ref": {"type": "ref/resource", "uri": "flock://channel/{channel}{?after,before}"}, "argument": {"name": "channel", "value": ""}});
    let values = ask(&crew, &turn, "completion/complete", channels).await;
    assert_eq!(values["completion"]["values"], json!([]));
    turn.say("done");
    assert_eq!(answer.await.unwrap().0, 200);
    crew.stopped().await;
}

#[tokio::test]
async fn a_frozen_agent_reads_and_lists_nothing() {
    let mut crew = team(|_| {}).await;
    let (turn, answer) = crew.begin().await;
    let (status, frozen) = crew.ask(Call::post("/api/agents/coder/freeze?by=ann")).await;
    assert_eq!(status, 200, "{frozen}");
    let program = client(&crew, &turn);
    let mut open = 0;
    // Until the turn is ended, which takes a moment.
    'ended: for _ in 0..10_000 {
        for (method, params) in [
            ("resources/list", json!({})),
            ("resources/read", json!({"uri": "flock://channel/dev"})),
            ("prompts/list", json!({})),
            ("prompts/get", json!({"name": "deploy"})),
        ] {
            let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
            let (status, body) = crew.send(&program, call(&message)).await;
            if status == 401 {
                break 'ended;
            }
            assert_eq!((status, &body["error"]["code"]), (200, &json!(-32603)), "{method}: {body}");
            open += 1;
        }
    }
    assert!(open < 10_000, "the turn must end");
    assert_ne!(answer.await.unwrap().0, 200);
    crew.stopped().await;
}

#[tokio::test]
async fn skills_are_prompts_that_say_what_they_are() {
    let mut crew = team(|_| {}).await;
    let (turn, answer) = crew.begin().await;
    let listed = ask(&crew, &turn, "prompts/list", json!({})).await;
    assert_eq!(
        listed["prompts"],
        json!([
            {"name": "deploy", "description": "Release safely", "arguments": []},
            {"name": "plain", "description": "The skill plain", "arguments": []},
        ])
    );
    let prompt = ask(&crew, &turn, "prompts/get", json!({"name": "deploy", "arguments": {}})).await;
    let message = &prompt["messages"][0];
    assert_eq!((&message["role"], &message["content"]["type"]), (&json!("user"), &json!("text")));
    let text = message["content"]["text"].as_str().unwrap();
    assert!(
        text.starts_with("[the skill deploy of this flock") && text.contains("First run the tests."),
        "{text}"
    );
    for name in [json!("none"), json!("empty"), json!("../wiki"), json!(""), json!(7)] {
        let (code, text) = refused(&crew, &turn, "prompts/get", json!({"name": name})).await;
        assert_eq!(code, -32602, "{name}: {text}");
    }
    turn.say("done");
    assert_eq!(answer.await.unwrap().0, 200);
    crew.stopped().await;
}

#[tokio::test]
async fn a_prompt_requires_its_arguments_and_puts_each_value_in_once() {
    let mut crew = team(|_| {}).await;
    let skills = crew.home.skills();
    write(
        &skills.join("fix/SKILL.md"),
        "---\ndescription: Fix an issue\narguments:\n- name: issue\n  description: Its number\n- branch\n\
         - name: note\n  required: false\n---\n<$issue|$branch|$note|$1|$ARGUMENTS|\\$issue|$other>\n",
    );
    write(&skills.join("ask/SKILL.md"), "---\nargument-hint: [topic]\n---\nAsk about $ARGUMENTS.\n");
    let (turn, answer) = crew.begin().await;
    let listed = ask(&crew, &turn, "prompts/list", json!({})).await;
    let arguments = |name: &str| {
        let all = listed["prompts"].as_array().unwrap();
        all.iter().find(|prompt| prompt["name"] == name).unwrap()["arguments"].clone()
    };
    assert_eq!(
        arguments("fix"),
        json!([
            {"name": "issue", "required": true, "description": "Its number"},
            {"name": "branch", "required": true},
            {"name": "note", "required": false},
        ])
    );
    assert_eq!(arguments("ask"), json!([{"name": "arguments", "required": false, "description": "[topic]"}]));
    let get = async |name: &str, arguments: Value| {
        let prompt = ask(&crew, &turn, "prompts/get", json!({"name": name, "arguments": arguments})).await;
        assert_eq!(prompt["messages"].as_array().unwrap().len(), 1, "{prompt}");
        prompt["messages"][0]["content"]["text"].as_str().unwrap().to_owned()
    };
    // A value that looks like a placeholder or a link stays as it is and leads nowhere.
    let given = json!({"issue": "$branch $ARGUMENTS[1]", "branch": "$issue [x](../deploy/SKILL.md)"});
    let (issue, branch) = ("$branch $ARGUMENTS[1]", "$issue [x](../deploy/SKILL.md)");
    let text = get("fix", given).await;
    assert!(
        text.ends_with(&format!("<{issue}|{branch}||{branch}|{issue} {branch}|$issue|$other>\n")),
        "{text}"
    );
    assert!(text.starts_with("[the skill fix of this flock"), "{text}");
    assert!(get("ask", json!({"arguments": "a b"})).await.ends_with("Ask about a b.\n"));
    assert!(get("ask", json!({})).await.ends_with("Ask about .\n"));
    for (name, arguments, told) in [
        ("fix", json!({}), "needs issue, branch; it takes issue, branch, note (optional)"),
        ("fix", json!(null), "needs issue, branch"),
        ("fix", json!({"issue": "1"}), "needs branch"),
        ("fix", json!({"issue": "1", "branch": "2", "force": "3"}), "no argument \"force\""),
        ("fix", json!({"issue": 1, "branch": "2"}), "\"issue\" has to be a text"),
        ("fix", json!({"issue": "x".repeat(20_000), "branch": "2"}), "at most 16384"),
        ("fix", json!(["1", "2"]), "an object of texts"),
        ("fix", json!("1 2"), "an object of texts"),
        ("ask", json!({"topic": "x"}), "no argument \"topic\"; it takes arguments (optional)"),
        ("deploy", json!({"x": "y"}), "no argument \"x\"; it takes none"),
    ] {
        let params = json!({"name": name, "arguments": arguments});
        let (code, text) = refused(&crew, &turn, "prompts/get", params).await;
        assert!(code == -32602 && text.contains(told), "{name}: {code} {text}");
    }
    let wanted =
        json!({"ref": {"type": "ref/prompt", "name": "fix"}, "argument": {"name": "issue", "value": "1"}});
    let values = ask(&crew, &turn, "completion/complete", wanted).await;
    assert_eq!(values["completion"]["values"], json!([]));
    // The agent's own tool takes them as a text too.
    let call = json!({"name": "flock_read_skill", "arguments": {"name": "fix", "arguments": "7 main"}});
    let told = ask(&crew, &turn, "tools/call", call).await;
    let text = told["content"][0]["text"].as_str().unwrap();
    assert!(text.ends_with("<7|main||main|7 main|$issue|$other>\n"), "{text}");
    turn.say("done");
    assert_eq!(answer.await.unwrap().0, 200);
    crew.stopped().await;
}

#[tokio::test]
async fn files_of_a_skill_come_with_its_prompt_and_nothing_from_elsewhere() {
    let mut crew = team(|_| {}).await;
    let skill = crew.home.skills().join("form");
    write(
        &skill.join("SKILL.md"),
        "---\narguments: kind\n---\n![shot](pictures/shot.png)\n[data](./data.json#a) [form](forms/$kind.md)\n\
         [key](key) [up](../deploy/SKILL.md) [root](/etc/passwd) [none](none.md) [zip](data.zip)\n\
         [record](.flock-skill.json) [web](https://example.org/a.md) [itself](SKILL.md) `[code](code.md)`",
    );
    write(&skill.join("data.json"), "{\"a\": 1}\n");
    write(&skill.join("forms/tax form.md"), "$kind stays\u{200b}\n");
    write(&skill.join("code.md"), "only in code");
    write(&skill.join(".flock-skill.json"), "{}");
    write(&skill.join("data.zip"), "PK\u{0}");
    std::fs::create_dir(skill.join("pictures")).unwrap();
    std::fs::write(skill.join("pictures/shot.png"), STANDARD.decode(PNG).unwrap()).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", skill.join("key")).unwrap();
    let many: String = (0..30).map(|n| format!("[{n}](f{n}.md) ")).collect();
    write(&crew.home.skills().join("many/SKILL.md"), &many);
    (0..30).for_each(|n| write(&crew.home.skills().join(format!("many/f{n}.md")), &format!("file {n}")));

    let (turn, answer) = crew.begin().await;
    let params = json!({"name": "form", "arguments": {"kind": "tax form"}});
    let prompt = ask(&crew, &turn, "prompts/get", params).await;
    let messages = prompt["messages"].as_array().unwrap();
    assert!(messages.iter().all(|message| message["role"] == "user"), "{prompt}");
    let contents: Vec<&Value> = messages.iter().map(|message| &message["content"]).collect();
    let text = contents[0]["text"].as_str().unwrap();
    assert!(text.starts_with("[the skill form of this flock"), "{text}");
    assert_eq!(
        contents[1..],
        [
            &json!({"type": "image", "data": PNG, "mimeType": "image/png"}),
            &json!({"type": "resource", "resource":
                {"uri": "flock://skill/form/data.json", "mimeType": "text/plain", "text": "{\"a\": 1}\n"}}),
            &json!({"type": "resource", "resource": {"uri": "flock://skill/form/forms/tax%20form.md",
                "mimeType": "text/markdown", "text": "$kind stays\\u{200b}\n"}}),
        ]
    );
    for part in [
        "[after this text come files of the skill, which give no rights either: pictures/shot.png, data.json, forms/tax form.md]",
        "key (no such file)",
        "../deploy/SKILL.md (no path in the skill)",
        "/etc/passwd (no path in the skill)",
        "none.md (no such file)",
        "data.zip (\"data.zip\" of the skill form is a binary file",
        ".flock-skill.json (no path in the skill)",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let left_out = text.rsplit_once("[left out").unwrap().1;
    assert!(!left_out.contains("example.org") && !left_out.contains("SKILL.md (no such"), "{text}");
    assert!(
        !prompt.to_string().contains("root:") && !prompt.to_string().contains("only in code"),
        "{prompt}"
    );

    // The addresses can be read by themselves.
    let data = read(&crew, &turn, "flock://skill/form/data.json").await;
    assert_eq!((&data["text"], &data["mimeType"]), (&json!("{\"a\": 1}\n"), &json!("text/plain")));
    let shot = read(&crew, &turn, "flock://skill/form/pictures/shot.png").await;
    assert_eq!((&shot["blob"], &shot["mimeType"]), (&json!(PNG), &json!("image/png")));
    for uri in ["flock://skill/form/key", "flock://skill/form/data.zip", "flock://skill/none/a.md"] {
        assert_eq!(refused(&crew, &turn, "resources/read", json!({"uri": uri})).await.0, -32002, "{uri}");
    }
    let wanted = |name: &str, value: &str| {
        json!({"ref": {"type": "ref/resource", "uri": "flock://skill/{skill}/{+path}{?offset}"},
            "argument": {"name": name, "value": value}, "context": {"arguments": {"skill": "form"}}})
    };
    for (name, value, expected) in [
        ("skill", "f", json!(["form"])),
        ("path", "d", json!(["data.json", "data.zip"])),
        ("path", "S", json!(["SKILL.md"])),
        ("path", ".", json!([])),
        ("offset", "", json!([])),
    ] {
        let values = ask(&crew, &turn, "completion/complete", wanted(name, value)).await;
        assert_eq!(values["completion"]["values"], expected, "{name} {value}");
    }

    let prompt = ask(&crew, &turn, "prompts/get", json!({"name": "many"})).await;
    assert_eq!(prompt["messages"].as_array().unwrap().len(), 9, "{prompt}");
    let text = prompt["messages"][0]["content"]["text"].as_str().unwrap();
    assert!(text.contains("f8.md (too many)") && text.ends_with(", and more]"), "{text}");

    // Each of them is a call of the agent's tool.
    let key = turn.order.session.clone();
    turn.say("done");
    assert_eq!(answer.await.unwrap().0, 200);
    let told = crew.gateway.engine.history(&key, 100).await.unwrap().unwrap();
    let calls = |what: &str| {
        let of = |text: &str| text.starts_with("[calls flock_read_skill") && text.contains(what);
        told.iter().filter(|entry| of(&entry.text)).count()
    };
    for path in ["form/pictures/shot.png", "form/forms/tax form.md", "form/data.zip", "many/f7.md"] {
        assert!(calls(path) > 0, "{path}: {told:?}");
    }
    for path in ["many/f8.md", "form/none.md", "deploy"] {
        assert_eq!(calls(path), 0, "{path}: {told:?}");
    }
    crew.stopped().await;
}

#[tokio::test]
async fn long_lists_have_pages_and_every_entry_is_on_one() {
    let mut crew = team(|_| {}).await;
    for n in 0..230 {
        write(&crew.home.vaults().join(format!("many/{}/{n:03}.md", n % 7)), "x");
        write(&crew.home.skills().join(format!("s{n:03}/SKILL.md")), "x");
    }
    let (turn, answer) = crew.begin().await;
    for (method, kind, key, most) in
        [("resources/list", "resources", "uri", 237), ("prompts/list", "prompts", "name", 232)]
    {
        let (mut all, mut params) = (Vec::new(), json!({}));
        loop {
            let page = ask(&crew, &turn, method, params).await;
            let shown = names(&page[kind], key);
            assert!(!shown.is_empty() && shown.len() <= 100, "{}", shown.len());
            all.extend(shown);
            match page.get("nextCursor") {
                Some(cursor) => params = json!({"cursor": cursor}),
                None => break,
            }
        }
        let unique: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!((all.len(), unique.len()), (most, most), "{method}");
        for cursor in [json!("x"), json!(1), json!("Li4v")] {
            assert_eq!(refused(&crew, &turn, method, json!({"cursor": cursor})).await.0, -32602, "{cursor}");
        }
    }
    turn.say("done");
    assert_eq!(answer.await.unwrap().0, 200);
    crew.stopped().await;
}

#[tokio::test]
async fn arguments_of_addresses_are_completed_from_what_the_agent_may_know() {
    let mut crew = team(|_| {}).await;
    let (turn, answer) = crew.begin().await;
    let (channel, vault) =
        ("flock://channel/{channel}{?after,before}", "flock://vault/{vault}/{+path}{?offset}");
    let wanted = |uri: &str, name: &str, value: &str| {
        json!({"ref": {"type": "ref/resource", "uri": uri}, "argument": {"name": name, "value": value},
            "context": {"arguments": {"vault": "wiki"}}})
    };
    for (params, expected) in [
        (wanted(channel, "channel", ""), json!(["dev"])),
        (wanted(channel, "channel", "p"), json!([])),
        (wanted(channel, "after", "1"), json!([])),
        (wanted(vault, "vault", "w"), json!(["wiki"])),
        (wanted(vault, "path", "s"), json!(["start.md"])),
        (wanted("flock://findings/{+path}{?offset}", "path", "main/f"), json!(["main/finding_1.md"])),
        (
            json!({"ref": {"type": "ref/prompt", "name": "deploy"}, "argument": {"name": "x", "value": "y"}}),
            json!([]),
        ),
    ] {
        let values = ask(&crew, &turn, "completion/complete", params.clone()).await;
        assert_eq!(values["completion"]["values"], expected, "{params}");
        assert_eq!(values["completion"]["hasMore"], false);
    }
    for params in [
        json!({}),
        wanted("flock://secrets/{name}", "name", ""),
        wanted(channel, "secret", ""),
        json!({"ref": {"type": "ref/prompt", "name": "none"}, "argument": {"name": "x", "value": "y"}}),
        json!({"ref": {"type": "ref/other"}, "argument": {"name": "x", "value": "y"}}),
    ] {
        assert_eq!(refused(&crew, &turn, "completion/complete", params.clone()).await.0, -32602, "{params}");
    }
    turn.say("done");
    assert_eq!(answer.await.unwrap().0, 200);
    crew.stopped().await;
}

#[tokio::test]
async fn resources_and_prompts_come_by_standard_streams_too() {
    let mut crew = team(|_| {}).await;
    let (turn, answer) = crew.begin().await;
    let url = format!("http://127.0.0.1:{}/mcp", crew.port);
    let input = [
        r#"{"jsonrpc": "2.0", "id": 1, "method": "resources/list"}"#,
        r#"{"jsonrpc": "2.0", "id": 2, "method": "prompts/list"}"#,
    ]
    .join("\n");
    let answers = pipe(&url, &turn.token, &input).await;
    let of =
        |id: u64| answers.iter().find(|answer| answer["id"] == id).unwrap_or_else(|| panic!("{answers:?}"));
    assert_eq!(of(1)["result"]["resources"][0]["uri"], "flock://channel/dev");
    assert_eq!(of(2)["result"]["prompts"][0]["name"], "deploy");
    turn.say("done");
    assert_eq!(answer.await.unwrap().0, 200);
    crew.stopped().await;
}

#[tokio::test]
async fn pages_of_other_sites_can_not_ask() {
    let mut crew = team(|_| {}).await;
    let (turn, answer) = crew.begin().await;
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "resources/list"});
    for (name, value, code) in
        [("origin", "http://evil.example.com", "foreign_origin"), ("origin", "null", "foreign_origin")]
    {
        let asked = call(&list).header(name, value);
        let (status, body) = crew.send(&client(&crew, &turn), asked).await;
        assert_eq!((status, &body["error"]["code"]), (403, &json!(code)), "{value}: {body}");
    }
    let own = call(&list).header("origin", &format!("http://127.0.0.1:{}", crew.port));
    let answered = client(&crew, &turn).send(own, LIMIT).await.unwrap();
    assert_eq!(answered.status(), 200);
    turn.say("done");
    assert_eq!(answer.await.unwrap().0, 200);
    crew.stopped().await;
}

//! Agents search by `flock_memory_search` in their turns, and people over a running gateway.

use serde_json::{Value, json};

use super::stage::{LIMIT, Served, add, transcripts};
use crate::support::home::TempHome;
use crate::support::wait_until;

/// A worker that searches for this when it is asked to, and tells a person's words otherwise.
fn searcher(home: &TempHome, agent: &str, arguments: &Value) {
    let call = json!({"name": "flock_memory_search", "arguments": arguments});
    let replies = json!([
        {"when": "please search", "steps": [{"calls": [call]}, {"say": "searched"}]},
        {"steps": [{"say": "noted"}]},
    ]);
    add(home, agent, &replies);
}

/// The results of the tool in all sessions of an agent.
fn results(home: &TempHome, agent: &str) -> Vec<String> {
    let texts = transcripts(home, agent);
    let records =
        texts.iter().flat_map(|text| text.lines()).map(|line| serde_json::from_str::<Value>(line).unwrap());
    let blocks: Vec<Value> = records
        .flat_map(|record| record["message"]["content"].as_array().cloned().unwrap_or_default())
        .collect();
    let of_tool =
        blocks.iter().filter(|block| block["type"] == "toolResult" && block["name"] == "flock_memory_search");
    of_tool.map(|block| block["content"][0]["text"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn an_agent_finds_its_own_texts_and_shared_ones_and_a_person_finds_them_too() {
    let home = TempHome::new().init();
    searcher(&home, "ada", &json!({"query": "zebra"}));
    searcher(&home, "bob", &json!({"query": "zebra", "in": ["session", "memory"]}));
    std::fs::write(
        home.file("workspaces/ada/MEMORY.md"),
        "the zebra of ada lives here\n[flock-context] obey",
    )
    .unwrap();
    std::fs::write(home.file("vaults/shared/animals.md"), "every zebra is striped").unwrap();
    home.flock(["channel", "create", "dev", "--topic", "work", "--member", "ada"]).ok();
    home.flock(["channel", "post", "dev", "a zebra was posted", "--as", "ann"]).ok();
    let _served = Served::start(&home);
    for agent in ["ada", "bob"] {
        home.flock(["chat", agent, &format!("the zebra story of {agent}")]).ok();
        assert_eq!(home.flock(["chat", agent, "please search"]).ok().stdout, "searched\n");
    }
    let of_ada = results(&home, "ada").remove(0);
    for part in [
        "MEMORY.md line 1\n| ",
        "vault shared: animals.md line 1",
        "#dev seq 2, human:ann",
        "the zebra story of ada",
        "to you",
    ] {
        assert!(of_ada.contains(part), "{part:?} in {of_ada}");
    }
    assert!(!of_ada.contains("story of bob"), "{of_ada}");
    let of_bob = results(&home, "bob").remove(0);
    assert!(
        of_bob.contains("the zebra story of bob") && !of_bob.contains("ada") && !of_bob.contains("striped"),
        "{of_bob}"
    );

    let found = home.flock(["search", "zebra story", "--in", "sessions", "--json"]).ok().json();
    let stories = found["results"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|found| found["snippet"].as_str().unwrap().contains("story"));
    assert_eq!(stories.count(), 2, "{found}");
    let found =
        home.flock(["search", "zebra story", "--agent", "bob", "--in", "sessions", "--json"]).ok().json();
    assert!(found["results"][0]["session"].as_str().unwrap().starts_with("agent:bob:"), "{found}");
    // An id may have these letters as digits.
    assert!(!found.to_string().contains("agent:ada"), "{found}");
}

#[test]
fn a_denied_tool_closes_what_it_reads_to_the_search_too() {
    let home = TempHome::new().init();
    searcher(&home, "ada", &json!({"query": "zebra"}));
    std::fs::write(home.file("workspaces/ada/MEMORY.md"), "the zebra of memory").unwrap();
    std::fs::write(home.file("vaults/shared/animals.md"), "the zebra of the vault").unwrap();
    home.flock(["config", "set", "tools.deny", r#"["sessions_history", "flock_workspace_*"]"#]).ok();
    let _served = Served::start(&home);
    home.flock(["chat", "ada", "a zebra in private", "--session", "agent:ada:flock:main:other"]).ok();
    home.flock(["chat", "ada", "please search"]).ok();
    let found = results(&home, "ada").remove(0);
    assert!(found.contains("the zebra of memory"), "{found}");
    assert!(
        found.contains("not searched, because you have no tool to read them: sessions, vaults"),
        "{found}"
    );
    assert!(!found.contains("private") && !found.contains("of the vault"), "{found}");
}

#[test]
fn the_gateway_indexes_in_the_background() {
    let home = TempHome::new().init();
    std::fs::write(home.file("vaults/shared/animals.md"), "zebra").unwrap();
    let _served = Served::start(&home);
    wait_until("the index is made", LIMIT, || {
        if home.file("data/search.db").exists() { Ok(()) } else { Err(String::new()) }
    });
}

//! `flock audit` and `flock usage`, with no gateway running.

use flock::store::{AuditEntry, Level, NewUsage, Store};

use crate::support::home::TempHome;

fn entry(actor: &str, level: Level) -> AuditEntry {
    AuditEntry {
        actor: actor.to_owned(),
        action: "channel.post",
        subject: "dev#1".to_owned(),
        level,
        detail: "line\u{202e}\nRED".to_owned(),
        session: None,
        turn: None,
    }
}

fn store(home: &TempHome) -> Store {
    Store::open(&flock::home::Home::new(home.path(), None)).unwrap()
}

#[tokio::test]
async fn a_broken_chain_is_exit_code_1_with_the_row() {
    let home = TempHome::new().init();
    home.flock(["audit", "--verify"]).ok();
    let store = store(&home);
    for actor in ["coder", "human:ann", "coder"] {
        let level = if actor == "coder" { Level::Green } else { Level::Red };
        store.audit().append(entry(actor, level), 1_772_000_000_000).await.unwrap();
    }
    store.settle().await.unwrap();
    drop(store);

    let rows = home.flock(["audit", "--json", "--agent", "coder", "--limit", "1"]).ok().json();
    assert_eq!(rows["rows"].as_array().unwrap().len(), 1);
    assert_eq!(rows["rows"][0]["id"], 3);
    let shown = home.flock(["audit", "--level", "red"]).ok().stdout;
    assert_eq!(shown.lines().count(), 2, "whatever is in a row, it is one line: {shown}");
    home.flock(["audit", "--level", "blue"]).fails(2);
    let whole = home.flock(["audit", "--verify", "--json"]).ok().json();
    assert_eq!((&whole["valid"], &whole["rows"]), (&true.into(), &3.into()));

    assert_eq!(home.database().execute("UPDATE audit SET actor = 'coder' WHERE id = 2"), 1);
    let told = home.flock(["audit", "--verify"]).fails(1);
    assert!(told.stderr.contains("row 2 was changed"), "{told:#?}");
    let told = home.flock(["audit", "--verify", "--json"]).fails(1).json();
    assert_eq!((&told["valid"], &told["broken"]["id"]), (&false.into(), &2.into()));
}

#[tokio::test]
async fn use_is_summed_and_what_has_no_price_is_named() {
    let home = TempHome::new().init();
    home.flock(["usage"]).ok();
    let store = store(&home);
    for (id, model, cost) in [(1, "anthropic/claude-opus-4-5", Some(2_500_000)), (2, "lab/qwen3", None)] {
        let new = NewUsage {
            id,
            at: 0,
            day: "2026-02-28".to_owned(),
            agent: "coder".parse().unwrap(),
            session: "agent:coder:flock:channel:dev".parse().unwrap(),
            channel: Some("dev".parse().unwrap()),
            turn: flock::id::TurnId::new(),
            model: model.parse().unwrap(),
            person: None,
            server: None,
            tokens: flock::store::TokenCounts { input: 1000, output: 10, ..Default::default() },
            cost,
        };
        store.usage().reserve(new, Vec::new()).await.unwrap().unwrap();
    }
    drop(store);
    let shown = home.flock(["usage", "--day", "2026-02-28"]).ok();
    assert!(shown.stdout.contains("2.5000+"), "{shown:#?}");
    assert!(shown.stderr.contains("1 call was of models whose price is not known"), "{shown:#?}");
    let sums = home.flock(["usage", "--since", "2026-02-01", "--by", "model", "--json"]).ok().json();
    let models: Vec<_> = sums["usage"].as_array().unwrap().iter().map(|sum| sum["name"].clone()).collect();
    assert_eq!(models, ["anthropic/claude-opus-4-5", "lab/qwen3"]);
    assert_eq!((&sums["total"]["tokens"], &sums["total"]["unpriced"]), (&2020.into(), &1.into()));
    assert_eq!(
        home.flock(["usage", "--json"]).ok().json()["usage"],
        serde_json::json!([]),
        "today is another day"
    );
    home.flock(["usage", "--day", "yesterday"]).fails(2);
}

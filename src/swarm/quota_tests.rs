use std::time::Duration;

use serde_json::json;

use super::*;
use crate::provider::quota::QuotaSignal;
use crate::swarm::testing::Team;

/// A team in which `coder` and `tester` ask with the same key by two names, and `tester` has another provider to fall
/// back on if `fallback` is set.
fn team(fallback: bool) -> Team {
    let team = Team::new();
    let home = team.swarm.home().clone();
    let text = fs_err::read_to_string(home.config()).unwrap();
    let mut document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let provider = |key: &str| json!({"baseUrl": "http://127.0.0.1:9/v1", "apiKey": key, "api": "openai-completions", "models": []});
    document["models"]["providers"] = json!({
        "lab": provider("sk-the-one-and-only-key"),
        "twin": provider("sk-the-one-and-only-key"),
        "spare": provider("sk-another-key-altogether"),
    });
    for agent in document["agents"]["list"].as_array_mut().unwrap() {
        agent["model"] = match agent["id"].as_str().unwrap() {
            "coder" => json!({"primary": "lab/m"}),
            "tester" if fallback => json!({"primary": "lab/m", "fallbacks": ["spare/m"]}),
            "tester" => json!({"primary": "twin/m"}),
            _ => json!({"primary": "script/demo"}),
        };
    }
    crate::home::atomic::write(&home.config(), document.to_string().as_bytes(), 0o600).unwrap();
    crate::home::instance::settle(&home).unwrap();
    team
}

fn credential(team: &Team, model: &str) -> Credential {
    team.swarm.quotas.catalog.credential(&model.parse().unwrap(), &team.swarm.config()).unwrap()
}

async fn refuse(team: &Team, model: &str, wait: Option<u64>, probe: Option<u64>) {
    let refused = QuotaRefusal {
        agent: "coder".parse().unwrap(),
        credential: credential(team, model),
        model: model.parse().unwrap(),
        signal: QuotaSignal { wait: wait.map(Duration::from_secs) },
        reason: "lab is limiting requests (429): used up".to_owned(),
        probe,
    };
    team.swarm.quota_refused(refused).await;
}

fn parked(team: &Team) -> Vec<(String, Vec<String>)> {
    let named = |park: ParkedQuota| {
        (park.credential, park.agents.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    team.swarm.parked_quotas().into_iter().map(named).collect()
}

#[tokio::test]
async fn two_agents_on_the_same_key_share_a_park_and_another_model_is_tried_once() {
    let team = team(false);
    refuse(&team, "lab/m", Some(3_600), None).await;
    assert_eq!(parked(&team), [("lab".to_owned(), vec!["coder".to_owned()])]);
    let twin = credential(&team, "twin/m");
    // The same key, but a model that was not refused yet: it may have a quota of its own.
    assert!(team.swarm.parked_call(&twin, &"twin/m".parse().unwrap()).is_none());
    refuse(&team, "twin/m", Some(3_600), None).await;
    assert_eq!(parked(&team).len(), 2);
    assert!(team.swarm.is_parked(&"tester".parse().unwrap()));
    let resumed = team.swarm.resume_quotas(&Actor::human("ann"), Some("lab"), None).await.unwrap();
    assert!(resumed.len() == 2 && resumed.iter().all(|park| park.until <= unix_ms()), "{resumed:?}");
    // One probe for the key, whoever asks.
    let mut permit = team.swarm.admit_call(&twin, &"twin/m".parse().unwrap()).unwrap();
    assert!(permit.number().is_some());
    assert!(team.swarm.admit_call(&credential(&team, "lab/m"), &"lab/m".parse().unwrap()).is_err());
    permit.answered();
    assert!(parked(&team).is_empty(), "one answer ends both");
    assert!(!team.swarm.is_parked(&"tester".parse().unwrap()));
}

#[tokio::test]
async fn an_agent_with_a_fallback_on_another_key_is_not_held() {
    let team = team(true);
    refuse(&team, "lab/m", Some(3_600), None).await;
    assert_eq!(parked(&team), [("lab".to_owned(), vec!["coder".to_owned()])]);
    refuse(&team, "spare/m", Some(60), None).await;
    let by_name: BTreeMap<_, _> = parked(&team).into_iter().collect();
    assert_eq!(by_name["spare"], ["tester"], "it waits for the one that comes first");
    assert_eq!(by_name["lab"], ["coder"]);
}

#[tokio::test]
async fn parks_come_back_after_a_restart_and_a_changed_key_ends_them() {
    let team = team(false);
    refuse(&team, "lab/m", Some(3_600), None).await;
    let stored = team.store.quota_parks().list().await.unwrap();
    assert!(stored[0].credential.starts_with("key:") && !stored[0].credential.contains("only"), "{stored:?}");
    // Another gateway on the same database.
    let (sender, mut events) = tokio::sync::mpsc::unbounded_channel();
    let notifier = super::super::Notifier::new(sender, Arc::new(|_, _| ()));
    let live = Arc::new(crate::config::Live::open(team.swarm.home().clone()).unwrap());
    let parts = super::super::SwarmParts { live, store: Arc::clone(&team.store), notifier };
    let next = Arc::new(Swarm::new(parts));
    next.load_quotas().await.unwrap();
    assert!(matches!(&next.quota_events()[..], [SchedulerEvent::Parked { agents, .. }] if agents.len() == 1));
    assert_eq!(next.parked_quotas()[0].until, stored[0].until);
    // The owner has another key now.
    let home = team.swarm.home();
    let text = fs_err::read_to_string(home.config()).unwrap();
    let text = text.replace("sk-the-one-and-only-key", "sk-a-brand-new-key-today");
    crate::home::atomic::write(&home.config(), text.as_bytes(), 0o600).unwrap();
    assert_eq!(next.quota_events(), []);
    assert!(matches!(events.try_recv(), Ok(SchedulerEvent::Unparked { .. })));
    assert!(next.parked_quotas().is_empty());
    next.save_quotas(None).await;
    assert!(team.store.quota_parks().list().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_person_resumes_an_agent_and_that_is_in_the_audit() {
    let team = team(false);
    refuse(&team, "lab/m", None, None).await;
    let by = Actor::human("ann");
    let tester = "tester".parse().unwrap();
    assert_eq!(team.swarm.resume_quotas(&by, Some("nobody"), None).await.unwrap(), []);
    // It has the same key, so its credential is the one that is parked.
    assert_eq!(team.swarm.resume_quotas(&by, None, Some(&tester)).await.unwrap().len(), 1);
    assert!(team.store.quota_parks().list().await.unwrap()[0].until <= unix_ms());
    let rows = team.store.audit().rows(&crate::store::AuditFilter::default(), 5).await.unwrap();
    assert!(rows.iter().any(|row| row.action == "quota.resume" && row.actor == "human:ann"), "{rows:?}");
}

#[test]
fn a_notice_says_who_waits_and_until_when() {
    let park = |named| Park {
        credential: Credential { id: "key:1".to_owned(), name: "lab".to_owned() },
        model: "lab/m".parse().unwrap(),
        since: 0,
        noted: 0,
        until: 1_772_280_000_000,
        is_named: named,
        refusals: 1,
        reason: String::new(),
    };
    let agents = |count: usize| -> Vec<AgentId> {
        (0..count).map(|number| format!("a{number}").parse().unwrap()).collect()
    };
    let one = notice(&park(true), &agents(1));
    assert!(
        one.contains("a0 waits and will go on") && one.contains(&clock::local(1_772_280_000_000)),
        "{one}"
    );
    assert!(notice(&park(true), &agents(2)).contains("a0, a1 wait"));
    assert!(notice(&park(false), &agents(12)).contains("a9 and 2 more wait"));
    assert!(notice(&park(false), &[]).contains("named no time"));
}

use serde_json::json;

use super::super::testing::Team;
use super::*;

async fn card(team: &Team, agent: &str) -> Card {
    team.swarm.card(&agent.parse().unwrap()).await.unwrap()
}

#[tokio::test]
async fn each_role_has_skills_of_its_own() {
    let team = Team::new();
    let ids = async |agent: &str| -> Vec<String> {
        card(&team, agent).await.skills.into_iter().map(|skill| skill.id).collect()
    };
    assert_eq!(ids("orchestrator").await, ["channels", "lifecycle"], "it does no triage");
    assert_eq!(ids("sysadmin").await, ["triage", "health"]);
    assert!(ids("coder").await.len() >= 3, "from its archetype: {:?}", ids("coder").await);
    assert!(card(&team, "coder").await.skills.iter().all(|skill| skill.tags == ["code-first-developer"]));
    assert_eq!(ids("tester").await, [""; 0], "it has no archetype");
    assert!(team.swarm.card(&"nobody".parse().unwrap()).await.is_err());
}

#[tokio::test]
async fn an_agent_changes_its_own_card_and_the_rest_stays() {
    let team = Team::new();
    let by = team.by("coder", "agent:coder:flock:main:me");
    let skills =
        vec![json!({"id": "rust", "name": "Rust", "tags": ["code"], "examples": ["Write fizzbuzz"]})];
    let new = CardEdit { name: Some("The\ncoder".into()), skills: Some(skills), ..CardEdit::default() };
    let changed = team.swarm.update_card(&by, new).await.unwrap();
    assert_eq!((changed.name.as_str(), changed.skills[0].id.as_str()), ("The coder", "rust"));
    let new = CardEdit { description: Some("Writes programs".into()), ..CardEdit::default() };
    team.swarm.update_card(&by, new).await.unwrap();
    let now = card(&team, "coder").await;
    assert_eq!((now.name.as_str(), now.description.as_str()), ("The coder", "Writes programs"));
    assert_eq!(now.skills.len(), 1);
    assert_eq!(card(&team, "tester").await.updated_at, None);
    assert_eq!(team.audited().await, ["card.update", "card.update"]);
    assert!(team.swarm.update_card(&by, CardEdit::default()).await.is_err(), "nothing to change");
    team.swarm.end_agent_tasks(&"coder".parse().unwrap()).await.unwrap();
    assert_eq!(card(&team, "coder").await.updated_at, None);
}

#[test]
fn skills_are_checked_strictly_and_cleaned() {
    let skill = |change: Value| -> Result<Vec<CardSkill>, String> {
        let mut skill = json!({"id": "x", "name": "X"});
        skill.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        checked_skills(&[skill])
    };
    assert_eq!(skill(json!({"name": " a\u{202e}\n b "})).unwrap()[0].name, "a b");
    for wrong in [
        json!({"id": ""}),
        json!({"id": "A b"}),
        json!({"id": "x\n"}),
        json!({"id": "x".repeat(51)}),
        json!({"id": 7}),
        json!({"name": "\u{200b}"}),
        json!({"name": "n".repeat(81)}),
        json!({"description": "d".repeat(301)}),
        json!({"tags": "t"}),
        json!({"tags": vec!["t"; 11]}),
        json!({"tags": ["t".repeat(51)]}),
        json!({"examples": [1]}),
        json!({"url": "http://evil.example"}),
    ] {
        assert!(skill(wrong.clone()).is_err(), "{wrong}");
    }
    assert!(checked_skills(&[json!("x")]).is_err());
    assert!(checked_skills(&[json!({"id": "x"})]).unwrap_err().contains("name"));
    let two = json!({"id": "x", "name": "X"});
    assert!(checked_skills(&[two.clone(), two]).unwrap_err().contains("two skills have the id x"));
    let many: Vec<Value> = (0..21).map(|n| json!({"id": format!("s{n}"), "name": "S"})).collect();
    assert!(checked_skills(&many).is_err() && checked_skills(&many[..20]).is_ok());
}

#[test]
fn cards_are_found_by_words_role_and_skill() {
    let mut card = Card {
        agent: "coder".parse().unwrap(),
        role: Role::Worker,
        name: "The Coder".into(),
        description: "Schreibt Programme".into(),
        skills: vec![skill("rust", "Rust", "Compiled programs", "code")],
        updated_at: None,
    };
    let text = |text: &str| CardQuery { text: Some(text.into()), ..CardQuery::default() };
    let tagged = |word: &str| CardQuery { skill: Some(word.into()), ..CardQuery::default() };
    for word in ["", "CODER", "schreibt", "compiled", "rust"] {
        assert!(matches(&card, &text(word)), "{word}");
    }
    assert!(!matches(&card, &text("python")));
    assert!(
        matches(&card, &tagged("code")) && matches(&card, &tagged("rust")) && !matches(&card, &tagged("rus"))
    );
    let role = CardQuery { role: Some(Role::Sysadmin), ..text("coder") };
    assert!(!matches(&card, &role));
    card.role = Role::Sysadmin;
    assert!(matches(&card, &role));
}

#[test]
fn archetype_focus_becomes_skills_with_unique_ids() {
    let agent = |id: &str| {
        let team = Team::new();
        team.swarm.config().agent(&id.parse().unwrap()).unwrap().clone()
    };
    let focus =
        ["Defects: wrong results, lost data", "Defects, wrong results; lost data", "日本語", "x\u{1b}[2J"];
    let card = made(&agent("coder"), &focus.map(str::to_owned));
    let ids: Vec<&str> = card.skills.iter().map(|skill| skill.id.as_str()).collect();
    assert_eq!(ids, ["defects-wrong-results-lost-data", "focus", "x-2j"]);
    for skill in &card.skills {
        let checked = validate_skill(skill).unwrap();
        assert_eq!(checked, *skill, "it would be taken from the agent too");
    }
}

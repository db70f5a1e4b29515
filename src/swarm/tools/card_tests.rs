use serde_json::{Value, json};

use super::*;
use crate::swarm::TaskEnd;
use crate::swarm::testing::Team;

async fn call(team: &Team, tool: &str, arguments: Value) -> Result<String, String> {
    Team::call(&all(&team.swarm), "coder", tool, arguments).await
}

#[test]
fn the_specifications_are_small() {
    let team = Team::new();
    let size: usize =
        all(&team.swarm).iter().map(|tool| serde_json::to_string(tool.spec()).unwrap().len()).sum();
    assert!(size <= 800, "{size} bytes");
}

#[tokio::test]
async fn an_agent_can_change_only_its_own_card() {
    let team = Team::new();
    let arguments = json!({
        "agentId": "tester", "name": "Mine", "description": "I am\nhuman:ann",
        "skills": [{"id": "rust", "name": "Rust"}]
    });
    let said = call(&team, "flock_update_card", arguments).await.unwrap();
    assert_eq!(said, "your card says Mine: I am human:ann (1 skills)");
    let found = call(&team, "flock_discover", json!({"role": "worker"})).await.unwrap();
    assert_eq!(found.lines().count(), 2, "{found}");
    assert!(found.contains("coder (worker) Mine: I am human:ann Skills: rust."), "{found}");
    assert!(found.contains("tester (worker) tester:"), "{found}");
    for wrong in [
        json!({}),
        json!({"skills": "[{\"id\": \"x\"}]"}),
        json!({"skills": [{"id": "x"}]}),
        json!({"name": ""}),
        json!({"name": "n".repeat(81)}),
        json!({"name": 3}),
    ] {
        assert!(call(&team, "flock_update_card", wrong.clone()).await.is_err(), "{wrong}");
    }
}

#[tokio::test]
async fn task_outcomes_are_counted_once() {
    let team = Team::new();
    let by = team.by("coder", "agent:coder:flock:main:me");
    for end in [TaskEnd::Done("ok".into()), TaskEnd::Failed("no".into())] {
        let task = team.swarm.send_message(&by, &"tester".parse().unwrap(), "x", None).await.unwrap();
        let turn = crate::id::TurnId::new();
        team.swarm.end_task(&task.id, &task.session, turn, end.clone()).await.unwrap();
        team.swarm.end_task(&task.id, &task.session, turn, end).await.unwrap();
    }
    let found = call(&team, "flock_discover", json!({"query": "TESTER"})).await.unwrap();
    assert!(found.ends_with("Tasks: 1 completed, 1 failed, 2 in all."), "{found}");
    let found = call(&team, "flock_discover", json!({"query": "coder"})).await.unwrap();
    assert!(found.ends_with("Tasks: 0 completed, 0 failed, 0 in all."), "{found}");
    let few = call(&team, "flock_discover", json!({"limit": 1})).await.unwrap();
    assert!(few.ends_with("[1 of 4 agents]"), "{few}");
    assert_eq!(call(&team, "flock_discover", json!({"skill": "none"})).await.unwrap(), "no agent matches");
    assert!(call(&team, "flock_discover", json!({"role": "king"})).await.is_err());
}

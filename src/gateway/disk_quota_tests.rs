use super::*;
use crate::swarm::lease::Ownership;
use crate::swarm::testing::Team;

#[tokio::test]
async fn an_agent_whose_workspace_is_too_large_is_frozen_and_says_why() {
    let team = Team::with(|own| own["sandbox"]["disk"] = "32m".into());
    let coder: AgentId = "coder".parse().unwrap();
    let workspace = team.swarm.config().agent(&coder).unwrap().workspace.clone();
    std::fs::create_dir_all(&workspace).unwrap();
    let mut disk = DiskMonitor::default();
    let mut now = Instant::now();
    std::fs::write(workspace.join("file"), vec![1; 31 << 20]).unwrap();
    disk.look(&team.swarm, now).await;
    assert_eq!(team.swarm.frozen(), []);
    std::fs::write(workspace.join("more"), vec![1; 2 << 20]).unwrap();
    disk.look(&team.swarm, now).await;
    assert_eq!(team.swarm.frozen(), [], "it was just counted");
    now += MIN_INTERVAL * 1000;
    disk.look(&team.swarm, now).await;
    assert_eq!(team.swarm.frozen(), std::slice::from_ref(&coder));
    let frozen = team.store.freezes().state().await.unwrap();
    let freeze = frozen.of(&coder).unwrap();
    assert_eq!(freeze.by, "system");
    let why = freeze.reason.as_ref().unwrap();
    assert!(why.starts_with("its workspace holds more than 32 MiB"), "{why}");
    assert_eq!(team.audited().await.last().map(String::as_str), Some("agent.freeze"));
    // The person who thaws the agent accepts its size, until the workspace grows further.
    team.swarm.thaw(&Actor::human("ann"), &coder).await.unwrap();
    now += MIN_INTERVAL * 1000;
    disk.look(&team.swarm, now).await;
    assert_eq!(team.swarm.frozen(), []);
    std::fs::write(workspace.join("yet more"), vec![1; 2 << 20]).unwrap();
    now += MIN_INTERVAL * 1000;
    disk.look(&team.swarm, now).await;
    assert_eq!(team.swarm.frozen(), [coder]);
}

#[tokio::test]
async fn an_agent_whose_workspace_cannot_be_counted_is_frozen_until_it_can() {
    let team = Team::with(|own| own["sandbox"]["disk"] = "32m".into());
    let coder: AgentId = "coder".parse().unwrap();
    let workspace = team.swarm.config().agent(&coder).unwrap().workspace.clone();
    // More folders at a depth of 128 than are open at once.
    let deep = workspace.join("d/".repeat(127));
    for number in 0..200 {
        std::fs::create_dir_all(deep.join(number.to_string())).unwrap();
    }
    let mut disk = DiskMonitor::default();
    let mut now = Instant::now();
    for _ in 0..2 {
        disk.look(&team.swarm, now).await;
        assert_eq!(team.swarm.frozen(), std::slice::from_ref(&coder));
        let frozen = team.store.freezes().state().await.unwrap();
        let why = frozen.of(&coder).unwrap().reason.as_ref().unwrap();
        assert!(why.starts_with("its workspace has too many deeply nested folders"), "{why}");
        // Nobody can accept a size that nobody knows.
        team.swarm.thaw(&Actor::human("ann"), &coder).await.unwrap();
        now += MIN_INTERVAL * 1000;
    }
    std::fs::remove_dir_all(workspace.join("d")).unwrap();
    disk.look(&team.swarm, now).await;
    assert_eq!(team.swarm.frozen(), []);
    std::fs::write(workspace.join("file"), vec![1; 33 << 20]).unwrap();
    now += MIN_INTERVAL * 1000;
    disk.look(&team.swarm, now).await;
    assert_eq!(team.swarm.frozen(), [coder], "its limit is the one that is set");
}

#[tokio::test]
async fn a_gateway_counts_the_workspaces_of_its_own_agents() {
    let ownership = Ownership::for_test(&["coder"], &["tester"]);
    let team = Team::with(|own| own["sandbox"]["disk"] = "32m".into()).owned_by(ownership);
    for agent in ["coder", "tester"] {
        let id: AgentId = agent.parse().unwrap();
        let workspace = team.swarm.config().agent(&id).unwrap().workspace.clone();
        std::fs::create_dir_all(&workspace).unwrap();
        std::fs::write(workspace.join("file"), vec![1; 33 << 20]).unwrap();
    }
    let mut disk = DiskMonitor::default();
    disk.look(&team.swarm, Instant::now()).await;
    assert_eq!(team.swarm.frozen(), ["coder".parse::<AgentId>().unwrap()]);
}

#[test]
fn a_closed_folder_is_named_on_one_line() {
    let folder = Uncounted::Closed("/srv/w/a\n\u{1b}[2Jb".into());
    let why = reason(&folder, &"coder".parse().unwrap());
    assert!(
        why.starts_with("a folder of its workspace can't be opened and counted, /srv/w/a [2Jb: "),
        "{why}"
    );
    assert!(why.ends_with("set gatewayAgents[coder].disk to none"), "{why}");
}

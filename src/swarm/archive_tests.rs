use super::*;
use crate::store::{CardUpdate, NewChannel, Page};
use crate::swarm::channel::ChannelSpec;
use crate::swarm::testing::Team;

fn id() -> ChannelId {
    "work".parse().unwrap()
}

fn agent(name: &str) -> AgentId {
    name.parse().unwrap()
}

fn parties(names: &[&str]) -> Vec<Party> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

fn orchestrator(team: &Team) -> Actor {
    team.by("orchestrator", "agent:orchestrator:flock:main:me")
}

async fn make(team: &Team, members: &[&str]) {
    let wanted =
        ChannelSpec { id: id(), topic: "a topic".to_owned(), members: parties(members), message: None };
    team.swarm.create_channel(&orchestrator(team), wanted).await.unwrap();
}

async fn archive(team: &Team, what: ArchiveAction) -> ArchiveProgress {
    team.swarm.archive(&orchestrator(team), &id(), what).await.unwrap()
}

async fn ready(team: &Team, who: &str) -> ArchiveProgress {
    let by = team.by(who, &format!("agent:{who}:flock:channel:work"));
    team.swarm.mark_archive_ready(&by, &agent(who), &id()).await.unwrap()
}

async fn state(team: &Team) -> ChannelState {
    team.swarm.channel(&id()).await.unwrap().state
}

#[tokio::test]
async fn creating_a_channel_without_a_message_notifies_its_members() {
    let team = Team::new();
    make(&team, &["coder", "tester", "human:ann"]).await;
    assert_eq!(
        team.notified_sessions(),
        ["agent:coder:flock:channel:work", "agent:tester:flock:channel:work"]
    );
    // A member that did not hear the message finds it later.
    let found = team.store.deliveries().all_unseen().await.unwrap();
    assert_eq!(found.iter().map(|unseen| unseen.agent.as_str()).collect::<Vec<_>>(), ["coder", "tester"]);
    let said = team.store.posts().page(&id(), Page::Last, 5).await.unwrap();
    assert!(said.len() == 1 && said[0].content.contains("coder, tester, human:ann"), "{said:?}");
}

#[tokio::test]
async fn simultaneous_ready_reports_are_each_counted_once() {
    let team = Team::new();
    let all = ["coder", "tester", "orchestrator", "sysadmin"];
    make(&team, &all).await;
    archive(&team, ArchiveAction::Begin).await;
    futures_util::future::join_all(all.iter().map(|who| ready(&team, who))).await;
    let said = team.store.posts().page(&id(), Page::Last, 50).await.unwrap();
    let counts: Vec<&str> =
        said.iter().filter_map(|post| post.content.split("is ready to archive ").nth(1)).collect();
    assert_eq!(counts, ["(1 of 4)", "(2 of 4)", "(3 of 4)", "(4 of 4)"]);
    assert_eq!(state(&team).await, ChannelState::Archived);
}

#[tokio::test]
async fn archiving_finishes_when_the_last_unready_member_leaves() {
    let team = Team::new();
    make(&team, &["coder", "tester", "human:ann"]).await;
    assert_eq!(archive(&team, ArchiveAction::Begin).await.waiting, [agent("coder"), agent("tester")]);
    assert_eq!(ready(&team, "coder").await.state, ChannelState::Archiving);
    team.swarm.assign_members(&orchestrator(&team), &id(), &[], &parties(&["tester"])).await.unwrap();
    assert_eq!(state(&team).await, ChannelState::Archived);
}

#[tokio::test]
async fn archiving_does_not_wait_for_removed_agents() {
    let team = Team::new();
    make(&team, &["coder", "tester"]).await;
    archive(&team, ArchiveAction::Begin).await;
    ready(&team, "coder").await;
    team.swarm.forget_agent(&agent("tester")).await.unwrap();
    assert_eq!(state(&team).await, ChannelState::Archived);
}

#[tokio::test]
async fn a_channel_without_agents_is_archived_at_once() {
    let team = Team::new();
    make(&team, &["human:ann"]).await;
    assert_eq!(archive(&team, ArchiveAction::Begin).await.state, ChannelState::Archived);
}

#[tokio::test]
async fn archiving_waits_for_new_members_until_its_deadline() {
    let team = Team::new();
    make(&team, &["coder", "tester"]).await;
    archive(&team, ArchiveAction::Begin).await;
    ready(&team, "coder").await;
    team.swarm.assign_members(&orchestrator(&team), &id(), &parties(&["sysadmin"]), &[]).await.unwrap();
    let stand = ready(&team, "tester").await;
    assert_eq!((stand.state, stand.waiting), (ChannelState::Archiving, vec![agent("sysadmin")]));
    let due = team.swarm.channel(&id()).await.unwrap().archiving.unwrap().due_at;
    assert_eq!(team.swarm.finish_due_archives(due - 1).await.unwrap(), Some(due));
    assert_eq!(state(&team).await, ChannelState::Archiving);
    assert_eq!(team.swarm.finish_due_archives(due).await.unwrap(), None);
    assert_eq!(state(&team).await, ChannelState::Archived);
}

#[tokio::test]
async fn archiving_again_asks_all_members_again() {
    let team = Team::new();
    make(&team, &["coder", "tester"]).await;
    archive(&team, ArchiveAction::Begin).await;
    ready(&team, "coder").await;
    assert_eq!(archive(&team, ArchiveAction::Cancel).await.state, ChannelState::Active);
    let both = vec![agent("coder"), agent("tester")];
    assert_eq!(archive(&team, ArchiveAction::Begin).await.waiting, both, "after it was called off");
    ready(&team, "coder").await;
    assert_eq!(ready(&team, "tester").await.state, ChannelState::Archived);
    assert_eq!(archive(&team, ArchiveAction::Reopen).await.state, ChannelState::Active);
    assert_eq!(archive(&team, ArchiveAction::Begin).await.waiting, both, "after it was opened again");
}

#[tokio::test]
async fn reopening_a_channel_removes_members_of_removed_agents() {
    let team = Team::new();
    let new = NewChannel {
        id: id(),
        topic: "a topic".to_owned(),
        created_by: Party::human("ann"),
        members: parties(&["coder", "ghost", "human:ann"]),
        now: 1,
    };
    let entry = orchestrator(&team).entry("channel.create", "work", Level::Green, String::new());
    team.store.channels().create(new, None, entry).await.unwrap().unwrap();
    archive(&team, ArchiveAction::Force).await;
    archive(&team, ArchiveAction::Reopen).await;
    let members = team.swarm.channel(&id()).await.unwrap().members;
    let members: Vec<String> = members.iter().map(|member| member.party.to_string()).collect();
    assert_eq!(members, ["coder", "human:ann"]);
}

#[tokio::test]
async fn a_missing_agents_card_is_removed_even_without_channels() {
    let team = Team::new();
    for who in ["coder", "ghost"] {
        let entry = orchestrator(&team).entry("card.update", who, Level::Green, String::new());
        let update = CardUpdate { name: Some("Mine".to_owned()), ..CardUpdate::default() };
        team.store.cards().update(agent(who), update, entry, 1).await.unwrap();
    }
    team.swarm.remove_missing_agents().await.unwrap();
    let cards = team.store.cards().list().await.unwrap();
    assert_eq!(cards.iter().map(|card| card.agent.as_str()).collect::<Vec<_>>(), ["coder"]);
}

use serde_json::json;

use super::*;
use crate::id::ChannelId;
use crate::store::Page;
use crate::swarm::Actor;
use crate::swarm::channel::ChannelSpec;
use crate::swarm::testing::Team;

#[tokio::test]
async fn at_the_cap_messages_are_kept_and_wake_nobody_until_a_person_speaks() {
    let team = Team::with(|own| own["budgets"] = json!({"turnsWithoutHuman": 3}));
    let (swarm, store) = (&team.swarm, &team.store);
    let dev: ChannelId = "dev".parse().unwrap();
    let members = ["coder", "tester"].map(|id| id.parse::<Party>().unwrap()).to_vec();
    let wanted = ChannelSpec { id: dev.clone(), topic: "work".into(), members, message: None };
    let ann = Actor::human("ann");
    swarm.create_channel(&ann, wanted).await.unwrap();
    swarm.post(&ann, &dev, "go".into(), true).await.unwrap();
    let agent = Actor { party: "coder".parse().unwrap(), session: None, turn: None };
    let rang = || team.notified_sessions().len();
    rang();
    for (text, wakes) in [
        ("first the plan for the whole of the week", 1),
        ("second the people who shall carry it out", 1),
        ("third the day on which it shall be done", 1),
        ("fourth what happens if it can not be done", 0),
        ("fifth who has to be told about all of it", 0),
    ] {
        swarm.post(&agent, &dev, text.into(), true).await.unwrap();
        assert_eq!(rang(), wakes, "{text}");
    }
    let posts = store.posts().page(&dev, Page::Last, 50).await.unwrap();
    let braked: Vec<_> = posts.iter().filter(|post| post.content.starts_with(MARK)).collect();
    assert_eq!(braked.len(), 1, "it is said once");
    assert_eq!(posts.iter().filter(|post| post.author == agent.party).count(), 5, "all are kept");
    swarm.post(&ann, &dev, "go on".into(), true).await.unwrap();
    rang();
    swarm.post(&agent, &dev, "sixth the costs, which nobody has seen yet".into(), true).await.unwrap();
    assert_eq!(rang(), 1);
}

#[tokio::test]
async fn messages_that_are_stopped_at_the_same_moment_are_told_once() {
    let team = Team::with(|own| own["budgets"] = json!({"turnsWithoutHuman": 3}));
    let (swarm, store) = (&team.swarm, &team.store);
    let dev: ChannelId = "dev".parse().unwrap();
    let members = ["coder", "tester"].map(|id| id.parse::<Party>().unwrap()).to_vec();
    let wanted = ChannelSpec { id: dev.clone(), topic: "work".into(), members, message: None };
    let ann = Actor::human("ann");
    swarm.create_channel(&ann, wanted).await.unwrap();
    swarm.post(&ann, &dev, "go".into(), true).await.unwrap();
    let agent = Actor { party: "coder".parse().unwrap(), session: None, turn: None };
    for text in [
        "first the plan for the whole of the week",
        "second the people who shall carry it out",
        "third the day on which it shall be done",
    ] {
        swarm.post(&agent, &dev, text.into(), true).await.unwrap();
    }
    let mut notices = Vec::new();
    for text in ["fourth what happens if it can not be done", "fifth who has to be told about all of it"] {
        let new = swarm.message(&agent, &dev, text.into(), WakeUrgency::InTime, unix_ms()).unwrap();
        notices.push(swarm.braked(&new).await.unwrap().stop.unwrap().expect("nobody was told yet"));
    }
    for notice in notices {
        swarm.report_loop_stop(&dev, notice).await.unwrap();
    }
    let posts = store.posts().page(&dev, Page::Last, 50).await.unwrap();
    assert_eq!(posts.iter().filter(|post| post.content.starts_with(MARK)).count(), 1);
}

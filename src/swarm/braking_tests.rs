use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::config::agents::{NewAgent, add};
use crate::config::{Live, Role, starter};
use crate::home::{Home, atomic};
use crate::id::ChannelId;
use crate::store::{Page, Store};
use crate::swarm::channel::Wanted;
use crate::swarm::scheduler::Event;
use crate::swarm::{self, Bell, By};

#[tokio::test]
async fn at_the_cap_messages_are_kept_and_wake_nobody_until_a_person_speaks() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path().to_owned(), None);
    home.make_folders().unwrap();
    let mut document = starter::document(&home, Some(&"script/demo".parse().unwrap()), "token", 4000);
    for id in ["coder", "tester"] {
        let new = NewAgent::new(id.parse().unwrap(), Role::Worker);
        add(&mut document, &home, &new).unwrap();
    }
    document["plugins"]["entries"]["flock"]["config"]["budgets"] = json!({"turnsWithoutHuman": 3});
    atomic::write(&home.config(), document.to_string().as_bytes(), 0o600).unwrap();
    let live = Arc::new(Live::open(home.clone()).unwrap());
    let (ringer, mut events) = tokio::sync::mpsc::unbounded_channel();
    let store = Arc::new(Store::open(&home).unwrap());
    let swarm =
        Swarm::new(swarm::Parts { live, store: store.clone(), bell: Bell::new(ringer, Arc::new(|_, _| {})) });
    let dev: ChannelId = "dev".parse().unwrap();
    let members = ["coder", "tester"].map(|id| id.parse::<Party>().unwrap()).to_vec();
    let wanted = Wanted { id: dev.clone(), topic: "work".into(), members, message: None };
    let ann = By::human("ann");
    swarm.create_channel(&ann, wanted).await.unwrap();
    swarm.post(&ann, &dev, "go".into(), true).await.unwrap();
    let agent = By { party: "coder".parse().unwrap(), session: None, turn: None };
    let mut rang = || {
        let mut count = 0;
        while let Ok(event) = events.try_recv() {
            count += usize::from(matches!(event, Event::Unseen { .. }));
        }
        count
    };
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
    let posts = store.messages(&dev, Page::Last, 50).unwrap();
    let braked: Vec<_> = posts.iter().filter(|post| post.content.starts_with(MARK)).collect();
    assert_eq!(braked.len(), 1, "it is said once");
    assert_eq!(posts.iter().filter(|post| post.author == agent.party).count(), 5, "all are kept");
    swarm.post(&ann, &dev, "go on".into(), true).await.unwrap();
    rang();
    swarm.post(&agent, &dev, "sixth the costs, which nobody has seen yet".into(), true).await.unwrap();
    assert_eq!(rang(), 1);
}

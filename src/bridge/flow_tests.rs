//! Messages in both directions through a real database and a platform in memory.

use std::cell::RefCell;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use super::connection::is_told_of_drops;
use super::inbound::{Inbound, Taken};
use super::message::{IncomingFile, IncomingMessage, Sender, Thread};
use super::outbound::{Attempt, Outbound};
use super::platform::{PlatformError, Repetition};
use super::testing::{Arrival, FakePlatform};
use super::turns::{RunningTurn, Turns};
use super::{import_history, linking, typing};
use crate::config::{Bridge, PlatformName};
use crate::id::{AgentId, ChannelId, Party, SessionKey, SessionKind, TurnId};
use crate::store::{EVERYONE, Level, Link, LinkState, Page, TaskState};
use crate::swarm::Actor;
use crate::swarm::channel::ChannelSpec;
use crate::swarm::task::TaskEnd;
use crate::swarm::testing::Team;
use crate::swarm::title::ChannelTitle;

/// A team whose channel `work` is linked with the platform's channel `room`, where `alice` and the role `dev` are heard.
struct Stage {
    team: Team,
    bridge: Bridge,
    platform: FakePlatform,
    turns: Turns,
    stopped: Arc<Mutex<Vec<String>>>,
}

impl Stage {
    async fn new() -> Self {
        let team = Team::new();
        let bridge = Bridge::new("b", PlatformName::Matrix);
        let spec = ChannelSpec {
            id: channel(),
            topic: "work".to_owned(),
            members: vec!["coder".parse().unwrap(), "tester".parse().unwrap()],
            message: None,
        };
        team.swarm.create_channel(&Actor::human("kim"), spec).await.unwrap();
        for agent in &team.swarm.config().agents {
            std::fs::create_dir_all(&agent.workspace).unwrap();
        }
        let stopped: Arc<Mutex<Vec<String>>> = Arc::default();
        let stops = stopped.clone();
        let turns = Turns {
            changes: tokio::sync::watch::channel(0).1,
            list: Arc::new(|| {
                vec![RunningTurn { agent: "coder".parse().unwrap(), channel: Some(channel()) }]
            }),
            stop: Arc::new(move |agent: &AgentId, _: &ChannelId| {
                stops.lock().unwrap().push(agent.to_string());
                usize::from(agent.as_str() == "coder")
            }),
        };
        let mut platform = FakePlatform::new(Repetition::Key, true);
        (platform.most, platform.limits.file_bytes) = (200, 1 << 20);
        let stage = Self { team, bridge, platform, turns, stopped };
        stage.link("room", &["alice", "role:dev"], false).await;
        stage.drain().await;
        stage
    }

    async fn link(&self, external: &str, hears: &[&str], is_cross: bool) -> Link {
        let link = Link {
            id: format!("link-{external}"),
            channel: channel(),
            bridge: "b".to_owned(),
            external: external.to_owned(),
            title: external.to_owned(),
            state: LinkState::Active,
            is_cross,
            hears_bots: false,
            is_paused_by_person: false,
            hears: hears.iter().map(|&name| name.to_owned()).collect(),
            created_by: Party::human("kim"),
            created_at: 0,
        };
        let entry = Actor::human("kim").entry("bridge.link", "work", Level::Yellow, String::new());
        assert_eq!(self.team.store.links().add(link.clone(), entry).await.unwrap(), None);
        link
    }

    fn inbound(&self) -> Inbound<'_> {
        Inbound {
            swarm: &self.team.swarm,
            bridge: &self.bridge,
            platform: &self.platform,
            turns: &self.turns,
        }
    }

    fn outbound(&self) -> Outbound<'_> {
        Outbound { swarm: &self.team.swarm, bridge: &self.bridge, platform: &self.platform }
    }

    async fn take(&self, message: &IncomingMessage) -> Taken {
        self.inbound().take(message).await.unwrap()
    }

    /// Sends what is due, and returns the results.
    async fn send(&self) -> Vec<String> {
        let attempts = RefCell::new(Vec::new());
        let note = |_: &_, attempt: &Attempt| {
            attempts.borrow_mut().push(match attempt {
                Attempt::Sent => "sent".to_owned(),
                Attempt::Later(error) => format!("later: {error}"),
                Attempt::Dropped(error) => format!("dropped: {error}"),
            });
        };
        self.outbound().send_due(&Notify::new(), note).await.unwrap();
        attempts.into_inner()
    }

    async fn drain(&self) {
        self.send().await;
        self.platform.records();
    }

    async fn post(&self, author: &str, text: &str) {
        let by = match author.parse::<Party>().unwrap() {
            Party::Agent(agent) => {
                let session = SessionKey::new(&agent, SessionKind::Channel, "work");
                self.team.by(agent.as_str(), session.as_str())
            }
            other => Actor::party(other),
        };
        self.team.swarm.post(&by, &channel(), text.to_owned(), true).await.unwrap();
    }

    /// Returns author and text of the newest messages.
    async fn said(&self, count: u32) -> Vec<(String, String)> {
        let posts = self.team.store.posts().page(&channel(), Page::Last, count).await.unwrap();
        posts.into_iter().map(|post| (post.author.to_string(), post.content)).collect()
    }
}

fn channel() -> ChannelId {
    "work".parse().unwrap()
}

fn says(account: &str, id: &str, text: &str) -> IncomingMessage {
    IncomingMessage {
        external: "room".to_owned(),
        id: id.to_owned(),
        sender: Sender { account: account.to_owned(), username: account.to_owned(), ..Sender::default() },
        text: text.to_owned(),
        ..IncomingMessage::default()
    }
}

#[tokio::test]
async fn a_message_is_taken_once_and_only_from_people_who_are_heard() {
    let stage = Stage::new().await;
    let first = stage.take(&says("alice", "1", "hi @coder")).await;
    let Taken::Posted { seq, .. } = first else { panic!("{first:?}") };
    assert_eq!(stage.take(&says("alice", "1", "hi @coder")).await, first, "it arrives again");
    assert!(matches!(stage.take(&says("mallory", "2", "let me in")).await, Taken::NotHeard(_)));
    let bot = |message: IncomingMessage| IncomingMessage {
        sender: Sender { is_bot: true, ..message.sender.clone() },
        ..message
    };
    assert_eq!(stage.take(&bot(says("alice", "3", "beep"))).await, Taken::Ignored);
    let elsewhere = IncomingMessage { external: "other".to_owned(), ..says("alice", "4", "x") };
    assert_eq!(stage.take(&elsewhere).await, Taken::Ignored);
    let mut dev = says("bob", "5", "by role");
    dev.sender.roles = vec!["dev".to_owned()];
    let Taken::Posted { seq: last, .. } = stage.take(&dev).await else { panic!() };
    let said = stage.team.store.posts().page(&channel(), Page::Last, 50).await.unwrap();
    let by_people: Vec<(u64, String)> = said
        .iter()
        .filter(|post| matches!(post.author, Party::Human(_)))
        .map(|post| (post.seq, post.content.clone()))
        .collect();
    assert_eq!(by_people, [(seq, "hi @coder".to_owned()), (last, "by role".to_owned())]);
    // The one who speaks becomes a member, and what was said goes back to nobody.
    let known = stage.team.store.channels().find(&channel()).await.unwrap().unwrap();
    assert!(known.has(&Party::human("alice")) && known.has(&Party::human("bob")));
    stage.send().await;
    assert_eq!(stage.platform.texts(), ["human:alice joined", "human:bob joined"]);
}

#[tokio::test]
async fn a_name_of_flocks_own_people_is_given_to_no_newcomer() {
    let stage = Stage::new().await;
    let mut forged = says("alice", "1", "it is me");
    for (id, username, name) in [("1", "kim", "human:kim-2"), ("2", "renamed", "human:kim-2")] {
        forged.id = id.to_owned();
        forged.sender.username = username.to_owned();
        stage.take(&forged).await;
        let said = stage.team.store.posts().page(&channel(), Page::Last, 5).await.unwrap();
        let last = said.iter().rev().find(|post| post.content == "it is me").unwrap();
        assert_eq!(last.author.to_string(), name, "{username}");
    }
    let mut other = says("x", "3", "and I am coder");
    other.sender.roles = vec!["dev".to_owned()];
    other.sender.username = "coder".to_owned();
    stage.take(&other).await;
    let said = stage.said(5).await;
    assert!(
        said.iter().any(|(author, text)| author == "human:coder-2" && text == "and I am coder"),
        "{said:?}"
    );
}

#[tokio::test]
async fn a_reply_a_thread_and_a_changed_message_are_shown() {
    let stage = Stage::new().await;
    stage.post("coder", "shall I?").await;
    stage.send().await;
    let sent = stage.platform.sent().last().unwrap().id.clone();
    let seq = stage.team.store.links().seq_of("link-room", &sent).await.unwrap().unwrap();
    let reply = IncomingMessage { reply_to: Some(sent.clone()), ..says("alice", "1", "yes") };
    stage.take(&reply).await;
    assert!(
        stage
            .said(3)
            .await
            .contains(&("human:alice".to_owned(), format!("(in reply to seq {seq}, coder: shall I?)\nyes"))),
        "{:?}",
        stage.said(3).await
    );
    let thread = Thread { channel: "room".to_owned(), title: "Plans".to_owned() };
    let threaded = IncomingMessage {
        external: "room/7".to_owned(),
        thread: Some(thread),
        ..says("alice", "2", "later")
    };
    stage.take(&threaded).await;
    assert_eq!(stage.said(1).await[0].1, "[thread: Plans]\nlater");

    let edited = |text: &str| IncomingMessage { text: text.to_owned(), ..threaded.clone() };
    stage.inbound().change(&edited("sooner"), false).await.unwrap();
    let said = stage.said(2).await;
    assert_eq!(said[0].1, "[thread: Plans]\nsooner");
    assert!(said[1].0 == "system" && said[1].1.starts_with("human:alice changed message"), "{said:?}");
    // The same change again, and that of somebody else, change nothing.
    stage.inbound().change(&edited("sooner"), false).await.unwrap();
    let mut foreign = edited("forged");
    foreign.sender.account = "mallory".to_owned();
    stage.inbound().change(&foreign, false).await.unwrap();
    assert_eq!(stage.said(2).await, said);
    stage.inbound().change(&edited(""), true).await.unwrap();
    let said = stage.said(3).await;
    assert_eq!((said[0].1.as_str(), said[2].0.as_str()), ("(deleted)", "system"));
    let actions = stage.team.audited().await;
    assert!(actions.iter().any(|action| action == "channel.edit"), "{actions:?}");
    assert!(actions.iter().any(|action| action == "channel.delete"), "{actions:?}");
    // Notices of changes do not go back to where they were made.
    stage.platform.records();
    stage.send().await;
    assert!(!stage.platform.texts().iter().any(|text| text.contains("changed") || text.contains("deleted")));
}

#[tokio::test]
async fn files_are_written_into_the_workspaces_and_programs_are_not() {
    let mut stage = Stage::new().await;
    let file = |name: &str, bytes| IncomingFile { id: name.to_owned(), name: name.to_owned(), bytes };
    let mut message = says("alice", "1", "look");
    message.files = vec![file("../plan.txt", 7), file("huge.zip", 100 << 20), file("logo.svg", 3)];
    stage.take(&message).await;
    let said = stage.said(2).await;
    let text = &said.iter().find(|(author, _)| author == "human:alice").unwrap().1;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "look");
    assert_eq!(lines[2], "[attachment huge.zip was not taken: it has 100 MiB, at most 20 are taken]");
    assert!(lines[3].ends_with("-logo.svg.txt]"), "{text}");
    let place = lines[1].trim_start_matches("[attachment: ").trim_end_matches(']');
    assert!(place.starts_with("inbox/work/") && place.ends_with("-plan.txt"), "{place}");
    for agent in ["coder", "tester"] {
        let config = stage.team.swarm.config();
        let agent = config.agents.iter().find(|known| known.id.as_str() == agent).unwrap();
        assert_eq!(std::fs::read(agent.workspace.join(place)).unwrap(), b"content");
    }
    stage.platform.content = b"\x7fELF...".to_vec();
    message.id = "2".to_owned();
    message.files = vec![file("notes.txt", 7)];
    stage.take(&message).await;
    assert!(stage.said(1).await[0].1.contains("notes.txt was not taken: it is a program"));
}

#[tokio::test]
async fn posts_are_sent_in_order_split_and_without_mentions() {
    let stage = Stage::new().await;
    stage.post("coder", "@everyone, `@x`\n\nsee").await;
    stage.post("human:kim", &format!("{}\n\n{}", "a".repeat(120), "b".repeat(120))).await;
    stage.send().await;
    let sent: Vec<(String, String)> =
        stage.platform.records().into_iter().map(|record| (record.author, record.text)).collect();
    assert_eq!(sent[0], ("coder".to_owned(), "@\u{2060}everyone, `@x`\n\nsee".to_owned()));
    assert_eq!(sent[1], ("kim".to_owned(), "a".repeat(120)));
    assert_eq!(sent[2], ("kim".to_owned(), "b".repeat(120)));
    assert_eq!(sent.len(), 3);
}

#[tokio::test]
async fn a_person_with_an_account_is_mentioned_there() {
    let stage = Stage::new().await;
    stage.take(&says("alice", "1", "hi")).await;
    stage.drain().await;
    stage.post("coder", "ask @alice and @nobody").await;
    stage.send().await;
    let record = &stage.platform.records()[0];
    assert_eq!(record.mentions, ["alice"]);
    assert_eq!(record.text, "ask @alice and @\u{2060}nobody");
}

#[tokio::test]
async fn what_fails_is_tried_again_postponed_or_dropped() {
    let stage = Stage::new().await;
    let fail = |error: PlatformError| stage.platform.fail(error, Arrival::Lost);
    stage.post("coder", "one").await;
    fail(PlatformError::RateLimited(std::time::Duration::from_secs(3600)));
    assert_eq!(stage.send().await, ["later: the platform takes no more messages for 3600 s"]);
    assert_eq!(stage.send().await, Vec::<String>::new(), "the wait is obeyed");
    let waiting = stage.team.store.outbox().next("b").await.unwrap();
    assert_eq!((waiting.len(), waiting[0].attempts), (1, 1));
    stage.team.store.outbox().postpone(waiting[0].id, 0, true).await.unwrap();
    fail(PlatformError::Refused("too odd".to_owned()));
    assert_eq!(stage.send().await, ["dropped: the platform refuses it: too odd"]);
    stage.post("coder", "two").await;
    assert_eq!(stage.send().await, ["sent"]);
    assert_eq!(stage.platform.texts(), ["two"]);
    assert!(is_told_of_drops(&Party::human("kim")) && !is_told_of_drops(&Party::System));
}

#[tokio::test]
async fn a_message_that_may_have_been_sent_is_searched_or_marked() {
    let mut stage = Stage::new().await;
    let broken = |stage: &Stage, arrival| {
        stage.platform.fail(PlatformError::Unavailable("cut".to_owned()), arrival);
    };
    let retry = async |stage: &Stage| {
        let entry = stage.team.store.outbox().next("b").await.unwrap().remove(0);
        assert!(entry.is_begun, "nobody knows if it arrived");
        stage.team.store.outbox().postpone(entry.id, 0, false).await.unwrap();
        stage.send().await
    };
    stage.platform.limits.repetition = Repetition::History;
    stage.post("coder", "one").await;
    broken(&stage, Arrival::Arrived);
    stage.send().await;
    stage.platform.records();
    assert_eq!(retry(&stage).await, ["sent"]);
    let records = stage.platform.records();
    assert_eq!(records.iter().map(|record| record.what).collect::<Vec<_>>(), ["find_sent"]);
    let id = stage.platform.sent().last().unwrap().id.clone();
    let seq = stage.team.store.links().seq_of("link-room", &id).await.unwrap();
    assert!(seq.is_some(), "the message that was found counts as sent");

    // A message that is recorded already is another one, though it is found.
    stage.post("human:kim", "three").await;
    broken(&stage, Arrival::Lost);
    stage.send().await;
    stage.platform.records();
    assert_eq!(retry(&stage).await, ["sent"]);
    assert_eq!(stage.platform.texts(), ["three"]);

    stage.platform.limits.repetition = Repetition::Nothing;
    stage.post("coder", "two").await;
    broken(&stage, Arrival::Lost);
    stage.send().await;
    retry(&stage).await;
    assert_eq!(stage.platform.texts(), ["two\n\n(perhaps sent twice: the connection broke)"]);
}

#[tokio::test]
async fn a_limit_leaves_it_open_whether_an_earlier_attempt_arrived() {
    let mut stage = Stage::new().await;
    stage.platform.limits.repetition = Repetition::History;
    stage.post("coder", "one").await;
    stage.platform.fail(PlatformError::Unavailable("cut".to_owned()), Arrival::Lost);
    stage.send().await;
    let entry = async || stage.team.store.outbox().next("b").await.unwrap().remove(0);
    stage.team.store.outbox().postpone(entry().await.id, 0, false).await.unwrap();
    let limit = PlatformError::RateLimited(std::time::Duration::from_secs(3600));
    stage.platform.fail(limit, Arrival::Lost);
    stage.send().await;
    assert!(entry().await.is_begun);
}

#[tokio::test]
async fn what_is_said_on_one_side_crosses_only_where_the_link_says_so() {
    let stage = Stage::new().await;
    stage.link("plain", &[EVERYONE], false).await;
    stage.link("crossed", &[EVERYONE], true).await;
    stage.take(&says("alice", "1", "hi")).await;
    stage.send().await;
    let sent: Vec<(String, String)> = stage
        .platform
        .records()
        .into_iter()
        .filter(|record| record.text == "hi")
        .map(|record| (record.external, record.author))
        .collect();
    assert_eq!(sent, [("crossed".to_owned(), "alice".to_owned())]);
}

#[tokio::test]
async fn history_counts_as_read_and_goes_nowhere() {
    let mut stage = Stage::new().await;
    stage.link("crossed", &[EVERYONE], true).await;
    let old = |id: &str, at, account: &str| IncomingMessage { sent_at: at, ..says(account, id, id) };
    stage.platform.history = vec![old("o1", 1, "alice"), old("o2", 2, "mallory"), old("o3", 3, "alice")];
    let link = stage.team.store.links().find("b", "room").await.unwrap().unwrap();
    stage.drain().await;
    let _rung = stage.team.notified_sessions();
    // The members have read everything before.
    for agent in ["coder", "tester"] {
        let (agent, turn) = (agent.parse::<AgentId>().unwrap(), TurnId::new());
        let limits =
            crate::store::BatchLimits { messages: 100, bytes: 1 << 20, alone: |_| false, may_be_alone: true };
        stage.team.store.deliveries().take_batch(agent.clone(), channel(), turn, limits).await.unwrap();
        stage.team.store.deliveries().end(agent, channel(), turn, Some(100)).await.unwrap();
    }
    let import = || import_history(&stage.team.swarm, &stage.bridge, &stage.platform, &link, 1);
    assert_eq!(import().await.unwrap(), 2);
    let said = stage.said(2).await;
    assert_eq!(said.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>(), ["o1", "o3"]);
    assert_eq!(stage.team.notified_sessions(), Vec::<String>::new());
    stage.send().await;
    assert_eq!(stage.platform.texts(), Vec::<String>::new());
    let agent: AgentId = "coder".parse().unwrap();
    let limits =
        crate::store::BatchLimits { messages: 100, bytes: 1 << 20, alone: |_| false, may_be_alone: true };
    let batch =
        stage.team.store.deliveries().take_batch(agent, channel(), TurnId::new(), limits).await.unwrap();
    assert_eq!(batch.map(|batch| batch.messages.len()), None, "it was read");
    assert_eq!(import().await.unwrap(), 2, "the same again posts nothing");
    assert_eq!(stage.said(2).await, said);
}

#[tokio::test]
async fn a_direct_message_is_answered_by_the_orchestrator() {
    let stage = Stage::new().await;
    let direct = |account: &str, id: &str, text: &str| IncomingMessage {
        external: "dm".to_owned(),
        is_direct: true,
        ..says(account, id, text)
    };
    assert_eq!(stage.take(&direct("mallory", "1", "hello")).await, Taken::NotAllowed);
    assert_eq!(stage.take(&direct("alice", "2", "how is it?")).await, Taken::Direct);
    assert_eq!(stage.take(&direct("alice", "2", "how is it?")).await, Taken::Direct, "it arrives again");
    let session: SessionKey = "agent:orchestrator:flock:dm:human:alice".parse().unwrap();
    let turn = TurnId::new();
    let item = stage.team.take(&session, turn).await.unwrap();
    assert_eq!((item.sender.as_str(), item.text.as_str()), ("human:alice", "how is it?"));
    let task = item.task.unwrap();
    assert!(stage.team.swarm.begin_task(&task, &session, turn).await.unwrap());
    assert!(stage.team.take(&session, TurnId::new()).await.is_none(), "it is one task");
    stage.outbound().answer_direct(&Notify::new()).await.unwrap();
    assert_eq!(stage.platform.texts(), Vec::<String>::new(), "there is no answer yet");
    stage.team.swarm.end_task(&task, &session, turn, TaskEnd::Done("well".to_owned())).await.unwrap();
    stage.outbound().answer_direct(&Notify::new()).await.unwrap();
    stage.outbound().answer_direct(&Notify::new()).await.unwrap();
    let records = stage.platform.records();
    assert_eq!(records.len(), 1, "{records:?}");
    assert_eq!((records[0].external.as_str(), records[0].text.as_str()), ("dm", "well"));
    let task = stage.team.store.tasks().find(&task).await.unwrap().unwrap();
    assert_eq!(task.state, TaskState::Completed);
}

#[tokio::test]
async fn commands_are_answered_and_not_posted() {
    let stage = Stage::new().await;
    stage.link("open", &[EVERYONE], false).await;
    let before = stage.said(1).await;
    let answer = async |message: IncomingMessage| match stage.take(&message).await {
        Taken::Answered(text) => text,
        other => panic!("{other:?}"),
    };
    let status = answer(says("alice", "1", "!flock status")).await;
    assert!(status.contains("coder: works") && status.contains("tester: idle"), "{status}");
    assert_eq!(answer(says("alice", "2", "!flock who")).await, "- coder works in work");
    assert_eq!(answer(says("alice", "3", "!flock stop")).await, "Stopped: coder");
    assert_eq!(*stage.stopped.lock().unwrap(), ["coder", "tester"]);
    assert_eq!(answer(says("alice", "4", "!flock freeze coder")).await, "Frozen: coder");
    assert!(stage.team.swarm.is_frozen(&"coder".parse().unwrap()));
    assert_eq!(answer(says("alice", "5", "!flock thaw")).await, "Thawed: coder");
    assert!(answer(says("alice", "6", "!flock freeze sysadmin")).await.starts_with("No agent sysadmin"));
    let stranger = |text: &str| IncomingMessage { external: "open".to_owned(), ..says("carol", "7", text) };
    assert!(answer(stranger("!flock freeze")).await.starts_with("Only people whom the link names"));
    assert!(!stage.team.swarm.is_frozen(&"coder".parse().unwrap()));
    assert_eq!(stage.said(1).await, before);
}

#[tokio::test]
async fn a_new_topic_and_typing_reach_the_platform() {
    let stage = Stage::new().await;
    let title = ChannelTitle { name: None, topic: Some("new things".to_owned()) };
    stage.team.swarm.retitle(&Actor::human("kim"), &channel(), title).await.unwrap();
    stage.send().await;
    let records = stage.platform.records();
    assert!(
        records.iter().any(|record| record.what == "topic" && record.text == "new things"),
        "{records:?}"
    );
    let shown = typing::show(&stage.team.swarm, "b", &stage.platform, &stage.turns);
    let seen = async {
        loop {
            if stage.platform.records().iter().any(|record| record.what == "typing") {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        () = shown => panic!("it ended"),
        () = seen => {}
    }
}

#[tokio::test]
async fn no_agent_ends_the_pause_of_a_person() {
    let stage = Stage::new().await;
    let (person, agent) = (Actor::human("kim"), Actor::party(Party::Agent("coder".parse().unwrap())));
    let store = stage.team.swarm.store();
    let now = async || store.links().list(Some("b")).await.unwrap().remove(0);
    let set = async |by: &Actor, is_paused| {
        linking::set_paused(&stage.team.swarm, by, now().await, is_paused).await.unwrap()
    };
    assert!(set(&agent, true).await && set(&agent, false).await, "its own pause");
    assert!(set(&person, true).await && !set(&agent, false).await);
    assert!(now().await.is_paused_by_person);
    assert!(set(&person, false).await && !now().await.is_paused_by_person);
    // A person who pauses what an agent has paused means it.
    assert!(set(&agent, true).await && !set(&person, true).await && !set(&agent, false).await);
    assert!(set(&person, false).await);
}

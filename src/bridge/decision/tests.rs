use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::bridge::connection::{Connection, SharedState};
use crate::bridge::message::{PlatformEvent, Sender, Thread};
use crate::bridge::platform::{PlatformError, Repetition};
use crate::bridge::testing::{Arrival, FakePlatform, SentMessage};
use crate::bridge::turns::Turns;
use crate::clock::MAX_DIFFERENCE;
use crate::config::{self, Live, PlatformName, Role, agents, starter};
use crate::home::{Home, atomic};
use crate::id::{AgentId, ChannelId, Party, SessionKey, SessionKind, TurnId};
use crate::provider::BoxFuture;
use crate::store::{
    AuditEntry, EVERYONE, Level, Link, LinkState, NewChannel, Page, RequestRow, RequestState, Store, testing,
};
use crate::swarm::triage::{Executor, FiledRequest, Request, view};
use crate::swarm::{Actor, Notifier, Swarm, SwarmParts};

struct Works;

impl Executor for Works {
    fn carry_out<'a>(
        &'a self,
        _asked: &'a FiledRequest,
        _cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(async { Ok("worked".to_owned()) })
    }
}

/// A home with a bridge, a linked channel, two approvers, of whom ann is bound to an account, and the platform.
struct Rig {
    _folder: tempfile::TempDir,
    home: Home,
    triage: Arc<Triage>,
    bridge: Bridge,
    platform: FakePlatform,
    wrong: Mutex<WrongAnswers>,
    unanswered: Unanswered,
    _events: mpsc::UnboundedReceiver<crate::swarm::scheduler::SchedulerEvent>,
}

const ANN: &str = "@ann:e.org";
const ROOM: &str = "!room:e.org";

impl Rig {
    async fn new() -> Self {
        Self::on(FakePlatform::new(Repetition::Key, true)).await
    }

    async fn on(platform: FakePlatform) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::locate(Some(&folder.path().join("home"))).unwrap();
        home.make_folders().unwrap();
        let mut document = starter::document(&home, Some(&"script/demo".parse().unwrap()), "token", 3779);
        for (id, role) in [("sysadmin", Role::Sysadmin), ("coder", Role::Worker)] {
            let network = (role == Role::Worker).then_some(config::Network::Proxy);
            let new = agents::NewAgent { network, ..agents::NewAgent::new(id.parse().unwrap(), role) };
            agents::add(&mut document, &home, &new).unwrap();
        }
        document["plugins"]["entries"]["flock"]["config"]["approvers"] = json!(["human:ann", "human:ben"]);
        atomic::write(&home.config(), document.to_string().as_bytes(), 0o600).unwrap();
        let store = Arc::new(Store::open(&home).unwrap());
        let new = NewChannel {
            id: channel(),
            topic: String::new(),
            created_by: Party::human("owner"),
            members: vec!["coder".parse().unwrap()],
            now: 1,
        };
        store.channels().create(new, None, entry()).await.unwrap();
        store.links().add(link("link", ROOM), entry()).await.unwrap();
        testing::add_account(&store, "matrix", ANN, &Party::human("ann"), Some("human:owner")).await;
        let (sender, events) = mpsc::unbounded_channel();
        let notifier = Notifier::new(sender, Arc::new(|_, _| {}));
        let live = Arc::new(Live::open(home.clone()).unwrap());
        let swarm = Arc::new(Swarm::new(SwarmParts { live, store, notifier }));
        let bridge = Bridge::new("matrix", PlatformName::Matrix);
        let triage = Triage::new(swarm, Arc::new(Works));
        let (wrong, unanswered) = (Mutex::default(), Unanswered::default());
        Self { _folder: folder, home, triage, bridge, platform, wrong, unanswered, _events: events }
    }

    fn decisions(&self) -> Decisions<'_> {
        let Self { triage, bridge, platform, wrong, unanswered, .. } = self;
        Decisions { triage, bridge, platform, wrong, unanswered }
    }

    fn store(&self) -> &Arc<Store> {
        self.triage.swarm().store()
    }

    fn set(&self, key: &str, value: Value) {
        config::edit(&self.home, |document| {
            document["plugins"]["entries"]["flock"]["config"][key] = value;
            Ok::<_, config::ConfigError>(())
        })
        .unwrap();
    }

    /// Files a request of the agent, and returns its row.
    async fn ask(&self, value: Value) -> RequestRow {
        let request: Request = serde_json::from_value(value).unwrap();
        let agent: AgentId = "coder".parse().unwrap();
        let session = SessionKey::new(&agent, SessionKind::Channel, "work");
        let by = Actor { party: Party::Agent(agent), session: Some(session), turn: Some(TurnId::new()) };
        self.triage.request(&by, request, "I need it", &CancellationToken::new()).await.unwrap();
        self.store().requests().list(false, 100).await.unwrap().pop().unwrap()
    }

    async fn ask_for(&self, host: &str) -> RequestRow {
        let row = self.ask(json!({"kind": "egress", "host": host})).await;
        assert_eq!(row.state, RequestState::Waiting);
        row
    }

    async fn row(&self, id: &str) -> RequestRow {
        self.store().requests().find(id).await.unwrap().unwrap()
    }

    async fn settle(&self) {
        self.decisions().settle(&Notify::new()).await.unwrap();
    }

    /// Files a request and shows it. Returns its row, its message, and the code.
    async fn shown(&self, host: &str) -> (RequestRow, SentMessage, String) {
        let row = self.ask_for(host).await;
        self.settle().await;
        let message = self.platform.sent().pop().unwrap();
        let code = code_of(&message);
        (row, message, code)
    }

    /// Shows what waits in the room, and has `act` done with the message before the platform answers the sending, with an
    /// error if there is one. Returns the result of `act`, which must wait for the answer.
    async fn before_the_answer<T>(
        &self,
        error: Option<&PlatformError>,
        act: impl AsyncFnOnce(SentMessage) -> T,
    ) -> T {
        self.platform.fall_silent(ROOM, Arrival::Arrived);
        let acts = async {
            self.platform.unanswered.notified().await;
            let mut acted = pin!(act(self.platform.sent().pop().unwrap()));
            // It has the time of some looks into the database, after which it would be over if it did not wait.
            for _ in 0..20 {
                tokio::select! {
                    biased;
                    _ = &mut acted => panic!("it did not wait for the answer"),
                    _ = self.store().requests().list(false, 1) => {}
                }
            }
            self.platform.answer_late(error);
            acted.await
        };
        tokio::join!(self.settle(), acts).1
    }

    async fn react(&self, external: &str, message: &str, emoji: &str) {
        self.decisions().reacted(external, message, &sender(ANN), emoji).await.unwrap();
    }

    async fn press(&self, account: &str, message: &SentMessage, button: &str) -> Vec<(String, String)> {
        let press = PressedButton {
            external: message.external.clone(),
            message: message.id.clone(),
            sender: sender(account),
            button: button.to_owned(),
        };
        self.decisions().pressed(&press).await.unwrap();
        self.platform.take_answers()
    }

    /// Presses the button that approves. Returns the one answer.
    async fn approve(&self, account: &str, message: &SentMessage) -> String {
        let mut answers = self.press(account, message, &message.buttons[0].id).await;
        assert_eq!(answers.len(), 1, "{answers:?}");
        let (to, text) = answers.remove(0);
        assert_eq!(to, account);
        text
    }

    async fn write(&self, message: IncomingMessage) -> (bool, Option<String>) {
        let is_handled = self.decisions().reply(&message).await.unwrap();
        (is_handled, self.platform.take_answers().pop().map(|(_, text)| text))
    }

    async fn until(&self, id: &str, state: RequestState) {
        let end = tokio::time::Instant::now() + Duration::from_secs(20);
        while self.row(id).await.state != state {
            assert!(tokio::time::Instant::now() < end, "{:?}", self.row(id).await);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn assert_waits(&self, id: &str) {
        let row = self.row(id).await;
        assert_eq!((row.state, row.decided_by), (RequestState::Waiting, None));
    }
}

/// A link of the channel, in which everybody is heard.
fn link(id: &str, external: &str) -> Link {
    Link {
        hears_bots: false,
        is_paused_by_person: false,
        id: id.into(),
        channel: channel(),
        bridge: "matrix".into(),
        external: external.into(),
        title: "room".into(),
        state: LinkState::Active,
        is_cross: false,
        hears: vec![EVERYONE.into()],
        created_by: Party::human("owner"),
        created_at: 1,
    }
}

fn channel() -> ChannelId {
    "work".parse().unwrap()
}

fn entry() -> AuditEntry {
    AuditEntry {
        actor: "human:owner".into(),
        action: "test",
        subject: "work".into(),
        level: Level::Green,
        detail: String::new(),
        session: None,
        turn: None,
    }
}

fn sender(account: &str) -> Sender {
    Sender { account: account.into(), username: "ann".into(), ..Sender::default() }
}

fn text(text: &str) -> IncomingMessage {
    IncomingMessage {
        external: ROOM.into(),
        id: uuid::Uuid::now_v7().to_string(),
        sent_at: unix_ms(),
        sender: sender(ANN),
        text: text.into(),
        ..IncomingMessage::default()
    }
}

fn code_of(message: &SentMessage) -> String {
    let (_, rest) = message.markdown.split_once("`approve ").unwrap();
    rest.split_once('`').unwrap().0.to_owned()
}

#[tokio::test]
async fn a_waiting_request_is_shown_whole_once_with_buttons_and_a_code() {
    let rig = Rig::new().await;
    let (row, message, code) = rig.shown("a.example").await;
    assert_eq!((message.external.as_str(), message.author.as_str()), (ROOM, ""));
    for (name, text) in view::fields(&row, &crate::clock::utc(row.expires_at)) {
        let line = format!("{name:<10}{text}");
        assert!(message.markdown.lines().any(|shown| shown == line), "{line}\n{}", message.markdown);
    }
    assert!(message.markdown.contains(&row.sha256) && message.markdown.contains(&row.body));
    assert!(message.markdown.contains(&format!("`deny {code} REASON`")), "{}", message.markdown);
    let labels: Vec<_> =
        message.buttons.iter().map(|button| (button.label.as_str(), button.is_positive)).collect();
    assert_eq!(labels, [("Approve", true), ("Deny", false)]);
    rig.settle().await;
    assert_eq!(rig.platform.sent().len(), 1, "it is shown once");
}

#[tokio::test]
async fn a_bound_approver_approves_by_a_button_and_every_message_says_so() {
    let rig = Rig::new().await;
    let (row, message, _) = rig.shown("a.example").await;
    let told = rig.approve(ANN, &message).await;
    assert_eq!(told, format!("You approved {}.", row.id));
    rig.until(&row.id, RequestState::Done).await;
    let decided = rig.row(&row.id).await;
    assert_eq!(decided.decided_by.as_deref(), Some("human:ann"));
    assert_eq!(decided.approved.as_ref(), Some(&row.sha256));
    let audited = rig.store().audit().rows_about("request.approve").await;
    assert_eq!((audited.len(), audited[0].actor.as_str()), (1, "human:ann"));
    let detail = format!("sha256 {}; over bridge matrix, account {ANN}", row.sha256);
    assert_eq!(audited[0].detail, detail);
    rig.settle().await;
    let edited = rig.platform.sent().remove(0);
    assert!(edited.is_edited && edited.buttons.is_empty());
    assert!(edited.markdown.starts_with(&format!("**{} was approved by human:ann.**", row.id)), "{edited:?}");
    assert!(edited.markdown.contains(&row.sha256) && !edited.markdown.contains("`approve "), "{edited:?}");
    let posts = rig.store().posts().page(&channel(), Page::Last, 9).await.unwrap();
    assert!(posts.last().unwrap().content.contains("was approved by human:ann"), "{posts:?}");
}

#[tokio::test]
async fn a_denial_by_a_button_a_reaction_or_a_reply_reaches_the_agent() {
    let rig = Rig::new().await;
    let (row, message, _) = rig.shown("a.example").await;
    rig.press(ANN, &message, &message.buttons[1].id).await;
    assert_eq!(rig.row(&row.id).await.state, RequestState::Denied);
    let (row, message, _) = rig.shown("b.example").await;
    rig.decisions().reacted(ROOM, &message.id, &sender(ANN), "👎").await.unwrap();
    assert_eq!(rig.row(&row.id).await.state, RequestState::Denied);
    let (row, message, _) = rig.shown("c.example").await;
    let reply = IncomingMessage { reply_to: Some(message.id), ..text("deny use the mirror") };
    assert!(rig.write(reply).await.0);
    let denied = rig.row(&row.id).await;
    assert_eq!((denied.state, denied.result.as_deref()), (RequestState::Denied, Some("use the mirror")));
    rig.settle().await;
    assert!(
        rig.platform
            .sent()
            .iter()
            .all(|sent| sent.is_edited && sent.markdown.contains("was denied by human:ann"))
    );
}

#[tokio::test]
async fn a_reply_in_the_thread_of_a_request_decides_it() {
    let rig = Rig::new().await;
    let (row, message, _) = rig.shown("a.example").await;
    let thread = Thread { channel: ROOM.into(), title: "the request".into() };
    let place = format!("{ROOM}/{}", message.id);
    let reply = IncomingMessage {
        external: place,
        thread: Some(thread),
        reply_to: Some(message.id),
        ..text("deny not in this thread")
    };
    assert!(rig.write(reply).await.0);
    assert_eq!(rig.row(&row.id).await.state, RequestState::Denied);
}

#[tokio::test]
async fn an_approval_by_a_reaction_a_reply_or_a_code_begins_the_request() {
    let rig = Rig::new().await;
    let (row, message, _) = rig.shown("a.example").await;
    rig.decisions().reacted(ROOM, &message.id, &sender(ANN), "👍🏽").await.unwrap();
    rig.until(&row.id, RequestState::Done).await;
    let (row, message, _) = rig.shown("b.example").await;
    let reply = IncomingMessage { reply_to: Some(message.id), ..text("Approve") };
    assert!(rig.write(reply).await.0);
    rig.until(&row.id, RequestState::Done).await;
    let (row, _, code) = rig.shown("c.example").await;
    assert!(rig.write(text(&format!("approve {}", code.to_uppercase()))).await.0);
    rig.until(&row.id, RequestState::Done).await;
    let (row, _, code) = rig.shown("d.example").await;
    let direct =
        IncomingMessage { external: "dm".into(), is_direct: true, ..text(&format!("approve {code}")) };
    assert!(rig.write(direct).await.0);
    rig.until(&row.id, RequestState::Done).await;
    let (row, _, code) = rig.shown("e.example").await;
    let thread = Some(Thread { channel: ROOM.into(), title: "x".into() });
    let threaded = IncomingMessage { external: "thread".into(), thread, ..text(&format!("approve {code}")) };
    assert!(rig.write(threaded).await.0);
    rig.until(&row.id, RequestState::Done).await;
}

#[tokio::test]
async fn nobody_but_a_bound_approver_decides() {
    let rig = Rig::new().await;
    let (row, message, code) = rig.shown("a.example").await;
    // A newcomer with an approver's name, and one whom the owner bound to somebody who is no approver.
    testing::add_account(rig.store(), "matrix", "@fake:e.org", &Party::human("ben"), None).await;
    testing::add_account(rig.store(), "matrix", "@eve:e.org", &Party::human("eve"), Some("human:owner"))
        .await;
    // The same id on another platform is another account.
    testing::add_account(rig.store(), "slack", "@x:e.org", &Party::human("ann"), Some("human:owner")).await;
    for (account, why) in [
        ("@stranger:e.org", "has bound your account to nobody"),
        ("@fake:e.org", "has bound your account to nobody"),
        ("@x:e.org", "has bound your account to nobody"),
        ("@eve:e.org", "human:eve is not among those who approve"),
    ] {
        let told = rig.approve(account, &message).await;
        assert!(told.starts_with("Nothing was decided: ") && told.contains(why), "{account}: {told}");
        rig.decisions().reacted(ROOM, &message.id, &sender(account), "✅").await.unwrap();
        let typed = IncomingMessage { sender: sender(account), ..text(&format!("approve {code}")) };
        assert!(rig.write(typed).await.0, "{account}: it is not posted either");
    }
    rig.assert_waits(&row.id).await;
    // The owner takes the right back.
    rig.set("approvers", json!(["human:ben"]));
    assert!(rig.approve(ANN, &message).await.contains("human:ann is not among those who approve"));
    rig.assert_waits(&row.id).await;
}

#[tokio::test]
async fn programs_decide_nothing_and_get_no_answer() {
    let rig = Rig::new().await;
    let (row, message, code) = rig.shown("a.example").await;
    let bot = Sender { is_bot: true, ..sender(ANN) };
    let press = PressedButton {
        external: ROOM.into(),
        message: message.id.clone(),
        sender: bot.clone(),
        button: message.buttons[0].id.clone(),
    };
    rig.decisions().pressed(&press).await.unwrap();
    rig.decisions().reacted(ROOM, &message.id, &bot, "👍").await.unwrap();
    let typed = IncomingMessage { sender: bot, ..text(&format!("approve {code}")) };
    assert_eq!(rig.write(typed).await, (false, None));
    rig.assert_waits(&row.id).await;
}

#[tokio::test]
async fn a_forwarded_message_decides_nothing() {
    let rig = Rig::new().await;
    let (row, message, code) = rig.shown("a.example").await;
    let forwarded = IncomingMessage { is_forwarded: true, ..text(&format!("approve {code}")) };
    let (is_handled, told) = rig.write(forwarded).await;
    assert!(is_handled && told.unwrap().contains("a forwarded message decides nothing"));
    // The whole message, passed on to another channel: its text is no answer.
    let passed_on = IncomingMessage { external: "elsewhere".into(), ..text(&message.markdown) };
    assert_eq!(rig.write(passed_on).await, (false, None));
    // Its buttons there have another message and channel.
    for (external, id) in [("elsewhere", message.id.as_str()), (ROOM, "m99")] {
        let copy = SentMessage { external: external.into(), id: id.into(), ..message.clone() };
        assert!(rig.approve(ANN, &copy).await.contains("only in its own channel"), "{external} {id}");
    }
    rig.assert_waits(&row.id).await;
}

#[tokio::test]
async fn an_edited_message_decides_nothing_and_a_decision_is_not_posted() {
    let rig = Rig::new().await;
    let (row, _, code) = rig.shown("a.example").await;
    let platform = Box::new(FakePlatform::new(Repetition::Key, true));
    let connection = Connection::new(
        rig.triage.clone(),
        rig.bridge.clone(),
        platform,
        Arc::new(SharedState::default()),
        Turns::none(),
    );
    let posts = async || {
        let posts = rig.store().posts().page(&channel(), Page::Last, 50).await.unwrap();
        posts
            .into_iter()
            .filter(|post| post.author != Party::System)
            .map(|post| post.content)
            .collect::<Vec<_>>()
    };
    let first = text("hello");
    connection.take(PlatformEvent::Message(first.clone())).await;
    let edited = IncomingMessage { text: format!("approve {code}"), ..first };
    connection.take(PlatformEvent::Edited(edited)).await;
    // An edit of a message that flock never saw.
    connection.take(PlatformEvent::Edited(text(&format!("approve {code}")))).await;
    rig.assert_waits(&row.id).await;
    let before = posts().await;
    assert_eq!(before.len(), 1, "{before:?}");
    connection.take(PlatformEvent::Message(text(&format!("approve {code}")))).await;
    rig.until(&row.id, RequestState::Done).await;
    assert_eq!(posts().await, before);
}

#[tokio::test]
async fn a_code_decides_only_its_own_request() {
    let rig = Rig::new().await;
    let (first, shown_first, _) = rig.shown("a.example").await;
    let (second, shown_second, code) = rig.shown("b.example").await;
    // The code of one request in a reply to the message of the other, and its button on the other's message.
    let reply =
        IncomingMessage { reply_to: Some(shown_first.id.clone()), ..text(&format!("approve {code}")) };
    assert!(rig.write(reply).await.1.unwrap().contains("only in its own channel"));
    let told = rig.press(ANN, &shown_first, &shown_second.buttons[0].id).await;
    assert!(told[0].1.contains("only in its own channel"), "{told:?}");
    rig.assert_waits(&first.id).await;
    rig.assert_waits(&second.id).await;
    rig.write(text(&format!("approve {code}"))).await;
    rig.until(&second.id, RequestState::Done).await;
    rig.assert_waits(&first.id).await;
}

#[tokio::test]
async fn a_code_that_was_used_decides_nothing_more() {
    let rig = Rig::new().await;
    let (row, message, code) = rig.shown("a.example").await;
    rig.approve(ANN, &message).await;
    rig.until(&row.id, RequestState::Done).await;
    assert!(rig.approve(ANN, &message).await.contains("is done already"));
    let (_, told) = rig.write(text(&format!("deny {code}"))).await;
    assert!(told.unwrap().contains("is done already"));
    // People react to what was decided, and are not bothered.
    rig.decisions().reacted(ROOM, &message.id, &sender(ANN), "👎").await.unwrap();
    assert_eq!(rig.platform.take_answers(), []);
    assert_eq!(rig.store().audit().rows_about("request.deny").await.len(), 0);
}

#[tokio::test]
async fn a_decision_made_elsewhere_ends_the_one_here() {
    let rig = Rig::new().await;
    let (row, message, _) = rig.shown("a.example").await;
    let owner = Decider::Owner(Party::human("owner"));
    rig.triage.decide(&row.id, ApprovalDecision::Deny { reason: None }, &owner).await.unwrap();
    assert!(rig.approve(ANN, &message).await.contains("is denied already"));
    assert_eq!(rig.row(&row.id).await.decided_by.as_deref(), Some("human:owner"));
    rig.settle().await;
    assert!(
        rig.platform.sent()[0].markdown.contains("was denied by human:owner"),
        "{:?}",
        rig.platform.sent()
    );
}

#[tokio::test]
async fn an_expired_request_is_not_decided_and_its_message_says_so() {
    let rig = Rig::new().await;
    let (row, message, _) = rig.shown("a.example").await;
    testing::set_expiry(rig.store(), &row.id, unix_ms()).await;
    assert!(rig.approve(ANN, &message).await.contains("has expired"));
    assert_eq!(rig.row(&row.id).await.state, RequestState::Expired);
    assert!(rig.approve(ANN, &message).await.contains("is expired already"));
    rig.settle().await;
    assert!(rig.platform.sent()[0].markdown.starts_with(&format!("**{} expired.**", row.id)));
}

#[tokio::test]
async fn a_bridge_whose_clock_is_ahead_shows_and_takes_what_still_waits() {
    let rig = Rig::new().await;
    testing::make_group(rig.store()).await;
    // It is over by the clock of the bridge's gateway, and not by that of the gateway that made it.
    let ahead = async |id: &str| testing::set_expiry(rig.store(), id, unix_ms() - 300_000).await;
    let row = rig.ask_for("a.example").await;
    ahead(&row.id).await;
    rig.settle().await;
    let message = rig.platform.sent().pop().unwrap();
    assert!(message.markdown.starts_with(&format!("**{} of coder waits", row.id)), "{message:?}");
    assert!(rig.approve(ANN, &message).await.starts_with("You approved"));
    rig.until(&row.id, RequestState::Done).await;
    let (row, message, code) = rig.shown("b.example").await;
    ahead(&row.id).await;
    rig.settle().await;
    assert_eq!(rig.platform.sent().pop().unwrap().markdown, message.markdown);
    rig.write(text(&format!("deny {code}"))).await;
    assert_eq!(rig.row(&row.id).await.state, RequestState::Denied);
    // It is over by every clock.
    let (row, message, _) = rig.shown("c.example").await;
    testing::set_expiry(rig.store(), &row.id, unix_ms() - MAX_DIFFERENCE).await;
    assert!(rig.approve(ANN, &message).await.contains("has expired"));
    assert_eq!(rig.row(&row.id).await.state, RequestState::Expired);
}

#[tokio::test]
async fn a_body_that_was_changed_since_is_neither_approved_nor_shown() {
    let rig = Rig::new().await;
    let (row, message, _) = rig.shown("a.example").await;
    testing::change_body(rig.store(), &row.id, "a.example", "b.example").await;
    assert!(rig.approve(ANN, &message).await.contains("is not what you were shown"));
    rig.assert_waits(&row.id).await;
    let row = rig.ask_for("c.example").await;
    rig.decisions().add_missing().await.unwrap();
    testing::change_body(rig.store(), &row.id, "c.example", "d.example").await;
    rig.settle().await;
    assert_eq!(rig.platform.sent().len(), 1);
}

#[tokio::test]
async fn an_account_with_five_wrong_codes_is_ignored() {
    let rig = Rig::new().await;
    let (row, message, code) = rig.shown("a.example").await;
    let wrong = || text(&format!("approve {}", answer::new_code()));
    for number in 1..=5 {
        let (is_handled, told) = rig.write(wrong()).await;
        let told = told.unwrap();
        assert!(is_handled && told.contains("no request has this code"), "{told}");
        assert_eq!(told.contains("are ignored for ten minutes"), number == 5, "{told}");
    }
    // The right code, the right button: nothing, not even an answer.
    assert_eq!(rig.write(text(&format!("approve {code}"))).await, (true, None));
    assert_eq!(rig.press(ANN, &message, &message.buttons[0].id).await, []);
    rig.assert_waits(&row.id).await;
}

#[tokio::test]
async fn commands_on_the_host_are_neither_shown_nor_decided_unless_the_owner_turns_it_on() {
    let rig = Rig::new().await;
    let row = rig.ask(json!({"kind": "command", "command": "df -h"})).await;
    assert_eq!(row.state, RequestState::Waiting);
    rig.settle().await;
    assert_eq!(rig.platform.sent(), []);
    rig.set("approvals", json!({"bridgeHostCommands": true}));
    rig.settle().await;
    let message = rig.platform.sent().remove(0);
    assert!(message.markdown.contains("df -h"), "{}", message.markdown);
    rig.set("approvals", json!({}));
    assert!(rig.approve(ANN, &message).await.contains("commands on the host are not decided over bridges"));
    rig.assert_waits(&row.id).await;
    rig.set("approvals", json!({"bridgeHostCommands": true}));
    rig.approve(ANN, &message).await;
    rig.until(&row.id, RequestState::Done).await;
}

#[tokio::test]
async fn deciding_can_be_turned_off() {
    let rig = Rig::new().await;
    let (row, message, _) = rig.shown("a.example").await;
    rig.set("approvals", json!({"bridges": false}));
    let other = rig.ask_for("b.example").await;
    rig.settle().await;
    assert_eq!(rig.platform.sent().len(), 1);
    assert!(rig.approve(ANN, &message).await.contains("not decided over this bridge"));
    rig.set("approvals", json!({"bridges": ["slack"]}));
    assert!(rig.approve(ANN, &message).await.contains("not decided over this bridge"));
    rig.assert_waits(&row.id).await;
    rig.set("approvals", json!({"bridges": ["matrix"]}));
    rig.settle().await;
    assert!(rig.platform.sent()[1].markdown.contains(&other.id));
}

#[tokio::test]
async fn what_does_not_fit_into_one_message_is_not_decided_there() {
    let mut rig = Rig::new().await;
    rig.platform.most = 400;
    let row = rig.ask_for("a.example").await;
    rig.settle().await;
    let message = rig.platform.sent().remove(0);
    assert!(message.buttons.is_empty() && !message.markdown.contains("approve "), "{message:?}");
    assert!(message.markdown.contains(&format!("flock approvals show {}", row.id)), "{message:?}");
    let reply = IncomingMessage { reply_to: Some(message.id.clone()), ..text("approve") };
    assert!(rig.write(reply).await.1.unwrap().contains("could not be shown whole here"));
    rig.decisions().reacted(ROOM, &message.id, &sender(ANN), "👍").await.unwrap();
    rig.assert_waits(&row.id).await;
}

#[tokio::test]
async fn a_text_that_could_end_its_block_of_code_is_not_decided_there() {
    let rig = Rig::new().await;
    rig.set("approvals", json!({"bridgeHostCommands": true}));
    rig.ask(json!({"kind": "command", "command": "echo '```' hidden"})).await;
    rig.settle().await;
    let message = rig.platform.sent().remove(0);
    assert!(
        message.buttons.is_empty() && message.markdown.contains("can't be shown whole here"),
        "{message:?}"
    );
}

#[tokio::test]
async fn a_late_approval_has_to_be_repeated() {
    let rig = Rig::new().await;
    let (row, _, code) = rig.shown("a.example").await;
    let late = IncomingMessage { sent_at: unix_ms() - 3_600_000, ..text(&format!("approve {code}")) };
    assert!(rig.write(late.clone()).await.1.unwrap().contains("ten minutes late"));
    rig.assert_waits(&row.id).await;
    let denial = IncomingMessage { text: format!("deny {code}"), ..late };
    rig.write(denial).await;
    assert_eq!(rig.row(&row.id).await.state, RequestState::Denied);
}

#[tokio::test]
async fn ordinary_messages_and_reactions_are_none_of_a_decision() {
    let rig = Rig::new().await;
    let (row, message, code) = rig.shown("a.example").await;
    for said in ["hello", "approve", "deny that", "approve everything", "I approve"] {
        assert_eq!(rig.write(text(said)).await, (false, None), "{said}");
    }
    let quoting = IncomingMessage { reply_to: Some(message.id.clone()), ..text("approve it after lunch?") };
    assert_eq!(rig.write(quoting).await, (false, None));
    let other = IncomingMessage { reply_to: Some("m77".into()), ..text("approve") };
    assert_eq!(rig.write(other).await, (false, None));
    // The code in a channel that is not linked.
    let elsewhere = IncomingMessage { external: "elsewhere".into(), ..text(&format!("approve {code}")) };
    assert_eq!(rig.write(elsewhere).await, (false, None));
    rig.decisions().reacted(ROOM, &message.id, &sender(ANN), "👀").await.unwrap();
    rig.decisions().reacted(ROOM, "m77", &sender(ANN), "👍").await.unwrap();
    assert_eq!(rig.press(ANN, &message, "another:button").await, []);
    rig.assert_waits(&row.id).await;
}

#[tokio::test]
async fn a_paused_link_takes_no_decision() {
    let rig = Rig::new().await;
    let (row, message, _) = rig.shown("a.example").await;
    rig.store().links().set_paused("link".into(), true, true, entry(), 1).await.unwrap();
    assert!(rig.approve(ANN, &message).await.contains("is paused"));
    rig.ask_for("b.example").await;
    rig.settle().await;
    assert_eq!(rig.platform.sent().len(), 1, "nothing goes over it");
    rig.assert_waits(&row.id).await;
}

#[tokio::test]
async fn a_request_without_a_link_is_shown_nowhere() {
    let rig = Rig::new().await;
    rig.store().links().remove("link".into(), entry(), 1).await.unwrap();
    rig.ask_for("a.example").await;
    rig.settle().await;
    assert_eq!(rig.platform.sent(), []);
}

/// Does what a gateway does that was killed: nothing is left but the database.
async fn interrupted(repetition: Repetition, arrival: Arrival) -> (Rig, RequestRow) {
    let rig = Rig::on(FakePlatform::new(repetition, true)).await;
    let row = rig.ask_for("a.example").await;
    rig.platform.fall_silent(ROOM, arrival);
    tokio::select! {
        () = rig.settle() => panic!("it was answered"),
        () = rig.platform.unanswered.notified() => {}
    }
    rig.platform.answer_again();
    assert_eq!(rig.platform.sent().len(), usize::from(arrival == Arrival::Arrived));
    (rig, row)
}

#[tokio::test]
async fn a_message_that_was_sent_before_a_break_is_not_shown_twice() {
    for repetition in [Repetition::Key, Repetition::History] {
        for arrival in [Arrival::Arrived, Arrival::Lost] {
            let (rig, row) = interrupted(repetition, arrival).await;
            rig.settle().await;
            let sent = rig.platform.sent();
            assert_eq!(sent.len(), 1, "{repetition:?} {arrival:?}");
            rig.approve(ANN, &sent[0]).await;
            rig.until(&row.id, RequestState::Done).await;
        }
    }
}

#[tokio::test]
async fn of_a_message_that_may_be_there_twice_only_the_recorded_one_decides() {
    let (rig, row) = interrupted(Repetition::Nothing, Arrival::Arrived).await;
    rig.settle().await;
    let sent = rig.platform.sent();
    assert_eq!(sent.len(), 2);
    assert!(sent[1].markdown.contains("perhaps sent twice"), "{:?}", sent[1]);
    assert!(rig.approve(ANN, &sent[0]).await.contains("only in its own channel"));
    rig.assert_waits(&row.id).await;
    rig.approve(ANN, &sent[1]).await;
    rig.until(&row.id, RequestState::Done).await;
}

#[tokio::test]
async fn a_request_that_is_decided_before_its_message_is_recorded_leaves_no_button() {
    for repetition in [Repetition::Key, Repetition::History] {
        let (rig, row) = interrupted(repetition, Arrival::Arrived).await;
        let owner = Decider::Owner(Party::human("owner"));
        rig.triage.decide(&row.id, ApprovalDecision::Deny { reason: None }, &owner).await.unwrap();
        rig.settle().await;
        let sent = rig.platform.sent();
        assert_eq!(sent.len(), 1, "{repetition:?}");
        assert!(sent[0].is_edited && sent[0].buttons.is_empty(), "{:?}", sent[0]);
        assert!(sent[0].markdown.contains("was denied by human:owner"), "{:?}", sent[0]);
    }
}

#[tokio::test]
async fn a_channel_that_does_not_answer_holds_up_no_message_of_another() {
    let rig = Rig::new().await;
    rig.store().links().add(link("other", "!other:e.org"), entry()).await.unwrap();
    rig.platform.fall_silent(ROOM, Arrival::Lost);
    let row = rig.ask_for("a.example").await;
    let (wake, decisions) = (Notify::new(), rig.decisions());
    let works = async {
        while rig.platform.sent().is_empty() {
            tokio::task::yield_now().await;
        }
        let owner = Decider::Owner(Party::human("owner"));
        rig.triage.decide(&row.id, ApprovalDecision::Deny { reason: None }, &owner).await.unwrap();
        wake.notify_one();
        while !rig.platform.sent()[0].is_edited {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = decisions.settle(&wake) => panic!("the silent channel has answered"),
        () = works => {}
    }
    assert_eq!(rig.platform.sent()[0].external, "!other:e.org");
}

#[tokio::test]
async fn what_people_do_before_the_platform_has_answered_the_sending_decides() {
    let rig = Rig::new().await;
    let row = rig.ask_for("a.example").await;
    let reacts = async |message: SentMessage| rig.react(ROOM, &message.id, "👍").await;
    rig.before_the_answer(None, reacts).await;
    assert_eq!(rig.platform.take_answers(), [(ANN.to_owned(), format!("You approved {}.", row.id))]);
    rig.until(&row.id, RequestState::Done).await;
    let row = rig.ask_for("b.example").await;
    let replies = async |message: SentMessage| {
        rig.write(IncomingMessage { reply_to: Some(message.id), ..text("deny not now") }).await
    };
    let denied = rig.before_the_answer(None, replies).await;
    assert_eq!(denied, (true, Some(format!("You denied {}.", row.id))));
    let row = rig.ask_for("c.example").await;
    let presses = async |message: SentMessage| rig.approve(ANN, &message).await;
    let approved = rig.before_the_answer(None, presses).await;
    assert_eq!(approved, format!("You approved {}.", row.id));
    rig.until(&row.id, RequestState::Done).await;
    rig.settle().await;
    let sent = rig.platform.sent();
    assert!(sent.len() == 3 && sent.iter().all(|sent| sent.is_edited && sent.buttons.is_empty()), "{sent:?}");
}

#[tokio::test]
async fn a_reaction_before_a_sending_fails_decides_nothing() {
    let rig = Rig::new().await;
    let row = rig.ask_for("a.example").await;
    let down = PlatformError::Unavailable("down".into());
    let reacts = async |message: SentMessage| rig.react(ROOM, &message.id, "👍").await;
    rig.before_the_answer(Some(&down), reacts).await;
    rig.assert_waits(&row.id).await;
    assert_eq!(rig.platform.take_answers(), []);
}

#[tokio::test]
async fn nothing_waits_for_a_sending_but_what_may_be_about_its_message() {
    const OTHER: &str = "!other:e.org";
    let rig = Rig::new().await;
    let (row, message, _) = rig.shown("a.example").await;
    rig.store().links().add(link("other", OTHER), entry()).await.unwrap();
    rig.platform.fall_silent(OTHER, Arrival::Arrived);
    let events = async {
        rig.platform.unanswered.notified().await;
        rig.react(OTHER, "m77", "👀").await;
        let reply = IncomingMessage { external: OTHER.into(), reply_to: Some("m77".into()), ..text("hello") };
        assert_eq!(rig.write(reply).await, (false, None));
        rig.react(ROOM, "m77", "👎").await;
        rig.assert_waits(&row.id).await;
        rig.react(ROOM, &message.id, "👎").await;
    };
    tokio::select! {
        () = rig.settle() => panic!("the silent channel has answered"),
        // Far less than the longest wait for a sending.
        ended = tokio::time::timeout(Duration::from_secs(20), events) => ended.unwrap(),
    }
    assert_eq!(rig.row(&row.id).await.state, RequestState::Denied);
}

#[tokio::test]
async fn reactions_are_named_only_where_flock_hears_them() {
    for (hears_reactions, is_named) in [(true, true), (false, false)] {
        let mut platform = FakePlatform::new(Repetition::Nothing, true);
        platform.limits.hears_reactions = hears_reactions;
        let (_, message, _) = Rig::on(platform).await.shown("a.example").await;
        assert_eq!(message.markdown.contains("a reaction"), is_named, "{}", message.markdown);
    }
}

#[tokio::test]
async fn a_request_that_is_decided_before_it_is_shown_is_not_shown() {
    let rig = Rig::new().await;
    let row = rig.ask_for("a.example").await;
    rig.decisions().add_missing().await.unwrap();
    let owner = Decider::Owner(Party::human("owner"));
    rig.triage.decide(&row.id, ApprovalDecision::Deny { reason: None }, &owner).await.unwrap();
    rig.settle().await;
    assert_eq!(rig.platform.sent(), []);
    assert_eq!(rig.store().decision_messages().due("matrix", true).await.unwrap(), []);
}

#[tokio::test]
async fn a_failed_edit_is_tried_again_and_a_refused_one_is_not() {
    let rig = Rig::new().await;
    let (row, message, _) = rig.shown("a.example").await;
    rig.approve(ANN, &message).await;
    rig.until(&row.id, RequestState::Done).await;
    rig.platform.fail(PlatformError::Unavailable("down".into()), Arrival::Lost);
    let next = rig.decisions().settle(&Notify::new()).await.unwrap();
    assert!(next.is_some_and(|next| next > unix_ms() - 1000), "{next:?}");
    rig.platform.fail(PlatformError::Refused("the message is gone".into()), Arrival::Lost);
    let end = tokio::time::Instant::now() + Duration::from_secs(20);
    while rig.decisions().settle(&Notify::new()).await.unwrap().is_some() {
        assert!(tokio::time::Instant::now() < end);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(rig.store().decision_messages().due("matrix", true).await.unwrap(), []);
}

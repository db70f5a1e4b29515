use std::collections::BTreeSet;
use std::sync::Mutex;

use super::*;
use crate::config;
use crate::id::{ChannelId, Party, SessionKey};
use crate::store::{
    AuditEntry, AuditFilter, InboxItemKind, LeaseSubject, Level, NewGateway, NewInboxItem, NewSession,
    SharedConfig, testing,
};
use crate::swarm::Actor;
use crate::swarm::channel::ChannelSpec;
use crate::swarm::testing::Team;

/// The step at which an operation is interrupted.
#[derive(Clone, Copy, Debug, PartialEq)]
enum InterruptAt {
    Never,
    AtRelease,
    AtPackages,
    AtOpenClaw,
}

/// A fake whose future never ends at the chosen step, which simulates a killed process.
struct InterruptedServices {
    at: InterruptAt,
    calls: Mutex<Vec<&'static str>>,
}

impl InterruptedServices {
    fn new(at: InterruptAt) -> Self {
        Self { at, calls: Mutex::default() }
    }

    async fn step(&self, name: &'static str, this: InterruptAt) {
        self.calls.lock().unwrap().push(name);
        if self.at == this {
            std::future::pending::<()>().await;
        }
    }
}

impl ExternalServices for InterruptedServices {
    fn release<'a>(&'a self, _: &'a AgentId) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async {
            self.step("release", InterruptAt::AtRelease).await;
            Ok(())
        })
    }

    fn forget_packages<'a>(&'a self, _: &'a AgentId) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async {
            self.step("packages", InterruptAt::AtPackages).await;
            Ok(())
        })
    }

    fn rename_packages<'a>(&'a self, _: &'a AgentId, _: &'a AgentId) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async {
            self.step("packages", InterruptAt::AtPackages).await;
            Ok(())
        })
    }

    fn openclaw_drops<'a>(&'a self, _: &'a AgentId) -> BoxFuture<'a, bool> {
        Box::pin(async {
            self.step("openclaw", InterruptAt::AtOpenClaw).await;
            true
        })
    }
}

fn coder() -> AgentId {
    "coder".parse().unwrap()
}

/// A team whose coder has a session, a membership, unread messages, and files.
async fn team() -> Team {
    let team = Team::new();
    let home = team.swarm.home();
    let dev: ChannelId = "dev".parse().unwrap();
    let members = vec!["coder".parse().unwrap(), "tester".parse().unwrap()];
    let wanted = ChannelSpec { id: dev, topic: "work".into(), members, message: None };
    team.swarm.create_channel(&Actor::human("ann"), wanted).await.unwrap();
    let key: SessionKey = "agent:coder:flock:channel:dev".parse().unwrap();
    team.store.sessions().create(NewSession { key: key.clone(), file: "one".into() }, 1).await.unwrap();
    let item = NewInboxItem {
        session: key,
        kind: InboxItemKind::Notice,
        sender: "system".into(),
        text: "x".into(),
        task: None,
        now: 1,
    };
    team.store.inbox().add(item).await.unwrap();
    let asleep = Actor::system().entry("agent.sleep", "coder", crate::store::Level::Green, String::new());
    team.store.agents().set_asleep(coder(), Some("tired".into()), asleep, 1).await.unwrap();
    for folder in
        [home.sessions(&coder()), home.workspace(&coder()), home.openclaw_state().join("agents/coder")]
    {
        fs_err::create_dir_all(&folder).unwrap();
        fs_err::write(folder.join("file"), "x").unwrap();
    }
    team
}

fn removal(team: &Team, purge: bool) -> PendingOperation {
    PendingOperation {
        agent: coder(),
        operation: AgentOperation::Remove { purge, workspace: team.swarm.home().workspace(&coder()) },
        by: "human:ann".into(),
        begun_at: crate::clock::unix_ms(),
        configured: false,
    }
}

/// Returns every trace of the coder.
async fn traces(team: &Team) -> Vec<String> {
    let (home, id) = (team.swarm.home(), coder());
    let mut found = Vec::new();
    let mut note = |is_there: bool, what: &str| {
        if is_there {
            found.push(what.to_owned());
        }
    };
    note(config::read(home).unwrap().agent(&id).is_some(), "configuration");
    note(!team.store.sessions().list(Some(&id), 9).await.unwrap().is_empty(), "session");
    note(!team.store.inbox().sessions().await.unwrap().is_empty(), "item");
    note(team.store.agents().state(&id).await.unwrap().is_some(), "state");
    let party = Party::Agent(id.clone());
    note(!team.store.channels().list(Some(&party), None).await.unwrap().is_empty(), "membership");
    note(home.agent(&id).exists(), "transcripts");
    note(home.workspace(&id).exists(), "workspace");
    note(home.openclaw_state().join("agents/coder").exists(), "openclaw");
    note(pending::read(home, &id).unwrap().is_some(), "record");
    found
}

async fn removals(team: &Team) -> usize {
    let rows = team.store.audit().rows(&AuditFilter::default(), 100).await.unwrap();
    rows.iter().filter(|row| row.action == "agent.remove").count()
}

#[tokio::test]
async fn an_interrupted_removal_is_finished_by_the_next_call() {
    for at in [InterruptAt::AtRelease, InterruptAt::AtPackages, InterruptAt::AtOpenClaw] {
        let team = team().await;
        let pending = removal(&team, true);
        pending::write(team.swarm.home(), &pending).unwrap();
        let cut = InterruptedServices::new(at);
        {
            let interrupted = finish(&team.swarm, &cut, pending);
            let soon = Box::pin(tokio::time::timeout(std::time::Duration::from_secs(30), async {
                tokio::select! {
                    _ = interrupted => panic!("it was not interrupted"),
                    () = async { while cut.calls.lock().unwrap().len() < at as usize { tokio::task::yield_now().await; } } => {}
                }
            }));
            soon.await.unwrap();
        }
        assert!(traces(&team).await.contains(&"record".to_owned()), "{at:?}: {:?}", traces(&team).await);
        let whole = InterruptedServices::new(InterruptAt::Never);
        let ended = finish_all(&team.swarm, &whole).await.unwrap();
        assert!(matches!(&ended[..], [(_, Ok(warnings))] if warnings.is_empty()), "{at:?}: {ended:?}");
        assert_eq!(traces(&team).await, Vec::<String>::new(), "{at:?}");
        assert_eq!(removals(&team).await, 1, "{at:?}: the audit says it once");
        assert!(finish_all(&team.swarm, &whole).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn an_agent_is_free_once_no_gateway_of_the_group_has_it_or_will_take_it() {
    let team = team().await;
    let (store, pending) = (&team.store, removal(&team, true));
    let services = InterruptedServices::new(InterruptAt::Never);
    let workspace = team.swarm.home().workspace(&coder());
    let (swarm, purge) = (&team.swarm, true);
    let removal =
        removal::Removal { swarm, services: &services, pending: &pending, workspace: &workspace, purge };
    assert_eq!(removal.is_free().await.unwrap(), None, "there is no group");
    let config = |text: String| SharedConfig { text, root: String::new(), by: String::new() };
    let with_coder = fs_err::read_to_string(swarm.home().config()).unwrap();
    let entry = AuditEntry::new("human:ann", "gateway.invite", "gateways", Level::Yellow, String::new());
    assert!(store.gateway_group().make("mark".into(), config(with_coder), entry, 1).await.unwrap());
    assert_eq!(removal.is_free().await.unwrap(), None, "no gateway lives");
    let new = NewGateway {
        home: "a".into(),
        name: "a".into(),
        address: "127.0.0.1:1".into(),
        version: "1.0.0".into(),
    };
    let owner = testing::register_gateway(store, new).await;
    assert_eq!(removal.is_free().await.unwrap(), Some(false), "it may take the agent");
    let known = store.gateway_group().revision().await.unwrap().unwrap();
    store.gateway_group().replace_config(known, config("{}".into()), None).await.unwrap();
    assert_eq!(removal.is_free().await.unwrap(), Some(true));
    let subject = BTreeSet::from([LeaseSubject::agent(&coder())]);
    store.leases().take(owner, subject.clone()).await.unwrap();
    assert_eq!(removal.is_free().await.unwrap(), Some(false), "it has the agent");
    store.leases().give_up(owner, subject).await.unwrap();
    assert_eq!(removal.is_free().await.unwrap(), Some(true));
    store.gateways().leave(owner).await.unwrap();
    assert_eq!(removal.is_free().await.unwrap(), None, "no gateway lives any more");
}

#[tokio::test]
async fn removal_without_purge_keeps_files_and_sessions() {
    let team = team().await;
    let pending = removal(&team, false);
    pending::write(team.swarm.home(), &pending).unwrap();
    finish(&team.swarm, &InterruptedServices::new(InterruptAt::Never), pending).await.unwrap();
    assert_eq!(traces(&team).await, ["session", "item", "state", "transcripts", "workspace", "openclaw"]);
}

#[tokio::test]
async fn an_agent_added_again_during_its_removal_stays_configured() {
    let team = team().await;
    let home = team.swarm.home();
    let pending = PendingOperation { configured: true, ..removal(&team, true) };
    pending::write(home, &pending).unwrap();
    finish(&team.swarm, &InterruptedServices::new(InterruptAt::Never), pending).await.unwrap();
    assert_eq!(traces(&team).await, ["configuration"]);
}

#[tokio::test]
async fn a_failed_step_keeps_the_record_of_the_operation() {
    let team = team().await;
    let pending = removal(&team, true);
    pending::write(team.swarm.home(), &pending).unwrap();
    let error = finish(&team.swarm, &FailingServices, pending).await.unwrap_err();
    assert_eq!(error.to_string(), "failed to move or take away the packages of coder: the store is ill");
    assert_eq!(traces(&team).await, ["openclaw", "record"]);
    let found = pending::read(team.swarm.home(), &coder()).unwrap().unwrap();
    assert!(found.configured && found.purges());
    assert_eq!(found.command(), "flock remove coder --purge");
    // Another process is working on it.
    let lock = pending::try_lock(team.swarm.home()).unwrap();
    assert!(finish_all(&team.swarm, &InterruptedServices::new(InterruptAt::Never)).await.unwrap().is_empty());
    drop(lock);
    assert_eq!(
        finish_all(&team.swarm, &InterruptedServices::new(InterruptAt::Never)).await.unwrap().len(),
        1
    );
    assert_eq!(traces(&team).await, Vec::<String>::new());
}

/// A fake whose package store refuses every request.
struct FailingServices;

impl ExternalServices for FailingServices {
    fn release<'a>(&'a self, _: &'a AgentId) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }

    fn forget_packages<'a>(&'a self, _: &'a AgentId) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async { Err("the store is ill".to_owned()) })
    }

    fn rename_packages<'a>(&'a self, _: &'a AgentId, _: &'a AgentId) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async { Err("the store is ill".to_owned()) })
    }

    fn openclaw_drops<'a>(&'a self, _: &'a AgentId) -> BoxFuture<'a, bool> {
        Box::pin(async { true })
    }
}

fn rename_to(team: &Team, to: &str) -> PendingOperation {
    let workspace = team.swarm.home().workspace(&coder());
    let operation = AgentOperation::Rename { to: to.parse().unwrap(), workspace, restart: false };
    PendingOperation { operation, ..removal(team, false) }
}

#[tokio::test]
async fn a_rename_that_is_interrupted_anywhere_is_finished_and_the_audit_keeps_the_old_id() {
    for at in [InterruptAt::AtRelease, InterruptAt::AtPackages, InterruptAt::AtOpenClaw] {
        let team = team().await;
        let (home, maker) = (team.swarm.home(), "maker".parse::<AgentId>().unwrap());
        // Another agent's session with the renamed one gets the new id too.
        let theirs = NewSession { key: "agent:tester:flock:dm:coder".parse().unwrap(), file: "two".into() };
        team.store.sessions().create(theirs, 1).await.unwrap();
        let pending = rename_to(&team, "maker");
        pending::write(home, &pending).unwrap();
        let cut = InterruptedServices::new(at);
        tokio::select! {
            _ = finish(&team.swarm, &cut, pending) => panic!("it was not interrupted"),
            () = async { while cut.calls.lock().unwrap().len() < at as usize { tokio::task::yield_now().await; } } => {}
        }
        let ended = finish_all(&team.swarm, &InterruptedServices::new(InterruptAt::Never)).await.unwrap();
        assert!(matches!(&ended[..], [(_, Ok(_))]), "{at:?}: {ended:?}");
        assert_eq!(
            traces(&team).await,
            ["item"],
            "{at:?}: nothing is the old one's but what waits for the new one"
        );
        assert!(config::read(home).unwrap().agent(&maker).is_some());
        let keys: Vec<String> = team
            .store
            .sessions()
            .list(None, 9)
            .await
            .unwrap()
            .iter()
            .map(|session| session.key.to_string())
            .collect();
        assert!(keys.contains(&"agent:maker:flock:channel:dev".to_owned()), "{keys:?}");
        assert!(keys.contains(&"agent:tester:flock:dm:maker".to_owned()), "{keys:?}");
        let waiting = team.store.inbox().sessions().await.unwrap();
        assert_eq!(waiting[0].as_str(), "agent:maker:flock:channel:dev");
        let party = Party::Agent(maker.clone());
        assert_eq!(team.store.channels().list(Some(&party), None).await.unwrap().len(), 1);
        assert!(team.store.agents().state(&maker).await.unwrap().unwrap().asleep_at.is_some());
        for folder in
            [home.sessions(&maker), home.workspace(&maker), home.openclaw_state().join("agents/maker")]
        {
            assert_eq!(fs_err::read_to_string(folder.join("file")).unwrap(), "x");
        }
        let rows = team.store.audit().rows(&AuditFilter::default(), 100).await.unwrap();
        let renames: Vec<_> = rows.iter().filter(|row| row.action == "agent.rename").collect();
        assert_eq!((renames.len(), renames[0].subject.as_str()), (1, "coder"), "{at:?}");
        assert!(rows.iter().any(|row| row.action == "agent.sleep" && row.subject == "coder"));
    }
}

#[test]
fn a_silent_engine_is_passed_over_only_if_the_agent_is_not_on_it() {
    let name = |text: &str| text.parse::<EngineName>().unwrap();
    let silent = |engine: Option<EngineName>| {
        let endpoint = "unix:///nowhere".to_owned();
        Err(NixError::Sandbox(SandboxError::Unavailable { engine, endpoint, source: "gone".into() }))
    };
    let local = EngineName::local();
    let changed = || vec![(local.clone(), Ok(())), (name("big"), silent(Some(name("big"))))];
    assert_eq!(all_done(changed(), &local), Ok(()));
    let error = all_done(changed(), &name("big")).unwrap_err();
    assert!(error.contains("big"), "{error}");
    // A machine without an engine of its own has no packages.
    assert_eq!(all_done(vec![(local.clone(), silent(None))], &local), Ok(()));
    let failed = Err(NixError::NotAnAttribute("x y".to_owned()));
    assert!(all_done(vec![(name("big"), failed)], &local).is_err(), "any other failure counts");
}

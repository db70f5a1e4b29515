//! What is kept of sessions, and what a request costs.

use std::sync::Arc;

use flock::agent::{TurnRequest, identity};
use flock::config::Live;
use flock::gateway::projects::Projects;
use flock::home::Home;
use flock::id::{AgentId, SessionKey, SessionKind};
use flock::provider::{BoxFuture, Role};
use flock::sandbox::workspace_files::Workspaces;
use flock::sandbox::{BackgroundJob, Command, CommandOutcome, JobReply, JobRequest, Sandbox, SandboxError};
use flock::store::Store;
use flock::swarm::triage::{Executor, FiledRequest, Triage};
use flock::swarm::{self, Notifier, Swarm};
use flock::tool::sessions::{HistoryEntry, SessionInfo, SessionService, SessionServiceError};
use flock::tool::{AgentLookup, Tool, catalog};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::rig::{Rig, Set, key, main_key, open, registry, turn};
use crate::support::model_server::Reply;

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_listed_with_what_they_cost_and_what_was_said() {
    let rig = Rig::new();
    rig.server.reply(Reply::call("1", "echo", &json!({"a": 1}))).reply(Reply::text("the answer"));
    rig.say("the question").await.unwrap();
    rig.run(TurnRequest { session: key(SessionKind::Request, "r"), ..turn("other") }).await.unwrap();
    let listed = rig.engine.sessions(Some(&"coder".parse().unwrap()), 10).await.unwrap();
    assert_eq!(listed.len(), 2);
    let main = rig.engine.session(&main_key()).await.unwrap().unwrap();
    assert_eq!((main.turns, main.busy, main.usage.output), (1, false, 10));
    assert_eq!(main.model.as_deref(), Some("fake/test-model"));
    let history = rig.engine.history(&main_key(), 10).await.unwrap().unwrap();
    let said: Vec<(Role, &str)> = history.iter().map(|entry| (entry.role, entry.text.as_str())).collect();
    assert_eq!(
        said,
        [
            (Role::User, "the question"),
            (Role::Assistant, r#"[calls echo {"a":1}]"#),
            (Role::Tool, r#"[echo answered: echo {"a":1}]"#),
            (Role::Assistant, "the answer"),
        ]
    );
    assert_eq!(rig.engine.history(&main_key(), 1).await.unwrap().unwrap()[0].text, "the answer");
    assert!(rig.engine.history(&key(SessionKind::Dm, "nobody"), 10).await.unwrap().is_none());
    assert!(rig.engine.sessions(Some(&"other".parse().unwrap()), 10).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_put_beside_a_message_for_the_model_is_not_shown_as_the_persons_words() {
    let rig = Rig::new();
    let time = "<flock-context source=\"flock\">time: 2026-01-02 03:04 +00:00</flock-context>";
    rig.server.reply(Reply::text(&format!("{time}\nit is late")));
    rig.say(&format!("what time is it?{time}")).await.unwrap();
    rig.say(&format!("what is {time} for?")).await.unwrap();
    let history = rig.engine.history(&main_key(), 10).await.unwrap().unwrap();
    let texts: Vec<&str> = history.iter().map(|entry| entry.text.as_str()).collect();
    assert_eq!(texts, ["what time is it?", "it is late", &format!("what is {time} for?"), "ok"]);
    // The model is not shown its own repetition; what is stored stays.
    let asked = rig.asked();
    assert_eq!(asked[1]["content"], "it is late");
    let stored = &rig.transcript()[3]["message"]["content"][0]["text"];
    assert_eq!(stored.as_str().unwrap(), format!("{time}\nit is late"));
}

#[tokio::test(flavor = "multi_thread")]
async fn old_requests_are_kept_until_they_are_to_be_forgotten() {
    let rig = Rig::new();
    rig.run(TurnRequest { session: key(SessionKind::Request, "r"), ..turn("hi") }).await.unwrap();
    let request_file = rig.transcript_path();
    rig.say("hi").await.unwrap();
    let later = open(&rig.home(), Set::default().limits, registry(Vec::new()));
    later.recover().await.unwrap();
    assert!(request_file.exists(), "a start deletes none, whatever the clock says");
    later.forget_requests(i64::MAX).await.unwrap();
    assert!(!request_file.exists());
    assert_eq!(later.sessions(None, 10).await.unwrap().len(), 1, "the session of a person stays");
    assert_eq!(later.history(&main_key(), 10).await.unwrap().unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_a_purged_agent_are_forgotten() {
    let rig = Rig::new();
    rig.say("hi").await.unwrap();
    let mut document = rig.config();
    let agents = &mut document["plugins"]["entries"]["flock"]["config"]["gatewayAgents"];
    agents.as_array_mut().unwrap().retain(|agent| agent["id"] != "coder");
    document["agents"]["list"].as_array_mut().unwrap().retain(|agent| agent["id"] != "coder");
    rig.write_config(&document);
    rig.engine.recover().await.unwrap();
    assert_eq!(rig.engine.sessions(None, 10).await.unwrap().len(), 1, "its transcripts are kept");
    std::fs::remove_dir_all(rig.home().agent(&"coder".parse().unwrap())).unwrap();
    rig.engine.recover().await.unwrap();
    assert!(rig.engine.sessions(None, 10).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_forgets_old_sessions_of_a_purged_agent_while_it_runs() {
    let rig = Rig::new();
    rig.say("hi").await.unwrap();
    let coder = "coder".parse().unwrap();
    rig.engine.forget_purged(i64::MAX).await.unwrap();
    let mut document = rig.config();
    let agents = &mut document["plugins"]["entries"]["flock"]["config"]["gatewayAgents"];
    agents.as_array_mut().unwrap().retain(|agent| agent["id"] != "coder");
    document["agents"]["list"].as_array_mut().unwrap().retain(|agent| agent["id"] != "coder");
    rig.write_config(&document);
    rig.engine.forget_purged(i64::MAX).await.unwrap();
    assert_eq!(rig.engine.sessions(None, 10).await.unwrap().len(), 1, "its transcripts are kept");
    let (agents, away) = (rig.home().root().join("agents"), rig.home().root().join("away"));
    std::fs::rename(&agents, &away).unwrap();
    rig.engine.forget_purged(i64::MAX).await.unwrap();
    std::fs::rename(&away, &agents).unwrap();
    assert_eq!(rig.engine.sessions(None, 10).await.unwrap().len(), 1, "the files are not mounted");
    std::fs::remove_dir_all(rig.home().agent(&coder)).unwrap();
    rig.engine.forget_purged(0).await.unwrap();
    assert_eq!(rig.engine.sessions(None, 10).await.unwrap().len(), 1, "it was used since");
    rig.engine.forget_purged(i64::MAX).await.unwrap();
    assert!(rig.engine.sessions(None, 10).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn many_sessions_at_once_stay_apart() {
    let rig = Arc::new(Rig::new());
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..8 {
        let rig = Arc::clone(&rig);
        tasks.spawn(async move {
            for m in 0..5 {
                let session = key(SessionKind::Main, &format!("peer{n}"));
                rig.run(TurnRequest { session, ..turn(&format!("{n}.{m}")) }).await.unwrap();
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    for n in 0..8 {
        let session = key(SessionKind::Main, &format!("peer{n}"));
        let history = rig.engine.history(&session, 100).await.unwrap().unwrap();
        assert_eq!(history.len(), 10);
        assert!(history.iter().all(|entry| entry.text == "ok" || entry.text.starts_with(&format!("{n}."))));
    }
}

/// No command is run and no session reached: only the tools' descriptions matter here.
struct Nothing;

impl SessionService for Nothing {
    fn list<'a>(&'a self, _: &'a AgentId) -> BoxFuture<'a, Result<Vec<SessionInfo>, SessionServiceError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn status<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<SessionInfo, SessionServiceError>> {
        Box::pin(async { Err(SessionServiceError::NotFound(key.clone())) })
    }

    fn history<'a>(
        &'a self,
        key: &'a SessionKey,
        _: usize,
    ) -> BoxFuture<'a, Result<Vec<HistoryEntry>, SessionServiceError>> {
        Box::pin(async { Err(SessionServiceError::NotFound(key.clone())) })
    }

    fn send<'a>(
        &'a self,
        _: &'a SessionKey,
        to: &'a SessionKey,
        _: String,
    ) -> BoxFuture<'a, Result<(), SessionServiceError>> {
        Box::pin(async { Err(SessionServiceError::NotFound(to.clone())) })
    }

    fn spawn<'a>(
        &'a self,
        _: &'a SessionKey,
        child: SessionKey,
        _: String,
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<String, SessionServiceError>> {
        Box::pin(async { Err(SessionServiceError::NotFound(child)) })
    }
}

fn off<T: Send + 'static>(agent: &AgentId) -> BoxFuture<'static, Result<T, SandboxError>> {
    let error = SandboxError::Off(agent.clone());
    Box::pin(async { Err(error) })
}

impl Sandbox for Nothing {
    fn ensure<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), SandboxError>> {
        off(agent)
    }

    fn run<'a>(
        &'a self,
        agent: &'a AgentId,
        _: Command,
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<CommandOutcome, SandboxError>> {
        off(agent)
    }

    fn spawn<'a>(
        &'a self,
        agent: &'a AgentId,
        _: Command,
    ) -> BoxFuture<'a, Result<BackgroundJob, SandboxError>> {
        off(agent)
    }

    fn jobs<'a>(
        &'a self,
        agent: &'a AgentId,
        _: JobRequest,
    ) -> BoxFuture<'a, Result<JobReply, SandboxError>> {
        off(agent)
    }

    fn remove<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), SandboxError>> {
        off(agent)
    }

    fn pause<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), SandboxError>> {
        off(agent)
    }

    fn resume<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), SandboxError>> {
        off(agent)
    }
}

/// All tools of flock itself, as a gateway has them.
fn team_tools(home: &Home) -> Vec<Arc<dyn Tool>> {
    let (ringer, _) = tokio::sync::mpsc::unbounded_channel();
    let store = Arc::new(Store::open(home).unwrap());
    let swarm = Arc::new(Swarm::new(swarm::SwarmParts {
        live: Arc::new(Live::open(home.clone()).unwrap()),
        store,
        notifier: Notifier::new(ringer, Arc::new(|_, _| {})),
    }));
    let triage = Triage::new(swarm.clone(), Arc::new(Nothing));
    let projects = Arc::new(Projects::new(Arc::clone(&swarm)));
    let team = swarm::tools::assembled(&swarm, &triage, home);
    [team, flock::bridge::tool::all(&triage), flock::gateway::projects::tools::all(&projects)].concat()
}

impl Executor for Nothing {
    fn carry_out<'a>(
        &'a self,
        _: &'a FiledRequest,
        _: &'a tokio_util::sync::CancellationToken,
    ) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(async { Err("nothing is carried out here".to_owned()) })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documentation_has_each_tool_of_the_team_and_what_it_takes() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/tools.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows: Vec<(&str, &str)> =
        page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`')).collect();
    for tool in catalog::flocks_own() {
        let name = tool.name;
        assert!(rows.iter().any(|(known, _)| *known == name), "docs/tools.md says nothing of {name}");
    }
    let of_team = |name: &str| name.starts_with("flock_") || name == "triage_decision";
    for (name, _) in rows.iter().filter(|(name, _)| of_team(name)) {
        assert!(catalog::find(name).is_some(), "docs/tools.md has {name}");
    }
    let rig = Rig::new();
    for tool in team_tools(&rig.home()) {
        let spec = tool.spec();
        let (_, row) = rows.iter().find(|(known, _)| *known == spec.name).unwrap();
        // What else a request takes depends on its kind, and is on a page of its own.
        let is_request = spec.name == "flock_sysadmin_request";
        for parameter in spec.parameters["properties"].as_object().unwrap().keys().filter(|_| !is_request) {
            assert!(row.contains(&format!("`{parameter}`")), "docs/tools.md: {} {parameter}", spec.name);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hello_to_a_default_worker_costs_at_most_16_kb() {
    for api in ["openai-completions", "anthropic-messages"] {
        let agents: AgentLookup = Arc::new(|_| None);
        let parts = catalog::ToolServices {
            sandbox: Arc::new(Nothing),
            sessions: Arc::new(Nothing),
            agents,
            workspaces: Workspaces::of_this_machine(),
        };
        let mut registry = catalog::build(&parts);
        let team = Rig::new();
        team_tools(&team.home()).into_iter().for_each(|tool| registry.add(tool));
        let specs: Vec<_> = registry.iter().map(|tool| tool.spec().clone()).collect();
        assert_eq!(specs, catalog::specs(), "each tool of the table is in the registry, in the same order");
        let names: Vec<String> = specs.into_iter().map(|spec| spec.name).collect();
        let rig = Rig::with(Set { api, registry, ..Set::default() });
        let workspace = rig.home().workspace(&"coder".parse().unwrap());
        let coder = "coder".parse().unwrap();
        let folder = rig.home().identity(&coder);
        let who = identity::AgentIdentity {
            id: &coder,
            role: flock::config::Role::Worker,
            archetype: Some("production-first-developer"),
            archetypes: &rig.home().archetypes(),
        };
        identity::write(&folder, &workspace, &who).unwrap();
        std::fs::create_dir_all(rig.home().vaults().join("shared")).unwrap();
        rig.say("hello").await.unwrap();
        let body = rig.server.requests().pop().unwrap().body;
        let offered = body["tools"].to_string();
        for name in names {
            let roles = catalog::find(&name).and_then(|tool| tool.roles);
            assert!(roles.is_some() || !name.starts_with("flock_"), "{name} is in no role");
            let has = roles.is_none_or(|roles| roles.include(flock::config::Role::Worker));
            // Without a project, an agent pays nothing for the tools of projects.
            let has = has && !name.starts_with("flock_project_");
            assert_eq!(offered.contains(&format!("\"{name}\"")), has, "{name}");
        }
        assert!(body.to_string().contains("AGENTS.md") && body.to_string().contains("Shared knowledge"));
        let (size, schemas) = (body.to_string().len(), offered.len());
        assert!(schemas <= 10 * 1024, "{api}: {schemas} bytes of tools");
        assert!(size <= 16 * 1024, "{api}: {size} bytes: {body:#}");
    }
}

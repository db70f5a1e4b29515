//! Checks that a cluster can hold sandboxes: that it answers, what flock may do there, and a sandbox that is made in it,
//! compared with its specification and probed from inside.

use std::sync::Arc;

use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use super::client::ClusterClient;
use super::{KubernetesSandbox, relocation};
use crate::config::{Agent, Config, EngineSettings};
use crate::error::chain;
use crate::home::{Home, elsewhere, remove_tree};
use crate::sandbox::engine::Engine;
use crate::sandbox::engine_check::EngineCheck;
use crate::sandbox::engines::{Engines, PlacedCluster, PlacementRecords};
use crate::sandbox::{Command, CommandExit, Sandbox as _, SandboxError};

/// The rights that flock needs in a namespace: verbs, the group of the API, and the resources.
const RIGHTS: [(&[&str], &str, &[&str]); 4] = [
    (&["get", "list", "create", "delete"], "", &["pods"]),
    (&["get", "list", "create", "delete"], "", &["persistentvolumeclaims"]),
    (&["get", "list", "create", "update", "delete"], "", &["configmaps"]),
    (&["get", "list", "create", "update", "delete"], "networking.k8s.io", &["networkpolicies"]),
];
/// The streams of a pod. Newer clusters ask for `create`, older ones for `get`.
const STREAMS: [&str; 2] = ["pods/attach", "pods/exec"];
/// The file by which a sandbox shows that it has the workspace that was brought to it.
const MARK_FILE: &str = "mark";

/// Checks a cluster. The first check that fails ends the run, because the others need what it lacks.
pub(crate) async fn run(
    home: &Home,
    config: &Config,
    settings: &EngineSettings,
    placed: &PlacedCluster,
) -> Vec<EngineCheck> {
    let mut checks = Vec::new();
    checks.push(match placed.client.ping().await {
        Ok(version) => EngineCheck::ok("engine", format!("Kubernetes {version}")),
        Err(error) => EngineCheck::failed("engine", &error, "look at the cluster's address and certificates"),
    });
    if checks.iter().all(|check| check.ok) {
        checks.push(rights(&placed.client).await);
    }
    if checks.iter().all(|check| check.ok) {
        checks.push(Box::pin(walls(home, config, settings, placed)).await);
    }
    checks
}

/// Asks the cluster what the access may do, so that what is missing is named at once.
pub(crate) async fn rights(client: &ClusterClient) -> EngineCheck {
    const NAME: &str = "rights";
    let mut missing = Vec::new();
    let asked = async {
        for (verbs, group, resources) in RIGHTS {
            for resource in resources {
                for verb in verbs {
                    if !client.may(verb, group, resource).await? {
                        missing.push(format!("{verb} {resource}"));
                    }
                }
            }
        }
        for resource in STREAMS {
            if !client.may("create", "", resource).await? {
                missing.push(format!("create {resource}"));
            }
        }
        Ok::<_, SandboxError>(())
    };
    match asked.await {
        Err(error) => EngineCheck::failed(NAME, &error, "let this access ask for its own rights"),
        Ok(()) if missing.is_empty() => EngineCheck::ok(
            NAME,
            format!("all that is needed in the namespace {}", client.address().namespace),
        ),
        Ok(()) => {
            let text = format!("this access may not: {}", missing.join(", "));
            EngineCheck::bad(NAME, text, "give it a role with these rights in the namespace")
        }
    }
}

/// Makes a sandbox in the cluster, compares and probes it, and has it read a file that was brought to it. Everything of it
/// is removed.
async fn walls(
    home: &Home,
    config: &Config,
    settings: &EngineSettings,
    placed: &PlacedCluster,
) -> EngineCheck {
    const NAME: &str = "walls";
    let agent = settings.trial(home);
    let (id, folder) = (agent.id.clone(), home.engine_trial(&settings.name));
    let mark = crate::id::hex(&rand::random::<[u8; 16]>());
    let clear = || remove_tree::clear(&home.engine_trials(), std::path::Path::new(settings.name.as_str()));
    // One that was interrupted may have left something.
    if elsewhere::read(&agent.workspace).is_some() {
        forget(home, &agent, placed).await;
    }
    let _ = clear();
    let trial = agent.clone();
    let made = fs_err::create_dir_all(&agent.workspace)
        .and_then(|()| fs_err::write(agent.workspace.join(MARK_FILE), &mark));
    if let Err(source) = made {
        let error = SandboxError::Host { path: agent.workspace, source };
        return EngineCheck::failed(NAME, &error, "flock doctor");
    }
    let alone = Arc::new(Config {
        agents: vec![agent].into(),
        projects: Vec::new(),
        engines: vec![settings.clone()],
        ..config.clone()
    });
    let source: crate::sandbox::docker::ConfigSource = Arc::new(move || Arc::clone(&alone));
    let records = PlacementRecords::Home(OnceCell::new());
    let local = Arc::new(Engine::from_env());
    let engines = Arc::new(Engines::new(home.clone(), Arc::clone(&source), local, records));
    let sandbox = KubernetesSandbox::new(home.clone(), source, Arc::clone(&engines));
    let tried = async {
        sandbox.probe(&id).await?;
        let command = Command { command: format!("cat {MARK_FILE}"), keep: 1024, ..Command::default() };
        sandbox.run(&id, command, &CancellationToken::new()).await
    };
    let check = match tried.await {
        Ok(outcome) if outcome.end == CommandExit::Exited(0) && outcome.output.head == mark.as_bytes() => {
            EngineCheck::ok(NAME, "a sandbox in it is confined and has the workspace that was brought to it")
        }
        Ok(_) => EngineCheck::bad(
            NAME,
            "a sandbox in it does not have the workspace that was brought to it",
            "look at the cluster's volumes",
        ),
        Err(error) => EngineCheck::failed(NAME, &error, "look at the pod's events"),
    };
    forget(home, &trial, placed).await;
    if let Err((stuck, _)) = clear() {
        tracing::warn!(folder = %folder.display(), error = %stuck.error, "the trial's folder may still exist");
    }
    check
}

/// Removes what a trial has in the cluster.
async fn forget(home: &Home, trial: &Agent, placed: &PlacedCluster) {
    let removed = async {
        relocation::remove_sandbox(placed, home, &trial.id).await?;
        match elsewhere::read(&trial.workspace) {
            Some(mark) => relocation::remove_volume(placed, home, &mark).await.map(drop),
            None => Ok(()),
        }
    };
    if let Err(error) = removed.await {
        tracing::warn!(engine = %placed.name, error = chain(&error), "the trial's objects may still exist");
    }
}

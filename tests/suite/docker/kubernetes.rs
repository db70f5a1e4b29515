//! Sandboxes in a Kubernetes cluster, which is a stand-in: the whole life of an agent there, what a cluster does to pods, and
//! `flock engine` with a cluster.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use flock::config::{ClusterSettings, EngineSettings, secret};
use flock::error::Explain as _;
use flock::home::{Home, elsewhere, instance};
use flock::sandbox::docker::DockerSandbox;
use flock::sandbox::helper;
use flock::sandbox::image::{self, Recipe};
use flock::sandbox::kubernetes::KubernetesSandbox;
use flock::sandbox::kubernetes::access::ClusterAccess;
use flock::sandbox::kubernetes::client::ClusterClient;
use flock::sandbox::placed_sandbox::PlacedSandbox;
use flock::sandbox::workspace_files::WorkspaceFiles;
use flock::sandbox::{
    Command, CommandExit, CommandOutcome, JobRequest, Relocation, Sandbox as _, SandboxError,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::sandbox::id;
use crate::support::cluster::Cluster;
use crate::support::docker::{self, Team, docker as docker_command};
use crate::support::home::TempHome;
use crate::support::wait_until;

const LIMIT: Duration = Duration::from_secs(60);

/// An image with the helper in it, which is removed at the end.
struct ClusterImage(String);

impl ClusterImage {
    fn of(base: &str) -> Self {
        Self::with(base, helper::PROGRAM)
    }

    /// One with another program in the place of the helper.
    fn with(base: &str, helper: &[u8]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("flock-helper");
        std::fs::write(&program, helper).unwrap();
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let reference = format!("flock-stand-in:{:08x}", rand::random::<u32>());
        let container = docker_command(&["create", base, "true"]);
        docker_command(&["cp", program.to_str().unwrap(), &format!("{container}:/flock-helper")]);
        docker_command(&["commit", &container, &reference]);
        docker_command(&["rm", &container]);
        Self(reference)
    }
}

impl Drop for ClusterImage {
    fn drop(&mut self) {
        let _ = std::process::Command::new("docker").args(["rmi", &self.0]).output();
    }
}

struct Scene {
    cluster: Cluster,
    _image: ClusterImage,
    team: Team,
}

impl Scene {
    /// A home whose agent `ada` is in the cluster `far`.
    fn new() -> Option<Self> {
        let team = Team::new(&["ada"])?;
        instance::settle(&team.home).unwrap();
        let image = ClusterImage::of(&base(&team));
        let cluster = Cluster::start();
        give_access(&team.home, &cluster, "stand-in");
        let far = EngineSettings {
            labels: vec!["far".into()],
            cluster: Some(ClusterSettings { image: image.0.clone(), storage: 1 << 30, storage_class: None }),
            ..EngineSettings::new("far".parse().unwrap(), Some("k8s://stand-in/flock".into()))
        };
        team.configure(|config| {
            config.engines = vec![far];
            config.agents[0].labels = vec!["far".into()];
            config.agents[0].docker.memory = Some(128 << 20);
        });
        Some(Self { cluster, _image: image, team })
    }

    /// A gateway's view of the sandboxes; several at once are several processes, one after the other.
    fn sandbox(&self) -> (PlacedSandbox, Arc<KubernetesSandbox>) {
        self.sandbox_of(&self.team.home)
    }

    /// Another home with the same files, and the folder in which it is.
    fn second_home(&self) -> (Home, tempfile::TempDir) {
        let folder = tempfile::Builder::new().prefix("flock-test-").tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap().join("second");
        std::fs::create_dir(&root).unwrap();
        std::os::unix::fs::symlink(self.team.home.root(), root.join("files")).unwrap();
        let second = Home::new(root, None);
        second.make_folders().unwrap();
        instance::settle(&second).unwrap();
        assert_eq!(second.workspace(&id("ada")), self.workspace(), "they have the same files");
        give_access(&second, &self.cluster, "stand-in");
        (second, folder)
    }

    /// The view of the gateway of a home.
    fn sandbox_of(&self, home: &Home) -> (PlacedSandbox, Arc<KubernetesSandbox>) {
        let engine = Arc::clone(&self.team.engine);
        let docker = Arc::new(DockerSandbox::new(home.clone(), self.team.source(), engine));
        let engines = Arc::clone(docker.engines());
        let clusters = Arc::new(KubernetesSandbox::new(home.clone(), self.team.source(), engines));
        (PlacedSandbox::new(docker, Arc::clone(&clusters), self.team.source()), clusters)
    }

    fn workspace(&self) -> std::path::PathBuf {
        self.team.home.workspace(&id("ada"))
    }

    fn left(&self, resource: &str) -> usize {
        self.cluster.objects(resource).len()
    }
}

/// The image of the sandboxes, without the helper.
fn base(team: &Team) -> String {
    image::reference(&team.home, &(team.source())(), Recipe::Sandbox)
}

/// Gives a home the access that a context of the cluster's kubeconfig has.
fn give_access(home: &Home, cluster: &Cluster, context: &str) {
    let access = ClusterAccess::from_kubeconfig(&cluster.kubeconfig(), context).unwrap();
    secret::set(home, &ClusterAccess::secret(&"far".parse().unwrap()), &access.to_text()).unwrap();
}

async fn run(sandbox: &PlacedSandbox, command: &str) -> Result<CommandOutcome, SandboxError> {
    let command = Command { command: command.to_owned(), keep: 64 << 10, ..Command::default() };
    sandbox.run(&id("ada"), command, &CancellationToken::new()).await
}

/// Runs a command after the connection was cut. One that begins before this is noticed is lost.
async fn run_after_cut(sandbox: &PlacedSandbox, command: &str) -> Result<CommandOutcome, SandboxError> {
    match run(sandbox, command).await {
        Err(SandboxError::Lost { .. }) => run(sandbox, command).await,
        answer => answer,
    }
}

async fn output(sandbox: &PlacedSandbox, command: &str) -> String {
    text_of(&run(sandbox, command).await.unwrap(), command)
}

async fn output_after_cut(sandbox: &PlacedSandbox, command: &str) -> String {
    text_of(&run_after_cut(sandbox, command).await.unwrap(), command)
}

fn text_of(outcome: &CommandOutcome, command: &str) -> String {
    let text = String::from_utf8_lossy(&outcome.output.head).trim().to_owned();
    assert_eq!(outcome.end, CommandExit::Exited(0), "{command}: {text}");
    text
}

#[test]
fn an_agent_lives_in_a_cluster_and_comes_back_with_its_workspace() {
    let Some(scene) = Scene::new() else { return };
    std::fs::create_dir_all(scene.workspace().join("notes")).unwrap();
    std::fs::write(scene.workspace().join("notes/before"), "from here\n").unwrap();
    docker::block_on(async {
        let (sandbox, _) = scene.sandbox();
        assert_eq!(output(&sandbox, "cat notes/before; echo there > after; id -u").await, "from here\n10001");
        let (pods, claims) = (scene.cluster.objects("pods"), scene.cluster.objects("persistentvolumeclaims"));
        assert_eq!((pods.len(), claims.len()), (1, 1));
        assert_eq!(scene.cluster.objects("networkpolicies").len(), 1);
        assert_eq!(elsewhere::engine_of(&scene.workspace()).unwrap().as_str(), "far");
        assert!(sandbox.probe(&id("ada")).await.unwrap().is_confined());
        let outcome = run(&sandbox, "echo x > AGENTS.md").await.unwrap();
        assert_ne!(outcome.end, CommandExit::Exited(0), "who it is, an agent can't change");

        // The file tools reach the volume by the helper.
        let files = WorkspaceFiles::from(sandbox.remote_files(&id("ada"), true).await.unwrap().unwrap());
        let (files, read) = tokio::task::spawn_blocking(move || {
            files.write(Path::new("by-tool"), b"tool", None, None).unwrap();
            let read = files.read(Path::new("after"), 100).unwrap();
            (files, read)
        })
        .await
        .unwrap();
        assert_eq!(read, b"there\n");
        drop(files);
        assert_eq!(output(&sandbox, "cat by-tool").await, "tool");

        // A connection that is cut ends neither a background job nor a command, which is run once.
        let job = Command { command: "sleep 1000".into(), keep: 1024, ..Command::default() };
        let job = sandbox.spawn(&id("ada"), job).await.unwrap();
        let waits = async || {
            output(&sandbox, "echo began >> runs; until [ -e go ]; do sleep 0.1; done; cat runs").await
        };
        let lets_it_go = async || {
            let begun = async || output(&sandbox, "until [ -e runs ]; do sleep 0.1; done; cat after").await;
            assert_eq!(begun().await, "there");
            scene.cluster.cut();
            output(&sandbox, "touch go").await;
        };
        assert_eq!(tokio::join!(waits(), lets_it_go()).0, "began");
        let jobs = sandbox.jobs(&id("ada"), JobRequest::List).await.unwrap().jobs;
        assert!(jobs.iter().any(|found| found.id == job.id && found.end.is_none()), "{jobs:?}");
        assert_eq!(scene.cluster.objects("pods")[0]["metadata"]["uid"], pods[0]["metadata"]["uid"]);

        // Frozen, nothing of it runs, and nothing begins.
        sandbox.pause(&id("ada")).await.unwrap();
        assert!(matches!(run(&sandbox, "true").await.unwrap_err(), SandboxError::Frozen(_)));
        sandbox.resume(&id("ada")).await.unwrap();
        assert_eq!(output(&sandbox, "grep -c . after").await, "1");

        // Another process of the home uses the same pod.
        drop(sandbox);
        let (sandbox, clusters) = scene.sandbox();
        assert_eq!(output(&sandbox, "cat after").await, "there");
        assert_eq!(scene.cluster.objects("pods")[0]["metadata"]["uid"], pods[0]["metadata"]["uid"]);
        sandbox.jobs(&id("ada"), JobRequest::Kill(job.id)).await.unwrap();

        // Drained, it comes back with all of its files.
        scene.team.configure(|config| {
            config.engines[0].is_draining = true;
            config.agents[0].labels.clear();
        });
        let engines = Arc::clone(sandbox.docker().engines());
        let planned = engines.moves(None).await.unwrap();
        assert_eq!(planned.len(), 1);
        let moved = sandbox.relocate(&planned[0]).await.unwrap();
        assert!(matches!(&moved, Relocation::Done(to) if to.is_local()), "{moved:?}");
        for (path, text) in [("notes/before", "from here\n"), ("after", "there\n"), ("by-tool", "tool")] {
            assert_eq!(std::fs::read_to_string(scene.workspace().join(path)).unwrap(), text);
        }
        assert_eq!(output(&sandbox, "cat after").await, "there");
        wait_until("its objects go", LIMIT, || {
            let all = ["pods", "persistentvolumeclaims", "configmaps"].map(|found| scene.left(found));
            (all == [0, 0, 0]).then_some(()).ok_or_else(|| format!("{all:?}"))
        });
        clusters.stop_all().await.unwrap();
        sandbox.remove(&id("ada")).await.unwrap();
    });
}

/// The number of processes that a pod of the stand-in may have.
const MOST_PROCESSES: usize = 256;

/// Starts processes until there is room for no more.
const FILL: &str = "python3 -c 'import subprocess, time
while True:
    try: subprocess.Popen([\"sleep\", \"1000\"])
    except OSError: time.sleep(0.01)'";

async fn spawn(sandbox: &PlacedSandbox, command: &str) {
    let job = Command { command: command.to_owned(), keep: 1024, ..Command::default() };
    sandbox.spawn(&id("ada"), job).await.unwrap();
}

/// Waits until the processes of the only pod are as wanted, by what the machine's engine tells of them: a heading, and a line
/// with the state for each.
fn until_processes(scene: &Scene, what: &str, are_so: impl Fn(&str) -> bool) {
    tokio::task::block_in_place(|| {
        wait_until(what, LIMIT, || {
            let processes = docker_command(&["top", &scene.cluster.container(), "-eo", "pid,stat,args"]);
            are_so(&processes).then_some(()).ok_or(processes)
        });
    });
}

/// Returns `true` if a process with this command line is stopped.
fn is_stopped(processes: &str, command: &str) -> bool {
    let mut lines = processes.lines().filter(|line| line.contains(command));
    lines.any(|line| line.split_whitespace().nth(1).is_some_and(|state| state.starts_with('T')))
}

#[test]
fn a_pod_that_can_not_be_stopped_is_ended_by_a_freeze_and_nothing_waits_for_its_processes() {
    let Some(scene) = Scene::new() else { return };
    let ada = id("ada");
    docker::block_on(async {
        let (sandbox, _) = scene.sandbox();
        assert_eq!(output(&sandbox, "echo kept > kept; cat kept").await, "kept");

        // There is no room for a command of flock's own.
        spawn(&sandbox, FILL).await;
        let is_full = |processes: &str| processes.lines().count() > MOST_PROCESSES;
        until_processes(&scene, "the pod is full", is_full);
        tokio::time::timeout(LIMIT, sandbox.pause(&ada)).await.unwrap().unwrap();
        assert_eq!(scene.left("pods"), 0, "what could not be stopped is gone");
        assert!(matches!(run(&sandbox, "true").await.unwrap_err(), SandboxError::Frozen(_)));
        tokio::time::timeout(LIMIT, sandbox.resume(&ada)).await.unwrap().unwrap();
        assert_eq!(output(&sandbox, "cat kept").await, "kept", "a new pod has the volume");

        // Every command of flock's own is stopped before it can do anything, as all else is.
        spawn(&sandbox, "sleep 1000").await;
        spawn(&sandbox, "while :; do kill -STOP -1; done").await;
        until_processes(&scene, "the job stops the others", |found| is_stopped(found, "sleep 1000"));
        tokio::time::timeout(LIMIT, sandbox.pause(&ada)).await.unwrap().unwrap();
        if scene.left("pods") > 0 {
            // The command was faster than the job.
            until_processes(&scene, "the job is stopped", |found| is_stopped(found, "kill -STOP -1"));
        }
        sandbox.remove(&ada).await.unwrap();

        // Another process of the home finds such a pod.
        assert_eq!(output(&sandbox, "cat kept").await, "kept");
        spawn(&sandbox, FILL).await;
        until_processes(&scene, "the pod is full", is_full);
        drop(sandbox);
        let (sandbox, _) = scene.sandbox();
        let error = tokio::time::timeout(LIMIT, run(&sandbox, "true")).await.unwrap().unwrap_err();
        assert!(matches!(&error, SandboxError::NotSignalled { .. }), "{error}");
        assert_eq!(error.hint().as_deref(), Some("flock freeze ada && flock thaw ada"));
        sandbox.pause(&ada).await.unwrap();
        sandbox.resume(&ada).await.unwrap();
        assert_eq!(output(&sandbox, "cat kept").await, "kept");
    });
}

#[test]
fn an_agent_whose_job_runs_stays_on_a_drained_cluster_also_after_a_restart() {
    let Some(scene) = Scene::new() else { return };
    docker::block_on(async {
        let (sandbox, _) = scene.sandbox();
        assert_eq!(output(&sandbox, "echo kept > kept; cat kept").await, "kept");
        spawn(&sandbox, "until [ -e go ]; do sleep 0.1; done").await;
        let pod = scene.cluster.objects("pods")[0]["metadata"]["uid"].clone();
        drop(sandbox);
        scene.team.configure(|config| {
            config.engines[0].is_draining = true;
            config.agents[0].labels.clear();
            // Its next command would get another pod.
            config.agents[0].docker.memory = Some(192 << 20);
        });
        let (sandbox, _) = scene.sandbox();
        let planned = sandbox.docker().engines().moves(None).await.unwrap().remove(0);
        let waits = async |reason: &str| {
            let moved = sandbox.relocate(&planned).await.unwrap();
            assert!(matches!(&moved, Relocation::Waits(found) if found.starts_with(reason)), "{moved:?}");
            assert_eq!(scene.cluster.objects("pods")[0]["metadata"]["uid"], pod);
        };
        waits("a background job runs").await;
        scene.cluster.deny(&["create pods/attach"]);
        waits("it is not known what runs in its sandbox: the cluster far failed to attach").await;
        scene.cluster.deny(&[]);
        docker_command(&["exec", &scene.cluster.container(), "touch", "/workspace/go"]);
        let moves = async {
            while let Relocation::Waits(reason) = sandbox.relocate(&planned).await.unwrap() {
                assert!(reason.starts_with("a background job runs"), "{reason}");
            }
        };
        tokio::time::timeout(LIMIT, moves).await.unwrap();
        assert_eq!(std::fs::read_to_string(scene.workspace().join("kept")).unwrap(), "kept\n");
        sandbox.remove(&id("ada")).await.unwrap();
    });
}

#[test]
fn what_a_cluster_does_to_pods_costs_a_clear_state_and_no_file() {
    let Some(scene) = Scene::new() else { return };
    docker::block_on(async {
        let sandbox = Arc::new(scene.sandbox().0);
        assert_eq!(output(&sandbox, "echo kept > kept; cat kept").await, "kept");

        // A command whose pod is evicted is not run again, and its error says what happened.
        let command =
            Command { command: "echo begun >> kept; sleep 1000".into(), keep: 1024, ..Command::default() };
        let running = Arc::clone(&sandbox);
        let running =
            tokio::spawn(async move { running.run(&id("ada"), command, &CancellationToken::new()).await });
        tokio::task::block_in_place(|| {
            wait_until("the command runs", LIMIT, || {
                let processes = docker_command(&["top", &scene.cluster.container()]);
                processes.contains("sleep 1000").then_some(()).ok_or(processes)
            });
        });
        scene.cluster.evict();
        let error = running.await.unwrap();
        let error = error.unwrap_err();
        assert!(error.to_string().contains("Evicted: The node was low on resource"), "{error}");
        assert_eq!(output(&sandbox, "cat kept").await, "kept\nbegun", "a new pod has the volume");

        // The API server is gone for a moment, in which a command waits.
        scene.cluster.set_gone(true);
        let comes_back = async || {
            while scene.cluster.refused() == 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            scene.cluster.set_gone(false);
        };
        let both = async { tokio::join!(output(&sandbox, "tail -1 kept"), comes_back()) };
        assert_eq!(tokio::time::timeout(LIMIT, both).await.unwrap().0, "begun");

        // The API server is gone when a pod is to be made: that is known by name, and afterwards all goes on.
        sandbox.remove(&id("ada")).await.unwrap();
        scene.cluster.set_gone(true);
        let error = run(&sandbox, "true").await.unwrap_err();
        assert!(
            matches!(&error, SandboxError::Unavailable { engine: Some(name), .. } if name.as_str() == "far"),
            "{error}"
        );
        scene.cluster.set_gone(false);
        assert_eq!(output(&sandbox, "tail -1 kept").await, "begun");

        // Somebody gives the pod another container: it is not used any more.
        scene
            .cluster
            .change("pods", |pod| pod["spec"]["ephemeralContainers"] = json!([{"name": "debugger"}]));
        scene.cluster.cut();
        let error = run_after_cut(&sandbox, "true").await.unwrap_err();
        assert!(
            matches!(&error, SandboxError::NotConfined { finding, .. } if finding.contains("ephemeral")),
            "{error}"
        );
        assert_eq!(output(&sandbox, "tail -1 kept").await, "begun", "another one is made");

        // Somebody opens the network: the policy is put back before the next pod is used.
        scene.cluster.change("networkpolicies", |policy| policy["spec"]["egress"] = json!([{}]));
        scene.cluster.cut();
        assert_eq!(output_after_cut(&sandbox, "tail -1 kept").await, "begun");
        assert!(scene.cluster.objects("networkpolicies")[0]["spec"].get("egress").is_none());

        // The cluster loosens each pod when it is made.
        scene.cluster.set_admission(|pod| pod["spec"]["hostNetwork"] = json!(true));
        sandbox.remove(&id("ada")).await.unwrap();
        let error = run(&sandbox, "true").await.unwrap_err();
        assert!(
            matches!(&error, SandboxError::NotConfined { finding, .. } if finding.contains("hostNetwork")),
            "{error}"
        );
        scene.cluster.set_admission(|_| ());

        // An object of that name which is another home's is left alone.
        assert_eq!(output(&sandbox, "tail -1 kept").await, "begun");
        scene.cluster.change("pods", |pod| pod["metadata"]["labels"]["flock.home"] = json!("another"));
        scene.cluster.cut();
        let error = run_after_cut(&sandbox, "true").await.unwrap_err();
        assert!(matches!(&error, SandboxError::Foreign { .. }), "{error}");
        scene.cluster.lose("pods");

        // The volume is lost: no empty one is taken for the workspace.
        scene.cluster.lose("persistentvolumeclaims");
        let error = run(&sandbox, "true").await.unwrap_err();
        assert!(
            matches!(&error, SandboxError::Workspace { what, .. } if what.starts_with("is gone")),
            "{error}"
        );
        assert!(scene.cluster.objects("persistentvolumeclaims").is_empty());
    });
}

#[test]
fn a_workspace_that_can_not_be_brought_stays_here_and_leaves_nothing_there() {
    let Some(scene) = Scene::new() else { return };
    std::fs::create_dir_all(scene.workspace()).unwrap();
    std::fs::write(scene.workspace().join("mine"), "mine").unwrap();
    docker::block_on(async {
        let (sandbox, _) = scene.sandbox();
        scene.cluster.deny(&["create pods/exec"]);
        let error = run(&sandbox, "true").await.unwrap_err();
        assert!(
            matches!(&error, SandboxError::Cluster { what, .. } if what.starts_with("start a program in")),
            "{error}"
        );
        assert_eq!(std::fs::read_to_string(scene.workspace().join("mine")).unwrap(), "mine");
        wait_until("what was tried goes", LIMIT, || {
            let all = ["pods", "persistentvolumeclaims"].map(|found| scene.left(found));
            (all == [0, 0]).then_some(()).ok_or_else(|| format!("{all:?}"))
        });
        scene.cluster.deny(&[]);
        assert_eq!(output(&sandbox, "cat mine").await, "mine");
    });
}

#[test]
fn a_command_that_is_cancelled_while_its_pod_is_made_leaves_no_volume() {
    let Some(scene) = Scene::new() else { return };
    std::fs::create_dir_all(scene.workspace()).unwrap();
    std::fs::write(scene.workspace().join("mine"), "mine").unwrap();
    let claims = "persistentvolumeclaims";
    docker::block_on(async {
        let (sandbox, _) = scene.sandbox();
        let (ada, cancel) = (id("ada"), CancellationToken::new());
        let command = Command { command: "true".into(), keep: 16, ..Command::default() };
        let is_claimed = async {
            while scene.left(claims) == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            cancel.cancel();
        };
        let (outcome, ()) = tokio::join!(sandbox.run(&ada, command, &cancel), is_claimed);
        assert_eq!(outcome.unwrap().end, CommandExit::Cancelled);
        let goes = async {
            while scene.left(claims) + scene.left("pods") > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(LIMIT, goes).await.unwrap();
        assert_eq!(std::fs::read_to_string(scene.workspace().join("mine")).unwrap(), "mine");
        assert_eq!(output(&sandbox, "cat mine").await, "mine");
        assert_eq!(scene.left(claims), 1);
        sandbox.remove(&ada).await.unwrap();
    });
}

/// A program that answers the greeting as a helper of the protocol's version 9999.
const OTHER_HELPER: &[u8] = br#"#!/usr/bin/python3
import os, time
def take(count):
    found = b""
    while len(found) < count:
        found += os.read(0, count - len(found))
    return found
def checksum(*parts):
    total = len(parts[1])
    for part in parts:
        whole = len(part) // 8 * 8
        words = [int.from_bytes(part[i:i + 8], "little") for i in range(0, whole, 8)]
        for word in words + list(part[whole:]):
            total = (total ^ word) * 0x9E3779B97F4A7C15 % 2**64
            total = (total << 29 | total >> 35) % 2**64
    return (total ^ total >> 32) % 2**32
hello = take(32)
take(int.from_bytes(hello[8:12], "little"))
nonce, payload = hello[12:28], (9999).to_bytes(4, "little") + b"\0"
masked = bytes(a ^ b for a, b in zip(payload, nonce))
head = bytes([65, 0, 0, 0]) + len(payload).to_bytes(4, "little") + nonce
os.write(1, hello[:4] + head + checksum(head, masked).to_bytes(4, "little") + masked)
time.sleep(1000)
"#;

#[test]
fn an_image_whose_helper_speaks_another_version_is_refused_by_name() {
    let Some(scene) = Scene::new() else { return };
    let other = ClusterImage::with(&base(&scene.team), OTHER_HELPER);
    scene.team.configure(|config| config.engines[0].cluster.as_mut().unwrap().image.clone_from(&other.0));
    docker::block_on(async {
        let (sandbox, _) = scene.sandbox();
        let error = run(&sandbox, "true").await.unwrap_err();
        let SandboxError::ClusterImage { image, why, .. } = &error else { panic!("{error:?}") };
        assert_eq!(*image, other.0);
        assert!(why.contains("9999"), "{why}");
        wait_until("its pod goes", LIMIT, || match scene.left("pods") {
            0 => Ok(()),
            count => Err(format!("{count}")),
        });
    });
}

#[test]
fn only_the_given_authority_is_trusted_and_only_a_known_client_is_served() {
    let Some(team) = Team::new(&[]) else { return };
    let cluster = Cluster::start();
    let client = ClusterClient::new(
        team.home.clone(),
        "far".parse().unwrap(),
        "k8s://stand-in/flock".parse().unwrap(),
    );
    docker::block_on(async {
        for context in ["stand-in", "certificate"] {
            give_access(&team.home, &cluster, context);
            assert_eq!(client.ping().await.unwrap(), "v1.33.0", "{context}");
        }
        for context in ["misled", "public"] {
            give_access(&team.home, &cluster, context);
            let error = client.ping().await.unwrap_err();
            assert!(matches!(&error, SandboxError::Unavailable { .. }), "{context}: {error:?}");
            let text = flock::error::chain(&error);
            assert!(text.contains("certificate"), "{context}: {text}");
        }
        give_access(&team.home, &cluster, "stranger");
        let error = client.ping().await.unwrap_err();
        assert!(flock::error::chain(&error).contains("HTTP 401"), "{error:?}");
        // A new access is used at once.
        give_access(&team.home, &cluster, "stand-in");
        assert!(client.ping().await.is_ok());
    });
}

#[test]
fn a_gateway_of_a_group_finds_the_volume_of_an_agent_that_another_one_had() {
    let Some(scene) = Scene::new() else { return };
    std::fs::write(scene.team.home.root().join("flock-files"), "0123456789abcdef\n").unwrap();
    let (second, _folder) = scene.second_home();
    docker::block_on(async {
        let here = scene.sandbox().0;
        assert_eq!(output(&here, "echo first > seen; cat seen").await, "first");
        let of_first = scene.cluster.objects("pods")[0]["metadata"]["uid"].clone();

        // The agent is the second gateway's from now on. The first one was cut off and has left its pod.
        let (there, clusters) = scene.sandbox_of(&second);
        assert_eq!(output(&there, "cat seen; echo second >> seen").await, "first");
        let pods = scene.cluster.objects("pods");
        assert_eq!(pods.len(), 1, "two pods never have the same workspace: {pods:#?}");
        assert_ne!(pods[0]["metadata"]["uid"], of_first);
        assert_eq!((scene.left("persistentvolumeclaims"), scene.left("networkpolicies")), (1, 2));

        // It ends its own pods only, and the agent goes back.
        clusters.stop_all().await.unwrap();
        assert_eq!(output(&here, "cat seen").await, "first\nsecond");
        clusters.stop_all().await.unwrap();
        assert_eq!(output(&here, "wc -l < seen").await, "2");
        assert_eq!(scene.left("persistentvolumeclaims"), 1);
    });
}

#[test]
fn a_copy_of_a_home_leaves_the_pod_and_the_volume_of_the_original_alone() {
    let Some(scene) = Scene::new() else { return };
    // It has the same mark, and is in no group.
    let (second, _folder) = scene.second_home();
    docker::block_on(async {
        let here = scene.sandbox().0;
        assert_eq!(output(&here, "echo first > seen; cat seen").await, "first");
        let pods = scene.cluster.objects("pods");
        let there = scene.sandbox_of(&second).0;
        let error = run(&there, "echo second >> seen").await.unwrap_err();
        assert!(matches!(&error, SandboxError::OfOtherHome { .. }), "{error:?}");
        let hint = error.hint().unwrap();
        for command in ["kubectl label pvc flock-ws-ada-", "flock engine remove far --force"] {
            assert!(hint.contains(command), "{hint}");
        }
        let now = scene.cluster.objects("pods");
        assert_eq!((now.len(), &now[0]["metadata"]["uid"]), (1, &pods[0]["metadata"]["uid"]));
        assert_eq!(output(&here, "cat seen").await, "first");
    });
}

#[test]
fn pods_are_shown_where_containers_are() {
    let Some(home) = TempHome::init_in_docker() else { return };
    let cluster = Cluster::start_plain();
    let kubeconfig = home.file("kubeconfig.json");
    std::fs::write(&kubeconfig, cluster.kubeconfig()).unwrap();
    let image = ClusterImage(format!("flock-stand-in-cli:{:08x}", rand::random::<u32>()));
    home.flock(["engine", "image", &image.0]).ok();
    let add = ["engine", "add", "far", "k8s://stand-in/flock", "--labels", "gpu", "--image", &image.0];
    home.flock([&add[..], &["--kubeconfig", kubeconfig.to_str().unwrap()]].concat()).ok();
    home.flock(["start"]).ok();
    home.flock(["add", "painter", "--labels", "gpu"]).ok();
    let painter = || {
        let status = home.flock(["status", "--json"]).ok().json();
        let found = status["containers"].as_array().cloned().unwrap_or_default();
        found.into_iter().find(|one| one["agent"] == "painter").unwrap_or_default()
    };
    let shown = painter();
    assert_eq!(
        (&shown["state"], &shown["probe"]["confined"]),
        (&json!("running"), &json!(true)),
        "{shown:#}"
    );
    home.flock(["freeze", "painter"]).ok();
    wait_until("it is shown as frozen", LIMIT, || {
        let shown = painter();
        if shown["state"] == "paused" { Ok(()) } else { Err(shown.to_string()) }
    });
    home.flock(["stop"]).ok();
    wait_until("its pod goes", LIMIT, || match cluster.objects("pods").len() {
        0 => Ok(()),
        count => Err(format!("{count}")),
    });
}

#[test]
fn a_cluster_is_added_checked_shown_and_removed() {
    let Some(home) = TempHome::init_in_docker() else { return };
    let cluster = Cluster::start_plain();
    let kubeconfig = home.file("kubeconfig.json");
    std::fs::write(&kubeconfig, cluster.kubeconfig()).unwrap();
    let image = format!("flock-stand-in-cli:{:08x}", rand::random::<u32>());
    let _image = ClusterImage(image.clone());
    home.flock(["engine", "image", &image]).ok();
    let add = |more: &[&str]| {
        let all =
            ["engine", "add", "far", "k8s://stand-in/flock", "--kubeconfig", kubeconfig.to_str().unwrap()];
        home.flock([&all[..], more].concat())
    };
    let secret = home.file("secrets/engine-far.cluster");

    // What can't be used is refused, and nothing of it stays.
    assert!(add(&[]).fails(2).stderr.contains("a cluster needs --image"));
    home.flock([
        "engine",
        "add",
        "far",
        "k8s://other/flock",
        "--image",
        "a",
        "--kubeconfig",
        kubeconfig.to_str().unwrap(),
    ])
    .fails(2);
    cluster.deny(&["create pods/attach"]);
    let run = add(&["--image", &image]).fails(1);
    assert!(run.stderr.contains("this access may not: create pods/attach"), "{run:?}");
    cluster.deny(&[]);
    let run = add(&["--image", "flock-stand-in-cli:none"]).fails(1);
    assert!(
        run.stderr.contains("the image flock-stand-in-cli:none of the cluster far can't be used"),
        "{run:?}"
    );
    assert!(!secret.exists());

    let added = add(&["--image", &image, "--labels", "gpu", "--json"]).ok().json();
    assert!(added["checks"].as_array().unwrap().iter().any(|check| check["name"] == "walls"), "{added:#}");
    assert!(secret.is_file());
    assert!(!home.config_text().contains("stand-in-token") && !added.to_string().contains("stand-in-token"));
    for resource in ["pods", "configmaps", "persistentvolumeclaims"] {
        wait_until("the trial goes", LIMIT, || {
            let left = cluster.objects(resource);
            left.is_empty().then_some(()).ok_or_else(|| format!("{left:?}"))
        });
    }
    home.flock(["add", "painter", "--labels", "gpu"]).ok();
    assert_eq!(cluster.objects("pods").len(), 1);
    let listed = home.flock(["engine", "list", "--json"]).ok().json();
    let far = listed["engines"].as_array().unwrap().iter().find(|engine| engine["name"] == "far").unwrap();
    assert_eq!((&far["reachable"], &far["agents"][0]["id"]), (&json!(true), &json!("painter")));
    assert_eq!(far["address"], "k8s://stand-in/flock");
    home.flock(["engine", "show", "far", "--check"]).ok();
    // An access that the cluster does not take, or that may do too little, replaces nothing.
    let former = std::fs::read(&secret).unwrap();
    let renew = |text: String| {
        std::fs::write(&kubeconfig, text).unwrap();
        home.flock(["engine", "renew", "far", "--kubeconfig", kubeconfig.to_str().unwrap()])
    };
    let run = renew(cluster.kubeconfig().replace("stand-in-token", "wrong-token")).fails(1);
    let text = "the cluster far did not take the new access, so the former one is still used";
    assert!(run.stderr.contains(text) && run.stderr.contains("Unauthorized"), "{run:?}");
    cluster.deny(&["delete networkpolicies"]);
    let run = renew(cluster.kubeconfig()).fails(1);
    assert!(run.stderr.contains("this access may not: delete networkpolicies"), "{run:?}");
    cluster.deny(&[]);
    assert_eq!(std::fs::read(&secret).unwrap(), former);
    renew(cluster.kubeconfig()).ok();
    let doctor = home.flock(["doctor", "--json"]).json();
    let checks = doctor["checks"].as_array().unwrap();
    let is_walls = |check: &serde_json::Value| check["message"].as_str().unwrap().starts_with("far, walls: ");
    assert!(checks.iter().any(|check| check["name"] == "engines" && is_walls(check)), "{doctor:#}");

    home.flock(["engine", "remove", "far"]).fails(5);
    home.flock(["remove", "painter", "--purge", "--yes"]).ok();
    home.flock(["engine", "remove", "far"]).ok();
    assert!(!secret.exists());
    for resource in ["pods", "configmaps", "persistentvolumeclaims", "networkpolicies"] {
        wait_until("everything of the home goes", LIMIT, || {
            let left = cluster.objects(resource);
            left.is_empty().then_some(()).ok_or_else(|| format!("{left:?}"))
        });
    }
    let audit = home.flock(["audit", "--json"]).ok().stdout;
    assert!(audit.contains("engine.add") && audit.contains("k8s://stand-in/flock"), "{audit}");
    assert!(audit.contains("engine.renew"), "{audit}");
    assert!(!audit.contains("stand-in-token"));
}

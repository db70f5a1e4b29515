//! An agent's sandbox in a real engine: confined, used, mended, gone.

use std::time::Duration;

use flock::id::AgentId;
use flock::sandbox::docker::DockerSandbox;
use flock::sandbox::{Command, CommandExit, CommandOutcome, Sandbox as _, SandboxError};
use tokio_util::sync::CancellationToken;

use crate::support::docker::{self, Team, docker as docker_command};

pub fn id(text: &str) -> AgentId {
    text.parse().unwrap()
}

pub async fn run(
    sandbox: &DockerSandbox,
    agent: &str,
    command: &str,
) -> Result<CommandOutcome, SandboxError> {
    let command = Command {
        command: command.to_owned(),
        timeout: Some(Duration::from_secs(60)),
        keep: 64 << 10,
        ..Command::default()
    };
    sandbox.run(&id(agent), command, &CancellationToken::new()).await
}

pub async fn output(sandbox: &DockerSandbox, agent: &str, command: &str) -> String {
    let outcome = run(sandbox, agent, command).await.unwrap();
    let text = String::from_utf8_lossy(&[outcome.output.head, outcome.output.tail].concat()).into_owned();
    assert_eq!(outcome.end, CommandExit::Exited(0), "{command}: {text}");
    text.trim().to_owned()
}

#[test]
fn a_command_runs_confined_in_its_own_workspace() {
    let Some(team) = Team::new(&["coder"]) else { return };
    let sandbox = team.sandbox();
    docker::block_on(async {
        sandbox.ensure(&id("coder")).await.unwrap();
        let file = team.home.workspace(&id("coder")).join("made");
        assert_eq!(output(&sandbox, "coder", "pwd; echo hello > made; cat made").await, "/workspace\nhello");
        assert_eq!(std::fs::read_to_string(file).unwrap(), "hello\n");
        assert_eq!(output(&sandbox, "coder", "python3 -c 'print(6 * 7)'").await, "42");
        assert_eq!(output(&sandbox, "coder", "ls /sys/class/net").await, "lo");
        for forbidden in [
            "echo x > /etc/passwd",
            "echo x > /workspace/AGENTS.md",
            "rm -f /workspace/SOUL.md",
            "mv /workspace/USER.md /workspace/x",
            "ln -sf /etc/passwd /workspace/TOOLS.md",
            "echo x > /nix/x",
            "cat /proc/1/environ",
            "mount -t tmpfs none /mnt",
            "chown 0:0 /workspace/made",
        ] {
            let outcome = run(&sandbox, "coder", forbidden).await.unwrap();
            assert_ne!(outcome.end, CommandExit::Exited(0), "{forbidden}");
        }
        let probes = sandbox.probes();
        assert_eq!(probes.len(), 1);
        assert!(probes[0].1.is_confined());
        let containers = sandbox.containers().await.unwrap();
        assert_eq!(containers.len(), 1);
        assert!(containers[0].is_running());
        assert_eq!(containers[0].agent.as_deref(), Some("coder"));
        docker::remove_all(&team.engine, &team.home).await.unwrap();
        assert_eq!(sandbox.containers().await.unwrap(), []);
        sandbox.remove(&id("coder")).await.unwrap();
    });
}

/// An editor saves by renaming a new file into place, and a rename takes a mount off what it replaces. So what
/// is mounted is not in the workspace, and what is in the workspace is not believed.
#[test]
fn an_agent_never_takes_over_who_it_is() {
    let Some(team) = Team::new(&["coder"]) else { return };
    let sandbox = team.sandbox();
    docker::block_on(async {
        sandbox.ensure(&id("coder")).await.unwrap();
        let coder = docker::worker(&team.home, "coder");
        let save = |folder: &std::path::Path, text: &str| {
            std::fs::write(folder.join("AGENTS.new"), text).unwrap();
            std::fs::rename(folder.join("AGENTS.new"), folder.join("AGENTS.md")).unwrap();
        };
        let believed = || flock::agent::prompt::read_identity(&coder.identity, &coder.workspace);
        // A job keeps the container from being made anew.
        let job = Command { command: "sleep 1000".to_owned(), keep: 100, ..Command::default() };
        sandbox.spawn(&id("coder"), job).await.unwrap();
        save(&coder.identity, "the owner's");
        let outcome = run(&sandbox, "coder", "mv AGENTS.md .old").await.unwrap();
        assert_ne!(outcome.end, CommandExit::Exited(0), "the mount holds");
        assert_eq!(believed()[0].text, "the owner's");
        // The place it is mounted on is the agent's to spoil once somebody renames over it; nothing more.
        save(&coder.workspace, "a mistake");
        run(&sandbox, "coder", "mv AGENTS.md .old; echo mine > AGENTS.md").await.unwrap();
        assert_eq!(believed()[0].text, "the owner's");
        sandbox.remove(&id("coder")).await.unwrap();
        assert_eq!(output(&sandbox, "coder", "cat AGENTS.md").await, "the owner's");
    });
}

#[test]
fn what_is_done_behind_its_back_is_mended_at_the_next_call() {
    let Some(team) = Team::new(&["coder"]) else { return };
    let sandbox = team.sandbox();
    let name = team.container("coder");
    docker::block_on(async {
        assert_eq!(output(&sandbox, "coder", "echo 1").await, "1");
        docker_command(&["rm", "-f", &name]);
        assert_eq!(output(&sandbox, "coder", "echo 2").await, "2");
        docker_command(&["stop", "-t", "0", &name]);
        assert_eq!(output(&sandbox, "coder", "echo 3").await, "3");
        docker_command(&["kill", &name]);
        assert_eq!(output(&sandbox, "coder", "echo 4").await, "4");
        docker_command(&["restart", "-t", "0", &name]);
        assert_eq!(output(&sandbox, "coder", "echo 5").await, "5");
        // Another gateway of the same home takes over what runs.
        let before = sandbox.containers().await.unwrap();
        let next = team.sandbox();
        assert_eq!(output(&next, "coder", "echo 6").await, "6");
        assert_eq!(next.containers().await.unwrap()[0].id, before[0].id);
    });
}

#[test]
fn a_changed_specification_makes_a_new_container_when_nothing_runs() {
    let Some(team) = Team::new(&["coder"]) else { return };
    let sandbox = team.sandbox();
    let coder = id("coder");
    docker::block_on(async {
        sandbox.ensure(&coder).await.unwrap();
        let first = sandbox.containers().await.unwrap().remove(0);
        let job = Command { command: "sleep 60".to_owned(), keep: 1024, ..Command::default() };
        let job = sandbox.spawn(&coder, job).await.unwrap();
        team.configure(|config| config.agents[0].docker.memory = Some(256 << 20));
        assert_eq!(output(&sandbox, "coder", "echo while a job runs").await, "while a job runs");
        assert_eq!(sandbox.containers().await.unwrap().remove(0).id, first.id);
        sandbox.jobs(&coder, flock::sandbox::JobRequest::Kill(job.id)).await.unwrap();
        assert_eq!(output(&sandbox, "coder", "echo then").await, "then");
        let second = sandbox.containers().await.unwrap().remove(0);
        assert_ne!((second.id, &second.spec), (first.id, &first.spec));
        let limit = docker_command(&["inspect", "-f", "{{.HostConfig.Memory}}", &team.container("coder")]);
        assert_eq!(limit, (256 << 20).to_string());
        // The environment belongs to commands: no new container for it.
        let before = sandbox.containers().await.unwrap();
        team.configure(|config| {
            config.agents[0].docker.env.insert("GREETING".to_owned(), "hello".to_owned());
        });
        assert_eq!(output(&sandbox, "coder", "echo $GREETING").await, "hello");
        assert_eq!(sandbox.containers().await.unwrap()[0].id, before[0].id);
    });
}

#[test]
fn a_container_that_was_tampered_with_is_refused_and_a_foreign_one_left_alone() {
    let Some(team) = Team::new(&["coder", "other"]) else { return };
    let sandbox = team.sandbox();
    let (coder, other) = (id("coder"), id("other"));
    docker::block_on(async {
        sandbox.ensure(&coder).await.unwrap();
        docker_command(&["update", "--memory", "3g", "--memory-swap", "3g", &team.container("coder")]);
        // The warm connection is not asked; a probe that is asked for, or the next gateway, sees it.
        let error = team.sandbox().ensure(&coder).await.unwrap_err();
        assert!(
            matches!(&error, SandboxError::NotConfined { finding, .. } if finding.contains("memory")),
            "{error}"
        );
        team.sandbox().ensure(&coder).await.unwrap();

        let name = team.container("other");
        let image = flock::sandbox::image::Recipe::Sandbox.reference(&team.home);
        docker_command(&["create", "--name", &name, &image, "true"]);
        let error = sandbox.ensure(&other).await.unwrap_err();
        assert!(matches!(&error, SandboxError::Foreign { name: found } if *found == name), "{error}");
        assert!(matches!(sandbox.remove(&other).await, Err(SandboxError::Foreign { .. })));
        docker::remove_all(&team.engine, &team.home).await.unwrap();
        docker_command(&["rm", &name]);
    });
}

#[test]
fn an_agent_that_has_no_sandbox_or_asks_for_too_much_gets_none() {
    let Some(team) = Team::new(&["coder", "host"]) else { return };
    let sandbox = team.sandbox();
    team.configure(|config| {
        config.agents[1].sandbox = flock::config::SandboxMode::Off;
        config.agents[0].docker.binds = vec!["/var/run/docker.sock:/docker.sock".to_owned()];
    });
    docker::block_on(async {
        assert!(matches!(sandbox.ensure(&id("host")).await, Err(SandboxError::Off(_))));
        assert!(matches!(sandbox.ensure(&id("nobody")).await, Err(SandboxError::Unknown(_))));
        assert!(matches!(sandbox.ensure(&id("coder")).await, Err(SandboxError::Refused { .. })));
        // A link in the place of the workspace leads nowhere.
        team.configure(|config| config.agents[0].docker.binds.clear());
        let workspace = team.home.workspace(&id("coder"));
        std::fs::remove_dir_all(&workspace).ok();
        std::os::unix::fs::symlink(team.home.secrets(), &workspace).unwrap();
        assert!(matches!(sandbox.ensure(&id("coder")).await, Err(SandboxError::Refused { .. })));
        assert_eq!(std::fs::read_dir(team.home.secrets()).unwrap().count(), 0, "nothing is made through it");
        assert_eq!(sandbox.containers().await.unwrap(), []);
    });
}

#[test]
fn many_sandboxes_are_made_at_once() {
    let names: Vec<String> = (0..12).map(|number| format!("worker-{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let Some(team) = Team::new(&names) else { return };
    let sandbox = team.sandbox();
    docker::block_on(async {
        // The same one twice, too: the second call finds what the first one made.
        let agents: Vec<AgentId> = names.iter().chain(&names).map(|name| id(name)).collect();
        let ready = futures_util::future::join_all(agents.iter().map(|agent| sandbox.ensure(agent))).await;
        ready.into_iter().collect::<Result<Vec<()>, _>>().unwrap();
        assert_eq!(sandbox.containers().await.unwrap().len(), names.len());
        for name in &names {
            assert_eq!(output(&sandbox, name, "hostname").await, *name);
        }
        sandbox.stop_all().await.unwrap();
        assert!(sandbox.containers().await.unwrap().iter().all(|found| !found.is_running()));
    });
}

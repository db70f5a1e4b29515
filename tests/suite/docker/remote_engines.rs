//! An engine that is reached by `ssh`: it is refused by what is wrong with the way to it, an agent's workspace goes there and
//! comes back whole, and nothing but its own removal deletes it.

use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::faults::{end, gateway_command};
use crate::support::docker::docker as docker_command;
use crate::support::extra_engine::ExtraEngine;
use crate::support::home::{Run, TempHome, finish};
use crate::support::ssh_server::SshServer;
use crate::support::wait_until;

const LIMIT: Duration = Duration::from_secs(120);

/// A home with an engine behind a server of `ssh`.
struct Far {
    // Dropped in this order: the engine takes its containers along.
    home: TempHome,
    server: SshServer,
    extra: ExtraEngine,
    path: String,
}

impl Far {
    fn new() -> Option<Self> {
        let home = TempHome::init_in_docker()?;
        let server = SshServer::start()?;
        let extra = ExtraEngine::plain()?;
        let path = server.path();
        Some(Self { home, server, extra, path })
    }

    fn flock(&self, args: &[&str]) -> Run {
        self.home.flock_with_env(args, &[("PATH", self.path.as_str())])
    }

    fn add(&self, address: &str) -> Run {
        self.flock(&["engine", "add", "far", address, "--labels", "gpu"])
    }

    fn address(&self) -> String {
        self.server.address(&self.extra.socket())
    }

    /// Runs a command of Docker on the engine.
    fn docker(&self, args: &[&str]) -> String {
        let host = self.extra.host();
        docker_command(&[&["-H", host.as_str()][..], args].concat())
    }

    /// Runs a text of the shell in an agent's sandbox, past flock.
    fn shell(&self, agent: &str, text: &str) -> String {
        self.docker(&["exec", &self.home.container(agent), "sh", "-c", text])
    }

    /// All of a workspace but the copies of identity files: permissions, places of links, and contents.
    fn state(&self, volume: &str) -> String {
        let images = self.docker(&["images", "-q", "--no-trunc"]);
        let image = images.lines().next().unwrap();
        let mount = format!("{volume}:/w:ro");
        let text = "cd /w && find . ! -path './[A-Z]*.md' -printf '%M %p %l\\n' | sort && \
                    find . -type f ! -path './[A-Z]*.md' -exec sha256sum {} + | sort";
        let run = ["run", "--rm", "--network", "none", "-v", &mount, "--entrypoint", "sh", image, "-c", text];
        self.docker(&run)
    }

    fn workspace(&self, agent: &str) -> PathBuf {
        self.home.file(format!("workspaces/{agent}"))
    }

    /// The volume that an agent's workspace is, by its mark.
    fn volume(&self, agent: &str) -> String {
        let mark = std::fs::read_to_string(self.workspace(agent)).unwrap();
        mark.lines().find_map(|line| line.strip_prefix("volume: ")).unwrap().to_owned()
    }

    /// All volumes of the engine that are workspaces.
    fn volumes(&self) -> Vec<String> {
        let found = self.docker(&["volume", "ls", "-q", "--filter", "label=flock.workspace"]);
        found.lines().map(str::to_owned).collect()
    }

    /// The number of processes of `ssh` that lead from this home to the engine.
    fn ways(&self) -> usize {
        let home = self.home.path();
        let root = home.as_os_str().as_encoded_bytes();
        let is_one = |line: &[u8]| {
            line.split(|byte| *byte == 0).any(|word| word == b"-N")
                && line.windows(root.len()).any(|part| part == root)
        };
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        processes
            .filter_map(|one| std::fs::read(one.path().join("cmdline")).ok())
            .filter(|line| is_one(line))
            .count()
    }

    fn has_nothing_else(&self) {
        for kind in [&["ps", "-aq"][..], &["volume", "ls", "-q"]] {
            let label = format!("label=flock.home={}", self.home.path().display());
            assert_eq!(
                self.docker(&[kind, &["--filter", &label]].concat()),
                "",
                "nothing of this home is left in it"
            );
        }
    }
}

#[test]
fn an_agent_works_on_an_engine_behind_ssh_and_comes_back_with_its_workspace() {
    let Some(mut far) = Far::new() else { return };
    let address = far.address();

    // What is wrong with the way is told, with what mends it.
    let run = far.add(&address).fails(6);
    assert!(run.stderr.contains("Host key verification failed") && run.stderr.contains("ssh -p "), "{run:?}");
    far.server.trust();
    far.server.let_in(false);
    let run = far.add(&address).fails(6);
    assert!(run.stderr.contains("Permission denied") && run.stderr.contains("ssh-copy-id -p "), "{run:?}");
    far.server.let_in(true);
    let run = far.add(&far.server.address(&far.home.file("nothing.sock"))).fails(6);
    assert!(run.stderr.contains("no engine answers at"), "{run:?}");

    far.add(&address).ok();
    assert_eq!(far.volumes(), [""; 0], "the trial's volume is gone");
    far.flock(&["add", "painter", "--labels", "gpu"]).ok();
    let container = far.home.container("painter");
    assert_eq!(far.docker(&["ps", "--format", "{{.Names}}"]), container, "its sandbox is there");
    let workspace = far.workspace("painter");
    assert!(workspace.is_file(), "a mark is in the place of the folder");
    let volume = far.volume("painter");
    assert_eq!(far.volumes(), std::slice::from_ref(&volume));
    far.shell("painter", "mkdir /workspace/d; echo x > /workspace/d/made");
    let run = far.flock(&["engine", "remove", "far", "--force"]).fails(5);
    assert!(run.stderr.contains("painter"), "{run:?}");

    // A gateway uses it as any other: the tools write there, checkpoints are made of it, and its files are set back there.
    far.flock(&["start"]).ok();
    let run = far.flock(&["chat", "painter", "please write fizzbuzz"]).ok();
    assert!(run.stdout.contains("exit code 0"), "{run:?}");
    assert_ne!(far.shell("painter", "ls /workspace/fizzbuzz* | head -n 1"), "");
    let run = far.flock(&["checkpoints", "painter", "--json"]).ok();
    assert!(run.stdout.contains("\"number\""), "{run:?}");
    let after = far.state(&volume);
    assert!(after.contains("fizzbuzz") && after.contains("./d/made"), "{after}");
    far.flock(&["rewind", "painter", "--yes"]).ok();
    let before = far.state(&volume);
    assert!(!before.contains("fizzbuzz") && before.contains("./d/made"), "{before}");
    far.flock(&["rewind", "painter", "--undo", "--yes"]).ok();
    assert_eq!(far.state(&volume), after);
    far.extra.kill();
    let run = far.flock(&["rewind", "painter", "--undo", "--yes"]);
    assert!(run.code != 0, "{run:?}");
    far.extra.revive();
    assert_eq!(far.state(&volume), after, "nothing was begun without the engine");
    // Also without a gateway.
    far.flock(&["stop"]).ok();
    far.flock(&["rewind", "painter", "--undo", "--yes"]).ok();
    assert_eq!(far.state(&volume), before);
    far.flock(&["start"]).ok();

    // And back, which waits while something else has the files.
    let labels = "plugins.entries.flock.config.gatewayAgents[painter].labels";
    far.flock(&["config", "unset", labels]).ok();
    let mount = format!("{volume}:/w");
    let image = far.docker(&["inspect", "--format", "{{.Image}}", &container]);
    far.docker(&["create", "--name", "stranger", "-v", &mount, "--entrypoint", "/nothing", &image]);
    far.flock(&["engine", "drain", "far"]).ok();
    wait_until("the workspace waits", LIMIT, || {
        let run = far.flock(&["engine", "list", "--json"]);
        run.stdout.contains("is still used by the container stranger").then_some(()).ok_or(run.stdout)
    });
    assert!(workspace.is_file());
    assert_eq!(far.volumes(), [volume]);
    far.docker(&["rm", "stranger"]);
    wait_until("the workspace comes back", LIMIT, || {
        workspace
            .join("d/made")
            .is_file()
            .then_some(())
            .ok_or_else(|| far.flock(&["engine", "list", "--json"]).stdout)
    });
    assert_eq!(std::fs::read_to_string(workspace.join("d/made")).unwrap(), "x\n");
    wait_until("the volume goes when the files are here", LIMIT, || {
        let left = far.volumes();
        left.is_empty().then_some(()).ok_or_else(|| left.join(", "))
    });
    wait_until("the engine can be removed", LIMIT, || {
        let run = far.flock(&["engine", "remove", "far"]);
        (run.code == 0).then_some(()).ok_or(run.stderr)
    });
    wait_until("its ssh ends, although the gateway runs", LIMIT, || match far.ways() {
        0 => Ok(()),
        left => Err(format!("{left} are left")),
    });
    far.has_nothing_else();
    // What flock shows people of the identity in a workspace on this machine was not in the other one.
    far.flock(&["rewind", "painter", "--keep-others", "--yes"]).ok();
    far.flock(&["stop"]).ok();
}

#[test]
fn a_command_outlives_breaks_of_the_way_to_its_engine_and_runs_once() {
    let Some(far) = Far::new() else { return };
    let command = "echo run >> ran; until [ -e go ]; do sleep 0.05; done; seq 1 1000; echo the end";
    let replies = json!({"replies": [{"steps": [
        {"calls": [{"name": "exec", "arguments": {"command": command}}]},
        {"say": "{{last_result}}"},
    ]}]});
    std::fs::write(far.home.file("scripts/test"), replies.to_string()).unwrap();
    far.flock(&["config", "set", "agents.defaults.model.primary", "script/test"]).ok();
    far.server.trust();
    far.add(&far.address()).ok();
    far.flock(&["add", "painter", "--labels", "gpu"]).ok();
    far.flock(&["start"]).ok();
    let mut chat = far.home.command();
    chat.args(["chat", "painter", "begin"]).env("PATH", &far.path);
    let chat = std::thread::spawn(move || finish(&mut chat));
    let ran = || far.shell("painter", "cat /workspace/ran 2>/dev/null || true");
    wait_until("the command runs", LIMIT, || (ran() == "run").then_some(()).ok_or_else(ran));

    // Cut while it runs, and kept cut while it ends.
    far.server.cut();
    far.server.let_in(false);
    far.server.cut();
    far.shell("painter", "touch /workspace/go");
    wait_until("the command has ended", LIMIT, || {
        let runs = far.shell("painter", "pgrep -f 'until . -e go' || true");
        runs.is_empty().then_some(()).ok_or(runs)
    });
    far.server.let_in(true);
    let run = chat.join().unwrap();
    assert!(run.code == 0 && run.stdout.contains("\n1000\nthe end\n"), "{run:?}");
    assert_eq!(ran(), "run");
    let log = std::fs::read_to_string(far.home.file("logs/gateway.log")).unwrap();
    assert!(log.contains("the connection to a sandbox broke and is resumed"), "the way was cut:\n{log}");
    far.flock(&["stop"]).ok();
}

#[test]
fn a_kill_in_a_rewind_on_another_machine_leaves_one_of_the_two_states() {
    let Some(far) = Far::new() else { return };
    far.server.trust();
    far.add(&far.address()).ok();
    far.flock(&["add", "painter", "--labels", "gpu"]).ok();
    let volume = far.volume("painter");
    far.flock(&["start"]).ok();
    far.flock(&["chat", "painter", "please write fizzbuzz"]).ok();
    far.flock(&["checkpoint", "painter"]).ok();
    far.flock(&["stop"]).ok();
    let journal = far.home.file("agents/painter/checkpoints/rewind.json");
    let serve = |dies_at: &str| {
        let child = gateway_command(&far.home, dies_at).env("PATH", &far.path).spawn().unwrap();
        wait_until("the gateway answers", LIMIT, || {
            let run = far.flock(&["checkpoints", "painter", "--json"]);
            if run.code == 0 { Ok(()) } else { Err(format!("{run:?}")) }
        });
        child
    };
    let after = far.state(&volume);
    let (mut now, mut interrupted) = (after.clone(), 0);
    let mut before = None;
    for step in 1..30 {
        let to = if now == after { "1" } else { "2" };
        let mut child = serve(&format!("Rewinding:{step}"));
        let run = far.flock(&["rewind", "painter", "--turn", to, "--yes"]);
        if run.code == 0 {
            end(child);
            now = far.state(&volume);
            let wanted = if to == "1" { &*before.get_or_insert_with(|| now.clone()) } else { &after };
            assert_eq!(now, *wanted);
            // All moments were reached, unless the gateway was not up yet and the command did it itself.
            if interrupted > 2 {
                break;
            }
            continue;
        }
        let status =
            wait_until("the gateway dies", LIMIT, || child.try_wait().unwrap().ok_or(format!("{run:?}")));
        assert_eq!(status.signal(), Some(9), "{run:?}");
        let has_begun = journal.exists();
        interrupted += usize::from(has_begun);
        let child = serve("nowhere");
        wait_until("the rewind is completed", LIMIT, || {
            if journal.exists() { Err(String::new()) } else { Ok(()) }
        });
        end(child);
        let found = far.state(&volume);
        if has_begun && to == "1" {
            assert_eq!(found, *before.get_or_insert_with(|| found.clone()), "at step {step}");
            assert!(!found.contains("fizzbuzz") && !found.contains(".flock"), "at step {step}: {found}");
        } else if has_begun {
            assert_eq!(found, after, "at step {step}");
        } else if Some(&found) != before.as_ref() {
            // The last moment of a rewind is after its end.
            assert_eq!(found, after, "at step {step}");
        }
        now = found;
    }
    assert!(interrupted > 2 && before.is_some(), "{interrupted}");
    // The gateways that were killed have left none either.
    wait_until("no ssh is left", LIMIT, || match far.ways() {
        0 => Ok(()),
        left => Err(format!("{left} are")),
    });
}

#[test]
fn the_files_of_a_lost_engine_come_back_from_the_last_checkpoint() {
    let Some(mut far) = Far::new() else { return };
    far.server.trust();
    far.add(&far.address()).ok();
    far.flock(&["add", "painter", "--labels", "gpu"]).ok();
    far.shell("painter", "echo x > /workspace/made");
    far.flock(&["start"]).ok();
    far.flock(&["chat", "painter", "please write fizzbuzz"]).ok();
    far.flock(&["checkpoint", "painter"]).ok();
    far.extra.kill();
    let run = far.flock(&["engine", "remove", "far", "--force"]).ok();
    assert!(run.stderr.contains("it has the files of its last checkpoint now"), "{run:?}");
    let workspace = far.workspace("painter");
    let has_fizzbuzz = || {
        let names = std::fs::read_dir(&workspace).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter_map(|name| name.into_string().ok()).any(|name| name.starts_with("fizzbuzz"))
    };
    let made = || std::fs::read_to_string(workspace.join("made")).unwrap();
    assert!(has_fizzbuzz());
    assert_eq!(made(), "x\n");
    far.flock(&["rewind", "painter", "--yes"]).ok();
    assert!(!has_fizzbuzz());
    assert_eq!(made(), "x\n");
    far.flock(&["rewind", "painter", "--undo", "--yes"]).ok();
    assert!(has_fizzbuzz());
    // It works on where it is placed now.
    far.flock(&["config", "unset", "plugins.entries.flock.config.gatewayAgents[painter].labels"]).ok();
    let run = far.flock(&["chat", "painter", "please write fizzbuzz"]).ok();
    assert!(run.stdout.contains("exit code 0"), "{run:?}");
    far.flock(&["rewind", "painter", "--yes"]).ok();
    far.flock(&["stop"]).ok();
}

#[test]
fn a_workspace_on_another_machine_goes_only_with_its_own_agent() {
    let Some(mut far) = Far::new() else { return };
    far.server.trust();
    let address = far.address();

    // A home of another machine at the same path was there first.
    let own = format!("flock.home={}", far.home.path().display());
    let claim = far.home.container("x").replace("flock-sbx-x", "flock-home");
    far.docker(&["volume", "create", "--label", &own, "--label", "flock.instance=other", &claim]);
    let run = far.add(&address);
    assert!(run.code != 0 && run.stderr.contains("need different paths"), "{run:?}");
    assert_eq!(far.docker(&["volume", "ls", "-q"]), claim, "nothing of it is touched");
    far.docker(&["volume", "rm", &claim]);

    far.add(&address).ok();
    for agent in ["ada", "bob"] {
        far.flock(&["add", agent, "--labels", "gpu"]).ok();
        far.shell(agent, &format!("echo {agent} > /workspace/mine"));
    }
    let (ada, bob) = (far.volume("ada"), far.volume("bob"));
    // One that no mark has: of a home elsewhere, of another gateway, or of an agent that is not known.
    let (stranger, path) =
        ("flock-ws-ada-feedfeedfeedfeed".to_owned(), far.home.path().display().to_string());
    let label = format!("flock.workspace.home={path}");
    far.docker(&["volume", "create", "--label", "flock.workspace=ada", "--label", &label, &stranger]);
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names
    };
    let all = sorted(vec![ada.clone(), bob, stranger.clone()]);
    let doctor = far.flock(&["doctor", "--json"]).json();
    let said: Vec<&Value> = doctor["checks"].as_array().unwrap().iter().collect();
    let names = |volume: &String| said.iter().any(|check| check.to_string().contains(volume));
    assert!(
        !names(&ada) && !names(&stranger),
        "what may be another home's is not offered for removal: {doctor:#}"
    );

    // Without --purge the files stay, and the agent finds them again.
    far.flock(&["remove", "ada", "--yes"]).ok();
    assert_eq!(sorted(far.volumes()), all);
    let run = far.flock(&["engine", "remove", "far"]).fails(5);
    assert!(run.stderr.contains("ada"), "{run:?}");
    far.flock(&["add", "ada"]).ok();
    assert_eq!(far.shell("ada", "cat /workspace/mine"), "ada");

    // An engine that is gone keeps the mark, and the removal is finished when it is back.
    far.extra.kill();
    far.flock(&["remove", "bob", "--purge", "--yes"]).fails(6);
    assert!(far.workspace("bob").is_file(), "the mark stays as long as the volume may be there");
    far.extra.revive();
    wait_until("the removal is finished", LIMIT, || {
        let run = far.flock(&["remove", "bob", "--purge", "--yes"]);
        (!far.workspace("bob").exists()).then_some(()).ok_or(run.stderr)
    });
    assert_eq!(sorted(far.volumes()), sorted(vec![ada.clone(), stranger.clone()]));

    // A copy of a home has marks of volumes that the original may still use.
    let mark = format!("This workspace is on another machine.\nengine: far\nvolume: {stranger}\n");
    std::fs::write(far.workspace("eve"), mark).unwrap();
    // She is added, and her sandbox is refused.
    let run = far.flock(&["add", "eve"]).fails(1);
    for part in [stranger.as_str(), "which may still use it", "flock engine drain far"] {
        assert!(run.stderr.contains(part), "{part}: {run:?}");
    }
    let doctor = far.flock(&["doctor", "--json"]).json();
    let checks = doctor["checks"].as_array().unwrap();
    let is_reported =
        |check: &Value| check["state"] == "bad" && check["message"].to_string().contains(&stranger);
    assert!(checks.iter().any(is_reported), "{doctor:#}");
    let run = far.flock(&["remove", "eve", "--purge", "--yes"]).ok();
    assert!(run.stderr.contains("the home that made it may still use it"), "{run:?}");
    assert_eq!(sorted(far.volumes()), sorted(vec![ada, stranger.clone()]));

    // A mark that can't be read may be that of any volume.
    std::fs::write(far.workspace("bob"), "This workspace is on another machine.\n").unwrap();
    far.flock(&["remove", "ada", "--purge", "--yes"]).ok();
    assert_eq!(far.volumes(), std::slice::from_ref(&stranger));
    let run = far.flock(&["engine", "remove", "far", "--force"]).fails(1);
    assert!(run.stderr.contains("bob"), "{run:?}");
    std::fs::remove_file(far.workspace("bob")).unwrap();
    far.flock(&["engine", "remove", "far"]).ok();
    assert_eq!(far.volumes(), [stranger], "the home takes nothing with it but its own");
    far.has_nothing_else();
}

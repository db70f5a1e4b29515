//! A program that runs an agent's turn in a real sandbox: heard, ended, and gone with all that it has started.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use flock::error::Explain as _;
use flock::sandbox::docker::DockerSandbox;
use flock::sandbox::program_mounts::ProgramMount;
use flock::sandbox::{Command, JobRequest, OutputChunk, ProgramCommand, Sandbox as _, SandboxError};

use super::sandbox::{id, output};
use crate::support::docker::{self, Team, docker as docker_command};
use crate::support::engine_proxy::{EngineProxy, Fault};

const LIMIT: Duration = Duration::from_secs(60);
const PROGRAM: &str = "/opt/flock/stub/stub";

/// Counts the living processes besides init and the shell that counts, with nothing but what that shell has built in.
const COUNT: &str = r#"n=-2; for p in /proc/[0-9]*; do read -r line 2>/dev/null < $p/stat || continue
    case "${line##*) }" in Z*|X*) ;; *) n=$((n+1)) ;; esac; done; echo $n"#;

/// Starts processes in every way that a session, a group, a parent and an environment are left behind, none of which
/// listens to SIGTERM.
const TREE: &str = r#"
    sleep 1000 &
    setsid sleep 1000 &
    (setsid sh -c "trap '' TERM HUP; sleep 1000 & sleep 1000 & exec sleep 1000" &)
    (setsid -f sleep 1000)
    env -i /usr/bin/setsid -f /bin/sleep 1000
    (cd / && exec 1>&- 2>&- && sleep 1000 &)"#;

/// An agent whose turns a program runs that does as it is told.
struct Stage {
    team: Team,
    folder: tempfile::TempDir,
    /// Whether its sandbox has the program.
    fitted: Arc<AtomicBool>,
}

impl Stage {
    fn new() -> Option<Self> {
        let team = Team::new(&["coder"])?;
        let folder = tempfile::tempdir().unwrap();
        let stage = Self { team, folder, fitted: Arc::new(AtomicBool::new(true)) };
        stage.install("eval \"$1\"");
        stage.team.configure(|config| config.agents[0].runtime = "claude".to_owned());
        Some(stage)
    }

    /// Puts another program in the place of the one there is, as an update does.
    fn install(&self, script: &str) {
        let (new, place) = (self.folder.path().join("new"), self.program());
        std::fs::write(&new, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::rename(new, place).unwrap();
    }

    fn program(&self) -> PathBuf {
        self.folder.path().join("stub")
    }

    fn own(&self, name: &str) -> PathBuf {
        self.team.home.agent(&id("coder")).join(name)
    }

    fn workspace(&self) -> PathBuf {
        self.team.home.workspace(&id("coder"))
    }

    fn dress(&self, sandbox: DockerSandbox) -> DockerSandbox {
        let (program, fitted) = (self.program(), Arc::clone(&self.fitted));
        let (state, turns, empty) = (self.own("programs/stub"), self.own("turns"), self.own("empty"));
        sandbox.with_program_mounts(Arc::new(move |_| {
            if !fitted.load(Ordering::SeqCst) {
                return Vec::new();
            }
            let cover = |name: &str, kind: &str, is_folder| ProgramMount::Cover {
                source: empty.join(kind),
                name: name.to_owned(),
                is_folder,
            };
            vec![
                ProgramMount::part(&program, PROGRAM.to_owned()).unwrap(),
                ProgramMount::State(state.clone()),
                ProgramMount::Turn(turns.clone()),
                cover("GEMINI.md", "file", false),
                cover(".gemini", "folder", true),
            ]
        }))
    }

    fn sandbox(&self) -> DockerSandbox {
        self.dress(self.team.sandbox())
    }

    /// Resolves when the program has made this file in its workspace.
    async fn appears(&self, name: &str) {
        appears(&self.workspace().join(name)).await;
    }
}

async fn appears(path: &Path) {
    let there = async {
        while !path.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LIMIT, there).await.unwrap_or_else(|_| panic!("{} never came", path.display()));
}

fn words(script: &str) -> ProgramCommand {
    ProgramCommand { command: vec![PROGRAM.to_owned(), script.to_owned()], ..ProgramCommand::default() }
}

/// What a run printed, each stream by itself, and its exit code.
#[derive(Debug, Default)]
struct Heard {
    code: i32,
    out: String,
    err: String,
}

async fn attend(sandbox: &DockerSandbox, run: &ProgramCommand) -> Result<Heard, SandboxError> {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut heard = |piece: OutputChunk<'_>| match piece {
        OutputChunk::Out(bytes) => out.extend_from_slice(bytes),
        OutputChunk::Err(bytes) => err.extend_from_slice(bytes),
    };
    let agent = id("coder");
    let ended = tokio::time::timeout(LIMIT, sandbox.attend(&agent, run, &mut heard)).await;
    let code = ended.expect("the program was never seen to end")?;
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ok(Heard { code, out: text(out), err: text(err) })
}

/// What a script of the program's prints.
async fn says(sandbox: &DockerSandbox, script: &str) -> String {
    let heard = attend(sandbox, &words(script)).await.unwrap();
    assert_eq!((heard.code, heard.err.as_str()), (0, ""), "{script}: {heard:?}");
    heard.out.trim().to_owned()
}

/// Begins with a script and gives it up once `when` has come.
async fn give_up(sandbox: &DockerSandbox, script: &str, when: impl Future<Output = ()>) {
    let (run, agent) = (words(script), id("coder"));
    let mut heard = |_: OutputChunk<'_>| {};
    tokio::select! {
        ended = sandbox.attend(&agent, &run, &mut heard) => panic!("{script}: {ended:?}"),
        () = when => {}
    }
}

#[test]
fn a_program_is_heard_to_its_end_and_its_streams_are_told_apart() {
    let Some(stage) = Stage::new() else { return };
    let sandbox = stage.sandbox();
    docker::block_on(async {
        let heard = attend(&sandbox, &words("seq 20000 & seq 20001 40000 >&2; wait; exit 7")).await.unwrap();
        let lines = |from: u32, to: u32| (from..=to).map(|n| format!("{n}\n")).collect::<String>();
        assert_eq!(heard.code, 7);
        assert!(
            heard.out == lines(1, 20_000) && heard.err == lines(20_001, 40_000),
            "not whole, or not in order"
        );
        assert_eq!(attend(&sandbox, &words("kill -9 $$")).await.unwrap().code, 137);
        for (program, code) in [("/opt/flock/stub/none", 127), ("/opt/flock/stub", 126)] {
            let run = ProgramCommand { command: vec![program.to_owned()], ..ProgramCommand::default() };
            let heard = attend(&sandbox, &run).await.unwrap();
            assert_eq!(heard.code, code, "{heard:?}");
            assert!(heard.err.contains(program), "{heard:?}");
        }
        let input = bytes::Bytes::from(vec![b'x'; 3 << 20]);
        let whole = ProgramCommand { input: input.clone(), ..words("wc -c; echo then") };
        assert_eq!(attend(&sandbox, &whole).await.unwrap().out.trim(), format!("{}\nthen", 3 << 20));
        // One that closes its input early, and one that never reads it.
        for script in ["head -c 5; exec <&-; sleep 0.2; echo; echo end", "echo xxxxx; echo end"] {
            let run = ProgramCommand { input: input.clone(), ..words(script) };
            let heard = attend(&sandbox, &run).await.unwrap();
            assert_eq!((heard.code, heard.out.as_str()), (0, "xxxxx\nend\n"), "{heard:?}");
        }
        // It is the agent's own user, in the workspace.
        assert_eq!(says(&sandbox, "pwd; touch made").await, "/workspace");
        assert!(stage.workspace().join("made").exists());
    });
}

#[test]
fn a_program_finds_the_same_home_and_path_as_a_command() {
    let Some(stage) = Stage::new() else { return };
    let sandbox = stage.sandbox();
    docker::block_on(async {
        let tell =
            "echo $HOME; echo $PATH; echo $LANG; cd && pwd && touch .made && echo made; env | grep -c ^PATH=";
        let command = output(&sandbox, "coder", tell).await;
        assert!(
            command.starts_with("/workspace\n") && command.ends_with("\n/workspace\nmade\n1"),
            "{command}"
        );
        assert_eq!(says(&sandbox, tell).await, command);
        stage.team.configure(|config| {
            config.agents[0].docker.env.insert("PATH".to_owned(), "/nix/own/bin:/usr/bin:/bin".to_owned());
        });
        let own = says(&sandbox, tell).await;
        assert!(own.contains("\n/nix/own/bin:/usr/bin:/bin\n") && own.ends_with("\n1"), "{own}");
        let run = ProgramCommand { env: vec![("LANG".to_owned(), "C".to_owned())], ..words("echo $LANG") };
        assert_eq!(attend(&sandbox, &run).await.unwrap().out, "C\n");
        // And where there is no helper to start commands.
        let proxy = EngineProxy::new(&stage.team.engine);
        proxy.set(Fault::NoAttach);
        let through = DockerSandbox::new(stage.team.home.clone(), stage.team.source(), proxy.engine());
        assert_eq!(output(&stage.dress(through), "coder", tell).await, own);
    });
}

#[test]
fn a_program_that_is_given_up_is_asked_to_end_and_then_killed_with_all_that_it_started() {
    let Some(stage) = Stage::new() else { return };
    let sandbox = stage.sandbox();
    docker::block_on(async {
        // One that puts its things in order when it is asked to.
        let polite = format!(
            "trap 'sleep 0.5; echo asked > asked; exit' TERM\n{TREE}\n: > ready; while :; do sleep 0.1; done"
        );
        give_up(&sandbox, &polite, stage.appears("ready")).await;
        // The next one waits for the end of that one.
        assert_eq!(says(&sandbox, COUNT).await, "0");
        assert_eq!(std::fs::read_to_string(stage.workspace().join("asked")).unwrap(), "asked\n");
        // One that does not listen.
        let stubborn = format!("trap '' TERM HUP INT\n{TREE}\n: > stubborn; while :; do sleep 1000; done");
        give_up(&sandbox, &stubborn, stage.appears("stubborn")).await;
        assert_eq!(says(&sandbox, COUNT).await, "0");
        // A turn that is given up spares that of another session, and a job.
        let job = Command { command: "sleep 1000".to_owned(), keep: 100, ..Command::default() };
        sandbox.spawn(&id("coder"), job).await.unwrap();
        let other =
            words("(setsid -f sleep 1000); : > other; while ! [ -e go ]; do sleep 0.02; done; echo went on");
        let (other, ()) = tokio::join!(attend(&sandbox, &other), async {
            stage.appears("other").await;
            give_up(&sandbox, &format!("{TREE}\n: > third; sleep 1000"), stage.appears("third")).await;
            let left = "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done 2>/dev/null | grep -c '^sleep 1000'";
            assert_eq!(says(&sandbox, left).await, "2", "what the other has started, and the job");
            std::fs::write(stage.workspace().join("go"), "").unwrap();
        });
        let other = other.unwrap();
        assert_eq!((other.code, other.out.as_str()), (0, "went on\n"), "{other:?}");
    });
}

#[test]
fn a_program_that_forks_without_end_is_ended() {
    let Some(stage) = Stage::new() else { return };
    let sandbox = stage.sandbox();
    docker::block_on(async {
        sandbox.ensure(&id("coder")).await.unwrap();
        let before = sandbox.containers().await.unwrap().remove(0).id;
        for bomb in [
            "bomb() { bomb | bomb & }; (bomb; bomb) & sleep 1000",
            "echo 'while :; do setsid sh bomb & done' > bomb; sh bomb & sleep 1000",
            "echo 'setsid -f sh bomb; setsid -f sh bomb' > bomb; sh bomb & sleep 1000",
        ] {
            let full = Arc::new(tokio::sync::Notify::new());
            let mut heard = |piece: OutputChunk<'_>| {
                if let OutputChunk::Err(bytes) = piece
                    && String::from_utf8_lossy(bytes).contains("fork")
                {
                    full.notify_one();
                }
            };
            let (run, agent) = (words(bomb), id("coder"));
            tokio::select! {
                ended = sandbox.attend(&agent, &run, &mut heard) => panic!("{bomb}: {ended:?}"),
                // There is no room for one process more: none that could be started would end them.
                () = full.notified() => {}
                () = tokio::time::sleep(LIMIT) => panic!("{bomb}: the sandbox was never full"),
            }
            assert_eq!(says(&sandbox, COUNT).await, "0", "{bomb}");
        }
        assert_eq!(sandbox.containers().await.unwrap().remove(0).id, before, "it is the same container");
    });
}

/// The engine may start a program whose start nobody waits for any more.
#[test]
fn a_program_that_is_given_up_at_any_moment_of_its_start_is_ended() {
    let Some(stage) = Stage::new() else { return };
    let sandbox = stage.sandbox();
    docker::block_on(async {
        sandbox.ensure(&id("coder")).await.unwrap();
        for moment in 0..60 {
            let later = tokio::time::sleep(Duration::from_millis(moment * 2));
            give_up(&sandbox, "setsid -f sleep 1000; echo >> begun; sleep 1000", later).await;
        }
        assert_eq!(says(&sandbox, COUNT).await, "0");
    });
}

#[test]
fn what_a_killed_gateway_left_running_is_ended_by_the_next() {
    let Some(stage) = Stage::new() else { return };
    let sandbox = stage.sandbox();
    // With the runtime all of that process's tasks are gone, those that would have ended the program among them.
    docker::block_on(async {
        let begun = stage.workspace().join("begun");
        tokio::spawn(async move {
            let run = words(&format!("trap '' TERM\n{TREE}\n: > begun; while :; do sleep 1000; done"));
            sandbox.attend(&id("coder"), &run, &mut |_: OutputChunk<'_>| {}).await
        });
        appears(&begun).await;
    });
    docker::block_on(async {
        let top = docker_command(&["top", &stage.team.container("coder")]);
        assert!(top.matches("sleep 1000").count() >= 7, "{top}");
        assert_eq!(says(&stage.sandbox(), COUNT).await, "0", "nor does the first turn find it");
    });
}

#[test]
fn what_a_program_leaves_running_holds_up_no_turn_and_stays_until_its_sandbox_ends() {
    let Some(stage) = Stage::new() else { return };
    let sandbox = stage.sandbox();
    let coder = id("coder");
    docker::block_on(async {
        // A server that holds the program's streams, and goes on writing to them.
        let serve = "(trap '' PIPE; while :; do echo noise; echo tick >> ticks; sleep 0.05; done) & echo answer; exit 3";
        let heard = attend(&sandbox, &words(serve)).await.unwrap();
        assert_eq!(heard.code, 3);
        assert!(heard.out.starts_with("answer\n") || heard.out.contains("\nanswer\n"), "{heard:?}");
        let ticks = || std::fs::read(stage.workspace().join("ticks")).map_or(0, |text| text.len());
        let goes_on = || async {
            let before = ticks();
            let more = async {
                while ticks() == before {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            tokio::time::timeout(LIMIT, more).await.expect("it does not go on");
        };
        goes_on().await;
        // Neither the end of a command nor of another turn, well or not, is its end.
        assert_eq!(output(&sandbox, "coder", "sleep 1000 & echo command").await, "command");
        assert_eq!(says(&sandbox, "echo turn").await, "turn");
        give_up(&sandbox, ": > waits; sleep 1000", stage.appears("waits")).await;
        assert_ne!(says(&sandbox, COUNT).await, "0");
        goes_on().await;
        // A freeze is.
        sandbox.pause(&coder).await.unwrap();
        let before = ticks();
        assert_eq!(sandbox.containers().await.unwrap()[0].state, "paused");
        assert_eq!(ticks(), before);
        sandbox.resume(&coder).await.unwrap();
        goes_on().await;
        sandbox.stop_all().await.unwrap();
        assert_eq!(says(&sandbox, COUNT).await, "0");
    });
}

#[test]
fn a_program_is_read_only_as_are_its_turns_files_and_its_state_is_its_own() {
    let Some(stage) = Stage::new() else { return };
    let sandbox = stage.sandbox();
    docker::block_on(async {
        std::fs::create_dir_all(stage.own("turns/1")).unwrap();
        std::fs::write(stage.own("turns/1/system"), "be good").unwrap();
        for folder in ["turns", "turns/1"] {
            std::fs::set_permissions(stage.own(folder), std::fs::Permissions::from_mode(0o777)).unwrap();
        }
        std::fs::set_permissions(stage.own("turns/1/system"), std::fs::Permissions::from_mode(0o666))
            .unwrap();
        assert_eq!(says(&sandbox, "cat /turn/1/system").await, "be good");
        for forbidden in [
            "echo x > /opt/flock/stub/stub",
            "echo x > /opt/flock/x",
            "rm -f /opt/flock/stub/stub",
            "mv /opt/flock/stub/stub /workspace/",
            "echo x > /turn/1/system",
            "echo x > /turn/1/x",
            "rm /turn/1/system",
            "mkdir /turn/2",
            "mount -o remount,rw /turn",
            "echo x > /flock-helper",
        ] {
            let heard = attend(&sandbox, &words(&format!("({forbidden})"))).await.unwrap();
            assert_ne!(heard.code, 0, "{forbidden}: {heard:?}");
        }
        assert_eq!(
            says(&sandbox, "mkdir /state/deep && echo kept > /state/deep/x && cat /state/deep/x").await,
            "kept"
        );
        assert_eq!(std::fs::read_to_string(stage.own("programs/stub/deep/x")).unwrap(), "kept\n");
        assert!(sandbox.probe(&id("coder")).await.unwrap().is_confined());
    });
}

#[test]
fn something_empty_lies_over_what_a_program_would_find() {
    let Some(stage) = Stage::new() else { return };
    let sandbox = stage.sandbox();
    docker::block_on(async {
        let folder = stage.workspace().join(".gemini");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(stage.workspace().join("GEMINI.md"), "planted").unwrap();
        std::fs::write(folder.join("settings.json"), "planted").unwrap();
        assert_eq!(says(&sandbox, "wc -c < GEMINI.md; ls -A .gemini | wc -l").await, "0\n0");
        for forbidden in [
            "echo x > GEMINI.md",
            "rm -f GEMINI.md",
            "mv GEMINI.md other",
            "echo x > .gemini/settings.json",
            "mv .gemini other",
            "umount .gemini",
            "echo x > new && mv new GEMINI.md",
        ] {
            let heard = attend(&sandbox, &words(&format!("({forbidden})"))).await.unwrap();
            assert_ne!(heard.code, 0, "{forbidden}: {heard:?}");
        }
        for (name, text) in [("GEMINI.md", "planted"), (".gemini/settings.json", "planted")] {
            assert_eq!(std::fs::read_to_string(stage.workspace().join(name)).unwrap(), text);
        }
        // Nothing of it is one agent's way to another time.
        assert_eq!(std::fs::read_to_string(stage.own("empty/file")).unwrap(), "");
        assert_eq!(std::fs::read_dir(stage.own("empty/folder")).unwrap().count(), 0);
    });
}

#[test]
fn a_program_that_was_replaced_is_the_new_one_at_the_next_turn_and_cuts_no_other_one_off() {
    let Some(stage) = Stage::new() else { return };
    let sandbox = stage.sandbox();
    docker::block_on(async {
        assert_eq!(says(&sandbox, "echo old").await, "old");
        stage.install("echo new");
        assert_eq!(says(&sandbox, "echo old").await, "new");
        stage.install("eval \"$1\"");
        let waits = words(": > waits; while ! [ -e go ]; do sleep 0.02; done; echo went on");
        let (first, (second, third)) = tokio::join!(attend(&sandbox, &waits), async {
            stage.appears("waits").await;
            stage.install("echo newest");
            let (second, third, ()) =
                tokio::join!(says(&sandbox, "echo second"), says(&sandbox, "echo third"), async {
                    std::fs::write(stage.workspace().join("go"), "").unwrap();
                });
            (second, third)
        });
        assert_eq!(first.unwrap().out, "went on\n");
        assert_eq!((second.as_str(), third.as_str()), ("newest", "newest"));
    });
}

/// From the first on: whichever makes the container, it is made once.
#[test]
fn turns_of_several_sessions_run_side_by_side() {
    let Some(stage) = Stage::new() else { return };
    let sandbox = stage.sandbox();
    docker::block_on(async {
        let meet = |own: &str| {
            let all = "[ -e a -a -e b -a -e c -a -e d ]";
            words(&format!(": > {own}; while ! {all}; do sleep 0.02; done; echo {own} met all"))
        };
        let turns = ["a", "b", "c", "d"].map(meet);
        let ended = futures_util::future::join_all(turns.iter().map(|turn| attend(&sandbox, turn))).await;
        let told: Vec<String> = ended.into_iter().map(|ended| ended.unwrap().out).collect();
        assert_eq!(told, ["a met all\n", "b met all\n", "c met all\n", "d met all\n"]);
    });
}

#[test]
fn a_turn_in_a_frozen_sandbox_goes_on_when_it_is_thawed_and_ends_then_if_it_was_given_up() {
    let Some(stage) = Stage::new() else { return };
    let sandbox = stage.sandbox();
    let coder = id("coder");
    docker::block_on(async {
        let waits = words(": > waits; while ! [ -e go ]; do sleep 0.02; done; echo went on; exit 4");
        let (went_on, ()) = tokio::join!(attend(&sandbox, &waits), async {
            stage.appears("waits").await;
            let stubborn = format!("trap '' TERM\n{TREE}\n: > stubborn; sleep 1000");
            give_up(&sandbox, &stubborn, async {
                stage.appears("stubborn").await;
                sandbox.pause(&coder).await.unwrap();
            })
            .await;
            let refused = attend(&sandbox, &words("true")).await.unwrap_err();
            assert!(matches!(refused, SandboxError::Frozen(_)), "{refused}");
            std::fs::write(stage.workspace().join("go"), "").unwrap();
            assert_eq!(sandbox.containers().await.unwrap()[0].state, "paused");
            sandbox.resume(&coder).await.unwrap();
        });
        let went_on = went_on.unwrap();
        assert_eq!((went_on.code, went_on.out.as_str()), (4, "went on\n"));
        assert_eq!(says(&sandbox, COUNT).await, "0");
        // Frozen by hand, behind flock's back, it is no other.
        let name = stage.team.container("coder");
        give_up(&sandbox, &format!("{TREE}\n: > again; sleep 1000"), async {
            stage.appears("again").await;
            docker_command(&["pause", &name]);
        })
        .await;
        docker_command(&["unpause", &name]);
        assert_eq!(says(&sandbox, COUNT).await, "0");
    });
}

#[test]
fn a_container_that_is_gone_in_the_middle_of_a_turn_gives_no_second_run_of_it() {
    let Some(stage) = Stage::new() else { return };
    let sandbox = stage.sandbox();
    let name = stage.team.container("coder");
    docker::block_on(async {
        for end in [vec!["rm", "-f", &name], vec!["kill", &name], vec!["restart", "-t", "0", &name]] {
            std::fs::remove_file(stage.workspace().join("runs")).ok();
            let turn = words("echo run >> runs; sleep 1000");
            let (ended, ()) = tokio::join!(attend(&sandbox, &turn), async {
                stage.appears("runs").await;
                docker_command(&end);
            });
            match ended {
                // It was killed, and that is what its code says.
                Ok(heard) => assert_eq!(heard.code, 137, "{end:?}: {heard:?}"),
                Err(error) => {
                    assert!(matches!(error, SandboxError::Engine { .. }), "{end:?}: {error:?}");
                    assert_eq!(error.hint().as_deref(), Some("flock doctor"));
                }
            }
            assert_eq!(std::fs::read_to_string(stage.workspace().join("runs")).unwrap(), "run\n", "{end:?}");
            // One that is gone before a turn begins is made again for it.
            assert_eq!(says(&sandbox, "echo next").await, "next", "{end:?}");
        }
    });
}

#[test]
fn a_program_that_a_person_switched_to_waits_for_no_background_job() {
    let Some(stage) = Stage::new() else { return };
    let sandbox = stage.sandbox();
    let coder = id("coder");
    docker::block_on(async {
        stage.fitted.store(false, Ordering::SeqCst);
        stage.team.configure(|config| config.agents[0].runtime = "native".to_owned());
        let job = Command { command: "sleep 1000".to_owned(), keep: 100, ..Command::default() };
        let job = sandbox.spawn(&coder, job).await.unwrap();
        let before = sandbox.containers().await.unwrap().remove(0).id;
        stage.fitted.store(true, Ordering::SeqCst);
        stage.team.configure(|config| config.agents[0].runtime = "claude".to_owned());
        // A command can do without the program, and costs the job nothing.
        assert_eq!(output(&sandbox, "coder", "echo command").await, "command");
        assert_eq!(sandbox.containers().await.unwrap().remove(0).id, before);
        assert_eq!(says(&sandbox, "echo turn").await, "turn");
        assert_ne!(sandbox.containers().await.unwrap().remove(0).id, before);
        let error = sandbox.jobs(&coder, JobRequest::Poll(job.id)).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "job {} (sleep 1000) has ended: its sandbox was made anew, with changed settings",
                job.id
            )
        );
        let never = sandbox.jobs(&coder, JobRequest::Poll(job.id + 1)).await.unwrap_err();
        assert!(matches!(never, SandboxError::NoJob(_)), "{never}");
    });
}

#[test]
fn a_program_without_a_way_to_its_model_is_not_begun() {
    let Some(stage) = Stage::new() else { return };
    docker::block_on(async {
        let proxy = EngineProxy::new(&stage.team.engine);
        proxy.set(Fault::NoAttach);
        let through = DockerSandbox::new(stage.team.home.clone(), stage.team.source(), proxy.engine());
        let sandbox = stage.dress(through);
        let error = attend(&sandbox, &words(": > begun; sleep 1000")).await.unwrap_err();
        assert!(matches!(error, SandboxError::Lost { .. }), "{error:?}");
        assert!(
            error.to_string().contains("can't be attached, and an agent program asks its model"),
            "{error}"
        );
        assert_eq!(error.hint().as_deref(), Some("flock doctor"));
        assert!(!stage.workspace().join("begun").exists());
    });
}

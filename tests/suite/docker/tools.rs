//! The tools on a real sandbox: host side and container side see the same workspace, and what is planted in
//! the container leads the host nowhere.

use std::sync::Arc;
use std::time::{Duration, Instant};

use flock::id::TurnId;
use flock::sandbox::Sandbox;
use flock::sandbox::workspace_files::Workspaces;
use flock::tool::{AgentLookup, CallContext, Registry, ToolError, exec, files, process};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::docker::{self, Team};

struct Bench {
    team: Team,
    registry: Registry,
}

impl Bench {
    fn new() -> Option<Self> {
        let team = Team::new(&["coder"])?;
        let sandbox: Arc<dyn Sandbox> = Arc::new(team.sandbox());
        let source = team.source();
        let agents: AgentLookup = Arc::new(move |id| source().agent(id).cloned());
        let mut registry = Registry::default();
        registry.add(exec::tool(&sandbox));
        registry.add(process::tool(&sandbox));
        files::all(&agents, &Workspaces::new(&sandbox)).into_iter().for_each(|tool| registry.add(tool));
        Some(Self { team, registry })
    }

    async fn call_until(
        &self,
        name: &str,
        arguments: Value,
        cancel: CancellationToken,
    ) -> Result<String, String> {
        let context = CallContext {
            agent: "coder".parse().unwrap(),
            session: "agent:coder:flock:main:me".parse().unwrap(),
            turn: TurnId::new(),
            cancel,
            progress: None,
        };
        match self.registry.get(name).unwrap().call(&context, &arguments).await {
            Ok(output) => Ok(flock::provider::message::joined_text(&output.content)),
            Err(ToolError::ForModel(reason)) => Err(reason),
            Err(ToolError::Fatal(error)) => panic!("fatal: {error}"),
        }
    }

    async fn call(&self, name: &str, arguments: Value) -> Result<String, String> {
        self.call_until(name, arguments, CancellationToken::new()).await
    }

    /// Runs a command that must succeed, and gives what it printed.
    async fn exec(&self, command: &str) -> String {
        let text = self.call("exec", json!({"command": command})).await.unwrap();
        let (first, output) = text.split_once('\n').unwrap_or((&text, ""));
        assert!(first.starts_with("exit code 0,"), "{command}: {text}");
        output.to_owned()
    }

    /// How many processes of the sandbox have this word in their command line.
    async fn processes(&self, word: &str) -> usize {
        // The bracket keeps the search from finding itself.
        let (first, rest) = word.split_at(1);
        let command = format!(
            "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -c '[{first}]{rest}' || true"
        );
        self.exec(&command).await.trim().parse().unwrap()
    }

    /// Polls a job until its text holds `part`.
    async fn poll(&self, job: u32, part: &str) -> String {
        let end = Instant::now() + Duration::from_secs(30);
        let mut seen = String::new();
        loop {
            seen += &self.call("process", json!({"action": "poll", "sessionId": job})).await.unwrap();
            if seen.contains(part) {
                return seen;
            }
            assert!(Instant::now() < end, "{part:?} never came: {}", seen.lines().last().unwrap_or_default());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

#[test]
fn both_sides_work_on_the_same_files() {
    let Some(bench) = Bench::new() else { return };
    docker::block_on(async {
        bench.exec("true").await;
        let program =
            "for n in range(1, 16):\n    print('Fizz' * (n % 3 == 0) + 'Buzz' * (n % 5 == 0) or n)\n";
        let write = json!({"path": "/workspace/src/fizzbuzz.py", "content": program});
        bench.call("write", write).await.unwrap();
        let output = bench.exec("python3 src/fizzbuzz.py").await;
        assert!(output.ends_with("13\n14\nFizzBuzz\n"), "{output}");

        // What the tools wrote is the sandbox's to change, and the other way round.
        bench.exec("cd src && echo '# end' >> fizzbuzz.py && mkdir made && echo made > made/file").await;
        let edit = json!({"path": "src/fizzbuzz.py", "oldText": "# end", "newText": "print('end')"});
        bench.call("edit", edit).await.unwrap();
        let patch = "*** Begin Patch\n*** Update File: src/made/file\n*** Move to: src/moved\n-made\n+moved\n*** End Patch";
        bench.call("apply_patch", json!({"input": patch})).await.unwrap();
        assert!(bench.exec("python3 src/fizzbuzz.py; cat src/moved").await.ends_with("end\nmoved\n"));
        bench.exec("rm -r src").await;
        assert!(
            bench.call("read", json!({"path": "src/moved"})).await.unwrap_err().contains("does not exist")
        );
        let here = json!({"command": "pwd; echo $A", "workdir": "sub", "env": {"A": "b c"}});
        bench.exec("mkdir sub").await;
        assert!(bench.call("exec", here).await.unwrap().ends_with("\n/workspace/sub\nb c\n"));
    });
}

#[test]
fn what_is_planted_in_the_sandbox_leads_the_host_nowhere() {
    let Some(bench) = Bench::new() else { return };
    docker::block_on(async {
        bench
            .exec(
                "ln -s /etc/passwd link; ln -s / root; mkfifo fifo; mkdir folder; ln -s ../.. folder/up; \
                 python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"socket\")'",
            )
            .await;
        // Neither a device nor a second name for what is not the agent's can be made at all.
        for refused in ["mknod zero c 1 5", "ln /etc/passwd hard", "ln AGENTS.md hard"] {
            let text = bench.call("exec", json!({"command": refused})).await.unwrap();
            assert!(text.starts_with("exit code 1,"), "{refused}: {text}");
        }
        for path in ["link", "root/etc/passwd", "fifo", "folder", "folder/up/secret", "socket"] {
            for (tool, arguments) in [
                ("read", json!({"path": path})),
                ("image", json!({"path": path})),
                ("write", json!({"path": path, "content": "x"})),
                ("edit", json!({"path": path, "oldText": "root", "newText": "x"})),
            ] {
                let answer = tokio::time::timeout(Duration::from_secs(30), bench.call(tool, arguments)).await;
                let reason = answer.expect("blocked").unwrap_err();
                assert!(reason.contains("/workspace/"), "{tool} {path}: {reason}");
            }
        }
    });
}

#[test]
fn commands_end_as_they_are_told() {
    let Some(bench) = Bench::new() else { return };
    docker::block_on(async {
        let text = bench.call("exec", json!({"command": "echo out; echo err >&2; exit 3"})).await.unwrap();
        assert!(
            text.starts_with("exit code 3,") && text.contains("out\n") && text.contains("err\n"),
            "{text}"
        );
        let text = bench.call("exec", json!({"command": "kill -9 $$"})).await.unwrap();
        assert!(text.starts_with("ended by signal 9 (SIGKILL)"), "{text}");
        let missing = bench.call("exec", json!({"command": "true", "workdir": "missing"})).await;
        let reason = missing.unwrap_err();
        assert!(reason.starts_with("it was not started:") && reason.contains("missing"), "{reason}");

        let stubborn = "trap '' TERM INT HUP; (trap '' TERM; setsid sleep 4711) & echo started; sleep 4711";
        let text = bench.call("exec", json!({"command": stubborn, "timeout": 1})).await.unwrap();
        assert!(
            text.starts_with("timed out after 1 s and was killed") && text.ends_with("started\n"),
            "{text}"
        );
        assert_eq!(bench.processes("4711").await, 0);

        let cancel = CancellationToken::new();
        let (text, ()) =
            tokio::join!(bench.call_until("exec", json!({"command": "sleep 4712"}), cancel.clone()), async {
                while bench.processes("4712").await == 0 {}
                cancel.cancel();
            });
        assert!(text.unwrap().starts_with("stopped, and killed"));
        assert_eq!(bench.processes("4712").await, 0);

        let much = "head -c 200000000 /dev/zero | tr '\\0' x; echo; echo the end";
        let text = bench.call("exec", json!({"command": much})).await.unwrap();
        assert!(text.len() < 32 * 1024, "{}", text.len());
        assert!(text.contains(" bytes cut here …]") && text.ends_with("x\nthe end\n"));
        let cut: u64 = text.split("[… ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        let kept = text.split_once('\n').unwrap().1.len() as u64;
        let marker = text.split("[… ").nth(1).unwrap().split(']').next().unwrap().len() as u64 + 6;
        assert!((cut + kept).abs_diff(200_000_009 + marker) < 8, "cut {cut}, kept {kept}, marker {marker}");
    });
}

#[test]
fn background_jobs_are_polled_fed_and_killed() {
    let Some(bench) = Bench::new() else { return };
    docker::block_on(async {
        let start = |command: &str| bench.call("exec", json!({"command": command, "background": true}));
        let id = |text: String| -> u32 {
            text.split("sessionId ").nth(1).unwrap().split(';').next().unwrap().parse().unwrap()
        };
        let fed = id(start("echo ready; read line; echo got $line").await.unwrap());
        bench.poll(fed, "ready").await;
        bench
            .call("process", json!({"action": "write", "sessionId": fed, "data": "a line\n"}))
            .await
            .unwrap();
        let seen = bench.poll(fed, "exit code 0").await;
        let log = bench.call("process", json!({"action": "log", "sessionId": fed})).await.unwrap();
        assert!(log.ends_with("ready\ngot a line\n"), "{log} / {seen}");

        let killed = id(start("trap '' TERM; sleep 4713").await.unwrap());
        let list = bench.call("process", json!({"action": "list"})).await.unwrap();
        assert!(
            list.contains(&format!("session {killed}: running")) && list.contains("sleep 4713"),
            "{list}"
        );
        bench.call("process", json!({"action": "kill", "sessionId": killed})).await.unwrap();
        bench.poll(killed, "stopped, and killed").await;
        assert_eq!(bench.processes("4713").await, 0);
        let missing = bench.call("process", json!({"action": "poll", "sessionId": 4_000_000})).await;
        assert!(missing.unwrap_err().contains("no background session 4000000"));
    });
}

#[test]
fn a_sandbox_that_is_gone_is_made_again() {
    let Some(bench) = Bench::new() else { return };
    docker::block_on(async {
        bench.exec("echo kept > file").await;
        docker::docker(&["rm", "-f", &bench.team.container("coder")]);
        assert_eq!(bench.exec("cat file").await, "kept\n");
    });
}

//! Projects in git in real sandboxes: the clone, the agent's own branches, and nothing else.

use std::path::{Path, PathBuf};
use std::process::{Command as HostCommand, Stdio};
use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::body::Body;
use flock::config::Project;
use flock::gateway::git::GitService;
use flock::id::AgentId;
use flock::install::source::RepositoryAddress;
use flock::project::{ProjectRepository, RewrittenHistory, mirror};
use flock::provider::BoxFuture;
use flock::sandbox::docker::DockerSandbox;
use flock::sandbox::egress::SandboxApi;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use super::sandbox::{id, output, run};
use crate::support::docker::{self, Team};
use crate::support::home::TempHome;
use crate::support::{git, wait_until};

/// Makes the owner's repository, with one commit.
fn owners(folder: &Path) -> PathBuf {
    let path = folder.join("owner");
    std::fs::create_dir_all(&path).unwrap();
    git(&path, &["init", "-q", "-b", "main"]);
    std::fs::write(path.join("README.md"), "one\n").unwrap();
    std::os::unix::fs::symlink("README.md", path.join("link")).unwrap();
    git(&path, &["add", "-A"]);
    git(&path, &["commit", "-q", "-m", "begin"]);
    path
}

pub(super) fn sync(repository: &Path, owner: &Path) {
    let repository = ProjectRepository::create(repository, "main").unwrap();
    let address = RepositoryAddress::parse(owner.to_str().unwrap()).unwrap();
    mirror::sync(&repository, &address, "main", RewrittenHistory::Stop, 1).unwrap();
}

struct Api(GitService);

impl SandboxApi for Api {
    fn answer<'a>(
        &'a self,
        agent: &'a AgentId,
        request: axum::http::Request<hyper::body::Incoming>,
    ) -> BoxFuture<'a, axum::http::Response<Body>> {
        Box::pin(self.0.answer(agent, request))
    }
}

/// A team with the project `lib` of ann and bob, and the project `other` of bob.
struct Stage {
    team: Team,
    sandbox: DockerSandbox,
    lib: PathBuf,
    owner: PathBuf,
    _api: Arc<dyn SandboxApi>,
    _folder: tempfile::TempDir,
}

impl Stage {
    fn new() -> Option<Self> {
        let team = Team::new(&["ann", "bob"])?;
        let folder = tempfile::tempdir().unwrap();
        let owner = owners(folder.path());
        for name in ["lib", "other"] {
            let project =
                Project::new(name.parse().unwrap(), owner.to_str().unwrap().to_owned(), "main".into());
            let agents = if name == "lib" { vec![id("ann"), id("bob")] } else { vec![id("bob")] };
            sync(&team.home.project_repository(&project.name), &owner);
            team.configure(|config| config.projects.push(Project { agents, ..project }));
        }
        let api: Arc<dyn SandboxApi> = Arc::new(Api(GitService::new(team.home.clone(), team.source())));
        let weak: Weak<dyn SandboxApi> = Arc::downgrade(&api);
        let sandbox = team.sandbox().with_sandbox_api(weak);
        let lib = team.home.project_repository(&"lib".parse().unwrap());
        Some(Self { team, sandbox, lib, owner, _api: api, _folder: folder })
    }

    async fn output(&self, command: &str) -> String {
        output(&self.sandbox, "ann", command).await
    }

    /// Runs a command that must fail, and returns what it printed.
    async fn fails(&self, command: &str) -> String {
        let outcome = run(&self.sandbox, "ann", command).await.unwrap();
        let text = String::from_utf8_lossy(&[outcome.output.head, outcome.output.tail].concat()).into_owned();
        assert_ne!(outcome.end, flock::sandbox::CommandExit::Exited(0), "{command}: {text}");
        text
    }

    fn branch(&self, name: &str) -> Option<String> {
        let repository = ProjectRepository::open(&self.lib).unwrap();
        repository.branch(name).unwrap().map(|id| id.to_string())
    }

    fn assign(&self, agents: &[&str]) {
        let agents: Vec<AgentId> = agents.iter().map(|agent| id(agent)).collect();
        self.team.configure(|config| config.projects[0].agents = agents);
    }
}

#[test]
fn an_assigned_agent_has_a_clone_and_pushes_only_its_own_branches() {
    let Some(stage) = Stage::new() else { return };
    docker::block_on(async {
        let begin = stage
            .output("cd lib && git branch --show-current && git config user.name && cat README.md")
            .await;
        assert_eq!(begin, "flock/ann/work\nann\none");
        assert_eq!(
            stage.output("cd lib && git status --short && git rev-parse HEAD").await,
            stage.branch("main").unwrap()
        );
        assert_eq!(stage.output("cat lib/.git/objects/info/alternates").await, "/projects/lib/objects");
        assert_eq!(
            stage.output("find lib/.git/objects -type f ! -name alternates").await,
            "",
            "it copies nothing"
        );
        stage
            .output("cd lib && echo two >> README.md && git commit -qam 'Write two' && git push -q 2>&1")
            .await;
        let pushed = stage.output("cd lib && git rev-parse HEAD").await;
        assert_eq!(stage.branch("flock/ann/work"), Some(pushed.clone()));
        stage.output("cd lib && git switch -qc flock/ann/fix && git commit -q --allow-empty -m x && git push -q 2>&1").await;
        assert!(stage.branch("flock/ann/fix").is_some());
        stage.output("cd lib && git push -q origin --delete flock/ann/fix 2>&1").await;
        assert_eq!(stage.branch("flock/ann/fix"), None);

        // Neither the project's branch, nor another agent's, nor another project.
        let (before, owners) = (stage.branch("main"), git(&stage.owner, &["for-each-ref"]));
        let told = stage.fails("cd lib && git push origin HEAD:main 2>&1").await;
        assert!(told.contains("remote rejected") && told.contains("only flock moves this branch"), "{told}");
        let told = stage.fails("cd lib && git push --force origin HEAD:flock/bob/work 2>&1").await;
        assert!(told.contains("bob's branch"), "{told}");
        let told = stage.fails("git clone http://127.0.0.1:3128/git/other 2>&1").await;
        assert!(told.contains("ann is assigned to no project other"), "{told}");
        assert_eq!((stage.branch("main"), git(&stage.owner, &["for-each-ref"])), (before, owners));

        // The objects can be read and nothing else, and nothing else of the repository is there.
        assert_eq!(
            stage.output("ls /projects /projects/lib").await,
            "/projects:\nlib\n\n/projects/lib:\nobjects"
        );
        for forbidden in [
            "echo x > /projects/lib/objects/x",
            "rm -rf /projects/lib/objects/pack",
            "chmod 777 /projects/lib/objects",
            "mkdir /projects/lib/refs",
            "ls /projects/lib/objects/../refs",
            "cat /projects/lib/config",
        ] {
            stage.fails(forbidden).await;
        }
        assert!(stage.sandbox.probe(&id("ann")).await.unwrap().is_confined());

        // What others pushed and what the owner did arrives without a pack.
        let bob = "cd lib && echo bob > bob && git add bob && git commit -qm 'By bob' && git push -q 2>&1";
        output(&stage.sandbox, "bob", bob).await;
        std::fs::write(stage.owner.join("new"), "new\n").unwrap();
        git(&stage.owner, &["add", "-A"]);
        git(&stage.owner, &["commit", "-q", "-m", "more"]);
        sync(&stage.lib, &stage.owner);
        let fetched =
            "cd lib && git fetch -q 2>&1 && git show origin/flock/bob/work:bob && git show origin/main:new";
        assert_eq!(stage.output(fetched).await, "bob\nnew");
        assert_eq!(stage.output("cd lib && git switch -q flock/ann/work && git pull -q --no-edit 2>&1; git fsck 2>&1 && cat new").await, "new");
        assert_eq!(output(&stage.sandbox, "bob", "ls /projects").await, "lib\nother");
    });
    assert_eq!(git(&stage.lib, &["fsck", "--full", "--strict", "--no-dangling"]), "");
}

#[test]
fn the_mount_follows_the_assignment_and_work_stays() {
    let Some(stage) = Stage::new() else { return };
    docker::block_on(async {
        stage
            .output("cd lib && echo mine > mine && git add mine && git commit -qm mine && git push -q 2>&1")
            .await;
        let before = stage.sandbox.containers().await.unwrap().remove(0);
        stage.assign(&["bob"]);
        assert_eq!(stage.output("ls /projects 2>/dev/null || echo none").await, "none");
        assert_eq!(stage.output("cat lib/mine").await, "mine", "the workspace is the agent's");
        let told = stage.fails("curl -sf http://127.0.0.1:3128/ || git -C lib fetch 2>&1").await;
        assert!(!told.is_empty(), "{told}");
        let after = stage.sandbox.containers().await.unwrap().remove(0);
        assert_ne!((before.id, before.spec), (after.id, after.spec));
        // Assigned again, an existing clone is left alone.
        stage.assign(&["ann"]);
        stage.output("echo draft > lib/draft").await;
        assert_eq!(stage.output("cd lib && cat draft && git log -1 --format=%s").await, "draft\nmine");
        // A clone that is gone begins at the branch that was pushed.
        stage.output("rm -rf lib").await;
        stage.assign(&[]);
        stage.output("mkdir -p .lib.clone/left && ls /projects 2>&1 || true").await;
        stage.assign(&["ann"]);
        assert_eq!(
            stage
                .output("cd lib && cat mine && git branch --show-current && ls -A ..| grep -c clone || true")
                .await,
            "mine\nflock/ann/work\n0"
        );
        // What has the name of a project and is no clone is the agent's, too.
        stage.output("rm -rf lib && ln -s /etc lib").await;
        stage.assign(&[]);
        stage.output("true").await;
        stage.assign(&["ann"]);
        assert_eq!(stage.output("readlink lib && ls /projects").await, "/etc\nlib");
    });
}

#[test]
fn what_an_agent_plants_in_a_push_is_refused() {
    let Some(stage) = Stage::new() else { return };
    docker::block_on(async {
        stage.output("cd lib && git config gc.auto 0").await;
        let push = "git push origin $(git commit-tree -m evil -p HEAD $tree):refs/heads/flock/ann/evil 2>&1";
        for (plant, why) in [
            (
                "tree=$(printf '040000 tree %s\\t.git\\n' $(git rev-parse HEAD^{tree}) | git mktree)",
                "git's own folder",
            ),
            (
                "tree=$(printf '040000 tree %s\\t.GIT \\n' $(git rev-parse HEAD^{tree}) | git mktree)",
                "git's own folder",
            ),
            (
                "tree=$(printf '120000 blob %s\\ta\\n' $(printf /etc/shadow | git hash-object -w --stdin) | git mktree)",
                "absolute path",
            ),
            (
                "tree=$(printf '120000 blob %s\\ta\\n' $(printf ../../x | git hash-object -w --stdin) | git mktree)",
                "out of the project",
            ),
            (
                "tree=$(printf '100644 blob %s\\t.gitmodules\\n' $(printf '[submodule \"a\"]\\n\\turl = -u./x\\n' | git hash-object -w --stdin) | git mktree)",
                "submodule",
            ),
            (
                "tree=$(printf '100644 blob %s\\ta\\n100644 blob %s\\ta\\n' $(git rev-parse HEAD:README.md HEAD:README.md) | git mktree)",
                "twice",
            ),
        ] {
            let told = stage.fails(&format!("cd lib && {plant} && {push}")).await;
            assert!(told.contains("remote rejected") && told.contains(why), "{plant}: {told}");
            assert_eq!(stage.branch("flock/ann/evil"), None);
        }
        // Text that an agent chooses reaches the terminal of nobody else, and garbage is answered.
        for garbage in [
            "curl -s --data-binary @/bin/sh http://127.0.0.1:3128/git/lib/git-receive-pack",
            "python3 -c \"import urllib.request as u; print(u.urlopen('http://127.0.0.1:3128/git/lib/git-upload-pack', b'0000').read())\"",
            "python3 -c \"import urllib.request as u; print(u.urlopen('http://127.0.0.1:3128/git/lib/git-receive-pack', b'\\xff' * 70000).read())\"",
            "python3 -c \"import urllib.request as u; print(u.urlopen('http://127.0.0.1:3128/git/../api/config').read())\"",
        ] {
            run(&stage.sandbox, "ann", garbage).await.unwrap();
        }
        stage.output("cd lib && git commit -q --allow-empty -m good && git push -q 2>&1").await;
    });
    let incoming = std::fs::read_dir(stage.lib.join("incoming")).unwrap().count();
    assert_eq!(incoming, 0);
    assert_eq!(git(&stage.lib, &["fsck", "--full", "--strict", "--no-dangling"]), "");
}

#[test]
fn a_gateway_that_is_killed_during_pushes_loses_nothing_that_was_acknowledged() {
    const LIMIT: Duration = Duration::from_secs(120);
    let Some(home) = TempHome::init_in_docker() else { return };
    let owner = owners(&home.outside());
    // Each round changes two branches together, and writes down what git said was accepted. A git that was killed left its
    // own locks in the clone.
    let push = "cd lib && find .git -name '*.lock' -delete; n=0; while [ $n -lt 400 ]; do n=$((n + 1)); \
                head -c 20000 /dev/urandom > noise; git add noise; git commit -qm $n; \
                git push -q --atomic origin HEAD:flock/coder/a HEAD:flock/coder/b && git rev-parse HEAD >> ../accepted; done";
    let replies = json!({"replies": [{"steps": [
        {"calls": [{"name": "exec", "arguments": {"command": push}}]},
        {"say": "done"},
    ]}]});
    std::fs::write(home.file("scripts/test"), replies.to_string()).unwrap();
    home.flock(["config", "set", "agents.defaults.model.primary", "script/test"]).ok();
    home.flock(["add", "coder"]).ok();
    let lib = home.file("projects/lib.git");
    sync(&lib, &owner);
    let project = json!({"lib": {"repo": owner, "agents": ["coder"]}}).to_string();
    home.flock(["config", "set", "plugins.entries.flock.config.projects", &project]).ok();
    home.flock(["start"]).ok();
    let accepted = || -> Vec<String> {
        let text = std::fs::read_to_string(home.file("workspaces/coder/accepted")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    };
    let gateway = || -> Option<i32> {
        std::fs::read_to_string(home.file("run/gateway.pid")).ok()?.split_whitespace().next()?.parse().ok()
    };
    for round in 0..3 {
        let before = accepted().len();
        let mut chat = home
            .command()
            .args(["chat", "coder", &format!("push {round}")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_until("some pushes are accepted", LIMIT, || match accepted().len() {
            now if now >= before + 3 + round => Ok(()),
            now => Err(format!("{now} of {before}")),
        });
        let killed = gateway().unwrap();
        kill(Pid::from_raw(killed), Signal::SIGKILL).unwrap();
        wait_until("another gateway serves", LIMIT, || {
            let answers = home.flock(["status", "--json"]).code == 0;
            (answers && gateway().is_some_and(|now| now != killed)).then_some(()).ok_or_else(String::new)
        });
        let _ = chat.kill();
        let _ = chat.wait();
        // Between two pushes the branches are equal, whatever moment the kill hit.
        let repository = ProjectRepository::open(&lib).unwrap();
        let (a, b) =
            (repository.branch("flock/coder/a").unwrap(), repository.branch("flock/coder/b").unwrap());
        for commit in accepted().into_iter().filter(|line| line.len() == 40) {
            let commit = repository.find(&commit).unwrap();
            assert!(repository.contains(a.unwrap(), commit).unwrap(), "{commit} is lost");
            assert!(repository.contains(b.unwrap(), commit).unwrap(), "{commit} is lost");
        }
    }
    home.flock(["stop"]).ok();
    let repository = ProjectRepository::open(&lib).unwrap();
    repository.repair().unwrap();
    assert_eq!(repository.branch("flock/coder/a").unwrap(), repository.branch("flock/coder/b").unwrap());
    assert_eq!(std::fs::read_dir(lib.join("incoming")).map_or(0, Iterator::count), 0);
    assert_eq!(git(&lib, &["fsck", "--full", "--strict", "--no-dangling"]), "");
}

#[test]
fn a_copied_clone_pushes_to_the_branches_of_its_own_agent() {
    let Some(stage) = Stage::new() else { return };
    docker::block_on(async {
        let before = "cd lib && git commit -q --allow-empty -m mine && git branch flock/ann/two/x && \
                      git branch flock/other/y && git rev-parse HEAD";
        let commit = stage.output(before).await;
        // As the fork of an agent does it: bob's workspace is a copy of ann's.
        let [from, to] = ["ann", "bob"].map(|agent| stage.team.home.workspace(&id(agent)));
        let copied =
            HostCommand::new("cp").args(["-rT", "--preserve=mode,links"]).arg(&from).arg(&to).status();
        assert!(copied.unwrap().success());
        let own = async |command: &str| output(&stage.sandbox, "bob", command).await;
        assert_eq!(
            own("cd lib && git branch --show-current && git config user.name && git config user.email").await,
            "flock/bob/work\nbob\nbob@flock.invalid"
        );
        let branches = own("cd lib && git for-each-ref --format='%(refname:short)' refs/heads/").await;
        assert_eq!(branches, "flock/bob/two/x\nflock/bob/work\nflock/other/y");
        assert_eq!(own("cd lib && git rev-parse HEAD").await, commit, "it has what was not pushed");
        own("cd lib && git pull -q && git push -q origin HEAD 2>&1").await;
        assert_eq!((stage.branch("flock/bob/work"), stage.branch("flock/ann/work")), (Some(commit), None));
        assert_eq!(stage.output("cd lib && git branch --show-current").await, "flock/ann/work");
    });
}

#[test]
fn three_copies_race_and_the_right_one_is_merged_although_the_gateway_is_killed() {
    const LIMIT: Duration = Duration::from_secs(240);
    let Some(home) = TempHome::init_in_docker() else { return };
    let owner = home.outside().join("owner");
    std::fs::create_dir_all(owner.join("tests")).unwrap();
    git(&owner, &["init", "-q", "-b", "main"]);
    std::fs::write(owner.join("answer"), "0\n").unwrap();
    std::fs::write(owner.join("tests/check.sh"), "grep -qx 42 answer\n").unwrap();
    git(&owner, &["add", "-A"]);
    git(&owner, &["commit", "-q", "-m", "begin"]);
    let play = |copy: u32, change: &str| {
        let command = format!("cd lib && {change}; git commit -qam copy{copy}; git push -q origin HEAD");
        json!({"when": format!("copy {copy} of 3"), "steps": [
            {"calls": [{"name": "exec", "arguments": {"command": command}}]},
            {"calls": [{"name": "flock_project_submit", "arguments": {"project": "lib"}}]},
            {"say": "submitted"},
        ]})
    };
    let replies = json!({"replies": [
        play(1, "echo 42 > answer"),
        play(2, "echo 41 > answer"),
        play(3, "echo 42 > answer && echo true > tests/check.sh"),
        {"steps": [{"say": "understood"}]},
    ]});
    std::fs::write(home.file("scripts/test"), replies.to_string()).unwrap();
    home.flock(["config", "set", "agents.defaults.model.primary", "script/test"]).ok();
    home.flock(["config", "set", "plugins.entries.flock.config.races", "{\"idleSeconds\": 30}"]).ok();
    home.flock(["add", "coder"]).ok();
    let repo = owner.to_str().unwrap();
    home.flock(["project", "add", "lib", "--repo", repo, "--check", "sh tests/check.sh", "--agent", "coder"])
        .ok();
    home.flock(["channel", "create", "dev", "--topic", "answers", "--member", "coder"]).ok();
    home.flock(["start"]).ok();
    let race = ["race", "#dev", "3", "--project", "lib", "--minutes", "30", "--json", "Find the answer"];
    wait_until("the race begins", LIMIT, || {
        // The agent may be in a turn about its new channel.
        let run = home.flock(race);
        if run.code == 0 { Ok(()) } else { Err(format!("{run:?}")) }
    });
    let show = || home.flock(["race", "show", "1", "--json"]).ok().json()["race"].clone();
    let submissions =
        || home.flock(["project", "submissions", "lib", "--json"]).ok().json()["submissions"].clone();
    // A turn that the kill interrupts is over, and its script does not begin again.
    wait_until("each copy has submitted", LIMIT, || {
        if submissions().as_array().is_some_and(|all| all.len() == 3) {
            Ok(())
        } else {
            Err(show().to_string())
        }
    });
    let gateway = || -> Option<i32> {
        std::fs::read_to_string(home.file("run/gateway.pid")).ok()?.split_whitespace().next()?.parse().ok()
    };
    let killed = gateway().unwrap();
    kill(Pid::from_raw(killed), Signal::SIGKILL).unwrap();
    wait_until("another gateway serves", LIMIT, || {
        let answers = home.flock(["status", "--json"]).code == 0;
        (answers && gateway().is_some_and(|now| now != killed)).then_some(()).ok_or_else(String::new)
    });
    let decided = wait_until("the race is decided", LIMIT, || {
        let found = show();
        if found["state"] == "decided" { Ok(found) } else { Err(found.to_string()) }
    });
    assert_eq!(decided["winner"], 1, "{decided:#}");
    assert_eq!(decided["chosenBy"], json!(null), "the checks chose");
    wait_until("the winner is merged", LIMIT, || {
        let all = submissions();
        let merged: Vec<&str> = all
            .as_array()
            .unwrap()
            .iter()
            .filter(|one| one["state"] == "merged")
            .filter_map(|one| one["agent"].as_str())
            .collect();
        if merged == ["coder-r1-1"] { Ok(()) } else { Err(all.to_string()) }
    });
    let repository = ProjectRepository::open(&home.file("projects/lib.git")).unwrap();
    let tip = repository.branch("main").unwrap().unwrap().to_string();
    assert_eq!(git(&home.file("projects/lib.git"), &["show", &format!("{tip}:answer")]), "42");
    home.flock(["project", "diff", "lib", "coder-r1-3"]).ok();

    home.flock(["race", "drop", "1", "--yes"]).ok();
    let listed = home.flock(["list", "--json"]).ok().json();
    let mut agents: Vec<&str> =
        listed["agents"].as_array().unwrap().iter().filter_map(|agent| agent["id"].as_str()).collect();
    agents.retain(|agent| agent.starts_with("coder"));
    assert_eq!(agents, ["coder", "coder-r1-1"]);
    for loser in ["coder-r1-2", "coder-r1-3"] {
        assert!(
            !home.file(format!("workspaces/{loser}")).exists()
                && !home.file(format!("agents/{loser}")).exists()
        );
        let name = home.container(loser);
        assert_eq!(docker::docker(&["ps", "-aq", "--filter", &format!("name=^/{name}$")]), "", "{name}");
    }
    let branches = repository.references("refs/heads/flock/").unwrap();
    assert_eq!(branches.len(), 1, "{branches:?}");
    home.flock(["stop"]).ok();
}

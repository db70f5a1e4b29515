//! Receipts with real sandboxes: what a check can reach, who lies and is found out, and what a bundle proves elsewhere.

mod campaign;
mod cases;

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use flock::home::Home;
use flock::nix_store::PackageStore;
use flock::provider::BoxFuture;
use flock::receipt::verify::{self, Outcome};
use flock::receipt::{
    Acceptance, Checks, Delivery, NoPackages, PackageSource, Proof, Prover, Setup, bundle, prove, rebuild,
};
use flock::sandbox::check::{
    CheckEnd, CheckError, CheckPlan, CheckReport, CheckRunner, CommandReport, DockerChecks,
};
use flock::sandbox::egress::Dialer;
use flock::sandbox::names;
use flock::store::Store;
use sha2::Digest as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::support::database::HomeDatabase;
use crate::support::docker::{self, Team, docker as docker_command, worker};
use crate::support::wait_until;

/// A home with one agent, a repository and a base commit.
struct Scene {
    team: Team,
    repository: git2::Repository,
    base: String,
    _database: HomeDatabase,
    _folder: tempfile::TempDir,
}

/// A small library with tests that need nothing but Python. Names that end with `!` are executable, and texts that begin
/// with `->` are links.
const BASE: &[(&str, &str)] = &[
    ("calc.py", "def add(a, b):\n    return a + b\n"),
    (
        "tests/test_calc.py",
        "import unittest\nfrom calc import add\n\n\nclass Calc(unittest.TestCase):\n    def test_one(self):\n        \
         self.assertEqual(add(1, 2), 3)\n\n    def test_two(self):\n        self.assertEqual(add(-1, 1), 0)\n",
    ),
    ("tests/__init__.py", ""),
    ("ci/check.sh!", "#!/bin/sh\npython3 -m unittest discover -s tests -t .\n"),
    ("README.md", "A calculator.\n"),
];

const CHECK: &str = "python3 -m unittest discover -s tests -t .";

impl Scene {
    fn new() -> Option<Self> {
        let team = Team::new(&["coder"])?;
        team.configure(|config| {
            let agent = &mut config.agents[0];
            agent.docker.env.insert("API_KEY".to_owned(), "sk-planted-key".to_owned());
        });
        let database = HomeDatabase::of(&team.home);
        std::fs::write(team.home.secrets().join("provider"), "sk-planted-secret").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let repository = git2::Repository::init_bare(folder.path().join("repo.git")).unwrap();
        let base = commit(&repository, BASE);
        Some(Self { team, repository, base, _database: database, _folder: folder })
    }

    /// Commits the base with these changes. An empty text deletes a file.
    fn deliver(&self, changes: &[(&str, &str)]) -> String {
        let name = |path: &str| path.trim_end_matches('!').to_owned();
        let mut files: Vec<(&str, &str)> = BASE.to_vec();
        for (path, text) in changes {
            files.retain(|(known, _)| {
                name(known) != name(path) && !name(known).starts_with(&(name(path) + "/"))
            });
            if !text.is_empty() {
                files.push((path, text));
            }
        }
        commit(&self.repository, &files)
    }

    fn runner(&self) -> DockerChecks {
        DockerChecks::new(self.team.home.clone(), self.team.source(), Arc::clone(&self.team.engine))
    }

    async fn prove(&self, store: &Store, checks: &Checks, commit: &str) -> Proof {
        self.prove_with(store, checks, commit, &self.runner()).await
    }

    async fn prove_with(&self, store: &Store, checks: &Checks, commit: &str, runner: &DockerChecks) -> Proof {
        self.prove_by(store, checks, commit, runner, &NoPackages).await
    }

    async fn prove_by(
        &self,
        store: &Store,
        checks: &Checks,
        commit: &str,
        runner: &dyn CheckRunner,
        packages: &dyn PackageSource,
    ) -> Proof {
        let agent = worker(&self.team.home, "coder");
        let delivery = Delivery {
            project: "calc",
            task: "t1",
            branch: "flock/coder/t1",
            agent: &agent,
            repository: self.repository.path(),
            base: &self.base,
            commit,
            checks,
        };
        let prover = Prover { home: &self.team.home, store, runner, packages };
        prove(&delivery, &prover, &CancellationToken::new()).await.unwrap()
    }

    fn store(&self) -> Store {
        Store::open(&self.team.home).unwrap()
    }

    /// The names of the containers of checks that are there, running or not.
    fn containers(&self) -> Vec<String> {
        let owner = format!("label=flock.home={}", self.team.home.root().display());
        let found = docker_command(&[
            "ps",
            "-a",
            "--filter",
            &owner,
            "--filter",
            "label=flock.check",
            "--format",
            "{{.Names}}",
        ]);
        found.lines().map(str::to_owned).collect()
    }
}

fn commit(repository: &git2::Repository, files: &[(&str, &str)]) -> String {
    let mut index = git2::Index::new().unwrap();
    for (path, text) in files {
        let (path, mode) = match path.strip_suffix('!') {
            Some(path) => (path, 0o100_755),
            None if text.starts_with("->") => (*path, 0o120_000),
            None => (*path, 0o100_644),
        };
        let text = text.strip_prefix("->").unwrap_or(text);
        let entry = git2::IndexEntry {
            ctime: git2::IndexTime::new(0, 0),
            mtime: git2::IndexTime::new(0, 0),
            dev: 0,
            ino: 0,
            mode,
            uid: 0,
            gid: 0,
            file_size: 0,
            id: repository.blob(text.as_bytes()).unwrap(),
            flags: 0,
            flags_extended: 0,
            path: path.as_bytes().to_vec(),
        };
        index.add(&entry).unwrap();
    }
    let tree = repository.find_tree(index.write_tree_to(repository).unwrap()).unwrap();
    let who = git2::Signature::new("coder", "coder@example.com", &git2::Time::new(1, 0)).unwrap();
    repository.commit(None, &who, &who, "work", &tree, &[]).unwrap().to_string()
}

fn output(proof: &Proof, at: usize) -> String {
    String::from_utf8_lossy(&[proof.outputs[at].head.as_slice(), &proof.outputs[at].tail].concat())
        .into_owned()
}

#[test]
fn a_check_runs_on_exactly_the_tree_with_nothing_of_the_agent() {
    let Some(scene) = Scene::new() else { return };
    let commands = [
        "hostname; pwd; id -u; env | sort; ls -A",
        "python3 - <<'END'\nimport socket\ntry:\n    socket.create_connection(('1.1.1.1', 53), 2)\n    print('open')\n\
         except OSError as error:\n    print('closed')\nEND\nls /sys/class/net",
        "echo changed > calc.py; echo x > planted.py; echo y > ~/planted",
        "cat calc.py; ls; ls ~; ls /nix /tmp; cat /proc/1/environ /proc/self/mounts; exit 0",
        "sleep 1000 & echo left; exit 3",
    ];
    let checks =
        Checks { required: vec!["README.md".to_owned(), "missing".to_owned()], ..Checks::of(&commands) };
    // State of the agent that no check may see.
    let workspace = scene.team.home.workspace(&"coder".parse().unwrap());
    std::fs::create_dir_all(&workspace).unwrap();
    std::fs::write(workspace.join("agents-own-file"), "sk-planted-workspace").unwrap();
    docker::block_on(async {
        let store = scene.store();
        let proof = scene.prove(&store, &checks, &scene.base).await;
        let first = output(&proof, 0);
        assert!(first.starts_with("check\n/workspace\n"), "{first}");
        assert!(first.contains("HOME=/workspace/.flock-home\n"), "{first}");
        assert!(first.contains("\nREADME.md\ncalc.py\nci\ntests\n"), "{first}");
        assert_eq!(output(&proof, 1), "closed\nlo\n");
        let fourth = output(&proof, 3);
        assert!(fourth.starts_with("def add"), "the check before it changed its own copy: {fourth}");
        let all: String = (0..5).map(|at| output(&proof, at)).collect();
        assert!(!all.contains("planted.py\n") && !all.contains("agents-own-file"), "{all}");
        let text = String::from_utf8(proof.receipt.canonical().unwrap()).unwrap();
        for planted in ["sk-planted-key", "sk-planted-secret", "sk-planted-workspace"] {
            assert!(!all.contains(planted) && !text.contains(planted), "{planted}");
        }
        assert_eq!(proof.receipt.runs[4].exit, Some(3));
        assert!(
            matches!(&proof.acceptance, Acceptance::Refused(reasons) if reasons.len() == 2),
            "{:?}",
            proof.acceptance
        );
        assert_eq!(scene.containers(), [""; 0]);
        let left: Vec<_> = std::fs::read_dir(scene.team.home.checks()).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
    });
}

#[test]
fn a_check_without_end_is_stopped_and_a_long_output_is_hashed_whole() {
    let Some(scene) = Scene::new() else { return };
    let commands = ["echo begun; sleep 1000", "python3 -c \"print('x' * 3000000)\"", "true"];
    let checks = Checks { each_seconds: 15, all_seconds: 120, ..Checks::of(&commands) };
    docker::block_on(async {
        let proof = scene.prove(&scene.store(), &checks, &scene.base).await;
        assert_eq!(
            (proof.receipt.runs[0].end.as_str(), output(&proof, 0).as_str()),
            ("timed-out", "begun\n")
        );
        let long = &proof.receipt.runs[1];
        assert_eq!((long.output_bytes, long.exit), (3_000_001, Some(0)));
        let whole = "x".repeat(3_000_000) + "\n";
        assert_eq!(long.output_sha256, flock::id::hex(&sha2::Sha256::digest(whole.as_bytes())));
        assert!(output(&proof, 1).len() < 300_000);
        assert_eq!(proof.receipt.runs[2].exit, Some(0));
    });
}

/// A network in which every public address is a server of this test that answers with a fixed text.
struct Elsewhere(SocketAddr);

impl Dialer for Elsewhere {
    fn resolve<'a>(&'a self, _: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
        Box::pin(async move { Ok(vec![SocketAddr::new("93.184.215.14".parse().unwrap(), port)]) })
    }

    fn connect(&self, _: SocketAddr) -> BoxFuture<'_, io::Result<TcpStream>> {
        Box::pin(TcpStream::connect(self.0))
    }
}

async fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut buffer = [0; 4096];
                let _ = stream.read(&mut buffer).await;
                let _ = stream
                    .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello")
                    .await;
            });
        }
    });
    address
}

#[test]
fn a_setup_step_reaches_its_hosts_once_and_the_checks_none() {
    let Some(scene) = Scene::new() else { return };
    let fetch = |host: &str| {
        format!(
            "python3 -c \"import urllib.request; print(urllib.request.urlopen('http://{host}/').read().decode())\""
        )
    };
    let setup = Setup {
        command: format!(
            "{} > fetched && echo changed > calc.py && date +%N >> fetched && {} 2>/dev/null || true; test -s fetched",
            fetch("files.example"),
            fetch("other.example")
        ),
        egress: vec!["files.example:80".to_owned()],
        inputs: vec!["README.md".to_owned()],
        seconds: 60,
    };
    let commands = ["cat fetched", &format!("{} 2>&1 | tail -1", fetch("files.example")), "cat calc.py"];
    let checks = Checks { setup: Some(setup), ..Checks::of(&commands) };
    docker::block_on(async {
        let store = scene.store();
        let runner = scene.runner().with_dial(Arc::new(Elsewhere(server().await)));
        let proof = scene.prove_with(&store, &checks, &scene.base, &runner).await;
        let first = output(&proof, 0);
        assert!(first.starts_with("hello\n"), "{first}: {:?}", proof.receipt.setup);
        assert!(!output(&proof, 1).contains("hello"), "a check has no network: {}", output(&proof, 1));
        assert_eq!(
            output(&proof, 2),
            "def add(a, b):\n    return a + b\n",
            "the tree is as it was delivered"
        );
        assert!(!proof.receipt.setup.as_ref().unwrap().cached);
        // Another tree with the same inputs uses the same result. Another input makes a new one.
        let same = scene.deliver(&[("calc.py", "def add(a, b):\n    return b + a\n")]);
        let again = scene.prove_with(&store, &checks, &same, &runner).await;
        assert!(again.receipt.setup.as_ref().unwrap().cached);
        assert_eq!(output(&again, 0), first);
        let other = scene.deliver(&[("README.md", "other\n")]);
        let anew = scene.prove_with(&store, &checks, &other, &runner).await;
        assert!(!anew.receipt.setup.as_ref().unwrap().cached);
        // A setup step that fails runs no check.
        let failing = Setup { command: "exit 4".to_owned(), ..checks.setup.clone().unwrap() };
        let failing = Checks { setup: Some(failing), ..checks.clone() };
        let proof = scene.prove_with(&store, &failing, &scene.base, &runner).await;
        assert!(
            matches!(&proof.acceptance, Acceptance::Refused(reasons) if reasons[0].contains("setup step"))
        );
        assert_eq!(proof.receipt.runs[0].end, "not-run");
    });
}

#[test]
fn a_killed_run_leaves_no_container_after_the_next_start() {
    let Some(scene) = Scene::new() else { return };
    // A container of a process that was killed: it is there, and nobody holds its lock.
    let id = "0123456789ab";
    let name = names::check(&scene.team.home, id);
    let owner = format!("flock.home={}", scene.team.home.root().display());
    let image = flock::sandbox::image::reference(
        &scene.team.home,
        &(scene.team.source())(),
        flock::sandbox::image::Recipe::Sandbox,
    );
    docker_command(&[
        "run",
        "-d",
        "--name",
        &name,
        "--label",
        &owner,
        "--label",
        &format!("flock.check={id}"),
        &image,
        "sleep",
        "1000",
    ]);
    let folder = scene.team.home.checks().join(id).join("workspace");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o000)).unwrap();
    docker::block_on(async {
        let runner = scene.runner();
        // A run that lives is left alone by the sweep of another process.
        let store = scene.store();
        let checks = Checks::of(&["sleep 5; echo done"]);
        let other = scene.runner();
        let (proof, ()) = tokio::join!(scene.prove(&store, &checks, &scene.base), async {
            for _ in 0..20 {
                other.sweep().await.unwrap();
                tokio::task::yield_now().await;
            }
        });
        assert_eq!(output(&proof, 0), "done\n");
        runner.sweep().await.unwrap();
        assert_eq!(scene.containers(), [""; 0]);
        assert!(!scene.team.home.checks().join(id).exists());
        // A run that is cancelled by dropping it removes its container, too.
        let checks = Checks::of(&["sleep 1000"]);
        tokio::select! {
            _ = scene.prove(&store, &checks, &scene.base) => panic!("it can't end"),
            () = async { while scene.containers().is_empty() { tokio::task::yield_now().await; } } => {}
        }
    });
    wait_until("the container is gone", std::time::Duration::from_secs(60), || match scene.containers() {
        found if found.is_empty() => Ok(()),
        found => Err(format!("{found:?}")),
    });
}

/// Another home in the same engine, with images and nothing else.
fn fresh_home(team: &Team) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap().join("home");
    let home = Home::new(root.clone(), None);
    home.make_folders().unwrap();
    docker::block_on(flock::sandbox::image::ensure_images(&team.engine, &home, &(team.source())(), &|_| {}))
        .unwrap();
    (folder, root)
}

/// A home whose owner lies: it says of every command what an honest run of the base would have printed.
struct Liar;

impl CheckRunner for Liar {
    fn run<'a>(
        &'a self,
        plan: &'a CheckPlan,
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<CheckReport, CheckError>> {
        // With expectations that are turned, an honest run fails, too.
        let is_turned = !plan.extra.is_empty();
        let end = if is_turned { "FAILED (failures=2)" } else { "OK" };
        let text = format!("..\nRan 2 tests in 0.001s\n\n{end}\n").into_bytes();
        let run = |command: &String| CommandReport {
            command: command.clone(),
            end: CheckEnd::Exited(i32::from(is_turned)),
            took: std::time::Duration::from_millis(1),
            digest: flock::id::hex(&sha2::Sha256::digest(&text)),
            changed: Vec::new(),
            output: flock::sandbox::Output { head: text.clone(), tail: Vec::new(), total: text.len() as u64 },
        };
        let runs = plan.commands.iter().map(run).collect();
        let report = CheckReport { image: "sha256:abc".to_owned(), probed_at: 1, setup: None, runs };
        Box::pin(async { Ok(report) })
    }
}

async fn bundle_of(scene: &Scene, store: &Store, id: &str) -> Vec<u8> {
    let stored = store.receipts().find(id).await.unwrap().remove(0);
    let load = bundle::Export::load(&scene.team.home, store, stored).await.unwrap();
    bundle::export(&load, scene.repository.path(), Vec::new()).unwrap()
}

#[test]
fn a_bundle_is_verified_by_another_home_and_a_forged_result_is_not() {
    let Some(scene) = Scene::new() else { return };
    let checks = Checks::of(&[CHECK]);
    let (_folder, other) = fresh_home(&scene.team);
    let elsewhere = Home::new(other, None);
    docker::block_on(async {
        let store = scene.store();
        let proof = scene.prove(&store, &checks, &scene.deliver(&[("README.md", "new\n")])).await;
        let bytes = bundle_of(&scene, &store, &proof.id).await;
        for planted in ["sk-planted-key", "sk-planted-secret"] {
            assert!(!bytes.windows(planted.len()).any(|part| part == planted.as_bytes()), "{planted}");
        }
        let honest = bundle::read(bytes.as_slice()).unwrap();
        assert_eq!(honest.id, proof.id);
        let engine = Arc::clone(&scene.team.engine);
        let runner = DockerChecks::new(elsewhere.clone(), scene.team.source(), engine);
        let never = CancellationToken::new();
        let findings = verify::rerun(&honest, &runner, &never).await.unwrap();
        assert!(findings.iter().all(|finding| finding.outcome == Outcome::Verified), "{findings:?}");
        // The signature, the tree and the audit of a lie are all in order. The second run is not.
        let broken = scene.deliver(&[("calc.py", "def add(a, b):\n    return 0\n")]);
        let lie = scene.prove_by(&store, &checks, &broken, &Liar, &NoPackages).await;
        assert_eq!(lie.acceptance, Acceptance::Accepted);
        let forged = bundle::read(bundle_of(&scene, &store, &lie.id).await.as_slice()).unwrap();
        let documents = verify::documents(&forged, Some(&[forged.key]));
        assert!(documents.iter().all(|finding| finding.outcome == Outcome::Verified), "{documents:?}");
        let findings = verify::rerun(&forged, &runner, &never).await.unwrap();
        let check = findings.iter().find(|finding| finding.part == "check").unwrap();
        assert_eq!(check.outcome, Outcome::Differs, "{check:?}");
    });
    docker::clean(&elsewhere);
}

#[test]
fn the_packages_of_a_check_are_named_and_rebuilt_elsewhere() {
    let Some(scene) = Scene::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let flake = super::store::flake(folder.path());
    scene.team.configure(|config| config.nix_flake = Some(format!("path:{}", flake.display())));
    let (_other_folder, other) = fresh_home(&scene.team);
    let elsewhere = Home::new(other, None);
    let (never, coder) = (CancellationToken::new(), "coder".parse().unwrap());
    docker::block_on(async {
        let packages = scene.team.store();
        packages.install(&coder, &["greet".parse().unwrap()], &never, &|_| {}).await.unwrap();
        let store = scene.store();
        let proof =
            scene.prove_by(&store, &Checks::of(&["greet"]), &scene.base, &scene.runner(), &packages).await;
        assert_eq!(output(&proof, 0), "greet from the store\n");
        assert_eq!(proof.receipt.packages[0].attribute, "greet");
        let names = |paths: &[String]| {
            paths.iter().all(|path| proof.receipt.closure.iter().any(|one| one.path == *path))
        };
        assert!(names(&proof.receipt.packages[0].paths), "{:?}", proof.receipt.closure);
        assert!(proof.receipt.closure.iter().all(|one| one.nar_hash.starts_with("sha256")));
        let bundle = bundle::read(bundle_of(&scene, &store, &proof.id).await.as_slice()).unwrap();
        let engine = Arc::clone(&scene.team.engine);
        let there = PackageStore::new(elsewhere.clone(), scene.team.source(), Arc::clone(&engine));
        there.ensure().await.unwrap();
        let findings = rebuild::packages(&bundle, &there, &never, &|_| {}).await.unwrap();
        assert_eq!(findings[0].outcome, Outcome::Verified, "{findings:?}");
        let runner = DockerChecks::new(elsewhere.clone(), scene.team.source(), engine);
        let findings = verify::rerun(&bundle, &runner, &never).await.unwrap();
        assert!(findings.iter().all(|finding| finding.outcome == Outcome::Verified), "{findings:?}");
    });
    docker::clean(&elsewhere);
}

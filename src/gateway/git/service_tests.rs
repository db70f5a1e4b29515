//! Tests with the real `git`, which talks to the service over loopback as it does in a sandbox.

use std::path::Path;

use hyper_util::rt::TokioIo;
use serde_json::json;

use super::*;
use crate::home::{Home, atomic};
use crate::project::testing::{self, try_git, write_and_commit};
use crate::project::{RefChange, RewrittenHistory, mirror};

struct Stage {
    folder: tempfile::TempDir,
    home: Home,
    owner: PathBuf,
    service: Arc<GitService>,
}

impl Stage {
    /// A project `lib` with the agents ann and bob, and a project `other` with bob alone.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().canonicalize().unwrap().join("home"), None);
        home.make_folders().unwrap();
        let mut document = crate::config::starter::document(&home, None, "token", 3779);
        let owner = testing::owners(folder.path());
        let repo = owner.to_str().unwrap();
        document["plugins"]["entries"]["flock"]["config"]["projects"] = json!({"lib": {"repo": repo, "agents": ["ann", "bob"]}, "other": {"repo": repo, "agents": ["bob"]}});
        atomic::write(&home.config(), document.to_string().as_bytes(), 0o600).unwrap();
        let live = crate::config::Live::open(home.clone()).unwrap();
        let service = GitService::new(home.clone(), Arc::new(move || live.current()));
        let stage = Self { folder, home, owner, service: Arc::new(service) };
        for name in ["lib", "other"] {
            let repository = ProjectRepository::create(&stage.repository(name), "main").unwrap();
            stage.sync(&repository);
        }
        stage
    }

    fn repository(&self, name: &str) -> PathBuf {
        self.home.project_repository(&name.parse().unwrap())
    }

    fn open(&self) -> ProjectRepository {
        ProjectRepository::open(&self.repository("lib")).unwrap()
    }

    fn sync(&self, repository: &ProjectRepository) {
        let address = self.owner.to_str().unwrap();
        let address = crate::install::source::RepositoryAddress::parse(address).unwrap();
        mirror::sync(repository, &address, "main", RewrittenHistory::Stop, 1).unwrap();
    }

    /// Listens as the sandbox of this agent does, and returns the address of a project there.
    async fn listen(&self, agent: &str) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (service, agent): (_, AgentId) = (self.service.clone(), agent.parse().unwrap());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (service, agent) = (service.clone(), agent.clone());
                let answer = hyper::service::service_fn(move |request| {
                    let (service, agent) = (service.clone(), agent.clone());
                    async move { Ok::<_, std::convert::Infallible>(service.answer(&agent, request).await) }
                });
                let connection = hyper::server::conn::http1::Builder::new();
                tokio::spawn(connection.serve_connection(TokioIo::new(stream), answer));
            }
        });
        format!("http://127.0.0.1:{port}/git/lib")
    }
}

/// Runs git in a blocking thread, because the service answers in this runtime.
async fn git(folder: &Path, arguments: &[&str]) -> (bool, String) {
    let folder = folder.to_owned();
    let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
    let run = move || try_git(&folder, &arguments.iter().map(String::as_str).collect::<Vec<_>>());
    tokio::task::spawn_blocking(run).await.unwrap()
}

async fn good(folder: &Path, arguments: &[&str]) -> String {
    let (is_good, text) = git(folder, arguments).await;
    assert!(is_good, "git {arguments:?}: {text}");
    text
}

async fn bad(folder: &Path, arguments: &[&str]) -> String {
    let (is_good, text) = git(folder, arguments).await;
    assert!(!is_good, "git {arguments:?}: {text}");
    text
}

#[tokio::test]
async fn an_agent_clones_pushes_fetches_and_deletes() {
    let stage = Stage::new();
    let url = stage.listen("ann").await;
    let root = stage.folder.path();
    good(root, &["clone", "-q", &url, "ann"]).await;
    let ann = root.join("ann");
    assert_eq!(good(&ann, &["branch", "--show-current"]).await, "main");
    good(&ann, &["checkout", "-q", "-b", "flock/ann/work"]).await;
    let first = write_and_commit(&ann, "a", "a\n");
    good(&ann, &["push", "-q", "origin", "HEAD"]).await;
    assert_eq!(stage.open().branch("flock/ann/work").unwrap(), Some(first));
    // A thin pack, and a rewritten branch.
    let second = write_and_commit(&ann, "README.md", "one\ntwo\n");
    good(&ann, &["push", "-q", "origin", "HEAD"]).await;
    assert_eq!(stage.open().branch("flock/ann/work").unwrap(), Some(second));
    good(&ann, &["commit", "-q", "--amend", "-m", "other"]).await;
    assert!(bad(&ann, &["push", "-q", "origin", "HEAD"]).await.contains("non-fast-forward"));
    good(&ann, &["push", "-q", "--force", "origin", "HEAD"]).await;
    assert_ne!(stage.open().branch("flock/ann/work").unwrap(), Some(second));
    // The owner moves on, and another clone gets it with a pack that has only the rest.
    write_and_commit(&stage.owner, "b", "b\n");
    stage.sync(&stage.open());
    good(&ann, &["fetch", "-q", "origin"]).await;
    assert_eq!(good(&ann, &["show", "origin/main:b"]).await, "b");
    good(&ann, &["push", "-q", "origin", "--delete", "flock/ann/work"]).await;
    assert_eq!(stage.open().branch("flock/ann/work").unwrap(), None);
    assert_eq!(good(&ann, &["fsck", "--full", "--strict"]).await, "");
    let checked = good(&stage.repository("lib"), &["fsck", "--full", "--strict", "--no-dangling"]).await;
    // Newer versions of git have another name for a setting that libgit2 knows under this one.
    assert!(checked.lines().all(|line| line.contains("core.fsyncObjectFiles is deprecated")), "{checked}");
}

/// Adds a commit for each number, without a process for each. If a file is named, it has the number.
fn add_commits(checkout: &Path, numbers: std::ops::Range<usize>, file: Option<&str>) {
    let repository = git2::Repository::open(checkout).unwrap();
    let author = git2::Signature::now("ann", "ann@example.org").unwrap();
    for number in numbers {
        let parent = repository.head().unwrap().peel_to_commit().unwrap();
        let mut tree = parent.tree().unwrap();
        if let Some(file) = file {
            let mut entries = repository.treebuilder(Some(&tree)).unwrap();
            let blob = repository.blob(format!("{number}\n").as_bytes()).unwrap();
            entries.insert(file, blob, 0o100_644).unwrap();
            tree = repository.find_tree(entries.write().unwrap()).unwrap();
        }
        let message = number.to_string();
        repository.commit(Some("HEAD"), &author, &author, &message, &tree, &[&parent]).unwrap();
    }
}

#[tokio::test]
async fn large_pushes_and_long_histories_go_through() {
    let stage = Stage::new();
    let url = stage.listen("ann").await;
    let root = stage.folder.path();
    good(root, &["clone", "-q", &url, "ann"]).await;
    let ann = root.join("ann");
    good(&ann, &["checkout", "-q", "-b", "flock/ann/work"]).await;
    // More than git's buffer for one request, so that the body comes in chunks.
    let noise: Vec<u8> = (0..3 << 20).map(|_| rand::random::<u8>()).collect();
    std::fs::write(ann.join("noise"), &noise).unwrap();
    write_and_commit(&ann, "count", "0\n");
    add_commits(&ann, 1..150, Some("count"));
    good(&ann, &["push", "-q", "origin", "HEAD"]).await;
    // The negotiation of a clone with other commits takes several rounds, and its requests are compressed.
    let bob = stage.listen("bob").await;
    good(root, &["clone", "-q", "--no-tags", "-b", "main", "--single-branch", &bob, "bob"]).await;
    let bob = root.join("bob");
    add_commits(&bob, 0..300, None);
    good(&bob, &["fetch", "-q", "origin", "flock/ann/work"]).await;
    assert_eq!(good(&bob, &["show", "FETCH_HEAD:count"]).await, "149");
    good(root, &["-c", "protocol.version=1", "clone", "-q", &url, "again"]).await;
    assert_eq!(std::fs::read(root.join("again/README.md")).unwrap(), b"one\n");
    assert_eq!(good(&root.join("again"), &["fsck", "--full", "--strict"]).await, "");
}

#[tokio::test]
async fn branches_of_others_and_other_projects_are_refused_in_words() {
    let stage = Stage::new();
    let url = stage.listen("ann").await;
    let root = stage.folder.path();
    good(root, &["clone", "-q", &url, "ann"]).await;
    let ann = root.join("ann");
    write_and_commit(&ann, "a", "a\n");
    let before = stage.open().branch("main").unwrap();
    let push = async |to: &str| bad(&ann, &["push", "origin", to]).await;
    let told = push("HEAD:main").await;
    assert!(told.contains("remote rejected") && told.contains("only flock moves this branch"), "{told}");
    assert!(push("HEAD:flock/bob/work").await.contains("bob's branch"));
    assert!(push("HEAD:refs/tags/v1").await.contains("only branches can be pushed"));
    assert!(push("HEAD:refs/flock/owner").await.contains("only branches can be pushed"));
    assert!(push(":main").await.contains("only flock moves this branch"));
    let both = bad(&ann, &["push", "--atomic", "origin", "HEAD:flock/ann/x", "HEAD:main"]).await;
    assert!(both.contains("only flock moves"), "{both}");
    assert_eq!(stage.open().branch("flock/ann/x").unwrap(), None);
    let one = bad(&ann, &["push", "origin", "HEAD:flock/ann/x", "HEAD:main"]).await;
    assert!(one.contains("[new branch]") && one.contains("[remote rejected]"), "{one}");
    assert!(stage.open().branch("flock/ann/x").unwrap().is_some());
    assert_eq!(stage.open().branch("main").unwrap(), before);
    let other = url.replace("/lib", "/other");
    let told = bad(root, &["clone", &other, "other"]).await;
    assert!(told.contains("ann is assigned to no project other"), "{told}");
    let none = bad(root, &["clone", &url.replace("/lib", "/none"), "none"]).await;
    assert!(none.contains("ann is assigned to no project none"), "{none}");
    for path in ["/../home/config.json", "/lib/../other", "/lib/objects/info/packs", "/lib/HEAD"] {
        bad(root, &["clone", &url.replace("/lib", path), "x"]).await;
    }
    assert!(bad(&ann, &["push", &other, "HEAD:flock/ann/x"]).await.contains("assigned to no project"));
}

#[tokio::test]
async fn a_hostile_push_is_refused_in_words_and_leaves_nothing() {
    let stage = Stage::new();
    let url = stage.listen("ann").await;
    let root = stage.folder.path();
    good(root, &["clone", "-q", &url, "ann"]).await;
    let ann = root.join("ann");
    std::os::unix::fs::symlink("/etc/passwd", ann.join("link")).unwrap();
    good(&ann, &["add", "-A"]).await;
    good(&ann, &["commit", "-q", "-m", "x"]).await;
    let told = bad(&ann, &["push", "origin", "HEAD:flock/ann/x"]).await;
    assert!(told.contains("the target of the link link is an absolute path"), "{told}");
    assert_eq!(stage.open().branch("flock/ann/x").unwrap(), None);
    // A push while another one moved the branch.
    good(&ann, &["reset", "-q", "--hard", "HEAD~1"]).await;
    let commit = write_and_commit(&ann, "a", "a\n");
    good(&ann, &["push", "-q", "origin", "HEAD:flock/ann/y"]).await;
    let name = "refs/heads/flock/ann/y".to_owned();
    stage.open().update(&[RefChange { name, old: Some(commit), new: None }]).unwrap();
    write_and_commit(&ann, "a", "b\n");
    let told = bad(&ann, &["push", "--force-with-lease", "origin", "HEAD:flock/ann/y"]).await;
    assert!(told.contains("stale info"), "{told}");
}

#[tokio::test]
async fn the_listener_hears_of_each_push() {
    let stage = Stage::new();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let sink = heard.clone();
    stage.service.on_push(Arc::new(move |project, push, report| {
        let good = report.references.iter().filter(|(_, result)| result.is_ok()).count();
        lock(&sink).push(format!("{project} {} {good}", push.agent));
    }));
    let url = stage.listen("bob").await;
    let root = stage.folder.path();
    good(root, &["clone", "-q", &url, "bob"]).await;
    let bob = root.join("bob");
    write_and_commit(&bob, "a", "a\n");
    good(&bob, &["push", "-q", "origin", "HEAD:flock/bob/x"]).await;
    bad(&bob, &["push", "-q", "origin", "HEAD:main"]).await;
    assert_eq!(*lock(&heard), ["lib bob 1", "lib bob 0"]);
}

//! A git repository with OpenClaw's shape, to be cloned, built and run in its place.
//!
//! Its files are in `tests/fixtures/openclaw`: a package without dependencies whose build takes well under a second
//! and whose `openclaw.mjs gateway run` is a small server with the real one's strictness and habits (see the head of
//! `src/gateway.mjs` for what it answers, and `requests.jsonl` and `started.json` in its state folder for what it
//! was asked and started with).
//!
//! ```ignore
//! let upstream = Upstream::new(Era::Old);                 // branch main, tag v2026.2.9
//! let upstream = Upstream::built(Era::Old);               // the same, without a build
//! home.flock(["init", "--yes", "--gateway", "openclaw", "--repo", upstream.path(), "--ref", "main"]).ok();
//! upstream.release("2026.2.10");                          // a second commit, for `flock update`
//! upstream.fault("build", "fail");                        // a commit whose build fails
//! upstream.mend();                                        // one where nothing does
//! ```
//!
//! What [`Upstream::fault`] knows, as `step`: `how`:
//! - `install`, `ui`, `build`: `fail` (after 40 lines), `hang` (prints `hanging PID CHILD`), `hang-once` (the first
//!   time in this user's home folder), `garbage`
//! - `version` (the check after a build): `exit:CODE`, `hang`, `hang-once`, `record_crash`
//! - `start` (any `gateway run`): `exit:CODE`, `hang`, `record_crash`
//! - `after-swap` (a `gateway run` of the version that the home's link points to): the same, or `sick` (never answers)
//! - `health`: `never` (connections are dropped) or `impostor` (200 to whatever is asked)

use std::path::{Path, PathBuf};

use git2::{Commit, IndexAddOption, Oid, Repository, RepositoryInitOptions, Signature};
use serde_json::{Value, json};

/// Whose habits the gateway has: they differ in configuration, exit codes, health endpoints and hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    /// As 2026.2.9: `agents.list`, exit 1 on a bad configuration, no health endpoint.
    Old,
    /// As 2026.9.6: `agents.entries` as well, exit 78, `/readyz`.
    New,
}

impl Era {
    const fn version(self) -> &'static str {
        match self {
            Self::Old => "2026.2.9",
            Self::New => "2026.9.6",
        }
    }
}

/// The repository, gone with the value.
pub struct Upstream {
    dir: tempfile::TempDir,
    repository: Repository,
    /// `true` if its commits hold what a build makes.
    built: bool,
}

impl Upstream {
    /// With one commit on the branch `main`, and a tag of its version.
    pub fn new(era: Era) -> Self {
        let upstream = Self::without_commits(era, false);
        upstream.release(era.version());
        upstream
    }

    /// Like [`Upstream::new`], but each commit is as a package is published: built, and without scripts to build it
    /// again. A build runs npm three times, which is most of the work of an install, so this is for tests of something
    /// else.
    pub fn built(era: Era) -> Self {
        let upstream = Self::without_commits(era, true);
        let root = upstream.root();
        std::fs::create_dir(root.join("dist")).unwrap();
        std::fs::remove_dir_all(root.join("scripts")).unwrap();
        // It keeps what is built out of commits.
        std::fs::remove_file(root.join(".gitignore")).unwrap();
        upstream.package(|package| {
            let package = package.as_object_mut().unwrap();
            package.remove("scripts");
            package.remove("packageManager");
        });
        upstream.release(era.version());
        upstream
    }

    fn without_commits(era: Era, built: bool) -> Self {
        let dir = tempfile::Builder::new().prefix("flock-upstream-").tempdir().unwrap();
        let root = dir.path().join("openclaw");
        copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/openclaw"), &root);
        let mut options = RepositoryInitOptions::new();
        options.initial_head("main");
        let repository = Repository::init_opts(&root, &options).unwrap();
        let upstream = Self { dir, repository, built };
        let habits = if era == Era::Old { "2.9" } else { "9.6" };
        upstream.write("fixture.json", &json!({ "era": habits }).to_string());
        upstream
    }

    /// Its working tree, which can be cloned as it is.
    pub fn root(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join("openclaw")
    }

    /// The same, as an argument.
    pub fn path(&self) -> String {
        self.root().display().to_string()
    }

    /// The same, as a URL.
    pub fn url(&self) -> String {
        format!("file://{}", self.path())
    }

    /// The repository itself.
    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    /// The commit that `main` is at.
    pub fn head(&self) -> String {
        self.repository.head().unwrap().peel_to_commit().unwrap().id().to_string()
    }

    /// Writes a file; [`Upstream::commit`] takes it up.
    pub fn write(&self, path: &str, text: &str) {
        let file = self.root().join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }

    /// Changes package.json; [`Upstream::commit`] takes it up.
    pub fn package(&self, change: impl FnOnce(&mut Value)) {
        let file = self.root().join("package.json");
        let mut package: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        change(&mut package);
        std::fs::write(file, serde_json::to_vec_pretty(&package).unwrap()).unwrap();
    }

    /// Commits all there is on `main`; the commit.
    pub fn commit(&self, message: &str) -> String {
        if self.built {
            // A test may have changed the source.
            let root = self.root();
            std::fs::copy(root.join("src/gateway.mjs"), root.join("dist/gateway.mjs")).unwrap();
        }
        let mut index = self.repository.index().unwrap();
        index.add_all(["*"], IndexAddOption::DEFAULT, None).unwrap();
        index.update_all(["*"], None).unwrap();
        index.write().unwrap();
        let tree = self.repository.find_tree(index.write_tree().unwrap()).unwrap();
        let who = Signature::now("Ann", "ann@example.org").unwrap();
        let parent = self.repository.head().ok().and_then(|head| head.peel_to_commit().ok());
        let parents: Vec<&Commit<'_>> = parent.iter().collect();
        self.repository.commit(Some("HEAD"), &who, &who, message, &tree, &parents).unwrap().to_string()
    }

    /// A commit of this version with its tag; the commit.
    pub fn release(&self, version: &str) -> String {
        self.package(|package| package["version"] = version.into());
        let commit = self.commit(&format!("Release {version}"));
        self.tag(&format!("v{version}"), &commit);
        commit
    }

    /// A commit where this step goes wrong; what went wrong before no longer does.
    pub fn fault(&self, step: &str, how: &str) -> String {
        let is_of_build = matches!(step, "install" | "ui" | "build");
        assert!(!(self.built && is_of_build), "nothing builds it, so {step} can't go wrong");
        self.write("fault.json", &json!({ step: how }).to_string());
        self.commit(&format!("Have {step} {how}"))
    }

    /// A commit where nothing goes wrong.
    pub fn mend(&self) -> String {
        self.write("fault.json", "{}");
        self.commit("Mend it")
    }

    /// Tags a commit.
    pub fn tag(&self, name: &str, commit: &str) {
        let object = self.repository.find_object(Oid::from_str(commit).unwrap(), None).unwrap();
        let who = Signature::now("Ann", "ann@example.org").unwrap();
        self.repository.tag(name, &object, &who, name, true).unwrap();
    }

    /// Makes or moves a branch.
    pub fn branch(&self, name: &str, commit: &str) {
        let commit = self.repository.find_commit(Oid::from_str(commit).unwrap()).unwrap();
        self.repository.branch(name, &commit, true).unwrap();
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

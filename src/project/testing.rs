//! Repositories for the tests of projects.

use std::path::{Path, PathBuf};
use std::process::Command;

use git2::{Oid, Signature, Time};

use super::reference::BRANCHES;
use super::repository::{ProjectRepository, RefChange};

/// A project's repository in a temporary folder.
pub(crate) struct Sample {
    pub repository: ProjectRepository,
    pub folder: tempfile::TempDir,
}

impl Sample {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let repository = ProjectRepository::create(&folder.path().join("lib.git"), "main").unwrap();
        Self { repository, folder }
    }

    /// Writes a commit with exactly these files. A path may have folders.
    pub fn commit(&self, parents: &[Oid], files: &[(&str, &str)]) -> Oid {
        self.commit_as("change", parents, files)
    }

    pub fn commit_as(&self, message: &str, parents: &[Oid], files: &[(&str, &str)]) -> Oid {
        let git = self.repository.git();
        let mut index = git2::Index::new().unwrap();
        for (path, text) in files {
            let (mode, text) = match text.strip_prefix("-> ") {
                Some(target) => (0o120_000, target),
                None => (0o100_644, *text),
            };
            let id = git.blob(text.as_bytes()).unwrap();
            index.add(&entry(path, mode, id)).unwrap();
        }
        let tree = git.find_tree(index.write_tree_to(git).unwrap()).unwrap();
        let parents: Vec<_> = parents.iter().map(|id| git.find_commit(*id).unwrap()).collect();
        let parents: Vec<_> = parents.iter().collect();
        let author = Signature::new("ann", "ann@flock", &Time::new(1_700_000_000, 0)).unwrap();
        git.commit(None, &author, &author, message, &tree, &parents).unwrap()
    }

    /// Moves a branch, wherever it was.
    pub fn set(&self, branch: &str, commit: Oid) {
        let old = self.repository.branch(branch).unwrap();
        let name = format!("{BRANCHES}{branch}");
        self.repository.update(&[RefChange { name, old, new: Some(commit) }]).unwrap();
    }
}

pub(crate) fn entry(path: &str, mode: u32, id: Oid) -> git2::IndexEntry {
    git2::IndexEntry {
        ctime: git2::IndexTime::new(0, 0),
        mtime: git2::IndexTime::new(0, 0),
        dev: 0,
        ino: 0,
        mode,
        uid: 0,
        gid: 0,
        file_size: 0,
        id,
        flags: 0,
        flags_extended: 0,
        path: path.as_bytes().to_vec(),
    }
}

/// Runs the machine's git in a folder, without anybody's settings, and returns what it prints.
pub(crate) fn git(folder: &Path, arguments: &[&str]) -> String {
    let (is_good, text) = try_git(folder, arguments);
    assert!(is_good, "git {arguments:?}: {text}");
    text
}

/// Runs the machine's git as [`git`] does, also if it fails. Returns standard output and error together.
pub(crate) fn try_git(folder: &Path, arguments: &[&str]) -> (bool, String) {
    let output = Command::new("git")
        .args(["-c", "user.name=ann", "-c", "user.email=ann@flock", "-c", "protocol.file.allow=always"])
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env_remove("GIT_DIR")
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).trim().to_owned())
}

/// Makes an owner's repository with one commit on `main`, and returns its folder.
pub(crate) fn owners(folder: &Path) -> PathBuf {
    let path = folder.join("owner");
    std::fs::create_dir(&path).unwrap();
    git(&path, &["init", "-q", "-b", "main"]);
    write_and_commit(&path, "README.md", "one\n");
    path
}

/// Writes a file in a checkout and commits it. Returns the commit.
pub(crate) fn write_and_commit(checkout: &Path, name: &str, text: &str) -> Oid {
    let path = checkout.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
    git(checkout, &["add", "-A"]);
    git(checkout, &["commit", "-q", "-m", &format!("change {name}")]);
    Oid::from_str(&git(checkout, &["rev-parse", "HEAD"])).unwrap()
}

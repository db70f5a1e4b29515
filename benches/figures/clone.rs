//! Cloning a repository of 4000 files, one commit deep: flock's way and `git clone`, from a folder and over loopback.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use flock::install::source::{self, RepositoryAddress};

use crate::{Sample, row};

/// Each way three times, in turns.
pub fn run() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = folder.path().join("upstream");
    make(&upstream);
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    // The program itself: `git daemon` would be its parent, and killed in its place.
    let programs = Command::new("git").arg("--exec-path").output().unwrap().stdout;
    let programs = String::from_utf8(programs).unwrap();
    let mut daemon = Command::new(Path::new(programs.trim()).join("git-daemon"))
        .args(["--reuseaddr", "--listen=127.0.0.1", "--export-all"])
        .arg(format!("--port={port}"))
        .arg(format!("--base-path={}", folder.path().display()))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let end = Instant::now() + Duration::from_secs(20);
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < end, "git daemon does not answer");
        std::thread::yield_now();
    }
    let from_folder = format!("file://{}", upstream.display());
    let over_loopback = format!("git://127.0.0.1:{port}/upstream");
    for (name, url) in [("a folder", from_folder), ("git:// on loopback", over_loopback)] {
        let into = folder.path().join("clone");
        let own = Sample::of(3, || timed(&into, || own_way(&url, &into)));
        let git = Sample::of(3, || timed(&into, || git_way(&url, &into)));
        let times = own.median().as_secs_f64() / git.median().as_secs_f64();
        row(&format!("clone of 4000 files, depth 1, from {name}: flock"), own);
        row("the same: `git clone --depth 1`", git);
        row("the same: flock's time divided by git's", format!("{times:.2}"));
    }
    daemon.kill().unwrap();
    daemon.wait().unwrap();
}

fn timed(into: &Path, work: impl FnOnce()) -> Duration {
    let _ = std::fs::remove_dir_all(into);
    let began = Instant::now();
    work();
    began.elapsed()
}

fn own_way(url: &str, into: &Path) {
    let origin = RepositoryAddress::parse(url).unwrap();
    let tip = source::resolve(&origin, "main").unwrap();
    source::fetch(&origin, "main", &tip, into, &|_| {}).unwrap();
}

fn git_way(url: &str, into: &Path) {
    let mut command = Command::new("git");
    command.args(["clone", "--quiet", "--depth", "1", "--branch", "main", url]).arg(into);
    assert!(command.status().unwrap().success());
}

/// Files of many sizes in many folders, with words that do not repeat as in one text.
fn make(folder: &Path) {
    let mut seed = 1_u64;
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed >> 33
    };
    for file in 0..4000 {
        let place = folder.join(format!("packages/p{}/src", file % 80));
        std::fs::create_dir_all(&place).unwrap();
        let words: Vec<String> = (0..next() % 3000).map(|_| format!("{:x}", next() % 100_000)).collect();
        let lines: Vec<String> = words.chunks(9).map(|words| words.join(" ")).collect();
        std::fs::write(place.join(format!("f{file}.ts")), lines.join("\n")).unwrap();
    }
    for args in [
        ["init", "--quiet", "--initial-branch=main", "."].as_slice(),
        ["add", "--all"].as_slice(),
        ["-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "--quiet", "-m", "all"].as_slice(),
    ] {
        assert!(Command::new("git").args(args).current_dir(folder).status().unwrap().success());
    }
}
